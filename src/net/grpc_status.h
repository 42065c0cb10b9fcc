/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of a gRPC call means: its codes in one table. */
#ifndef RT_NET_GRPC_STATUS_H
#define RT_NET_GRPC_STATUS_H

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
    RT_GRPC_MAYBE,    /* done, or not, or it will be (I5) */
};

#define RT_GRPC_TOO_LARGE 1 /* a reason: the answer, for us */

struct rt_grpc_verdict {
    int err; /* ROTA_*: what to say if it is not tried again; for a write with MAYBE: UNKNOWN */
    uint8_t fate;   /* enum rt_grpc_fate */
    uint8_t reason; /* what the server means: 0, RT_GRPC_TOO_LARGE, or a number of its user's */
    bool elsewhere; /* another endpoint may do better */
};

/* By the code alone, as it came in the trailers (any number). */
struct rt_grpc_verdict rt_grpc_judge(uint32_t status);

/* "UNAVAILABLE"; for a status that has no name, "unknown status". */
const char *rt_grpc_status_name(uint32_t status);

/* The status of an answer that has none: by its HTTP status, and by the HTTP/2 error that ended it. */
uint32_t rt_grpc_status_of_http(int http_status);
uint32_t rt_grpc_status_of_h2(uint32_t error_code);

/* All digits and at most 3 of them; anything else is RT_GRPC_UNKNOWN, as gRPC wants it. */
uint32_t rt_grpc_status_parse(const uint8_t *text, size_t n);

/* Decodes %XX into OUT (ROOM > 0), cut to fit; one line: what does not print becomes '?'. */
void rt_grpc_text(char *out, size_t room, const uint8_t *text, size_t n);

#endif
