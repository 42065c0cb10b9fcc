/* SPDX-License-Identifier: Apache-2.0 */
/* What lock calls cost on the wire of etcd, counted by the proxy: flights, notifications, heartbeats. */
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

#define QUIET_TTL_MS 3600000 /* no heartbeat comes between */
#define LIMIT_MS 60000

/* Calls, as the proxy words them; a Txn by what it does when its condition holds. */
#define ACQUIRE "/etcdserverpb.KV/Txn put"
#define RELEASE "/etcdserverpb.KV/Txn delete"
#define LOOK "/etcdserverpb.KV/Txn range"
#define KEEP_ALIVE "/etcdserverpb.Lease/LeaseKeepAlive"
#define KEYS_OF_LEASE "/etcdserverpb.Lease/LeaseTimeToLive"

struct peer { /* a client behind a proxy of its own */
    struct rt_proxy *proxy;
    struct rota *rota;
};

/* ---- Counting ---------------------------------------------------------------- */

static struct rt_proxy_counts count_of(struct rt_proxy *p)
{
    struct rt_proxy_counts c;

    rt_proxy_counts(p, &c);
    return c;
}

/* Counts requests with these words from now on. */
static uint32_t look_for(struct rt_proxy *p, const char *words)
{
    struct rt_fault look = {
        .on = RT_FAULT_REQUEST, .what = RT_FAULT_LOOK, .match = words, .times = RT_FAULT_ALWAYS};

    return rt_proxy_fault(p, &look);
}

static bool all_answered(void *arg, const struct rt_proxy_counts *counts)
{
    return counts->replies >= *(uint64_t *)arg && counts->replies >= counts->requests;
}

/* Returns once every request has been answered, and at least that many replies have come. */
static void settle(struct rt_proxy *p, uint64_t replies)
{
    assert_true(rt_proxy_await(p, all_answered, &replies, LIMIT_MS));
}

static void assert_cost(struct rt_proxy *p, struct rt_proxy_counts before, uint64_t requests,
                        uint64_t flights, uint64_t pushes)
{
    struct rt_proxy_counts now = count_of(p);

    assert_int_equal(now.requests - before.requests, requests);
    assert_int_equal(now.flights - before.flights, flights);
    assert_int_equal(now.pushes - before.pushes, pushes);
}

/* ---- Clients ----------------------------------------------------------------- */

static struct rt_proxy *proxy_to(const struct rt_etcds *etcd)
{
    struct rt_proxy_options opts = {.framing = &rt_proxy_h2, .port = etcd->node[0].server.port};
    struct rt_proxy *proxy = rt_proxy_start(&opts);

    if (getenv("ROTA_PROXY_TRACE") != NULL)
        rt_proxy_trace(proxy, rt_proxy_show, NULL);
    return proxy;
}

/* A client with a session, which it has looked at once its watch was there. */
static struct rota *open_through(const struct rt_etcds *etcd, struct rt_proxy *proxy,
                                 const struct rota_options *options)
{
    char *url = rt_etcds_url(etcd, (uint16_t[]){rt_proxy_port(proxy)});
    uint32_t looks = look_for(proxy, KEYS_OF_LEASE);
    struct rota_lock *lock = NULL;
    struct rota *r = NULL;

    assert_int_equal(rota_open(&r, url, options), 0);
    assert_int_equal(rota_acquire(r, "first", NULL, &lock), 0);
    assert_true(rt_proxy_await_hits(proxy, looks, 1, LIMIT_MS));
    settle(proxy, 1);
    assert_int_equal(rota_release(lock), 0);
    rt_proxy_fault_end(proxy, looks);
    free(url);
    return r;
}

static void peer_open(struct peer *p, const struct rt_etcds *etcd, uint32_t ttl_ms)
{
    struct rota_options options = {.ttl_ms = ttl_ms, .call_ms = LIMIT_MS};

    p->proxy = proxy_to(etcd);
    p->rota = open_through(etcd, p->proxy, &options);
}

static void peer_close(struct peer *p)
{
    rota_close(p->rota);
    rt_proxy_stop(p->proxy);
}

/* ---- Pairs ------------------------------------------------------------------- */

static void a_pair_is_two_flights(void **state)
{
    struct rota_lock *lock = NULL;
    struct rt_proxy_counts before;
    struct peer p;

    peer_open(&p, *state, QUIET_TTL_MS);
    for (int i = 0; i < 100; i++) {
        before = count_of(p.proxy);
        assert_int_equal(rota_acquire(p.rota, "pair", NULL, &lock), 0);
        assert_cost(p.proxy, before, 1, 1, 0);
        before = count_of(p.proxy);
        assert_int_equal(rota_release(lock), 0);
        assert_cost(p.proxy, before, 1, 1, 0);
    }
    peer_close(&p);
}

