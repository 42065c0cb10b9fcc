/* SPDX-License-Identifier: Apache-2.0 */
/* A pooler between us and the server: detected, whether or not it has others to serve. */
#include "../sql/rider.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"
#include "lib/refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct rt_pg server;
static struct rt_server bouncer;

static int start(void **state)
{
    char path[300];
    (void)state;
    rt_pg_start(&server, NULL);
    rt_server_init(&bouncer, "pgbouncer", getuid() == 0 ? "setpriv" : "env");
    if (getuid() == 0) {
        rt_server_arg(&bouncer, "--reuid=postgres");
        rt_server_arg(&bouncer, "--regid=postgres");
        rt_server_arg(&bouncer, "--init-groups");
        rt_server_arg(&bouncer, "--pdeathsig=KILL");
    }
    snprintf(path, sizeof(path), "%s/ini", server.server.dir);
    rt_server_arg(&bouncer, "pgbouncer");
    rt_server_arg(&bouncer, "%s", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(
        f,
        "[databases]\ntransaction = host=127.0.0.1 port=%u dbname=postgres user=postgres pool_mode=transaction\n"
        "session = host=127.0.0.1 port=%u dbname=postgres user=postgres pool_mode=session\n"
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %u\nauth_type = any\nunix_socket_dir =\n",
        (unsigned)server.server.port, (unsigned)server.server.port, (unsigned)bouncer.port);
    fclose(f);
    rt_server_start(&bouncer);
    rt_server_await(&bouncer, rt_server_accepts, NULL, 20000);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_server_fini(&bouncer);
    rt_pg_fini(&server);
    return 0;
}

/* Why FACTS says that it cannot be used. */
static const char *refusal(const char *database, const char *params)
{
    static char text[RIDER_TEXT];
    struct rider r;
    char url[200];
    snprintf(url, sizeof(url), "postgres://postgres@127.0.0.1:%u/%s%s", (unsigned)bouncer.port,
             database, params);
    rider_start(&r, &rt_postgres_driver, url);
    DO(&r, STEP0(FACTS));
    const char *at = rider_row(&r, 0, 0);
    for (int i = 0; i < 5; i++)
        at = strchr(at, '|') + 1;
    snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, "|"), at);
    rider_close(&r);
    return text;
}

static void poolers_are_found_out(void **state)
{
    (void)state;
    assert_non_null(strstr(refusal("transaction", ""), "write ?pooler=session"));
    assert_non_null(strstr(refusal("session", ""), "write ?pooler=session")); /* nobody can tell */
    assert_string_equal(refusal("session", "?pooler=session"), "");
}

/* The same as a user sees it: one error, and no tables. With a pool by session all is as without one. */
static void users_are_told(void **state)
{
    static const char *const none[] = {NULL};
    char url[200];
    (void)state;
    snprintf(url, sizeof(url), "postgres://postgres@127.0.0.1:%u/transaction",
             (unsigned)bouncer.port);
    struct refusal r = refusal_of(url, 15000);
    refusal_assert(&r, ROTA_UNSUPPORTED, "127.0.0.1|pooler|name the server itself", none);
    assert_int_equal(rt_pg_number(&server, "select count(*) from pg_tables where tablename like"
                                           " 'rota%%'"),
                     0);
    snprintf(url, sizeof(url), "postgres://postgres@127.0.0.1:%u/session?pooler=session",
             (unsigned)bouncer.port);
    r = refusal_of(url, 15000);
    assert_int_equal(r.err, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(poolers_are_found_out, rider_setup, rider_teardown),
        cmocka_unit_test(users_are_told),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
