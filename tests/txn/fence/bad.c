/* SPDX-License-Identifier: Apache-2.0 */
/* Bad calls, no transaction, no table: one clear error each, and nothing done. */
#include "desk.h"

#include "lib/scarce.h"

#include <string.h>

static void refused(void *conn, const struct rota_call *call, int err, const char *word)
{
    enum rota_fenced verdict = 77;

    int got = HERE->fence(conn, call, &verdict);
    if (got != err || verdict != 77)
        fail_msg("%s instead of %s: %s", rota_strerror(got), rota_strerror(err),
                 rota_txn_errmsg(NULL));
    if (strstr(rota_txn_errmsg(NULL), word) == NULL)
        fail_msg("'%s' is not in: %s", word, rota_txn_errmsg(NULL));
}

static void no_call(void **state)
{
    struct rota_call good = call_new(ROTA_OP_TRY), call;
    void *conn = desk_open();
    enum rota_fenced verdict = 77;

    (void)state;
    desk_sql(conn, "%s", HERE->begin);
    refused(conn, NULL, ROTA_INVALID, "CALL is NULL");
    call = good;
    call.op = 9;
    refused(conn, &call, ROTA_INVALID, "operation 9");
    call = good;
    call.branch = 0;
    refused(conn, &call, ROTA_INVALID, "branch 0");
    call = good;
    strcpy(call.txn, "gid'; DROP TABLE rota_fence; --");
    refused(conn, &call, ROTA_INVALID, "rota_call_read");
    call = good;
    memset(call.txn, 'f', sizeof(call.txn));
    refused(conn, &call, ROTA_INVALID, "rota_call_read");
    refused(NULL, &good, ROTA_INVALID, "a connection");
    assert_int_equal(HERE->fence(conn, &good, NULL), ROTA_INVALID);
    assert_int_equal(HERE->make(NULL), ROTA_INVALID);
    assert_int_equal(HERE->fence(conn, &good, &verdict), 0); /* the transaction goes on */
    desk_sql(conn, "ROLLBACK");
    desk_close(conn);
}

static void no_transaction(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    void *conn = desk_open();

    (void)state;
    refused(conn, &call, ROTA_INVALID, "there is no transaction");
    assert_int_equal(fence_rows(&call), 0);
    desk_sql(conn, "%s", HERE->begin);
    desk_sql(conn, "COMMIT");
    refused(conn, &call, ROTA_INVALID, "there is no transaction");
    assert_int_equal(fence_rows(&call), 0);
    desk_close(conn);
}

static void the_table_is_not_made_inside_a_transaction(void **state)
{
    void *conn = desk_open();

    (void)state;
    desk_sql(conn, "%s", HERE->begin);
    desk_sql(conn, "INSERT INTO work VALUES (4711)");
    assert_int_equal(HERE->make(conn), ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(NULL), "COMMIT or ROLLBACK comes first"));
    desk_sql(conn, "ROLLBACK");
    assert_int_equal(desk_number("SELECT COUNT(*) FROM work WHERE id = 4711"), 0);
    assert_int_equal(HERE->make(conn), 0); /* it is there: nothing to do */
    desk_close(conn);
}

static void no_table(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    void *conn = desk_open();

    (void)state;
    HERE->site->admin("ALTER TABLE rota_fence RENAME TO somewhere_else");
    desk_sql(conn, "%s", HERE->begin);
    refused(conn, &call, ROTA_UNSUPPORTED, "rota_fence_make_");
    assert_non_null(strstr(rota_txn_errmsg(NULL), "PRIMARY KEY (txn, branch)")); /* the way out */
    desk_sql(conn, "ROLLBACK");
    assert_int_equal(HERE->make(conn), 0);
    assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
    HERE->site->admin("DROP TABLE rota_fence");
    HERE->site->admin("CREATE TABLE rota_fence (other INT)");
    desk_sql(conn, "%s", HERE->begin);
    refused(conn, &call, ROTA_UNSUPPORTED, "rota_fence_make_");
    desk_sql(conn, "ROLLBACK");
    HERE->site->admin("DROP TABLE rota_fence");
    HERE->site->admin("ALTER TABLE somewhere_else RENAME TO rota_fence");
    desk_close(conn);
}

static void a_transaction_that_may_only_read(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    void *conn = desk_open();

    (void)state;
    if (HERE->read_only == NULL) {
        desk_close(conn);
        skip();
    }
    desk_sql(conn, "%s", HERE->read_only);
    refused(conn, &call, ROTA_INVALID, "ROLLBACK");
    desk_sql(conn, "ROLLBACK");
    desk_close(conn);
}

static void a_row_of_another_making(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    void *conn = desk_open();

    (void)state;
    desk_sql(conn, "INSERT INTO rota_fence VALUES ('%s', %u, 9, 0, 0)", call.txn, call.branch);
    desk_sql(conn, "%s", HERE->begin);
    refused(conn, &call, ROTA_PROTOCOL, "a row that is not ours");
    desk_sql(conn, "ROLLBACK");
    desk_sql(conn, "DELETE FROM rota_fence WHERE txn = '%s'", call.txn);
    desk_close(conn);
}

static void a_lost_connection(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    void *conn = desk_open(), *other = desk_open();

    (void)state;
    if (HERE->site->kill_connection == NULL) {
        desk_close(conn);
        desk_close(other);
        skip();
    }
    desk_sql(conn, "%s", HERE->begin);
    HERE->site->kill_connection(conn);
    refused(conn, &call, ROTA_UNREACHABLE, "answer 425");
    /* ... between the fence and COMMIT. */
    desk_close(conn);
    conn = desk_open();
    desk_sql(conn, "%s", HERE->begin);
    assert_int_equal(fenced(conn, &call), ROTA_FENCE_DO);
    effect(conn, &call);
    HERE->site->kill_connection(conn);
    assert_false(HERE->site->sql(conn, "COMMIT"));
    assert_int_equal(serve(other, &call), ROTA_FENCE_DO);
    assert_int_equal(effects(&call, ROTA_OP_TRY), 1);
    desk_close(conn);
    desk_close(other);
}

static void memory_runs_out(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    void *conn = desk_open();

    (void)state;
    scarce_begin();
    scarce_leave(0); /* it has no need of the library's heap */
    enum rota_fenced verdict = serve(conn, &call);
    scarce_end();
    assert_int_equal(verdict, ROTA_FENCE_DO);
    desk_close(conn);
}

const struct CMUnitTest cases_bad[] = {
    cmocka_unit_test(no_call),
    cmocka_unit_test(no_transaction),
    cmocka_unit_test(the_table_is_not_made_inside_a_transaction),
    cmocka_unit_test(no_table),
    cmocka_unit_test(a_transaction_that_may_only_read),
    cmocka_unit_test(a_row_of_another_making),
    cmocka_unit_test(a_lost_connection),
    cmocka_unit_test(memory_runs_out),
};
const size_t cases_bad_count = sizeof(cases_bad) / sizeof(cases_bad[0]);
