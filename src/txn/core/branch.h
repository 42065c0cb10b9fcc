/* SPDX-License-Identifier: Apache-2.0 */
/* One branch of a transaction: its work at one resource, from the first statement to the decided end.
 *
 *   JOINING: of a process that joined
 *     │ registered
 *     ▼  PREPARE, ASK         yes
 *   ACTIVE ────────▶ PREPARING ───▶ PREPARED ────┐
 *     │                │ │ └ no ──▶ REFUSED ─────┤ the decision stands       done
 *     │                │ └── lost ▶ DOUBTFUL ────┼──────────────▶ ORDERED ───────────────▶ FINISHED
 *     │                └ read-only ▶ READONLY    │              ▲  │ ▲ │                      ▲ ▲
 *     └──────────── nothing was prepared ────────┘    twice clear  │ │ └ absent, taken over   │ │
 *                                                          GATE ◀──┘ │          ▼             │ │
 *                         another connection has to do it,   absent ▶└─ there ─ ASKING ── marker│
 *                         and could lose it (MariaDB: T0.1)                    │  ▲ stuck       │
 *                                                                      nothing ▼  │ 30 s        │
 *                                                                           CHECKING ── done ───┘
 *
 * A JOINING branch has not begun at its participant, and must not: if it is given up before it is known to be
 * registered, it is FINISHED at once.
 * The connection that prepared gives the order; if it is gone, or somebody else orders, another connection does: the
 * takeover. If the participant does not have the branch's id (ABSENT), it is asked for the marker that committed
 * branches leave. Without a marker the branch is rolled back. That is fine if it was to be; if it was to be committed,
 * the journal is checked, for somebody else may have finished it and the marker may have been cleaned away: it is never
 * taken for committed (X8). A branch that is found nowhere, or committed against the decision, is stuck: that is
 * reported, and it is asked about again and again. After a restart a branch that MariaDB lost is there again, and a
 * person may have recorded that a commit against the decision is mended (CHECKING).
 *
 * A service (reserve.h) has no connection, no gate and no marker; it cannot be asked what it did with a call:
 *
 *   JOINING
 *     │ registered
 *     ▼  its try    yes                  the decision stands
 *   ACTIVE ──▶ PREPARING ───▶ PREPARED ────────────────────────▶ ORDERED ◀─┐ not done: refused, lost, held
 *     │          │ └ no ────▶ REFUSED ──────────────▶ ...          │  └────┘
 *     │          └── lost ──▶ DOUBTFUL ─────────────▶ ...          ▼ confirmed, cancelled; or somebody has done it
 *     └─ its try never left ──────────────────────────────────▶ FINISHED
 *
 * What was asked to no avail may have been finished by somebody else: by another process, or by the person who was
 * called, who says so in the journal (resolve --done). So the journal is looked at once more before each repeated call
 * of a service, and before each try at a database that failed ten times, refuses, or has no URL here (`look`). */
#ifndef RT_BRANCH_H
#define RT_BRANCH_H

#include "txn/core/retry.h"

#include <stdbool.h>
#include <stdint.h>

#define RT_BRANCH_NO_RESOURCE UINT32_MAX /* recovery does not know it: stuck, reported */
#define RT_BRANCH_GATE_APART \
    INT64_C(150000000) /* ns; the list of who is connected may be 100 ms old */
#define RT_BRANCH_GATE_MOST INT64_C(1000000000) /* between two looks at a shut gate */
#define RT_BRANCH_STUCK_PAUSE INT64_C(30000000000)
#define RT_BRANCH_HELD_PAUSE \
    INT64_C(1000000000) /* at least, before a busy service is asked again */

enum rt_decision { RT_DECISION_NONE, RT_DECISION_COMMIT, RT_DECISION_ABORT };

/* What is asked of a participant. For each: its answers; then what to do if the answer is lost. */
enum rt_branch_op {
    RT_BRANCH_NOTHING,
    /* YES: durable, whatever dies. READONLY: it changed nothing and has ended. NO: it has not prepared and will not.
     * Lost: it may or may not be prepared; it is not asked again, and counts as a no. */
    RT_BRANCH_PREPARE,
    /* The only branch commits, with its marker. DONE; NO: it did not, and will not. Lost: ask, with a fence. */
    RT_BRANCH_ONE_PHASE,
    /* DONE; ABSENT: there is no such prepared branch; HELD: another connection has it. Lost: give the order again.
     * For a service: confirm, cancel. DONE; HELD: it is under way (425); REFUSED: it will not (409); ABSENT: nobody
     * serves it here. Lost: call again. */
    RT_BRANCH_COMMIT,
    RT_BRANCH_ROLLBACK,
    /* PREPARED, COMMITTED (the marker is there), ABSENT: neither. With a fence, ABSENT also promises that it can never
     * again commit in one phase. Lost: ask again. */
    RT_BRANCH_ASK,
    /* Whether the connection that prepared is still there: HELD, CLEAR; ABSENT: there is no such prepared branch.
     * Lost: ask again. */
    RT_BRANCH_GATED,
};

