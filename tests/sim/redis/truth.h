/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the store of a model Redis, in the layout of the engine (docs/engines/redis.md). */
#ifndef SIM_REDIS_TRUTH_H
#define SIM_REDIS_TRUTH_H

#include "sim/redis/server.h"
#include "sim/world.h"

size_t sim_truth_look(const struct rs_server *s, const char *name, struct sim_place *out,
                      size_t most);
/* In the room of the line NAME; NULL: in the one where it lives longest, because rooms without tickets may
 * be left over. */
bool sim_truth_session(const struct rs_server *s, uint64_t session, const char *name,
                       int64_t *ends);
/* Runs the engine's script until nothing is left to sweep. */
void sim_truth_sweep(struct rs_server *s);
/* What is there besides the layout's mark and the counter; names it on stderr. */
size_t sim_truth_left(const struct rs_server *s);
/* The fence counter; 0: there is none. */
uint64_t sim_truth_counter(const struct rs_server *s);
void sim_truth_dump(const struct rs_server *s, void (*line)(const void *arg, const char *text),
                    const void *arg);

#endif
