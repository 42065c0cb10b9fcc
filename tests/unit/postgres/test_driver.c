/* SPDX-License-Identifier: Apache-2.0 */
/* How links come up, and whom they refuse: URLs, sockets, services, passwords, TLS, strangers. */
#include "../sql/rider.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"
#include "lib/rogue.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct rt_pg server; /* with a user "rota" */
static struct rt_pg secure; /* with TLS only */

static int start(void **state)
{
    (void)state;
    rt_pg_start(&server, &(struct rt_pg_options){.user = true});
    rt_pg_start(&secure, &(struct rt_pg_options){.tls = true});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_pg_fini(&server);
    rt_pg_fini(&secure);
    return 0;
}

static const char *url_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *url_of(const char *format, ...)
{
    static char url[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(url, sizeof(url), format, args);
    va_end(args);
    return url;
}

static unsigned port_of(const struct rt_pg *p)
{
    return p->server.port;
}

/* ---- It comes up --------------------------------------------------------------------------------------- */

static void works(const char *url, const char *password)
{
    struct rider r;
    if (rider_open(&r, &rt_postgres_driver, url, password, 0) != 0 || !rider_dial(&r))
        fail_msg("%s: %s", url, r.why);
    DO(&r, STEP0(FACTS));
    assert_true(rider_cell(&r, 0, 0, 0) >= 110000);
    assert_int_equal(rider_cell(&r, 0, 0, 2), 1);
    rider_close(&r);
}

static void comes_up(void **state)
{
    char *unix_url = rt_pg_unix_url(&server);
    (void)state;
    works(url_of("postgres://postgres@127.0.0.1:%u/postgres", port_of(&server)), NULL);
    works(url_of("postgresql://postgres@localhost:%u/postgres", port_of(&server)), NULL);
    works(url_of("postgres://postgres@localhost:%u/postgres?sslmode=prefer&gssencmode=disable",
                 port_of(&server)),
          NULL);
    works(url_of("postgres://rota@127.0.0.1:%u/postgres", port_of(&server)), server.password);
    works(url_of("postgres://rota:%s@127.0.0.1:%u/postgres", server.password, port_of(&server)),
          NULL);
    works(unix_url, NULL);
    free(unix_url);
}

/* The reason is not that the tables are of another shape. */
static void no_schema_to_make_them_in(void **state)
{
    struct rider r;
    (void)state;
    assert_int_equal(rider_open(&r, &rt_postgres_driver,
                                url_of("postgres://postgres@127.0.0.1:%u/postgres"
                                       "?options=-csearch_path%%3Dnowhere",
                                       port_of(&server)),
                                NULL, 0),
                     0);
    assert_true(rider_dial(&r));
    assert_int_equal(FLY(&r, STEP0(MAKE)), RT_SQL_REFUSED);
    assert_non_null(strstr(r.why, "no schema"));
    rider_close(&r);
}

static enum rt_sql_end makes(const char *params, char *why, size_t size)
{
    struct rider r;
    const char *url = url_of("postgres://postgres@127.0.0.1:%u/postgres?%s", port_of(&server),
                             params);
    assert_int_equal(rider_open(&r, &rt_postgres_driver, url, NULL, 0), 0);
    assert_true(rider_dial(&r));
    enum rt_sql_end end = FLY(&r, STEP0(MAKE));
    snprintf(why, size, "%s", r.why);
    rider_close(&r);
    return end;
}

/* A client that search_path leads elsewhere makes no second tables, unless the URL says where. */
static void no_second_tables(void **state)
{
    char why[512];
    (void)state;
    (void)rt_pg_do(&server, "create schema elsewhere");
    assert_int_equal(makes("schema=first", why, sizeof(why)), RT_SQL_LANDED);
    assert_int_equal(makes("options=-csearch_path%3Delsewhere", why, sizeof(why)), RT_SQL_REFUSED);
    assert_non_null(strstr(why, "has tables of Rota already: write ?schema="));
    assert_non_null(strstr(why, "or ?schema=elsewhere for others"));
    assert_int_equal(makes("schema=elsewhere", why, sizeof(why)), RT_SQL_LANDED);
    assert_int_equal(makes("options=-csearch_path%3Delsewhere%2Cfirst", why, sizeof(why)),
                     RT_SQL_REFUSED);
    (void)rt_pg_do(&server, "drop schema first cascade");
    (void)rt_pg_do(&server, "drop schema elsewhere cascade");
}

static void settings_are_ours(void **state)
{
    struct rider r;
    (void)state;
    (void)rt_pg_do(&server,
                   "alter database postgres set default_transaction_isolation = 'serializable'");
    assert_int_equal(
        rider_open(&r, &rt_postgres_driver,
                   url_of("postgres://postgres@127.0.0.1:%u/postgres?schema=it%%22s%%20'q'",
                          port_of(&server)),
                   NULL, 5000),
        0);
    assert_true(rider_dial(&r));
    DO(&r, STEP0(MAKE));
    DO(&r, STEP0(LAYOUT));
    assert_memory_equal(rider_row(&r, 0, 0), "1.0|", 4);
    assert_int_equal(
        rt_pg_number(&server, "select count(*) from pg_tables where schemaname = 'it\"s ''q''' and"
                              " tablename like 'rota%%'"),
        4);
    assert_int_equal(
        rt_pg_number(&server,
                     "select count(*) from pg_stat_activity where application_name = 'rota'"),
        1);
    rider_close(&r);
    (void)rt_pg_do(&server, "drop schema \"it\"\"s 'q'\" cascade");
    (void)rt_pg_do(&server, "alter database postgres reset default_transaction_isolation");
}

static void services_and_files(void **state)
{
    char path[300];
    (void)state;
    snprintf(path, sizeof(path), "%s/service", rt_tmpdir());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(
        f,
        "[here]\nhost=localhost\nport=%u\nuser=rota\ndbname=postgres\n[there]\nhost=%s,localhost\nport=1,%u\nuser="
        "postgres\ndbname=postgres\n",
        port_of(&server), server.server.dir, port_of(&server));
    fclose(f);
    setenv("PGSERVICEFILE", path, 1);
    works("postgres:///?service=here", server.password);
    works("postgres:///?service=there", NULL); /* the second of its places */
    snprintf(path, sizeof(path), "%s/pass", rt_tmpdir());
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "localhost:%u:*:rota:%s\n", port_of(&server), server.password);
    fclose(f);
    chmod(path, 0600);
    works(url_of("postgres://rota@localhost:%u/postgres?passfile=%s", port_of(&server), path),
          NULL);
    setenv("PGPASSFILE", path, 1);
    setenv("PGSERVICE", "here", 1);
    works("postgres:///", NULL);
    unsetenv("PGSERVICE");
    unsetenv("PGPASSFILE");
    unsetenv("PGSERVICEFILE");
}

