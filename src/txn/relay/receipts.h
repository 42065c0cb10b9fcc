/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts: consumers that cannot reach the table of events tell the relay what they have processed.
 *
 *   consumer ──▶ a topic of the broker ──▶ a thread here ──▶ processed ──▶ acknowledged
 *   consumer ──▶ POST /processed ───────▶ a handler here ─▶ processed ──▶ 200
 *
 * A receipt is the ids of events, one in a line. Lost: the event is published again after a while, its consumer knows it
 * by its id, and says it again. Late, doubled, of a row that is no longer there, or of another table: nothing happens.
 * A receipt is acknowledged when it is written, so none is lost with a relay. Any number of relays of one table share
 * a topic; relays of two tables must not, for each takes receipts away from the other. */
#ifndef RT_RECEIPTS_H
#define RT_RECEIPTS_H

#include "txn/event/store.h"
#include "txn/http/server.h"

#define RT_RECEIPTS_PATH "/processed"

struct rt_receipts;

struct rt_receipts_options {
    const char *from; /* the database of the events */
    const struct rt_event_map *map;
    const char *to; /* the broker */
    const char *
        source; /* where receipts come in (queue; STREAM or STREAM/SUBJECT; stream); NULL: nowhere */
    /* listen NULL: nobody listens. Routes are set here. */
    struct rt_http_server_options http;
    void (*log)(void *arg, bool trouble, const char *line); /* from any thread, not at once */
    void *arg;
};

struct rt_receipts_counts {
    uint64_t topic, http; /* ids that came so */
    uint64_t changed;     /* rows that are processed by them */
};

/* 0, or an error and a line. WAITS: a broker that is unreachable is no reason not to start. */
int rt_receipts_start(struct rt_receipts **out, const struct rt_receipts_options *opts, bool waits,
                      char *errmsg, size_t size);
struct rt_receipts_counts rt_receipts_look(struct rt_receipts *r);
uint16_t rt_receipts_port(const struct rt_receipts *r); /* 0: nobody listens */
void rt_receipts_end(struct rt_receipts *r);            /* NULL is legal */

/* Cuts TEXT (SIZE bytes, changed) into lines: up to MOST ids, OUT points into it. SIZE_MAX: that is no list of ids. Blank
 * lines, blanks and carriage returns around one are passed over. */
size_t rt_receipts_read(char *text, size_t size, const char **out, size_t most);

/* Why ID cannot be a line of a receipt, or a row of an inbox, that has room for MOST bytes: "is ...", "has ..."; NULL: it
 * can. It is UTF-8, without control characters and without blanks around it. */
const char *rt_receipts_fault(const char *id, size_t most);

#endif
