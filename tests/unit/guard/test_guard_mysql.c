/* SPDX-License-Identifier: Apache-2.0 */
/* The guard and the lock in the caller's own transaction, on a real MariaDB. */
#include "lib/mysql_client.h"
#include "lib/proc.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rt_mariadb server;
static MYSQL *a, *b;

static void run(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(db));
    mysql_free_result(mysql_store_result(db));
}

static int begin(void **state)
{
    (void)state;
    rt_mariadb_do(&server, "USE " RT_MARIADB_DATABASE);
    rt_mariadb_do(&server, "DROP TABLE IF EXISTS rota_guard, rota_sql_lock, stock");
    rt_mariadb_do(&server, "%s", ROTA_GUARD_MYSQL_DDL);
    rt_mariadb_do(&server, "%s", ROTA_SQL_LOCK_MYSQL_DDL);
    rt_mariadb_do(&server, "CREATE TABLE stock (n BIGINT)");
    rt_mariadb_do(&server, "INSERT INTO stock VALUES (7)");
    a = rt_mysql_client(&server);
    b = rt_mysql_client(&server);
    return a == NULL || b == NULL;
}

static int end(void **state)
{
    (void)state;
    mysql_close(a);
    mysql_close(b);
    return 0;
}

static int guarded(MYSQL *db, uint64_t fence, long n)
{
    char text[64];

    run(db, "BEGIN");
    int err = rota_guard_mysql(db, "stock", fence);
    snprintf(text, sizeof(text), "UPDATE stock SET n = %ld", n);
    if (err == 0)
        run(db, text);
    run(db, err == 0 ? "COMMIT" : "ROLLBACK");
    return err;
}

static void stock_is(const char *wanted)
{
    assert_string_equal(rt_mariadb_ask(&server, "SELECT n FROM stock"), wanted);
}

static void an_older_fence_is_refused(void **state)
{
    (void)state;
    assert_int_equal(guarded(a, 34, 8), 0);
    assert_int_equal(guarded(b, 33, 9), ROTA_LOST);
    assert_non_null(strstr(rota_errmsg(NULL), "later fence"));
    stock_is("8");
    assert_int_equal(guarded(b, 34, 9), 0);
    assert_int_equal(guarded(b, 34, 9), 0); /* nothing changes at all: it is still ours */
    assert_int_equal(guarded(a, INT64_MAX, 10), 0);
    assert_int_equal(guarded(a, INT64_MAX - 1, 11), ROTA_LOST);
    stock_is("10");
}

/* Programs that want the rows found and not those changed see the same. */
static void rows_may_be_counted_the_other_way(void **state)
{
    (void)state;
    mysql_close(a);
    a = rt_mysql_client_with(&server, CLIENT_FOUND_ROWS);
    assert_int_equal(guarded(a, 34, 8), 0);
    assert_int_equal(guarded(a, 34, 8), 0);
    assert_int_equal(guarded(a, 33, 9), ROTA_LOST);
}

static void what_was_rolled_back_was_not_seen(void **state)
{
    (void)state;
    run(a, "BEGIN");
    assert_int_equal(rota_guard_mysql(a, "stock", 34), 0);
    run(a, "ROLLBACK");
    assert_int_equal(guarded(b, 33, 8), 0);
}

static void it_belongs_into_a_transaction(void **state)
{
    (void)state;
    assert_int_equal(rota_guard_mysql(a, "stock", 34), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "BEGIN"));
    assert_int_equal(rota_sql_lock_mysql(a, "stock", 0, NULL), ROTA_INVALID);
    run(a, "SET autocommit = 0"); /* every statement is in one */
    assert_int_equal(rota_guard_mysql(a, "stock", 34), 0);
    run(a, "ROLLBACK");
    assert_string_equal(rt_mariadb_ask(&server, "SELECT count(*) FROM rota_guard"), "0");
}

/* Not by innodb_trx: who asks that more often than ten times a second is shown the same for ever. */
static bool one_waits(void *arg)
{
    (void)arg;
    return strcmp(rt_mariadb_ask(&server,
                                 "SELECT variable_value FROM information_schema.global_status "
                                 "WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"),
                  "1") == 0;
}

static int guard_late(int index, void *arg)
{
    (void)index;
    (void)arg;
    MYSQL *db = rt_mysql_client(&server);
    int err = guarded(db, 33, 99);
    mysql_close(db);
    return err == ROTA_LOST ? 0 : 1;
}

