/* SPDX-License-Identifier: Apache-2.0 */
/* Writing an event, in the caller's own transaction. */
#include "txn/event/local.h"

#include "txn/manager/inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 255

/* ---- What can be an event --------------------------------------------------------------- */

static int check_text(const char *what, const struct rt_event_word *column, const char *text,
                      size_t most, bool needed)
{
    if (column->constant || column->text[0] == '\0') {
        if (text != NULL && column->constant && strcmp(text, column->text) != 0)
            return rt_txns_fail(NULL, ROTA_INVALID, "the map says %s='%.60s' for all events", what,
                                column->text);
        if (text != NULL && !column->constant)
            return rt_txns_fail(NULL, ROTA_INVALID,
                                "the event has a %s, but the map has no column for it", what);
        return 0;
    }
    if (needed && (text == NULL || text[0] == '\0'))
        return rt_txns_fail(NULL, ROTA_INVALID, "the event has no %s", what);
    if (text != NULL && strlen(text) > most)
        return rt_txns_fail(NULL, ROTA_INVALID, "the %s has more than %zu bytes", what, most);
    return 0;
}

int rt_event_check(const struct rt_event_map *map, const struct rota_event *e)
{
    int err = check_text("topic", &map->columns[RT_COLUMN_TOPIC], e->topic, TEXT_MAX, true);

    if (err == 0)
        err = check_text("key", &map->columns[RT_COLUMN_KEY], e->key, TEXT_MAX, false);
    if (err == 0)
        err = check_text("type", &map->columns[RT_COLUMN_TYPE], e->type, TEXT_MAX, false);
    if (err == 0)
        err = check_text("event_id", &map->columns[RT_COLUMN_EVENT_ID], e->event_id,
                         RT_EVENT_ID - 1, false);
    if (err != 0)
        return err;
    if (e->payload == NULL && e->size > 0)
        return rt_txns_fail(NULL, ROTA_INVALID, "the event has a size but no payload");
    if (map->own && e->event_id != NULL && !rt_event_id_is_uuid(e->event_id, NULL))
        return rt_txns_fail(NULL, ROTA_INVALID,
                            "'%.60s' is not an event_id: use a UUID, or 32 hexadecimal digits",
                            e->event_id);
    return 0;
}

/* ---- The statement ---------------------------------------------------------------------- */

struct line { /* of an INSERT: the columns and the values */
    struct rt_stmt columns, *values;
};

static void begin_pair(struct line *l, const struct rt_event_map *map, enum rt_event_column column)
{
    if (l->columns.size > 0) {
        rt_stmt_add(&l->columns, ", ");
        rt_stmt_add(l->values, ", ");
    }
    rt_stmt_name(&l->columns, map->columns[column].text);
}

static bool has(const struct rt_event_map *map, enum rt_event_column column)
{
    return map->columns[column].text[0] != '\0' && !map->columns[column].constant;
}

static void add_text(struct line *l, const struct rt_event_map *map, enum rt_event_column column,
                     const char *text)
{
    if (!has(map, column) || text == NULL)
        return;
    begin_pair(l, map, column);
    rt_stmt_text(l->values, text);
}

/* A column of another table may be text or json, for which PostgreSQL takes no bytes: then TYPE is its type. */
static void add_payload(struct line *l, const struct rt_event_map *map, const struct rota_event *e,
                        const char *type)
{
    bool as_text = type != NULL && strcmp(type, "bytea") != 0;

    begin_pair(l, map, RT_COLUMN_PAYLOAD);
    rt_stmt_add(l->values, as_text ? "convert_from(" : "");
    rt_stmt_bytes(l->values, e->payload != NULL ? e->payload : "", e->size);
    if (as_text)
        rt_stmt_add(l->values, ", 'UTF8')::%s", type);
}

/* A column that another table may not fill in by itself. */
static void add_now(struct line *l, const struct rt_event_map *map, enum rt_event_column column)
{
    if (map->own || !has(map, column))
        return;
    begin_pair(l, map, column);
    rt_stmt_add(l->values, "%s", rt_stmt_now(l->values->dialect));
}

