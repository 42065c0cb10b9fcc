/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting tickets, and held ones that are to hear when they are wanted.
 *
 *   watch what matters ── created ──▶ look ──▶ my turn: told ──▶ [armed: watch the line]
 *          ▲                 event ──▶  │ └──▶ my ticket is gone: told
 *          └──── something else now ◀───┘
 *
 * Watches begin now: etcd serves those that begin in the past from a loop that runs ten times a second.
 * The look finds what happened before `created`. It is one transaction that compares the create_revision
 * of my ticket: without the ticket there is no grant. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "core/grant.h"

enum purpose { TO_HOLD, TO_HEAR_OF_OTHERS, TO_KNOW };

struct rt_etcd_wait {
    struct rt_etcd_wait *next, **link;
    struct rt_etcd_ticket *ticket; /* NULL: it has ended, and a look is under way */
    struct rt_etcd_watch watch;
    enum purpose purpose;
    bool looking, again; /* a look is under way; one more is needed */
    bool stale;          /* something went wrong: the next BEAT looks */
    bool securing;
    uint64_t looked; /* when, as a count of looks */
};

static void look(struct rt_etcd_conn *c, struct rt_etcd_wait *w);

static void wait_free(struct rt_etcd_wait *w)
{
    RT_LIST_OUT(w);
    rt_free(w);
}

static struct rt_etcd_wait *wait_new(struct rt_etcd_conn *c, struct rt_etcd_ticket *t,
                                     enum purpose purpose)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_etcd_wait *w = rt_alloc(sizeof(*w));
    if (w == NULL)
        return NULL; /* the next BEAT tries again */
    w->ticket = t;
    w->purpose = purpose;
    w->watch.owner = w;
    RT_LIST_ADD(&s->waits, w);
    t->wait = w;
    return w;
}

static void let_go(struct rt_etcd_conn *c, struct rt_etcd_wait *w)
{
    if (w->ticket != NULL)
        w->ticket->wait = NULL;
    w->ticket = NULL;
    rt_etcd_unwatch(c, &w->watch);
    if (!w->looking && !w->securing)
        wait_free(w);
}

void rt_etcd_wait_end(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    if (t->wait != NULL)
        let_go(c, t->wait);
}

void rt_etcd_wait_close(struct rt_etcd_side *s)
{
    while (s->waits != NULL)
        wait_free(s->waits);
}

/* ---- Watching --------------------------------------------------------------------------------- */

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *watch, int64_t revision)
{
    (void)revision;
    if (!RT_BUG(RT_BUG_NO_LOOK_AFTER_WATCH))
        look(c, watch->owner);
}

/* Somebody joined behind a ticket that excludes everybody: no need to look. */
static bool is_behind(const struct rt_etcd_ticket *t, RtEtcd__Event *const *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (events[i]->kv != NULL && (uint64_t)events[i]->kv->create_revision > t->number)
            return true;
    return false;
}

static void tell_wanted(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    t->wanted = true;
    rt_etcd_wait_end(c, t);
    rt_etcd_tell(c, RT_WANTED, t);
}

/* The one key that is watched is gone; if it ever comes back, it stands behind. */
static bool is_over(const struct rt_etcd_watch *watch, RtEtcd__Event *const *events, size_t n)
{
    return watch->end_size == 0 && events[n - 1]->type == RT_ETCD__EVENT__TYPE__DELETE;
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *watch, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    struct rt_etcd_wait *w = watch->owner;
    (void)revision;
    if (w->purpose == TO_HEAR_OF_OTHERS && w->ticket->mode == RT_EXCLUSIVE) {
        if (is_behind(w->ticket, events, n))
            tell_wanted(c, w->ticket);
        return; /* a change of our own */
    }
    if (is_over(watch, events, n))
        rt_etcd_unwatch(c, watch); /* now: it travels with the look */
    look(c, w);
}

static void on_lost(struct rt_etcd_conn *c, struct rt_etcd_watch *watch, int err)
{
    struct rt_etcd_wait *w = watch->owner;
    (void)c;
    w->stale = w->stale || err != 0;
}

static const struct rt_etcd_watch_user watch_user = {on_created, on_events, on_lost};

