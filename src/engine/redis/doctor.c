/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: which promises hold on this server as it is set, and what to change. */
#include "engine/redis/ops.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void say(struct rt_op *op, const char *promise, const char *verdict, const char *setting,
                const char *remedy)
{
    struct rota_verdict v = {promise, verdict, setting, remedy};
    op->check.each(op->check.arg, &v);
}

void rt_redis_begin_check(struct rt_redis_conn *c, struct rt_op *op)
{
    say(op, "one holder at a time (I1)", "kept", "one script at a time", "");
    rt_conn_done(&c->base, op, 0);
}
