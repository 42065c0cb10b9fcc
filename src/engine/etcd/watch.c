/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: all on one stream, created from now on, and again on every new stream. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

#define BUCKETS_FIRST 64

/* ---- By id -------------------------------------------------------------------------------------- */

static struct rt_etcd_watch **bucket(struct rt_etcd_conn *c, int64_t id)
{
    return &c->buckets[(uint64_t)id % c->bucket_count];
}

static struct rt_etcd_watch *find(struct rt_etcd_conn *c, int64_t id)
{
    struct rt_etcd_watch *w = c->bucket_count > 0 ? *bucket(c, id) : NULL;
    while (w != NULL && w->id != id)
        w = w->hash_next;
    return w;
}

static void hash_in(struct rt_etcd_conn *c, struct rt_etcd_watch *w)
{
    struct rt_etcd_watch **at = bucket(c, w->id);
    w->hash_next = *at;
    *at = w;
}

static void hash_out(struct rt_etcd_conn *c, struct rt_etcd_watch *w)
{
    struct rt_etcd_watch **at = bucket(c, w->id);
    while (*at != w)
        at = &(*at)->hash_next;
    *at = w->hash_next;
    w->id = 0;
    w->created = false;
}

static bool room_for_one(struct rt_etcd_conn *c)
{
    size_t count = c->bucket_count > 0 ? c->bucket_count * 2 : BUCKETS_FIRST;
    if (c->watch_count < c->bucket_count)
        return true;
    struct rt_etcd_watch **buckets = rt_alloc(count * sizeof(*buckets));
    if (buckets == NULL)
        return c->bucket_count > 0; /* the chains grow */
    rt_free(c->buckets);
    c->buckets = buckets;
    c->bucket_count = count;
    for (struct rt_etcd_watch *w = c->watches.next; w != &c->watches; w = w->next)
        if (w->id != 0)
            hash_in(c, w);
    return true;
}

/* ---- The stream ----------------------------------------------------------------------------------- */

static void on_message(void *arg, const uint8_t *bytes, size_t n);
static void on_stream_end(void *arg, const struct rt_grpc_end *end);

static bool stream_open(struct rt_etcd_conn *c)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    if (l->watch_call != NULL)
        return true;
    c->last_watch_id = 0;
    l->watch_token = c->token_serial;
    int rv = rt_etcd_stream_open(c, "/etcdserverpb.Watch/Watch", on_message, on_stream_end,
                                 &l->watch_call);
    if (rv != 0)
        rt_etcd_sicken(c, "the stream of watches could not be opened");
    return rv == 0;
}

static void create(struct rt_etcd_conn *c, struct rt_etcd_watch *w)
{
    RtEtcd__WatchCreate rq = RT_ETCD__WATCH_CREATE__INIT;
    RtEtcd__WatchRequest message = RT_ETCD__WATCH_REQUEST__INIT;
    RtEtcd__WatchCreate__Filter filters[2];
    if (w->id != 0 || !rt_etcd_usable(c) || c->authenticating || !stream_open(c))
        return;
    rq.key = (ProtobufCBinaryData){w->key_size, w->key};
    rq.range_end = (ProtobufCBinaryData){w->end_size, w->key + w->key_size};
    if (w->flags & RT_ETCD_WATCH_NO_PUT)
        filters[rq.n_filters++] = RT_ETCD__WATCH_CREATE__FILTER__NO_PUT;
    if (w->flags & RT_ETCD_WATCH_NO_DELETE)
        filters[rq.n_filters++] = RT_ETCD__WATCH_CREATE__FILTER__NO_DELETE;
    rq.filters = filters;
    rq.fragment = true;
    rq.watch_id = c->last_watch_id + 1;
    message.request_case = RT_ETCD__WATCH_REQUEST__REQUEST_CREATE;
    message.create = &rq;
    if (rt_etcd_say(c, rt_etcd_wire(c)->watch_call, &message) != 0) {
        rt_etcd_sicken(c, "the server does not read what is to be watched");
        return;
    }
    w->id = ++c->last_watch_id;
    hash_in(c, w);
}

