/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at lines and interfering: inspect, list, check, break. */
#include "suite.h"

struct lost {
    atomic_int calls, reason;
    struct rota_lock *_Atomic lock;
};

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct lost *lost = arg;
    atomic_store(&lost->reason, reason);
    atomic_store(&lost->lock, lock);
    atomic_fetch_add(&lost->calls, 1);
}

static void inspect_tells_of_tickets(void)
{
    struct rota_options labelled = {.label = "who holds"};
    struct rota *a = conf_open_with(&labelled), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask seven = {.owner = 7}, detect = {.owner = 8, .flags = ROTA_DETECT};
    struct rota_line *line = NULL;
    struct rota_lock *lock = conf_take(a, name, &seven);
    struct conf_wish *wish = conf_wish_start(b, name, &detect);
    conf_wait_line(a, name, 2, 1);
    assert_int_equal(rota_inspect(a, name, &line), 0);
    assert_string_equal(line->name, name);
    const struct rota_place *first = &line->places[0], *second = &line->places[1];
    assert_true(first->number == rota_fence(lock) && second->number > first->number);
    assert_int_equal(first->flags, ROTA_PLACE_GRANTED | ROTA_PLACE_MINE);
    assert_int_equal(second->flags, ROTA_PLACE_DETECT);
    assert_string_equal(first->label, "who holds");
    assert_true(second->label[0] != '\0');
    assert_string_equal(first->value, "");
    assert_true(first->session != 0 && second->session != 0 && first->session != second->session);
    assert_true(first->owner == 7 && second->owner == 8);
    assert_true(first->since_ms >= 0 && second->since_ms >= 0);
    assert_true((conf.caps & ROTA_CAP_TTL) != 0 ? first->left_ms > 0 : first->left_ms == -1);
    assert_int_equal(first->mode, ROTA_EXCLUSIVE);
    rota_line_free(line);
    conf_give(lock);
    assert_int_equal(conf_wish_wait(wish), 0);
    conf_give(atomic_load(&wish->lock));
}

static void inspect_tells_of_permits(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.mode = ROTA_PERMITS, .take = 2, .of = 5};
    struct rota_lock *lock = conf_take(a, name, &ask);
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(a, name, &line), 0);
    assert_int_equal(line->places[0].mode, ROTA_PERMITS);
    assert_int_equal(line->places[0].take, 2);
    assert_int_equal(line->places[0].of, 5);
    rota_line_free(line);
    conf_give(lock);
}

static void inspect_of_an_empty_line(void)
{
    struct rota *a = conf_open();
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(a, conf_name("x"), &line), 0);
    assert_string_equal(line->name, conf_name("x"));
    assert_int_equal(line->count, 0);
    assert_int_equal(line->granted, 0);
    rota_line_free(line);
    rota_line_free(NULL);
}

/* Names that are prefixes of each other are different lines, listed by name. */
static void list_by_prefix(void)
{
    static const char *const tails[] = {"a", "aa", "aa.b", "aab", "b"};
    struct rota *a = conf_open(), *b = conf_open();
    struct rota_lock *locks[5];
    struct rota_line *lines = NULL;
    size_t count = 0;
    for (size_t i = 5; i-- > 0;)
        locks[i] = conf_take(a, conf_name(tails[i]), NULL);
    struct conf_wish *wish = conf_wish_start(b, conf_name("aa"), NULL);
    conf_wait_line(a, conf_name("aa"), 2, 1);
    assert_int_equal(rota_list(b, conf.prefix, &lines, &count), 0);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(lines[i].name, conf_name(tails[i]));
        bool waited_for = i == 1 && (conf.caps & ROTA_CAP_ORDER) != 0;
        assert_int_equal(lines[i].count, waited_for ? 2 : 1);
        assert_int_equal(lines[i].granted, 1);
        assert_null(lines[i].places);
    }
    rota_list_free(lines, count);
    assert_int_equal(conf_count_lines(b, conf_name("aa")), 3);
    assert_int_equal(conf_count_lines(b, conf_name("aa.")), 1);
    assert_int_equal(conf_count_lines(b, conf_name("c")), 0);
    assert_true(conf_count_lines(b, NULL) >= 5 && conf_count_lines(b, "") >= 5);
    for (size_t i = 0; i < 5; i++)
        conf_give(locks[i]);
    assert_int_equal(conf_wish_wait(wish), 0);
    conf_give(atomic_load(&wish->lock));
    rota_list_free(NULL, 0);
}

static void prefixes_are_other_locks(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    struct rota_lock *shorter = conf_take(a, conf_name("job"), NULL);
    struct rota_lock *longer = conf_take(b, conf_name("job1"), NULL);
    conf_give(shorter);
    assert_int_equal(conf_try(a, conf_name("job1"), NULL, NULL), ROTA_BUSY);
    assert_int_equal(rota_check(longer), 0);
    conf_give(longer);
}

