/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that lives and dies with a transaction of MySQL or MariaDB: no session, no ttl, nothing to release. Enough if
 * everything that the lock protects is in that database. For PostgreSQL: rota_sql_lock_postgres. */
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

static MYSQL *connect_db(void)
{
    MYSQL *db = mysql_init(NULL);

    mysql_optionsv(db, MYSQL_READ_DEFAULT_GROUP, "client"); /* ~/.my.cnf */
    if (db != NULL && mysql_real_connect(db, NULL, NULL, NULL, NULL, 0, NULL, 0) != NULL)
        return db;
    fprintf(stderr, "%s\n", mysql_error(db));
    mysql_close(db);
    return NULL;
}

int main(void)
{
    MYSQL *ours = connect_db(), *theirs = connect_db();
    uint64_t fence = 0;
    int busy = 0;

    if (ours == NULL || theirs == NULL)
        return 1;
    int err = run(ours, ROTA_SQL_LOCK_MYSQL_DDL);
    if (err == 0)
        err = run(ours, "BEGIN");
    if (err == 0)
        err = rota_sql_lock_mysql(ours, "nightly", 5000, &fence); /* waits 5 s at most */
    if (err == 0)
        err = run(theirs, "BEGIN");
    if (err == 0)
        busy = rota_sql_lock_mysql(theirs, "nightly", 0, NULL); /* does not wait */
    /* ... the work, in the same transaction ... */
    if (err == 0)
        err = run(ours, "COMMIT"); /* and the lock is free */
    if (err == 0)
        err = rota_sql_lock_mysql(theirs, "nightly", 0, NULL);
    printf("fence %" PRIu64 "; meanwhile others are told: %s\n", fence, rota_strerror(busy));
    mysql_close(theirs); /* and the lock is free here, too */
    mysql_close(ours);
    return err != 0 || busy != ROTA_BUSY;
}
