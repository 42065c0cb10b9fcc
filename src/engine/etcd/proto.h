/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's messages, unpacked into an arena. */
#ifndef RT_ETCD_PROTO_H
#define RT_ETCD_PROTO_H

#include "engine/etcd/etcd.pb-c.h" /* made from etcd.proto */
#include "engine/kit/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one message may cost when it is unpacked: empty messages of two bytes become structs of a
 * hundred, so the limit on a message's size alone does not bound it. */
#define RT_ETCD_ARENA_MAX (32u << 20)
#define RT_ETCD_ARENA ((struct rt_arena){.most = RT_ETCD_ARENA_MAX})

/* *OUT has D's type and is the arena's. ROTA_PROTOCOL: the bytes are not such a message, or it is too
 * large; ROTA_NOMEM. */
int rt_etcd_unpack(struct rt_arena *a, const ProtobufCMessageDescriptor *d, const void *bytes,
                   size_t n, void *out);

#endif
