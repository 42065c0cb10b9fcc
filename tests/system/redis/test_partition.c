/* SPDX-License-Identifier: Apache-2.0 */
/* Half of the contenders are cut off for less and for more than the ttl, in each direction. */
#include "keys.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define PROCESSES 6

struct partition {
    enum rt_proxy_dir dir;
    bool lose; /* what was sent in it is gone; else it arrives late */
};

static const struct partition partitions[] = {
    {RT_PROXY_UP, false}, {RT_PROXY_DOWN, false}, {RT_PROXY_BOTH, false},
    {RT_PROXY_UP, true},  {RT_PROXY_DOWN, true},  {RT_PROXY_BOTH, true},
};
#define PARTITIONS (sizeof(partitions) / sizeof(partitions[0]))

static void part_for(struct stage *st, struct rt_proxy *proxy, const struct partition *p,
                     uint32_t ms)
{
    stage_mark(st);
    if (p->lose)
        rt_proxy_lose(proxy, p->dir);
    else
        rt_proxy_hold(proxy, p->dir);
    stage_pause(st, ms);
    if (p->lose)
        rt_proxy_heal(proxy);
    else
        rt_proxy_release(proxy, p->dir);
    stage_pause(st, 100 + stage_below(st, 200));
}

static void partition(const char *title, uint32_t least_ms, uint32_t most_ms)
{
    struct stage_plan plan = {.title = title,
                              .processes = PROCESSES,
                              .threads = 1,
                              .locks = 2,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 10,
                              .long_ms = 800,
                              .pause_us = 1000};
    struct stage *st = stage_new(&plan);
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .seed = stage_seed()};
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
    for (size_t i = 0; i < PARTITIONS * stage_factor(); i++)
        part_for(st, proxy, &partitions[i % PARTITIONS],
                 least_ms + stage_below(st, most_ms - least_ms));
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
    partition("partition shorter than the ttl", TTL_MS / 10, TTL_MS / 2);
}

static void longer_than_the_ttl(void **state)
{
    (void)state;
    partition("partition longer than the ttl", TTL_MS * 11 / 10, TTL_MS * 14 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shorter_than_the_ttl),
        cmocka_unit_test(longer_than_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
