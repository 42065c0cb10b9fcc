/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting of a work link: who we are, what the server is, whether its layout is ours.
 *
 * Two flights: AUTH, SELECT, INFO, CONFIG and an ECHO that says that all these replies were in their
 * place; then the layout's mark, which is only made on a server that was found to be the right
 * one. */
#include "engine/redis/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT_MAJOR 1
#define LAYOUT "1.0"
#define ERROR_KEPT 200

struct rt_redis_greeting {
    struct rt_redis_facts facts;
    struct rt_redis_map *map; /* of a cluster */
    bool loading, sentinel;
    bool judged;  /* the first flight was good */
    bool refresh; /* of a link that is ready: only the map is asked for */
    char errors[RT_REDIS_GREETS][ERROR_KEPT];
};

/* ---- Sending ------------------------------------------------------------------------------------ */

static int put(struct rt_redis_link *l, uint32_t which, const char *const *words, size_t n)
{
    struct rt_redis_request *rq = NULL;
    if (rt_redis_words(l->conn, words, n))
        rq = rt_redis_request_bare(RT_REDIS_GREET, which);
    return rt_redis_link_put(l, rq);
}

int rt_redis_greet_auth(struct rt_redis_link *l)
{
    const struct rt_redis_conn *c = l->conn;
    const char *with_user[] = {"AUTH", c->user, c->password != NULL ? c->password : ""};
    const char *without[] = {"AUTH", c->password};
    int rv = 0;
    if (c->user != NULL)
        rv = put(l, RT_REDIS_GREET_AUTH, with_user, 3);
    else if (c->password != NULL)
        rv = put(l, RT_REDIS_GREET_AUTH, without, 2);
    if (l->conn->out != NULL && c->password != NULL)
        explicit_bzero(l->conn->out, l->conn->out_room);
    return rv;
}

/* Who is not the user default has to ask what that may. */
static bool is_default(const struct rt_redis_conn *c)
{
    return c->user == NULL || strcmp(c->user, "default") == 0;
}

void rt_redis_greet_begin(struct rt_redis_link *l)
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
    int rv = l->greeting == NULL ? ROTA_NOMEM : rt_redis_greet_auth(l);
    bool work = l->kind == RT_REDIS_WORK; /* that for WAIT has to know only who it is */
    if (rv == 0 && work && l->conn->db != 0)
        rv = put(l, RT_REDIS_GREET_SELECT, select, 2);
    if (rv == 0)
        rv = put(l, RT_REDIS_GREET_INFO, info, 1);
    if (rv == 0 && work)
        rv = put(l, RT_REDIS_GREET_CONFIG, config, 3);
    if (rv == 0 && !is_default(l->conn))
        rv = put(l, RT_REDIS_GREET_ACL, acl, 3);
    if (rv == 0 && work && l->conn->replicas > 0)
        rv = put(l, RT_REDIS_GREET_WAIT, wait, 3);
    if (rv == 0)
        rv = rt_redis_link_echo(l, true);
    if (rv == ROTA_NOMEM)
        rt_redis_link_cut(l, "out of memory");
}

void rt_redis_greet_end(struct rt_redis_link *l)
{
    if (l->greeting == NULL)
        return;
    if (l->greeting->refresh)
        l->conn->refreshing = false;
    rt_redis_map_free(l->greeting->map);
    rt_free(l->greeting);
    l->greeting = NULL;
}

static int ask_slots(struct rt_redis_link *l)
{
    static const char *const slots[] = {"CLUSTER", "SLOTS"};
    int rv = put(l, RT_REDIS_GREET_SLOTS, slots, 2);
    return rv == 0 ? rt_redis_link_echo(l, true) : rv;
}

