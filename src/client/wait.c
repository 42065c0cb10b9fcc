/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting calls: asleep on a word of their own, spinning when they are next, or driving.
 *
 *          CAS              told (LOOK, NEXT, DONE)
 *   AWAKE ────▶ ASLEEP ────────────────┐
 *     ▲ └─────▶ POLLING ───────────────┤
 *     └──────── LOOK, NEXT ◀───────────┴──▶ DONE
 *
 * Words are told under the mutex; only their owner moves them from AWAKE to ASLEEP or POLLING and
 * back, without it. */
#include "client/client.h"
#include "client/metrics.h"

#include <assert.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Waking a thread costs about 20 us: it is cheaper to stay awake for a hand-over that comes sooner. How
 * long that pays is learned: on a busy machine a spinning thread only keeps the holder from running. */
#define SPIN_LEAST_NS 500
#define SPIN_MOST_NS 50000
#define SPIN_STEPS 8 /* looks between two looks at the clock */

void rt_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec ts = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &ts, NULL, 0);
}

void rt_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void rt_wait_init(struct rota *r, struct rt_waiter *w, struct rt_ask *ask,
                  void (*cancel)(struct rota *r, struct rt_waiter *w, int err))
{
    assert(rt_client_mine(r));
    atomic_init(&w->word, RT_WAIT_AWAKE);
    w->epoch = atomic_load_explicit(&r->interrupts, memory_order_relaxed);
    w->next = w->prev = NULL;
    w->ask = ask;
    w->cancel = cancel;
    w->err = 0;
    w->listed = w->set = false;
    w->user = NULL;
    w->until = RT_NEVER;
    w->passed_at = 0;
    w->errmsg[0] = '\0';
}

static void list(struct rota *r, struct rt_waiter *w)
{
    assert(!w->listed && w->prev == NULL);
    w->listed = true;
    w->next = r->waiters;
    if (w->next != NULL)
        w->next->prev = w;
    r->waiters = w;
}

static void unlist(struct rota *r, struct rt_waiter *w)
{
    if (!w->listed)
        return;
    w->listed = false;
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        r->waiters = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->next = w->prev = NULL;
}

/* Wakes the owner of a word that was OLD. From then on its stack may be gone: only the address is
 * used, and waking nobody, or somebody else for nothing, is harmless. */
static void rouse(struct rota *r, struct rt_waiter *w, uint32_t old)
{
    assert(r->wake_count <= RT_WAKES_MAX);
    if (old == RT_WAIT_POLLING)
        r->wake_loop = true;
    else if (old == RT_WAIT_ASLEEP && r->wake_count < RT_WAKES_MAX)
        r->wakes[r->wake_count++] = &w->word;
    else if (old == RT_WAIT_ASLEEP) {
        rt_futex_wake(&w->word);
        rt_metrics_woke(r, 1);
    }
}

void rt_wait_look(struct rota *r, struct rt_waiter *w, enum rt_wait_word word)
{
    assert(rt_client_mine(r));
    uint32_t old = atomic_load(&w->word);

    if (old == RT_WAIT_DONE || old == RT_WAIT_LOOK)
        return;
    if (word == RT_WAIT_NEXT) { /* worth a word only to sleepers */
        old = RT_WAIT_ASLEEP;
        if (!atomic_compare_exchange_strong(&w->word, &old, RT_WAIT_NEXT))
            return;
    } else {
        old = atomic_exchange(&w->word, word);
    }
    rouse(r, w, old);
}

