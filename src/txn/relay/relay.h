/* SPDX-License-Identifier: Apache-2.0 */
/* A relay: lanes in threads, each with a connection to the database of the events and one to the broker. Lanes of one
 * relay share the work just as lanes of two relays do. */
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
    bool
        once; /* a lane that finds nothing stops; so does one that is refused for good, or too often */
    /* One line about what went wrong, or is well again; from any thread, one at a time. */
    void (*log)(void *arg, bool trouble, const char *line);
    void *arg;
};

/* Connects to the database and to the broker, to see that both can be reached: 0, or a line in ERRMSG says why not.
 * WAITS: it starts even if one of them is unreachable. */
int rt_relay_start(struct rt_relay **out, const struct rt_relay_options *opts, bool waits,
                   char *errmsg, size_t size);
/* What its lanes have done; returns whether one still runs. */
bool rt_relay_look(struct rt_relay *r, struct rt_lane_counts *out);
/* With `once`: a lane stopped because database or broker refused, or stayed away; the log has said why. */
bool rt_relay_gave_up(struct rt_relay *r);
/* Claims nothing new; marks what is under way. Waits for the lanes. */
void rt_relay_end(struct rt_relay *r);

#endif
