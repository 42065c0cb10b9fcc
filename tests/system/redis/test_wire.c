/* SPDX-License-Identifier: Apache-2.0 */
/* What lock calls cost on the wire, counted by the proxy: flights, pushes, heartbeats. */
#include "engine/redis/script.h"
#include "lib/redis_server.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QUIET_TTL_MS 120000 /* no heartbeat comes between */
#define LIMIT_MS 20000
#define BEAT_TTL_MS \
    4500 /* heartbeats so far apart that none comes between a look at them and a count */

struct wire {
    struct rt_redis node;
};

struct peer { /* a client behind a proxy of its own */
    struct rt_proxy *proxy;
    struct rota *rota;
};

static bool is_quiet(void *arg, const struct rt_proxy_counts *counts)
{
    (void)arg;
    return counts->replies >= counts->requests;
}

/* A client that will ask nothing by itself: its session is open, the scripts are known, and it has heard that it is
 * subscribed. To hear that while a ticket is leaving makes it ask the room what it has missed, beside whatever is
 * counted. */
static void peer_open(struct peer *p, const struct rt_redis *node, uint32_t ttl_ms)
{
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .port = node->server.port};
    struct rota_options options = {.ttl_ms = ttl_ms, .flags = ROTA_METRICS};
    struct rt_fault look = {.on = RT_FAULT_REQUEST, .what = RT_FAULT_LOOK, .match = "SUBSCRIBE"};
    struct rota_lock *first = NULL, *second = NULL;
    uint32_t subscribes;
    char *url;

    p->proxy = rt_proxy_start(&opts);
    subscribes = rt_proxy_fault(p->proxy, &look);
    url = rt_redis_url(node, rt_proxy_port(p->proxy));
    assert_int_equal(rota_open(&p->rota, url, &options), 0);
    assert_int_equal(rota_acquire(p->rota, "first", NULL, &first), 0);
    assert_true(rt_proxy_await_hits(p->proxy, subscribes, 1, LIMIT_MS));
    assert_true(rt_proxy_await(p->proxy, is_quiet, NULL, LIMIT_MS));
    /* What is answered from now on is heard after it. */
    assert_int_equal(rota_acquire(p->rota, "second", NULL, &second), 0);
    assert_int_equal(rota_release(second), 0);
    assert_int_equal(rota_release(first), 0);
    /* What nobody waits for travels alongside: no request counts as a flight until it is answered. */
    assert_true(rt_proxy_await(p->proxy, is_quiet, NULL, LIMIT_MS));
    rt_proxy_fault_end(p->proxy, subscribes);
    free(url);
}

static void peer_close(struct peer *p)
{
    rota_close(p->rota);
    rt_proxy_stop(p->proxy);
}

struct count {
    uint64_t requests, flights, pushes;
};

static struct count count_of(struct peer *p)
{
    struct rt_proxy_counts c;

    rt_proxy_counts(p->proxy, &c);
    return (struct count){c.requests, c.flights, c.pushes};
}

static void assert_cost(struct peer *p, struct count before, uint64_t requests, uint64_t pushes)
{
    struct count now = count_of(p);

    assert_int_equal(now.requests - before.requests, requests);
    assert_int_equal(now.flights - before.flights, requests);
    assert_int_equal(now.pushes - before.pushes, pushes);
}

static void a_pair_is_two_flights(void **state)
{
    struct wire *w = *state;
    struct rota_lock *lock = NULL;
    struct peer p;
    struct count before;

    peer_open(&p, &w->node, QUIET_TTL_MS);
    for (int i = 0; i < 100; i++) {
        before = count_of(&p);
        assert_int_equal(rota_acquire(p.rota, "pair", NULL, &lock), 0);
        assert_cost(&p, before, 1, 0);
        before = count_of(&p);
        assert_int_equal(rota_release(lock), 0);
        assert_cost(&p, before, 1, 0);
    }
    peer_close(&p);
}

