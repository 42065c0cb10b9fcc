/* SPDX-License-Identifier: Apache-2.0 */
/* A ZooKeeper connection opened from its URL, and closed. */
#include "engine/zookeeper/zk.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define PORT 2181
#define SECURE_PORT 2281
#define SECRET_MAX 1024 /* of a user or a password */
#define TICK_MOST_MS 2000
#define CONN_TIMERS 2

static int take_user(struct rt_zk_conn *c, const struct rt_url *url)
{
    if (url->user[0] == '\0')
        return 0;
    if (url->password[0] == '\0')
        return rt_zk_fail(c, ROTA_INVALID,
                          "the URL names a user without a password: give it by ?password_file= or "
                          "ROTA_PASSWORD");
    if (strlen(url->user) > SECRET_MAX || strlen(url->password) > SECRET_MAX)
        return rt_zk_fail(c, ROTA_INVALID, "the user or the password is longer than %d bytes",
                          SECRET_MAX);
    if (strchr(url->user, ':') != NULL)
        return rt_zk_fail(c, ROTA_INVALID, "a user of ZooKeeper has no colon in its name");
    c->user = rt_strdup(url->user);
    c->password = rt_strdup(url->password);
    return c->user != NULL && c->password != NULL ? 0 : ROTA_NOMEM;
}

/* Servers have 2 s unless told; and unless told otherwise their least session is two ticks. */
static int take_tick(struct rt_zk_conn *c, const struct rt_url *url)
{
    const char *text = rt_url_param(url, "tick_ms", NULL);
    char *end = NULL;
    unsigned long ms = text != NULL ? strtoul(text, &end, 10) : c->base->ttl_ms / 2;
    if (text != NULL && (*end != '\0' || text[0] < '0' || text[0] > '9' || ms < 1 || ms > 60000))
        return rt_zk_fail(c, ROTA_INVALID,
                          "?tick_ms= is the servers' tickTime: 1 to 60000 milliseconds");
    c->tick_ms = text == NULL && ms > TICK_MOST_MS ? TICK_MOST_MS : (uint32_t)ms;
    return 0;
}

static int take_url(struct rt_zk_conn *c, const struct rt_url *url)
{
    c->secure = strcmp(url->scheme, "zks") == 0;
    int rv = rt_dial_hosts(&c->ring, c->base, url, c->secure ? SECURE_PORT : PORT);
    if (rv == 0)
        rv = take_user(c, url);
    if (rv == 0)
        rv = take_tick(c, url);
    if (rv == 0)
        rv = rt_dial_tls(&c->tls, c->base, url, c->secure, "zks");
    return rv;
}

static void free_all(struct rt_zk_conn *c)
{
    rt_zk_ask_fini(c);
    rt_dial_ring_fini(&c->ring);
    rt_free(c->user);
    rt_free_wiped(c->password, c->password != NULL ? strlen(c->password) : 0);
    c->user = c->password = NULL;
    explicit_bzero(c->session.password, sizeof(c->session.password));
    rt_tls_free(c->tls);
}

int rt_zk_conn_open(struct rt_zk_conn *c, struct rt_conn *base, const struct rt_url *url,
                    const struct rt_zk_user *user)
{
    c->base = base;
    c->on = user;
    rt_dial_times(base);
    c->ttl_ms = base->ttl_ms;
    rt_zk_link_init(c);
    rt_zk_ask_init(c);
    int rv = take_url(c, url);
    if (rv == 0)
        rv = rt_dial_random(base, &c->jitter, sizeof(c->jitter));
    if (rv == 0)
        rv = rt_loop_reserve(base->loop, CONN_TIMERS);
    if (rv == 0) {
        c->ring.now = c->jitter % c->ring.count; /* clients spread over the servers */
        return 0;
    }
    free_all(c);
    if (rv == ROTA_NOMEM)
        (void)rt_words_nomem(base);
    return rv;
}

void rt_zk_conn_close(struct rt_zk_conn *c)
{
    c->closing = true;
    rt_zk_link_close(c);
    free_all(c);
    rt_loop_unreserve(c->base->loop, CONN_TIMERS);
}

void rt_zk_conn_forked(struct rt_zk_conn *c)
{
    if (c->link != NULL)
        rt_stream_forked(&c->link->stream);
}
