/* SPDX-License-Identifier: Apache-2.0 */
/* What lock calls cost on the wire of ZooKeeper, counted by the proxy: flights, requests, notifications. */
#include "lib/players.h"
#include "lib/proxy.h"
#include "lib/zookeeper_server.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define QUIET_TTL_MS 3600000 /* no heartbeat comes between */
#define LIMIT_MS 60000
#define CROWD 200
#define HERD 20

struct peer { /* a client behind a proxy of its own */
    struct rt_proxy *proxy;
    struct rota *rota;
};

static struct rt_proxy_counts count_of(struct rt_proxy *p)
{
    struct rt_proxy_counts c;

    rt_proxy_counts(p, &c);
    return c;
}

static bool all_answered(void *arg, const struct rt_proxy_counts *counts)
{
    return counts->requests >= *(uint64_t *)arg && counts->replies >= counts->requests;
}

/* Returns once that many were asked, and all were answered. */
static void settle(struct rt_proxy *p, uint64_t requests)
{
    assert_true(rt_proxy_await(p, all_answered, &requests, LIMIT_MS));
}

static void assert_cost(struct rt_proxy *p, struct rt_proxy_counts before, uint64_t requests,
                        uint64_t flights, uint64_t pushes)
{
    struct rt_proxy_counts now = count_of(p);

    assert_int_equal(now.requests - before.requests, requests);
    assert_int_equal(now.flights - before.flights, flights);
    assert_int_equal(now.pushes - before.pushes, pushes);
}

static void peer_open(struct peer *p, const struct rt_zks *zks, bool solo)
{
    struct rota_options options = {.ttl_ms = QUIET_TTL_MS, .call_ms = LIMIT_MS};
    struct rt_proxy_options opts = {.framing = &rt_proxy_zookeeper,
                                    .port = zks->node[0].server.port};
    struct rota_lock *lock = NULL;

    if (solo)
        options.pass_limit = ROTA_NEVER;
    p->proxy = rt_proxy_start(&opts);
    if (getenv("ROTA_PROXY_TRACE") != NULL)
        rt_proxy_trace(p->proxy, rt_proxy_show, NULL);
    char *url = rt_zks_url(zks, (uint16_t[]){rt_proxy_port(p->proxy)});
    assert_int_equal(rota_open(&p->rota, url, &options), 0);
    assert_int_equal(rota_acquire(p->rota, "pair", NULL, &lock), 0); /* the line is made */
    assert_int_equal(rota_release(lock), 0);
    settle(p->proxy, 1);
    free(url);
}

static void peer_close(struct peer *p)
{
    rota_close(p->rota);
    rt_proxy_stop(p->proxy);
}

static void a_pair_is_two_flights(void **state)
{
    struct rota_lock *lock = NULL;
    struct rt_proxy_counts before;
    struct peer p;

    peer_open(&p, *state, false);
    for (int i = 0; i < 100; i++) {
        before = count_of(p.proxy);
        assert_int_equal(rota_acquire(p.rota, "pair", NULL, &lock), 0);
        assert_cost(p.proxy, before, 2, 1, 0); /* the ticket, and then the list */
        before = count_of(p.proxy);
        assert_int_equal(rota_release(lock), 0);
        assert_cost(p.proxy, before, 1, 1, 0);
    }
    peer_close(&p);
}

static void the_first_on_a_name_is_one_flight_more(void **state)
{
    struct rota_lock *lock = NULL;
    struct rt_proxy_counts before;
    struct peer p;

    peer_open(&p, *state, false);
    before = count_of(p.proxy);
    assert_int_equal(rota_acquire(p.rota, "new", NULL, &lock), 0);
    assert_int_equal(count_of(p.proxy).flights - before.flights, 2);
    assert_int_equal(rota_release(lock), 0);
    peer_close(&p);
}

/* One event tells the waiter directly behind the holder, which asks nothing. */
static void a_hand_over_is_one_notification(void **state)
{
    struct rt_proxy_counts before;
    struct player_wish wish;
    struct peer a, b;

    peer_open(&a, *state, false);
    peer_open(&b, *state, false);
    for (int i = 0; i < 20; i++) {
        struct rota_lock *held = player_take(a.rota, "pair", NULL);

        before = count_of(b.proxy);
        player_wish(b.rota, "pair", ROTA_EXCLUSIVE, &wish);
        player_counts(a.rota, "pair", 2);
        settle(b.proxy, before.requests + 4); /* its watches are set */
        before = count_of(b.proxy);
        assert_int_equal(rota_release(held), 0);
        held = player_wished(&wish, 0);
        assert_cost(b.proxy, before, 0, 0, 1);
        assert_int_equal(rota_release(held), 0);
    }
    peer_close(&b);
    peer_close(&a);
}

/* However many wait: each release wakes one. */
static void no_herd(void **state)
{
    static struct player_wish wishes[CROWD];
    struct rt_proxy_counts before;
    struct peer a, b;

    peer_open(&a, *state, false);
    peer_open(&b, *state, true);
    struct rota_lock *held = player_take(a.rota, "pair", NULL);
    before = count_of(b.proxy);
    for (size_t i = 0; i < CROWD; i++)
        player_wish(b.rota, "pair", ROTA_EXCLUSIVE, &wishes[i]);
    player_counts(a.rota, "pair", CROWD + 1);
    settle(b.proxy, before.requests + 3 * CROWD);
    before = count_of(b.proxy);
    assert_int_equal(rota_release(held), 0);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(rota_release(player_wished(&wishes[i], 0)), 0);
    /* ... and the one that stood directly behind had watched its own node too. */
    assert_in_range(count_of(b.proxy).pushes - before.pushes, CROWD, CROWD + 1);
    peer_close(&b);
    peer_close(&a);
}

