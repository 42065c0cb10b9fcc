/* SPDX-License-Identifier: Apache-2.0 */
/* How flights end on a real PostgreSQL, what they cost, and what ends a link. */
#include "../sql/rider.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG INT64_C(600000000)

static struct rt_pg server;
static char *url;

/* ---- What leaves and comes -------------------------------------------------------------------------------- */

static int sends, recvs;

/* In place of libc's, for libpq too. */
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    sends++;
    return syscall(SYS_sendto, fd, bytes, n, flags, NULL, 0);
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    recvs++;
    return syscall(SYS_recvfrom, fd, bytes, n, flags, NULL, NULL);
}

/* ---- Scenes -------------------------------------------------------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    rt_pg_start(&server, NULL);
    rt_pg_make_tables(&server, rt_postgres_driver.ddl);
    url = rt_pg_url(&server, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_pg_fini(&server);
    free(url);
    return 0;
}

static void begin(struct rider *r)
{
    (void)rt_pg_do(&server, "truncate rota_line, rota_ticket, rota_session");
    rider_start(r, &rt_postgres_driver, url);
    DO(r, STEP(OPEN, N(1), N(LONG), T("one")));
}

static int64_t backend(struct rider *r)
{
    DO(r, STEP0(FACTS));
    return rider_cell(r, 0, 0, 3);
}

/* Holds the line NAME in a transaction of its own until the returned connection is finished. */
static PGconn *hold(const char *name)
{
    char port[8], sql[200];
    snprintf(port, sizeof(port), "%u", (unsigned)server.server.port);
    const char *keys[] = {"host", "port", "user", "dbname", NULL};
    const char *values[] = {server.server.dir, port, "postgres", "postgres", NULL};
    PGconn *pg = PQconnectdbParams(keys, values, 0);
    snprintf(sql, sizeof(sql),
             "begin; insert into rota_line (name, fence, since) values ('%s', 1, 1)", name);
    PGresult *res = PQexec(pg, sql);
    assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
    PQclear(res);
    return pg;
}

static bool waits_for_lock(void *pid)
{
    return rt_pg_number(
               &server,
               "select count(*) from pg_stat_activity where pid = %lld and wait_event_type = 'Lock'",
               (long long)*(int64_t *)pid) == 1;
}

/* ---- Costs ----------------------------------------------------------------------------------------------------- */

static void one_send_one_recv(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    DO(&r, STEP(GIVE, T("a"), N(1), N(rider_cell(&r, 0, 0, 0)), N(0)));
    sends = recvs = 0;
    for (int i = 0; i < 50; i++) {
        DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
        DO(&r, STEP(GIVE, T("a"), N(1), N(rider_cell(&r, 0, 0, 0)), N(0)));
        assert_int_equal(r.changed[0], 1);
    }
    assert_int_equal(sends, 100);
    assert_int_equal(recvs, 100);
    for (int i = 0; i < 2;
         i++) { /* the first time their texts leave, too: libpq sends those in parts of 8 kB */
        sends = 0;
        DO(&r, STEP(LISTEN, N(1)), STEP(LOCK, T("b")), STEP(UNFOLD, T("b")), STEP(PURGE, T("b")),
           STEP(SETTLE, T("b")), STEP(ANSWER, T("b"), N(1), N(1)), STEP(MINE, N(1)),
           STEP(LIST, T("")), STEP(INSPECT, T("b"), N(0)));
    }
    assert_int_equal(sends, 1);
    rider_close(&r);
}

/* More than a socket takes: the rest leaves when there is room, and nothing blocks. */
static void large_flights(void **state)
{
    static char bytes[4 << 20];
    struct rt_sql_cell value = {.text = bytes, .size = sizeof(bytes)};
    struct rider r;
    (void)state;
    begin(&r);
    pid_t pid = (pid_t)backend(&r);
    memset(bytes, 'v', sizeof(bytes));
    kill(pid, SIGSTOP);
    SEND(&r, STEP(LOCK, T("a")),
         STEP(JOIN, T("a"), N(1), N(1), N(1), N(0), N(0), N(0), N(1), N(0), N(0), N(0), N(0), N(0),
              value, NOTHING, N(1), N(0)),
         STEP(FRONT, T("a")));
    rt_loop_arm(&rider_loop);
    kill(pid, SIGCONT);
    assert_int_equal(rider_land(&r), RT_SQL_LANDED);
    assert_int_equal(r.changed[1], 1);
    assert_int_equal(rt_pg_number(&server, "select length(value) from rota_ticket"), sizeof(bytes));
    rider_close(&r);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static void locks_are_not_waited_for_long(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    rider_close(&r);
    assert_int_equal(rider_open(&r, &rt_postgres_driver, url, NULL, 1000), 0); /* 100 ms */
    assert_true(rider_dial(&r));
    PGconn *other = hold("a");
    assert_int_equal(FLY(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(1), N(FAR)),
                         STEP(LOCK, T("a")), STEP(UNFOLD, T("a"))),
                     RT_SQL_AGAIN);
    assert_int_equal(r.failed, 1);
    assert_non_null(strstr(r.why, "lock timeout"));
    assert_int_equal(rt_pg_number(&server, "select count(*) from rota_line"), 0);
    PQfinish(other);
    DO(&r, STEP(LOCK, T("a")));
    rider_close(&r);
}

