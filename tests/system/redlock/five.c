/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for nodes, their keys, and doors to them. */
#include "five.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct age {
    struct rt_redis *node;
    int seconds;
};

static bool is_old(void *arg)
{
    const struct age *a = arg;
    return atoi(rt_redis_info(a->node, "server", "uptime_in_seconds")) >= a->seconds;
}

void five_up_for(struct rt_redis_redlock *r, int seconds)
{
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        struct age age = {&r->node[i], seconds};
        bool old = r->node[i].server.pid == 0 ||
                   rt_await(is_old, &age, (unsigned)(seconds + 30) * 1000);
        assert(old);
        (void)old;
    }
}

size_t five_keys_left(void *redlock, char *text, size_t size)
{
    struct rt_redis_redlock *r = redlock;
    size_t left = 0, used = 0;

    text[0] = '\0';
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        redisReply *reply = r->node[i].server.pid != 0 ? rt_redis_do(&r->node[i], "KEYS *") : NULL;
        for (size_t k = 0; reply != NULL && k < reply->elements; k++) {
            if (strcmp(reply->element[k]->str, "rota:f") == 0)
                continue;
            left++;
            int n = snprintf(text + used, size - used, " %d:%s", i, reply->element[k]->str);
            used = n > 0 && (size_t)n < size - used ? used + (size_t)n : used;
        }
        freeReplyObject(reply);
    }
    return left;
}

int five_have(struct rt_redis_redlock *r, const char *name)
{
    int n = 0;
    for (int i = 0; i < RT_REDLOCK_FIVE; i++)
        n += r->node[i].server.pid != 0 && rt_redis_integer(&r->node[i], "EXISTS %s", name) == 1;
    return n;
}

void five_door_open(struct five_door *d, struct rt_redis_redlock *r, const char *params)
{
    size_t at = (size_t)snprintf(d->url, sizeof(d->url), "redlock://");
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        struct rt_proxy_options opts = {.port = r->node[i].server.port, .framing = &rt_proxy_resp};
        d->proxy[i] = rt_proxy_start(&opts);
        at += (size_t)snprintf(d->url + at, sizeof(d->url) - at, "%s127.0.0.1:%u", i > 0 ? "," : "",
                               rt_proxy_port(d->proxy[i]));
    }
    snprintf(d->url + at, sizeof(d->url) - at, "/?%s", params);
}

void five_door_close(struct five_door *d)
{
    for (int i = 0; i < RT_REDLOCK_FIVE; i++)
        rt_proxy_stop(d->proxy[i]);
}

void five_door_only(struct five_door *d, unsigned mask)
{
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        bool open = (mask & 1u << i) != 0;
        rt_proxy_door(d->proxy[i], open ? RT_PROXY_OPEN : RT_PROXY_REFUSE);
        if (!open)
            rt_proxy_end(d->proxy[i], RT_PROXY_RESET, 0);
    }
}
