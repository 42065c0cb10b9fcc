/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in MariaDB; the lock is in a Redis. Look and write are two transactions: the holder thinks in between. */
#include "lib/mysql_client.h"
#include "lib/redis_server.h"
#include "scene.h"
#include "store_sql.h"

#include <rota_guard.h>

static struct rt_mariadb server;
static struct rt_redis node;

static char *start(void)
{
    rt_mariadb_start(&server, NULL);
    rt_mariadb_do(&server, "USE " RT_MARIADB_DATABASE);
    rt_mariadb_do(&server, "%s", ROTA_GUARD_MYSQL_DDL);
    rt_mariadb_do(&server, "CREATE TABLE count (n BIGINT)");
    rt_redis_start(&node, NULL);
    return rt_redis_url(&node, 0);
}

static void reset(void)
{
    rt_mariadb_do(&server, "DELETE FROM rota_guard");
    rt_mariadb_do(&server, "DELETE FROM count");
    rt_mariadb_do(&server, "INSERT INTO count VALUES (0)");
}

static void fini(void)
{
    rt_mariadb_fini(&server);
    rt_redis_fini(&node);
}

static void *open_db(void)
{
    return rt_mysql_client(&server);
}

static void close_db(void *db)
{
    mysql_close(db);
}

static int run(void *db, const char *sql, uint64_t *value)
{
    if (mysql_query(db, sql) != 0)
        return rota_guard_say(ROTA_PROTOCOL, mysql_error(db));
    MYSQL_RES *result = mysql_store_result(db);
    if (result != NULL && value != NULL)
        *value = strtoull(mysql_fetch_row(result)[0], NULL, 10);
    mysql_free_result(result);
    return 0;
}

static int guard(void *db, uint64_t fence)
{
    return rota_guard_mysql(db, "count", fence);
}

const struct store_sql store_sql = {run, guard};
const struct guard_store guard_store = {.name = "mysql",
                                        .start = start,
                                        .reset = reset,
                                        .fini = fini,
                                        .open = open_db,
                                        .close = close_db,
                                        .look = store_sql_look,
                                        .write = store_sql_write};
