/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of request to etcd, once each: its reply lost, doubled, late; the request doubled, lost. */
#include "cluster.h"
#include "lib/players.h"
#include "treat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROCESSES 6 /* with a way to the cluster each; and one more that is killed now and then */
#define TTL_MS 1000
#define LONG_TTL_MS 3000 /* where nothing may be lost */

static const struct treat_kind kinds[] = {
    {"acquire, try, share", "KV/Txn put,range #", false},
    {"acquire all", "KV/Txn put,put", false},
    {"release", "KV/Txn delete", false},
    {"look", "KV/Txn range,range #", false},
    {"look at a line, check", "KV/Txn range #", false},
    {"value", "KV/Txn range,put #", false},
    {"inspect, list", "KV/Range", false},
    {"session's key", "KV/Put", false},
    {"lease granted", "Lease/LeaseGrant", false},
    {"lease revoked", "Lease/LeaseRevoke", false},
    {"keep-alive", "Lease/LeaseKeepAlive", false},
    {"keys of the lease", "Lease/LeaseTimeToLive", false},
    {"watch created", "Watch/Watch create", false},
    {"watch canceled", "Watch/Watch cancel", false},
    {"greeting", "Maintenance/Status", false},
    {"events", "Watch/Watch events", true},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* So that the rare requests come: who waits for a dead one is told by an event; others come anew. */
static void stir(struct stage *st, void *arg)
{
    (void)arg;
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static void every_request_in_every_way(void **state)
{
    struct stage_plan plan = {.title = "etcd: replies lost, doubled, late",
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
    struct cluster_way ways[PROCESSES];
    struct treat_line lines[PROCESSES];
    struct treat_plan treat = {.kinds = kinds,
                               .kind_count = KINDS,
                               .lines = lines,
                               .line_count = PROCESSES,
                               .late_ms = TTL_MS * 13 / 10,
                               .rounds = 1 + stage_factor() / 4,
                               .stir = stir};
    size_t left;

    (void)state;
    stage_url(st, cluster.url);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        cluster_way(&ways[i], stage_seed() + 10 * i);
        stage_url_of(st, i, ways[i].url);
        lines[i] = (struct treat_line){ways[i].proxy, CLUSTER_NODES};
    }
    stage_start(st);
    left = treat_all(st, &treat);
    cluster_finish(st, true);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < PROCESSES; i++)
        cluster_way_fini(&ways[i]);
}

static uint64_t hits(struct cluster_way *way, const uint32_t *faults)
{
    uint64_t n = 0;

    for (size_t i = 0; i < CLUSTER_NODES; i++)
        n += rt_proxy_fault_hits(way->proxy[i], faults[i]);
    return n;
}

/* Whether it came about: on a machine that was slow the waiter may have begun to watch when the holder had left
 * already, and needs no event. */
static bool lose_an_event(struct rota *a, struct rota *b, struct cluster_way *way)
{
    struct rt_fault lose = {
        .on = RT_FAULT_PUSH, .what = RT_FAULT_DROP, .match = "Watch/Watch events"};
    struct rota_lock *held = player_take(a, "prize", NULL);
    uint32_t faults[CLUSTER_NODES];
    struct player_wish wish;
    bool lost;

    player_wish(b, "prize", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "prize", 2);
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        faults[i] = rt_proxy_fault(way->proxy[i], &lose);
    assert_int_equal(rota_release(held), 0);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    lost = hits(way, faults) > 0;
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        rt_proxy_fault_end(way->proxy[i], faults[i]);
    return lost;
}

/* Nothing follows the event that is lost, so nothing shows it but the heartbeat's look. */
static void a_lost_event_is_made_up_for(void **state)
{
    struct rota *a = player(cluster.url, LONG_TTL_MS, 0), *b;
    struct cluster_way way;
    int lost = 0;

    (void)state;
    cluster_way(&way, 1);
    b = player(way.url, LONG_TTL_MS, 0);
    for (int i = 0; i < 30 && lost < 3; i++)
        lost += lose_an_event(a, b, &way);
    assert_int_equal(lost, 3);
    rota_close(a);
    rota_close(b);
    cluster_way_fini(&way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_event_is_made_up_for),
        cmocka_unit_test(every_request_in_every_way),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, cluster_setup, cluster_teardown);
}
