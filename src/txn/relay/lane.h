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
 * the same way, and the rows of a lane that dies are free at once. What is published and not marked comes again, with
 * the same id, by which consumers recognise it.
 *
 * Order per key: a row goes only when the one before it (`prev`: the same key, still new) was confirmed. So a claim is
 * published in waves: first the rows with nothing before them, then those behind them, and so on; rows behind another
 * lane's row are let go. Whether a dead row lets the next one pass is for the database to say, in the next claim: until
 * then the death may not have been written.
 *
 * Which row is to blame: only REFUSED is an attempt of that row, and only that is ever dead. A confirm that never came
 * while the broker was there moves it aside. A broker that cannot be reached, or says that it takes nothing now, counts
 * against no row: the lane backs off with nothing claimed, and begins again with one row, doubling. Only if that one row
 * costs the connection again is it blamed, and moves aside. So does a row whose mark the database refuses, or takes and
 * does not write (a trigger, a column that cannot hold the value): a row that is claimed as new though its mark was taken
 * shows it, and is not published again before a pause that grows. (One that somebody made new again pays for that with
 * a second.) One for which there is no room (FULL) waits a few seconds at most, while others go on.
 *
 * Memory: a whole claim is in memory. So a lane begins with few rows and doubles, and claims no more of them than would
 * fill RT_LANE_BYTES if they are as long as the last ones were.
 *
 * Pure: the result of the last step and the time in, the next step out. Memory is the owner's. */
#ifndef RT_LANE_H
#define RT_LANE_H

#include "txn/event/store.h"
#include "txn/relay/broker.h"

#define RT_LANE_FIRST 16                         /* rows of the first claim */
#define RT_LANE_BYTES (8u << 20)                 /* payloads of a claim, about */
#define RT_LANE_PAST(batch) ((size_t)(batch)*32) /* rows that a lane remembers */

/* The reason in a mark: the last one changed nothing. */
#define RT_LANE_UNCHANGED \
    "the database took its mark, and it is still new: a trigger, or a state that the column cannot hold"

enum rt_lane_op {
    RT_LANE_TURN, /* rt_store_turn with the marks, `limit` rows; then rt_lane_turned */
    RT_LANE_PUBLISH, /* what rt_lane_batch gives, with a deadline below the lease; then rt_lane_published */
    RT_LANE_WAIT, /* `ns` at most, or, unless `deaf`, until the database calls; then rt_lane_woken */
    RT_LANE_REACH, /* open whichever is not open, the database first; then rt_lane_reached */
    RT_LANE_STOP,  /* nothing is claimed: close both */
};

struct rt_lane_todo {
    enum rt_lane_op op;
    uint32_t limit;
    int64_t after; /* TURN: new rows up to this id are passed over (rt_store_skip) */
    int64_t ns;
    bool deaf; /* something is away: writers' commits do not bring it back */
};

struct rt_lane_options {
    uint32_t batch;    /* rows at most; 0: 500 */
    uint32_t attempts; /* after so many a row is dead; 0: 20 */
    size_t body_max;   /* longer ones are dead at once; 0: not known */
    bool strict;       /* an unprocessed row holds up its key */
    bool notified;     /* the database calls when there is something */
};

struct rt_lane_item { /* a row of the claim */
    uint32_t wave;    /* in which it goes, if it does */
    bool goes;        /* it may be published in this claim */
    bool stands;      /* confirmed, as is everything before it */
};

struct rt_lane_past { /* what is remembered, by an id's remainder: a later one takes the place */
    int64_t marked;   /* the database took its mark: it is published; 0: none */
    uint64_t event;   /* ... the hash of its event_id */
    int64_t aside;    /* it was moved aside; 0: none */
    uint32_t times;   /* so often */
};

struct rt_lane_counts {
    uint64_t turns, empty, claimed, deferred, sent, confirmed, again, refused, lost, dead, away;
};

struct rt_lane {
    struct rt_lane_options opts;
    struct rt_lane_item *items;      /* the owner's: opts.batch */
    struct rt_store_mark *marks;     /* the same */
    struct rt_lane_past *past;       /* the owner's: RT_LANE_PAST(opts.batch), all zero */
    const struct rt_store_row *rows; /* of the last claim */
    size_t count, mark_count;
    size_t going;         /* rows of this wave */
    uint32_t wave, waves; /* this one, and how many there are */
    uint32_t limit;       /* rows of the next claim */
    uint32_t most;        /* rows that fit into memory, by the last claim */
    uint32_t failures;    /* in a row: of reaching, of publishing */
    uint32_t unmarked;    /* in a row: turns that the database refused */
    uint32_t stalls;      /* in a row: claims of which nothing could go */
    uint32_t full;        /* rows of this claim for which there was no room */
    uint32_t fulls;       /* in a row: claims of which nothing went for that reason */
    int64_t after;   /* rows up to this id went, or wait for others, and are passed over; 0: none */
    uint32_t beyond; /* claims since then of which something could go */
    bool passed;     /* some of those wait for others */
    bool head;       /* the next claim starts at the first row nevertheless */
    bool onward;     /* the next claim may begin behind this one, if all of it goes */
    int64_t pause_ns; /* of the next WAIT */
    uint8_t state;    /* lane.c */
    bool idle;        /* the last claim had nothing at all */
    bool stopping;
    struct rt_lane_counts counts;
};

void rt_lane_begin(struct rt_lane *l, const struct rt_lane_options *opts,
                   struct rt_lane_item *items, struct rt_store_mark *marks,
                   struct rt_lane_past *past);
/* What to do now. The same until its answer is given. */
struct rt_lane_todo rt_lane_todo(const struct rt_lane *l);
/* Ends after what is under way: its marks are written, nothing more is claimed. */
void rt_lane_stop(struct rt_lane *l);

/* TURN ended with ERR, and COUNT rows ordered by id, which live until the next TURN. ROTA_UNREACHABLE: the connection
 * is gone, and nobody knows whether the marks stand; any other error: the database refused, and is then asked for one
 * row. */
void rt_lane_turned(struct rt_lane *l, int err, const struct rt_store_row *rows, size_t count);
/* PUBLISH: the messages of this wave, in their order; l->going of them. They live as long as the rows. */
size_t rt_lane_batch(const struct rt_lane *l, struct rt_message *out);
/* ERR as from publish (broker.h); SENT and WHY in the order of the messages. WHY, for one that is not CONFIRMED (NULL:
 * not known), is valid until the next TURN has been answered: it becomes the reason in a mark. */
void rt_lane_published(struct rt_lane *l, int err, const enum rt_sent *sent,
                       const char *const *why);
/* Much of the lease is over: no more waves in this claim. */
void rt_lane_hurry(struct rt_lane *l);
void rt_lane_reached(struct rt_lane *l, int err);
void rt_lane_woken(struct rt_lane *l);

#endif
