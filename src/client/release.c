/* SPDX-License-Identifier: Apache-2.0 */
/* A lock in the hand: letting go, and what can be asked about it. */
#include "client/client.h"
#include "client/metrics.h"

#include <assert.h>

/* Whoever lets go no longer needs the message that it is gone. */
void rt_lock_hush(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_more *more = rt_more_of(lock);

    if (more == NULL)
        return;
    more->pending = (uint8_t)(more->pending &
                              ~(RT_PENDING_AWAY | RT_PENDING_BACK | RT_PENDING_LOST));
    if (more->pending == 0)
        rt_callback_drop(r, &more->callback);
}

void rt_lock_release(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_more *more = rt_more_of(lock);

    if (more != NULL && more->running && !rt_callback_inside(r))
        more->releases = true; /* its name and all else stay until the function is through */
    else
        rt_metrics_release(r, lock);
}

/* Lets the release go on without us. */
static void cancel_release(struct rota *r, struct rt_waiter *w, int err)
{
    (void)err;
    rt_lock_of(w->ask)->waiter = NULL;
    rt_wait_done(r, w, ROTA_UNKNOWN);
}

int rota_release(struct rota_lock *lock)
{
    __attribute__((uninitialized)) struct rt_waiter w;

    if (lock == NULL)
        return 0;
    struct rota *r = lock->client;
    if (rt_callback_inside(r))
        return rota_release_async(lock, NULL, NULL);
    int rv = rt_client_check(r, true);
    if (rv != 0)
        return rv;
    uint64_t serial = r->serial;
    rt_client_lock(r);
    if (lock->ask.state == RT_ASK_DONE) { /* rota_close was first, and waits for us */
        rt_client_leave(r);
        return rt_fail_waiter(serial, ROTA_CLOSED, NULL);
    }
    rt_lock_hush(r, lock);
    rt_wait_init(r, &w, &lock->ask, cancel_release);
    lock->waiter = &w;
    rt_lock_release(r, lock);
    rt_wait(r, &w);
    return w.err == 0 ? 0 : rt_fail_waiter(serial, w.err, w.errmsg);
}

uint64_t rota_fence(const struct rota_lock *lock)
{
    if (lock == NULL || (rota_caps(lock->client) & ROTA_CAP_FENCE) == 0)
        return 0;
    return lock->ask.fence;
}

const char *rota_name(const struct rota_lock *lock)
{
    if (lock == NULL)
        return "";
    const struct rota *r = lock->client;
    const char *name = lock->ask.line->name + r->spelling.prefix_size;
    return rt_name_escaped(&r->spelling, name) ? rt_names_extra(lock->ask.line) : name;
}

int64_t rota_remaining_ms(const struct rota_lock *lock)
{
    if (lock == NULL || rt_forked(lock->client))
        return 0;
    struct rota *r = lock->client;
    rt_client_lock(r);
    int64_t until = rt_desk_until(&r->d.desk, &lock->ask);
    int64_t left = until - rt_loop_now(&r->loop);
    rt_client_unlock(r);
    if (until == RT_NEVER)
        return INT64_MAX;
    return left > 0 ? left / RT_MS : 0;
}

int rota_guard(const struct rota_lock *lock, uint64_t *highest)
{
    if (lock == NULL || highest == NULL)
        return ROTA_INVALID;
    struct rota *r = lock->client;
    int rv = rt_client_check(r, false);
    if (rv != 0)
        return rv;
    rt_client_lock(r);
    uint32_t mode = lock->ask.mode; /* changed by rota_downgrade */
    rt_client_unlock(r);
    if (mode != RT_EXCLUSIVE)
        return rt_fail(r, ROTA_INVALID,
                       "shared holds and permits hold at once: their numbers do not fence");
    uint64_t fence = rota_fence(lock);
    if (fence == 0)
        return rt_fail(r, ROTA_UNSUPPORTED, "there are no fences on %s", r->shown_url);
    if (fence < *highest)
        return rt_fail(r, ROTA_LOST, "fence %llu is older than %llu, which the resource has seen",
                       (unsigned long long)fence, (unsigned long long)*highest);
    *highest = fence;
    return 0;
}

/* ---- Asking and changing on the engine ---------------------------------- */

void rt_lock_change_op(struct rota *r, const struct rota_lock *lock, struct rt_op *op,
                       uint32_t what, const char *value)
{
    assert(rt_client_mine(r));
    op->kind = RT_OP_CHANGE;
    op->deadline = rt_loop_now(&r->loop) + r->call_ms * RT_MS;
    op->change.name = lock->ask.line->name;
    op->change.session = rt_desk_session(&r->d.desk);
    op->change.number = lock->ask.ticket->id;
    op->change.what = what;
    op->change.value = value;
}

