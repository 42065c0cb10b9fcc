/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls to a model etcd. */
#include "sim/etcd/server.h"

#include <assert.h>
#include <string.h>

#define FLOOD_NS (100 * RT_MS)
/* Calls of one client within that time: the most in half of it were 69, in 2,300 worlds of at most six asks. */
#define FLOOD 400

#define TIMED_OUT "etcdserver: request timed out"
#define LOST_LEADER "etcdserver: request timed out, possibly due to previous leader failure"

static const struct {
    const char *path;
    const ProtobufCMessageDescriptor *request;
} calls[RT_ETCD_CALLS] = {
    [RT_ETCD_RANGE] = {"/etcdserverpb.KV/Range", &rt_etcd__range_request__descriptor},
    [RT_ETCD_TXN] = {"/etcdserverpb.KV/Txn", &rt_etcd__txn_request__descriptor},
    [RT_ETCD_PUT] = {"/etcdserverpb.KV/Put", &rt_etcd__put_request__descriptor},
    [RT_ETCD_DELETE] = {"/etcdserverpb.KV/DeleteRange", &rt_etcd__delete_range_request__descriptor},
    [RT_ETCD_LEASE_GRANT] = {"/etcdserverpb.Lease/LeaseGrant",
                             &rt_etcd__lease_grant_request__descriptor},
    [RT_ETCD_LEASE_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke",
                              &rt_etcd__lease_revoke_request__descriptor},
    [RT_ETCD_LEASE_LEFT] = {"/etcdserverpb.Lease/LeaseTimeToLive",
                            &rt_etcd__lease_time_to_live_request__descriptor},
    [RT_ETCD_STATUS] = {"/etcdserverpb.Maintenance/Status", &rt_etcd__status_request__descriptor},
    [RT_ETCD_MEMBERS] = {"/etcdserverpb.Cluster/MemberList",
                         &rt_etcd__member_list_request__descriptor},
};

static enum rt_etcd_call call_of(const char *path)
{
    for (int i = 0; i < RT_ETCD_CALLS; i++)
        if (calls[i].path != NULL && strcmp(calls[i].path, path) == 0)
            return (enum rt_etcd_call)i;
    return RT_ETCD_CALLS;
}

/* ---- What needs no agreement -------------------------------------------- */

static const void *status_reply(struct es_server *s, struct rt_arena *arena, uint32_t member)
{
    static uint8_t version[] = "3.4.23";
    RtEtcd__StatusResponse *m = es_new(arena, sizeof(*m));
    bool leader = s->leaderless_until == 0 || sim_chance(&s->net.random, 500);
    rt_etcd__status_response__init(m);
    m->header = es_member_header(s, arena, member, s->members[member].applied);
    m->version = (ProtobufCBinaryData){sizeof(version) - 1, version};
    m->leader = leader ? s->leader + 1 : 0;
    m->raft_term = s->term;
    m->db_size = 1 << 16;
    return m;
}

static const void *members_reply(struct es_server *s, struct rt_arena *arena, uint32_t member)
{
    RtEtcd__MemberListResponse *m = es_new(arena, sizeof(*m));
    rt_etcd__member_list_response__init(m);
    m->header = es_member_header(s, arena, member, s->members[member].applied);
    m->members = es_new(arena, ES_MEMBERS * sizeof(*m->members));
    for (; m->n_members < ES_MEMBERS; m->n_members++) {
        RtEtcd__Member *one = es_new(arena, sizeof(*one));
        rt_etcd__member__init(one);
        one->id = m->n_members + 1;
        m->members[m->n_members] = one;
    }
    return m;
}

static const void *left_reply(struct es_server *s, struct rt_arena *arena, uint32_t member,
                              const RtEtcd__LeaseTimeToLiveRequest *rq)
{
    RtEtcd__LeaseTimeToLiveResponse *m = es_new(arena, sizeof(*m));
    const struct es_lease *lease = es_store_lease(&s->store, rq->id);
    rt_etcd__lease_time_to_live_response__init(m);
    m->header = es_member_header(s, arena, member, s->members[member].applied);
    m->id = rq->id;
    m->ttl = -1;
    if (lease == NULL)
        return m;
    m->ttl = lease->ends > s->net.now ? (lease->ends - s->net.now) / (1000 * RT_MS) : 0;
    m->granted_ttl = lease->ttl_s;
    m->keys = es_new(arena, s->store.count * sizeof(*m->keys));
    for (size_t i = 0; rq->keys && i < s->store.count; i++)
        if (s->store.kvs[i]->lease == rq->id)
            m->keys[m->n_keys++] = es_kv_message(arena, s->store.kvs[i], true)->key;
    return m;
}

/* ---- Doing it ----------------------------------------------------------- */

static RtEtcd__Header *header_of(const void *reply)
{
    RtEtcd__Header *h; /* every answer's first field */
    memcpy(&h, (const char *)reply + sizeof(ProtobufCMessage), sizeof(h));
    return h;
}

/* ANSWER is RPC's, soon; a member that is behind cannot answer what it has not seen. */
static void answer(struct es_server *s, const struct es_task *t, const struct es_answer *a,
                   bool seen)
{
    int64_t at = s->net.now + es_think(s), behind = s->members[t->member].behind_until;
    if (t->rpc == NULL || sim_net_strikes(&s->net, s->net.faults.reply_lost))
        return;
    if (!seen && behind > at)
        at = behind + es_think(s);
    if (a->status == RT_GRPC_OK)
        es_say(s, t->rpc, t->member, at, a->reply);
    es_say_end(s, t->rpc, t->member, at, a->status, a->text);
}

