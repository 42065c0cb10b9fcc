/* SPDX-License-Identifier: Apache-2.0 */
/* Contenders, holders as well as waiters, are killed at random, and stopped past the ttl. */
#include "scenes.h"
#include "trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KILLS 8
#define STOPS 2
#define TTL_MS 1000

static void killed_at_random(void **state)
{
    struct stage_plan plan = {.title = trio_title("contenders killed"),
                              .processes = 6,
                              .threads = 2,
                              .locks = 3,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 20,
                              .long_ms = 200,
                              .pause_us = 2000};
    struct stage *st = stage_new(&plan);

    (void)state;
    stage_url(st, trio_url);
    stage_start(st);
    scene_kill(st, KILLS * stage_factor());
    trio_finish(st, true);
}

static void stopped_past_the_ttl(void **state)
{
    struct stage_plan plan = {.title = trio_title("SIGSTOP past the ttl"),
                              .processes = 5,
                              .threads = 1,
                              .locks = 1,
                              .flags = STAGE_SHARED | STAGE_GIVE_UP | STAGE_STOPS | STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 100,
                              .long_ms = 300,
                              .pause_us = 2000};
    struct stage *st = stage_new(&plan);

    (void)state;
    stage_url(st, trio_url);
    stage_start(st);
    scene_stop(st, STOPS * stage_factor());
    trio_finish(st, true);
}

static void the_first_look_after_a_stop_says_it_is_over(void **state)
{
    (void)state;
    scene_first_look(trio_url, TTL_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_look_after_a_stop_says_it_is_over),
        cmocka_unit_test(killed_at_random),
        cmocka_unit_test(stopped_past_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, trio_setup, trio_teardown);
}
