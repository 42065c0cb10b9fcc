/* SPDX-License-Identifier: Apache-2.0 */
/* Every step of the contract on a real PostgreSQL. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {STEPS_TESTS};
    return cmocka_run_group_tests(tests, start, stop);
}
