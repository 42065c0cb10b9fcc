/* SPDX-License-Identifier: Apache-2.0 */
/* What became of each line, from change to change, as the engine has it: which tickets went, whom that granted, and
 * since when somebody waits behind the holder. It serves to judge invariants that need more than one moment. */
#ifndef SIM_WITNESS_H
#define SIM_WITNESS_H

#include "sim/world.h"

#define SIM_LEFT_MAX 64

struct rt_op;
struct sim_line;

struct sim_left { /* a ticket that no longer stands in its line, or as nobody's */
    uint64_t number, nonce, session;
    int64_t at;
    bool held;
    bool by_leave; /* of its own session's */
    bool keeps;    /* it stands as nobody's, for at_least_ms */
    bool told;     /* as left */
};

struct sim_witness {
    struct sim_place places[SIM_PLACES_MAX]; /* the last that was seen */
    size_t count;
    struct sim_left left[SIM_LEFT_MAX];
    uint32_t left_count;
    /* The last change: those that it granted, and whether a holder went. */
    bool fresh[SIM_PLACES_MAX]; /* of places */
    uint32_t granted;
    bool released;
    /* Since when somebody else waits behind the exclusive ticket FRONT, which holds; 0: nobody does. */
    uint64_t front;
    int64_t wanted_since;
};

/* The line is now PLACES: after every request that reached the engine. */
void sim_witness(const struct sim *sim, struct sim_line *line, const struct sim_place *places,
                 size_t n);

#define SIM_ANYBODY UINT64_MAX /* sim->leaver: a request took out what it named, whosever it was */

/* A LEAVE that began at SENT_AT was told as done: whether it may have been, because the ticket it names has gone
 * since, or, if that was not told yet, by an earlier LEAVE after which the ticket keeps its line. */
bool sim_witness_left(struct sim_witness *w, const struct rt_op *op, int64_t sent_at);

/* Whether the ticket NUMBER held, and went by the last change. */
bool sim_witness_released(const struct sim_witness *w, uint64_t number);

/* How often the client that had the ticket NUMBER still waits in that line. */
uint32_t sim_witness_waits(const struct sim_witness *w, uint64_t number);

#endif
