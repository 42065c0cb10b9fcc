/* SPDX-License-Identifier: Apache-2.0 */
#include "desk.h"

static int fence(void *conn, const struct rota_call *call, enum rota_fenced *verdict)
{
    return rota_fence_sqlite(conn, call, verdict);
}

static int make(void *conn)
{
    return rota_fence_make_sqlite(conn);
}

static int clean(struct rota_txns *m, void *conn, uint64_t *count)
{
    return rota_fence_clean_sqlite(m, conn, count);
}

const struct desk desk_sqlite = {
    .site = &site_sqlite,
    .fence = fence,
    .make = make,
    .clean = clean,
    .begin = "BEGIN IMMEDIATE",
    .levels = {"PRAGMA read_uncommitted = 0"},
    .short_wait = "PRAGMA busy_timeout = 100",
    .reads_old = true,
};
