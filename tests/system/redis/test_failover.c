/* SPDX-License-Identifier: Apache-2.0 */
/* Failovers by Sentinel under contenders; and a replica promoted that had missed the last grants. */
#include "keys.h"
#include "lib/resource.h"
#include "stage.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FAILOVERS 3 /* x 17: the 50 of make torture */
#define LIMIT_MS 30000
#define TTL_MS 1000
#define LONG_TTL_MS 10000 /* nothing ends by itself before it is told */

static struct stage_plan plan_of(const char *title)
{
    return (struct stage_plan){.title = title,
                               .processes = 8,
                               .threads = 1,
                               .locks = 2,
                               .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                        STAGE_SPICE | STAGE_LOSSY,
                               .ttl_ms = TTL_MS,
                               .call_ms = 5000,
                               .long_permille = 10,
                               .long_ms = 1500,
                               .pause_us = 1000};
}

static void failover(struct stage *st, struct rt_redis_sentinels *s, uint32_t round)
{
    int old = rt_redis_sentinels_settle(s, LIMIT_MS);

    assert_true(old >= 0);
    stage_pause(st, stage_below(st, 300));
    stage_mark(st);
    if (round % 3 != 1) {
        /* Sentinel gives up a failover that takes long, as on a busy machine. */
        for (int tries = 0; rt_redis_sentinels_failover(s, LIMIT_MS / 6) < 0; tries++)
            assert_true(tries < 6);
        return;
    }
    assert_true(rt_redis_sentinels_kill_primary(s, LIMIT_MS) >= 0);
    rt_redis_run(&s->node[old]);
}

static void sentinel_fails_over(void **state)
{
    struct stage_plan plan = plan_of("Sentinel failovers");
    struct stage *st = stage_new(&plan);
    struct rt_redis_sentinels *s = rt_redis_sentinels_new(NULL, false, stage_seed());
    struct redis_nodes nodes = {s->node, 3};
    char *url = rt_redis_sentinels_url(s);

    (void)state;
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < FAILOVERS * stage_factor(); i++)
        failover(st, s, i);
    assert_true(rt_redis_sentinels_settle(s, LIMIT_MS) >= 0);
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_sentinels_free(s);
    free(url);
}

/* ---- A stale replica ------------------------------------------------------ */

static bool in_step(void *arg)
{
    return strcmp(rt_redis_info(arg, "replication", "master_link_status"), "up") == 0;
}

static void follow(struct rt_redis *replica, const struct rt_redis *primary)
{
    rt_redis_must(replica, "REPLICAOF 127.0.0.1 %d", (int)primary->server.port);
    assert_true(rt_await(in_step, replica, LIMIT_MS));
}

/* REPLICA hears nothing more for STALE_MS; then everybody is led to it and the primary dies. */
static void promote_stale(struct stage *st, struct rt_proxy *proxy, struct rt_redis *primary,
                          struct rt_redis *replica, uint32_t stale_ms)
{
    rt_redis_must(replica, "REPLICAOF NO ONE");
    stage_pause(st, stale_ms);
    rt_proxy_target(proxy, NULL, replica->server.port);
    stage_mark(st);
    rt_redis_kill(primary);
    rt_proxy_end(proxy, RT_PROXY_RESET, 0);
    stage_pause(st, 1200);
    rt_redis_run(primary);
    follow(primary, replica);
}

static void a_stale_replica_is_promoted(void **state)
{
    struct stage_plan plan = plan_of("stale replica promoted");
    struct stage *st = stage_new(&plan);
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .seed = stage_seed()};
    struct rt_redis node[2];
    struct redis_nodes nodes = {node, 2};
    struct rt_proxy *proxy;
    char *url;

    (void)state;
    rt_redis_start(&node[0], NULL);
    rt_redis_start(&node[1], NULL);
    follow(&node[1], &node[0]);
    opts.port = node[0].server.port;
    proxy = rt_proxy_start(&opts);
    url = rt_redis_url(&node[0], rt_proxy_port(proxy));
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < 2 * stage_factor(); i++) {
        stage_pause(st, 300);
        promote_stale(st, proxy, &node[i % 2], &node[1 - i % 2], i % 2 == 0 ? 300 : 1500);
    }
    rt_redis_must(&node[1], "REPLICAOF NO ONE"); /* so that the keys of both are looked at */
    rt_redis_must(&node[1], "FLUSHALL");
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_proxy_stop(proxy);
    rt_redis_fini(&node[0]);
    rt_redis_fini(&node[1]);
    free(url);
}

/* ---- The same, step by step ------------------------------------------------ */

struct holder {
    struct rt_proxy *proxy;
    struct rota *rota;
    struct rota_lock *lock;
    char *url;
};

static void holder_open(struct holder *h, struct rt_redis *node)
{
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .port = node->server.port};
    struct rota_options options = {.ttl_ms = LONG_TTL_MS};

    h->proxy = rt_proxy_start(&opts);
    h->url = rt_redis_url(node, rt_proxy_port(h->proxy));
    assert_int_equal(rota_open(&h->rota, h->url, &options), 0);
}

