/* SPDX-License-Identifier: Apache-2.0 */
#include "office.h"

#include <sqlite3.h>
#include <stdio.h>

static int put(void *conn, const struct rota_event *e)
{
    return rota_event_put_sqlite(conn, e);
}

static int make(void *conn)
{
    return rota_event_make_sqlite(conn);
}

static int take(void *conn, const char *consumer, const char *event_id)
{
    return rota_event_take_sqlite(conn, consumer, event_id);
}

static int processed(void *conn, const char *map, const char *event_id)
{
    return rota_event_processed_sqlite(conn, map, event_id);
}

static void explain(void *conn, const char *sql, char *out, size_t size)
{
    sqlite3_stmt *st = NULL;
    size_t n = 0;

    if (sqlite3_prepare_v2(conn, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(conn));
    out[0] = '\0';
    while (sqlite3_step(st) == SQLITE_ROW && n < size)
        n += (size_t)snprintf(out + n, size - n, "%s\n", (const char *)sqlite3_column_text(st, 3));
    sqlite3_finalize(st);
}

const struct office office_sqlite = {
    .site = &site_sqlite,
    .put = put,
    .make = make,
    .take = take,
    .processed = processed,
    .begin = "BEGIN IMMEDIATE",
    .orders =
        "CREATE TABLE tbl_order_event (id INTEGER PRIMARY KEY, order_type TEXT, process TEXT NOT NULL, content TEXT, create_time DATETIME DEFAULT CURRENT_TIMESTAMP, update_time DATETIME DEFAULT CURRENT_TIMESTAMP)",
    .aged = "datetime('now', '-1 hour')",
    .short_wait = "PRAGMA busy_timeout = 100",
    .text = "CAST(payload AS TEXT)",
    .explain = explain,
    .by_index = {"SEARCH e USING INDEX rota_event_state (state=?)",
                 "SEARCH e USING INDEX rota_event_updated (state=? AND updated<?)"},
    .not_so = {"SCAN e", "TEMP B-TREE"},
    .plans = {"SEARCH e USING INDEX rota_event_state (state=? AND id>?)|", "SCAN e|TEMP B-TREE|",
              "SEARCH e USING INDEX rota_event_key (msg_key=? AND state=? AND id>?)|",
              "SCAN e|TEMP B-TREE|", "SEARCH e USING COVERING INDEX rota_event_state (state=?)|",
              "SCAN e|TEMP B-TREE|",
              "SEARCH e USING COVERING INDEX rota_event_updated (state=? AND updated>?)|",
              "TEMP B-TREE|"},
    .rows_lock = false,
};
