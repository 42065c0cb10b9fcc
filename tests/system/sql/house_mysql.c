/* SPDX-License-Identifier: Apache-2.0 */
/* A MariaDB for the tests of SQL. */
#include "engine/mysql/mysql.h"
#include "house.h"
#include "lib/mysql_server.h"

#include <stdio.h>
#include <string.h>

static struct rt_mariadb nodes[2], *now = &nodes[0];

static void start(void)
{
    now = &nodes[0];
    rt_mariadb_start(now, NULL);
}

static void start_logged(void)
{
    now = &nodes[0];
    rt_mariadb_start(now, &(struct rt_mariadb_options){.log = true});
}

static void fini(void)
{
    rt_mariadb_fini(&nodes[1]);
    rt_mariadb_fini(&nodes[0]);
    memset(nodes, 0, sizeof(nodes));
}

static void stop(void)
{
    rt_mariadb_kill(now);
}

static void run(void)
{
    rt_mariadb_run(now);
    rt_mariadb_do(now, "USE %s", RT_MARIADB_DATABASE);
}

static uint16_t port(void)
{
    return now->server.port;
}

/* The first server's: its password does not change. */
static char *url(uint16_t at)
{
    return rt_mariadb_url(&nodes[0], at != 0 ? at : now->server.port);
}

static const char *ask(const char *sql)
{
    static char first[4096];
    const char *said = rt_mariadb_ask(now, "%s", sql);
    if (strncmp(said, "ERROR", 5) == 0)
        fprintf(stderr, "%s: %s\n", sql, said);
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(said, "\t\n"), said);
    return first;
}

static void follow(void)
{
    rt_mariadb_start(&nodes[1], &(struct rt_mariadb_options){.primary = now});
}

/* It knows what is there now, and nothing that comes later. */
static void detach(void)
{
    char reached[128];
    snprintf(reached, sizeof(reached), "%s", ask("SELECT @@gtid_binlog_pos"));
    rt_mariadb_do(&nodes[1], "DO MASTER_GTID_WAIT('%s', 60)", reached);
    rt_mariadb_do(&nodes[1], "STOP SLAVE");
}

static char *replica_url(void)
{
    return rt_mariadb_url(&nodes[0], nodes[1].server.port);
}

static void promote(void)
{
    now = &nodes[1];
    rt_mariadb_do(now, "STOP SLAVE");
    rt_mariadb_do(now, "RESET SLAVE ALL");
    rt_mariadb_do(now, "SET GLOBAL read_only=0");
    rt_mariadb_do(now, "USE %s", RT_MARIADB_DATABASE);
}

/* Alone, a statement is executed by its text; among others, by its name. */
static void words(enum rt_sql_step_kind kind, char *alone, char *among, size_t size)
{
    struct rt_mysql_bytes text = {0};
    size_t form = kind * RT_MYSQL_PARTS;
    (void)rt_mysql_marks(rt_mysql_sql(form), &text, NULL);
    snprintf(alone, size, "execute %.*s", (int)(text.size < 200 ? text.size : 200),
             (const char *)text.at);
    rt_mysql_bytes_free(&text);
    snprintf(among, size, "rota%zu ", form);
}

/* KILL takes no expression. */
#define OTHERS                                                                                           \
    "SELECT CONCAT(@how, ID) INTO @kill FROM information_schema.PROCESSLIST WHERE USER='rota' ORDER BY " \
    "RAND() LIMIT 1; EXECUTE IMMEDIATE COALESCE(@kill, 'DO 0'); SELECT 1"

const struct house_kind house_mysql = {
    .name = "mysql",
    .driver = &rt_mysql_driver,
    .framing = &rt_proxy_mysql,
    .links = 2,
    .start = start,
    .start_logged = start_logged,
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
    .cut_one = "SET @kill=NULL, @how='KILL '; " OTHERS,
    .stop_one = "SET @kill=NULL, @how='KILL QUERY '; " OTHERS,
    .time = "SELECT UNIX_TIMESTAMP()",
    .words = words,
};
