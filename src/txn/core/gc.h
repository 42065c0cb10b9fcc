/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting finished transactions (X9).
 *
 *          FORGET, more: again      SCAN              MARKS of each resource
 *   REST ──────────────────▶ ROWS ──────▶ UNDONE ───────────────────────────▶ REST
 *
 * FORGET raises the floor, durably, and only then deletes rows. Below the floor nothing can be decided any more, so a
 * late or doubled DECIDE finds the floor where its row was. Rows below it that are not done stay, and so do their
 * markers: a SCAN after the floor is up lists them all, for none can be added there. Whoever misses a marker looks in
 * the journal (branch.h): there the transaction is done, or below the floor.
 * If an answer is lost, the step is asked again; each may be done twice. After a crash the next gc starts over. */
#ifndef RT_GC_H
#define RT_GC_H

#include "txn/core/retry.h"

#include <stdbool.h>
#include <stdint.h>

enum rt_gc_op {
    RT_GC_REST,
    RT_GC_FORGET, /* journal: raise the floor to floor_ms, or as far as it allows (rt_gc_raised); then drop done rows
                     below it, page by page */
    RT_GC_SCAN,  /* journal: list all ids below it that are not done */
    RT_GC_MARKS, /* resource: drop markers of ids below it, except those */
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

/* Forgets all that was born KEEP_MS ago or earlier. KEEP_MS is at least the longest time a transaction may take. */
void rt_gc_start(struct rt_gc *g, uint32_t resources, int64_t wall_ms, int64_t keep_ms,
                 int64_t now);
/* FORGET was answered, and the journal let it go only up to FLOOR_MS: what was born then or later stays. */
void rt_gc_raised(struct rt_gc *g, int64_t floor_ms);
/* What to ask now, and with which seq; REST: nothing. */
enum rt_gc_op rt_gc_todo(struct rt_gc *g, uint32_t *seq, int64_t now);
void rt_gc_answered(struct rt_gc *g, uint32_t seq, enum rt_gc_reply reply, int64_t now);

#endif
