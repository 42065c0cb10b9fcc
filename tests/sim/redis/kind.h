/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over the engine redis: what their files tell each other. */
#ifndef SIM_REDIS_KIND_H
#define SIM_REDIS_KIND_H

#include "sim/sim.h"

/* outage.c: as in struct sim_kind. */
void sim_redis_outage(struct sim *sim);
void sim_cluster_outage(struct sim *sim);
void sim_redis_go_on(struct sim *sim); /* promotes a replica that fell behind, when due */
void sim_redis_heal(struct sim *sim);
bool sim_redis_fences_grow(const struct sim *sim);

/* wire.c: looks at every script that reaches the server. */
void sim_redis_watch(struct sim *sim);

#endif
