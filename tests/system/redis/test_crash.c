/* SPDX-License-Identifier: Apache-2.0 */
/* Redis is killed -9 and started again under contenders: with appendfsync always nothing breaks;
 * without persistence everything is forgotten, and yet fences grow and every loss is reported. */
#include "keys.h"
#include "lib/history.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 3

static const struct stage_plan base = {.processes = 8,
                                       .threads = 1,
                                       .locks = 2,
                                       .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP |
                                                STAGE_PERMITS | STAGE_SPICE,
                                       .long_permille = 10,
                                       .long_ms = 1500,
                                       .pause_us = 1000};

static void crash_rounds(struct stage *st, struct rt_redis *node, bool forgets)
{
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++) {
        int64_t from;

        stage_pause(st, 300 + stage_below(st, 500));
        from = rt_history_now();
        rt_redis_kill(node);
        stage_pause(st, i % ROUNDS == 1 ? 1300 : stage_below(st, 400)); /* the ttl is 1000 */
        stage_mark(st);
        rt_redis_run(node);
        if (forgets)
            stage_forgot(st, from, rt_history_now());
    }
    stage_pause(st, 500);
}

static void crash(const char *title, enum rt_redis_keep keep)
{
    bool forgets = keep == RT_REDIS_FORGETS;
    struct rt_redis_options opts = {.keep = keep};
    struct stage_plan plan = base;
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    struct stage *st;
    char *url;

    plan.title = title;
    plan.flags |= forgets ? STAGE_LOSSY : 0;
    st = stage_new(&plan);
    rt_redis_start(&node, &opts);
    url = rt_redis_url(&node, 0);
    stage_url(st, url);
    stage_start(st);
    crash_rounds(st, &node, forgets);
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_fini(&node);
    free(url);
}

static void appendfsync_always_forgets_nothing(void **state)
{
    (void)state;
    crash("crash, appendfsync always", RT_REDIS_ALWAYS);
}

static void without_persistence_every_loss_is_told(void **state)
{
    (void)state;
    crash("crash, no persistence", RT_REDIS_FORGETS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appendfsync_always_forgets_nothing),
        cmocka_unit_test(without_persistence_every_loss_is_told),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