void rt_redis_greet_refresh(struct rt_redis_link *l)
{
    l->greeting = rt_alloc(sizeof(*l->greeting));
    if (l->greeting == NULL)
        return;
    l->greeting->refresh = l->conn->refreshing = true;
    if (ask_slots(l) != 0)
        rt_redis_greet_end(l);
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

static bool take_info(struct rt_redis_link *l, const redisReply *reply)
{
    struct rt_redis_facts *f = &l->greeting->facts;
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

static bool take_config(struct rt_redis_link *l, const redisReply *reply)
{
    struct rt_redis_facts *f = &l->greeting->facts;
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

bool rt_redis_greet_reply(struct rt_redis_link *l, uint32_t which, const redisReply *reply)
{
    if (l->greeting == NULL)
        return false;
    if (reply->type == REDIS_REPLY_ERROR) {
        rt_redis_clean(l->conn, reply->str, l->greeting->errors[which], ERROR_KEPT);
        return true;
    }
    switch (which) {
    case RT_REDIS_GREET_INFO:
        return take_info(l, reply);
    case RT_REDIS_GREET_CONFIG:
        return take_config(l, reply);
    case RT_REDIS_GREET_ACL:
        l->greeting->facts.replay = rt_redis_acl_replay(reply);
        return true;
    case RT_REDIS_GREET_PUBLISH:
    case RT_REDIS_GREET_WAIT:
        return reply->type == REDIS_REPLY_INTEGER;
    case RT_REDIS_GREET_SLOTS:
        return rt_redis_map_read(l, reply, &l->greeting->map);
    default:
        return reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
    }
}

/* ---- Judging them -------------------------------------------------------------------------------------- */

/* Told, and false: the greeting got an error that matters. */
static bool check_auth(struct rt_redis_link *l, const char *error)
{
    const char *who = l->conn->user != NULL ? l->conn->user : "default";
    if (error[0] == '\0')
        return true;
    if (strncmp(error, "WRONGPASS", 9) == 0 && l->conn->password == NULL)
        rt_redis_fatal(
            l, ROTA_AUTH,
            "redis %s asks for the password of the user %.60s, and none was given: put it "
            "in ROTA_PASSWORD or ?password_file=",
            rt_redis_at(l), who);
    else if (strncmp(error, "WRONGPASS", 9) == 0)
        rt_redis_fatal(l, ROTA_AUTH, "redis %s refused the password of the user %.60s",
                       rt_redis_at(l), who);
    else if (strstr(error, "without any password configured") != NULL ||
             strstr(error, "no password is set") != NULL)
        rt_redis_fatal(
            l, ROTA_AUTH,
            "redis %s has no password set: take it out of the settings, or set one there",
            rt_redis_at(l));
    else if (strstr(error, "wrong number of arguments") != NULL)
        rt_redis_fatal(l, ROTA_UNSUPPORTED, "redis %s knows no users: it is older than %d.%d",
                       rt_redis_at(l), RT_REDIS_VERSION_MAJOR, RT_REDIS_VERSION_MINOR);
    else /* what it says may have what we sent in it */
        rt_redis_fatal(l, ROTA_AUTH, "redis %s refused AUTH: is that a Redis server?",
                       rt_redis_at(l));
    return false;
}

static bool check_error(struct rt_redis_link *l, const char *error)
{
    char text[256];
    if (error[0] == '\0')
        return true;
    int err = rt_redis_explain(l, error, text, sizeof(text));
    if (rt_redis_classify(error) != RT_REDIS_FINAL)
        rt_redis_link_cut(l, "%s", text);
    else
        rt_redis_fatal(l, err, "%s", text);
    return false;
}

static bool check_select(struct rt_redis_link *l, const char *error)
{
    if (error[0] == '\0' || strncmp(error, "ERR", 3) != 0)
        return check_error(l, error);
    if (strstr(error, "cluster mode") != NULL)
        rt_redis_fatal(l, ROTA_INVALID, "redis %s is a cluster, which has only database 0: not %u",
                       rt_redis_at(l), l->conn->db);
    else
        rt_redis_fatal(l, ROTA_INVALID, "redis %s has no database %u: see its setting 'databases'",
                       rt_redis_at(l), l->conn->db);
    return false;
}

static bool check_version(struct rt_redis_link *l, const struct rt_redis_facts *f)
{
    int major = f->cluster ? RT_REDIS_CLUSTER_MAJOR : RT_REDIS_VERSION_MAJOR;
    int minor = f->cluster ? 0 : RT_REDIS_VERSION_MINOR;
    if (!f->known) {
        rt_redis_fatal(l, ROTA_PROTOCOL, "%s does not say which Redis it is", rt_redis_at(l));
        return false;
    }
    if (f->major > major || (f->major == major && f->minor >= minor))
        return true;
    rt_redis_fatal(l, ROTA_UNSUPPORTED, "redis %s is version %s%s: Rota needs %d.%d or later",
                   rt_redis_at(l), f->version, f->cluster ? " with cluster mode" : "", major,
                   minor);
    return false;
}

/* Before all else: it knows neither SELECT nor ECHO, and may have another password. */
static bool check_kind(struct rt_redis_link *l)
{
    if (!l->greeting->sentinel)
        return true;
    rt_redis_fatal(l, ROTA_INVALID,
                   "redis %s is a Sentinel: say ?sentinel=NAME with the name of its primary",
                   rt_redis_at(l));
    return false;
}

static bool check_role(struct rt_redis_link *l)
{
    struct rt_redis_greeting *g = l->greeting;
    if (g->loading)
        rt_redis_link_cut(l, "redis %s is loading its data", rt_redis_at(l));
    else if (!g->facts.master && !g->facts.cluster) /* of a cluster it still has the map */
        rt_redis_link_cut(l, "redis %s is a replica: it cannot be written to", rt_redis_at(l));
    else
        return true;
    return false;
}

/* Pushes are published by scripts and heard on another link: whether the user may is found here,
 * and not when the first grant does not come. Nobody listens to this one. */
static int try_publish(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    char room[64], channel[96];
    const char *words[] = {c->room_count > 1 ? "SPUBLISH" : "PUBLISH", channel, ""};
    rt_redis_room_key(c, 0, room, sizeof(room));
    snprintf(channel, sizeof(channel), "%s:p:", room);
    return put(l, RT_REDIS_GREET_PUBLISH, words, 3);
}

static void send_meta(struct rt_redis_link *l)
{
    char rooms[16];
    const char *args[] = {LAYOUT, rooms};
    snprintf(rooms, sizeof(rooms), "%u", l->conn->room_count);
    size_t lengths[] = {strlen(LAYOUT), strlen(rooms)};
    struct rt_redis_request *rq = rt_redis_request_new(RT_REDIS_SCRIPT_META, 0, 2, args, lengths);
    int rv = rq != NULL ? try_publish(l) : ROTA_NOMEM;
    if (rv != 0) {
        if (rq != NULL)
            rt_redis_request_free(rq);
        if (rv == ROTA_NOMEM)
            rt_redis_link_cut(l, "out of memory");
        return;
    }
    rq->what = RT_REDIS_META;
    if (rt_redis_link_send(l, rq))
        return;
    rv = rq->err;
    rt_redis_request_free(rq);
    if (rv == ROTA_NOMEM) /* else the stream is about to end */
        rt_redis_link_cut(l, "out of memory");
}

static void greeted(struct rt_redis_link *l)
{
    rt_redis_greet_end(l);
    rt_redis_node_ready(l);
}

/* The address may lead to another server by now, before the link for work has heard of it: that one has replicas
 * of its own, and knows nothing of what was granted. */
static void judge_wait(struct rt_redis_link *l)
{
    const struct rt_redis_greeting *g = l->greeting;
    if (!check_error(l, g->errors[RT_REDIS_GREET_INFO]) ||
        !check_error(l, g->errors[RT_REDIS_GREET_ECHO]))
        return;
    if (strcmp(g->facts.run_id, l->node->facts.run_id) != 0) {
        rt_redis_link_cut(l, "redis %s is another server by now", rt_redis_at(l));
        return;
    }
    rt_redis_greet_end(l);
    rt_redis_wait_ready(l);
}

/* What another server pushed, and may arrive yet, says nothing of what this one knows. */
static void forget_pushes_of(struct rt_redis_node *node, const struct rt_redis_facts *now)
{
    if (node->facts.known && strcmp(node->facts.run_id, now->run_id) != 0 &&
        node->push.state != RT_REDIS_DOWN)
        rt_redis_link_cut(&node->push, "redis %s is another server by now", node->at);
}

/* The first flight: who it is. */
static void judge(struct rt_redis_link *l)
{
    struct rt_redis_greeting *g = l->greeting;
    if (!check_kind(l) || !check_auth(l, g->errors[RT_REDIS_GREET_AUTH]))
        return;
    if (l->kind == RT_REDIS_WAIT) {
        judge_wait(l);
        return;
    }
    if (!check_error(l, g->errors[RT_REDIS_GREET_INFO]) || !check_version(l, &g->facts) ||
        !check_select(l, g->errors[RT_REDIS_GREET_SELECT]) ||
        !check_error(l, g->errors[RT_REDIS_GREET_ECHO]) || !check_role(l) ||
        (g->facts.master && !check_error(l, g->errors[RT_REDIS_GREET_WAIT])))
        return;
    g->facts.config_refused = g->errors[RT_REDIS_GREET_CONFIG][0] != '\0';
    if (is_default(l->conn))
        g->facts.replay = RT_REDIS_REPLAY_KEPT; /* it may what we may */
    forget_pushes_of(l->node, &g->facts);
    l->node->facts = g->facts;
    g->judged = true;
    if (!g->facts.cluster)
        rt_redis_greet_confirmed(l);
    else if (ask_slots(l) == ROTA_NOMEM)
        rt_redis_link_cut(l, "out of memory");
}

/* A map that came over a link at work. */
static void refreshed(struct rt_redis_link *l)
{
    struct rt_redis_conn *c = l->conn;
    struct rt_redis_map *map = l->greeting->map;
    l->greeting->map = NULL;
    rt_redis_greet_end(l);
    if (map == NULL)
        return;
    if (!rt_redis_map_apply(l, map))
        rt_redis_log(c, ROTA_LOG_ERROR, "redis: out of memory");
    rt_redis_map_free(map);
    rt_redis_flush(c);
    if (!rt_redis_node_needed(c, l->node))
        rt_redis_node_drop(c, l->node);
}

void rt_redis_greet_confirmed(struct rt_redis_link *l)
{
    struct rt_redis_greeting *g = l->greeting;
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
    if (!check_error(l, g->errors[RT_REDIS_GREET_SLOTS]) || !rt_redis_topology(l, g->map))
        return;
    struct rt_redis_conn *c = l->conn;
    if (c->rooms[0].node == l->node) {
        send_meta(l);
    } else if (c->rooms[0].node == NULL || rt_redis_node_needed(c, l->node)) {
        greeted(l);
    } else { /* a replica: it had the map, and that is all we want of it */
        rt_redis_want_room(c, 0);
        rt_redis_node_drop(c, l->node);
    }
}

void rt_redis_greet_meta(struct rt_redis_link *l, const redisReply *reply, const char *error)
{
    struct rt_redis_conn *c = l->conn;
    if (!check_error(l, error != NULL ? error : l->greeting->errors[RT_REDIS_GREET_PUBLISH]))
        return;
    if (reply->elements < 4 || reply->element[2]->type != REDIS_REPLY_STRING ||
        reply->element[3]->type != REDIS_REPLY_STRING) {
        rt_redis_fatal(l, ROTA_PROTOCOL, "redis %s: rota:{0}:meta is not as Rota writes it",
                       rt_redis_at(l));
        return;
    }
    const char *layout = reply->element[2]->str, *rooms = reply->element[3]->str;
    if (strtol(layout, NULL, 10) != LAYOUT_MAJOR)
        rt_redis_fatal(l, ROTA_UNSUPPORTED,
                       "redis %s has Rota's layout %.20s, and this library knows %d: use a "
                       "library that fits",
                       rt_redis_at(l), layout, LAYOUT_MAJOR);
    else if (strtoul(rooms, NULL, 10) != c->room_count)
        rt_redis_fatal(l, ROTA_UNSUPPORTED,
                       "redis %s was laid out for %.20s rooms, and as it is now it would have %u: "
                       "it was another kind of server (single, cluster) then",
                       rt_redis_at(l), rooms, c->room_count);
    else
        greeted(l);
}
