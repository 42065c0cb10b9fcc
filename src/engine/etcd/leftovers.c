/* SPDX-License-Identifier: Apache-2.0 */
/* What should have ended and has not: sessions whose lease is over (etcd #14019, #10686: its end was lost), and
 * tickets that no lease will ever end (copied by make-mirror, detached by a bug).
 *
 *   the keys under our prefix ──▶ how long each session's lease still lives ──▶ told
 *
 * The doctor counts them. A ticket of ours without a lease is also taken out by whoever waits behind it; what
 * merely has the key of a ticket may be anybody's data, and nobody touches it. */
#include "engine/etcd/ops.h"

#include <stdio.h>

#define OVERDUE_S (-2) /* a lease that is just over is revoked within half a second; -1: unknown */

bool rt_etcd_is_ours(const struct rt_etcd_id *id, const struct rt_etcd_card *card)
{
    return id->ours && !card->plain && card->nonce != 0 &&
           (id->spot != 0 || id->nonce == card->nonce);
}

bool rt_etcd_is_endless(const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_id id;
    struct rt_etcd_card card;
    size_t size;
    if (kv->lease != 0 || !rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id) || id.durable)
        return false;
    rt_etcd_card_read(&card, kv->value.data, kv->value.len);
    return rt_etcd_is_ours(&id, &card);
}

/* Stands in a line for ever as if it were a ticket: a real one, or somebody's data. */
static bool is_bare(const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_id id;
    struct rt_etcd_card card;
    size_t size;
    rt_etcd_card_read(&card, kv->value.data, kv->value.len);
    return kv->lease == 0 && rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id) && size > 0 &&
           id.session != 0 && !rt_etcd_is_ours(&id, &card);
}

static void over(struct rt_etcd_conn *c, struct rt_work *w, struct rt_etcd_leftovers *out)
{
    if (w->pending == 0)
        out->fn(c, w);
}

static void left_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_leftovers *out = a->owner;
    const RtEtcd__LeaseTimeToLiveResponse *got = reply;
    if (err == 0 && got->ttl <= OVERDUE_S && out->dead_sessions++ == 0)
        out->dead_session = a->extra;
    over(c, out->work, out);
}

static void take_key(struct rt_etcd_conn *c, struct rt_etcd_leftovers *out,
                     const RtEtcd__KeyValue *kv)
{
    const struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_etcd_id id;
    size_t size, prefix = s->sessions_size - strlen(RT_ETCD_SESSIONS);
    if (kv->key.len > s->sessions_size &&
        memcmp(kv->key.data, s->sessions, s->sessions_size) == 0) {
        out->sessions++;
        RtEtcd__LeaseTimeToLiveRequest left = RT_ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
        left.id = kv->lease;
        if (kv->lease != 0) /* without memory it is not counted */
            (void)rt_etcd_work_ask(c, out->work, RT_ETCD_LEASE_LEFT, &left, left_seen, out,
                                   (uint64_t)kv->lease);
    } else if (rt_etcd_is_endless(kv)) {
        if (out->endless++ > 0)
            return;
        (void)rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id);
        out->number = (uint64_t)kv->create_revision;
        size = size >= prefix && size - prefix < sizeof(out->name) ? size - prefix : 0;
        memcpy(out->name, kv->key.data + prefix, size);
        out->name[size] = '\0';
    } else if (is_bare(kv) && out->bare++ == 0) {
        (void)snprintf(out->bare_key, sizeof(out->bare_key), "%.*s", (int)kv->key.len,
                       (const char *)kv->key.data);
    }
}

static bool is_candidate(struct rt_etcd_conn *c, const RtEtcd__KeyValue *kv)
{
    const struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_etcd_id id;
    size_t size;
    return (kv->key.len > s->sessions_size &&
            memcmp(kv->key.data, s->sessions, s->sessions_size) == 0) ||
           (rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id) && id.session != 0);
}

static void gathered(struct rt_etcd_conn *c, struct rt_etcd_gather *g, int err)
{
    struct rt_etcd_leftovers *out =
        (struct rt_etcd_leftovers *)(void *)((char *)g - offsetof(struct rt_etcd_leftovers, keys));
    struct rt_work *w = g->work;
    out->known = err == 0;
    w->pending++; /* until all are begun */
    for (size_t i = 0; err == 0 && i < out->keys.count; i++)
        take_key(c, out, out->keys.kvs[i]);
    out->more = err == 0 && out->keys.more;
    w->pending--;
    over(c, w, out);
}

void rt_etcd_leftovers_fini(struct rt_etcd_leftovers *out)
{
    rt_etcd_gather_fini(&out->keys);
}

/* Looks at a thousand keys, the first by name; sessions come before names. */
int rt_etcd_leftovers(struct rt_etcd_conn *c, struct rt_work *w, struct rt_etcd_leftovers *out,
                      void (*fn)(struct rt_etcd_conn *c, struct rt_work *w))
{
    *out = (struct rt_etcd_leftovers){.work = w, .fn = fn, .keys = {.one_page = true}};
    rt_etcd_gather_prefix(&out->keys, rt_etcd_prefix(c));
    return rt_etcd_gather(c, &out->keys, w, is_candidate, gathered);
}
