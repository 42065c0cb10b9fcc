/* SPDX-License-Identifier: Apache-2.0 */
/* A lane of a relay: one connection to the database of the events, one to the broker, and one batch at a time.
 *
 *             rows          the next wave     verdicts
 *   TURN ───────────────▶ PUBLISH ⟲ ───────────────▶ TURN (marks of these, and the next claim: one round trip)
 *    │ ▲ nothing to send     │ the broker is away, or takes nothing now
 *    ▼ │                     ▼
 *   WAIT ◀── TURN (marks of what was confirmed; all else is let go, nothing is claimed) ── REACH: opened again
 *
 * The claim is the row lock of the lane's open transaction (store.h), so lanes of one process and of many share work in
 * the same way, and whatever a lane dies over is free at once. What is published and not marked comes again, with the
 * same id: consumers know it by that.
 *
 * Order per key: a row goes only when the one before it (`prev`: the same key, still new) was confirmed. So a claim is
 * published in waves: first what has nothing before it, then what is behind those, and so on; what is behind another
 * lane's row is let go. Whether a dead row lets the next pass is the database's to say, in the next claim: until then it
 * may not have been written.
 *
 * Who is to blame: REFUSED is an attempt of that row, and so is a row whose confirm never came while the broker was
 * there. A broker that cannot be reached, or says that it takes nothing now, is nobody's attempt: the lane backs off
 * with nothing claimed, and begins again with one row, doubling. Only if that one row costs the connection again is it
 * an attempt, so one that breaks the broker moves aside. Only what was refused is ever dead.
 *
 * Memory: a claim is in memory whole. So a lane begins with few rows and doubles, and claims no more of them than would be
 * RT_LANE_BYTES if they are as long as the last ones were.
 *
 * Pure: what came of the last thing and the time in, the next thing out. Memory is the owner's. */
#ifndef RT_LANE_H
#define RT_LANE_H

#include "txn/event/store.h"
#include "txn/relay/broker.h"

#define RT_LANE_FIRST 16         /* rows of the first claim */
#define RT_LANE_BYTES (8u << 20) /* payloads of a claim, about */

enum rt_lane_op {
    RT_LANE_TURN, /* rt_store_turn with the marks, `limit` rows; then rt_lane_turned */
    RT_LANE_PUBLISH, /* what rt_lane_batch gives, with a deadline below the lease; then rt_lane_published */
    RT_LANE_WAIT, /* `ns` at most, or, unless `deaf`, until the database calls; then rt_lane_woken */
    RT_LANE_REACH, /* opens whichever is not open, the database first; then rt_lane_reached */
    RT_LANE_STOP,  /* nothing is claimed: close both */
};

struct rt_lane_todo {
    enum rt_lane_op op;
    uint32_t limit;
    int64_t after; /* TURN: new rows up to this id are passed over (rt_store_skip) */
    int64_t ns;
    bool deaf; /* something is away: that writers write does not bring it back */
};

struct rt_lane_options {
    uint32_t batch;    /* rows at most; 0: 500 */
    uint32_t attempts; /* of a row, then it is dead; 0: 20 */
    size_t body_max;   /* longer ones are dead at once; 0: not known */
    bool strict;       /* one that is not processed yet keeps its key */
    bool notified;     /* the database calls when there is something */
};

struct rt_lane_item { /* a row of the claim */
    uint32_t wave;    /* in which it goes, if it does */
    bool goes;        /* it may be published in this claim */
    bool stands;      /* confirmed, and so is everything before it */
};

struct rt_lane_counts {
    uint64_t turns, empty, claimed, deferred, sent, confirmed, again, refused, lost, dead, away;
};

struct rt_lane {
    struct rt_lane_options opts;
    struct rt_lane_item *items;      /* the owner's: opts.batch */
    struct rt_store_mark *marks;     /* the same */
    const struct rt_store_row *rows; /* of the last claim */
    size_t count, mark_count;
    size_t going;         /* rows of this wave */
    uint32_t wave, waves; /* this one, and how many there are */
    uint32_t limit;       /* rows of the next claim */
    uint32_t most;        /* rows that fit into memory, by the last claim */
    uint32_t failures;    /* in a row: of reaching, of publishing */
    uint32_t stalls;      /* in a row: claims of which nothing could go */
    int64_t after;        /* rows up to this id wait for others, and are passed over; 0: none */
    uint32_t beyond;      /* claims since then of which something could go */
    int64_t pause_ns;     /* of the next WAIT */
    uint8_t state;        /* lane.c */
    bool idle;            /* the last claim had nothing at all */
    bool stopping;
    struct rt_lane_counts counts;
};

void rt_lane_begin(struct rt_lane *l, const struct rt_lane_options *opts,
                   struct rt_lane_item *items, struct rt_store_mark *marks);
/* What to do now. The same until its answer is given. */
struct rt_lane_todo rt_lane_todo(const struct rt_lane *l);
/* Ends with what is under way: its marks are written, nothing more is claimed. */
void rt_lane_stop(struct rt_lane *l);

/* TURN came to ERR, with COUNT rows ordered by id, which live until the next TURN. ROTA_UNREACHABLE: the connection is
 * gone, and nobody knows whether the marks stand; all else: the database refused, which counts the same. */
void rt_lane_turned(struct rt_lane *l, int err, const struct rt_store_row *rows, size_t count);
/* PUBLISH: the messages of this wave, in their order; l->going of them. They live as long as the rows. */
size_t rt_lane_batch(const struct rt_lane *l, struct rt_message *out);
/* ERR as of publish (broker.h); SENT and WHY in the order of the messages. WHY, of a REFUSED or LOST one (NULL: not known),
 * is valid until the next TURN has been answered: it becomes the reason of a mark. */
void rt_lane_published(struct rt_lane *l, int err, const enum rt_sent *sent,
                       const char *const *why);
/* Much of the lease is over: no more waves in this claim. */
void rt_lane_hurry(struct rt_lane *l);
void rt_lane_reached(struct rt_lane *l, int err);
void rt_lane_woken(struct rt_lane *l);

#endif
