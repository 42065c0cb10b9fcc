/* SPDX-License-Identifier: Apache-2.0 */
/* A message as bytes of an arena. */
#ifndef ETCD_PACK_H
#define ETCD_PACK_H

#include "engine/etcd/proto.h"

#include <rota.h>

/* M: the address of any of etcd's messages. 0 or ROTA_NOMEM. */
static inline int pack_message(struct rt_arena *a, const void *m, const uint8_t **bytes, size_t *n)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *at = rt_arena_get(a, size > 0 ? size : 1);
    if (at == NULL)
        return ROTA_NOMEM;
    *bytes = at;
    *n = protobuf_c_message_pack(m, at);
    return 0;
}

#endif
