/* SPDX-License-Identifier: Apache-2.0 */
/* The guard and the lock in the caller's own transaction, on a real PostgreSQL. */
#include "lib/postgres_server.h"
#include "lib/proc.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct rt_pg server;
static PGconn *a, *b;

static PGconn *connect_db(void)
{
    char *url = rt_pg_url(&server, 0);
    PGconn *db = PQconnectdb(url);

    free(url);
    assert_int_equal(PQstatus(db), CONNECTION_OK);
    return db;
}

static void run(PGconn *db, const char *sql)
{
    PGresult *result = PQexec(db, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(db));
    PQclear(result);
}

static int begin(void **state)
{
    (void)state;
    rt_pg_do(&server,
             "SET client_min_messages = error; DROP TABLE IF EXISTS rota_guard, "
             "rota_sql_lock, stock; " ROTA_GUARD_POSTGRES_DDL "; " ROTA_SQL_LOCK_POSTGRES_DDL
             "; CREATE TABLE stock (n bigint); INSERT INTO stock VALUES (7)");
    a = connect_db();
    b = connect_db();
    return 0;
}

static int end(void **state)
{
    (void)state;
    PQfinish(a);
    PQfinish(b);
    return 0;
}

static int guarded(PGconn *db, uint64_t fence, long n)
{
    char text[64];

    run(db, "BEGIN");
    int err = rota_guard_postgres(db, "stock", fence);
    snprintf(text, sizeof(text), "UPDATE stock SET n = %ld", n);
    if (err == 0)
        run(db, text);
    run(db, err == 0 ? "COMMIT" : "ROLLBACK");
    return err;
}

static void an_older_fence_is_refused(void **state)
{
    (void)state;
    assert_int_equal(guarded(a, 34, 8), 0);
    assert_int_equal(guarded(b, 33, 9), ROTA_LOST);
    assert_non_null(strstr(rota_errmsg(NULL), "later fence"));
    assert_int_equal(rt_pg_number(&server, "SELECT n FROM stock"), 8);
    assert_int_equal(guarded(b, 34, 9), 0);
    assert_int_equal(guarded(a, INT64_MAX, 10), 0);
    assert_int_equal(guarded(a, INT64_MAX - 1, 11), ROTA_LOST);
    assert_int_equal(rt_pg_number(&server, "SELECT n FROM stock"), 10);
}

static void what_was_rolled_back_was_not_seen(void **state)
{
    (void)state;
    run(a, "BEGIN");
    assert_int_equal(rota_guard_postgres(a, "stock", 34), 0);
    run(a, "ROLLBACK");
    assert_int_equal(guarded(b, 33, 8), 0);
}

static void it_belongs_into_a_transaction(void **state)
{
    uint64_t fence;

    (void)state;
    assert_int_equal(rota_guard_postgres(a, "stock", 34), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "BEGIN"));
    assert_int_equal(rota_sql_lock_postgres(a, "stock", 0, &fence), ROTA_INVALID);
    run(a, "BEGIN");
    PQclear(PQexec(a, "SELECT 1 / 0"));
    assert_int_equal(rota_guard_postgres(a, "stock", 34), ROTA_INVALID);
    assert_int_equal(rt_pg_number(&server, "SELECT count(*) FROM rota_guard"), 0);
}

