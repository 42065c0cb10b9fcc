/* SPDX-License-Identifier: Apache-2.0 */
/* A relay: lanes in threads, each with a connection to the database of the events and one to the broker. Lanes of one
 * relay share the work as lanes of two do. */
#ifndef RT_RELAY_H
#define RT_RELAY_H

#include "txn/relay/lane.h"

#define RT_RELAY_LANES 16

struct rt_relay;

struct rt_relay_options {
    const char *from;               /* the database's URL */
    const struct rt_event_map *map; /* NULL: rota_event */
    struct rt_store_options store;
    const char *to;    /* the broker's URL */
    uint32_t lanes;    /* 0: 2 */
    uint32_t batch;    /* rows; 0: 500 */
    uint32_t attempts; /* 0: 20 */
    bool once;         /* a lane that finds nothing stops */
    /* One line about what went wrong, or is well again; from any thread, not at once. */
    void (*log)(void *arg, bool trouble, const char *line);
    void *arg;
};

/* Opens a database connection and one to the broker, to see that both can be had: 0, or a line in ERRMSG says why not.
 * WAITS: an unreachable one is no reason not to start. */
int rt_relay_start(struct rt_relay **out, const struct rt_relay_options *opts, bool waits,
                   char *errmsg, size_t size);
/* What its lanes have done, and whether one runs still. */
bool rt_relay_look(struct rt_relay *r, struct rt_lane_counts *out);
/* No new claims; what is under way is marked. Waits for the lanes. */
void rt_relay_end(struct rt_relay *r);

#endif
