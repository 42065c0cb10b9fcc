/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction: branches, one decision, and what to ask the journal and the participants to get there.
 *
 *            commit           all voted           it stands
 *   ACTIVE ────────▶ PREPARING ────────▶ DECIDING ─────┬── COMMIT ──▶ COMMITTING ──▶ CLOSING ──▶ ENDED
 *    │ │ │            ▲ │  └─ any no, lost, ▲ │ ▲      └── ABORT ───▶ ABORTING ───────▲          ▲
 *    │ │ │            │ │     deadline:     │ │ │ answer lost: again     ▲ │ no row is there     │
 *    │ │ │            │ │     ABORT ────────┘ │ │                        │ └─────────────────────┤
 *    │ │ │         LOOKING ◀── others joined ─┘ │                        │                       │
 *    │ │ │ one branch,  └── all read-only ──────┼────────────────────────┼───────────────────────┤
 *    │ │ └ whose id nobody has ▶ ONE_PHASE ─────┼── no ──────────────────┤                       │
 *    │ │                             └─ committed; or asked whether it did ──────────────────────┘
 *    │ └── abort, deadline ─────────────────────┘                        │
 *    └──── abort before anything was prepared ───────────────────────────┘
 *   adopted (recovery): undecided: DECIDING with ABORT; decided: COMMITTING, ABORTING
 *   joined (another process began it, and decides):
 *
 *            vote             all yes          COMMIT stands
 *   ACTIVE ────────▶ PREPARING ──┬────▶ WAITING ────────────▶ COMMITTING ──▶ ENDED
 *    │ │ │            │          └▶ VOUCHING ▲ services: their yes is written down
 *    │ │ │            │ any no, lost,    │ │                    ▲              ▲
 *    │ │ │            │ deadline         │ └── ABORT stands ────┼▶ ABORTING ───┘
 *    │ │ │            ▼                  │                      │   ▲ ▲
 *    │ │ └ abort, ▶ DECIDING with ABORT ◀┘ abort, or nobody has │   │ │
 *    │ │  deadline   │                     by settle_at         │   │ │
 *    │ │             └────────── what stands ───────────────────┴───┘ │
 *    │ └──────────────────────── a branch is too late: it is decided ─┘
 *    └ each branch: REGISTER before it begins
 *
 * A process that joined writes ABORT, as anybody may, and never COMMIT. It ends only its own branches, on the
 * connections that prepared them (on MariaDB nobody else can while those live), and never writes DONE, for it does not
 * know the other branches. The process that began the transaction, or recovery, ends all branches and writes DONE. Both
 * may end the same branch: whoever comes second is told ABSENT, and asks for the marker.
 *
 * The invariants; the simulator (tests/sim/txn) asserts them, comments cite them by number:
 * X1  One decision: what stands in the journal for an id never changes. A transaction is committed exactly when (id,
 *     COMMIT) stands; a one-phase one, whose id nobody else knows, when its branch has committed, with its marker.
 * X2  (id, COMMIT) is asked for only when every branch voted yes or read-only and none has failed; no branch is told
 *     to commit, and nobody is told COMMITTED, before it is known to stand.
 * X3  No branch that may be prepared is rolled back before it is known that (id, ABORT) stands, or that nothing can
 *     stand any more.
 * X4  One outcome: an id never has one branch end committed and another rolled back, unless that is reported (STUCK).
 * X5  What a caller is told is true: COMMITTED, ABORTED. What is not known is told as UNKNOWN or EXPIRED, never
 *     guessed.
 * X6  Recovery touches only ids of its own journal, an undecided one only after its deadline, and each only after it
 *     was seen in two passes.
 * X7  A branch that another connection could lose is taken over only through the gate, and is finished only when its
 *     marker has been read.
 * X8  Nothing is written as done unless it is: neither a missing answer nor an absence is taken for a commit.
 * X9  The floor is raised before anything is forgotten; what is not done is not forgotten; below the floor nothing is
 *     decided.
 * X10 Nothing is left behind: once all faults are healed, every branch is found and finished, and every caller
 *     answered, in bounded time. Retries never end; after ten somebody is told.
 * X11 A service's try leaves only after its branch stands in the journal; DONE is written only when every service that
 *     was tried has confirmed (COMMIT) or cancelled (ABORT).
 *
 * Safety rests on no clock, lock or epoch: deadlines and passes (X6) are good manners. The first decision wins, and
 * whoever comes second is told it, be it a coordinator that was stopped for an hour, one of two recoveries, or a late
 * or doubled request.
 *
 * Pure: events, answers and the time in; what to ask, and news, out. Memory is the owner's. One request to the journal,
 * and one to each branch, is under way at a time. The owner must answer each once (RT_REPLY_LOST if it gave up); later
 * answers are recognised by their seq and do nothing. */
