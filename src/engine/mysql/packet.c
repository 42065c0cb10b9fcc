/* SPDX-License-Identifier: Apache-2.0 */
/* Packets, and what is in them: numbers, texts, columns, rows. No length that a server claims is trusted. */
#include "engine/mysql/mysql.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- Writing --------------------------------------------------------------------------------------------------- */

void rt_mysql_add(struct rt_mysql_bytes *b, const void *bytes, size_t n)
{
    if (b->failed || n == 0)
        return;
    if (b->room - b->size < n) {
        size_t room = b->room + n + (b->room > 512 ? b->room : 512);
        uint8_t *at = rt_realloc_wiped(b->at, b->room, room);
        if (at == NULL) {
            b->failed = true;
            return;
        }
        b->at = at;
        b->room = room;
    }
    memcpy(b->at + b->size, bytes, n);
    b->size += n;
}

void rt_mysql_add_text(struct rt_mysql_bytes *b, const char *text)
{
    rt_mysql_add(b, text, strlen(text));
}

void rt_mysql_add_int(struct rt_mysql_bytes *b, uint64_t value, size_t bytes)
{
    uint8_t little[8];
    for (size_t i = 0; i < bytes; i++)
        little[i] = (uint8_t)(value >> 8 * i);
    rt_mysql_add(b, little, bytes);
}

void rt_mysql_add_length(struct rt_mysql_bytes *b, uint64_t value)
{
    size_t bytes = value < 251 ? 1 : value < 0x10000 ? 2 : value < 0x1000000 ? 3 : 8;
    if (bytes > 1)
        rt_mysql_add_int(b, bytes == 2 ? 0xfc : bytes == 3 ? 0xfd : 0xfe, 1);
    rt_mysql_add_int(b, value, bytes);
}

void rt_mysql_bytes_free(struct rt_mysql_bytes *b)
{
    rt_free_wiped(b->at, b->room);
    *b = (struct rt_mysql_bytes){0};
}

/* ---- Reading --------------------------------------------------------------------------------------------------- */

const uint8_t *rt_mysql_take(struct rt_mysql_cursor *c, uint64_t n)
{
    const uint8_t *at = c->at;
    if (c->bad || n > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        return NULL;
    }
    c->at += n;
    return at;
}

