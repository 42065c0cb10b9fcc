/* SPDX-License-Identifier: Apache-2.0 */
/* The codec and a real etcd: transactions, leases, watches, many calls at once, ends.
 *
 *   test_etcd_live bench [SECONDS]    calls per second instead, with 1 and 64 in flight */
#include "live.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#define KV "/etcdserverpb.KV/"
#define LEASE "/etcdserverpb.Lease/Lease"
#define WATCH "/etcdserverpb.Watch/Watch"

static struct live l;

static int setup(void **state)
{
    (void)state;
    live_open(&l, live_server.port);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    live_close(&l);
    return 0;
}

static void is(ProtobufCBinaryData got, const char *wanted)
{
    assert_int_equal(got.len, strlen(wanted));
    assert_memory_equal(got.data, wanted, got.len);
}

/* ---- Plain calls ----------------------------------------------------------------------------- */

static RtEtcd__PutResponse *put(struct answer *a, const char *key, const char *value, int64_t lease)
{
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    rq.key = live_text(key);
    rq.value = live_text(value);
    rq.lease = lease;
    return answer_of(a, &l, KV "Put", &rq, &rt_etcd__put_response__descriptor);
}

static RtEtcd__RangeResponse *range(struct answer *a, const char *key, const char *end)
{
    RtEtcd__RangeRequest rq = RT_ETCD__RANGE_REQUEST__INIT;
    rq.key = live_text(key);
    rq.range_end = live_text(end);
    rq.order = RT_ETCD__ORDER__ORDER_ASCEND;
    rq.by = RT_ETCD__BY__BY_CREATE;
    return answer_of(a, &l, KV "Range", &rq, &rt_etcd__range_response__descriptor);
}

static void put_and_range(void **state)
{
    (void)state;
    struct answer a;
    assert_non_null(put(&a, "pr/b", "first", 0));
    assert_int_equal(a.verdict.fate, RT_GRPC_DONE);
    assert_non_null(put(&a, "pr/a", "second", 0));
    RtEtcd__RangeResponse *r = range(&a, "pr/", "pr0");
    assert_non_null(r);
    assert_int_equal(r->n_kvs, 2);
    is(r->kvs[0]->key, "pr/b");
    is(r->kvs[1]->value, "second");
    assert_true(r->kvs[0]->create_revision < r->kvs[1]->create_revision);
    RtEtcd__DeleteRangeRequest rq = RT_ETCD__DELETE_RANGE_REQUEST__INIT;
    rq.key = live_text("pr/");
    rq.range_end = live_text("pr0");
    rq.prev_kv = true;
    RtEtcd__DeleteRangeResponse *d = answer_of(&a, &l, KV "DeleteRange", &rq,
                                               &rt_etcd__delete_range_response__descriptor);
    assert_int_equal(d->deleted, 2);
    assert_int_equal(d->n_prev_kvs, 2);
}

/* Put if absent, else range: twice. */
static RtEtcd__TxnResponse *join(struct answer *a, const char *key)
{
    RtEtcd__Compare absent = RT_ETCD__COMPARE__INIT;
    absent.target = RT_ETCD__COMPARE__TARGET__CREATE;
    absent.key = live_text(key);
    absent.with_case = RT_ETCD__COMPARE__WITH_CREATE_REVISION;
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    rq.key = live_text(key);
    RtEtcd__RangeRequest look = RT_ETCD__RANGE_REQUEST__INIT;
    look.key = live_text(key);
    RtEtcd__RequestOp does = RT_ETCD__REQUEST_OP__INIT, looks = RT_ETCD__REQUEST_OP__INIT;
    does.request_case = RT_ETCD__REQUEST_OP__REQUEST_PUT;
    does.put = &rq;
    looks.request_case = RT_ETCD__REQUEST_OP__REQUEST_RANGE;
    looks.range = &look;
    RtEtcd__Compare *compare[] = {&absent};
    RtEtcd__RequestOp *success[] = {&does, &looks}, *failure[] = {&looks};
    RtEtcd__TxnRequest txn = RT_ETCD__TXN_REQUEST__INIT;
    txn.n_compare = 1;
    txn.compare = compare;
    txn.n_success = 2;
    txn.success = success;
    txn.n_failure = 1;
    txn.failure = failure;
    return answer_of(a, &l, KV "Txn", &txn, &rt_etcd__txn_response__descriptor);
}

