/* SPDX-License-Identifier: Apache-2.0 */
/* Lock calls that write themselves into a history. */
#ifndef RT_RECORDED_H
#define RT_RECORDED_H

#include "history.h"
#include "resource.h"

#include <rota.h>
#include <stdbool.h>

/* Somebody who does one thing at a time: a thread, or a client driven by one. */
struct rt_actor {
    struct rt_history *history;
    struct rota *rota;
    uint64_t client; /* rt_history_client; a new one after every ROTA_UNKNOWN */
    uint64_t owner;  /* unique in the run; 0: does not re-enter */
};

struct rt_held {
    struct rota_lock *lock;
    struct rt_record like; /* what all records of this hold have in common */
};

/* Like their namesakes in rota.h. */
int rt_recorded_acquire(const struct rt_actor *actor, const char *name, const struct rota_ask *ask,
                        struct rt_held *out);
int rt_recorded_release(const struct rt_actor *actor, struct rt_held *held);

/* In two halves, for the asynchronous twins: begun before the call, ended with what it answered. */
struct rt_record *rt_recorded_begin(const struct rt_actor *actor, const char *name,
                                    const struct rota_ask *ask);
void rt_recorded_granted(struct rt_record *record, int err, struct rota_lock *lock,
                         struct rt_held *out);

/* rota_remaining_ms() > 0, and what it said. */
bool rt_recorded_believe(const struct rt_actor *actor, const struct rt_held *held);

/* Reads the counter, adds one, writes it back with the hold's fence. False: refused. */
bool rt_recorded_increment(const struct rt_actor *actor, const struct rt_held *held,
                           struct rt_resource *res);

enum rt_record_result rt_recorded_result(int err);

#endif
