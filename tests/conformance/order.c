/* SPDX-License-Identifier: Apache-2.0 */
/* Order of arrival (I7) and fences that only grow (I2). */
#include "suite.h"

#define WAITERS 8

struct waiter {
    struct conf_load load;
    atomic_uint_fast64_t place; /* when it was granted: 1 for the first */
    atomic_uint_fast64_t *granted;
};

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;
    waiter->load.rv = conf_load_take(&waiter->load);
    if (waiter->load.rv != 0)
        return NULL;
    atomic_store(&waiter->place, atomic_fetch_add(waiter->granted, 1) + 1);
    conf_load_write(&waiter->load);
    waiter->load.rv = conf_load_give(&waiter->load);
    return NULL;
}

/* The number of the last ticket in the line, which has COUNT. */
static uint64_t last_ticket(struct rota *r, const char *name, size_t count)
{
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(r, name, &line), 0);
    assert_int_equal(line->count, count);
    for (size_t i = 1; i < count; i++)
        assert_true(line->places[i].number > line->places[i - 1].number);
    uint64_t number = line->places[count - 1].number;
    rota_line_free(line);
    return number;
}

static void arrival_of_clients(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct waiter *waiters = conf_alloc(WAITERS * sizeof *waiters);
    struct conf_thread *threads[WAITERS];
    atomic_uint_fast64_t *granted = conf_alloc(sizeof *granted);
    conf_history_begin();
    struct conf_load first = {.r = a, .name = name};
    assert_int_equal(conf_load_take(&first), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.load = {.r = conf_open(), .name = name}, .granted = granted};
        int64_t began = rt_history_now();
        threads[i] = conf_spawn(waiter_main, &waiters[i]);
        conf_wait_line(a, name, i + 2, 1);
        conf_history_queued(name, began, last_ticket(a, name, i + 2));
    }
    assert_int_equal(conf_load_give(&first), 0);
    for (size_t i = 0; i < WAITERS; i++) {
        conf_join(threads[i]);
        assert_int_equal(waiters[i].load.rv, 0);
        assert_int_equal(atomic_load(&waiters[i].place), i + 1);
        if (i > 0)
            assert_true(waiters[i].load.held.like.fence > waiters[i - 1].load.held.like.fence);
    }
    conf_history_check(name, WAITERS);
}

/* Asks of one client are served in the order in which they were made. */
static void arrival_in_one_client(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *wishes[WAITERS];
    for (size_t i = 0; i < WAITERS; i++)
        wishes[i] = conf_wish_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_give(lock);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_int_equal(conf_wish_wait(wishes[i]), 0);
        assert_int_equal(atomic_load(&wishes[i]->order), i + 1);
        if (i + 1 < WAITERS)
            assert_int_equal(atomic_load(&wishes[i + 1]->calls), 0);
        conf_give(atomic_load(&wishes[i]->lock));
    }
}

static void arrival_of_processes(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_agent *agents[4];
    uint64_t fence = rota_fence(lock), next;
    for (size_t i = 0; i < 4; i++) {
        agents[i] = conf_agent_new();
        conf_agent_send(agents[i], "acquire %s", name);
        conf_wait_line(a, name, i + 2, 1);
    }
    conf_give(lock);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(conf_agent_reply(agents[i], &next), 0);
        assert_true(next > fence);
        fence = next;
        conf_assert_line(a, name, 4 - i, 1); /* one at a time, and the others in their places */
        assert_int_equal(conf_agent_ask(agents[i], NULL, "release %s", name), 0);
    }
    for (size_t i = 0; i < 4; i++)
        conf_agent_end(agents[i]);
}

/* With ROTA_NEVER a client's own waiters do not overtake those of others. */
static void strict_order_between_clients(void)
{
    struct rota_options strict = {.pass_limit = ROTA_NEVER};
    struct rota *a = conf_open_with(&strict), *b = conf_open_with(&strict);
    const char *name = conf_name("x");
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = conf_take(a, name, &ask);
    struct rota *of[] = {b, a, b, a};
    struct conf_wish *wishes[4];
    for (size_t i = 0; i < 4; i++) {
        wishes[i] = conf_wish_start(of[i], name, &ask);
        conf_wait_line(a, name, i + 2, 1);
    }
    conf_give(lock);
    uint64_t fence = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(conf_wish_wait(wishes[i]), 0);
        struct rota_lock *held = atomic_load(&wishes[i]->lock);
        assert_int_equal(atomic_load(&wishes[i]->order), i + 1);
        assert_true(rota_fence(held) > fence);
        fence = rota_fence(held);
        conf_give(held);
    }
}

