/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting what is over (X9).
 *
 *          FORGET, more: again      SCAN              MARKS of each resource
 *   REST ──────────────────▶ ROWS ──────▶ UNDONE ───────────────────────────▶ REST
 *
 * FORGET raises the floor, durably, and only then takes rows away. Below the floor nothing can be decided any more, so
 * a late or doubled DECIDE finds the floor where its row was. What stands below it and is not done stays, and so do
 * its markers: SCAN, after the floor is up, tells all of it, for none can be added there. Whoever misses a marker looks
 * into the journal (branch.h), and there it is done, or below the floor.
 * Any answer that is lost: the step is asked again; each may be done twice. A crash: the next gc begins anew. */
#ifndef RT_GC_H
#define RT_GC_H

#include "txn/core/retry.h"

#include <stdbool.h>
#include <stdint.h>

enum rt_gc_op {
    RT_GC_REST,
    RT_GC_FORGET, /* journal: the floor becomes at least floor_ms; then rows below it that are done go, by pages */
    RT_GC_SCAN,  /* journal: all ids below it that are not done */
    RT_GC_MARKS, /* resource: markers of ids below it go, but for those */
};

enum rt_gc_reply { RT_GC_LOST, RT_GC_OK, RT_GC_MORE /* FORGET */ };

struct rt_gc {
    int64_t floor_ms;
    uint32_t resources; /* how many */
    uint32_t resource;  /* MARKS: whose */
    uint32_t last_seq;
    uint8_t step; /* enum rt_gc_op */
    struct rt_retry retry;
};

/* All that was born KEEP_MS ago and before; that is at least the longest time that a transaction may take. */
void rt_gc_start(struct rt_gc *g, uint32_t resources, int64_t wall_ms, int64_t keep_ms,
                 int64_t now);
/* What is to be asked now, and by which seq; REST: nothing. */
enum rt_gc_op rt_gc_todo(struct rt_gc *g, uint32_t *seq, int64_t now);
void rt_gc_answered(struct rt_gc *g, uint32_t seq, enum rt_gc_reply reply, int64_t now);

#endif
