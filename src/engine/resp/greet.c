/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting of a work link: who we are, what the server is, whether its layout is ours.
 *
 * Two flights: AUTH, SELECT, INFO, CONFIG and an ECHO that says that all these replies were in their
 * place; then the mark of the user's layout, which is only made on a server that was found to be
 * the right one. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UPTIME_MOST_S 1000000000 /* 30 years */
#define ERROR_KEPT 200

struct rt_resp_greeting {
    struct rt_resp_facts facts;
    struct rt_resp_map *map; /* of a cluster */
    bool loading, sentinel;
    bool judged;  /* the first flight was good */
    bool refresh; /* of a link that is ready: only the map is asked for */
    char errors[RT_RESP_GREETS][ERROR_KEPT];
};

/* ---- Sending ------------------------------------------------------------------------------------ */

static int put(struct rt_resp_link *l, uint32_t which, const char *const *words, size_t n)
{
    return rt_resp_link_say(l, RT_RESP_GREET, which, words, n);
}

bool rt_resp_auth_words(struct rt_resp_conn *c)
{
    const char *with_user[] = {"AUTH", c->user, c->password != NULL ? c->password : ""};
    const char *without[] = {"AUTH", c->password};
    if (c->user != NULL)
        return rt_resp_words(c, with_user, 3);
    return c->password == NULL || rt_resp_words(c, without, 2);
}

int rt_resp_greet_auth(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    bool good = rt_resp_auth_words(c);
    if (good && c->out_size == 0)
        return 0;
    int rv = rt_resp_link_put(l, good ? rt_resp_request_bare(RT_RESP_GREET, RT_RESP_GREET_AUTH)
                                      : NULL);
    if (c->out != NULL)
        explicit_bzero(c->out, c->out_room);
    return rv;
}

/* A user other than default has to ask what default may do. */
static bool is_default(const struct rt_resp_conn *c)
{
    return c->user == NULL || strcmp(c->user, "default") == 0;
}

void rt_resp_greet_begin(struct rt_resp_link *l)
{
    static const char *const info[] = {"INFO"};
    /* Two settings; before Redis 7 only a pattern names several. */
    static const char *const config[] = {"CONFIG", "GET", "*appendfsync*"};
    static const char *const acl[] = {"ACL", "GETUSER", "default"};
    static const char *const wait[] = {"WAIT", "0",
                                       "0"}; /* whether the user may: at once, not late */
    char db[16];
    const char *select[] = {"SELECT", db};
    snprintf(db, sizeof(db), "%u", l->conn->db);
    l->greeting = rt_alloc(sizeof(*l->greeting));
    int rv = l->greeting == NULL ? ROTA_NOMEM : rt_resp_greet_auth(l);
    bool work = l->kind == RT_RESP_WORK; /* that for WAIT has to know only who it is */
    if (rv == 0 && work && l->conn->db != 0)
        rv = put(l, RT_RESP_GREET_SELECT, select, 2);
    if (rv == 0)
        rv = put(l, RT_RESP_GREET_INFO, info, 1);
    if (rv == 0 && work)
        rv = put(l, RT_RESP_GREET_CONFIG, config, 3);
    if (rv == 0 && !is_default(l->conn))
        rv = put(l, RT_RESP_GREET_ACL, acl, 3);
    if (rv == 0 && work && l->conn->replicas > 0)
        rv = put(l, RT_RESP_GREET_WAIT, wait, 3);
    if (rv == 0)
        rv = rt_resp_link_echo(l, true);
    if (rv == ROTA_NOMEM)
        rt_resp_link_cut(l, "out of memory");
}

void rt_resp_greet_end(struct rt_resp_link *l)
{
    if (l->greeting == NULL)
        return;
    if (l->greeting->refresh)
        l->conn->refreshing = false;
    rt_resp_map_free(l->greeting->map);
    rt_free(l->greeting);
    l->greeting = NULL;
}

static int ask_slots(struct rt_resp_link *l)
{
    static const char *const slots[] = {"CLUSTER", "SLOTS"};
    int rv = put(l, RT_RESP_GREET_SLOTS, slots, 2);
    return rv == 0 ? rt_resp_link_echo(l, true) : rv;
}

void rt_resp_greet_refresh(struct rt_resp_link *l)
{
    l->greeting = rt_alloc(sizeof(*l->greeting));
    if (l->greeting == NULL)
        return;
    l->greeting->refresh = l->conn->refreshing = true;
    if (ask_slots(l) != 0)
        rt_resp_greet_end(l);
}