void rt_etcd_watch_linked(struct rt_etcd_conn *c)
{
    for (struct rt_etcd_watch *w = c->watches.next; w != &c->watches; w = w->next)
        create(c, w);
}

static void drop(struct rt_etcd_conn *c, struct rt_etcd_watch *w)
{
    RT_RING_OUT(w);
    c->watch_count--;
    rt_free(w->key);
    w->key = NULL;
    w->user = NULL;
}

static void tell_lost(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int err)
{
    const struct rt_etcd_watch_user *user = w->user;
    if (err != 0)
        drop(c, w);
    if (user->lost != NULL)
        user->lost(c, w, err);
}

void rt_etcd_watch_lost(struct rt_etcd_conn *c)
{
    struct rt_etcd_watch old;
    if (c->bucket_count > 0)
        memset(c->buckets, 0, c->bucket_count * sizeof(*c->buckets));
    if (rt_etcd_wire(c) != NULL)
        rt_etcd_wire(c)->watch_call = NULL;
    RT_RING_MOVE(&old, &c->watches);
    for (struct rt_etcd_watch *w = old.next; w != &old; w = w->next)
        w->id = 0; /* `created` says whom to tell */
    while (!RT_RING_EMPTY(&old)) {
        struct rt_etcd_watch *w = old.next;
        bool was_created = w->created;
        RT_RING_OUT(w);
        RT_RING_ADD(&c->watches, w);
        w->created = false;
        if (was_created)
            tell_lost(c, w, 0);
    }
}

/* Opens another stream at once, with another token. */
static void reopen(struct rt_etcd_conn *c)
{
    if (rt_etcd_wire(c)->watch_call != NULL)
        rt_grpc_cancel(rt_etcd_wire(c)->watch_call);
    rt_etcd_watch_lost(c);
    if (rt_etcd_wire(c) != NULL)
        rt_etcd_watch_linked(c);
}

static void on_stream_end(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    uint32_t serial = l->watch_token;
    l->watch_call = NULL;
    if (end->verdict.reason != RT_ETCD_NO_TOKEN || !rt_etcd_reauthenticate(c, serial))
        rt_etcd_sicken(c, "%.100s: no more watching: %.120s", rt_etcd_at(c), rt_grpc_said(end));
    rt_etcd_watch_lost(c);
    if (rt_etcd_wire(c) != NULL)
        rt_etcd_watch_linked(c);
}

/* ---- What comes ------------------------------------------------------------------------------------- */

/* An answer without an id belongs to the oldest watch still unanswered, because answers come in order. */
static struct rt_etcd_watch *oldest_asked(struct rt_etcd_conn *c)
{
    struct rt_etcd_watch *oldest = NULL;
    for (struct rt_etcd_watch *w = c->watches.next; w != &c->watches; w = w->next)
        if (w->id != 0 && !w->created && (oldest == NULL || w->id < oldest->id))
            oldest = w;
    return oldest;
}

