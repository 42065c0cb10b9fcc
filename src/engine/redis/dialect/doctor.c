/* SPDX-License-Identifier: Apache-2.0 */
/* CHECK: what a dialect promises is what its incumbents can keep, on this server as it is set. */
#include "engine/redis/dialect/dialect.h"

#include <stdio.h>
#include <string.h>

static bool evicts(const struct rt_resp_facts *f)
{
    return f->maxmemory > 0 && strcmp(f->policy, "noeviction") != 0;
}

static bool keeps(const struct rt_resp_facts *f)
{
    return f->aof && strcmp(f->appendfsync, "always") == 0;
}

static void check_holders(const struct rt_dia_conn *c, const struct rt_op *op,
                          const struct rt_resp_facts *f)
{
    const char *promise = "one holder at a time (I1)";
    if (c->dialect->warning != NULL)
        rt_words_verdict(op, promise, "broken", c->dialect->warning, "use dialect token, or line");
    else if (evicts(f))
        rt_words_verdict(op, promise, "broken",
                         "the server may evict keys with a ttl, and locks are such",
                         "set maxmemory-policy noeviction");
    else if (f->replicas > 0 || c->link.sentinel != NULL)
        rt_words_verdict(
            op, promise, "limited",
            "replicas follow asynchronously: one that is promoted may lack the last grants",
            "guard the resource by the fence");
    else if (!keeps(f))
        rt_words_verdict(
            op, promise, "limited", "a crash of the server may forget the last grants",
            "set appendonly yes and appendfsync always, or guard the resource by the fence");
    else
        rt_words_verdict(op, promise, "kept", "one server, appendfsync always", "");
}

static void check_rest(const struct rt_dia_conn *c, const struct rt_op *op)
{
    char text[160];
    bool fences = c->dialect->caps & ROTA_CAP_FENCE, order = c->dialect->caps & ROTA_CAP_ORDER;
    rt_words_verdict(op, "fences only grow (I2)", "limited",
                     fences ? "grants of Rota's clients are numbered, those of others are not"
                            : "the dialect has none",
                     "dialect line numbers all");
    rt_words_verdict(op, "order of arrival (I7)", order ? "kept" : "limited",
                     order ? "the queue of the incumbent"
                           : "who waits asks again: nobody is in front",
                     order ? "" : "dialect line has an order");
    (void)snprintf(text, sizeof(text), "dialect %s: locks of %s", c->dialect->name,
                   c->dialect->incumbents);
    rt_words_verdict(op, "dialect", "kept", text, "");
    rt_words_verdict(op, "waking", c->dialect->channel != NULL ? "kept" : "limited",
                     c->dialect->channel != NULL ? "by the incumbent's channel"
                                                 : "by asking again every 25 to 50 ms",
                     "");
}

static void checked(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                    const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    (void)status;
    (void)reply;
    if (err == 0 && c->link.nodes != NULL) {
        check_holders(c, op, &c->link.nodes->facts);
        check_rest(c, op);
    }
    rt_conn_done(&c->base, op, err);
}

int rt_dia_begin_check(struct rt_dia_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    return rt_dia_ask(c, RT_DIA_PING, &a, 0, op, NULL, checked) != NULL ? 0 : ROTA_NOMEM;
}
