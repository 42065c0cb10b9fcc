/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that cannot be met: one clear error each, and nothing lost. */
#include "cases.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdlib.h>

static enum rt_reply attach(struct seat *s)
{
    struct rt_party_op op = {.what = RT_PARTY_ATTACH};
    return seat_op(s, &op);
}

static void a_connection_in_a_transaction(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_bare(&s, HERE, 0, false);
    assert_true(HERE->sql(s.conn, "BEGIN"));
    assert_true(HERE->sql(s.conn, "INSERT INTO work VALUES (-7)"));
    assert_int_equal(attach(&s), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_INVALID);
    ASSERT_SAYS(&s, "COMMIT or ROLLBACK comes first");
    assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part), RT_REPLY_REFUSED); /* not attached */
    assert_true(HERE->sql(s.conn, "ROLLBACK"));
    assert_int_equal(attach(&s), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "BEGIN"));
    assert_true(HERE->sql(s.conn, "INSERT INTO work VALUES (-7)"));
    assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, "COMMIT or ROLLBACK comes first");
    assert_true(HERE->sql(s.conn, "ROLLBACK")); /* it is the application's, as it was */
    seat_close(&s);
}

/* An application's session is refused, and told the way out; recovery's own has another mode. */
static void a_mode_with_another_grammar(void **state)
{
    struct seat s, k;

    (void)state;
    if (!IS_MYSQL)
        return;
    seat_bare(&s, HERE, 0, false);
    assert_true(HERE->sql(s.conn, "SET SESSION sql_mode = 'ORACLE'"));
    assert_int_equal(attach(&s), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_UNSUPPORTED);
    ASSERT_SAYS(&s, "SET SESSION sql_mode");
    assert_true(HERE->sql(s.conn, "SET SESSION sql_mode = 'STRICT_TRANS_TABLES'"));
    assert_int_equal(attach(&s), RT_REPLY_DONE);
    struct rt_part part = part_new(1); /* and one that gets it later */
    assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SET SESSION sql_mode = 'ORACLE'"));
    assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, "SET SESSION sql_mode");
    seat_close(&s);
    seat_bare(&k, HERE, 0, true);
    assert_true(HERE->sql(k.conn, "SET SESSION sql_mode = 'ORACLE'"));
    assert_int_equal(attach(&k), RT_REPLY_DONE);
    seat_close(&k);
}

static void what_a_connection_may_not(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1), other = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    assert_int_equal(seat_do(&s, RT_PARTY_ASK, &part), RT_REPLY_REFUSED);
    assert_int_equal(seat_do(&keeper, RT_PARTY_BEGIN, &part), RT_REPLY_REFUSED);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &other), RT_REPLY_REFUSED);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO); /* never begun */
    ASSERT_SAYS(&s, "has not begun");
    seat_close(&s);
}

/* A name that no participant keeps, or somebody else's: nothing is there. */
static void an_unknown_name(void **state)
{
    struct rt_part part = part_new(9);

    (void)state;
    assert_int_equal(settle(&keeper, &part, false), RT_REPLY_ABSENT);
    part = part_new(9);
    assert_int_equal(settle(&keeper, &part, true), RT_REPLY_ABSENT);
}

static void the_marker_table_cannot_be_made(void **state)
{
    struct seat s;

    (void)state;
    seat_bare(&s, HERE, 0, false);
    if (IS_MYSQL) {
        snprintf(s.party->marks, sizeof(s.party->marks), "mysql.rota_mark");
    } else {
        HERE->admin(
            "DROP ROLE IF EXISTS poor; CREATE ROLE poor; DROP SCHEMA IF EXISTS closed; CREATE SCHEMA closed");
        assert_true(HERE->sql(s.conn, "SET ROLE poor"));
        assert_true(HERE->sql(s.conn, "SET search_path = closed"));
        HERE->admin("GRANT USAGE ON SCHEMA closed TO poor");
    }
    assert_int_equal(attach(&s), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_AUTH);
    ASSERT_SAYS(&s, "CREATE TABLE IF NOT EXISTS");
    seat_close(&s);
}

#define MAKERS 24
#define ROUNDS 10

