/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a model etcd: ranges, filters, orders, also at earlier revisions. */
#include "sim/etcd/store.h"

#include <assert.h>
#include <string.h>

void *es_new(struct rt_arena *arena, size_t size)
{
    void *p = rt_arena_get(arena, size > 0 ? size : 1);
    assert(p != NULL);
    memset(p, 0, size);
    return p;
}

int es_text_order(struct es_text a, struct es_text b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.at, b.at, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

bool es_text_within(struct es_text key, struct es_text begin, struct es_text end)
{
    if (end.n == 0)
        return es_text_order(key, begin) == 0;
    if (es_text_order(key, begin) < 0)
        return false;
    return (end.n == 1 && end.at[0] == 0) || es_text_order(key, end) < 0;
}

/* ---- Messages ----------------------------------------------------------- */

static ProtobufCBinaryData data_of(struct rt_arena *arena, struct es_text text)
{
    ProtobufCBinaryData data = {text.n, es_new(arena, text.n)};
    if (text.n > 0)
        memcpy(data.data, text.at, text.n);
    return data;
}

RtEtcd__KeyValue *es_kv_message(struct rt_arena *arena, const struct es_kv *kv, bool key_only)
{
    RtEtcd__KeyValue *m = es_new(arena, sizeof(*m));
    rt_etcd__key_value__init(m);
    m->key = data_of(arena, kv->key);
    if (!key_only)
        m->value = data_of(arena, kv->value);
    m->create_revision = kv->create;
    m->mod_revision = kv->mod;
    m->version = kv->version;
    m->lease = kv->lease;
    return m;
}

RtEtcd__Event *es_event(struct rt_arena *arena, const struct es_change *change)
{
    RtEtcd__Event *e = es_new(arena, sizeof(*e));
    rt_etcd__event__init(e);
    if (change->after != NULL) {
        e->kv = es_kv_message(arena, change->after, false);
        return e;
    }
    e->type = RT_ETCD__EVENT__TYPE__DELETE;
    e->kv = es_kv_message(arena, change->before, true);
    e->kv->create_revision = e->kv->version = e->kv->lease = 0;
    e->kv->mod_revision = change->revision;
    return e;
}

RtEtcd__Header *es_header(struct rt_arena *arena, int64_t revision)
{
    RtEtcd__Header *h = es_new(arena, sizeof(*h));
    rt_etcd__header__init(h);
    h->revision = revision;
    return h;
}

/* ---- Scanning ----------------------------------------------------------- */

static const struct es_kv **scan_now(const struct es_store *s, struct rt_arena *arena,
                                     struct es_text begin, struct es_text end, size_t *n)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (es_text_order(s->kvs[mid]->key, begin) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (high = low; high < s->count && es_text_within(s->kvs[high]->key, begin, end);)
        high++;
    const struct es_kv **out = es_new(arena, (high - low) * sizeof(*out));
    for (*n = 0; low < high; low++)
        out[(*n)++] = s->kvs[low];
    return out;
}

/* Takes CHANGE back in KVS. */
static void undo(const struct es_kv **kvs, size_t *n, const struct es_change *change)
{
    struct es_text key = change->after != NULL ? change->after->key : change->before->key;
    size_t at = 0;
    while (at < *n && es_text_order(kvs[at]->key, key) < 0)
        at++;
    bool there = at < *n && es_text_order(kvs[at]->key, key) == 0;
    assert(there == (change->after != NULL));
    if (there && change->before != NULL) {
        kvs[at] = change->before;
    } else if (there) {
        memmove(&kvs[at], &kvs[at + 1], (--*n - at) * sizeof(*kvs));
    } else {
        memmove(&kvs[at + 1], &kvs[at], ((*n)++ - at) * sizeof(*kvs));
        kvs[at] = change->before;
    }
}

const struct es_kv **es_scan(const struct es_store *s, struct rt_arena *arena, struct es_text begin,
                             struct es_text end, int64_t view, size_t *n)
{
    const struct es_kv **now = scan_now(s, arena, begin, end, n);
    size_t back = 0;
    if (view == 0 || view >= s->revision)
        return now;
    while (back < s->log_count && s->log[s->log_count - 1 - back].revision > view)
        back++;
    const struct es_kv **out = es_new(arena, (*n + back) * sizeof(*out));
    memcpy(out, now, *n * sizeof(*out));
    for (size_t i = 0; i < back; i++) {
        const struct es_change *change = &s->log[s->log_count - 1 - i];
        const struct es_kv *kv = change->after != NULL ? change->after : change->before;
        if (es_text_within(kv->key, begin, end))
            undo(out, n, change);
    }
    return out;
}

/* ---- Ranges ------------------------------------------------------------- */

static bool passes(const struct es_kv *kv, const RtEtcd__RangeRequest *rq)
{
    return (rq->min_mod_revision == 0 || kv->mod >= rq->min_mod_revision) &&
           (rq->max_mod_revision == 0 || kv->mod <= rq->max_mod_revision) &&
           (rq->min_create_revision == 0 || kv->create >= rq->min_create_revision) &&
           (rq->max_create_revision == 0 || kv->create <= rq->max_create_revision);
}

/* Without an order and filters etcd reads no more keys than it needs, even if it sorts them afterwards. */
static bool cuts_early(const RtEtcd__RangeRequest *rq)
{
    return rq->limit > 0 && rq->order == RT_ETCD__ORDER__ORDER_NONE && rq->min_mod_revision == 0 &&
           rq->max_mod_revision == 0 && rq->min_create_revision == 0 &&
           rq->max_create_revision == 0;
}

static int64_t compare(const struct es_kv *a, const struct es_kv *b, RtEtcd__By by)
{
    switch (by) {
    case RT_ETCD__BY__BY_VERSION:
        return a->version - b->version;
    case RT_ETCD__BY__BY_CREATE:
        return a->create - b->create;
    case RT_ETCD__BY__BY_MOD:
        return a->mod - b->mod;
    case RT_ETCD__BY__BY_VALUE:
        return es_text_order(a->value, b->value);
    default:
        return es_text_order(a->key, b->key);
    }
}

/* Stable, as Go's sort is for up to a dozen. */
static void sort(const struct es_kv **kvs, size_t n, RtEtcd__By by, bool down)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0; k--) {
            int64_t order = compare(kvs[k], kvs[k - 1], by);
            if (down ? order <= 0 : order >= 0)
                break;
            const struct es_kv *kv = kvs[k];
            kvs[k] = kvs[k - 1];
            kvs[k - 1] = kv;
        }
}

