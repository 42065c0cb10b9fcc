/* SPDX-License-Identifier: Apache-2.0 */
/* Contenders, holders as well as waiters, are stopped past the ttl and go on afterwards. */
#include "keys.h"
#include "scenes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define ROUNDS 3
#define PROCESSES 6

static void stopped_past_the_ttl(void **state)
{
    struct stage_plan plan = {.title = "SIGSTOP past the ttl",
                              .processes = PROCESSES,
                              .threads = 1,
                              .locks = 1,
                              .flags = STAGE_SHARED | STAGE_GIVE_UP | STAGE_STOPS | STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 100,
                              .long_ms = 300};
    struct stage *st = stage_new(&plan);
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    stage_url(st, url);
    stage_start(st);
    scene_stop(st, ROUNDS * stage_factor());
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_fini(&node);
    free(url);
}

static void the_first_look_after_a_stop_says_it_is_over(void **state)
{
    struct rt_redis node;
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    scene_first_look(url, TTL_MS);
    rt_redis_fini(&node);
    free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_look_after_a_stop_says_it_is_over),
        cmocka_unit_test(stopped_past_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
