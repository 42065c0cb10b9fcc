/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: the servers that have the places; which one to dial, and what its loss leads to. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define LINKS 3

struct rt_resp_node *rt_resp_node_new(struct rt_resp_conn *c, const char *host, uint16_t port)
{
    if (rt_loop_reserve(c->base->loop, LINKS) != 0)
        return NULL;
    struct rt_resp_node *n = rt_alloc(sizeof(*n));
    if (n == NULL) {
        rt_loop_unreserve(c->base->loop, LINKS);
        return NULL;
    }
    rt_resp_node_move(c, n, host, port);
    rt_resp_link_init(&n->work, c, n, RT_RESP_WORK);
    rt_resp_link_init(&n->push, c, n, RT_RESP_PUSH);
    rt_resp_link_init(&n->wait, c, n, RT_RESP_WAIT);
    n->next = c->nodes;
    c->nodes = n;
    return n;
}

void rt_resp_node_move(const struct rt_resp_conn *c, struct rt_resp_node *n, const char *host,
                       uint16_t port)
{
    snprintf(n->host, sizeof(n->host), "%s", host);
    n->port = port;
    if (c->unix_path != NULL)
        snprintf(n->at, sizeof(n->at), "%.250s", c->unix_path);
    else
        (void)rt_dial_text(n->at, sizeof(n->at), n->host, port);
}

static void free_if_last(struct rt_resp_node *n, struct rt_loop *loop)
{
    if (!n->gone || n->streams > 0)
        return;
    rt_loop_unreserve(loop, LINKS);
    rt_free(n);
}

void rt_resp_node_freed_stream(struct rt_resp_node *n)
{
    n->streams--;
    if (n->gone)
        free_if_last(n, n->loop);
}

void rt_resp_node_drop(struct rt_resp_conn *c, struct rt_resp_node *n)
{
    struct rt_resp_node **at = &c->nodes;
    while (*at != NULL && *at != n)
        at = &(*at)->next;
    if (*at == n)
        *at = n->next;
    for (uint32_t i = 0; c->places != NULL && i < c->place_count; i++)
        if (c->places[i] == n)
            c->places[i] = NULL;
    n->gone = true;
    n->loop = c->base->loop;
    n->streams++; /* ours, while the links are closed */
    rt_resp_link_close(&n->work);
    rt_resp_link_close(&n->push);
    rt_resp_link_close(&n->wait);
    n->streams--;
    free_if_last(n, n->loop);
}

void rt_resp_node_leave(struct rt_resp_node *n, const char *why)
{
    struct rt_resp_link *all[] = {&n->push, &n->work};
    n->leaving = true;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]->state != RT_DIAL_DOWN)
            rt_resp_link_cut(all[i], "redis %s: %s", n->at, why);
    rt_resp_wait_drop(&n->wait);
    n->leaving = false;
}

static void next_seed(struct rt_resp_conn *c, struct rt_resp_node *n)
{
    const struct rt_dial_end *end = rt_dial_next(&c->ring);
    rt_resp_node_leave(n, "the next host is tried");
    rt_resp_node_move(c, n, end->host, end->port);
}

void rt_resp_node_lost(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    struct rt_resp_node *n = l->node;
    if (c->closing || n->gone || n->leaving)
        return;
    rt_resp_wait_drop(&n->wait);
    if (c->sentinel != NULL) {
        rt_resp_sentinel_ask(c, l->pause.until);
        return;
    }
    if (c->cluster) {
        rt_resp_cluster_lost(l);
        return;
    }
    if (c->ring.count > 1)
        next_seed(c, n);
    rt_resp_link_want(l);
}

void rt_resp_want_place(struct rt_resp_conn *c, uint32_t place)
{
    struct rt_resp_node *n = c->places != NULL ? c->places[place] : NULL;
    if (n == NULL)
        n = c->nodes;
    if (n != NULL)
        rt_resp_link_want(&n->work);
}

void rt_resp_want(struct rt_resp_conn *c)
{
    rt_resp_want_place(c, 0);
}

/* COUNT of them, all of NODE. */
bool rt_resp_lay(struct rt_resp_conn *c, uint32_t count, struct rt_resp_node *node)
{
    if (c->places != NULL)
        return true;
    c->places = rt_alloc(count * sizeof(struct rt_resp_node *));
    if (c->places == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        c->places[i] = node;
    c->place_count = count;
    c->cluster = node == NULL;
    if (c->on->laid == NULL || c->on->laid(c))
        return true;
    rt_free(c->places);
    c->places = NULL;
    c->place_count = 0;
    c->cluster = false;
    return false;
}

bool rt_resp_topology(struct rt_resp_link *l, const struct rt_resp_map *map)
{
    struct rt_resp_conn *c = l->conn;
    bool cluster = l->node->facts.cluster;
    if (c->places != NULL && cluster != c->cluster)
        rt_resp_fatal(l, ROTA_UNSUPPORTED, "redis %s %s now: open the client anew", rt_resp_at(l),
                      cluster ? "is a cluster" : "is no cluster any more");
    else if (cluster && c->on->no_cluster != NULL)
        rt_resp_fatal(l, ROTA_UNSUPPORTED, "redis %s is a cluster: %s", rt_resp_at(l),
                      c->on->no_cluster);
    else if (cluster && c->sentinel != NULL)
        rt_resp_fatal(l, ROTA_INVALID, "redis %s is a cluster: leave ?sentinel= out",
                      rt_resp_at(l));
    else if (cluster ? !rt_resp_map_apply(l, map) : !rt_resp_lay(c, 1, l->node))
        rt_resp_link_cut(l, "out of memory");
    else
        return true;
    return false;
}

static void serve(struct rt_resp_conn *c, struct rt_resp_node *n)
{
    if (c->on->linked != NULL)
        c->on->linked(c, n);
    rt_ledger_flush(&c->ledger);
    if (rt_resp_push_wanted(c, n))
        rt_resp_link_want(&n->push);
    if (c->replicas > 0)
        rt_resp_link_want(&n->wait);
}

void rt_resp_node_ready(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    bool first = !c->checked && c->places[0] == l->node;
    c->checked = c->checked || first;
    if (c->on->judge != NULL)
        c->on->judge(c);
    rt_resp_link_ready(l);
    if (!c->checked) { /* the user's mark is in place 0 */
        rt_resp_want_place(c, 0);
        return;
    }
    serve(c, l->node);
    for (struct rt_resp_node *n = c->nodes; first && n != NULL; n = n->next)
        if (n != l->node && rt_resp_link_usable(&n->work))
            serve(c, n);
}