void rt_wait_done(struct rota *r, struct rt_waiter *w, int err)
{
    assert(rt_client_mine(r));
    w->err = err;
    const char *said = err != 0 ? rt_engine_said(r, err) : NULL;
    if (said != NULL)
        __builtin_memcpy(w->errmsg, said, sizeof(w->errmsg));
    unlist(r, w);
    rouse(r, w, atomic_exchange(&w->word, RT_WAIT_DONE));
    rt_drive_decline(r, w); /* it goes without looking at the loop */
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void spin(struct rota *r, struct rt_waiter *w)
{
    uint32_t budget = atomic_load_explicit(&r->spin_ns, memory_order_relaxed);
    int64_t end = clock_ns() + budget;
    bool told = false;

    do {
        for (int i = 0; i < SPIN_STEPS && !told; i++) {
            told = atomic_load_explicit(&w->word, memory_order_relaxed) != RT_WAIT_AWAKE;
            if (!told)
                pause_cpu();
        }
    } while (!told && clock_ns() < end);
    budget = told ? budget * 2 : budget / 2;
    if (budget < SPIN_LEAST_NS)
        budget = SPIN_LEAST_NS;
    if (budget > SPIN_MOST_NS)
        budget = SPIN_MOST_NS;
    atomic_store_explicit(&r->spin_ns, budget, memory_order_relaxed);
}

/* Sleeps until told something; returns whether it is decided. */
static bool sleep_until_told(struct rota *r, struct rt_waiter *w, bool next)
{
    for (;;) {
        if (next)
            spin(r, w);
        uint32_t word = RT_WAIT_AWAKE;
        if (atomic_compare_exchange_strong(&w->word, &word, RT_WAIT_ASLEEP))
            word = RT_WAIT_ASLEEP;
        while (word == RT_WAIT_ASLEEP) {
            rt_futex_wait(&w->word, RT_WAIT_ASLEEP, -1);
            word = atomic_load(&w->word);
        }
        if (word != RT_WAIT_NEXT)
            return word == RT_WAIT_DONE;
        next = atomic_compare_exchange_strong(&w->word, &word, RT_WAIT_AWAKE);
    }
}

bool rt_wait_spins(void)
{
    static _Atomic int cpus;
    int n = atomic_load_explicit(&cpus, memory_order_relaxed);

    if (n == 0) {
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
        atomic_store_explicit(&cpus, n, memory_order_relaxed);
    }
    return n > 1;
}

/* Whether the hold it waits for is here, and it is the next to get it. */
static bool is_next(const struct rt_waiter *w)
{
    const struct rt_ask *ask = w->ask;

    return ask != NULL && ask->state == RT_ASK_QUEUED && ask->line->queue == ask &&
           rt_line_is_held(ask->line) && rt_wait_spins();
}

static bool ended_early(struct rota *r, struct rt_waiter *w)
{
    uint32_t epoch = atomic_load(&r->interrupts);
    bool interrupted = w->epoch != epoch;

    w->epoch = epoch; /* told once is enough, even if it cannot be ended */
    if (w->cancel == NULL)
        return false;
    bool closed = r->closing && w->ask == NULL; /* the desk answers asks itself */
    if (!interrupted && !closed)
        return false;
    void (*cancel)(struct rota *, struct rt_waiter *, int) = w->cancel;
    w->cancel = NULL;
    cancel(r, w, interrupted ? ROTA_CANCELED : ROTA_CLOSED);
    rt_client_settle(r);
    return true;
}

void rt_client_hold(struct rota *r)
{
    atomic_fetch_add(&r->inside, 1);
}

void rt_client_drop(struct rota *r)
{
    /* R may be freed by rota_close as soon as the last one is out. */
    if (atomic_fetch_sub(&r->inside, 1) == (RT_INSIDE_CLOSING | 1))
        rt_futex_wake(&r->inside);
}

void rt_wait(struct rota *r, struct rt_waiter *w)
{
    assert(rt_client_mine(r));
    rt_client_settle(r);
    if (atomic_load(&w->word) == RT_WAIT_DONE) {
        rt_client_leave_settled(r);
        return;
    }
    rt_client_hold(r);
    list(r, w);
    for (;;) {
        if (atomic_load(&w->word) == RT_WAIT_DONE) {
            rt_client_leave(r);
            break;
        }
        atomic_store(&w->word, RT_WAIT_AWAKE);
        if (ended_early(r, w))
            continue;
        if (rt_may_drive(r, w)) {
            rt_drive(r, w);
            continue;
        }
        rt_drive_decline(r, w);
        bool next = is_next(w);
        rt_client_leave(r);
        if (sleep_until_told(r, w, next))
            break;
        rt_client_lock(r);
    }
    rt_client_drop(r);
}
