/* SPDX-License-Identifier: Apache-2.0 */
/* One node of a cluster is mute or late, the others are well: no hold lasts longer than its own node promised. */
#include "engine/redis/redis.h"
#include "keys.h"
#include "lib/checker.h"
#include "lib/recorded.h"
#include "stage.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_MS 30000
#define ROUNDS 6

struct ring {
    struct rt_redis_cluster *cluster;
    char *url;
    int home;       /* the node of room 0, where sessions begin */
    int far;        /* another */
    char warm[16];  /* a name in a room there, to have a link */
    char name[16];  /* one in another room there */
    uint32_t room;  /* of that */
    uint32_t beats; /* the fault that counts heartbeats at home */
};

/* ---- Names -------------------------------------------------------------------- */

static int node_of(struct ring *r, uint32_t room)
{
    char key[32];

    snprintf(key, sizeof(key), "rota:{%u}", room);
    return rt_redis_cluster_owner(r->cluster, 0, rt_redis_cluster_slot(r->cluster, key));
}

/* The first name from the Nth on that is in a room at the far node; returns which room. */
static uint32_t find_name(struct ring *r, int n, char out[16])
{
    static struct rt_redis_conn rooms = {.room_count = RT_REDIS_ROOMS_CLUSTER};
    uint32_t room;

    do {
        snprintf(out, 16, "name%d", n++);
        room = rt_redis_room_of(&rooms, out);
    } while (node_of(r, room) != r->far);
    return room;
}

static void ring_open(struct ring *r)
{
    const struct rt_fault beats = {
        .on = RT_FAULT_REPLY,
        .match = rt_redis_script_text(RT_REDIS_SCRIPT_BEAT, true)->sha1,
        .times = RT_FAULT_ALWAYS,
    };

    r->cluster = rt_redis_cluster_new(NULL, true, stage_seed());
    r->url = rt_redis_cluster_url(r->cluster);
    r->home = node_of(r, 0);
    r->far = (r->home + 1) % 3;
    uint32_t warm = find_name(r, 0, r->warm);
    for (int n = 1; (r->room = find_name(r, n, r->name)) == warm; n++)
        continue;
    r->beats = rt_proxy_fault(r->cluster->proxy[r->home], &beats);
}

static void ring_close(struct ring *r)
{
    free(r->url);
    rt_redis_cluster_free(r->cluster);
}

/* ---- One who asks --------------------------------------------------------------- */

struct asker {
    struct ring *ring;
    struct rt_actor actor;
    struct rt_held held;
    pthread_t thread;
    int err;
};

static void open_asker(struct asker *a, struct ring *r, struct rt_history *h, uint32_t ttl_ms)
{
    struct rota_options options = {.ttl_ms = ttl_ms};

    *a = (struct asker){.ring = r, .actor = {.history = h, .client = rt_history_client(h)}};
    assert_int_equal(rota_open(&a->actor.rota, r->url, &options), 0);
}

static void *ask_name(void *arg)
{
    struct asker *a = arg;

    a->err = rt_recorded_acquire(&a->actor, a->ring->name, NULL, &a->held);
    return NULL;
}

static void begin_asking(struct asker *a)
{
    assert_int_equal(pthread_create(&a->thread, NULL, ask_name, a), 0);
}

static void await_granted(struct asker *a)
{
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    assert_int_equal(a->err, 0);
}

/* A session that has a link to the far node and does not stand in the room of the name; its last heartbeat was
 * MS ago. */
static void come_near(struct asker *a, uint32_t ms)
{
    struct ring *r = a->ring;
    struct rt_proxy *home = r->cluster->proxy[r->home];
    struct rt_held warm;

    assert_int_equal(rt_recorded_acquire(&a->actor, r->warm, NULL, &warm), 0);
    assert_int_equal(rt_recorded_release(&a->actor, &warm), 0);
    uint64_t seen = rt_proxy_fault_hits(home, r->beats);
    assert_true(rt_proxy_await_hits(home, r->beats, seen + 1, LIMIT_MS));
    usleep(ms * 1000);
}

