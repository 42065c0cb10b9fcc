/* SPDX-License-Identifier: Apache-2.0 */
/* Taking back: a JOIN that took effect, or may have, and is to be told as failed.
 *
 * A definite error says that nothing was left behind. So the ticket leaves its line before the error is
 * told; when that cannot be made sure of, the error is ROTA_UNKNOWN and the user asks again. A LEAVE whose answer
 * was lost may arrive at any later time: what has been given up once is never told as granted, but taken back
 * until that is confirmed. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#define GRACE (200 * RT_MS) /* what taking back has at least, also beyond the op's deadline */

struct rt_redis_given_up { /* a JOIN whose taking back is not confirmed */
    struct rt_redis_given_up *next;
    uint64_t nonce;
    uint64_t number; /* or 0; a late LEAVE by number takes no later ticket of the same JOIN */
    int err;         /* to be told when it is */
    bool durable;
};

static struct rt_redis_given_up **find(struct rt_redis_conn *c, uint64_t nonce)
{
    struct rt_redis_given_up **at = &c->side.given_up;
    while (*at != NULL && (*at)->nonce != nonce)
        at = &(*at)->next;
    return at;
}

static bool note(struct rt_redis_conn *c, const struct rt_join *join, uint64_t number, int err)
{
    struct rt_redis_given_up **at = find(c, join->nonce);
    if (*at == NULL && (*at = rt_alloc(sizeof(**at))) != NULL)
        **at = (struct rt_redis_given_up){.number = number,
                                          .nonce = join->nonce,
                                          .err = err,
                                          .durable = join->flags & RT_JOIN_DURABLE};
    return *at != NULL;
}

static void drop(struct rt_redis_given_up **at)
{
    struct rt_redis_given_up *gone = *at;
    *at = gone->next;
    rt_free(gone);
}

void rt_redis_forget_given_up(struct rt_redis_conn *c, bool durable)
{
    for (struct rt_redis_given_up **at = &c->side.given_up; *at != NULL;)
        if (durable || !(*at)->durable)
            drop(at);
        else
            at = &(*at)->next;
}

int rt_redis_given_up(struct rt_redis_conn *c, const struct rt_join *join, uint64_t *number)
{
    const struct rt_redis_given_up *g = *find(c, join->nonce);
    *number = g != NULL ? g->number : 0;
    return g != NULL ? g->err : 0;
}

bool rt_redis_ask_undo(struct rt_redis_conn *c, struct rt_work *w, const struct rt_join *join,
                       uint64_t number, int err, rt_redis_answer_fn *answer)
{
    struct rt_redis_args a;
    struct rt_redis_request *rq = NULL;
    int64_t least = rt_loop_now(c->base.loop) + GRACE, deadline = w->op->deadline;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, join->name);
    rt_redis_arg_sid(&a, join->session, join->flags & RT_JOIN_DURABLE);
    rt_redis_arg_number(&a, number);
    rt_redis_arg_number(&a, join->nonce);
    rt_redis_arg(&a, "u");
    if (note(c, join, number, err))
        rq = rt_redis_ask(c, w, &a, RT_REDIS_SCRIPT_LEAVE, rt_redis_room_of(c, join->name),
                          deadline > least ? deadline : least, answer);
    if (rq == NULL) {
        rt_work_note(&c->base, w, rt_redis_fail(c, ROTA_UNKNOWN, "out of memory"));
        return false;
    }
    rq->seq = join->nonce;
    return true;
}

int rt_redis_undone(struct rt_redis_conn *c, const struct rt_redis_request *rq, int err, int status)
{
    if (err != 0)
        return ROTA_UNKNOWN; /* it may still stand there; errmsg says why */
    if (status != RT_REDIS_OK && status != RT_REDIS_LOST)
        return rt_redis_fail(c, ROTA_UNKNOWN, "a ticket that failed was not taken back");
    struct rt_redis_given_up **at = find(c, rq->seq);
    if (*at != NULL)
        drop(at);
    return 0;
}

static void undo_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    (void)reply;
    c->side.counted_at = -1;
    rt_work_end(&c->base, rq->owner, rt_redis_undone(c, rq, err, status));
}

void rt_redis_take_back(struct rt_redis_conn *c, struct rt_op *op, uint64_t number, int err)
{
    struct rt_work *w = rt_work_new(&c->side.works, &c->base, sizeof(*w), op);
    if (w == NULL) {
        rt_conn_done(&c->base, op, ROTA_UNKNOWN);
        return;
    }
    rt_work_note(&c->base, w, err);
    if (!rt_redis_ask_undo(c, w, op->join.joins, number, err, undo_answered))
        rt_work_end(&c->base, w, 0);
}
