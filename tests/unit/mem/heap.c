/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that counts what is out and can refuse, for unit tests. */
#include "heap.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define HEAD 16 /* before each block: its size */

size_t heap_bytes, heap_blocks;
long heap_fail_at = -1;

static size_t *head(void *p)
{
    return (size_t *)(void *)((char *)p - HEAD);
}

static void *counting_calloc(size_t n, size_t size)
{
    if (heap_fail_at == 0)
        return NULL;
    if (heap_fail_at > 0)
        heap_fail_at--;
    char *block = calloc(1, n * size + HEAD);
    if (block == NULL)
        abort();
    *head(block + HEAD) = n * size;
    heap_bytes += n * size;
    heap_blocks++;
    return block + HEAD;
}

static void counting_free(void *p)
{
    if (p == NULL)
        return;
    heap_bytes -= *head(p);
    heap_blocks--;
    free((char *)p - HEAD);
}

static void *counting_realloc(void *p, size_t size)
{
    void *block = counting_calloc(1, size);
    if (block == NULL || p == NULL)
        return block;
    memcpy(block, p, *head(p) < size ? *head(p) : size);
    counting_free(p);
    return block;
}

static const struct rt_allocator counting = {
    .calloc = counting_calloc,
    .realloc = counting_realloc,
    .free = counting_free,
};

void heap_count(void)
{
    heap_bytes = heap_blocks = 0;
    heap_fail_at = -1;
    rt_alloc_set(&counting);
}

void heap_stop(void)
{
    rt_alloc_set(NULL);
}
