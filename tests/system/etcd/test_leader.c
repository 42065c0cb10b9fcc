/* SPDX-License-Identifier: Apache-2.0 */
/* The leader is killed and started again, stopped and resumed, a follower is down: with a ttl well above the
 * time of an election nobody loses anything. */
#include "cluster.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KILLS 5 /* x 40: the 200 of make torture SUITE=etcd FACTOR=40 */
#define PAUSES 2
#define ABSENCES 2
#define TTL_MS 10000

static struct stage_plan plan_of(const char *title)
{
    return (struct stage_plan){.title = title,
                               .processes = 6,
                               .threads = 1,
                               .locks = 3,
                               .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                        STAGE_SPICE,
                               .ttl_ms = TTL_MS,
                               .call_ms = 5000,
                               .long_permille = 40,
                               .long_ms = 1500,
                               .pause_us = 5000};
}

static struct stage *begin(const struct stage_plan *plan)
{
    struct stage *st = stage_new(plan);

    stage_url(st, cluster.url);
    stage_start(st);
    return st;
}

/* All that was held is held still, who waited waits still. */
static void nobody_lost_anything(struct stage *st)
{
    size_t found = stage_finish(st, cluster_left, NULL);

    assert_int_equal(stage_lost(st), 0);
    assert_int_equal(stage_errors(st, ROTA_LOST), 0);
    assert_int_equal(found, 0);
    stage_free(st);
}

static void leaders_are_killed(void **state)
{
    struct stage_plan plan = plan_of("leader killed");
    struct stage *st = begin(&plan);

    (void)state;
    for (uint32_t i = 0; i < KILLS * stage_factor(); i++) {
        size_t leader = cluster_leader(-1);

        stage_pause(st, stage_below(st, 300));
        stage_mark(st);
        rt_server_kill(&cluster.etcds.node[leader].server);
        stage_pause(st, i % 2 == 0 ? 0 : stage_below(st, 2 * CLUSTER_ELECTION_MS));
        rt_etcds_run(&cluster.etcds, leader);
    }
    nobody_lost_anything(st);
}

static void leaders_are_paused(void **state)
{
    struct stage_plan plan = plan_of("leader paused");
    struct stage *st = begin(&plan);

    (void)state;
    for (uint32_t i = 0; i < PAUSES * stage_factor(); i++) {
        size_t leader = cluster_leader(-1);

        stage_mark(st);
        rt_server_stop(&cluster.etcds.node[leader].server);
        (void)cluster_leader((int)leader);
        stage_pause(st, stage_below(st, CLUSTER_ELECTION_MS));
        rt_server_cont(&cluster.etcds.node[leader].server);
        rt_etcds_run(&cluster.etcds, leader);
        stage_pause(st, 300);
    }
    nobody_lost_anything(st);
}

static void followers_are_down(void **state)
{
    struct stage_plan plan = plan_of("follower down");
    struct stage *st = begin(&plan);

    (void)state;
    for (uint32_t i = 0; i < ABSENCES * stage_factor(); i++) {
        size_t leader = cluster_leader(-1);
        size_t down = (leader + 1 + stage_below(st, CLUSTER_NODES - 1)) % CLUSTER_NODES;
        struct rt_server *server = &cluster.etcds.node[down].server;

        stage_mark(st);
        if (i % 2 == 0)
            rt_server_kill(server);
        else
            rt_server_stop(server);
        stage_pause(st, 1000 + stage_below(st, 1000));
        if (i % 2 != 0)
            rt_server_cont(server);
        rt_etcds_run(&cluster.etcds, down);
    }
    nobody_lost_anything(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaders_are_killed),
        cmocka_unit_test(leaders_are_paused),
        cmocka_unit_test(followers_are_down),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, cluster_setup, cluster_teardown);
}
