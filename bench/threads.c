/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one lock: what passing on is worth, and what it could be worth at best. */
#include "bench.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 32
#define ROUNDS 5

/* ---- First come, first served, by hand ---------------------------------- */

struct waiter {
    struct waiter *next;
    _Atomic uint32_t granted;
};

struct fifo {
    pthread_mutex_t mu;
    bool held;
    struct waiter *head, *tail;
};

static void fifo_lock(struct fifo *f)
{
    struct waiter me = {NULL, 0};
    pthread_mutex_lock(&f->mu);
    if (!f->held) {
        f->held = true;
        pthread_mutex_unlock(&f->mu);
        return;
    }
    if (f->head == NULL)
        f->head = &me;
    else
        f->tail->next = &me;
    f->tail = &me;
    pthread_mutex_unlock(&f->mu);
    while (atomic_load(&me.granted) == 0)
        syscall(SYS_futex, &me.granted, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void fifo_unlock(struct fifo *f)
{
    pthread_mutex_lock(&f->mu);
    struct waiter *next = f->head;
    if (next == NULL)
        f->held = false;
    else
        f->head = next->next;
    pthread_mutex_unlock(&f->mu);
    if (next != NULL) {
        _Atomic uint32_t *word = &next->granted;
        atomic_store(word, 1); /* NEXT may be gone after this */
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* ---- The same work under each ------------------------------------------- */

static int fifo_turn(void *arg)
{
    static long counter; /* under the lock */
    fifo_lock(arg);
    counter++;
    fifo_unlock(arg);
    return 0;
}

/* R NULL: the fifo. */
static double rate(struct rota *r, double seconds)
{
    struct fifo fifo = {.mu = PTHREAD_MUTEX_INITIALIZER};
    double per_second = 0;
    if (r != NULL)
        bench_done(rt_bench_threads(r, "one", THREADS, seconds, &per_second));
    else
        bench_done(rt_bench_crowd(THREADS, seconds, fifo_turn, &fifo, &per_second));
    return per_second;
}

/* ---- Each on a lock of its own -------------------------------------------- */

struct crowd {
    struct rota *r;
    _Atomic int seats;
};

static int distinct_turn(void *arg)
{
    static _Thread_local char name[24];
    struct crowd *c = arg;
    struct rota_lock *lock;
    if (name[0] == '\0')
        snprintf(name, sizeof name, "t%d", atomic_fetch_add(&c->seats, 1));
    int err = rota_acquire(c->r, name, NULL, &lock);
    return err != 0 ? err : rota_release(lock);
}

double bench_distinct(struct rota *r, int threads, double seconds)
{
    struct crowd crowd = {.r = r};
    double per_second = 0;
    bench_done(rt_bench_crowd(threads, seconds, distinct_turn, &crowd, &per_second));
    return per_second;
}

void bench_threads(const struct bench *b)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    struct rota *passing = bench_open(b, "file", "threads", NULL);
    struct rota *strict = bench_open(b, "file", "threads-strict", &never);
    double with[ROUNDS], without[ROUNDS], fifo[ROUNDS], gain[ROUNDS], part[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        fifo[i] = rate(NULL, 0.5 * b->scale);
        with[i] = rate(passing, 0.5 * b->scale);
        without[i] = rate(strict, 0.5 * b->scale);
        gain[i] = with[i] / without[i];
        part[i] = with[i] / fifo[i];
    }
    rota_close(strict);
    rota_close(passing);
    bench_say(b, "32 threads, hand-written first come first served", rt_bench_median(fifo, ROUNDS),
              "/s");
    bench_say(b, "32 threads, file: without passing on", rt_bench_median(without, ROUNDS), "/s");
    bench_say(b, "32 threads, file: passing on", rt_bench_median(with, ROUNDS), "/s");
    bench_goal(b, "passing on / without", rt_bench_median(gain, ROUNDS), "x", true, 3);
    bench_goal(b, "passing on / hand-written", rt_bench_median(part, ROUNDS), "x", true, 0.5);
}