/* Watches KEY to END, unless it already does. */
static void watch_range(struct rt_etcd_conn *c, struct rt_etcd_wait *w, const void *key,
                        size_t key_size, const void *end, size_t end_size, uint32_t flags)
{
    struct rt_etcd_watch *watch = &w->watch;
    if (watch->user != NULL && watch->flags == flags && watch->key_size == key_size &&
        watch->end_size == end_size && memcmp(watch->key, key, key_size) == 0)
        return;
    rt_etcd_unwatch(c, watch);
    watch->owner = w;
    if (rt_etcd_watch(c, watch, key, key_size, end, end_size, flags, &watch_user) != 0)
        w->stale = true;
}

/* Watches what stands ahead, and takes it out if it is a ticket of ours without a lease: nobody else would. */
static void watch_key(struct rt_etcd_conn *c, struct rt_etcd_wait *w, const RtEtcd__KeyValue *kv,
                      uint32_t flags)
{
    watch_range(c, w, kv->key.data, kv->key.len, NULL, 0, flags);
    if (rt_etcd_is_endless(kv))
        rt_etcd_chore(c, RT_ETCD_SWEEP, kv->key.data, kv->key.len, (uint64_t)kv->mod_revision);
}

static void watch_line(struct rt_etcd_conn *c, struct rt_etcd_wait *w, uint32_t flags)
{
    char name[RT_NAME_ROOM], begin[RT_ETCD_KEY_MAX], end[RT_ETCD_KEY_MAX];
    rt_etcd_ticket_name(w->ticket, name);
    size_t begin_size = rt_etcd_line_begin(begin, name), end_size = rt_etcd_line_end(end, name);
    watch_range(c, w, begin, begin_size, end, end_size, flags);
}

/* ---- A barrier is full ---------------------------------------------------------------------------- */

static void opened(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_wait *w = a->owner;
    (void)reply; /* whoever opened it: the look tells */
    w->looking = false;
    if (w->ticket == NULL) {
        wait_free(w);
        return;
    }
    w->stale = err != 0;
    look(c, w);
}

static void add_mark(struct rt_etcd_txn *t, const struct rt_etcd_place *p, uint64_t bound)
{
    char text[RT_ETCD_CARD_MAX];
    struct rt_etcd_card card = p->card;
    card.bound = bound;
    size_t size = rt_etcd_card_write(&card, text);
    rt_etcd_if_changed_at(t, p->kv->key.data, p->kv->key.len, p->kv->mod_revision);
    RtEtcd__PutRequest *put = rt_etcd_put(t, RT_ETCD_THEN, p->kv->key.data, p->kv->key.len);
    rt_etcd_put_value(t, put, text, size);
    put->ignore_lease = true;
}

/* Marks all that go through, in one step if etcd allows: the mark of one stands for all up to its bound,
 * but is gone when that one is. If there are more, they are marked step by step, by looking again. */
static void open_barrier(struct rt_etcd_conn *c, struct rt_etcd_wait *w,
                         const struct rt_etcd_line *line)
{
    struct rt_etcd_txn t;
    size_t marks = 0;
    rt_etcd_txn_open(c, &t, RT_ETCD_OPS_MAX, RT_ETCD_OPS_MAX, 0);
    for (size_t i = line->count; i-- > 0 && marks < RT_ETCD_OPS_MAX;) {
        const struct rt_etcd_place *p = &line->places[i];
        if (p->card.mode != RT_GATHER || p->granted || p->number > line->opens)
            continue;
        add_mark(&t, p, line->opens);
        marks++;
    }
    w->looking = rt_etcd_txn_send(c, &t, opened, NULL, w, NULL) == 0;
    w->stale = w->stale || !w->looking;
}

/* ---- Looking ------------------------------------------------------------------------------------------ */

static void tell_granted(struct rt_etcd_conn *c, struct rt_etcd_ticket *t, bool others, bool touch)
{
    rt_etcd_wait_end(c, t);
    t->granted = t->told = true;
    if (touch) /* the next waiter watches my key, and may hold now too */
        rt_etcd_chore(c, RT_ETCD_TOUCH, t->key, t->key_size, t->number);
    rt_etcd_tell(c, RT_GRANTED, t);
    if (t->armed && others)
        tell_wanted(c, t);
    else if (t->armed)
        rt_etcd_arm(c, t);
}

static void secured(struct rt_etcd_conn *c, void *arg, int err)
{
    struct rt_etcd_wait *w = arg;
    w->securing = false;
    if (w->ticket == NULL)
        wait_free(w);
    else if (err == 0)
        tell_granted(c, w->ticket, false, false);
    else
        look(c, w);
}

