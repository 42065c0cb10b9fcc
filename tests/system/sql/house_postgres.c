/* SPDX-License-Identifier: Apache-2.0 */
/* A PostgreSQL for the tests of SQL. */
#include "house.h"
#include "lib/postgres_server.h"

#include <stdio.h>
#include <stdlib.h>

static struct rt_pg nodes[2], *now = &nodes[0];

static void start(void)
{
    now = &nodes[0];
    rt_pg_start(now, NULL);
}

static void fini(void)
{
    rt_pg_fini(&nodes[1]);
    rt_pg_fini(&nodes[0]);
}

static void stop(void)
{
    rt_pg_kill(now);
}

static void run(void)
{
    rt_pg_run(now);
}

static uint16_t port(void)
{
    return now->server.port;
}

static char *url(uint16_t at)
{
    return rt_pg_url(now, at);
}

static const char *ask(const char *sql)
{
    return rt_pg_do(now, "%s", sql);
}

static void follow(void)
{
    rt_pg_start_standby(&nodes[1], now, "follower");
}

static bool hears_nothing(void *unused)
{
    (void)unused;
    return rt_pg_number(&nodes[1], "select count(*) from pg_stat_wal_receiver") == 0;
}

static char reached[32];

static bool has_it(void *unused)
{
    (void)unused;
    return rt_pg_number(&nodes[1], "select (pg_last_wal_replay_lsn() >= '%s')::int", reached) == 1;
}

/* It knows what is there now, and nothing that comes later. */
static void detach(void)
{
    snprintf(reached, sizeof(reached), "%s", rt_pg_do(now, "select pg_current_wal_lsn()"));
    if (!rt_await(has_it, NULL, HOUSE_LIMIT_MS))
        abort();
    (void)rt_pg_do(&nodes[1], "alter system set primary_conninfo = ''");
    (void)rt_pg_do(&nodes[1], "select pg_reload_conf()");
    if (!rt_await(hears_nothing, NULL, HOUSE_LIMIT_MS))
        abort();
}

static char *replica_url(void)
{
    return rt_pg_url(&nodes[1], 0);
}

static void promote(void)
{
    now = &nodes[1];
    rt_pg_promote(now);
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
    .start_logged = start,
    .follow = follow,
    .detach = detach,
    .promote = promote,
    .replica_url = replica_url,
    .fini = fini,
    .kill = stop,
    .run = run,
    .port = port,
    .url = url,
    .ask = ask,
    .cut_one = "select pg_terminate_backend(pid)" OTHERS,
    .stop_one = "select pg_cancel_backend(pid)" OTHERS,
    .time = "select floor(extract(epoch from clock_timestamp()))::bigint",
    .words = words,
};