#ifndef RT_TXN_H
#define RT_TXN_H

#include "txn/core/branch.h"
#include "txn/id.h"

#define RT_TXN_NEVER INT64_MAX /* times are CLOCK_BOOTTIME in nanoseconds, as in core/timers.h */

/* What is asked of the journal. */
enum rt_txn_op {
    RT_TXN_BRANCH, /* not the journal: a participant, see op of the branch */
    /* Joined, and services: the branches that are `entering` are written down, so that a COMMIT counts them and an
     * ABORT finds them; durable before it is answered. OPEN: they are there, and may begin. STANDS, BELOW: too late,
     * they are not. Lost: ask again; the answer is the same. */
    RT_TXN_REGISTER,
    /* Joined: writes down that the tries of our services said yes, which counts as one registered branch; durable
     * before it is answered. OPEN: it is there. STANDS, BELOW: too late. Lost: ask again. */
    RT_TXN_VOUCH,
    /* Insert (id, COMMIT and the branches | ABORT) if nothing stands there; durable before it is answered.
     * STANDS: with what stands now, whoever wrote it; BELOW: nothing stands, and the id's birth is below the floor, so
     * nothing ever will. OPEN: COMMIT was not written, for more branches are registered than `registered`: LOOK at the
     * journal. What stands is checked before the floor. Lost: ask again; the answer is what stands. */
    RT_TXN_DECIDE,
    /* STANDS, OPEN (with the registered branches), BELOW. Lost: ask again. */
    RT_TXN_LOOK,
    /* All branches are finished: the transaction may be forgotten one day. DONE. Lost: ask again, lazily: nobody
     * waits. */
    RT_TXN_DONE,
};

struct rt_txn_part { /* a branch as the journal lists it with COMMIT */
    uint32_t number, resource;
    bool gated;
    bool service;
    bool vouched; /* LOOK, OPEN: a joined process's service, its try said yes */
    bool loose;   /* it may commit on its own (three-phase commit): branch.h */
};

struct rt_txn_todo {
    enum rt_txn_op to;
    enum rt_branch_op op;      /* RT_TXN_BRANCH */
    struct rt_branch *branch;  /* BRANCH; valid until the next branch is added */
    uint32_t seq;              /* give it back with the answer */
    enum rt_decision decision; /* DECIDE; COMMIT lists rt_txn_parts */
    uint32_t registered;       /* DECIDE: registered branches that we know of */
    bool own;   /* COMMIT, ROLLBACK: on the connection that prepared; else a takeover */
    bool fence; /* ASK */
    /* PREPARE: it must not drop out as read-only, for whoever began the transaction asks for it (RT_PARTY_WRITES) */
    bool stays;
};

struct rt_txn_answer {
    uint32_t seq;
    enum rt_reply reply;
    enum rt_decision decision; /* STANDS */
    bool done;                 /* STANDS: all branches are finished */
    /* STANDS COMMIT: the branches listed; NULL: as we asked (joined: none). STANDS ABORT: the registered services and
     * loose branches, if others know the id (`shared`, `adopted`); in an answer to LOOK they do not count. LOOK, OPEN:
     * the registered branches. There must be room for them, except in a joined transaction. */
    const struct rt_txn_part *parts;
    uint32_t part_count;
    uint32_t registered; /* LOOK, OPEN: how many the journal counts */
};

