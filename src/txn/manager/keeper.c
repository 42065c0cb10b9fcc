/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: the thread that turns the loop, drives due transactions, and calls back. */
#include "txn/manager/tcc.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- Whoever waits -------------------------------------------------------------- */

static _Thread_local const struct rota_txns *inside;

bool rt_txns_inside(const struct rota_txns *m)
{
    return inside == m;
}

void rt_txns_wake(struct rota_txns *m)
{
    if (atomic_load(&m->asleep) && atomic_exchange(&m->asleep, false))
        rt_loop_wake(&m->loop); /* else it looks again before it polls */
}

void rt_txns_due(struct rota_txn *t)
{
    struct rota_txns *m = t->m;

    if (t->due)
        return;
    t->due = true;
    t->next_due = NULL;
    *m->due_tail = t;
    m->due_tail = &t->next_due;
    rt_txns_wake(m);
}

void rt_txns_answer(struct rota_txns *m, struct rt_caller *call, int err, const char *line)
{
    call->err = err;
    snprintf(call->line, sizeof(call->line), "%s", err != 0 ? line : "");
    struct rt_caller **end = &m->answered;
    while (*end != NULL)
        end = &(*end)->next;
    call->next = NULL;
    *end = call;
}

void rt_txns_notice(struct rota_txns *m, const struct rt_txn_id *id, const char *resource,
                    const char *line)
{
    struct rt_notice *n = m->opts.attention != NULL ? rt_alloc(sizeof(*n)) : NULL;
    char text[RT_TXN_ID_TEXT] = "";

    if (id != NULL)
        rt_txn_id_text(id, text);
    rt_txns_log(m, ROTA_LOG_WARN, "%s%s%s%s: %s", id != NULL ? "transaction " : "", text,
                id != NULL ? ", " : "", resource, line);
    if (n == NULL)
        return; /* nobody wants it, or there is no memory: the log has it */
    memcpy(n->id, text, sizeof(text));
    snprintf(n->resource, sizeof(n->resource), "%s", resource);
    snprintf(n->line, sizeof(n->line), "%s", line);
    n->next = m->notices;
    m->notices = n;
}

int rt_txns_await(uint64_t serial, struct rt_caller *call)
{
    while (sem_wait(call->answered) != 0)
        assert(errno == EINTR);
    sem_destroy(call->answered);
    return call->err != 0 ? rt_txns_fail_late(serial, call->err, call->line) : 0;
}

int rt_txns_wait(struct rota_txns *m, struct rt_caller *call)
{
    uint64_t serial = m->serial; /* after an error M may be closed by another thread */

    pthread_mutex_unlock(&m->mu);
    return rt_txns_await(serial, call);
}

/* On the worker's thread. */
static void errand_done(struct rt_errand *e)
{
    struct rota_txns *m = ((struct rt_asker *)e->user)->m;

    pthread_mutex_lock(&m->mu);
    e->next = m->back;
    m->back = e;
    rt_txns_wake(m);
    pthread_mutex_unlock(&m->mu);
}

int rt_txns_send(struct rota_txns *m, struct rt_resource *r, struct rt_errand *e)
{
    e->done = errand_done;
    int rv = rt_resource_ask(r, e);
    m->errands += rv == 0;
    return rv;
}

/* ---- The thread ------------------------------------------------------------------ */

#define LOOK_EVERY 4 /* rounds that follow each other */

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    assert(false); /* all timers here have functions */
}

static void take_errands(struct rota_txns *m)
{
    while (m->back != NULL) {
        struct rt_errand *e = m->back;
        m->back = e->next;
        e->next = NULL;
        m->errands--;
        struct rt_asker *a = e->user;
        a->back(a, e);
    }
}

static void take_asks(struct rota_txns *m)
{
    if (m->asks != NULL || m->closing)
        rt_finish_send(m); /* so that whoever asks finds it done */
    while (m->asks != NULL) {
        struct rt_journal_op *op = m->asks;
        m->asks = op->next;
        op->next = NULL;
        rt_journal_submit(m->journal, op);
    }
}

static void drive_due(struct rota_txns *m)
{
    while (m->due != NULL) {
        struct rota_txn *t = m->due;
        m->due = t->next_due;
        if (m->due == NULL)
            m->due_tail = &m->due;
        t->due = false;
        rt_drive_go(t);
    }
}

static void tell(struct rt_caller *call)
{
    if (call->answered != NULL) {
        sem_post(call->answered); /* CALL is gone from now on */
        return;
    }
    call->fn(call->arg, call->err);
    rt_caller_free(call);
}

/* Without the mutex: the functions may make calls that do not wait, and whoever wakes up wants it first. */
static void call_back(struct rota_txns *m)
{
    while (m->notices != NULL) {
        struct rt_notice *n = m->notices;
        m->notices = n->next;
        pthread_mutex_unlock(&m->mu);
        m->opts.attention(m->opts.attention_arg, n->id, n->resource, n->line);
        rt_free(n);
        pthread_mutex_lock(&m->mu);
    }
    struct rt_caller *call = m->answered;
    m->answered = NULL;
    if (call == NULL)
        return;
    pthread_mutex_unlock(&m->mu);
    for (struct rt_caller *next; call != NULL; call = next) {
        next = call->next;
        tell(call);
    }
    pthread_mutex_lock(&m->mu);
}

