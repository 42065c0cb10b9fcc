/* SPDX-License-Identifier: Apache-2.0 */
/* What an etcd message says, in a few words, for the fault proxy. */
#ifndef RT_PROXY_ETCD_H
#define RT_PROXY_ETCD_H

#include "proxy_framing.h"

struct rt_etcd_gist {
    enum rt_message_kind kind; /* REQUEST, REPLY or PUSH */
    uint32_t sort;             /* on long-lived streams: a reply has that of its request */
    char what[64];             /* "put,range", "create", "events", ... or "" */
};

/* Whether each message of the call is a request or reply of its own. */
bool rt_etcd_lasts(const char *path);

/* BYTES: the message after gRPC's prefix, or its beginning. */
void rt_etcd_gist(const char *path, enum rt_proxy_dir dir, const uint8_t *bytes, size_t size,
                  struct rt_etcd_gist *out);

#endif