static void the_row_stays_locked_until_commit(void **state)
{
    (void)state;
    assert_int_equal(guarded(a, 32, 7), 0);
    run(a, "BEGIN");
    assert_int_equal(rota_guard_mysql(a, "stock", 34), 0);
    pid_t other = rt_proc_start(guard_late, 0, NULL);
    assert_true(rt_await(one_waits, NULL, 30000));
    run(a, "UPDATE stock SET n = n + 1");
    run(a, "COMMIT");
    assert_int_equal(rt_proc_wait(other), 0);
    stock_is("8");
}

/* Also where nothing changes: the same fence once more takes the lock. */
static void the_same_fence_locks_too(void **state)
{
    (void)state;
    assert_int_equal(guarded(a, 34, 7), 0);
    run(a, "BEGIN");
    assert_int_equal(rota_guard_mysql(a, "stock", 34), 0);
    run(b, "SET innodb_lock_wait_timeout = 0");
    run(b, "BEGIN");
    assert_int_equal(rota_guard_mysql(b, "stock", 35), ROTA_TIMEOUT);
    run(b, "ROLLBACK");
    run(a, "ROLLBACK");
}

static void a_deadlock_is_busy(void **state)
{
    (void)state;
    assert_int_equal(guarded(a, 34, 7), 0);
    run(a, "BEGIN");
    run(a, "UPDATE stock SET n = 8");
    run(b, "BEGIN");
    assert_int_equal(rota_guard_mysql(b, "stock", 34), 0);
    assert_int_equal(mysql_send_query(b, "UPDATE stock SET n = 9", 22), 0);
    assert_true(rt_await(one_waits, NULL, 30000));
    int err = rota_guard_mysql(a, "stock", 34);
    int other = mysql_read_query_result(b);
    /* The server chooses which of the two gives up. */
    assert_true(err == ROTA_BUSY || (err == 0 && other != 0));
    run(a, "ROLLBACK");
    run(b, "ROLLBACK");
}

static void any_name_is_a_resource(void **state)
{
    static const char *const names[] = {"it's",
                                        "\"quoted\"",
                                        "back\\slash",
                                        "\xe4\xbd\xa0\xe5\xa5\xbd",
                                        "x'; DROP TABLE stock",
                                        "%s",
                                        "\xff\xfe",
                                        "A",
                                        "a",
                                        "a ",
                                        "\x01\n"};
    char longest[300];

    (void)state;
    mysql_set_character_set(a, "gbk");
    run(a, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
    run(a, "BEGIN");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t fence = 0;
        assert_int_equal(rota_guard_mysql(a, names[i], 34 - i), 0); /* each is another */
        assert_int_equal(rota_guard_mysql(a, names[i], 33 - i), ROTA_LOST);
        assert_int_equal(rota_sql_lock_mysql(a, names[i], 0, &fence), 0);
        assert_true(fence > 1700000000000000);
    }
    memset(longest, 'x', sizeof(longest));
    longest[256] = '\0';
    assert_int_equal(rota_guard_mysql(a, longest, 34), ROTA_INVALID);
    longest[255] = '\0';
    assert_int_equal(rota_guard_mysql(a, longest, 34), 0);
    assert_int_equal(rota_sql_lock_mysql(a, longest, 0, NULL), 0);
    run(a, "COMMIT");
}

static void what_is_missing_is_told(void **state)
{
    (void)state;
    assert_int_equal(rota_guard_mysql(NULL, "stock", 34), ROTA_INVALID);
    run(a, "BEGIN");
    assert_int_equal(rota_guard_mysql(a, "", 34), ROTA_INVALID);
    assert_int_equal(rota_guard_mysql(a, NULL, 34), ROTA_INVALID);
    assert_int_equal(rota_guard_mysql(a, "stock", 0), ROTA_INVALID);
    assert_int_equal(rota_guard_mysql(a, "stock", (uint64_t)INT64_MAX + 1), ROTA_INVALID);
    run(a, "COMMIT");
    rt_mariadb_do(&server, "DROP TABLE rota_guard, rota_sql_lock");
    assert_int_equal(guarded(a, 34, 8), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "CREATE TABLE IF NOT EXISTS rota_guard"));
    run(a, "BEGIN");
    assert_int_equal(rota_sql_lock_mysql(a, "stock", 0, NULL), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "CREATE TABLE IF NOT EXISTS rota_sql_lock"));
    run(a, "ROLLBACK");
    rt_mariadb_do(&server, "CREATE TABLE rota_guard (x INT)");
    assert_int_equal(guarded(a, 34, 8), ROTA_INVALID);
    run(a, "SET SESSION TRANSACTION READ ONLY");
    assert_int_equal(guarded(a, 34, 8), ROTA_UNREACHABLE);
    stock_is("7");
}