int rt_lock_changed(struct rota *r, struct rota_lock *lock, uint64_t number, const struct rt_op *op)
{
    assert(rt_client_mine(r));
    struct rt_desk *desk = &r->d.desk;
    struct rt_ask *ask = &lock->ask;
    int64_t now = rt_loop_now(&r->loop);

    if (ask->state != RT_ASK_HELD || ask->ticket->id != number) /* meanwhile */
        return r->closing && ask->state == RT_ASK_DONE ? ROTA_CLOSED : ROTA_LOST;
    if (op->err == ROTA_LOST)
        rt_desk_ticket_lost(desk, ask->ticket, now);
    if (op->err != 0)
        return op->err;
    if (rt_desk_until(desk, ask) <= now)
        return ROTA_LOST;
    if ((op->change.what & RT_CHANGE_DOWNGRADE) != 0)
        rt_desk_downgraded(desk, ask, now);
    return 0;
}

struct change {
    struct rt_call call; /* first */
    struct rota_lock *lock;
    uint64_t number;
};

static void changed(struct rt_dispatch *d, struct rt_request *rq)
{
    struct change *c = (struct change *)(void *)rq;
    struct rota *r = rt_client_of(d);

    rt_wait_done(r, &c->call.w, rt_lock_changed(r, c->lock, c->number, &rq->op));
}

/* Its tenure is another hold's, which stays what it is. */
static bool is_shared_by_reentry(const struct rt_ask *ask, uint32_t what)
{
    return (what & RT_CHANGE_DOWNGRADE) != 0 && ask->mode == RT_SHARED &&
           ask->ticket->mode == RT_EXCLUSIVE;
}

/* Why ASK, which is HELD, cannot be changed so. */
static const char *change_fault(const struct rt_ask *ask, uint32_t what)
{
    /* A plain tenure is passed on, and would show the value of whoever held it before. */
    if ((what & RT_CHANGE_VALUE) != 0 && !rt_ticket_has(ask->ticket, RT_TICKET_SOLO))
        return "only what rota_elect took has a value";
    if ((what & RT_CHANGE_DOWNGRADE) == 0)
        return NULL;
    if (ask->mode == RT_PERMITS)
        return "only exclusive holds can be downgraded";
    if (!is_shared_by_reentry(ask, what) && !rt_line_sole_writer(ask))
        return "other exclusive holds of this owner are still there: release those first";
    return NULL;
}

/* Whoever stood still since the answer came is not told that it still holds. */
static int insist_and_look(struct rota *r, struct change *c)
{
    uint64_t serial = r->serial;

    rt_client_hold(r); /* it may be closed meanwhile */
    int rv = rt_call_insist(r, &c->call);
    if (rv == 0) {
        rt_client_lock(r);
        if (rt_desk_until(&r->d.desk, &c->lock->ask) <= rt_loop_now(&r->loop))
            rv = rt_fail_waiter(serial, r->closing ? ROTA_CLOSED : ROTA_LOST, NULL);
        rt_client_leave(r);
    }
    rt_client_drop(r);
    return rv;
}

static int change(struct rota_lock *lock, uint32_t what, const char *value)
{
    struct rota *r = lock->client;
    struct change c = {.lock = lock};

    int rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    if (lock->ask.state != RT_ASK_HELD) {
        rt_client_leave(r);
        return rt_fail(r, ROTA_LOST, NULL);
    }
    const char *fault = change_fault(&lock->ask, what);
    if (fault != NULL || is_shared_by_reentry(&lock->ask, what)) {
        rt_client_leave(r);
        return fault != NULL ? rt_fail(r, ROTA_INVALID, "%s", fault) : 0;
    }
    rt_call_init(r, &c.call, RT_OP_CHANGE);
    c.call.rq.done = changed;
    rt_lock_change_op(r, lock, &c.call.rq.op, what, value);
    c.number = c.call.rq.op.change.number;
    /* Once it is sent it may be shared on the engine, even if we are never told: nobody here
     * may be let in as the only one from now on (I1). */
    if ((what & RT_CHANGE_DOWNGRADE) != 0)
        rt_desk_downgraded(&r->d.desk, &lock->ask, rt_loop_now(&r->loop));
    return insist_and_look(r, &c);
}

int rota_check(struct rota_lock *lock)
{
    int rv = rt_client_check(lock != NULL ? lock->client : NULL, true);

    return rv != 0 ? rv : change(lock, 0, NULL);
}

int rota_downgrade(struct rota_lock *lock)
{
    int rv = rt_client_check(lock != NULL ? lock->client : NULL, true);

    if (rv != 0)
        return rv;
    const struct rota *r = lock->client;
    if ((rota_caps(r) & ROTA_CAP_SHARED) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED, "shared locks are not possible on %s", r->shown_url);
    return change(lock, RT_CHANGE_DOWNGRADE, NULL); /* even if it was tried before, and failed */
}

int rota_proclaim(struct rota_lock *lock, const char *value)
{
    int rv = rt_client_check(lock != NULL ? lock->client : NULL, true);

    if (rv == 0)
        rv = rt_value_check(lock->client, value);
    return rv != 0 ? rv : change(lock, RT_CHANGE_VALUE, value);
}
