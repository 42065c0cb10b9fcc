/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of all lines in which somebody waits, and the cycle in it. */
#ifndef RT_CROWD_H
#define RT_CROWD_H

#include "cli/cycle.h"

struct rt_crowd {
    struct rota_line **lines; /* [line_count] */
    size_t line_count;
    struct rt_cycle_ticket *tickets; /* of all lines, [ticket_count] */
    size_t ticket_count;
    struct rt_cycle_step *steps; /* of the cycle, [step_count] */
    size_t step_count;           /* 0: there is none */
};

/* Looks for a cycle that the line NAME is stuck on. Lines are read one after the other, so it looks a second time and
 * believes only what it sees twice. 0 or a library error; free it in either case. */
int rt_crowd_look(struct rt_crowd *crowd, struct rota *r, const char *name);
void rt_crowd_free(struct rt_crowd *crowd);

#endif
