/* SPDX-License-Identifier: Apache-2.0 */
/* LIST: all keys with the prefix that may be tickets, grouped into lines. */
#include "engine/etcd/ops.h"

#include <stdlib.h>

static const char sessions[] = "+rota"; /* not a line's name */

struct listing {
    struct rt_work work; /* first */
    struct rt_etcd_gather keys;
};

static void free_listing(struct rt_conn *conn, struct rt_work *w)
{
    (void)conn;
    rt_etcd_gather_fini(&((struct listing *)(void *)w)->keys);
}

/* ---- Telling ---------------------------------------------------------------------------------- */

static size_t name_size_of(const RtEtcd__KeyValue *kv)
{
    size_t size = 0;
    struct rt_etcd_id id;
    (void)rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id);
    return size;
}

static int by_name(const void *a, const void *b)
{
    const RtEtcd__KeyValue *const *x = a, *const *y = b;
    size_t m = name_size_of(*x), n = name_size_of(*y);
    int order = memcmp((*x)->key.data, (*y)->key.data, m < n ? m : n);
    return order != 0 ? order : (m > n) - (m < n);
}

/* By its key it may be a ticket: one of ours, or one named after its lease as foreign ones are. */
static bool is_candidate(struct rt_etcd_conn *c, const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_id id;
    size_t size, n = sizeof(sessions) - 1;
    (void)c;
    if (!rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id) || size == 0 ||
        size >= RT_NAME_ROOM || memchr(kv->key.data, '\0', kv->key.len) != NULL)
        return false;
    if (size >= n && memcmp(kv->key.data + size - n, sessions, n) == 0)
        return false;
    return id.session != 0;
}

/* A foreign one without a lease is shown: nothing would end it. One on a lease other than its own is no ticket. */
static bool is_ticket(const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_id id;
    size_t size;
    (void)rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id);
    return id.ours || kv->lease == 0 || (uint64_t)kv->lease == id.session;
}

static int tell(struct rt_etcd_conn *c, struct listing *l)
{
    const struct rt_op *op = l->work.op;
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    RtEtcd__KeyValue **kvs = l->keys.kvs;
    size_t count = 0;
    char name[RT_NAME_ROOM];
    for (size_t i = 0; i < l->keys.count; i++)
        if (is_ticket(kvs[i]))
            kvs[count++] = kvs[i];
    if (count > 1)
        qsort(kvs, count, sizeof(RtEtcd__KeyValue *), by_name);
    for (size_t i = 0, end; i < count; i = end) {
        size_t size = name_size_of(kvs[i]);
        for (end = i + 1; end < count && by_name(&kvs[i], &kvs[end]) == 0;)
            end++;
        if (rt_etcd_line_read(line, kvs + i, end - i) != 0)
            return rt_words_nomem(rt_etcd_base(c));
        memcpy(name, kvs[i]->key.data, size);
        name[size] = '\0';
        op->list.each(op->list.arg, name, line->count, line->count - line->waiting);
    }
    return 0;
}

static void gathered(struct rt_etcd_conn *c, struct rt_etcd_gather *g, int err)
{
    struct rt_work *w = g->work;
    if (err == 0)
        err = tell(c, (struct listing *)(void *)w);
    rt_etcd_work_end(c, w, err);
}

static int begin_list(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    struct listing *l = (struct listing *)(void *)w;
    const char *prefix = w->op->list.prefix != NULL ? w->op->list.prefix : "";
    if (strlen(prefix) >= RT_NAME_ROOM)
        return rt_etcd_fail(c, ROTA_INVALID, "a prefix is too long");
    rt_etcd_gather_prefix(&l->keys, prefix);
    return rt_etcd_gather(c, &l->keys, w, is_candidate, gathered);
}

const struct rt_turn_kind rt_etcd_list = {
    .size = sizeof(struct listing), .begin = begin_list, .free = free_listing};
