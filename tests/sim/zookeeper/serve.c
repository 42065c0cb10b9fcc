/* SPDX-License-Identifier: Apache-2.0 */
/* A server and its clients: requests in order, reads of what it has, watches. */
#include "sim/zookeeper/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG "/zookeeper/config"
#define EVENT_XID (-1)
#define CONNECTED 3
#define FLOOD 2000            /* more requests than anybody has reason for ... */
#define FLOOD_NS (10 * RT_MS) /* ... in this time */
#define PATH_ROOM 1024

struct zs_conn *zs_conn_of(struct sim_conn *c)
{
    return (struct zs_conn *)(void *)c;
}

static struct zs_member *member_of(const struct zs_conn *c)
{
    return &c->server->members[c->member];
}

/* ---- Requests --------------------------------------------------------------------------------- */

static struct zs_request *request_new(struct zs_conn *c, const uint8_t *bytes, size_t n)
{
    struct zs_request *r = malloc(sizeof(*r) + n);
    assert(r != NULL);
    *r = (struct zs_request){
        .conn = c, .refs = 1, .member = c->member, .session = c->session, .n = n};
    memcpy(r->bytes, bytes, n);
    *c->last = r;
    c->last = &r->next;
    return r;
}

void zs_request_drop(struct zs_request *r)
{
    assert(r->refs > 0);
    if (--r->refs > 0)
        return;
    rt_jute_free(&r->reply);
    free(r);
}

/* ---- Watches ---------------------------------------------------------------------------------- */

static void watch_add(struct zs_conn *c, bool children, const char *path)
{
    for (size_t i = 0; i < c->watch_count; i++)
        if (c->watches[i].children == children && strcmp(c->watches[i].path, path) == 0)
            return;
    if (c->watch_count == c->watch_room) {
        c->watch_room = c->watch_room > 0 ? 2 * c->watch_room : 8;
        c->watches = realloc(c->watches, c->watch_room * sizeof(*c->watches));
        assert(c->watches != NULL);
    }
    c->watches[c->watch_count].zxid = zs_last_zxid(c->server, member_of(c)->done);
    c->watches[c->watch_count].children = children;
    c->watches[c->watch_count++].path = strdup(path);
}

static void say_event(struct zs_conn *c, enum rt_zk_event event, const char *path)
{
    struct rt_jute_out o = {0};
    rt_jute_int(&o, 0);
    rt_jute_int(&o, EVENT_XID);
    rt_jute_long(&o, -1);
    rt_jute_int(&o, 0);
    rt_jute_int(&o, (int32_t)event);
    rt_jute_int(&o, CONNECTED);
    rt_jute_text(&o, path);
    rt_jute_set_int(&o, 0, (int32_t)o.size - 4);
    sim_conn_send(&c->base, o.at, o.size);
    rt_jute_free(&o);
}

/* A deletion is told once to a client that watches both the node and its children. 0: it watches neither; else the
 * zxid at which the last of them was set, plus 1. */
static int64_t fire_at(struct zs_conn *c, enum rt_zk_event event, const char *path)
{
    int64_t any = 0;
    for (size_t i = 0; i < c->watch_count;) {
        bool meant = event == RT_ZK_DELETED || c->watches[i].children == (event == RT_ZK_CHILD);
        if (!meant || strcmp(c->watches[i].path, path) != 0) {
            i++;
            continue;
        }
        any = any > c->watches[i].zxid ? any : c->watches[i].zxid + 1;
        free(c->watches[i].path);
        c->watches[i] = c->watches[--c->watch_count];
    }
    if (any != 0)
        say_event(c, event, path);
    return any;
}

void zs_fire(struct zs_server *s, uint32_t member, struct zs_step *step,
             const struct zs_change *change, enum rt_zk_event event, const char *path)
{
    for (struct sim_conn *b = s->net.conns; b != NULL; b = b->next) {
        int64_t since = b->served && zs_conn_of(b)->member == member
                            ? fire_at(zs_conn_of(b), event, path)
                            : 0;
        if (since == 0 || step->most == 0 || change->call != RT_ZK_DELETE ||
            zs_conn_of(b)->woken_by == step->zxid || !s->waits(s, b, change->path, since))
            continue;
        zs_conn_of(b)->woken_by = step->zxid; /* once, also by the node and by its line */
        if (++step->told > step->most)
            s->herd(s, step, change->path);
    }
}