static void a_failed_try_is_one_flight(void **state)
{
    struct wire *w = *state;
    struct rota_ask ask = {.flags = ROTA_TRY};
    struct rota_lock *lock = NULL, *other = NULL;
    struct peer p, q;
    struct count before, idle;

    peer_open(&p, &w->node, QUIET_TTL_MS);
    peer_open(&q, &w->node, QUIET_TTL_MS);
    assert_int_equal(rota_acquire(p.rota, "tried", NULL, &lock), 0);
    idle = count_of(&p);
    before = count_of(&q);
    for (int i = 0; i < 10; i++)
        assert_int_equal(rota_acquire(q.rota, "tried", &ask, &other), ROTA_BUSY);
    assert_cost(&q, before, 10, 0);
    assert_cost(&p, idle, 0, 0);
    assert_int_equal(rota_release(lock), 0);
    peer_close(&p);
    peer_close(&q);
}

struct wait {
    struct rota_lock *lock;
    int done;
};

static void on_grant(void *arg, int err, struct rota_lock *lock)
{
    struct wait *w = arg;

    w->lock = lock;
    __atomic_store_n(&w->done, err == 0 ? 1 : -1, __ATOMIC_RELEASE);
}

static bool is_done(void *arg)
{
    return __atomic_load_n(&((struct wait *)arg)->done, __ATOMIC_ACQUIRE) != 0;
}

struct requests_until {
    uint64_t least;
};

static bool has_requests(void *arg, const struct rt_proxy_counts *counts)
{
    return counts->replies >= ((struct requests_until *)arg)->least;
}

/* Asks for the lock that somebody else holds; returns once the server has put it in line. */
static void stand_in_line(struct peer *q, struct wait *waiter)
{
    struct rt_proxy_counts counts;
    struct requests_until until;

    rt_proxy_counts(q->proxy, &counts);
    until.least = counts.replies + 1;
    assert_int_equal(rota_acquire_async(q->rota, "stock", NULL, on_grant, waiter, NULL), 0);
    assert_true(rt_proxy_await(q->proxy, has_requests, &until, LIMIT_MS));
}

/* The first waiter finds out what it may have missed; a push that overtakes that answer makes
 * it ask once more. */
static void wait_once(struct peer *p, struct peer *q)
{
    struct rota_lock *lock = NULL;
    struct wait waiter = {0};

    assert_int_equal(rota_acquire(p->rota, "stock", NULL, &lock), 0);
    stand_in_line(q, &waiter);
    assert_int_equal(rota_release(lock), 0);
    assert_true(rt_await(is_done, &waiter, LIMIT_MS));
    assert_int_equal(rota_release(waiter.lock), 0);
}

static void a_hand_over_is_one_push(void **state)
{
    struct wire *w = *state;
    struct rota_lock *lock = NULL;
    struct wait waiter = {0};
    struct peer p, q;
    struct count before_p, before_q;

    peer_open(&p, &w->node, QUIET_TTL_MS);
    peer_open(&q, &w->node, QUIET_TTL_MS);
    for (int i = 0; i < 3; i++)
        wait_once(&p, &q);
    assert_int_equal(rota_acquire(p.rota, "stock", NULL, &lock), 0);
    before_q = count_of(&q);
    stand_in_line(&q, &waiter);
    assert_cost(&q, before_q, 1, 0);
    before_p = count_of(&p);
    assert_int_equal(rota_release(lock), 0);
    assert_true(rt_await(is_done, &waiter, LIMIT_MS));
    assert_int_equal(waiter.done, 1);
    assert_cost(&p, before_p, 1, 0);
    assert_cost(&q, before_q, 1, 1);
    assert_int_equal(rota_release(waiter.lock), 0);
    peer_close(&p);
    peer_close(&q);
}

/* ---- Heartbeats ------------------------------------------------------------ */

static void hold_many(struct rota *r, struct rota_lock **locks, size_t n)
{
    char name[32];

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "item %zu", i);
        assert_int_equal(rota_acquire(r, name, NULL, &locks[i]), 0);
    }
}

