/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster of three primaries and three replicas, made by commands of our own; slots move live. */
#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY_WITHIN_MS 20000
#define NODES 6
#define PRIMARIES 3
#define KEYS_AT_ONCE 100 /* per MIGRATE, which stops both nodes meanwhile */

static void die(const char *what)
{
    fprintf(stderr, "cluster: %s\n", what);
    exit(1);
}

/* ---- Life --------------------------------------------------------------- */

static void start_node(struct rt_redis_cluster *c, int i, const struct rt_redis_options *opts,
                       bool proxied, uint64_t seed)
{
    struct rt_redis_options o = opts != NULL ? *opts : (struct rt_redis_options){0};
    struct rt_proxy_options proxy = {.framing = &rt_proxy_resp, .seed = seed + (uint64_t)i};

    o.cluster = true;
    if (proxied) {
        c->proxy[i] = rt_proxy_start(&proxy); /* its target is known in a moment */
        o.announce_port = rt_proxy_port(c->proxy[i]);
    }
    rt_redis_init(&c->node[i], &o);
    if (proxied)
        rt_proxy_target(c->proxy[i], NULL, c->node[i].server.port);
    rt_redis_run(&c->node[i]);
}

static void introduce(struct rt_redis_cluster *c, int i)
{
    redisReply *r = rt_redis_do(&c->node[i], "CLUSTER MYID");

    if (r == NULL || r->type != REDIS_REPLY_STRING || r->len != 40)
        die("CLUSTER MYID");
    snprintf(c->id[i], sizeof(c->id[i]), "%s", r->str);
    freeReplyObject(r);
    rt_redis_must(&c->node[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    if (i < PRIMARIES)
        rt_redis_must(&c->node[i], "CLUSTER ADDSLOTSRANGE %d %d", i * RT_CLUSTER_SLOTS / PRIMARIES,
                      (i + 1) * RT_CLUSTER_SLOTS / PRIMARIES - 1);
    for (int j = 0; j < i; j++)
        rt_redis_must(&c->node[i], "CLUSTER MEET 127.0.0.1 %d %d", (int)c->node[j].announce_port,
                      (int)c->node[j].bus_port);
}

struct following {
    struct rt_redis_cluster *c;
    int replica;
};

static bool follows(void *arg)
{
    const struct following *f = arg;
    redisReply *r = rt_redis_do(&f->c->node[f->replica], "CLUSTER REPLICATE %s",
                                f->c->id[f->replica - PRIMARIES]);
    bool ok = r != NULL && r->type == REDIS_REPLY_STATUS; /* an error: does not know it yet */

    freeReplyObject(r);
    return ok;
}

/* All slots served, as this node sees it, and its replica in step. */
static bool node_ok(struct rt_redis_cluster *c, int i)
{
    redisReply *r = rt_redis_do(&c->node[i], "CLUSTER INFO");
    bool ok = r != NULL && r->type == REDIS_REPLY_STRING &&
              strstr(r->str, "cluster_state:ok") != NULL;

    freeReplyObject(r);
    return ok;
}

static bool all_ok(void *arg)
{
    struct rt_redis_cluster *c = arg;

    for (int i = 0; i < NODES; i++) {
        if (c->node[i].server.pid != 0 && !node_ok(c, i))
            return false;
    }
    return true;
}

static bool replicas_in_step(void *arg)
{
    struct rt_redis_cluster *c = arg;

    for (int i = PRIMARIES; i < NODES; i++) {
        if (strcmp(rt_redis_info(&c->node[i], "replication", "master_link_status"), "up") != 0)
            return false;
    }
    return true;
}

bool rt_redis_cluster_ok(struct rt_redis_cluster *c, unsigned limit_ms)
{
    return rt_await(all_ok, c, limit_ms);
}

struct rt_redis_cluster *rt_redis_cluster_new(const struct rt_redis_options *opts, bool proxied,
                                              uint64_t seed)
{
    struct rt_redis_cluster *c = calloc(1, sizeof(*c));

    if (c == NULL)
        die("no memory");
    for (int i = 0; i < NODES; i++)
        start_node(c, i, opts, proxied, seed);
    for (int i = 0; i < NODES; i++)
        introduce(c, i);
    for (int i = PRIMARIES; i < NODES; i++) {
        struct following f = {.c = c, .replica = i};

        if (!rt_await(follows, &f, READY_WITHIN_MS))
            die("a replica does not find its primary");
    }
    if (!rt_redis_cluster_ok(c, READY_WITHIN_MS) || !rt_await(replicas_in_step, c, READY_WITHIN_MS))
        die("not ready in time");
    return c;
}

void rt_redis_cluster_free(struct rt_redis_cluster *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < NODES; i++) {
        rt_redis_fini(&c->node[i]);
        rt_proxy_stop(c->proxy[i]);
    }
    free(c);
}

/* ---- Slots -------------------------------------------------------------- */

unsigned rt_redis_cluster_slot(struct rt_redis_cluster *c, const char *key)
{
    return (unsigned)rt_redis_integer(&c->node[0], "CLUSTER KEYSLOT %s", key);
}

/* One range of CLUSTER SLOTS: from, to, the primary as address, port, id. */
static int owner_in(const struct rt_redis_cluster *c, const redisReply *range, unsigned slot)
{
    if (range->elements < 3 || (long long)slot < range->element[0]->integer ||
        (long long)slot > range->element[1]->integer)
        return -1;
    for (int i = 0; i < NODES; i++) {
        if (strcmp(range->element[2]->element[2]->str, c->id[i]) == 0)
            return i;
    }
    return -1;
}

int rt_redis_cluster_owner(struct rt_redis_cluster *c, int by, unsigned slot)
{
    redisReply *r = rt_redis_do(&c->node[by], "CLUSTER SLOTS");
    int owner = -1;

    for (size_t i = 0; r != NULL && r->type == REDIS_REPLY_ARRAY && i < r->elements && owner < 0;
         i++)
        owner = owner_in(c, r->element[i], slot);
    freeReplyObject(r);
    return owner;
}

void rt_redis_cluster_move_begin(struct rt_redis_cluster *c, unsigned slot, int from, int to)
{
    rt_redis_must(&c->node[to], "CLUSTER SETSLOT %d IMPORTING %s", (int)slot, c->id[from]);
    rt_redis_must(&c->node[from], "CLUSTER SETSLOT %d MIGRATING %s", (int)slot, c->id[to]);
}

/* MIGRATE of the keys of one CLUSTER GETKEYSINSLOT. */
static void migrate(struct rt_redis_cluster *c, int from, int to, const redisReply *keys)
{
    const char *argv[8 + KEYS_AT_ONCE + 3];
    size_t lens[8 + KEYS_AT_ONCE + 3];
    char port[8];
    size_t n = 0;
    redisReply *r;

    snprintf(port, sizeof(port), "%u", (unsigned)c->node[to].server.port);
    argv[n++] = "MIGRATE";
    argv[n++] = "127.0.0.1";
    argv[n++] = port;
    argv[n++] = "";
    argv[n++] = "0";
    argv[n++] = "5000";
    if (c->node[to].password[0] != '\0') {
        argv[n++] = "AUTH";
        argv[n++] = c->node[to].password;
    }
    argv[n++] = "KEYS";
    for (size_t i = 0; i < n; i++)
        lens[i] = strlen(argv[i]);
    for (size_t i = 0; i < keys->elements; i++) {
        argv[n] = keys->element[i]->str;
        lens[n++] = (size_t)keys->element[i]->len;
    }
    r = redisCommandArgv(c->node[from].admin, (int)n, argv, lens);
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        die(r != NULL ? r->str : "MIGRATE: no answer");
    freeReplyObject(r);
}

size_t rt_redis_cluster_move_keys(struct rt_redis_cluster *c, unsigned slot, int from, int to)
{
    size_t moved = 0;

    for (;;) {
        redisReply *keys = rt_redis_do(&c->node[from], "CLUSTER GETKEYSINSLOT %d %d", (int)slot,
                                       KEYS_AT_ONCE);

        if (keys == NULL || keys->type != REDIS_REPLY_ARRAY)
            die("CLUSTER GETKEYSINSLOT");
        if (keys->elements == 0) {
            freeReplyObject(keys);
            return moved;
        }
        migrate(c, from, to, keys);
        moved += keys->elements;
        freeReplyObject(keys);
    }
}

/* First the new owner, then the old one: in between both would answer "not me", never "me" twice. */
void rt_redis_cluster_move_end(struct rt_redis_cluster *c, unsigned slot, int from, int to)
{
    rt_redis_must(&c->node[to], "CLUSTER SETSLOT %d NODE %s", (int)slot, c->id[to]);
    rt_redis_must(&c->node[from], "CLUSTER SETSLOT %d NODE %s", (int)slot, c->id[to]);
    for (int i = 0; i < NODES; i++) {
        if (i == to || i == from || c->node[i].server.pid == 0)
            continue;
        /* Replicas refuse, and learn it from the others. */
        freeReplyObject(
            rt_redis_do(&c->node[i], "CLUSTER SETSLOT %d NODE %s", (int)slot, c->id[to]));
    }
}

void rt_redis_cluster_move(struct rt_redis_cluster *c, unsigned slot, int to)
{
    int from = rt_redis_cluster_owner(c, to, slot);

    if (from < 0)
        die("nobody serves the slot");
    if (from == to)
        return;
    rt_redis_cluster_move_begin(c, slot, from, to);
    (void)rt_redis_cluster_move_keys(c, slot, from, to);
    rt_redis_cluster_move_end(c, slot, from, to);
}

/* ---- Failing over ------------------------------------------------------- */

static bool took_over(void *arg)
{
    const struct following *f = arg;

    return strcmp(rt_redis_info(&f->c->node[f->replica], "replication", "role"), "master") == 0;
}

bool rt_redis_cluster_failover(struct rt_redis_cluster *c, int replica, unsigned limit_ms)
{
    struct following f = {.c = c, .replica = replica};

    rt_redis_must(&c->node[replica], "CLUSTER FAILOVER");
    return rt_await(took_over, &f, limit_ms) && rt_redis_cluster_ok(c, limit_ms);
}

char *rt_redis_cluster_url(const struct rt_redis_cluster *c)
{
    bool secret = c->node[0].password_file[0] != '\0';
    char *url = NULL;

    if (asprintf(&url, "redis://127.0.0.1:%u,127.0.0.1:%u/%s%s", (unsigned)c->node[0].announce_port,
                 (unsigned)c->node[1].announce_port, secret ? "?password_file=" : "",
                 secret ? c->node[0].password_file : "") < 0)
        die("no memory");
    return url;
}
