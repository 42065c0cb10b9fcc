/* SPDX-License-Identifier: Apache-2.0 */
/* Standbys: asynchronous, synchronous, promoted; what is said of them, and of settings that forget. */
#include "../sql/rider.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG INT64_C(600000000)

static struct rt_pg primary, standby;
static char *url;

static int start(void **state)
{
    (void)state;
    rt_pg_start(&primary, &(struct rt_pg_options){.user = true, .durable = true});
    rt_pg_make_tables(&primary, rt_postgres_driver.ddl);
    url = rt_pg_url(&primary, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_pg_fini(&standby);
    rt_pg_fini(&primary);
    free(url);
    return 0;
}

static void come(struct rider *r)
{
    assert_int_equal(rider_open(r, &rt_postgres_driver, url, primary.password, 0), 0);
    assert_true(rider_dial(r));
}

/* The column of FACTS that says why not to trust it. */
static const char *doubt(struct rider *r)
{
    DO(r, STEP0(FACTS));
    const char *at = rider_row(r, 0, 0);
    for (int i = 0; i < 4; i++)
        at = strchr(at, '|') + 1;
    return at;
}

/* The column of FACTS that says which server it is. */
static const char *which(struct rider *r)
{
    static char who[64];
    DO(r, STEP0(FACTS));
    const char *at = rider_row(r, 0, 0);
    for (int i = 0; i < 6; i++)
        at = strchr(at, '|') + 1;
    snprintf(who, sizeof(who), "%.*s", (int)strcspn(at, "|"), at);
    return who;
}

static void expect_doubt(struct rider *r, const char *says)
{
    const char *at = doubt(r);
    if (says[0] == '\0' ? at[0] != '|' : strstr(at, says) == NULL)
        fail_msg("%s; and not %s", at, says);
    assert_true(strcspn(at, "|") < 150); /* rt_conn.unsafe has room for it */
}

/* The verdict of PROMISE. */
static const char *verdict(struct rider *r, const char *promise)
{
    DO(r, STEP0(DOCTOR));
    for (size_t i = 0; i < rider_rows(r, 0); i++) {
        const char *row = rider_row(r, 0, i);
        size_t n = strlen(promise);
        if (strncmp(row, promise, n) == 0 && row[n] == '|')
            return row + n + 1;
    }
    fail_msg("nothing is said of %s", promise);
    return "";
}
#define expect_verdict(r, promise, says)                          \
    do {                                                          \
        const char *found = verdict(r, promise);                  \
        if (strncmp(found, says, strlen(says)) != 0)              \
            fail_msg("%s: %s; and not %s", promise, found, says); \
    } while (0)

static void set(const char *name, const char *value)
{
    (void)rt_pg_do(&primary, "alter system set %s = '%s'", name, value);
    (void)rt_pg_do(&primary, "select pg_reload_conf()");
    while (strcmp(rt_pg_do(&primary, "show %s", name), value) != 0)
        ; /* soon */
}

static void settings_that_forget(void **state)
{
    struct rider r;
    (void)state;
    come(&r);
    expect_doubt(&r, "");
    expect_verdict(&r, "one holder at a time (I1)", "kept|");
    expect_verdict(&r, "rights", "kept|the user rota may");
    assert_non_null(strstr(verdict(&r, "clock"),
                           "|the server's is ")); /* how far depends on the machine's load */
    expect_verdict(&r, "nothing stays (I6)", "kept|0 sessions, 0 of them");
    rider_close(&r);
    static const char *const forgets[][2] = {
        {"fsync", "off"}, {"full_page_writes", "off"}, {"synchronous_commit", "off"}};
    for (size_t i = 0; i < 3; i++) {
        set(forgets[i][0], forgets[i][1]);
        come(&r);
        expect_doubt(&r, forgets[i][0]);
        expect_verdict(&r, "one holder at a time (I1)", "limited|");
        rider_close(&r);
        set(forgets[i][0], "on");
    }
    (void)rt_pg_do(&primary, "alter table rota_line set unlogged");
    come(&r);
    expect_doubt(&r, "unlogged");
    (void)rt_pg_do(&primary, "alter table rota_line set logged");
    expect_doubt(&r, "");
    rider_close(&r);
}

/* ---- Several places --------------------------------------------------------------------------------------- */

/* What a strict client is told. */
static void strictly(const char *at, int err, const char *says)
{
    const struct rota_options opts = {.flags = ROTA_STRICT, .call_ms = 20000};
    struct rota *r = NULL;
    int rv = rota_open(&r, at, &opts);
    if (rv != err || (err != 0 && strstr(rota_errmsg(NULL), says) == NULL))
        fail_msg("%s: %s: %s", at, rota_strerror(rv), rv != 0 ? rota_errmsg(NULL) : "");
    if (rv == 0)
        rota_close(r);
}

/* Wherever they are named: two of them may accept writes, and know nothing of each other. */
static void strict_wants_one_place(void **state)
{
    unsigned port = primary.server.port;
    char at[600], ports[32], path[400];
    (void)state;
    strictly(url, 0, "");
    snprintf(at, sizeof(at), "postgres://rota@127.0.0.1:%u,localhost:%u/postgres?password_file=%s",
             port, port, primary.password_file);
    strictly(at, ROTA_UNSAFE, "several servers");
    snprintf(at, sizeof(at), "postgres://rota@/postgres?password_file=%s", primary.password_file);
    snprintf(ports, sizeof(ports), "%u", port);
    setenv("PGHOST", "127.0.0.1", 1);
    setenv("PGPORT", ports, 1);
    strictly(at, 0, "");
    setenv("PGHOST", "127.0.0.1,localhost", 1);
    strictly(at, ROTA_UNSAFE, "several servers");
    unsetenv("PGHOST");
    unsetenv("PGPORT");
    snprintf(path, sizeof(path), "%s/service", rt_tmpdir());
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, "[one]\nhost=127.0.0.1\nport=%u\n[two]\nhost=127.0.0.1,localhost\nport=%u\n", port,
            port);
    fclose(f);
    setenv("PGSERVICEFILE", path, 1);
    snprintf(at, sizeof(at), "postgres://rota@/postgres?service=one&password_file=%s",
             primary.password_file);
    strictly(at, 0, "");
    snprintf(at, sizeof(at), "postgres://rota@/postgres?service=two&password_file=%s",
             primary.password_file);
    strictly(at, ROTA_UNSAFE, "several servers");
    unsetenv("PGSERVICEFILE");
}

