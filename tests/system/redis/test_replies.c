/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of request, once each: its reply lost, doubled, late; the request doubled, lost. */
#include "engine/redis/script.h"
#include "keys.h"
#include "lib/proc.h"
#include "treat.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROCESSES 8 /* with a proxy each; and one more that is killed now and then */
#define TTL_MS 1000
#define LONG_TTL_MS 6000 /* where nothing may be lost, and a heartbeat comes soon */

/* Scripts that the contenders call; `break` and `inspect_session` are not among them. */
static const enum rt_redis_script scripts[] = {
    RT_REDIS_SCRIPT_JOIN,   RT_REDIS_SCRIPT_LEAVE, RT_REDIS_SCRIPT_BEAT, RT_REDIS_SCRIPT_OPEN,
    RT_REDIS_SCRIPT_CHANGE, RT_REDIS_SCRIPT_HELD,  RT_REDIS_SCRIPT_LOOK, RT_REDIS_SCRIPT_INSPECT,
    RT_REDIS_SCRIPT_LIST,   RT_REDIS_SCRIPT_END,   RT_REDIS_SCRIPT_META, RT_REDIS_SCRIPT_SWEEP,
};
#define SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))
static const char *const commands[] = {"INFO", "SUBSCRIBE"};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define KINDS (SCRIPTS + COMMANDS + 1)

static void kinds_make(struct treat_kind *kinds)
{
    size_t n = 0;

    for (size_t s = 0; s < SCRIPTS; s++) {
        const struct rt_redis_text *text = rt_redis_script_text(scripts[s], false);

        /* `held` always brings its text. */
        kinds[n++] = (struct treat_kind){
            text->name, scripts[s] == RT_REDIS_SCRIPT_HELD ? "EVAL local" : text->sha1, false};
    }
    for (size_t s = 0; s < COMMANDS; s++)
        kinds[n++] = (struct treat_kind){commands[s], commands[s], false};
    kinds[n] = (struct treat_kind){"push", NULL, true};
}

/* Provokes the rare requests: a client that lost pushes asks what is held, one that waits for a dead one sweeps. */
static void stir(struct stage *st, void *arg)
{
    struct rt_redis *node = arg;

    freeReplyObject(rt_redis_do(node, "CLIENT KILL TYPE pubsub"));
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static void proxies_open(struct stage *st, struct rt_proxy **proxies, struct rt_redis *node)
{
    char *direct = rt_redis_url(node, 0);

    stage_url(st, direct);
    free(direct);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct rt_proxy_options opts = {
            .framing = &rt_proxy_resp, .port = node->server.port, .seed = stage_seed() + i};
        char *url;

        proxies[i] = rt_proxy_start(&opts);
        url = rt_redis_url(node, rt_proxy_port(proxies[i]));
        stage_url_of(st, i, url);
        free(url);
    }
}

static void every_request_in_every_way(void **state)
{
    struct stage_plan plan = {.title = "replies lost, doubled, late",
                              .processes = PROCESSES + 1,
                              .threads = 2,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 10,
                              .long_ms = 1200,
                              .pause_us = 1000,
                              .spice_permille = 300};
    struct stage *st = stage_new(&plan);
    struct treat_kind kinds[KINDS];
    struct rt_proxy *proxies[PROCESSES];
    struct treat_line lines[PROCESSES];
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    struct treat_plan treat = {.kinds = kinds,
                               .kind_count = KINDS,
                               .lines = lines,
                               .line_count = PROCESSES,
                               .late_ms = TTL_MS * 13 / 10,
                               .rounds = stage_factor(),
                               .stir = stir,
                               .arg = &node};
    size_t left;

    (void)state;
    kinds_make(kinds);
    rt_redis_start(&node, NULL);
    proxies_open(st, proxies, &node);
    for (size_t i = 0; i < PROCESSES; i++)
        lines[i] = (struct treat_line){&proxies[i], 1};
    stage_start(st);
    left = treat_all(st, &treat);
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    assert_int_equal(left, 0);
    stage_free(st);
    for (size_t i = 0; i < PROCESSES; i++)
        rt_proxy_stop(proxies[i]);
    rt_redis_fini(&node);
}

/* ---- Step by step ----------------------------------------------------------------- */

struct two { /* clients with a proxy each */
    struct rt_redis node;
    struct rt_proxy *proxy[2];
    struct rota *rota[2];
};

