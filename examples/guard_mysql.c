/* SPDX-License-Identifier: Apache-2.0 */
/* A change in MySQL or MariaDB under a lock that may be anywhere: guard, read and write in one transaction of yours. */
#include <inttypes.h>
#include <mysql.h>
#include <rota_guard.h>

static int run(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) == 0)
        return 0;
    fprintf(stderr, "%s\n", mysql_error(db));
    return ROTA_PROTOCOL;
}

/* Returns 0 only after COMMIT has succeeded: only then is it done. */
static int sell_one(MYSQL *db, uint64_t fence)
{
    int err = run(db, "BEGIN");
    if (err == 0)
        err = rota_guard_mysql(db, "stock 7",
                               fence); /* first: before any read, which would fix a snapshot */
    if (err == 0)
        err = run(db, "UPDATE stock SET n = n - 1 WHERE id = 7");
    int ended = run(db, err == 0 ? "COMMIT" : "ROLLBACK");
    return err != 0 ? err : ended;
}

static int prepare(MYSQL *db)
{
    int err;

    mysql_optionsv(db, MYSQL_READ_DEFAULT_GROUP, "client"); /* ~/.my.cnf */
    if (mysql_real_connect(db, NULL, NULL, NULL, NULL, 0, NULL, 0) == NULL) {
        fprintf(stderr, "%s\n", mysql_error(db));
        return ROTA_UNREACHABLE;
    }
    err = run(db, ROTA_GUARD_MYSQL_DDL);
    if (err == 0)
        err = run(db,
                  "CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, n INT) ENGINE = InnoDB");
    return err == 0 ? run(db, "INSERT IGNORE INTO stock VALUES (7, 10)") : err;
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
    MYSQL *db = mysql_init(NULL);
    struct rota *r = NULL;
    struct rota_lock *lock;
    uint64_t fence = 0, before = 0;

    int err = db != NULL ? prepare(db) : ROTA_NOMEM;
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
    mysql_close(db);
    return err != 0 || late != ROTA_LOST;
}
