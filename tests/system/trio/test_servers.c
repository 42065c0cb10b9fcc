/* SPDX-License-Identifier: Apache-2.0 */
/* The leader is killed and started again, stopped and resumed, a follower is down, all are restarted one after the
 * other: with a ttl well above the time of an election nobody loses anything. */
#include "trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KILLS_TORTURE 12 /* x 17: the 200 of make torture */
#define ABSENCES 2
#define SHORT_TTL_MS 3000

static struct stage_plan plan_of(const char *of)
{
    return (struct stage_plan){.title = trio_title(of),
                               .processes = 6,
                               .threads = 1,
                               .locks = 3,
                               .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                        STAGE_SPICE,
                               .ttl_ms = trio.ttl_ms,
                               .call_ms = trio.ttl_ms / 2,
                               .long_permille = 40,
                               .long_ms = 1500,
                               .pause_us = 5000};
}

static struct stage *begin(const struct stage_plan *plan)
{
    struct stage *st = stage_new(plan);

    stage_url(st, trio_url);
    stage_start(st);
    return st;
}

static void kill_leaders(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        size_t leader = trio_leader(-1);

        stage_pause(st, stage_below(st, 300));
        stage_mark(st);
        rt_server_kill(trio.server(leader));
        stage_pause(st, i % 2 == 0 ? 0 : stage_below(st, 1000));
        trio.run(leader);
        stage_await_grants(st);
    }
}

/* For MS after another has been elected. */
static void pause_leader(struct stage *st, uint32_t ms)
{
    size_t leader = trio_leader(-1);

    stage_mark(st);
    rt_server_stop(trio.server(leader));
    (void)trio_leader((int)leader);
    stage_pause(st, ms);
    rt_server_cont(trio.server(leader));
    trio.run(leader);
}

static void pause_leaders(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        pause_leader(st, stage_below(st, trio.election_ms));
        stage_await_grants(st);
    }
}

static void down_followers(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        size_t down = (trio_leader(-1) + 1 + stage_below(st, TRIO_SERVERS - 1)) % TRIO_SERVERS;

        stage_mark(st);
        if (i % 2 == 0)
            rt_server_kill(trio.server(down));
        else
            rt_server_stop(trio.server(down));
        stage_pause(st, 1000 + stage_below(st, 1000));
        if (i % 2 != 0)
            rt_server_cont(trio.server(down));
        trio.run(down);
        stage_await_grants(st);
    }
}

static void restart_all(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds * TRIO_SERVERS; i++) {
        stage_mark(st);
        rt_server_term(trio.server(i % TRIO_SERVERS));
        trio.run(i % TRIO_SERVERS);
        stage_await_grants(st);
    }
}

/* One after the other in one run: start and finish take longer than the faults. */
static void servers_fail(void **state)
{
    struct stage_plan plan = plan_of("leader killed, paused; a follower down; all restarted");
    struct stage *st = begin(&plan);

    (void)state;
    kill_leaders(st, trio.kills);
    pause_leaders(st, trio.pauses);
    down_followers(st, ABSENCES);
    restart_all(st, 1);
    trio_finish(st, false);
}

static void leaders_are_killed(void **state)
{
    struct stage_plan plan = plan_of("leader killed");
    struct stage *st = begin(&plan);

    (void)state;
    kill_leaders(st, KILLS_TORTURE * stage_factor());
    trio_finish(st, false);
}

static void leaders_are_paused(void **state)
{
    struct stage_plan plan = plan_of("leader paused");
    struct stage *st = begin(&plan);

    (void)state;
    pause_leaders(st, trio.pauses * stage_factor());
    trio_finish(st, false);
}

static void followers_are_down(void **state)
{
    struct stage_plan plan = plan_of("follower down");
    struct stage *st = begin(&plan);

    (void)state;
    down_followers(st, ABSENCES * stage_factor());
    trio_finish(st, false);
}

static void all_are_restarted(void **state)
{
    struct stage_plan plan = plan_of("all restarted, one after the other");
    struct stage *st = begin(&plan);

    (void)state;
    restart_all(st, stage_factor());
    trio_finish(st, false);
}

/* Sessions end because nobody leads for so long: holders are told, and nobody else holds at the same time. */
static void leaders_are_paused_past_the_ttl(void **state)
{
    struct stage_plan plan = plan_of("leader paused past the ttl");
    struct stage *st;

    (void)state;
    plan.ttl_ms = SHORT_TTL_MS;
    plan.call_ms = 5000;
    plan.flags |= trio.forgets ? STAGE_LOSSY : 0;
    st = begin(&plan);
    for (uint32_t i = 0; i < stage_factor(); i++) {
        pause_leader(st, SHORT_TTL_MS + 500);
        stage_pause(st, 500);
    }
    trio_finish(st, true);
}

int main(void)
{
    const struct CMUnitTest quick[] = {
        cmocka_unit_test(servers_fail),
        cmocka_unit_test(leaders_are_paused_past_the_ttl),
    };
    const struct CMUnitTest torture[] = {
        cmocka_unit_test(leaders_are_killed),
        cmocka_unit_test(leaders_are_paused),
        cmocka_unit_test(followers_are_down),
        cmocka_unit_test(all_are_restarted),
        cmocka_unit_test(leaders_are_paused_past_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return stage_factor() == 1 ? cmocka_run_group_tests(quick, trio_setup, trio_teardown)
                               : cmocka_run_group_tests(torture, trio_setup, trio_teardown);
}
