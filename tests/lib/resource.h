/* SPDX-License-Identifier: Apache-2.0 */
/* A guarded resource for contention tests: a counter in a file that knows fences.
 *
 * Reading and writing are two steps on purpose: without a lock between them updates get
 * lost. A write is accepted iff its fence is at least the highest seen; every write,
 * accepted or not, goes to the log in the order in which the resource decided on it. The log is all
 * there is: counter and highest fence are those of its last entry, so that a writer killed at any
 * instruction leaves either nothing or a whole entry. */
#ifndef RT_RESOURCE_H
#define RT_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_resource_entry {
    uint64_t fence, client;
    uint64_t accepted; /* 0 or 1 */
    uint64_t value;    /* the counter after this entry ... */
    uint64_t highest;  /* ... and the highest fence */
};

struct rt_resource;

/* Opens, and creates if need be, the resource at PATH with room for CAPACITY entries (the same for
 * all openers). 0 or -errno. Inherited by forked children. */
int rt_resource_open(struct rt_resource **out, const char *path, size_t capacity);
void rt_resource_close(struct rt_resource *res);

uint64_t rt_resource_read(const struct rt_resource *res);

/* Sets the counter to VALUE; false: refused, the fence is too small. *SEQ: place in the log, from 1. */
bool rt_resource_write(struct rt_resource *res, uint64_t fence, uint64_t client, uint64_t value,
                       uint64_t *seq);

const struct rt_resource_entry *rt_resource_log(const struct rt_resource *res, size_t *count);

#endif
