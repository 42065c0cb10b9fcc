/* SPDX-License-Identifier: Apache-2.0 */
/* The one door to the heap. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define GROW_FIRST 16

static const struct rt_allocator libc_allocator = {
    .calloc = calloc,
    .realloc = realloc,
    .free = free,
};

static const struct rt_allocator *allocator = &libc_allocator;

void rt_alloc_set(const struct rt_allocator *a)
{
    allocator = a != NULL ? a : &libc_allocator;
}

void *rt_alloc(size_t size)
{
    return allocator->calloc(1, size);
}

void *rt_realloc(void *p, size_t size)
{
    return allocator->realloc(p, size);
}

char *rt_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = allocator->calloc(1, size);
    if (copy != NULL)
        memcpy(copy, s, size);
    return copy;
}

void rt_free(void *p)
{
    allocator->free(p);
}

bool rt_grow(void *array, size_t *room, size_t need, size_t each)
{
    void *at;
    size_t more = *room > 0 ? *room : GROW_FIRST;
    if (need <= *room)
        return true;
    while (more < need)
        more *= 2;
    memcpy(&at, array, sizeof(at)); /* whatever it points to */
    at = rt_realloc(at, more * each);
    if (at == NULL)
        return false;
    memcpy(array, &at, sizeof(at));
    *room = more;
    return true;
}

void rt_free_wiped(void *p, size_t size)
{
    if (p != NULL)
        explicit_bzero(p, size);
    allocator->free(p);
}

void *rt_realloc_wiped(void *p, size_t old, size_t size)
{
    void *grown = allocator->calloc(1, size); /* realloc would leave what it moved */
    if (grown == NULL)
        return NULL;
    if (p != NULL)
        memcpy(grown, p, old < size ? old : size);
    rt_free_wiped(p, old);
    return grown;
}
