/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster: which node has which slot, learnt from CLUSTER SLOTS and from MOVED. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16384
#define NOBODY UINT16_MAX /* all bits */
#define OWNERS_MAX 1024

struct owner {
    char host[256];
    uint16_t port;
};

struct rt_resp_map {
    struct owner *owners;
    uint16_t count;
    bool starved;       /* there was no memory for all of it */
    uint16_t of[SLOTS]; /* slot -> owner */
};

/* CRC16, XMODEM. */
uint32_t rt_resp_slot(const char *key)
{
    uint32_t crc = 0;
    const char *open = strchr(key, '{'), *close = open != NULL ? strchr(open, '}') : NULL;
    bool braced = close != NULL && close > open + 1;
    const char *end = braced ? close : key + strlen(key);
    for (const char *at = braced ? open + 1 : key; at < end; at++) {
        crc ^= (uint32_t)(unsigned char)*at << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000u) != 0 ? (crc << 1 ^ 0x1021u) : crc << 1;
        crc &= 0xffffu;
    }
    return crc % SLOTS;
}

/* ---- The map ---------------------------------------------------------------------------------- */

void rt_resp_map_free(struct rt_resp_map *map)
{
    if (map != NULL)
        rt_free(map->owners);
    rt_free(map);
}

static uint16_t owner_of(struct rt_resp_map *map, const char *host, uint16_t port)
{
    for (uint16_t i = 0; i < map->count; i++)
        if (map->owners[i].port == port && strcmp(map->owners[i].host, host) == 0)
            return i;
    struct owner *more = NULL;
    if (map->count < OWNERS_MAX)
        more = rt_realloc(map->owners, (size_t)(map->count + 1) * sizeof(*more));
    map->starved = map->starved || more == NULL;
    if (more == NULL)
        return NOBODY;
    map->owners = more;
    snprintf(more[map->count].host, sizeof(more[map->count].host), "%s", host);
    more[map->count].port = port;
    return map->count++;
}

/* {first, last, {host, port, ...}, replicas ...}; a host that is not told is the one we asked. */
static bool take_range(struct rt_resp_map *map, const redisReply *r, const char *same_host)
{
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 3 ||
        r->element[0]->type != REDIS_REPLY_INTEGER || r->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    const redisReply *node = r->element[2];
    if (node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
        node->element[1]->type != REDIS_REPLY_INTEGER || node->element[1]->integer <= 0 ||
        node->element[1]->integer > UINT16_MAX)
        return false;
    const char *host = node->element[0]->type == REDIS_REPLY_STRING ? node->element[0]->str : "";
    if (host[0] == '\0' || strcmp(host, "?") == 0)
        host = same_host;
    uint16_t owner = owner_of(map, host, (uint16_t)node->element[1]->integer);
    long long first = r->element[0]->integer, last = r->element[1]->integer;
    for (long long slot = first < 0 ? 0 : first; slot <= last && slot < SLOTS; slot++)
        map->of[slot] = owner;
    return true;
}

bool rt_resp_map_read(struct rt_resp_link *l, const redisReply *reply, struct rt_resp_map **out)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    struct rt_resp_map *map = rt_alloc(sizeof(*map));
    if (map == NULL)
        return true; /* found missing when it is to be applied */
    memset(map->of, 0xff, sizeof(map->of));
    for (size_t i = 0; i < reply->elements; i++)
        if (!take_range(map, reply->element[i], l->node->host)) {
            rt_resp_map_free(map);
            return false;
        }
    rt_resp_map_free(*out);
    *out = map;
    return true;
}

static struct rt_resp_node *node_at(struct rt_resp_conn *c, const char *host, uint16_t port)
{
    for (struct rt_resp_node *n = c->nodes; n != NULL; n = n->next)
        if (n->port == port && strcmp(n->host, host) == 0)
            return n;
    return rt_resp_node_new(c, host, port);
}

bool rt_resp_node_needed(const struct rt_resp_conn *c, const struct rt_resp_node *n)
{
    for (uint32_t i = 0; i < c->place_count; i++)
        if (c->places[i] == n)
            return true;
    return n->work.head != NULL && n->work.state == RT_DIAL_READY;
}

