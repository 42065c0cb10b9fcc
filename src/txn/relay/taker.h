/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer: takes the messages of one source, one after the other, and works on each until that succeeds.
 *
 *              a message         went well            acknowledged
 *   REACH ──▶ NEXT ──────▶ WORK ──────────▶ ACK ─────────────────▶ over(DONE) ──▶ NEXT
 *     ▲         │           │ ▲ failed: a pause, longer each time
 *     └─────────┘           └─┘
 *      it was lost          │ failed too often
 *                           ├──▶ a topic for the dead: published there, confirmed, then ACK ──▶ over(MOVED)
 *                           └──▶ else LEAVE (broker.h) ──▶ over(LEFT)
 *
 * No message is acknowledged before its work has succeeded. So a consumer that dies, wherever it is, loses nothing:
 * what was not acknowledged comes again, to anybody, and what was comes again only if the broker or the relay repeats
 * it. Work is done at least once; the inbox (rota_event_take_*) makes it take effect once.
 *
 * One message is under way at a time, and it keeps its place while it is retried: events come in their order, unless
 * one is given up. Attempts are counted here: a consumer that restarts counts from one. */
#ifndef RT_TAKER_H
#define RT_TAKER_H

#include "txn/relay/outlet.h"

struct rt_taker;

enum rt_taken {
    RT_TAKEN_DONE,   /* it succeeded */
    RT_TAKEN_FAILED, /* again, later: an attempt */
    RT_TAKEN_LATER,  /* again, but not the message's fault: no attempt */
    RT_TAKEN_STOP,   /* no: anybody may have it, and the taker ends */
};

enum rt_taker_over { RT_TAKER_DONE, RT_TAKER_MOVED, RT_TAKER_LEFT };

struct rt_taker_options {
    const char *from;   /* the broker's URL */
    const char *source; /* queue; STREAM or STREAM/SUBJECT; stream */
    const char *group;
    uint32_t ack_ms;   /* as in a broker's options */
    uint32_t attempts; /* 0: for ever */
    uint32_t pause_ms; /* after the first failure, doubled each time; 0: 1000 */
    const char *dead;  /* topic for what failed that often; NULL: it is left */
    void *arg;         /* for all that follow; none is called from inside another */
    /* Does what M asks for; ATTEMPT counts from 1. Work that takes long calls rt_taker_keep now and then. */
    enum rt_taken (*work)(void *arg, struct rt_taker *t, const struct rt_message *m,
                          uint32_t attempt);
    /* The event ID is over. This is said even if its acknowledgement was lost: then the event comes again. */
    void (*over)(void *arg, const char *id, enum rt_taker_over how);
    /* Waits for MS at most (0: not at all); false: the taker must end. Called at least once a second, except during
     * work. */
    bool (*goes_on)(void *arg, int64_t ms);
    /* Nothing came for a second; false: the taker must end. */
    bool (*idle)(void *arg);
    /* One line about what went wrong, or that all is well again. */
    void (*log)(void *arg, bool trouble, const char *line);
};

/* Reads the URL, connects and subscribes, to see that this works: 0, or a line in ERRMSG says why not. WAITS: it begins
 * even if the broker is unreachable. OPTS and its texts must stay valid. */
int rt_taker_open(struct rt_taker **out, const struct rt_taker_options *opts, bool waits,
                  char *errmsg, size_t size);
/* Runs until one of the callbacks says that it must end. */
void rt_taker_run(struct rt_taker *t);
void rt_taker_close(struct rt_taker *t); /* what is unanswered is anybody's; NULL is legal */

/* From inside work(): says that work on the message goes on. Quick; it asks the broker at most once per third of
 * ack_ms. */
void rt_taker_keep(struct rt_taker *t);
const char *rt_taker_place(const struct rt_taker *t); /* the URL without a secret, for people */

#endif
