/* SPDX-License-Identifier: Apache-2.0 */
/* The model etcd of the simulator, held against a real one: the same answers, the same events. */
#include "lib/random.h"
#include "sim/etcd/store.h"
#include "unit/etcd/bare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 2000
#define KEYS 6
#define LEASES 3

static struct rt_etcds server;
static struct bare real;
static struct es_store model;
static struct rt_arena arena; /* of the current request and the model's answer */
static struct rt_random chance;

/* ---- Asking both -------------------------------------------------------- */

static struct {
    int answers, err;
    uint8_t *bytes; /* the reply, packed anew without what differs by nature */
    size_t n;
    char why[256];
} said;

static const ProtobufCMessageDescriptor *const replies[RT_ETCD_CALLS] = {
    [RT_ETCD_RANGE] = &rt_etcd__range_response__descriptor,
    [RT_ETCD_TXN] = &rt_etcd__txn_response__descriptor,
    [RT_ETCD_PUT] = &rt_etcd__put_response__descriptor,
    [RT_ETCD_DELETE] = &rt_etcd__delete_range_response__descriptor,
    [RT_ETCD_LEASE_GRANT] = &rt_etcd__lease_grant_response__descriptor,
    [RT_ETCD_LEASE_REVOKE] = &rt_etcd__lease_revoke_response__descriptor,
};

/* Packs REPLY with only the revision in its header, and no inner headers: nobody reads those. */
static uint8_t *pack(enum rt_etcd_call call, const void *reply, size_t *n)
{
    uint8_t raw[1 << 16];
    size_t size = protobuf_c_message_get_packed_size(reply);
    assert_true(size <= sizeof(raw));
    protobuf_c_message_pack(reply, raw);
    ProtobufCMessage *copy = protobuf_c_message_unpack(replies[call], NULL, size, raw);
    RtEtcd__Header **header = (RtEtcd__Header **)(void *)(copy + 1); /* the first field of all */
    assert_non_null(copy);
    assert_non_null(*header);
    (*header)->cluster_id = (*header)->member_id = (*header)->raft_term = 0;
    RtEtcd__TxnResponse *txn = (RtEtcd__TxnResponse *)(void *)copy;
    for (size_t i = 0; call == RT_ETCD_TXN && i < txn->n_responses; i++) {
        RtEtcd__Header **inner = &txn->responses[i]->range->header; /* of all three */
        if (*inner != NULL)
            protobuf_c_message_free_unpacked(&(*inner)->base, NULL);
        *inner = NULL;
    }
    *n = protobuf_c_message_get_packed_size(copy);
    uint8_t *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    protobuf_c_message_pack(copy, bytes);
    protobuf_c_message_free_unpacked(copy, NULL);
    return bytes;
}

static void on_answer(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    said.answers++;
    said.err = err;
    snprintf(said.why, sizeof(said.why), "%s", rt_etcd_base(c)->errmsg);
    said.bytes = err == 0 ? pack((enum rt_etcd_call)a->call_kind, reply, &said.n) : NULL;
}

static void ask_real(enum rt_etcd_call call, const void *request)
{
    said.answers = 0;
    struct rt_etcd_ask *a = rt_etcd_ask_new(real.conn, call, request, on_answer);
    assert_non_null(a);
    a->entry.deadline = rt_loop_now(&bare_loop) + 30000 * RT_MS;
    rt_etcd_ask_send(real.conn, a);
    bare_until(&said.answers, 1);
}

/* Asks both and demands the same; true: it was done. */
static bool check(enum rt_etcd_call call, const void *request)
{
    /* The model first: the real one may tell of the change before it answers. */
    struct es_answer b = es_store_do(&model, &arena, call, request, 0);
    ask_real(call, request);
    struct rt_grpc_verdict verdict = rt_etcd_judge(b.status, b.text);
    if (verdict.err != said.err || (said.err != 0 && strstr(said.why, b.text) == NULL))
        fail_msg("call %d: real %d '%s', model %d '%s'", (int)call, said.err, said.why, verdict.err,
                 b.text);
    if (said.err == 0) {
        size_t n;
        uint8_t *bytes = pack(call, b.reply, &n);
        assert_int_equal(n, said.n);
        assert_memory_equal(bytes, said.bytes, n);
        free(bytes);
    }
    free(said.bytes);
    said.bytes = NULL;
    return said.err == 0;
}

/* ---- What is watched ---------------------------------------------------- */

static struct rt_etcd_watch watched;
static int created, events;

