/* SPDX-License-Identifier: Apache-2.0 */
/* What the desk has to say about a lock goes to whoever waits for it, or to a callback. */
#include "client/client.h"
#include "client/metrics.h"
#include "core/reentry.h"

#include <assert.h>
#include <stdio.h>

void rt_lock_let_go(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    if (lock->ask.state != RT_ASK_HELD && lock->ask.state != RT_ASK_LOST)
        return; /* closed meanwhile */
    rt_lock_hush(r, lock);
    rt_desk_take_back(&r->d.desk, &lock->ask, rt_loop_now(&r->loop));
    r->d.again = true;
}

bool rt_session_is_over(struct rota *r, uint64_t session)
{
    assert(rt_client_mine(r));
    int64_t now = rt_loop_tick(&r->loop);

    return rt_desk_session(&r->d.desk) != session || !rt_desk_look(&r->d.desk, now);
}

/* Whether what W was told may be over by now. */
static bool is_late(const struct rt_waiter *w)
{
    return w->err == 0 && w->until != RT_NEVER && rt_loop_clock() >= w->until;
}

/* It may have been renewed since, or closed. The mutex is held. */
static int look(struct rota *r, struct rota_lock *const *locks, size_t n)
{
    int64_t now = rt_loop_tick(&r->loop);
    int err = 0;

    for (size_t i = 0; i < n; i++)
        if (rt_desk_until(&r->d.desk, &locks[i]->ask) <= now)
            err = r->closing && locks[i]->ask.state == RT_ASK_DONE ? ROTA_CLOSED : ROTA_LOST;
    for (size_t i = 0; i < n && err != 0; i++)
        rt_lock_let_go(r, locks[i]);
    return err;
}

/* As rt_wait, which R may not survive: whoever looks at something afterwards has to stay inside. */
static int wait_and_look(struct rota *r, struct rota_lock *const *locks, size_t n,
                         struct rt_waiter *w)
{
    rt_client_hold(r);
    rt_wait(r, w);
    int err = w->err;
    if (w->passed_at != 0)
        rt_metrics_handed(r, w->passed_at);
    if (is_late(w)) {
        rt_client_lock(r);
        err = look(r, locks, n);
        rt_client_leave(r);
    }
    rt_client_drop(r);
    return err;
}

int rt_lock_wait(struct rota *r, struct rota_lock *const *locks, size_t n, struct rt_waiter *w)
{
    assert(rt_client_mine(r));
    rt_client_settle(r);
    if (atomic_load_explicit(&w->word, memory_order_relaxed) != RT_WAIT_DONE)
        return wait_and_look(r, locks, n, w);
    /* Decided at once, with the mutex still ours: that keeps R. */
    int err = w->err;
    if (w->passed_at != 0)
        rt_metrics_handed(r, w->passed_at);
    if (is_late(w)) {
        err = look(r, locks, n);
        rt_client_settle(r);
    }
    rt_client_leave_settled(r);
    return err;
}

void rt_more_trim(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_more *more = rt_more_of(lock);

    if (more == NULL || more->running || more->pending != 0 || lock->ask.state != RT_ASK_HELD)
        return;
    if (r->d.metrics != NULL || more->terms.hold != 0 || more->terms.linger != 0 ||
        more->on_lost != NULL || more->on_released != NULL || more->terms.set != NULL)
        return;
    lock->ask.terms = NULL;
    rt_more_free(r, more);
}

/* The one behind the new holder will be served next: it should be awake by then. */
static void wake_next(struct rota *r, const struct rt_line *line)
{
    if (line->queue == NULL || !rt_line_is_held(line) || !rt_wait_spins())
        return;
    struct rt_waiter *w = rt_lock_of(line->queue)->waiter;
    if (w != NULL)
        rt_wait_look(r, w, RT_WAIT_NEXT);
}

static bool fence_went_back(struct rota *r, const struct rt_ask *ask)
{
    uint64_t hash = rt_names_hash(&r->d.names, ask->line->name);
    struct rt_fence_seen *seen = &r->fences[hash % RT_FENCES];

    if (seen->hash == hash && ask->fence < seen->fence)
        return true;
    *seen = (struct rt_fence_seen){hash, ask->fence};
    return false;
}

