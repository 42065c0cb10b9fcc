/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of request, once each: its reply lost, doubled, late; the request doubled, lost. */
#include "engine/redis/script.h"
#include "keys.h"
#include "lib/history.h"
#include "lib/proc.h"
#include "stage.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROCESSES 8 /* with a proxy each; and one more that is killed now and then */
#define TTL_MS 1000
#define UNREST_NS INT64_C(700000000)
#define PATIENCE_NS INT64_C(3000000000)  /* for a request that rarely comes; then another's turn */
#define ALL_DONE_NS INT64_C(60000000000) /* per factor */

/* ---- What is done to what ------------------------------------------------- */

struct treatment {
    const char *name;
    enum rt_fault_on on;
    enum rt_fault_do what;
    uint32_t delay_us;
};

static const struct treatment treatments[] = {
    {"reply dropped", RT_FAULT_REPLY, RT_FAULT_DROP, 0},
    {"reply doubled", RT_FAULT_REPLY, RT_FAULT_DOUBLE, 0},
    {"reply late by more than the ttl", RT_FAULT_REPLY, RT_FAULT_DELAY, TTL_MS * 1300},
    {"reply cut off", RT_FAULT_REPLY, RT_FAULT_RESET, 0},
    {"request doubled", RT_FAULT_REQUEST, RT_FAULT_DOUBLE, 0},
    {"request dropped", RT_FAULT_REQUEST, RT_FAULT_DROP, 0},
    {"request late by more than the ttl", RT_FAULT_REQUEST, RT_FAULT_DELAY, TTL_MS * 1300},
};
#define TREATMENTS (sizeof(treatments) / sizeof(treatments[0]))
#define TREATMENTS_QUICK 3 /* in make test; the others in make torture */

static const struct treatment push_treatments[] = {
    {"push dropped", RT_FAULT_PUSH, RT_FAULT_DROP, 0},
    {"push doubled", RT_FAULT_PUSH, RT_FAULT_DOUBLE, 0},
    {"push late by more than the ttl", RT_FAULT_PUSH, RT_FAULT_DELAY, TTL_MS * 1300},
};
#define PUSH_TREATMENTS (sizeof(push_treatments) / sizeof(push_treatments[0]))

/* Scripts that the contenders call; `break` and `inspect_session` are not among them. */
static const enum rt_redis_script scripts[] = {
    RT_REDIS_SCRIPT_JOIN,   RT_REDIS_SCRIPT_LEAVE, RT_REDIS_SCRIPT_BEAT, RT_REDIS_SCRIPT_OPEN,
    RT_REDIS_SCRIPT_CHANGE, RT_REDIS_SCRIPT_HELD,  RT_REDIS_SCRIPT_LOOK, RT_REDIS_SCRIPT_INSPECT,
    RT_REDIS_SCRIPT_LIST,   RT_REDIS_SCRIPT_END,   RT_REDIS_SCRIPT_META, RT_REDIS_SCRIPT_SWEEP,
};
#define SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))
static const char *const commands[] = {"INFO", "SUBSCRIBE"};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define JOBS_MAX ((SCRIPTS + COMMANDS) * TREATMENTS + PUSH_TREATMENTS)

struct job {
    const struct treatment *treatment;
    const char *name, *match;
    bool taken, done;
};

struct line { /* a proxy with its present fault */
    struct rt_proxy *proxy;
    struct job *job;
    uint32_t fault;
    int64_t since;
};

static size_t jobs_make(struct job *jobs)
{
    size_t kinds = stage_factor() > 1 ? TREATMENTS : TREATMENTS_QUICK, n = 0;

    for (size_t t = 0; t < kinds; t++) {
        for (size_t s = 0; s < SCRIPTS; s++) {
            const struct rt_redis_text *text = rt_redis_script_text(scripts[s], false);

            /* `held` always brings its text. */
            jobs[n++] = (struct job){&treatments[t], text->name,
                                     scripts[s] == RT_REDIS_SCRIPT_HELD ? "EVAL local" : text->sha1,
                                     false, false};
        }
        for (size_t s = 0; s < COMMANDS; s++)
            jobs[n++] = (struct job){&treatments[t], commands[s], commands[s], false, false};
    }
    for (size_t t = 0; t < PUSH_TREATMENTS; t++)
        jobs[n++] = (struct job){&push_treatments[t], "push", NULL, false, false};
    return n;
}

