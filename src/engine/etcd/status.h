/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of a call means: etcd's sentences, where they say more than gRPC's codes. */
#ifndef RT_ETCD_STATUS_H
#define RT_ETCD_STATUS_H

#include "net/grpc_status.h"

enum rt_etcd_reason { /* what etcd means, where its users must know */
                      RT_ETCD_OTHER,
                      RT_ETCD_TOO_LARGE = RT_GRPC_TOO_LARGE, /* on every server; ask for less */
                      RT_ETCD_NO_LEADER,
                      RT_ETCD_NO_LEASE,     /* it has ended, or never was */
                      RT_ETCD_LEASE_EXISTS, /* the id asked for is taken */
                      RT_ETCD_COMPACTED,    /* list again */
                      RT_ETCD_NO_TOKEN,     /* none, or an old one: authenticate, then retry */
                      RT_ETCD_PASSWORD,
                      RT_ETCD_RIGHTS,
                      RT_ETCD_AUTH_OFF, /* nobody can authenticate: go on without */
                      RT_ETCD_TOO_MANY, /* requests: retry later */
                      RT_ETCD_NO_SPACE,
};

/* STATUS as it came in the trailers (any number), MESSAGE with it ("" if none). For rt_grpc_user. */
struct rt_grpc_verdict rt_etcd_judge(uint32_t status, const char *message);

#endif
