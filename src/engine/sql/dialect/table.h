/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects on SQL databases (?dialect=): one table of them, and the room that a connection of any of them needs.
 *
 * A new one is a row in table.c and a member of union rt_sql_any. Its engine's functions are its own; its OPEN is called by
 * postgres: and mysql: where the URL names it. It takes what it needs of lanes, flights and asks from sql.h
 * (rt_sql_open_lanes, struct rt_sql_rider, RT_SQL_SAYING); it may also hold links of its own (driver.h). */
#ifndef RT_SQL_TABLE_H
#define RT_SQL_TABLE_H

#include "engine/sql/dialect/lease.h"
#include "engine/sql/hold/hold.h"
#include "engine/sql/sql.h"

struct rt_sql_dialect {
    const char *name;
    uint32_t tongues;               /* where it is spoken: enum rt_sql_tongue */
    const struct rt_engine *engine; /* except its `open`, which is: */
    int (*open)(struct rt_conn *conn, const struct rt_url *url, const struct rt_sql_driver *driver);
};

union rt_sql_any {
    struct rt_sql_conn line;
    struct rt_lease_conn lease;
    struct rt_sqlhold_conn hold;
};

/* CONN, zeroed except for rt_conn, becomes the engine of the dialect NAME and is opened as such. If there is no such
 * dialect: ROTA_INVALID, and errmsg lists those there are. */
int rt_sql_dialect_open(struct rt_conn *conn, const struct rt_url *url,
                        const struct rt_sql_driver *driver, const char *name);

#endif
