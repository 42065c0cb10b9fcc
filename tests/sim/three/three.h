/* SPDX-License-Identifier: Apache-2.0 */
/* Three-phase commit in the simulator: a coordinator and up to three participants that run src/txn/three, each
 * participant with a database of its own, a journal, and recovery; in virtual time, over a network that loses, delays,
 * doubles and reorders, and that falls apart; everything is decided by one seed.
 *
 *   node 0: coordinator ── CAN, PRE, DO, NO ──▶ nodes 1 to 3: participants ── rows, branches ──▶ their databases
 *      └─ DECIDE, DONE ──▶ journal                 └─ ASK ──▶ the coordinator, and each other
 *
 * First a phase full of trouble, then all is healed and everything must come to its end (H6). A struct th_fact is what
 * really became of a transaction, known to nobody inside; H1 to H8 of txn/three/three.h are asserted on it. */
#ifndef SIM_THREE_H
#define SIM_THREE_H

#include "sim/schedule.h"
#include "txn/three/coordinator.h"
#include "txn/three/participant.h"

#define TH_PARTS 3
#define TH_NODES (TH_PARTS + 1)
#define TH_FACTS 4
#define TH_EVENTS 4096
#define TH_WAITING 24 /* questions that one participant has not answered yet */
#define TH_MS INT64_C(1000000)
#define TH_WALL INT64_C(1800000000000)

enum th_rules { TH_BLOCK, TH_COMMIT, TH_STRICT }; /* STRICT: commit, held to the rules of block */

enum th_db {
    TH_NOTHING,
    TH_PREPARED,
    TH_COMMITTED,
    TH_ROLLED
}; /* ROLLED: nothing comes after it */

struct th_part {           /* a transaction at one participant, as it really is */
    struct rt_promise row; /* durable */
    uint32_t been;         /* bits: stances that it has had */
    uint8_t db;            /* enum th_db: durable */
    bool answered;         /* PRECOMMITTED has left for the coordinator */
    bool refuses;
    int64_t prepared_at;
};

struct th_fact {
    bool begun, done, lost; /* lost: its coordinator has died over it */
    bool registered;        /* the journal knows who takes part */
    bool called;            /* recovery has called a person */
    uint8_t stands;         /* enum rt_decision */
    uint8_t told;           /* enum rt_stance */
    int64_t deadline_ms;
    struct th_part parts[TH_PARTS];
};

enum th_event_kind {
    TH_EV_REQUEST, /* from the coordinator, at a participant */
    TH_EV_REPLY,   /* to that */
    TH_EV_ASK,     /* from a participant, at the coordinator or a peer */
    TH_EV_HEARD,   /* the answer */
    TH_EV_EFFECT,  /* something happens at a database */
    TH_EV_DID,     /* and is known */
    TH_EV_JOURNAL,
    TH_EV_WROTE,
    TH_EV_WAKE,
    TH_EV_RESTART,
    TH_EV_BEGIN,
    TH_EV_TROUBLE,
    TH_EV_RECOVER, /* a pass of recovery */
    TH_EV_SETTLE,  /* it ends a branch at a database */
};

struct th_event {
    int64_t at;
    uint64_t order;
    uint8_t kind, fact;
    uint8_t from, to; /* nodes */
    uint8_t ask, op, reply, decision;
    uint8_t stance; /* ASK: the asker's; HEARD: the answer */
    bool lost;
    uint32_t seq, gen; /* gen: of the node that gets it, or that it belongs to */
    struct rt_stand stand;
    struct rt_promise row;
};

struct th_waiting { /* a question that is answered when the participant is quiet */
    bool used, peer;
    uint8_t from;
    uint32_t seq, gen;
};

struct th_node {
    bool alive;
    uint32_t gen;
    int64_t paused_until, wake_at, skew_ms;
    /* a coordinator's */
    struct {
        bool used;
        struct rt_coordinator c;
        struct rt_coordinator_part parts[TH_PARTS];
    } led[TH_FACTS];
    /* a participant's */
    struct {
        bool used, looked;
        struct rt_participant p;
        struct th_waiting waiting[TH_WAITING];
    } takes[TH_FACTS];
};

enum th_trouble { TH_CRASH, TH_PAUSE, TH_CUT, TH_SPLIT, TH_JOURNAL_DOWN, TH_TROUBLES };

struct th_plan {
    uint32_t facts, parts;
    uint32_t pace_us, delay_us, trouble_ms, call_ms, recover_ms, timeout_ms, rest_ms, down_ms;
    uint32_t lost, late, doubled, failed, refuses, skew_ms, dies;
    uint32_t t1_ms, t2_ms, margin_ms;
    uint32_t trouble[TH_TROUBLES];
};

struct th_counts {
    uint64_t begun, committed, aborted, untold, mixed, told_by_parts, told_by_coordinator,
        told_by_recovery, closed_by_recovery, alone, blocked, settled, adopted, crashes, pauses,
        cuts, lost, doubled;
    uint64_t held_ms, held; /* before the healing: branches that were prepared, and for how long */
    uint64_t held_most_ms;
};
extern struct th_counts th_counts;

struct th_world {
    enum th_rules rules;
    struct sim_random random;
    struct th_plan plan;
    int64_t now;
    uint64_t order;
    bool healing, tracing;
    uint32_t begun, troubles;
    int64_t journal_down_until, healed_at;
    int64_t cut_until[TH_NODES][TH_NODES];
    struct th_fact facts[TH_FACTS];
    struct th_node nodes[TH_NODES];
    struct th_event events[TH_EVENTS]; /* a heap */
    uint32_t event_count;
};

/* ---- world.c */
void th_play(enum th_rules rules, uint64_t seed, bool tracing);
void th_report(void);
void th_post(struct th_world *w, const struct th_event *e);
int64_t th_delay(struct th_world *w);
bool th_strikes(struct th_world *w, uint32_t per_mille);
/* E leaves FROM for TO: it arrives, or not, or twice. */
void th_send(struct th_world *w, const struct th_event *e);
void th_crash(struct th_world *w, uint32_t node);
int64_t th_wall_ms(const struct th_world *w, uint32_t node);
void th_trace(const struct th_world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define TH_TRACE(w, ...)              \
    do {                              \
        if ((w)->tracing)             \
            th_trace(w, __VA_ARGS__); \
    } while (0)
_Noreturn void th_violated(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- node.c */
void th_node_start(struct th_world *w, uint32_t node);
void th_node_begin(struct th_world *w, uint32_t fact); /* the coordinator begins one */
void th_node_get(struct th_world *w, const struct th_event *e);
void th_node_run(struct th_world *w, uint32_t node); /* all that is due */
bool th_node_idle(const struct th_world *w, uint32_t node);

/* ---- truth.c: what is durable, and what it must be */
void th_effect(struct th_world *w, const struct th_event *e);
void th_journal(struct th_world *w, const struct th_event *e);
void th_recover(struct th_world *w); /* a pass */
void th_settle(struct th_world *w, const struct th_event *e);
void th_answers(struct th_world *w, uint32_t fact, uint32_t part, const struct rt_stand *stand,
                bool peer);                               /* H4 */
void th_decides(const struct th_world *w, uint32_t fact); /* H2 */
void th_told(struct th_world *w, uint32_t fact, enum rt_stance told);
void th_check_end(struct th_world *w);

#endif