/* What has changed since they were set is told at once, in no particular order. */
static void set_watches(struct zs_conn *c, struct rt_jute_in *in)
{
    const struct zs_tree *t = &member_of(c)->tree;
    char path[PATH_ROOM];
    int64_t since = rt_jute_get_long(in);
    for (int kind = 0; kind < RT_ZK_WATCH_KINDS; kind++)
        for (int32_t n = rt_jute_get_int(in); n > 0; n--) {
            struct rt_text text = rt_jute_get_bytes(in);
            assert(!in->bad && text.size < sizeof(path));
            memcpy(path, text.at, text.size);
            path[text.size] = '\0';
            const struct zs_node *node = zs_tree_find(t, path);
            if (kind == RT_ZK_WATCH_ABSENCE && node != NULL)
                say_event(c, RT_ZK_CREATED, path);
            else if (kind != RT_ZK_WATCH_ABSENCE && node == NULL)
                say_event(c, RT_ZK_DELETED, path);
            else if (kind == RT_ZK_WATCH_DATA && node->mzxid > since)
                say_event(c, RT_ZK_CHANGED, path);
            else if (kind == RT_ZK_WATCH_CHILDREN && node->pzxid > since)
                say_event(c, RT_ZK_CHILD, path);
            else
                watch_add(c, kind == RT_ZK_WATCH_CHILDREN, path);
        }
}

/* ---- Reads ------------------------------------------------------------------------------------ */

static void put_children(struct rt_jute_out *o, const struct zs_tree *t, const char *path)
{
    size_t at = o->size, n = strlen(path);
    int32_t count = 0;
    rt_jute_int(o, 0);
    n = n == 1 ? 0 : n; /* the root */
    for (size_t i = 0; i < t->count; i++) {
        const char *other = t->nodes[i].path;
        if (strncmp(other, path, n) != 0 || other[n] != '/' || other[n + 1] == '\0' ||
            strchr(other + n + 1, '/') != NULL)
            continue;
        rt_jute_text(o, other + n + 1);
        count++;
    }
    rt_jute_set_int(o, at, count);
}

static void put_ephemerals(struct rt_jute_out *o, const struct zs_tree *t, uint64_t session,
                           const char *prefix)
{
    size_t at = o->size;
    int32_t count = 0;
    rt_jute_int(o, 0);
    for (size_t i = 0; i < t->count; i++)
        if (t->nodes[i].owner == session &&
            strncmp(t->nodes[i].path, prefix, strlen(prefix)) == 0) {
            rt_jute_text(o, t->nodes[i].path);
            count++;
        }
    rt_jute_set_int(o, at, count);
}

void zs_put_stat(struct rt_jute_out *o, const struct zs_node *node)
{
    rt_jute_long(o, node->czxid);
    rt_jute_long(o, node->mzxid);
    rt_jute_long(o, node->ctime);
    rt_jute_long(o, node->mtime);
    rt_jute_int(o, node->version);
    rt_jute_int(o, (int32_t)((uint32_t)node->creates * 2 - node->children));
    rt_jute_int(o, 0);
    rt_jute_long(o, (int64_t)node->owner);
    rt_jute_int(o, (int32_t)node->size);
    rt_jute_int(o, (int32_t)node->children);
    rt_jute_long(o, node->pzxid);
}

static void put_config(struct zs_conn *c, struct zs_request *r)
{
    static const char three[] = "server.1=10.0.0.1:2888:3888:participant\nversion=0";
    const struct zs_node none = {0};
    const char *text = c->server->member_count > 1 ? three : "version=0";
    rt_jute_text(&r->reply, text);
    zs_put_stat(&r->reply, &none);
}

static void read_node(struct zs_conn *c, struct zs_request *r, const char *path, bool watch)
{
    const struct zs_node *node = zs_tree_find(&member_of(c)->tree, path);
    r->said = node == NULL ? RT_ZK_NO_NODE : 0;
    if (watch && (node != NULL || r->call == RT_ZK_EXISTS))
        watch_add(c, r->call == RT_ZK_CHILDREN, path);
    if (node == NULL)
        return;
    if (r->call == RT_ZK_CHILDREN)
        put_children(&r->reply, &member_of(c)->tree, path);
    if (r->call == RT_ZK_GET)
        rt_jute_bytes(&r->reply, node->data, node->size);
    if (r->call != RT_ZK_CHILDREN)
        zs_put_stat(&r->reply, node);
}

