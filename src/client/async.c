/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous twins, and clients that are driven from the program's own loop. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"

#include <string.h>
#include <unistd.h>

/* Something was begun that nobody waits for: whoever turns the loop has to be there. */
static void leave_to_keeper(struct rota *r)
{
    if (r->driver == NULL && r->keeper.state == RT_KEEPER_PARKED)
        rt_keeper_want(r);
    rt_client_leave(r);
}

static int begin_async(struct rota *r, const char *name, const struct rt_wish *wish,
                       rota_grant_fn *fn, void *arg, uint64_t *id)
{
    struct rota_lock *lock;

    int rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    rv = rt_ask_prepare(r, name, wish, &lock);
    if (rv != 0)
        goto leave;
    struct rt_more *more = rt_more_of(lock);
    more->id = rt_ids_add(&r->ids, RT_ID_ASK, lock);
    if (more->id == 0) {
        rt_ask_discard(r, lock);
        rv = ROTA_NOMEM;
        goto leave;
    }
    more->on_grant = fn;
    more->arg = arg;
    if (id != NULL)
        *id = more->id;
    rt_metrics_ask(r, lock);
leave:
    leave_to_keeper(r);
    return rv == 0 ? 0 : rt_fail(r, rv, NULL);
}

int rota_acquire_async_sized(struct rota *r, const char *name, const struct rota_ask *ask,
                             size_t size, rota_grant_fn *fn, void *arg, uint64_t *id)
{
    struct rt_wish wish;
    int rv = rt_client_check(r, false);

    if (rv == 0 && fn == NULL)
        rv = rt_fail(r, ROTA_INVALID, "rota_acquire_async needs a function to call");
    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0)
        rv = rt_wish_init(r, &wish, ask, size);
    if (rv != 0)
        return rv;
    wish.async = true;
    return begin_async(r, name, &wish, fn, arg, id);
}

int rota_elect_async_sized(struct rota *r, const char *name, const char *value,
                           const struct rota_ask *ask, size_t size, rota_grant_fn *fn, void *arg,
                           uint64_t *id)
{
    struct rt_wish wish;
    int rv = rt_client_check(r, false);

    if (rv == 0 && fn == NULL)
        rv = rt_fail(r, ROTA_INVALID, "rota_elect_async needs a function to call");
    if (rv == 0)
        rv = rt_elect_wish(r, &wish, name, value, ask, size);
    if (rv != 0)
        return rv;
    wish.async = true;
    return begin_async(r, name, &wish, fn, arg, id);
}

int rota_cancel(struct rota *r, uint64_t id)
{
    int rv = rt_client_check(r, false);

    if (rv != 0)
        return rv;
    rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    struct rota_lock *lock = rt_ids_find(&r->ids, RT_ID_ASK, id);
    if (lock != NULL)
        (void)rt_desk_cancel(&r->d.desk, &lock->ask, ROTA_CANCELED, rt_loop_now(&r->loop));
    leave_to_keeper(r);
    return lock != NULL ? 0 : rt_fail(r, ROTA_INVALID, "there is no such ask any more");
}

int rota_release_async(struct rota_lock *lock, rota_done_fn *fn, void *arg)
{
    if (lock == NULL)
        return fn == NULL ? 0 : ROTA_INVALID; /* as rota_release; but nobody could call FN */
    struct rota *r = lock->client;
    int rv = rt_client_check(r, false);
    if (rv != 0)
        return rv;
    rt_client_lock(r);
    if (lock->ask.state == RT_ASK_DONE) { /* rota_close was first: a callback of its last ones */
        rt_client_leave(r);
        return rt_fail(r, ROTA_CLOSED, NULL);
    }
    rt_lock_hush(r, lock);
    struct rt_more *more = rt_more_of(lock);
    if (fn != NULL && more == NULL)
        more = rt_more_new(r, lock);
    if (fn != NULL && more == NULL)
        rv = ROTA_NOMEM; /* let go all the same: the handle is consumed */
    if (more != NULL) {
        more->on_released = fn;
        more->arg = arg;
    }
    rt_lock_release(r, lock);
    leave_to_keeper(r);
    return rv == 0 ? 0 : rt_fail(r, rv, NULL);
}

