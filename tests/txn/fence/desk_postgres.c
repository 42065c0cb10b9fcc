/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"

static int fence(void *conn, const struct rota_call *call, enum rota_fenced *verdict)
{
    return rota_fence_postgres(conn, call, verdict);
}

static int make(void *conn)
{
    return rota_fence_make_postgres(conn);
}

static int clean(struct rota_txns *m, void *conn, uint64_t *count)
{
    return rota_fence_clean_postgres(m, conn, count);
}

const struct desk desk_postgres = {
    .site = &site_postgres,
    .fence = fence,
    .make = make,
    .clean = clean,
    .begin = "BEGIN",
    .levels = {"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
               "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
               "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"},
    .blocked = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted",
    .begin_prepared = "BEGIN",
    .prepare = "PREPARE TRANSACTION 'of-the-test'",
    .commit_prepared = "COMMIT PREPARED 'of-the-test'",
    .short_wait = "SET lock_timeout = '300ms'",
    .read_only = "BEGIN READ ONLY",
    .reads_old = true,
};
