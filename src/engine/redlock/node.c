/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of Redlock: a connection each, what it says of itself, and requests on their way to it. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US 1000 /* ns */

static struct rt_redlock_node *of_link(struct rt_resp_conn *link)
{
    return (struct rt_redlock_node *)(void *)link; /* its first member */
}

/* ---- Requests ---------------------------------------------------------------------------------- */

struct rt_redlock_request *rt_redlock_send(struct rt_redlock_node *node,
                                           const struct rt_redlock_call *call)
{
    size_t own[16] = {0}, *lengths = own, room = strlen(call->name) + 1;
    assert(node->known);
    if (call->argc > sizeof(own) / sizeof(own[0]))
        lengths = rt_alloc(call->argc * sizeof(*lengths));
    if (lengths == NULL)
        return NULL;
    for (size_t i = 0; i < call->argc; i++)
        lengths[i] = strlen(call->args[i]);
    struct rt_redlock_request *rq = (struct rt_redlock_request *)(void *)rt_resp_request_new(
        sizeof(*rq) + room, (int)call->script, 0, call->argc, call->args, lengths);
    if (lengths != own)
        rt_free(lengths);
    if (rq == NULL)
        return NULL;
    memcpy(rq->name, call->name, room);
    rq->answer = call->answer;
    rq->owner = call->owner;
    rq->call.entry.pending = call->pending;
    rq->call.entry.deadline = call->deadline;
    rq->call.entry.again = true; /* each may be done twice: lua/README.md */
    rt_resp_send(&node->link, &rq->call);
    return rq;
}

/* What a node says to a script that is waited for is what it would say to the next one of its kind. */
static void note_refusal(struct rt_redlock_node *node, const struct rt_resp_request *call, int err)
{
    struct rt_redlock_refusal *r = &node->refusals[call->script];
    r->err = err == ROTA_UNKNOWN && call->refusal != 0 ? call->refusal : err;
    if (err != 0)
        (void)snprintf(r->why, sizeof(r->why), "%.*s", (int)sizeof(r->why) - 1,
                       node->conn->base.errmsg);
}

void rt_redlock_late(struct rt_redlock_node *node)
{
    struct rt_redlock_refusal *r = &node->refusals[RT_REDLOCK_TAKE];
    const struct rt_resp_node *at = node->link.nodes;
    r->err = ROTA_UNREACHABLE;
    (void)snprintf(r->why, sizeof(r->why), "redis %.100s has not answered in time",
                   at != NULL ? at->at : "");
}

static void on_answer(struct rt_resp_conn *link, struct rt_resp_request *call, int err, int status,
                      const redisReply *reply)
{
    struct rt_redlock_request *rq = (struct rt_redlock_request *)(void *)call;
    if (rq->answer == NULL)
        return;
    note_refusal(of_link(link), call, err);
    rq->answer(of_link(link), rq, err, status, reply);
}

const struct rt_redlock_refusal *rt_redlock_refused(const struct rt_redlock_conn *c,
                                                    enum rt_redlock_script script)
{
    const struct rt_redlock_refusal *first = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct rt_redlock_refusal *r = &c->nodes[i].refusals[script];
        if (!c->nodes[i].up || (r->err != ROTA_AUTH && r->err != ROTA_PROTOCOL))
            continue;
        n++;
        first = first != NULL ? first : r;
    }
    return n > c->count - rt_quorum_majority(c->count) ? first : NULL;
}

static const char *on_key(struct rt_resp_conn *link, const struct rt_resp_request *rq)
{
    (void)link;
    return ((const struct rt_redlock_request *)(const void *)rq)->name;
}

static struct rt_resp_text on_text(const struct rt_resp_conn *link, int script)
{
    (void)link;
    assert(script >= 0 && script < RT_REDLOCK_SCRIPTS);
    const struct rt_redis_text *t = &rt_redlock_texts[script][0];
    return (struct rt_resp_text){t->text, t->length, t->sha1};
}

/* ---- What a node says of itself ---------------------------------------------------------------------- */