/* ?dialect=simple: each release wakes all waiters, all but one of them for nothing. */
static void simple_wakes_all(void **state)
{
    static struct rota *herd[HERD];
    static struct player_wish wishes[HERD];
    struct rota_options options = {.ttl_ms = QUIET_TTL_MS, .call_ms = LIMIT_MS};
    struct rt_zks *zks = *state;
    struct rt_proxy_options opts = {.framing = &rt_proxy_zookeeper,
                                    .port = zks->node[0].server.port};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    char *plain = rt_zks_url(zks, (uint16_t[]){rt_proxy_port(proxy)}), url[512];
    struct rota *a;

    (void)snprintf(url, sizeof(url), "%s&dialect=simple", plain);
    assert_int_equal(rota_open(&a, url, &options), 0);
    struct rota_lock *held = player_take(a, "herd", NULL);
    for (size_t i = 0; i < HERD; i++) {
        assert_int_equal(rota_open(&herd[i], url, &options), 0);
        assert_int_equal(rota_release(player_take(herd[i], "warm", NULL)), 0);
    }
    settle(proxy, 1);
    struct rt_proxy_counts before = count_of(proxy);
    for (size_t i = 0; i < HERD; i++)
        player_wish(herd[i], "herd", ROTA_EXCLUSIVE, &wishes[i]);
    settle(proxy, before.requests + 3 * HERD); /* tried, listed, watching */
    before = count_of(proxy);
    assert_int_equal(rota_release(held), 0);
    settle(proxy, before.requests + 1 + 2 * HERD - 1); /* all ran for it, all but one watch again */
    assert_int_equal(count_of(proxy).pushes - before.pushes, HERD);
    for (size_t i = 0; i < HERD; i++)
        rota_close(herd[i]);
    rota_close(a);
    rt_proxy_stop(proxy);
    free(plain);
}

struct answer {
    atomic_int err; /* 1: it has not come */
};

static void told(void *arg, int err)
{
    atomic_store(&((struct answer *)arg)->err, err);
}

/* ?dialect=simple: one path stands for all who ever hold. Its delete took effect, the answer was lost, and when it is
 * retried somebody else holds. */
static void a_release_asked_again_takes_nobody_elses(void **state)
{
    struct rota_options options = {.call_ms = LIMIT_MS};
    struct rt_zks *zks = *state;
    struct rt_proxy_options opts = {.framing = &rt_proxy_zookeeper,
                                    .port = zks->node[0].server.port};
    struct rt_fault lost = {.on = RT_FAULT_REPLY, .what = RT_FAULT_CUT, .match = "multi"};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    char *through = rt_zks_url(zks, (uint16_t[]){rt_proxy_port(proxy)});
    char *direct = rt_zks_url(zks, NULL), url[2][512];
    struct player_wish wish;
    struct answer released = {1};
    struct rota *a, *b;

    (void)snprintf(url[0], sizeof(url[0]), "%s&dialect=simple", through);
    (void)snprintf(url[1], sizeof(url[1]), "%s&dialect=simple", direct);
    assert_int_equal(rota_open(&a, url[0], &options), 0);
    assert_int_equal(rota_open(&b, url[1], &options), 0);
    struct rota_lock *held = player_take(a, "again", NULL);
    player_wish(b, "again", ROTA_EXCLUSIVE, &wish);
    uint32_t fault = rt_proxy_fault(proxy, &lost);
    rt_proxy_door(proxy, RT_PROXY_REFUSE);
    assert_int_equal(rota_release_async(held, told, &released), 0);
    assert_true(rt_proxy_await_hits(proxy, fault, 1, LIMIT_MS));
    held = player_wished(&wish, 0);
    rt_proxy_door(proxy, RT_PROXY_OPEN);
    UNTIL(atomic_load(&released.err) != 1);
    assert_int_equal(atomic_load(&released.err),
                     ROTA_UNKNOWN); /* it cannot know whose doing it was */
    const struct rota_ask attempt = {.flags = ROTA_TRY};
    struct rota_lock *other = NULL;
    assert_int_equal(rota_acquire(a, "again", &attempt, &other), ROTA_BUSY);
    assert_int_equal(rota_check(held), 0);
    assert_int_equal(rota_release(held), 0);
    rota_close(a);
    rota_close(b);
    rt_proxy_stop(proxy);
    free(through);
    free(direct);
}

static int setup(void **state)
{
    static struct rt_zks zks;

    rt_zks_start(&zks, 1, NULL);
    *state = &zks;
    return 0;
}

static int teardown(void **state)
{
    rt_zks_fini(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_two_flights),
        cmocka_unit_test(the_first_on_a_name_is_one_flight_more),
        cmocka_unit_test(a_hand_over_is_one_notification),
        cmocka_unit_test(no_herd),
        cmocka_unit_test(simple_wakes_all),
        cmocka_unit_test(a_release_asked_again_takes_nobody_elses),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
