/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in blocks. */
#include "engine/kit/arena.h"

#include "base/alloc.h"

#include <assert.h>

#define BLOCK (16u << 10) /* most messages fit several times */

struct rt_arena_block {
    struct rt_arena_block *next;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
};

static void drop_first(struct rt_arena *a)
{
    struct rt_arena_block *b = a->blocks;
    a->blocks = b->next;
    a->total -= b->size;
    rt_free_wiped(b, sizeof(*b) + b->size);
}

/* A block of the usual size if the limit allows that, else as much as is needed. */
static struct rt_arena_block *add_block(struct rt_arena *a, size_t size)
{
    if (a->blocks != NULL && a->blocks->used == 0) /* kept, and too small: not to count beside it */
        drop_first(a);
    if (size > a->most - a->total)
        return NULL;
    size_t usual = a->blocks == NULL && a->first > 0 ? a->first : BLOCK;
    size_t room = size > usual || a->most - a->total < usual ? size : usual;
    struct rt_arena_block *b = rt_alloc(sizeof(*b) + room);
    a->no_memory = a->no_memory || b == NULL;
    if (b == NULL)
        return NULL;
    b->size = room;
    b->next = a->blocks;
    a->blocks = b;
    a->total += room;
    return b;
}

void *rt_arena_get(struct rt_arena *a, size_t size)
{
    struct rt_arena_block *b = a->blocks;
    assert(a->most > 0);
    if (size > a->most)
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

static void drop_blocks(struct rt_arena *a, bool keep)
{
    while (a->blocks != NULL && (!keep || a->blocks->next != NULL || a->blocks->size > BLOCK))
        drop_first(a);
}

void rt_arena_reset(struct rt_arena *a)
{
    drop_blocks(a, true);
    if (a->blocks != NULL)
        a->blocks->used = 0;
    a->no_memory = false;
}

void rt_arena_fini(struct rt_arena *a)
{
    drop_blocks(a, false);
}
