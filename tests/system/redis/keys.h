/* SPDX-License-Identifier: Apache-2.0 */
/* What Rota may leave in Redis once everybody has gone: the layout's mark and a counter per room. */
#ifndef RT_KEYS_H
#define RT_KEYS_H

#include "lib/redis_server.h"

struct redis_nodes {
    struct rt_redis *first;
    size_t count;
};

/* A stage_left_fn over struct redis_nodes: keys beyond those, on all nodes that are primaries. */
size_t redis_keys_left(void *nodes, char *text, size_t size);

/* The total number of keys on one node. */
size_t redis_key_count(struct rt_redis *node);

#endif