static void a_failed_try_is_one_flight(void **state)
{
    struct rota_ask ask = {.flags = ROTA_TRY};
    struct rota_lock *lock = NULL, *other = NULL;
    struct rt_proxy_counts before, idle;
    struct peer p, q;

    peer_open(&p, *state, QUIET_TTL_MS);
    peer_open(&q, *state, QUIET_TTL_MS);
    assert_int_equal(rota_acquire(p.rota, "tried", NULL, &lock), 0);
    idle = count_of(p.proxy);
    before = count_of(q.proxy);
    for (int i = 0; i < 10; i++)
        assert_int_equal(rota_acquire(q.rota, "tried", &ask, &other), ROTA_BUSY);
    assert_cost(q.proxy, before, 10, 10, 0);
    assert_cost(p.proxy, idle, 0, 0, 0);
    assert_int_equal(rota_release(lock), 0);
    peer_close(&p);
    peer_close(&q);
}

/* ---- Waiting ----------------------------------------------------------------- */

/* Asks for what somebody else holds; returns when it stands in line, watches the one ahead, and has
 * looked once more: three flights; with more than one ahead a fourth, to find which to watch. */
static void stand_in_line(struct peer *q, struct player_wish *wish, uint64_t flights)
{
    struct rt_proxy_counts before = count_of(q->proxy);

    player_wish(q->rota, "stock", ROTA_EXCLUSIVE, wish);
    settle(q->proxy, before.replies + flights);
    assert_cost(q->proxy, before, flights, flights, 0);
}

/* One notification and one flight for the next in line: it looks, and in the same flight ends the
 * watch of the key that is gone. Nothing for the one behind it. */
static void a_hand_over_is_one_notification_and_one_flight(void **state)
{
    struct rt_proxy_counts before_p, before_q, before_r;
    static struct player_wish second, third;
    struct rota_lock *lock = NULL;
    struct peer p, q, r;

    peer_open(&p, *state, QUIET_TTL_MS);
    peer_open(&q, *state, QUIET_TTL_MS);
    peer_open(&r, *state, QUIET_TTL_MS);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(rota_acquire(p.rota, "stock", NULL, &lock), 0);
        stand_in_line(&q, &second, 3);
        stand_in_line(&r, &third, 4);
        before_p = count_of(p.proxy);
        before_q = count_of(q.proxy);
        before_r = count_of(r.proxy);
        assert_int_equal(rota_release(lock), 0);
        lock = player_wished(&second, 0);
        settle(q.proxy, before_q.replies + 2);
        assert_cost(p.proxy, before_p, 1, 1, 0);
        assert_cost(q.proxy, before_q, 2, 1, 1);
        assert_cost(r.proxy, before_r, 0, 0, 0);
        assert_int_equal(rota_release(lock), 0);
        assert_int_equal(rota_release(player_wished(&third, 0)), 0);
        settle(r.proxy, before_r.replies + 3);
    }
    peer_close(&p);
    peer_close(&q);
    peer_close(&r);
}

/* ---- A long line ------------------------------------------------------------- */

#define CLIENTS 4
#define ASKS 250 /* of each: every ask has a ticket of its own where nothing is passed on */

static struct player_wish wishes[CLIENTS * ASKS];

static void stand_in_long_line(struct rota *const *clients, struct rt_proxy *proxy)
{
    struct rt_proxy_counts before = count_of(proxy);
    uint64_t requests = 4 * CLIENTS * ASKS - 1; /* the first has only the holder ahead */

    for (size_t i = 0; i < CLIENTS * ASKS; i++)
        player_wish(clients[i % CLIENTS], "long line", ROTA_EXCLUSIVE, &wishes[i]);
    settle(proxy, before.replies + requests);
    assert_int_equal(count_of(proxy).requests - before.requests, requests);
    assert_int_equal(count_of(proxy).pushes, before.pushes);
}

/* The ticket that holds now, and has not been released. */
static struct player_wish *holder(void)
{
    struct player_wish *found = NULL;

    for (size_t i = 0; i < CLIENTS * ASKS; i++) {
        if (player_granted(&wishes[i]) && wishes[i].lock != NULL) {
            assert_null(found);
            found = &wishes[i];
        }
    }
    return found;
}

/* A thousand tickets of four clients behind one. Each release is told to one of them; if a release told
 * too many, the next one would show it. */
