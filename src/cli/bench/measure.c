/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: the clock, the median of many values, early ends; pairs and crowds of threads. */
#include "cli/bench/measure.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define THREADS_MOST 256

int64_t rt_bench_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double rt_bench_quantile(double *values, size_t n, double q)
{
    size_t i = (size_t)(q * (double)n);

    qsort(values, n, sizeof(*values), by_value);
    return values[i < n ? i : n - 1];
}

double rt_bench_median(double *values, size_t n)
{
    return rt_bench_quantile(values, n, 0.5);
}

void rt_bench_progress(const struct rt_bench *b, double part)
{
    if (b->progress != NULL)
        b->progress(b, part);
}

void rt_bench_pause(double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds};

    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    while (nanosleep(&ts, &ts) != 0 && errno == EINTR && !rt_bench_stopped())
        ;
}

void rt_bench_many_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* ---- Early ends --------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void on_signal(int signal_number)
{
    stopped = signal_number;
}

void rt_bench_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* then writing fails, and that is an end like any other */
}

bool rt_bench_stopped(void)
{
    return stopped != 0;
}

int rt_bench_stop_code(void)
{
    return RT_EXIT_SIGNAL + stopped;
}

/* ---- One client --------------------------------------------------------- */

int rt_bench_open(const struct rt_bench *b, struct rota **out, const struct rota_options *opts)
{
    int err = rota_open(out, b->url, opts);

    return err != 0 ? rt_connect_report(NULL, err, "") : RT_EXIT_OK;
}

static int pair(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *lock;
    int err = rota_acquire(r, name, ask, &lock);

    if (err == 0)
        err = rota_release(lock);
    return err;
}

int rt_bench_pairs(struct rota *r, const char *name, const struct rota_ask *ask, int n, double *us)
{
    int64_t from = rt_bench_ns();
    int i;

    for (i = 0; i < n && !stopped; i++) {
        int err = pair(r, name, ask);
        if (err != 0)
            return rt_connect_report(r, err, "");
    }
    *us = (double)(rt_bench_ns() - from) / (i > 0 ? i : 1) / 1000;
    return stopped ? rt_bench_stop_code() : RT_EXIT_OK;
}

/* ---- Crowds ------------------------------------------------------------- */

struct crowd {
    rt_bench_turn_fn *turn;
    void *arg;
    atomic_bool stop;
    atomic_int code; /* of the first turn that failed */
    atomic_long turns;
    pthread_barrier_t start;
};

static void *one_thread(void *arg)
{
    struct crowd *c = arg;
    long turns = 0;
    int code = RT_EXIT_OK, none = RT_EXIT_OK;

    pthread_barrier_wait(&c->start);
    while (code == RT_EXIT_OK && !atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        code = c->turn(c->arg);
        turns++;
    }
    atomic_fetch_add(&c->turns, turns);
    if (code != RT_EXIT_OK)
        atomic_compare_exchange_strong(&c->code, &none, code);
    return NULL;
}

int rt_bench_crowd(int threads, double seconds, rt_bench_turn_fn *turn, void *arg,
                   double *per_second)
{
    struct crowd c = {.turn = turn, .arg = arg};
    pthread_t ids[THREADS_MOST];

    if (threads > THREADS_MOST)
        threads = THREADS_MOST;
    pthread_barrier_init(&c.start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        int error = pthread_create(&ids[i], NULL, one_thread, &c);
        if (error != 0) {
            rt_out_error("cannot start a thread: %s", strerror(error));
            exit(RT_EXIT_INTERNAL); /* the others wait at the barrier */
        }
    }
    pthread_barrier_wait(&c.start);
    int64_t from = rt_bench_ns();
    rt_bench_pause(seconds);
    atomic_store(&c.stop, true);
    double took = (double)(rt_bench_ns() - from) / 1e9;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    pthread_barrier_destroy(&c.start);
    *per_second = (double)atomic_load(&c.turns) / took;
    return stopped ? rt_bench_stop_code() : atomic_load(&c.code);
}

struct one_lock {
    struct rota *r;
    const char *name;
};

static int lock_turn(void *arg)
{
    const struct one_lock *one = arg;
    int err = pair(one->r, one->name, NULL);

    return err != 0 ? rt_connect_report(one->r, err, "") : RT_EXIT_OK;
}

int rt_bench_threads(struct rota *r, const char *name, int threads, double seconds,
                     double *per_second)
{
    struct one_lock one = {r, name};

    return rt_bench_crowd(threads, seconds, lock_turn, &one, per_second);
}
