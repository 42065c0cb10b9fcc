/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the play: compares what the databases have with what the journal says they must have. */
#include "txn/cli/order/audit.h"

#include <stdio.h>

static bool read_journal(struct rt_audit *a, const struct rt_stage *s, struct rt_order *orders,
                         int count)
{
    struct rota_txns_options opts = {.resources = "/dev/null"};
    struct rota_txns *m;
    int err = rota_txns_open(&m, s->journal, &opts);

    if (err != 0) {
        snprintf(a->why, sizeof(a->why), "%s", rota_txn_errmsg(NULL));
        return false;
    }
    for (int i = 0; err == 0 && i < count; i++) {
        struct rota_outcome o = {0};
        err = rota_txn_outcome(m, orders[i].id, &o);
        orders[i].committed = o.decision == ROTA_STAND_COMMITTED;
        orders[i].finished = o.decision != ROTA_STAND_OPEN && o.unfinished == 0;
    }
    if (err != 0)
        snprintf(a->why, sizeof(a->why), "%s", rota_txn_errmsg(m));
    rota_txns_close(m);
    return err == 0;
}

static bool read_service(struct rt_audit *a, const struct rt_stage *s, int i,
                         const struct rt_order *orders, int count)
{
    const struct rt_counter *has = &a->has[i];
    int tried = 0;

    if (!rt_counter_read(s, i, &a->has[i], &a->bare[i], &tried, a->why, sizeof(a->why)))
        return false;
    for (int k = 0; k < count; k++)
        a->expected[i] += orders[k].committed ? orders[k].amounts[i] : 0;
    a->exact[i] = has->free + has->reserved + has->taken == rt_order_before[i] &&
                  has->reserved == 0 && tried == 0 && has->taken == a->expected[i];
    a->all = a->all && a->exact[i];
    return true;
}

bool rt_audit_make(struct rt_audit *a, const struct rt_stage *s, struct rt_order *orders, int count)
{
    *a = (struct rt_audit){.all = true};
    if (!read_journal(a, s, orders, count))
        return false;
    for (int i = 0; i < RT_ORDER_SERVICES; i++)
        if (!read_service(a, s, i, orders, count))
            return false;
    for (int i = 0; i < count; i++) {
        a->committed += orders[i].committed;
        a->all = a->all && orders[i].finished && orders[i].committed == orders[i].commits;
    }
    return true;
}
