/* SPDX-License-Identifier: Apache-2.0 */
/* Five servers that know nothing of each other: the nodes of Redlock. */
#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what)
{
    fprintf(stderr, "redlock: %s\n", what);
    exit(1);
}

struct rt_redis_redlock *rt_redis_redlock_new(const struct rt_redis_options *opts, bool proxied,
                                              uint64_t seed)
{
    struct rt_redis_redlock *r = calloc(1, sizeof(*r));

    if (r == NULL)
        die("out of memory");
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        struct rt_redis_options own = opts != NULL ? *opts : (struct rt_redis_options){0};
        if (own.tls && i > 0) { /* one authority for all: a URL names one */
            own.cert = r->node[0].certs.server_cert;
            own.key = r->node[0].certs.server_key;
        }
        rt_redis_start(&r->node[i], &own);
        struct rt_proxy_options proxy = {.port = r->node[i].server.port,
                                         .framing = r->node[i].tls ? NULL : &rt_proxy_resp,
                                         .seed = seed + (uint64_t)i};
        if (proxied)
            r->proxy[i] = rt_proxy_start(&proxy);
    }
    return r;
}

void rt_redis_redlock_free(struct rt_redis_redlock *r)
{
    for (int i = 0; r != NULL && i < RT_REDLOCK_FIVE; i++) {
        rt_proxy_stop(r->proxy[i]);
        rt_redis_fini(&r->node[i]);
    }
    free(r);
}

char *rt_redis_redlock_url(const struct rt_redis_redlock *r, const char *params)
{
    const struct rt_redis *first = &r->node[0];
    size_t size = 1200 + strlen(params), at;
    char *url = malloc(size);

    if (url == NULL)
        die("out of memory");
    at = (size_t)snprintf(url, size, "%s%s%s", first->tls ? "redlocks://" : "redlock://",
                          first->user, first->user[0] != '\0' ? "@" : "");
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        uint16_t port = r->proxy[i] != NULL ? rt_proxy_port(r->proxy[i]) : r->node[i].server.port;
        at += (size_t)snprintf(url + at, size - at, "%s%s:%u", i > 0 ? "," : "",
                               first->tls ? "localhost" : "127.0.0.1", port);
    }
    at += (size_t)snprintf(url + at, size - at, "/?%s", params);
    if (first->tls)
        at += (size_t)snprintf(url + at, size - at, "&ca=%s", first->certs.ca);
    if (first->password_file[0] != '\0')
        snprintf(url + at, size - at, "&password_file=%s", first->password_file);
    return url;
}
