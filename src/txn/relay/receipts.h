/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts: consumers that cannot reach the table of events tell the relay what they have processed.
 *
 *   consumer ──▶ a topic of the broker ──▶ a thread here ──▶ processed ──▶ acknowledged
 *   consumer ──▶ POST /processed ───────▶ a handler here ─▶ processed ──▶ 200
 *
 * A receipt is a list of event ids: one per line, or, over HTTP, in JSON: ["ID", ...]. If it is lost, the event is
 * published again after a while, and its consumer recognises the id and sends the receipt again. If it is late,
 * doubled, for a row that is no longer there, or for another table, nothing happens. A receipt is acknowledged once
 * it is written, so none is lost with a relay. Any number of relays of one table may share a topic; relays of two
 * tables must not, because each takes receipts away from the other. */
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
    void (*log)(void *arg, bool trouble, const char *line); /* any thread, one at a time */
    void *arg;
};

struct rt_receipts_counts {
    uint64_t topic, http; /* ids that came that way */
    uint64_t changed;     /* rows that they made processed */
};

/* 0, or an error and a line. WAITS: it starts even if the broker is unreachable. */
int rt_receipts_start(struct rt_receipts **out, const struct rt_receipts_options *opts, bool waits,
                      char *errmsg, size_t size);
struct rt_receipts_counts rt_receipts_look(struct rt_receipts *r);
uint16_t rt_receipts_port(const struct rt_receipts *r); /* 0: nobody listens */
void rt_receipts_end(struct rt_receipts *r);            /* NULL is legal */

/* Cuts TEXT (SIZE bytes, changed) into lines: up to MOST ids, to which OUT points. SIZE_MAX: TEXT is no list of ids.
 * Blank lines, and blanks and carriage returns around an id, are passed over. */
size_t rt_receipts_read(char *text, size_t size, const char **out, size_t most);

/* Why ID cannot be a line of a receipt, or a row of an inbox, that has room for MOST bytes: "is ...", "has ..."; NULL:
 * it can. It must be UTF-8, without control characters and without blanks around it; and, in a receipt, not JSON. */
const char *rt_receipts_fault(const char *id, size_t most);

#endif
