/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer's side: what was taken, and what is processed. */
#include "txn/event/local.h"

#include "txn/manager/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Taking ----------------------------------------------------------------------------- */

static int check_word(const char *what, const char *text, size_t most)
{
    if (text == NULL || text[0] == '\0')
        return rt_txns_fail(NULL, ROTA_INVALID, "there is no %s", what);
    if (strlen(text) > most)
        return rt_txns_fail(NULL, ROTA_INVALID, "the %s has more than %zu bytes", what, most);
    return 0;
}

/* The row is answered exactly if it was inserted. IGNORE: no other error can be passed over, for both texts fit. */
static void write_take(struct rt_stmt *q, const char *consumer, const char *event_id)
{
    rt_event_begin(q);
    rt_stmt_add(q, "INSERT %sINTO " RT_EVENT_INBOX " (consumer, event_id) VALUES (",
                q->dialect == RT_STMT_MYSQL ? "IGNORE " : "");
    rt_stmt_text(q, consumer);
    rt_stmt_add(q, ", ");
    rt_stmt_text(q, event_id);
    rt_stmt_add(q, ")%s RETURNING 1", q->dialect == RT_STMT_MYSQL ? "" : " ON CONFLICT DO NOTHING");
    rt_event_end(q);
}

static int take(const struct rt_event_local *db, void *conn, const char *consumer,
                const char *event_id)
{
    struct rt_stmt q = {.dialect = db->dialect};
    struct rt_said said;

    int err = check_word("consumer", consumer, RT_EVENT_CONSUMER);
    if (err == 0)
        err = check_word("event_id", event_id, RT_EVENT_TAKEN);
    if (err == 0)
        err = rt_event_ready(db, conn, RT_FENCE_INSIDE);
    if (err != 0)
        return err;
    write_take(&q, consumer, event_id);
    err = rt_event_say(db, conn, &q, &said, "");
    rt_stmt_fini(&q);
    if (err == ROTA_BUSY)
        return rt_txns_fail(NULL, ROTA_ABORTED,
                            "%s: another has this event: ROLLBACK, it comes "
                            "again",
                            said.text);
    if (err == 0 && said.rows == 0)
        return rt_txns_fail(NULL, ROTA_BUSY, "the event was taken before");
    return err;
}

int rota_event_take_mysql(struct st_mysql *my, const char *consumer, const char *event_id)
{
    return take(&rt_event_mysql, my, consumer, event_id);
}

int rota_event_take_postgres(struct pg_conn *pg, const char *consumer, const char *event_id)
{
    return take(&rt_event_postgres, pg, consumer, event_id);
}

int rota_event_take_sqlite(struct sqlite3 *db, const char *consumer, const char *event_id)
{
    return take(&rt_event_sqlite, db, consumer, event_id);
}

/* ---- Processed -------------------------------------------------------------------------- */

/* One id as the column has it. False: it is none of this table's. */
static bool add_id(struct rt_stmt *q, const struct rt_event_map *map, const char *id, bool uuid,
                   const char *before)
{
    char digits[33];
    int64_t row;

    if (map->columns[RT_COLUMN_EVENT_ID].text[0] == '\0') {
        if (!rt_event_id_row(map, id, &row))
            return false;
        rt_stmt_add(q, "%s%" PRId64, before, row);
        return true;
    }
    if (uuid && !rt_event_id_is_uuid(id, digits))
        return false;
    rt_stmt_add(q, "%s", before);
    rt_stmt_text(q, uuid ? digits : id);
    return true;
}

