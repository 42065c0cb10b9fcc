/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that a call waits for. */
#include "client/client.h"

#include <assert.h>
#include <poll.h>
#include <string.h>

/* Between two tries; the engine's own deadline paces those that take longer. */
#define RETRY_PAUSE_MS 20

static void call_done(struct rt_dispatch *d, struct rt_request *rq)
{
    struct rt_call *call = (struct rt_call *)(void *)rq;

    rt_wait_done(rt_client_of(d), &call->w, rq->op.err);
}

static void cancel_call(struct rota *r, struct rt_waiter *w, int err)
{
    struct rt_call *call = w->user;

    call->ended = err;
    r->d.conn->engine->cancel(r->d.conn, &call->rq.op);
}

void rt_call_init(struct rota *r, struct rt_call *call, enum rt_op_kind kind)
{
    assert(rt_client_mine(r));
    memset(&call->rq, 0, sizeof(call->rq));
    call->ended = 0;
    call->restart = NULL;
    call->rq.op.kind = kind;
    call->rq.op.deadline = rt_loop_now(&r->loop) + r->call_ms * RT_MS;
    call->rq.done = call_done;
}

static bool changes(enum rt_op_kind kind)
{
    return kind == RT_OP_JOIN || kind == RT_OP_CHANGE || kind == RT_OP_LEAVE || kind == RT_OP_BREAK;
}

static int run(struct rota *r, struct rt_call *call)
{
    if (call->restart != NULL)
        call->restart(call);
    rt_wait_init(r, &call->w, NULL, cancel_call);
    call->w.user = call;
    rt_dispatch_send(&r->d, &call->rq);
    rt_wait(r, &call->w);
    int err = call->w.err;
    if (call->ended == 0 || err == 0)
        return err;
    /* Given up by us: what changes something and may have happened stays open (I5). */
    return err == ROTA_UNKNOWN && changes(call->rq.op.kind) ? err : call->ended;
}

int rt_call_insist(struct rota *r, struct rt_call *call)
{
    assert(rt_client_mine(r));
    uint64_t serial = r->serial;
    int64_t deadline = call->rq.op.deadline;
    bool unknown = false;
    int err;

    rt_client_hold(r);
    for (;;) {
        err = run(r, call);
        if ((err != ROTA_UNKNOWN && err != ROTA_UNREACHABLE) || call->ended != 0)
            break;
        unknown = unknown || err == ROTA_UNKNOWN;
        poll(NULL, 0, RETRY_PAUSE_MS);
        rt_client_lock(r);
        bool interrupted = atomic_load(&r->interrupts) != call->w.epoch; /* in the pause */
        if (interrupted || r->closing || rt_loop_now(&r->loop) >= deadline) {
            rt_client_leave(r);
            if (interrupted && !(unknown && changes(call->rq.op.kind)))
                err = ROTA_CANCELED;
            break;
        }
    }
    rt_client_drop(r);
    if (err == ROTA_LOST && unknown && call->rq.op.kind == RT_OP_BREAK)
        err = ROTA_UNKNOWN; /* it may have been our own first try that took the ticket out */
    if (err == ROTA_UNREACHABLE && unknown && changes(call->rq.op.kind))
        err = ROTA_UNKNOWN; /* what the last try says is no answer to the first */
    return rt_fail_waiter(serial, err, err == ROTA_CANCELED ? NULL : call->w.errmsg);
}
