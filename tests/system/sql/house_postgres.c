/* SPDX-License-Identifier: Apache-2.0 */
/* A PostgreSQL for the tests of SQL. */
#include "house.h"
#include "lib/postgres_server.h"

#include <stdio.h>

static struct rt_pg server;

static void start(void)
{
    rt_pg_start(&server, NULL);
}

static void fini(void)
{
    rt_pg_fini(&server);
}

static void stop(void)
{
    rt_pg_kill(&server);
}

static void run(void)
{
    rt_pg_run(&server);
}

static uint16_t port(void)
{
    return server.server.port;
}

static char *url(uint16_t at)
{
    return rt_pg_url(&server, at);
}

static const char *ask(const char *sql)
{
    return rt_pg_do(&server, "%s", sql);
}

static void words(enum rt_sql_step_kind kind, char *alone, char *among, size_t size)
{
    snprintf(alone, size, "rota%d ", (int)kind);
    snprintf(among, size, "rota%d ", (int)kind);
}

#define OTHERS                                                                                 \
    " from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()" \
    " order by random() limit 1"

const struct house_kind house_postgres = {
    .name = "postgres",
    .driver = &rt_postgres_driver,
    .framing = &rt_proxy_postgres,
    .links = 1,
    .start = start,
    .fini = fini,
    .kill = stop,
    .run = run,
    .port = port,
    .url = url,
    .ask = ask,
    .cut_one = "select pg_terminate_backend(pid)" OTHERS,
    .stop_one = "select pg_cancel_backend(pid)" OTHERS,
    .words = words,
};
