/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd whose transactions get the answers that the test wrote down beforehand. */
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct town t;

/* ---- Answers -------------------------------------------------------------------------------------- */

ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

void reply_init(struct reply *r, bool succeeded, int64_t revision)
{
    memset(r, 0, sizeof(*r));
    rt_etcd__txn_response__init(&r->txn);
    rt_etcd__header__init(&r->header);
    r->header.revision = revision;
    r->txn.header = &r->header;
    r->txn.succeeded = succeeded;
    r->txn.responses = r->op_list;
}

void add_put(struct reply *r)
{
    size_t n = r->txn.n_responses++;
    rt_etcd__response_op__init(&r->ops[n]);
    r->op_list[n] = &r->ops[n];
}

void add_range(struct reply *r)
{
    size_t n = r->txn.n_responses;
    add_put(r);
    rt_etcd__range_response__init(&r->ranges[n]);
    r->ranges[n].kvs = &r->kv_list[r->kv_count];
    r->ops[n].response_case = RT_ETCD__RESPONSE_OP__RESPONSE_RANGE;
    r->ops[n].range = &r->ranges[n];
}

/* Into the range that was added last. */
void add_kv(struct reply *r, const char *key, const char *value, int64_t number, int64_t lease)
{
    RtEtcd__KeyValue *kv = &r->kvs[r->kv_count];
    rt_etcd__key_value__init(kv);
    r->kv_list[r->kv_count++] = kv;
    r->ranges[r->txn.n_responses - 1].n_kvs++;
    kv->key = text(key);
    kv->value = text(value);
    kv->create_revision = number;
    kv->mod_revision = number + 100;
    kv->lease = lease;
}

/* ---- The server ----------------------------------------------------------------------------------- */

const struct reply *script[TXNS];
RtEtcd__TxnRequest *seen[TXNS];
static struct {
    struct town_wire *wire;
    size_t call;
} held[TXNS];
int txns, revokes, grants;
int64_t revoked[LEASES], granted_ttl[LEASES];

void answer(int txn, const struct reply *r)
{
    town_answer(held[txn].wire, held[txn].call, &r->txn);
}

static void play_txn(struct town_wire *w, size_t i)
{
    assert_true(txns < TXNS);
    seen[txns] = town_read(w, i, &rt_etcd__txn_request__descriptor);
    held[txns].wire = w;
    held[txns].call = i;
    txns++;
    if (script[txns - 1] != NULL)
        answer(txns - 1, script[txns - 1]);
}

bool play(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    if (town_is_call(w, i, "/etcdserverpb.KV/Txn")) {
        play_txn(w, i);
    } else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseRevoke")) {
        RtEtcd__LeaseRevokeResponse done = RT_ETCD__LEASE_REVOKE_RESPONSE__INIT;
        RtEtcd__LeaseRevokeRequest *rq = town_read(w, i,
                                                   &rt_etcd__lease_revoke_request__descriptor);
        assert_true(revokes < LEASES);
        revoked[revokes++] = rq->id;
        protobuf_c_message_free_unpacked(&rq->base, NULL);
        town_answer(w, i, &done);
    } else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseGrant")) {
        RtEtcd__LeaseGrantResponse lease = RT_ETCD__LEASE_GRANT_RESPONSE__INIT;
        RtEtcd__LeaseGrantRequest *rq = town_read(w, i, &rt_etcd__lease_grant_request__descriptor);
        assert_true(grants < LEASES);
        granted_ttl[grants++] = lease.ttl = rq->ttl;
        lease.id = 90 + grants; /* 91, 92 ... */
        protobuf_c_message_free_unpacked(&rq->base, NULL);
        town_answer(w, i, &lease);
    } else {
        return false;
    }
    return true;
}

void open_town(town_play_fn *fn)
{
    memset(script, 0, sizeof(script));
    txns = revokes = grants = 0;
    town_init(&t, 1);
    t.play = fn;
    town_open(&t, "etcd://a");
    town_until_ready(&t);
}

void close_town(void)
{
    for (int i = 0; i < txns; i++)
        protobuf_c_message_free_unpacked(&seen[i]->base, NULL);
    txns = 0;
    town_close(&t);
}

void assert_bytes(ProtobufCBinaryData got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.data, want, got.len);
}

struct rt_etcd_ticket *add_ticket(const char *key, uint64_t number)
{
    struct rt_join join = {.name = "a", .session = 7, .nonce = 9, .mode = RT_EXCLUSIVE};
    struct rt_etcd_ticket *ticket = rt_etcd_ticket_with_key(&join, key, strlen(key));
    assert_non_null(ticket);
    ticket->number = number;
    ticket->granted = true;
    rt_etcd_ticket_add(t.conn, ticket);
    return ticket;
}

struct rt_op leave_op(const char *name, uint64_t number, uint64_t nonce)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .err = RUNNING};
    op.leave.name = name;
    op.leave.session = 7;
    op.leave.number = number;
    op.leave.nonce = nonce;
    return op;
}
