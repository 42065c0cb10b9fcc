/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes are killed, stopped, and come back without their data, under contenders: with two of five away locks go on, two
 * never hold, and fences grow; every loss is reported. */
#include "five.h"
#include "lib/history.h"
#include "stage.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define COUNTS_S \
    3 /* a node counts once up this long, it says: the ttl, and a second by which it may overstate */
#define ROUNDS 2

static const struct stage_plan base = {.processes = 6,
                                       .threads = 1,
                                       .locks = 2,
                                       .flags = STAGE_TRY | STAGE_GIVE_UP,
                                       .ttl_ms = TTL_MS,
                                       .long_permille = 3,
                                       .long_ms = 1300,
                                       .pause_us = 1000};

/* Hardly anybody waits, so that many are granted: for fences. */
static const struct stage_plan crowd = {.processes = 4,
                                        .threads = 1,
                                        .locks = 4,
                                        .flags = STAGE_TRY | STAGE_GIVE_UP,
                                        .ttl_ms = TTL_MS,
                                        .pause_us = 5000};

/* Two of five, at random. */
static void draw(struct stage *st, int *a, int *b)
{
    *a = (int)stage_below(st, RT_REDLOCK_FIVE);
    *b = (*a + 1 + (int)stage_below(st, RT_REDLOCK_FIVE - 1)) % RT_REDLOCK_FIVE;
}

static void go_on(struct stage *st)
{
    stage_mark(st);
    stage_await_grants(st);
    stage_pause(st, 200 + stage_below(st, 300));
}

/* One dies, then another; both come back empty, and count again before the next do. */
static void kill_round(struct stage *st, struct rt_redis_redlock *r)
{
    int a, b;

    draw(st, &a, &b);
    rt_redis_kill(&r->node[a]);
    go_on(st);
    rt_redis_kill(&r->node[b]);
    go_on(st);
    rt_redis_run(&r->node[a]);
    go_on(st);
    rt_redis_run(&r->node[b]);
    go_on(st);
    five_up_for(r, COUNTS_S);
}

static void stop_round(struct stage *st, struct rt_redis_redlock *r)
{
    int a, b;

    draw(st, &a, &b);
    rt_server_stop(&r->node[a].server);
    go_on(st);
    rt_server_stop(&r->node[b].server);
    go_on(st);
    stage_pause(st, TTL_MS + 200); /* beyond the ttl: what they have is over when they go on */
    rt_server_cont(&r->node[a].server);
    rt_server_cont(&r->node[b].server);
    go_on(st);
}

static void play(struct stage_plan plan, const char *title,
                 void (*rounds)(struct stage *st, struct rt_redis_redlock *r))
{
    struct rt_redis_redlock *r;
    struct stage *st;
    char *url;

    plan.title = title;
    st = stage_new(&plan);
    r = rt_redis_redlock_new(NULL, false, 0);
    url = rt_redis_redlock_url(r, "max_ttl=1s");
    five_up_for(r, COUNTS_S);
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++)
        rounds(st, r);
    stage_pause(st, 300);
    print_message("granted %llu, losses told %llu, unreachable %llu\n",
                  (unsigned long long)stage_granted(st), (unsigned long long)stage_lost(st),
                  (unsigned long long)stage_errors(st, ROTA_UNREACHABLE));
    assert_int_equal(stage_finish(st, five_keys_left, r), 0);
    stage_free(st);
    rt_redis_redlock_free(r);
    free(url);
}

static void two_of_five_die_and_forget(void **state)
{
    (void)state;
    play(base, "two of five killed, and back without data", kill_round);
}

static void two_of_five_hang(void **state)
{
    (void)state;
    play(base, "two of five stopped for longer than the ttl", stop_round);
}

/* The long version hardly pauses: it is there for many grants. */
static void fences_grow(void **state)
{
    struct stage_plan plan = crowd;
    (void)state;
    if (stage_factor() > 1)
        plan.pause_us = 100;
    play(plan, "fences, two of five killed at random", kill_round);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_of_five_die_and_forget),
        cmocka_unit_test(two_of_five_hang),
        cmocka_unit_test(fences_grow),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