uint64_t rt_mysql_int(struct rt_mysql_cursor *c, size_t bytes)
{
    const uint8_t *at = rt_mysql_take(c, bytes);
    uint64_t value = 0;
    for (size_t i = 0; at != NULL && i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

uint64_t rt_mysql_length(struct rt_mysql_cursor *c)
{
    uint64_t first = rt_mysql_int(c, 1);
    switch (first) {
    case 0xfb:
        return UINT64_MAX;
    case 0xfc:
        return rt_mysql_int(c, 2);
    case 0xfd:
        return rt_mysql_int(c, 3);
    case 0xfe:
        return rt_mysql_int(c, 8);
    case 0xff:
        c->bad = true;
        return 0;
    default:
        return first;
    }
}

const char *rt_mysql_string(struct rt_mysql_cursor *c)
{
    const uint8_t *end = c->bad ? NULL : memchr(c->at, 0, (size_t)(c->end - c->at));
    const uint8_t *at = rt_mysql_take(c, end != NULL ? (uint64_t)(end - c->at) + 1 : UINT64_MAX);
    return at != NULL ? (const char *)at : "";
}

size_t rt_mysql_packet(const uint8_t *bytes, size_t n, struct rt_mysql_cursor *body, uint8_t *seq)
{
    if (n < 4)
        return 0;
    size_t size = (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16;
    if (size >= RT_MYSQL_PACKET_MAX)
        return SIZE_MAX;
    if (n - 4 < size)
        return 0;
    *seq = bytes[3];
    *body = (struct rt_mysql_cursor){.at = bytes + 4, .end = bytes + 4 + size};
    return 4 + size;
}

bool rt_mysql_ok(struct rt_mysql_cursor c, struct rt_mysql_ok *ok)
{
    (void)rt_mysql_int(&c, 1);
    ok->affected = rt_mysql_length(&c);
    ok->insert_id = rt_mysql_length(&c);
    ok->status = (uint16_t)rt_mysql_int(&c, 2);
    return !c.bad;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------ */

enum { /* types of columns */
       DECIMAL = 0,
       TINY = 1,
       SHORT = 2,
       LONG = 3,
       NOTHING = 6,
       LONGLONG = 8,
       INT24 = 9,
       VARCHAR = 15,
       NEWDECIMAL = 246,
       FIRST_BLOB = 249, /* 249 to 254: blobs and strings */
       STRING = 254,
};

static size_t width(uint8_t type)
{
    switch (type) {
    case TINY:
        return 1;
    case SHORT:
        return 2;
    case LONG:
    case INT24:
        return 4;
    case LONGLONG:
        return 8;
    default:
        return 0;
    }
}

static bool is_number(uint8_t type)
{
    return width(type) > 0 || type == DECIMAL || type == NEWDECIMAL;
}

static bool is_known(uint8_t type)
{
    return is_number(type) || type == NOTHING || type == VARCHAR ||
           (type >= FIRST_BLOB && type <= STRING);
}

bool rt_mysql_column(struct rt_mysql_cursor c, struct rt_mysql_columns *columns)
{
    for (int i = 0; i < 6;
         i++) /* catalog, schema, table and name, as they are called here and there */
        (void)rt_mysql_take(&c, rt_mysql_length(&c));
    (void)rt_mysql_length(&c);
    (void)rt_mysql_int(&c, 6); /* character set, width */
    uint8_t type = (uint8_t)rt_mysql_int(&c, 1);
    if (c.bad || columns->seen >= columns->count || columns->seen >= RT_MYSQL_COLUMNS ||
        !is_known(type))
        return false;
    columns->types[columns->seen++] = type;
    return true;
}

/* The digits of a whole number; a fraction after it is dropped. */
static bool to_number(struct rt_sql_cell *cell)
{
    char text[32], *end;
    if (cell->size == 0 || cell->size >= sizeof(text))
        return false;
    memcpy(text, cell->text, cell->size);
    text[cell->size] = '\0';
    cell->number = strtoll(text, &end, 10);
    cell->text = NULL;
    cell->size = 0;
    return end != text && (*end == '\0' || *end == '.');
}

static bool read_text(struct rt_mysql_cursor *c, uint8_t type, struct rt_sql_cell *cell)
{
    uint64_t size = rt_mysql_length(c);
    cell->null = size == UINT64_MAX;
    if (cell->null)
        return !c->bad;
    cell->text = (const char *)rt_mysql_take(c, size);
    cell->size = (size_t)size;
    if (c->bad)
        return false;
    return !is_number(type) || to_number(cell);
}

static bool read_binary(struct rt_mysql_cursor *c, uint8_t type, struct rt_sql_cell *cell)
{
    size_t bytes = width(type);
    if (bytes == 0)
        return read_text(c, type, cell);
    uint64_t value = rt_mysql_int(c, bytes), sign = UINT64_C(1) << (8 * bytes - 1);
    cell->number = (int64_t)((value ^ sign) - sign);
    return !c->bad;
}

bool rt_mysql_row(struct rt_mysql_cursor c, const struct rt_mysql_columns *columns, bool binary,
                  struct rt_sql_cell *cells)
{
    const uint8_t *nulls = NULL;
    if (binary) {
        (void)rt_mysql_int(&c, 1);
        nulls = rt_mysql_take(&c, (columns->count + 9) / 8);
    }
    for (size_t i = 0; !c.bad && i < columns->count; i++) {
        cells[i] = (struct rt_sql_cell){.null = nulls != NULL &&
                                                nulls[(i + 2) / 8] >> (i + 2) % 8 & 1};
        if (cells[i].null)
            continue;
        if (!(binary ? read_binary : read_text)(&c, columns->types[i], &cells[i]))
            return false;
    }
    return !c.bad && c.at == c.end;
}
