/* SPDX-License-Identifier: Apache-2.0 */
/* The session is the client's own: the server knows only keys. A beat renews all that is held, and all that is being
 * asked for: what was sent before it may be granted before it, and must live as long as the rest. */
#include "engine/redis/dialect/dialect.h"

#include "base/bug.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define EACH 3 /* arguments of a ticket: name, id, mode */
#define AHEAD 1

/* ---- Opening ------------------------------------------------------------------------------------ */

static int draw(struct rt_dia_conn *c, uint64_t *session, char uuid[RT_DIA_UUID_SIZE])
{
    uint8_t b[16];
    int rv = rt_dial_random(&c->base, b, sizeof(b));
    if (rv != 0)
        return rv;
    memcpy(session, b, sizeof(*session));
    *session = (*session >> 1) | 1; /* below 2^63, and never 0 */
    char d[40]; /* of the session but for the digits of version and variant; the rest is random */
    (void)snprintf(d, sizeof(d), "%016llx", (unsigned long long)*session);
    (void)snprintf(uuid, RT_DIA_UUID_SIZE, "%.8s-%.4s-4%.3s-8%.1s%02x-%02x%02x%02x%02x%02x%02x", d,
                   d + 8, d + 12, d + 15, b[8], b[9], b[10], b[11], b[12], b[13], b[14]);
    return 0;
}

static void open_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    uint64_t session = 0;
    char uuid[RT_DIA_UUID_SIZE];
    (void)status;
    (void)reply;
    if (err == 0)
        err = draw(c, &session, uuid);
    if (err == 0) {
        rt_spin_open(&c->spin, session, rq->call.sent_at);
        memcpy(c->uuid, uuid, sizeof(uuid));
        op->beat.session = session;
        op->beat.ttl_ms = c->base.ttl_ms;
        op->beat.allowance_ms = 0;
    }
    rt_conn_done(&c->base, op, err);
}

/* ---- Renewing ------------------------------------------------------------------------------------- */

static void lost_one(struct rt_dia_conn *c, const char *name, uint64_t nonce)
{
    struct rt_spin_ticket *t = rt_spin_by_nonce(&c->spin, name, nonce);
    if (t != NULL && t->state == RT_SPIN_WAITING && c->dialect->queues)
        rt_spin_now(&c->spin, t); /* dropped from the queue, or broken: that answer says which */
    if (t == NULL || t->state != RT_SPIN_HELD || RT_BUG(RT_BUG_RENEWAL_NOT_READ))
        return;
    rt_spin_lost(&c->spin, t);
}

/* A grant that was not known yet when it was asked about may by now have what it is said to lack: only HELD ones that
 * were HELD then count. */
static int read_renewal(struct rt_dia_conn *c, struct rt_dia_request *rq, int status,
                        const redisReply *reply)
{
    if (status != RT_REDIS_OK || rt_redis_count(reply) != rq->count ||
        !rt_redis_shaped(reply, 0, "i"))
        return rt_dia_odd(c, rq);
    if (rq->session != c->spin.session)
        return rt_words_no_session(&c->base, rq->session);
    for (size_t i = 0; i < rq->count; i++)
        if (rt_redis_int(reply, i) == 0 && rq->nonces[i] != 0)
            lost_one(c, rq->call.args[AHEAD + EACH * i], rq->nonces[i]);
    return 0;
}

struct beat {
    struct rt_work work; /* first */
    int64_t at;          /* it was begun */
};

static void renewed(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                    const redisReply *reply)
{
    struct rt_work *w = rq->owner;
    const struct beat *beat = rq->owner;
    if (err == 0 && reply->type != REDIS_REPLY_STRING)
        err = read_renewal(c, rq, status, reply);
    if (w == NULL)
        return;
    rt_work_note(&c->base, w, err);
    if (w->pending > 0)
        return;
    if (w->err == 0 && w->op != NULL)
        rt_spin_renewed(&c->spin, rq->session, beat->at);
    rt_work_end(&c->base, w, 0);
}

struct batch {
    struct rt_work *work; /* NULL: nobody waits for it */
    struct rt_spin_ticket *list[RT_SPIN_BATCH];
    size_t count;
    int err;
};

