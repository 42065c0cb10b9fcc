/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives its process: once-keys, latches, and names that stay taken for a while. */
#include "suite.h"

#define CALLERS 6

static void claim_undo(struct rota *r, const char *key, uint64_t fence)
{
    assert_int_equal(rota_break(r, key, fence), 0);
    conf_assert_line(r, key, 0, 0);
}

struct caller {
    struct rota *r;
    const char *key;
    uint64_t fence;
    int rv;
};

static void *caller_main(void *arg)
{
    struct caller *caller = arg;
    caller->rv = rota_once(caller->r, caller->key, 0, &caller->fence);
    return NULL;
}

static void once_among_threads(void)
{
    struct rota *clients[2] = {conf_open(), conf_open()};
    struct caller *callers = conf_alloc(CALLERS * sizeof *callers);
    struct conf_thread *threads[CALLERS];
    const char *key = conf_name("key");
    size_t winner = CALLERS;
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.r = clients[i % 2], .key = key};
        threads[i] = conf_spawn(caller_main, &callers[i]);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        conf_join(threads[i]);
        if (callers[i].rv == 0) {
            assert_int_equal(winner, CALLERS);
            winner = i;
        } else {
            assert_int_equal(callers[i].rv, ROTA_BUSY);
            assert_true(callers[i].fence == 0);
        }
    }
    assert_true(winner < CALLERS);
    assert_int_equal(rota_once(clients[0], key, 0, NULL), ROTA_BUSY); /* for ever */
    claim_undo(clients[0], key, callers[winner].fence);
}

static void once_among_processes(void)
{
    struct conf_agent *agents[3];
    const char *key = conf_name("key");
    uint64_t fence = 0, got;
    int winners = 0;
    for (size_t i = 0; i < 3; i++)
        agents[i] = conf_agent_new();
    for (size_t i = 0; i < 3; i++)
        conf_agent_send(agents[i], "once %s 0", key);
    for (size_t i = 0; i < 3; i++) {
        int rv = conf_agent_reply(agents[i], &got);
        assert_true(rv == 0 || rv == ROTA_BUSY);
        if (rv == 0)
            fence = got;
        winners += rv == 0;
    }
    assert_int_equal(winners, 1);
    for (size_t i = 0; i < 3; i++)
        conf_agent_end(agents[i]);
    claim_undo(conf_open(), key, fence);
}

/* Whatever happens to the winner: killed, or gone in peace. */
static void once_survives_its_process(void)
{
    const char *killed = conf_name("killed"), *ended = conf_name("ended");
    struct conf_agent *agent = conf_agent_mortal();
    uint64_t fences[2];
    assert_int_equal(conf_agent_ask(agent, &fences[0], "once %s 0", killed), 0);
    conf_agent_kill(agent);
    agent = conf_agent_new();
    assert_int_equal(conf_agent_ask(agent, &fences[1], "once %s 0", ended), 0);
    conf_agent_end(agent);
    struct rota *a = conf_open();
    assert_int_equal(rota_once(a, killed, 0, NULL), ROTA_BUSY);
    assert_int_equal(rota_once(a, ended, 0, NULL), ROTA_BUSY);
    claim_undo(a, killed, fences[0]);
    claim_undo(a, ended, fences[1]);
    uint64_t fence;
    assert_int_equal(rota_once(a, killed, 0, &fence), 0);
    assert_true(fence > fences[0]);
    claim_undo(a, killed, fence);
}

static void once_survives_its_client(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *key = conf_name("key");
    struct rota_line *line = NULL;
    uint64_t fence;
    assert_int_equal(rota_once(a, key, 0, &fence), 0);
    conf_close(a);
    assert_int_equal(rota_once(b, key, 0, NULL), ROTA_BUSY);
    assert_int_equal(rota_inspect(b, key, &line), 0);
    assert_int_equal(line->count, 1);
    assert_true(line->places[0].number == fence);
    assert_true(line->places[0].session == 0);
    assert_int_equal(line->places[0].flags & ~ROTA_PLACE_MINE,
                     ROTA_PLACE_GRANTED | ROTA_PLACE_DURABLE);
    rota_line_free(line);
    claim_undo(b, key, fence);
}