/* How many backends wait for a lock. */
static bool one_waits(void *arg)
{
    (void)arg;
    return rt_pg_number(&server,
                        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") ==
           1;
}

static int guard_late(int index, void *arg)
{
    (void)index;
    (void)arg;
    PGconn *db = connect_db();
    int err = guarded(db, 33, 99);
    PQfinish(db);
    return err == ROTA_LOST ? 0 : 1;
}

/* Look and write are one step: who comes in between waits for the COMMIT, and then sees it. */
static void the_row_stays_locked_until_commit(void **state)
{
    (void)state;
    run(a, "BEGIN");
    assert_int_equal(rota_guard_postgres(a, "stock", 34), 0);
    pid_t other = rt_proc_start(guard_late, 0, NULL);
    assert_true(rt_await(one_waits, NULL, 30000));
    run(a, "UPDATE stock SET n = n + 1");
    run(a, "COMMIT");
    assert_int_equal(rt_proc_wait(other), 0);
    assert_int_equal(rt_pg_number(&server, "SELECT n FROM stock"), 8);
}

/* Whose snapshot is older is told to begin anew, at the higher levels. */
static void an_old_snapshot_is_busy(void **state)
{
    (void)state;
    assert_int_equal(guarded(b, 33, 8), 0);
    run(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM stock");
    assert_int_equal(guarded(b, 34, 9), 0);
    assert_int_equal(rota_guard_postgres(a, "stock", 35), ROTA_BUSY);
    run(a, "ROLLBACK");
    assert_int_equal(guarded(a, 35, 10), 0);
}

static void any_name_is_a_resource(void **state)
{
    static const char *const names[] = {
        "it's", "\"quoted\"", "back\\slash", "\xe4\xbd\xa0\xe5\xa5\xbd", "$1; DROP TABLE stock",
        "%s"};
    char longest[300];

    (void)state;
    run(a, "BEGIN");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t fence = 0;
        assert_int_equal(rota_guard_postgres(a, names[i], 34), 0);
        assert_int_equal(rota_guard_postgres(a, names[i], 33), ROTA_LOST);
        assert_int_equal(rota_sql_lock_postgres(a, names[i], 0, &fence), 0);
        assert_true(fence > 0);
    }
    memset(longest, 'x', sizeof(longest));
    longest[256] = '\0';
    assert_int_equal(rota_guard_postgres(a, longest, 34), ROTA_INVALID);
    longest[255] = '\0';
    assert_int_equal(rota_guard_postgres(a, longest, 34), 0);
    memset(longest, '\'', 255);
    assert_int_equal(rota_sql_lock_postgres(a, longest, 0, NULL), 0);
    run(a, "COMMIT");
    run(a, "BEGIN");
    assert_int_equal(rota_guard_postgres(a, "\xff", 34), ROTA_INVALID); /* no text there */
}

static void what_is_missing_is_told(void **state)
{
    (void)state;
    assert_int_equal(rota_guard_postgres(NULL, "stock", 34), ROTA_INVALID);
    run(a, "BEGIN");
    assert_int_equal(rota_guard_postgres(a, "", 34), ROTA_INVALID);
    assert_int_equal(rota_guard_postgres(a, NULL, 34), ROTA_INVALID);
    assert_int_equal(rota_guard_postgres(a, "stock", 0), ROTA_INVALID);
    assert_int_equal(rota_guard_postgres(a, "stock", (uint64_t)INT64_MAX + 1), ROTA_INVALID);
    run(a, "COMMIT");
    rt_pg_do(&server, "DROP TABLE rota_guard; CREATE TABLE rota_guard (x text)");
    assert_int_equal(guarded(a, 34, 8), ROTA_INVALID);
    rt_pg_do(&server, "DROP TABLE rota_guard, rota_sql_lock");
    assert_int_equal(guarded(a, 34, 8), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "CREATE TABLE IF NOT EXISTS rota_guard"));
    run(a, "BEGIN");
    assert_int_equal(rota_sql_lock_postgres(a, "stock", 0, NULL), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "CREATE TABLE IF NOT EXISTS rota_sql_lock"));
    run(a, "SELECT 1"); /* its transaction lives on */
    run(a, "ROLLBACK");
    run(a, "SET default_transaction_read_only = on");
    rt_pg_do(&server, ROTA_GUARD_POSTGRES_DDL);
    assert_int_equal(guarded(a, 34, 8), ROTA_UNREACHABLE);
    run(a, "RESET default_transaction_read_only");
    rt_pg_do(&server, "DROP ROLE IF EXISTS reader; CREATE ROLE reader");
    run(a, "SET ROLE reader");
    assert_int_equal(guarded(a, 34, 8), ROTA_AUTH);
    assert_non_null(strstr(rota_errmsg(NULL), "permission denied"));
    assert_null(strchr(rota_errmsg(NULL), '\n')); /* one line, whatever the server says */
    run(a, "RESET ROLE");
    assert_int_equal(rt_pg_number(&server, "SELECT n FROM stock"), 7);
}

