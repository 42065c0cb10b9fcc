/* SPDX-License-Identifier: Apache-2.0 */
/* A participant of three-phase commit: one transaction at one database.
 *
 *          CAN: row     PRE: work, PREPARE, row        DO
 *   NONE ─────────▶ WAIT ─────────────────▶ PRECOMMITTED ──▶ COMMITTED ─────────────────────────▶ ended, sure
 *    │ NO, or it     │  NO; the work failed;    │ │ NO; a      ▲ │ of itself, or by a peer: asks on,
 *    │ refuses       │  a restart; T1 over and  │ │ peer has   │ │ until the decision is known: another? mixed
 *    │               │  nobody knows better     │ │ ABORTED    │ ▼
 *    └───────────────┴──────────────────────────┼─┴────────────┼─▶ ABORTED ──────────────────────▶ ended, sure
 *                                      T2 over: │              │
 *                                      BLOCKED ◀┘              │
 *                           coordinator, peers, its database   │
 *                           are asked, again and again         │
 *                                      └─ a peer has COMMITTED; or on_timeout = commit: nobody is there who says
 *                                         WAIT, ABORTED or "not decided yet"
 *
 * WAIT may end as ABORTED at any time: without its answer PRECOMMITTED nobody decides COMMIT, and once its row says
 * ABORTED it never gives that answer. PRECOMMITTED has given it: what it may do of itself is what somebody told it, or
 * what a peer did (who ABORTED never answered PRECOMMITTED, or was told so; who COMMITTED was told so). That is all of
 * `block`; it may last. `commit` is the textbook's rule for when nobody answers, and may be wrong (H5): whoever ended
 * of itself, or after such a peer, asks on until it has heard the decision.
 *
 * A row is written before anything is done that it says, so what is answered is what stands in the row (H4). A branch
 * at the database is committed or rolled back after the row says so, again and again until it has ended.
 *
 * What is lost, late, doubled: a WRITE without an answer is written again, the same; WORK without one is rolled back;
 * COMMIT and ROLLBACK are asked again, the database knows what it did (its marker). Questions to others have a round:
 * answers that come after it do nothing.
 *
 * Pure: requests, answers and the time in; what to do, and news, out. One thing is under way at its database at a time
 * (`seq`), and one round of questions. */
#ifndef RT_PARTICIPANT_H
#define RT_PARTICIPANT_H

#include "txn/core/branch.h"
#include "txn/three/three.h"

#define RT_PARTICIPANT_PEERS 15
#define RT_PARTICIPANT_NEVER INT64_MAX

struct rt_promise { /* the row; all of it is durable */
    struct rt_stand stand;
    bool sure;        /* the decision is known: nobody is asked any more */
    int64_t until_ms; /* WAIT: T1; PRECOMMITTED: T2; by the wall, for after a restart */
};

enum rt_participant_op {
    RT_PARTICIPANT_NOTHING,
    /* todo.row, durable. DONE. Lost: again, the same. What an earlier life of the participant wrote must not arrive any
     * more once its rows were read (an epoch, which each write compares). */
    RT_PARTICIPANT_WRITE,
    /* The statements, then PREPARE. YES: durable. NO: nothing stays. Lost: it may be prepared: it is rolled back. */
    RT_PARTICIPANT_WORK,
    /* DONE. COMMITTED, ABSENT: somebody else has ended it, so. Lost: again. */
    RT_PARTICIPANT_COMMIT,
    RT_PARTICIPANT_ROLLBACK,
    /* How the branch stands at the database: PREPARED, COMMITTED (its marker), ABSENT. Lost: in the next round. From
     * now on others may have to end it: the connection that prepared it lets it go. */
    RT_PARTICIPANT_LOOK,
    RT_PARTICIPANT_ASK, /* `whom`, with how it stands here; rt_participant_heard */
};

struct rt_participant_todo {
    enum rt_participant_op op;
    uint32_t seq;          /* give it back with the answer */
    uint32_t whom;         /* ASK: 0: the coordinator; from 1 on: a peer */
    struct rt_promise row; /* WRITE */
};