static void once_ends_after_for_ms(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *key = conf_name("key");
    int64_t begin = conf_now_ms();
    uint64_t first, second;
    assert_int_equal(rota_once(a, key, 150, &first), 0);
    int rv;
    CONF_UNTIL((rv = rota_once(b, key, 1, &second)) != ROTA_BUSY);
    assert_int_equal(rv, 0);
    assert_true(second > first);
    assert_true(conf_now_ms() - begin >= 149);
    conf_wait_line(a, key, 0, 0); /* and leaves nothing */
}

static void once_is_undone(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *key = conf_name("key");
    uint64_t first, second;
    assert_int_equal(rota_once(a, key, 0, &first), 0);
    assert_int_equal(rota_break(a, key, first), 0);
    assert_int_equal(rota_break(a, key, first), ROTA_LOST);
    assert_int_equal(rota_once(b, key, 0, &second), 0);
    assert_true(second > first);
    assert_int_equal(rota_break(a, key, first), ROTA_LOST); /* not the other's claim */
    claim_undo(a, key, second);
}

static void latch_survives_its_process(void)
{
    const char *name = conf_name("latch");
    struct conf_agent *agent = conf_agent_mortal();
    assert_int_equal(conf_agent_ask(agent, NULL, "down %s 2 one", name), 0);
    conf_agent_kill(agent);
    struct rota *a = conf_open();
    assert_int_equal(rota_latch_wait(a, name, 2, 30), ROTA_TIMEOUT);
    assert_int_equal(rota_latch_down(a, name, 2, "two"), 0);
    assert_int_equal(rota_latch_wait(a, name, 2, 0), 0);
    assert_int_equal(rota_latch_reset(a, name), 0);
}

/* ---- at_least_ms -------------------------------------------------------- */

#define AGES_MS 600000 /* longer than any run: ended by break */

static void name_stays_taken_after_release(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.at_least_ms = AGES_MS};
    conf_give(conf_take(a, name, &ask));
    assert_int_equal(conf_try(a, name, NULL, NULL), ROTA_BUSY); /* for its own client too */
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_close(a);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_break_all(b, name);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

static void name_is_free_after_its_time(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.at_least_ms = 200};
    int64_t begin = conf_now_ms();
    struct rota_lock *lock = conf_take(a, name, &ask);
    uint64_t fence = rota_fence(lock);
    conf_give(lock);
    lock = conf_take(b, name, NULL);
    assert_true(conf_now_ms() - begin >= 199);
    assert_true(rota_fence(lock) > fence);
    conf_give(lock);
    /* Held longer than that: the release frees it at once. */
    ask.at_least_ms = 1;
    lock = conf_take(a, name, &ask);
    begin = conf_now_ms(); /* it may have been granted just now */
    CONF_UNTIL(conf_now_ms() - begin >= 10);
    conf_give(lock);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

/* By death, by its client's close: any end but break. */
static void name_stays_taken_after_death(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.at_least_ms = AGES_MS};
    struct conf_agent *agent = conf_agent_mortal();
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s at_least=%d", name, AGES_MS), 0);
    struct conf_task *task = conf_task_start(a, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_agent_kill(agent);
    struct rota_ask soon = {.limit_ms = 300};
    struct rota_lock *out = NULL;
    assert_int_equal(rota_acquire(b, name, &soon, &out), ROTA_TIMEOUT);
    assert_false(atomic_load(&task->done));
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(b, name, &line), 0);
    assert_int_equal(rota_break(b, name, line->places[0].number), 0);
    rota_line_free(line);
    conf_give(conf_task_lock(task));
    conf_take(a, name, &ask);
    conf_close(a);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_break_all(b, name);
}