static void *attach_alone(void *arg)
{
    struct seat *s = arg;
    struct rt_party_op op = {.what = RT_PARTY_ATTACH};

    return rt_party_do(s->party, &op) == RT_REPLY_DONE ? s : NULL;
}

/* PostgreSQL tells whoever comes second that the table, its row type, or a key of its catalogue is there already. */
static void the_marker_table_is_made_by_many_at_once(void **state)
{
    struct seat seats[MAKERS];
    pthread_t threads[MAKERS];

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        HERE->admin("DROP TABLE IF EXISTS many_marks");
        for (int i = 0; i < MAKERS; i++) {
            seat_bare(&seats[i], HERE, 0, false);
            snprintf(seats[i].party->marks, sizeof(seats[i].party->marks), "many_marks");
        }
        for (int i = 0; i < MAKERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, attach_alone, &seats[i]), 0);
        for (int i = 0; i < MAKERS; i++) {
            void *made;
            pthread_join(threads[i], &made);
            if (made == NULL)
                fail_msg("round %d: %s", round, seats[i].party->errmsg);
        }
        for (int i = 0; i < MAKERS; i++)
            seat_close(&seats[i]);
    }
}

#ifdef SITE_IS_MYSQL
#include <mysql.h>

static void markers_in_myisam(void **state)
{
    struct seat s;

    (void)state;
    HERE->admin(
        "CREATE TABLE IF NOT EXISTS bad_marks (id BINARY(16), branch INT, kind TINYINT) ENGINE = MyISAM");
    seat_bare(&s, HERE, 0, false);
    snprintf(s.party->marks, sizeof(s.party->marks), "bad_marks");
    assert_int_equal(attach(&s), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_UNSUPPORTED);
    ASSERT_SAYS(&s, "not an InnoDB");
    seat_close(&s);
}

static void a_branch_that_changed_myisam_votes_no(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "INSERT INTO old VALUES (1)"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, "cannot be rolled back");
    assert_false(has_row(HERE, row));
    assert_int_equal(HERE->prepared(), 0);
    HERE->admin("DELETE FROM old");
    seat_close(&s);
}

/* Modes in which SHOW CREATE TABLE leaves ENGINE out, or calls it TYPE. */
static void modes_with_the_same_grammar(void **state)
{
    static const char *const modes[] = {"ANSI", "MYSQL40", "MSSQL", "NO_TABLE_OPTIONS"};
    char sql[80];

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct seat s;
        struct rt_part part = part_new(1);
        seat_bare(&s, HERE, 0, false);
        snprintf(sql, sizeof(sql), "SET SESSION sql_mode = '%s'", modes[i]);
        assert_true(HERE->sql(s.conn, sql));
        if (attach(&s) != RT_REPLY_DONE)
            fail_msg("%s: %s", modes[i], s.party->errmsg);
        seat_work(&s, &part, ++row);
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
        assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_DONE);
        assert_true(has_row(HERE, row));
        seat_close(&s);
    }
}

/* Where the server keeps no warnings, it cannot be seen what the branch changed. */
static void a_session_without_warnings(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    HERE->admin("CREATE TABLE IF NOT EXISTS plain (id INT) ENGINE = MyISAM");
    seat_open(&s, HERE, 0, false);
    assert_true(HERE->sql(s.conn, "SET SESSION max_error_count = 0"));
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "INSERT INTO plain VALUES (1)"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, s.party->several ? "no InnoDB" : "max_error_count");
    assert_false(has_row(HERE, row));
    seat_close(&s);
}

static void a_temporary_table_votes_no(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "CREATE TEMPORARY TABLE t (a INT) ENGINE = InnoDB"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, "temporary");
    assert_false(has_row(HERE, row));
    seat_close(&s);
}

static void the_gate_needs_a_right(void **state)
{
    struct seat s, poor;
    struct rt_part part = part_new(1);

    (void)state;
    HERE->admin("REVOKE PROCESS ON *.* FROM rota@'%'");
    seat_open(&poor, HERE, 0, true);
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    seat_close(&s);
    part.by = NULL;
    assert_int_equal(seat_do(&poor, RT_PARTY_GATE, &part), RT_REPLY_REFUSED);
    assert_int_equal(seat_err(), ROTA_AUTH);
    ASSERT_SAYS(&poor, "GRANT PROCESS");
    assert_int_equal(seat_do(&poor, RT_PARTY_COMMIT, &part), RT_REPLY_HELD); /* never without it */
    seat_close(&poor);
    HERE->admin("GRANT PROCESS ON *.* TO rota@'%'");
    assert_int_equal(settle(&keeper, &part, true), RT_REPLY_COMMITTED);
}

