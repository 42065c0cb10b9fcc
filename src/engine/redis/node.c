/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: the servers that have the rooms; which one to dial, and what its loss leads to. */
#include "engine/redis/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define LINKS 3

struct rt_redis_node *rt_redis_node_new(struct rt_redis_conn *c, const char *host, uint16_t port)
{
    if (rt_loop_reserve(c->base.loop, LINKS) != 0)
        return NULL;
    struct rt_redis_node *n = rt_alloc(sizeof(*n));
    if (n == NULL) {
        rt_loop_unreserve(c->base.loop, LINKS);
        return NULL;
    }
    rt_redis_node_move(c, n, host, port);
    rt_redis_link_init(&n->work, c, n, RT_REDIS_WORK);
    rt_redis_link_init(&n->push, c, n, RT_REDIS_PUSH);
    rt_redis_link_init(&n->wait, c, n, RT_REDIS_WAIT);
    n->next = c->nodes;
    c->nodes = n;
    return n;
}

void rt_redis_node_move(const struct rt_redis_conn *c, struct rt_redis_node *n, const char *host,
                        uint16_t port)
{
    snprintf(n->host, sizeof(n->host), "%s", host);
    n->port = port;
    if (c->unix_path != NULL)
        snprintf(n->at, sizeof(n->at), "%.250s", c->unix_path);
    else
        snprintf(n->at, sizeof(n->at), strchr(host, ':') != NULL ? "[%.250s]:%u" : "%.250s:%u",
                 host, port);
}

static void free_if_last(struct rt_redis_node *n, struct rt_loop *loop)
{
    if (!n->gone || n->streams > 0)
        return;
    rt_loop_unreserve(loop, LINKS);
    rt_free(n);
}

void rt_redis_node_freed_stream(struct rt_redis_node *n)
{
    n->streams--;
    if (n->gone)
        free_if_last(n, n->loop);
}

void rt_redis_node_drop(struct rt_redis_conn *c, struct rt_redis_node *n)
{
    struct rt_redis_node **at = &c->nodes;
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    for (uint32_t i = 0; c->rooms != NULL && i < c->room_count; i++)
        if (c->rooms[i].node == n)
            c->rooms[i].node = NULL;
    n->gone = true;
    n->loop = c->base.loop;
    n->streams++; /* ours, while the links are closed */
    rt_redis_link_close(&n->work);
    rt_redis_link_close(&n->push);
    rt_redis_link_close(&n->wait);
    n->streams--;
    free_if_last(n, n->loop);
}

void rt_redis_node_lost(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    if (c->closing || l->node->gone)
        return;
    if (c->seed_count > 1 && !l->node->facts.cluster) {
        c->seed_at = (c->seed_at + 1) % (uint32_t)c->seed_count;
        rt_redis_node_move(c, l->node, c->seeds[c->seed_at].host, c->seeds[c->seed_at].port);
        if (l->node->push.state != RT_REDIS_DOWN)
            rt_redis_link_cut(&l->node->push, "it follows the link for work");
    }
    rt_redis_link_want(l);
}

void rt_redis_want_room(struct rt_redis_conn *c, uint32_t room)
{
    struct rt_redis_node *n = c->rooms != NULL ? c->rooms[room].node : NULL;
    if (n == NULL)
        n = c->nodes;
    if (n != NULL)
        rt_redis_link_want(&n->work);
}

void rt_redis_want_link(struct rt_redis_conn *c)
{
    if (c->nodes != NULL)
        rt_redis_link_want(&c->nodes->work);
}

bool rt_redis_room_here(const struct rt_redis_conn *c, uint32_t room, const struct rt_redis_node *n)
{
    return c->rooms[room].node == n;
}

bool rt_redis_topology(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    if (l->node->facts.cluster) {
        rt_redis_fatal(l, ROTA_UNSUPPORTED, "redis %s is a cluster: not yet", rt_redis_at(l));
        return false;
    }
    if (c->rooms != NULL)
        return true;
    c->rooms = rt_alloc(sizeof(*c->rooms));
    if (c->rooms == NULL) {
        rt_redis_link_cut(l, "out of memory");
        return false;
    }
    c->room_count = 1;
    c->rooms[0].node = l->node;
    c->rooms[0].ends_at = RT_NEVER;
    return true;
}

void rt_redis_node_ready(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    rt_redis_judge(c);
    rt_redis_link_ready(l);
    rt_redis_linked(c, l->node);
    rt_redis_flush(c);
    if (rt_redis_push_wanted(c, l->node))
        rt_redis_link_want(&l->node->push);
}

void rt_redis_cluster_moved(struct rt_redis_link *l, struct rt_redis_request *rq, bool ask)
{
    (void)l;
    (void)rq;
    (void)ask;
}

void rt_redis_cluster_refresh(struct rt_redis_conn *c)
{
    (void)c;
}
