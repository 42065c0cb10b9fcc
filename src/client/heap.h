/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes gathered while an engine tells: grows, remembers that memory ran out. */
#ifndef RT_HEAP_H
#define RT_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct rt_heap {
    char *bytes;
    size_t used, room;
    bool failed; /* something is missing */
};

/* Appends and returns where it begins; after a failure nothing is appended any more. */
size_t rt_heap_add(struct rt_heap *heap, const void *bytes, size_t size);
size_t rt_heap_text(struct rt_heap *heap, const char *text); /* NULL: "" */
void rt_heap_reset(struct rt_heap *heap);                    /* empty, and not failed */
void rt_heap_free(struct rt_heap *heap);

#endif