/* ---- Fences ------------------------------------------------------------- */

static uint64_t pair(struct rota *r, const char *name)
{
    struct rota_lock *lock = conf_take(r, name, NULL);
    uint64_t fence = rota_fence(lock);
    assert_true(fence > 0);
    conf_give(lock);
    return fence;
}

static void fences_grow_over_clients(void)
{
    struct rota *clients[] = {conf_open(), conf_open(), conf_open()};
    const char *name = conf_name("x");
    uint64_t last = 0;
    for (size_t i = 0; i < 60; i++) {
        uint64_t fence = pair(clients[i % 3], name);
        assert_true(fence > last);
        last = fence;
    }
}

/* Nobody has the engine open in between (the world of mem: ends with its last client). */
static void fences_grow_over_reopening(void)
{
    const char *name = conf_name("x");
    uint64_t last = 0;
    for (size_t i = 0; i < 6; i++) {
        struct rota *r = conf_open();
        uint64_t fence = pair(r, name);
        assert_true(fence > last);
        last = fence;
        conf_close(r);
    }
}

static void fences_grow_over_processes(void)
{
    const char *name = conf_name("x");
    uint64_t last = 0, fence;
    for (size_t i = 0; i < 4; i++) {
        struct conf_agent *agent = i % 2 == 0 ? conf_agent_mortal() : conf_agent_new();
        assert_int_equal(conf_agent_ask(agent, &fence, "acquire %s", name), 0);
        assert_true(fence > last);
        last = fence;
        if (i % 2 == 0) {
            conf_agent_kill(agent); /* without a word, and nobody is left */
            continue;
        }
        assert_int_equal(conf_agent_ask(agent, NULL, "release %s", name), 0);
        conf_agent_end(agent);
    }
    assert_true(pair(conf_open(), name) > last);
}

/* A failed or given-up ask may use up numbers, never one of them twice. */
static void fences_grow_over_refusals(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask soon = {.limit_ms = 1};
    uint64_t last = 0;
    for (size_t i = 0; i < 20; i++) {
        struct rota_lock *lock = conf_take(i % 2 == 0 ? a : b, name, NULL), *out = NULL;
        assert_true(rota_fence(lock) > last);
        last = rota_fence(lock);
        assert_int_equal(rota_acquire(i % 2 == 0 ? b : a, name, &soon, &out), ROTA_TIMEOUT);
        assert_int_equal(conf_try(i % 2 == 0 ? b : a, name, NULL, NULL), ROTA_BUSY);
        conf_give(lock);
    }
}

static void guard_keeps_old_fences_out(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    uint64_t highest = 0;
    struct rota_lock *lock = conf_take(a, name, NULL);
    assert_int_equal(rota_guard(lock, &highest), 0);
    assert_true(highest == rota_fence(lock));
    assert_int_equal(rota_guard(lock, &highest), 0); /* as often as it likes */
    highest = rota_fence(lock) + 1;
    assert_int_equal(rota_guard(lock, &highest), ROTA_LOST);
    assert_true(highest == rota_fence(lock) + 1);
    conf_give(lock);
}

const struct conf_case conf_order[] = {
    CONF_CASE(arrival_of_clients, ROTA_CAP_ORDER, 0),
    CONF_CASE(arrival_in_one_client, ROTA_CAP_ORDER, 0),
    CONF_CASE(arrival_of_processes, ROTA_CAP_ORDER, CONF_PROCESSES),
    CONF_CASE(strict_order_between_clients, ROTA_CAP_ORDER, 0),
    CONF_CASE(fences_grow_over_clients, ROTA_CAP_FENCE, 0),
    CONF_CASE(fences_grow_over_reopening, ROTA_CAP_FENCE, CONF_PROCESSES),
    CONF_CASE(fences_grow_over_processes, ROTA_CAP_FENCE, CONF_PROCESSES),
    CONF_CASE(fences_grow_over_refusals, ROTA_CAP_FENCE, 0),
    CONF_CASE(guard_keeps_old_fences_out, ROTA_CAP_FENCE, 0),
    CONF_END,
};
