/* SPDX-License-Identifier: Apache-2.0 */
/* How soon who has to know something must have been told: known where nothing bad happens, and again so long after it did. */
#ifndef SIM_CALM_H
#define SIM_CALM_H

#include "sim/sim.h"

/* Something bad happens, until UNTIL: what is told meanwhile may get lost. */
void sim_harm(struct sim *sim, int64_t until);

/* What is so since SINCE, and may be told, is told by then. RT_NEVER: nothing can be said. */
int64_t sim_told_by(const struct sim *sim, int64_t since);

/* As long as somebody waits since SINCE, who holds is told by then. */
int64_t sim_wanted_by(const struct sim *sim, int64_t since);

/* Nothing bad has happened, or so long ago that nothing of it is left: connections that nobody reads, requests given up. */
bool sim_is_calm(const struct sim *sim);

/* What N steps to and fro take at most over this wire, where nothing stands still. */
int64_t sim_steps_ns(const struct sim_wire *w, int64_t n);

#endif
