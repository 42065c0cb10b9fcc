/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's links on a real MariaDB: how they come up, or why not; what ends flights, and that nothing of such
 * flights is done. */
#include "../sql/rider.h"
#include "lib/mysql_server.h"
#include "lib/rogue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG 600000000

static struct rt_mariadb server, secure;
static char *url, *secure_url;

static int start(void **state)
{
    (void)state;
    setenv("MYSQL_PWD", RT_MARIADB_PASSWORD, 1);
    setenv("HOME", "/nonexistent", 1);
    rt_mariadb_start(&server, NULL);
    rt_mariadb_start(&secure, &(struct rt_mariadb_options){
                                  .tls = true, .tls_clients = true, .ddl = rt_mysql_driver.ddl});
    rt_mariadb_do(&server, "%s", rt_mysql_driver.ddl);
    url = rt_mariadb_url(&server, 0);
    secure_url = rt_mariadb_url(&secure, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_mariadb_fini(&server);
    rt_mariadb_fini(&secure);
    free(url);
    free(secure_url);
    return 0;
}

static long long number(const char *sql)
{
    return strtoll(rt_mariadb_ask(&server, "%s", sql), NULL, 10);
}

static void begin(struct rider *r)
{
    rider_start(r, &rt_mysql_driver, url);
    rt_mariadb_do(&server,
                  "DELETE FROM rota_ticket; DELETE FROM rota_line; DELETE FROM rota_session");
    DO(r, STEP(OPEN, N(1), N(LONG), T("one")), STEP(OPEN, N(2), N(LONG), T("two")));
}

static struct rt_sql_cell nothing(void)
{
    return (struct rt_sql_cell){.null = true};
}

#define LOCK(name) \
    STEP(LOCK, T(name)), STEP(UNFOLD, T(name)), STEP(PURGE, T(name)), STEP(SETTLE, T(name))
#define JOIN(name, session, nonce)                                                               \
    STEP(JOIN, T(name), N(session), N(nonce), N(0), N(0), N(0), N(0), N(INT64_C(1) << 62), N(0), \
         N(0), N(0), N(0), N(0), nothing(), nothing(), N(0), N(0))

/* ---- Up, or why not ---------------------------------------------------------------------------------------------- */

static void comes_up(struct rider *r, const char *text)
{
    rider_start(r, &rt_mysql_driver, text);
    DO(r, STEP(OPEN, N(5), N(LONG), T("five")), STEP0(LAYOUT));
    assert_memory_equal(rider_row(r, 1, 0), "1.0|", 4);
    DO(r, STEP(END, N(5)));
    assert_int_equal(r->changed[0], 1);
    rider_close(r);
}

static void every_way_in(void **state)
{
    struct rider r;
    char *local = rt_mariadb_unix_url(&server, NULL);
    (void)state;
    comes_up(&r, url);
    comes_up(&r, local);
    comes_up(&r, secure_url);
    free(local);
}

static void refused(const char *text, const char *password, int err, const char *why)
{
    struct rider r;
    int rv = rider_open(&r, &rt_mysql_driver, text, password, 0);
    if (rv == 0) {
        assert_false(rider_dial(&r));
        rv = r.err;
    }
    if (rv != err || strstr(r.why, why) == NULL)
        fail_msg("%s: %d, not %d: %s", text, rv, err, r.why);
    assert_null(strstr(r.why, RT_MARIADB_PASSWORD));
    if (r.link != NULL)
        rider_close(&r);
}

static void refused_at(const char *before, unsigned port, const char *database, int err,
                       const char *why)
{
    char text[200];
    snprintf(text, sizeof(text), "%s:%u/%s", before, port, database);
    refused(text, NULL, err, why);
}

static void wrong_urls(void **state)
{
    (void)state;
    refused("mysql://rota@h", NULL, ROTA_INVALID, "names no database: write mysql://host/name");
    refused("mysql://rota@h/a/b", NULL, ROTA_INVALID, "is no name of a database");
    refused("mysql://rota@h/a?database=b", NULL, ROTA_INVALID, "database twice");
    refused("mysql://h/a", NULL, ROTA_INVALID, "names no user: write name@ before the host");
    refused("mysql://u@h/a?user=b", NULL, ROTA_INVALID, "user twice");
    refused("mysql://u@h/a?user=", NULL, ROTA_INVALID, "?user= is empty");
    refused("mysql://u@h/a?ca=x", NULL, ROTA_INVALID, "are for mysqls://");
    refused("mariadb://u@h/a?ca=x", NULL, ROTA_INVALID, "are for mariadbs://");
    refused("mysql+unix://h/a?user=u", NULL, ROTA_INVALID, "names a socket");
    refused("mysql+unix:/a?user=u", NULL, ROTA_INVALID,
            "names no database: write mysql+unix:/path");
    refused("mysql:/a?user=u", NULL, ROTA_INVALID, "names no host: write mysql://host");
}

static void who_is_not_let_in(void **state)
{
    unsigned port = server.server.port;
    (void)state;
    refused(url, "wrong", ROTA_AUTH, "Access denied for user 'rota'");
    refused_at("mysql://nobody@127.0.0.1", port, "locks", ROTA_AUTH,
               "Access denied for user 'nobody'");
    refused_at("mysql://rota@127.0.0.1", port, "mysql", ROTA_AUTH, "Access denied");
    rt_mariadb_do(&server, "GRANT SELECT ON nowhere.* TO rota@'%%'");
    refused_at("mysql://rota@127.0.0.1", port, "nowhere", ROTA_INVALID,
               "Unknown database 'nowhere': create it");
    refused_at("mysqls://rota@127.0.0.1", port, "locks", ROTA_PROTOCOL, "does not speak TLS");
    refused_at("mysql://rota@127.0.0.1", secure.server.port, "locks", ROTA_AUTH,
               "if the account wants TLS, write mysqls://");
    refused_at("mysqls://rota@localhost", secure.server.port, "locks", ROTA_AUTH, "certificate");
    rt_mariadb_do(&server, "INSTALL SONAME 'auth_ed25519'");
    rt_mariadb_do(&server, "CREATE USER ed@'%%' IDENTIFIED VIA ed25519 USING PASSWORD('x')");
    refused_at("mysql://ed@127.0.0.1", port, "locks", ROTA_UNSUPPORTED,
               "the account ed uses client_ed25519: Rota does not speak it: ALTER USER");
}

static void who_is_no_server(void **state)
{
    static const enum rogue_way ways[] = {ROGUE_CLOSES, ROGUE_HANGS_UP};
    struct rogue *r;
    (void)state;
    refused("mysql://rota@127.0.0.1:1/locks", NULL, ROTA_UNREACHABLE, "127.0.0.1:1");
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        r = rogue_start(&(struct rogue_options){.way = ways[i]});
        refused_at("mysql://rota@127.0.0.1", rogue_port(r), "locks", ROTA_UNREACHABLE, "127.0.0.1");
        rogue_stop(r);
    }
}

