/* SPDX-License-Identifier: Apache-2.0 */
/* A service: what it has is free, reserved or taken; try, confirm and cancel over HTTP, behind the fence, in SQLite. */
#ifndef RT_COUNTER_H
#define RT_COUNTER_H

#include "txn/cli/order/stage.h"
#include "txn/http/server.h"

struct rt_counter { /* what a service has */
    int free, reserved, taken;
};

/* What R asks of a service; false: R is no such request. */
bool rt_counter_asked(const struct rt_http_request *r, struct rota_call *out);

/* For rt_stage_start: serves until it is killed. ARG: which, an int. */
int rt_counter_serve(const struct rt_stage *s, void *arg);

/* To be called when nobody serves any more. BARE: what a service that does whatever it is asked would have. *TRIED:
 * branches that were tried, and neither confirmed nor cancelled, by the fence. False: it cannot be read, and WHY says
 * so. */
bool rt_counter_read(const struct rt_stage *s, int service, struct rt_counter *fenced,
                     struct rt_counter *bare, int *tried, char *why, size_t size);

#endif