bool rt_lock_unsafe(struct rota *r, const struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    const struct rt_ask *ask = &lock->ask;

    if (!fence_went_back(r, ask))
        return false;
    rt_log(r, ROTA_LOG_ERROR, "unsafe: the fence of %s went back to %llu", ask->line->name,
           (unsigned long long)ask->fence);
    r->d.err = ROTA_UNSAFE;
    snprintf(r->d.errmsg, sizeof(r->d.errmsg),
             "the fence went back to %llu: the engine has forgotten grants; do not trust it",
             (unsigned long long)ask->fence);
    return true;
}

/* A grant that does not fence is none. Returns whether LOCK was such a one: then it is on its way back. */
static bool refuse_unsafe(struct rota *r, struct rota_lock *lock, struct rt_waiter *w)
{
    assert(rt_client_mine(r));
    if (lock->ask.err != 0 || lock->ask.mode != RT_EXCLUSIVE || !rt_lock_unsafe(r, lock))
        return false;
    if (w == NULL) { /* let go when its callback was told */
        rt_more_of(lock)->unsafe = true;
        return false;
    }
    rt_metrics_answered(r, lock, ROTA_UNSAFE);
    rt_wait_done(r, w, ROTA_UNSAFE);
    rt_lock_let_go(r, lock);
    return true;
}

/* The words of core/reentry.h. */
static const char *const reentry_faults[] = {
    [RT_REENTRY_FINE] = NULL,
    [RT_REENTRY_TERMS] =
        "this name is held already: a value or at_least_ms belongs to the first hold of it",
    [RT_REENTRY_UPGRADE] = "an upgrade from shared to exclusive is not possible: release first",
    [RT_REENTRY_TOO_OFTEN] = "this name was re-entered too often",
};

void rt_lock_explain(struct rota *r, const struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    if (lock->ask.err != ROTA_INVALID || r->d.err == ROTA_INVALID)
        return; /* the engine said why */
    const char *fault = reentry_faults[rt_reentry_why(&lock->ask, rt_loop_now(&r->loop))];
    if (fault == NULL)
        return;
    r->d.err = ROTA_INVALID;
    snprintf(r->d.errmsg, sizeof(r->d.errmsg), "%s", fault);
}

static void answered(struct rota *r, struct rota_lock *lock)
{
    struct rt_waiter *w = lock->waiter;
    struct rt_more *more = rt_more_of(lock);
    int err = lock->ask.err;

    lock->waiter = NULL;
    if (w != NULL && w->set) {
        rt_set_answered(r, w, err);
        return;
    }
    rt_lock_explain(r, lock);
    if (more != NULL) {
        more->terms.value = NULL; /* the ticket's copy: it may go before the hold does */
        rt_hunter_free(r, more);
    }
    if (refuse_unsafe(r, lock, w))
        return;
    rt_metrics_answered(r, lock, more != NULL && more->unsafe ? ROTA_UNSAFE : err);
    if (w == NULL) {
        if (more->id != 0)
            rt_ids_remove(&r->ids, more->id);
        more->id = 0;
        rt_more_explain(r, more, more->unsafe ? ROTA_UNSAFE : err);
        more->pending |= RT_PENDING_GRANT;
        rt_callback_queue(r, &more->callback);
        return;
    }
    struct rt_line *line = lock->ask.line;
    w->until = rt_desk_until(&r->d.desk, &lock->ask);
    if (err == 0)
        rt_more_trim(r, lock);
    else
        rt_handle_free(r, lock);
    rt_wait_done(r, w, err);
    if (err == 0)
        wake_next(r, line);
}

