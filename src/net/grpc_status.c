/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC's codes, by whatever way they come: trailers, HTTP statuses, HTTP/2's errors. */
#include "net/grpc_status.h"

#include <nghttp2/nghttp2.h>
#include <rota.h>

struct code {
    const char *name;
    struct rt_grpc_verdict verdict;
};

#define CODE(label, error, outcome, away) [RT_GRPC_##label] = {#label, {error, outcome, 0, away}}

static const struct code codes[RT_GRPC_STATUSES] = {
    CODE(OK, 0, RT_GRPC_DONE, false),
    CODE(CANCELLED, ROTA_UNREACHABLE, RT_GRPC_MAYBE, true),
    CODE(UNKNOWN, ROTA_PROTOCOL, RT_GRPC_MAYBE, false),
    CODE(INVALID_ARGUMENT, ROTA_INVALID, RT_GRPC_NOT_DONE, false),
    CODE(DEADLINE_EXCEEDED, ROTA_UNREACHABLE, RT_GRPC_MAYBE, true),
    CODE(NOT_FOUND, ROTA_LOST, RT_GRPC_NOT_DONE, false),
    CODE(ALREADY_EXISTS, ROTA_INVALID, RT_GRPC_NOT_DONE, false),
    CODE(PERMISSION_DENIED, ROTA_AUTH, RT_GRPC_NOT_DONE, false),
    /* Also said of an answer that was too large, after the work. */
    CODE(RESOURCE_EXHAUSTED, ROTA_UNREACHABLE, RT_GRPC_MAYBE, false),
    CODE(FAILED_PRECONDITION, ROTA_INVALID, RT_GRPC_NOT_DONE, false),
    CODE(ABORTED, ROTA_UNREACHABLE, RT_GRPC_MAYBE, true),
    CODE(OUT_OF_RANGE, ROTA_INVALID, RT_GRPC_NOT_DONE, false),
    CODE(UNIMPLEMENTED, ROTA_UNSUPPORTED, RT_GRPC_NOT_DONE, false),
    CODE(INTERNAL, ROTA_PROTOCOL, RT_GRPC_MAYBE, true),
    CODE(UNAVAILABLE, ROTA_UNREACHABLE, RT_GRPC_MAYBE, true),
    CODE(DATA_LOSS, ROTA_PROTOCOL, RT_GRPC_MAYBE, true),
    CODE(UNAUTHENTICATED, ROTA_AUTH, RT_GRPC_NOT_DONE, false),
};

struct rt_grpc_verdict rt_grpc_judge(uint32_t status)
{
    return codes[status < RT_GRPC_STATUSES ? status : RT_GRPC_UNKNOWN].verdict;
}

const char *rt_grpc_status_name(uint32_t status)
{
    return status < RT_GRPC_STATUSES ? codes[status].name : "unknown status";
}

uint32_t rt_grpc_status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return RT_GRPC_INTERNAL;
    case 401:
        return RT_GRPC_UNAUTHENTICATED;
    case 403:
        return RT_GRPC_PERMISSION_DENIED;
    case 404:
        return RT_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return RT_GRPC_UNAVAILABLE;
    default:
        return RT_GRPC_UNKNOWN;
    }
}

uint32_t rt_grpc_status_of_h2(uint32_t error_code)
{
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
        return RT_GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return RT_GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return RT_GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return RT_GRPC_PERMISSION_DENIED;
    default:
        return RT_GRPC_INTERNAL;
    }
}

uint32_t rt_grpc_status_parse(const uint8_t *text, size_t n)
{
    uint32_t status = 0;
    if (n == 0 || n > 3)
        return RT_GRPC_UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return RT_GRPC_UNKNOWN;
        status = status * 10 + (uint32_t)(text[i] - '0');
    }
    return status < RT_GRPC_STATUSES ? status : (uint32_t)RT_GRPC_UNKNOWN;
}

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void rt_grpc_text(char *out, size_t room, const uint8_t *text, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < room; i++) {
        uint8_t c = text[i];
        if (c == '%' && n - i > 2 && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            c = (uint8_t)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        }
        out[used++] = c >= 0x20 && c != 0x7f ? (char)c : '?';
    }
    out[used] = '\0';
}
