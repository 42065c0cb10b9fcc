/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is none: answers garbage, closes at once, never answers. */
#ifndef RT_ROGUE_H
#define RT_ROGUE_H

#include <stddef.h>
#include <stdint.h>

enum rogue_way {
    ROGUE_SAYS,   /* the same text to whatever comes */
    ROGUE_ECHOES, /* what it is sent */
    ROGUE_NOISE,  /* random bytes */
    ROGUE_CLOSES, /* at once */
    ROGUE_MUTE,   /* reads and never answers */
    ROGUE_ENDLESS /* one reply that never ends */
};

struct rogue;

/* Listens on 127.0.0.1, on a thread of its own. TEXT is for ROGUE_SAYS, and is not copied. */
struct rogue *rogue_start(enum rogue_way way, const char *text, uint64_t seed);
uint16_t rogue_port(const struct rogue *r);
void rogue_stop(struct rogue *r);

#endif
