/* SPDX-License-Identifier: Apache-2.0 */
/* Built without libmicrohttpd's header: nothing is served, and whoever asks is told so. */
#include "txn/http/server.h"

#include <rota.h>

#include <stdio.h>

int rt_http_server_start(struct rt_http_server **out, const struct rt_http_server_options *options,
                         char *errmsg, size_t size)
{
    (void)out;
    (void)options;
    snprintf(errmsg, size, "serving HTTP was not built in: build with -Dhttp=enabled");
    return ROTA_UNSUPPORTED;
}

uint16_t rt_http_server_port(const struct rt_http_server *s)
{
    (void)s;
    return 0;
}

void rt_http_server_stop(struct rt_http_server *s, uint32_t grace_ms)
{
    (void)s;
    (void)grace_ms;
}

const char *rt_http_request_header(const struct rt_http_request *r, const char *name)
{
    (void)r;
    (void)name;
    return NULL;
}

const char *rt_http_request_query(const struct rt_http_request *r, const char *name)
{
    (void)r;
    (void)name;
    return NULL;
}

void rt_http_request_answer(struct rt_http_request *r, int status, const char *type,
                            const void *body, size_t size)
{
    (void)r;
    (void)status;
    (void)type;
    (void)body;
    (void)size;
}
