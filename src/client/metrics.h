/* SPDX-License-Identifier: Apache-2.0 */
/* What a client counts and measures, if it was opened with ROTA_METRICS.
 *
 * Without it there is no struct rt_metrics: each place below costs one look at a pointer, no clock
 * is read and no lock is larger. With it every lock has its struct rt_more, for its times. */
#ifndef RT_METRICS_H
#define RT_METRICS_H

#include "client/client.h"

/* Upper bounds of 1 us, 2 us, 4 us, ... 67 s; the last bucket has the rest. */
#define RT_HIST_BOUNDS 27
#define RT_HIST_BUCKETS (RT_HIST_BOUNDS + 1)

struct rt_hist {
    _Atomic uint64_t buckets[RT_HIST_BUCKETS];
    _Atomic uint64_t sum_ns;
};

void rt_hist_add(struct rt_hist *hist, int64_t ns);

struct rt_metrics *rt_metrics_new(void); /* NULL: out of memory */
void rt_metrics_free(struct rt_metrics *m);

/* The slow halves of what follows; the mutex is held, except in rt_metrics_handed. */
void rt_metrics_note_asked(struct rota *r, struct rota_lock *lock);
void rt_metrics_count_ask(struct rota *r, struct rota_lock *lock);
void rt_metrics_count_answer(struct rota *r, struct rota_lock *lock, int err);
void rt_metrics_count_loss(struct rota *r, struct rota_lock *lock);
void rt_metrics_count_release(struct rota *r, struct rota_lock *lock);
void rt_metrics_count_released(struct rota *r, struct rota_lock *lock);
void rt_metrics_count_wakes(struct rota *r, uint32_t n);

/* A hold that was passed on at PASSED_AT has reached its new holder; from any thread. */
void rt_metrics_handed(struct rota *r, int64_t passed_at);

/* rt_desk_ask of what was prepared. */
static inline void rt_metrics_ask(struct rota *r, struct rota_lock *lock)
{
    if (r->d.metrics == NULL)
        rt_desk_ask(&r->d.desk, &lock->ask, rt_loop_now(&r->loop));
    else
        rt_metrics_count_ask(r, lock);
}

/* rt_desk_release by the lock's owner. */
static inline void rt_metrics_release(struct rota *r, struct rota_lock *lock)
{
    if (r->d.metrics == NULL)
        rt_desk_release(&r->d.desk, &lock->ask, rt_loop_now(&r->loop));
    else
        rt_metrics_count_release(r, lock);
}

/* For a member of a set, before it is asked for. */
static inline void rt_metrics_asked(struct rota *r, struct rota_lock *lock)
{
    if (r->d.metrics != NULL)
        rt_metrics_note_asked(r, lock);
}

/* LOCK's owner is about to be told ERR. */
static inline void rt_metrics_answered(struct rota *r, struct rota_lock *lock, int err)
{
    if (r->d.metrics != NULL)
        rt_metrics_count_answer(r, lock, err);
}

static inline void rt_metrics_lost(struct rota *r, struct rota_lock *lock)
{
    if (r->d.metrics != NULL)
        rt_metrics_count_loss(r, lock);
}

/* The release is over; lock->ask.err says how. */
static inline void rt_metrics_released(struct rota *r, struct rota_lock *lock)
{
    if (r->d.metrics != NULL)
        rt_metrics_count_released(r, lock);
}

static inline void rt_metrics_woke(struct rota *r, uint32_t n)
{
    if (r->d.metrics != NULL)
        rt_metrics_count_wakes(r, n);
}

#endif
