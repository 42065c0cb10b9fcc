/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a model etcd: what a member has applied is told, in order for each watch. */
#include "sim/etcd/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct es_watched {
    struct es_watched *next;
    int64_t id;
    int64_t from;    /* the next revision to tell */
    int64_t last_at; /* nothing is told before */
    struct es_text key, end;
    bool no_put, no_delete;
    uint8_t bytes[];
};

/* rpc->user is the first of its watches. */
static struct es_watched *find(const struct grpc_call *rpc, int64_t id)
{
    struct es_watched *w = rpc->user;
    while (w != NULL && w->id != id)
        w = w->next;
    return w;
}

static void forget(struct grpc_call *rpc, struct es_watched *gone)
{
    struct es_watched *first = rpc->user, **at = &first;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    rpc->user = first;
    free(gone);
}

void es_watch_gone(struct grpc_call *rpc)
{
    while (rpc->user != NULL)
        forget(rpc, rpc->user);
}

/* W NULL: for no watch. */
static void tell(struct es_server *s, struct grpc_call *rpc, uint32_t member, struct es_watched *w,
                 const RtEtcd__WatchResponse *m)
{
    int64_t at = s->net.now + es_think(s);
    if (w != NULL && at < w->last_at)
        at = w->last_at;
    if (w != NULL)
        w->last_at = at;
    es_say(s, rpc, member, at, m);
}

static void tell_canceled(struct es_server *s, struct grpc_call *rpc, uint32_t member,
                          struct es_watched *w, bool compacted)
{
    struct rt_arena arena;
    RtEtcd__WatchResponse m = RT_ETCD__WATCH_RESPONSE__INIT;
    arena = RT_ETCD_ARENA;
    m.header = es_member_header(s, &arena, member, s->members[member].applied);
    m.watch_id = w->id;
    m.canceled = true;
    m.compact_revision = compacted ? s->store.compacted : 0;
    tell(s, rpc, member, w, &m);
    rt_arena_fini(&arena);
    forget(rpc, w);
}

/* ---- Events ------------------------------------------------------------- */

static void judge(struct es_server *s, const struct es_change *c)
{
    if (c->most != 0 && c->told > c->most && s->herd != NULL)
        s->herd(s, c);
}

void es_judge(struct es_server *s, struct es_change *change, uint32_t most)
{
    change->most = most;
    judge(s, change);
}

/* An observer of a line hears of everything in it; a waiter does not. */
static bool observes(const struct es_watched *w)
{
    return w->end.n > 0 && !w->no_put && !w->no_delete;
}

static void tell_events(struct es_server *s, struct grpc_call *rpc, uint32_t member,
                        struct es_watched *w)
{
    struct es_store *store = &s->store;
    int64_t applied = s->members[member].applied;
    RtEtcd__WatchResponse m = RT_ETCD__WATCH_RESPONSE__INIT;
    struct rt_arena arena;
    size_t at = store->log_count;
    while (at > 0 && store->log[at - 1].revision >= w->from)
        at--;
    w->from = applied + 1;
    arena = RT_ETCD_ARENA;
    m.events = es_new(&arena, (store->log_count - at) * sizeof(*m.events));
    for (; at < store->log_count && store->log[at].revision <= applied; at++) {
        struct es_change *c = &store->log[at];
        const struct es_kv *kv = c->after != NULL ? c->after : c->before;
        bool filtered = c->after != NULL ? w->no_put : w->no_delete;
        if (filtered || !es_text_within(kv->key, w->key, w->end))
            continue;
        m.events[m.n_events++] = es_event(&arena, c);
        c->told += !observes(w) && s->waits != NULL && s->waits(s, &es_conn_of(rpc)->base, kv->key);
        judge(s, c);
    }
    if (m.n_events > 0) {
        m.header = es_member_header(s, &arena, member, applied);
        m.watch_id = w->id;
        tell(s, rpc, member, w, &m);
    }
    rt_arena_fini(&arena);
}

typedef void each_fn(struct es_server *s, struct grpc_call *rpc, struct es_watched *w,
                     uint32_t arg);

static void each_watch(struct es_server *s, each_fn *each, uint32_t arg)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next) {
        struct es_conn *conn = (struct es_conn *)(void *)c;
        for (struct grpc_call *rpc = c->served ? conn->h2.calls : NULL; rpc != NULL;
             rpc = rpc->next)
            for (struct es_watched *w = rpc->user, *next; w != NULL; w = next) {
                next = w->next;
                each(s, rpc, w, arg);
            }
    }
}

static void notify_one(struct es_server *s, struct grpc_call *rpc, struct es_watched *w,
                       uint32_t member)
{
    if (es_conn_of(rpc)->member != member)
        return;
    if (w->from <= s->store.compacted)
        tell_canceled(s, rpc, member, w, true);
    else if (w->from <= s->members[member].applied)
        tell_events(s, rpc, member, w);
}

