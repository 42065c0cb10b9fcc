/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the table is as the map says: checked once, when a store is opened, so that whatever is wrong is one clear
 * line. */
#include "txn/event/store_inside.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAKE_TRIES 3

/* ---- Tables of ours ---------------------------------------------------------------------- */

static int count_there(struct rt_store *s, bool *all)
{
    unsigned want;
    const char *sql = rt_event_there(s->kind->dialect, s->map.own, &want);

    int err = rt_store_begin(s);
    if (err == 0)
        err = rt_store_say_text(s, sql);
    *all = err == 0 && rt_store_number(rt_store_cell(s, 0, 0, 0), 0) == (int64_t)want;
    return err;
}

static int make_missing(struct rt_store *s)
{
    char why[RT_STORE_LINE] = "";
    int err = 0, last = 0;
    bool all = false;

    for (int i = 0; err == 0 && i < MAKE_TRIES && !all; i++) {
        err = count_there(s, &all);
        const char *const *ddl = rt_event_ddl(s->kind->dialect, s->map.own);
        for (last = 0; err == 0 && !all && last == 0 && *ddl != NULL; ddl++) {
            last = rt_store_begin(s);
            if (last == 0)
                last = rt_store_say_text(s, *ddl);
        }
        if (last != 0)
            snprintf(why, sizeof(why), "%.250s", s->errmsg);
        all = all || (err == 0 && last == 0);
    }
    if (err != 0 || all)
        return err;
    return rt_store_fail(s, last,
                         "%s: docs/transactions/outbox.md has the tables for somebody who "
                         "may create them",
                         why);
}

/* ---- Columns ------------------------------------------------------------------------------ */

/* MariaDB: a condition for the table's schema and name. */
static void add_whose(struct rt_store *s)
{
    const char *dot = strchr(s->map.table, '.');
    char schema[RT_EVENT_WORD] = "";

    rt_stmt_add(&s->q, " WHERE TABLE_SCHEMA = ");
    if (dot != NULL) {
        snprintf(schema, sizeof(schema), "%.*s", (int)(dot - s->map.table), s->map.table);
        rt_stmt_text(&s->q, schema);
    } else {
        rt_stmt_add(&s->q, "DATABASE()");
    }
    rt_stmt_add(&s->q, " AND TABLE_NAME = ");
    rt_stmt_text(&s->q, dot != NULL ? dot + 1 : s->map.table);
}

static void write_columns(struct rt_store *s)
{
    struct rt_stmt *q = &s->q;

    switch (s->kind->dialect) {
    case RT_STMT_MYSQL:
        rt_stmt_add(q, "SELECT c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, t.ENGINE FROM "
                       "information_schema.COLUMNS c JOIN information_schema.TABLES t USING "
                       "(TABLE_SCHEMA, TABLE_NAME)");
        add_whose(s);
        break;
    case RT_STMT_POSTGRES: {
        struct rt_stmt name = {.dialect = RT_STMT_POSTGRES};
        rt_stmt_table(&name, s->map.table);
        /* A domain is what it is made of. */
        rt_stmt_add(
            q, "SELECT attname, format_type(base, NULL), COALESCE((SELECT 'enum(' || "
               "string_agg(quote_literal(enumlabel), ',' ORDER BY enumsortorder) || ')' "
               "FROM pg_enum WHERE enumtypid = base), (SELECT 'loose' FROM "
               "pg_collation c WHERE c.oid = attcollation AND NOT c.collisdeterministic), "
               "format_type(base, greatest(atttypmod, typtypmod))), EXISTS (SELECT 1 FROM "
               "pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = attrelid "
               "AND p.proname = 'rota_event_wake') FROM pg_attribute JOIN (SELECT oid, typtypmod, "
               "COALESCE(NULLIF(typbasetype, 0), oid) AS base FROM pg_type) y ON y.oid = "
               "atttypid WHERE attrelid = to_regclass(");
        rt_stmt_text(q, name.text);
        rt_stmt_add(q, ") AND attnum > 0 AND NOT attisdropped");
        q->failed = q->failed || name.failed;
        rt_stmt_fini(&name);
        break;
    }
    default:
        rt_stmt_add(q, "SELECT name, type, '', '' FROM pragma_table_info(");
        rt_stmt_text(q, s->map.table);
        rt_stmt_add(q, ")");
    }
}

/* The row of the answer that is about NAME; NULL: there is no such column. */
static const struct rt_cell *find(const struct rt_store *s, const char *name)
{
    bool exact = s->kind->dialect == RT_STMT_POSTGRES;

    for (size_t i = 0; s->result_count > 0 && i < s->results[0].rows; i++) {
        const char *is = rt_store_cell(s, 0, i, 0)->text;
        if (is != NULL && (exact ? strcmp(is, name) : strcasecmp(is, name)) == 0)
            return rt_store_cell(s, 0, i, 0);
    }
    return NULL;
}

/* The columns that there are, for the message. */
static void list_columns(const struct rt_store *s, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->results[0].rows && n + 1 < size; i++) {
        int add = snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "",
                           rt_store_cell(s, 0, i, 0)->text);
        n += (size_t)add;
    }
}

