/* SPDX-License-Identifier: Apache-2.0 */
/* The session: opened, renewed in every room it stands in, and forgotten.
 *
 * What if the reply is lost: an `open` leaves a session that dies by its ttl, and the next try
 * takes another id; a `beat` has renewed or not, and the next one tells. */
#include "engine/redis/ops.h"

#include "base/bug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TRIES 3
#define ANCHOR \
    0u /* the room where a session is opened; in others it comes to be by its first JOIN */

struct beat {
    struct rt_work work; /* first */
    uint64_t session;
    bool lost;
    uint32_t tries;
    char sid[RT_REDIS_SID_SIZE];
};

int rt_redis_listen(struct rt_redis_conn *c, uint32_t room)
{
    char key[64], channel[96];
    if (c->rooms[room].listens)
        return 0;
    rt_redis_room_key(c, room, key, sizeof(key));
    (void)snprintf(channel, sizeof(channel), "%s:p:%s", key, c->cid);
    int rv = rt_resp_subscribe(&c->link, room, channel);
    c->rooms[room].listens = rv == 0;
    return rv;
}

/* ---- Ends ------------------------------------------------------------------------------- */

void rt_redis_say_end(struct rt_redis_conn *c, uint32_t room, int64_t till)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, c->sid);
    if (till > 0)
        rt_redis_arg_number(&a, (uint64_t)till);
    (void)rt_redis_ask(c, NULL, &a, RT_REDIS_SCRIPT_END, room, 0, NULL);
}

static void leave_room(struct rt_redis_room *room)
{
    room->stands = room->mute = room->stale = room->unheard = room->unverified = false;
    room->pushes = room->since = room->look = 0;
    room->waiting = 0;
    room->ends_at = RT_NEVER;
}

static void forget_session(struct rt_redis_conn *c)
{
    for (uint32_t i = 0; i < c->room_count; i++)
        leave_room(&c->rooms[i]);
    rt_redis_forget_given_up(c, false);
    c->session = 0;
    c->sid[0] = '\0';
}

void rt_redis_session_lost(struct rt_redis_conn *c, uint64_t session)
{
    if (session == 0 || session != c->session)
        return;
    forget_session(c);
    struct rt_event event = {.kind = RT_SESSION_LOST, .session = session};
    rt_conn_event(&c->base, &event);
}

/* ---- Opening ---------------------------------------------------------------------------- */

static rt_redis_answer_fn open_answered;

static int send_open(struct rt_redis_conn *c, struct beat *b)
{
    struct rt_redis_args a;
    if (++c->session_count == 0)
        c->session_count = 1; /* not 0: the id of a session is never 0 */
    (void)snprintf(b->sid, sizeof(b->sid), "%s%04x", c->cid, (unsigned)c->session_count);
    b->session = strtoull(b->sid, NULL, 16);
    rt_redis_args_few(&a);
    rt_redis_arg(&a, b->sid);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    rt_redis_arg_text(&a, "%.*s", RT_LABEL_MAX, c->base.label != NULL ? c->base.label : "");
    return rt_redis_work_ask(c, &b->work, &a, RT_REDIS_SCRIPT_OPEN, ANCHOR, b->work.op->deadline,
                             open_answered);
}

static void take_over(struct rt_redis_conn *c, const struct beat *b)
{
    for (uint32_t i = 0; c->session != 0 && i < c->room_count; i++)
        if (c->rooms[i].stands)
            rt_redis_say_end(c, i, 0); /* with tickets it stays, and dies by its ttl */
    forget_session(c);
    memcpy(c->sid, b->sid, sizeof(c->sid));
    c->session = b->session;
    c->rooms[ANCHOR].stands = true;
}

