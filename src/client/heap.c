/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes gathered while an engine tells. */
#include "client/heap.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

size_t rt_heap_add(struct rt_heap *heap, const void *bytes, size_t size)
{
    assert(heap->used <= heap->room);
    if (heap->failed)
        return 0;
    if (!rt_grow(&heap->bytes, &heap->room, heap->used + size, 1)) {
        heap->failed = true;
        return 0;
    }
    size_t at = heap->used;
    memcpy(heap->bytes + at, bytes, size);
    heap->used += size;
    return at;
}

size_t rt_heap_text(struct rt_heap *heap, const char *text)
{
    if (text == NULL)
        text = "";
    return rt_heap_add(heap, text, strlen(text) + 1);
}

void rt_heap_reset(struct rt_heap *heap)
{
    heap->used = 0;
    heap->failed = false;
}

void rt_heap_free(struct rt_heap *heap)
{
    rt_free(heap->bytes);
    *heap = (struct rt_heap){0};
}
