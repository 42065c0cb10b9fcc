/* SPDX-License-Identifier: Apache-2.0 */
/* After lost pushes, or on a new server: a room is asked what it knows of our tickets, page by page, and the user is
 * told where that is not what it believes (engine/kit/belief). */
#include "engine/redis/ops.h"

#include "engine/kit/belief.h"

#include <stdlib.h>
#include <string.h>

struct asking {
    struct rt_work work; /* first; no op */
    struct rt_redis_conn *c;
    uint64_t session;
    uint32_t room;
    bool begun; /* the first page has come */
    struct rt_belief there;
    struct rt_belief then; /* believed when it was asked */
};

/* ---- What the user believes ------------------------------------------------------------- */

static bool is_here(void *arg, const char *name, uint64_t number)
{
    const struct asking *h = arg;
    (void)number;
    return rt_redis_room_of(h->c, name) == h->room;
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

static void tell(void *arg, enum rt_event_kind kind, const struct rt_known *k)
{
    const struct asking *h = arg;
    rt_redis_tell(h->c, &(struct rt_event){.kind = kind,
                                           .session = h->session,
                                           .number = k->number,
                                           .nonce = k->nonce,
                                           .name = k->name});
}

/* ---- Asking ----------------------------------------------------------------------------- */

static rt_redis_answer_fn held_answered;

static void free_asking(struct rt_conn *conn, struct rt_work *w)
{
    struct asking *h = (struct asking *)(void *)w;
    (void)conn;
    rt_belief_fini(&h->there);
    rt_belief_fini(&h->then);
}

static bool send_page(struct rt_redis_conn *c, struct asking *h, const char *cursor)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    rt_redis_arg_sid(&a, h->session, false);
    rt_redis_arg(&a, cursor);
    /* Renewed if the user believes in something: else the session may have been given up, and is left to die. */
    if (h->then.count > 0)
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
    struct rt_belief now = {0};
    rt_belief_ask(&now, &c->base, is_here, h);
    bool told = rt_belief_compare(&h->there, &h->then, &now, tell, h);
    rt_belief_fini(&now);
    if (!told) {
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
        rt_belief_add(&h->there,
                      (struct rt_known){.number = (uint64_t)rt_redis_int(reply, i),
                                        .nonce = strtoull(rt_redis_str(reply, i + 3), NULL, 10),
                                        .granted = rt_redis_int(reply, i + 2) >= 1,
                                        .wanted = rt_redis_int(reply, i + 2) == 2},
                      rt_redis_str(reply, i + 1));
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
    h->c = c;
    h->session = c->session;
    h->room = room;
    rt_belief_ask(&h->then, &c->base, is_here, h);
    r->asking = true;
    r->ask_again = false;
    if (!send_page(c, h, "0"))
        give_up(c, h);
}