/* ---- It is refused -------------------------------------------------------------------------------------- */

static void refused(const char *url, const char *password, int err, const char *says)
{
    struct rider r;
    assert_int_equal(rider_open(&r, &rt_postgres_driver, url, password, 0), 0);
    assert_false(rider_dial(&r));
    if (r.err != err || strstr(r.why, says) == NULL)
        fail_msg("%d, %s; and not %d, %s", r.err, r.why, err, says);
    assert_null(strstr(r.why, "secret"));
    assert_false(rider_dial(&r)); /* as often as one likes */
    rider_close(&r);
}

static void refuses(void **state)
{
    int anchor;
    unsigned nobody = rt_port_reserve(&anchor);
    (void)state;
    refused(url_of("postgres://rota@127.0.0.1:%u/postgres", port_of(&server)), "secret", ROTA_AUTH,
            "password authentication failed for user \"rota\"");
    refused(url_of("postgres://rota@127.0.0.1:%u/postgres", port_of(&server)), NULL, ROTA_AUTH,
            "no password supplied");
    refused(url_of("postgres://postgres@127.0.0.1:%u/nowhere", port_of(&server)), NULL,
            ROTA_INVALID, "database \"nowhere\" does not exist");
    refused(url_of("postgres://nobody@127.0.0.1:%u/postgres", port_of(&server)), NULL, ROTA_AUTH,
            "nobody");
    refused(url_of("postgres://postgres@127.0.0.1:%u/postgres", nobody), NULL, ROTA_UNREACHABLE,
            "refused");
    refused(url_of("postgres://postgres@no-such-host.invalid:%u/postgres", nobody), NULL,
            ROTA_UNREACHABLE, "no-such-host.invalid cannot be looked up");
    refused(url_of("postgres:///postgres?host=%s/none", rt_tmpdir()), NULL, ROTA_UNREACHABLE,
            "No such file");
    close(anchor);
}

