/* SPDX-License-Identifier: Apache-2.0 */
/* A MariaDB for the tests of SQL. */
#include "engine/mysql/mysql.h"
#include "house.h"
#include "lib/mysql_server.h"

#include <stdio.h>
#include <string.h>

static struct rt_mariadb server;

static void start(void)
{
    rt_mariadb_start(&server, NULL);
}

static void fini(void)
{
    rt_mariadb_fini(&server);
}

static void stop(void)
{
    rt_mariadb_kill(&server);
}

static void run(void)
{
    rt_mariadb_run(&server);
    rt_mariadb_do(&server, "USE %s", RT_MARIADB_DATABASE);
}

static uint16_t port(void)
{
    return server.server.port;
}

static char *url(uint16_t at)
{
    return rt_mariadb_url(&server, at);
}

static const char *ask(const char *sql)
{
    static char first[4096];
    const char *said = rt_mariadb_ask(&server, "%s", sql);
    if (strncmp(said, "ERROR", 5) == 0)
        fprintf(stderr, "%s: %s\n", sql, said);
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(said, "\t\n"), said);
    return first;
}

/* Alone it is executed by what it says, among others by its name. */
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
    .fini = fini,
    .kill = stop,
    .run = run,
    .port = port,
    .url = url,
    .ask = ask,
    .cut_one = "SET @kill=NULL, @how='KILL '; " OTHERS,
    .stop_one = "SET @kill=NULL, @how='KILL QUERY '; " OTHERS,
    .words = words,
};