static void a_release_wakes_one_of_a_thousand(void **state)
{
    struct rota_options options = {.ttl_ms = QUIET_TTL_MS,
                                   .call_ms = LIMIT_MS,
                                   .pass_limit = ROTA_NEVER,
                                   .pass_ms = ROTA_NEVER};
    struct rt_proxy *proxy = proxy_to(*state);
    struct rt_proxy_counts before;
    struct rota *clients[CLIENTS];
    struct rota_lock *lock = NULL;
    struct peer p;

    peer_open(&p, *state, QUIET_TTL_MS);
    assert_int_equal(rota_acquire(p.rota, "long line", NULL, &lock), 0);
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i] = open_through(*state, proxy, &options);
    stand_in_long_line(clients, proxy);
    before = count_of(proxy);
    assert_int_equal(rota_release(lock), 0);
    for (uint64_t told = 1; told <= 5; told++) {
        UNTIL(holder() != NULL);
        settle(proxy, before.replies + 3 * told - 1); /* all but the first release go by here */
        assert_int_equal(count_of(proxy).requests - before.requests, 3 * told - 1);
        assert_int_equal(count_of(proxy).pushes - before.pushes, told);
        lock = atomic_exchange(&holder()->lock, NULL);
        assert_int_equal(rota_release(lock), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        rota_close(clients[i]);
    peer_close(&p);
    rt_proxy_stop(proxy);
}

/* ---- Heartbeats -------------------------------------------------------------- */

static void hold_many(struct rota *r, size_t n)
{
    static struct player_wish all[1000];
    char name[64];

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%zu of %zu", i, n);
        player_wish(r, name, ROTA_EXCLUSIVE, &all[i]);
    }
    for (size_t i = 0; i < n; i++)
        (void)player_wished(&all[i], 0);
}

struct beating {
    struct peer peer;
    size_t held;
    uint32_t lasts; /* counts what a heartbeat ends with */
    struct rt_proxy_counts before;
};

/* With more tickets, their keys are looked at less often: 256 for each heartbeat. */
static bool looks_each_time(const struct beating *b)
{
    return b->held > 0 && b->held <= 256;
}

static void await_beats(struct beating *b, uint64_t n, uint64_t replies)
{
    assert_true(rt_proxy_await_hits(b->peer.proxy, b->lasts, n, LIMIT_MS));
    settle(b->peer.proxy, replies);
}

/* One keep-alive, and after it in the same flight one look at the keys of the lease. */
static void first_beat(struct beating *b)
{
    b->lasts = look_for(b->peer.proxy, looks_each_time(b) ? KEYS_OF_LEASE : KEEP_ALIVE);
    await_beats(b, 1, 1);
    b->before = count_of(b->peer.proxy);
}

static void two_beats(struct beating *b)
{
    uint64_t requests = looks_each_time(b) ? 4 : 2;
    struct rt_proxy_counts now;

    await_beats(b, 3, b->before.replies + requests);
    if (b->held > 256 && count_of(b->peer.proxy).requests - b->before.requests == 3)
        requests = 3; /* one look in four heartbeats */
    assert_cost(b->peer.proxy, b->before, requests, 2, 0);
    now = count_of(b->peer.proxy);
    print_message("%zu held: %llu bytes up, %llu down in two heartbeats\n", b->held,
                  (unsigned long long)(now.bytes[0] - b->before.bytes[0]),
                  (unsigned long long)(now.bytes[1] - b->before.bytes[1]));
}

static void a_heartbeat_is_one_flight_whatever_is_held(void **state)
{
    static struct beating all[] = {{.held = 0}, {.held = 1}, {.held = 100}, {.held = 1000}};
    const size_t n = sizeof(all) / sizeof(all[0]);

    for (size_t i = 0; i < n; i++) {
        peer_open(&all[i].peer, *state, 6000);
        hold_many(all[i].peer.rota, all[i].held);
    }
    for (size_t i = 0; i < n; i++)
        first_beat(&all[i]);
    for (size_t i = 0; i < n; i++)
        two_beats(&all[i]);
    for (size_t i = 0; i < n; i++)
        peer_close(&all[i].peer);
}

static int wire_open(void **state)
{
    static struct rt_etcds etcd;

    rt_etcds_start(&etcd, 1, NULL);
    *state = &etcd;
    return 0;
}

static int wire_close(void **state)
{
    rt_etcds_fini(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_two_flights),
        cmocka_unit_test(a_failed_try_is_one_flight),
        cmocka_unit_test(a_hand_over_is_one_notification_and_one_flight),
        cmocka_unit_test(a_release_wakes_one_of_a_thousand),
        cmocka_unit_test(a_heartbeat_is_one_flight_whatever_is_held),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, wire_open, wire_close);
}
