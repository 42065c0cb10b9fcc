/* SPDX-License-Identifier: Apache-2.0 */
/* Re-entry: the owner comes in again with the same fence; nobody else does. */
#include "suite.h"

#define DEPTH 100

/* Releases two holds of one tenure, FIRST before the other; free only after both. */
static void release_in_order(size_t first)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *locks[2] = {conf_take(a, name, NULL), conf_take(a, name, NULL)};
    assert_ptr_not_equal(locks[0], locks[1]);
    assert_true(rota_fence(locks[0]) == rota_fence(locks[1]));
    conf_assert_line(b, name, 1, 1);
    conf_give(locks[first]);
    assert_int_equal(rota_check(locks[1 - first]), 0);
    assert_true(rota_remaining_ms(locks[1 - first]) > 0);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_give(locks[1 - first]);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

static void reentry_first_released_first(void)
{
    release_in_order(0);
}

static void reentry_last_released_first(void)
{
    release_in_order(1);
}

static void *release_main(void *arg)
{
    struct conf_task *task = arg;
    task->rv = rota_release(task->lock);
    return NULL;
}

static void release_from_other_threads(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct conf_task *tasks = conf_alloc(4 * sizeof *tasks);
    for (size_t i = 0; i < 4; i++)
        tasks[i].lock = conf_take(a, name, NULL);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
        conf_join(conf_spawn(release_main, &tasks[i]));
        assert_int_equal(tasks[i].rv, 0);
    }
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

static void reentry_is_deep(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *locks[DEPTH];
    for (size_t i = 0; i < DEPTH; i++) {
        locks[i] = conf_take(a, name, NULL);
        assert_true(rota_fence(locks[i]) == rota_fence(locks[0]));
    }
    conf_assert_line(b, name, 1, 1);
    for (size_t i = 0; i < DEPTH; i++) {
        assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
        conf_give(locks[i]);
    }
    conf_assert_line(b, name, 0, 0);
}

/* Re-entry does not queue behind those who wait: that would never end. */
static void reentry_passes_waiters(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_task *task = conf_task_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    struct rota_lock *again = conf_take(a, name, NULL);
    assert_true(rota_fence(again) == rota_fence(lock));
    conf_give(lock);
    conf_assert_line(a, name, 2, 1);
    assert_false(atomic_load(&task->done));
    conf_give(again);
    conf_give(conf_task_lock(task));
}

static void *try_main(void *arg)
{
    struct conf_task *task = arg;
    task->ask.flags |= ROTA_TRY;
    task->rv = rota_acquire(task->r, task->name, &task->ask, &task->lock);
    return NULL;
}

/* What a TRY by another thread with OWNER says; *OUT is its hold. */
static int try_elsewhere(struct rota *r, const char *name, uint64_t owner, struct rota_lock **out)
{
    struct conf_task *task = conf_alloc(sizeof *task);
    *task = (struct conf_task){.r = r, .name = name, .ask = {.owner = owner}};
    conf_join(conf_spawn(try_main, task));
    *out = task->lock;
    return task->rv;
}

static void other_owners_do_not_enter(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask seven = {.owner = 7}, eight = {.owner = 8};
    struct rota_lock *lock = conf_take(a, name, &seven), *again = NULL;
    assert_int_equal(conf_try(a, name, &eight, NULL), ROTA_BUSY);
    assert_int_equal(conf_try(a, name, NULL, NULL), ROTA_BUSY); /* this thread is not 7 */
    assert_int_equal(try_elsewhere(a, name, 0, &again), ROTA_BUSY);
    assert_int_equal(try_elsewhere(a, name, 7, &again), 0);
    assert_true(rota_fence(again) == rota_fence(lock));
    conf_give(lock);
    assert_int_equal(conf_try(a, name, &eight, NULL), ROTA_BUSY);
    conf_give(again);
    assert_int_equal(conf_try(a, name, &eight, NULL), 0);
}

