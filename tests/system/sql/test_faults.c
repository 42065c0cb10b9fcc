/* SPDX-License-Identifier: Apache-2.0 */
/* A SQL server is killed and started again, its connections are ended one by one, contenders die and are stopped:
 * nobody holds what another holds, fences grow, a broken connection frees nothing, and nothing stays behind. */
#include "house.h"
#include "scenes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define LONG_TTL_MS 10000 /* so long that nobody loses anything on a slow machine either */
#define ROUNDS 3

static struct stage *begin(const char *title, uint32_t ttl_ms, uint32_t more)
{
    struct stage *st = house_stage(title, 2, ttl_ms, more);
    char *url = house->url(0);
    stage_url(st, url);
    free(url);
    stage_start(st);
    return st;
}

/* For less and for more than the ttl. */
static void killed_and_started_again(void **state)
{
    struct stage *st = begin("server killed", TTL_MS, 0);
    (void)state;
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++) {
        stage_pause(st, 300 + stage_below(st, 500));
        stage_mark(st);
        house->kill();
        stage_pause(st, i % ROUNDS == 1 ? TTL_MS * 13 / 10 : stage_below(st, 300));
        house->run();
    }
    stage_pause(st, 500);
    house_finish(st, true);
}

/* All that was held is still held: a session is not its connection. */
static void connections_killed_one_by_one(void **state)
{
    struct stage *st = begin("connections killed", LONG_TTL_MS, 0);
    uint32_t cut = 0, stopped = 0;
    (void)state;
    for (uint32_t i = 0; i < 60 * stage_factor(); i++) {
        stage_mark(st);
        bool stop = i % 3 == 2;
        bool hit = house_ask("%s", stop ? house->stop_one : house->cut_one)[0] != '\0';
        cut += hit && !stop;
        stopped += hit && stop;
        stage_pause(st, stage_below(st, 80));
    }
    print_message("%u connections ended, %u statements\n", cut, stopped);
    assert_true(cut > 0 && stopped > 0);
    house_finish(st, false);
}

static void contenders_killed(void **state)
{
    struct stage *st = begin("contenders killed", TTL_MS, 0);
    (void)state;
    scene_kill(st, 10 * stage_factor());
    house_finish(st, true);
}

static void contenders_stopped(void **state)
{
    struct stage *st = begin("contenders stopped", TTL_MS, STAGE_STOPS);
    (void)state;
    scene_stop(st, 3 * stage_factor());
    house_finish(st, true);
}

static void who_was_stopped_sees_it_first(void **state)
{
    char *url = house->url(0);
    (void)state;
    scene_first_look(url, TTL_MS);
    house_swept();
    free(url);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_and_started_again),
        cmocka_unit_test(connections_killed_one_by_one),
        cmocka_unit_test(contenders_killed),
        cmocka_unit_test(contenders_stopped),
        cmocka_unit_test(who_was_stopped_sees_it_first),
    };
    if (!house_choose(argc, argv))
        return 64;
    return cmocka_run_group_tests(tests, house_setup, house_teardown);
}