static void transactions(void **state)
{
    (void)state;
    struct answer a;
    RtEtcd__TxnResponse *r = join(&a, "txn");
    assert_true(r->succeeded);
    assert_int_equal(r->n_responses, 2);
    assert_int_equal(r->responses[0]->response_case, RT_ETCD__RESPONSE_OP__RESPONSE_PUT);
    int64_t made = r->responses[1]->range->kvs[0]->create_revision;
    assert_int_equal(made, r->header->revision);
    r = join(&a, "txn");
    assert_false(r->succeeded);
    assert_int_equal(r->n_responses, 1);
    assert_int_equal(r->responses[0]->range->kvs[0]->create_revision, made);
}

static void refusals(void **state)
{
    (void)state;
    struct answer a;
    assert_null(put(&a, "x", "y", 4711)); /* no such lease */
    assert_int_equal(a.status, RT_GRPC_NOT_FOUND);
    assert_int_equal(a.verdict.reason, RT_ETCD_NO_LEASE);
    assert_int_equal(a.verdict.fate, RT_GRPC_NOT_DONE);
    assert_null(put(&a, "", "y", 0));
    assert_int_equal(a.status, RT_GRPC_INVALID_ARGUMENT);
    assert_string_equal(a.text, "etcdserver: key is not provided");
    RtEtcd__AuthenticateRequest auth = RT_ETCD__AUTHENTICATE_REQUEST__INIT;
    auth.name = live_text("root");
    auth.password = live_text("x");
    assert_null(answer_of(&a, &l, "/etcdserverpb.Auth/Authenticate", &auth,
                          &rt_etcd__authenticate_response__descriptor));
    assert_int_equal(a.verdict.reason, RT_ETCD_AUTH_OFF);
    assert_null(answer_of(&a, &l, "/etcdserverpb.KV/Nothing", &auth,
                          &rt_etcd__authenticate_response__descriptor));
    assert_int_equal(a.status, RT_GRPC_UNIMPLEMENTED);
    assert_int_equal(a.verdict.err, ROTA_UNSUPPORTED);
    char *large = calloc(1, 2 << 20);
    memset(large, 'v', (2 << 20) - 1);
    assert_null(put(&a, "x", large, 0)); /* more than etcd takes */
    assert_int_equal(a.verdict.fate, RT_GRPC_NOT_DONE);
    free(large);
}

