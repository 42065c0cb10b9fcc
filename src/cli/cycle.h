/* SPDX-License-Identifier: Apache-2.0 */
/* Finding who waits for whom in a circle, in a picture of the lines. Pure. */
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

/* The owner of the ticket WAITS waits, and does so because of the ticket BEHIND, which is ahead
 * in the same line and belongs to the owner of the next step. Indices of tickets. */
struct rt_cycle_step {
    size_t waits, behind;
};

/* Looks at TICKETS[0..COUNT), line after line and each in its order, for a cycle that the line
 * NAME hangs on: by those who wait in it, or by those who hold it and wait elsewhere. Who holds
 * and waits is told by (session, owner). A permit counts as in the way only if it alone is.
 * Writes at most COUNT steps; returns how many make the cycle, 0 if there is none; -1: out of
 * memory, or too many tickets. */
long rt_cycle_find(const struct rt_cycle_ticket *tickets, size_t count, const char *name,
                   struct rt_cycle_step *steps);

/* Whether all holds in the cycle were asked for with ROTA_DETECT. Others may have been passed on
 * to another thread of their process, which cannot be seen from outside. */
bool rt_cycle_certain(const struct rt_cycle_ticket *tickets, const struct rt_cycle_step *steps,
                      size_t count);

#endif