/* ---- Looking at replies ---------------------------------------------------------------------------- */

/* The value of KEY in INFO's text, in OUT; "" if it is not there. */
static void info_get(const char *info, const char *key, char *out, size_t size)
{
    size_t length = strlen(key);
    out[0] = '\0';
    for (const char *at = info; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, key, length) != 0 || at[length] != ':')
            continue;
        size_t n = strcspn(at + length + 1, "\r\n");
        snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), at + length + 1);
        return;
    }
}

static bool info_is(const char *info, const char *key, const char *value)
{
    char text[64];
    info_get(info, key, text, sizeof(text));
    return strcmp(text, value) == 0;
}

static bool take_info(struct rt_resp_link *l, const redisReply *reply)
{
    struct rt_resp_facts *f = &l->greeting->facts;
    char number[32];
    if (reply->type != REDIS_REPLY_STRING || strlen(reply->str) != reply->len)
        return false;
    const char *info = reply->str;
    info_get(info, "redis_version", f->version, sizeof(f->version));
    info_get(info, "run_id", f->run_id, sizeof(f->run_id));
    info_get(info, "maxmemory_policy", f->policy, sizeof(f->policy));
    info_get(info, "connected_slaves", number, sizeof(number));
    f->replicas = (uint32_t)strtoul(number, NULL, 10);
    info_get(info, "maxmemory", number, sizeof(number));
    f->maxmemory = strtoull(number, NULL, 10);
    info_get(info, "uptime_in_seconds", number, sizeof(number));
    long long up = strtoll(number, NULL, 10);
    f->uptime_s = up > 0 && up < UPTIME_MOST_S ? up : 0;
    f->master = info_is(info, "role", "master");
    f->cluster = info_is(info, "redis_mode", "cluster");
    f->aof = info_is(info, "aof_enabled", "1");
    l->greeting->sentinel = info_is(info, "redis_mode", "sentinel");
    l->greeting->loading = info_is(info, "loading", "1");
    char *end;
    f->major = (int)strtol(f->version, &end, 10);
    f->minor = *end == '.' ? (int)strtol(end + 1, NULL, 10) : 0;
    f->known = f->version[0] != '\0';
    return true;
}

static bool take_config(struct rt_resp_link *l, const redisReply *reply)
{
    struct rt_resp_facts *f = &l->greeting->facts;
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *key = reply->element[i], *value = reply->element[i + 1];
        if (key->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
            return false;
        if (strcmp(key->str, "appendfsync") == 0)
            snprintf(f->appendfsync, sizeof(f->appendfsync), "%s", value->str);
        else if (strcmp(key->str, "no-appendfsync-on-rewrite") == 0)
            snprintf(f->rewrite, sizeof(f->rewrite), "%s", value->str);
    }
    return true;
}

bool rt_resp_greet_reply(struct rt_resp_link *l, uint32_t which, const redisReply *reply)
{
    if (l->greeting == NULL)
        return false;
    if (reply->type == REDIS_REPLY_ERROR) {
        rt_resp_clean(l->conn, reply->str, l->greeting->errors[which], ERROR_KEPT);
        return true;
    }
    switch (which) {
    case RT_RESP_GREET_INFO:
        return take_info(l, reply);
    case RT_RESP_GREET_CONFIG:
        return take_config(l, reply);
    case RT_RESP_GREET_ACL:
        l->greeting->facts.replay = rt_resp_acl_replay(reply);
        return true;
    case RT_RESP_GREET_AHEAD:
    case RT_RESP_GREET_WAIT:
        return reply->type == REDIS_REPLY_INTEGER;
    case RT_RESP_GREET_SLOTS:
        return rt_resp_map_read(l, reply, &l->greeting->map);
    default:
        return reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
    }
}

/* ---- Judging them -------------------------------------------------------------------------------------- */

