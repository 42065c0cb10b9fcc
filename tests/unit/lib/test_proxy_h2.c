/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy between Rota and a real etcd: it counts calls and messages, and faults on them leave
 * the rest of the connection whole. */
#include "lib/etcd_server.h"
#include "lib/players.h"
#include "lib/proxy.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOON_MS 15000
#define TXN "/etcdserverpb.KV/Txn"
#define ACQUIRE TXN " put"
#define RELEASE TXN " delete"
#define KEEP_ALIVE "/etcdserverpb.Lease/LeaseKeepAlive"

struct bench {
    struct rt_etcds etcd;
    struct rt_proxy *proxy;
    struct rota *rota;
};

static int bench_open(void **state)
{
    static struct bench b;

    rt_etcds_start(&b.etcd, 1, NULL);
    *state = &b;
    return 0;
}

static int bench_close(void **state)
{
    struct bench *b = *state;

    rt_etcds_fini(&b->etcd);
    return 0;
}

static bool is_settled(void *arg, const struct rt_proxy_counts *counts)
{
    return counts->replies >= *(uint64_t *)arg && counts->replies >= counts->requests;
}

/* Returns once everything has been answered, and at least that many. */
static void settle(struct bench *b, uint64_t replies)
{
    assert_true(rt_proxy_await(b->proxy, is_settled, &replies, SOON_MS));
}

/* A client that has its session, and has looked at it once its watch was there. */
static int open_with(struct bench *b, uint32_t ttl_ms)
{
    struct rt_proxy_options opts = {.framing = &rt_proxy_h2, .port = b->etcd.node[0].server.port};
    struct rota_options options = {.ttl_ms = ttl_ms, .call_ms = SOON_MS};
    struct rt_fault look = {.on = RT_FAULT_REQUEST, .match = "LeaseTimeToLive"};
    struct rota_lock *lock = NULL;
    char *url;

    b->proxy = rt_proxy_start(&opts);
    if (getenv("ROTA_PROXY_TRACE") != NULL)
        rt_proxy_trace(b->proxy, rt_proxy_show, NULL);
    url = rt_etcds_url(&b->etcd, (uint16_t[]){rt_proxy_port(b->proxy)});
    assert_int_equal(rota_open(&b->rota, url, &options), 0);
    rt_proxy_fault(b->proxy, &look);
    assert_int_equal(rota_acquire(b->rota, "first", NULL, &lock), 0);
    assert_true(rt_proxy_await_hits(b->proxy, 1, 1, SOON_MS));
    settle(b, 1);
    assert_int_equal(rota_release(lock), 0);
    free(url);
    return 0;
}

static int case_open(void **state)
{
    return open_with(*state, 60000); /* no heartbeat comes between */
}

static int quick_open(void **state)
{
    return open_with(*state, 6000);
}

static int case_close(void **state)
{
    struct bench *b = *state;

    rota_close(b->rota);
    rt_proxy_stop(b->proxy);
    return 0;
}

static uint32_t fault(struct bench *b, enum rt_fault_on on, enum rt_fault_do what,
                      const char *match)
{
    struct rt_fault f = {.on = on, .what = what, .match = match};

    return rt_proxy_fault(b->proxy, &f);
}

static struct rt_proxy_counts counts_of(struct bench *b)
{
    struct rt_proxy_counts counts;

    rt_proxy_counts(b->proxy, &counts);
    return counts;
}

