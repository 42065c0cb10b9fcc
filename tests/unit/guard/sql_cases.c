/* SPDX-License-Identifier: Apache-2.0 */
/* The cases that all SQL servers have. */
#include "sql_cases.h"

#include "lib/patience.h"
#include "lib/proc.h"
#include "lib/servers.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS rt_patient_ms(30000)

void *guard_a, *guard_b;

int guard_sql_begin(void **state)
{
    (void)state;
    guard_sql.make("DROP TABLE IF EXISTS rota_guard, rota_sql_lock, stock");
    guard_sql.make(guard_sql.makes[0]);
    guard_sql.make(guard_sql.makes[1]);
    guard_sql.make("CREATE TABLE stock (n BIGINT)");
    guard_sql.make("INSERT INTO stock VALUES (7)");
    guard_a = guard_sql.open();
    guard_b = guard_sql.open();
    return 0;
}

int guard_sql_end(void **state)
{
    (void)state;
    guard_sql.close(guard_a);
    guard_sql.close(guard_b);
    return 0;
}

int guard_sql_set(void *db, uint64_t fence, long n)
{
    char text[64];

    guard_sql.run(db, "BEGIN");
    int err = guard_sql.guard(db, "stock", fence);
    snprintf(text, sizeof(text), "UPDATE stock SET n = %ld", n);
    if (err == 0)
        guard_sql.run(db, text);
    guard_sql.run(db, err == 0 ? "COMMIT" : "ROLLBACK");
    return err;
}

void guard_sql_stock_is(long n)
{
    assert_int_equal(guard_sql.number("SELECT n FROM stock"), n);
}

bool guard_sql_one_waits(void *arg)
{
    (void)arg;
    return guard_sql.number(guard_sql.waits) == 1;
}

/* ---- The guard ------------------------------------------------------------ */

static void an_older_fence_is_refused(void **state)
{
    (void)state;
    assert_int_equal(guard_sql_set(guard_a, 34, 8), 0);
    assert_int_equal(guard_sql_set(guard_b, 33, 9), ROTA_LOST);
    assert_non_null(strstr(rota_errmsg(NULL), "later fence"));
    guard_sql_stock_is(8);
    assert_int_equal(guard_sql_set(guard_b, 34, 9), 0);
    assert_int_equal(guard_sql_set(guard_b, 34, 9), 0); /* nothing changes: it is still ours */
    assert_int_equal(guard_sql_set(guard_a, INT64_MAX, 10), 0);
    assert_int_equal(guard_sql_set(guard_a, INT64_MAX - 1, 11), ROTA_LOST);
    guard_sql_stock_is(10);
}

static void what_was_rolled_back_was_not_seen(void **state)
{
    (void)state;
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.guard(guard_a, "stock", 34), 0);
    guard_sql.run(guard_a, "ROLLBACK");
    assert_int_equal(guard_sql_set(guard_b, 33, 8), 0);
}

static void it_belongs_into_a_transaction(void **state)
{
    uint64_t fence;

    (void)state;
    assert_int_equal(guard_sql.guard(guard_a, "stock", 34), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "BEGIN"));
    assert_int_equal(guard_sql.lock(guard_a, "stock", 0, &fence), ROTA_INVALID);
    assert_int_equal(guard_sql.number("SELECT count(*) FROM rota_guard"), 0);
}

static int guard_late(int index, void *arg)
{
    (void)index;
    (void)arg;
    void *db = guard_sql.open();
    int err = guard_sql_set(db, 33, 99);
    guard_sql.close(db);
    return err == ROTA_LOST ? 0 : 1;
}

/* Look and write are one step: one that comes in between waits for the COMMIT, and then sees it. */
static void the_row_stays_locked_until_commit(void **state)
{
    (void)state;
    assert_int_equal(guard_sql_set(guard_a, 32, 7), 0);
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.guard(guard_a, "stock", 34), 0);
    pid_t other = rt_proc_start(guard_late, 0, NULL);
    assert_true(rt_await(guard_sql_one_waits, NULL, PATIENCE_MS));
    guard_sql.run(guard_a, "UPDATE stock SET n = n + 1");
    guard_sql.run(guard_a, "COMMIT");
    assert_int_equal(rt_proc_wait(other), 0);
    guard_sql_stock_is(8);
}

static void names_that_are_too_long(void **state)
{
    char longest[300];

    (void)state;
    memset(longest, '\'', sizeof(longest));
    longest[256] = '\0';
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.guard(guard_a, longest, 34), ROTA_INVALID);
    longest[255] = '\0';
    assert_int_equal(guard_sql.guard(guard_a, longest, 34), 0);
    assert_int_equal(guard_sql.lock(guard_a, longest, 0, NULL), 0);
    guard_sql.run(guard_a, "COMMIT");
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    assert_int_equal(guard_sql.guard(NULL, "stock", 34), ROTA_INVALID);
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.guard(guard_a, "", 34), ROTA_INVALID);
    assert_int_equal(guard_sql.guard(guard_a, NULL, 34), ROTA_INVALID);
    assert_int_equal(guard_sql.guard(guard_a, "stock", 0), ROTA_INVALID);
    assert_int_equal(guard_sql.guard(guard_a, "stock", (uint64_t)INT64_MAX + 1), ROTA_INVALID);
    guard_sql.run(guard_a, "COMMIT");
}