/* Told, and false: the greeting got an error that matters. */
static bool check_auth(struct rt_resp_link *l, const char *error)
{
    const char *who = l->conn->user != NULL ? l->conn->user : "default";
    if (error[0] == '\0')
        return true;
    if (strncmp(error, "WRONGPASS", 9) == 0 && l->conn->password == NULL)
        rt_resp_fatal(
            l, ROTA_AUTH,
            "redis %s asks for the password of the user %.60s, and none was given: put it "
            "in ROTA_PASSWORD or ?password_file=",
            rt_resp_at(l), who);
    else if (strncmp(error, "WRONGPASS", 9) == 0)
        rt_resp_fatal(l, ROTA_AUTH, "redis %s refused the password of the user %.60s",
                      rt_resp_at(l), who);
    else if (strstr(error, "without any password configured") != NULL ||
             strstr(error, "no password is set") != NULL)
        rt_resp_fatal(l, ROTA_AUTH,
                      "redis %s has no password set: take it out of the settings, or set one there",
                      rt_resp_at(l));
    else if (strstr(error, "wrong number of arguments") != NULL)
        rt_resp_fatal(l, ROTA_UNSUPPORTED, "redis %s knows no users: it is older than %d.%d",
                      rt_resp_at(l), RT_RESP_VERSION_MAJOR, RT_RESP_VERSION_MINOR);
    else /* what it says may have what we sent in it */
        rt_resp_fatal(l, ROTA_AUTH, "redis %s refused AUTH: is that a Redis server?",
                      rt_resp_at(l));
    return false;
}

static bool check_error(struct rt_resp_link *l, const char *error)
{
    char text[256];
    if (error[0] == '\0')
        return true;
    int err = rt_resp_explain(l, error, text, sizeof(text));
    if (rt_resp_classify(error) != RT_RESP_FINAL)
        rt_resp_link_cut(l, "%s", text);
    else
        rt_resp_fatal(l, err, "%s", text);
    return false;
}

static bool check_select(struct rt_resp_link *l, const char *error)
{
    if (error[0] == '\0' || strncmp(error, "ERR", 3) != 0)
        return check_error(l, error);
    if (strstr(error, "cluster mode") != NULL)
        rt_resp_fatal(l, ROTA_INVALID, "redis %s is a cluster, which has only database 0: not %u",
                      rt_resp_at(l), l->conn->db);
    else
        rt_resp_fatal(l, ROTA_INVALID, "redis %s has no database %u: see its setting 'databases'",
                      rt_resp_at(l), l->conn->db);
    return false;
}

static bool check_version(struct rt_resp_link *l, const struct rt_resp_facts *f)
{
    int major = f->cluster ? RT_RESP_CLUSTER_MAJOR : RT_RESP_VERSION_MAJOR;
    int minor = f->cluster ? 0 : RT_RESP_VERSION_MINOR;
    if (!f->known) {
        rt_resp_fatal(l, ROTA_PROTOCOL, "%s does not say which Redis it is", rt_resp_at(l));
        return false;
    }
    if (f->major > major || (f->major == major && f->minor >= minor))
        return true;
    rt_resp_fatal(l, ROTA_UNSUPPORTED, "redis %s is version %s%s: Rota needs %d.%d or later",
                  rt_resp_at(l), f->version, f->cluster ? " with cluster mode" : "", major, minor);
    return false;
}

/* Before all else: it knows neither SELECT nor ECHO, and may have another password. */
static bool check_kind(struct rt_resp_link *l)
{
    if (!l->greeting->sentinel)
        return true;
    rt_resp_fatal(l, ROTA_INVALID,
                  "redis %s is a Sentinel: say ?sentinel=NAME with the name of its primary",
                  rt_resp_at(l));
    return false;
}

static bool check_role(struct rt_resp_link *l)
{
    struct rt_resp_greeting *g = l->greeting;
    if (g->loading)
        rt_resp_link_cut(l, "redis %s is loading its data", rt_resp_at(l));
    else if (!g->facts.master && !g->facts.cluster) /* of a cluster it still has the map */
        rt_resp_link_cut(l, "redis %s is a replica: it cannot be written to", rt_resp_at(l));
    else
        return true;
    return false;
}

void rt_resp_mark(struct rt_resp_link *l, struct rt_resp_request *rq, const char *const *words,
                  size_t n)
{
    int rv = rq == NULL ? ROTA_NOMEM : n > 0 ? put(l, RT_RESP_GREET_AHEAD, words, n) : 0;
    if (rv == 0) {
        rq->what = RT_RESP_META;
        rv = rt_resp_link_send(l, rq);
        if (rv == 0)
            return;
    }
    if (rq != NULL)
        rt_resp_request_free(rq);
    if (rv == ROTA_NOMEM) /* else the stream is about to end */
        rt_resp_link_cut(l, "out of memory");
}

static void greeted(struct rt_resp_link *l)
{
    rt_resp_greet_end(l);
    rt_resp_node_ready(l);
}

