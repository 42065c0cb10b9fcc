/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of three-phase commit: one transaction, its participants, one decision in the journal.
 *
 *           all have promised           all are PRECOMMITTED            it stands
 *   ASKING ──────────────┬────▶ WARNING ─────────────────────▶ DECIDING ──┬─ COMMIT ─▶ ORDERING ─▶ CLOSING ─▶ ENDED
 *   (CAN)     │ `commit` ▼   ▲  (PRE)  │                        ▲   ▲     └─ ABORT ──▶ (DO, NO)     (DONE)
 *             │     ENTERING ┘         │                        │   │           │ one has ended otherwise
 *             │     (REGISTER)         │                        │   │           ▼
 *             └─ a no, or none in time ┴─ a no, or none in time ┘   │         MIXED: told, never closed (H5)
 *                                         (ABORT)                   │
 *   adopted: `block`: (ABORT) ──────────────────────────────────────┘
 *   adopted: `commit`: ENTERING, too late to abort
 *
 * DECIDE is insert-if-absent: what stands counts, whoever wrote it (H1). COMMIT is asked for only when every
 * participant has answered PRECOMMITTED (H2), so a participant in WAIT may abort on its own. A participant that answers
 * COMMITTED to PRE was PRECOMMITTED, and waited too long.
 *
 * Where participants commit on their own (`textbook`), the list of participants is written down before the first PRE
 * leaves: whoever later decides ABORT and closes it must ask each of them whether it has committed, and no database
 * lists what has ended (H8). And ABORT for a missing answer is decided only while no T2 can be over, less a margin,
 * counted from the first PRE by our clock. After that it is too late to abort, for somebody may have committed: PRE is
 * repeated until all have answered or one says ABORTED.
 *
 * Lost, late, doubled: CAN and PRE are asked again while there is time, DO and NO forever (100 ms doubling to 30 s);
 * answers to an earlier request are recognised by their seq.
 *
 * Pure: answers and the time in; what to ask, and news, out. Memory is the owner's. */
#ifndef RT_COORDINATOR_H
#define RT_COORDINATOR_H

#include "txn/core/branch.h"
#include "txn/three/three.h"

#define RT_COORDINATOR_NEVER INT64_MAX

enum rt_coordinator_op {
    RT_COORDINATOR_NOTHING,
    RT_COORDINATOR_TELL,   /* `ask` to participant `whom`; rt_coordinator_answered */
    RT_COORDINATOR_DECIDE, /* journal: todo.decision, insert-if-absent; STANDS, BELOW, LOST */
    RT_COORDINATOR_DONE,   /* journal: DONE, LOST */
    /* journal: who takes part, durable. OPEN: it is there; STANDS, BELOW: already decided; LOST */
    RT_COORDINATOR_REGISTER,
};

struct rt_coordinator_todo {
    enum rt_coordinator_op op;
    enum rt_three_ask ask;
    enum rt_decision decision;
    uint32_t whom, seq;
};

enum rt_coordinator_state {
    RT_COORDINATOR_ASKING,
    RT_COORDINATOR_ENTERING, /* textbook: no PRE leaves before the journal knows who takes part */
    RT_COORDINATOR_WARNING,
    RT_COORDINATOR_DECIDING,
    RT_COORDINATOR_ORDERING,
    RT_COORDINATOR_CLOSING,
    RT_COORDINATOR_ENDED,
    RT_COORDINATOR_MIXED, /* all have ended, and not all as decided */
};

struct rt_coordinator_part {
    struct rt_retry retry;
    struct rt_stand stand; /* its last answer */
    bool fresh;            /* ... to the current question */
};

/* rt_coordinator_news */
#define RT_COORDINATOR_TOLD 0x1u      /* `outcome` is known; once */
#define RT_COORDINATOR_MIX 0x2u       /* a participant has ended differently; once */
#define RT_COORDINATOR_ATTENTION 0x4u /* something failed ten times in a row */
#define RT_COORDINATOR_OVER 0x8u      /* ENDED or MIXED; once */

struct rt_coordinator {
    struct rt_coordinator_part *parts; /* the owner's */
    uint32_t count, last_seq, news;
    struct rt_retry journal;
    int64_t t1, t2, margin; /* ns */
    int64_t patience; /* how long to wait for answers to PRE; its owner may set it after begin */
    int64_t limit_at; /* ASKING: no wait for CAN after it; WARNING: nor for PRE ... */
    int64_t late_at;  /* ... but if noticed only after this, a T2 may be over */
    uint8_t state;    /* enum rt_coordinator_state */
    uint8_t want, stands; /* enum rt_decision */
    bool textbook, mixed, gave_up;
};

/* COUNT participants; T1, T2 as they have them. It waits T1 less MARGIN for promises, and half of T2 less MARGIN for
 * answers to PRE. */
void rt_coordinator_begin(struct rt_coordinator *c, struct rt_coordinator_part *parts,
                          uint32_t count, bool textbook, int64_t t1, int64_t t2, int64_t margin,
                          int64_t now);
/* Its coordinator died, and nobody was told. `block`: ABORT, unless the journal says otherwise; COUNT may be 0, for the
 * participants ask on their own. TEXTBOOK: they may have committed on their own, so PRE is asked (again). */
void rt_coordinator_adopt(struct rt_coordinator *c, struct rt_coordinator_part *parts,
                          uint32_t count, bool textbook, int64_t now);
/* Its caller wants no more: ABORT, unless COMMIT has left. */
void rt_coordinator_abort(struct rt_coordinator *c, int64_t now);

bool rt_coordinator_todo(struct rt_coordinator *c, struct rt_coordinator_todo *todo, int64_t now);
/* TELL was answered; LOST: no answer came. */
void rt_coordinator_answered(struct rt_coordinator *c, uint32_t whom, uint32_t seq, bool lost,
                             const struct rt_stand *stand, int64_t now);
/* DECIDE: STANDS, with what stands; BELOW: nothing ever will; LOST. REGISTER: OPEN, or the same. DONE: DONE, LOST. */
void rt_coordinator_wrote(struct rt_coordinator *c, uint32_t seq, enum rt_reply reply,
                          enum rt_decision stands, int64_t now);
/* The answer when a participant asks. COMMITTED, ABORTED: that stands; WAIT: nothing is known to stand. */
enum rt_stance rt_coordinator_stance(const struct rt_coordinator *c);
int64_t rt_coordinator_next(const struct rt_coordinator *c);
uint32_t rt_coordinator_news(struct rt_coordinator *c);

#endif
