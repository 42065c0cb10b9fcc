/* SPDX-License-Identifier: Apache-2.0 */
/* Ways in which processes can take turns on Redis, all driven alike. */
#ifndef BENCH_REDIS_WAY_H
#define BENCH_REDIS_WAY_H

#include "redis.h"

struct party; /* a participant: each way has its own */

struct way {
    const char *name;
    void (*prepare)(const struct redis *s); /* before a round, by one process */
    struct party *(*join)(const struct redis *s);
    void (*acquire)(struct party *me);
    void (*release)(struct party *me);
    void (*part)(struct party *me);
    int (*waiting)(const struct redis *s, redisContext *watch); /* how many stand in line */
};

extern const struct way way_rota;
extern const struct way way_bare;  /* Rota's scripts, without Rota */
extern const struct way way_least; /* one script of two calls, without any promise: the floor */
extern const struct way way_blpop; /* a token in a list: the fastest that Redis has */
extern const struct way way_herd;  /* SET NX PX, and all retry when told of a release */

#endif
