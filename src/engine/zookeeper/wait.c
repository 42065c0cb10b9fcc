/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting tickets, and held ones that are to hear when they are wanted.
 *
 *   watch the node ahead, and mine ── the one ahead goes ──▶ it was the front: granted (D3)
 *          ▲                                └── else look ──▶ my turn: told ──▶ [armed: watch the line]
 *          └──── another node now ◀──────────────┘ └──▶ my ticket is gone: told
 *
 * Permits: the first that waits watches the children of the line; the others watch the node ahead, which its owner
 * changes when it is granted. A barrier: all watch the data of the line. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "base/sum.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SOON_MS 5 /* after the end of what ends by time */

struct rt_zk_wait {                  /* a look of a ticket */
    struct rt_zk_look look;          /* first */
    struct rt_zk_wait *next, **link; /* of all */
    struct rt_zk_ticket *ticket;     /* NULL: it has ended meanwhile */
    bool again;
    char name[];
};

static void granted(struct rt_zk *z, struct rt_zk_ticket *t, bool others, bool touch);

void rt_zk_wait_end(struct rt_zk_ticket *t)
{
    rt_zk_unwatch(&t->ahead);
    rt_zk_unwatch(&t->own);
    rt_zk_unwatch(&t->line);
    rt_zk_herd_part(t);
    if (t->look != NULL) {
        t->look->ticket = NULL;
        t->look->look.watch = NULL;
    }
    t->look = NULL;
    t->ends_at = RT_NEVER;
}

/* ---- Keepers: at_least_ms --------------------------------------------------------------------- */

const char *rt_zk_keeper_path(struct rt_zk *z, const struct rt_zk_ticket *t)
{
    char node[RT_ZK_NODE_ROOM];
    struct rt_zk_id id = t->id;
    id.mode = t->kept_mode; /* it may have been downgraded since */
    id.durable = true;
    id.detect = false;
    id.number = t->number;
    rt_zk_node(node, z->dialect, &id, &t->id.seq);
    return rt_zk_node_path(z, t->name, node);
}

/* Only beside its ticket: if that was broken, the keeper alone would stand ahead of whoever holds since. */
int rt_zk_keep(struct rt_zk *z, struct rt_zk_ticket *t, struct rt_op *op, rt_zk_answer_fn *answer,
               void *owner, uint64_t extra, uint32_t *pending)
{
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, answer);
    t->kept_mode = t->id.mode;
    rt_zk_multi_check(a, rt_zk_node_path(z, t->name, t->node), -1);
    rt_zk_multi_create(&z->c, a, rt_zk_keeper_path(z, t), rt_zk_card_write(z, 0, NULL),
                       RT_ZK_PERSISTENT);
    a->entry.again = true;
    a->session = z->session.id;
    return rt_zk_send(&z->c, a, op, owner, extra, pending);
}

int rt_zk_kept(struct rt_zk *z, struct rt_zk_ticket *t, int err, struct rt_zk_reply *reply)
{
    int32_t said = err == 0 ? rt_zk_multi_read(reply, NULL, NULL) : RT_ZK_OK;
    if (err == 0 && said != RT_ZK_OK && said != RT_ZK_EXISTS_ALREADY) /* by an earlier try */
        err = rt_words_no_ticket(&z->base, t->name);
    if (err == 0)
        t->kept_until_ms = rt_sum(rt_zk_now_ms(z), t->at_least_ms);
    return err;
}

/* ---- Events ----------------------------------------------------------------------------------- */

static void ahead_fired(struct rt_zk *z, struct rt_zk_watch *w, enum rt_zk_event event, bool afresh)
{
    struct rt_zk_ticket *t = w->owner;
    bool mine = t->own.link != NULL && t->own_set == z->c.link_count;
    if (RT_BUG(RT_BUG_REPLAY_BELIEVED))
        mine = afresh = true;
    if (event == RT_ZK_DELETED && afresh && t->direct && mine && t->look == NULL && !t->granted)
        granted(z, t, false, false);
    else
        rt_zk_wait_look(z, t);
}

/* Deleted, changed, or somebody joined. */
void rt_zk_wait_fired(struct rt_zk *z, struct rt_zk_watch *w, enum rt_zk_event event, bool afresh)
{
    (void)event;
    (void)afresh;
    rt_zk_wait_look(z, w->owner);
}

/* The watch is set if the node was there; if not, what it was set for has changed. The same if the one ahead was
 * touched since the line was read: it holds, and permits may be left. */
static void watch_set(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_ticket *t = rt_zk_ticket_of(z, a);
    struct rt_zk_stat stat;
    (void)rt_zk_answered_node(err, reply, &stat);
    bool touched = t != NULL && t->id.mode == RT_PERMITS && stat.version > 0;
    if (t == NULL || (err == 0 && reply->said == RT_ZK_OK && !touched))
        return;
    t->direct = false;
    if (err == 0)
        rt_zk_wait_look(z, t);
}

static void own_set(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_ticket *t = rt_zk_ticket_of(z, a);
    if (t != NULL && err == 0 && reply->said == RT_ZK_OK)
        t->own_set = z->c.link_count;
    watch_set(z, a, err, reply);
}

