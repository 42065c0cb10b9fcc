/* SPDX-License-Identifier: Apache-2.0 */
/* Contenders are stopped past the ttl, who holds as well as who waits, and go on afterwards. */
#include "keys.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define ROUNDS 3
#define PROCESSES 6

/* One that holds just now; it may have ceased to when it is stopped, which is no harm. */
static uint32_t a_holder(struct stage *st)
{
    for (uint32_t tries = 0; tries < 100000; tries++) {
        uint32_t p = stage_below(st, PROCESSES);

        if (stage_holds(st, p))
            return p;
    }
    return 0;
}

static void stopped_past_the_ttl(void **state)
{
    struct stage_plan plan = {.title = "SIGSTOP past the ttl",
                              .processes = PROCESSES,
                              .threads = 1,
                              .locks = 1,
                              .flags = STAGE_SHARED | STAGE_GIVE_UP | STAGE_STOPS | STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 100,
                              .long_ms = 100};
    struct stage *st = stage_new(&plan);
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++) {
        uint32_t holder = a_holder(st);
        uint32_t other = (holder + 1 + stage_below(st, PROCESSES - 1)) % PROCESSES;

        stage_mark(st);
        stage_stop(st, holder);
        stage_stop(st, other);
        stage_pause(st, TTL_MS + stage_below(st, TTL_MS / 2));
        stage_cont(st, other);
        stage_cont(st, holder);
        stage_pause(st, 100 + stage_below(st, 300));
    }
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_fini(&node);
    free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_past_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
