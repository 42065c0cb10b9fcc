/* SPDX-License-Identifier: Apache-2.0 */
/* Holds with an end of their own (hold_ms), and tenures kept after release (linger_ms). */
#include "suite.h"

#define AGES_MS 600000 /* longer than any run */
#define HOLD_MS 3000 /* enough for a busy machine to tell of the grant; else it is LOST, rightly */

struct lost {
    atomic_int calls, reason;
};

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct lost *lost = arg;
    (void)lock;
    atomic_store(&lost->reason, reason);
    atomic_fetch_add(&lost->calls, 1);
}

/* A's hold ends by itself; B, who waits, gets a new ticket. */
static void hold_ends(struct rota *a, struct rota *b)
{
    const char *name = conf_name("x");
    struct lost *lost = conf_alloc(sizeof *lost);
    struct rota_ask ask = {.hold_ms = HOLD_MS, .on_lost = on_lost, .arg = lost};
    struct rota_ask next = {.owner = ROTA_OWNER_NONE};
    int64_t begin = conf_now_ms();
    struct rota_lock *lock = conf_take(a, name, &ask);
    assert_true(rota_remaining_ms(lock) <= HOLD_MS);
    uint64_t fence = rota_fence(lock);
    struct rota_lock *other = conf_take(b, name, &next);
    assert_true(conf_now_ms() - begin >= HOLD_MS - 1);
    assert_true(rota_fence(other) > fence || (conf.caps & ROTA_CAP_FENCE) == 0);
    assert_true(rota_remaining_ms(lock) <= 0);
    CONF_UNTIL(atomic_load(&lost->calls) > 0);
    assert_int_equal(atomic_load(&lost->reason), ROTA_TIMEOUT);
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_check(other), 0);
    conf_give(other);
    assert_int_equal(atomic_load(&lost->calls), 1);
}

static void hold_ends_for_another_client(void)
{
    hold_ends(conf_open(), conf_open());
}

static void hold_ends_for_the_same_client(void)
{
    struct rota *a = conf_open();
    hold_ends(a, a);
}

static void hold_released_in_time(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct lost *lost = conf_alloc(sizeof *lost);
    struct rota_ask ask = {.hold_ms = HOLD_MS, .on_lost = on_lost, .arg = lost};
    int64_t begin = conf_now_ms();
    conf_give(conf_take(a, name, &ask));
    struct rota_lock *lock = conf_take(b, name, NULL);
    CONF_UNTIL(conf_now_ms() - begin > HOLD_MS + 50);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(atomic_load(&lost->calls), 0); /* what was released is not lost */
    conf_give(lock);
}

/* The end of one re-entry's time does not end the whole tenure. */
static void hold_ends_for_one_reentry(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct lost *lost = conf_alloc(sizeof *lost);
    struct rota_ask ask = {.hold_ms = HOLD_MS, .on_lost = on_lost, .arg = lost};
    struct rota_lock *lock = conf_take(a, name, NULL), *timed = conf_take(a, name, &ask);
    CONF_UNTIL(atomic_load(&lost->calls) > 0);
    assert_int_equal(atomic_load(&lost->reason), ROTA_TIMEOUT);
    assert_int_equal(rota_release(timed), ROTA_LOST);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_give(lock);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

/* ---- Lingering ---------------------------------------------------------- */

static void lingering_keeps_the_fence(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.linger_ms = AGES_MS};
    struct rota_lock *lock = conf_take(a, name, &ask);
    uint64_t fence = rota_fence(lock);
    conf_give(lock);
    conf_assert_line(a, name, 1, 1); /* still in the line */
    for (int i = 0; i < 50; i++) {
        lock = conf_take(a, name, &ask);
        assert_true(rota_fence(lock) == fence);
        conf_give(lock);
    }
    lock = conf_take(a, name, NULL); /* without it the next release is the end */
    assert_true(rota_fence(lock) == fence);
    conf_give(lock);
    conf_assert_line(a, name, 0, 0);
}

