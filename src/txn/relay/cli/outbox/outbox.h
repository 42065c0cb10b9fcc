/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo outbox: a shop takes orders, a mail service sends a mail for each; the shop, the relay and the broker are
 * killed at work. First by hand (the row, then the message), then with an event in the order's transaction.
 *
 *   shop ──▶ database: order + event ──▶ relay ──▶ broker ──▶ mail service ──▶ database: mail + inbox, processed
 *     by hand: order; then ─────────────────────▶ broker ──▶ mail service
 *
 * All but the director are processes of their own; whoever ends is restarted. */
#ifndef RT_OUTBOX_H
#define RT_OUTBOX_H

#include "cli/scratch.h"
#include "cli/traps/house.h"
#include "txn/event/store_inside.h"
#include "txn/relay/broker.h"

#include <sys/types.h>

#define RT_OUTBOX_LAST_WORDS 9 /* the shop dies after each order whose number ends in this */

struct rt_outbox_sum { /* for one way */
    long long orders, mails, lost, twice;
    uint32_t shop, relay, mail, broker; /* times that they were killed */
    long long again;                    /* messages that came again, and were not mailed twice */
};

struct rt_outbox {
    struct rt_scratch scratch;
    struct rt_house house;
    const char *from_given, *to_given; /* NULL: our own */
    char from[RT_SCRATCH_URL], to[RT_SCRATCH_URL];
    char topic[64];
    uint64_t orders;
    bool json;
    bool by_hand; /* this way */
    struct rt_outbox_sum hand, outbox;
    struct rt_store *store; /* of the process */
};

/* ---- people.c: what each process does; they return only when something fails, or all is done -------- */

int rt_outbox_shop(struct rt_outbox *o);
int rt_outbox_mail(struct rt_outbox *o);

/* ---- play.c --------------------------------------------------------------------------------------------- */

int rt_outbox_play(void *outbox); /* an exit code; what went wrong was printed */

/* ---- table.c: the tables of the demo, in three dialects --------------------------------------------------- */

extern const char rt_outbox_map[]; /* of rota_demo_event */
/* Connects this process: o->store. MAKE: makes new tables. Returns an exit code. */
int rt_outbox_open(struct rt_outbox *o, bool make);
void rt_outbox_drop(struct rt_outbox *o); /* the tables */
/* Statements; false, or -1: it failed, and rt_store_errmsg says why. */
bool rt_outbox_say(struct rt_outbox *o, const char *sql);
long long rt_outbox_number(struct rt_outbox *o, const char *sql);

int rt_outbox_demo(int argc, char **argv); /* outbox.c: ARGV[0] is "outbox" */

#endif
