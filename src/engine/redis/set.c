/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN_ALL: the tickets of one room by one script; over several rooms (a cluster) room after room.
 *
 *   room 1: join ──▶ all granted ──▶ room 2: join ──▶ ... ──▶ last room: join ──▶ done
 *             └─▶ some wait ── pushes ──▲
 *
 * Rooms are joined in ascending order, the next when all tickets of those before are granted: so
 * sets that overlap cannot wait for each other. While it waits in a room that is not the last, the
 * op has no answer: the pushes are for the set, and it may not wait for long (the user cannot
 * end it meanwhile): ROTA_UNKNOWN, and asked again by the same nonces it finds its tickets. What
 * was joined is left again before a definite error is told. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define WAIT (250 * RT_MS) /* the longest in one room before the op is answered */

struct set {
    struct rt_work work; /* first */
    uint64_t session;
    int64_t until; /* while it waits */
    bool durable, waits, undoing;
    bool ended;              /* a ticket of it is gone: told when the room it is at has answered */
    size_t n, joined, now;   /* of joins: all; in rooms before; in the room it is at */
    struct rt_join *joins[]; /* by room, within a room as they came */
};

static void join_room(struct rt_redis_conn *c, struct set *set);

char rt_redis_set_works;

static struct set *set_of(struct rt_work *w)
{
    bool is = w->more == &rt_redis_set_works && w->op != NULL;
    return is ? (struct set *)(void *)w : NULL;
}

static void follow_sets(struct rt_redis_conn *c)
{
    int64_t at = RT_NEVER;
    for (struct rt_work *w = c->side.works; w != NULL; w = w->next) {
        const struct set *set = set_of(w);
        if (set != NULL && set->waits && set->until < at)
            at = set->until;
    }
    rt_timers_at(&c->base.loop->timers, &c->side.set_timer.timer, at);
}

/* ---- Ends ------------------------------------------------------------------------------- */

static void finish(struct rt_redis_conn *c, struct set *set)
{
    set->waits = false;
    rt_work_end(&c->base, &set->work, 0);
    follow_sets(c);
}

static void undo_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct set *set = rq->owner;
    (void)reply;
    rt_work_note(&c->base, &set->work, rt_redis_undone(c, rq, err, status));
    if (set->work.pending == 0)
        finish(c, set);
}

/* Ends the set with ERR, for which errmsg is set; a definite one when nothing of it is left. */
static void fail(struct rt_redis_conn *c, struct set *set, int err)
{
    set->waits = false;
    rt_work_note(&c->base, &set->work, err);
    size_t n = err == ROTA_UNKNOWN || set->undoing ? 0 : set->joined;
    set->undoing = true;
    for (size_t i = 0; i < n; i++)
        (void)rt_redis_ask_undo(c, &set->work, set->joins[i], set->joins[i]->number, err,
                                undo_answered);
    if (set->work.pending == 0)
        finish(c, set);
    else
        follow_sets(c);
}

void rt_redis_set_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_redis_conn *c = RT_REDIS_OF_TIMER(call, set_timer);
    for (struct rt_work *w = c->side.works, *next; w != NULL; w = next) {
        struct set *set = set_of(w);
        next = w->next;
        if (set != NULL && set->waits && set->until <= now)
            fail(c, set, rt_redis_fail(c, ROTA_UNKNOWN, "a set waits in one room of the cluster"));
    }
    follow_sets(c);
}

/* ---- Joining ---------------------------------------------------------------------------- */

static bool all_granted(const struct set *set)
{
    for (size_t i = set->joined; i < set->joined + set->now; i++)
        if (!set->joins[i]->granted)
            return false;
    return true;
}

/* The room it is at has answered or pushed: the next one, or the end. */
static void go_on(struct rt_redis_conn *c, struct set *set)
{
    bool last = set->joined + set->now == set->n;
    if (!last && !all_granted(set)) {
        int64_t until = rt_loop_now(c->base.loop) + WAIT;
        if (!set->waits)
            set->until = until < set->work.op->deadline ? until : set->work.op->deadline;
        set->waits = true;
        follow_sets(c);
        return;
    }
    set->waits = false;
    set->joined += set->now;
    set->now = 0;
    if (last)
        finish(c, set);
    else
        join_room(c, set);
}

/* As fail, with a definite error, where the room it is at has its tickets too. */
static void fail_here(struct rt_redis_conn *c, struct set *set, int err)
{
    set->joined += set->now;
    set->now = 0;
    fail(c, set, err);
}

/* The room it is at refused it half-way, or cannot go on: what may be there is left by its nonces, with the rest. */
static void refused(struct rt_redis_conn *c, struct set *set, int err)
{
    for (size_t i = set->joined; i < set->joined + set->now; i++)
        set->joins[i]->number = 0;
    fail_here(c, set, err);
}

static void set_replicated(struct rt_resp_conn *link, void *arg, int err)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    struct set *set = arg;
    set->work.pending--;
    if (set->work.op == NULL)
        rt_work_settle(&c->base, &set->work);
    else if (set->ended)
        fail_here(c, set, rt_words_set_ended(&c->base));
    else if (err != 0 && err != ROTA_UNKNOWN)
        fail_here(c, set, err);
    else if (err != 0) /* they stand in their lines, whatever the replicas have */
        fail(c, set, ROTA_UNKNOWN);
    else
        go_on(c, set);
}

