/* SPDX-License-Identifier: Apache-2.0 */
/* Three-phase commit: the words that participants, coordinators and peers say to each other.
 *
 *   coordinator ── CAN ──▶ participant ── WAIT: it has promised (a durable row) ──▶       or ABORTED: no
 *               ── PRE ──▶             ── PRECOMMITTED: its work is prepared (durable) ──▶ or ABORTED
 *      on_timeout = commit: REGISTER, who takes part, stands in the journal before the first PRE (H8)
 *      DECIDE(COMMIT) stands in the journal after all of them, and only then
 *               ── DO ───▶             ── COMMITTED ──▶
 *               ── NO ───▶             ── ABORTED ──▶      (after DECIDE(ABORT) stands)
 *   anybody     ── ASK ──▶ anybody     ── how it stands there ──▶
 *
 * An answer is the participant's stance, as its durable row says. So any request may be lost, late or doubled: it is
 * asked again, and the answer is the stance by then. A request never undoes an earlier answer: a participant that has
 * ABORTED promises nothing any more, one that has COMMITTED stays so.
 *
 * The invariants; the simulator (tests/sim/three) asserts them, comments cite them by number:
 * H1  One decision: what stands in the journal for an id never changes.
 * H2  (id, COMMIT) is asked for only when every participant has answered PRECOMMITTED (or COMMITTED, on its own).
 * H3  on_timeout = block: one outcome. A branch commits only when COMMIT stands; none that answered PRECOMMITTED rolls
 *     back while COMMIT stands or may come to stand.
 * H4  What is answered is durable: WAIT: its promise; PRECOMMITTED: its row and its prepared work; and so on.
 * H5  on_timeout = commit: what ends against the decision is reported: by each participant that did so, durably; and by
 *     a coordinator that hears of it, which never closes the transaction.
 * H6  Nothing is left behind: once all faults are healed, everything ends in bounded time.
 * H7  What a caller is told is true.
 * H8  on_timeout = commit: the participants stand in the journal before any of them can commit on its own. So whoever
 *     closes an ABORT, recovery included, asks each of them first; if the outcome is mixed it reports that and leaves
 *     the transaction open. */
#ifndef RT_THREE_H
#define RT_THREE_H

#include <stdbool.h>
#include <stdint.h>

enum rt_stance { /* how it stands at a participant; the numbers are kept in rota_promise */
                 RT_STANCE_NONE, /* nothing is known; as an answer: there is none */
                 RT_STANCE_WAIT, /* promised; from a coordinator: still undecided */
                 RT_STANCE_PRECOMMITTED,
                 RT_STANCE_COMMITTED,
                 RT_STANCE_ABORTED,
                 RT_STANCES,
};

enum rt_how { /* how it came to that; kept, too */
              RT_HOW_NONE,
              RT_HOW_TOLD,      /* by its coordinator */
              RT_HOW_FAILED,    /* its work could not be done, or was refused */
              RT_HOW_TIMEOUT,   /* on its own: nobody told it in time */
              RT_HOW_PEER,      /* another participant had ended so */
              RT_HOW_RESTART,   /* it died having only promised */
              RT_HOW_ELSEWHERE, /* somebody ended its branch at the database: recovery, a person */
              RT_HOWS,
};

enum rt_three_ask { RT_THREE_CAN = 1, RT_THREE_PRE, RT_THREE_DO, RT_THREE_NO, RT_THREE_ASKS };

struct rt_stand {   /* an answer */
    uint8_t stance; /* enum rt_stance */
    uint8_t how;    /* enum rt_how */
    bool mixed;     /* it has heard of a different outcome */
    bool ended;     /* COMMITTED, ABORTED: at its database, too */
};

static inline bool rt_stance_is_end(uint8_t stance)
{
    return stance == RT_STANCE_COMMITTED || stance == RT_STANCE_ABORTED;
}

/* Two ends of one transaction that differ. */
static inline bool rt_stance_contradicts(uint8_t a, uint8_t b)
{
    return rt_stance_is_end(a) && rt_stance_is_end(b) && a != b;
}

#endif
