/* SPDX-License-Identifier: Apache-2.0 */
/* How cost grows: many locks of one client, many names used; and what all tables share. */
#include "cli/bench/scale.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_ROOM 256

int rt_scale_sizes(const struct rt_scale *s, const int *sizes, rt_scale_size_fn *at)
{
    int code = RT_EXIT_OK, failed = 0, n = 0;

    for (; n < s->most && code == RT_EXIT_OK && failed == 0; sizes += *sizes != 0) {
        n = *sizes != 0 && *sizes < s->most ? *sizes : s->most;
        code = at(s, n, &failed);
        rt_bench_progress(s->measure, (double)n / s->most);
        if (rt_bench_stopped())
            code = rt_bench_stop_code();
    }
    return code;
}

void rt_scale_add(const struct rt_scale *s, const char *table, int n, const char *what,
                  double value, const char *unit)
{
    struct rt_figure *figure = rt_figures_add(s->figures, table, value, unit, "%d: %s", n, what);

    figure->at = n;
    figure->more = strcmp(unit, "/s") == 0;
}

int rt_scale_rest(const struct rt_scale *s, const char *table, int n, const char *what)
{
    pid_t server = s->measure->server;
    char text[64];

    int64_t from = rt_bench_ns();
    double ours = rt_bench_cpu_us(), theirs = server != 0 ? rt_bench_tree_cpu_us(server) : 0;
    rt_bench_pause(s->part_s);
    ours = rt_bench_cpu_us() - ours;
    theirs = server != 0 ? rt_bench_tree_cpu_us(server) - theirs : 0;
    double us = (double)(rt_bench_ns() - from) / 1000;
    snprintf(text, sizeof(text), "%s, our processor", what);
    rt_scale_add(s, table, n, text, ours / us * 100, "%");
    snprintf(text, sizeof(text), "%s, the server's", what);
    if (server != 0)
        rt_scale_add(s, table, n, text, theirs / us * 100, "%");
    return rt_bench_stopped() ? rt_bench_stop_code() : RT_EXIT_OK;
}

/* ---- Locks of one client ------------------------------------------------- */

struct many {
    struct rota *r;
    struct one {
        struct many *many;
        struct rota_lock *lock;
    } * all;
    int n;
    atomic_int open, failed; /* not answered; answered with an error, or lost later */
    sem_t done;              /* all are answered */
};

static void answered(struct many *m, int err)
{
    atomic_fetch_add(&m->failed, err != 0);
    if (atomic_fetch_sub(&m->open, 1) == 1)
        sem_post(&m->done);
}

static void on_granted(void *arg, int err, struct rota_lock *lock)
{
    struct one *one = arg;

    one->lock = lock;
    answered(one->many, err);
}

static void on_released(void *arg, int err)
{
    answered(((struct one *)arg)->many, err);
}

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    atomic_fetch_add(&((struct one *)arg)->many->failed, 1);
}

typedef int begin_fn(struct one *one, const char *name);

static int begin_taking(struct one *one, const char *name)
{
    const struct rota_ask ask = {.on_lost = on_lost, .arg = one};

    return rota_acquire_async(one->many->r, name, &ask, on_granted, one, NULL);
}

static int begin_giving(struct one *one, const char *name)
{
    (void)name;
    return rota_release_async(one->lock, on_released, one);
}

/* Begins all at once, and waits until they are answered; *S_TAKEN: how long that took. */
static int do_all(struct many *m, const struct rt_bench *b, begin_fn *begin, double *s_taken)
{
    struct timespec end;
    char name[NAME_ROOM];

    atomic_store(&m->open, m->n);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += RT_SCALE_STEP_S;
    int64_t from = rt_bench_ns();
    for (int i = 0; i < m->n; i++) {
        snprintf(name, sizeof(name), "%slocks-%d", b->prefix, i);
        int err = begin(&m->all[i], name);
        if (err != 0)
            answered(m, err);
    }
    int late = 0;
    while (late == 0 && !rt_bench_stopped() && atomic_load(&m->open) > 0)
        late = sem_timedwait(&m->done, &end) != 0 && atomic_load(&m->open) > 0 &&
               time(NULL) >= end.tv_sec;
    *s_taken = (double)(rt_bench_ns() - from) / 1e9;
    return rt_bench_stopped() ? rt_bench_stop_code() : RT_EXIT_OK;
}

/* What asks and releases have come to that failed so far. */
static int failed_of(struct many *m)
{
    return atomic_load(&m->failed) + atomic_load(&m->open);
}

