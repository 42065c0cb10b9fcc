/* SPDX-License-Identifier: Apache-2.0 */
/* Half of the contenders are cut off for less and for more than the ttl, in each direction. */
#include "engine/redis/script.h"
#include "keys.h"
#include "scenes.h"

#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define PROCESSES 6

/* How long replies take before some partitions: not long enough for a link to be given up. */
#define SLOW_US 150000

static void partition(const char *title, uint32_t from, uint32_t least_ms, uint32_t most_ms)
{
    struct stage_plan plan = {.title = title,
                              .processes = PROCESSES,
                              .threads = 1,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 150,
                              .long_ms = 2 * TTL_MS,
                              .pause_us = 1000};
    struct stage *st = stage_new(&plan);
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .seed = stage_seed()};
    struct scene_cut cut;
    struct rt_proxy *proxy;
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    char *direct, *proxied;

    rt_redis_start(&node, NULL);
    opts.port = node.server.port;
    proxy = rt_proxy_start(&opts);
    direct = rt_redis_url(&node, 0);
    proxied = rt_redis_url(&node, rt_proxy_port(proxy));
    stage_url(st, direct);
    for (uint32_t i = PROCESSES / 2; i < PROCESSES; i++)
        stage_url_of(st, i, proxied);
    stage_start(st);
    cut = (struct scene_cut){&proxy, 1, least_ms, most_ms, SLOW_US};
    scene_cut_rounds(st, &cut, from);
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_proxy_stop(proxy);
    rt_redis_fini(&node);
    free(direct);
    free(proxied);
}

static void shorter_than_the_ttl(void **state)
{
    (void)state;
    partition("partition shorter than the ttl", 0, TTL_MS / 10, TTL_MS / 2);
}

static void longer_than_the_ttl(void **state)
{
    (void)state;
    partition("partition longer than the ttl", SCENE_CUTS / 2, TTL_MS * 11 / 10, TTL_MS * 14 / 10);
}

/* ---- Step by step -------------------------------------------------------------- */

#define LONG_TTL_MS 6000 /* so long that nothing is lost on a slow machine before the cut */
#define LATE_US 400000   /* the answers to heartbeats: a link that owes one for ttl/4 is given up */

/* However late heartbeats are answered: a client that is cut off learns of its loss before another is granted. */
static void told_before_anybody_else_is_granted(void **state)
{
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp};
    struct scene_told told = {.beat = rt_redis_script_text(RT_REDIS_SCRIPT_BEAT, false)->sha1,
                              .n = 1,
                              .ttl_ms = LONG_TTL_MS,
                              .late_us = LATE_US};
    struct rt_proxy *proxy;
    struct rt_redis node;
    char *direct, *proxied;

    (void)state;
    rt_redis_start(&node, NULL);
    opts.port = node.server.port;
    proxy = rt_proxy_start(&opts);
    told.proxies = &proxy;
    told.direct = direct = rt_redis_url(&node, 0);
    told.proxied = proxied = rt_redis_url(&node, rt_proxy_port(proxy));
    scene_told_before(&told);
    rt_proxy_stop(proxy);
    rt_redis_fini(&node);
    free(direct);
    free(proxied);
}

/* ---- A LEAVE that outlives its line ------------------------------------------ */

#define MEET "meeting"
#define MEET_LIMIT_MS 300 /* less than is left of a ttl when it asks */

struct meeting {
    struct rt_redis node;
    struct rt_proxy *proxy;
    struct rota *rota;
};

static void *meet(void *arg)
{
    return (void *)(intptr_t)rota_barrier(arg, MEET, 2, MEET_LIMIT_MS);
}

/* All that was sent before it is answered, as it came, when this returns. */
static void take_a_turn(struct rota *r)
{
    struct rota_lock *lock = NULL;

    assert_int_equal(rota_acquire(r, "turn", NULL, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
}

/* Whether the case arose: the limit was over while nobody could be asked, and the LEAVE went out when
 * its call was over. A machine that stalled for that long may have been too late. */
static bool leave_after_the_end(struct meeting *m)
{
    struct rt_fault look = {
        .on = RT_FAULT_REPLY, .what = RT_FAULT_LOOK, .match = MEET, .times = RT_FAULT_ALWAYS};
    uint32_t joins = rt_proxy_fault(m->proxy, &look), leaves;
    pthread_t party;
    uint64_t hits;
    void *err;

    assert_int_equal(pthread_create(&party, NULL, meet, m->rota), 0);
    assert_true(rt_proxy_await_hits(m->proxy, joins, 1, 20000));
    take_a_turn(m->rota); /* the party knows that it waits */
    leaves = rt_proxy_fault(m->proxy, &look);
    rt_proxy_door(m->proxy, RT_PROXY_REFUSE);
    rt_proxy_end(m->proxy, RT_PROXY_RESET, 0);
    pthread_join(party, &err);
    rt_redis_must(&m->node,
                  "FLUSHALL"); /* the session is over there, too: it may be a moment later */
    rt_proxy_door(m->proxy, RT_PROXY_OPEN);
    take_a_turn(m->rota);
    hits = rt_proxy_fault_hits(m->proxy, leaves);
    rt_proxy_fault_end(m->proxy, 0);
    return (intptr_t)err == ROTA_LOST && hits == 1;
}

/* The barrier's call is over and its line freed when its LEAVE at the limit is answered: "no such
 * ticket", which names the line. Only the address sanitizer can see it. */
static void a_barriers_leave_outlives_its_line(void **state)
{
    struct rota_options options = {.ttl_ms = 3 * TTL_MS, .call_ms = 20000};
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp};
    struct meeting m = {0};
    int tries = 1;
    char *url;

    (void)state;
    rt_redis_start(&m.node, NULL);
    opts.port = m.node.server.port;
    m.proxy = rt_proxy_start(&opts);
    url = rt_redis_url(&m.node, rt_proxy_port(m.proxy));
    assert_int_equal(rota_open(&m.rota, url, &options), 0);
    take_a_turn(m.rota);
    while (!leave_after_the_end(&m))
        assert_true(tries++ < 10);
    print_message("in try %d\n", tries);
    rota_close(m.rota);
    rt_proxy_stop(m.proxy);
    rt_redis_fini(&m.node);
    free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_before_anybody_else_is_granted),
        cmocka_unit_test(shorter_than_the_ttl),
        cmocka_unit_test(longer_than_the_ttl),
        cmocka_unit_test(a_barriers_leave_outlives_its_line),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