static void send_batch(struct rt_dia_conn *c, struct batch *b)
{
    struct rt_redis_args a;
    struct rt_dia_request *rq = NULL;
    if (rt_redis_args_open(&a, AHEAD + EACH * b->count, 32 + b->count * (RT_DIA_ID_SIZE + 16)) ==
        0) {
        rt_redis_arg_number(&a, c->base.ttl_ms);
        for (size_t i = 0; i < b->count; i++) {
            char id[RT_DIA_ID_SIZE];
            rt_dia_id(c, b->list[i]->nonce, id);
            rt_redis_arg(&a, b->list[i]->name);
            rt_redis_arg_text(&a, "%s", id);
            rt_redis_arg_number(&a, b->list[i]->mode);
        }
        rq = rt_dia_request_new(c, c->dialect->renew, &a, AHEAD, b->count, renewed);
    }
    if (rq == NULL) {
        b->err = rt_words_nomem(&c->base);
    } else {
        for (size_t i = 0; i < b->count; i++)
            rq->nonces[i] = b->list[i]->state == RT_SPIN_HELD || c->dialect->queues
                                ? b->list[i]->nonce
                                : 0;
        rq->owner = b->work;
        rq->call.entry.pending = b->work != NULL ? &b->work->pending : NULL;
        rq->call.entry.deadline = b->work != NULL ? b->work->op->deadline : 0;
        rq->call.entry.first = b->work == NULL;
        rt_dia_send(c, rq);
    }
    b->count = 0;
}

static void put(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    struct rt_dia_conn *c = rt_dia_of_spin(s);
    struct batch *b = arg;
    bool asked = t->state == RT_SPIN_JOINING ||
                 (t->state == RT_SPIN_WAITING && (t->in_flight || t->doubt || c->dialect->queues));
    if (t->state != RT_SPIN_HELD && (!asked || b->work == NULL || RT_BUG(RT_BUG_ASKED_NOT_RENEWED)))
        return;
    b->list[b->count++] = t;
    if (b->count == RT_SPIN_BATCH)
        send_batch(c, b);
}

void rt_dia_give_end(struct rt_dia_conn *c, struct rt_spin_ticket *t)
{
    struct batch b = {.list = {t}, .count = 1};
    send_batch(c, &b);
}

void rt_dia_verify(struct rt_dia_conn *c)
{
    struct batch b = {.work = NULL};
    if (c->spin.session == 0 || RT_BUG(RT_BUG_NOT_ASKED_AFTER_RECONNECT))
        return;
    rt_spin_each(&c->spin, put, &b);
    if (b.count > 0)
        send_batch(c, &b);
}

static int ping(struct rt_dia_conn *c, struct rt_op *op, struct rt_work *w,
                rt_dia_answer_fn *answer)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    return rt_dia_ask(c, RT_DIA_PING, &a, 0, op, w, answer) != NULL ? 0 : ROTA_NOMEM;
}

static int renew(struct rt_dia_conn *c, struct rt_op *op)
{
    struct beat *beat = rt_work_new(&c->works, &c->base, sizeof(*beat), op);
    if (beat == NULL)
        return ROTA_NOMEM;
    struct rt_work *w = &beat->work;
    struct batch b = {.work = w};
    beat->at = rt_loop_now(c->base.loop);
    op->beat.ttl_ms = c->base.ttl_ms;
    op->beat.allowance_ms = 0;
    rt_spin_each(&c->spin, put, &b);
    if (b.count > 0)
        send_batch(c, &b);
    if (w->pending == 0 && b.err == 0)
        b.err = ping(c, NULL, w, renewed); /* nothing is held: whether the server is there */
    rt_work_note(&c->base, w, b.err);
    if (w->pending == 0)
        rt_work_end(&c->base, w, 0);
    return 0;
}

int rt_dia_begin_beat(struct rt_dia_conn *c, struct rt_op *op)
{
    if (op->beat.open)
        return ping(c, op, NULL, open_answered);
    if (op->beat.session == 0 || op->beat.session != c->spin.session)
        return rt_words_no_session(&c->base, op->beat.session);
    return renew(c, op);
}