/* The same owner value in another client is somebody else. */
static void owners_are_per_client(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask seven = {.owner = 7};
    struct rota_lock *lock = conf_take(a, name, &seven);
    assert_int_equal(conf_try(b, name, &seven, NULL), ROTA_BUSY);
    conf_give(lock);
}

static void threads_are_owners(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL), *out = NULL;
    assert_int_equal(try_elsewhere(a, name, 0, &out), ROTA_BUSY);
    assert_null(out);
    assert_int_equal(conf_try(a, name, NULL, NULL), 0);
    conf_give(lock);
}

static void owner_none_never_enters(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask none = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = conf_take(a, name, &none);
    assert_int_equal(conf_try(a, name, &none, NULL), ROTA_BUSY);
    assert_int_equal(conf_try(a, name, NULL, NULL), ROTA_BUSY);
    conf_give(lock);
    lock = conf_take(a, name, NULL);
    assert_int_equal(conf_try(a, name, &none, NULL), ROTA_BUSY);
    conf_give(lock);
}

/* Asynchronous asks have no thread: owner 0 is nobody there. */
static void async_asks_have_no_owner(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask seven = {.owner = 7};
    struct rota_lock *lock = conf_take(a, name, &seven);
    struct conf_wish *nobody = conf_wish_start(a, name, NULL);
    struct conf_wish *same = conf_wish_start(a, name, &seven);
    assert_int_equal(conf_wish_wait(same), 0);
    assert_true(rota_fence(atomic_load(&same->lock)) == rota_fence(lock));
    assert_int_equal(atomic_load(&nobody->calls), 0);
    conf_give(atomic_load(&same->lock));
    conf_give(lock);
    assert_int_equal(conf_wish_wait(nobody), 0);
    conf_give(atomic_load(&nobody->lock));
}

static void owner_values_have_limits(void)
{
    struct rota *a = conf_open();
    struct rota_ask last = {.owner = 1ull << 62}, over = {.owner = (1ull << 62) + 1};
    conf_give(conf_take(a, conf_name("x"), &last));
    assert_int_equal(conf_try(a, conf_name("x"), &over, NULL), ROTA_INVALID);
}

/* A shared holder cannot become exclusive: two that try would wait for each other. */
static void upgrade_is_refused(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask shared = {.mode = ROTA_SHARED};
    struct rota_lock *lock = conf_take(a, name, &shared), *out = NULL;
    assert_int_equal(rota_acquire(a, name, NULL, &out), ROTA_INVALID);
    assert_null(out);
    assert_true(rota_errmsg(a)[0] != '\0');
    assert_int_equal(rota_check(lock), 0);
    conf_assert_line(a, name, 1, 1);
    conf_give(lock);
    conf_give(conf_take(a, name, NULL));
}

/* An exclusive holder may also read; others still may not. */
static void owner_reads_under_its_own_hold(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask shared = {.mode = ROTA_SHARED};
    struct rota_lock *lock = conf_take(a, name, NULL), *reads = conf_take(a, name, &shared);
    assert_int_equal(conf_try(b, name, &shared, NULL), ROTA_BUSY);
    conf_give(lock);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_give(reads);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

const struct conf_case conf_reentry[] = {
    CONF_CASE(reentry_first_released_first, 0, 0),
    CONF_CASE(reentry_last_released_first, 0, 0),
    CONF_CASE(release_from_other_threads, 0, 0),
    CONF_CASE(reentry_is_deep, 0, 0),
    CONF_CASE(reentry_passes_waiters, 0, 0),
    CONF_CASE(other_owners_do_not_enter, 0, 0),
    CONF_CASE(owners_are_per_client, 0, 0),
    CONF_CASE(threads_are_owners, 0, 0),
    CONF_CASE(owner_none_never_enters, 0, 0),
    CONF_CASE(async_asks_have_no_owner, 0, 0),
    CONF_CASE(owner_values_have_limits, 0, 0),
    CONF_CASE(upgrade_is_refused, ROTA_CAP_SHARED, 0),
    CONF_CASE(owner_reads_under_its_own_hold, ROTA_CAP_SHARED, 0),
    CONF_END,
};
