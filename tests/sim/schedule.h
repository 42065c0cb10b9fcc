/* SPDX-License-Identifier: Apache-2.0 */
/* What one seed decides: chance itself, and the plan of a schedule drawn from it.
 *
 * Swarm testing: every schedule draws its own rates, most of them often zero, so that some run
 * long without trouble and others drown in one kind of it. */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include "engine/fault/fault.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_PROCESSES_MAX 6
#define SIM_CLIENTS_MAX 8
#define SIM_NAMES_MAX 4
#define SIM_JOBS_MAX 6 /* asks of one client at once */
#define SIM_SET_MAX 3

struct sim_random {
    uint64_t state;
};

uint64_t sim_next(struct sim_random *r);
uint32_t sim_below(struct sim_random *r, uint32_t n); /* 0 to n - 1 */
bool sim_chance(struct sim_random *r, uint32_t per_mille);
int64_t sim_spread_ns(struct sim_random *r, uint32_t mean_us); /* 0 to twice the mean */

enum sim_act { /* what a client's threads do */
               SIM_ACT_ASK,
               SIM_ACT_ASK_ALL,
               SIM_ACT_RELEASE,
               SIM_ACT_CANCEL,
               SIM_ACT_DOWNGRADE,
               SIM_ACT_KINDS,
};

enum sim_trouble { /* what befalls processes */
                   SIM_TROUBLE_PAUSE,
                   SIM_TROUBLE_CRASH,
                   SIM_TROUBLE_CLOSE,
                   SIM_TROUBLE_CUT,
                   SIM_TROUBLE_RESET,
                   SIM_TROUBLE_KILL_SESSION, /* the engine forgets it before its time */
                   SIM_TROUBLE_BREAK,
                   SIM_TROUBLE_KINDS,
};

struct sim_plan {
    uint32_t processes, clients; /* clients are dealt out to the processes in turn */
    uint32_t names, owners, jobs;
    uint32_t of[SIM_NAMES_MAX]; /* 0: a lock; else permits of so many */
    uint32_t ttl_ms, call_ms, pass_limit, pass_ms;
    uint32_t acts;               /* how many in the safety phase */
    uint32_t pace_us;            /* mean time between them */
    uint32_t act[SIM_ACT_KINDS]; /* weights */
    uint32_t trouble[SIM_TROUBLE_KINDS];
    uint32_t trouble_ms; /* mean time between troubles; 0: none */
    uint32_t shared, try, limit, hold, at_least, linger, owned; /* per mille of the asks */
    uint32_t time_ms; /* mean of limits, hold_ms and lingering */
    uint32_t stray;   /* per mille of the requests overtaken by what was sent after them */
    bool forever;     /* sessions live as long as their clients, as on file: no beats, no ttl */
    uint32_t starve;  /* per mille of the allocations that fail */
    struct rt_fault_config network;
};

void sim_plan_draw(struct sim_plan *plan, struct sim_random *r);

#endif
