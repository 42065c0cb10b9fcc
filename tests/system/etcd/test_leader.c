/* SPDX-License-Identifier: Apache-2.0 */
/* The leader is killed and started again, stopped and resumed, a follower is down: with a ttl well above the
 * time of an election nobody loses anything. */
#include "cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KILLS 5
#define KILLS_TORTURE 12 /* x 17: the 200 of make torture */
#define PAUSES 2
#define ABSENCES 2
#define TTL_MS 10000
#define SHORT_TTL_MS 3000

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

static void kill_leaders(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        size_t leader = cluster_leader(-1);

        stage_pause(st, stage_below(st, 300));
        stage_mark(st);
        rt_server_kill(&cluster.etcds.node[leader].server);
        stage_pause(st, i % 2 == 0 ? 0 : stage_below(st, 2 * CLUSTER_ELECTION_MS));
        rt_etcds_run(&cluster.etcds, leader);
        stage_await_grants(st);
    }
}

/* For MS after another has been elected. */
static void pause_leader(struct stage *st, uint32_t ms)
{
    size_t leader = cluster_leader(-1);

    stage_mark(st);
    rt_server_stop(&cluster.etcds.node[leader].server);
    (void)cluster_leader((int)leader);
    stage_pause(st, ms);
    rt_server_cont(&cluster.etcds.node[leader].server);
    rt_etcds_run(&cluster.etcds, leader);
}

static void pause_leaders(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        pause_leader(st, stage_below(st, CLUSTER_ELECTION_MS));
        stage_await_grants(st);
    }
}

static void down_followers(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
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
        stage_await_grants(st);
    }
}

/* One after the other in one run: begin and end take longer than the faults. */
static void members_fail(void **state)
{
    struct stage_plan plan = plan_of("etcd: leader killed, paused; a follower down");
    struct stage *st = begin(&plan);

    (void)state;
    kill_leaders(st, KILLS);
    pause_leaders(st, PAUSES);
    down_followers(st, ABSENCES);
    cluster_finish(st, false);
}

static void leaders_are_killed(void **state)
{
    struct stage_plan plan = plan_of("etcd: leader killed");
    struct stage *st = begin(&plan);

    (void)state;
    kill_leaders(st, KILLS_TORTURE * stage_factor());
    cluster_finish(st, false);
}

static void leaders_are_paused(void **state)
{
    struct stage_plan plan = plan_of("etcd: leader paused");
    struct stage *st = begin(&plan);

    (void)state;
    pause_leaders(st, PAUSES * stage_factor());
    cluster_finish(st, false);
}

static void followers_are_down(void **state)
{
    struct stage_plan plan = plan_of("etcd: follower down");
    struct stage *st = begin(&plan);

    (void)state;
    down_followers(st, ABSENCES * stage_factor());
    cluster_finish(st, false);
}

/* So long that the leases it knew of are over when it comes back. Another has led meanwhile and kept them
 * alive, and yet it ends them (etcd #15247; since 3.4.34, 3.5.16 and in 3.6 again, as by #18428 a leader whose
 * clock has just ticked does not make sure any more that it leads). All that can be had from that: whoever held
 * is told, and the fence stops what it had under way. */
static void leaders_are_paused_past_the_ttl(void **state)
{
    struct stage_plan plan = plan_of("etcd: leader paused past the ttl");
    struct stage *st;

    (void)state;
    plan.ttl_ms = SHORT_TTL_MS;
    plan.flags |= STAGE_LOSSY;
    st = begin(&plan);
    for (uint32_t i = 0; i < stage_factor(); i++) {
        pause_leader(st, SHORT_TTL_MS + 500);
        stage_pause(st, 500);
    }
    cluster_finish(st, true);
}

int main(void)
{
    const struct CMUnitTest quick[] = {
        cmocka_unit_test(members_fail),
        cmocka_unit_test(leaders_are_paused_past_the_ttl),
    };
    const struct CMUnitTest torture[] = {
        cmocka_unit_test(leaders_are_killed),
        cmocka_unit_test(leaders_are_paused),
        cmocka_unit_test(followers_are_down),
        cmocka_unit_test(leaders_are_paused_past_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return stage_factor() == 1 ? cmocka_run_group_tests(quick, cluster_setup, cluster_teardown)
                               : cmocka_run_group_tests(torture, cluster_setup, cluster_teardown);
}
