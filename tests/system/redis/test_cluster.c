/* SPDX-License-Identifier: Apache-2.0 */
/* Rooms move between the nodes of a cluster, and its primaries change, under contenders. */
#include "keys.h"
#include "lib/history.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT_MS 30000
#define MOVES 6
#define FAILOVERS 2

struct ring {
    struct stage *st;
    struct rt_redis_cluster *cluster;
    struct redis_nodes nodes;
};

static void ring_open(struct ring *r, const char *title, uint32_t flags)
{
    struct stage_plan plan = {.title = title,
                              .processes = 8,
                              .threads = 1,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE | flags,
                              .call_ms = 5000,
                              .long_permille = 10,
                              .long_ms = 800,
                              .pause_us = 1000};
    char *url;

    r->st = stage_new(&plan);
    r->cluster = rt_redis_cluster_new(NULL, false, stage_seed());
    r->nodes = (struct redis_nodes){r->cluster->node, 6};
    url = rt_redis_cluster_url(r->cluster);
    stage_url(r->st, url);
    stage_start(r->st);
    free(url);
}

static void ring_close(struct ring *r)
{
    assert_true(rt_redis_cluster_ok(r->cluster, LIMIT_MS));
    assert_int_equal(stage_finish(r->st, redis_keys_left, &r->nodes), 0);
    stage_free(r->st);
    rt_redis_cluster_free(r->cluster);
}

/* The slot of some key that is on NODE just now; RT_CLUSTER_SLOTS: there is none. */
static unsigned slot_in_use(struct ring *r, int node)
{
    redisReply *reply = rt_redis_do(&r->cluster->node[node], "KEYS rota:*");
    unsigned slot = RT_CLUSTER_SLOTS;

    if (reply != NULL && reply->elements > 0)
        slot = rt_redis_cluster_slot(
            r->cluster, reply->element[stage_below(r->st, (uint32_t)reply->elements)]->str);
    freeReplyObject(reply);
    return slot;
}

static void rooms_move(void **state)
{
    struct ring r;

    (void)state;
    ring_open(&r, "rooms moved", 0);
    for (uint32_t i = 0; i < MOVES * stage_factor(); i++) {
        int from = (int)stage_below(r.st, 3), to = (from + 1 + (int)stage_below(r.st, 2)) % 3;
        unsigned slot = slot_in_use(&r, from);

        stage_pause(r.st, 100 + stage_below(r.st, 200));
        if (slot == RT_CLUSTER_SLOTS)
            continue;
        stage_mark(r.st);
        rt_redis_cluster_move_begin(r.cluster, slot, from, to);
        stage_pause(r.st, stage_below(r.st, 50)); /* some stand here, some there */
        rt_redis_cluster_move_keys(r.cluster, slot, from, to);
        stage_pause(r.st, stage_below(r.st, 20));
        rt_redis_cluster_move_end(r.cluster, slot, from, to);
    }
    stage_pause(r.st, 200);
    ring_close(&r);
}

/* ---- Primaries change -------------------------------------------------------- */

static bool is_primary(struct ring *r, int node)
{
    return strcmp(rt_redis_info(&r->cluster->node[node], "replication", "role"), "master") == 0;
}

struct pair { /* a primary and its replica */
    struct ring *ring;
    int primary, replica;
};

/* Both have heard of the last change. */
static bool is_pair(void *arg)
{
    struct pair *p = arg;

    if (is_primary(p->ring, p->primary) && !is_primary(p->ring, p->replica))
        return true;
    if (!is_primary(p->ring, p->primary) && is_primary(p->ring, p->replica)) {
        int old = p->primary;

        p->primary = p->replica;
        p->replica = old;
        return true;
    }
    return false;
}

static bool took_over(void *arg)
{
    const struct pair *p = arg;

    return is_primary(p->ring, p->replica);
}

/* A failover, requested or after kill -9 of the primary. */
static void change_primary(struct pair *p, bool killed)
{
    struct rt_redis_cluster *c = p->ring->cluster;
    int64_t from = rt_history_now();

    stage_mark(p->ring->st);
    if (!killed) {
        /* The replica gives up a failover that takes long, as on a busy machine. */
        for (int tries = 0; !rt_redis_cluster_failover(c, p->replica, LIMIT_MS / 4); tries++) {
            assert_true(tries < 6);
            if (took_over(p))
                break;
        }
        return;
    }
    rt_redis_kill(&c->node[p->primary]);
    assert_true(rt_await(took_over, p, LIMIT_MS));
    print_message("its replica took over after %lld ms\n",
                  (long long)(rt_history_now() - from) / 1000000);
    rt_redis_run(&c->node[p->primary]);
    assert_true(rt_redis_cluster_ok(c, LIMIT_MS));
}

static void primaries_change(void **state)
{
    struct ring r;

    (void)state;
    ring_open(&r, "cluster failovers", STAGE_LOSSY);
    for (uint32_t i = 0; i < FAILOVERS * stage_factor(); i++) {
        int node = (int)stage_below(r.st, 3);
        struct pair p = {&r, node, node + 3};

        stage_pause(r.st, 300 + stage_below(r.st, 300));
        assert_true(rt_await(is_pair, &p, LIMIT_MS));
        change_primary(&p, i % 2 == 1);
    }
    stage_pause(r.st, 500);
    ring_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_move),
        cmocka_unit_test(primaries_change),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
