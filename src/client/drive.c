/* SPDX-License-Identifier: Apache-2.0 */
/* Who turns the loop: a call that waits for the engine, else the keeper.
 *
 *   keeper:  POLLING ── kicked by a call that drives ──▶ PARKED ── quiet ──▶ POLLING
 *               └──────── ready, or wanted ──▶ RUNNING ──────────────────────▲
 *
 * While the keeper polls, others use the mutex freely: timers go through a descriptor of the loop,
 * and whoever changes a watch turns the loop once itself, so nobody has to wake it. A call that
 * drives kicks it once and never waits for it; then it looks again every few milliseconds and
 * takes over when nobody has driven meanwhile.
 *
 * Whenever the mutex is free, at least one of these answers for the loop:
 *   - the driver: it turns the loop until it is told something, then names an heir (rt_drive_pass);
 *   - the heir, a waiter that was told LOOK: it drives when it has looked; if it is decided before
 *     that, or may drive no longer, it names the next (rt_drive_decline) before it goes or sleeps;
 *   - the keeper, polling, or running and about to look, or parked for a time. Parked without limit
 *     (patient) it answers for nothing: a driver does, and when no heir is found the keeper is
 *     woken;
 *   - while the keeper is inside a user's function: the deputy;
 *   - without a keeper and with nobody waiting: the program, by rota_process. */
#include "client/client.h"
#include "client/metrics.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PARK_FIRST (1 * RT_MS) /* a quiet millisecond: then it takes over */
#define PARK_MOST (8 * RT_MS)  /* the most that anything waits when the last driver has gone */

/* How many waiters to look at for one that drives on; the keeper is there for the rest. */
#define HEIRS_MOST 64

static void write_one(int fd)
{
    uint64_t one = 1;
    ssize_t sent = write(fd, &one, sizeof(one));
    (void)sent; /* EAGAIN: it is readable already */
}

static void read_all(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));
    (void)got;
}

/* ---- In and out --------------------------------------------------------- */

void rt_client_lock(struct rota *r)
{
    assert(!rt_client_mine(r)); /* it would wait for itself */
    pthread_mutex_lock(&r->mu);
    rt_client_seize(r);
    rt_loop_tick(&r->loop);
    r->d.err = 0; /* what an engine said earlier is not about this */
}

void rt_client_unlock(struct rota *r)
{
    assert(rt_client_mine(r));
    _Atomic uint32_t *wakes[RT_WAKES_MAX];
    uint32_t count = r->wake_count;

    for (uint32_t i = 0; i < count; i++)
        wakes[i] = r->wakes[i];
    r->wake_count = 0;
    rt_metrics_woke(r, count + r->wake_loop + r->wake_kick);
    /* Descriptors before: afterwards they may be closed, and others opened in their place. */
    if (r->wake_loop)
        rt_loop_wake(&r->loop);
    if (r->wake_kick)
        write_one(r->keeper.kick_fd);
    r->wake_loop = r->wake_kick = false;
    atomic_store_explicit(&r->holder, 0, memory_order_relaxed);
    pthread_mutex_unlock(&r->mu);
    for (uint32_t i = 0; i < count; i++)
        rt_futex_wake(wakes[i]);
}

static void notice_interrupt(struct rota *r)
{
    uint32_t interrupts = atomic_load(&r->interrupts);

    if (interrupts == r->interrupts_seen)
        return;
    r->interrupts_seen = interrupts;
    for (struct rt_waiter *w = r->waiters; w != NULL; w = w->next)
        rt_wait_look(r, w, RT_WAIT_LOOK);
}

static bool parts(struct rota *r)
{
    struct rt_conn *conn = r->d.conn;
    return conn != NULL && conn->engine->parting != NULL && conn->engine->parting(conn);
}

void rt_client_settle(struct rota *r)
{
    assert(rt_client_mine(r));
    rt_dispatch_drain(&r->d);
    while (rt_hunt_go_on(r))
        rt_dispatch_drain(&r->d);
    if (r->closer != NULL && rt_desk_quiet(&r->d.desk) && !parts(r))
        rt_wait_done(r, r->closer, 0);
}