static bool is_busy(struct es_server *s, const struct es_task *t)
{
    static const struct es_answer busy = {RT_GRPC_RESOURCE_EXHAUSTED,
                                          "etcdserver: too many requests", NULL};
    if (s->busy_until <= s->net.now || sim_chance(&s->net.random, 300))
        return false;
    answer(s, t, &busy, true);
    return true;
}

/* There is no leader: the call waits for one, or is refused, and may be done all the same. */
static bool is_leaderless(struct es_server *s, struct es_task *t, bool reads)
{
    static const struct es_answer refusals[] = {
        {RT_GRPC_UNAVAILABLE, TIMED_OUT, NULL},
        {RT_GRPC_UNAVAILABLE, LOST_LEADER, NULL},
        {RT_GRPC_UNAVAILABLE, "etcdserver: no leader", NULL},
    };
    if (s->leaderless_until == 0)
        return false;
    uint32_t dice = sim_below(&s->net.random, 8);
    if (dice < 3)
        answer(s, t, &refusals[dice], true);
    if (dice == 2 || (dice < 2 && (reads || dice == 0)))
        return true;
    if (dice == 1 && t->rpc != NULL) { /* it is in some log, but nobody hears of it */
        grpc_call_drop(t->rpc);
        t->rpc = NULL;
    }
    es_later(s, t, s->leaderless_until + es_think(s));
    return true;
}

static void do_agreed(struct es_server *s, struct es_task *t, struct rt_arena *arena,
                      enum rt_etcd_call call, const void *request)
{
    struct es_member *m = &s->members[t->member];
    bool reads = es_only_reads(call, request), behind = m->behind_until > s->net.now;
    bool stale = reads && behind && sim_chance(&s->net.random, s->stale) &&
                 m->applied >= s->store.compacted;
    if (!stale && is_leaderless(s, t, reads))
        return;
    if (!stale && is_busy(s, t))
        return;
    if (reads && behind && !stale && sim_chance(&s->net.random, 500)) {
        es_later(s, t, m->behind_until + es_think(s));
        return;
    }
    struct es_answer a = es_store_do(&s->store, arena, call, request, stale ? m->applied : 0);
    if (a.status == RT_GRPC_OK) {
        RtEtcd__Header *h = header_of(a.reply);
        *h = *es_member_header(s, arena, t->member, h->revision);
    }
    if (call == RT_ETCD_LEASE_GRANT && a.status == RT_GRPC_OK)
        es_lease_begin(s, &s->store.leases[s->store.lease_count - 1], 0);
    if (!reads)
        es_applied(s);
    answer(s, t, &a, stale);
    if (s->after != NULL)
        s->after(s, stale ? "stale" : calls[call].path, request, &a);
}

static void do_call(struct es_server *s, struct es_task *t)
{
    struct rt_arena arena;
    const void *request;
    enum rt_etcd_call call = t->call;
    if (es_frozen(s, t))
        return;
    if (t->rpc != NULL && t->rpc->server == NULL && sim_chance(&s->net.random, 500))
        return; /* given up by its client, and not begun yet */
    arena = RT_ETCD_ARENA;
    int rv = rt_etcd_unpack(&arena, calls[call].request, t->bytes, t->n, &request);
    assert(rv == 0); /* the engine writes no nonsense */
    (void)rv;
    struct es_answer a = {RT_GRPC_OK, "", NULL};
    if (call == RT_ETCD_STATUS)
        a.reply = status_reply(s, &arena, t->member);
    else if (call == RT_ETCD_MEMBERS)
        a.reply = members_reply(s, &arena, t->member);
    else if (call == RT_ETCD_LEASE_LEFT && !is_leaderless(s, t, true))
        a.reply = left_reply(s, &arena, t->member, request);
    else if (call != RT_ETCD_LEASE_LEFT)
        do_agreed(s, t, &arena, call, request);
    if (a.reply != NULL)
        answer(s, t, &a, true);
    rt_arena_fini(&arena);
}

/* Detects a client that does not like an answer and asks again at once. */
static void count(struct es_server *s, struct es_conn *c)
{
    if (s->net.now > c->asked_at + FLOOD_NS) {
        c->asked_at = s->net.now;
        c->asked = 0;
    }
    s->flooded = s->flooded || ++c->asked > FLOOD + s->crowd;
}

void es_call(struct grpc_call *rpc, const uint8_t *bytes, size_t n)
{
    struct es_conn *c = es_conn_of(rpc);
    struct es_server *s = c->server;
    const struct sim_wire *w = &s->net.faults;
    enum rt_etcd_call call = call_of(rpc->path);
    count(s, c);
    bool breaks = sim_net_strikes(&s->net, w->reset);
    c->doomed = c->doomed || breaks;
    if ((breaks && sim_chance(&s->net.random, 500)) || sim_net_strikes(&s->net, w->request_lost))
        return;
    if (call == RT_ETCD_CALLS) {
        es_say_end(s, rpc, c->member, s->net.now + es_think(s), RT_GRPC_UNIMPLEMENTED, rpc->path);
        return;
    }
    struct es_task *t = es_task_new(s, rpc, c->member, bytes, n, do_call);
    t->call = call;
    es_task_add(s, t, s->net.now + es_think(s));
}
