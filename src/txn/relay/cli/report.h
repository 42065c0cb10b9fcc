/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what was processed: in the table of events itself (db:URL), on a topic of the same broker that a relay reads
 * (topic:NAME), or to a relay that listens (http://HOST:PORT, https://..., with ?token_file=, ?ca=, ?cert=, ?key=).
 *
 * Reports that do not go through are kept, up to RT_REPORT_KEPT, and sent with the next; the rest are dropped: the
 * event is published again, recognised by its id, and reported then. */
#ifndef RT_REPORT_H
#define RT_REPORT_H

#include "txn/event/event.h"
#include "txn/relay/broker.h"

#define RT_REPORT_KEPT 500

struct rt_report;

struct rt_report_counts {
    uint64_t reported, lost; /* events */
};

/* TEXT as above; FROM: the broker's URL. 0, or an error and one line. Connects to nothing but a database. */
int rt_report_open(struct rt_report **out, const char *text, const struct rt_event_map *map,
                   const char *from, bool waits, char *errmsg, size_t size);
/* False: nobody could read this id in a report: it would hold up all others for ever. */
bool rt_report_add(struct rt_report *r, const char *event_id);
/* Sends what is there. 0, also if there is nothing; else an error and one line. */
int rt_report_send(struct rt_report *r, char *errmsg, size_t size);
size_t rt_report_left(const struct rt_report *r);
struct rt_report_counts rt_report_counts(const struct rt_report *r);
void rt_report_close(struct rt_report *r); /* NULL is legal */

#endif
