/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in a SQL server: what the stores on all of them share. */
#ifndef RT_GUARD_STORE_SQL_H
#define RT_GUARD_STORE_SQL_H

#include <stdint.h>

struct store_sql {
    int (*run)(void *db, const char *sql, uint64_t *value); /* VALUE: of its one column; or NULL */
    int (*guard)(void *db, uint64_t fence);
};
extern const struct store_sql store_sql; /* of this program */

/* guard_store's look and write: each a transaction of its own. */
int store_sql_look(void *db, uint64_t fence, uint64_t *value);
int store_sql_write(void *db, uint64_t fence, uint64_t value);

#endif
