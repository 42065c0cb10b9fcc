/* SPDX-License-Identifier: Apache-2.0 */
/* A participant of three-phase commit: one transaction at one database.
 *
 *          CAN: row     PRE: work, PREPARE, row        DO
 *   NONE ─────────▶ WAIT ─────────────────▶ PRECOMMITTED ──▶ COMMITTED ─────────────────────────▶ ended, sure
 *    │ NO, or it     │  NO; the work failed;    │ │ NO; a      ▲ │ alone or by a peer: keeps asking,
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
 * ABORTED it never gives that answer. PRECOMMITTED has given it: now it may do only what it is told, or what a peer did
 * (a peer that ABORTED never answered PRECOMMITTED, or was told to abort; a peer that COMMITTED was told to). That is
 * all of `block`; it may take long. `commit` is the textbook's rule for when nobody answers, and may be wrong (H5): a
 * participant that ended on its own, or after such a peer, keeps asking until it has heard the decision.
 *
 * A row is written before anything it says is done, so the answer is what stands in the row (H4). The branch at the
 * database is committed or rolled back only after the row says so, again and again until it has ended.
 *
 * Lost, late, doubled: a WRITE without an answer is repeated unchanged; WORK without one is rolled back; COMMIT and
 * ROLLBACK are asked again, for the database knows what it did (its marker). Questions to others belong to a round:
 * answers that come after it do nothing.
 *
 * Pure: requests, answers and the time in; what to do, and news, out. At any time one thing is under way at its
 * database (`seq`), and one round of questions. */
#ifndef RT_PARTICIPANT_H
#define RT_PARTICIPANT_H

#include "txn/core/branch.h"
#include "txn/three/three.h"

#define RT_PARTICIPANT_PEERS 15
#define RT_PARTICIPANT_NEVER INT64_MAX

struct rt_promise { /* the row; all of it durable */
    struct rt_stand stand;
    bool sure;        /* the decision is known: nobody is asked any more */
    int64_t until_ms; /* WAIT: T1; PRECOMMITTED: T2; wall clock, to survive a restart */
};

enum rt_participant_op {
    RT_PARTICIPANT_NOTHING,
    /* todo.row, durable. DONE. Lost: again, unchanged. Once the rows have been read, nothing that an earlier life of
     * the participant wrote may still arrive (each write compares an epoch). */
    RT_PARTICIPANT_WRITE,
    /* The statements, then PREPARE. YES: durable. NO: nothing stays. Lost: it may be prepared, so it is rolled back. */
    RT_PARTICIPANT_WORK,
    /* DONE. COMMITTED, ABSENT: somebody else has ended it that way. Lost: again. */
    RT_PARTICIPANT_COMMIT,
    RT_PARTICIPANT_ROLLBACK,
    /* How the branch stands at the database: PREPARED, COMMITTED (its marker), ABSENT. Lost: again in the next round.
     * From now on others may have to end it, so the connection that prepared it lets it go. */
    RT_PARTICIPANT_LOOK,
    RT_PARTICIPANT_ASK, /* `whom`, telling our stance; rt_participant_heard */
};

struct rt_participant_todo {
    enum rt_participant_op op;
    uint32_t seq;          /* give it back with the answer */
    uint32_t whom;         /* ASK: 0: the coordinator; from 1 on: a peer */
    struct rt_promise row; /* WRITE */
};

/* rt_participant_news */
#define RT_PARTICIPANT_MIXED 0x1u     /* it heard of a different outcome; once */
#define RT_PARTICIPANT_BLOCKED 0x2u   /* T2 is over, and it may not end yet; once */
#define RT_PARTICIPANT_ATTENTION 0x4u /* something failed ten times in a row */
#define RT_PARTICIPANT_ENDED 0x8u     /* nothing is due any more; once */
#define RT_PARTICIPANT_ALONE 0x10u    /* it has ended on its own, by timeout; once */

struct rt_participant {
    struct rt_promise kept; /* what the row says */
    struct rt_promise next; /* `writes`: what it is to say */
    struct rt_retry local;  /* for what is done at its own database */
    struct rt_retry round;  /* for questions: seq of the round */
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
    bool against; /* a peer has ended differently */
    bool blocked, over;
};

/* Nothing is known of it yet. PEERS: how many others take part, at most RT_PARTICIPANT_PEERS; T1, T2 in ns. */
void rt_participant_init(struct rt_participant *p, uint32_t peers, bool textbook, int64_t t1,
                         int64_t t2);
/* After a restart, from its row; WALL_MS is now. Not from a row that says NONE. A bare promise is given up: it may have
 * died during its work. */
void rt_participant_restore(struct rt_participant *p, const struct rt_promise *row, int64_t wall_ms,
                            int64_t now);

/* The coordinator asks for something. Its answer is rt_participant_stand, when rt_participant_is_quiet. */
void rt_participant_asked(struct rt_participant *p, enum rt_three_ask ask, int64_t now);
/* A peer asks, and tells its own stance. */
void rt_participant_met(struct rt_participant *p, enum rt_stance theirs);

/* How it stands, durably: the answer to everybody. */
struct rt_stand rt_participant_stand(const struct rt_participant *p);
/* Everything possible has been done about the request, or it cannot be done now. Call it after rt_participant_todo has
 * returned false. */
bool rt_participant_is_quiet(const struct rt_participant *p);

/* The next thing to do; false: nothing now. WALL_MS is now, for rows. */
bool rt_participant_todo(struct rt_participant *p, struct rt_participant_todo *todo,
                         int64_t wall_ms, int64_t now);
/* The answer to WRITE, WORK, COMMIT, ROLLBACK, LOOK. Late ones are recognised by SEQ. */
void rt_participant_did(struct rt_participant *p, uint32_t seq, enum rt_reply reply, int64_t now);
/* WHOM has answered an ASK; NONE: it did not. A coordinator says COMMITTED or ABORTED when that stands in the journal,
 * WAIT when nothing does. */
void rt_participant_heard(struct rt_participant *p, uint32_t whom, uint32_t seq,
                          enum rt_stance stance, int64_t now);
/* When rt_participant_todo would do something; NEVER: it waits for answers or requests. */
int64_t rt_participant_next(const struct rt_participant *p);
uint32_t rt_participant_news(struct rt_participant *p); /* RT_PARTICIPANT_*; and forgets them */

#endif