static bool contains(ProtobufCBinaryData text, const char *word)
{
    return text.len > 0 && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* etcd says "permission denied" for an old token too: it is true only with a new one. */
static void refused(struct rt_etcd_conn *c, struct rt_etcd_watch *w)
{
    uint32_t serial = rt_etcd_wire(c)->watch_token;
    if (c->link.user != NULL && !w->refused) {
        w->refused = true;
        if (serial == c->token_serial)
            (void)rt_etcd_reauthenticate(c, serial);
        reopen(c); /* at once, or when there is a token */
        return;
    }
    tell_lost(c, w,
              rt_etcd_fail(c, ROTA_AUTH, "%.120s: no right to watch this name", rt_etcd_at(c)));
}

static void canceled(struct rt_etcd_conn *c, struct rt_etcd_watch *w,
                     const RtEtcd__WatchResponse *r)
{
    bool had = w->created, right = contains(r->cancel_reason, "permission denied") ||
                                   contains(r->cancel_reason, "auth");
    hash_out(c, w);
    if (right && r->compact_revision == 0 && !had) {
        refused(c, w);
        return;
    }
    if (r->compact_revision == 0)
        rt_etcd_sicken(c, "%.180s has ended a watch", rt_etcd_at(c));
    else
        create(c, w); /* from now: it cannot be too old again */
    if (had)
        tell_lost(c, w, 0);
}

static void dispatch(struct rt_etcd_conn *c, const RtEtcd__WatchResponse *r)
{
    struct rt_etcd_watch *w = find(c, r->watch_id);
    int64_t revision = r->header != NULL ? r->header->revision : 0;
    if (w == NULL && r->created && r->canceled)
        w = oldest_asked(c);
    if (w == NULL)
        return; /* we gave it up while it was on its way */
    if (r->canceled) {
        canceled(c, w, r);
    } else if (r->created) {
        w->refused = false;
        w->created = true;
        if (w->user->created != NULL)
            w->user->created(c, w, revision);
    } else if (r->n_events > 0 && w->user->events != NULL) {
        w->user->events(c, w, revision, r->events, r->n_events);
    }
}

static bool whole(const RtEtcd__WatchResponse *r)
{
    for (size_t i = 0; i < r->n_events; i++)
        if (r->events[i]->kv == NULL)
            return false;
    return true;
}

static void on_message(void *arg, const uint8_t *bytes, size_t n)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    RtEtcd__WatchResponse *r;
    rt_arena_reset(&c->arena);
    int rv = rt_etcd_unpack(&c->arena, &rt_etcd__watch_response__descriptor, bytes, n, &r);
    if (rv == 0 && whole(r))
        dispatch(c, r);
    else
        rt_etcd_cut(c, "%s",
                    rv == ROTA_NOMEM ? "out of memory for what was watched"
                                     : "what was watched came as garbage");
}

/* ---- For the ops -------------------------------------------------------------------------------------- */

int rt_etcd_watch(struct rt_etcd_conn *c, struct rt_etcd_watch *w, const void *key, size_t key_size,
                  const void *end, size_t end_size, uint32_t flags,
                  const struct rt_etcd_watch_user *user)
{
    void *owner = w->owner;
    assert(w->user == NULL && user != NULL && key_size > 0);
    uint8_t *copy = room_for_one(c) ? rt_alloc(key_size + end_size) : NULL;
    if (copy == NULL)
        return rt_words_nomem(rt_etcd_base(c));
    memcpy(copy, key, key_size);
    if (end_size > 0)
        memcpy(copy + key_size, end, end_size);
    *w = (struct rt_etcd_watch){.user = user,
                                .owner = owner,
                                .flags = flags,
                                .key_size = key_size,
                                .end_size = end_size,
                                .key = copy};
    RT_RING_ADD(&c->watches, w);
    c->watch_count++;
    create(c, w);
    rt_etcd_want(c);
    return 0;
}

void rt_etcd_unwatch(struct rt_etcd_conn *c, struct rt_etcd_watch *w)
{
    RtEtcd__WatchCancel rq = RT_ETCD__WATCH_CANCEL__INIT;
    RtEtcd__WatchRequest message = RT_ETCD__WATCH_REQUEST__INIT;
    if (w->user == NULL)
        return;
    if (w->id != 0) {
        rq.watch_id = w->id;
        message.request_case = RT_ETCD__WATCH_REQUEST__REQUEST_CANCEL;
        message.cancel = &rq;
        hash_out(c, w);
        if (rt_etcd_wire(c) != NULL && rt_etcd_wire(c)->watch_call != NULL &&
            rt_etcd_say(c, rt_etcd_wire(c)->watch_call, &message) != 0)
            rt_etcd_sicken(c, "the server does not read what is not to be watched any more");
    }
    drop(c, w);
}

void rt_etcd_watch_init(struct rt_etcd_conn *c)
{
    RT_RING_INIT(&c->watches);
}

void rt_etcd_watch_fini(struct rt_etcd_conn *c)
{
    while (!RT_RING_EMPTY(&c->watches))
        drop(c, c->watches.next);
    rt_free(c->buckets);
    c->buckets = NULL;
    c->bucket_count = 0;
}