void rt_client_turn(struct rota *r)
{
    assert(rt_client_mine(r));
    rt_loop_turn(&r->loop, rt_dispatch_timer, &r->d);
    rt_client_settle(r);
    notice_interrupt(r);
    /* This turn may have swallowed the wake-up that was meant for the driver in its poll. */
    if (r->driver_polls && atomic_load(&r->driver->word) != RT_WAIT_POLLING)
        r->wake_loop = true;
}

void rt_client_leave(struct rota *r)
{
    rt_client_settle(r);
    rt_client_leave_settled(r);
}

void rt_client_leave_settled(struct rota *r)
{
    for (;;) {
        if (r->loop.dirty)
            rt_client_turn(r); /* somebody may be polling with the old watches */
        if (rt_callback_sends_later(r))
            rt_loop_arm_timer(&r->loop);
        else
            rt_loop_arm(&r->loop); /* sends; what a socket does not take at once makes it dirty */
        if (!r->loop.dirty)
            break;
        rt_client_settle(r);
    }
    rt_client_unlock(r);
}

/* ---- Drivers ------------------------------------------------------------ */

static bool waits_for_engine(const struct rt_waiter *w)
{
    const struct rt_ask *ask = w->ask;

    if (ask == NULL || ask->state != RT_ASK_QUEUED || ask->ticket != NULL)
        return true;
    return !rt_line_is_held(ask->line); /* else somebody here lets go of it */
}

bool rt_may_drive(const struct rota *r, const struct rt_waiter *w)
{
    assert(rt_client_mine(r));
    if (r->driver != NULL)
        return false;
    return r->keeper.state == RT_KEEPER_NONE || r->keeper.busy || waits_for_engine(w);
}

void rt_drive_pass(struct rota *r)
{
    assert(rt_client_mine(r));
    int looked = 0;

    if (r->driver != NULL || r->heir != NULL)
        return;
    for (struct rt_waiter *w = r->waiters; w != NULL && looked < HEIRS_MOST; w = w->next, looked++)
        if (rt_may_drive(r, w)) {
            r->heir = w;
            rt_wait_look(r, w, RT_WAIT_LOOK);
            return;
        }
    if (r->keeper.patient)
        rt_keeper_want(r);
}

void rt_drive_decline(struct rota *r, const struct rt_waiter *w)
{
    assert(rt_client_mine(r));
    if (r->heir != w)
        return;
    r->heir = NULL;
    rt_drive_pass(r);
}

void rt_drive(struct rota *r, struct rt_waiter *w)
{
    assert(rt_client_mine(r));
    assert(r->driver == NULL); /* one at a time */
    struct pollfd pfd = {.fd = rt_loop_fd(&r->loop), .events = POLLIN};

    r->driver = w;
    r->heir = NULL;
    r->drives++;
    if (r->keeper.state == RT_KEEPER_POLLING) {
        r->keeper.state = RT_KEEPER_RUNNING; /* one kick is enough */
        r->wake_kick = true;
    }
    while (atomic_load(&w->word) == RT_WAIT_AWAKE && w->epoch == atomic_load(&r->interrupts)) {
        if (r->loop.dirty) {
            rt_client_turn(r);
            continue;
        }
        uint32_t word = RT_WAIT_AWAKE;
        if (!atomic_compare_exchange_strong(&w->word, &word, RT_WAIT_POLLING))
            break;
        r->driver_polls = true;
        rt_client_leave(r);
        poll(&pfd, 1, -1);
        rt_client_lock(r);
        r->driver_polls = false;
        word = RT_WAIT_POLLING;
        atomic_compare_exchange_strong(&w->word, &word, RT_WAIT_AWAKE);
        rt_client_turn(r);
    }
    r->driver = NULL;
    rt_drive_pass(r);
}

/* ---- The keeper --------------------------------------------------------- */