static bool is_date(const char *type)
{
    return strncasecmp(type, "timestamp", 9) == 0 || strncasecmp(type, "datetime", 8) == 0;
}

/* SQLite says which of its types are numbers: those whose name has "int" in it. */
static bool is_integer(const struct rt_store *s, const char *type)
{
    static const char *const types[] = {"tinyint", "smallint", "mediumint",
                                        "int",     "integer",  "bigint"};

    if (s->kind->dialect == RT_STMT_SQLITE)
        return strcasestr(type, "int") != NULL;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcasecmp(type, types[i]) == 0)
            return true;
    return false;
}

static bool is_bytes(const char *type)
{
    size_t n = strlen(type);

    return strcasecmp(type, "bytea") == 0 || strcasecmp(type, "binary") == 0 ||
           strcasecmp(type, "varbinary") == 0 || (n >= 4 && strcasecmp(type + n - 4, "blob") == 0);
}

/* A date must be a date, and a number a number: anything else would be compared as something it is not. */
static int check_type(struct rt_store *s, enum rt_event_column column, const char *type)
{
    const char *name = s->map.columns[column].text;
    bool lite = s->kind->dialect == RT_STMT_SQLITE;

    if (column == RT_COLUMN_ID && !is_integer(s, type))
        return rt_store_fail(s, ROTA_UNSUPPORTED,
                             "%s.%s (id) is %s: it must be a number that grows", s->map.table, name,
                             type);
    if (column == RT_COLUMN_KEY && !lite && is_bytes(type))
        return rt_store_fail(s, ROTA_UNSUPPORTED,
                             "%s.%s (key) is %s: a key is text, and these are bytes; map a column "
                             "of text, for example one that is generated from their digits",
                             s->map.table, name, type);
    if (column != RT_COLUMN_CREATED && column != RT_COLUMN_UPDATED)
        return 0;
    if (lite ? strcasestr(type, "int") == NULL && strcasestr(type, "real") == NULL : is_date(type))
        return 0;
    return rt_store_fail(s, ROTA_UNSUPPORTED,
                         "%s.%s (%s) is %s: it must be a date; leave it out of the map, or map a "
                         "column that is one",
                         s->map.table, name, column == RT_COLUMN_CREATED ? "created" : "updated",
                         type);
}