static void break_tells_the_holder(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct lost *lost = conf_alloc(sizeof *lost);
    struct rota_ask ask = {.on_lost = on_lost, .arg = lost};
    struct rota_lock *lock = conf_take(a, name, &ask);
    struct conf_wish *wish = conf_wish_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    uint64_t fence = rota_fence(lock);
    assert_int_equal(rota_break(c, name, fence + 1000000), ROTA_LOST);
    assert_int_equal(rota_break(c, conf_name("other"), fence), ROTA_LOST);
    assert_int_equal(atomic_load(&lost->calls), 0);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(rota_break(c, name, fence), 0);
    assert_int_equal(rota_break(c, name, fence), ROTA_LOST);
    assert_int_equal(conf_wish_wait(wish), 0);
    assert_true(rota_fence(atomic_load(&wish->lock)) > fence);
    CONF_UNTIL(atomic_load(&lost->calls) > 0);
    assert_int_equal(atomic_load(&lost->reason), ROTA_LOST);
    assert_ptr_equal(atomic_load(&lost->lock), lock);
    assert_true(rota_remaining_ms(lock) <= 0);
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_check(atomic_load(&wish->lock)), 0);
    conf_give(atomic_load(&wish->lock));
    assert_int_equal(atomic_load(&lost->calls), 1);
}

/* Without a callback, and before anything told the client: the release itself must say so (I4). */
static void release_of_a_broken_hold(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    for (int i = 0; i < 20; i++) {
        struct rota_lock *lock = conf_take(a, name, NULL);
        assert_int_equal(rota_break(b, name, rota_fence(lock)), 0);
        assert_int_equal(rota_release(lock), ROTA_LOST);
    }
    conf_assert_line(a, name, 0, 0);
}

/* Re-entries of a broken tenure are all lost, and each is told once. */
static void break_of_a_reentered_hold(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct lost *losts = conf_alloc(2 * sizeof *losts);
    struct rota_lock *locks[2];
    for (size_t i = 0; i < 2; i++)
        locks[i] = conf_take(a, name, &(struct rota_ask){.on_lost = on_lost, .arg = &losts[i]});
    assert_int_equal(rota_break(b, name, rota_fence(locks[0])), 0);
    for (size_t i = 0; i < 2; i++) {
        CONF_UNTIL(atomic_load(&losts[i].calls) > 0);
        assert_int_equal(rota_release(locks[i]), ROTA_LOST);
        assert_int_equal(atomic_load(&losts[i].calls), 1);
    }
    conf_give(conf_take(a, name, NULL)); /* a new tenure, not the lost one */
}

/* A hold broken by somebody is not passed on: the next local waiter takes a new ticket. */
static void break_is_not_passed_on(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *wish = conf_wish_start(a, name, NULL);
    uint64_t fence = rota_fence(lock);
    assert_int_equal(rota_break(b, name, fence), 0);
    assert_int_equal(conf_wish_wait(wish), 0);
    assert_true(rota_fence(atomic_load(&wish->lock)) > fence);
    assert_int_equal(rota_check(atomic_load(&wish->lock)), 0);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    conf_assert_line(b, name, 1, 1);
    conf_give(atomic_load(&wish->lock));
}

/* A waiter that is broken asked in vain: its call says so, and the others keep their places. */
static void break_of_a_waiter(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct rota_line *line = NULL;
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_task *first = conf_task_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    struct conf_task *second = conf_task_start(c, name, NULL);
    conf_wait_line(a, name, 3, 1);
    assert_int_equal(rota_inspect(a, name, &line), 0);
    assert_int_equal(rota_break(a, name, line->places[1].number), 0);
    rota_line_free(line);
    assert_int_equal(conf_task_join(first), ROTA_LOST);
    conf_assert_line(a, name, 2, 1);
    conf_give(lock);
    conf_give(conf_task_lock(second));
}

const struct conf_case conf_looking[] = {
    CONF_CASE(inspect_tells_of_tickets, ROTA_CAP_ORDER, 0),
    CONF_CASE(inspect_tells_of_permits, ROTA_CAP_PERMITS, 0),
    CONF_CASE(inspect_of_an_empty_line, 0, 0),
    CONF_CASE(list_by_prefix, 0, 0),
    CONF_CASE(prefixes_are_other_locks, 0, 0),
    CONF_CASE(break_tells_the_holder, ROTA_CAP_FENCE, 0),
    CONF_CASE(release_of_a_broken_hold, ROTA_CAP_FENCE, 0),
    CONF_CASE(break_of_a_reentered_hold, ROTA_CAP_FENCE, 0),
    CONF_CASE(break_is_not_passed_on, ROTA_CAP_FENCE, 0),
    CONF_CASE(break_of_a_waiter, ROTA_CAP_ORDER, 0),
    CONF_END,
};
