/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite as a site: a file in a temporary folder. */
#include "site.h"

#include "lib/proc.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[64], path[128];

static void *connect_to(uint16_t port)
{
    sqlite3 *db = NULL;

    (void)port;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        abort();
    sqlite3_busy_timeout(db, SITE_LIMIT_MS);
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    return db;
}

static bool sql(void *conn, const char *text)
{
    return sqlite3_exec(conn, text, NULL, NULL, NULL) == SQLITE_OK;
}

/* A new connection each time, so that none is open when somebody forks. */
static void admin(const char *text)
{
    sqlite3 *boss = connect_to(0);

    if (!sql(boss, text)) {
        fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(boss));
        abort();
    }
    sqlite3_close(boss);
}

static void start(void)
{
    snprintf(folder, sizeof(folder), "/tmp/rota-site-XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    snprintf(path, sizeof(path), "%s/service.db", folder);
    admin("PRAGMA journal_mode = WAL");
    admin("CREATE TABLE work (id INTEGER PRIMARY KEY)");
}

static void close_conn(void *conn)
{
    sqlite3_close(conn);
}

static void fini(void)
{
    for (int i = 0; i < 3; i++) {
        char name[160];
        snprintf(name, sizeof(name), "%s%s", path, (const char *[]){"", "-wal", "-shm"}[i]);
        remove(name);
    }
    remove(folder);
}

static long long number(const char *text)
{
    sqlite3 *boss = connect_to(0);
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(boss, text, -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW) {
        fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(boss));
        abort();
    }
    long long n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(boss);
    return n;
}

static char *url_of(uint16_t port)
{
    char *url = NULL;

    (void)port;
    return asprintf(&url, "sqlite:%s", path) > 0 ? url : NULL;
}

const struct site site_sqlite = {
    .name = "SQLite",
    .start = start,
    .fini = fini,
    .url = url_of,
    .connect = connect_to,
    .close = close_conn,
    .sql = sql,
    .number = number,
    .admin = admin,
};