/* Why a crash of this node could make it forget; "": nothing that is known. */
static const char *danger(const struct rt_resp_facts *f)
{
    if (!f->known)
        return "it has not been reached yet";
    if (f->replicas > 0)
        return "it has replicas, and one that is promoted may lack the last locks: use servers "
               "without";
    if (strcmp(f->policy, "noeviction") != 0)
        return "it may evict locks: set maxmemory-policy noeviction";
    if (!f->aof)
        return "appendonly is no: set appendonly yes and appendfsync always";
    if (f->replay != RT_RESP_REPLAY_KEPT)
        return "a restart may drop what scripts wrote: ACL SETUSER default ~* &* +@all";
    if (f->config_refused || strcmp(f->appendfsync, "always") != 0 || strcmp(f->rewrite, "no") != 0)
        return "set appendfsync always and no-appendfsync-on-rewrite no";
    return "";
}

/* All must keep: a majority that forgets is one of those that were needed. */
static void judge(struct rt_redlock_conn *c)
{
    c->base.unsafe[0] = '\0';
    for (uint32_t i = 0; i < c->count && c->base.unsafe[0] == '\0'; i++) {
        const struct rt_resp_node *n = c->nodes[i].link.nodes;
        const char *why = n != NULL ? danger(&n->facts) : danger(&(struct rt_resp_facts){0});
        if (why[0] != '\0')
            (void)snprintf(c->base.unsafe, sizeof(c->base.unsafe), "%.50s: %s",
                           n != NULL ? n->at : "a node", why);
    }
    atomic_store_explicit(&c->strict, c->base.unsafe[0] == '\0', memory_order_relaxed);
}

static void on_judge(struct rt_resp_conn *link)
{
    judge(of_link(link)->conn);
}

static void on_mark(struct rt_resp_link *l)
{
    struct rt_redlock_request *rq = (struct rt_redlock_request *)(void *)rt_resp_request_new(
        sizeof(*rq) + sizeof("rota:f"), RT_REDLOCK_META, 0, 0, NULL, NULL);
    if (rq != NULL)
        memcpy(rq->name, "rota:f", sizeof("rota:f"));
    rt_resp_mark(l, rq != NULL ? &rq->call : NULL, NULL, 0);
}

/* Another node that is up and is the same server by another name: the same run. NULL: none. */
static const struct rt_redlock_node *twin_of(const struct rt_redlock_node *node,
                                             const struct rt_resp_facts *f)
{
    const struct rt_redlock_conn *c = node->conn;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct rt_resp_node *at = c->nodes[i].link.nodes;
        if (&c->nodes[i] != node && c->nodes[i].up && at != NULL && f->run_id[0] != '\0' &&
            strcmp(at->facts.run_id, f->run_id) == 0)
            return &c->nodes[i];
    }
    return NULL;
}

static bool on_marked(struct rt_resp_link *l, const redisReply *reply)
{
    struct rt_redlock_node *node = of_link(l->conn);
    struct rt_redlock_conn *c = node->conn;
    const struct rt_resp_facts *f = &l->node->facts;
    int64_t now = rt_loop_now(c->base.loop);
    if (reply->elements < 3 || reply->element[2]->type != REDIS_REPLY_INTEGER) {
        rt_resp_fatal(l, ROTA_PROTOCOL, "redis %s does not say what time it is", rt_resp_at(l));
        return false;
    }
    const struct rt_redlock_node *twin = twin_of(node, f);
    if (twin != NULL) {
        rt_resp_fatal(l, ROTA_INVALID,
                      "redis %.80s is the same server as %.80s, and counts only once: name each "
                      "server once",
                      rt_resp_at(l), twin->link.nodes->at);
        return false;
    }
    node->ahead_us = reply->element[2]->integer - now / US;
    node->counts_at = rt_quorum_counts_at(now, f->uptime_s * 1000 * RT_MS, c->longest);
    if (node->counts_at > now)
        rt_words_log(&c->base, ROTA_LOG_INFO,
                     "redlock: %s was started %lld s ago: it counts in %lld s (?max_ttl=)",
                     rt_resp_at(l), (long long)f->uptime_s,
                     (long long)((node->counts_at - now) / (1000 * RT_MS)) + 1);
    return true;
}

