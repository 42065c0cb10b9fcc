/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of 'rota txn events' share. */
#ifndef RT_EVENTS_H
#define RT_EVENTS_H

#include "cli/json.h"
#include "txn/cli/args.h"
#include "txn/event/store.h"

struct rt_events { /* what the options say, and the database */
    struct rt_store *store;
    const char *from;
    struct rt_event_map map;
    struct rt_store_filter filter; /* states, topic, key, after; limit 0: none was given */
    bool all, yes, again, raw, json;
    char **operands; /* ids */
    int count;
};

int rt_events_ls(struct rt_events *e); /* list.c */
int rt_events_dead(struct rt_events *e);
int rt_events_show(struct rt_events *e);
int rt_events_replay(struct rt_events *e);
int rt_events_stats(struct rt_events *e);

/* Complains about the usage. Returns RT_EXIT_USAGE. */
#define rt_events_usage(...) rt_args_usage("events", __VA_ARGS__)
/* Prints the line of the last failing call on the store. Returns the exit code for ERR. */
int rt_events_report(const struct rt_events *e, int err);
/* What all of them say about an event. */
json_t *rt_events_json(const struct rt_store_item *item);
const char *rt_events_state(const struct rt_store_item *item); /* "new", ...; "other" */

#endif