/* What is left of the only session in the room of the name, as its node has it. */
static int64_t server_left_ms(struct ring *r)
{
    struct rt_redis *node = &r->cluster->node[r->far];
    redisReply *e = rt_redis_do(node, "ZRANGE rota:{%u}:e 0 -1 WITHSCORES", r->room);
    redisReply *now = rt_redis_do(node, "TIME");

    assert_int_equal(e->elements, 2);
    int64_t ms = atoll(now->element[0]->str) * 1000 + atoll(now->element[1]->str) / 1000;
    int64_t left = atoll(e->element[1]->str) / 1000 - ms;
    freeReplyObject(now);
    freeReplyObject(e);
    return left;
}

/* ---- The history ---------------------------------------------------------------- */

struct log {
    char folder[64];
    struct rt_history *history;
};

static void log_open(struct log *log)
{
    snprintf(log->folder, sizeof(log->folder), "/tmp/rota-rooms-XXXXXX");
    assert_non_null(mkdtemp(log->folder));
    assert_int_equal(rt_history_open(&log->history, log->folder, 64), 0);
}

static void log_check(struct log *log)
{
    struct rt_report report = {0};
    struct rt_record *records;
    char command[96];
    size_t n;

    rt_history_close(log->history);
    assert_int_equal(rt_history_load(log->folder, &records, &n), 0);
    rt_check_locks(records, n, NULL, &report);
    rt_check_beliefs(records, n, &report);
    free(records);
    snprintf(command, sizeof(command), "rm -r %s", log->folder);
    assert_int_equal(system(command), 0);
    if (report.total > 0)
        fail_msg("%s", report.text);
}

/* ---- Mute ------------------------------------------------------------------------- */

#define TTL_MS 6000

/*   0 a heartbeat   0.3 asks   0.33, 0.67, 1 heartbeats    1.15 heard again    1.3 made + ttl    1.33 the next
 *
 * So between 1.15 and 1.33 only the room itself can say how long its session lives. */
static void a_node_is_mute(void **state)
{
    struct asker first, second;
    struct ring r;
    struct log log;

    (void)state;
    log_open(&log);
    ring_open(&r);
    open_asker(&first, &r, log.history, TTL_MS);
    open_asker(&second, &r, log.history, TTL_MS);
    come_near(&first, TTL_MS * 3 / 10);
    rt_proxy_lose(r.cluster->proxy[r.far], RT_PROXY_DOWN);
    begin_asking(&first);
    usleep(TTL_MS * 85 / 100 * 1000);
    rt_proxy_heal(r.cluster->proxy[r.far]);
    await_granted(&first);
    begin_asking(&second);
    usleep(TTL_MS / 4 * 1000); /* what the first try made would be over by now */
    (void)rt_recorded_believe(&first.actor, &first.held);
    (void)rt_recorded_release(&first.actor, &first.held);
    await_granted(&second);
    assert_int_equal(rt_recorded_release(&second.actor, &second.held), 0);
    rota_close(first.actor.rota);
    rota_close(second.actor.rota);
    log_check(&log);
    ring_close(&r);
}

/* ---- Late ------------------------------------------------------------------------- */

