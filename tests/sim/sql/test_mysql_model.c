/* SPDX-License-Identifier: Apache-2.0 */
/* The model SQL server of the simulator, held against a real MariaDB: the same rows. */
#include "lib/mysql_server.h"
#include "sim/sql/pair.h"

#include <stdlib.h>

static struct rt_mariadb server;

static void run(const char *sql)
{
    rt_mariadb_do(&server, "%s", sql);
}

int main(void)
{
    rt_mariadb_start(&server, NULL);
    setenv("MYSQL_PWD", RT_MARIADB_PASSWORD, 1);
    char *url = rt_mariadb_url(&server, 0);
    int failed = pair_run(&(struct pair_real){&rt_mysql_driver, url, run});
    free(url);
    rt_mariadb_fini(&server);
    return failed;
}
