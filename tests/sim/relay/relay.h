/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox in the simulator: writers, lanes of relays (src/txn/relay/lane.c), consumers, and a simulated database and
 * broker; everything is decided by one seed.
 *
 *   writer ── COMMIT ──▶ rows ── claim: row locks ──▶ lane ── publish ──▶ broker ──▶ consumer: inbox, effect ── processed ──▶ rows
 *
 * Whoever is chosen takes one step: that is how replies can be late. Time passes only when nobody has anything to do.
 * First a phase full of trouble, then all is healed, and everything must come to its end.
 *
 *   V1 an event has its effect once, and only if its transaction has committed
 *   V2 the effects of a key come in the order of their ids (unless the broker forgot something that it had confirmed)
 *   V3 in the end every row is processed, or dead because the broker refuses it; nothing is claimed
 *   V4 a row is `published` only if the broker had it
 *   V5 only what the broker refused so often is dead, and never what it would take now
 *   V6 a row whose mark the database drops is not published again by the same lane before a second is over */
#ifndef SIM_RELAY_H
#define SIM_RELAY_H

#include "sim/schedule.h"
#include "txn/relay/lane.h"

#define RY_ROWS 48
#define RY_KEYS 4
#define RY_WRITERS 3
#define RY_LANES 3
#define RY_CONSUMERS 2
#define RY_BATCH 8
#define RY_QUEUE 1024
#define RY_MS INT64_C(1000000)

enum ry_state {
    RY_OPEN,
    RY_NEW,
    RY_PUBLISHED,
    RY_PROCESSED,
    RY_DEAD,
    RY_GONE
}; /* OPEN: not committed; GONE: rolled back */

struct ry_row {
    uint8_t state;
    uint8_t key;    /* RY_KEYS: none */
    int8_t owner;   /* the lane whose lock is on it; -1: nobody's */
    bool in_broker; /* it has been there */
    uint32_t attempts;
    uint32_t refusals; /* how often the broker refuses it; UINT32_MAX: for ever */
    int64_t next_at, changed_at;
    bool refused;     /* it ever was */
    uint32_t dropped; /* how many of its marks the database takes and does not write */
    uint32_t full;    /* how often the broker has no room for it */
    uint32_t effects;
    bool taken; /* in the inbox */
};

struct ry_writer {
    uint32_t rows[3], count;
    bool open;
};

struct ry_lane {
    struct rt_lane lane;
    struct rt_lane_item items[RY_BATCH];
    struct rt_store_mark marks[RY_BATCH];
    struct rt_lane_past past[RT_LANE_PAST(RY_BATCH)];
    struct rt_store_row rows[RY_BATCH];
    struct rt_message messages[RY_BATCH];
    enum rt_sent sent[RY_BATCH];
    const char *why[RY_BATCH];
    bool alive, publishing, severed; /* severed: the server has ended its transaction */
    size_t at, going;                /* of the batch: the next to be sent */
    int cut;                         /* where the connection breaks; -1: nowhere */
    int64_t wake_at, claimed_at;
    int64_t not_before[RY_ROWS]; /* V6; 0: at any time */
};

struct ry_consumer {
    int32_t row; /* that it works on; -1: none */
    bool committed, reporting;
};

struct ry_plan {
    uint32_t rows, lanes, crash, pause, cut, lost_mark, lost_confirm, forget, dies, no_report,
        rollback, doubled, away;
    uint32_t keyless;
    bool until_published, strict;
};

struct ry_counts {
    uint64_t events, published, again, refused, dead, deferred, crashes, forgotten, severed,
        doubled, dropped, full;
};
extern struct ry_counts ry_counts;

struct ry_world {
    struct sim_random random;
    struct sim_random later; /* for what was added later: older seeds mean what they meant */
    struct ry_plan plan;
    bool healing, tracing, forgot, away;
    int64_t now;
    uint32_t begun;
    struct ry_row rows[RY_ROWS];
    struct ry_writer writers[RY_WRITERS];
    struct ry_lane lanes[RY_LANES];
    struct ry_consumer consumers[RY_CONSUMERS];
    uint32_t queue[RY_QUEUE], head, tail; /* rows, in their order; `head` is delivered next */
    uint32_t seen; /* by a poller by id: the last that it saw (a planted bug) */
};

/* ---- world.c */
void ry_play(uint64_t seed, bool tracing);
void ry_report(void);
bool ry_strikes(struct ry_world *w, uint32_t per_mille); /* never once it is healed */
_Noreturn void ry_violated(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ry_trace(const struct ry_world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- lane.c: a lane's step */
void ry_lane_start(struct ry_world *w, uint32_t i);
void ry_lane_crash(struct ry_world *w, uint32_t i);
bool ry_lane_ready(const struct ry_world *w, uint32_t i); /* it has something to do now */
void ry_lane_step(struct ry_world *w, uint32_t i);
void ry_lane_sever(struct ry_world *w,
                   uint32_t i); /* the server ends its transaction: its locks are free */

/* ---- parties.c: writers, the broker's queue, consumers */
bool ry_writer_step(struct ry_world *w, uint32_t i); /* false: it has nothing to do */
bool ry_consumer_step(struct ry_world *w, uint32_t i);
void ry_consumer_crash(struct ry_world *w, uint32_t i);
void ry_put(struct ry_world *w, uint32_t row); /* into the queue */
void ry_forget(struct ry_world *w);            /* the broker dies without having written all */

#endif
