/* SPDX-License-Identifier: Apache-2.0 */
/* One hash for all tables of the engines. It never changes: the rooms of a Redis cluster are found by it. */
#ifndef RT_HASH_H
#define RT_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a of SIZE bytes, folded so that the upper half counts in the lower one too. */
static inline uint64_t rt_hash(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

#endif