static void open_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct beat *b = rq->owner;
    struct rt_op *op = b->work.op;
    if (op == NULL) {
        rt_work_settle(&c->base, &b->work);
        return;
    }
    if (err == 0 && status == RT_REDIS_TAKEN && ++b->tries < OPEN_TRIES && send_open(c, b) == 0)
        return;
    if (err == 0 && (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = status == RT_REDIS_TAKEN
                  ? rt_redis_fail(c, ROTA_INTERNAL, "the server knows our session ids already")
                  : rt_redis_odd(c, rq);
    if (err == 0) {
        take_over(c, b);
        op->beat.session = b->session;
        op->beat.ttl_ms = c->base.ttl_ms;
        op->beat.allowance_ms = 0;
    }
    rt_work_end(&c->base, &b->work, err);
}

/* ---- Rooms that are silent ---------------------------------------------------------------- */

/* Tickets that the user does not know of yet, and will be told to have: which rooms they are in is not known here. */
static bool is_joining(const struct rt_redis_conn *c)
{
    for (const struct rt_work *w = c->side.works; w != NULL; w = w->next)
        if (w->op != NULL && (w->op->kind == RT_OP_JOIN || w->op->kind == RT_OP_JOIN_ALL))
            return true;
    return false;
}

static bool has_tickets(struct rt_redis_conn *c, uint32_t room)
{
    size_t count = 0, waiting = 0;
    return !rt_redis_count_held(c, room, &count, &waiting) || count > 0 || c->rooms[room].asking;
}

/* A silent node must not take away what is held on others: once a beat there was not answered, its rooms where we have
 * nothing, the anchor too, are left while one with tickets stands. No END goes there: it would arrive
 * late, when the session stands there again; what is there dies by its ttl. A JOIN that is under way there was sent as
 * if the room stood: its answer is then worth nothing (room_stands), and it is asked again. */
static void leave_mute_rooms(struct rt_redis_conn *c)
{
    bool elsewhere = false, mute = false;
    for (uint32_t i = 0; i < c->room_count; i++)
        mute = mute || (c->rooms[i].stands && c->rooms[i].mute);
    if (!mute || is_joining(c))
        return;
    for (uint32_t i = 0; i < c->room_count; i++)
        elsewhere = elsewhere || (c->rooms[i].stands && has_tickets(c, i));
    for (uint32_t i = 0; elsewhere && i < c->room_count; i++)
        if (c->rooms[i].stands && c->rooms[i].mute && !has_tickets(c, i))
            leave_room(&c->rooms[i]);
}

/* Whether the session stands in another room than AT: it never leaves the last one. */
static bool stands_beside(const struct rt_redis_conn *c, uint32_t at)
{
    for (uint32_t i = 0; i < c->room_count; i++)
        if (i != at && c->rooms[i].stands)
            return true;
    return false;
}

/* ---- Renewing --------------------------------------------------------------------------- */

/* Compares what the server counted with what is known here: replies come in order, so at this
 * moment both speak of the same tickets. */
static void compare(struct rt_redis_conn *c, uint32_t at, const redisReply *reply)
{
    struct rt_redis_room *room = &c->rooms[at];
    size_t count = 0, waiting = 0, there = (size_t)rt_redis_int(reply, 2);
    uint64_t pushes = (uint64_t)rt_redis_int(reply, 1);
    bool known = rt_redis_count_held(c, at, &count, &waiting);
    bool gap = pushes != room->pushes && !RT_BUG(RT_BUG_PUSH_GAP_IGNORED);
    if (gap || room->unheard || (known && there != count)) {
        rt_redis_ask_held(c, at);
        return;
    }
    room->stale = false;
    /* What it was asked about an earlier stay must not be taken for what it knows of the next. */
    if (at != ANCHOR && there == 0 && room->joining == 0 && !room->asking && stands_beside(c, at)) {
        int64_t till = rt_redis_int(reply, 0) + c->base.ttl_ms * INT64_C(1000);
        rt_redis_say_end(c, at, till); /* the next JOIN there makes it anew */
        leave_room(room);
    }
}

static void beat_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct beat *b = rq->owner;
    uint32_t room = rq->call.place;
    if (err == 0 && status == RT_REDIS_LOST)
        err = rt_redis_fail(c, ROTA_LOST, "session %s has ended on the server", b->sid);
    else if (err == 0 && (status != RT_REDIS_OK || rt_redis_count(reply) != 6 ||
                          !rt_redis_shaped(reply, 0, "iiiiis")))
        err = rt_redis_odd(c, rq);
    b->lost = b->lost || err == ROTA_LOST;
    rt_work_note(&c->base, &b->work, err);
    if (err == 0 && c->rooms[room].unverified) /* what is lost is told before it is renewed */
        rt_work_note(&c->base, &b->work,
                     rt_redis_fail(c, ROTA_UNKNOWN, "the server has not said yet what it has"));
    bool mine = b->session == c->session;
    if (err == 0 && mine)
        c->rooms[room].mute = false;
    if (b->work.pending == 0) {
        if (b->lost && mine)
            forget_session(c);
        rt_work_end(&c->base, &b->work, 0);
    }
    if (err == 0 && mine && c->session != 0) {
        bool more = rt_redis_int(reply, 4) != 0;
        c->rooms[room].look = strtoull(rt_redis_str(reply, 5), NULL, 10);
        rt_redis_note_ends(c, room, rt_redis_int(reply, 0), rt_redis_int(reply, 3));
        compare(c, room, reply);
        if (more)
            rt_redis_sweep(c, room);
    }
}

static int send_beat(struct rt_redis_conn *c, struct beat *b, uint32_t room)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, b->sid);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    rt_redis_arg_number(&a, RT_REDIS_SWEEP);
    rt_redis_arg_number(&a, c->rooms[room].look);
    return rt_redis_work_ask(c, &b->work, &a, RT_REDIS_SCRIPT_BEAT, room, b->work.op->deadline,
                             beat_answered);
}

static int begin_renewal(struct rt_redis_conn *c, struct beat *b)
{
    struct rt_op *op = b->work.op;
    int rv = 0;
    b->session = c->session;
    memcpy(b->sid, c->sid, sizeof(b->sid));
    c->side.beat_at = rt_loop_now(c->base.loop);
    op->beat.ttl_ms = c->base.ttl_ms;
    op->beat.allowance_ms = 0;
    leave_mute_rooms(c);
    for (uint32_t i = 0; i < c->room_count && rv == 0; i++)
        if (c->rooms[i].stands) {
            rv = send_beat(c, b, i);
            c->rooms[i].mute = true;
        }
    return rv;
}

int rt_redis_begin_beat(struct rt_redis_conn *c, struct rt_op *op)
{
    if (!op->beat.open && (op->beat.session == 0 || op->beat.session != c->session))
        return rt_words_no_session(&c->base, op->beat.session);
    if (op->beat.open && rt_redis_listen(c, ANCHOR) != 0)
        return rt_words_nomem(&c->base);
    struct beat *b = rt_work_new(&c->side.works, &c->base, sizeof(*b), op);
    if (b == NULL)
        return ROTA_NOMEM;
    rt_redis_begun(c, &b->work, op->beat.open ? send_open(c, b) : begin_renewal(c, b));
    return 0;
}