static void the_servers(void **state)
{
    (void)state;
    struct answer a;
    RtEtcd__StatusRequest srq = RT_ETCD__STATUS_REQUEST__INIT;
    RtEtcd__StatusResponse *s = answer_of(&a, &l, "/etcdserverpb.Maintenance/Status", &srq,
                                          &rt_etcd__status_response__descriptor);
    assert_non_null(s);
    assert_true(s->version.len >= 5 && s->version.data[0] == '3');
    assert_true(s->leader == s->header->member_id);
    RtEtcd__MemberListRequest mrq = RT_ETCD__MEMBER_LIST_REQUEST__INIT;
    RtEtcd__MemberListResponse *m = answer_of(&a, &l, "/etcdserverpb.Cluster/MemberList", &mrq,
                                              &rt_etcd__member_list_response__descriptor);
    assert_int_equal(m->n_members, 1);
    is(m->members[0]->name, "n1");
    assert_int_equal(m->members[0]->n_client_urls, 1);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void leases(void **state)
{
    (void)state;
    struct answer a, k = {0};
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    grant.ttl = 30;
    RtEtcd__LeaseGrantResponse *g = answer_of(&a, &l, LEASE "Grant", &grant,
                                              &rt_etcd__lease_grant_response__descriptor);
    assert_int_equal(g->ttl, 30);
    int64_t id = g->id;
    assert_non_null(put(&a, "leased", "v", id));
    RtEtcd__LeaseKeepAliveRequest beat = RT_ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    beat.id = id;
    assert_int_equal(answer_stream(&k, &l, LEASE "KeepAlive", NULL,
                                   &rt_etcd__lease_keep_alive_response__descriptor),
                     0);
    for (int i = 1; i <= 3; i++) {
        answer_send(&k, &beat);
        live_until(&k.messages, i);
        RtEtcd__LeaseKeepAliveResponse *r = k.message;
        assert_int_equal(r->id, id);
        assert_int_equal(r->ttl, 30);
    }
    RtEtcd__LeaseTimeToLiveRequest look = RT_ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    look.id = id;
    look.keys = true;
    RtEtcd__LeaseTimeToLiveResponse *left = answer_of(
        &a, &l, LEASE "TimeToLive", &look, &rt_etcd__lease_time_to_live_response__descriptor);
    assert_int_equal(left->granted_ttl, 30);
    assert_int_equal(left->n_keys, 1);
    is(left->keys[0], "leased");
    RtEtcd__LeaseRevokeRequest revoke = RT_ETCD__LEASE_REVOKE_REQUEST__INIT;
    revoke.id = id;
    assert_non_null(
        answer_of(&a, &l, LEASE "Revoke", &revoke, &rt_etcd__lease_revoke_response__descriptor));
    answer_send(&k, &beat);
    live_until(&k.messages, 4); /* a lease that is gone has a ttl of 0 */
    assert_int_equal(((RtEtcd__LeaseKeepAliveResponse *)k.message)->ttl, 0);
    assert_int_equal(range(&a, "leased", "")->n_kvs, 0);
    rt_grpc_cancel(k.call);
    assert_non_null(put(&a, "after", "v", 0));
    assert_int_equal(k.ends, 0);
}

/* ---- Watches --------------------------------------------------------------------------------- */

static void watches(void **state)
{
    (void)state;
    struct answer a, w = {0};
    RtEtcd__WatchCreate create = RT_ETCD__WATCH_CREATE__INIT;
    create.key = live_text("w/1");
    create.prev_kv = true;
    RtEtcd__WatchRequest rq = RT_ETCD__WATCH_REQUEST__INIT;
    rq.request_case = RT_ETCD__WATCH_REQUEST__REQUEST_CREATE;
    rq.create = &create;
    assert_int_equal(answer_stream(&w, &l, WATCH, &rq, &rt_etcd__watch_response__descriptor), 0);
    live_until(&w.messages, 1);
    RtEtcd__WatchResponse *r = w.message;
    assert_true(r->created);
    int64_t first = r->watch_id;
    create.key = live_text("w/2");
    answer_send(&w, &rq); /* a second one on the same stream */
    live_until(&w.messages, 2);
    r = w.message;
    assert_true(r->created && r->watch_id != first);
    assert_non_null(put(&a, "w/1", "new", 0));
    live_until(&w.messages, 3);
    r = w.message;
    assert_int_equal(r->watch_id, first);
    assert_int_equal(r->n_events, 1);
    assert_int_equal(r->events[0]->type, RT_ETCD__EVENT__TYPE__PUT);
    is(r->events[0]->kv->value, "new");
    RtEtcd__DeleteRangeRequest gone = RT_ETCD__DELETE_RANGE_REQUEST__INIT;
    gone.key = live_text("w/1");
    assert_non_null(
        answer_of(&a, &l, KV "DeleteRange", &gone, &rt_etcd__delete_range_response__descriptor));
    live_until(&w.messages, 4);
    r = w.message;
    assert_int_equal(r->events[0]->type, RT_ETCD__EVENT__TYPE__DELETE);
    is(r->events[0]->prev_kv->value, "new");
    RtEtcd__WatchCancel cancel = RT_ETCD__WATCH_CANCEL__INIT;
    cancel.watch_id = first;
    rq.request_case = RT_ETCD__WATCH_REQUEST__REQUEST_CANCEL;
    rq.cancel = &cancel;
    answer_send(&w, &rq);
    live_until(&w.messages, 5);
    r = w.message;
    assert_true(r->canceled && r->watch_id == first);
    rt_grpc_cancel(w.call);
    assert_non_null(put(&a, "w/2", "unseen", 0));
    assert_int_equal(w.messages, 5);
    assert_int_equal(w.ends, 0);
}

/* ---- Many, and ends -------------------------------------------------------------------------- */

static void many_at_once(void **state)
{
    (void)state;
    enum { CALLS = 64 };
    static struct answer many[CALLS];
    char keys[CALLS][16];
    struct answer a;
    rt_arena_reset(&live_arena);
    for (int i = 0; i < CALLS; i++) {
        RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
        snprintf(keys[i], sizeof(keys[i]), "many/%d", i);
        rq.key = live_text(keys[i]);
        many[i] = (struct answer){0};
        assert_int_equal(
            answer_begin(&many[i], &l, KV "Put", &rq, &rt_etcd__put_response__descriptor), 0);
    }
    for (int i = 0; i < CALLS; i++) {
        live_until(&many[i].ends, 1);
        assert_int_equal(many[i].status, RT_GRPC_OK);
    }
    assert_int_equal(range(&a, "many/", "many0")->n_kvs, CALLS);
}

/* The last one. */
static void the_server_dies(void **state)
{
    (void)state;
    struct answer w = {0}, a = {0};
    assert_non_null(put(&a, "x", "y", 0));
    assert_int_equal(answer_stream(&w, &l, WATCH, NULL, &rt_etcd__watch_response__descriptor), 0);
    rt_server_stop(&live_server);
    a = (struct answer){0};
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    rq.key = live_text("z");
    assert_int_equal(answer_begin(&a, &l, KV "Put", &rq, &rt_etcd__put_response__descriptor), 0);
    rt_loop_arm(&live_loop);
    rt_server_kill(&live_server);
    live_until(&l.downs, 1);
    assert_int_equal(a.ends, 1);
    assert_int_equal(a.verdict.fate, RT_GRPC_MAYBE);
    assert_int_equal(a.verdict.err, ROTA_UNREACHABLE);
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.verdict.fate, RT_GRPC_NOT_DONE); /* nothing was asked on it */
}

