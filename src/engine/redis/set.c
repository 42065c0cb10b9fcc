/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN_ALL: the tickets of one room by one script; over several rooms (a cluster) room after room.
 *
 * Rooms are joined in ascending order, the next when all tickets of the one before are granted: so
 * sets that overlap cannot wait for each other. With RT_JOIN_TRY what was joined is left again as
 * soon as one room says no.
 *
 *   room 1: join ──▶ waits ── all granted ──▶ room 2: join ──▶ ... ──▶ all granted, or the last waits: done
 *
 * What if the reply is lost, or the deadline passes: ROTA_UNKNOWN, the chain stops, and is begun anew
 * by the same nonces; joins of rooms that were there already find their tickets. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#include <stdlib.h>

struct set {
    struct rt_redis_work work; /* first */
    uint64_t session;
    bool durable;
    size_t n;
    struct rt_join *joins[]; /* by room, within a room as they came */
};

static void set_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                         const redisReply *reply)
{
    struct set *set = rq->owner;
    set->work.pending--;
    if (set->work.op == NULL) { /* canceled */
        rt_redis_join_over(c, rq);
        rt_redis_work_settle(c, &set->work);
        return;
    }
    err = rt_redis_read_join(c, rq, err, status, reply, set->joins, set->n);
    bool waits = false;
    for (size_t i = 0; err == 0 && i < set->n; i++)
        waits = waits || !set->joins[i]->granted;
    rt_redis_work_note(c, &set->work, err);
    rt_redis_work_done(c, &set->work);
    if (err == ROTA_LOST && !set->durable && status == RT_REDIS_LOST)
        rt_redis_session_lost(c, set->session);
    rt_redis_join_over(c, rq);
    if (waits && c->rooms[rq->room].stale)
        rt_redis_ask_held(c, rq->room);
    rt_redis_work_settle(c, &set->work);
}

static int check_set(struct rt_redis_conn *c, const struct rt_op *op)
{
    for (size_t i = 0; i < op->join.n; i++) {
        const struct rt_join *join = &op->join.joins[i];
        int rv = rt_redis_check_join(c, join);
        if (rv != 0)
            return rv;
        if (join->session != op->join.joins[0].session ||
            (join->flags & RT_JOIN_DURABLE) != (op->join.joins[0].flags & RT_JOIN_DURABLE))
            return rt_redis_fail(c, ROTA_INVALID, "a set is of one session");
    }
    return 0;
}

static int send_set(struct rt_redis_conn *c, struct set *set, struct rt_op *op)
{
    uint32_t room = rt_redis_room_of(c, op->join.joins[0].name);
    for (size_t i = 0; i < op->join.n; i++) {
        set->joins[i] = &op->join.joins[i];
        if (rt_redis_room_of(c, op->join.joins[i].name) != room)
            return rt_redis_fail(c, ROTA_UNSUPPORTED, "sets over several rooms: not yet");
    }
    struct rt_redis_request *rq = rt_redis_send_join(c, room, set->joins, set->n, op->deadline,
                                                     set_answered);
    if (rq == NULL)
        return ROTA_NOMEM;
    rq->owner = set;
    set->work.pending++;
    return 0;
}

void rt_redis_begin_set(struct rt_redis_conn *c, struct rt_op *op)
{
    int rv = check_set(c, op);
    if (rv != 0) {
        rt_conn_done(&c->base, op, rv);
        return;
    }
    size_t size = sizeof(struct set) + op->join.n * sizeof(struct rt_join *);
    struct set *set = rt_redis_work_new(c, size, op);
    if (set == NULL) {
        rt_conn_done(&c->base, op, ROTA_NOMEM);
        return;
    }
    set->n = op->join.n;
    set->session = op->join.joins[0].session;
    set->durable = op->join.joins[0].flags & RT_JOIN_DURABLE;
    rv = send_set(c, set, op);
    if (rv != 0) {
        rt_redis_work_note(c, &set->work, rv);
        rt_redis_work_done(c, &set->work);
        rt_redis_work_settle(c, &set->work);
    }
}