/* Closing waits for what was begun here, not for what others left. */
static void see_closer(struct rota_txns *m)
{
    bool busy = false;

    if (m->closer == NULL)
        return;
    for (const struct rota_txn *t = m->txns; t != NULL; t = t->next)
        busy = busy || !t->core.adopted;
    if (busy && rt_loop_now(&m->loop) < m->close_by) {
        rt_timers_start(&m->loop.timers, &m->timer.timer, m->close_by);
        return;
    }
    rt_timers_stop(&m->loop.timers, &m->timer.timer);
    struct rt_caller *call = m->closer;
    m->closer = NULL;
    rt_txns_answer(m, call, 0, "");
}

/* One round: does what is due now. P: the loop and the service calls, as polled. Returns when those want the next
 * round. */
static int64_t round_of(struct rota_txns *m, const struct pollfd p[2])
{
    rt_calls_take(m);
    rt_loop_tick(&m->loop);
    if (p[0].revents != 0 || m->loop.dirty)
        rt_loop_turn(&m->loop, no_other, NULL);
    take_errands(m);
    rt_tcc_take(m);
    take_asks(m);
    drive_due(m);
    call_back(m);
    int64_t until = rt_tcc_http_turn(m, p[1].revents != 0);
    /* After both, for they release the mutex: whoever comes meanwhile finds the keeper awake, and does not wake it. */
    see_closer(m);
    rt_loop_arm(&m->loop);
    return until;
}

/* Closing did not wait for everything: still, everybody gets an answer, and every function is called. */
static void leave(struct rota_txns *m)
{
    pthread_mutex_lock(&m->front);
    m->left = true;
    pthread_mutex_unlock(&m->front);
    rt_calls_take(m);
    for (struct rota_txn *t = m->txns; t != NULL; t = t->next)
        rt_drive_leave(t);
    while (m->asking != NULL) {
        struct rt_caller *call = m->asking;
        m->asking = call->next;
        rt_txns_answer(m, call, ROTA_CLOSED, "the manager was closed before the journal answered");
    }
    call_back(m);
}

static bool was_handed(struct rota_txns *m)
{
    pthread_mutex_lock(&m->front);
    bool handed = m->handed != NULL;
    pthread_mutex_unlock(&m->front);
    return handed;
}

/* Until something is ready, or UNTIL. */
static void sleep_until(struct pollfd p[2], int64_t until)
{
    int64_t now = rt_loop_clock(), ms = until <= now ? 0 : (until - now) / RT_MS + 1;

    if (poll(p, 2, until == RT_NEVER || ms > INT_MAX ? -1 : (int)ms) < 0)
        p[0].revents = p[1].revents = POLLIN; /* look at both */
}

static void *keep(void *arg)
{
    struct rota_txns *m = arg;
    struct pollfd p[2] = {{.fd = rt_loop_fd(&m->loop), .events = POLLIN, .revents = POLLIN},
                          {.fd = -1, .events = POLLIN}};
    unsigned rounds = 0; /* since the last look at what is ready */

    inside = m;
    pthread_mutex_lock(&m->mu);
    while (!m->stop) {
        int64_t until = round_of(m, p);
        bool looks = ++rounds % LOOK_EVERY == 0; /* even if busy, keep nobody waiting */
        p[0].revents = p[1].revents = looks ? POLLIN : 0;
        bool again = m->due != NULL || m->asks != NULL || m->back != NULL || m->answered != NULL ||
                     m->service_back != NULL || m->notices != NULL || m->loop.dirty;
        if (again || m->stop)
            continue;
        p[1].fd = rt_tcc_http_fd(m);
        atomic_store(&m->asleep, true); /* before looking: whoever hands over later sees it */
        if (!was_handed(m)) { /* where something is every time, `rounds` must keep counting */
            rounds = 0;
            pthread_mutex_unlock(&m->mu);
            sleep_until(p, until);
            pthread_mutex_lock(&m->mu);
        }
        atomic_store(&m->asleep, false);
    }
    leave(m);
    pthread_mutex_unlock(&m->mu);
    rt_tcc_http_close(m);
    return NULL;
}

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    (void)call; /* the round that follows sees the closer */
    (void)now;
}

int rt_txns_start(struct rota_txns *m)
{
    sigset_t all, before;

    m->timer.fire = on_timer;
    if (rt_loop_reserve(&m->loop, 2) != 0) /* this and finish.c's */
        return ROTA_NOMEM;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the application's threads */
    int rv = pthread_create(&m->keeper, NULL, keep, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    m->running = rv == 0;
    if (m->running)
        pthread_setname_np(m->keeper, "rota-keeper");
    return rv == 0 ? 0 : ROTA_NOMEM;
}
