/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's messages in an arena. */
#include "engine/etcd/proto.h"

#include <rota.h>
#include <string.h>

static void *from_arena(void *arena, size_t size)
{
    return rt_arena_get(arena, size);
}

static void stays(void *arena, void *p)
{
    (void)arena; /* it goes with the arena */
    (void)p;
}

int rt_etcd_unpack(struct rt_arena *a, const ProtobufCMessageDescriptor *d, const void *bytes,
                   size_t n, void *out)
{
    ProtobufCAllocator allocator = {from_arena, stays, a};
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, n, bytes);
    if (m == NULL)
        return a->no_memory ? ROTA_NOMEM : ROTA_PROTOCOL;
    memcpy(out, &m, sizeof(m));
    return 0;
}
