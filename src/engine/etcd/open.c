/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd connection opened from its URL, and closed. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define PORT 2379
#define SECRET_MAX 1024 /* of a user or a password */
#define CONN_TIMERS 2

/* ---- What is known ------------------------------------------------------------------------------------- */

const struct rt_etcd_facts *rt_etcd_facts(const struct rt_etcd_conn *c)
{
    return &c->facts;
}

struct rt_conn *rt_etcd_base(struct rt_etcd_conn *c)
{
    return c->base;
}

bool rt_etcd_ready(const struct rt_etcd_conn *c)
{
    return rt_etcd_usable(c) && !c->authenticating;
}

bool rt_etcd_secure(const struct rt_etcd_conn *c)
{
    return c->secure;
}

size_t rt_etcd_end_count(const struct rt_etcd_conn *c)
{
    return c->ring.count;
}

/* ---- URLs ---------------------------------------------------------------------------------------------- */

static int take_user(struct rt_etcd_conn *c, const struct rt_url *url)
{
    if (url->user[0] == '\0')
        return 0; /* a certificate may say who we are */
    if (url->password[0] == '\0')
        return rt_etcd_fail(c, ROTA_INVALID,
                            "the URL names a user without a password: give it by ?password_file= "
                            "or ROTA_PASSWORD");
    if (strlen(url->user) > SECRET_MAX || strlen(url->password) > SECRET_MAX)
        return rt_etcd_fail(c, ROTA_INVALID, "the user or the password is longer than %d bytes",
                            SECRET_MAX);
    c->user = rt_strdup(url->user);
    c->password = rt_strdup(url->password);
    return c->user != NULL && c->password != NULL ? 0 : ROTA_NOMEM;
}

static int take_url(struct rt_etcd_conn *c, const struct rt_url *url)
{
    c->secure = strcmp(url->scheme, "etcds") == 0;
    int rv = rt_dial_hosts(&c->ring, c->base, url, PORT);
    if (rv == 0 && url->path[0] != '\0' && strcmp(url->path, "/") != 0)
        rv = rt_etcd_fail(c, ROTA_INVALID,
                          "an etcd URL has no path: names begin with ?prefix= if they should");
    if (rv == 0)
        rv = take_user(c, url);
    if (rv == 0)
        rv = rt_dial_tls(&c->tls, c->base, url, c->secure, "etcds");
    return rv;
}

/* ---- Opening and closing ---------------------------------------------------------------------------------- */

static void free_all(struct rt_etcd_conn *c)
{
    rt_etcd_ask_fini(c);
    rt_dial_ring_fini(&c->ring);
    rt_free(c->user);
    rt_free_wiped(c->password, c->password != NULL ? strlen(c->password) : 0);
    rt_free_wiped(c->token, c->token_size);
    c->user = c->password = c->token = NULL;
    rt_tls_free(c->tls); /* streams that are closing have let go of it */
}

int rt_etcd_conn_open(struct rt_etcd_conn *c, struct rt_conn *base, const struct rt_url *url,
                      const struct rt_etcd_user *user)
{
    c->base = base;
    c->on = user;
    rt_dial_times(base);
    rt_etcd_link_init(c);
    rt_etcd_ask_init(c);
    rt_etcd_watch_init(c);
    RT_RING_INIT(&c->keeps);
    int rv = take_url(c, url);
    if (rv == 0)
        rv = rt_dial_random(base, &c->jitter, sizeof(c->jitter));
    if (rv == 0)
        rv = rt_loop_reserve(base->loop, CONN_TIMERS);
    if (rv == 0)
        return 0;
    free_all(c);
    if (rv == ROTA_NOMEM)
        (void)rt_etcd_fail(c, rv, "out of memory");
    return rv;
}

void rt_etcd_conn_close(struct rt_etcd_conn *c)
{
    rt_etcd_watch_fini(c); /* while their owners' memory is there */
    while (!RT_RING_EMPTY(&c->keeps))
        rt_etcd_unkeep(c, c->keeps.next);
    if (c->on->close != NULL)
        c->on->close(c);
    c->closing = true;
    rt_etcd_link_close(c);
    free_all(c);
    rt_loop_unreserve(c->base->loop, CONN_TIMERS);
}

void rt_etcd_conn_forked(struct rt_etcd_conn *c)
{
    if (c->link != NULL)
        rt_stream_forked(&c->link->stream);
}
