/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting finished transactions: one step after the other, each repeated until it is answered. */
#include "txn/core/gc.h"

#include "base/bug.h"

#include <assert.h>

void rt_gc_start(struct rt_gc *g, uint32_t resources, int64_t wall_ms, int64_t keep_ms, int64_t now)
{
    assert(g->step == RT_GC_REST && g->retry.seq == 0 && keep_ms >= 0);
    g->floor_ms = wall_ms > keep_ms ? wall_ms - keep_ms : 0;
    g->resources = resources;
    g->resource = 0;
    g->step = RT_GC_FORGET;
    rt_retry_soon(&g->retry, now);
}

void rt_gc_raised(struct rt_gc *g, int64_t floor_ms)
{
    if (floor_ms < g->floor_ms)
        g->floor_ms = floor_ms;
}

enum rt_gc_op rt_gc_todo(struct rt_gc *g, uint32_t *seq, int64_t now)
{
    if (g->step == RT_GC_REST || !rt_retry_may(&g->retry, now))
        return RT_GC_REST;
    assert(g->step != RT_GC_MARKS || g->resource < g->resources);
    *seq = ++g->last_seq;
    rt_retry_sent(&g->retry, *seq);
    return (enum rt_gc_op)g->step;
}

static enum rt_gc_op following(struct rt_gc *g, enum rt_gc_reply reply)
{
    bool marks = g->resource < g->resources;
    switch (g->step) {
    case RT_GC_FORGET:
        if (reply == RT_GC_MORE)
            return RT_GC_FORGET;
        return RT_BUG(RT_BUG_TXN_MARKS_OF_UNDONE) && marks ? RT_GC_MARKS : RT_GC_SCAN;
    case RT_GC_SCAN:
        return marks ? RT_GC_MARKS : RT_GC_REST;
    default:
        assert(g->step == RT_GC_MARKS);
        g->resource++;
        return g->resource < g->resources ? RT_GC_MARKS : RT_GC_REST;
    }
}

void rt_gc_answered(struct rt_gc *g, uint32_t seq, enum rt_gc_reply reply, int64_t now)
{
    if (!rt_retry_answered(&g->retry, seq))
        return; /* late, or doubled */
    assert(g->step != RT_GC_REST);
    if (reply == RT_GC_LOST) {
        (void)rt_retry_later(&g->retry, now);
        return;
    }
    rt_retry_soon(&g->retry, now);
    g->step = (uint8_t)following(g, reply);
}
