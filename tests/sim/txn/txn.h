/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions in the simulator: processes that run src/txn/core, a journal, and resources that can prepare, in
 * virtual time, over a network that loses, delays, doubles and reorders; everything is decided by one seed.
 *
 *   process: coordinator, joiner, keeper, recovery, gc ──▶ requests ──▶ journal    (a row per id, a floor)
 *            (rt_txn, rt_sweep, rt_gc)                 ◀── answers  ◀── resources  (branches, connections, markers)
 *
 * First a phase full of trouble, then all is healed and everything must come to its end (X10). A struct ts_fact is
 * what really became of an id, known to nobody inside; the invariants X1 to X11 of txn/core/txn.h are asserted on it.
 * */
#ifndef SIM_TXN_H
#define SIM_TXN_H

#include "sim/schedule.h"
#include "txn/core/gc.h"
#include "txn/core/name.h"
#include "txn/core/sweep.h"
#include "txn/core/txn.h"

#define TS_PROCS 4
#define TS_RESOURCES 3
#define TS_FACTS 14
#define TS_BRANCHES 8 /* of one transaction: up to 3 by its beginner, up to 2 by each joiner */
#define TS_JOINS 2    /* processes that join one transaction */
#define TS_SLOTS 16   /* transactions that a process works on */
#define TS_EVENTS 2048
#define TS_JOURNAL 7 /* our journal's number */
#define TS_SEEN (1u << 31)
#define TS_IS_COMMIT (1u << 30)
#define TS_IS_OPEN (1u << 29)
#define TS_BITS (TS_IS_OPEN - 1)
#define TS_MS INT64_C(1000000)
#define TS_WALL INT64_C(1800000000000) /* ms since 1970 when a world begins */

enum ts_branch_state {
    TS_NONE,
    TS_ACTIVE,
    TS_PREPARED,
    TS_GHOST, /* MariaDB said it was finished; it is not, and comes back with the next restart (T0.1) */
    TS_COMMITTED,
    TS_ROLLED,
    TS_READ,     /* ended without changes */
    TS_RESERVED, /* a service, by its try */
};

enum ts_fence { TS_NO_FENCE, TS_BY_TRY, TS_BY_CANCEL }; /* of a service: who came first */

struct ts_branch { /* as it is at its resource */
    uint8_t state, resource;
    bool closed;    /* the connection that worked on it */
    bool was_reset; /* ... was given back to a pool: a takeover is lost, always */
    bool marker;    /* it committed, and that can be seen */
    bool lost_once; /* it was a ghost */
    bool fenced;    /* can no longer commit in one phase */
    bool failed;    /* a statement of it did */
    bool reads, says_no;
    bool listed; /* in the COMMIT that was written */
    bool one_phase;
    bool joined;     /* of a process that joined */
    bool registered; /* ... it stands in the journal */
    bool service;
    bool left; /* ... its try */
    bool cancelled;
    uint8_t fence;       /* enum ts_fence */
    int64_t detached_at; /* closed: when the server is done with it */
};

enum ts_way { /* what a thread that joined asks for */
              TS_COMMITS,
              TS_VOTES, /* and then commits */
              TS_ABORTS,
              TS_VOTES_ABORTS,
              TS_WAYS,
};

struct ts_join {       /* a process's part in another's transaction */
    bool asked;        /* everything that it was to ask for */
    bool ready;        /* its work is done, one way or the other: its caller may go on */
    uint8_t way;       /* enum ts_way */
    uint8_t vote, end; /* enum rt_outcome: what it was told */
    uint32_t mine;     /* bits: its branches */
};

struct ts_fact { /* an id, as it really is */
    struct rt_txn_id id;
    int64_t deadline_ms;
    bool foreign;
    bool begun;
    /* In the journal. */
    bool row, done;
    uint8_t stands;             /* enum rt_decision */
    uint32_t vouched, vouchers; /* bits: services; joiners that vouched for them */
    /* Since the beginning of the world. */
    uint8_t ever;    /* what stood first */
    bool owner_gone; /* whoever began it has crashed */
    bool aborts;     /* its caller wants that */
    uint8_t told;    /* enum rt_outcome */
    uint32_t count;
    struct ts_branch branches[TS_BRANCHES];
    uint32_t join_count, calls; /* those that joined; those that are to */
    uint32_t patience;          /* how many more times the beginner looks whether they are ready */
    struct ts_join joins[TS_JOINS];
};