/* Nodes that places have come to are told. */
static void moved_in(struct rt_resp_conn *c, struct rt_resp_node *n)
{
    n->gained = false;
    if (n->push.state == RT_DIAL_READY)
        rt_resp_push_catch_up(&n->push);
    else if (rt_resp_push_wanted(c, n))
        rt_resp_link_want(&n->push);
    if (rt_resp_link_usable(&n->work))
        if (c->on->linked != NULL)
            c->on->linked(c, n);
}

static void follow(struct rt_resp_conn *c, struct rt_resp_node *keep)
{
    for (struct rt_resp_node *n = c->nodes, *next; n != NULL; n = next) {
        next = n->next;
        if (n->gained)
            moved_in(c, n);
        else if (n != keep && !rt_resp_node_needed(c, n))
            rt_resp_node_drop(c, n);
    }
}

bool rt_resp_map_apply(struct rt_resp_link *l, const struct rt_resp_map *map)
{
    struct rt_resp_conn *c = l->conn;
    if (map == NULL || map->starved || !rt_resp_lay(c, c->on->places, NULL))
        return false;
    for (uint32_t i = 0; i < c->place_count; i++) {
        uint16_t of = map->of[c->on->slot(i)];
        const struct owner *o = of != NOBODY ? &map->owners[of] : NULL;
        struct rt_resp_node *n = o != NULL ? node_at(c, o->host, o->port) : NULL;
        if (n == NULL || n == c->places[i])
            continue; /* nobody: the last one may still have it */
        c->places[i] = n;
        n->gained = true;
    }
    l->node->gained = l->node->gained && l->state == RT_DIAL_READY; /* else told when it is */
    follow(c, l->node);
    return true;
}

/* ---- While it changes ------------------------------------------------------------------------------ */

void rt_resp_cluster_moved(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    struct rt_resp_conn *c = l->conn;
    char host[256];
    const char *at = strchr(rq->error, ' ');
    at = at != NULL ? strchr(at + 1, ' ') : NULL;
    const char *colon = at != NULL ? strrchr(at, ':') : NULL;
    if (colon == NULL || (size_t)(colon - at) > sizeof(host))
        return;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - at - 1), at + 1);
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (port == 0 || port > UINT16_MAX)
        return;
    struct rt_resp_node *n = node_at(c, host[0] != '\0' ? host : l->node->host, (uint16_t)port);
    if (n == NULL)
        return;
    if (c->places[rq->place] != n) {
        rt_resp_log(c, ROTA_LOG_INFO, "redis: room %u has moved from %s to %s", rq->place,
                    rt_resp_at(l), n->at);
        c->places[rq->place] = n;
        moved_in(c, n);
    }
    rt_resp_cluster_refresh(c);
}

/* Whether A is the better one to be asked than B: it owes us nothing, or not for so long. A node that is silent keeps
 * its link until it is given up. */
static bool owes_less(const struct rt_resp_link *a, const struct rt_resp_link *b)
{
    if (a->next == NULL || b->next == NULL)
        return b->next != NULL;
    return a->next->sent_at > b->next->sent_at;
}

void rt_resp_cluster_refresh(struct rt_resp_conn *c)
{
    struct rt_resp_link *best = NULL;
    if (!c->cluster || c->refreshing || c->closing)
        return;
    /* Not only those that are usable: while the node of the mark is silent, nobody else tells who has its place now. */
    for (struct rt_resp_node *n = c->nodes; n != NULL; n = n->next)
        if (n->work.state == RT_DIAL_READY && !n->work.sick && n->work.greeting == NULL &&
            (best == NULL || owes_less(&n->work, best)))
            best = &n->work;
    if (best != NULL)
        rt_resp_greet_refresh(best);
}

/* None of the nodes we know may be there any more: those of the URL are tried as well. */
static void try_seed(struct rt_resp_conn *c)
{
    const struct rt_dial_end *end = rt_dial_next(&c->ring);
    struct rt_resp_node *n = node_at(c, end->host, end->port);
    if (n != NULL)
        rt_resp_link_want(&n->work);
}

void rt_resp_cluster_lost(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    bool ready = false;
    for (struct rt_resp_node *n = c->nodes; n != NULL; n = n->next)
        ready = ready || n->work.state == RT_DIAL_READY;
    if (ready)
        rt_resp_cluster_refresh(c);
    else if (c->ring.count > 0)
        try_seed(c);
    if (rt_resp_node_needed(c, l->node) || !ready)
        rt_resp_link_want(l);
    else
        rt_resp_node_drop(c, l->node);
}
