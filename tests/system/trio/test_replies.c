/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of request, once each: its reply lost, doubled, late; the request doubled, lost. */
#include "lib/players.h"
#include "trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROCESSES_MAX 6
#define LONG_TTL_MS 6000 /* where nothing may be lost, and a heartbeat comes soon */

/* Provokes the rare requests: an event tells the one that waits for a dead one; others come anew. */
static void stir(struct stage *st, void *arg)
{
    (void)arg;
    stage_kill(st, trio.replies_processes);
    stage_spawn(st, trio.replies_processes);
}

/* Each with a way to the servers of its own; and one more that is killed now and then. */
static void every_request_in_every_way(void **state)
{
    const uint32_t processes = trio.replies_processes;
    struct stage_plan plan = {.title = trio_title("replies lost, doubled, late"),
                              .processes = processes + 1,
                              .threads = 2,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = trio.replies_ttl_ms,
                              .long_permille = 10,
                              .long_ms = 1200,
                              .pause_us = 2000,
                              .spice_permille = 400};
    struct stage *st = stage_new(&plan);
    struct trio_way ways[PROCESSES_MAX];
    struct treat_line lines[PROCESSES_MAX];
    struct treat_plan treat = {.kinds = trio.kinds,
                               .kind_count = trio.kind_count,
                               .lines = lines,
                               .line_count = processes,
                               .late_ms = trio.replies_ttl_ms * 13 / 10,
                               .rounds = 1 + stage_factor() / 4,
                               .in_order = trio.in_order,
                               .stir = stir};
    size_t left;

    (void)state;
    assert_true(processes <= PROCESSES_MAX);
    stage_url(st, trio_url);
    for (uint32_t i = 0; i < processes; i++) {
        trio_way(&ways[i], stage_seed() + 10 * i);
        stage_url_of(st, i, ways[i].url);
        lines[i] = (struct treat_line){ways[i].proxy, TRIO_SERVERS};
    }
    stage_start(st);
    left = treat_all(st, &treat);
    trio_finish(st, true);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < processes; i++)
        trio_way_fini(&ways[i]);
}

static uint64_t hits(struct trio_way *way, const uint32_t *faults)
{
    uint64_t n = 0;

    for (size_t i = 0; i < TRIO_SERVERS; i++)
        n += rt_proxy_fault_hits(way->proxy[i], faults[i]);
    return n;
}

/* Whether the case arose: on a slow machine the waiter may have begun to watch when the holder had already left,
 * and needs no event. */
static bool lose_an_event(struct rota *a, struct rota *b, struct trio_way *way)
{
    struct rt_fault lose = {.on = RT_FAULT_PUSH, .what = RT_FAULT_DROP, .match = trio.event};
    struct rota_lock *held = player_take(a, "prize", NULL);
    uint32_t faults[TRIO_SERVERS];
    struct player_wish wish;
    bool lost;

    player_wish(b, "prize", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "prize", 2);
    for (size_t i = 0; i < TRIO_SERVERS; i++)
        faults[i] = rt_proxy_fault(way->proxy[i], &lose);
    assert_int_equal(rota_release(held), 0);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    lost = hits(way, faults) > 0;
    for (size_t i = 0; i < TRIO_SERVERS; i++)
        rt_proxy_fault_end(way->proxy[i], faults[i]);
    return lost;
}

/* Nothing follows the lost event, so only the heartbeat's look reveals it. */
static void a_lost_event_is_made_up_for(void **state)
{
    struct rota *a = player(trio_url, LONG_TTL_MS, 0), *b;
    struct trio_way way;
    int lost = 0;

    (void)state;
    trio_way(&way, 1);
    b = player(way.url, LONG_TTL_MS, 0);
    for (int i = 0; i < 30 && lost < 3; i++)
        lost += lose_an_event(a, b, &way);
    assert_int_equal(lost, 3);
    rota_close(a);
    rota_close(b);
    trio_way_fini(&way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_event_is_made_up_for),
        cmocka_unit_test(every_request_in_every_way),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, trio_setup, trio_teardown);
}
