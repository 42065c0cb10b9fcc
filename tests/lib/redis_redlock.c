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
        rt_redis_start(&r->node[i], opts);
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
    size_t size = 256 + strlen(params), at;
    char *url = malloc(size);

    if (url == NULL)
        die("out of memory");
    at = (size_t)snprintf(url, size, "redlock://");
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        uint16_t port = r->proxy[i] != NULL ? rt_proxy_port(r->proxy[i]) : r->node[i].server.port;
        at += (size_t)snprintf(url + at, size - at, "%s127.0.0.1:%u", i > 0 ? "," : "", port);
    }
    snprintf(url + at, size - at, "/%s%s", params[0] != '\0' ? "?" : "", params);
    return url;
}
