/* SPDX-License-Identifier: Apache-2.0 */
/* What recovery may touch (X6).
 *
 * Recovery works in passes: it scans the journal for what is decided but not done, and lists what is prepared at every
 * resource. For each thing it sees, it asks here:
 *
 *   not of our journal ───────────────────▶ FOREIGN   shown, never touched
 *   undecided, its deadline is ahead ─────▶ YOUNG     its owner may be at work
 *   seen for the first time, or just now ─▶ ONCE      it may be finishing in this moment
 *   seen before, in an earlier pass ──────▶ SETTLE    rt_txn_adopt
 *
 * A mistake here harms nobody's data: whoever settles decides first (X3), and is told if a COMMIT stands. It would only
 * abort live transactions, and take over branches that their owner is about to finish. SLACK allows for clocks that
 * disagree. */
#ifndef RT_SWEEP_H
#define RT_SWEEP_H

#include "txn/core/name.h"

#include <stdbool.h>
#include <stdint.h>

enum rt_verdict { RT_SWEEP_FOREIGN, RT_SWEEP_YOUNG, RT_SWEEP_ONCE, RT_SWEEP_SETTLE };

struct rt_seen {
    struct rt_txn_id id;
    uint32_t first, last; /* passes; last 0: unused */
    int64_t first_at;
};

struct rt_sweep {
    uint32_t journal;     /* its number */
    int64_t slack_ms;     /* clocks differ by less than this */
    int64_t apart;        /* ns between first sight and settling */
    struct rt_seen *seen; /* the owner's */
    uint32_t room;
    uint32_t pass;
};

void rt_sweep_init(struct rt_sweep *s, uint32_t journal, int64_t slack_ms, int64_t apart,
                   struct rt_seen *seen, uint32_t room);

/* Another pass begins. Whatever was not seen in the last two is forgotten. */
void rt_sweep_pass(struct rt_sweep *s);

/* NAME was seen, in the journal or at a participant; DECIDED: a row of the journal says so. NOW is our own clock,
 * WALL_MS the wall clock. Without room to remember it, it stays ONCE until there is some. */
enum rt_verdict rt_sweep_judge(struct rt_sweep *s, const struct rt_name *name, bool decided,
                               int64_t now, int64_t wall_ms);

#endif
