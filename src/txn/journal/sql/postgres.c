/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the journal in PostgreSQL: their texts are in postgres.sql. */
#include "txn/journal/sql/sql.h"

#define DECLARE(step, text, types, rows, reads) extern const char rt_jsql_postgres_##text[];
RT_JSQL_WORDS(DECLARE)
extern const char rt_jsql_postgres_insert_many[], rt_jsql_postgres_make_lock[],
    rt_jsql_postgres_meta[], rt_jsql_postgres_row_table[], rt_jsql_postgres_undone[],
    rt_jsql_postgres_branch_table[], rt_jsql_postgres_resource_table[], rt_jsql_postgres_fill[];

#define MANY(step) (RT_ROWS_##step == RT_ROWS_INSERT ? rt_jsql_postgres_insert_many : NULL)
#define SAYING(step, text, types, rows, reads) \
    [RT_ROWS_##step] = {rt_jsql_postgres_##text, types, RT_ROWS_##step, rows, reads, MANY(step)},
static const struct rt_sql_saying words[RT_ROWS_END] = {
    RT_JSQL_WORDS(SAYING)[RT_ROWS_NEWEST] = {.types = "",
                                             .slot = RT_ROWS_NEWEST}}; /* it has a clock */

#define ONCE(text, rows_)                                                                 \
    {                                                                                     \
        .sql = rt_jsql_postgres_##text, .types = "", .slot = RT_SQL_ONCE, .rows = (rows_) \
    }
static const struct rt_sql_saying make[] = {
    ONCE(make_lock, true),     ONCE(meta, false),
    ONCE(row_table, false),    ONCE(undone, false),
    ONCE(branch_table, false), ONCE(resource_table, false),
    ONCE(fill, false),         {.sql = NULL},
};

static const struct rt_jsql_dialect dialect = {
    .driver = &rt_postgres_driver, .words = words, .make = make};

static const char *const ddl[] = {rt_jsql_postgres_meta,
                                  rt_jsql_postgres_row_table,
                                  rt_jsql_postgres_undone,
                                  rt_jsql_postgres_branch_table,
                                  rt_jsql_postgres_resource_table,
                                  rt_jsql_postgres_fill,
                                  NULL};

static const char *const schemes[] = {"postgres", "postgresql", NULL};
static const char *const params[] = {
    "service",         "sslmode",    "sslrootcert",     "sslcert",     "sslkey",
    "sslcrl",          "passfile",   "options",         "requirepeer", "application_name",
    "channel_binding", "gssencmode", "krbsrvname",      "host",        "port",
    "schema",          "pooler",     "connect_timeout", NULL,
};

static int open_journal(struct rt_journal *base, const struct rt_url *url)
{
    return rt_jsql_open(base, url, &dialect);
}

const struct rt_journal_kind rt_journal_postgres = RT_JSQL_KIND("postgres", open_journal, schemes,
                                                                params, ddl);