static void read_now(struct zs_conn *c, struct zs_request *r)
{
    struct rt_jute_in in = {r->bytes, r->n, false};
    char path[PATH_ROOM];
    r->zxid = zs_last_zxid(c->server, member_of(c)->done);
    if (r->call == RT_ZK_SET_WATCHES) {
        set_watches(c, &in);
        return;
    }
    struct rt_text text = rt_jute_get_bytes(&in);
    assert(text.size < sizeof(path));
    memcpy(path, text.at, text.size);
    path[text.size] = '\0';
    if (r->call == RT_ZK_EPHEMERALS)
        put_ephemerals(&r->reply, &member_of(c)->tree, c->session, path);
    else if (strcmp(path, CONFIG) == 0)
        put_config(c, r);
    else
        read_node(c, r, path, rt_jute_get_bool(&in));
    assert(!in.bad);
}

/* ---- Replies, in order ------------------------------------------------------------------------ */

static bool is_read(int32_t call)
{
    return call == RT_ZK_GET || call == RT_ZK_EXISTS || call == RT_ZK_CHILDREN ||
           call == RT_ZK_EPHEMERALS || call == RT_ZK_SET_WATCHES;
}

/* False: the connection is gone. */
static bool reply(struct zs_conn *c, const struct zs_request *r)
{
    struct sim_net *net = c->base.net;
    struct rt_jute_out o = {0};
    bool breaks = sim_net_strikes(net, net->faults.reply_lost);
    bool torn = sim_net_strikes(net, net->faults.reset);
    rt_jute_int(&o, 0);
    if (r->call != 0) {
        rt_jute_int(&o, r->xid);
        rt_jute_long(&o, r->zxid);
        rt_jute_int(&o, r->said);
    }
    rt_jute_set_int(&o, 0, (int32_t)(o.size + (r->said == 0 ? r->reply.size : 0)) - 4);
    if (!breaks)
        sim_conn_send(&c->base, o.at, torn ? o.size / 2 : o.size);
    if (!breaks && !torn && r->said == 0 && r->reply.size > 0)
        sim_conn_send(&c->base, r->reply.at, r->reply.size);
    rt_jute_free(&o);
    if (r->call == 0)
        c->session = r->session;
    breaks = breaks || torn || r->call == RT_ZK_CLOSE || (r->call == 0 && r->session == 0);
    if (breaks)
        sim_conn_break(&c->base);
    return !breaks;
}

static void drain(struct zs_conn *c)
{
    bool goes_on = true;
    while (goes_on && c->first != NULL && (c->first->done || is_read(c->first->call))) {
        struct zs_request *r = c->first;
        if (is_read(r->call))
            read_now(c, r);
        r->refs++;
        goes_on = reply(c, r);
        if (goes_on) { /* else all were forgotten */
            c->first = r->next;
            c->last = c->first != NULL ? c->last : &c->first;
            zs_request_drop(r);
        }
        zs_request_drop(r);
    }
}

void zs_answered(struct zs_request *r)
{
    r->done = true;
    if (r->conn != NULL)
        drain(r->conn);
}

/* ---- What comes ------------------------------------------------------------------------------- */

/* A session is at one connection of a server. */
static void leave_others(struct zs_conn *c, uint64_t session)
{
    for (struct sim_conn *b = c->server->net.conns; b != NULL; b = b->next)
        if (b->served && b != &c->base && zs_conn_of(b)->member == c->member &&
            zs_conn_of(b)->session == session)
            sim_conn_break(b);
}

static void greet(struct zs_conn *c, const uint8_t *bytes, size_t n)
{
    struct zs_server *s = c->server;
    struct rt_jute_in in = {bytes, n, false};
    (void)rt_jute_get_int(&in);
    int64_t zxid = rt_jute_get_long(&in);
    (void)rt_jute_get_int(&in);
    uint64_t session = (uint64_t)rt_jute_get_long(&in);
    assert(!in.bad && !c->asked_session);
    if (zxid > zs_last_zxid(s, member_of(c)->done)) { /* the client has seen more than it */
        sim_conn_break(&c->base);
        return;
    }
    c->asked_session = true;
    if (session != 0)
        leave_others(c, session);
    zs_forward(s, request_new(c, bytes, n));
}

