/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in PostgreSQL; the lock is in a Redis. Look and write are two transactions: the holder thinks in between. */
#include "lib/postgres_server.h"
#include "lib/redis_server.h"
#include "scene.h"

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

static int run(PGconn *db, const char *sql, uint64_t *value)
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

static int guarded(PGconn *db, uint64_t fence, const char *sql, uint64_t *value)
{
    int err = run(db, "BEGIN", NULL);

    if (err == 0 && fence != 0)
        err = rota_guard_postgres(db, "count", fence);
    if (err == 0)
        err = run(db, sql, value);
    int ended = run(db, err == 0 ? "COMMIT" : "ROLLBACK", NULL);
    return err != 0 ? err : ended;
}

static int look(void *db, uint64_t fence, uint64_t *value)
{
    return guarded(db, fence, "SELECT n FROM count", value);
}

static int write_db(void *db, uint64_t fence, uint64_t value)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "UPDATE count SET n = %llu", (unsigned long long)value);
    return guarded(db, fence, sql, NULL);
}

const struct guard_store guard_store = {.name = "postgres",
                                        .start = start,
                                        .reset = reset,
                                        .fini = fini,
                                        .open = open_db,
                                        .close = close_db,
                                        .look = look,
                                        .write = write_db};