static void tables_that_are_missing_are_told(void **state)
{
    (void)state;
    guard_sql.make("DROP TABLE rota_guard, rota_sql_lock");
    assert_int_equal(guard_sql_set(guard_a, 34, 8), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "CREATE TABLE IF NOT EXISTS rota_guard"));
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.lock(guard_a, "stock", 0, NULL), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "CREATE TABLE IF NOT EXISTS rota_sql_lock"));
    guard_sql.run(guard_a, "SELECT 1"); /* its transaction lives on */
    guard_sql.run(guard_a, "ROLLBACK");
    guard_sql.make("CREATE TABLE rota_guard (x INT)");
    assert_int_equal(guard_sql_set(guard_a, 34, 8), ROTA_INVALID);
    guard_sql_stock_is(7);
}

static void a_broken_connection_is_told(void **state)
{
    (void)state;
    guard_sql.run(guard_a, "BEGIN");
    guard_sql.cut(guard_a);
    assert_int_equal(guard_sql.guard(guard_a, "stock", 34), ROTA_UNREACHABLE);
    assert_int_not_equal(guard_sql.guard(guard_a, "stock", 34), 0); /* now and ever after */
    guard_sql.run(guard_b, "BEGIN");
    guard_sql.cut(guard_b);
    assert_int_equal(guard_sql.lock(guard_b, "stock", ROTA_NEVER, NULL), ROTA_UNREACHABLE);
}

/* ---- The lock ------------------------------------------------------------- */

static void the_lock_is_free_at_the_end_of_the_transaction(void **state)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    uint64_t fence = 0, last = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        guard_sql.run(guard_a, "BEGIN");
        guard_sql.run(guard_b, "BEGIN");
        assert_int_equal(guard_sql.lock(guard_a, "nightly", 0, &fence), 0);
        assert_true(fence > last || i % 2 != 0); /* what was rolled back is not remembered */
        last = fence;
        assert_int_equal(guard_sql.lock(guard_b, "nightly", 0, &fence), ROTA_BUSY);
        if (i == 0)
            assert_int_equal(guard_sql.lock(guard_b, "nightly", 20, &fence), ROTA_TIMEOUT);
        assert_true(fence == last); /* outputs are untouched on error */
        assert_int_equal(guard_sql.lock(guard_b, "other", 0, NULL), 0);
        assert_int_equal(guard_sql.lock(guard_a, "nightly", 0, &fence), 0); /* it has it */
        assert_true(fence > last);
        guard_sql.run(guard_a, ends[i % 2]);
        assert_int_equal(guard_sql.lock(guard_b, "nightly", 0, &last), 0);
        guard_sql.run(guard_b, "COMMIT");
    }
}

static int wait_for_lock(int index, void *arg)
{
    uint64_t fence = 0;

    (void)index;
    (void)arg;
    void *db = guard_sql.open();
    guard_sql.run(db, "BEGIN");
    int err = guard_sql.lock(db, "nightly", ROTA_NEVER, &fence);
    if (err == 0)
        guard_sql.run(db, "UPDATE stock SET n = n + 1");
    guard_sql.run(db, "COMMIT");
    guard_sql.close(db);
    return err == 0 ? 0 : 1;
}

static void who_waits_is_let_in(void **state)
{
    (void)state;
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.lock(guard_a, "nightly", ROTA_NEVER, NULL), 0);
    pid_t other = rt_proc_start(wait_for_lock, 0, NULL);
    assert_true(rt_await(guard_sql_one_waits, NULL, PATIENCE_MS));
    guard_sql.run(guard_a, "UPDATE stock SET n = n + 1");
    guard_sql.run(guard_a, "COMMIT");
    assert_int_equal(rt_proc_wait(other), 0);
    guard_sql_stock_is(9);
}

/* When a server's clock goes back, the fence does not go back with it. */
static void the_fence_grows_whatever_the_clock_says(void **state)
{
    uint64_t fence;

    (void)state;
    guard_sql.make("INSERT INTO rota_sql_lock VALUES ('nightly', 9000000000000000)");
    guard_sql.run(guard_a, "BEGIN");
    assert_int_equal(guard_sql.lock(guard_a, "nightly", 0, &fence), 0);
    assert_true(fence == 9000000000000001);
    guard_sql.run(guard_a, "COMMIT");
}

int guard_sql_cases(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_CASE(an_older_fence_is_refused),
        GUARD_CASE(what_was_rolled_back_was_not_seen),
        GUARD_CASE(it_belongs_into_a_transaction),
        GUARD_CASE(the_row_stays_locked_until_commit),
        GUARD_CASE(names_that_are_too_long),
        GUARD_CASE(nonsense_is_refused),
        GUARD_CASE(tables_that_are_missing_are_told),
        GUARD_CASE(a_broken_connection_is_told),
        GUARD_CASE(the_lock_is_free_at_the_end_of_the_transaction),
        GUARD_CASE(who_waits_is_let_in),
        GUARD_CASE(the_fence_grows_whatever_the_clock_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
