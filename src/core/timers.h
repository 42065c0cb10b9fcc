/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: which of many is due next. A binary heap over places reserved beforehand. */
#ifndef RT_TIMERS_H
#define RT_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#define RT_NEVER INT64_MAX /* absolute times are CLOCK_BOOTTIME in nanoseconds */
#define RT_MS INT64_C(1000000)

enum rt_timer_kind { RT_TIMER_CALL, RT_TIMER_ASK, RT_TIMER_LINE, RT_TIMER_DESK };

struct rt_timer {
    int64_t at;
    uint32_t slot; /* place in the heap + 1; 0: not running */
    uint32_t kind; /* enum rt_timer_kind: whose it is */
};

/* A timer with a function, for engines and glue; kind RT_TIMER_CALL. */
struct rt_timer_call {
    struct rt_timer timer;
    void (*fire)(struct rt_timer_call *call, int64_t now);
};

struct rt_timers {
    struct rt_timer **heap; /* room for `room` */
    uint32_t count, room;
    uint32_t reserved; /* how many timers may run at once; <= room */
};

/* Starting and stopping never allocate: each timer that may run needs a place, which
 * whoever allocates (client/, tests) makes room for and counts in `reserved`. */
void rt_timers_start(struct rt_timers *ts, struct rt_timer *t, int64_t at); /* or moves it */
void rt_timers_stop(struct rt_timers *ts, struct rt_timer *t); /* also if not running */
/* Starts or moves it; with AT RT_NEVER it is stopped. */
void rt_timers_at(struct rt_timers *ts, struct rt_timer *t, int64_t at);

/* When the next is due; RT_NEVER if none runs. */
int64_t rt_timers_next(const struct rt_timers *ts);

/* Takes out one timer that is due at NOW; NULL if none. */
struct rt_timer *rt_timers_due(struct rt_timers *ts, int64_t now);

#endif
