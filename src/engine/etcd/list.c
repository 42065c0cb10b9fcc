/* SPDX-License-Identifier: Apache-2.0 */
/* LIST: all keys that begin so, page by page as of one revision, put together to lines. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"

#include <stdlib.h>

#define PAGE 500
#define AGAIN_MAX 3 /* from the beginning, when the revision was compacted under us */

static const char sessions[] = "+rota"; /* a name that is none */

struct listing {
    struct rt_etcd_work work; /* first */
    struct rt_etcd_arena arena;
    RtEtcd__KeyValue **kvs;
    size_t count, room;
    int64_t revision;
    uint32_t tries;
    char last[RT_ETCD_KEY_MAX + 1]; /* the next page begins behind it */
    size_t last_size;
};

size_t rt_etcd_list_size(const struct rt_op *op)
{
    (void)op;
    return sizeof(struct listing);
}

static void free_listing(struct rt_etcd_conn *c, struct rt_etcd_work *w)
{
    struct listing *l = (struct listing *)(void *)w;
    (void)c;
    rt_free(l->kvs);
    rt_etcd_arena_fini(&l->arena);
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

static int tell(struct rt_etcd_conn *c, struct listing *l)
{
    const struct rt_op *op = l->work.op;
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    char name[RT_NAME_ROOM];
    if (l->count > 1)
        qsort(l->kvs, l->count, sizeof(RtEtcd__KeyValue *), by_name);
    for (size_t i = 0, end; i < l->count; i = end) {
        size_t size = name_size_of(l->kvs[i]);
        for (end = i + 1; end < l->count && by_name(&l->kvs[i], &l->kvs[end]) == 0;)
            end++;
        if (rt_etcd_line_read(line, l->kvs + i, end - i) != 0)
            return rt_etcd_fail(c, ROTA_NOMEM, "out of memory");
        memcpy(name, l->kvs[i]->key.data, size);
        name[size] = '\0';
        op->list.each(op->list.arg, name, line->count, line->count - line->waiting);
    }
    return 0;
}

/* ---- Collecting --------------------------------------------------------------------------------- */

/* Keys that are no tickets, of whom ever they are, are left alone: a foreign ticket is named by its lease. */
static bool is_ticket(const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_id id;
    size_t size, n = sizeof(sessions) - 1;
    if (!rt_etcd_key_read(kv->key.data, kv->key.len, &size, &id) || size == 0 ||
        size >= RT_NAME_ROOM || memchr(kv->key.data, '\0', kv->key.len) != NULL)
        return false;
    if (size >= n && memcmp(kv->key.data + size - n, sessions, n) == 0)
        return false;
    return id.ours || (id.session != 0 && (uint64_t)kv->lease == id.session);
}

static ProtobufCBinaryData copy(struct listing *l, const ProtobufCBinaryData *from)
{
    ProtobufCBinaryData to = {from->len, rt_etcd_arena_get(&l->arena, from->len + 1)};
    if (to.data != NULL && from->len > 0)
        memcpy(to.data, from->data, from->len);
    return to;
}

static int collect(struct rt_etcd_conn *c, struct listing *l, const RtEtcd__KeyValue *kv)
{
    if (l->count == l->room) {
        size_t room = l->room > 0 ? 2 * l->room : 64;
        RtEtcd__KeyValue **kvs = rt_realloc(l->kvs, room * sizeof(RtEtcd__KeyValue *));
        if (kvs == NULL)
            return rt_etcd_fail(c, ROTA_NOMEM, "out of memory");
        l->kvs = kvs;
        l->room = room;
    }
    RtEtcd__KeyValue *mine = rt_etcd_arena_get(&l->arena, sizeof(*mine));
    if (mine == NULL)
        return rt_etcd_fail(c, ROTA_NOMEM, "out of memory, or too many lines");
    *mine = *kv;
    mine->key = copy(l, &kv->key);
    mine->value = copy(l, &kv->value);
    if (mine->key.data == NULL || mine->value.data == NULL)
        return rt_etcd_fail(c, ROTA_NOMEM, "out of memory, or too many lines");
    l->kvs[l->count++] = mine;
    return 0;
}

static int send_page(struct rt_etcd_conn *c, struct listing *l);

static int again(struct rt_etcd_conn *c, struct listing *l)
{
    l->count = l->last_size = 0;
    l->revision = 0;
    rt_etcd_arena_reset(&l->arena);
    return send_page(c, l);
}

/* 1: there is more. */
static int read_page(struct rt_etcd_conn *c, struct listing *l, const RtEtcd__RangeResponse *got)
{
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < got->n_kvs; i++)
        if (is_ticket(got->kvs[i]))
            rv = collect(c, l, got->kvs[i]);
    if (rv != 0 || !got->more || got->n_kvs == 0)
        return rv;
    const ProtobufCBinaryData *last = &got->kvs[got->n_kvs - 1]->key;
    if (l->revision == 0)
        l->revision = rt_etcd_revision(got->header);
    /* A key longer than any of ours: what begins with its beginning is none of ours either. */
    l->last_size = last->len < RT_ETCD_KEY_MAX ? last->len : RT_ETCD_KEY_MAX;
    memcpy(l->last, last->data, l->last_size);
    l->last[l->last_size++] = last->len < RT_ETCD_KEY_MAX ? '\0' : '\x7f';
    return 1;
}

