/* SPDX-License-Identifier: Apache-2.0 */
/* Contenders killed at random under load; and a release wakes only the one it grants. */
#include "keys.h"
#include "scenes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROCESSES 8
#define KILLS 12

static void kill_9_at_random(void **state)
{
    struct stage_plan plan = {.title = "contenders killed",
                              .processes = PROCESSES,
                              .threads = 2,
                              .locks = 3,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .long_permille = 20,
                              .long_ms = 200,
                              .pause_us = 300};
    struct stage *st = stage_new(&plan);
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    stage_url(st, url);
    stage_start(st);
    scene_kill(st, KILLS * stage_factor());
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_fini(&node);
    free(url);
}

static void a_release_wakes_only_whom_it_grants(void **state)
{
    struct stage_plan plan = {
        .title = "no herd", .processes = 12, .threads = 1, .locks = 1, .ttl_ms = 10000};
    struct stage *st = stage_new(&plan);
    struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .seed = stage_seed()};
    struct rt_proxy_counts counts;
    struct rt_proxy *proxy;
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    opts.port = node.server.port;
    proxy = rt_proxy_start(&opts);
    url = rt_redis_url(&node, rt_proxy_port(proxy));
    stage_url(st, url);
    stage_start(st);
    stage_pause(st, 1500 * stage_factor());
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    rt_proxy_counts(proxy, &counts);
    print_message("%llu grants, %llu pushes\n", (unsigned long long)stage_granted(st),
                  (unsigned long long)counts.pushes);
    assert_true(counts.pushes > 0);
    assert_true(counts.pushes <= stage_granted(st));
    stage_free(st);
    rt_proxy_stop(proxy);
    rt_redis_fini(&node);
    free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_9_at_random),
        cmocka_unit_test(a_release_wakes_only_whom_it_grants),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
