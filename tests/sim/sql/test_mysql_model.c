/* SPDX-License-Identifier: Apache-2.0 */
/* The model SQL server of the simulator, held against a real MariaDB: the same rows. */
#include "lib/mysql_server.h"
#include "sim/sql/pair.h"
#include "unit/sql/rider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static struct rt_mariadb server;

static void run(const char *sql)
{
    rt_mariadb_do(&server, "%s", sql);
}

static void flights_in_chance(void **state)
{
    char *url = rt_mariadb_url(&server, 0);
    struct pair_real real = {&rt_mysql_driver, url, run};
    uint64_t drawn = (uint64_t)time(NULL);
    (void)state;
    printf("flights drawn anew: %llu\n", (unsigned long long)drawn);
    pair_fly(&real, 7, 400);
    pair_fly(&real, drawn, 400);
    free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flights_in_chance, rider_setup, rider_teardown),
    };
    rt_mariadb_start(&server, NULL);
    setenv("MYSQL_PWD", RT_MARIADB_PASSWORD, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_mariadb_fini(&server);
    return failed;
}
