/* SPDX-License-Identifier: Apache-2.0 */
/* Every step of the contract on a real MariaDB; and once more in the form that MySQL needs, whose EXECUTE takes only
 * variables: MariaDB understands that, too. */
#include "../sql/steps.h"
#include "engine/mysql/mysql.h"
#include "lib/mysql_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rt_mariadb server;
static struct rt_sql_driver as_mysql;
static char *url;

static void run(const char *sql)
{
    rt_mariadb_do(&server, "%s", sql);
}

static long long number(const char *sql)
{
    return strtoll(rt_mariadb_ask(&server, "%s", sql), NULL, 10);
}

static int start(void **state)
{
    (void)state;
    if (server.server.pid == 0) {
        rt_mariadb_start(&server, NULL);
        setenv("MYSQL_PWD", RT_MARIADB_PASSWORD, 1);
        url = rt_mariadb_url(&server, 0);
    }
    steps = (struct steps){.driver = &rt_mysql_driver, .url = url, .run = run, .number = number};
    return 0;
}

static int send_as_mysql(struct rt_sql_link *l, const struct rt_sql_flight *f)
{
    rt_mysql_of(l)->mariadb = false;
    return rt_mysql_driver.send(l, f);
}

static int start_as_mysql(void **state)
{
    (void)start(state);
    as_mysql = rt_mysql_driver;
    as_mysql.send = send_as_mysql;
    steps.driver = &as_mysql;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_mariadb_fini(&server);
    free(url);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {STEPS_TESTS};
    return cmocka_run_group_tests_name("MariaDB", tests, start, NULL) |
           cmocka_run_group_tests_name("told as MySQL", tests, start_as_mysql, stop);
}
