/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the journal in MariaDB and MySQL: their texts are in mysql.sql. */
#include "txn/journal/sql/sql.h"

#define DECLARE(step, text, types, rows, reads) extern const char rt_jsql_mysql_##text[];
RT_JSQL_WORDS(DECLARE)
extern const char rt_jsql_mysql_meta[], rt_jsql_mysql_row_table[], rt_jsql_mysql_branch_table[],
    rt_jsql_mysql_resource_table[], rt_jsql_mysql_fill[];

#define SAYING(step, text, types, rows, reads) \
    [RT_ROWS_##step] = {rt_jsql_mysql_##text, types, RT_ROWS_##step, rows, reads, NULL},
static const struct rt_sql_saying words[RT_ROWS_END] = {
    RT_JSQL_WORDS(SAYING)[RT_ROWS_NEWEST] = {.types = "",
                                             .slot = RT_ROWS_NEWEST}}; /* it has a clock */

#define ONCE(text, rows_)                                                              \
    {                                                                                  \
        .sql = rt_jsql_mysql_##text, .types = "", .slot = RT_SQL_ONCE, .rows = (rows_) \
    }
static const struct rt_sql_saying make[] = {
    ONCE(meta, false),           ONCE(row_table, false), ONCE(branch_table, false),
    ONCE(resource_table, false), ONCE(fill, false),      {.sql = NULL},
};

static const struct rt_jsql_dialect dialect = {
    .driver = &rt_mysql_driver, .words = words, .make = make};

static const char *const ddl[] = {rt_jsql_mysql_meta,         rt_jsql_mysql_row_table,
                                  rt_jsql_mysql_branch_table, rt_jsql_mysql_resource_table,
                                  rt_jsql_mysql_fill,         NULL};

static const char *const schemes[] = {"mysql",    "mysqls",       "mysql+unix", "mariadb",
                                      "mariadbs", "mariadb+unix", NULL};
static const char *const params[] = {"database", "user", NULL};

static int open_journal(struct rt_journal *base, const struct rt_url *url)
{
    return rt_jsql_open(base, url, &dialect);
}

const struct rt_journal_kind rt_journal_mysql = RT_JSQL_KIND("mysql", open_journal, schemes, params,
                                                             ddl);
