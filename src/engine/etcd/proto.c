/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's messages in an arena. */
#include "engine/etcd/proto.h"

#include "base/alloc.h"

#include <assert.h>
#include <rota.h>
#include <string.h>

#define BLOCK (16u << 10) /* most messages fit several times */

struct rt_etcd_block {
    struct rt_etcd_block *next;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
};

static void *from_arena(void *arena, size_t size)
{
    return rt_etcd_arena_get(arena, size);
}

static void stays(void *arena, void *p)
{
    (void)arena; /* it goes with the arena */
    (void)p;
}

void rt_etcd_arena_init(struct rt_etcd_arena *a)
{
    *a = (struct rt_etcd_arena){.allocator = {from_arena, stays, a}};
}

static struct rt_etcd_block *add_block(struct rt_etcd_arena *a, size_t size)
{
    size_t room = size > BLOCK ? size : BLOCK;
    if (a->total + room > RT_ETCD_ARENA_MAX)
        return NULL;
    struct rt_etcd_block *b = rt_alloc(sizeof(*b) + room);
    if (b == NULL) {
        a->no_memory = true;
        return NULL;
    }
    b->size = room;
    b->next = a->blocks;
    a->blocks = b;
    a->total += room;
    return b;
}

void *rt_etcd_arena_get(struct rt_etcd_arena *a, size_t size)
{
    struct rt_etcd_block *b = a->blocks;
    if (size > RT_ETCD_ARENA_MAX)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (b == NULL || b->size - b->used < size)
        b = add_block(a, size);
    if (b == NULL)
        return NULL;
    void *got = b->bytes + b->used;
    b->used += size;
    return got;
}

static void drop_blocks(struct rt_etcd_arena *a, bool keep)
{
    while (a->blocks != NULL && (!keep || a->blocks->next != NULL || a->blocks->size > BLOCK)) {
        struct rt_etcd_block *b = a->blocks;
        a->blocks = b->next;
        a->total -= b->size;
        rt_free_wiped(b, sizeof(*b) + b->size); /* an answer may be a token */
    }
}

void rt_etcd_arena_reset(struct rt_etcd_arena *a)
{
    drop_blocks(a, true);
    if (a->blocks != NULL)
        a->blocks->used = 0;
    a->no_memory = false;
}

void rt_etcd_arena_fini(struct rt_etcd_arena *a)
{
    drop_blocks(a, false);
}

int rt_etcd_unpack(struct rt_etcd_arena *a, const ProtobufCMessageDescriptor *d, const void *bytes,
                   size_t n, void *out)
{
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &a->allocator, n, bytes);
    if (m == NULL)
        return a->no_memory ? ROTA_NOMEM : ROTA_PROTOCOL;
    memcpy(out, &m, sizeof(m));
    return 0;
}

int rt_etcd_pack(struct rt_etcd_arena *a, const void *m, const uint8_t **bytes, size_t *n)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *at = rt_etcd_arena_get(a, size > 0 ? size : 1);
    if (at == NULL)
        return ROTA_NOMEM;
    size_t packed = protobuf_c_message_pack(m, at);
    assert(packed == size);
    *bytes = at;
    *n = packed;
    return 0;
}