enum rt_reply {
    RT_REPLY_LOST, /* no answer; it may have happened all the same. Our own connection is useless now. */
    RT_REPLY_YES,
    RT_REPLY_READONLY,
    RT_REPLY_NO,
    RT_REPLY_DONE,
    RT_REPLY_ABSENT,
    RT_REPLY_PREPARED,
    RT_REPLY_COMMITTED,
    RT_REPLY_HELD,
    RT_REPLY_CLEAR,
    RT_REPLY_REFUSED, /* it will not (rights, wrong server there): a person is needed; retried */
    /* From the journal (txn.h). */
    RT_REPLY_STANDS,
    RT_REPLY_OPEN, /* nothing is decided */
    RT_REPLY_BELOW,
};

enum rt_stuck { /* why a person is needed */
                RT_STUCK_NOT,
                RT_STUCK_NO_RESOURCE,
                RT_STUCK_LOST,  /* decided COMMIT; the participant has neither branch nor marker */
                RT_STUCK_MIXED, /* decided ABORT; the participant has committed it */
                RT_STUCK_REFUSED,         /* the participant refuses the order */
                RT_STUCK_CONFIRM_REFUSED, /* a service that said yes to the try refuses to confirm */
                RT_STUCK_CANCEL_REFUSED,
};

enum rt_branch_state {
    RT_BRANCH_ACTIVE,
    RT_BRANCH_PREPARING, /* or commits in one phase */
    RT_BRANCH_PREPARED,
    RT_BRANCH_REFUSED,
    RT_BRANCH_DOUBTFUL, /* its vote was lost */
    RT_BRANCH_ORDERED,
    RT_BRANCH_GATE,
    RT_BRANCH_ASKING,
    RT_BRANCH_CHECKING,
    RT_BRANCH_FINISHED,
    RT_BRANCH_READONLY,
    RT_BRANCH_JOINING, /* not known to be registered: nothing may begin at its participant */
};

struct rt_branch {
    uint32_t number;   /* in its transaction; the participant names it by this */
    uint32_t resource; /* its owner's index; or RT_BRANCH_NO_RESOURCE */
    struct rt_retry retry;
    int64_t clear_at; /* when the gate was first seen clear; -1: not yet */
    uint32_t checked; /* CHECKING: only looks at the journal sent after this seq count */
    uint8_t state;    /* enum rt_branch_state */
    uint8_t order;    /* enum rt_decision: how it is to end; NONE before */
    uint8_t due;      /* the same, while its vote is under way and awaited */
    uint8_t stuck;    /* enum rt_stuck */
    bool own;         /* the connection that prepared is ours and works */
    bool gated;       /* another connection could lose its commit: gate and marker (X7) */
    bool open;        /* its gate is open */
    bool failed;      /* one of its statements failed: it votes no */
    bool either;      /* nobody knows the decision any more: marker or none, both will do */
    bool elsewhere;   /* a process that joined prepares it: we ask whether it did */
    bool service;     /* try, confirm, cancel: reserve.h */
    bool entering;    /* JOINING: the REGISTER under way includes it */
    /* Its participant may prepare and commit it on its own, whatever is decided. So a rollback that does not find it
     * asks with a fence: it has committed, or never will. */
    bool loose;
    /* Its PREPARE left, and nobody knows what came of it: the participant may still be at it (a statement that waits
     * for a lock), and may prepare after all others have been told the outcome. So it, too, is asked with a fence. */
    bool late;
    /* Its participant has another address since the request under way left. */
    bool moved;
    /* It came to nothing: nothing leaves before the journal was looked at, once its pause is over. */
    bool look;
};

void rt_branch_init(struct rt_branch *b, uint32_t number, uint32_t resource, bool gated);

/* It stands in the journal: work may begin. Only for a JOINING branch. */
void rt_branch_registered(struct rt_branch *b);

/* PREPARE or ONE_PHASE was answered. */
void rt_branch_voted(struct rt_branch *b, enum rt_reply reply);

/* The decision for it stands: from now on it is given the order until it is FINISHED. */
void rt_branch_order(struct rt_branch *b, enum rt_decision order, int64_t now);

/* What to ask its participant, once retry allows it; NOTHING: nothing. Only for a branch that is ordered. */
enum rt_branch_op rt_branch_next(struct rt_branch *b);

/* The participant answered. True: it came to nothing for the tenth time in a row. */
bool rt_branch_answered(struct rt_branch *b, enum rt_reply reply, int64_t now);

/* The journal answered the look with SEQ, for which a branch waits that is CHECKING or has `look`; if it got there after
 * that look had left, NOT DONE says nothing. DONE: somebody finished it. That ends whatever is ordered and not under way,
 * but a connection of ours keeps its branch until that has had its order. */
void rt_branch_checked(struct rt_branch *b, bool done, uint32_t seq, int64_t now);

/* Its participant is RESOURCE, which is known now or has another address: it is asked there at once, or when the request
 * under way has failed. */
void rt_branch_moved(struct rt_branch *b, uint32_t resource, int64_t now);

/* Ended, one way or the other. */
bool rt_branch_is_over(const struct rt_branch *b);

#endif
