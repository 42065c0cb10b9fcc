/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: a binary heap of pointers; each timer knows its place in it. */
#include "core/timers.h"

#include <assert.h>

static void put(struct rt_timers *ts, uint32_t place, struct rt_timer *t)
{
    assert(place < ts->count && t != NULL);
    ts->heap[place] = t;
    t->slot = place + 1;
}

static void sift_up(struct rt_timers *ts, uint32_t place, struct rt_timer *t)
{
    assert(place < ts->count);
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (ts->heap[parent]->at <= t->at)
            break;
        put(ts, place, ts->heap[parent]);
        place = parent;
    }
    put(ts, place, t);
}

static void sift_down(struct rt_timers *ts, uint32_t place, struct rt_timer *t)
{
    assert(place < ts->count);
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= ts->count)
            break;
        if (child + 1 < ts->count && ts->heap[child + 1]->at < ts->heap[child]->at)
            child++;
        if (t->at <= ts->heap[child]->at)
            break;
        put(ts, place, ts->heap[child]);
        place = child;
    }
    put(ts, place, t);
}

void rt_timers_start(struct rt_timers *ts, struct rt_timer *t, int64_t at)
{
    rt_timers_stop(ts, t);
    assert(ts->count < ts->reserved); /* its place was reserved when it was made */
    t->at = at;
    ts->count++;
    sift_up(ts, ts->count - 1, t);
}

void rt_timers_stop(struct rt_timers *ts, struct rt_timer *t)
{
    if (t->slot == 0)
        return;
    uint32_t place = t->slot - 1;
    assert(place < ts->count && ts->heap[place] == t);
    t->slot = 0;
    struct rt_timer *last = ts->heap[--ts->count];
    if (last == t)
        return;
    if (place > 0 && last->at < ts->heap[(place - 1) / 2]->at)
        sift_up(ts, place, last);
    else
        sift_down(ts, place, last);
}

void rt_timers_at(struct rt_timers *ts, struct rt_timer *t, int64_t at)
{
    if (at == RT_NEVER)
        rt_timers_stop(ts, t);
    else
        rt_timers_start(ts, t, at);
}

int64_t rt_timers_next(const struct rt_timers *ts)
{
    assert(ts->count <= ts->reserved);
    return ts->count > 0 ? ts->heap[0]->at : RT_NEVER;
}

struct rt_timer *rt_timers_due(struct rt_timers *ts, int64_t now)
{
    if (ts->count == 0 || ts->heap[0]->at > now)
        return NULL;
    struct rt_timer *t = ts->heap[0];
    rt_timers_stop(ts, t);
    assert(t->slot == 0); /* whoever gets it may start it again */
    return t;
}