/* What mysql's own tools understand is understood here. */
static void my_cnf(void **state)
{
    struct rider r;
    char path[400], home[300];
    (void)state;
    snprintf(home, sizeof(home), "%s", server.server.dir);
    snprintf(path, sizeof(path), "%s/.my.cnf", home);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f,
            "[mysqld]\nuser=root\n[client]\n# comment\nuser = rota\npassword=\"" RT_MARIADB_PASSWORD
            "\"\n"
            "host=127.0.0.1 # here\nport=%u\n[other]\nuser=x\n",
            server.server.port);
    fclose(f);
    setenv("HOME", home, 1);
    unsetenv("MYSQL_PWD");
    comes_up(&r, "mysql:/locks");
    comes_up(&r, "mariadb:///locks");
    setenv("HOME", "/nonexistent", 1);
    setenv("MYSQL_PWD", RT_MARIADB_PASSWORD, 1);
    unlink(path);
}

/* Whatever the server's usual settings are. */
static void odd_settings(void **state)
{
    struct rider r;
    (void)state;
    rt_mariadb_do(
        &server,
        "SET GLOBAL time_zone='+05:30', sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES', "
        "autocommit=0, completion_type=1, tx_isolation='SERIALIZABLE', tx_read_only=1, "
        "character_set_server=latin1, sql_safe_updates=1, max_join_size=1");
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(0), N(FAR)));
    int64_t off = rider_cell(&r, 0, 0, 0) / 1000000 - time(NULL);
    assert_true(off > -30 && off < 30);
    DO(&r, LOCK("a"), JOIN("a", 2, 1), STEP(ANSWER, T("a"), N(2), N(1)));
    assert_int_equal(rider_cell(&r, 5, 0, 2), 0);
    DO(&r, STEP0(SWEEPER), STEP(SWEEP, N(7), N(LONG)), STEP(IDLE, T(""), N(0), N(9)),
       STEP(STRAYS, N(9)), STEP(SWEPT, N(7), N(0), N(LONG), T("it's")), STEP(BURY, N(9)));
    assert_string_equal(rider_row(&r, 2, 0), "a");
    assert_int_equal(r.changed[4], 1);
    rider_close(&r);
    rt_mariadb_do(
        &server,
        "SET GLOBAL time_zone=DEFAULT, sql_mode=DEFAULT, autocommit=1, completion_type=0, "
        "tx_isolation='REPEATABLE-READ', tx_read_only=0, character_set_server=DEFAULT, sql_safe_updates=0, "
        "max_join_size=DEFAULT");
}