static void bad_urls(void **state)
{
    static const char *const bad[][2] = {
        {"postgres://h/d?sslmode=perhaps", "sslmode"},
        {"postgres://h/d?ca=/a&sslrootcert=/b", "the same"},
        {"postgres://h/d?host=/run", "without a host"},
        {"postgres://h/d?connect_timeout=soon", "seconds"},
        {"postgres://h/d?schema=", "schema"},
        {"postgres:///d?service=none-of-them", "none-of-them"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rider r;
        assert_int_equal(rider_open(&r, &rt_postgres_driver, bad[i][0], "secret", 0), ROTA_INVALID);
        if (strstr(r.why, bad[i][1]) == NULL || strstr(r.why, "secret") != NULL ||
            strchr(r.why, '\n') != NULL)
            fail_msg("%s", r.why);
    }
}

/* As for `rota doctor --ddl`: opened, not turned, closed. */
static void without_a_loop(void **state)
{
    struct rt_loop loop;
    struct rt_url url;
    struct rt_up up = {0};
    char errmsg[256];
    (void)state;
    rt_loop_init_virtual(&loop);
    assert_int_equal(rt_url_parse(&url, "postgres://h/d", errmsg, sizeof(errmsg)), 0);
    const struct rt_engine *engine = rt_engine_find("postgres");
    struct rt_conn *conn = calloc(1, engine->conn_size);
    assert_non_null(conn);
    *conn = (struct rt_conn){.engine = engine, .up = &up, .loop = &loop, .label = ""};
    assert_int_equal(engine->open(conn, &url), 0);
    assert_non_null(strstr(engine->ddl(conn), "create table if not exists rota_line"));
    engine->close(conn);
    free(conn);
    rt_url_fini(&url);
    rt_loop_fini(&loop);
}

static void strangers(void **state)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n",
                      later[] = "R\0\0\0\10\0\0\0\0Z\0\0\0\5I";
    static const struct {
        struct rogue_options opts;
        int err;
    } ways[] = {
        {{.way = ROGUE_SAYS,
          .first = http,
          .first_size = sizeof(http) - 1,
          .then = http,
          .then_size = sizeof(http) - 1},
         ROTA_PROTOCOL},
        {{.way = ROGUE_CLOSES}, ROTA_UNREACHABLE},
        {{.way = ROGUE_ECHOES}, 0},
        {{.way = ROGUE_NOISE, .seed = 3}, 0},
        {{.way = ROGUE_TALKS,
          .first = later,
          .first_size = sizeof(later) - 1,
          .then = http,
          .then_size = sizeof(http) - 1},
         0},
        {{.way = ROGUE_HANGS_UP, .first = later, .first_size = sizeof(later) - 1},
         ROTA_UNREACHABLE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct rogue *rogue = rogue_start(&ways[i].opts);
        struct rider r;
        const char *url = url_of("postgres://me@127.0.0.1:%u/d?sslmode=disable",
                                 (unsigned)rogue_port(rogue));
        assert_int_equal(rider_open(&r, &rt_postgres_driver, url, NULL, 0), 0);
        assert_false(rider_dial(&r));
        if (ways[i].err != 0 && r.err != ways[i].err)
            fail_msg("%zu: %d, %s", i, r.err, r.why);
        rider_close(&r);
        rogue_stop(rogue);
    }
}

static void mute_server(void **state)
{
    struct rogue *rogue = rogue_start(&(struct rogue_options){.way = ROGUE_MUTE});
    struct rider r;
    (void)state;
    const char *url = url_of("postgres://me@127.0.0.1:%u/d?connect_timeout=1",
                             (unsigned)rogue_port(rogue));
    assert_int_equal(rider_open(&r, &rt_postgres_driver, url, NULL, 0), 0);
    assert_false(rider_dial(&r));
    assert_int_equal(r.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(r.why, "did not answer within 1000 ms"));
    rider_close(&r);
    rogue_stop(rogue);
}

/* ---- TLS ------------------------------------------------------------------------------------------------- */

/* A name of this machine that does not look like it. */
#define ELSEWHERE "2130706433"

static void tls(void **state)
{
    const struct rt_certs *c = &secure.certs;
    (void)state;
    works(url_of("postgres://postgres@localhost:%u/postgres?ca=%s", port_of(&secure), c->ca), NULL);
    works(url_of("postgres://postgres@localhost:%u/postgres?sslmode=require", port_of(&secure)),
          NULL);
    works(url_of("postgres://postgres@localhost:%u/postgres?sslmode=verify-full&sslrootcert=%s",
                 port_of(&secure), c->ca),
          NULL);
    works(url_of("postgres://postgres@127.0.0.1:%u/postgres", port_of(&secure)),
          NULL); /* this machine: as libpq does */
    works(url_of("postgres://postgres@" ELSEWHERE ":%u/postgres?sslmode=verify-ca&ca=%s",
                 port_of(&secure), c->ca),
          NULL);
    refused(
        url_of("postgres://postgres@localhost:%u/postgres?ca=%s", port_of(&secure), c->stranger_ca),
        NULL, ROTA_AUTH, "certificate verify failed; write ?ca=FILE");
    struct rt_pg other;
    rt_pg_start(&other,
                &(struct rt_pg_options){.tls = true, .cert = c->other_cert, .key = c->other_key});
    refused(url_of("postgres://postgres@localhost:%u/postgres?ca=%s", port_of(&other), c->ca), NULL,
            ROTA_AUTH, "does not match host name");
    rt_pg_fini(&other);
    refused(url_of("postgres://postgres@" ELSEWHERE ":%u/postgres", port_of(&server)), NULL,
            ROTA_AUTH, "to do without TLS write ?sslmode=disable");
    works(url_of("postgres://postgres@" ELSEWHERE ":%u/postgres?sslmode=disable", port_of(&server)),
          NULL);
    setenv("PGSSLMODE", "prefer", 1);
    works(url_of("postgres://postgres@" ELSEWHERE ":%u/postgres", port_of(&server)), NULL);
    unsetenv("PGSSLMODE");
}

static void large_answers_by_tls(void **state)
{
    static char bytes[3 << 20];
    struct rt_sql_cell value = {.text = bytes, .size = sizeof(bytes)};
    struct rider r;
    (void)state;
    memset(bytes, 'v', sizeof(bytes));
    rider_start(&r, &rt_postgres_driver,
                url_of("postgres://postgres@localhost:%u/postgres?ca=%s", port_of(&secure),
                       secure.certs.ca));
    DO(&r, STEP0(MAKE));
    DO(&r, STEP(OPEN, N(1), N(600000000), T("x")), STEP(LOCK, T("a")),
       STEP(JOIN, T("a"), N(1), N(1), N(1), N(1), N(0), N(0), N(1), N(0), N(0), N(0), N(0), N(0),
            value, NOTHING, N(1), N(0)));
    for (int i = 0; i < 5; i++) {
        DO(&r, STEP(FRONT, T("a")), STEP(FRONT, T("a")));
        assert_int_equal(rider_rows(&r, 0) + rider_rows(&r, 1), 2);
    }
    rider_close(&r);
}

/* ---- Rights ------------------------------------------------------------------------------------------------ */

static void a_limited_user(void **state)
{
    struct rider r;
    (void)state;
    assert_int_equal(rider_open(&r, &rt_postgres_driver,
                                url_of("postgres://rota@127.0.0.1:%u/postgres", port_of(&server)),
                                server.password, 0),
                     0);
    assert_true(rider_dial(&r));
    assert_int_equal(FLY(&r, STEP0(LAYOUT)), RT_SQL_ABSENT);
    assert_int_equal(FLY(&r, STEP0(MAKE)), RT_SQL_DENIED);
    (void)rt_pg_do(&server, "%s", rt_postgres_driver.ddl);
    assert_int_equal(FLY(&r, STEP0(LAYOUT)), RT_SQL_DENIED);
    rt_pg_make_tables(&server, rt_postgres_driver.ddl);
    DO(&r, STEP0(LAYOUT));
    DO(&r, STEP(OPEN, N(1), N(1000000), T("x")),
       STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)), STEP(LISTEN, N(1)),
       STEP(LOCK, T("a")), STEP(UNFOLD, T("a")), STEP(BREAK, T("a"), N(1), N(0)), STEP0(FACTS),
       STEP0(DOCTOR));
    /* Somebody else's table of our name. */
    (void)rt_pg_do(&server, "alter table rota_line rename column watched to seen");
    assert_int_equal(FLY(&r, STEP0(LAYOUT)), RT_SQL_ABSENT);
    (void)rt_pg_do(&server, "drop table rota_line, rota_ticket, rota_session, rota_meta");
    assert_int_equal(FLY(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR))),
                     RT_SQL_ABSENT);
    rider_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_up, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(no_schema_to_make_them_in, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(no_second_tables, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(settings_are_ours, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(services_and_files, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(refuses, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(bad_urls, rider_setup, rider_teardown),
        cmocka_unit_test(without_a_loop),
        cmocka_unit_test_setup_teardown(strangers, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(mute_server, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(tls, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(large_answers_by_tls, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(a_limited_user, rider_setup, rider_teardown),
    };
    unsetenv("PGHOST");
    unsetenv("PGUSER");
    return cmocka_run_group_tests(tests, start, stop);
}
