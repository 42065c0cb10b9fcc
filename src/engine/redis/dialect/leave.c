/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE, CHANGE, BREAK: only what is ours is deleted, by one step on the server. */
#include "engine/redis/dialect/dialect.h"

#include "base/bug.h"
#include "engine/kit/check.h"

#include <string.h>

/* ---- LEAVE -------------------------------------------------------------------------------------- */

static void put_leave(struct rt_redis_args *a, const char *name, const char *id)
{
    rt_redis_args_few(a);
    rt_redis_arg(a, name);
    rt_redis_arg(a, id);
}

void rt_dia_give_back(struct rt_dia_conn *c, const char *name, const char *id)
{
    struct rt_redis_args a;
    put_leave(&a, name, id);
    (void)rt_dia_ask(c, c->dialect->leave, &a, 0, NULL, NULL,
                     NULL); /* without memory: by its ttl */
}

static bool is_over(int err, int status, const redisReply *reply)
{
    return err == 0 && (reply->type == REDIS_REPLY_STRING || status == RT_REDIS_OK);
}

static void leave_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                           const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    struct rt_spin_ticket *t = rq->session == c->spin.session && rq->nonces[0] != 0
                                   ? rt_spin_by_nonce(&c->spin, op->leave.name, rq->nonces[0])
                                   : NULL;
    bool waited = t != NULL && t->waited;
    if (is_over(err, status, reply)) /* a queue says whether it held */
        op->leave.granted = rt_redis_count(reply) == 0 || rt_redis_int(reply, 0) != 0;
    else if (err == 0 && status == RT_REDIS_LOST)
        err = waited ? 0 : rt_words_no_ticket(&c->base, op->leave.name);
    else if (err == 0)
        err = rt_dia_odd(c, rq);
    if (t != NULL && (err == 0 || err == ROTA_LOST))
        rt_spin_free(&c->spin, t);
    rt_conn_done(&c->base, op, err);
}

static int send_leave(struct rt_dia_conn *c, struct rt_op *op, uint64_t nonce,
                      enum rt_dia_script script, rt_dia_answer_fn *answer);

/* The second of two steps: in between it may have become another's. */
static void compared(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                     const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err != 0 || status != RT_REDIS_OK || rq->session != c->spin.session) {
        leave_answered(c, rq, err, status, reply);
        return;
    }
    int rv = send_leave(c, op, rq->nonces[0], RT_DIA_SETNX_DELETE, leave_answered);
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
}

static int send_leave(struct rt_dia_conn *c, struct rt_op *op, uint64_t nonce,
                      enum rt_dia_script script, rt_dia_answer_fn *answer)
{
    struct rt_redis_args a;
    char id[RT_DIA_ID_SIZE];
    rt_dia_id(c, nonce, id);
    put_leave(&a, op->leave.name, id);
    struct rt_dia_request *rq = rt_dia_request_new(c, script, &a, 0, 1, answer);
    if (rq == NULL)
        return ROTA_NOMEM;
    rq->nonces[0] = nonce;
    rq->call.entry.op = op;
    rq->call.entry.deadline = op->deadline;
    rt_dia_send(c, rq);
    return 0;
}

void rt_dia_leave_on(struct rt_dia_conn *c, struct rt_spin_ticket *t, int err)
{
    struct rt_op *op = rt_dia_ticket(t)->leaver;
    uint64_t nonce = t->nonce;
    rt_dia_ticket(t)->leaver = NULL;
    if (err == 0)
        err = send_leave(c, op, nonce, c->dialect->leave, leave_answered);
    else
        err = -1; /* it did not hold, or ends by its time */
    if (err == 0)
        return;
    rt_spin_free(&c->spin, t);
    rt_conn_done(&c->base, op, err == ROTA_NOMEM ? err : 0);
}

/* Where nobody can say whose a key is, only what is known to hold is deleted. True: OP goes on by itself, or has
 * ended. */
static bool leave_unnamed(struct rt_dia_conn *c, struct rt_op *op, struct rt_spin_ticket *t)
{
    if (!c->dialect->stamps ||
        (t != NULL && t->state != RT_SPIN_WAITING && rt_dia_ticket(t)->leaver == NULL))
        return false;
    if (t != NULL && t->in_flight && rt_dia_ticket(t)->leaver == NULL) {
        rt_spin_state(&c->spin, t, RT_SPIN_LEAVING);
        rt_dia_ticket(t)->leaver = op;
        return true;
    }
    int err = t != NULL ? 0 : rt_words_no_ticket(&c->base, op->leave.name);
    if (t != NULL && rt_dia_ticket(t)->leaver == NULL)
        rt_spin_free(&c->spin, t);
    rt_conn_done(&c->base, op, err);
    return true;
}

