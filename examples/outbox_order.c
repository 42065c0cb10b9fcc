/* SPDX-License-Identifier: Apache-2.0 */
/* An order service that tells others: the order and its event are one transaction, so both are there, or neither.
 *
 *   cc outbox_order.c $(pkg-config --cflags --libs rota_txn sqlite3) -o outbox_order
 *   ./outbox_order shop.db 2                       two of five items; the sixth is refused
 *   rota relay --from sqlite:shop.db --to redis://localhost
 *
 * On MariaDB and PostgreSQL use rota_event_put_mysql and rota_event_put_postgres; everything else stays the same. */
#include <rota_txn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int say(sqlite3 *db, const char *sql)
{
    char *why = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &why) == SQLITE_OK)
        return 0;
    fprintf(stderr, "%s\n", why);
    sqlite3_free(why);
    return -1;
}

static int make_tables(sqlite3 *db)
{
    if (say(db,
            "CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, free INTEGER CHECK (free >= 0));"
            "INSERT OR IGNORE INTO stock VALUES ('lamp', 5);"
            "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, count INTEGER)") !=
        0)
        return -1;
    if (rota_event_make_sqlite(db) == 0)
        return 0;
    fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
    return -1;
}

/* In the open transaction. */
static int order(sqlite3 *db, int count)
{
    char sql[200], key[32], json[100];

    snprintf(sql, sizeof(sql),
             "UPDATE stock SET free = free - %d WHERE item = 'lamp';"
             "INSERT INTO orders (item, count) VALUES ('lamp', %d)",
             count, count);
    if (say(db, sql) != 0)
        return -1;
    long long id = sqlite3_last_insert_rowid(db);
    snprintf(key, sizeof(key), "order-%lld", id);
    snprintf(json, sizeof(json), "{\"order\": %lld, \"item\": \"lamp\", \"count\": %d}", id, count);
    const struct rota_event e = {
        .topic = "orders", .key = key, .type = "made", .payload = json, .size = strlen(json)};
    if (rota_event_put_sqlite(db, &e) == 0)
        return 0;
    fprintf(stderr, "%s\n", rota_txn_errmsg(NULL));
    return -1;
}

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    int code = 1;

    if (argc != 3 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: outbox_order DATABASE COUNT\n");
        return 64;
    }
    if (sqlite3_open(argv[1], &db) == SQLITE_OK && sqlite3_busy_timeout(db, 5000) == SQLITE_OK &&
        make_tables(db) == 0 && say(db, "BEGIN IMMEDIATE") == 0) {
        if (order(db, atoi(argv[2])) == 0 && say(db, "COMMIT") == 0)
            code = 0;
        else
            say(db, "ROLLBACK"); /* neither the order nor the event */
    }
    puts(code == 0 ? "ordered" : "refused");
    sqlite3_close(db);
    return code;
}