void rt_event_insert(struct rt_stmt *q, const struct rt_event_map *map, const struct rota_event *e,
                     const char *type, bool absent)
{
    struct rt_stmt values = {.dialect = q->dialect};
    struct line l = {.columns = {.dialect = q->dialect}, .values = &values};
    char uuid[33];
    const char *event_id = e->event_id;

    if (map->own && event_id != NULL && rt_event_id_is_uuid(event_id, uuid))
        event_id = uuid;
    add_text(&l, map, RT_COLUMN_EVENT_ID, event_id);
    add_text(&l, map, RT_COLUMN_TOPIC, e->topic);
    add_text(&l, map, RT_COLUMN_KEY, e->key);
    add_text(&l, map, RT_COLUMN_TYPE, e->type);
    add_text(&l, map, RT_COLUMN_STATE, map->states[RT_EVENT_NEW]);
    add_now(&l, map, RT_COLUMN_CREATED);
    add_now(&l, map, RT_COLUMN_UPDATED);
    add_payload(&l, map, e, type);
    rt_stmt_add(q, "INSERT INTO ");
    rt_stmt_table(q, map->table);
    q->failed = q->failed || l.columns.failed || values.failed;
    if (!q->failed)
        rt_stmt_add(q, " (%s) VALUES (%s)", l.columns.text, values.text);
    if (absent && q->dialect == RT_STMT_MYSQL) {
        rt_stmt_add(q, " ON DUPLICATE KEY UPDATE ");
        rt_stmt_name(q, map->columns[RT_COLUMN_ID].text);
        rt_stmt_add(q, " = ");
        rt_stmt_name(q, map->columns[RT_COLUMN_ID].text);
    } else if (absent) {
        rt_stmt_add(q, " ON CONFLICT (");
        rt_stmt_name(q, map->columns[RT_COLUMN_EVENT_ID].text);
        rt_stmt_add(q, ") DO NOTHING");
    }
    rt_stmt_fini(&l.columns);
    rt_stmt_fini(&values);
}

/* MariaDB cuts what does not fit, with a warning, where sql_mode is not strict: two keys or ids would be one. So the
 * INSERT between these two is undone and refused then. (The columns of rota_event take all that is let in.) */
static void begin_whole(struct rt_stmt *q)
{
    if (q->dialect == RT_STMT_MYSQL)
        rt_stmt_add(
            q, "BEGIN DECLARE why TEXT; DECLARE EXIT HANDLER FOR 1264, 1265, 1366, 1406 BEGIN GET "
               "DIAGNOSTICS CONDITION 1 why = MESSAGE_TEXT; ROLLBACK TO SAVEPOINT rota_put; SIGNAL "
               "SQLSTATE '22001' SET MESSAGE_TEXT = why; END; SAVEPOINT rota_put; ");
}

static void end_whole(struct rt_stmt *q)
{
    if (q->dialect == RT_STMT_MYSQL)
        rt_stmt_add(q, "; RELEASE SAVEPOINT rota_put; END");
}

int rt_event_put(const struct rt_event_local *db, void *conn, const struct rota_event *given,
                 size_t size, bool *sent)
{
    struct rt_stmt q = {.dialect = db->dialect};
    struct rota_event e = {0};
    struct rt_event_map map;
    struct rt_said said = {0}, type = {0};

    *sent = false;
    if (given == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "the event is NULL");
    memcpy(&e, given, size < sizeof(e) ? size : sizeof(e));
    int err = rt_event_map_of(&map, e.map);
    if (err == 0)
        err = rt_event_check(&map, &e);
    if (err == 0)
        err = rt_event_ready(db, conn, RT_FENCE_INSIDE);
    *sent = err == 0;
    if (err == 0 && !map.own && db->dialect == RT_STMT_POSTGRES)
        err = rt_event_type(db, conn, &map, RT_COLUMN_PAYLOAD, &type);
    if (err != 0)
        return err;
    rt_event_begin(&q);
    if (!map.own)
        begin_whole(&q);
    rt_event_insert(&q, &map, &e, type.rows == 1 ? type.cell[0] : NULL, false);
    if (!map.own)
        end_whole(&q);
    rt_event_end(&q);
    err = rt_event_say(db, conn, &q, &said, "");
    rt_stmt_fini(&q);
    return err;
}

static int put(const struct rt_event_local *db, void *conn, const struct rota_event *e, size_t size)
{
    bool sent;

    return rt_event_put(db, conn, e, size, &sent);
}

int rota_event_put_mysql_sized(struct st_mysql *my, const struct rota_event *e, size_t size)
{
    return put(&rt_event_mysql, my, e, size);
}

int rota_event_put_postgres_sized(struct pg_conn *pg, const struct rota_event *e, size_t size)
{
    return put(&rt_event_postgres, pg, e, size);
}

int rota_event_put_sqlite_sized(struct sqlite3 *db, const struct rota_event *e, size_t size)
{
    return put(&rt_event_sqlite, db, e, size);
}
