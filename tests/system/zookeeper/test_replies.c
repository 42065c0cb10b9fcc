/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of request to ZooKeeper, once each: its reply lost, late; the request lost. And sessions that die. */
#include "ensemble.h"
#include "treat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROCESSES 4 /* with a way to the ensemble each; and one more that is killed now and then */
#define TTL_MS 1500

static const struct treat_kind kinds[] = {
    {"acquire, try, share", "create2 /rota", false},
    {"acquire all", "multi create", false},
    {"release", "delete /rota", false},
    {"list", "getChildren", false},
    {"watch", "getData /rota", false},
    {"value, touch", "setData", false},
    {"heartbeat", "sync", false},
    {"tickets", "getEphemerals", false},
    {"events", "deleted", true},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void stir(struct stage *st, void *arg)
{
    (void)arg;
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static void every_request_in_every_way(void **state)
{
    struct stage_plan plan = {.title = "zookeeper: replies lost, late",
                              .processes = PROCESSES + 1,
                              .threads = 2,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 10,
                              .long_ms = 1200,
                              .pause_us = 2000,
                              .spice_permille = 400};
    struct stage *st = stage_new(&plan);
    struct ensemble_way ways[PROCESSES];
    struct treat_line lines[PROCESSES];
    struct treat_plan treat = {.kinds = kinds,
                               .kind_count = KINDS,
                               .lines = lines,
                               .line_count = PROCESSES,
                               .late_ms = TTL_MS * 13 / 10,
                               .rounds = 1 + stage_factor() / 4,
                               .in_order = true,
                               .stir = stir};
    size_t left;

    (void)state;
    stage_url(st, ensemble.url);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        ensemble_way(&ways[i], stage_seed() + 10 * i);
        stage_url_of(st, i, ways[i].url);
        lines[i] = (struct treat_line){ways[i].proxy, ENSEMBLE_SERVERS};
    }
    stage_start(st);
    left = treat_all(st, &treat);
    ensemble_finish(st, true);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < PROCESSES; i++)
        ensemble_way_fini(&ways[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_in_every_way)};

    return cmocka_run_group_tests(tests, ensemble_setup, ensemble_teardown);
}
