/* SPDX-License-Identifier: Apache-2.0 */
/* How soon those who have to know something must have been told: known while nothing bad happens, and again some time
 * after it did. */
#ifndef SIM_CALM_H
#define SIM_CALM_H

#include "sim/sim.h"

/* Something bad happens, until UNTIL: what is told meanwhile may get lost. */
void sim_harm(struct sim *sim, int64_t until);

/* By when something that is so since SINCE, and may be told, must have been told. RT_NEVER: nothing can be said. */
int64_t sim_told_by(const struct sim *sim, int64_t since);

/* By when the holder must have been told that somebody waits since SINCE. */
int64_t sim_wanted_by(const struct sim *sim, int64_t since);

/* Nothing bad has happened, or so long ago that nothing is left of it: connections that nobody reads,
 * requests given up. */
bool sim_is_calm(const struct sim *sim);

/* The longest that N steps back and forth take over this wire, if nothing stands still. */
int64_t sim_steps_ns(const struct sim_wire *w, int64_t n);

#endif
