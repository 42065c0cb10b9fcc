/* SPDX-License-Identifier: Apache-2.0 */
/* The fence on MariaDB.
 *
 * ON DUPLICATE KEY UPDATE takes the row's exclusive lock at once; INSERT IGNORE takes a shared one first, and two that
 * then change the row deadlock. A missing row is inserted without looking first, so no gap is locked. The client
 * library cannot be asked whether a transaction is open (after a deadlock the server has none, and the library does not
 * know), so the statement itself asks. */
#include "txn/branch/libmysql.h"
#include "txn/fence/fence.h"

#include <stdio.h>
#include <string.h>

enum { /* MariaDB's errors */
       RECORD_CHANGED = 1020,
       NO_DATABASE_RIGHT = 1044,
       NO_ACCESS = 1045,
       NO_DATABASE = 1046,
       NO_COLUMN = 1054,
       NO_SYNTAX = 1064,
       NO_COUNT = 1136,
       NO_TABLE_RIGHT = 1142,
       NO_COLUMN_RIGHT = 1143,
       NO_TABLE = 1146,
       LOCK_WAIT = 1205,
       DEADLOCK = 1213,
       NO_PRIVILEGE = 1227,
       INTERRUPTED = 1317,
       NO_INDEX = 1176,
       TOO_LONG = 1969,
};

static int ready(void *conn, enum rt_fence_in in, char *errmsg, size_t size)
{
    char sql[] = "SELECT @@in_transaction";
    struct rt_said said = {0};
    int err = rt_libmysql_load(errmsg, size);

    if (err != 0 || in == RT_FENCE_INSIDE)
        return err;
    rt_fence_talk(&rt_talk_mysql, conn, sql, &said, NULL, NULL);
    if (!said.failed && strcmp(said.cell[0], "0") == 0)
        return 0;
    snprintf(errmsg, size, "%s",
             said.failed
                 ? said.text
                 : "the connection is in a transaction, which a CREATE TABLE would commit: COMMIT "
                   "or ROLLBACK comes first");
    return said.lost ? ROTA_UNREACHABLE : ROTA_INVALID;
}

static void say(void *conn, char *sql, struct rt_said *said,
                void (*row)(void *arg, int cells, char *const *values), void *arg)
{
    rt_fence_talk(&rt_talk_mysql, conn, sql, said, row, arg);
}

static int error_of(const struct rt_said *said)
{
    switch (said->code) {
    case NO_DATABASE_RIGHT:
    case NO_ACCESS:
    case NO_TABLE_RIGHT:
    case NO_COLUMN_RIGHT:
    case NO_PRIVILEGE:
        return ROTA_AUTH;
    case LOCK_WAIT:
    case DEADLOCK:
    case RECORD_CHANGED:
    case INTERRUPTED:
    case TOO_LONG:
        return ROTA_BUSY;
    case NO_TABLE:
    case NO_COLUMN:
    case NO_COUNT:
    case NO_SYNTAX:
        return ROTA_UNSUPPORTED;
    default:
        return ROTA_INVALID; /* SIGNAL: no transaction, or a read-only one */
    }
}

const struct rt_fence_kind rt_fence_mysql = {
    .title = "MariaDB",
    .make = "rota_fence_make_mysql",
    .ddl = "CREATE TABLE IF NOT EXISTS " RT_FENCE_TABLE
           " (txn VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, branch BIGINT NOT "
           "NULL, state TINYINT NOT NULL, was TINYINT NOT NULL, deadline BIGINT NOT NULL, PRIMARY "
           "KEY (txn, branch)) ENGINE = InnoDB",
    .found = "SELECT CONCAT('" RT_FENCE_TABLE
             " is no InnoDB table: a row would stay whatever becomes of its transaction') FROM "
             "information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = "
             "'" RT_FENCE_TABLE "' AND ENGINE <> 'InnoDB'",
    .odku = true,
    .ready = ready,
    .say = say,
    .error = error_of,
};
