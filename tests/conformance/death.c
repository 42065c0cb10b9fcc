/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end without a word, or stop: what they held and where they waited. */
#include "suite.h"

#include <signal.h>

static void holder_is_killed(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    uint64_t fence = 0;
    assert_int_equal(conf_agent_ask(agent, &fence, "acquire %s", name), 0);
    struct conf_task *task = conf_task_start(a, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_agent_kill(agent);
    conf_task_lock(task);
    assert_true(task->fence > fence || (conf.caps & ROTA_CAP_FENCE) == 0);
    assert_int_equal(rota_check(task->lock), 0);
    conf_give(task->lock);
}

/* Nobody was waiting: whoever comes next finds it free, or waits until it is. */
static void holder_is_killed_unwatched(void)
{
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s", name), 0);
    conf_agent_kill(agent);
    struct rota *a = conf_open();
    conf_give(conf_take(a, name, NULL));
    conf_assert_line(a, name, 0, 0);
}

/* The holder, then the first in line, a dead one, and the last. */
static void waiter_is_killed(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_task *first = conf_task_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_agent_send(agent, "acquire %s", name);
    conf_wait_line(a, name, 3, 1);
    struct conf_task *last = conf_task_start(c, name, NULL);
    conf_wait_line(a, name, 4, 1);
    conf_agent_kill(agent);
    assert_int_equal(rota_check(lock), 0);
    conf_give(lock);
    conf_task_lock(first);
    assert_false(atomic_load(&last->done));
    conf_give(first->lock);
    conf_task_lock(last);
    assert_true(last->fence > first->fence || (conf.caps & ROTA_CAP_FENCE) == 0);
    conf_give(last->lock);
}

static void holder_and_waiters_are_killed(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agents[3];
    for (size_t i = 0; i < 3; i++) {
        agents[i] = conf_agent_mortal();
        conf_agent_send(agents[i], "acquire %s", name);
        conf_wait_line(a, name, i + 1, 1);
    }
    struct conf_task *task = conf_task_start(a, name, NULL);
    conf_wait_line(a, name, 4, 1);
    for (size_t i = 0; i < 3; i++)
        conf_agent_kill(agents[2 - i]);
    conf_give(conf_task_lock(task));
    conf_assert_line(a, name, 0, 0);
}

/* Held shared by two: the writer waits for the end of both. */
static void one_of_two_readers_is_killed(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask shared = {.mode = ROTA_SHARED};
    struct conf_agent *agent = conf_agent_mortal();
    struct rota_lock *lock = conf_take(a, name, &shared);
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s mode=1", name), 0);
    struct conf_task *writer = conf_task_start(b, name, NULL);
    conf_wait_line(a, name, 3, 2);
    conf_agent_kill(agent);
    conf_wait_line(a, name, 2, 1);
    assert_false(atomic_load(&writer->done));
    conf_give(lock);
    conf_give(conf_task_lock(writer));
}

static void permits_of_the_dead_come_back(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask two = {.mode = ROTA_PERMITS, .take = 2, .of = 3};
    struct conf_agent *agent = conf_agent_mortal();
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s mode=2 take=1 of=3", name), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s mode=2 take=1 of=3", name), 0);
    struct conf_task *task = conf_task_start(a, name, &two);
    conf_wait_line(a, name, 3, 2);
    conf_agent_kill(agent);
    conf_give(conf_task_lock(task));
}

/* Increments by four processes, two of which are killed somewhere along the way. */
static void contention_with_kills(void)
{
    enum { AGENTS = 4, ROUNDS = 80 };
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agents[AGENTS];
    conf_history_begin();
    for (size_t i = 0; i < AGENTS; i++)
        agents[i] = i < 2 ? conf_agent_mortal() : conf_agent_new();
    for (size_t i = 0; i < AGENTS; i++)
        conf_agent_send(agents[i], "load %s %d %s", name, i < 2 ? 4000 : ROUNDS,
                        conf_history_folder());
    struct conf_load load = {.r = a, .name = name, .rounds = ROUNDS / 4};
    for (size_t i = 0; i < 2; i++) {
        conf_load_run(&load); /* the pace: so many turns of our own, then one dies */
        assert_int_equal(load.rv, 0);
        conf_history_kill(agents[i]);
    }
    conf_load_run(&load);
    assert_int_equal(load.rv, 0);
    for (size_t i = 2; i < AGENTS; i++) {
        assert_int_equal(conf_agent_reply(agents[i], NULL), 0);
        conf_agent_end(agents[i]);
    }
    conf_history_check(name, 0);
    conf_wait_line(a, name, 0, 0);
}

/* The session of a stopped process ends by its ttl; it learns that first thing when it runs again. */
static void stopped_past_the_ttl(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    uint64_t fence = 0;
    assert_int_equal(conf_agent_ask(agent, &fence, "acquire %s", name), 0);
    assert_int_equal(kill(conf_agent_pid(agent), SIGSTOP), 0);
    struct rota_lock *lock = conf_take(a, name, NULL);
    assert_true(rota_fence(lock) > fence || (conf.caps & ROTA_CAP_FENCE) == 0);
    assert_int_equal(kill(conf_agent_pid(agent), SIGCONT), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "check %s", name), ROTA_LOST);
    assert_int_equal(conf_agent_ask(agent, NULL, "release %s", name), ROTA_LOST);
    assert_int_equal(rota_check(lock), 0);
    conf_give(lock);
    /* It has a new session by then, or gets one: old holds stay lost, new ones do not. */
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s", name), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "release %s", name), 0);
    conf_agent_end(agent);
}

/* Without a ttl a stopped process keeps what it holds, and others wait. */
static void stopped_process_keeps_its_hold(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    struct rota_ask soon = {.limit_ms = 200};
    struct rota_lock *out = NULL;
    if ((conf.caps & ROTA_CAP_TTL) != 0)
        skip();
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s", name), 0);
    assert_int_equal(kill(conf_agent_pid(agent), SIGSTOP), 0);
    assert_int_equal(rota_acquire(a, name, &soon, &out), ROTA_TIMEOUT);
    assert_int_equal(kill(conf_agent_pid(agent), SIGCONT), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "check %s", name), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "release %s", name), 0);
    conf_agent_end(agent);
}

const struct conf_case conf_death[] = {
    CONF_CASE(holder_is_killed, 0, CONF_PROCESSES),
    CONF_CASE(holder_is_killed_unwatched, 0, CONF_PROCESSES),
    CONF_CASE(waiter_is_killed, ROTA_CAP_ORDER, CONF_PROCESSES),
    CONF_CASE(holder_and_waiters_are_killed, ROTA_CAP_ORDER, CONF_PROCESSES),
    CONF_CASE(one_of_two_readers_is_killed, ROTA_CAP_SHARED, CONF_PROCESSES),
    CONF_CASE(permits_of_the_dead_come_back, ROTA_CAP_PERMITS, CONF_PROCESSES),
    CONF_CASE(contention_with_kills, 0, CONF_PROCESSES),
    CONF_CASE(stopped_past_the_ttl, ROTA_CAP_TTL, CONF_PROCESSES),
    CONF_CASE(stopped_process_keeps_its_hold, 0, CONF_PROCESSES),
    CONF_END,
};
