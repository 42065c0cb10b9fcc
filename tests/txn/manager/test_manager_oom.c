/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out: every allocation of ours fails once, alone and with all that follow, in every public call. Nothing
 * crashes or leaks, and what is told is so. */
#include "txn/branch/site.h"

#include "lib/proc.h"
#include "lib/scarce.h"

#include <rota_txn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct site *pg = &site_postgres;
static struct rota_txns *m;
/* One for each use: after a call that was not answered in time, the connection is cut or still in its transaction. */
static void *conns[4];
static long long row;

/* What a call may say when memory runs out; and on a machine that is slower than call_ms. */
static int ok(int rv)
{
    if (rv != 0 && rv != ROTA_NOMEM && rv != ROTA_UNKNOWN && rv != ROTA_ABORTED &&
        rv != ROTA_UNREACHABLE)
        fail_msg("said %s: %s", rota_strerror(rv), rota_txn_errmsg(m));
    return rv;
}

static void insert(void *conn, long long id)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", id);
    assert_true(pg->sql(conn, sql));
}

static bool is_prepared(const char *txn, unsigned branch)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT COUNT(*) FROM pg_prepared_xacts WHERE gid LIKE 'rota1-%.32s-%08x-%%'", txn,
             branch);
    return pg->number(sql) > 0;
}

/* Committed: a branch whose server did not answer within call_ms has it later, and is prepared until then. */
static void is_so(int rv, const char *txn, unsigned branch, long long id)
{
    if (rv == 0)
        assert_true(has_row(pg, id) || is_prepared(txn, branch) || has_row(pg, id));
    else if (rv == ROTA_ABORTED)
        assert_false(has_row(pg, id));
}

static void one_phase(void)
{
    struct rota_txn_options opts = {.label = "oom"};
    struct rota_txn *t = NULL;

    if (ok(rota_txn_begin(m, &opts, &t)) != 0)
        return;
    row++;
    if (ok(rota_xa_postgres(t, "one", conns[0], NULL)) == 0)
        insert(conns[0], row);
    int rv = ok(rota_txn_commit(t));
    if (has_row(pg, row)) /* UNKNOWN: not answered within call_ms */
        assert_true(rv == 0 || rv == ROTA_UNKNOWN);
}

static void two_phases(void)
{
    struct rota_outcome o;
    struct rota_txn *t = NULL;
    char id[64];

    if (ok(rota_txn_begin(m, NULL, &t)) != 0)
        return;
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    struct rota_branch *b;
    bool both = ok(rota_xa_postgres(t, "one", conns[1], NULL)) == 0 &&
                ok(rota_xa_postgres(t, "two", conns[2], &b)) == 0 &&
                ok(rota_branch_last(b, "SELECT 1", NULL)) == 0;
    row += 2;
    if (!both) {
        ok(rota_txn_abort(t));
        return;
    }
    insert(conns[1], row - 1);
    insert(conns[2], row);
    int rv = ok(rota_txn_commit(t));
    is_so(rv, id, 1, row - 1);
    is_so(rv, id, 2, row);
    ok(rota_txn_outcome(m, id, &o));
    ok(rota_txn_settle(m, id, &o));
}

static void in_vain(void)
{
    struct rota_branch *b;
    struct rota_txn *t = NULL;

    if (ok(rota_txn_begin(m, NULL, &t)) != 0)
        return;
    row++;
    if (ok(rota_xa_postgres(t, "one", conns[3], &b)) == 0) {
        insert(conns[3], row);
        assert_int_equal(rota_branch_fail(b), 0);
        assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    } else {
        ok(rota_txn_abort(t));
    }
    assert_false(has_row(pg, row));
}

static void life(void)
{
    struct rota_txns_options opts = {.call_ms = 100, .timeout_ms = 1000, .flags = ROTA_TXN_RECOVER};
    static char url[512];

    snprintf(url, sizeof(url), "file:%s/journal", rt_tmpdir());
    m = NULL;
    if (ok(rota_txns_open(&m, url, &opts)) != 0) {
        assert_null(m);
        return;
    }
    ok(rota_txns_resource(m, "three", "postgres://nobody@127.0.0.1:1/none"));
    one_phase();
    two_phases();
    in_vain();
    rota_txns_close(m);
    m = NULL;
}

static void every_allocation_fails(bool after)
{
    long fail_at = 0, asked;

    do {
        for (size_t i = 0; i < 4; i++)
            conns[i] = pg->connect(0);
        scarce_begin();
        scarce.after = after;
        scarce.fail_at = ++fail_at;
        life();
        asked = scarce.asked;
        assert_int_equal(scarce.live, 0);
        scarce_end();
        for (size_t i = 0; i < 4; i++)
            pg->close(conns[i]);
    } while (fail_at <= asked);
    assert_true(fail_at > 20);
}

static void alone(void **state)
{
    (void)state;
    every_allocation_fails(false);
}

static void with_all_that_follow(void **state)
{
    (void)state;
    every_allocation_fails(true);
}

static int set_up(void **state)
{
    (void)state;
    setenv("HOME", rt_tmpdir(), 1);
    pg->start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg->fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(with_all_that_follow),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