/* The address may lead to another server by now, before the link for work has heard of it: that one has replicas
 * of its own, and knows nothing of what was granted. */
static void judge_wait(struct rt_resp_link *l)
{
    const struct rt_resp_greeting *g = l->greeting;
    if (!check_error(l, g->errors[RT_RESP_GREET_INFO]) ||
        !check_error(l, g->errors[RT_RESP_GREET_ECHO]))
        return;
    if (strcmp(g->facts.run_id, l->node->facts.run_id) != 0) {
        rt_resp_link_cut(l, "redis %s is another server by now", rt_resp_at(l));
        return;
    }
    rt_resp_greet_end(l);
    rt_resp_wait_ready(l);
}

/* What another server pushed, and may arrive yet, says nothing of what this one knows. */
static void forget_pushes_of(struct rt_resp_node *node, const struct rt_resp_facts *now)
{
    if (node->facts.known && strcmp(node->facts.run_id, now->run_id) != 0 &&
        node->push.state != RT_DIAL_DOWN)
        rt_resp_link_cut(&node->push, "redis %s is another server by now", node->at);
}

/* The first flight: who it is. */
static void judge(struct rt_resp_link *l)
{
    struct rt_resp_greeting *g = l->greeting;
    if (!check_kind(l) || !check_auth(l, g->errors[RT_RESP_GREET_AUTH]))
        return;
    if (l->kind == RT_RESP_WAIT) {
        judge_wait(l);
        return;
    }
    if (!check_error(l, g->errors[RT_RESP_GREET_INFO]) || !check_version(l, &g->facts) ||
        !check_select(l, g->errors[RT_RESP_GREET_SELECT]) ||
        !check_error(l, g->errors[RT_RESP_GREET_ECHO]) || !check_role(l) ||
        (g->facts.master && !check_error(l, g->errors[RT_RESP_GREET_WAIT])))
        return;
    g->facts.config_refused = g->errors[RT_RESP_GREET_CONFIG][0] != '\0';
    if (is_default(l->conn))
        g->facts.replay = RT_RESP_REPLAY_KEPT; /* it may do what we may */
    forget_pushes_of(l->node, &g->facts);
    l->node->facts = g->facts;
    g->judged = true;
    if (!g->facts.cluster)
        rt_resp_greet_confirmed(l);
    else if (ask_slots(l) == ROTA_NOMEM)
        rt_resp_link_cut(l, "out of memory");
}

/* A map that came over a link at work. */
static void refreshed(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    struct rt_resp_map *map = l->greeting->map;
    l->greeting->map = NULL;
    rt_resp_greet_end(l);
    if (map == NULL)
        return;
    if (!rt_resp_map_apply(l, map))
        rt_resp_log(c, ROTA_LOG_ERROR, "redis: out of memory");
    rt_resp_map_free(map);
    rt_ledger_flush(&c->ledger);
    if (!rt_resp_node_needed(c, l->node))
        rt_resp_node_drop(c, l->node);
    if (c->checked)
        return;
    struct rt_resp_node *first = c->places[0]; /* the user's mark may be somewhere else now */
    if (first != NULL && first->work.state == RT_DIAL_READY)
        rt_resp_link_cut(&first->work, "redis %s has room 0 now: it is greeted anew", first->at);
    else
        rt_resp_want_place(c, 0);
}

void rt_resp_greet_confirmed(struct rt_resp_link *l)
{
    struct rt_resp_greeting *g = l->greeting;
    if (g == NULL)
        return;
    if (g->refresh) {
        refreshed(l);
        return;
    }
    if (!g->judged) {
        judge(l);
        return;
    }
    if (!check_error(l, g->errors[RT_RESP_GREET_SLOTS]) || !rt_resp_topology(l, g->map))
        return;
    struct rt_resp_conn *c = l->conn;
    if (c->places[0] == l->node) {
        if (c->on->mark != NULL)
            c->on->mark(l);
        else
            greeted(l);
    } else if (c->places[0] == NULL || rt_resp_node_needed(c, l->node)) {
        greeted(l);
    } else { /* a replica: it had the map, and that is all we want of it */
        rt_resp_want_place(c, 0);
        rt_resp_node_drop(c, l->node);
    }
}

void rt_resp_greet_meta(struct rt_resp_link *l, const redisReply *reply, const char *error)
{
    if (check_error(l, error != NULL ? error : l->greeting->errors[RT_RESP_GREET_AHEAD]) &&
        l->conn->on->marked(l, reply))
        greeted(l);
}