static void deadlocks(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(LOCK, T("a")), STEP(LOCK, T("b")));
    rider_close(&r);
    assert_int_equal(rider_open(&r, &rt_postgres_driver, url, NULL, 60000),
                     0); /* found before the lock's time is over */
    assert_true(rider_dial(&r));
    int64_t pid = backend(&r);
    PGconn *other = hold("c");
    PQclear(PQexec(other, "update rota_line set flags = 1 where name = 'b'"));
    SEND(&r, STEP(LOCK, T("a")), STEP(LOCK, T("b")));
    assert_true(rt_await(waits_for_lock, &pid, 20000));
    assert_int_equal(PQsendQuery(other, "update rota_line set flags = 1 where name = 'a'; commit"),
                     1);
    enum rt_sql_end how = rider_land(&r); /* one of the two */
    PGresult *res = PQgetResult(other);
    bool ours = how == RT_SQL_AGAIN, theirs = PQresultStatus(res) == PGRES_FATAL_ERROR;
    assert_true(how == RT_SQL_LANDED || ours);
    assert_int_equal(ours, !theirs);
    PQclear(res);
    PQfinish(other);
    rider_close(&r);
}

static void what_errors_mean(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    /* A name in no encoding. */
    assert_int_equal(FLY(&r, STEP(LOCK, T("\xff\xfe"))), RT_SQL_REFUSED);
    (void)rt_pg_do(&server, "alter system set default_transaction_read_only = on");
    (void)rt_pg_do(&server, "select pg_reload_conf()");
    while (FLY(&r, STEP(RENEW, N(1), N(LONG))) == RT_SQL_LANDED)
        ; /* it is reloaded soon */
    assert_int_equal(r.end, RT_SQL_REPLICA);
    DO(&r, STEP0(FACTS));
    assert_int_equal(rider_cell(&r, 0, 0, 2), 0);
    (void)rt_pg_do(&server, "alter system reset default_transaction_read_only");
    (void)rt_pg_do(&server, "select pg_reload_conf()");
    while (strcmp(rt_pg_do(&server, "show default_transaction_read_only"), "off") != 0)
        ; /* soon */
    rider_close(&r);
}

static void both_make_the_tables(void **state)
{
    struct rider r, other;
    (void)state;
    (void)rt_pg_do(&server, "drop table rota_line, rota_ticket, rota_session, rota_meta");
    rider_start(&r, &rt_postgres_driver, url);
    rider_start(&other, &rt_postgres_driver, url);
    SEND(&r, STEP0(MAKE));
    SEND(&other, STEP0(MAKE));
    assert_int_equal(rider_land(&r), RT_SQL_LANDED);
    assert_int_equal(rider_land(&other), RT_SQL_LANDED);
    rider_close(&r);
    rider_close(&other);
}

/* ---- Cuts ---------------------------------------------------------------------------------------------------------- */

static void killed_in_the_air(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    int64_t pid = backend(&r);
    PGconn *other = hold("a");
    SEND(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(1), N(FAR)), STEP(LOCK, T("a")));
    assert_true(rt_await(waits_for_lock, &pid, 20000));
    (void)rt_pg_do(&server, "select pg_terminate_backend(%lld)", (long long)pid);
    assert_int_equal(rider_land(&r), RT_SQL_CUT);
    rider_until(&r.downs, 1);
    assert_int_equal(r.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(r.why, "127.0.0.1"));
    assert_non_null(strstr(r.why, "terminating connection due to administrator command"));
    PQfinish(other);
    assert_true(rider_dial(&r)); /* at once */
    DO(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    assert_int_equal(rider_rows(&r, 0), 1); /* it had not been done */
    rider_close(&r);
}