static void on_link(struct rt_resp_conn *link, bool up)
{
    struct rt_redlock_node *node = of_link(link);
    node->up = up;
    memset(node->refusals, 0, sizeof(node->refusals));
    node->known = node->known || up;
    node->failed = up ? 0 : node->failed;
    if (!up)
        rt_redlock_news(node->conn);
}

static void on_linked(struct rt_resp_conn *link, struct rt_resp_node *at)
{
    (void)at;
    rt_redlock_news(of_link(link)->conn);
}

static void on_failed(struct rt_resp_conn *link)
{
    of_link(link)->failed = link->fatal;
    rt_redlock_news(of_link(link)->conn);
}

bool rt_redlock_counts(const struct rt_redlock_node *node)
{
    return node->known && node->counts_at <= rt_loop_now(node->conn->base.loop);
}

/* ---- All of them ---------------------------------------------------------------------------------------- */

uint32_t rt_redlock_up(const struct rt_redlock_conn *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++)
        n += c->nodes[i].up;
    return n;
}

uint32_t rt_redlock_whom(const struct rt_redlock_conn *c)
{
    bool enough = rt_redlock_up(c) >= rt_quorum_majority(c->count);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (enough ? c->nodes[i].up : c->nodes[i].known)
            mask |= 1u << i;
    return mask;
}

/* The middle one: a clock that is far off is not followed. */
static int64_t middle_us(const struct rt_redlock_conn *c)
{
    int64_t all[RT_QUORUM_MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t k = n;
        if (!c->nodes[i].known)
            continue;
        for (; k > 0 && all[k - 1] > c->nodes[i].ahead_us; k--)
            all[k] = all[k - 1];
        all[k] = c->nodes[i].ahead_us;
        n++;
    }
    return n > 0 ? all[n / 2] : 0;
}

uint64_t rt_redlock_hint(const struct rt_redlock_conn *c)
{
    int64_t us = rt_loop_now(c->base.loop) / US + middle_us(c);
    uint64_t hint = us > 0 ? (uint64_t)us : 1;
    return hint > c->highest ? hint : c->highest + 1;
}

/* What is the matter with NODE, for SCRIPT; "": nothing. */
static void tell_trouble(const struct rt_redlock_node *node, enum rt_redlock_script script,
                         char *out, size_t size)
{
    const struct rt_resp_node *at = node->link.nodes;
    int64_t now = rt_loop_now(node->conn->base.loop);
    const char *name = at != NULL ? at->at : "a node";
    out[0] = '\0';
    if (node->failed != 0)
        (void)snprintf(out, size, "%.150s", node->link.fatal_text);
    else if (!node->up && node->link.last_trouble[0] == '\0')
        (void)snprintf(out, size, "%.100s does not answer", name);
    else if (!node->up)
        (void)snprintf(out, size, "%.150s", node->link.last_trouble);
    else if (node->refusals[script].err != 0)
        (void)snprintf(out, size, "%.*s", (int)size - 1, node->refusals[script].why);
    else if (node->counts_at > now)
        (void)snprintf(out, size, "%.80s was restarted, and counts in %lld s (?max_ttl=)", name,
                       (long long)((node->counts_at - now) / (1000 * RT_MS)) + 1);
}

/* "2 of 5 nodes can be counted on, and 3 are needed: ..." */
static void tell_silence(const struct rt_redlock_conn *c, enum rt_redlock_script script, char *out,
                         size_t size)
{
    char first[RT_REDLOCK_WHY] = "";
    uint32_t well = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        char why[RT_REDLOCK_WHY];
        tell_trouble(&c->nodes[i], script, why, sizeof(why));
        well += why[0] == '\0';
        if (why[0] != '\0' && first[0] == '\0')
            memcpy(first, why, sizeof(first));
    }
    (void)snprintf(out, size, "%u of %u nodes can be counted on, and %u are needed%s%s", well,
                   c->count, rt_quorum_majority(c->count), first[0] != '\0' ? ": " : "", first);
}