static void two_open(struct two *t)
{
    struct rota_options options = {.ttl_ms = LONG_TTL_MS};

    rt_redis_start(&t->node, NULL);
    for (int i = 0; i < 2; i++) {
        struct rt_proxy_options opts = {.framing = &rt_proxy_resp, .port = t->node.server.port};
        struct rota_lock *lock = NULL;
        char *url;

        t->proxy[i] = rt_proxy_start(&opts);
        url = rt_redis_url(&t->node, rt_proxy_port(t->proxy[i]));
        assert_int_equal(rota_open(&t->rota[i], url, &options), 0);
        assert_int_equal(rota_acquire(t->rota[i], "first", NULL, &lock), 0);
        assert_int_equal(rota_release(lock), 0);
        free(url);
    }
}

static void two_close(struct two *t)
{
    for (int i = 0; i < 2; i++) {
        rota_close(t->rota[i]);
        rt_proxy_stop(t->proxy[i]);
    }
    rt_redis_fini(&t->node);
}

static void note_grant(void *arg, int err, struct rota_lock *lock)
{
    assert_int_equal(err, 0);
    __atomic_store_n((struct rota_lock **)arg, lock, __ATOMIC_RELEASE);
}

static bool is_granted(void *arg)
{
    return __atomic_load_n((struct rota_lock **)arg, __ATOMIC_ACQUIRE) != NULL;
}

/* A reply that comes twice is not taken for the answer to the next request. */
static void a_doubled_reply_answers_nothing_else(void **state)
{
    const char *join = rt_redis_script_text(RT_REDIS_SCRIPT_JOIN, false)->sha1;
    struct rt_fault twice = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DOUBLE, .match = join};
    struct two t;

    (void)state;
    rt_watchdog(60, "a doubled reply");
    two_open(&t);
    for (int i = 0; i < 5; i++) {
        struct rota_lock *a = NULL, *b = NULL;

        rt_proxy_hold(t.proxy[0], RT_PROXY_UP); /* so that both are under way at once */
        rt_proxy_fault(t.proxy[0], &twice);
        assert_int_equal(rota_acquire_async(t.rota[0], "a", NULL, note_grant, &a, NULL), 0);
        assert_int_equal(rota_acquire_async(t.rota[0], "b", NULL, note_grant, &b, NULL), 0);
        rt_proxy_release(t.proxy[0], RT_PROXY_UP);
        assert_true(rt_await(is_granted, &a, 20000));
        assert_true(rt_await(is_granted, &b, 20000));
        assert_true(rota_fence(b) != rota_fence(a));
        assert_int_equal(rota_check(a), 0);
        assert_int_equal(rota_check(b), 0);
        assert_int_equal(rota_release(a), 0);
        assert_int_equal(rota_release(b), 0);
    }
    two_close(&t);
}

static bool stand_in_line(void *arg)
{
    struct two *t = arg;
    struct rota_line *line = NULL;
    bool two;

    assert_int_equal(rota_inspect(t->rota[0], "prize", &line), 0);
    two = line->count == 2;
    rota_line_free(line);
    return two;
}

/* Nothing follows the lost push, so no gap shows: the heartbeat reveals it. */
static void a_lost_push_is_made_up_for(void **state)
{
    struct rt_fault lost = {.on = RT_FAULT_PUSH, .what = RT_FAULT_DROP};
    struct rota_lock *held = NULL, *granted;
    struct two t;
    uint32_t fault;

    (void)state;
    rt_watchdog(60, "a lost push");
    two_open(&t);
    for (int i = 0; i < 3; i++) {
        granted = NULL;
        assert_int_equal(rota_acquire(t.rota[0], "prize", NULL, &held), 0);
        assert_int_equal(rota_acquire_async(t.rota[1], "prize", NULL, note_grant, &granted, NULL),
                         0);
        assert_true(rt_await(stand_in_line, &t, 20000));
        fault = rt_proxy_fault(t.proxy[1], &lost);
        assert_int_equal(rota_release(held), 0);
        assert_true(rt_proxy_await_hits(t.proxy[1], fault, 1, 20000));
        assert_true(rt_await(is_granted, &granted, 20000));
        assert_int_equal(rota_release(granted), 0);
    }
    two_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_doubled_reply_answers_nothing_else),
        cmocka_unit_test(a_lost_push_is_made_up_for),
        cmocka_unit_test(every_request_in_every_way),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