/* rt_participant_news */
#define RT_PARTICIPANT_MIXED 0x1u     /* another outcome was heard of; once */
#define RT_PARTICIPANT_BLOCKED 0x2u   /* T2 is over, and it may not end; once */
#define RT_PARTICIPANT_ATTENTION 0x4u /* something came to nothing ten times in a row */
#define RT_PARTICIPANT_ENDED 0x8u     /* nothing is due any more; once */
#define RT_PARTICIPANT_ALONE 0x10u    /* it has ended of itself, by timeout; once */

struct rt_participant {
    struct rt_promise kept; /* as the row says */
    struct rt_promise next; /* `writes`: as it is to say */
    struct rt_retry local;  /* of what is done at its own database */
    struct rt_retry round;  /* of questions: seq of the round */
    int64_t t1, t2;         /* ns */
    int64_t until;          /* T1, T2 by our clock */
    uint32_t peers, last_seq, news;
    uint8_t doing;  /* enum rt_participant_op: under way at its database */
    uint8_t told;   /* enum rt_decision, by the coordinator */
    uint8_t worked; /* enum rt_reply, of WORK: YES or NO */
    uint8_t found;  /* enum rt_reply, of LOOK in this round */
    uint8_t judged; /* enum rt_stance: what the last round came to; NONE: nothing */
    uint8_t heard[RT_PARTICIPANT_PEERS + 1]; /* enum rt_stance, in this round */
    uint32_t asked,
        open; /* bits: asked in this round; not answered yet. The bit after the last peer: LOOK */
    bool textbook; /* on_timeout = commit */
    bool refuses;  /* it promises nothing */
    bool writes, can, pre, has_worked;
    bool begun;   /* something of it may be at the database */
    bool against; /* a peer has ended otherwise */
    bool blocked, over;
};

/* Nothing is known of it yet. PEERS: how many others take part, at most RT_PARTICIPANT_PEERS; T1, T2 in ns. */
void rt_participant_init(struct rt_participant *p, uint32_t peers, bool textbook, int64_t t1,
                         int64_t t2);
/* After a restart, as its row says; WALL_MS is now. Not of a row with NONE. A promise alone is given up: it may have
 * died at its work. */
void rt_participant_restore(struct rt_participant *p, const struct rt_promise *row, int64_t wall_ms,
                            int64_t now);

/* The coordinator asks for something. Its answer is rt_participant_stand, when rt_participant_is_quiet. */
void rt_participant_asked(struct rt_participant *p, enum rt_three_ask ask, int64_t now);
/* A peer asks, and says how it stands there. */
void rt_participant_met(struct rt_participant *p, enum rt_stance theirs);

/* How it stands, durably: the answer to everybody. */
struct rt_stand rt_participant_stand(const struct rt_participant *p);
/* All that could be done about what was asked is done, or it cannot be done now. After rt_participant_todo has said
 * that there is nothing. */
bool rt_participant_is_quiet(const struct rt_participant *p);

/* The next thing to do; false: nothing now. WALL_MS is now, for rows. */
bool rt_participant_todo(struct rt_participant *p, struct rt_participant_todo *todo,
                         int64_t wall_ms, int64_t now);
/* That was done: WRITE, WORK, COMMIT, ROLLBACK, LOOK. Late ones are known by SEQ. */
void rt_participant_did(struct rt_participant *p, uint32_t seq, enum rt_reply reply, int64_t now);
/* WHOM has answered an ASK; NONE: it did not. A coordinator says COMMITTED, ABORTED when that stands in the journal,
 * WAIT when nothing does. */
void rt_participant_heard(struct rt_participant *p, uint32_t whom, uint32_t seq,
                          enum rt_stance stance, int64_t now);
/* When rt_participant_todo would do something; NEVER: answers or requests are waited for. */
int64_t rt_participant_next(const struct rt_participant *p);
uint32_t rt_participant_news(struct rt_participant *p); /* RT_PARTICIPANT_*; and forgets them */

#endif