/* The answer to the JOIN is late, not so late that the link is given up (ttl/4); a heartbeat overtakes it. */
static void a_node_is_late(void **state)
{
    const struct rt_fault late = {
        .on = RT_FAULT_REPLY,
        .what = RT_FAULT_DELAY,
        .match = rt_redis_script_text(RT_REDIS_SCRIPT_JOIN, true)->sha1,
        .delay_us = TTL_MS / 5 * 1000,
    };
    struct asker first;
    struct ring r;
    struct log log;

    (void)state;
    log_open(&log);
    ring_open(&r);
    open_asker(&first, &r, log.history, TTL_MS);
    come_near(&first, TTL_MS * 17 / 100);
    uint32_t fault = rt_proxy_fault(r.cluster->proxy[r.far], &late);
    begin_asking(&first);
    await_granted(&first);
    assert_int_equal(rt_proxy_fault_hits(r.cluster->proxy[r.far], fault), 1);
    int64_t left = server_left_ms(&r), believed = rota_remaining_ms(first.held.lock);
    print_message("%lld ms believed, %lld ms on the server\n", (long long)believed,
                  (long long)left);
    assert_true(believed <= left);
    assert_int_equal(rt_recorded_release(&first.actor, &first.held), 0);
    rota_close(first.actor.rota);
    log_check(&log);
    ring_close(&r);
}

/* ---- By chance -------------------------------------------------------------------- */

/* The node of room 0, where every session begins, is silent for as long as it likes: a client with tickets only on
 * other nodes keeps them, takes more there, and is as before when the node is heard again. */
static void the_first_node_is_silent(void **state)
{
    struct asker a;
    struct ring r;
    struct log log;
    struct rt_held more;
    uint32_t renewed = 0;

    (void)state;
    log_open(&log);
    ring_open(&r);
    open_asker(&a, &r, log.history, 10000);
    assert_int_equal(rt_recorded_acquire(&a.actor, r.name, NULL, &a.held), 0);
    rt_proxy_lose(r.cluster->proxy[r.home], RT_PROXY_DOWN);
    int64_t left = server_left_ms(&r);
    while (renewed < 3) { /* that is more than a ttl */
        int64_t now = server_left_ms(&r);

        renewed += now > left;
        left = now;
        assert_int_equal(rota_check(a.held.lock), 0);
        usleep(10000);
    }
    assert_int_equal(rt_recorded_acquire(&a.actor, r.warm, NULL, &more), 0);
    rt_proxy_heal(r.cluster->proxy[r.home]);
    assert_int_equal(rt_recorded_release(&a.actor, &more), 0);
    assert_int_equal(rt_recorded_release(&a.actor, &a.held), 0);
    rota_close(a.actor.rota);
    log_check(&log);
    ring_close(&r);
}

#define STAGE_TTL_MS 1000

/* Contenders that pause long enough between two turns to leave the rooms again. */
static void nodes_are_mute_and_late(void **state)
{
    struct stage_plan plan = {.title = "nodes mute and late",
                              .processes = 6,
                              .threads = 2,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_SPICE,
                              .ttl_ms = STAGE_TTL_MS,
                              .long_permille = 300,
                              .long_ms = STAGE_TTL_MS,
                              .pause_us = 2 * STAGE_TTL_MS * 1000};
    struct stage *st = stage_new(&plan);
    struct ring r;

    (void)state;
    ring_open(&r);
    struct redis_nodes nodes = {r.cluster->node, 6};
    stage_url(st, r.url);
    stage_start(st);
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++) {
        struct rt_proxy *proxy = r.cluster->proxy[stage_below(st, 3)];

        stage_mark(st);
        if (i % 2 == 0)
            rt_proxy_lose(proxy, RT_PROXY_DOWN);
        else
            rt_proxy_delay(proxy, RT_PROXY_DOWN, STAGE_TTL_MS * 150, STAGE_TTL_MS * 90);
        stage_pause(st, STAGE_TTL_MS * 85 / 100);
        rt_proxy_delay(proxy, RT_PROXY_DOWN, 0, 0);
        rt_proxy_heal(proxy);
        stage_pause(st, STAGE_TTL_MS / 4 + stage_below(st, STAGE_TTL_MS));
    }
    assert_true(rt_redis_cluster_ok(r.cluster, LIMIT_MS));
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    ring_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_mute),
        cmocka_unit_test(a_node_is_late),
        cmocka_unit_test(the_first_node_is_silent),
        cmocka_unit_test(nodes_are_mute_and_late),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
