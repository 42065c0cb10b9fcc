/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a broker's events, each with effect exactly once: take, work, commit; acknowledge; say that it is processed.
 *
 *   cc consumer.c consumer_redis.c $(pkg-config --cflags --libs rota_txn hiredis sqlite3) -o consumer
 *   ./consumer HOST PORT SOURCE DATABASE [COUNT]
 *
 * SOURCE: a queue of RabbitMQ, a stream of NATS or Redis. DATABASE: the SQLite file with rota_inbox, and here
 * rota_event too; with PostgreSQL and MariaDB only the names of the calls differ. Kill it anywhere: each mail is there
 * once. */
#include "consumer.h"

#include <rota_txn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static int say(sqlite3 *db, const char *sql)
{
    char *why = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &why) == SQLITE_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", sql, why);
    sqlite3_free(why);
    return -1;
}

/* The work: here, a row. Anything outside the database (a mail that is really sent) cannot be undone: do it last. */
static int write_mail(sqlite3 *db, const struct event *e)
{
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(db, "INSERT INTO mail (text) VALUES (?)", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_bind_text(st, 1, e->body, (int)e->size, SQLITE_STATIC) != SQLITE_OK)
        return -1;
    int rv = sqlite3_step(st);
    sqlite3_finalize(st);
    return rv == SQLITE_DONE ? 0 : -1;
}

/* 0: it was done, now or before, and may be acknowledged. */
static int work(sqlite3 *db, const struct event *e)
{
    if (say(db, "BEGIN IMMEDIATE") != 0)
        return -1;
    int err = rota_event_take_sqlite(db, GROUP, e->id);
    if (err == 0)
        err = write_mail(db, e); /* the first time */
    else if (err == ROTA_BUSY)
        err = 0; /* it was taken before: there is nothing to do */
    if (err == 0 && say(db, "COMMIT") == 0)
        return 0;
    fprintf(stderr, "%s is left to come again: %s\n", e->id, rota_txn_errmsg(NULL));
    (void)say(db, "ROLLBACK");
    return -1;
}

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    struct event e;

    if (argc < 5) {
        fprintf(stderr, "usage: consumer HOST PORT SOURCE DATABASE [COUNT]\n");
        return 64;
    }
    long left = argc > 5 ? strtol(argv[5], NULL, 10) : -1; /* -1: for ever */
    if (sqlite3_open(argv[4], &db) != SQLITE_OK || sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
        say(db, "CREATE TABLE IF NOT EXISTS mail (id INTEGER PRIMARY KEY, text TEXT)") != 0 ||
        rota_event_make_sqlite(db) != 0 ||
        broker_open(argv[1], (int)strtol(argv[2], NULL, 10), argv[3]) != 0)
        return 1;
    for (; left != 0 && broker_next(&e) == 0; left--) {
        if (work(db, &e) != 0) {
            if (broker_back() != 0)
                break;
            continue;
        }
        if (broker_ack() != 0) /* only now: before COMMIT it would be lost if we died */
            break;
        /* The table can be reached from here: no receipt is needed. Saying it twice is harmless, and so is dying before
         * it. */
        if (rota_event_processed_sqlite(db, NULL, e.id) != 0)
            fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
        printf("done\n");
        fflush(stdout);
    }
    broker_close();
    sqlite3_close(db);
    return left == 0 ? 0 : 1;
}
