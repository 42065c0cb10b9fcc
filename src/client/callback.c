/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks: queued under the mutex, run without it, each exactly once (I9). */
#include "client/client.h"

#include "base/bug.h"
#include "client/metrics.h"

#include <assert.h>

/* What the user's functions ask for is sent together if they are quick: a system call for each would
 * cost them and the server more than the asking. A slow one is recognised only when it is
 * over, so the row before it must have been quick; the deputy then sends what it asked for. */
#define QUICK_NS (50 * RT_MS / 1000)
#define QUICK_ROW 8
#define TOGETHER_MOST 32 /* the server should work while the rest are told */

static _Thread_local const struct rota *inside;

void rt_callback_queue(struct rota *r, struct rt_callback *cb)
{
    assert(rt_client_mine(r));
    assert(cb->run != NULL);
    if (cb->queued)
        return;
    cb->queued = true;
    cb->next = NULL;
    if (r->callbacks == NULL)
        r->callbacks = cb;
    else
        r->callbacks_tail->next = cb;
    r->callbacks_tail = cb;
    rt_keeper_want(r);
}

void rt_callback_drop(struct rota *r, struct rt_callback *cb)
{
    assert(rt_client_mine(r));
    struct rt_callback *before = NULL, *at = r->callbacks;

    if (!cb->queued)
        return;
    for (; at != cb; at = at->next)
        before = at;
    if (before != NULL)
        before->next = cb->next;
    else
        r->callbacks = cb->next;
    if (r->callbacks_tail == cb)
        r->callbacks_tail = before;
    cb->queued = false;
}

void rt_callback_run_all(struct rota *r)
{
    assert(rt_client_mine(r));
    if (r->telling)
        return; /* another thread, in rota_process, runs these too */
    r->telling = true;
    while (r->callbacks != NULL) {
        struct rt_callback *cb = r->callbacks;
        r->callbacks = cb->next;
        cb->queued = false;
        cb->run(r, cb);
    }
    r->telling = false;
    atomic_fetch_add(&r->flushed, 1);
    if (r->closing)
        rt_futex_wake(&r->flushed);
}

bool rt_callback_sends_later(struct rota *r)
{
    if (inside != r || r->quick.row < QUICK_ROW || ++r->quick.unsent >= TOGETHER_MOST) {
        r->quick.unsent = 0;
        return false;
    }
    return true;
}

bool rt_callback_inside(const struct rota *r)
{
    return inside == r;
}

const struct rota *rt_callback_begin(struct rota *r)
{
    assert(rt_client_mine(r));
    const struct rota *before = inside;

    inside = r;
    r->quick.began_at = rt_loop_now(&r->loop);
    r->keeper.busy = true;
    rt_drive_pass(r);   /* whoever waits turns the loop meanwhile ... */
    rt_deputy_watch(r); /* ... or, if it takes long, the deputy */
    rt_client_leave(r);
    return before;
}

void rt_callback_end(struct rota *r, const struct rota *before)
{
    assert(!rt_client_mine(r)); /* the function ran without it */
    rt_client_lock(r);
    bool quick = rt_loop_now(&r->loop) - r->quick.began_at < QUICK_NS;
    r->quick.row = quick ? r->quick.row + (r->quick.row < QUICK_ROW) : 0;
    r->keeper.busy = false;
    inside = before;
}

/* ---- Of locks ----------------------------------------------------------- */

static void tell_grant(struct rota *r, struct rt_more *more)
{
    struct rota_lock *lock = rt_lock_of(more->terms.ask);
    int err = more->unsafe ? ROTA_UNSAFE : lock->ask.err;
    rota_grant_fn *fn = more->on_grant;

    if (lock->ask.err != 0)
        more->doomed = true;
    /* The function before this one may have taken long, or the process stood still. */
    if (err == 0 && rt_desk_until(&r->d.desk, &lock->ask) <= rt_loop_tick(&r->loop))
        err = ROTA_LOST;
    if (more->passed_at != 0)
        rt_metrics_handed(r, more->passed_at);
    rt_fail_waiter(r->serial, err, more->errmsg);
    const struct rota *before = rt_callback_begin(r);
    fn(more->arg, err, err == 0 ? lock : NULL);
    if (RT_BUG(RT_BUG_DOUBLE_CALLBACK))
        fn(more->arg, err, err == 0 ? lock : NULL);
    rt_callback_end(r, before);
    if (err != 0 && lock->ask.err == 0)
        rt_lock_let_go(r, lock);
}

static void tell_wait(struct rota *r, struct rt_more *more, int err)
{
    rt_fail_waiter(r->serial, err, more->errmsg);
    const struct rota *before = rt_callback_begin(r);
    more->on_wait(more->lost_arg, err);
    rt_callback_end(r, before);
}

static void tell_lost(struct rota *r, struct rt_more *more)
{
    struct rota_lock *lock = rt_lock_of(more->terms.ask);
    int reason = lock->ask.lost;

    const struct rota *before = rt_callback_begin(r);
    more->on_lost(lock, reason, more->lost_arg);
    rt_callback_end(r, before);
}

static void tell_released(struct rota *r, struct rt_more *more)
{
    int err = more->terms.ask->err;

    more->doomed = true;
    rt_fail_waiter(r->serial, err, more->errmsg);
    const struct rota *before = rt_callback_begin(r);
    more->on_released(more->arg, err);
    rt_callback_end(r, before);
}

/* Somebody released LOCK while its callback ran. */
static void release_now(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    rt_more_of(lock)->releases = false;
    rt_lock_hush(r, lock);
    if (lock->ask.state == RT_ASK_HELD || lock->ask.state == RT_ASK_LOST) {
        rt_metrics_release(r, lock);
    } else { /* rota_close was first */
        lock->ask.err = ROTA_CLOSED;
        rt_lock_released(r, lock);
    }
    rt_client_settle(r);
}

void rt_lock_callback(struct rota *r, struct rt_callback *cb)
{
    assert(rt_client_mine(r));
    struct rt_more *more = (struct rt_more *)(void *)((char *)cb -
                                                      offsetof(struct rt_more, callback));
    struct rota_lock *lock = rt_lock_of(more->terms.ask);
    uint8_t one = more->pending & (uint8_t)-more->pending; /* the lowest: they come in that order */

    more->pending = (uint8_t)(more->pending & ~one);
    more->running = true;
    if (one == RT_PENDING_AWAY || one == RT_PENDING_BACK)
        tell_wait(r, more, one == RT_PENDING_AWAY ? ROTA_UNREACHABLE : 0);
    else if (one == RT_PENDING_GRANT)
        tell_grant(r, more);
    else if (one == RT_PENDING_LOST)
        tell_lost(r, more);
    else if (one == RT_PENDING_RELEASED)
        tell_released(r, more);
    more->running = false;
    if (more->releases)
        release_now(r, lock);
    else if (more->doomed)
        rt_handle_free(r, lock);
    else if (more->pending != 0)
        rt_callback_queue(r, cb);
    else
        rt_more_trim(r, lock);
}