/* Where every table would be made with another engine, there are none, rather than some that forget. */
static void no_other_kind_of_table(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    rt_mariadb_do(&server, "SET GLOBAL enforce_storage_engine=Aria; DROP TABLE rota_ticket");
    rider_drop(&r);
    assert_true(rider_dial(&r));
    assert_int_not_equal(FLY(&r, STEP0(MAKE)), RT_SQL_LANDED);
    assert_int_equal(number("SELECT COUNT(*) FROM information_schema.TABLES "
                            "WHERE TABLE_NAME='rota_ticket'"),
                     0);
    rt_mariadb_do(&server, "SET GLOBAL enforce_storage_engine=NULL");
    rider_drop(&r);
    assert_true(rider_dial(&r));
    DO(&r, STEP0(MAKE));
    rider_close(&r);
}

/* ---- Flights that fail ------------------------------------------------------------------------------------------ */

static void nothing_was_done(void)
{
    assert_int_equal(number("SELECT COUNT(*) FROM rota_ticket"), 0);
    assert_int_equal(number("SELECT COUNT(*) FROM rota_line WHERE session IS NOT NULL"), 0);
}

/* Another connection has the line. */
static void hold(struct rt_mariadb_client *c, const char *name)
{
    char sql[200];
    rt_mariadb_client(&server, c);
    snprintf(
        sql, sizeof(sql),
        "USE locks; BEGIN; INSERT INTO rota_line(name) VALUES ('%s') ON DUPLICATE KEY UPDATE fence=fence",
        name);
    assert_string_equal(rt_mariadb_client_ask(c, sql), "");
}

/* What was sent waits for a lock. (INNODB_TRX and the like are not refreshed for a client that asks all the time.) */
static void until_it_waits(void)
{
    while (number("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "
                  "WHERE VARIABLE_NAME='INNODB_ROW_LOCK_CURRENT_WAITS'") == 0)
        rt_loop_arm(&rider_loop);
}

