/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd connection opened from its URL, and closed. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <string.h>

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
    return c->link.secure;
}

size_t rt_etcd_end_count(const struct rt_etcd_conn *c)
{
    return c->link.ring.count;
}

/* ---- Opening and closing ---------------------------------------------------------------------------------- */

int rt_etcd_conn_open(struct rt_etcd_conn *c, struct rt_conn *base, const struct rt_url *url,
                      const struct rt_etcd_user *user)
{
    c->base = base;
    c->on = user;
    c->arena = RT_ETCD_ARENA;
    rt_etcd_watch_init(c);
    RT_RING_INIT(&c->keeps);
    if (url->path[0] != '\0' && strcmp(url->path, "/") != 0)
        return rt_etcd_fail(c, ROTA_INVALID,
                            "an etcd URL has no path: names begin with ?prefix= if they should");
    return rt_link_open(&c->link, base, url, &rt_etcd_link_user, &rt_etcd_asks);
}

void rt_etcd_conn_close(struct rt_etcd_conn *c)
{
    rt_etcd_watch_fini(c); /* while their owners' memory is there */
    while (!RT_RING_EMPTY(&c->keeps))
        rt_etcd_unkeep(c, c->keeps.next);
    if (c->on->close != NULL)
        c->on->close(c);
    rt_link_close(&c->link, rt_etcd_ask_free);
    rt_etcd_ask_fini(c);
    rt_free_wiped(c->token, c->token_size);
    c->token = NULL;
}

void rt_etcd_conn_forked(struct rt_etcd_conn *c)
{
    rt_link_forked(&c->link);
}
