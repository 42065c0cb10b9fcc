/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer's side: what was taken, and what is processed. */
#include "txn/event/local.h"

#include "txn/manager/inside.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

/* MariaDB takes "x " for "x": the second of two events would count as taken. */
static int check_blanks(const char *what, const char *text)
{
    if (text[0] != ' ' && text[strlen(text) - 1] != ' ')
        return 0;
    return rt_txns_fail(NULL, ROTA_INVALID, "the %s '%.100s' begins or ends with a blank", what,
                        text);
}

/* Returns the row if and only if it was inserted. IGNORE hides no other error, because both texts fit. */
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
        err = check_blanks("consumer", consumer);
    if (err == 0)
        err = check_blanks("event_id", event_id);
    if (err == 0)
        err = rt_event_ready(db, conn, RT_FENCE_INSIDE);
    if (err != 0)
        return err;
    write_take(&q, consumer, event_id);
    err = rt_event_say(db, conn, &q, &said, "");
    rt_stmt_fini(&q);
    if (err == ROTA_BUSY)
        return rt_txns_fail(NULL, ROTA_ABORTED,
                            "%s: another consumer has this event: ROLLBACK, "
                            "it comes again",
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

/* Writes a UUID as others may have: with hyphens or without, in small letters or in capitals. */
static void spell(char out[37], const char digits[33], bool hyphens, bool capitals)
{
    size_t n = 0;

    for (size_t i = 0; i < 32; i++) {
        if (hyphens && (i == 8 || i == 12 || i == 16 || i == 20))
            out[n++] = '-';
        out[n++] = (char)(capitals ? toupper((unsigned char)digits[i]) : digits[i]);
    }
    out[n] = '\0';
}

static void add_spellings(struct rt_stmt *q, const char digits[33])
{
    char spelled[37];

    for (int i = 0; i < 4; i++) {
        spell(spelled, digits, i % 2 != 0, i / 2 != 0);
        rt_stmt_add(q, ", ");
        rt_stmt_text(q, spelled);
    }
}

/* Adds the bytes whose digits ID is. False: it is none. */
static bool add_bytes(struct rt_stmt *q, const char *id, const char *before)
{
    unsigned char bytes[RT_EVENT_ID / 2];
    size_t n = strlen(id);

    if (n % 2 != 0 || n / 2 > sizeof(bytes) || strspn(id, "0123456789abcdefABCDEF") != n)
        return false;
    for (size_t i = 0; i < n / 2; i++) {
        const char pair[] = {id[2 * i], id[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    rt_stmt_add(q, "%s", before);
    rt_stmt_bytes(q, bytes, n / 2);
    return true;
}

/* Adds one id in the column's form. False: it is not this table's. */
static bool add_id(struct rt_stmt *q, const struct rt_event_map *map, const char *id,
                   enum rt_event_form form, const char *before)
{
    char digits[33];
    int64_t row;
    bool is_uuid = rt_event_id_is_uuid(id, digits);

    if (map->columns[RT_COLUMN_EVENT_ID].text[0] == '\0') {
        if (!rt_event_id_row(map, id, &row))
            return false;
        rt_stmt_add(q, "%s%" PRId64, before, row);
        return true;
    }
    if (form == RT_FORM_BYTES)
        return add_bytes(q, is_uuid ? digits : id, before);
    if (form == RT_FORM_UUID && !is_uuid)
        return false;
    rt_stmt_add(q, "%s", before);
    rt_stmt_sought(q, form == RT_FORM_UUID ? digits : id);
    if (form == RT_FORM_TEXT && is_uuid)
        add_spellings(q, digits);
    return true;
}

/* Rows whose event_id is null are TABLE:ID in messages. False: IDS has no such id, and nothing was added. */
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

/* The column event_id as text, whose bytes are compared, and not by a collation. */
static void add_bare(struct rt_stmt *q, const struct rt_event_map *map, bool small)
{
    static const char *const before[] = {
        [RT_STMT_MYSQL] = "CONVERT(", [RT_STMT_POSTGRES] = "CAST(", [RT_STMT_SQLITE] = "CAST("};
    static const char *const after[] = {[RT_STMT_MYSQL] = " USING utf8mb4)",
                                        [RT_STMT_POSTGRES] = " AS text) COLLATE \"C\"",
                                        [RT_STMT_SQLITE] = " AS TEXT)"};

    rt_stmt_add(q, "%s%s%s", q->dialect == RT_STMT_MYSQL ? "BINARY " : "", small ? "LOWER(" : "",
                before[q->dialect]);
    rt_stmt_column(q, map, RT_COLUMN_EVENT_ID, NULL);
    rt_stmt_add(q, "%s%s%s", after[q->dialect], small ? ")" : "",
                q->dialect == RT_STMT_SQLITE ? " COLLATE BINARY" : "");
}

/* Those of IDS that are UUIDs, or those that are not, as a condition on the bytes. False: there are none. */
static bool add_same(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                     size_t n, bool uuids, const char *before)
{
    char digits[33], spelled[37];
    bool some = false;

    for (size_t i = 0; i < n; i++) {
        if (rt_event_id_is_uuid(ids[i], digits) != uuids)
            continue;
        if (!some) {
            rt_stmt_add(q, "%s", before);
            add_bare(q, map, uuids);
        }
        rt_stmt_add(q, some ? ", " : " IN (");
        rt_stmt_text(q, uuids ? digits : ids[i]);
        if (uuids) {
            spell(spelled, digits, true, false);
            rt_stmt_add(q, ", ");
            rt_stmt_text(q, spelled);
        }
        some = true;
    }
    rt_stmt_add(q, some ? ")" : "");
    return some;
}

bool rt_event_which(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                    size_t n, enum rt_event_form form)
{
    bool some = false, named = map->columns[RT_COLUMN_EVENT_ID].text[0] != '\0';

    rt_stmt_add(q, "((");
    rt_stmt_column(q, map, named ? RT_COLUMN_EVENT_ID : RT_COLUMN_ID, NULL);
    rt_stmt_add(q, " IN (");
    for (size_t i = 0; i < n; i++)
        some = add_id(q, map, ids[i], form, some ? ", " : "") || some;
    rt_stmt_add(q, some ? ")" : "NULL)");
    /* Found by the index, which may take two ids for one (a collation, 1e1 for 10): so their bytes are compared. */
    if (some && named && form == RT_FORM_TEXT) {
        bool texts = add_same(q, map, ids, n, false, " AND (");
        (void)add_same(q, map, ids, n, true, texts ? " OR " : " AND (");
        rt_stmt_add(q, ")");
    }
    rt_stmt_add(q, ")");
    some = (named && !map->own && add_nameless(q, map, ids, n)) || some;
    rt_stmt_add(q, ")");
    return some;
}

bool rt_event_process(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                      size_t n, enum rt_event_form form)
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
    bool some = rt_event_which(q, map, ids, n, form);
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
    enum rt_event_form form = RT_FORM_UUID;

    int err = check_word("event_id", event_id, RT_EVENT_ID - 1);
    if (err == 0)
        err = rt_event_map_of(&map, map_text);
    if (err == 0)
        err = ready_anyhow(db, conn);
    if (err == 0 && !map.own && map.columns[RT_COLUMN_EVENT_ID].text[0] != '\0') {
        err = rt_event_type(db, conn, &map, RT_COLUMN_EVENT_ID, &said);
        form = err == 0 ? rt_event_form_of(said.cell[0]) : form;
    }
    if (err != 0)
        return err;
    if (rt_event_process(&q, &map, &event_id, 1, form))
        err = rt_event_say(db, conn, &q, &said, "");
    else
        err = rt_txns_fail(NULL, ROTA_INVALID, "'%.100s' is not an event's id in %.60s", event_id,
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
