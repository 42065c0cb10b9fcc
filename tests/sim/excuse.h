/* SPDX-License-Identifier: Apache-2.0 */
/* What clients are excused for when their server has lost data, or its clock jumped. */
#ifndef SIM_EXCUSE_H
#define SIM_EXCUSE_H

#include "sim/sim.h"

/* The server lost data or its clock jumped: what C believes is not held against it until its earlier
 * sessions must be over (a deadline is at most a ttl after the last answered beat was sent). */
bool sim_is_excused(const struct sim *sim, const struct sim_client *c);
/* Excuses everybody from now on; JUMPED: not only until the next answered beat. */
void sim_excuse_all(struct sim *sim, bool jumped);
/* The engine told C that its last BEAT was done: whoever speaks to the server again must have been told
 * what it has lost. */
void sim_excuse_ends(struct sim_client *c);
/* C was out of reach and is not any more: what it hears in this moment may have been said before the loss. */
void sim_excuse_late(struct sim_client *c);

#endif