static void a_broken_connection_is_told(void **state)
{
    (void)state;
    run(a, "BEGIN");
    rt_mariadb_do(&server, "KILL %lu", mysql_thread_id(a));
    assert_int_equal(rota_guard_mysql(a, "stock", 34), ROTA_UNREACHABLE);
    run(b, "BEGIN");
    rt_mariadb_do(&server, "KILL %lu", mysql_thread_id(b));
    assert_int_equal(rota_sql_lock_mysql(b, "stock", ROTA_NEVER, NULL), ROTA_UNREACHABLE);
}

/* ---- The lock ------------------------------------------------------------ */

static void the_lock_is_free_at_the_end_of_the_transaction(void **state)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    uint64_t fence = 0, last = 0;

    (void)state;
    run(a, "SET innodb_lock_wait_timeout = 12");
    for (int i = 0; i < 4; i++) {
        run(a, "BEGIN");
        run(b, "BEGIN");
        assert_int_equal(rota_sql_lock_mysql(a, "nightly", 0, &fence), 0);
        assert_true(fence > last);
        last = fence;
        assert_int_equal(rota_sql_lock_mysql(b, "nightly", 0, &fence), ROTA_BUSY);
        if (i == 0)
            assert_int_equal(rota_sql_lock_mysql(b, "nightly", 20, &fence), ROTA_TIMEOUT);
        assert_true(fence == last); /* outputs are untouched on error */
        assert_int_equal(rota_sql_lock_mysql(a, "nightly", 0, &fence), 0); /* it has it */
        assert_true(fence > last);
        run(a, ends[i % 2]);
        assert_int_equal(rota_sql_lock_mysql(b, "nightly", 0, &last), 0);
        run(b, "COMMIT");
    }
    assert_int_equal(mysql_query(a, "SELECT @@innodb_lock_wait_timeout"), 0);
    MYSQL_RES *kept = mysql_store_result(a);
    assert_string_equal(mysql_fetch_row(kept)[0], "12");
    mysql_free_result(kept);
}

static int wait_for_lock(int index, void *arg)
{
    (void)index;
    (void)arg;
    MYSQL *db = rt_mysql_client(&server);
    run(db, "BEGIN");
    int err = rota_sql_lock_mysql(db, "nightly", ROTA_NEVER, NULL);
    if (err == 0)
        run(db, "UPDATE stock SET n = n + 1");
    run(db, "COMMIT");
    mysql_close(db);
    return err == 0 ? 0 : 1;
}

static void who_waits_is_let_in(void **state)
{
    (void)state;
    run(a, "BEGIN");
    assert_int_equal(rota_sql_lock_mysql(a, "nightly", ROTA_NEVER, NULL), 0);
    pid_t other = rt_proc_start(wait_for_lock, 0, NULL);
    assert_true(rt_await(one_waits, NULL, 30000));
    run(a, "UPDATE stock SET n = n + 1");
    run(a, "COMMIT");
    assert_int_equal(rt_proc_wait(other), 0);
    stock_is("9");
}

static void the_fence_grows_whatever_the_clock_says(void **state)
{
    uint64_t fence = 0, next = 0;

    (void)state;
    rt_mariadb_do(&server, "INSERT INTO rota_sql_lock VALUES ('nightly', 9000000000000000)");
    run(a, "BEGIN");
    assert_int_equal(rota_sql_lock_mysql(a, "nightly", 0, &fence), 0);
    assert_true(fence == 9000000000000001);
    assert_int_equal(rota_sql_lock_mysql(a, "zones", 0, &fence), 0);
    run(a, "SET time_zone = '-12:00'"); /* a zone is no clock */
    assert_int_equal(rota_sql_lock_mysql(a, "west", 0, &next), 0);
    assert_true(next > fence && next - fence < 3600000000);
    run(a, "COMMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
        CASE(an_older_fence_is_refused),
        CASE(rows_may_be_counted_the_other_way),
        CASE(what_was_rolled_back_was_not_seen),
        CASE(it_belongs_into_a_transaction),
        CASE(the_row_stays_locked_until_commit),
        CASE(the_same_fence_locks_too),
        CASE(a_deadlock_is_busy),
        CASE(any_name_is_a_resource),
        CASE(what_is_missing_is_told),
        CASE(a_broken_connection_is_told),
        CASE(the_lock_is_free_at_the_end_of_the_transaction),
        CASE(who_waits_is_let_in),
        CASE(the_fence_grows_whatever_the_clock_says),
#undef CASE
    };

    rt_watchdog(120, "test_guard_mysql: hang");
    rt_mariadb_start(&server, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_mariadb_fini(&server);
    return failed;
}
