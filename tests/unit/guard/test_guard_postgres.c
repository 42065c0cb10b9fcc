/* SPDX-License-Identifier: Apache-2.0 */
/* The guard and the lock in the caller's own transaction, on a real PostgreSQL. */
#include "lib/postgres_server.h"
#include "lib/proc.h"
#include "sql_cases.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct rt_pg server;

static void *connect_db(void)
{
    char *url = rt_pg_url(&server, 0);
    PGconn *db = PQconnectdb(url);

    free(url);
    assert_int_equal(PQstatus(db), CONNECTION_OK);
    return db;
}

static void close_db(void *db)
{
    PQfinish(db);
}

static void run(void *db, const char *sql)
{
    PGresult *result = PQexec(db, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(db));
    PQclear(result);
}

static int guard(void *db, const char *resource, uint64_t fence)
{
    return rota_guard_postgres(db, resource, fence);
}

static int lock(void *db, const char *name, uint32_t wait_ms, uint64_t *fence)
{
    return rota_sql_lock_postgres(db, name, wait_ms, fence);
}

static void make(const char *sql)
{
    (void)rt_pg_do(&server, "SET client_min_messages = error; %s", sql);
}

static int64_t number(const char *sql)
{
    return rt_pg_number(&server, "%s", sql);
}

static void cut(void *db)
{
    (void)rt_pg_do(&server, "SELECT pg_terminate_backend(%d)", PQbackendPID(db));
}

const struct guard_sql guard_sql = {
    .makes = {ROTA_GUARD_POSTGRES_DDL, ROTA_SQL_LOCK_POSTGRES_DDL},
    .open = connect_db,
    .close = close_db,
    .run = run,
    .guard = guard,
    .lock = lock,
    .make = make,
    .number = number,
    .cut = cut,
    .waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
};

/* ---- What only PostgreSQL has --------------------------------------------- */

static void a_failed_transaction_is_none(void **state)
{
    (void)state;
    run(guard_a, "BEGIN");
    PQclear(PQexec(guard_a, "SELECT 1 / 0"));
    assert_int_equal(guard(guard_a, "stock", 34), ROTA_INVALID);
    assert_int_equal(number("SELECT count(*) FROM rota_guard"), 0);
}

/* At the higher levels, a transaction whose snapshot is older is told to begin anew. */
static void an_old_snapshot_is_busy(void **state)
{
    (void)state;
    assert_int_equal(guard_sql_set(guard_b, 33, 8), 0);
    run(guard_a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM stock");
    assert_int_equal(guard_sql_set(guard_b, 34, 9), 0);
    assert_int_equal(guard(guard_a, "stock", 35), ROTA_BUSY);
    run(guard_a, "ROLLBACK");
    assert_int_equal(guard_sql_set(guard_a, 35, 10), 0);
}

static void any_name_is_a_resource(void **state)
{
    static const char *const names[] = {
        "it's", "\"quoted\"", "back\\slash", "\xe4\xbd\xa0\xe5\xa5\xbd", "$1; DROP TABLE stock",
        "%s"};

    (void)state;
    run(guard_a, "BEGIN");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t fence = 0;
        assert_int_equal(guard(guard_a, names[i], 34), 0);
        assert_int_equal(guard(guard_a, names[i], 33), ROTA_LOST);
        assert_int_equal(lock(guard_a, names[i], 0, &fence), 0);
        assert_true(fence > 0);
    }
    run(guard_a, "COMMIT");
    run(guard_a, "BEGIN");
    assert_int_equal(guard(guard_a, "\xff", 34), ROTA_INVALID); /* no text there */
}

static void what_may_not_be_done_is_told(void **state)
{
    (void)state;
    run(guard_a, "SET default_transaction_read_only = on");
    assert_int_equal(guard_sql_set(guard_a, 34, 8), ROTA_UNREACHABLE);
    run(guard_a, "RESET default_transaction_read_only");
    make("DROP ROLE IF EXISTS reader; CREATE ROLE reader");
    run(guard_a, "SET ROLE reader");
    assert_int_equal(guard_sql_set(guard_a, 34, 8), ROTA_AUTH);
    assert_non_null(strstr(rota_errmsg(NULL), "permission denied"));
    assert_null(strchr(rota_errmsg(NULL), '\n')); /* one line, whatever the server says */
    run(guard_a, "RESET ROLE");
    guard_sql_stock_is(7);
}

static void the_callers_patience_is_kept(void **state)
{
    (void)state;
    run(guard_a, "BEGIN; SET LOCAL lock_timeout = '12s'");
    run(guard_b, "BEGIN");
    assert_int_equal(lock(guard_b, "nightly", 0, NULL), 0);
    assert_int_equal(lock(guard_a, "nightly", 20, NULL), ROTA_TIMEOUT);
    assert_int_equal(lock(guard_a, "other", 0, NULL), 0);
    PGresult *kept = PQexec(guard_a, "SHOW lock_timeout");
    assert_string_equal(PQgetvalue(kept, 0, 0), "12s");
    PQclear(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_CASE(a_failed_transaction_is_none), GUARD_CASE(an_old_snapshot_is_busy),
        GUARD_CASE(any_name_is_a_resource),       GUARD_CASE(what_may_not_be_done_is_told),
        GUARD_CASE(the_callers_patience_is_kept),
    };

    rt_watchdog(120, "test_guard_postgres: hang");
    rt_pg_start(&server, NULL);
    int failed = guard_sql_cases() + cmocka_run_group_tests(tests, NULL, NULL);
    rt_pg_fini(&server);
    return failed;
}
