/* SPDX-License-Identifier: Apache-2.0 */
/* The one door to the heap, replaceable so that tests can make it fail and count. */
#ifndef RT_ALLOC_H
#define RT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

struct rt_allocator {
    void *(*calloc)(size_t n, size_t size);
    void *(*realloc)(void *p, size_t size);
    void (*free)(void *p);
};

/* Tests only, before anything was allocated; NULL: back to libc. */
void rt_alloc_set(const struct rt_allocator *a);

void *rt_alloc(size_t size); /* zeroed; NULL if there is none */
void *rt_realloc(void *p, size_t size);
char *rt_strdup(const char *s);
void rt_free(void *p);

/* Gives *ARRAY, a pointer to ROOM elements of EACH bytes, room for NEED of them. Doubles, so that adding one by one
 * stays cheap. False: no memory, and all is as before. */
bool rt_grow(void *array, size_t *room, size_t need, size_t each);

/* For memory that may have held a secret (a password, a token): wiped before it goes back to the heap. SIZE, OLD:
 * how large it is. Otherwise like free and realloc. */
void rt_free_wiped(void *p, size_t size);
void *rt_realloc_wiped(void *p, size_t old, size_t size);

#endif