static void what_the_doctor_finds(void **state)
{
    struct rider r;
    (void)state;
    come(&r);
    (void)rt_pg_do(&primary, "revoke update on rota_ticket from rota");
    expect_verdict(&r, "rights", "broken|no update on rota_ticket|grant select, insert");
    (void)rt_pg_do(&primary, "grant update on rota_ticket to rota");
    DO(&r, STEP(OPEN, N(1), N(1), T("dead")), STEP(LOCK, T("it's")),
       STEP(JOIN, T("it's"), N(9), N(1), N(1), N(3), N(0), N(1), N(0), N(0), N(0), N(0), N(1), N(0),
            NOTHING, T("me"), N(1), N(0)));
    expect_verdict(
        &r, "nothing stays (I6)",
        "limited|1 sessions, 1 of them over and still there; 1 tickets that nothing ends|rota break 'it''s' --fence ");
    (void)rt_pg_do(&primary, "truncate rota_session, rota_line, rota_ticket");
    rider_close(&r);
}

/* Dead rows that nobody removes: their count becomes known a moment later. */
static bool is_bloated(void *r)
{
    return strncmp(verdict(r, "bloat"), "limited|", strlen("limited|")) == 0;
}

static void bloat_and_what_we_set(void **state)
{
    struct rider r;
    (void)state;
    come(&r);
    expect_verdict(&r, "bloat", "kept|");
    expect_verdict(&r, "isolation", "kept|read committed, which we set");
    expect_verdict(&r, "idle time-outs", "kept|off for us");
    expect_verdict(&r, "poolers", "kept|none sits between");
    (void)rt_pg_do(&primary,
                   "alter table rota_session set (autovacuum_enabled = false); insert into"
                   " rota_session select g, 1, 'x' from generate_series(1, 12000) g; delete from"
                   " rota_session; select pg_stat_force_next_flush()");
    assert_true(rt_await(is_bloated, &r, 20000));
    assert_non_null(strstr(verdict(&r, "bloat"), "rota_session"));
    (void)rt_pg_do(&primary, "alter table rota_session reset (autovacuum_enabled)");
    rider_close(&r);
}

static bool is_sync(void *unused)
{
    (void)unused;
    return rt_pg_number(&primary,
                        "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1;
}

static void standbys(void **state)
{
    struct rider r, other;
    (void)state;
    rt_pg_start_standby(&standby, &primary, "second");
    come(&r);
    expect_doubt(&r, "a standby follows asynchronously");
    set("synchronous_standby_names", "second");
    assert_true(rt_await(is_sync, NULL, 20000));
    expect_doubt(&r, ""); /* even without the right to look */
    expect_verdict(&r, "outages survived", "kept|1 standbys, which this user may not");
    (void)rt_pg_do(&primary, "grant pg_monitor to rota");
    expect_doubt(&r, "");
    expect_verdict(&r, "outages survived", "kept|1 standbys, 1 in sync");
    DO(&r, STEP(OPEN, N(1), N(LONG), T("x")),
       STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    /* The standby itself is no server to lock on, until it is promoted. */
    char at[100];
    snprintf(at, sizeof(at), "postgres://postgres@127.0.0.1:%u/postgres",
             (unsigned)standby.server.port);
    rider_start(&other, &rt_postgres_driver, at);
    DO(&other, STEP0(FACTS));
    assert_int_equal(rider_cell(&other, 0, 0, 2), 0);
    assert_int_equal(FLY(&other, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(1), N(FAR))),
                     RT_SQL_REPLICA);
    assert_int_equal(FLY(&other, STEP(LISTEN, N(1))), RT_SQL_REPLICA);
    assert_int_equal(FLY(&other, STEP(LOCK, T("a"))), RT_SQL_REPLICA);
    char who[64];
    snprintf(who, sizeof(who), "%s", which(&r));
    assert_non_null(strstr(who, "/00000001"));
    assert_string_equal(which(&r), who);
    assert_string_not_equal(which(&other), who);
    rt_pg_kill(&primary);
    rider_until(&r.downs, 1);
    rider_close(&r);
    rt_pg_promote(&standby);
    DO(&other, STEP0(FACTS));
    assert_int_equal(rider_cell(&other, 0, 0, 2), 1);
    assert_non_null(strstr(which(&other), "/00000002"));
    DO(&other, STEP(FOLDED, T("a"), N(1))); /* a grant that was told is there */
    assert_int_equal(rider_rows(&other, 0), 1);
    rider_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settings_that_forget, rider_setup, rider_teardown),
        cmocka_unit_test(strict_wants_one_place),
        cmocka_unit_test_setup_teardown(what_the_doctor_finds, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(bloat_and_what_we_set, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(standbys, rider_setup, rider_teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