static void lock_waits(void **state)
{
    struct rider r;
    struct rt_mariadb_client c;
    (void)state;
    begin(&r);
    hold(&c, "b");
    assert_int_equal(FLY(&r, LOCK("a"), JOIN("a", 1, 1),
                         STEP(TAKE, T("0"), N(1), N(1), N(1), N(0), N(0), N(FAR)), LOCK("b"),
                         JOIN("b", 1, 1), STEP(OPEN, N(9), N(LONG), T("nine"))),
                     RT_SQL_AGAIN);
    assert_non_null(strstr(r.why, "1205"));
    assert_int_equal(r.failed, 6);
    assert_int_equal(FLY(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(0), N(FAR))),
                     RT_SQL_AGAIN);
    rt_mariadb_client_close(&c);
    nothing_was_done();
    assert_int_equal(number("SELECT COUNT(*) FROM rota_session"), 2);
    DO(&r, LOCK("a"), JOIN("a", 1, 1), LOCK("b"), JOIN("b", 1, 1)); /* and it goes on */
    assert_int_equal(number("SELECT SUM(count) FROM rota_line"), 2);
    rider_close(&r);
}

/* TAKEs and GIVEs stand by themselves: one that is blocked is reported like one whose condition did not hold. */
static void each_by_itself(void **state)
{
    struct rider r;
    struct rt_mariadb_client c;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("d"), N(1), N(1), N(1), N(0), N(0), N(FAR)));
    int64_t d = rider_cell(&r, 0, 0, 0);
    hold(&c, "b");
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(0), N(FAR)),
       STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(0), N(FAR)),
       STEP(TAKE, T("c"), N(1), N(1), N(1), N(0), N(0), N(FAR)),
       STEP(GIVE, T("d"), N(1), N(d), N(0)), STEP(GIVE, T("e"), N(1), N(1), N(0)));
    rt_mariadb_client_close(&c);
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_int_equal(rider_rows(&r, 1), 0);
    assert_int_equal(rider_rows(&r, 2), 1);
    assert_int_equal(r.changed[3], 1);
    assert_int_equal(r.changed[4], 0);
    assert_string_equal(rt_mariadb_ask(&server,
                                       "SELECT GROUP_CONCAT(name ORDER BY name) FROM rota_line "
                                       "WHERE session IS NOT NULL"),
                        "a,c");
    rider_close(&r);
}

/* The other one has done more, so the server ends ours: all of it is undone, and nothing of it is done after that. */
static void deadlocks(void **state)
{
    struct rider r;
    struct rt_mariadb_client c;
    (void)state;
    begin(&r);
    DO(&r, STEP(LOCK, T("a")), STEP(LOCK, T("b")));
    rt_mariadb_do(&server, "CREATE TABLE IF NOT EXISTS ballast (n INT PRIMARY KEY) ENGINE=InnoDB");
    hold(&c, "b");
    (void)rt_mariadb_client_ask(&c, "INSERT INTO ballast SELECT seq FROM seq_1_to_1000");
    SEND(&r, LOCK("a"), JOIN("a", 1, 1), LOCK("b"), JOIN("b", 1, 1),
         STEP(TAKE, T("c"), N(1), N(1), N(1), N(0), N(0), N(FAR)));
    until_it_waits();
    (void)rt_mariadb_client_ask(&c, "UPDATE rota_line SET flags=1 WHERE name='a'");
    assert_int_equal(rider_land(&r), RT_SQL_AGAIN);
    assert_non_null(strstr(r.why, "1213"));
    rt_mariadb_client_close(&c);
    nothing_was_done();
    DO(&r, LOCK("a"), JOIN("a", 1, 1));
    rider_close(&r);
}

