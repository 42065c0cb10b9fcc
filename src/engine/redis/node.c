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
    while (*at != NULL && *at != n)
        at = &(*at)->next;
    if (*at == n)
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

void rt_redis_node_leave(struct rt_redis_node *n, const char *why)
{
    struct rt_redis_link *all[] = {&n->push, &n->work};
    n->leaving = true;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]->state != RT_REDIS_DOWN)
            rt_redis_link_cut(all[i], "redis %s: %s", n->at, why);
    rt_redis_wait_drop(&n->wait);
    n->leaving = false;
}

static void next_seed(struct rt_redis_conn *c, struct rt_redis_node *n)
{
    c->seed_at = (c->seed_at + 1) % (uint32_t)c->seed_count;
    rt_redis_node_leave(n, "the next host is tried");
    rt_redis_node_move(c, n, c->seeds[c->seed_at].host, c->seeds[c->seed_at].port);
}

void rt_redis_node_lost(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    struct rt_redis_node *n = l->node;
    if (c->closing || n->gone || n->leaving)
        return;
    rt_redis_wait_drop(&n->wait);
    if (c->sentinel != NULL) {
        rt_redis_sentinel_ask(c, l->dial_at);
        return;
    }
    if (c->room_count > 1) {
        rt_redis_cluster_lost(l);
        return;
    }
    if (c->seed_count > 1)
        next_seed(c, n);
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
    rt_redis_want_room(c, 0);
}

static bool make_room(struct rt_redis_conn *c, struct rt_redis_node *n)
{
    if (c->rooms != NULL)
        return true;
    struct rt_redis_room *room = rt_alloc(sizeof(*room));
    if (room == NULL)
        return false;
    room->node = n;
    room->ends_at = RT_NEVER;
    c->room_count = 1;
    c->rooms = room;
    return true;
}

bool rt_redis_topology(struct rt_redis_link *l, const struct rt_redis_map *map)
{
    struct rt_redis_conn *c = l->conn;
    bool cluster = l->node->facts.cluster;
    if (c->rooms != NULL && cluster != (c->room_count > 1))
        rt_redis_fatal(l, ROTA_UNSUPPORTED, "redis %s %s now: open the client anew", rt_redis_at(l),
                       cluster ? "is a cluster" : "is no cluster any more");
    else if (cluster && c->sentinel != NULL)
        rt_redis_fatal(l, ROTA_INVALID, "redis %s is a cluster: leave ?sentinel= out",
                       rt_redis_at(l));
    else if (cluster ? !rt_redis_map_apply(l, map) : !make_room(c, l->node))
        rt_redis_link_cut(l, "out of memory");
    else
        return true;
    return false;
}

static void serve(struct rt_redis_conn *c, struct rt_redis_node *n)
{
    rt_redis_linked(c, n);
    rt_redis_flush(c);
    if (rt_redis_push_wanted(c, n))
        rt_redis_link_want(&n->push);
    if (c->replicas > 0)
        rt_redis_link_want(&n->wait);
}

void rt_redis_node_ready(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    bool first = !c->checked && c->rooms[0].node == l->node;
    c->checked = c->checked || first;
    rt_redis_judge(c);
    rt_redis_link_ready(l);
    if (!c->checked) { /* the layout's mark is in room 0 */
        rt_redis_want_room(c, 0);
        return;
    }
    serve(c, l->node);
    for (struct rt_redis_node *n = c->nodes; first && n != NULL; n = n->next)
        if (n != l->node && rt_redis_link_usable(&n->work))
            serve(c, n);
}