enum rt_txn_state {
    RT_TXN_ACTIVE,
    RT_TXN_PREPARING,
    RT_TXN_LOOKING,  /* which branches did others register? */
    RT_TXN_VOUCHING, /* joined: VOUCH must reach the journal */
    RT_TXN_WAITING,  /* joined: for the decision */
    RT_TXN_ONE_PHASE,
    RT_TXN_DECIDING,
    RT_TXN_COMMITTING,
    RT_TXN_ABORTING,
    RT_TXN_CLOSING, /* DONE must reach the journal */
    RT_TXN_ENDED,   /* nothing is under way, nothing is due: its owner's to free */
};

enum rt_outcome {
    RT_OUTCOME_OPEN,
    RT_OUTCOME_COMMITTED,
    RT_OUTCOME_ABORTED,
    RT_OUTCOME_EXPIRED,  /* decided, finished and forgotten: nobody knows any more */
    RT_OUTCOME_UNKNOWN,  /* only told: no answer in time; we keep looking for it */
    RT_OUTCOME_PREPARED, /* only told: joined, our vote is yes */
    RT_OUTCOME_LATE, /* joined: committed before a branch of ours was registered; nothing of ours stays */
};

/* rt_txn_news */
#define RT_TXN_ANSWERED 0x1u  /* vote, commit or abort is answered: `told`; once each */
#define RT_TXN_ATTENTION 0x2u /* something failed ten times in a row */
#define RT_TXN_STUCK 0x4u     /* a branch has become stuck; `stuck` of each says why */
#define RT_TXN_OVER 0x8u      /* ENDED; once */

struct rt_txn {
    struct rt_txn_id id;
    int64_t deadline_ms; /* by the wall clock; participants keep it with the branch */
    int64_t deadline_at; /* the same by our own clock; RT_TXN_NEVER: adopted */
    int64_t limit_at;    /* its caller must be answered by then */
    int64_t settle_at;   /* joined: it decides ABORT then, if nobody has */
    int64_t pause;       /* WAITING: between two looks */
    struct rt_branch *branches;
    uint32_t count, room;
    uint32_t last_seq;
    struct rt_retry journal;
    uint32_t news;
    uint8_t asked;       /* enum rt_txn_op: of the journal's request under way */
    uint8_t state;       /* enum rt_txn_state */
    uint8_t want;        /* enum rt_decision: what DECIDE is to write */
    uint8_t outcome;     /* enum rt_outcome */
    uint8_t told;        /* enum rt_outcome */
    uint32_t registered; /* of the branches */
    bool adopted;        /* no caller of ours waits */
    bool joined;         /* another process began it */
    bool votes;          /* joined: its caller is answered with the vote */
    /* others know the id and may ask for its outcome, so that must stand in the journal */
    bool shared;
    bool waits;        /* its caller is answered when phase two is over */
    bool sent;         /* PREPARE has left for a branch */
    bool commit_sent;  /* DECIDE with COMMIT has left */
    bool commit_lost;  /* ... and an answer to it was lost */
    bool asked_commit; /* the DECIDE under way, or the last, was for COMMIT */
    bool stands;       /* there is a row, which must be closed */
    bool ordered; /* services one by one: they confirm in order of number, and cancel in reverse */
    bool vouch_sent; /* VOUCH has left */
    bool over;       /* what was registered is done, and perhaps forgotten (BELOW) */
};

/* ---- Whose transaction it is -------------------------------------------- */

/* Begun here. BRANCHES[ROOM] is the owner's. */
void rt_txn_begin(struct rt_txn *t, const struct rt_txn_id *id, int64_t deadline_ms,
                  int64_t deadline_at, struct rt_branch *branches, uint32_t room);
/* Adds a branch, on a working connection of ours. There must be room; only before commit and abort. */
struct rt_branch *rt_txn_add(struct rt_txn *t, uint32_t number, uint32_t resource, bool gated);
/* All branches vote, and then it is decided. Its caller is answered by LIMIT_AT. WAITS: when phase two is over, if that
 * is earlier. */