void es_watch_notify(struct es_server *s, uint32_t member)
{
    each_watch(s, notify_one, member);
}

/* ---- Requests ----------------------------------------------------------- */

static void create(struct es_server *s, struct es_task *t, struct rt_arena *arena,
                   const RtEtcd__WatchCreate *rq)
{
    int64_t applied = s->members[t->member].applied;
    struct es_watched *w = calloc(1, sizeof(*w) + rq->key.len + rq->range_end.len);
    RtEtcd__WatchResponse m = RT_ETCD__WATCH_RESPONSE__INIT;
    assert(w != NULL && rq->watch_id != 0 && find(t->rpc, rq->watch_id) == NULL);
    w->id = rq->watch_id;
    w->from = rq->start_revision > 0 ? rq->start_revision : applied + 1;
    memcpy(w->bytes, rq->key.data, rq->key.len);
    if (rq->range_end.len > 0)
        memcpy(w->bytes + rq->key.len, rq->range_end.data, rq->range_end.len);
    w->key = (struct es_text){w->bytes, rq->key.len};
    w->end = (struct es_text){w->bytes + rq->key.len, rq->range_end.len};
    for (size_t i = 0; i < rq->n_filters; i++) {
        w->no_put = w->no_put || rq->filters[i] == RT_ETCD__WATCH_CREATE__FILTER__NO_PUT;
        w->no_delete = w->no_delete || rq->filters[i] == RT_ETCD__WATCH_CREATE__FILTER__NO_DELETE;
    }
    w->next = t->rpc->user;
    t->rpc->user = w;
    m.header = es_member_header(s, arena, t->member, applied);
    m.watch_id = w->id;
    m.created = true;
    tell(s, t->rpc, t->member, w, &m);
    notify_one(s, t->rpc, w, t->member); /* one that begins in the past */
}

static void request(struct es_server *s, struct es_task *t)
{
    struct rt_arena arena;
    const RtEtcd__WatchRequest *rq;
    if (es_frozen(s, t) || t->rpc->server == NULL)
        return;
    arena = RT_ETCD_ARENA;
    int rv = rt_etcd_unpack(&arena, &rt_etcd__watch_request__descriptor, t->bytes, t->n, &rq);
    assert(rv == 0);
    (void)rv;
    if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CREATE) {
        create(s, t, &arena, rq->create);
    } else if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CANCEL) {
        struct es_watched *w = find(t->rpc, rq->cancel->watch_id);
        if (w != NULL)
            tell_canceled(s, t->rpc, t->member, w, false);
    } else {
        RtEtcd__WatchResponse m = RT_ETCD__WATCH_RESPONSE__INIT;
        m.header = es_member_header(s, &arena, t->member, s->members[t->member].applied);
        m.watch_id = -1;
        tell(s, t->rpc, t->member, NULL, &m);
    }
    rt_arena_fini(&arena);
}

void es_watch(struct grpc_call *rpc, const uint8_t *bytes, size_t n)
{
    const struct es_conn *c = es_conn_of(rpc);
    struct es_server *s = c->server;
    struct es_task *t = es_task_new(s, rpc, c->member, bytes, n, request);
    es_task_add(s, t, s->net.now + 1000); /* in order: one loop of the server reads them */
}

/* ---- What befalls them -------------------------------------------------- */

static void compact_one(struct es_server *s, struct grpc_call *rpc, struct es_watched *w,
                        uint32_t missed)
{
    uint32_t member = es_conn_of(rpc)->member;
    bool behind = s->members[member].applied < s->store.revision;
    if (!behind && sim_chance(&s->net.random, missed))
        tell_canceled(s, rpc, member, w, true);
}

void es_server_compact(struct es_server *s, uint32_t missed)
{
    int64_t revision = s->store.revision;
    for (uint32_t i = 0; i < ES_MEMBERS; i++) /* a member compacts when it has come that far */
        if (s->members[i].applied < revision)
            revision = s->members[i].applied;
    es_store_compact(&s->store, revision);
    each_watch(s, compact_one, missed);
}

void es_server_end_watches(struct es_server *s)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next) {
        struct es_conn *conn = (struct es_conn *)(void *)c;
        for (struct grpc_call *rpc = c->served ? conn->h2.calls : NULL; rpc != NULL;
             rpc = rpc->next)
            if (strcmp(rpc->path, ES_WATCH_PATH) == 0)
                es_say_end(s, rpc, conn->member, s->net.now + es_think(s), RT_GRPC_UNAVAILABLE,
                           "etcdserver: no leader");
    }
}
