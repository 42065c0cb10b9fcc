/* SPDX-License-Identifier: Apache-2.0 */
/* A model Redis and a real one, asked the same: for the tests of the model. */
#ifndef SIM_REDIS_PAIR_H
#define SIM_REDIS_PAIR_H

#include "lib/random.h"
#include "sim/redis/machine.h"

#define RS_PAIR_ARGS_MAX 64

extern struct rt_random rs_pair_chance;

/* For cmocka: starts the server, and stops it. */
int rs_pair_start(void **state);
int rs_pair_stop(void **state);

/* Both are empty, and chance begins with SEED. */
void rs_pair_begin(uint64_t seed);
/* Asks both and demands the same answer; for errors only the same first word, the rest is for people. */
/* Returns the status of a script's reply, where a text alone is 0; or -1. */
int rs_pair_check(size_t argc, const struct rs_text *argv);
/* Both run out of memory, or have enough again. */
void rs_pair_full(bool full);
/* Demands the same store. */
void rs_pair_check_stores(void);

#endif
