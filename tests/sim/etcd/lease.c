/* SPDX-License-Identifier: Apache-2.0 */
/* Keep-alives to a model etcd. */
#include "sim/etcd/server.h"

#include <assert.h>

/* A revoked lease, on a server that answers nevertheless; else 0. */
static int64_t lie(const struct es_server *s, int64_t id)
{
    for (uint32_t i = 0; s->lies && i < ES_REVOKED_MAX; i++)
        if (s->revoked[i].id == id)
            return s->revoked[i].ttl_s;
    return 0;
}

static void keep_alive(struct es_server *s, struct es_task *t)
{
    struct rt_arena arena;
    const RtEtcd__LeaseKeepAliveRequest *rq;
    RtEtcd__LeaseKeepAliveResponse m = RT_ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    if (es_frozen(s, t))
        return;
    if (s->leaderless_until != 0 && sim_chance(&s->net.random, 300)) {
        es_say_end(s, t->rpc, t->member, s->net.now + es_think(s), RT_GRPC_UNAVAILABLE,
                   "etcdserver: no leader");
        return;
    }
    if (s->leaderless_until != 0) {
        es_later(s, t, s->leaderless_until + es_think(s));
        return;
    }
    arena = RT_ETCD_ARENA;
    int rv = rt_etcd_unpack(&arena, &rt_etcd__lease_keep_alive_request__descriptor, t->bytes, t->n,
                            &rq);
    assert(rv == 0);
    (void)rv;
    struct es_lease *lease = es_store_lease(&s->store, rq->id);
    if (lease != NULL && lease->ends <= s->net.now) { /* over: it waits for the end */
        es_later(s, t, lease->revoke_at + es_think(s));
        goto free_arena;
    }
    if (lease != NULL)
        es_lease_begin(s, lease, 0);
    m.header = es_member_header(s, &arena, t->member, s->members[t->member].applied);
    m.id = rq->id;
    m.ttl = lease != NULL ? lease->ttl_s : lie(s, rq->id);
    if (!sim_chance(&s->net.random, s->net.faults.reply_lost))
        es_say(s, t->rpc, t->member, s->net.now + es_think(s), &m);
free_arena:
    rt_arena_fini(&arena);
}

void es_keep_alive(struct grpc_call *rpc, const uint8_t *bytes, size_t n)
{
    const struct es_conn *c = es_conn_of(rpc);
    struct es_server *s = c->server;
    if (sim_chance(&s->net.random, s->net.faults.request_lost))
        return;
    struct es_task *t = es_task_new(s, rpc, c->member, bytes, n, keep_alive);
    es_task_add(s, t, s->net.now + es_think(s));
}