int rt_dia_begin_leave(struct rt_dia_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(&c->base, op->leave.name);
    if (rv != 0)
        return rv;
    op->leave.granted = false;
    if (c->spin.session == 0 || op->leave.session != c->spin.session)
        return rt_words_no_ticket(&c->base, op->leave.name);
    struct rt_spin_ticket *t = rt_spin_leaver(&c->spin, op);
    if (t == NULL && op->leave.number != 0)
        return rt_words_no_ticket(&c->base, op->leave.name);
    if (leave_unnamed(c, op, t))
        return 0;
    if (t != NULL && t->state == RT_SPIN_WAITING && !t->in_flight && !t->doubt &&
        !c->dialect->queues) {
        rt_spin_free(&c->spin, t); /* the server knows nothing of it */
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    if (t != NULL) {
        if (t->state == RT_SPIN_WAITING &&
            !c->dialect->queues) /* the answer says whether it held */
            t->waited = true;
        rt_dia_unlisten(c, t);
        rt_spin_state(&c->spin, t, RT_SPIN_LEAVING);
    }
    uint64_t nonce = t != NULL ? t->nonce : op->leave.nonce;
    if (c->dialect->in_steps)
        return send_leave(c, op, nonce, RT_DIA_SETNX_COMPARE, compared);
    return send_leave(c, op, nonce, c->dialect->leave, leave_answered);
}

/* ---- CHANGE --------------------------------------------------------------------------------------- */

static void changed(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                    const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0 && status == RT_REDIS_LOST)
        err = rt_words_no_ticket(&c->base, op->change.name);
    else if (err == 0 && (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = rt_dia_odd(c, rq);
    struct rt_spin_ticket *t = rq->session == c->spin.session
                                   ? rt_spin_by_number(&c->spin, op->change.name, op->change.number)
                                   : NULL;
    if (err == 0 && t != NULL && op->change.what & RT_CHANGE_DOWNGRADE)
        t->mode = RT_SHARED;
    op->change.wanted = false;
    rt_conn_done(&c->base, op, err);
}

static int downgrade(struct rt_dia_conn *c, struct rt_op *op, const char *id)
{
    struct rt_redis_args a;
    put_leave(&a, op->change.name, id);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    return rt_dia_ask(c, RT_DIA_RW_CHANGE, &a, 0, op, NULL, changed) != NULL ? 0 : ROTA_NOMEM;
}

static int set_value(struct rt_dia_conn *c, struct rt_op *op, const struct rt_spin_ticket *t,
                     const char *id)
{
    struct rt_redis_args a;
    int rv = rt_check_value(&c->base, op->change.name, op->change.value);
    if (rv != 0)
        return rv;
    if (rt_redis_args_open(&a, 4, 32 + RT_DIA_TEXT_MOST) != 0)
        return rt_words_nomem(&c->base);
    rt_redis_arg(&a, op->change.name);
    rt_redis_arg(&a, id);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    rt_dia_put_text(&a, c, t->owner, t->detects, op->change.value);
    return rt_dia_ask(c, RT_DIA_FAIR_CHANGE, &a, 0, op, NULL, changed) != NULL ? 0 : ROTA_NOMEM;
}

static void change_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                            const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0 && (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = rt_dia_odd(c, rq);
    if (err == 0 && rt_redis_int(reply, 0) == 0)
        err = rt_words_no_ticket(&c->base, op->change.name);
    /* Nobody can say that nobody waits. Not for readers: they would keep each other out that way. */
    const struct rt_spin_ticket *t = rq->session == c->spin.session
                                         ? rt_spin_by_number(&c->spin, op->change.name,
                                                             op->change.number)
                                         : NULL;
    bool reads = t == NULL ||
                 t->mode == RT_SHARED; /* as of now: it may have been downgraded meanwhile */
    op->change.wanted = err == 0 && op->change.what & RT_CHANGE_ARM && !reads;
    rt_conn_done(&c->base, op, err);
}

int rt_dia_begin_change(struct rt_dia_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    char id[RT_DIA_ID_SIZE];
    int rv = rt_check_name(&c->base, op->change.name);
    if (rv != 0)
        return rv;
    struct rt_spin_ticket *t = c->spin.session != 0 && op->change.session == c->spin.session
                                   ? rt_spin_by_number(&c->spin, op->change.name, op->change.number)
                                   : NULL;
    if (t == NULL || t->state != RT_SPIN_HELD)
        return rt_words_no_ticket(&c->base, op->change.name);
    uint32_t able = c->dialect->caps & ROTA_CAP_SHARED ? RT_CHANGE_DOWNGRADE
                    : c->dialect->queues               ? RT_CHANGE_VALUE
                                                       : 0;
    if (op->change.what & ~(RT_CHANGE_ARM | able))
        return rt_dia_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has no values and no readers",
                           op->change.name, c->dialect->name);
    rt_dia_id(c, t->nonce, id);
    if (op->change.what & RT_CHANGE_DOWNGRADE)
        return downgrade(c, op, id);
    if (op->change.what & RT_CHANGE_VALUE)
        return set_value(c, op, t, id);
    rt_redis_args_few(&a);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    rt_redis_arg(&a, op->change.name);
    rt_redis_arg(&a, id);
    rt_redis_arg_number(&a, t->mode);
    return rt_dia_ask(c, c->dialect->renew, &a, 1, op, NULL, change_answered) != NULL ? 0
                                                                                      : ROTA_NOMEM;
}

/* ---- BREAK ------------------------------------------------------------------------------------------ */

static void break_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                           const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0 && status == RT_REDIS_LOST)
        err = rt_words_no_such(&c->base, op->brk.name);
    else if (err == 0 && (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = rt_dia_odd(c, rq);
    rt_conn_done(&c->base, op, err);
}

int rt_dia_begin_break(struct rt_dia_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    int rv = rt_check_name(&c->base, op->brk.name);
    if (rv != 0)
        return rv;
    if (op->brk.number == 0) /* there are no durable tickets */
        return rt_words_no_such(&c->base, op->brk.name);
    rt_redis_args_few(&a);
    rt_redis_arg(&a, op->brk.name);
    rt_redis_arg_number(&a, op->brk.number);
    return rt_dia_ask(c, c->dialect->brk, &a, 0, op, NULL, break_answered) != NULL ? 0 : ROTA_NOMEM;
}
