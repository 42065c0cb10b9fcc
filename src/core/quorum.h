/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock's arithmetic: what the answers of N nodes that know nothing of each other are worth together.
 *
 *   taking:   all nodes are asked at once; each says YES with a number, NO (somebody has it), or nothing
 *             a majority said YES, and all with the same number ──▶ AGREED: it holds, that is the fence
 *             ... with different numbers ──▶ MEND: the largest is written back; AGREED when a majority has it
 *             a majority is out of reach ──▶ NONE, or SILENT if too few answered
 *   keeping:  a majority said YES ──▶ AGREED; so many said NO that no majority can have it ──▶ NONE; else SILENT
 *   giving:   as keeping; a node that was asked twice and has nothing may have given it back the first time (MAYBE)
 *
 * Why the fence grows (I2): F is told when a majority of nodes has counted up to F. Two majorities share a node, and
 * that node gives the next taker more than F; the next fence is the largest of its majority.
 *
 * Why a node that was restarted does not count (I1): it may have forgotten a lock whose majority needs it. What it
 * forgot is over when it has been up for the longest ttl that anybody uses; until then its YES is worth nothing. */
#ifndef RT_QUORUM_H
#define RT_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

#define RT_QUORUM_MOST 15 /* nodes */

enum rt_vote { RT_VOTE_OPEN, RT_VOTE_YES, RT_VOTE_NO, RT_VOTE_MAYBE, RT_VOTE_SILENT };

enum rt_verdict {
    RT_QUORUM_OPEN,   /* other answers may still decide it */
    RT_QUORUM_AGREED, /* taking: granted; keeping, giving: a majority did it */
    RT_QUORUM_MEND,   /* taking: a majority has it, but with different numbers */
    RT_QUORUM_NONE, /* taking: somebody else is in the way; keeping, giving: a majority does not have it */
    RT_QUORUM_SILENT, /* too few have answered to say */
};

struct rt_quorum { /* of one flight */
    uint32_t nodes;
    uint8_t votes[RT_QUORUM_MOST]; /* enum rt_vote */
    bool idle[RT_QUORUM_MOST];     /* its YES does not count: it was restarted */
    uint64_t numbers[RT_QUORUM_MOST];
};

/* NODES: 1 to RT_QUORUM_MOST. All are open. */
void rt_quorum_begin(struct rt_quorum *q, uint32_t nodes);
uint32_t rt_quorum_majority(uint32_t nodes);

/* NODE has answered, or will not. The first word of a node counts: replies may come twice. */
void rt_quorum_yes(struct rt_quorum *q, uint32_t node, uint64_t number, bool counts);
void rt_quorum_vote(struct rt_quorum *q, uint32_t node, enum rt_vote vote);
bool rt_quorum_has(const struct rt_quorum *q, uint32_t node); /* it has said something */

/* Of a flight that takes; *FENCE is set with AGREED and MEND. */
enum rt_verdict rt_quorum_taken(const struct rt_quorum *q, uint64_t *fence);
/* Of one that keeps or gives: AGREED, NONE, SILENT, OPEN. */
enum rt_verdict rt_quorum_kept(const struct rt_quorum *q);

/* Until when, on our clock, what was asked for at SENT_AT with TTL is certainly ours on the nodes that said YES, however
 * their clocks run: a hundredth faster than ours, and two milliseconds for their rounding. ns. */
int64_t rt_quorum_until(int64_t sent_at, int64_t ttl);

/* When a node begins to count that says at NOW, in whole seconds, that it has been up for UPTIME. LONGEST: the longest
 * ttl that anybody uses, 0 for nodes that forget nothing. ns. */
int64_t rt_quorum_counts_at(int64_t now, int64_t uptime, int64_t longest);

#endif