void rt_txn_commit(struct rt_txn *t, bool waits, int64_t limit_at, int64_t now);
void rt_txn_abort(struct rt_txn *t, int64_t limit_at, int64_t now);

/* Begun by another process, which decides. After SETTLE_AT (its deadline plus the most that clocks may differ) ABORT is
 * decided here, if nothing else is. Then call rt_txn_add for each branch, with a number that nobody else has (drawn at
 * random from RT_TXN_JOINED up): its participant must hear nothing of it before its state is RT_BRANCH_ACTIVE. If the
 * transaction leaves ACTIVE before that, it was too late, or the deadline has passed: see `outcome`. Whoever gives up
 * waiting for it sets `failed`.
 * Then call rt_txn_vote, rt_txn_commit or both, or rt_txn_abort. */
#define RT_TXN_JOINED UINT32_C(0x80000000)
#define RT_TXN_LOOK_FIRST INT64_C(20000000) /* ns; doubling */
#define RT_TXN_LOOK_MOST INT64_C(500000000)
void rt_txn_join(struct rt_txn *t, const struct rt_txn_id *id, int64_t deadline_ms,
                 int64_t deadline_at, int64_t settle_at, struct rt_branch *branches, uint32_t room);
/* All its branches prepare. The caller is told PREPARED: from now on they end as the transaction is decided, without
 * being asked, whatever the caller does; or how the transaction ended without our yes; or UNKNOWN. */
void rt_txn_vote(struct rt_txn *t, int64_t limit_at, int64_t now);
/* rt_txn_commit of a joined transaction votes, if that was not done yet, and its caller is told the outcome; WAITS:
 * when our branches are over. rt_txn_abort votes no; after a yes it decides ABORT if nothing stands yet, and its caller
 * is told what stands. */

/* Left behind by somebody, and ours to finish: recovery. Call rt_txn_found for each branch that was found at a
 * participant, then rt_txn_settle. DECISION is what was read in the journal: COMMIT or ABORT, with all its PARTS; NONE:
 * nothing, so it will be ABORT unless the journal says otherwise. */
void rt_txn_adopt(struct rt_txn *t, const struct rt_txn_id *id, int64_t deadline_ms,
                  struct rt_branch *branches, uint32_t room);
void rt_txn_found(struct rt_txn *t, const struct rt_txn_part *part); /* idempotent */
void rt_txn_settle(struct rt_txn *t, enum rt_decision decision, const struct rt_txn_part *parts,
                   uint32_t part_count, int64_t now);

/* ---- For both ----------------------------------------------------------- */

/* The next thing to ask; false: nothing now. */
bool rt_txn_todo(struct rt_txn *t, struct rt_txn_todo *todo, int64_t now);
/* The branches that a COMMIT lists, for whoever sends it. There are never more than ROOM. */
uint32_t rt_txn_parts(const struct rt_txn *t, struct rt_txn_part *out, uint32_t room);
/* A request was answered; if the answer is too old, nothing happens. B: the branch that was asked; NULL: the
 * journal. */
void rt_txn_answered(struct rt_txn *t, struct rt_branch *b, const struct rt_txn_answer *answer,
                     int64_t now);
/* RESOURCE is back: what waits for it is asked at once. */
void rt_txn_back(struct rt_txn *t, uint32_t resource, int64_t now);
/* Time has passed. Call it at rt_txn_next at the latest. */
void rt_txn_tick(struct rt_txn *t, int64_t now);
/* The caller cannot wait any longer: it is answered now, as when its limit is over. */
void rt_txn_hurry(struct rt_txn *t, int64_t now);
/* When rt_txn_tick or rt_txn_todo would do something; RT_TXN_NEVER: it waits for answers, or for nothing. */
int64_t rt_txn_next(struct rt_txn *t);
/* Returns the news to be told, RT_TXN_*, and forgets it. */
uint32_t rt_txn_news(struct rt_txn *t);

#endif
