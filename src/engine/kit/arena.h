/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for what a message becomes when it is read: many small pieces that are all freed at once, and no more than a
 * server may make us spend. */
#ifndef RT_ARENA_H
#define RT_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct rt_arena_block;
struct rt_arena {                  /* zeroed but for `most` and `first` before the first use */
    size_t most;                   /* bytes at once */
    size_t first;                  /* of its first block, if little is expected; 0: as the others */
    struct rt_arena_block *blocks; /* the one in use first; a small one is kept */
    size_t total;
    bool no_memory; /* since the last reset: there was none, which is not the limit */
};

/* Aligned for anything, not zeroed; NULL: no memory, or over the limit. */
void *rt_arena_get(struct rt_arena *a, size_t size);
void rt_arena_reset(struct rt_arena *a); /* all that came from it is gone */
void rt_arena_fini(struct rt_arena *a);  /* ... and wiped: it may have been a token */

#endif
