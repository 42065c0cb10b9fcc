/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts forgotten, push connections killed, all connections killed, again and again. */
#include "keys.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 60

static const struct stage_plan base = {.processes = 6,
                                       .threads = 2,
                                       .locks = 2,
                                       .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP |
                                                STAGE_PERMITS | STAGE_SPICE,
                                       .long_permille = 10,
                                       .long_ms = 300,
                                       .pause_us = 500};

static void annoy(const char *title, const char *const *commands, uint32_t every_ms)
{
    struct stage_plan plan = base;
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    struct stage *st;
    char *url;

    plan.title = title;
    st = stage_new(&plan);
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++) {
        stage_mark(st);
        for (const char *const *command = commands; *command != NULL; command++)
            freeReplyObject(rt_redis_do(&node, *command));
        stage_pause(st, stage_below(st, 2 * every_ms));
    }
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_fini(&node);
    free(url);
}

static void scripts_are_forgotten(void **state)
{
    static const char *const commands[] = {"SCRIPT FLUSH", NULL};

    (void)state;
    annoy("SCRIPT FLUSH", commands, 20);
}

static void push_connections_are_killed(void **state)
{
    static const char *const commands[] = {"CLIENT KILL TYPE pubsub", NULL};

    (void)state;
    annoy("CLIENT KILL of push connections", commands, 30);
}

static void all_connections_are_killed(void **state)
{
    static const char *const commands[] = {
        "CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE normal SKIPME yes", "SCRIPT FLUSH", NULL};

    (void)state;
    annoy("CLIENT KILL of all", commands, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_are_forgotten),
        cmocka_unit_test(push_connections_are_killed),
        cmocka_unit_test(all_connections_are_killed),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
