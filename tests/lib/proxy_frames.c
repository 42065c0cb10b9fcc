/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of HTTP/2. Headers are sent on literally, so that a missing one does not spoil those after it. */
#include "proxy_frames.h"

#include "proxy_int.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_MAX (1u << 20) /* of HPACK: whatever the two agreed on */

/* ---- Bytes -------------------------------------------------------------- */

void rt_buffer_add(struct rt_buffer *b, const void *bytes, size_t n)
{
    if (b->size + n > b->room) {
        b->room = (b->size + n) * 2;
        b->at = realloc(b->at, b->room);
        if (b->at == NULL)
            rt_proxy_die("realloc");
    }
    if (n > 0)
        memcpy(b->at + b->size, bytes, n);
    b->size += n;
}

void rt_buffer_remove(struct rt_buffer *b, size_t n)
{
    b->size -= n;
    memmove(b->at, b->at + n, b->size);
}

void rt_buffer_take(struct rt_buffer *to, struct rt_buffer *from)
{
    struct rt_buffer old = *to;

    *to = *from;
    *from = old;
    from->size = 0;
}

uint32_t rt_frame_get32(const char *at)
{
    const uint8_t *u = (const uint8_t *)at;

    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

void rt_frame_put32(char *at, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(n >> (24 - 8 * i));
}

/* ---- Frames ------------------------------------------------------------- */

void rt_frame_add(struct rt_buffer *b, uint8_t type, uint8_t flags, uint32_t id, const void *bytes,
                  size_t n)
{
    char head[RT_FRAME_HEAD];

    rt_frame_put32(head, (uint32_t)n << 8);
    head[3] = (char)type;
    head[4] = (char)flags;
    rt_frame_put32(head + 5, id);
    rt_buffer_add(b, head, sizeof(head));
    rt_buffer_add(b, bytes, n);
}

bool rt_frame_at(struct rt_frame *f, const char *data, size_t len)
{
    *f = (struct rt_frame){.data = data};
    if (len < RT_FRAME_HEAD)
        return false;
    f->size = rt_frame_get32(data) >> 8;
    f->type = (uint8_t)data[3];
    f->flags = (uint8_t)data[4];
    f->id = rt_frame_get32(data + 5) & 0x7fffffff;
    f->whole = RT_FRAME_HEAD + f->size;
    return f->whole <= len;
}

bool rt_frame_block(struct rt_frame *f, size_t len)
{
    struct rt_frame last = *f;

    while ((last.flags & NGHTTP2_FLAG_END_HEADERS) == 0) {
        if (!rt_frame_at(&last, f->data + f->whole, len - f->whole))
            return false;
        f->whole += last.whole;
    }
    return true;
}

/* ---- Headers ------------------------------------------------------------ */

/* As HPACK writes it: a length that begins with seven bits, then the bytes as they are. */
static void add_text(struct rt_buffer *b, const uint8_t *text, size_t n)
{
    uint8_t len[8] = {n < 127 ? (uint8_t)n : 127};
    size_t used = 1;

    if (n >= 127) {
        size_t rest = n - 127;

        for (; rest >= 128; rest >>= 7)
            len[used++] = (uint8_t)(rest | 0x80);
        len[used++] = (uint8_t)rest;
    }
    rt_buffer_add(b, len, used);
    rt_buffer_add(b, text, n);
}

struct told {
    rt_header_fn *fn;
    void *arg;
};

/* One frame's part of a block. */
static bool inflate(struct rt_unpacker *u, const uint8_t *in, size_t len, bool final,
                    const struct told *told)
{
    int flags = 0;

    for (;;) {
        nghttp2_nv nv;
        ssize_t n = nghttp2_hd_inflate_hd2(u->inflater, &nv, &flags, in, len, final);

        if (n < 0)
            return false;
        in += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            rt_buffer_add(&u->block, "", 1); /* literally, and not into the table */
            add_text(&u->block, nv.name, nv.namelen);
            add_text(&u->block, nv.value, nv.valuelen);
            told->fn(told->arg, (const char *)nv.name, (const char *)nv.value, nv.valuelen);
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            return nghttp2_hd_inflate_end_headers(u->inflater) == 0;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && len == 0)
            return !final;
    }
}

/* Where the part of the block begins in F, and its size; false: F has no room for what comes before it. */
static bool find_part(const struct rt_frame *f, size_t *skip, size_t *size)
{
    size_t pad = 0;

    *skip = 0;
    if (f->type == NGHTTP2_HEADERS && (f->flags & NGHTTP2_FLAG_PADDED) != 0 && f->size > 0) {
        pad = (uint8_t)f->data[RT_FRAME_HEAD];
        *skip = 1;
    }
    if (f->type == NGHTTP2_HEADERS && (f->flags & NGHTTP2_FLAG_PRIORITY) != 0)
        *skip += 5;
    *size = f->size - *skip - pad;
    return *skip + pad <= f->size;
}

bool rt_unpack_headers(struct rt_unpacker *u, const struct rt_frame *first, uint32_t id,
                       struct rt_buffer *out, rt_header_fn *fn, void *arg)
{
    const struct told told = {fn, arg};
    struct rt_frame f;
    size_t skip, size;

    if (u->inflater == NULL && (nghttp2_hd_inflate_new(&u->inflater) != 0 ||
                                nghttp2_hd_inflate_change_table_size(u->inflater, TABLE_MAX) != 0))
        rt_proxy_die("nghttp2");
    u->block.size = 0;
    for (size_t at = 0; at < first->whole; at += f.whole) {
        if (!rt_frame_at(&f, first->data + at, first->whole - at) || !find_part(&f, &skip, &size) ||
            !inflate(u, (const uint8_t *)f.data + RT_FRAME_HEAD + skip, size,
                     at + f.whole == first->whole, &told))
            return false;
    }
    rt_frame_add(out, NGHTTP2_HEADERS,
                 NGHTTP2_FLAG_END_HEADERS | (first->flags & NGHTTP2_FLAG_END_STREAM), id,
                 u->block.at, u->block.size);
    return u->block.size <= RT_FRAME_MAX;
}

void rt_unpacker_fini(struct rt_unpacker *u)
{
    if (u->inflater != NULL)
        nghttp2_hd_inflate_del(u->inflater);
    free(u->block.at);
}
