/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring an engine: what rota bench and rota-bench have in common.
 *
 * Those that return int return an exit code: RT_EXIT_OK, or a message was printed. */
#ifndef RT_BENCH_MEASURE_H
#define RT_BENCH_MEASURE_H

#include "cli/cli.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rt_bench {
    const char *url;    /* the engine */
    const char *prefix; /* of all names, distinct from those of others */
    /* How far the present measurement is, from 0 to 1; may be NULL. */
    void (*progress)(const struct rt_bench *b, double part);
    void *user;
    pid_t server; /* whose processor time is measured, with that of its children; 0: unknown */
};

int64_t rt_bench_ns(void);                                    /* CLOCK_MONOTONIC */
double rt_bench_quantile(double *values, size_t n, double q); /* sorts them */
double rt_bench_median(double *values, size_t n);
void rt_bench_progress(const struct rt_bench *b, double part);
void rt_bench_pause(double seconds);    /* a signal ends it */
double rt_bench_cpu_us(void);           /* of this process, so far */
double rt_bench_tree_cpu_us(pid_t pid); /* of PID and its children, so far */
void rt_bench_many_files(void);         /* as many descriptors as we may have */

/* From now on SIGINT, SIGTERM and SIGHUP end the measuring early, so that what it made is removed; if the reader of our
 * output goes away, that is a write error. */
void rt_bench_catch_signals(void);
bool rt_bench_stopped(void);
int rt_bench_stop_code(void); /* RT_EXIT_SIGNAL + the signal */

int rt_bench_open(const struct rt_bench *b, struct rota **out, const struct rota_options *opts);

/* N uncontended pairs from one thread; *US: one pair, on average. */
int rt_bench_pairs(struct rota *r, const char *name, const struct rota_ask *ask, int n, double *us);

/* THREADS threads do TURN(arg) again and again for SECONDS; a turn returns an exit code. */
typedef int rt_bench_turn_fn(void *arg);
int rt_bench_crowd(int threads, double seconds, rt_bench_turn_fn *turn, void *arg,
                   double *per_second);

/* THREADS threads of R on one lock. */
int rt_bench_threads(struct rota *r, const char *name, int threads, double seconds,
                     double *per_second);

/* PAIRS pairs of R in all, AT_ONCE of them in flight, on the names PREFIX0, PREFIX1, ... in turn, NAMES of them. NAMES must
 * be a multiple of AT_ONCE, or at least PAIRS: then no name is wanted twice at once. */
struct rt_bench_flight {
    int names, at_once, pairs;
};
int rt_bench_flight(struct rota *r, const char *prefix, const struct rt_bench_flight *how,
                    double *per_second);

/* Two processes take turns, each letting go when the other waits; US[i]: from the i-th release to the grant. N must be
 * odd and less than RT_BENCH_TURNS_MOST. */
#define RT_BENCH_TURNS_MOST 4096
int rt_bench_handover(const struct rt_bench *b, size_t n, double *us);

/* Two processes with N pairs each on one lock, as fast as they can. */
int rt_bench_rivals(const struct rt_bench *b, int n, double *per_second);

/* N times: a process that holds the lock is killed -9 while another waits; MS[i]: from the kill to the grant.
 * TTL_MS for both; 0: the default. */
int rt_bench_takeover(const struct rt_bench *b, uint32_t ttl_ms, size_t n, double *ms);

/* N processes wait in line for one holder; *MS: from its release until the last has been granted. */
int rt_bench_waiters(const struct rt_bench *b, int n, double *ms);

/* *N clients wait for one lock, or as many as the server takes, which *N then says; *WOKEN: how many connections hear
 * anything when it is released, the least of a few releases. */
#define RT_BENCH_HERD_MOST 4096
int rt_bench_herd(const struct rt_bench *b, int *n, double *woken);

/* From now on our allocations are counted; what of them is live. No client may be open when it begins or ends. */
void rt_bench_count_bytes(bool begin);
long rt_bench_live_bytes(void);

/* N held locks in one client, taken in BINS parts; US[i]: an acquire in part i, on average; *BYTES: our memory for each
 * lock. Counts allocations: no other client may be open. */
int rt_bench_held(const struct rt_bench *b, int n, int bins, double *us, double *bytes);

#endif