/* A heartbeat is done as far as it got: it may as well be done twice. A flight that writes anything else is not. */
static void what_may_be_done_twice(void **state)
{
    static const char renewed[] =
        "SELECT COUNT(*) FROM rota_session WHERE id=1 AND expires>1000000 + (SELECT expires FROM rota_session WHERE id=2)";
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(RENEW, N(1), N(LONG)), STEP(END, N(9)), STEP(MINE, N(1)), STEP(BURY, N(8)));
    rt_mariadb_do(&server, "RENAME TABLE rota_ticket TO elsewhere");
    assert_int_equal(FLY(&r, STEP(RENEW, N(1), N(2 * LONG)), STEP(END, N(2)), STEP(MINE, N(1))),
                     RT_SQL_ABSENT);
    assert_int_equal(number(renewed), 0);
    assert_int_equal(FLY(&r, STEP(RENEW, N(1), N(2 * LONG)), STEP(MINE, N(1)), STEP(BURY, N(8))),
                     RT_SQL_ABSENT);
    assert_int_equal(number(renewed), 1);
    rt_mariadb_do(&server, "RENAME TABLE elsewhere TO rota_ticket");
    DO(&r, STEP(RENEW, N(1), N(LONG)), STEP(MINE, N(1)), STEP(BURY, N(8)));
    rider_close(&r);
}

/* A session that is there and dead is found by its end; one that is not there at all once in a while. */
static void tickets_of_nobody(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, LOCK("a"), JOIN("a", 1, 1));
    DO(&r, STEP(DEAD, N(9)), STEP(STRAYS, N(9)));
    assert_int_equal(rider_rows(&r, 0) + rider_rows(&r, 1), 0);
    rt_mariadb_do(&server, "DELETE FROM rota_session WHERE id=1");
    DO(&r, STEP(DEAD, N(9)), STEP(STRAYS, N(9)));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_string_equal(rider_row(&r, 1, 0), "a");
    rider_close(&r);
}

/* A client that is about to join is not buried. */
static void a_session_that_joins_is_locked(void **state)
{
    struct rider r;
    struct rt_mariadb_client c;
    (void)state;
    begin(&r);
    rt_mariadb_client(&server, &c);
    (void)rt_mariadb_client_ask(&c, "USE locks; BEGIN; DELETE FROM rota_session WHERE id=1");
    SEND(&r, LOCK("a"), JOIN("a", 1, 1), STEP(ANSWER, T("a"), N(1), N(1)));
    until_it_waits();
    (void)rt_mariadb_client_ask(&c, "COMMIT");
    assert_int_equal(rider_land(&r), RT_SQL_LANDED);
    assert_memory_equal(rider_row(&r, 5, 0), "0|-|", 4);
    rt_mariadb_client_close(&c);
    rider_close(&r);
}

static void kill_ours(const char *how)
{
    rt_mariadb_do(&server, "KILL %s %lld", how,
                  number("SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE USER='rota'"));
}

static void send_and_wait(struct rider *r, struct rt_mariadb_client *c)
{
    hold(c, "b");
    SEND(r, LOCK("a"), JOIN("a", 1, 1), LOCK("b"), JOIN("b", 1, 1));
    until_it_waits();
}

static void killed(void **state)
{
    struct rider r;
    struct rt_mariadb_client c;
    (void)state;
    begin(&r);
    send_and_wait(&r, &c);
    kill_ours("QUERY");
    assert_int_equal(rider_land(&r), RT_SQL_AGAIN);
    rt_mariadb_client_close(&c);
    nothing_was_done();
    send_and_wait(&r, &c);
    kill_ours("CONNECTION");
    assert_int_equal(rider_land(&r), RT_SQL_CUT); /* without a word */
    rider_until(&r.downs, 1);
    assert_int_equal(r.err, ROTA_UNREACHABLE);
    rt_mariadb_client_close(&c);
    nothing_was_done();
    assert_true(rider_dial(&r)); /* at once */
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(0), N(FAR)));
    kill_ours("CONNECTION"); /* while nothing flies */
    rider_until(&r.downs, 2);
    rider_close(&r);
}

