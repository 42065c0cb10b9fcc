/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/event/local.h"

#include "engines.h"
#include "txn/manager/inside.h"

#include <stdio.h>
#include <string.h>

const struct rt_event_local rt_event_mysql = {.kind = &rt_fence_mysql,
                                              .dialect = RT_STMT_MYSQL,
                                              .title = "MariaDB",
                                              .make = "rota_event_make_mysql"};

const struct rt_event_local rt_event_postgres = {
#if ROTA_ENGINE_POSTGRES
    .kind = &rt_fence_postgres,
#endif
    .dialect = RT_STMT_POSTGRES,
    .title = "PostgreSQL",
    .make = "rota_event_make_postgres"};

const struct rt_event_local rt_event_sqlite = {
#if ROTA_ENGINE_FILE
    .kind = &rt_fence_sqlite,
#endif
    .dialect = RT_STMT_SQLITE,
    .title = "SQLite",
    .make = "rota_event_make_sqlite"};

int rt_event_ready(const struct rt_event_local *db, const void *conn, enum rt_fence_in in)
{
    char errmsg[RT_TXN_LINE] = "";
    void *own;

    memcpy(&own, &conn, sizeof(own));
    if (db->kind == NULL)
        return rt_txns_fail(NULL, ROTA_UNSUPPORTED, "this library was built without %s", db->title);
    if (conn == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "the connection is NULL");
    int err = db->kind->ready(own, in, errmsg, sizeof(errmsg));
    return err != 0 ? rt_txns_fail(NULL, err, "%s", errmsg) : 0;
}

int rt_event_say(const struct rt_event_local *db, void *conn, struct rt_stmt *q,
                 struct rt_said *said, const char *advice)
{
    if (q->failed)
        return rt_txns_fail(NULL, ROTA_NOMEM, "out of memory");
    memset(said, 0, sizeof(*said));
    db->kind->say(conn, q->text, said, NULL, NULL);
    if (!said->failed && !said->lost)
        return 0;
    int err = said->lost ? ROTA_UNREACHABLE : db->kind->error(said);
    if (err == ROTA_UNSUPPORTED && advice[0] == '\0')
        return rt_txns_fail(NULL, err, "%s: %s creates the tables, outside a transaction",
                            said->text, db->make);
    return rt_txns_fail(NULL, err, "%s: %s", said->text, advice[0] != '\0' ? advice : "ROLLBACK");
}

void rt_event_begin(struct rt_stmt *q)
{
    if (q->dialect == RT_STMT_MYSQL)
        rt_stmt_add(q, "BEGIN NOT ATOMIC IF @@in_transaction = 0 AND @@autocommit = 1 THEN SIGNAL "
                       "SQLSTATE '45000' SET MESSAGE_TEXT = 'there is no transaction: BEGIN comes "
                       "first'; END IF; ");
}

void rt_event_end(struct rt_stmt *q)
{
    if (q->dialect == RT_STMT_MYSQL)
        rt_stmt_add(q, "; END");
}

int rt_event_map_of(struct rt_event_map *out, const char *map)
{
    char errmsg[RT_TXN_LINE] = "";

    if (map == NULL) {
        rt_event_map_default(out);
        return 0;
    }
    int err = rt_event_map_read(out, map, errmsg, sizeof(errmsg));
    return err != 0 ? rt_txns_fail(NULL, err, "%s", errmsg) : 0;
}

static void write_type(struct rt_stmt *q, const struct rt_event_map *map, const char *column)
{
    const char *dot = strchr(map->table, '.');
    struct rt_stmt table = {.dialect = q->dialect};
    char schema[RT_EVENT_WORD];

    switch (q->dialect) {
    case RT_STMT_POSTGRES:
        rt_stmt_table(&table, map->table);
        rt_stmt_add(q, "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = "
                       "to_regclass(");
        rt_stmt_text(q, table.text);
        rt_stmt_add(q, ") AND attnum > 0 AND NOT attisdropped AND attname = ");
        break;
    case RT_STMT_MYSQL:
        snprintf(schema, sizeof(schema), "%.*s", dot != NULL ? (int)(dot - map->table) : 0,
                 map->table);
        rt_stmt_add(q, "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ");
        if (dot != NULL)
            rt_stmt_text(q, schema);
        else
            rt_stmt_add(q, "DATABASE()");
        rt_stmt_add(q, " AND TABLE_NAME = ");
        rt_stmt_text(q, dot != NULL ? dot + 1 : map->table);
        rt_stmt_add(q, " AND COLUMN_NAME = ");
        break;
    default:
        rt_stmt_add(q, "SELECT type FROM pragma_table_info(");
        rt_stmt_text(q, map->table);
        rt_stmt_add(q, ") WHERE name = ");
    }
    rt_stmt_text(q, column);
    q->failed = q->failed || table.failed;
    rt_stmt_fini(&table);
}

int rt_event_type(const struct rt_event_local *db, void *conn, const struct rt_event_map *map,
                  enum rt_event_column column, struct rt_said *said)
{
    const char *name = map->columns[column].text;
    struct rt_stmt q = {.dialect = db->dialect};

    write_type(&q, map, name);
    int err = rt_event_say(db, conn, &q, said, "");
    if (err == 0 && said->rows != 1)
        err = rt_txns_fail(NULL, ROTA_UNSUPPORTED, "there is no column %.100s of a table %.100s",
                           name, map->table);
    rt_stmt_fini(&q);
    return err;
}
