/* SPDX-License-Identifier: Apache-2.0 */
/* Holds: the operations of a history, grouped by who held what. For checker.c only. */
#ifndef RT_HOLDS_H
#define RT_HOLDS_H

#include "checker.h"

struct rt_hold {
    const struct rt_record **ops;  /* acquires, renewals, releases by t_inv ... */
    size_t n;                      /* ... in one stretch of rt_holds.ops */
    const struct rt_record *first; /* the acquire that began first */
    int64_t ends_from;             /* RT_END: may end unasked from here on */
    bool released;                 /* as often as acquired, perhaps: info counts */
};

struct rt_holds {
    const struct rt_record **ops, **ends;
    size_t op_count, end_count;
    /* by lock, mode, fence; those of one fence in the order of their grants */
    struct rt_hold *holds;
    size_t count;
    int64_t *points, *infos;           /* scratch of rt_hold_place */
    const struct rt_record **releases; /* scratch of rt_hold_place */
};

/* Sorts RECORDS into holds and reports operations that belong to none. Aborts without memory. */
void rt_holds_init(struct rt_holds *hs, const struct rt_record *records, size_t n,
                   const struct rt_check_options *opts, struct rt_report *report);
void rt_holds_fini(struct rt_holds *hs);

/* Grants H at P or as soon after as its calls allow. *END: the earliest time it can be over. Else
 * false, and *BAD, *WHY say which of its operations had no place. */
bool rt_hold_place(struct rt_holds *hs, const struct rt_hold *h, int64_t p, int64_t *end,
                   const struct rt_record **bad, enum rt_finding *why);

#endif
