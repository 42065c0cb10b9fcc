/* SPDX-License-Identifier: Apache-2.0 */
/* One at a time (I1): between threads, clients of a process, and processes. */
#include "suite.h"

#define ACTORS_MAX 8

/* Runs a load in each of N threads; CLIENTS of them are different. */
static void contend(size_t n, size_t clients, int often)
{
    unsigned rounds = (unsigned)conf_rounds(often);
    const char *name = conf_name("x");
    struct rota *opened[ACTORS_MAX];
    struct conf_load *loads = conf_alloc(ACTORS_MAX * sizeof *loads);
    struct conf_thread *threads[ACTORS_MAX];
    conf_history_begin();
    for (size_t i = 0; i < clients; i++)
        opened[i] = conf_open();
    for (size_t i = 0; i < n; i++) {
        loads[i] = (struct conf_load){.r = opened[i % clients], .name = name, .rounds = rounds};
        threads[i] = conf_spawn(conf_load_run, &loads[i]);
    }
    for (size_t i = 0; i < n; i++) {
        conf_join(threads[i]);
        assert_int_equal(loads[i].rv, 0);
    }
    conf_history_check(name, n * rounds);
    conf_assert_line(opened[0], name, 0, 0);
}

static void exclusion_of_threads(void)
{
    contend(8, 1, 200);
}

static void exclusion_of_clients(void)
{
    contend(6, 6, 60);
}

static void exclusion_of_threads_and_clients(void)
{
    contend(8, 2, 80);
}

static void exclusion_of_processes(void)
{
    const char *name = conf_name("x");
    struct rota *r = conf_open();
    struct conf_agent *agents[4];
    conf_history_begin();
    struct conf_load load = {.r = r, .name = name, .rounds = 60};
    for (size_t i = 0; i < 4; i++)
        agents[i] = conf_agent_new();
    for (size_t i = 0; i < 4; i++)
        conf_agent_send(agents[i], "load %s 60 %s", name, conf_history_folder());
    conf_load_run(&load);
    assert_int_equal(load.rv, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(conf_agent_reply(agents[i], NULL), 0);
        conf_agent_end(agents[i]);
    }
    conf_history_check(name, 5 * 60);
    conf_assert_line(r, name, 0, 0);
}

static void exclusion_is_per_name(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    struct rota_lock *x = conf_take(a, conf_name("x"), NULL);
    struct rota_lock *y = conf_take(b, conf_name("y"), NULL);
    assert_string_equal(rota_name(x), conf_name("x"));
    assert_string_equal(rota_name(y), conf_name("y"));
    assert_int_equal(conf_try(b, conf_name("x"), NULL, NULL), ROTA_BUSY);
    assert_int_equal(conf_try(a, conf_name("y"), NULL, NULL), ROTA_BUSY);
    conf_give(x);
    conf_give(y);
}

/* A hold is certain from its grant to its release, whatever keeps the session alive. */
static void hold_is_certain(void)
{
    struct rota *a = conf_open();
    struct rota_lock *lock = conf_take(a, conf_name("x"), NULL);
    assert_true(rota_remaining_ms(lock) > 0);
    /* I3: it counts to when it is told, before its deadline; so it never says more than that. */
    int64_t ttl_ms = rota_ttl_ms(a);
    if ((conf.caps & ROTA_CAP_TTL) != 0)
        assert_true(rota_remaining_ms(lock) <= ttl_ms - ttl_ms / 100 - 2 - ttl_ms / 20);
    else
        assert_true(rota_remaining_ms(lock) == INT64_MAX);
    assert_int_equal(rota_check(lock), 0);
    conf_give(lock);
}

const struct conf_case conf_exclusion[] = {
    CONF_CASE(exclusion_of_threads, 0, 0),
    CONF_CASE(exclusion_of_clients, 0, 0),
    CONF_CASE(exclusion_of_threads_and_clients, 0, 0),
    CONF_CASE(exclusion_of_processes, 0, CONF_PROCESSES),
    CONF_CASE(exclusion_is_per_name, 0, 0),
    CONF_CASE(hold_is_certain, 0, 0),
    CONF_END,
};