static void one_heartbeat_whatever_is_held(void **state)
{
    static const size_t sizes[] = {1, 100, 1000};
    static struct rota_lock *locks[1000];
    const char *beat = rt_redis_script_text(RT_REDIS_SCRIPT_BEAT, false)->sha1;
    struct wire *w = *state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct rt_fault look = {
            .on = RT_FAULT_REQUEST, .what = RT_FAULT_LOOK, .match = beat, .times = RT_FAULT_ALWAYS};
        struct count before;
        uint32_t fault;
        struct peer p;

        peer_open(&p, &w->node, BEAT_TTL_MS);
        hold_many(p.rota, locks, sizes[i]);
        fault = rt_proxy_fault(p.proxy, &look);
        assert_true(rt_proxy_await_hits(p.proxy, fault, 1, LIMIT_MS));
        before = count_of(&p); /* the first is counted now: two more */
        assert_true(rt_proxy_await_hits(p.proxy, fault, 3, LIMIT_MS));
        assert_cost(&p, before, 2, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(rota_release(locks[k]), 0);
        peer_close(&p);
    }
}

static void sum_beats(void *arg, const struct rota_metric *m)
{
    if (strcmp(m->name, "rota_heartbeats_total") == 0 && strstr(m->labels, "sent") != NULL)
        *(uint64_t *)arg = (uint64_t)m->value;
}

static uint64_t beats_sent(struct rota *r)
{
    uint64_t sent = 0;

    assert_int_equal(rota_metrics(r, sum_beats, &sent), 0);
    return sent;
}

struct beats {
    struct rota *rota;
    uint64_t least;
};

static bool has_beats(void *arg)
{
    struct beats *b = arg;

    return beats_sent(b->rota) >= b->least;
}

/* 100 locks over the rooms of three nodes: each node gets its heartbeats in one flight. */
static void a_cluster_has_one_flight_per_node(void **state)
{
    struct rt_redis_cluster *c = rt_redis_cluster_new(NULL, true, 1);
    struct rota_options options = {.ttl_ms = BEAT_TTL_MS, .flags = ROTA_METRICS};
    struct rt_proxy_counts before[3], after[3];
    static struct rota_lock *locks[100];
    char *url = rt_redis_cluster_url(c);
    struct rota *r = NULL;
    struct beats b;

    (void)state;
    assert_int_equal(rota_open(&r, url, &options), 0);
    hold_many(r, locks, 100);
    b = (struct beats){r, beats_sent(r) + 1};
    assert_true(rt_await(has_beats, &b, LIMIT_MS));
    b.least++; /* from the start of one to the start of the third after it */
    assert_true(rt_await(has_beats, &b, LIMIT_MS));
    for (int i = 0; i < 3; i++)
        rt_proxy_counts(c->proxy[i], &before[i]);
    b.least += 2;
    assert_true(rt_await(has_beats, &b, LIMIT_MS));
    for (int i = 0; i < 3; i++) {
        rt_proxy_counts(c->proxy[i], &after[i]);
        print_message("node %d: %llu requests in %llu flights in two heartbeats\n", i,
                      (unsigned long long)(after[i].requests - before[i].requests),
                      (unsigned long long)(after[i].flights - before[i].flights));
        assert_true(after[i].flights - before[i].flights <= 3);
        assert_true(after[i].requests - before[i].requests > 3);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(rota_release(locks[i]), 0);
    rota_close(r);
    rt_redis_cluster_free(c);
    free(url);
}

static int wire_open(void **state)
{
    static struct wire w;

    rt_redis_start(&w.node, NULL);
    *state = &w;
    return 0;
}

static int wire_close(void **state)
{
    struct wire *w = *state;

    rt_redis_fini(&w->node);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_two_flights),
        cmocka_unit_test(a_failed_try_is_one_flight),
        cmocka_unit_test(a_hand_over_is_one_push),
        cmocka_unit_test(one_heartbeat_whatever_is_held),
        cmocka_unit_test(a_cluster_has_one_flight_per_node),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, wire_open, wire_close);
}
