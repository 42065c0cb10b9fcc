/* SPDX-License-Identifier: Apache-2.0 */
/* Ten coins from an account in MariaDB to one in PostgreSQL: both change, or neither does, whoever dies, and whenever.
 *
 *   cc transfer.c $(pkg-config --cflags --libs rota_txn libmariadb libpq) -o transfer
 *
 * PostgreSQL is found through PGHOST and the like, and needs max_prepared_transactions; MariaDB through ~/.my.cnf. */
#include <libpq-fe.h>
#include <mysql.h>
#include <rota_txn.h>
#include <stdio.h>

static int at_mariadb(MYSQL *my, const char *sql)
{
    if (mysql_query(my, sql) == 0)
        return 0;
    fprintf(stderr, "MariaDB: %s\n", mysql_error(my));
    return -1;
}

static int at_postgres(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK)
        fprintf(stderr, "PostgreSQL: %s", PQresultErrorMessage(result));
    PQclear(result);
    return status == PGRES_COMMAND_OK ? 0 : -1;
}

static int make_accounts(MYSQL *my, PGconn *pg)
{
    int failed = at_mariadb(my,
                            "CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, coins INT, "
                            "CHECK (coins >= 0)) ENGINE = InnoDB") ||
                 at_mariadb(my, "INSERT IGNORE INTO account VALUES (1, 25)") ||
                 at_postgres(
                     pg, "CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, coins INT)") ||
                 at_postgres(pg, "INSERT INTO account VALUES (7, 0) ON CONFLICT DO NOTHING");
    return failed ? -1 : 0;
}

static int transfer(struct rota_txns *m, MYSQL *my, PGconn *pg)
{
    struct rota_branch *shop = NULL, *ledger = NULL;
    struct rota_txn *t;

    int err = rota_txn_begin(m, NULL, &t);
    if (err != 0)
        return err;
    if (rota_xa_mysql(t, "shop", my, &shop) != 0 ||
        rota_xa_postgres(t, "ledger", pg, &ledger) != 0) {
        fprintf(stderr, "%s\n", rota_txn_errmsg(m));
        rota_txn_abort(t);
        return ROTA_ABORTED;
    }
    if (at_mariadb(my, "UPDATE account SET coins = coins - 10 WHERE id = 1") != 0)
        rota_branch_fail(shop); /* too poor: it votes no */
    if (at_postgres(pg, "UPDATE account SET coins = coins + 10 WHERE id = 7") != 0)
        rota_branch_fail(ledger);
    return rota_txn_commit(t);
}

int main(void)
{
    PGconn *pg = PQconnectdb("");
    MYSQL *my = mysql_init(NULL);
    struct rota_txns *m = NULL;

    mysql_optionsv(my, MYSQL_READ_DEFAULT_GROUP, "client");
    if (mysql_real_connect(my, NULL, NULL, NULL, NULL, 0, NULL, 0) == NULL ||
        PQstatus(pg) != CONNECTION_OK) {
        fprintf(stderr, "%s%s\n", mysql_error(my), PQerrorMessage(pg));
        return 1;
    }
    if (rota_txns_open(&m, NULL, NULL) != 0) { /* $ROTA_JOURNAL, else an embedded file */
        fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
        return 1;
    }
    if (make_accounts(my, pg) != 0)
        return 1;
    for (int i = 0; i < 3; i++) {
        int err = transfer(m, my, pg);
        printf("transfer: %s\n", err == 0 ? "committed at both" : rota_txn_errmsg(m));
        if (err == ROTA_UNKNOWN)
            return 1; /* rota_txn_outcome will tell; these connections are of no more use */
    }
    rota_txns_close(m);
    mysql_close(my);
    PQfinish(pg);
    return 0;
}
