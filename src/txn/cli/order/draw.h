/* SPDX-License-Identifier: Apache-2.0 */
/* What the demo draws as it happens: a lane for each service, a line for each step; or the same as JSON. */
#ifndef RT_DRAW_H
#define RT_DRAW_H

#include "txn/cli/order/audit.h"
#include "txn/cli/order/stage.h"

#include <jansson.h>

struct rt_draw {
    bool silent;            /* JSON, at the end */
    json_t *steps;          /* what was drawn; NULL: no memory */
    int order;              /* from 1 on */
    bool decided;           /* the decision of this order was drawn */
    int again, empty, late; /* calls that the fence made harmless */
};

void rt_draw_head(struct rt_draw *d, enum rt_order_fail fail);
void rt_draw_order(struct rt_draw *d, const struct rt_order *o);
void rt_draw_event(struct rt_draw *d, const struct rt_event *e);
/* Sums, and what was proven. */
void rt_draw_end(const struct rt_draw *d, const struct rt_audit *a, const struct rt_order *orders,
                 int count);
/* One object, on stdout. Returns an exit code. */
int rt_draw_json(struct rt_draw *d, const struct rt_audit *a, const struct rt_order *orders,
                 int count, enum rt_order_fail fail);

#endif
