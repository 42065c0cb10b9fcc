/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of the fault programme: contenders on a few locks, faults between, and the verdict.
 *
 *   stage_new ── stage_start ──▶ faults, stage_mark, stage_kill, ... ──▶ stage_finish
 *
 * Contenders are processes with one client and some threads each; every call they make is in
 * the history. Make the stage before the first thread of the test (a proxy has one): it forks. */
#ifndef RT_STAGE_H
#define RT_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAGE_PROCESSES_MAX 32
#define STAGE_THREADS_MAX 8
#define STAGE_LOCKS_MAX 4
#define STAGE_URL_MAX 512

/* What contenders do besides taking a lock, writing under it and giving it back. */
#define STAGE_SHARED 0x1u  /* some share */
#define STAGE_TRY 0x2u     /* some do not wait */
#define STAGE_GIVE_UP 0x4u /* some wait only for a moment */
#define STAGE_PERMITS 0x8u /* one more lock, of which 2 in 3 may hold */
#define STAGE_SPICE 0x10u  /* some ask with rota_check, look at lines, take all at once */
/* What the engine cannot promise. */
#define STAGE_LOSSY 0x20u    /* it may forget what it said: two may hold, fences still grow */
#define STAGE_STOPS 0x40u    /* processes are stopped: between look and write too */
#define STAGE_UNFENCED 0x80u /* a dialect without fences: holders are judged by what was written */

struct stage_plan {
    const char *title;
    uint32_t processes, threads, locks;
    uint32_t flags;
    uint32_t ttl_ms, call_ms;        /* 0: 1000, 2000 */
    uint32_t long_permille, long_ms; /* this share of holds lasts up to long_ms */
    uint32_t pause_us;               /* between two turns of a thread, at most */
    uint32_t spice_permille;         /* STAGE_SPICE: of the turns; 0: 20 */
};

struct stage;

struct stage *stage_new(const struct stage_plan *plan);
void stage_free(struct stage *st);

/* Rounds for each round of the plan: 1 in make test, $ROTA_TORTURE in make torture. */
uint32_t stage_factor(void);
/* Of this run: $ROTA_SEED, or taken from the clock; printed once. */
uint64_t stage_seed(void);
uint32_t stage_below(struct stage *st, uint32_t n); /* 0 to n - 1, from the seed */

void stage_url(struct stage *st, const char *url);                      /* for all */
void stage_url_of(struct stage *st, uint32_t process, const char *url); /* for one */

/* Starts all, and waits until each thread has had a turn. */
void stage_start(struct stage *st);

/* A fault happens now: the report says how long it took until somebody was granted something. */
void stage_mark(struct stage *st);
void stage_await_grants(struct stage *st); /* some, since the last mark: they have got over it */
void stage_pause(struct stage *st, uint32_t ms);        /* lets them contend for MS */
uint64_t stage_turns(const struct stage *st);           /* of all threads, until now */
uint64_t stage_granted(const struct stage *st);         /* holds, until now */
uint64_t stage_lost(const struct stage *st);            /* told to holders, until now */
uint64_t stage_errors(const struct stage *st, int err); /* calls that ended so, until now */
int64_t stage_longest(
    const struct stage *st); /* judged: ns from a fault to the next grant of anything, at most */

void stage_kill(struct stage *st, uint32_t process); /* kill -9 */
void stage_spawn(struct stage *st, uint32_t process);
void stage_stop(struct stage *st, uint32_t process); /* SIGSTOP, and it stands still */
void stage_cont(struct stage *st, uint32_t process);
bool stage_holds(const struct stage *st, uint32_t process); /* some thread of it, just now */

/* From FROM to TO (rt_history_now) the engine forgot everything: a hold from before cannot be
 * given back successfully afterwards. */
void stage_forgot(struct stage *st, int64_t from, int64_t to);

/* Says how many of the engine's keys nobody should need any more, and names them in TEXT. */
typedef size_t stage_left_fn(void *arg, char *text, size_t size);

/* The faults are over: everybody gets a turn, all leave, nothing is left behind, and the history
 * contradicts nothing. Prints the report; returns the findings. */
size_t stage_finish(struct stage *st, stage_left_fn *left, void *arg);

#endif
