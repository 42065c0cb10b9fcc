/* SPDX-License-Identifier: Apache-2.0 */
/* The model SQL server of the simulator, held against a real PostgreSQL: the same rows. */
#include "lib/postgres_server.h"
#include "sim/sql/pair.h"

#include <stdlib.h>

static struct rt_pg server;

static void run(const char *sql)
{
    (void)rt_pg_do(&server, "%s", sql);
}

int main(void)
{
    rt_pg_start(&server, NULL);
    char *url = rt_pg_url(&server, 0);
    int failed = pair_run(&(struct pair_real){&rt_postgres_driver, url, run});
    free(url);
    rt_pg_fini(&server);
    return failed;
}
