/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is not one: answers garbage, closes at once, never answers, never ends. */
#ifndef RT_ROGUE_H
#define RT_ROGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rogue_way {
    ROGUE_SAYS,     /* the same to whatever comes */
    ROGUE_TALKS,    /* that to the first thing on a connection, `then` to all that follows */
    ROGUE_FLOODS,   /* that to the first, then `then` for ever, as fast as it is read */
    ROGUE_HANGS_UP, /* that to the first, and closes */
    ROGUE_ECHOES,   /* what it is sent */
    ROGUE_NOISE,    /* random bytes */
    ROGUE_CLOSES,   /* at once */
    ROGUE_MUTE,     /* reads and never answers */
    ROGUE_PLAYS,    /* what `play` says */
};

struct rogue_options {
    enum rogue_way way;
    const void *first, *then; /* not copied; NULL: nothing */
    size_t first_size, then_size;
    uint64_t seed;
    /* Answers what was GOT, BEGINS: as the first thing on its connection; returns how many bytes of OUT. Runs on the
     * server's thread. */
    size_t (*play)(void *arg, bool begins, const void *got, size_t n, void *out, size_t room);
    void *arg;
};

/* What is not Redis: mute, noise, other protocols, answers that make no sense. */
#define ROGUE_NO_REDIS 13
extern const struct rogue_options rogue_no_redis[ROGUE_NO_REDIS];

struct rogue;

/* Listens on 127.0.0.1, on a thread of its own. */
struct rogue *rogue_start(const struct rogue_options *opts);
uint16_t rogue_port(const struct rogue *r);
void rogue_stop(struct rogue *r);

#endif
