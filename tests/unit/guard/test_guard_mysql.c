/* SPDX-License-Identifier: Apache-2.0 */
/* The guard and the lock in the caller's own transaction, on a real MariaDB. */
#include "lib/mysql_client.h"
#include "lib/proc.h"
#include "sql_cases.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rt_mariadb server;

static void *connect_db(void)
{
    return rt_mysql_client(&server);
}

static void close_db(void *db)
{
    mysql_close(db);
}

static void run(void *db, const char *sql)
{
    if (mysql_query(db, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(db));
    mysql_free_result(mysql_store_result(db));
}

static int guard(void *db, const char *resource, uint64_t fence)
{
    return rota_guard_mysql(db, resource, fence);
}

static int lock(void *db, const char *name, uint32_t wait_ms, uint64_t *fence)
{
    return rota_sql_lock_mysql(db, name, wait_ms, fence);
}

static void make(const char *sql)
{
    rt_mariadb_do(&server, "%s", sql);
}

static int64_t number(const char *sql)
{
    return strtoll(rt_mariadb_ask(&server, "%s", sql), NULL, 10);
}

static void cut(void *db)
{
    rt_mariadb_do(&server, "KILL %lu", mysql_thread_id(db));
}

const struct guard_sql guard_sql = {
    .makes = {ROTA_GUARD_MYSQL_DDL, ROTA_SQL_LOCK_MYSQL_DDL},
    .open = connect_db,
    .close = close_db,
    .run = run,
    .guard = guard,
    .lock = lock,
    .make = make,
    .number = number,
    .cut = cut,
    /* Not by innodb_trx: asked more often than ten times a second, it shows the same for ever. */
    .waits = "SELECT variable_value FROM information_schema.global_status "
             "WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
};

/* ---- What only MariaDB has ------------------------------------------------ */

/* Programs that want the rows found and not those changed see the same. */
static void rows_may_be_counted_the_other_way(void **state)
{
    (void)state;
    mysql_close(guard_a);
    guard_a = rt_mysql_client_with(&server, CLIENT_FOUND_ROWS);
    assert_int_equal(guard_sql_set(guard_a, 34, 8), 0);
    assert_int_equal(guard_sql_set(guard_a, 34, 8), 0);
    assert_int_equal(guard_sql_set(guard_a, 33, 9), ROTA_LOST);
}

static void without_autocommit_all_is_in_one(void **state)
{
    (void)state;
    run(guard_a, "SET autocommit = 0");
    assert_int_equal(guard(guard_a, "stock", 34), 0);
    run(guard_a, "ROLLBACK");
    assert_int_equal(number("SELECT count(*) FROM rota_guard"), 0);
}

/* Even where nothing changes: the same fence once more takes the lock. */
/* The client library reconnects by itself, and there every statement commits: the transaction is not there. */
static void another_connection_is_no_transaction(void **state)
{
    my_bool yes = 1;
    MYSQL *db = guard_a;
    (void)state;
    assert_int_equal(mysql_options(db, MYSQL_OPT_RECONNECT, &yes), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mysql_autocommit(db, 0), 0);
        cut(db);
        int err = i == 0 ? guard(db, "r", 5) : lock(db, "l", 1000, NULL);
        assert_int_equal(err, ROTA_UNREACHABLE);
    }
}

static void the_same_fence_locks_too(void **state)
{
    (void)state;
    assert_int_equal(guard_sql_set(guard_a, 34, 7), 0);
    run(guard_a, "BEGIN");
    assert_int_equal(guard(guard_a, "stock", 34), 0);
    run(guard_b, "SET innodb_lock_wait_timeout = 0");
    run(guard_b, "BEGIN");
    assert_int_equal(guard(guard_b, "stock", 35), ROTA_TIMEOUT);
    run(guard_b, "ROLLBACK");
    run(guard_a, "ROLLBACK");
}

static void a_deadlock_is_busy(void **state)
{
    (void)state;
    assert_int_equal(guard_sql_set(guard_a, 34, 7), 0);
    run(guard_a, "BEGIN");
    run(guard_a, "UPDATE stock SET n = 8");
    run(guard_b, "BEGIN");
    assert_int_equal(guard(guard_b, "stock", 34), 0);
    assert_int_equal(mysql_send_query(guard_b, "UPDATE stock SET n = 9", 22), 0);
    assert_true(rt_await(guard_sql_one_waits, NULL, 30000));
    int err = guard(guard_a, "stock", 34);
    int other = mysql_read_query_result(guard_b);
    /* The server chooses which of the two gives up. */
    assert_true(err == ROTA_BUSY || (err == 0 && other != 0));
    run(guard_a, "ROLLBACK");
    run(guard_b, "ROLLBACK");
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

    (void)state;
    mysql_set_character_set(guard_a, "gbk");
    run(guard_a, "SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
    run(guard_a, "BEGIN");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t fence = 0;
        assert_int_equal(guard(guard_a, names[i], 34 - i), 0); /* each is another */
        assert_int_equal(guard(guard_a, names[i], 33 - i), ROTA_LOST);
        assert_int_equal(lock(guard_a, names[i], 0, &fence), 0);
        assert_true(fence > 1700000000000000);
    }
    run(guard_a, "COMMIT");
}

static void what_may_not_be_done_is_told(void **state)
{
    (void)state;
    run(guard_a, "SET SESSION TRANSACTION READ ONLY");
    assert_int_equal(guard_sql_set(guard_a, 34, 8), ROTA_UNREACHABLE);
    guard_sql_stock_is(7);
}

static void the_callers_patience_is_kept(void **state)
{
    (void)state;
    run(guard_a, "SET innodb_lock_wait_timeout = 12");
    run(guard_a, "BEGIN");
    assert_int_equal(lock(guard_a, "nightly", 0, NULL), 0);
    run(guard_a, "COMMIT");
    assert_int_equal(mysql_query(guard_a, "SELECT @@innodb_lock_wait_timeout"), 0);
    MYSQL_RES *kept = mysql_store_result(guard_a);
    assert_string_equal(mysql_fetch_row(kept)[0], "12");
    mysql_free_result(kept);
}

static void a_zone_is_no_clock(void **state)
{
    uint64_t fence = 0, next = 0;

    (void)state;
    run(guard_a, "BEGIN");
    assert_int_equal(lock(guard_a, "zones", 0, &fence), 0);
    run(guard_a, "SET time_zone = '-12:00'");
    assert_int_equal(lock(guard_a, "west", 0, &next), 0);
    assert_true(next > fence && next - fence < 3600000000);
    run(guard_a, "COMMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_CASE(rows_may_be_counted_the_other_way),
        GUARD_CASE(without_autocommit_all_is_in_one),
        GUARD_CASE(another_connection_is_no_transaction),
        GUARD_CASE(the_same_fence_locks_too),
        GUARD_CASE(a_deadlock_is_busy),
        GUARD_CASE(any_name_is_a_resource),
        GUARD_CASE(what_may_not_be_done_is_told),
        GUARD_CASE(the_callers_patience_is_kept),
        GUARD_CASE(a_zone_is_no_clock),
    };

    rt_watchdog(120, "test_guard_mysql: hang");
    rt_mariadb_start(&server, NULL);
    rt_mariadb_do(&server, "USE " RT_MARIADB_DATABASE);
    int failed = guard_sql_cases() + cmocka_run_group_tests(tests, NULL, NULL);
    rt_mariadb_fini(&server);
    return failed;
}