/* One statement is killed while it waits: the answer does not tell whether it had committed. */
static void killed_alone(void **state)
{
    struct rider r;
    struct rt_mariadb_client c;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(0), N(FAR))); /* makes it known */
    hold(&c, "b");
    SEND(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(0), N(FAR)));
    until_it_waits();
    kill_ours("QUERY");
    assert_int_equal(rider_land(&r), RT_SQL_CUT);
    rider_until(&r.downs, 1);
    rt_mariadb_client_close(&c);
    rider_close(&r);
}

static void server_dies(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    SEND(&r, STEP(BELL_WAIT, N(1), N(1)), LOCK("a"), JOIN("a", 1, 1));
    rt_mariadb_kill(&server);
    assert_int_equal(rider_land(&r), RT_SQL_CUT);
    rider_until(&r.downs, 1);
    assert_int_equal(r.err, ROTA_UNREACHABLE);
    assert_false(rider_dial(&r));
    rt_mariadb_run(&server);
    rt_mariadb_do(&server, "USE locks");
    assert_true(rider_dial(&r));
    DO(&r, STEP(TAKE, T("x"), N(1), N(1), N(1), N(0), N(0), N(FAR)));
    assert_int_equal(rider_rows(&r, 0), 1);
    rider_close(&r);
}

static void what_errors_mean(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    rt_mariadb_do(&server, "SET GLOBAL read_only=1");
    DO(&r, STEP0(FACTS));
    assert_int_equal(rider_cell(&r, 0, 0, 2), 0);
    assert_int_equal(FLY(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(0), N(FAR))),
                     RT_SQL_REPLICA);
    assert_int_equal(FLY(&r, LOCK("a"), JOIN("a", 1, 1)), RT_SQL_REPLICA);
    rt_mariadb_do(&server, "SET GLOBAL read_only=0");
    rt_mariadb_do(&server, "SET GLOBAL max_prepared_stmt_count=0");
    assert_int_equal(FLY(&r, STEP(VERIFY, T("a"), N(1), N(1))), RT_SQL_FULL);
    assert_int_equal(FLY(&r, STEP(RENEW, N(1), N(LONG)), STEP(VERIFY, T("a"), N(1), N(1))),
                     RT_SQL_FULL);
    rt_mariadb_do(&server, "SET GLOBAL max_prepared_stmt_count=DEFAULT");
    rt_mariadb_do(&server, "RENAME TABLE rota_ticket TO elsewhere");
    assert_int_equal(FLY(&r, LOCK("a"), JOIN("a", 1, 1)), RT_SQL_ABSENT);
    assert_int_equal(FLY(&r, STEP(MINE, N(1))), RT_SQL_ABSENT);
    rt_mariadb_do(&server, "RENAME TABLE elsewhere TO rota_ticket");
    rt_mariadb_do(&server, "ALTER TABLE rota_ticket RENAME COLUMN of_ TO off");
    assert_int_equal(FLY(&r, STEP(FRONT, T("a"))), RT_SQL_ABSENT);
    rt_mariadb_do(&server, "ALTER TABLE rota_ticket RENAME COLUMN off TO of_");
    rt_mariadb_do(&server,
                  "REVOKE ALL ON locks.* FROM rota@'%%'; GRANT SELECT ON locks.* TO rota@'%%'");
    rider_drop(&r);
    assert_true(rider_dial(&r)); /* rights on a database count from the next connection on */
    assert_int_equal(FLY(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(0), N(FAR))),
                     RT_SQL_DENIED);
    assert_int_equal(FLY(&r, STEP0(MAKE)), RT_SQL_DENIED);
    assert_int_equal(FLY(&r, STEP0(DOCTOR)), RT_SQL_DENIED);
    rt_mariadb_do(&server, "GRANT ALL ON locks.* TO rota@'%%'");
    nothing_was_done();
    rider_close(&r);
}

/* ---- What the server is --------------------------------------------------------------------------------------------- */

static void column(struct rider *r, size_t i, char *out, size_t size)
{
    const char *text = rider_row(r, 0, 0);
    while (i-- > 0)
        text = strchr(text, '|') + 1;
    snprintf(out, size, "%.*s", (int)strcspn(text, "|"), text);
}

