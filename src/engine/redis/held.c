/* SPDX-License-Identifier: Apache-2.0 */
/* After lost pushes, or on a new server: a room is asked what it knows of our tickets, and the user
 * is told where that is not what it believes.
 *
 *   the room says     the user believes      told
 *   granted           waits, or nothing      GRANTED (who does not know the ticket gives it back)
 *   wanted            holds                  WANTED
 *   nothing           waits or holds         TICKET_LOST
 *   waits             holds                  TICKET_LOST (the server is one that knows less)
 *
 * While the room is asked tickets come and go, and pushes overtake the answer: lost is only what was
 * believed in when it was asked, and still is when the last page has come. */
#include "engine/redis/ops.h"

#include "base/alloc.h"
#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

/* A ticket as the room, or the user, knows it. */
struct known {
    uint64_t number; /* unique in its room */
    uint64_t nonce;  /* of its JOIN, as the room knows it */
    int state;       /* 0 waits, 1 granted, 2 granted and wanted */
    char *name;      /* to be freed */
};

struct list {
    struct known *at;
    size_t count, room;
    bool failed; /* no memory */
};

struct asking {
    struct rt_work work; /* first; no op */
    uint64_t session;
    uint32_t room;
    bool begun; /* the first page has come */
    struct list there;
    struct list believed; /* when it was asked */
};

/* ---- Lists ------------------------------------------------------------------------------ */

static void add(struct list *l, uint64_t number, uint64_t nonce, const char *name, int state)
{
    if (l->count == l->room) {
        size_t room = l->room != 0 ? 2 * l->room : 8;
        struct known *at = rt_realloc(l->at, room * sizeof(*at));
        if (at == NULL) {
            l->failed = true;
            return;
        }
        l->at = at;
        l->room = room;
    }
    char *copy = rt_strdup(name);
    if (copy == NULL)
        l->failed = true;
    else
        l->at[l->count++] = (struct known){number, nonce, state, copy};
}

static void empty(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        rt_free(l->at[i].name);
    rt_free(l->at);
    *l = (struct list){0};
}

static int by_number(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static void sort(struct list *l)
{
    if (l->count > 1)
        qsort(l->at, l->count, sizeof(*l->at), by_number);
}

static const struct known *find(const struct list *l, uint64_t number)
{
    struct known key = {.number = number};
    return l->count > 0 ? bsearch(&key, l->at, l->count, sizeof(key), by_number) : NULL;
}

/* ---- What the user believes ------------------------------------------------------------- */

struct belief {
    struct rt_redis_conn *c;
    uint32_t room;
    struct list *list;
};

static void believe(void *arg, const char *name, uint64_t number, bool granted)
{
    struct belief *b = arg;
    if (rt_redis_room_of(b->c, name) != b->room)
        return;
    add(b->list, number, 0, name, granted);
}

static void ask_user(struct belief *b)
{
    struct rt_up *up = b->c->base.up;
    if (up->held != NULL)
        up->held(up, believe, b);
}

static void count_one(void *arg, const char *name, uint64_t number, bool granted)
{
    struct rt_redis_conn *c = arg;
    struct rt_redis_room *room = &c->rooms[rt_redis_room_of(c, name)];
    (void)number;
    room->held++;
    room->held_waiting += !granted;
}

/* All rooms in one go: the beats of a cluster's rooms are answered one after the other. */
bool rt_redis_count_held(struct rt_redis_conn *c, uint32_t room, size_t *count, size_t *waiting)
{
    struct rt_up *up = c->base.up;
    if (up->held != NULL && c->side.counted_at != rt_loop_now(c->base.loop)) {
        for (uint32_t i = 0; i < c->room_count; i++)
            c->rooms[i].held = c->rooms[i].held_waiting = 0;
        up->held(up, count_one, c);
        c->side.counted_at = rt_loop_now(c->base.loop);
    }
    *count = c->rooms[room].held;
    *waiting = c->rooms[room].held_waiting;
    return up->held != NULL;
}

/* ---- Telling ---------------------------------------------------------------------------- */

static void tell_one(struct rt_redis_conn *c, const struct asking *h, const struct known *k,
                     enum rt_event_kind kind)
{
    rt_redis_tell(c, &(struct rt_event){.kind = kind,
                                        .session = h->session,
                                        .number = k->number,
                                        .nonce = k->nonce,
                                        .name = k->name});
}

static void tell_all(struct rt_redis_conn *c, const struct asking *h, const struct list *now)
{
    for (size_t i = 0; i < h->there.count; i++) {
        const struct known *k = &h->there.at[i], *believed = find(now, k->number);
        if (k->state >= 1 && (believed == NULL || believed->state == 0))
            tell_one(c, h, k, RT_GRANTED);
        if (k->state == 2)
            tell_one(c, h, k, RT_WANTED);
    }
    for (size_t i = 0; i < now->count; i++) {
        const struct known *k = &now->at[i], *there = find(&h->there, k->number);
        const struct known *believed = find(&h->believed, k->number);
        if (believed == NULL)
            continue;
        if (there == NULL || (!RT_BUG(RT_BUG_STALE_SERVER_BELIEVED) && there->state == 0 &&
                              k->state == 1 && believed->state == 1))
            tell_one(c, h, k, RT_TICKET_LOST);
    }
}

/* ---- Asking ----------------------------------------------------------------------------- */

static rt_redis_answer_fn held_answered;

static void free_asking(struct rt_conn *conn, struct rt_work *w)
{
    struct asking *h = (struct asking *)(void *)w;
    (void)conn;
    empty(&h->there);
    empty(&h->believed);
}

static bool send_page(struct rt_redis_conn *c, struct asking *h, const char *cursor)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    rt_redis_arg_sid(&a, h->session, false);
    rt_redis_arg(&a, cursor);
    /* Renewed for who believes in something: else the session may have been given up, and is left to die. */
    if (h->believed.count > 0)
        rt_redis_arg_number(&a, c->base.ttl_ms);
    /* Nobody waits for it, and its answer is worth hearing as long as the link lives. */
    return rt_redis_ask(c, &h->work, &a, RT_REDIS_SCRIPT_HELD, h->room, RT_NEVER, held_answered) !=
           NULL;
}

