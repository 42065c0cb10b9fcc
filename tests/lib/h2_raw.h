/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 frames made by hand, right and wrong ones. */
#ifndef H2_RAW_H
#define H2_RAW_H

#include "lib/grpc_server.h"

#include <string.h>

static inline void raw_frame(struct grpc_bytes *b, uint8_t type, uint8_t flags, uint32_t id,
                             const void *payload, size_t n)
{
    const uint8_t head[9] = {
        (uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         type,       flags,
        (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    grpc_bytes_add(b, head, 9);
    grpc_bytes_add(b, payload, n);
}

/* A header as HPACK has it without its tables; texts under 127 bytes. */
static inline void raw_header(struct grpc_bytes *b, const char *name, const char *value)
{
    uint8_t zero = 0, size = (uint8_t)strlen(name);
    grpc_bytes_add(b, &zero, 1);
    grpc_bytes_add(b, &size, 1);
    grpc_bytes_add(b, name, size);
    size = (uint8_t)strlen(value);
    grpc_bytes_add(b, &size, 1);
    grpc_bytes_add(b, value, size);
}

#endif