/* R is driven only by us: it does not know what it was not told. */
static void process_until_line(struct rota *r, struct rota *looker, const char *name, size_t count)
{
    int64_t end = conf_now_ms() + CONF_PATIENCE_MS;
    size_t seen = count + 1;
    while (seen != count) {
        if (conf_now_ms() > end)
            fail_msg("%s: %zu tickets; waited for %zu", name, seen, count);
        assert_int_equal(rota_process(r), 0);
        struct rota_line *line = NULL;
        assert_int_equal(rota_inspect(looker, name, &line), 0);
        seen = line->count;
        rota_line_free(line);
    }
}

/* B stands in line with at_least_ms, and is granted without knowing it. */
static struct conf_wish *grant_unseen(struct rota *a, struct rota *b, const char *name)
{
    struct rota_ask ask = {.at_least_ms = AGES_MS};
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *wish = conf_wish_start(b, name, &ask);
    process_until_line(b, a, name, 2);
    conf_give(lock);
    conf_assert_line(a, name, 1, 1);
    assert_int_equal(atomic_load(&wish->calls), 0);
    return wish;
}

static void who_was_never_told_keeps_nothing(void)
{
    struct rota_options by_hand = {.flags = ROTA_NO_KEEPER};
    struct rota *a = conf_open(), *b = conf_open_with(&by_hand);
    const char *name = conf_name("x");
    struct conf_wish *wish = grant_unseen(a, b, name);
    assert_int_equal(rota_cancel(b, wish->id), 0);
    CONF_UNTIL(rota_process(b) == 0 && atomic_load(&wish->calls) > 0);
    assert_int_equal(atomic_load(&wish->err), ROTA_CANCELED);
    process_until_line(b, a, name, 0);
    assert_int_equal(conf_try(a, name, NULL, NULL), 0);
}

static void close_leaves_nothing_that_was_not_told(void)
{
    struct rota_options by_hand = {.flags = ROTA_NO_KEEPER};
    struct rota *a = conf_open(), *b = conf_open_with(&by_hand);
    const char *name = conf_name("x");
    struct conf_wish *wish = grant_unseen(a, b, name);
    conf_close(b);
    assert_int_equal(atomic_load(&wish->err), ROTA_CLOSED);
    conf_left_line(a, name, 0, 0);
}

/* One of two had been granted, and nobody told, when the time was over. */
static void set_that_failed_keeps_nothing(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *names[] = {conf_name("x"), conf_name("y")};
    struct rota_ask ask = {.at_least_ms = AGES_MS, .limit_ms = 200};
    struct rota_lock *lock = conf_take(a, names[0], NULL), *none[2];
    assert_int_equal(rota_acquire_all(b, names, 2, &ask, none), ROTA_TIMEOUT);
    conf_left_line(b, names[0], 1, 1);
    conf_left_line(b, names[1], 0, 0);
    conf_give(lock);
}

const struct conf_case conf_durable[] = {
    CONF_CASE(once_among_threads, ROTA_CAP_DURABLE, 0),
    CONF_CASE(once_among_processes, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(once_survives_its_process, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(once_survives_its_client, ROTA_CAP_DURABLE, 0),
    CONF_CASE(once_ends_after_for_ms, ROTA_CAP_DURABLE, 0),
    CONF_CASE(once_is_undone, ROTA_CAP_DURABLE, 0),
    CONF_CASE(latch_survives_its_process, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(name_stays_taken_after_release, ROTA_CAP_DURABLE, 0),
    CONF_CASE(name_is_free_after_its_time, ROTA_CAP_DURABLE, 0),
    CONF_CASE(name_stays_taken_after_death, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(who_was_never_told_keeps_nothing, ROTA_CAP_DURABLE | ROTA_CAP_ORDER, 0),
    CONF_CASE(close_leaves_nothing_that_was_not_told, ROTA_CAP_DURABLE | ROTA_CAP_ORDER, 0),
    CONF_CASE(set_that_failed_keeps_nothing, ROTA_CAP_DURABLE, 0),
    CONF_END,
};
