/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/event/stmt.h"

#include "base/alloc.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rt_stmt_fini(struct rt_stmt *q)
{
    rt_free(q->text);
    *q = (struct rt_stmt){.dialect = q->dialect};
}

void rt_stmt_clear(struct rt_stmt *q)
{
    q->size = 0;
    q->failed = false;
    if (q->text != NULL)
        q->text[0] = '\0';
}

static bool make_room(struct rt_stmt *q, size_t more)
{
    q->failed = q->failed || !rt_grow(&q->text, &q->room, q->size + more + 1, 1);
    return !q->failed;
}

void rt_stmt_add(struct rt_stmt *q, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(need >= 0);
    if (make_room(q, (size_t)need)) {
        vsnprintf(q->text + q->size, (size_t)need + 1, format, again);
        q->size += (size_t)need;
    }
    va_end(again);
}

/* TEXT between two QUOTEs; one in it is doubled. */
static void add_quoted(struct rt_stmt *q, const char *text, size_t size, char quote)
{
    if (!make_room(q, 2 * size + 2))
        return;
    char *at = q->text + q->size;
    *at++ = quote;
    for (size_t i = 0; i < size; i++) {
        *at++ = text[i];
        if (text[i] == quote)
            *at++ = quote;
    }
    *at++ = quote;
    *at = '\0';
    q->size = (size_t)(at - q->text);
}

static void add_name(struct rt_stmt *q, const char *name, size_t size)
{
    add_quoted(q, name, size, q->dialect == RT_STMT_MYSQL ? '`' : '"');
}

void rt_stmt_name(struct rt_stmt *q, const char *name)
{
    add_name(q, name, strlen(name));
}

void rt_stmt_table(struct rt_stmt *q, const char *name)
{
    const char *dot = strchr(name, '.');

    if (dot != NULL) {
        add_name(q, name, (size_t)(dot - name));
        rt_stmt_add(q, ".");
        name = dot + 1;
    }
    rt_stmt_name(q, name);
}

static void add_hex(struct rt_stmt *q, const unsigned char *data, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    if (!make_room(q, 2 * size))
        return;
    char *at = q->text + q->size;
    for (size_t i = 0; i < size; i++) {
        *at++ = digits[data[i] >> 4];
        *at++ = digits[data[i] & 15];
    }
    *at = '\0';
    q->size += 2 * size;
}

void rt_stmt_bytes(struct rt_stmt *q, const void *data, size_t size)
{
    rt_stmt_add(q, q->dialect == RT_STMT_POSTGRES ? "decode('" : "X'");
    add_hex(q, data, size);
    rt_stmt_add(q, q->dialect == RT_STMT_POSTGRES ? "', 'hex')" : "'");
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && strchr(" _.:-/+@", *text) == NULL)
            return false;
    return true;
}

void rt_stmt_text(struct rt_stmt *q, const char *text)
{
    if (text == NULL) {
        rt_stmt_add(q, "NULL");
    } else if (is_plain(text) || q->dialect == RT_STMT_SQLITE) {
        add_quoted(q, text, strlen(text), '\'');
    } else if (q->dialect == RT_STMT_MYSQL) {
        rt_stmt_add(q, "_utf8mb4 ");
        rt_stmt_bytes(q, text, strlen(text));
    } else {
        rt_stmt_add(q, "convert_from(");
        rt_stmt_bytes(q, text, strlen(text));
        rt_stmt_add(q, ", 'UTF8')");
    }
}

void rt_stmt_sought(struct rt_stmt *q, const char *text)
{
    bool wrapped = q->dialect == RT_STMT_POSTGRES && text != NULL && !is_plain(text);

    rt_stmt_add(q, wrapped ? "(to_json(" : "");
    rt_stmt_text(q, text);
    rt_stmt_add(q, wrapped ? ") #>> '{}')" : "");
}

void rt_stmt_column(struct rt_stmt *q, const struct rt_event_map *map, enum rt_event_column column,
                    const char *alias)
{
    const struct rt_event_word *word = &map->columns[column];

    if (word->constant || word->text[0] == '\0') {
        rt_stmt_text(q, word->constant ? word->text : NULL);
        return;
    }
    if (alias != NULL)
        rt_stmt_add(q, "%s.", alias);
    rt_stmt_name(q, word->text);
}

void rt_stmt_state(struct rt_stmt *q, const struct rt_event_map *map, enum rt_event_state state)
{
    rt_stmt_text(q, map->states[state]);
}

const char *rt_stmt_now(enum rt_dialect dialect)
{
    static const char *const now[] = {[RT_STMT_MYSQL] = "NOW(3)",
                                      [RT_STMT_POSTGRES] = "statement_timestamp()",
                                      [RT_STMT_SQLITE] = "strftime('%Y-%m-%d %H:%M:%f', 'now')"};

    return now[dialect];
}

void rt_stmt_before(struct rt_stmt *q, int64_t ms)
{
    switch (q->dialect) {
    case RT_STMT_MYSQL:
        rt_stmt_add(q, "NOW(3) - INTERVAL %" PRId64 " MICROSECOND", ms * 1000);
        break;
    case RT_STMT_POSTGRES:
        rt_stmt_add(q, "statement_timestamp() - interval '%" PRId64 " milliseconds'", ms);
        break;
    default:
        rt_stmt_add(q, "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-%" PRId64 ".%03d seconds')",
                    ms / 1000, (int)(ms % 1000));
    }
}

const char *rt_stmt_now_ms(enum rt_dialect dialect)
{
    static const char *const now[] = {
        [RT_STMT_MYSQL] = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
        [RT_STMT_POSTGRES] = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
        [RT_STMT_SQLITE] = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"};

    return now[dialect];
}
