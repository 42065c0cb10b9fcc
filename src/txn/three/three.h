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
 * An answer is how the participant stands, as its durable row says; so each request may be lost, late or doubled: it
 * is asked again, and the answer is how it stands by then. A request never undoes what was answered before: what has
 * ABORTED promises nothing any more, what has COMMITTED stays so.
 *
 * The invariants; the simulator (tests/sim/three) asserts them, comments cite them by number:
 * H1  One decision: what stands in the journal for an id never becomes another.
 * H2  (id, COMMIT) is asked for only when every participant has answered PRECOMMITTED (or COMMITTED, of itself).
 * H3  on_timeout = block: one outcome. No branch commits but when COMMIT stands; none that was answered PRECOMMITTED
 *     rolls back while COMMIT stands or may come to stand.
 * H4  What is answered is durable: WAIT: its promise; PRECOMMITTED: its row and its prepared work; and so on.
 * H5  on_timeout = commit: what ends against the decision is told: by each participant that did, durably; and by a
 *     coordinator that hears of it, which never closes it.
 * H6  Nothing is left behind: once all is healed everything comes to its end, in bounded time.
 * H7  What a caller is told is so.
 * H8  on_timeout = commit: who takes part stands in the journal before anybody can commit of itself; so whoever closes an
 *     ABORT, recovery too, asks each of them first, and leaves open and tells what is mixed. */
#ifndef RT_THREE_H
#define RT_THREE_H

#include <stdbool.h>
#include <stdint.h>

enum rt_stance { /* how it stands at a participant; the numbers are kept in rota_promise */
                 RT_STANCE_NONE, /* nothing is known of it; as an answer: there is none */
                 RT_STANCE_WAIT, /* promised; of a coordinator: nothing is decided yet */
                 RT_STANCE_PRECOMMITTED,
                 RT_STANCE_COMMITTED,
                 RT_STANCE_ABORTED,
                 RT_STANCES,
};

enum rt_how { /* how it came to that; kept, too */
              RT_HOW_NONE,
              RT_HOW_TOLD,      /* by its coordinator */
              RT_HOW_FAILED,    /* its work could not be done, or was refused */
              RT_HOW_TIMEOUT,   /* by itself: nobody told it in time */
              RT_HOW_PEER,      /* another participant had ended so */
              RT_HOW_RESTART,   /* it died with no more than a promise */
              RT_HOW_ELSEWHERE, /* somebody ended its branch at the database: recovery, a person */
              RT_HOWS,
};

enum rt_three_ask { RT_THREE_CAN = 1, RT_THREE_PRE, RT_THREE_DO, RT_THREE_NO, RT_THREE_ASKS };

struct rt_stand {   /* an answer */
    uint8_t stance; /* enum rt_stance */
    uint8_t how;    /* enum rt_how */
    bool mixed;     /* it has heard of another outcome */
    bool ended;     /* COMMITTED, ABORTED: at its database, too */
};

static inline bool rt_stance_is_end(uint8_t stance)
{
    return stance == RT_STANCE_COMMITTED || stance == RT_STANCE_ABORTED;
}

/* Two ends of one transaction that are not the same. */
static inline bool rt_stance_contradicts(uint8_t a, uint8_t b)
{
    return rt_stance_is_end(a) && rt_stance_is_end(b) && a != b;
}

#endif