static void lingering_ends_when_wanted(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.linger_ms = AGES_MS};
    struct rota_lock *lock = conf_take(a, name, &ask);
    uint64_t fence = rota_fence(lock);
    conf_give(lock);
    lock = conf_take(b, name, NULL);
    assert_true(rota_fence(lock) > fence);
    assert_int_equal(conf_try(a, name, NULL, NULL), ROTA_BUSY);
    conf_give(lock);
}

/* Somebody already waits while it is held: the release does not linger at all. */
static void lingering_does_not_begin_when_wanted(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.linger_ms = AGES_MS};
    struct rota_lock *lock = conf_take(a, name, &ask);
    struct conf_task *task = conf_task_start(b, name, NULL);
    conf_wait_line(b, name, 2, 1);
    conf_give(lock);
    conf_give(conf_task_lock(task));
}

static void lingering_ends_by_itself(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.linger_ms = 60};
    conf_give(conf_take(a, name, &ask));
    conf_wait_line(b, name, 0, 0);
}

static void lingering_ends_with_its_client(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.linger_ms = AGES_MS};
    conf_give(conf_take(a, name, &ask));
    conf_close(a);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

static void lingering_ends_with_its_process(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s linger=%d", name, AGES_MS), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "release %s", name), 0);
    conf_assert_line(a, name, 1, 1);
    conf_give(conf_take(a, name, NULL)); /* another process asks */
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s linger=%d", name, AGES_MS), 0);
    assert_int_equal(conf_agent_ask(agent, NULL, "release %s", name), 0);
    conf_agent_kill(agent);
    conf_give(conf_take(a, name, NULL));
}

/* Whether A knows that its lingering tenure is gone. Until then it may take it up, as a holder may
 * believe in a broken hold; but its release must not say success (I4). */
static bool knows_of_the_break(struct rota *a, const char *name)
{
    struct rota_lock *lock = NULL;
    int rv = conf_try(a, name, NULL, &lock);
    if (rv == 0)
        assert_int_equal(rota_release(lock), ROTA_LOST);
    else
        assert_int_equal(rv, ROTA_BUSY);
    return rv == ROTA_BUSY;
}

/* A lingering tenure that somebody broke is not kept. */
static void lingering_tenure_is_broken(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.linger_ms = AGES_MS};
    struct rota_lock *lock = conf_take(a, name, &ask);
    uint64_t fence = rota_fence(lock);
    conf_give(lock);
    assert_int_equal(rota_break(b, name, fence), 0);
    struct rota_lock *other = conf_take(b, name, NULL);
    assert_true(rota_fence(other) > fence);
    CONF_UNTIL(knows_of_the_break(a, name));
    conf_give(other);
    lock = conf_take(a, name, NULL);
    assert_true(rota_fence(lock) > fence);
    conf_give(lock);
}

const struct conf_case conf_timed[] = {
    CONF_CASE(hold_ends_for_another_client, 0, 0),
    CONF_CASE(hold_ends_for_the_same_client, 0, 0),
    CONF_CASE(hold_released_in_time, 0, 0),
    CONF_CASE(hold_ends_for_one_reentry, 0, 0),
    CONF_CASE(lingering_keeps_the_fence, ROTA_CAP_WANTED, 0),
    CONF_CASE(lingering_ends_when_wanted, ROTA_CAP_WANTED, 0),
    CONF_CASE(lingering_does_not_begin_when_wanted, ROTA_CAP_WANTED, 0),
    CONF_CASE(lingering_ends_by_itself, ROTA_CAP_WANTED, 0),
    CONF_CASE(lingering_ends_with_its_client, ROTA_CAP_WANTED, 0),
    CONF_CASE(lingering_ends_with_its_process, ROTA_CAP_WANTED, CONF_PROCESSES),
    CONF_CASE(lingering_tenure_is_broken, ROTA_CAP_WANTED, 0),
    CONF_END,
};