static void facts(void **state)
{
    struct rider r;
    char text[200];
    (void)state;
    begin(&r);
    DO(&r, STEP0(FACTS));
    assert_true(rider_cell(&r, 0, 0, 0) >= 101100);
    column(&r, 1, text, sizeof(text));
    assert_memory_equal(text, "MariaDB 10.", 11);
    assert_int_equal(rider_cell(&r, 0, 0, 2), 1);
    assert_int_equal(
        rider_cell(&r, 0, 0, 3),
        number("SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE USER='rota'"));
    column(&r, 4, text, sizeof(text));
    assert_string_equal(text, "");
    column(&r, 5, text, sizeof(text));
    assert_string_equal(text, "");
    rt_mariadb_do(
        &server,
        "SET GLOBAL innodb_flush_log_at_trx_commit=2; ALTER TABLE rota_meta ENGINE=MyISAM");
    DO(&r, STEP0(FACTS));
    column(&r, 4, text, sizeof(text));
    assert_non_null(strstr(text, "innodb_flush_log_at_trx_commit is not 1"));
    column(&r, 5, text, sizeof(text));
    assert_non_null(strstr(text, "not InnoDB"));
    rt_mariadb_do(
        &server,
        "SET GLOBAL innodb_flush_log_at_trx_commit=1; ALTER TABLE rota_meta ENGINE=InnoDB");
    DO(&r, STEP0(DOCTOR));
    assert_true(rider_rows(&r, 0) >= 10);
    for (size_t i = 0; i < rider_rows(&r, 0); i++)
        assert_null(strstr(rider_row(&r, 0, i), "broken"));
    rider_close(&r);
}

static bool doctor_says(struct rider *r, const char *row)
{
    DO(r, STEP0(DOCTOR));
    for (size_t i = 0; i < rider_rows(r, 0); i++)
        if (strncmp(rider_row(r, 0, i), row, strlen(row)) == 0)
            return true;
    return false;
}

/* Each setting that it judges, once as it should be and once not. */
static void what_the_doctor_finds(void **state)
{
    static const struct {
        const char *off, *on, *kept, *limited;
    } cases[] = {
        {"SET GLOBAL innodb_flush_log_at_trx_commit=2",
         "SET GLOBAL innodb_flush_log_at_trx_commit=1", "one holder at a time (I1)|kept|",
         "one holder at a time (I1)|limited|innodb_flush_log_at_trx_commit is not 1"},
        {"SET GLOBAL max_statement_time=7", "SET GLOBAL max_statement_time=0",
         "idle time-outs|kept|", "idle time-outs|limited|wait_timeout "},
        {"SET GLOBAL max_prepared_stmt_count=5", "SET GLOBAL max_prepared_stmt_count=DEFAULT",
         "prepared statements|kept|", "prepared statements|limited|"},
        {"INSERT INTO rota_session VALUES (9, 1, 'dead')", "DELETE FROM rota_session WHERE id=9",
         "nothing stays (I6)|kept|", "nothing stays (I6)|limited|3 sessions, 1 of them over"},
    };
    struct rider r;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(&r);
        DO(&r, LOCK("a"), JOIN("a", 1, 1)); /* which are prepared statements */
        assert_true(doctor_says(&r, cases[i].kept));
        rt_mariadb_do(&server, "%s", cases[i].off);
        if (i == 1) { /* counts from the next connection on */
            rider_drop(&r);
            assert_true(rider_dial(&r));
        }
        if (!doctor_says(&r, cases[i].limited))
            fail_msg("not %s", cases[i].limited);
        rt_mariadb_do(&server, "%s", cases[i].on);
        rider_close(&r);
    }
}

/* ---- Bells ------------------------------------------------------------------------------------------------------------ */

