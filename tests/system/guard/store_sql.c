/* SPDX-License-Identifier: Apache-2.0 */
/* Look and write in transactions. */
#include "store_sql.h"

#include <stdio.h>

static int guarded(void *db, uint64_t fence, const char *sql, uint64_t *value)
{
    int err = store_sql.run(db, "BEGIN", NULL);

    if (err == 0 && fence != 0)
        err = store_sql.guard(db, fence);
    if (err == 0)
        err = store_sql.run(db, sql, value);
    int ended = store_sql.run(db, err == 0 ? "COMMIT" : "ROLLBACK", NULL);
    return err != 0 ? err : ended;
}

int store_sql_look(void *db, uint64_t fence, uint64_t *value)
{
    return guarded(db, fence, "SELECT n FROM count", value);
}

int store_sql_write(void *db, uint64_t fence, uint64_t value)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "UPDATE count SET n = %llu", (unsigned long long)value);
    return guarded(db, fence, sql, NULL);
}