/* Rows whose event_id is null are TABLE:ID in messages. False: IDS has none of these, and nothing was added. */
static bool add_nameless(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                         size_t n)
{
    bool some = false;
    int64_t row;

    for (size_t i = 0; i < n; i++) {
        if (!rt_event_id_row(map, ids[i], &row))
            continue;
        if (!some) {
            rt_stmt_add(q, " OR (");
            rt_stmt_column(q, map, RT_COLUMN_EVENT_ID, NULL);
            rt_stmt_add(q, " IS NULL AND ");
            rt_stmt_column(q, map, RT_COLUMN_ID, NULL);
        }
        rt_stmt_add(q, "%s%" PRId64, some ? ", " : " IN (", row);
        some = true;
    }
    rt_stmt_add(q, some ? "))" : "");
    return some;
}

bool rt_event_which(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                    size_t n, bool uuid)
{
    bool some = false, named = map->columns[RT_COLUMN_EVENT_ID].text[0] != '\0';

    rt_stmt_add(q, "(");
    rt_stmt_column(q, map, named ? RT_COLUMN_EVENT_ID : RT_COLUMN_ID, NULL);
    rt_stmt_add(q, " IN (");
    for (size_t i = 0; i < n; i++)
        some = add_id(q, map, ids[i], uuid, some ? ", " : "") || some;
    rt_stmt_add(q, some ? ")" : "NULL)");
    some = (named && !map->own && add_nameless(q, map, ids, n)) || some;
    rt_stmt_add(q, ")");
    return some;
}

bool rt_event_process(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                      size_t n, bool uuid)
{
    rt_stmt_add(q, "UPDATE ");
    rt_stmt_table(q, map->table);
    rt_stmt_add(q, " SET ");
    rt_stmt_column(q, map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, map, RT_EVENT_PROCESSED);
    if (map->columns[RT_COLUMN_UPDATED].text[0] != '\0') {
        rt_stmt_add(q, ", ");
        rt_stmt_column(q, map, RT_COLUMN_UPDATED, NULL);
        rt_stmt_add(q, " = %s", rt_stmt_now(q->dialect));
    }
    rt_stmt_add(q, " WHERE ");
    bool some = rt_event_which(q, map, ids, n, uuid);
    rt_stmt_add(q, " AND ");
    rt_stmt_column(q, map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " IN (");
    rt_stmt_state(q, map, RT_EVENT_NEW);
    rt_stmt_add(q, ", ");
    rt_stmt_state(q, map, RT_EVENT_PUBLISHED);
    rt_stmt_add(q, ")");
    return some;
}

/* Inside of a transaction, or outside. */
static int ready_anyhow(const struct rt_event_local *db, void *conn)
{
    int err = rt_event_ready(db, conn, RT_FENCE_INSIDE);

    return err == ROTA_INVALID && conn != NULL ? rt_event_ready(db, conn, RT_FENCE_OUTSIDE) : err;
}

static int processed(const struct rt_event_local *db, void *conn, const char *map_text,
                     const char *event_id)
{
    struct rt_stmt q = {.dialect = db->dialect};
    struct rt_event_map map;
    struct rt_said said;

    int err = check_word("event_id", event_id, RT_EVENT_ID - 1);
    if (err == 0)
        err = rt_event_map_of(&map, map_text);
    if (err == 0)
        err = ready_anyhow(db, conn);
    if (err != 0)
        return err;
    if (rt_event_process(&q, &map, &event_id, 1, map.own))
        err = rt_event_say(db, conn, &q, &said, "");
    else
        err = rt_txns_fail(NULL, ROTA_INVALID, "'%.100s' is no id of an event in %.60s", event_id,
                           map.table);
    rt_stmt_fini(&q);
    return err;
}

int rota_event_processed_mysql(struct st_mysql *my, const char *map, const char *event_id)
{
    return processed(&rt_event_mysql, my, map, event_id);
}

int rota_event_processed_postgres(struct pg_conn *pg, const char *map, const char *event_id)
{
    return processed(&rt_event_postgres, pg, map, event_id);
}

int rota_event_processed_sqlite(struct sqlite3 *db, const char *map, const char *event_id)
{
    return processed(&rt_event_sqlite, db, map, event_id);
}