static void my_turn(struct rt_etcd_conn *c, struct rt_etcd_wait *w, bool others, bool touch)
{
    struct rt_etcd_ticket *t = w->ticket;
    if (t->at_least_ms > 0 && !t->durable && t->least == NULL) {
        w->securing = true;
        rt_etcd_least_take(c, t, NULL, secured, w);
    } else if (!w->securing) {
        tell_granted(c, t, others, touch);
    }
}

/* The key ahead, if any, is what matters. */
static void read_ahead(struct rt_etcd_conn *c, struct rt_etcd_wait *w,
                       const RtEtcd__TxnResponse *reply)
{
    const RtEtcd__RangeResponse *ahead = rt_etcd_got(reply, 0), *behind = rt_etcd_got(reply, 1);
    if (ahead == NULL || behind == NULL)
        w->stale = true;
    else if (ahead->n_kvs == 0)
        my_turn(c, w, behind->n_kvs > 0, false);
    else if (RT_BUG(RT_BUG_ALL_WATCH_THE_LINE))
        watch_line(c, w, RT_ETCD_WATCH_NO_PUT);
    else
        watch_key(c, w, ahead->kvs[0], RT_ETCD_WATCH_NO_PUT);
}

static void aim_at(struct rt_etcd_conn *c, struct rt_etcd_wait *w, const struct rt_etcd_aim *aim)
{
    uint32_t flags = aim->puts ? 0 : RT_ETCD_WATCH_NO_PUT;
    if (aim->kind == RT_ETCD_AIM_KEY)
        watch_key(c, w, aim->kv, flags);
    else
        watch_line(c, w, flags);
}

static void read_line(struct rt_etcd_conn *c, struct rt_etcd_wait *w,
                      const RtEtcd__TxnResponse *reply)
{
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    const RtEtcd__RangeResponse *all = rt_etcd_got(reply, 0);
    const struct rt_etcd_place *place = NULL;
    if (all != NULL && rt_etcd_line_read(line, all->kvs, all->n_kvs) == 0)
        place = rt_etcd_line_find(line, w->ticket->number);
    if (place == NULL) {
        w->stale = true;
        return;
    }
    if (place->granted) {
        bool last = place == &line->places[line->count - 1];
        my_turn(c, w, line->waiting > 0, !last && place->card.mode == RT_PERMITS);
        return;
    }
    struct rt_etcd_aim aim = rt_etcd_line_aim(line, place);
    aim_at(c, w, &aim);
    if (aim.kind == RT_ETCD_AIM_OPEN)
        open_barrier(c, w, line);
}

/* It holds, and the question is who waits behind it. */
static void read_behind(struct rt_etcd_conn *c, struct rt_etcd_wait *w,
                        const RtEtcd__TxnResponse *reply)
{
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    const RtEtcd__RangeResponse *seen = rt_etcd_got(reply, 0);
    bool others = false;
    if (seen == NULL) {
        w->stale = true;
        return;
    }
    if (w->ticket->mode == RT_EXCLUSIVE)
        others = seen->n_kvs > 0;
    else if (rt_etcd_line_read(line, seen->kvs, seen->n_kvs) == 0)
        others = line->waiting > 0;
    if (others)
        tell_wanted(c, w->ticket);
}

/* W may be gone afterwards, so the caller must not touch it: `looking` is no longer set. */
static void read_look(struct rt_etcd_conn *c, struct rt_etcd_wait *w,
                      const RtEtcd__TxnResponse *reply)
{
    bool again = w->again;
    w->again = false;
    if (!reply->succeeded) {
        rt_etcd_ticket_lost(c, w->ticket);
        return;
    }
    if (again) { /* something happened since: this is old */
        look(c, w);
        return;
    }
    if (w->purpose == TO_KNOW)
        let_go(c, w);
    else if (w->purpose == TO_HEAR_OF_OTHERS)
        read_behind(c, w, reply);
    else if (w->ticket->mode == RT_EXCLUSIVE)
        read_ahead(c, w, reply);
    else
        read_line(c, w, reply);
}

