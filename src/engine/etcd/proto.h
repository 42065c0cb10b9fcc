/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's messages, packed and unpacked in an arena: a few large allocations for many messages. */
#ifndef RT_ETCD_PROTO_H
#define RT_ETCD_PROTO_H

#include "engine/etcd/etcd.pb-c.h" /* made from etcd.proto */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one message may cost when it is unpacked: empty messages of two bytes become structs of a
 * hundred, so that the limit of a message's size alone does not bound it. */
#define RT_ETCD_ARENA_MAX (32u << 20)

struct rt_etcd_block;
struct rt_etcd_arena { /* embedded in its user's struct */
    ProtobufCAllocator allocator;
    struct rt_etcd_block *blocks; /* the one in use first; a small one is kept */
    size_t total;
    bool no_memory;
};

void rt_etcd_arena_init(struct rt_etcd_arena *a);
void rt_etcd_arena_reset(struct rt_etcd_arena *a); /* all that came from it is gone */
void rt_etcd_arena_fini(struct rt_etcd_arena *a);

/* Aligned for anything, not zeroed; NULL: no memory, or over the limit. */
void *rt_etcd_arena_get(struct rt_etcd_arena *a, size_t size);

/* *OUT is of D's type and the arena's. ROTA_PROTOCOL: these are not the bytes of such a message, or it is
 * too large; ROTA_NOMEM. */
int rt_etcd_unpack(struct rt_etcd_arena *a, const ProtobufCMessageDescriptor *d, const void *bytes,
                   size_t n, void *out);

/* *BYTES are the arena's. 0 or ROTA_NOMEM. M: its address, of any of our messages. */
int rt_etcd_pack(struct rt_etcd_arena *a, const void *m, const uint8_t **bytes, size_t *n);

#endif