/* T0.1 (a): after mysql_reset_connection XA COMMIT says OK and commits nothing, on that connection too. */
static void a_reset_connection_is_found_out(void **state)
{
    static const enum rt_party_what orders[] = {RT_PARTY_COMMIT, RT_PARTY_ROLLBACK};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct seat s;
        struct rt_part part = part_new(1);
        seat_open(&s, HERE, 0, false);
        seat_work(&s, &part, ++row);
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
        assert_int_equal(mysql_reset_connection(s.conn), 0);
        assert_int_equal(seat_do(&s, orders[i], &part), RT_REPLY_LOST);
        ASSERT_SAYS(&s, "was reset");
        seat_close(&s);
        assert_int_equal(settle(&keeper, &part, i == 0),
                         i == 0 ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT);
        assert_int_equal(has_row(HERE, row), i == 0);
        assert_int_equal(HERE->prepared(), 0);
    }
}

static void an_answer_that_nobody_read(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    assert_int_equal(mysql_query(s.conn, "SELECT 1"), 0);
    assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part), RT_REPLY_NO);
    assert_int_equal(seat_err(),
                     ROTA_INVALID); /* nothing was sent; the library has thrown the answer away */
    seat_close(&s);
}
#else
#include "lib/postgres_server.h"

static void no_prepared_transactions(void **state)
{
    struct rt_pg none = {0};
    struct seat s = {.site = HERE};
    char errmsg[256];

    (void)state;
    rt_pg_start(&none, NULL);
    s.conn = HERE->connect(none.server.port);
    assert_int_equal(
        rt_party_open(&s.party, HERE->kind, s.conn, false, NULL, errmsg, sizeof(errmsg)), 0);
    assert_int_equal(attach(&s), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_UNSUPPORTED);
    ASSERT_SAYS(&s, "max_prepared_transactions is 0");
    seat_close(&s);
    rt_pg_fini(&none);
}

static void of_another_user(void **state)
{
    struct seat s, poor;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    seat_open(&poor, HERE, 0, true);
    HERE->admin("DROP ROLE IF EXISTS other; CREATE ROLE other");
    assert_true(HERE->sql(poor.conn, "SET SESSION AUTHORIZATION other"));
    assert_int_equal(seat_do(&poor, RT_PARTY_COMMIT, &part), RT_REPLY_REFUSED);
    assert_int_equal(seat_err(), ROTA_AUTH);
    seat_close(&poor);
    assert_int_equal(settle(&keeper, &part, true), RT_REPLY_COMMITTED);
    seat_close(&s);
}

/* Only its owner finishes what is prepared, and that is the role at that moment: one that ends with the transaction
 * would leave it to nobody. */
static void a_role_of_the_branch_alone(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    HERE->admin("DROP ROLE IF EXISTS clerk; DROP ROLE IF EXISTS tenant; CREATE ROLE clerk; CREATE "
                "ROLE tenant; GRANT tenant TO clerk");
    HERE->admin("GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk, tenant");
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row); /* a superuser finishes anything */
    assert_true(HERE->sql(s.conn, "SET LOCAL ROLE tenant"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SET SESSION AUTHORIZATION clerk"));
    part = part_new(1);
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "SET LOCAL ROLE tenant"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_INVALID);
    ASSERT_SAYS(&s, "RESET ROLE");
    assert_false(has_row(HERE, row));
    part = part_new(1); /* one phase needs no owner */
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "SET LOCAL ROLE tenant"));
    assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, &part), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SET ROLE tenant")); /* of the session: it finishes its own */
    part = part_new(1);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_DONE);
    assert_true(has_row(HERE, row));
    part = part_new(1); /* and the isolation may still be chosen */
    assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"));
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    seat_close(&s);
    HERE->admin("DROP OWNED BY clerk, tenant; DROP ROLE clerk, tenant");
}

