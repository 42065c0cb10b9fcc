/* SPDX-License-Identifier: Apache-2.0 */
/* One primary, two replicas and three sentinels that are quick to act. */
#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY_WITHIN_MS 20000
#define NODES 3

static void die(const char *what)
{
    fprintf(stderr, "sentinels: %s\n", what);
    exit(1);
}

/* ---- Life --------------------------------------------------------------- */

static void start_node(struct rt_redis_sentinels *s, int i, const struct rt_redis_options *opts,
                       bool proxied, uint64_t seed)
{
    struct rt_redis_options o = opts != NULL ? *opts : (struct rt_redis_options){0};
    struct rt_proxy_options proxy = {.framing = &rt_proxy_resp, .seed = seed + (uint64_t)i};

    if (proxied) {
        s->proxy[i] = rt_proxy_start(&proxy); /* its target is known in a moment */
        o.announce_port = rt_proxy_port(s->proxy[i]);
    }
    rt_redis_init(&s->node[i], &o);
    if (proxied)
        rt_proxy_target(s->proxy[i], NULL, s->node[i].server.port);
    rt_redis_run(&s->node[i]);
    if (i > 0)
        rt_redis_must(&s->node[i], "REPLICAOF 127.0.0.1 %d", (int)s->node[0].announce_port);
}

/* Sentinel's own periods are for real networks: shortened here by its command for tests. Not too much:
 * a replica is promoted only if its INFO is younger than five ping periods, and INFO is asked for once
 * a second while the primary is down; and four publish periods are what the others give a promoted
 * replica to be announced, before they make it a replica again. */
static void hurry(struct rt_redis *sentinel)
{
    static const char *const periods[][2] = {
        {"info-period", "100"},
        {"ping-period", "300"},
        {"ask-period", "50"},
        {"publish-period", "500"},
        {"tilt-trigger", "60000"}, /* a busy test machine is no reason to sit back for 30 s */
        {"min-link-reconnect-period", "50"},
        {"election-timeout", "1000"},
    };

    for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++)
        rt_redis_must(sentinel, "SENTINEL DEBUG %s %s", periods[i][0], periods[i][1]);
}

static void start_sentinel(struct rt_redis_sentinels *s, int i, bool patient)
{
    char extra[600];
    struct rt_redis_options o = {.extra = extra};
    struct rt_redis *sentinel = &s->sentinel[i];
    int len = snprintf(extra, sizeof(extra),
                       "sentinel monitor %s 127.0.0.1 %u 2\n"
                       "sentinel down-after-milliseconds %s %d\n"
                       "sentinel failover-timeout %s 1500\n"
                       "sentinel parallel-syncs %s 2\n",
                       RT_SENTINEL_NAME, (unsigned)s->node[0].announce_port, RT_SENTINEL_NAME,
                       patient ? 15000 : 500, RT_SENTINEL_NAME, RT_SENTINEL_NAME);

    if (s->node[0].password[0] != '\0')
        snprintf(extra + len, sizeof(extra) - (size_t)len, "sentinel auth-pass %s %s\n",
                 RT_SENTINEL_NAME, s->node[0].password);
    rt_redis_init(sentinel, &o);
    rt_server_arg(&sentinel->server, "--sentinel");
    rt_redis_run(sentinel);
    hurry(sentinel);
}

struct rt_redis_sentinels *rt_redis_sentinels_new(const struct rt_redis_options *opts, bool proxied,
                                                  uint64_t seed)
{
    struct rt_redis_sentinels *s = calloc(1, sizeof(*s));

    if (s == NULL)
        die("no memory");
    for (int i = 0; i < NODES; i++)
        start_node(s, i, opts, proxied, seed);
    for (int i = 0; i < NODES; i++)
        start_sentinel(s, i, opts != NULL && opts->patient);
    if (rt_redis_sentinels_settle(s, READY_WITHIN_MS) != 0)
        die("not ready in time");
    return s;
}

void rt_redis_sentinels_free(struct rt_redis_sentinels *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < NODES; i++)
        rt_redis_fini(&s->sentinel[i]);
    for (int i = 0; i < NODES; i++) {
        rt_redis_fini(&s->node[i]);
        rt_proxy_stop(s->proxy[i]);
    }
    free(s);
}

/* ---- Who is the primary ------------------------------------------------- */

static int node_by_port(const struct rt_redis_sentinels *s, long port)
{
    for (int i = 0; i < NODES; i++) {
        if (s->node[i].announce_port == port)
            return i;
    }
    return -1;
}

static int named_by(struct rt_redis_sentinels *s, int i)
{
    redisReply *r = rt_redis_do(&s->sentinel[i], "SENTINEL get-master-addr-by-name %s",
                                RT_SENTINEL_NAME);
    int node = -1;

    if (r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 2)
        node = node_by_port(s, strtol(r->element[1]->str, NULL, 10));
    freeReplyObject(r);
    return node;
}