/* It failed: asked again by the next beat, or the next link. */
static void give_up(struct rt_redis_conn *c, struct asking *h)
{
    c->rooms[h->room].asking = false;
    c->rooms[h->room].stale = c->rooms[h->room].unheard = true;
    rt_work_settle(&c->base, &h->work);
}

static void finish(struct rt_redis_conn *c, struct asking *h)
{
    struct rt_redis_room *room = &c->rooms[h->room];
    struct list now = {0};
    struct belief b = {.c = c, .room = h->room, .list = &now};
    ask_user(&b);
    sort(&now);
    sort(&h->there);
    bool failed = now.failed || h->there.failed || h->believed.failed;
    if (!failed)
        tell_all(c, h, &now);
    empty(&now);
    if (failed) {
        give_up(c, h);
        return;
    }
    bool again = room->ask_again;
    room->asking = room->ask_again = false;
    room->stale = room->unverified = false;
    if (again)
        rt_redis_ask_held(c, h->room);
    rt_work_settle(&c->base, &h->work);
}

static void note_page(struct rt_redis_conn *c, struct asking *h, const redisReply *reply)
{
    uint64_t pushes = (uint64_t)rt_redis_int(reply, 0);
    if (!h->begun) {
        h->begun = true;
        /* Later pages may know of later pushes, but not the tickets of the earlier pages. If a push
         * has come that this page does not know, the next one shows a gap: asked once in vain. */
        c->rooms[h->room].pushes = pushes;
    }
    for (size_t i = 2; i + 3 < rt_redis_count(reply); i += 4)
        add(&h->there, (uint64_t)rt_redis_int(reply, i),
            strtoull(rt_redis_str(reply, i + 3), NULL, 10), rt_redis_str(reply, i + 1),
            (int)rt_redis_int(reply, i + 2));
}

static void held_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct asking *h = rq->owner;
    if (h->session != c->session) { /* another session has begun: its rooms are not these */
        c->rooms[h->room].asking = false;
        if (c->rooms[h->room].ask_again)
            rt_redis_ask_held(c, h->room);
        rt_work_settle(&c->base, &h->work);
        return;
    }
    if (err == 0 && status == RT_REDIS_LOST) {
        c->rooms[h->room].asking = false;
        rt_redis_session_lost(c, h->session);
        rt_work_settle(&c->base, &h->work);
        return;
    }
    if (err != 0 || status != RT_REDIS_OK || rt_redis_count(reply) < 2 ||
        !rt_redis_shaped(reply, 2, "isis")) {
        give_up(c, h);
        return;
    }
    note_page(c, h, reply);
    const char *cursor = rt_redis_str(reply, 1);
    if (strcmp(cursor, "0") == 0)
        finish(c, h);
    else if (!send_page(c, h, cursor))
        give_up(c, h);
}

void rt_redis_ask_held(struct rt_redis_conn *c, uint32_t room)
{
    struct rt_redis_room *r = &c->rooms[room];
    r->stale = true;
    if (c->session == 0 || !r->stands)
        return;
    if (r->asking) {
        r->ask_again = true;
        return;
    }
    struct asking *h = rt_work_new(&c->side.works, &c->base, sizeof(*h), NULL);
    r->unheard = h == NULL;
    if (h == NULL)
        return;
    h->work.free = free_asking;
    h->session = c->session;
    h->room = room;
    struct belief b = {.c = c, .room = room, .list = &h->believed};
    ask_user(&b);
    sort(&h->believed);
    r->asking = true;
    r->ask_again = false;
    if (!send_page(c, h, "0"))
        give_up(c, h);
}
