/* SPDX-License-Identifier: Apache-2.0 */
/* Built without libcurl's headers: no service can be called over HTTP, and whoever asks is told so. */
#include "txn/http/client.h"

#include <rota.h>

#include <stdio.h>

int rt_http_calls_ready(char *errmsg, size_t size)
{
    snprintf(errmsg, size, "services over HTTP were not built in: build with -Dhttp=enabled");
    return ROTA_UNSUPPORTED;
}

int rt_http_calls_open(struct rt_http_calls **out, const struct rt_http_calls_options *options)
{
    (void)out;
    (void)options;
    return ROTA_UNSUPPORTED;
}

int rt_http_calls_ask(struct rt_http_calls *h, struct rt_service_call *c)
{
    (void)h;
    (void)c;
    return ROTA_UNSUPPORTED;
}

void rt_http_calls_cut(struct rt_http_calls *h, struct rt_service_call *c)
{
    (void)h;
    (void)c;
}

int rt_http_calls_fd(const struct rt_http_calls *h)
{
    (void)h;
    return -1;
}

int64_t rt_http_calls_turn(struct rt_http_calls *h, bool ready)
{
    (void)h;
    (void)ready;
    return INT64_MAX;
}

void rt_http_calls_close(struct rt_http_calls *h)
{
    (void)h;
}