void rt_keeper_want(struct rota *r)
{
    assert(rt_client_mine(r));
    struct rt_keeper *k = &r->keeper;

    if (k->state == RT_KEEPER_NONE || k->state == RT_KEEPER_POLLING) {
        r->wake_kick = true; /* without a keeper: rota_fd becomes readable */
        if (k->state == RT_KEEPER_POLLING)
            k->state = RT_KEEPER_RUNNING; /* it looks at everything before it polls again */
    } else if (k->state == RT_KEEPER_PARKED) {
        atomic_fetch_add(&k->word, 1);
        if (r->wake_count < RT_WAKES_MAX)
            r->wakes[r->wake_count++] = &k->word;
        else
            rt_futex_wake(&k->word);
    }
}

static void keeper_poll(struct rota *r)
{
    assert(rt_client_mine(r));
    struct rt_keeper *k = &r->keeper;
    struct pollfd pfds[2] = {
        {.fd = rt_loop_fd(&r->loop), .events = POLLIN},
        {.fd = k->kick_fd, .events = POLLIN},
    };

    if (r->loop.dirty) {
        rt_client_turn(r);
        return;
    }
    k->state = RT_KEEPER_POLLING;
    rt_client_leave(r);
    poll(pfds, 2, -1);
    if (pfds[1].revents != 0)
        read_all(k->kick_fd);
    rt_client_lock(r);
    k->state = RT_KEEPER_RUNNING;
    if (pfds[0].revents != 0 && r->driver == NULL)
        rt_client_turn(r);
}

/* Leaves the loop to callers for *PARK ns, and the next time for longer. */
static void keeper_park(struct rota *r, int64_t *park)
{
    assert(rt_client_mine(r));
    struct rt_keeper *k = &r->keeper;
    const struct rt_waiter *driver = r->driver;
    uint32_t word = atomic_load(&k->word);

    k->state = RT_KEEPER_PARKED;
    k->drives_seen = r->drives;
    /* A call that has driven this long goes on for a while: it wakes us when it stops. */
    k->patient = driver != NULL && *park > PARK_MOST;
    int64_t timeout = k->patient ? -1 : *park;
    rt_client_leave(r);
    rt_futex_wait(&k->word, word, timeout);
    rt_client_lock(r);
    k->state = RT_KEEPER_RUNNING;
    k->patient = false;
    if (atomic_load(&k->word) != word)
        k->drives_seen = r->drives; /* wanted: not to wait for quiet */
    bool same = driver != NULL && r->driver == driver && r->drives == k->drives_seen;
    *park = *park < PARK_MOST ? *park * 2 : same ? PARK_MOST + 1 : PARK_MOST;
}

static void *keeper_main(void *arg)
{
    struct rota *r = arg;
    struct rt_keeper *k = &r->keeper;
    int64_t park = PARK_FIRST;

    rt_client_lock(r);
    while (!k->stop) {
        if (r->callbacks != NULL) {
            rt_callback_run_all(r);
        } else if (r->driver != NULL || r->drives != k->drives_seen) {
            keeper_park(r, &park);
        } else {
            keeper_poll(r);
            park = PARK_FIRST;
        }
    }
    rt_callback_run_all(r);
    k->state = RT_KEEPER_NONE;
    rt_client_unlock(r);
    return NULL;
}

int rt_keeper_start(struct rota *r)
{
    assert(r->keeper.state == RT_KEEPER_NONE);
    sigset_t all, old;

    sigfillset(&all);
    r->keeper.state = RT_KEEPER_RUNNING;
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's signals are not for our thread */
    int rv = pthread_create(&r->keeper.thread, NULL, keeper_main, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rv == 0) {
        pthread_setname_np(r->keeper.thread, "rota-keeper");
        return 0;
    }
    r->keeper.state = RT_KEEPER_NONE;
    return rt_fail(NULL, ROTA_INTERNAL, "no thread could be started for the client: %s",
                   strerror(rv));
}

void rt_keeper_stop(struct rota *r)
{
    rt_client_lock(r);
    r->keeper.stop = true;
    rt_keeper_want(r);
    rt_client_unlock(r);
    pthread_join(r->keeper.thread, NULL);
}
