/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one lock: what passing on is worth, and what it could be worth at best. */
#include "bench.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
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

struct crowd {
    struct rota *r; /* NULL: the fifo */
    struct fifo fifo;
    atomic_bool stop;
    pthread_barrier_t start;
    long counter; /* under the lock */
};

static void *one_thread(void *arg)
{
    struct crowd *c = arg;
    pthread_barrier_wait(&c->start);
    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        struct rota_lock *lock = NULL;
        if (c->r != NULL)
            bench_must(rota_acquire(c->r, "one", NULL, &lock), c->r, "acquire");
        else
            fifo_lock(&c->fifo);
        c->counter++;
        if (c->r != NULL)
            bench_must(rota_release(lock), c->r, "release");
        else
            fifo_unlock(&c->fifo);
    }
    return NULL;
}

static double rate(struct rota *r, double seconds)
{
    struct crowd c = {.r = r, .fifo = {.mu = PTHREAD_MUTEX_INITIALIZER}};
    pthread_t threads[THREADS];
    pthread_barrier_init(&c.start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, one_thread, &c) != 0)
            abort();
    pthread_barrier_wait(&c.start);
    int64_t from = bench_ns();
    usleep((useconds_t)(seconds * 1e6)); /* the length of the measurement */
    atomic_store(&c.stop, true);
    double took = (double)(bench_ns() - from) / 1e9;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&c.start);
    return (double)c.counter / took;
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
    bench_say(b, "32 threads, hand-written first come first served", bench_median(fifo, ROUNDS),
              "/s");
    bench_say(b, "32 threads, file: without passing on", bench_median(without, ROUNDS), "/s");
    bench_say(b, "32 threads, file: passing on", bench_median(with, ROUNDS), "/s");
    bench_goal(b, "passing on / without", bench_median(gain, ROUNDS), "x", true, 3);
    bench_goal(b, "passing on / hand-written", bench_median(part, ROUNDS), "x", true, 0.5);
}