/* ---- rota_check_async --------------------------------------------------- */

struct checking {
    struct rt_request rq; /* first */
    struct rt_callback callback;
    struct rota_lock *lock;
    rota_done_fn *fn;
    void *arg;
    uint64_t number;
    int err;
    char errmsg[RT_ERRMSG_SIZE];
};

static void tell_checked(struct rota *r, struct rt_callback *cb)
{
    struct checking *c = (struct checking *)(void *)((char *)cb -
                                                     offsetof(struct checking, callback));

    if (c->err == 0 && rt_session_is_over(r, c->rq.op.change.session))
        c->err = ROTA_LOST;
    rt_fail_waiter(r->serial, c->err, c->errmsg);
    const struct rota *before = rt_callback_begin(r);
    c->fn(c->arg, c->err);
    rt_callback_end(r, before);
    rt_free(c);
}

static void checked(struct rt_dispatch *d, struct rt_request *rq)
{
    struct checking *c = (struct checking *)(void *)rq;

    c->err = rt_lock_changed(rt_client_of(d), c->lock, c->number, &rq->op);
    if (c->err != 0 && c->err == d->err)
        memcpy(c->errmsg, d->errmsg, sizeof(c->errmsg));
    rt_callback_queue(rt_client_of(d), &c->callback);
}

int rota_check_async(struct rota_lock *lock, rota_done_fn *fn, void *arg)
{
    int rv = rt_client_check(lock != NULL ? lock->client : NULL, false);

    if (rv != 0)
        return rv;
    struct rota *r = lock->client;
    if (fn == NULL)
        return rt_fail(r, ROTA_INVALID, "rota_check_async needs a function to call");
    rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    struct checking *c = rt_alloc(sizeof(*c));
    if (c == NULL) {
        rt_client_leave(r);
        return rt_fail(r, ROTA_NOMEM, NULL);
    }
    *c = (struct checking){.lock = lock, .fn = fn, .arg = arg, .callback = {.run = tell_checked}};
    if (lock->ask.state != RT_ASK_HELD) {
        c->err = ROTA_LOST;
        rt_callback_queue(r, &c->callback);
    } else {
        rt_lock_change_op(r, lock, &c->rq.op, 0, NULL);
        c->number = c->rq.op.change.number;
        c->rq.done = checked;
        rt_dispatch_send(&r->d, &c->rq);
    }
    leave_to_keeper(r);
    return 0;
}

/* ---- The program's own loop --------------------------------------------- */

int rota_fd(const struct rota *r)
{
    if (r == NULL || rt_forked(r))
        return -1;
    return r->outer_fd >= 0 ? r->outer_fd : rt_loop_fd(&r->loop);
}

int rota_timeout_ms(struct rota *r)
{
    if (r == NULL || rt_forked(r))
        return -1;
    rt_client_lock(r);
    int64_t next = rt_timers_next(&r->loop.timers);
    int64_t left = next == RT_NEVER ? -1 : next - rt_loop_now(&r->loop);
    if (r->callbacks != NULL || (next != RT_NEVER && left < 0))
        left = 0;
    rt_client_unlock(r);
    if (left < 0)
        return -1;
    left = (left + RT_MS - 1) / RT_MS;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

int rota_process(struct rota *r)
{
    int rv = rt_client_check(r, true);

    if (rv != 0)
        return rv;
    if (r->outer_fd < 0)
        return 0; /* the keeper does all this */
    rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    uint64_t count;
    ssize_t got = read(r->keeper.kick_fd, &count, sizeof(count));
    (void)got;
    rt_client_hold(r); /* rota_close waits until we are out */
    rt_client_turn(r);
    rt_callback_run_all(r);
    rt_client_leave(r);
    rt_client_drop(r);
    return 0;
}
