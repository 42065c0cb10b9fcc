/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and headers of a call: put together from whatever pieces they come in. */
#include "base/alloc.h"
#include "net/h2.h"

#include <rota.h>
#include <string.h>

#define ROOM_FIRST 256
#define ROOM_KEPT 4096 /* more goes back with its call */
#define HEADER_COST 32 /* what HTTP/2 counts for each besides its text */

/* ---- Buffers --------------------------------------------------------------------------------- */

int rt_grpc_buffer_add(struct rt_grpc_buffer *b, const void *bytes, size_t n)
{
    if (b->room - b->end < n && b->begin > 0) {
        memmove(b->at, b->at + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
    }
    if (b->room - b->end < n) {
        size_t room = b->room > 0 ? b->room * 2 : ROOM_FIRST;
        while (room < b->end + n)
            room *= 2;
        uint8_t *at = rt_realloc_wiped(b->at, b->room, room);
        if (at == NULL)
            return ROTA_NOMEM;
        b->at = at;
        b->room = room;
    }
    if (n > 0)
        memcpy(b->at + b->end, bytes, n);
    b->end += n;
    return 0;
}

void rt_grpc_buffer_clear(struct rt_grpc_buffer *b, bool keep)
{
    b->begin = b->end = 0;
    if (keep && b->room <= ROOM_KEPT)
        return;
    rt_free_wiped(b->at, b->room);
    *b = (struct rt_grpc_buffer){0};
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Appends to C->in, within what all calls may keep. */
static bool keep(struct rt_grpc_call *c, const uint8_t *bytes, size_t n)
{
    struct rt_grpc *g = c->g;
    if (n > RT_GRPC_KEPT_MAX - g->kept) {
        rt_grpc_refuse(c, RT_GRPC_RESOURCE_EXHAUSTED, "too many large answers at once");
        return false;
    }
    if (rt_grpc_buffer_add(&c->in, bytes, n) != 0) {
        c->err = ROTA_NOMEM;
        rt_grpc_refuse(c, RT_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    g->kept += n;
    return true;
}

/* The five bytes are there. */
static void begin_message(struct rt_grpc_call *c)
{
    const uint8_t *p = c->prefix;
    size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | (size_t)p[4];
    if (p[0] != 0)
        rt_grpc_refuse(c, RT_GRPC_INTERNAL, "the answer is compressed, which was not asked for");
    else if (size > RT_GRPC_MESSAGE_MAX) {
        c->reason = RT_GRPC_TOO_LARGE;
        rt_grpc_refuse(c, RT_GRPC_RESOURCE_EXHAUSTED, "an answer of %zu bytes is too large", size);
    } else if (c->answered)
        rt_grpc_refuse(c, RT_GRPC_INTERNAL, "several answers to one question");
    c->prefix_size = 0;
    c->in_message = true;
    c->message_left = size;
}

/* A unary answer waits for its status; a stream's message is told at once. */
static void tell_message(struct rt_grpc_call *c, const uint8_t *bytes, size_t n)
{
    struct rt_grpc *g = c->g;
    c->in_message = false;
    if (c->ask.message == NULL) {
        c->answered = true;
        return;
    }
    c->ask.message(c->ask.arg, bytes, n);
    g->kept -= c->in.end;
    rt_grpc_buffer_clear(&c->in, true);
}

/* Takes what BYTES have of the message being read; how many were used. */
static size_t take_body(struct rt_grpc_call *c, const uint8_t *bytes, size_t n)
{
    size_t used = n < c->message_left ? n : c->message_left;
    bool whole = used == c->message_left;
    if (whole && c->in.end == 0 && c->ask.message != NULL) {
        tell_message(c, bytes, used); /* from where it lies */
        return used;
    }
    if (!keep(c, bytes, used))
        return used;
    c->message_left -= used;
    if (whole)
        tell_message(c, c->in.at, c->in.end);
    return used;
}

void rt_grpc_take(struct rt_grpc_call *c, const uint8_t *bytes, size_t n)
{
    if (c->http_status != 200 || !c->is_grpc)
        return; /* somebody's page; the end says what it was */
    while (n > 0 && !c->told) {
        size_t used = 0;
        if (!c->in_message) {
            used = RT_GRPC_PREFIX - c->prefix_size;
            used = n < used ? n : used;
            memcpy(c->prefix + c->prefix_size, bytes, used);
            c->prefix_size = (uint8_t)(c->prefix_size + used);
            if (c->prefix_size == RT_GRPC_PREFIX)
                begin_message(c);
            if (c->in_message && c->message_left == 0 && !c->told)
                (void)take_body(c, bytes, 0);
        } else {
            used = take_body(c, bytes, n);
        }
        bytes += used;
        n -= used;
    }
}

/* ---- Headers --------------------------------------------------------------------------------- */

static bool is(const uint8_t *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && memcmp(name, wanted, size) == 0;
}

static int parse_http_status(const uint8_t *value, size_t size)
{
    int status = 0;
    if (size != 3)
        return 0;
    for (size_t i = 0; i < size; i++) /* nghttp2 has seen that they are digits */
        status = status * 10 + (value[i] - '0');
    return status;
}

static bool is_grpc_type(const uint8_t *value, size_t size)
{
    static const char type[] = "application/grpc";
    size_t n = sizeof(type) - 1;
    return size >= n && memcmp(value, type, n) == 0 &&
           (size == n || value[n] == '+' || value[n] == ';');
}

void rt_grpc_take_header(struct rt_grpc_call *c, const uint8_t *name, size_t name_size,
                         const uint8_t *value, size_t size)
{
    c->header_bytes += name_size + size + HEADER_COST;
    if (c->header_bytes > RT_GRPC_HEADERS_MAX) {
        rt_grpc_refuse(c, RT_GRPC_RESOURCE_EXHAUSTED, "too many headers");
    } else if (is(name, name_size, ":status")) {
        c->http_status = parse_http_status(value, size);
    } else if (is(name, name_size, "content-type")) {
        c->is_grpc = is_grpc_type(value, size);
    } else if (is(name, name_size, "grpc-status")) {
        c->status = rt_grpc_status_parse(value, size);
        c->has_status = true;
    } else if (is(name, name_size, "grpc-message")) {
        rt_grpc_text(c->text, sizeof(c->text), value, size);
    }
}
