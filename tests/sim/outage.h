/* SPDX-License-Identifier: Apache-2.0 */
/* What befalls a model Redis: restarts that forget or do not, a stale replica promoted, a clock that
 * jumps, scripts forgotten, listeners cut off, refusals; and what clients are excused for by it. */
#ifndef SIM_OUTAGE_H
#define SIM_OUTAGE_H

#include "sim/sim.h"

/* Draws the next one and lets it happen. */
void sim_outage(struct sim *sim);
/* What was begun and is due: a replica that fell behind is promoted. */
void sim_outage_go_on(struct sim *sim);
/* All is well from now on. */
void sim_outage_heal(struct sim *sim);

/* The server lost data or its clock jumped: what C believes is not held against it until its
 * sessions of before must be over (a deadline is at most a ttl after the last answered beat was sent). */
bool sim_is_excused(const struct sim *sim, const struct sim_client *c);
/* No loss can make the next fence smaller than one that was given before. */
bool sim_fences_grow(const struct sim *sim);
/* The engine told C that its last BEAT was done: whoever speaks to the server again must have been told
 * what that has lost. */
void sim_excuse_ends(struct sim_client *c);

/* wire.c: looks at every script that reaches the server. */
void sim_wire_watch(struct sim *sim);

#endif
