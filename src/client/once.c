/* SPDX-License-Identifier: Apache-2.0 */
/* Once: a durable ticket that is never released. */
#include "client/client.h"

/* Sends a durable join, with the same nonce until its outcome is known (I5). */
int rt_join_durable(struct rota *r, const char *name, struct rt_join *join)
{
    char spelled[RT_NAME_ROOM];
    struct rt_call call;

    if ((rota_caps(r) & ROTA_CAP_DURABLE) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED,
                       "nothing is durable on %s: once and latches are not "
                       "possible there",
                       r->shown_url);
    int rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    rt_name_spell(&r->spelling, name, spelled);
    join->name = spelled;
    join->flags |= RT_JOIN_DURABLE;
    rt_call_init(r, &call, RT_OP_JOIN);
    call.rq.op.join.joins = join;
    call.rq.op.join.n = 1;
    return rt_call_insist(r, &call);
}

uint64_t rt_random_id(void)
{
    uint64_t id;

    rt_random(&id, sizeof(id));
    id &= INT64_MAX; /* engines may keep it as a signed number */
    return id != 0 ? id : 1;
}

int rota_once(struct rota *r, const char *key, uint64_t for_ms, uint64_t *fence)
{
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, key);
    if (rv == 0 && for_ms > INT64_MAX / RT_MS)
        rv = rt_fail(r, ROTA_INVALID, "for_ms is too long: 0 means for ever");
    if (rv != 0)
        return rv;
    struct rt_join join = {
        .session = rt_random_id(),
        .nonce = rt_random_id(),
        .until_ms = (int64_t)for_ms,
        .mode = RT_EXCLUSIVE,
        .flags = RT_JOIN_TRY,
    };
    rv = rt_join_durable(r, key, &join);
    if (rv == 0 && fence != NULL)
        *fence = join.number;
    return rv;
}