static bool is_number(const char *text)
{
    text += *text == '-';
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* Of UTF-8. */
static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* Whether a column of WHOLE_TYPE, as varchar(9) or enum('new', ...), can hold WORD; the name alone is TYPE. MariaDB takes
 * a word for the number 0, and finds values of an ENUM in capitals too. */
static bool can_hold(const struct rt_store *s, const char *type, const char *whole_type,
                     const char *word)
{
    const char *room = strchr(whole_type, '(');
    char quoted[RT_EVENT_WORD + 3];

    if (s->kind->dialect == RT_STMT_SQLITE)
        return true; /* its columns hold anything */
    snprintf(quoted, sizeof(quoted), "'%s'", word);
    if (strncasecmp(whole_type, "enum(", 5) == 0)
        return (s->kind->dialect == RT_STMT_POSTGRES ? strstr(whole_type, quoted)
                                                     : strcasestr(whole_type, quoted)) != NULL;
    if (is_integer(s, type))
        return is_number(word);
    if (room != NULL && strcasestr(type, "char") != NULL)
        return characters(word) <= strtoul(room + 1, NULL, 10);
    return true;
}

/* The column can hold all values that will be written. */
static int check_states(struct rt_store *s, const char *type, const char *column_type)
{
    for (int i = 0; i < RT_EVENT_STATES; i++) {
        if (s->map.states[i][0] == '\0')
            continue;
        if (!can_hold(s, type, column_type, s->map.states[i]))
            return rt_store_fail(s, ROTA_UNSUPPORTED,
                                 "%s.%s cannot be '%s': it is %.120s; the "
                                 "map says %s=%s",
                                 s->map.table, s->map.columns[RT_COLUMN_STATE].text,
                                 s->map.states[i], column_type, rt_event_state_names[i],
                                 s->map.states[i]);
    }
    return 0;
}

static int check_column(struct rt_store *s, enum rt_event_column column)
{
    static const char *const words[RT_COLUMNS] = {
        "id", "event_id", "topic", "key", "type", "payload", "state", "created", "updated"};
    const char *name = s->map.columns[column].text;
    char have[200];

    if (!rt_store_has(s, column))
        return 0;
    const struct rt_cell *found = find(s, name);
    if (found == NULL) {
        list_columns(s, have, sizeof(have));
        return rt_store_fail(
            s, ROTA_UNSUPPORTED,
            "the table %s has no column '%s', which the map names for %s; it has %s", s->map.table,
            name, words[column], have);
    }
    if (column == RT_COLUMN_EVENT_ID)
        s->form = s->map.own && s->kind->dialect == RT_STMT_SQLITE
                      ? RT_FORM_UUID
                      : rt_event_form_of(found[1].text);
    if (column == RT_COLUMN_PAYLOAD)
        s->bytea = strcmp(found[1].text, "bytea") == 0;
    if (column == RT_COLUMN_KEY)
        s->loose = strcmp(found[2].text, "loose") == 0;
    if (strcasecmp(found[1].text, "datetime") == 0)
        s->utc = false;
    int err = check_type(s, column, found[1].text);
    if (err == 0 && column == RT_COLUMN_STATE)
        err = check_states(s, found[1].text, found[2].text);
    return err;
}

static int check_columns(struct rt_store *s)
{
    int err = rt_store_begin(s);

    write_columns(s);
    if (err == 0)
        err = rt_store_say(s);
    if (err == 0 && (s->result_count == 0 || s->results[0].rows == 0))
        err = rt_store_fail(s, ROTA_UNSUPPORTED, "there is no table %s in this database",
                            s->map.table);
    if (err != 0)
        return err;
    const char *more = rt_store_cell(s, 0, 0, 3)->text;
    if (s->kind->dialect == RT_STMT_MYSQL && (more == NULL || strcasecmp(more, "InnoDB") != 0))
        return rt_store_fail(s, ROTA_UNSUPPORTED,
                             "%s is not an InnoDB table: its rows cannot be locked", s->map.table);
    s->notifies = s->kind->dialect == RT_STMT_POSTGRES && more != NULL && more[0] == 't';
    s->utc = s->kind->dialect == RT_STMT_MYSQL;
    for (int i = 0; err == 0 && i < RT_COLUMNS; i++)
        err = check_column(s, (enum rt_event_column)i);
    if (err == 0 && s->utc && (err = rt_store_begin(s)) == 0)
        err = rt_store_say_text(s, "SET SESSION time_zone = '+00:00'");
    return err;
}

/* MariaDB locks each row that it reads, so a claim must follow the order of an index and end with the last row wanted:
 * left to itself MariaDB may read all rows and sort them. An index on the state is as good as one on state and id,
 * because it ends with the id. */
static int find_indexes(struct rt_store *s)
{
    const char *state = s->map.columns[RT_COLUMN_STATE].text;
    char want[3][2 * RT_EVENT_WORD + 2];

    int err = rt_store_begin(s);
    if (err != 0)
        return err;
    rt_stmt_add(&s->q, "SELECT INDEX_NAME, GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX) FROM "
                       "information_schema.STATISTICS");
    add_whose(s);
    rt_stmt_add(&s->q, " GROUP BY INDEX_NAME ORDER BY INDEX_NAME = 'PRIMARY' DESC");
    err = rt_store_say(s);
    snprintf(want[0], sizeof(want[0]), "%s,%s", state, s->map.columns[RT_COLUMN_ID].text);
    snprintf(want[1], sizeof(want[1]), "%s,%s", state, s->map.columns[RT_COLUMN_UPDATED].text);
    snprintf(want[2], sizeof(want[2]), "%s,%s", s->map.columns[RT_COLUMN_KEY].text, state);
    for (size_t i = 0; err == 0 && i < s->results[0].rows; i++) {
        const char *name = rt_store_cell(s, 0, i, 0)->text, *on = rt_store_cell(s, 0, i, 1)->text;
        bool by_id = strcasecmp(on, s->map.columns[RT_COLUMN_ID].text) == 0 &&
                     s->index[0][0] == '\0';
        if (by_id || strcasecmp(on, state) == 0 || strncasecmp(on, want[0], strlen(want[0])) == 0)
            snprintf(s->index[0], RT_EVENT_WORD, "%s", name);
        if (strncasecmp(on, want[1], strlen(want[1])) == 0)
            snprintf(s->index[1], RT_EVENT_WORD, "%s", name);
        if (strncasecmp(on, want[2], strlen(want[2])) == 0)
            snprintf(s->index[2], RT_EVENT_WORD, "%s", name);
        if (strcasecmp(on, s->map.columns[RT_COLUMN_ID].text) == 0 && s->index[3][0] == '\0')
            snprintf(s->index[3], RT_EVENT_WORD, "%s", name);
    }
    return err;
}

/* Whoever only looks makes nothing. */
static int check_there(struct rt_store *s)
{
    unsigned want;
    int err = rt_store_begin(s);

    if (err == 0)
        err = rt_store_say_text(s, rt_event_there(s->kind->dialect, false, &want));
    if (err == 0 && rt_store_number(rt_store_cell(s, 0, 0, 0), 0) != (int64_t)want)
        err = rt_store_fail(s, ROTA_UNSUPPORTED,
                            "there is no table " RT_EVENT_TROUBLE
                            " in this database: 'rota relay' creates it when it starts");
    return err;
}

int rt_store_check(struct rt_store *s)
{
    int err = s->o.reads_only ? 0 : make_missing(s);

    if (err == 0)
        err = check_columns(s);
    if (err == 0 && s->o.reads_only)
        err = check_there(s);
    if (err == 0 && s->kind->dialect == RT_STMT_MYSQL)
        err = find_indexes(s);
    return err;
}
