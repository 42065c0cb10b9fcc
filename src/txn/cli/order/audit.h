/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the play: compares what the databases have with what the journal says they must have. */
#ifndef RT_AUDIT_H
#define RT_AUDIT_H

#include "txn/cli/order/counter.h"

struct rt_audit {
    struct rt_counter has[RT_ORDER_SERVICES];
    struct rt_counter bare[RT_ORDER_SERVICES]; /* what it would have without the fence */
    int expected[RT_ORDER_SERVICES]; /* taken, by the orders that the journal calls committed */
    bool exact[RT_ORDER_SERVICES];   /* nothing made, nothing lost, nothing reserved, taken once */
    int committed;                   /* orders */
    bool all;                        /* all of them are exact, and every order ended as it must */
    char why[200];
};

/* To be called when all processes of the play have gone. Also fills in how each order ended. False: something cannot be
 * read: `why`. */
bool rt_audit_make(struct rt_audit *a, const struct rt_stage *s, struct rt_order *orders,
                   int count);

#endif
