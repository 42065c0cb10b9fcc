/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"

static int fence(void *conn, const struct rota_call *call, enum rota_fenced *verdict)
{
    return rota_fence_mysql(conn, call, verdict);
}

static int make(void *conn)
{
    return rota_fence_make_mysql(conn);
}

static int clean(struct rota_txns *m, void *conn, uint64_t *count)
{
    return rota_fence_clean_mysql(m, conn, count);
}

const struct desk desk_mysql = {
    .site = &site_mysql,
    .fence = fence,
    .make = make,
    .clean = clean,
    .begin = "START TRANSACTION",
    .levels = {"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
               "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
               "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"},
    /* Not INNODB_TRX: asked more often than every 100 ms, it shows old data. */
    .blocked = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = "
               "'INNODB_ROW_LOCK_CURRENT_WAITS'",
    .begin_prepared = "XA START 'of-the-test'",
    .prepare = "XA END 'of-the-test'; XA PREPARE 'of-the-test'",
    .commit_prepared = "XA COMMIT 'of-the-test'",
    .short_wait = "SET SESSION innodb_lock_wait_timeout = 1",
    .read_only = "START TRANSACTION READ ONLY",
};
