/* SPDX-License-Identifier: Apache-2.0 */
/* How often lines are granted, as far as an observer can see. */
#ifndef RT_RATES_H
#define RT_RATES_H

#include <rota.h>
#include <stdbool.h>

struct rt_rates {
    struct rota *r;
    struct rt_rate *lines; /* observed */
    size_t count;
    unsigned looks;
    int64_t looked_at; /* ns; 0: never */
    double since;      /* seconds between the last two looks; 0: there was only one */
};

/* A new look at all lines begins, at NOW (ns). */
void rt_rates_begin(struct rt_rates *rates, int64_t now);

/* LINE as seen now; it is observed from the first time on, unless there are already too many. Returns its grants per
 * second since the last look, at least: engines leave out states that nobody could have followed. -1: not known. */
double rt_rates_look(struct rt_rates *rates, const struct rota_line *line);

/* Ends the look: lines no longer seen are no longer observed. Returns the grants per second of those that happened to
 * be free. */
double rt_rates_end(struct rt_rates *rates);

/* To be called after the client was closed, which ends its observations without asking the engine. */
void rt_rates_free(struct rt_rates *rates);

#endif
