/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of a call means: gRPC's codes and etcd's sentences, in one table each. */
#ifndef RT_ETCD_STATUS_H
#define RT_ETCD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rt_grpc_status { /* the numbers are gRPC's */
                      RT_GRPC_OK = 0,
                      RT_GRPC_CANCELLED = 1,
                      RT_GRPC_UNKNOWN = 2,
                      RT_GRPC_INVALID_ARGUMENT = 3,
                      RT_GRPC_DEADLINE_EXCEEDED = 4,
                      RT_GRPC_NOT_FOUND = 5,
                      RT_GRPC_ALREADY_EXISTS = 6,
                      RT_GRPC_PERMISSION_DENIED = 7,
                      RT_GRPC_RESOURCE_EXHAUSTED = 8,
                      RT_GRPC_FAILED_PRECONDITION = 9,
                      RT_GRPC_ABORTED = 10,
                      RT_GRPC_OUT_OF_RANGE = 11,
                      RT_GRPC_UNIMPLEMENTED = 12,
                      RT_GRPC_INTERNAL = 13,
                      RT_GRPC_UNAVAILABLE = 14,
                      RT_GRPC_DATA_LOSS = 15,
                      RT_GRPC_UNAUTHENTICATED = 16,
                      RT_GRPC_STATUSES
};

enum rt_grpc_fate {
    RT_GRPC_DONE,
    RT_GRPC_NOT_DONE, /* for certain: it may be sent again, also elsewhere */
    RT_GRPC_MAYBE,    /* done, or not, or it will be yet (I5) */
};

enum rt_etcd_reason { /* what etcd means, where its users must know */
                      RT_ETCD_OTHER,
                      RT_ETCD_NO_LEADER,
                      RT_ETCD_NO_LEASE,     /* it has ended, or never was */
                      RT_ETCD_LEASE_EXISTS, /* the id asked for is taken */
                      RT_ETCD_COMPACTED,    /* list again */
                      RT_ETCD_NO_TOKEN,     /* none, or an old one: authenticate, then again */
                      RT_ETCD_PASSWORD,
                      RT_ETCD_RIGHTS,
                      RT_ETCD_AUTH_OFF, /* nobody can authenticate there: go on without */
                      RT_ETCD_TOO_MANY, /* requests: later */
                      RT_ETCD_NO_SPACE,
                      RT_ETCD_TOO_LARGE, /* the answer, for us: it is so everywhere; ask for less */
};

struct rt_etcd_verdict {
    int err; /* ROTA_*: what to say if it is not tried again; for a write with MAYBE: UNKNOWN */
    uint8_t fate;   /* enum rt_grpc_fate */
    uint8_t reason; /* enum rt_etcd_reason */
    bool elsewhere; /* another endpoint may do better */
};

/* STATUS as it came in the trailers (any number), MESSAGE with it ("" if none). */
struct rt_etcd_verdict rt_etcd_judge(uint32_t status, const char *message);

/* "UNAVAILABLE"; "status N" has no name: "unknown status". */
const char *rt_grpc_status_name(uint32_t status);

/* The status of an answer that has none: by its HTTP status, and by the HTTP/2 error that ended it. */
uint32_t rt_grpc_status_of_http(int http_status);
uint32_t rt_grpc_status_of_h2(uint32_t error_code);

/* All digits and at most 3 of them; anything else is RT_GRPC_UNKNOWN, as gRPC wants it. */
uint32_t rt_grpc_status_parse(const uint8_t *text, size_t n);

/* Takes %XX apart into OUT (ROOM > 0), cut to fit; one line: what does not print becomes '?'. */
void rt_grpc_text(char *out, size_t room, const uint8_t *text, size_t n);

#endif
