/* SPDX-License-Identifier: Apache-2.0 */
/* The table of SQL's dialects. */
#include "engine/sql/dialect/table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define BOTH (RT_SQL_POSTGRES | RT_SQL_MYSQL)

static const struct rt_sql_dialect dialects[] = {
    {"row", BOTH, &rt_engine_lease, rt_lease_open_row},
    {"version", BOTH, &rt_engine_lease, rt_lease_open_version},
    {"shedlock", BOTH, &rt_engine_lease, rt_lease_open_shedlock},
    {"getlock", RT_SQL_MYSQL, &rt_engine_sqlhold, rt_sqlhold_open},
    {"advisory", RT_SQL_POSTGRES, &rt_engine_sqlhold, rt_sqlhold_open},
    {"forupdate", BOTH, &rt_engine_sqlhold, rt_sqlhold_open},
    {"table", BOTH, &rt_engine_sqlhold, rt_sqlhold_open},
    {NULL, 0, NULL, NULL},
};

static bool spoken(const struct rt_sql_dialect *d, const struct rt_sql_driver *driver)
{
    return (d->tongues & driver->tongue) != 0;
}

static int no_such(struct rt_conn *conn, const struct rt_sql_driver *driver, const char *name)
{
    char list[160] = "line";
    for (const struct rt_sql_dialect *d = dialects; d->name != NULL; d++) {
        size_t used = strlen(list);
        if (spoken(d, driver))
            (void)snprintf(list + used, sizeof(list) - used, ", %s", d->name);
    }
    return rt_words_fail(conn, ROTA_INVALID, "%s: has no dialect '%.40s', but %s",
                         driver->schemes[0], name, list);
}

int rt_sql_dialect_open(struct rt_conn *conn, const struct rt_url *url,
                        const struct rt_sql_driver *driver, const char *name)
{
    const struct rt_sql_dialect *d = dialects;
    while (d->name != NULL && (strcmp(d->name, name) != 0 || !spoken(d, driver)))
        d++;
    if (d->name == NULL)
        return no_such(conn, driver, name);
    assert(d->engine != NULL && d->engine->conn_size <= sizeof(union rt_sql_any));
    conn->engine = d->engine; /* from here on it is another engine, in the same room */
    return d->open(conn, url, driver);
}