/* Each is the next of the model's changes. */
static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                      RtEtcd__Event *const *list, size_t n)
{
    (void)c, (void)w, (void)revision;
    for (size_t i = 0; i < n; i++, events++) {
        struct rt_arena own;
        uint8_t a[4096], b[4096];
        own = RT_ETCD_ARENA;
        assert_true((size_t)events < model.log_count);
        RtEtcd__Event *mine = es_event(&own, &model.log[events]);
        size_t size = protobuf_c_message_get_packed_size(&mine->base);
        assert_int_equal(protobuf_c_message_get_packed_size(&list[i]->base), size);
        assert_true(size <= sizeof(a));
        protobuf_c_message_pack(&mine->base, a);
        protobuf_c_message_pack(&list[i]->base, b);
        assert_memory_equal(a, b, size);
        rt_arena_fini(&own);
    }
}

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision)
{
    (void)c, (void)w, (void)revision;
    created++;
}

static const struct rt_etcd_watch_user watch_user = {on_created, on_events, NULL};

/* ---- Random requests ---------------------------------------------------- */

static uint32_t below(uint32_t n)
{
    return rt_random_below(&chance, n);
}

static bool one_in(uint32_t n)
{
    return below(n) == 0;
}

static ProtobufCBinaryData text(const char *s)
{
    ProtobufCBinaryData data = {strlen(s), es_new(&arena, strlen(s))};
    memcpy(data.data, s, data.len);
    return data;
}

static ProtobufCBinaryData key_of(uint32_t i)
{
    return text((const char[]){'k', '/', (char)('a' + i), '\0'});
}

static ProtobufCBinaryData some_end(void)
{
    static uint8_t zero;
    switch (below(5)) {
    case 0:
        return text("k0");
    case 1:
        return (ProtobufCBinaryData){1, &zero};
    case 2:
        return key_of(below(KEYS));
    default:
        return (ProtobufCBinaryData){0, NULL};
    }
}

static ProtobufCBinaryData some_value(void)
{
    return text((const char *const[]){"", "1", "22", "a value"}[below(4)]);
}

static int64_t some_revision(void)
{
    return (int64_t)below((uint32_t)model.revision + 1);
}

static int64_t some_lease(void)
{
    return one_in(2) ? 0 : 101 + below(LEASES + 1); /* one of them never is */
}

static RtEtcd__RangeRequest *some_range(void)
{
    RtEtcd__RangeRequest *rq = es_new(&arena, sizeof(*rq));
    rt_etcd__range_request__init(rq);
    rq->key = one_in(2) ? text("k/") : key_of(below(KEYS));
    rq->range_end = one_in(3) ? some_end() : text("k0");
    if (one_in(2))
        rq->order = (RtEtcd__Order)below(3);
    if (one_in(2))
        rq->by = (RtEtcd__By)below(5);
    rq->limit = one_in(2) ? 1 + below(3) : 0;
    rq->keys_only = one_in(6);
    rq->count_only = one_in(6);
    if (one_in(4))
        rq->revision = some_revision() + one_in(8);
    if (one_in(4))
        rq->min_create_revision = some_revision();
    if (one_in(4))
        rq->max_create_revision = some_revision();
    if (one_in(8))
        rq->min_mod_revision = some_revision();
    if (one_in(8))
        rq->max_mod_revision = some_revision();
    return rq;
}

static RtEtcd__PutRequest *some_put(uint32_t key)
{
    RtEtcd__PutRequest *rq = es_new(&arena, sizeof(*rq));
    rt_etcd__put_request__init(rq);
    rq->key = key_of(key);
    rq->ignore_value = one_in(5);
    rq->ignore_lease = one_in(5);
    rq->prev_kv = one_in(3);
    if (!rq->ignore_value || one_in(10))
        rq->value = some_value();
    if (!rq->ignore_lease || one_in(10))
        rq->lease = some_lease();
    return rq;
}

static RtEtcd__DeleteRangeRequest *some_delete(uint32_t key, bool alone)
{
    RtEtcd__DeleteRangeRequest *rq = es_new(&arena, sizeof(*rq));
    rt_etcd__delete_range_request__init(rq);
    rq->key = key_of(key);
    rq->prev_kv = one_in(3);
    if (alone && one_in(6))
        rq->range_end = some_end();
    return rq;
}

static RtEtcd__Compare *some_compare(void)
{
    RtEtcd__Compare *c = es_new(&arena, sizeof(*c));
    rt_etcd__compare__init(c);
    c->key = key_of(below(KEYS));
    c->result = (RtEtcd__Compare__Result)below(4);
    c->target = (RtEtcd__Compare__Target)below(5);
    if (one_in(4)) {
        c->key = text("k/");
        c->range_end = text("k0");
    }
    c->with_case = (RtEtcd__Compare__WithCase)(RT_ETCD__COMPARE__WITH_VERSION + c->target);
    if (c->target == RT_ETCD__COMPARE__TARGET__VALUE)
        c->value = some_value();
    else if (c->target == RT_ETCD__COMPARE__TARGET__VERSION)
        c->version = below(4);
    else if (c->target == RT_ETCD__COMPARE__TARGET__LEASE)
        c->lease = some_lease();
    else
        c->create_revision = one_in(3) ? 0
                                       : some_revision(); /* mod_revision is in the same place */
    return c;
}

