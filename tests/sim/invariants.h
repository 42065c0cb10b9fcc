/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of DESIGN 2, as far as they can be seen from outside at one moment. */
#ifndef SIM_INVARIANTS_H
#define SIM_INVARIANTS_H

#include "sim/job.h"
#include "sim/sim.h"

/* JOB was told that it holds, and there is no excuse if that is not so. */
bool sim_believes(const struct sim *sim, const struct sim_job *job);

/* What the engine says of one line (I1, I2, I7). */
void sim_check_line(struct sim *sim, struct sim_line *seen);
/* All lines, after a request that was a LEAVE of the session LEAVER; 0: it was not a LEAVE. */
void sim_check_lines(struct sim *sim, uint64_t leaver);

/* After C did something: the engine's lines, all beliefs, deadlines (I1, I3, I5). */
void sim_check_step(struct sim *sim, struct sim_client *c);

/* When everything that is due at one moment has run: holders were told in time (I3). */
void sim_check_moment(struct sim *sim);

/* A thread was told: JOB holds (I2, I3, I7), or JOB was let go, with ERR (I5). */
void sim_check_grant(struct sim_job *job);
void sim_check_released(struct sim_job *job, int err);

/* A thread was told that JOB holds, whether that is still so or not. */
void sim_note_told(const struct sim_job *job);

/* C sends this (I4); its LEAVE is answered (I4, I6). */
void sim_check_sent(struct sim_client *c, const struct rt_op *op);
void sim_check_left(struct sim_client *c, const struct rt_op *op);

/* C hears the answer to a CHANGE, or WANTED: what was wanted may no longer be, and a moment later be
 * so again (I7). */
void sim_note_changed(struct sim_client *c, const struct rt_op *op);
void sim_check_lost(const struct sim_client *c, const struct rt_event *event); /* I5 */
void sim_note_wanted(struct sim_client *c, const struct rt_event *event);

/* All asks are answered and a ttl has passed: the engine has nothing that nobody knows of (I5, I6). */
void sim_check_settled(struct sim *sim);
/* Everybody is gone, and the time of all leases is over (I6). */
void sim_check_empty(struct sim *sim);

/* What everybody has, for a person. */
void sim_dump(const struct sim *sim);

#endif