struct es_answer es_range(const struct es_store *s, struct rt_arena *arena,
                          const RtEtcd__RangeRequest *rq, int64_t view)
{
    size_t n, left = 0;
    int64_t seen = view != 0 ? view : s->revision;
    if (rq->revision > seen)
        return (struct es_answer){RT_GRPC_OUT_OF_RANGE,
                                  "etcdserver: mvcc: required revision is a future revision", NULL};
    if (rq->revision > 0 && rq->revision < s->compacted)
        return (struct es_answer){RT_GRPC_OUT_OF_RANGE,
                                  "etcdserver: mvcc: required revision has been compacted", NULL};
    const struct es_kv **kvs = es_scan(s, arena, es_text_of(rq->key), es_text_of(rq->range_end),
                                       rq->revision > 0 ? rq->revision : view, &n);
    RtEtcd__RangeResponse *m = es_new(arena, sizeof(*m));
    rt_etcd__range_response__init(m);
    m->header = es_header(arena, seen);
    m->count = (int64_t)n;
    if (rq->count_only)
        return (struct es_answer){RT_GRPC_OK, "", m};
    if (cuts_early(rq) && n > (size_t)rq->limit + 1)
        n = (size_t)rq->limit + 1;
    for (size_t i = 0; i < n; i++)
        if (passes(kvs[i], rq))
            kvs[left++] = kvs[i];
    if (rq->order != RT_ETCD__ORDER__ORDER_NONE || rq->by != RT_ETCD__BY__BY_KEY)
        sort(kvs, left, rq->by, rq->order == RT_ETCD__ORDER__ORDER_DESCEND);
    m->more = rq->limit > 0 && left > (size_t)rq->limit;
    m->n_kvs = m->more ? (size_t)rq->limit : left;
    m->kvs = es_new(arena, m->n_kvs * sizeof(*m->kvs));
    for (size_t i = 0; i < m->n_kvs; i++)
        m->kvs[i] = es_kv_message(arena, kvs[i], rq->keys_only);
    return (struct es_answer){RT_GRPC_OK, "", m};
}
