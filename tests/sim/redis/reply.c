/* SPDX-License-Identifier: Apache-2.0 */
/* Replies as they go over the wire (RESP2). */
#include "sim/redis/reply.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rs_buffer_add(struct rs_buffer *b, const void *bytes, size_t n)
{
    if (b->n + n >= b->room) {
        b->room = 2 * (b->n + n) + 256;
        b->at = realloc(b->at, b->room);
        assert(b->at != NULL);
    }
    memcpy(b->at + b->n, bytes, n);
    b->n += n;
    b->at[b->n] = '\0'; /* numbers are read as text */
}

void rs_buffer_free(struct rs_buffer *b)
{
    free(b->at);
    *b = (struct rs_buffer){0};
}

static void add_line(struct rs_buffer *b, char kind, const char *text)
{
    rs_buffer_add(b, &kind, 1);
    rs_buffer_add(b, text, strcspn(text, "\r\n"));
    rs_buffer_add(b, "\r\n", 2);
}

void rs_reply_status(struct rs_buffer *b, const char *text)
{
    add_line(b, '+', text);
}

void rs_reply_error(struct rs_buffer *b, const char *text)
{
    add_line(b, '-', text);
}

/* Replies consist mostly of these: printf would take a tenth of a world's time. */
static void add_number(struct rs_buffer *b, char kind, int64_t value)
{
    char text[32], *at = text + sizeof(text);
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        *--at = '-';
    *--at = kind;
    rs_buffer_add(b, at, (size_t)(text + sizeof(text) - at));
}

void rs_reply_integer(struct rs_buffer *b, int64_t value)
{
    add_number(b, ':', value);
}

void rs_reply_bulk(struct rs_buffer *b, struct rs_text text)
{
    add_number(b, '$', (int64_t)text.n);
    rs_buffer_add(b, text.at, text.n);
    rs_buffer_add(b, "\r\n", 2);
}

void rs_reply_string(struct rs_buffer *b, const char *text)
{
    rs_reply_bulk(b, (struct rs_text){text, strlen(text)});
}

void rs_reply_double(struct rs_buffer *b, double value)
{
    char text[64];
    snprintf(text, sizeof(text), "%.17g", value);
    rs_reply_string(b, text);
}

void rs_reply_null(struct rs_buffer *b)
{
    rs_buffer_add(b, "$-1\r\n", 5);
}

void rs_reply_array(struct rs_buffer *b, size_t count)
{
    add_number(b, '*', (int64_t)count);
}
