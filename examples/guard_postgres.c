/* SPDX-License-Identifier: Apache-2.0 */
/* A change in PostgreSQL under a lock that may be anywhere: guard, read and write in one transaction of yours. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <rota_guard.h>

static int run(PGconn *db, const char *sql)
{
    PGresult *result = PQexec(db, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fprintf(stderr, "%s", PQerrorMessage(db));
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : ROTA_PROTOCOL;
}

/* Returns 0 only after COMMIT has succeeded: only then is it done. */
static int sell_one(PGconn *db, uint64_t fence)
{
    int err = run(db, "BEGIN");
    if (err == 0)
        err = rota_guard_postgres(db, "stock 7", fence); /* first: it locks the guard's row */
    if (err == 0)
        err = run(db, "UPDATE stock SET n = n - 1 WHERE id = 7");
    int ended = run(db, err == 0 ? "COMMIT" : "ROLLBACK");
    return err != 0 ? err : ended;
}

static int prepare(PGconn *db)
{
    if (PQstatus(db) != CONNECTION_OK) {
        fprintf(stderr, "%s", PQerrorMessage(db));
        return ROTA_UNREACHABLE;
    }
    return run(db, "SET client_min_messages = warning; " ROTA_GUARD_POSTGRES_DDL
                   "; CREATE TABLE IF NOT EXISTS stock (id int PRIMARY KEY, n int)"
                   "; INSERT INTO stock VALUES (7, 10) ON CONFLICT DO NOTHING");
}

/* A tenure in which nothing is done: imagine that its holder sleeps and wakes up too late. */
static uint64_t sleeping_fence(struct rota *r)
{
    struct rota_lock *lock;
    uint64_t fence = 0;

    if (rota_acquire(r, "stock 7", NULL, &lock) == 0) {
        fence = rota_fence(lock);
        rota_release(lock);
    }
    return fence;
}

int main(void)
{
    PGconn *db = PQconnectdb(""); /* $PGHOST and so on */
    struct rota *r = NULL;
    struct rota_lock *lock;
    uint64_t fence = 0, before = 0;

    int err = prepare(db);
    if (err == 0)
        err = rota_open(&r, NULL, NULL);
    if (err == 0) {
        before = sleeping_fence(r);
        err = rota_acquire(r, "stock 7", NULL, &lock);
    }
    if (err == 0) {
        fence = rota_fence(lock);
        err = sell_one(db, fence);
        rota_release(lock);
    }
    int late = err == 0 ? sell_one(db, before) : 0;
    printf("fence %" PRIu64 ": %s; the one before: %s\n", fence, rota_strerror(err),
           rota_strerror(late));
    rota_close(r);
    PQfinish(db);
    return err != 0 || late != ROTA_LOST;
}