static void holder_close(struct holder *h)
{
    rota_close(h->rota);
    rt_proxy_stop(h->proxy);
    free(h->url);
}

static void note_told(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static bool is_told(void *arg)
{
    return __atomic_load_n((int *)arg, __ATOMIC_ACQUIRE) != 0;
}

/* The old holder is partitioned with the old primary; the new one is granted by the replica. */
static void the_resource_refuses_the_old_holder(void **state)
{
    struct holder old = {0}, new = {0};
    uint64_t highest = 0;
    int told = 0;
    struct rota_ask ask = {.on_lost = note_told, .arg = &told};
    struct rt_redis primary, replica;

    (void)state;
    rt_redis_start(&primary, NULL);
    rt_redis_start(&replica, NULL);
    follow(&replica, &primary);
    holder_open(&old, &primary);
    rt_redis_must(&replica, "REPLICAOF NO ONE"); /* from here on it hears nothing */
    assert_int_equal(rota_acquire(old.rota, "prize", &ask, &old.lock), 0);
    assert_int_equal(rota_guard(old.lock, &highest), 0);
    holder_open(&new, &replica);
    assert_int_equal(rota_acquire(new.rota, "prize", NULL, &new.lock), 0);
    assert_true(rota_remaining_ms(old.lock) > 0); /* it cannot know: that is what fences are for */
    assert_true(rota_fence(new.lock) > rota_fence(old.lock));
    assert_int_equal(rota_guard(new.lock, &highest), 0);
    assert_int_equal(rota_guard(old.lock, &highest), ROTA_LOST);
    /* The old primary is gone; its clients are led to the new one, which does not know the hold. */
    rt_proxy_target(old.proxy, NULL, replica.server.port);
    rt_redis_kill(&primary);
    assert_true(rt_await(is_told, &told, LIMIT_MS));
    assert_true(rota_remaining_ms(old.lock) <= 0);
    assert_int_not_equal(rota_release(old.lock), 0);
    assert_int_equal(rota_check(new.lock), 0);
    assert_int_equal(rota_release(new.lock), 0);
    holder_close(&old);
    holder_close(&new);
    rt_redis_fini(&primary);
    rt_redis_fini(&replica);
}

struct grant {
    struct rota_lock *lock;
};

static void note_grant(void *arg, int err, struct rota_lock *lock)
{
    struct grant *g = arg;

    assert_int_equal(err, 0);
    __atomic_store_n(&g->lock, lock, __ATOMIC_RELEASE);
}

static bool is_granted(void *arg)
{
    struct grant *g = arg;

    return __atomic_load_n(&g->lock, __ATOMIC_ACQUIRE) != NULL;
}

static bool has_two(void *arg)
{
    struct rota_line *line = NULL;
    bool two;

    assert_int_equal(rota_inspect(arg, "prize", &line), 0);
    two = line->count == 2;
    rota_line_free(line);
    return two;
}

static bool sees_somebody_wait(void *arg)
{
    return rt_redis_integer(arg, "EXISTS rota:{0}:w:prize") == 1;
}

/* When the replica last heard, the later holder was still waiting: that is not a hold. */
static void a_server_that_still_sees_us_wait(void **state)
{
    struct holder first = {0}, second = {0};
    struct grant grant = {0};
    int told = 0;
    struct rota_ask ask = {.on_lost = note_told, .arg = &told};
    struct rt_redis primary, replica;

    (void)state;
    rt_redis_start(&primary, NULL);
    rt_redis_start(&replica, NULL);
    follow(&replica, &primary);
    holder_open(&first, &primary);
    holder_open(&second, &primary);
    assert_int_equal(rota_acquire(first.rota, "prize", NULL, &first.lock), 0);
    assert_int_equal(rota_acquire_async(second.rota, "prize", &ask, note_grant, &grant, NULL), 0);
    assert_true(rt_await(has_two, first.rota, LIMIT_MS));
    assert_true(rt_await(sees_somebody_wait, &replica, LIMIT_MS));
    rt_redis_must(&replica, "REPLICAOF NO ONE");
    assert_int_equal(rota_release(first.lock), 0);
    assert_true(rt_await(is_granted, &grant, LIMIT_MS));
    rt_proxy_target(second.proxy, NULL, replica.server.port);
    rt_proxy_end(second.proxy, RT_PROXY_RESET, 0);
    assert_true(rt_await(is_told, &told, LIMIT_MS));
    assert_true(rota_remaining_ms(grant.lock) <= 0);
    assert_int_not_equal(rota_release(grant.lock), 0);
    holder_close(&first);
    holder_close(&second);
    rt_redis_fini(&primary);
    rt_redis_fini(&replica);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_resource_refuses_the_old_holder),
        cmocka_unit_test(a_server_that_still_sees_us_wait),
        cmocka_unit_test(a_stale_replica_is_promoted),
        cmocka_unit_test(sentinel_fails_over),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