static void bells(void **state)
{
    struct rider owner, other;
    (void)state;
    begin(&owner);
    rider_start(&other, &rt_mysql_driver, url);
    DO(&owner, STEP(BELL_TAKE, N(-5)));
    DO(&owner, STEP(BELL_TAKE, N(-5)), STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(-5), N(FAR)));
    SEND(&other, STEP(BELL_WAIT, N(-5), N(60000)), STEP(VERIFY, T("a"), N(1), N(1)));
    while (number("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE='User lock'") ==
           0)
        rt_loop_arm(&rider_loop);
    assert_int_equal(other.lands, 0);
    DO(&owner, STEP(BELL_RING, N(-5)), STEP(GIVE, T("a"), N(1), N(1), N(0)));
    assert_int_equal(rider_land(&other), RT_SQL_LANDED);
    assert_int_equal(number("SELECT IS_FREE_LOCK('rota:-5')"), 1);
    DO(&other, STEP(BELL_WAIT, N(6), N(60000))); /* nobody has it */
    DO(&owner, STEP(BELL_TAKE, N(7)));
    DO(&other, STEP(BELL_WAIT, N(7), N(1))); /* so long and no longer */
    assert_int_equal(number("SELECT IS_FREE_LOCK('rota:7')"), 0);
    SEND(&other, STEP(BELL_WAIT, N(7), N(60000)));
    rider_close(&owner); /* it rings by itself */
    assert_int_equal(rider_land(&other), RT_SQL_LANDED);
    rider_close(&other);
}

/* ---- Ends ------------------------------------------------------------------------------------------------------------ */

static void dropped_in_mid_flight(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    SEND(&r, STEP(BELL_WAIT, N(1), N(1)), LOCK("a"), JOIN("a", 1, 1));
    rider_drop(&r);
    assert_int_equal(r.lands, 0);
    assert_true(rider_dial(&r));
    DO(&r, STEP(BURY, N(1)));
    rider_close(&r);
}

/* Long names and values, and more rows and steps than one read brings. */
static void large(void **state)
{
    enum { STEPS = 60 };
    struct rider r;
    static char names[STEPS][1531];
    struct rt_sql_step steps[STEPS];
    struct rt_sql_cell args[STEPS][7];
    (void)state;
    begin(&r);
    for (size_t i = 0; i < STEPS; i++) {
        memset(names[i], 'a' + (int)(i % 26), 1530);
        names[i][0] = (char)('0' + i);
        struct rt_sql_cell cells[7] = {T(names[i]), N(1), N(i + 1), N(1), N(0), N(0), N(FAR)};
        memcpy(args[i], cells, sizeof(cells));
        steps[i] = (struct rt_sql_step){.kind = RT_SQL_TAKE, .count = 7, .args = args[i]};
    }
    rider_send(&r, steps, STEPS);
    rider_must(&r, rider_land(&r));
    for (size_t i = 0; i < STEPS; i++)
        assert_int_equal(rider_rows(&r, i), 1);
    DO(&r, STEP(LIST, T("")), STEP(LIST, T(names[3])));
    assert_int_equal(rider_rows(&r, 0), STEPS);
    assert_int_equal(rider_rows(&r, 1), 1);
    rider_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, rider_setup, rider_teardown)
        CASE(every_way_in),
        CASE(wrong_urls),
        CASE(who_is_not_let_in),
        CASE(who_is_no_server),
        CASE(my_cnf),
        CASE(odd_settings),
        CASE(no_other_kind_of_table),
        CASE(lock_waits),
        CASE(each_by_itself),
        CASE(deadlocks),
        CASE(what_may_be_done_twice),
        CASE(tickets_of_nobody),
        CASE(a_session_that_joins_is_locked),
        CASE(killed),
        CASE(killed_alone),
        CASE(what_errors_mean),
        CASE(facts),
        CASE(what_the_doctor_finds),
        CASE(bells),
        CASE(dropped_in_mid_flight),
        CASE(large),
        CASE(server_dies),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
