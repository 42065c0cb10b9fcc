/* SPDX-License-Identifier: Apache-2.0 */
/* Every step of the contract on a real PostgreSQL. */
#include "../sql/scene.h"
#include "../sql/steps.h"
#include "lib/postgres_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rt_pg server;
static char *url;

static void run(const char *sql)
{
    (void)rt_pg_do(&server, "%s", sql);
}

static long long number(const char *sql)
{
    return rt_pg_number(&server, "%s", sql);
}

static int start(void **state)
{
    (void)state;
    rt_pg_start(&server, NULL);
    url = rt_pg_url(&server, 0);
    steps = (struct steps){.driver = &rt_postgres_driver, .url = url, .run = run, .number = number};
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_pg_fini(&server);
    free(url);
    return 0;
}

#define LINE 500

/* Plans are made once. One that was made when no ticket stood anywhere reads each ticket of a long line a few times, not
 * once for each other. */
static void a_line_longer_than_planned_for(void **state)
{
    static const struct rt_sql_saying read = {
        .sql = "select idx_tup_fetch from pg_stat_xact_user_tables where relname = 'rota_ticket'",
        .types = "",
        .slot = RT_SQL_ONCE,
        .rows = true,
        .reads = true};
    struct rider r;
    (void)state;
    scene_begin(&r);
    run("vacuum analyze rota_ticket");
    DO(&r, STEP(LOCK, T("long")), STEP(SETTLE, T("long")));
    run("insert into rota_ticket select 'long', n, 1, n, 0, 0, 0, 0, 1::bigint << 62, n = 1, false, 0, 0, 0, 0, 0"
        " from generate_series(1, 500) n");
    run("update rota_line set count = 500, waiting = 499 where name = 'long'");
    struct rt_sql_step count = {.kind = RT_SQL_SAYING, .saying = &read};
    DO(&r, STEP(LOCK, T("long")), STEP(PURGE, T("long")), STEP(SETTLE, T("long")), count);
    assert_in_range(rider_cell(&r, 3, 0, 0), LINE, 10 * LINE);
    scene_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {STEPS_TESTS cmocka_unit_test_setup_teardown(
        a_line_longer_than_planned_for, rider_setup, rider_teardown)};
    return cmocka_run_group_tests(tests, start, stop);
}
