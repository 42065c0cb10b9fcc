/* SPDX-License-Identifier: Apache-2.0 */
/* The fence on SQLite, through the library that the embedded journal uses, too: libsqlite3.so. A connection made by
 * another copy, compiled into the program, does not belong to it.
 *
 * There is one writer. A transaction that has read before may find that another wrote meanwhile: that is BUSY, and so
 * is a writer for which sqlite3_busy_timeout was too short. BEGIN IMMEDIATE avoids both. */
#include "txn/fence/fence.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static int ready(void *conn, enum rt_fence_in in, char *errmsg, size_t size)
{
    bool inside = sqlite3_get_autocommit(conn) == 0;

    if (inside == (in == RT_FENCE_INSIDE))
        return 0;
    snprintf(errmsg, size, "%s",
             inside ? "the connection is in a transaction: COMMIT or ROLLBACK comes first"
                    : "there is no transaction: BEGIN IMMEDIATE comes first");
    return ROTA_INVALID;
}

static void take(struct rt_talk *t, sqlite3_stmt *s)
{
    char *values[RT_SAID_CELLS];
    int cells = sqlite3_column_count(s);

    cells = cells < RT_SAID_CELLS ? cells : RT_SAID_CELLS;
    for (int i = 0; i < cells; i++) { /* texts until the next step; nobody writes to them */
        const unsigned char *text = sqlite3_column_text(s, i);
        memcpy(&values[i], &text, sizeof(text));
    }
    rt_talk_row(t, cells, values);
}

static void say(void *conn, char *sql, struct rt_said *said,
                void (*row)(void *arg, int cells, char *const *values), void *arg)
{
    struct rt_talk t = {.conn = conn, .row = row, .row_arg = arg};
    sqlite3_stmt *s = NULL;
    int rv = sqlite3_prepare_v2(conn, sql, -1, &s, NULL);

    while (rv == SQLITE_OK || rv == SQLITE_ROW) {
        rv = sqlite3_step(s);
        if (rv == SQLITE_ROW)
            take(&t, s);
    }
    t.said.failed = rv != SQLITE_DONE;
    t.said.code = t.said.failed ? (unsigned)sqlite3_errcode(conn) & 0xff : 0;
    if (t.said.failed)
        rt_talk_line(t.said.text, sizeof(t.said.text), sqlite3_errmsg(conn));
    sqlite3_finalize(s);
    t.said.affected = t.said.failed ? 0 : (uint64_t)sqlite3_changes(conn);
    *said = t.said;
}

static int error_of(const struct rt_said *said)
{
    switch (said->code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT:
        return ROTA_BUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return ROTA_AUTH;
    case SQLITE_NOMEM:
        return ROTA_NOMEM;
    case SQLITE_ERROR:
        return strstr(said->text, "no such table") != NULL || strstr(said->text, "column") != NULL
                   ? ROTA_UNSUPPORTED
                   : ROTA_INVALID;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return ROTA_UNREACHABLE;
    default:
        return ROTA_INVALID;
    }
}

const struct rt_fence_kind rt_fence_sqlite = {
    .title = "SQLite",
    .make = "rota_fence_make_sqlite",
    .ddl = "CREATE TABLE IF NOT EXISTS " RT_FENCE_TABLE
           " (txn TEXT NOT NULL, branch INTEGER NOT NULL, state INTEGER NOT NULL, was INTEGER NOT "
           "NULL, deadline INTEGER NOT NULL, PRIMARY KEY (txn, branch)) WITHOUT ROWID",
    .ready = ready,
    .say = say,
    .error = error_of,
};