static void set_watch(struct rt_zk *z, struct rt_zk_ticket *t, struct rt_zk_watch *w,
                      const char *node, rt_zk_fired_fn *fired)
{
    const char *path = rt_zk_node_path(z, t->name, node);
    if (w->link != NULL && strcmp(w->path, path) == 0)
        return;
    rt_zk_answer_fn *set = w == &t->own ? own_set : watch_set;
    if (rt_zk_watch(&z->c, w, RT_ZK_WATCH_DATA, path, fired, t) != 0 ||
        rt_zk_send(&z->c, rt_zk_read(&z->c, RT_ZK_GET, path, true, set), NULL, t, t->id.nonce,
                   NULL) != 0)
        t->blind = true, rt_zk_unwatch(w);
}

/* ---- Telling ---------------------------------------------------------------------------------- */

static void wanted(struct rt_zk *z, struct rt_zk_ticket *t)
{
    t->wanted = true;
    rt_zk_unwatch(&t->line);
    rt_zk_tell(z, RT_WANTED, t);
}

static void tell_granted(struct rt_zk *z, struct rt_zk_ticket *t, bool others, bool touch)
{
    rt_zk_wait_end(t);
    t->granted = t->told = true;
    t->watch = false;
    if (touch) /* the next waiter watches it, and may hold now too */
        (void)rt_zk_post(&z->c, rt_zk_set(&z->c, rt_zk_node_path(z, t->name, t->node),
                                          rt_zk_card_write(z, t->owner, t->value), NULL));
    rt_zk_tell(z, RT_GRANTED, t);
    if (t->armed && others)
        wanted(z, t);
    else if (t->armed)
        rt_zk_wait_look(z, t);
}

static void kept(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_ticket *t = rt_zk_ticket_of(z, a);
    if (t != NULL)
        t->securing = false;
    if (t == NULL || t->leaving) /* LEAVE takes it, or its session took it */
        return;
    if (rt_zk_kept(z, t, err, reply) == 0)
        tell_granted(z, t, false, t->id.mode == RT_PERMITS);
    else
        rt_zk_wait_look(z, t);
}

static void granted(struct rt_zk *z, struct rt_zk_ticket *t, bool others, bool touch)
{
    if (t->at_least_ms == 0 || t->kept_until_ms != 0) {
        tell_granted(z, t, others, touch);
    } else if (!t->securing) {
        t->securing = rt_zk_keep(z, t, NULL, kept, t, t->id.nonce, NULL) == 0;
    }
}

/* ---- A barrier is full ------------------------------------------------------------------------ */

/* In one step, if all that go through are there and nobody has opened it since. Whoever opens it, the line has changed,
 * and all that wait look. */
static void open_barrier(struct rt_zk *z, struct rt_zk_ticket *t, const struct rt_zk_line *line,
                         int32_t version)
{
    char bound[32];
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, NULL);
    for (const struct rt_zk_place *p = line->places; p <= line->opener; p++)
        if (!p->granted)
            rt_zk_multi_check(a, rt_zk_node_path(z, t->name, p->node), -1);
    int n = snprintf(bound, sizeof(bound), "bound %" PRId32, line->opener->id.seq);
    rt_zk_multi_set(a, rt_zk_line_path(z, t->name), (struct rt_text){bound, (size_t)n}, version);
    if (rt_zk_post(&z->c, a) == 0)
        rt_zk_wait_look(z, t); /* behind it */
}

/* ---- Looking ---------------------------------------------------------------------------------- */

static void fire_by(struct rt_zk *z, int64_t at)
{
    struct rt_timer *timer = &z->timer.timer;
    if (at != RT_NEVER && (timer->slot == 0 || at < timer->at))
        rt_timers_start(&z->base.loop->timers, timer, at);
}

static void follow(struct rt_zk *z, struct rt_zk_ticket *t, int64_t ends_ms)
{
    int64_t left = ends_ms - rt_zk_now_ms(z);
    t->ends_at = ends_ms == 0
                     ? RT_NEVER
                     : rt_loop_now(z->base.loop) + ((left > 0 ? left : 0) + SOON_MS) * RT_MS;
    fire_by(z, t->ends_at);
}

void rt_zk_wait_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_zk *z = (struct rt_zk *)(void *)((char *)call - offsetof(struct rt_zk, timer));
    for (struct rt_zk_ticket *t = z->tickets; t != NULL; t = t->next)
        if (t->ends_at <= now) {
            t->ends_at = RT_NEVER;
            rt_zk_wait_look(z, t);
        } else {
            fire_by(z, t->ends_at);
        }
}

