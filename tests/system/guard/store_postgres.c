/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in PostgreSQL; the lock is in a Redis. Look and write are two transactions: the holder thinks in between. */
#include "lib/postgres_server.h"
#include "lib/redis_server.h"
#include "scene.h"
#include "store_sql.h"

#include <rota_guard.h>

static struct rt_pg server;
static struct rt_redis node;

static char *start(void)
{
    rt_pg_start(&server, NULL);
    rt_pg_do(&server, ROTA_GUARD_POSTGRES_DDL "; CREATE TABLE count (n bigint)");
    rt_redis_start(&node, NULL);
    return rt_redis_url(&node, 0);
}

static void reset(void)
{
    rt_pg_do(&server, "DELETE FROM rota_guard; DELETE FROM count; INSERT INTO count VALUES (0)");
}

static void fini(void)
{
    rt_pg_fini(&server);
    rt_redis_fini(&node);
}

static void *open_db(void)
{
    char *url = rt_pg_url(&server, 0);
    PGconn *db = PQconnectdb(url);

    free(url);
    if (PQstatus(db) != CONNECTION_OK)
        abort();
    return db;
}

static void close_db(void *db)
{
    PQfinish(db);
}

static int run(void *db, const char *sql, uint64_t *value)
{
    PGresult *result = PQexec(db, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK && value != NULL)
        *value = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
               ? 0
               : rota_guard_say(ROTA_PROTOCOL, PQerrorMessage(db));
}

static int guard(void *db, uint64_t fence)
{
    return rota_guard_postgres(db, "count", fence);
}

const struct store_sql store_sql = {run, guard};
const struct guard_store guard_store = {.name = "postgres",
                                        .start = start,
                                        .reset = reset,
                                        .fini = fini,
                                        .open = open_db,
                                        .close = close_db,
                                        .look = store_sql_look,
                                        .write = store_sql_write};