/* ?replicas=n: what was granted in the room counts when the replicas have it. */
static void replicate(struct rt_redis_conn *c, struct set *set, uint32_t room)
{
    set->work.pending++;
    rt_resp_when_replicated(&c->link, room, rt_redis_replicas_until(c, set->work.op->deadline),
                            set_replicated, set);
}

static void set_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                         const redisReply *reply)
{
    struct set *set = rq->owner;
    uint64_t session = set->session;
    bool lost = err == 0 && status == RT_REDIS_LOST && !set->durable && rq->extra == 0;
    uint32_t room = rq->call.place;
    if (set->work.op == NULL) { /* canceled */
        rt_work_settle(&c->base, &set->work);
    } else {
        err = rt_redis_read_join(c, rq, err, status, reply, set->joins + set->joined, set->now);
        if (err == ROTA_UNKNOWN && set->ended)
            refused(c, set, rt_words_set_ended(&c->base));
        else if (err == ROTA_UNKNOWN && rq->call.refusal != 0)
            refused(c, set, rq->call.refusal);
        else if (err != 0)
            fail(c, set, err);
        else if (set->ended)
            fail_here(c, set, rt_words_set_ended(&c->base));
        else if (c->link.replicas == 0)
            go_on(c, set);
        else
            replicate(c, set, room);
    }
    if (lost)
        rt_redis_session_lost(c, session);
    rt_redis_join_over(c, rq);
    if (err == 0 && c->rooms[room].stale)
        rt_redis_ask_held(c, room);
}

static void join_room(struct rt_redis_conn *c, struct set *set)
{
    uint32_t room = rt_redis_room_of(c, set->joins[set->joined]->name);
    size_t end = set->joined + 1;
    while (end < set->n && rt_redis_room_of(c, set->joins[end]->name) == room)
        end++;
    set->now = end - set->joined;
    if (rt_redis_send_join(c, &set->work, room, set->joins + set->joined, set->now,
                           set->work.op->deadline, set_answered) == NULL)
        fail(c, set, ROTA_NOMEM);
}

/* ---- Pushes ----------------------------------------------------------------------------- */

static struct rt_join *find_join(struct set *set, uint64_t number, const char *name)
{
    for (size_t i = 0; i < set->joined + (set->waits ? set->now : 0); i++)
        if (set->joins[i]->number == number && strcmp(set->joins[i]->name, name) == 0)
            return set->joins[i];
    return NULL;
}

static void set_told(struct rt_redis_conn *c, struct set *set, struct rt_join *join,
                     enum rt_event_kind kind)
{
    if (kind == RT_TICKET_LOST) {
        /* Asked again it would stand in that line anew, behind others, and in the next as before: the order of sets
         * would be broken, and they could wait for each other. */
        set->ended = true;
        if (set->work.pending == 0)
            fail(c, set, rt_words_set_ended(&c->base));
        return;
    }
    join->granted = true;
    join->wanted = join->wanted || kind == RT_WANTED;
    if (set->waits && all_granted(set))
        go_on(c, set);
}

bool rt_redis_set_hears(struct rt_redis_conn *c, enum rt_event_kind kind, uint64_t session,
                        uint64_t number, const char *name)
{
    for (struct rt_work *w = c->side.works; w != NULL; w = w->next) {
        struct set *set = set_of(w);
        struct rt_join *join = NULL;
        if (set != NULL && set->session == session && !set->undoing)
            join = find_join(set, number, name);
        if (join != NULL) {
            set_told(c, set, join, kind);
            return true;
        }
    }
    return false;
}

/* ---- JOIN_ALL --------------------------------------------------------------------------- */

/* By room, else as they came; few rooms, mostly one. */
static void sort_joins(struct rt_redis_conn *c, struct set *set)
{
    for (size_t i = 1; i < set->n; i++) {
        struct rt_join *join = set->joins[i];
        uint32_t room = rt_redis_room_of(c, join->name);
        size_t at = i;
        for (; at > 0 && rt_redis_room_of(c, set->joins[at - 1]->name) > room; at--)
            set->joins[at] = set->joins[at - 1];
        set->joins[at] = join;
    }
}

/* Why an earlier try was taken back, if that is not confirmed yet; or 0. */
static int given_up(struct rt_redis_conn *c, const struct set *set)
{
    int err = 0;
    for (size_t i = 0; i < set->n; i++) {
        int why = rt_redis_given_up(c, set->joins[i], &set->joins[i]->number);
        err = err == 0 ? why : err;
    }
    return err;
}

static void undo_all(struct rt_redis_conn *c, struct set *set, int err)
{
    set->joined = set->n; /* by their numbers, or where these are not known by their nonces */
    fail(c, set, rt_redis_fail(c, err, "an earlier try was taken back"));
}

int rt_redis_begin_set(struct rt_redis_conn *c, struct rt_op *op)
{
    int rv = rt_redis_check_joins(c, op);
    if (rv != 0)
        return rv;
    size_t size = sizeof(struct set) + op->join.n * sizeof(struct rt_join *);
    struct set *set = rt_work_new(&c->side.works, &c->base, size, op);
    if (set == NULL)
        return ROTA_NOMEM;
    set->work.more = &rt_redis_set_works;
    set->n = op->join.n;
    set->session = op->join.joins[0].session;
    set->durable = op->join.joins[0].flags & RT_JOIN_DURABLE;
    for (size_t i = 0; i < set->n; i++)
        set->joins[i] = &op->join.joins[i];
    if (c->room_count > 1)
        sort_joins(c, set);
    rv = given_up(c, set);
    if (rv == 0)
        join_room(c, set);
    else
        undo_all(c, set, rv);
    return 0;
}