enum ts_event_kind {
    TS_EV_JOURNAL,  /* a request arrives there */
    TS_EV_RESOURCE, /* ... there */
    TS_EV_ANSWER,   /* an answer arrives at a process, or is given up */
    TS_EV_WAKE,     /* a process has something to do */
    TS_EV_CLOSE,    /* the server sees a connection's end */
    TS_EV_RESTART,  /* a process begins anew */
    TS_EV_COMMIT,   /* a thread ends its transaction */
    TS_EV_JOIN,     /* a thread joins another's */
    TS_EV_ASK,      /* ... and votes, commits, aborts */
    TS_EV_ACT,
    TS_EV_TROUBLE,
};

enum ts_op { /* besides those of the core */
             TS_OP_TXN,
             TS_OP_SCAN,
             TS_OP_LIST,
             TS_OP_GC,
};

struct ts_event {
    int64_t at;
    uint64_t order; /* among equals, the first */
    uint8_t kind, op;
    uint8_t proc, slot, fact, branch, resource;
    uint8_t to, bop, decision, reply; /* enums of the core */
    bool own, fence, done, give_up, has_parts, stays;
    uint8_t gc_op;
    uint32_t gen, slot_gen, seq, pass;
    uint32_t registered;   /* DECIDE */
    uint32_t parts, marks; /* bits: of the branches; facts: of the undone */
    uint32_t vouched;      /* LOOK: bits of the branches */
    /* SCAN, LIST: bits of branches per fact; TS_SEEN; SCAN: TS_IS_COMMIT, TS_IS_OPEN */
    uint32_t listed[TS_FACTS];
    int64_t floor_ms;
};

struct ts_slot {
    bool used;
    uint8_t fact, join;
    uint32_t gen;
    uint32_t mine; /* bits: branches that were begun here, on connections of ours */
    struct rt_txn t;
    struct rt_branch b[TS_BRANCHES];
};

struct ts_proc {
    bool alive, recovers;
    /* stopped for so long that its connections have died: nothing sent to it arrives */
    bool deaf;
    uint32_t gen;
    int64_t paused_until, wake_at, pass_at, gc_at, skew_ms;
    struct ts_slot slots[TS_SLOTS];
    struct rt_sweep sweep;
    struct rt_seen seen[TS_FACTS + 2];
    struct rt_gc gc;
    uint32_t undone; /* facts, as SCAN of gc told */
    uint32_t sights[TS_FACTS],
        /* in how many passes it could be settled, as the checker counts; the last */
        sight_last[TS_FACTS];
};

struct ts_resource {
    bool gated; /* as MariaDB; else as PostgreSQL */
    int64_t down_until;
    int64_t view_at; /* who is connected, as told; up to 100 ms old */
    uint32_t view[TS_FACTS];
};

enum ts_trouble {
    TS_CRASH,
    TS_PAUSE,
    TS_HOUR, /* a pause, and what is met after it: decided, finished, forgotten */
    TS_DOWN, /* a resource; it restarts */
    TS_JOURNAL_DOWN,
    TS_CUT,   /* a connection */
    TS_RESET, /* a connection is given back to its pool with a prepared branch on it */
    TS_TROUBLES,
};

struct ts_plan {
    uint32_t procs, resources, facts, recoveries;
    uint32_t pace_us, trouble_ms, delay_us;
    uint32_t lost, late, doubled; /* per mille */
    uint32_t failed, reads, says_no, aborts, shared, waits;
    uint32_t joins;                   /* per mille of the transactions that others may join */
    uint32_t services, held, refuses; /* per mille: have them; answer 425, 409 */
    uint32_t call_ms, limit_ms, timeout_ms, pass_ms, keep_ms, skew_ms;
    uint32_t rest_ms; /* from the last begin to the healing, mean */
    uint32_t dies;    /* per 10,000 of the requests: the process dies before it leaves */
    uint32_t trouble[TS_TROUBLES]; /* weights */
};

struct ts_counts {
    uint64_t begun, committed, aborted, unknown, expired, one_phase, adopted, stuck, ghosts,
        attention;
    uint64_t joined, prepared, late, told_no, told_yes;
    uint64_t tries, late_tries, empty, refused;
    uint64_t crashes, pauses, hours, downs, lost, doubled, forgotten;
};
extern struct ts_counts ts_counts;