/* Each key only once: etcd refuses transactions that change one twice. */
static RtEtcd__RequestOp **some_ops(size_t *n)
{
    RtEtcd__RequestOp **ops = es_new(&arena, 3 * sizeof(*ops));
    *n = below(4);
    for (size_t i = 0; i < *n; i++) {
        RtEtcd__RequestOp *op = es_new(&arena, sizeof(*op));
        uint32_t key = (uint32_t)i * 2 + below(2);
        rt_etcd__request_op__init(op);
        op->request_case = (RtEtcd__RequestOp__RequestCase)(1 + below(3));
        if (op->request_case == RT_ETCD__REQUEST_OP__REQUEST_RANGE)
            op->range = some_range();
        else if (op->request_case == RT_ETCD__REQUEST_OP__REQUEST_PUT)
            op->put = some_put(key);
        else
            op->delete_range = some_delete(key, false);
        ops[i] = op;
    }
    return ops;
}

static RtEtcd__TxnRequest *some_txn(void)
{
    RtEtcd__TxnRequest *rq = es_new(&arena, sizeof(*rq));
    rt_etcd__txn_request__init(rq);
    rq->compare = es_new(&arena, 2 * sizeof(*rq->compare));
    for (rq->n_compare = 0; rq->n_compare < 2 && !one_in(3); rq->n_compare++)
        rq->compare[rq->n_compare] = some_compare();
    rq->success = some_ops(&rq->n_success);
    rq->failure = some_ops(&rq->n_failure);
    return rq;
}

static void change_a_lease(void)
{
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    RtEtcd__LeaseRevokeRequest revoke = RT_ETCD__LEASE_REVOKE_REQUEST__INIT;
    grant.id = revoke.id = 101 + below(LEASES);
    grant.ttl = 3600;
    if (one_in(2))
        (void)check(RT_ETCD_LEASE_GRANT, &grant);
    else
        (void)check(RT_ETCD_LEASE_REVOKE, &revoke);
}

static void test_requests(void **state)
{
    (void)state;
    uint32_t done = 0;
    for (int i = 0; i < REQUESTS; i++) {
        uint32_t dice = below(20);
        rt_arena_reset(&arena);
        if (dice < 6)
            done += check(RT_ETCD_RANGE, some_range());
        else if (dice < 9)
            done += check(RT_ETCD_PUT, some_put(below(KEYS)));
        else if (dice < 11)
            done += check(RT_ETCD_DELETE, some_delete(below(KEYS), true));
        else if (dice < 19)
            done += check(RT_ETCD_TXN, some_txn());
        else
            change_a_lease();
    }
    assert_true(done > REQUESTS / 2);
    bare_until(&events, (int)model.log_count);
    assert_int_equal(events, model.log_count);
}

/* Both give the same time, even the least; old revisions are gone from both. */
static void test_limits(void **state)
{
    (void)state;
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    RtEtcd__LeaseRevokeRequest revoke = RT_ETCD__LEASE_REVOKE_REQUEST__INIT;
    RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
    RtEtcd__PutRequest put = RT_ETCD__PUT_REQUEST__INIT;
    rt_arena_reset(&arena);
    grant.id = revoke.id = 200;
    for (grant.ttl = 0; grant.ttl < 4; grant.ttl++) {
        assert_true(check(RT_ETCD_LEASE_GRANT, &grant));
        assert_true(check(RT_ETCD_LEASE_REVOKE, &revoke));
    }
    assert_false(check(RT_ETCD_LEASE_REVOKE, &revoke));
    grant.ttl = INT64_C(9000000001);
    assert_false(check(RT_ETCD_LEASE_GRANT, &grant));
    assert_false(check(RT_ETCD_RANGE, &range)); /* without a key */
    assert_false(check(RT_ETCD_PUT, &put));
    range.key = text("k/");
    range.range_end = text("k0");
    range.revision = model.revision;
    rt_etcds_compact(&server);
    es_store_compact(&model, model.revision);
    assert_true(check(RT_ETCD_RANGE, &range));
    range.revision--;
    assert_false(check(RT_ETCD_RANGE, &range));
}

static int start(void **state)
{
    char url[64];
    rt_etcds_start(&server, 1, NULL);
    arena = RT_ETCD_ARENA;
    es_store_open(&model);
    chance.state = 5;
    (void)bare_setup(state);
    snprintf(url, sizeof(url), "etcd://127.0.0.1:%u", (unsigned)server.node[0].server.port);
    assert_int_equal(bare_open(&real, url, NULL, 30000, 0), 0);
    assert_int_equal(rt_etcd_watch(real.conn, &watched, "k/", 2, "k0", 2, 0, &watch_user), 0);
    bare_until(&created, 1);
    return 0;
}

static int stop(void **state)
{
    bare_close(&real);
    (void)bare_teardown(state);
    rt_etcds_fini(&server);
    es_store_close(&model);
    rt_arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
