/* SPDX-License-Identifier: Apache-2.0 */
/* The leader is killed and started again, stopped and resumed, a follower is down, all are restarted one after the other: with a
 * ttl well above the time of an election nobody loses anything. */
#include "ensemble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define KILLS 3
#define PAUSES 1
#define ABSENCES 2
#define TTL_MS 15000

static struct stage *begin(const char *title)
{
    struct stage_plan plan = {.title = title,
                              .processes = 6,
                              .threads = 1,
                              .locks = 3,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .call_ms = 8000,
                              .long_permille = 40,
                              .long_ms = 1500,
                              .pause_us = 5000};
    struct stage *st = stage_new(&plan);

    stage_url(st, ensemble.url);
    stage_start(st);
    return st;
}

static void kill_leaders(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        size_t leader = ensemble_leader();

        stage_pause(st, stage_below(st, 300));
        stage_mark(st);
        rt_server_kill(&ensemble.zks.node[leader].server);
        stage_pause(st, i % 2 == 0 ? 0 : stage_below(st, 1000));
        rt_zks_run(&ensemble.zks, leader);
        stage_await_grants(st);
    }
}

/* Until another leads: syncLimit is two seconds. */
static void pause_leaders(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        struct rt_server *server = &ensemble.zks.node[ensemble_leader()].server;

        stage_mark(st);
        rt_server_stop(server);
        stage_pause(st, 3000 + stage_below(st, 1000));
        rt_server_cont(server);
        for (size_t k = 0; k < ENSEMBLE_SERVERS; k++)
            rt_zks_run(&ensemble.zks, k);
        stage_await_grants(st);
    }
}

static void down_followers(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        size_t down = (ensemble_leader() + 1 + stage_below(st, ENSEMBLE_SERVERS - 1)) %
                      ENSEMBLE_SERVERS;
        struct rt_server *server = &ensemble.zks.node[down].server;

        stage_mark(st);
        if (i % 2 == 0)
            rt_server_kill(server);
        else
            rt_server_stop(server);
        stage_pause(st, 1000 + stage_below(st, 1000));
        if (i % 2 != 0)
            rt_server_cont(server);
        rt_zks_run(&ensemble.zks, down);
        stage_await_grants(st);
    }
}

static void restart_all(struct stage *st)
{
    for (size_t i = 0; i < ENSEMBLE_SERVERS; i++) {
        stage_mark(st);
        rt_server_term(&ensemble.zks.node[i].server);
        rt_zks_run(&ensemble.zks, i);
        stage_await_grants(st);
    }
}

static void servers_fail(void **state)
{
    struct stage *st = begin("zookeeper: leader killed, paused; a follower down; all restarted");

    (void)state;
    kill_leaders(st, KILLS * stage_factor());
    down_followers(st, ABSENCES * stage_factor());
    pause_leaders(st, PAUSES * stage_factor());
    restart_all(st);
    ensemble_finish(st, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(servers_fail)};

    return cmocka_run_group_tests(tests, ensemble_setup, ensemble_teardown);
}
