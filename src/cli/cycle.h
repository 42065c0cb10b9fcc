/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a circle of who waits for whom, in a snapshot of the lines. Pure. */
#ifndef RT_CYCLE_H
#define RT_CYCLE_H

#include <rota.h>
#include <stdbool.h>
#include <stddef.h>

/* More tickets than this are not searched: the time grows with the square. */
#define RT_CYCLE_TICKETS 4096

struct rt_cycle_ticket {
    const char *name; /* of its line; the same pointer for the whole line */
    const struct rota_place *place;
};

/* The owner of the ticket WAITS waits because of the ticket BEHIND, which is ahead in the same line and belongs to the
 * owner of the next step. Both are indices of tickets. */
struct rt_cycle_step {
    size_t waits, behind;
};

/* Searches TICKETS[0..COUNT), line after line, each in its order, for a cycle that the line NAME is stuck on: through
 * those who wait in it, or those who hold it and wait elsewhere. Holders and waiters are identified by (session,
 * owner). A permit counts as in the way only if it alone is. Writes at most COUNT steps; returns how many make the
 * cycle, 0 if there is none; -1: out of memory, or too many tickets. */
long rt_cycle_find(const struct rt_cycle_ticket *tickets, size_t count, const char *name,
                   struct rt_cycle_step *steps);

/* Whether all holds in the cycle were acquired with ROTA_DETECT. Other holds may have been passed on to another thread
 * of their process, which cannot be seen from outside. */
bool rt_cycle_certain(const struct rt_cycle_ticket *tickets, const struct rt_cycle_step *steps,
                      size_t count);

#endif