static void pair(struct bench *b)
{
    struct rota_lock *lock = NULL;

    assert_int_equal(rota_acquire(b->rota, "stock", NULL, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
}

static void calls_are_counted_by_what_they_do(void **state)
{
    struct bench *b = *state;
    struct rt_fault look = {
        .on = RT_FAULT_REQUEST, .what = RT_FAULT_LOOK, .times = RT_FAULT_ALWAYS, .match = ACQUIRE};
    uint32_t acquires = rt_proxy_fault(b->proxy, &look), releases;
    struct rt_proxy_counts before, after;

    look.match = RELEASE;
    releases = rt_proxy_fault(b->proxy, &look);
    before = counts_of(b);
    pair(b);
    pair(b);
    after = counts_of(b);
    assert_int_equal(after.requests - before.requests, 4);
    assert_int_equal(after.replies - before.replies, 4);
    assert_int_equal(after.flights - before.flights, 4);
    assert_int_equal(after.pushes, before.pushes);
    assert_int_equal(rt_proxy_fault_hits(b->proxy, acquires), 2);
    assert_int_equal(rt_proxy_fault_hits(b->proxy, releases), 2);
}

/* Whatever happened on it, the connection goes on. */
static void assert_same_connection(struct bench *b)
{
    pair(b);
    assert_int_equal(counts_of(b).connections, 1);
}

static void many_pieces_are_put_together_again(void **state)
{
    struct bench *b = *state;

    rt_proxy_split(b->proxy, RT_PROXY_BOTH, 7);
    pair(b);
    rt_proxy_split(b->proxy, RT_PROXY_BOTH, 0);
    assert_same_connection(b);
}

static void a_request_comes_twice_and_is_answered_once(void **state)
{
    struct bench *b = *state;
    uint32_t f = fault(b, RT_FAULT_REQUEST, RT_FAULT_DOUBLE, RELEASE);
    struct rt_proxy_counts before = counts_of(b);

    pair(b);
    assert_int_equal(rt_proxy_fault_hits(b->proxy, f), 1);
    assert_same_connection(b); /* streams that are opened after the twin have other numbers */
    settle(b, before.replies + 5);
    assert_int_equal(counts_of(b).requests - before.requests, 4);
}

/* The client sees that it is illegal, and asks again on another connection. */
static void an_answer_that_comes_twice_is_none(void **state)
{
    struct bench *b = *state;
    uint32_t f = fault(b, RT_FAULT_REPLY, RT_FAULT_DOUBLE, ACQUIRE);

    pair(b);
    assert_int_equal(rt_proxy_fault_hits(b->proxy, f), 1);
    assert_int_equal(counts_of(b).connections, 2);
}

/* What waits for it waits; all else on the connection goes on. Asked again on another, it is answered. */
static void lost(struct bench *b, enum rt_fault_on on)
{
    uint32_t f = fault(b, on, RT_FAULT_DROP, ACQUIRE);
    static struct player_wish wish;

    player_wish(b->rota, "lost", ROTA_EXCLUSIVE, &wish);
    assert_true(rt_proxy_await_hits(b->proxy, f, 1, SOON_MS));
    assert_same_connection(b);
    assert_false(player_granted(&wish));
    rt_proxy_end(b->proxy, RT_PROXY_CUT, 0);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
}

static void a_reply_is_lost(void **state)
{
    lost(*state, RT_FAULT_REPLY);
}

static void a_request_is_lost(void **state)
{
    lost(*state, RT_FAULT_REQUEST);
}

static void a_reply_is_late(void **state)
{
    struct bench *b = *state;
    struct rt_fault late = {.what = RT_FAULT_DELAY, .match = ACQUIRE, .delay_us = 50000};

    rt_proxy_fault(b->proxy, &late);
    pair(b);
    assert_same_connection(b);
}

static void the_connection_ends_instead_of_a_reply(void **state)
{
    struct bench *b = *state;
    uint32_t f = fault(b, RT_FAULT_REPLY, RT_FAULT_CUT, ACQUIRE);

    pair(b);
    assert_int_equal(rt_proxy_fault_hits(b->proxy, f), 1);
    assert_int_equal(counts_of(b).connections, 2);
}

/* Faults on both streams that last; a window that is not given back would close in between. */
static void messages_of_a_stream_are_lost_and_doubled(void **state)
{
    struct bench *b = *state;
    struct rt_fault lost = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DROP, .match = KEEP_ALIVE};
    struct rt_fault twice = {
        .on = RT_FAULT_REQUEST, .what = RT_FAULT_DOUBLE, .match = KEEP_ALIVE, .nth = 3};
    uint32_t f = rt_proxy_fault(b->proxy, &twice);

    rt_proxy_fault(b->proxy, &lost);
    assert_true(rt_proxy_await_hits(b->proxy, f, 1, SOON_MS));
    pair(b);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, case_open, case_close)
#define QUICK(name) cmocka_unit_test_setup_teardown(name, quick_open, case_close)
    const struct CMUnitTest tests[] = {
        CASE(calls_are_counted_by_what_they_do),
        CASE(many_pieces_are_put_together_again),
        CASE(a_request_comes_twice_and_is_answered_once),
        CASE(an_answer_that_comes_twice_is_none),
        CASE(a_reply_is_lost),
        CASE(a_request_is_lost),
        CASE(a_reply_is_late),
        CASE(the_connection_ends_instead_of_a_reply),
        QUICK(messages_of_a_stream_are_lost_and_doubled),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