/* ---- One after the other, on all lines at once ------------------------------ */

struct plan {
    struct job jobs[JOBS_MAX];
    size_t count;
};

static struct job *job_pick(struct stage *st, struct plan *plan)
{
    uint32_t from = stage_below(st, (uint32_t)plan->count);

    for (size_t i = 0; i < plan->count; i++) {
        struct job *job = &plan->jobs[(from + i) % plan->count];

        if (!job->taken && !job->done)
            return job;
    }
    return NULL;
}

static void line_begin(struct stage *st, struct line *line, struct plan *plan)
{
    struct job *job = job_pick(st, plan);
    struct rt_fault fault;

    line->job = job;
    if (job == NULL)
        return;
    job->taken = true;
    fault = (struct rt_fault){.on = job->treatment->on,
                              .what = job->treatment->what,
                              .match = job->match,
                              .nth = 1 + stage_below(st, 2),
                              .delay_us = job->treatment->delay_us};
    line->fault = rt_proxy_fault(line->proxy, &fault);
    line->since = rt_history_now();
}

/* True: this line's job is over, one way or the other. */
static bool line_look(struct stage *st, struct line *line)
{
    bool hit = rt_proxy_fault_hits(line->proxy, line->fault) > 0;

    if (!hit && rt_history_now() - line->since < PATIENCE_NS)
        return false;
    if (hit)
        stage_mark(st);
    line->job->done = hit;
    line->job->taken = false;
    rt_proxy_fault_end(line->proxy, line->fault);
    return true;
}

/* So that the rare requests come: who has lost pushes asks what is held, who waits for a dead one sweeps. */
static void stir(struct stage *st, struct rt_redis *node, int64_t *stirred_at)
{
    if (rt_history_now() - *stirred_at < UNREST_NS)
        return;
    *stirred_at = rt_history_now();
    freeReplyObject(rt_redis_do(node, "CLIENT KILL TYPE pubsub"));
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static size_t work_off(struct stage *st, struct rt_redis *node, struct line *lines,
                       struct plan *plan, int64_t until)
{
    int64_t stirred_at = 0;
    size_t left = 0;
    bool more = true;

    for (size_t i = 0; i < PROCESSES; i++)
        line_begin(st, &lines[i], plan);
    while (more && rt_history_now() < until) {
        more = false;
        stage_pause(st, 2);
        stir(st, node, &stirred_at);
        for (size_t i = 0; i < PROCESSES; i++) {
            if (lines[i].job == NULL || line_look(st, &lines[i]))
                line_begin(st, &lines[i], plan);
            more = more || lines[i].job != NULL;
        }
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct job *job = &plan->jobs[i];

        if (!job->done)
            print_message("not seen: %s of %s\n", job->treatment->name, job->name);
        left += !job->done;
    }
    return left;
}

static void lines_open(struct stage *st, struct line *lines, struct rt_redis *node)
{
    char *direct = rt_redis_url(node, 0);

    stage_url(st, direct);
    free(direct);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct rt_proxy_options opts = {
            .framing = &rt_proxy_resp, .port = node->server.port, .seed = stage_seed() + i};
        char *url;

        lines[i].proxy = rt_proxy_start(&opts);
        url = rt_redis_url(node, rt_proxy_port(lines[i].proxy));
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
    struct line lines[PROCESSES] = {{0}};
    struct plan todo;
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    size_t left = 0;

    (void)state;
    rt_redis_start(&node, NULL);
    lines_open(st, lines, &node);
    stage_start(st);
    for (uint32_t i = 0; i < stage_factor() && left == 0; i++) {
        todo.count = jobs_make(todo.jobs);
        left = work_off(st, &node, lines, &todo, rt_history_now() + ALL_DONE_NS);
    }
    for (size_t i = 0; i < PROCESSES; i++)
        rt_proxy_fault_end(lines[i].proxy, 0);
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    assert_int_equal(left, 0);
    stage_free(st);
    for (size_t i = 0; i < PROCESSES; i++)
        rt_proxy_stop(lines[i].proxy);
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
    struct rota_options options = {.ttl_ms = TTL_MS};

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

/* What comes a second time is not taken for the answer to the request behind it. */
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

/* Nothing follows the push that is lost, so no gap shows: the heartbeat does. */
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
