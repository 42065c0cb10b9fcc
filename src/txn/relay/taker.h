/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer: takes the messages of one source, one after the other, and has each worked at until it went well.
 *
 *              a message         went well            acknowledged
 *   REACH ──▶ NEXT ──────▶ WORK ──────────▶ ACK ─────────────────▶ over(DONE) ──▶ NEXT
 *     ▲         │           │ ▲ failed: a pause, longer each time
 *     └─────────┘           └─┘
 *      it was lost          │ failed too often
 *                           ├──▶ a topic for the dead: published there, confirmed, then ACK ──▶ over(MOVED)
 *                           └──▶ else LEAVE (broker.h) ──▶ over(LEFT)
 *
 * Nothing is acknowledged before the work of it went well. So whoever dies, wherever, has lost nothing: what was not
 * acknowledged comes again, to anybody, and what was comes again if the broker, or the relay, says it once more. Work is
 * done at least once; that it takes effect once is up to the inbox (rota_event_take_*).
 *
 * One message is under way at a time, and while it is tried again its place is kept: events come in their order,
 * unless one is given up. Attempts are counted here: whoever begins anew counts from one. */
#ifndef RT_TAKER_H
#define RT_TAKER_H

#include "txn/relay/outlet.h"

struct rt_taker;

enum rt_taken {
    RT_TAKEN_DONE,   /* it went well */
    RT_TAKEN_FAILED, /* again, later: an attempt */
    RT_TAKEN_LATER,  /* the same, and it is no fault of the message: no attempt */
    RT_TAKEN_STOP,   /* no: it is anybody's again, and the taker ends */
};

enum rt_taker_over { RT_TAKER_DONE, RT_TAKER_MOVED, RT_TAKER_LEFT };

struct rt_taker_options {
    const char *from;   /* the broker's URL */
    const char *source; /* queue; STREAM or STREAM/SUBJECT; stream */
    const char *group;
    uint32_t ack_ms;   /* as of a broker's options */
    uint32_t attempts; /* 0: for ever */
    uint32_t pause_ms; /* after the first failure, doubled each time; 0: 1000 */
    const char *dead;  /* where to with what failed so often; NULL: it is left */
    void *arg;         /* of all that follow; none is called from inside another */
    /* Does what M asks for; ATTEMPT counts from 1. Work that takes long calls rt_taker_keep now and then. */
    enum rt_taken (*work)(void *arg, struct rt_taker *t, const struct rt_message *m,
                          uint32_t attempt);
    /* The event ID is over. An acknowledgement that was lost is no reason not to say so: then it comes again. */
    void (*over)(void *arg, const char *id, enum rt_taker_over how);
    /* Waits for MS at most (0: not at all); false: it is to end. Called once a second or more often, unless somebody works. */
    bool (*goes_on)(void *arg, int64_t ms);
    /* Nothing came for a second; false: it is to end. */
    bool (*idle)(void *arg);
    /* One line about what went wrong, or that it is well again. */
    void (*log)(void *arg, bool trouble, const char *line);
};

/* Reads the URL, connects and subscribes, to see that it can be: 0, or a line in ERRMSG says why not. WAITS: one that is
 * unreachable is no reason not to begin. OPTS and its texts stay. */
int rt_taker_open(struct rt_taker **out, const struct rt_taker_options *opts, bool waits,
                  char *errmsg, size_t size);
/* Until one of the callbacks says that it is to end. */
void rt_taker_run(struct rt_taker *t);
void rt_taker_close(struct rt_taker *t); /* what is not answered is anybody's; NULL is legal */

/* From inside work(): the message is worked at still. Quick; at most once in a third of ack_ms it asks the broker. */
void rt_taker_keep(struct rt_taker *t);
const char *rt_taker_place(const struct rt_taker *t); /* the URL without a secret, for people */

#endif