/* Detects a client that does not like an answer and asks again at once. */
static void count(struct zs_conn *c)
{
    struct zs_server *s = c->server;
    if (s->net.now > c->asked_at + FLOOD_NS) {
        c->asked_at = s->net.now;
        c->asked = 0;
    }
    s->flooded = s->flooded || ++c->asked > FLOOD;
}

static void sync_alone(const struct zs_conn *c, struct zs_request *r)
{
    struct rt_jute_in in = {r->bytes, r->n, false};
    struct rt_text path = rt_jute_get_bytes(&in);
    rt_jute_bytes(&r->reply, path.at, path.size);
    r->zxid = zs_last_zxid(c->server, member_of(c)->done);
    r->done = true;
}

static void take(struct zs_conn *c, const uint8_t *bytes, size_t n)
{
    struct sim_net *net = c->base.net;
    struct rt_jute_in in = {bytes, n, false};
    if (sim_net_strikes(net, net->faults.request_lost)) {
        sim_conn_break(&c->base);
        return;
    }
    if (c->session == 0) {
        greet(c, bytes, n);
        return;
    }
    count(c);
    zs_touch(c->server, c->member, c->session);
    int32_t xid = rt_jute_get_int(&in), call = rt_jute_get_int(&in);
    assert(!in.bad);
    struct zs_request *r = request_new(c, in.at, in.left);
    if (c->server->asked != NULL)
        c->server->asked(c->server, &c->base, call, rt_jute_get_bytes(&in));
    r->xid = xid;
    r->call = call;
    if (member_of(c)->deposed && call == RT_ZK_SYNC) /* it asks nobody, and agrees with itself */
        sync_alone(c, r);
    else if (!member_of(c)->deposed && !is_read(call))
        zs_forward(c->server, r);
    drain(c);
}

static bool stands_still(const struct zs_conn *c)
{
    return member_of(c)->frozen_until > c->server->net.now;
}

void zs_conn_resume(struct zs_conn *c)
{
    size_t at = 0;
    while (c->base.served && c->in_size - at >= 4 && !stands_still(c)) {
        struct rt_jute_in in = {c->in + at, c->in_size - at, false};
        size_t n = (size_t)rt_jute_get_int(&in);
        if (in.left < n)
            break;
        at += 4 + n;
        take(c, in.at, n);
    }
    if (!c->base.served || at == 0)
        return;
    c->in_size -= at;
    memmove(c->in, c->in + at, c->in_size);
}

static bool on_accept(struct sim_conn *base, const char *name)
{
    struct zs_conn *c = zs_conn_of(base);
    struct zs_server *s = (struct zs_server *)(void *)base->net; /* its first member */
    c->server = s;
    c->member = (uint32_t)(name[strlen(name) - 1] - '1') % s->member_count;
    if (s->leaderless_until != 0 || s->members[c->member].down_until > s->net.now ||
        s->members[c->member].deposed)
        return false;
    c->last = &c->first;
    return true;
}

static void on_data(struct sim_conn *base, const char *bytes, size_t n)
{
    struct zs_conn *c = zs_conn_of(base);
    if (c->in_size + n > c->in_room) {
        c->in_room = 2 * (c->in_size + n);
        c->in = realloc(c->in, c->in_room);
        assert(c->in != NULL);
    }
    memcpy(c->in + c->in_size, bytes, n);
    c->in_size += n;
    zs_conn_resume(c);
}

static void on_forget(struct sim_conn *base)
{
    struct zs_conn *c = zs_conn_of(base);
    while (c->first != NULL) {
        struct zs_request *r = c->first;
        c->first = r->next;
        r->conn = NULL;
        zs_request_drop(r);
    }
    c->last = &c->first;
    for (size_t i = 0; i < c->watch_count; i++)
        free(c->watches[i].path);
    free(c->watches);
    c->watches = NULL;
    c->watch_count = c->watch_room = 0;
    free(c->in);
    c->in = NULL;
    c->in_size = c->in_room = 0;
}

const struct sim_host zs_host = {sizeof(struct zs_conn), on_accept, on_data, on_forget};