/* It waits, at PLACE of LINE. */
static void aim(struct rt_zk *z, struct rt_zk_ticket *t, const struct rt_zk_line *line,
                const struct rt_zk_place *place)
{
    const struct rt_zk_place *p = rt_zk_line_aim(line, place);
    t->direct = z->dialect->believes && t->id.mode == RT_EXCLUSIVE && place == line->places + 1 &&
                p->id.session != t->id.session && p->id.keep_ms == 0 && p->keeper == NULL;
    if (RT_BUG(RT_BUG_ALL_WATCH_THE_LINE))
        p = NULL;
    if (t->direct) /* others look, and so see whether they still stand */
        set_watch(z, t, &t->own, t->node, rt_zk_wait_fired);
    if (p != NULL) {
        t->watch = false;
        rt_zk_unwatch(&t->line);
        set_watch(z, t, &t->ahead, p->node, ahead_fired);
    } else if (t->line.link == NULL) { /* only a look that sets it misses nothing */
        rt_zk_unwatch(&t->ahead);
        t->watch = true;
        rt_zk_wait_look(z, t);
    }
}

static void read_look(struct rt_zk *z, struct rt_zk_ticket *t, const struct rt_zk_look *look)
{
    const struct rt_zk_line *line = &look->line;
    const struct rt_zk_place *p = rt_zk_line_find(line, t->id.session, t->id.nonce, 0);
    if (p == NULL) {
        rt_zk_ticket_lost(z, t);
        return;
    }
    t->misnamed = false;
    if (strcmp(p->node, t->node) != 0) {
        rt_zk_ticket_renamed(t, p->node, &p->id);
        rt_zk_unwatch(&t->own);
    }
    if (t->granted && t->armed && !t->wanted && line->waiting > 0) {
        wanted(z, t);
    } else if (!t->granted && p->granted) {
        granted(z, t, line->waiting > 0,
                p->id.mode == RT_PERMITS && p != &line->places[line->count - 1]);
    } else if (!t->granted) {
        follow(z, t, look->ends_ms);
        if (line->opener != NULL && (p == line->opener || p == line->places || p[-1].granted))
            open_barrier(z, t, line, look->version);
        aim(z, t, line, p);
    }
}

static void wait_free(struct rt_zk_wait *w)
{
    RT_LIST_OUT(w);
    rt_zk_look_fini(&w->look);
    rt_free(w);
}

void rt_zk_waits_close(struct rt_zk *z)
{
    while (z->waits != NULL)
        wait_free(z->waits);
}

/* Whether LOOK says that T holds. True for as long as T stands there, whatever happens in the line behind it. */
static bool says_granted(const struct rt_zk_ticket *t, const struct rt_zk_look *look)
{
    const struct rt_zk_place *p = look->err == 0
                                      ? rt_zk_line_find(&look->line, t->id.session, t->id.nonce, 0)
                                      : NULL;
    return p != NULL && p->granted && !t->granted;
}

/* A look is outdated if something has happened since. It is made again, unless it says that the ticket holds: in a line
 * that changes faster than a look takes, every look is outdated, and the first who waits for permits would starve. */
static void looked(struct rt_zk *z, struct rt_zk_look *look)
{
    struct rt_zk_wait *w = (struct rt_zk_wait *)(void *)look;
    struct rt_zk_ticket *t = w->ticket;
    if (t != NULL)
        t->look = NULL;
    if (t != NULL && w->again && !says_granted(t, look))
        rt_zk_wait_look(z, t);
    else if (t != NULL && look->err == 0 && !t->securing)
        read_look(z, t, look);
    else if (t != NULL)
        t->blind = t->blind || look->err != 0;
    wait_free(w);
}

void rt_zk_wait_look(struct rt_zk *z, struct rt_zk_ticket *t)
{
    bool watch = t->watch || t->granted || t->id.mode == RT_GATHER;
    if (z->dialect->lone != NULL) {
        rt_zk_herd_look(z, t);
        return;
    }
    if (t->look != NULL)
        t->look->again = true;
    if (t->look != NULL || t->leaving)
        return;
    struct rt_zk_wait *w = rt_alloc(sizeof(*w) + strlen(t->name) + 1);
    t->looked = ++z->serial;
    t->blind = w == NULL;
    if (w == NULL)
        return;
    memcpy(w->name, t->name, strlen(t->name) + 1);
    w->look.watch = &t->line;
    w->ticket = t;
    if ((watch && rt_zk_watch(&z->c, &t->line,
                              t->id.mode == RT_GATHER ? RT_ZK_WATCH_DATA : RT_ZK_WATCH_CHILDREN,
                              rt_zk_line_path(z, t->name), rt_zk_wait_fired, t) != 0) ||
        rt_zk_look(z, &w->look, w->name, RT_ZK_LOOK_TIDY | (watch ? RT_ZK_LOOK_WATCH : 0), NULL,
                   looked, w) != 0) {
        rt_free(w);
        t->blind = true;
        return;
    }
    RT_LIST_ADD(&z->waits, w);
    t->look = w;
    t->blind = false;
}

void rt_zk_wait(struct rt_zk *z, struct rt_zk_ticket *t, const struct rt_zk_line *line,
                const struct rt_zk_place *place, int64_t ends_ms)
{
    assert(!t->granted || t->armed);
    if (line == NULL || t->granted || t->id.mode == RT_GATHER) {
        rt_zk_wait_look(z, t);
        return;
    }
    follow(z, t, ends_ms);
    aim(z, t, line, place);
}
