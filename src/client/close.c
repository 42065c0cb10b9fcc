/* SPDX-License-Identifier: Apache-2.0 */
/* Closing clients: callbacks first, then everybody is told, then the engine, then the memory. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"

#include <assert.h>
#include <unistd.h>

#define CLOSING_TURNS 4 /* watches end in the turn after they were stopped */
#define COURTESY_MS 300 /* a busy database needs a few; more would be noticed by whoever waits */

/* Children of a fork meanwhile are still told to forget the connection, until it has nothing open:
 * else they could keep the session alive. Not under the lock that forks wait for: engines have
 * their own. */
void rt_client_disconnect(struct rota *r)
{
    struct rt_conn *conn = r->d.conn;

    if (conn == NULL)
        return;
    conn->engine->close(conn);
    rt_fork_hold();
    r->d.conn = NULL;
    rt_fork_go_on();
    rt_free(conn);
}

void rt_client_fini(struct rota *r)
{
    assert(rt_client_mine(r));
    for (int i = 0; i < CLOSING_TURNS; i++)
        rt_loop_turn(&r->loop, rt_dispatch_timer, &r->d);
    rt_observer_fini(r);
    rt_hunting_fini(r);
    rt_dispatch_fini(&r->d);
    rt_handle_fini(r);
    if (r->outer_fd >= 0)
        close(r->outer_fd);
    close(r->keeper.kick_fd);
    rt_loop_fini(&r->loop);
    pthread_mutex_destroy(&r->mu);
}

void rt_client_free(struct rota *r)
{
    rt_metrics_free(r->d.metrics);
    rt_free(r->label);
    rt_free(r->shown_url);
    rt_free(r);
}

struct closer {
    struct rt_timer_call timer; /* first */
    struct rt_waiter w;
    struct rota *r;
};

static void closing_over(struct rt_timer_call *call, int64_t now)
{
    struct closer *c = (struct closer *)(void *)call;

    (void)now;
    rt_wait_done(c->r, &c->w, ROTA_TIMEOUT);
}

/* Without a ttl the session ends with its connection, and all its tickets with it: taking them out
 * first is only a courtesy to whoever is next, who would otherwise have to find out. */
static int64_t patience(const struct rota *r)
{
    uint32_t ms = r->call_ms;

    if ((rota_caps(r) & ROTA_CAP_TTL) == 0 && ms > COURTESY_MS)
        ms = COURTESY_MS;
    return ms * RT_MS;
}

/* Waits until all tickets have left, for call_ms at most; enters with the mutex, returns without. */
static void wait_quiet(struct rota *r)
{
    assert(rt_client_mine(r));
    struct closer c = {.r = r, .timer = {.timer = {.kind = RT_TIMER_CALL}, .fire = closing_over}};

    rt_wait_init(r, &c.w, NULL, NULL);
    if (rt_loop_reserve(&r->loop, 1) != 0) {
        rt_client_leave(r); /* no memory for patience */
        return;
    }
    rt_timers_start(&r->loop.timers, &c.timer.timer, rt_loop_now(&r->loop) + patience(r));
    r->closer = &c.w;
    rt_wait(r, &c.w);
    rt_client_lock(r);
    r->closer = NULL;
    rt_timers_stop(&r->loop.timers, &c.timer.timer);
    rt_loop_unreserve(&r->loop, 1);
    rt_client_unlock(r);
}

/* Whatever still waits is told; whoever waits for a release only knows that it was asked for. */
static void dismiss(struct rota *r)
{
    assert(rt_client_mine(r));
    while (r->waiters != NULL) {
        struct rt_waiter *w = r->waiters;
        if (w->ask != NULL)
            rt_lock_of(w->ask)->waiter = NULL;
        rt_wait_done(r, w, w->ask != NULL ? ROTA_UNKNOWN : ROTA_CLOSED);
    }
}

static void wait_empty(struct rota *r)
{
    assert(!rt_client_mine(r)); /* whoever is inside needs it to leave */
    uint32_t inside = atomic_fetch_or(&r->inside, RT_INSIDE_CLOSING) | RT_INSIDE_CLOSING;

    while (inside != RT_INSIDE_CLOSING) {
        rt_futex_wait(&r->inside, inside, -1);
        inside = atomic_load(&r->inside);
    }
}

/* Callbacks that wait to be run get their turn before anything is taken away; with the mutex. */
static void run_queued(struct rota *r)
{
    assert(rt_client_mine(r));
    while (r->callbacks != NULL || r->telling) {
        if ((r->flags & ROTA_NO_KEEPER) != 0 && !r->telling) {
            rt_callback_run_all(r);
            continue;
        }
        uint32_t flushed = atomic_load(&r->flushed);
        rt_keeper_want(r);
        rt_client_leave(r);
        rt_futex_wait(&r->flushed, flushed, -1);
        rt_client_lock(r);
    }
}

static void run_pending(struct rota *r)
{
    if ((r->flags & ROTA_NO_KEEPER) != 0) {
        rt_client_lock(r);
        rt_callback_run_all(r);
        rt_client_unlock(r);
    } else {
        rt_keeper_stop(r);
        rt_deputy_stop(r);
    }
}

/* Handles that were held to the end, or whose release was never confirmed. */
static void free_handles(struct rota *r)
{
    assert(rt_client_mine(r));
    while (r->gone != NULL) {
        struct rota_lock *lock = r->gone;
        r->gone = rt_lock_of_next(lock);
        rt_handle_free(r, lock);
    }
    for (size_t i = 0; i < r->d.names.size; i++)
        for (struct rt_line *line = r->d.names.buckets[i]; line != NULL; line = line->hash_next)
            while (line->holders != NULL) {
                struct rt_ask *ask = line->holders;
                line->holders = ask->next;
                rt_handle_free(r, rt_lock_of(ask));
            }
}

void rota_close(struct rota *r)
{
    if (r == NULL || rt_forked(r))
        return; /* a child's copy stays as it is: to touch it could touch the parent's connection */
    if (rt_callback_inside(r)) {
        rt_log(r, ROTA_LOG_ERROR, "rota_close was called inside a callback: ignored");
        return;
    }
    rt_client_lock(r);
    r->closing = true;
    run_queued(r);
    rt_dispatch_close(&r->d);
    for (struct rt_waiter *w = r->waiters; w != NULL; w = w->next)
        rt_wait_look(r, w, RT_WAIT_LOOK);
    wait_quiet(r);
    rt_client_lock(r);
    rt_client_disconnect(r);
    rt_fork_remove(r);
    rt_dispatch_abort(&r->d);
    dismiss(r);
    rt_client_unlock(r);
    run_pending(r);
    wait_empty(r);
    rt_client_seize(r);
    free_handles(r);
    rt_client_fini(r);
    rt_client_free(r);
}
