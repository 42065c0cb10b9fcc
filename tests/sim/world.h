/* SPDX-License-Identifier: Apache-2.0 */
/* The truth: what the engine has at this moment, read from behind its back. Two kinds of worlds:
 * the engine mem's own, and the store of a model Redis. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

#define SIM_PLACES_MAX 128

struct sim_place { /* a ticket, as it stands in its line */
    uint64_t number, nonce;
    uint64_t session; /* 0: nobody's any more, it keeps the line taken */
    uint32_t mode, take, of;
    bool granted;
    bool rung; /* something about it is on its way to its client; mem only */
};

void sim_world_open(struct sim *sim);
void sim_world_close(struct sim *sim);

/* The tickets of NAME, front first. */
size_t sim_world_look(const struct sim *sim, const char *name, struct sim_place *out, size_t most);
bool sim_world_find(const struct sim *sim, const char *name, uint64_t number,
                    struct sim_place *out);
/* When SESSION ends if nobody renews it, in virtual time; false: it is not there. */
bool sim_world_session(const struct sim *sim, uint64_t session, int64_t *ends);

/* Engines may sweep when they like; here it is asked for. */
void sim_world_sweep(struct sim *sim);
/* Everything ends that ends within MS from now. */
void sim_world_expire(struct sim *sim, int64_t ms);
/* Lines, sessions and whatever else is there that an empty world does not have. */
size_t sim_world_left(const struct sim *sim);

#endif