struct ts_world {
    uint64_t seed;
    struct sim_random random;
    struct sim_random aside; /* for joiners: worlds without them are as they were before */
    struct sim_random third; /* the same for services */
    struct ts_plan plan;
    int64_t now;
    uint64_t order;
    bool healing, tracing;
    uint32_t begun, troubles; /* so far */
    int64_t journal_down_until, floor_ms;
    struct ts_fact facts[TS_FACTS];
    struct ts_proc procs[TS_PROCS];
    struct ts_resource resources[TS_RESOURCES];
    struct ts_event events[TS_EVENTS]; /* a heap */
    uint32_t event_count;
};

/* ---- world.c */
void ts_play(uint64_t seed, bool tracing);
void ts_report(void);
void ts_post(struct ts_world *w, const struct ts_event *e);
int64_t ts_delay(struct ts_world *w);
int64_t ts_wall_ms(const struct ts_world *w, const struct ts_proc *p);
/* A request leaves: it arrives, or not, or twice; and is given up after a while. */
void ts_send(struct ts_world *w, const struct ts_event *request);
/* A connection ends: the server sees it a while later. */
void ts_close_connection(struct ts_world *w, uint32_t fact, uint32_t branch);
void ts_trace(const struct ts_world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define TS_TRACE(w, ...)              \
    do {                              \
        if ((w)->tracing)             \
            ts_trace(w, __VA_ARGS__); \
    } while (0)
_Noreturn void ts_violated(const struct ts_world *w, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- journal.c, resource.c: a request has arrived; R is the answer to be. False: there is none. */
bool ts_journal_serve(struct ts_world *w, struct ts_event *r);
bool ts_resource_serve(struct ts_world *w, struct ts_event *r);
void ts_resource_closed(struct ts_world *w, struct ts_fact *f, struct ts_branch *b);
void ts_resource_restart(struct ts_world *w, uint32_t resource);

/* ---- service.c */
uint8_t ts_service_call(struct ts_world *w, const struct ts_event *r, struct ts_branch *b);
void ts_service_check_done(const struct ts_world *w, uint32_t fact);
void ts_service_add(struct ts_world *w, struct ts_slot *s, struct ts_fact *f);
void ts_service_plan(struct ts_world *w, struct ts_slot *s, struct ts_fact *f);
/* Its thread waits for tries, and is patient. */
bool ts_service_waits(struct ts_world *w, const struct ts_slot *s);
/* Sends all tries that may leave; false: the process died of it. */
bool ts_service_try(struct ts_world *w, struct ts_proc *p, struct ts_slot *s);

/* ---- process.c */
void ts_proc_start(struct ts_world *w, struct ts_proc *p);
void ts_proc_crash(struct ts_world *w, struct ts_proc *p);
void ts_proc_begin(struct ts_world *w, struct ts_proc *p); /* one more transaction */
void ts_proc_commit(struct ts_world *w, struct ts_proc *p, struct ts_event *e);
void ts_proc_answer(struct ts_world *w, struct ts_proc *p, const struct ts_event *e);
void ts_proc_run(struct ts_world *w, struct ts_proc *p); /* all that is due */
void ts_proc_back(struct ts_world *w, struct ts_proc *p, uint32_t resource);
bool ts_proc_idle(const struct ts_proc *p);                     /* works on nothing */
struct ts_slot *ts_proc_slot(struct ts_proc *p, uint32_t fact); /* NULL: all are taken */

/* ---- joiner.c */
/* Others may join the transaction of S. */
void ts_join_plan(struct ts_world *w, struct ts_slot *s);
/* Its beginner waits for them, and looks again when E says. */
bool ts_join_is_called(struct ts_world *w, uint32_t fact, struct ts_event *e);
void ts_join_begin(struct ts_world *w, struct ts_proc *p, const struct ts_event *e);
void ts_join_ask(struct ts_world *w, struct ts_proc *p, struct ts_event *e);
/* Branches that are registered begin at their resources. */
void ts_join_work(struct ts_world *w, struct ts_slot *s);
/* What it is told, and how it ended, are true (X2, X5). */
void ts_join_told(struct ts_world *w, struct ts_proc *p, struct ts_slot *s);
void ts_join_ended(const struct ts_world *w, const struct ts_slot *s);
/* All that its thread will ask for was answered. */
bool ts_join_is_answered(const struct ts_world *w, const struct ts_slot *s);
void ts_join_check_end(const struct ts_world *w, uint32_t fact);

#endif
