/* SPDX-License-Identifier: Apache-2.0 */
/* The grant rule: who in a line holds, by the weights ahead. */
#ifndef RT_GRANT_H
#define RT_GRANT_H

#include <rota.h>
#include <stdbool.h>
#include <stdint.h>

/* Modes on the engine: those of enum rota_mode and two that are counted. */
enum rt_mode {
    RT_EXCLUSIVE = ROTA_EXCLUSIVE, /* takes the whole capacity */
    RT_SHARED = ROTA_SHARED,       /* 1 of infinity */
    RT_PERMITS = ROTA_PERMITS,     /* `take` of `of` */
    RT_COUNT = 3,                  /* latch: granted at once, only counted */
    RT_GATHER = 4,                 /* barrier: `of` waiting tickets are granted together */
};

/* Walks a line from its front. Locks and permits: a ticket is granted when what is ahead of
 * it leaves room, `ahead + mine <= capacity`; the first that does not fit ends the walk (a small
 * ask does not overtake a large one). Counted tickets (RT_COUNT) are always granted. Gathering
 * ones (RT_GATHER) are granted together when `of` of them wait: the walk counts them first. */
struct rt_grant {
    uint64_t ahead;    /* weight ahead, RT_GRANT_ALL for an exclusive ticket */
    uint32_t waiting;  /* RT_GATHER: waiting tickets of the line, given to rt_grant_init */
    uint32_t gathered; /* RT_GATHER: granted in this walk */
};

enum rt_grant_verdict {
    RT_GRANT_HOLDS, /* granted, before or now */
    RT_GRANT_WAITS, /* not granted; nobody behind it is either: stop here */
};

/* WAITING: how many tickets of the line wait; only RT_GATHER looks at it. */
void rt_grant_init(struct rt_grant *g, uint32_t waiting);

/* The next ticket of the line. GRANTED: what it was before the walk. */
enum rt_grant_verdict rt_grant_next(struct rt_grant *g, uint32_t mode, uint32_t take, uint32_t of,
                                    bool granted);

/* Whether tickets of these two modes may stand in one line, and whether (take, of) fits MODE. */
bool rt_grant_same_kind(uint32_t mode_a, uint32_t of_a, uint32_t mode_b, uint32_t of_b);
bool rt_grant_valid(uint32_t mode, uint32_t take, uint32_t of);

#endif