static void look_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_wait *w = a->owner;
    w->looking = false;
    if (w->ticket == NULL) {
        if (!w->securing)
            wait_free(w);
        return;
    }
    w->stale = false;
    if (err == 0) {
        read_look(c, w, reply);
        return;
    }
    w->stale = true;
    if (err == ROTA_UNREACHABLE && (w->watch.created || w->watch.user == NULL))
        look(c, w); /* the last one took call_ms: no hurry */
}

static void look(struct rt_etcd_conn *c, struct rt_etcd_wait *w)
{
    struct rt_etcd_ticket *t = w->ticket;
    char name[RT_NAME_ROOM];
    struct rt_etcd_txn txn;
    if (w->looking || w->securing) {
        w->again = true;
        return;
    }
    rt_etcd_ticket_name(t, name);
    rt_etcd_txn_open(c, &txn, 1, 2, 0);
    if (!RT_BUG(RT_BUG_LOOK_WITHOUT_TICKET))
        rt_etcd_if_created(&txn, t->key, t->key_size, t->number);
    if (w->purpose == TO_HOLD && t->mode == RT_EXCLUSIVE)
        (void)rt_etcd_get_ahead(&txn, RT_ETCD_THEN, name, t->number);
    if (w->purpose != TO_KNOW && t->mode == RT_EXCLUSIVE)
        (void)rt_etcd_get_behind(&txn, RT_ETCD_THEN, name, t->number);
    else if (w->purpose != TO_KNOW)
        (void)rt_etcd_get_line(&txn, RT_ETCD_THEN, name);
    else /* a member that is cut off or behind answers by itself what reads nothing */
        rt_etcd_get(&txn, RT_ETCD_THEN, t->key, t->key_size)->keys_only = true;
    w->again = false;
    w->looked = ++rt_etcd_s(c)->looks;
    w->looking = rt_etcd_txn_send(c, &txn, look_answered, NULL, w, NULL) == 0;
    w->stale = w->stale || !w->looking;
}

/* ---- For the others --------------------------------------------------------------------------------------- */

void rt_etcd_wait_begin(struct rt_etcd_conn *c, struct rt_etcd_ticket *t,
                        const struct rt_etcd_aim *aim)
{
    struct rt_etcd_wait *w = wait_new(c, t, TO_HOLD);
    if (w == NULL)
        return;
    if (aim != NULL && aim->kind != RT_ETCD_AIM_NONE)
        aim_at(c, w, aim);
    else
        look(c, w);
}

void rt_etcd_arm(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    struct rt_etcd_wait *w = t->wait;
    if (w != NULL && w->purpose == TO_HEAR_OF_OTHERS)
        return;
    rt_etcd_wait_end(c, t);
    w = wait_new(c, t, TO_HEAR_OF_OTHERS);
    if (w != NULL)
        watch_line(c, w, RT_ETCD_WATCH_NO_DELETE);
}

void rt_etcd_wait_verify(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    struct rt_etcd_wait *w = t->wait != NULL ? t->wait : wait_new(c, t, TO_KNOW);
    if (w != NULL)
        look(c, w);
}

/* An event that etcd owes and never sends (its watch bugs: #17529, #18089), or that was lost on the way,
 * would be awaited forever. So with each BEAT one of the waiting tickets looks for itself. */
static void look_by_turns(struct rt_etcd_conn *c)
{
    struct rt_etcd_wait *oldest = NULL;
    for (struct rt_etcd_wait *w = rt_etcd_s(c)->waits; w != NULL; w = w->next)
        if (w->ticket != NULL && !w->looking && !w->securing &&
            (oldest == NULL || w->looked < oldest->looked))
            oldest = w;
    if (oldest != NULL)
        look(c, oldest);
}

void rt_etcd_wait_catch_up(struct rt_etcd_conn *c)
{
    look_by_turns(c);
    for (struct rt_etcd_ticket *t = rt_etcd_s(c)->tickets, *next; t != NULL; t = next) {
        next = t->next;
        struct rt_etcd_wait *w = t->wait;
        if (t->granted && t->told && !t->leaving) /* else it would be left twice */
            rt_etcd_tell(c, RT_GRANTED, t);
        if (!t->granted && w == NULL)
            rt_etcd_wait_begin(c, t, NULL);
        else if (t->granted && t->armed && w == NULL) { /* told already, or without memory */
            t->wanted = false;
            rt_etcd_arm(c, t);
        } else if (w != NULL && w->stale)
            look(c, w);
    }
}
