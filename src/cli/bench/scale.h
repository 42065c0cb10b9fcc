/* SPDX-License-Identifier: Apache-2.0 */
/* How cost grows with locks, clients, waiters and names: the tables of docs/scale.md, for rota bench and rota-bench.
 *
 * Each measures at its sizes in turn, up to the most that is asked for, and adds its figures under its own name, with the
 * size as `at`. A size at which something is refused or lost is the last of its table: the next would only take long. They
 * return an exit code. */
#ifndef RT_BENCH_SCALE_H
#define RT_BENCH_SCALE_H

#include "cli/bench/figures.h"
#include "cli/bench/measure.h"

struct rt_scale {
    const struct rt_bench *measure;
    struct rt_figures *figures;
    int most;      /* the largest size; at least 1 */
    double part_s; /* how long to look at what rests, and at what contends */
};
typedef int rt_scale_fn(const struct rt_scale *s);

rt_scale_fn rt_scale_locks;   /* 100 to 100,000 of one client, asked for at once */
rt_scale_fn rt_scale_clients; /* 10 to 1,000, each with a lock of its own; then all want the same */
rt_scale_fn rt_scale_line;  /* 100 to 5,000 waiters from 50 clients, where lines can be looked at */
rt_scale_fn rt_scale_names; /* 1,000 to 1,000,000 used once */

/* ---- What the tables are made of ----------------------------------------- */

#define RT_SCALE_STEP_S 120 /* what has not ended by then counts as refused */

typedef int rt_scale_size_fn(const struct rt_scale *s, int n, int *failed);
/* Calls AT for each of SIZES, which end with 0, that is below the most, and for the most. */
int rt_scale_sizes(const struct rt_scale *s, const int *sizes, rt_scale_size_fn *at);

/* A figure of size N. */
void rt_scale_add(const struct rt_scale *s, const char *table, int n, const char *what,
                  double value, const char *unit);

/* Lets everything rest for S->part_s; adds the processor time that we and the server take meanwhile, in percent of one
 * core. */
int rt_scale_rest(const struct rt_scale *s, const char *table, int n, const char *what);

#endif