/* ---- Figures --------------------------------------------------------------------------------- */

static long begun, ended;
static bool stopping;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void begin_pair_half(struct answer *a);

static void half_ended(struct answer *a)
{
    assert_int_equal(a->status, RT_GRPC_OK);
    ended++;
    if (!stopping)
        begin_pair_half(a);
}

/* In turn a transaction that puts, and a delete. */
static void begin_pair_half(struct answer *a)
{
    char key[32];
    long *turn = a->arg;
    struct answer fresh = {.arg = a->arg, .on_end = half_ended};
    *a = fresh;
    rt_arena_reset(&live_arena);
    snprintf(key, sizeof(key), "bench/%ld", turn[0]);
    begun++;
    if (turn[1]++ % 2 == 1) {
        RtEtcd__DeleteRangeRequest rq = RT_ETCD__DELETE_RANGE_REQUEST__INIT;
        rq.key = live_text(key);
        assert_int_equal(
            answer_begin(a, &l, KV "DeleteRange", &rq, &rt_etcd__delete_range_response__descriptor),
            0);
        return;
    }
    RtEtcd__Compare absent = RT_ETCD__COMPARE__INIT;
    absent.target = RT_ETCD__COMPARE__TARGET__CREATE;
    absent.key = live_text(key);
    absent.with_case = RT_ETCD__COMPARE__WITH_CREATE_REVISION;
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    rq.key = live_text(key);
    rq.value = live_text("value");
    RtEtcd__RequestOp does = RT_ETCD__REQUEST_OP__INIT;
    does.request_case = RT_ETCD__REQUEST_OP__REQUEST_PUT;
    does.put = &rq;
    RtEtcd__Compare *compare[] = {&absent};
    RtEtcd__RequestOp *success[] = {&does};
    RtEtcd__TxnRequest txn = RT_ETCD__TXN_REQUEST__INIT;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compare;
    txn.success = success;
    assert_int_equal(answer_begin(a, &l, KV "Txn", &txn, &rt_etcd__txn_response__descriptor), 0);
}

static void measure(int flying, double limit)
{
    static struct answer pairs[64];
    static long turns[64][2];
    double at, start;
    live_open(&l, live_server.port);
    begun = ended = 0;
    stopping = false;
    for (int i = 0; i < flying; i++) {
        turns[i][0] = i;
        turns[i][1] = 0;
        pairs[i].arg = turns[i];
        begin_pair_half(&pairs[i]);
    }
    while (ended < 200)
        live_turn();
    long before = ended;
    uint64_t allocations = live_allocations, sent = l.sent, received = l.received;
    double cpu = cpu_seconds();
    start = at = seconds();
    while (at - start < limit) {
        live_turn();
        at = seconds();
    }
    cpu = cpu_seconds() - cpu;
    double calls = (double)(ended - before);
    printf(
        "%2d in flight: %.0f calls/s (%.0f pairs/s, %.0f us a pair); a call: %.1f us of our CPU, "
        "%.2f allocations, %.0f bytes out, %.0f in\n",
        flying, calls / (at - start), calls / 2 / (at - start), (at - start) * 2e6 * flying / calls,
        cpu * 1e6 / calls, (double)(live_allocations - allocations) / calls,
        (double)(l.sent - sent) / calls, (double)(l.received - received) / calls);
    stopping = true;
    while (ended < begun)
        live_turn();
    live_close(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(put_and_range), CASE(transactions), CASE(refusals),     CASE(the_servers),
        CASE(leases),        CASE(watches),      CASE(many_at_once), CASE(the_server_dies),
    };
    live_start();
    int rv = 0;
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        double limit = argc > 2 ? strtod(argv[2], NULL) : 3;
        measure(1, limit);
        measure(64, limit);
    } else {
        rv = cmocka_run_group_tests(tests, NULL, NULL);
    }
    live_stop();
    return rv;
}