static int take_rest_give(const struct rt_scale *s, struct many *m)
{
    double took = 0, cpu = rt_bench_cpu_us();
    long bytes = rt_bench_live_bytes();

    int code = do_all(m, s->measure, begin_taking, &took);
    cpu = rt_bench_cpu_us() - cpu;
    rt_scale_add(s, "locks", m->n, "asked for at once, all granted", took, "s");
    rt_scale_add(s, "locks", m->n, "our memory for each",
                 (double)(rt_bench_live_bytes() - bytes) / m->n, "bytes");
    if (code != RT_EXIT_OK || failed_of(m) > 0)
        return code;
    code = rt_scale_rest(s, "locks", m->n, "at rest");
    if (code != RT_EXIT_OK || failed_of(m) > 0)
        return code;
    double before = rt_bench_cpu_us();
    code = do_all(m, s->measure, begin_giving, &took);
    cpu += rt_bench_cpu_us() - before;
    rt_scale_add(s, "locks", m->n, "all released", took, "s");
    rt_scale_add(s, "locks", m->n, "our processor for each", cpu / m->n, "us");
    return code;
}

static int locks_at(const struct rt_scale *s, int n, int *failed)
{
    struct many m = {.n = n, .all = calloc((size_t)n, sizeof(*m.all))};

    if (m.all == NULL) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    for (int i = 0; i < n; i++)
        m.all[i].many = &m;
    sem_init(&m.done, 0, 0);
    rt_bench_count_bytes(true);
    int code = rt_bench_open(s->measure, &m.r, NULL);
    if (code == RT_EXIT_OK) {
        code = take_rest_give(s, &m);
        *failed = failed_of(&m);
        rt_scale_add(s, "locks", n, "refused or lost", *failed, "locks");
        rota_close(m.r); /* what is still open is answered now, into m */
    }
    rt_bench_count_bytes(false);
    sem_destroy(&m.done);
    free(m.all);
    return code;
}

int rt_scale_locks(const struct rt_scale *s)
{
    static const int sizes[] = {100, 1000, 10000, 100000, 0};

    return rt_scale_sizes(s, sizes, locks_at);
}

/* ---- Names used once ----------------------------------------------------- */

#define FRESH 301 /* pairs, each on a name of its own */
#define AT_ONCE 256

/* *US: a pair on a name that was never used before, the median. */
static int fresh_pair(const struct rt_scale *s, struct rota *r, const char *when, double *us)
{
    double all[FRESH];
    char name[NAME_ROOM];
    int code = RT_EXIT_OK;

    for (int i = 0; i < FRESH && code == RT_EXIT_OK; i++) {
        snprintf(name, sizeof(name), "%s%s-%d", s->measure->prefix, when, i);
        code = rt_bench_pairs(r, name, NULL, 1, &all[i]);
    }
    if (code == RT_EXIT_OK)
        *us = rt_bench_median(all, FRESH);
    return code;
}

static int names_at(const struct rt_scale *s, int n, int *failed)
{
    const struct rt_bench_flight how = {.names = n, .at_once = AT_ONCE, .pairs = n};
    char prefix[NAME_ROOM], when[32];
    double before = 0, after = 0, rate = 0;
    struct rota *r;

    (void)failed; /* the first error ends it all */
    int code = rt_bench_open(s->measure, &r, NULL);
    if (code != RT_EXIT_OK)
        return code;
    snprintf(prefix, sizeof(prefix), "%snames-%d-", s->measure->prefix, n);
    snprintf(when, sizeof(when), "before-%d", n);
    code = fresh_pair(s, r, when, &before);
    if (code == RT_EXIT_OK)
        code = rt_bench_flight(r, prefix, &how, &rate);
    snprintf(when, sizeof(when), "after-%d", n);
    if (code == RT_EXIT_OK)
        code = fresh_pair(s, r, when, &after);
    rota_close(r);
    if (code != RT_EXIT_OK)
        return code;
    rt_scale_add(s, "names", n, "used once each", rate, "/s");
    rt_scale_add(s, "names", n, "a pair on a fresh name, before", before, "us");
    rt_scale_add(s, "names", n, "a pair on a fresh name, after", after, "us");
    return code;
}

int rt_scale_names(const struct rt_scale *s)
{
    static const int sizes[] = {1000, 10000, 100000, 1000000, 0};

    return rt_scale_sizes(s, sizes, names_at);
}
