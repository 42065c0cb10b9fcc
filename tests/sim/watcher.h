/* SPDX-License-Identifier: Apache-2.0 */
/* Observers: threads that look on (OBSERVE). What they are told converges to what stands in the line; only differences
 * are told, and nothing is told after their end. */
#ifndef SIM_WATCHER_H
#define SIM_WATCHER_H

#include "client/dispatch.h"

struct sim;
struct sim_client;

struct sim_watcher {           /* of one line; as a client has it: by name */
    struct rt_request request; /* first; while it is BUSY */
    struct sim_client *client;
    uint32_t name;
    bool busy;
    bool on;    /* it must be told; else nothing */
    bool begun; /* its OBSERVE was answered */
    bool told;  /* `last` was told since it was last asked for */
    struct {
        uint64_t fence;
        size_t count;
        uint32_t mode, of;
        char label[16];
    } last;
    int64_t differs_since; /* `last` is not the line's state; 0: it is */
};

/* A thread of C begins to look on, asks to be told again, or stops. */
void sim_watcher_act(struct sim_client *c);
/* For the dispatcher. */
void sim_watcher_event(struct rt_dispatch *d, const struct rt_event *event);
/* When everything that is due at one moment has run. */
void sim_watcher_check(const struct sim *sim, struct sim_client *c);

#endif
