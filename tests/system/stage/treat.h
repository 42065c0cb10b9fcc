/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of request, once each: its reply lost, doubled, late; in make torture also cut off, and the
 * request itself doubled, lost, late. */
#ifndef RT_TREAT_H
#define RT_TREAT_H

#include "lib/proxy.h"
#include "stage.h"

struct treat_kind {
    const char *name;
    const char *match; /* a part of its words; NULL: all */
    bool push;         /* it is one */
};

struct
    treat_line { /* the proxies that a contender is behind: a fault may happen on any one of them */
    struct rt_proxy *const *proxies;
    size_t n;
};

#define TREAT_PROXIES_MAX 4 /* of a line */

struct treat_plan {
    const struct treat_kind *kinds;
    size_t kind_count;
    const struct treat_line *lines;
    size_t line_count;
    uint32_t late_ms; /* more than the ttl */
    uint32_t rounds;
    /* replies have no number of their own: one that comes twice, which TCP never does, cannot be
     * told from the next one's, so none does */
    bool in_order;
    /* Called now and then, so that rare requests come. */
    void (*stir)(struct stage *st, void *arg);
    void *arg;
};

/* Runs that many rounds, each until all has happened or time is over; returns how many did not happen,
 * and names them. Leaves no fault in the proxies. */
size_t treat_all(struct stage *st, const struct treat_plan *plan);

#endif