static void a_broken_connection_is_told(void **state)
{
    (void)state;
    run(a, "BEGIN");
    rt_pg_do(&server, "SELECT pg_terminate_backend(%d)", PQbackendPID(a));
    assert_int_equal(rota_guard_postgres(a, "stock", 34), ROTA_UNREACHABLE);
    assert_int_equal(rota_guard_postgres(a, "stock", 34), ROTA_UNREACHABLE);
    run(b, "BEGIN");
    rt_pg_do(&server, "SELECT pg_terminate_backend(%d)", PQbackendPID(b));
    assert_int_equal(rota_sql_lock_postgres(b, "stock", ROTA_NEVER, NULL), ROTA_UNREACHABLE);
}

/* ---- The lock ------------------------------------------------------------ */

static void the_lock_is_free_at_the_end_of_the_transaction(void **state)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    uint64_t fence = 0, last = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        run(a, "BEGIN; SET LOCAL lock_timeout = '12s'");
        run(b, "BEGIN");
        assert_int_equal(rota_sql_lock_postgres(a, "nightly", 0, &fence), 0);
        assert_true(fence > last || i % 2 != 0); /* what was rolled back is not remembered */
        last = fence;
        assert_int_equal(rota_sql_lock_postgres(b, "nightly", 0, &fence), ROTA_BUSY);
        assert_int_equal(rota_sql_lock_postgres(b, "nightly", 20, &fence), ROTA_TIMEOUT);
        assert_true(fence == last); /* outputs are untouched on error */
        assert_int_equal(rota_sql_lock_postgres(b, "other", 0, NULL), 0);
        assert_int_equal(rota_sql_lock_postgres(a, "nightly", 0, &fence), 0); /* it has it */
        assert_true(fence > last);
        last = fence;
        PGresult *kept = PQexec(a, "SHOW lock_timeout");
        assert_string_equal(PQgetvalue(kept, 0, 0), "12s");
        PQclear(kept);
        run(a, ends[i % 2]);
        assert_int_equal(rota_sql_lock_postgres(b, "nightly", 0, &fence), 0);
        run(b, "COMMIT");
        last = fence;
    }
}

static int wait_for_lock(int index, void *arg)
{
    uint64_t fence = 0;

    (void)index;
    (void)arg;
    PGconn *db = connect_db();
    run(db, "BEGIN");
    int err = rota_sql_lock_postgres(db, "nightly", ROTA_NEVER, &fence);
    if (err == 0)
        run(db, "UPDATE stock SET n = n + 1");
    run(db, "COMMIT");
    PQfinish(db);
    return err == 0 ? 0 : 1;
}

static void who_waits_is_let_in(void **state)
{
    (void)state;
    run(a, "BEGIN");
    assert_int_equal(rota_sql_lock_postgres(a, "nightly", ROTA_NEVER, NULL), 0);
    pid_t other = rt_proc_start(wait_for_lock, 0, NULL);
    assert_true(rt_await(one_waits, NULL, 30000));
    run(a, "UPDATE stock SET n = n + 1");
    run(a, "COMMIT");
    assert_int_equal(rt_proc_wait(other), 0);
    assert_int_equal(rt_pg_number(&server, "SELECT n FROM stock"), 9);
}

/* A server's clock that goes back does not take the fence with it. */
static void the_fence_grows_whatever_the_clock_says(void **state)
{
    uint64_t fence;

    (void)state;
    rt_pg_do(&server, "INSERT INTO rota_sql_lock VALUES ('nightly', 9000000000000000)");
    run(a, "BEGIN");
    assert_int_equal(rota_sql_lock_postgres(a, "nightly", 0, &fence), 0);
    assert_true(fence == 9000000000000001);
    run(a, "COMMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
        CASE(an_older_fence_is_refused),
        CASE(what_was_rolled_back_was_not_seen),
        CASE(it_belongs_into_a_transaction),
        CASE(the_row_stays_locked_until_commit),
        CASE(an_old_snapshot_is_busy),
        CASE(any_name_is_a_resource),
        CASE(what_is_missing_is_told),
        CASE(a_broken_connection_is_told),
        CASE(the_lock_is_free_at_the_end_of_the_transaction),
        CASE(who_waits_is_let_in),
        CASE(the_fence_grows_whatever_the_clock_says),
#undef CASE
    };

    rt_watchdog(120, "test_guard_postgres: hang");
    rt_pg_start(&server, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_pg_fini(&server);
    return failed;
}