/* The node that all running sentinels name and that says so itself; -1: none. */
static int agreed(struct rt_redis_sentinels *s)
{
    int primary = -1;

    for (int i = 0; i < NODES; i++) {
        int named;

        if (s->sentinel[i].server.pid == 0)
            continue;
        named = named_by(s, i);
        if (named < 0 || (primary >= 0 && named != primary))
            return -1;
        primary = named;
    }
    if (primary < 0 || s->node[primary].server.pid == 0 ||
        strcmp(rt_redis_info(&s->node[primary], "replication", "role"), "master") != 0)
        return -1;
    return primary;
}

/* A flat array of names and values. */
static const char *field(const redisReply *r, const char *name)
{
    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        if (strcmp(r->element[i]->str, name) == 0)
            return r->element[i + 1]->str;
    }
    return "";
}

static size_t count_good(const redisReply *list, bool replicas)
{
    size_t good = 0;

    for (size_t i = 0; list->type == REDIS_REPLY_ARRAY && i < list->elements; i++) {
        const redisReply *one = list->element[i];

        if (replicas)
            good += strcmp(field(one, "flags"), "slave") == 0 &&
                    strcmp(field(one, "master-link-status"), "ok") == 0;
        else
            good += strcmp(field(one, "flags"), "sentinel") == 0;
    }
    return good;
}

static size_t known_to(struct rt_redis_sentinels *s, int i, bool replicas)
{
    redisReply *r = rt_redis_do(&s->sentinel[i],
                                replicas ? "SENTINEL REPLICAS %s" : "SENTINEL SENTINELS %s",
                                RT_SENTINEL_NAME);
    size_t n = r != NULL ? count_good(r, replicas) : 0;

    freeReplyObject(r);
    return n;
}

struct wanted {
    struct rt_redis_sentinels *s;
    int barred; /* a primary that will not do; -1: any will */
    int found;
};

static bool has_primary(void *arg)
{
    struct wanted *w = arg;

    w->found = agreed(w->s);
    return w->found >= 0 && w->found != w->barred;
}

/* No failover is running, and all running nodes know that the others are well. */
static bool is_settled(void *arg)
{
    struct wanted *w = arg;
    size_t nodes = 0, sentinels = 0;

    if (!has_primary(arg))
        return false;
    for (int i = 0; i < NODES; i++) {
        nodes += w->s->node[i].server.pid != 0;
        sentinels += w->s->sentinel[i].server.pid != 0;
    }
    for (int i = 0; i < NODES; i++) {
        if (w->s->sentinel[i].server.pid != 0 &&
            (known_to(w->s, i, true) != nodes - 1 || known_to(w->s, i, false) != sentinels - 1))
            return false;
    }
    return true;
}

int rt_redis_sentinels_primary(struct rt_redis_sentinels *s, unsigned limit_ms)
{
    struct wanted w = {.s = s, .barred = -1};

    return rt_await(has_primary, &w, limit_ms) ? w.found : -1;
}

int rt_redis_sentinels_settle(struct rt_redis_sentinels *s, unsigned limit_ms)
{
    struct wanted w = {.s = s, .barred = -1};

    return rt_await(is_settled, &w, limit_ms) ? w.found : -1;
}

/* ---- Failing over ------------------------------------------------------- */

static bool failover_begun(void *arg)
{
    struct rt_redis_sentinels *s = arg;
    redisReply *r = rt_redis_do(&s->sentinel[0], "SENTINEL FAILOVER %s", RT_SENTINEL_NAME);
    /* -INPROG: the last one is not over for this sentinel; -NOGOODSLAVE: not yet. */
    bool begun = r != NULL && r->type == REDIS_REPLY_STATUS;

    freeReplyObject(r);
    return begun;
}

int rt_redis_sentinels_failover(struct rt_redis_sentinels *s, unsigned limit_ms)
{
    struct wanted w = {.s = s, .barred = agreed(s)};

    if (!rt_await(failover_begun, s, limit_ms))
        return -1;
    return rt_await(has_primary, &w, limit_ms) ? w.found : -1;
}

int rt_redis_sentinels_kill_primary(struct rt_redis_sentinels *s, unsigned limit_ms)
{
    struct wanted w = {.s = s, .barred = rt_redis_sentinels_primary(s, limit_ms)};

    if (w.barred < 0)
        return -1;
    rt_redis_kill(&s->node[w.barred]);
    return rt_await(has_primary, &w, limit_ms) ? w.found : -1;
}

char *rt_redis_sentinels_url(const struct rt_redis_sentinels *s)
{
    bool secret = s->node[0].password_file[0] != '\0';
    char *url = NULL;

    if (asprintf(&url, "redis://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/?sentinel=%s%s%s",
                 (unsigned)s->sentinel[0].server.port, (unsigned)s->sentinel[1].server.port,
                 (unsigned)s->sentinel[2].server.port, RT_SENTINEL_NAME,
                 secret ? "&password_file=" : "", secret ? s->node[0].password_file : "") < 0)
        die("no memory");
    return url;
}
