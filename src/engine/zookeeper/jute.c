/* SPDX-License-Identifier: Apache-2.0 */
/* jute written and read. */
#include "engine/zookeeper/jute.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

#define ROOM_FIRST 256

/* ---- Writing ---------------------------------------------------------------------------------- */

static uint8_t *extend(struct rt_jute_out *o, size_t n)
{
    if (o->failed || n > INT32_MAX - o->size) {
        o->failed = true;
        return NULL;
    }
    if (o->size + n > o->room) {
        size_t room = o->room > 0 ? o->room : ROOM_FIRST;
        while (room < o->size + n)
            room *= 2;
        uint8_t *at = rt_realloc_wiped(o->at, o->room, room);
        o->failed = at == NULL;
        if (at == NULL)
            return NULL;
        o->at = at;
        o->room = room;
    }
    o->size += n;
    return o->at + o->size - n;
}

static void put(struct rt_jute_out *o, uint64_t value, size_t n)
{
    uint8_t *at = extend(o, n);
    for (size_t i = 0; at != NULL && i < n; i++)
        at[i] = (uint8_t)(value >> 8 * (n - 1 - i));
}

void rt_jute_int(struct rt_jute_out *o, int32_t value)
{
    put(o, (uint32_t)value, 4);
}

void rt_jute_long(struct rt_jute_out *o, int64_t value)
{
    put(o, (uint64_t)value, 8);
}

void rt_jute_bool(struct rt_jute_out *o, bool value)
{
    put(o, value, 1);
}

void rt_jute_raw(struct rt_jute_out *o, const void *bytes, size_t n)
{
    uint8_t *at = extend(o, n);
    if (at != NULL && n > 0)
        memcpy(at, bytes, n);
}

void rt_jute_bytes(struct rt_jute_out *o, const void *bytes, size_t n)
{
    rt_jute_int(o, (int32_t)n);
    rt_jute_raw(o, bytes, n);
}

void rt_jute_text(struct rt_jute_out *o, const char *text)
{
    rt_jute_bytes(o, text, strlen(text));
}

void rt_jute_set_int(struct rt_jute_out *o, size_t at, int32_t value)
{
    assert(o->failed || at + 4 <= o->size);
    size_t size = o->size;
    o->size = at;
    rt_jute_int(o, value);
    o->size = size;
}

void rt_jute_free(struct rt_jute_out *o)
{
    rt_free_wiped(o->at, o->room);
    *o = (struct rt_jute_out){0};
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static const uint8_t *take(struct rt_jute_in *in, size_t n)
{
    if (in->bad || n > in->left) {
        in->bad = true;
        in->left = 0;
        return NULL;
    }
    in->at += n;
    in->left -= n;
    return in->at - n;
}

static uint64_t get(struct rt_jute_in *in, size_t n)
{
    const uint8_t *at = take(in, n);
    uint64_t value = 0;
    for (size_t i = 0; at != NULL && i < n; i++)
        value = value << 8 | at[i];
    return value;
}

int32_t rt_jute_get_int(struct rt_jute_in *in)
{
    return (int32_t)(uint32_t)get(in, 4);
}

int64_t rt_jute_get_long(struct rt_jute_in *in)
{
    return (int64_t)get(in, 8);
}

bool rt_jute_get_bool(struct rt_jute_in *in)
{
    return get(in, 1) != 0;
}

struct rt_text rt_jute_get_bytes(struct rt_jute_in *in)
{
    int32_t n = rt_jute_get_int(in);
    const uint8_t *at = n < -1 ? take(in, SIZE_MAX) : take(in, n > 0 ? (size_t)n : 0);
    return (struct rt_text){at, at != NULL && n > 0 ? (size_t)n : 0};
}

size_t rt_jute_get_count(struct rt_jute_in *in, size_t least)
{
    int32_t n = rt_jute_get_int(in);
    assert(least > 0);
    if (n < -1 || (n > 0 && (size_t)n > in->left / least))
        (void)take(in, SIZE_MAX);
    return in->bad || n < 0 ? 0 : (size_t)n;
}

void rt_jute_get_stat(struct rt_jute_in *in, struct rt_zk_stat *stat)
{
    stat->czxid = rt_jute_get_long(in);
    stat->mzxid = rt_jute_get_long(in);
    stat->ctime = rt_jute_get_long(in);
    stat->mtime = rt_jute_get_long(in);
    stat->version = rt_jute_get_int(in);
    (void)take(in, 4 + 4); /* cversion, aversion */
    stat->owner = rt_jute_get_long(in);
    (void)take(in, 4 + 4 + 8); /* the size of the data, how many children, pzxid */
}