static void page_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct listing *l = a->owner;
    l->work.pending--;
    if (err != 0 && a->reason == RT_ETCD_COMPACTED && ++l->tries < AGAIN_MAX) {
        err = again(c, l);
        if (err == 0)
            return;
    } else if (err == 0) {
        err = read_page(c, l, reply);
        if (err == 1) {
            err = send_page(c, l);
            if (err == 0)
                return;
        } else if (err == 0) {
            err = tell(c, l);
        }
    }
    rt_etcd_work_end(c, &l->work, err);
}

size_t rt_etcd_prefix_end(const char *prefix, char *out)
{
    size_t n = strlen(prefix);
    memcpy(out, prefix, n + 1);
    while (n > 0 && (unsigned char)out[n - 1] == 0xff)
        n--;
    if (n > 0)
        out[n - 1]++;
    return n;
}

static int send_page(struct rt_etcd_conn *c, struct listing *l)
{
    const struct rt_op *op = l->work.op;
    const char *prefix = op->list.prefix != NULL ? op->list.prefix : "";
    RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
    char begin[RT_NAME_ROOM + 1] = "", end[RT_NAME_ROOM + 1] = "";
    size_t size = strlen(prefix), end_size = rt_etcd_prefix_end(prefix, end);
    memcpy(begin, prefix, size + 1);
    range.key.data = (uint8_t *)(l->last_size > 0 ? l->last : begin);
    range.key.len = l->last_size > 0 ? l->last_size : size > 0 ? size : 1;
    range.range_end.data = (uint8_t *)end;
    range.range_end.len = end_size > 0 ? end_size : 1; /* "\0": to the end of all */
    range.limit = PAGE;
    range.revision = l->revision;
    return rt_etcd_work_ask(c, &l->work, RT_ETCD_RANGE, &range, page_seen);
}

void rt_etcd_begin_list(struct rt_etcd_conn *c, struct rt_etcd_work *w)
{
    struct listing *l = (struct listing *)(void *)w;
    const struct rt_op *op = w->op;
    rt_etcd_arena_init(&l->arena);
    w->free = free_listing;
    int rv = 0;
    if (op->list.prefix != NULL && strlen(op->list.prefix) >= RT_NAME_ROOM)
        rv = rt_etcd_fail(c, ROTA_INVALID, "a prefix is too long");
    if (rv == 0)
        rv = send_page(c, l);
    if (rv != 0)
        rt_etcd_work_end(c, w, rv);
}