/* Prepared statements are useless once the tables are different ones. */
static void changed_tables(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(FOLDED, T("a"), N(1)));
    (void)rt_pg_do(&server, "alter table rota_line alter column nonce type int");
    assert_int_equal(FLY(&r, STEP(FOLDED, T("a"), N(1))), RT_SQL_CUT);
    rider_until(&r.downs, 1);
    assert_true(rider_dial(&r));
    DO(&r, STEP(FOLDED, T("a"), N(1)));
    (void)rt_pg_do(&server, "alter table rota_line alter column nonce type bigint");
    rider_close(&r);
}

static void killed_on_the_ground(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)rt_pg_do(&server, "select pg_terminate_backend(%lld)", (long long)backend(&r));
    rider_until(&r.downs, 1);
    assert_int_equal(r.lands, 1);
    assert_non_null(strstr(r.why, "terminating connection"));
    rider_close(&r);
}

static void sent_into_a_cut(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    pid_t pid = (pid_t)backend(&r);
    PGconn *other = hold("x");
    kill(pid, SIGKILL); /* PostgreSQL ends all, and starts anew */
    while (PQstatus(other) == CONNECTION_OK)
        PQclear(PQexec(other, "select 1"));
    SEND(&r, STEP(RENEW, N(1), N(LONG))); /* no SIGPIPE */
    assert_int_equal(rider_land(&r), RT_SQL_CUT);
    rider_until(&r.downs, 1);
    PQfinish(other);
    rt_pg_run(&server);
    rider_close(&r);
}

static void restarted(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    rt_pg_kill(&server);
    rider_until(&r.downs, 1);
    assert_false(rider_dial(&r));
    assert_int_equal(r.err, ROTA_UNREACHABLE);
    rt_pg_run(&server);
    assert_true(rider_dial(&r));
    DO(&r, STEP(VERIFY, T("a"), N(1), N(number)));
    assert_int_equal(rider_rows(&r, 0), 1);
    rider_close(&r);
}

/* ---- Drops ----------------------------------------------------------------------------------------------------------- */

static void dropped_at_any_time(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    SEND(&r, STEP(RENEW, N(1), N(LONG)));
    rider_drop(&r); /* in the air: not a word */
    assert_int_equal(r.lands, 0);
    assert_int_equal(r.downs, 0);
    assert_true(rider_dial(&r));
    DO(&r, STEP(RENEW, N(1), N(LONG)));
    rider_drop(&r);
    for (int turns = 0; turns < 12; turns++) { /* while it connects, one turn later each time */
        int ups = r.ups;
        assert_int_equal(rider_begin(&r, 0), 0);
        for (int i = 0; i < turns && r.ups == ups; i++)
            rider_turn();
        rider_drop(&r);
    }
    assert_int_equal(r.downs, 0);
    rider_close(&r);
}

static struct rider *dropping;
static int dropped_rows;

static void closed(struct rt_sql_link *l)
{
    (void)l;
    dropping->closed++;
}

static void drop_row(struct rt_sql_link *l, size_t step, const struct rt_sql_cell *cells,
                     size_t count)
{
    (void)step;
    (void)cells;
    (void)count;
    dropped_rows++;
    rt_postgres_driver.drop(l, closed);
}

static void dropped_by_a_row(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    struct rt_sql_user user = *r.link->user;
    user.row = drop_row;
    r.link->user = &user;
    dropping = &r;
    SEND(&r, STEP0(FACTS), STEP0(FACTS));
    rider_until(&r.closed, 1);
    free(r.link);
    r.link = NULL;
    assert_int_equal(dropped_rows, 1);
    assert_int_equal(r.lands, 0);
    rider_close(&r);
}

static void children_leave_it_alone(void **state)
{
    struct rider r;
    int status;
    (void)state;
    begin(&r);
    SEND(&r, STEP(RENEW, N(1), N(LONG)));
    pid_t pid = fork();
    if (pid == 0) {
        rt_postgres_driver.forked(r.link);
        rt_postgres_driver.forked(r.link);
        rt_postgres_driver.drop(r.link, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rider_land(&r), RT_SQL_LANDED);
    DO(&r, STEP(RENEW, N(1), N(LONG)));
    rider_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_send_one_recv, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(large_flights, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(locks_are_not_waited_for_long, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(deadlocks, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(what_errors_mean, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(both_make_the_tables, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(killed_in_the_air, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(changed_tables, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(killed_on_the_ground, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(sent_into_a_cut, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(restarted, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(dropped_at_any_time, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(dropped_by_a_row, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(children_leave_it_alone, rider_setup, rider_teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