/* Its place in line is lost, or there again, while it waits. */
static void waits_on(struct rota *r, struct rota_lock *lock, unsigned news)
{
    assert(rt_client_mine(r));
    struct rt_more *more = rt_more_of(lock);
    const struct rt_conn *conn = r->d.conn;
    bool away = news == RT_NEWS_AWAY;

    if (away) {
        bool knows = conn != NULL && conn->engine->trouble != NULL;
        const char *why = knows ? conn->engine->trouble(conn) : NULL;
        r->d.err = ROTA_UNREACHABLE;
        snprintf(r->d.errmsg, sizeof(r->d.errmsg), "%.240s",
                 why != NULL ? why : "its session ended, or somebody broke it");
        rt_log(r, ROTA_LOG_WARN, "no place in line: %s: %s; waiting on", lock->ask.line->name,
               r->d.errmsg);
    } else {
        rt_log(r, ROTA_LOG_INFO, "in line again: %s", lock->ask.line->name);
    }
    if (more == NULL || more->on_wait == NULL)
        return;
    if (away)
        rt_more_explain(r, more, ROTA_UNREACHABLE);
    more->pending |= away ? RT_PENDING_AWAY : RT_PENDING_BACK;
    rt_callback_queue(r, &more->callback);
}

static void lost(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_more *more = rt_more_of(lock);

    rt_log(r, ROTA_LOG_WARN, "lost: %s, fence %llu: %s", lock->ask.line->name,
           (unsigned long long)lock->ask.fence,
           lock->ask.lost == ROTA_TIMEOUT ? "its hold_ms is over"
                                          : "the hold is not ours any more");
    rt_metrics_lost(r, lock);
    if (more == NULL || more->on_lost == NULL)
        return;
    more->pending |= RT_PENDING_LOST;
    rt_callback_queue(r, &more->callback);
}

void rt_lock_released(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_waiter *w = lock->waiter;
    struct rt_more *more = rt_more_of(lock);
    int err = lock->ask.err;

    rt_metrics_released(r, lock);
    if (w == NULL && more != NULL && more->on_released != NULL) {
        rt_more_explain(r, more, err);
        more->pending |= RT_PENDING_RELEASED;
        rt_callback_queue(r, &more->callback);
        return;
    }
    lock->waiter = NULL;
    rt_handle_free(r, lock);
    if (w != NULL)
        rt_wait_done(r, w, err);
}

static void on_news(struct rt_dispatch *d, struct rt_ask *ask, unsigned news)
{
    struct rota *r = rt_client_of(d);
    struct rota_lock *lock = rt_lock_of(ask);

    if ((news & RT_NEWS_AWAY) != 0)
        waits_on(r, lock, RT_NEWS_AWAY);
    if ((news & RT_NEWS_BACK) != 0)
        waits_on(r, lock, RT_NEWS_BACK);
    if ((news & RT_NEWS_ANSWERED) != 0)
        answered(r, lock);
    if ((news & RT_NEWS_LOST) != 0)
        lost(r, lock);
    if ((news & RT_NEWS_RELEASED) != 0)
        rt_lock_released(r, lock);
}

static void on_event(struct rt_dispatch *d, const struct rt_event *event)
{
    struct rota *r = rt_client_of(d);

    if (event->kind == RT_LINK)
        rt_log(r, ROTA_LOG_INFO, event->up ? "connected to %s" : "the connection to %s is gone",
               r->shown_url);
    else
        rt_observer_changed(r, event);
}

static void on_log(struct rt_dispatch *d, int level, const char *line)
{
    rt_log_line(rt_client_of(d), level, line);
}

static void on_forget(struct rt_dispatch *d, struct rt_line *line)
{
    if ((line->hash & RT_NAMES_MARK) != 0) /* its timer's place: acquire.c */
        rt_loop_unreserve(d->loop, 1);
}

/* A check may be under way in another thread, and its answer comes back to the handle. */
static void on_gone(struct rt_dispatch *d, struct rt_ask *ask)
{
    struct rota *r = rt_client_of(d);
    struct rota_lock *lock = rt_lock_of(ask);
    struct rt_more *more = rt_more_of(lock);

    if (more != NULL) {
        rt_timers_stop(&r->loop.timers, &more->terms.timer);
        rt_callback_drop(r, &more->callback);
    }
    if (more != NULL && more->releases)
        return; /* freed when that is over */
    ask->next = r->gone != NULL ? &r->gone->ask : NULL;
    r->gone = lock;
}

const struct rt_dispatch_hooks rt_client_hooks = {
    .news = on_news,
    .event = on_event,
    .log = on_log,
    .forget = on_forget,
    .gone = on_gone,
};