int rt_redlock_silent(struct rt_redlock_conn *c, int err, enum rt_redlock_script script)
{
    const struct rt_redlock_refusal *r = err == ROTA_UNREACHABLE ? rt_redlock_refused(c, script)
                                                                 : NULL;
    char text[256];
    if (r != NULL)
        return rt_redlock_fail(c, r->err, "%s", r->why);
    tell_silence(c, script, text, sizeof(text));
    return rt_redlock_fail(c, err, "%s", text);
}

const char *rt_redlock_trouble(const struct rt_conn *conn)
{
    const struct rt_redlock_conn *c = (const struct rt_redlock_conn *)(const void *)conn;
    uint32_t well = 0;
    for (uint32_t i = 0; i < c->count; i++)
        well += c->nodes[i].up && c->nodes[i].refusals[RT_REDLOCK_TAKE].err == 0 &&
                rt_redlock_counts(&c->nodes[i]);
    if (well >= rt_quorum_majority(c->count))
        return NULL;
    tell_silence(c, RT_REDLOCK_TAKE, c->said, sizeof(c->said_room));
    return c->said;
}

/* ---- Opening and closing --------------------------------------------------------------------------------- */

static const struct rt_resp_user user = {
    .name = "redlock",
    .keys = "~rota:f, and the keys of the locks (~NAME)",
    .scripts = RT_REDLOCK_SCRIPTS,
    .places = 1,
    /* What that does when a server is lost is what Redlock does itself. */
    .no_cluster = "a node of Redlock is one server",
    .text = on_text,
    .key = on_key,
    .answer = on_answer,
    .mark = on_mark,
    .marked = on_marked,
    .judge = on_judge,
    .link = on_link,
    .linked = on_linked,
    .failed = on_failed,
};

static bool is_same(const struct rt_url_host *a, const struct rt_url_host *b)
{
    return strcmp(a->host, b->host) == 0 && a->port == b->port;
}

static int check_hosts(struct rt_redlock_conn *c, const struct rt_url *url)
{
    if (url->host_count < RT_REDLOCK_LEAST || url->host_count > RT_QUORUM_MOST)
        return rt_redlock_fail(c, ROTA_INVALID,
                               "Redlock needs %d to %d servers, best 5, and the URL names %zu: "
                               "write redlock://a,b,c,d,e",
                               RT_REDLOCK_LEAST, RT_QUORUM_MOST, url->host_count);
    for (size_t i = 0; i < url->host_count; i++)
        for (size_t k = 0; k < i; k++)
            if (is_same(&url->hosts[i], &url->hosts[k]))
                return rt_redlock_fail(c, ROTA_INVALID,
                                       "the URL names %.200s twice: each node counts once",
                                       url->hosts[i].host);
    return 0;
}

int rt_redlock_nodes_open(struct rt_redlock_conn *c, const struct rt_url *url)
{
    int rv = check_hosts(c, url);
    if (rv != 0)
        return rv;
    c->nodes = rt_alloc(url->host_count * sizeof(*c->nodes));
    if (c->nodes == NULL)
        return rt_words_nomem(&c->base);
    c->count = (uint32_t)url->host_count;
    for (uint32_t i = 0; i < c->count; i++) {
        struct rt_url one = *url;
        one.scheme = strcmp(url->scheme, "redlocks") == 0 ? "rediss" : "redis";
        one.hosts[0] = url->hosts[i];
        one.host_count = 1;
        c->nodes[i].conn = c;
        c->nodes[i].index = i;
        c->nodes[i].counts_at = RT_NEVER;
        rv = rt_resp_conn_open(&c->nodes[i].link, &c->base, &one, &user);
        if (rv != 0) {
            rt_redlock_nodes_close(c, i);
            return rv;
        }
    }
    return 0;
}

void rt_redlock_nodes_close(struct rt_redlock_conn *c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        rt_resp_conn_close(&c->nodes[i].link);
    rt_free(c->nodes);
    c->nodes = NULL;
    c->count = 0;
}