/* Only a missing table, or right, is answered with the statement that makes it. */
static void what_else_hinders_the_server(void **state)
{
    struct seat s;

    (void)state;
    seat_bare(&s, HERE, 0, false);
    snprintf(s.party->marks, sizeof(s.party->marks), "absent_mark");
    assert_true(HERE->sql(s.conn, "SET default_transaction_read_only = on"));
    assert_int_equal(attach(&s), RT_REPLY_NO);
    ASSERT_SAYS(&s, "read-only transaction");
    assert_null(strstr(s.party->errmsg, "is missing"));
    seat_close(&s);
}

static void markers_that_a_crash_forgets(void **state)
{
    struct seat s;

    (void)state;
    HERE->admin(
        "CREATE UNLOGGED TABLE IF NOT EXISTS bad_marks (id bytea, branch bigint, kind smallint)");
    seat_bare(&s, HERE, 0, false);
    snprintf(s.party->marks, sizeof(s.party->marks), "bad_marks");
    assert_int_equal(attach(&s), RT_REPLY_NO);
    assert_int_equal(seat_err(), ROTA_UNSUPPORTED);
    ASSERT_SAYS(&s, "unlogged");
    seat_close(&s);
}

/* What cannot be prepared: the server says no, and so does the branch. */
static void what_cannot_be_prepared(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "CREATE TEMP TABLE t (a int)"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, "temporary");
    assert_false(has_row(HERE, row));
    part = part_new(1);
    seat_work(&s, &part, ++row);
    assert_true(HERE->sql(s.conn, "COMMIT")); /* by the application: it is not ours any more */
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    ASSERT_SAYS(&s, "was ended on its connection");
    seat_close(&s);
}
#endif

/* ---- No memory --------------------------------------------------------------- */

static long until_fails;

static void *scarce_calloc(size_t n, size_t size)
{
    return until_fails-- == 0 ? NULL : calloc(n, size);
}

static void *scarce_realloc(void *p, size_t size)
{
    return until_fails-- == 0 ? NULL : realloc(p, size);
}

static void every_allocation_fails(void **state)
{
    static const struct rt_allocator scarce = {scarce_calloc, scarce_realloc, free};
    void *conn = HERE->connect(0);
    char errmsg[256];
    int err = ROTA_NOMEM, times = 0;

    (void)state;
    rt_alloc_set(&scarce);
    for (long n = 0; err == ROTA_NOMEM; n++, times++) {
        struct rt_party *p = NULL;
        until_fails = n;
        err = rt_party_open(&p, HERE->kind, conn, false, NULL, errmsg, sizeof(errmsg));
        assert_true((err == 0) == (p != NULL));
        rt_party_close(p);
    }
    rt_alloc_set(NULL);
    assert_int_equal(err, 0);
    assert_true(times > 2);
    HERE->close(conn);
}

const struct CMUnitTest cases_bad[] = {
    cmocka_unit_test(a_mode_with_another_grammar),
    cmocka_unit_test(a_connection_in_a_transaction),
    cmocka_unit_test(what_a_connection_may_not),
    cmocka_unit_test(an_unknown_name),
    cmocka_unit_test(the_marker_table_cannot_be_made),
    cmocka_unit_test(the_marker_table_is_made_by_many_at_once),
#ifdef SITE_IS_MYSQL
    cmocka_unit_test(markers_in_myisam),
    cmocka_unit_test(a_branch_that_changed_myisam_votes_no),
    cmocka_unit_test(modes_with_the_same_grammar),
    cmocka_unit_test(a_session_without_warnings),
    cmocka_unit_test(a_temporary_table_votes_no),
    cmocka_unit_test(the_gate_needs_a_right),
    cmocka_unit_test(a_reset_connection_is_found_out),
    cmocka_unit_test(an_answer_that_nobody_read),
#else
    cmocka_unit_test(no_prepared_transactions),
    cmocka_unit_test(of_another_user),
    cmocka_unit_test(a_role_of_the_branch_alone),
    cmocka_unit_test(what_else_hinders_the_server),
    cmocka_unit_test(markers_that_a_crash_forgets),
    cmocka_unit_test(what_cannot_be_prepared),
#endif
    cmocka_unit_test(every_allocation_fails),
};
const size_t cases_bad_count = sizeof(cases_bad) / sizeof(cases_bad[0]);
