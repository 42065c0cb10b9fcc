/* SPDX-License-Identifier: Apache-2.0 */
/* Many keys as of one revision, whatever else is kept among them.
 *
 *   keys, page by page ──▶ those that are wanted ──▶ their values and leases, some at a time ──▶ told
 *
 * Values are read only for what may be a ticket: others keep megabytes beside us, and an answer has its limit.
 * Where some are too large for one answer, fewer are asked for. Leases come with the values: since 3.7 keys alone
 * have none. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"

#define PAGE 1000   /* keys */
#define EACH_MAX 64 /* values */
#define AGAIN_MAX 3 /* restarts, when the revision was compacted under us */

static int send_page(struct rt_etcd_conn *c, struct rt_etcd_gather *g);
static int send_values(struct rt_etcd_conn *c, struct rt_etcd_gather *g);

void rt_etcd_gather_fini(struct rt_etcd_gather *g)
{
    rt_free(g->kvs);
    rt_arena_fini(&g->arena);
    g->kvs = NULL;
    g->count = g->room = 0;
}

static int no_room(struct rt_etcd_conn *c)
{
    return rt_etcd_fail(c, ROTA_NOMEM, "out of memory, or too many keys");
}

static int start_again(struct rt_etcd_conn *c, struct rt_etcd_gather *g)
{
    g->count = g->valued = g->last_size = 0;
    g->revision = 0;
    g->more = false;
    rt_arena_reset(&g->arena);
    return send_page(c, g);
}

static bool is_compacted(struct rt_etcd_gather *g, const struct rt_etcd_ask *a, int err)
{
    return err != 0 && a->reason == RT_ETCD_COMPACTED && ++g->tries < AGAIN_MAX;
}

/* ---- Values ------------------------------------------------------------------------------------ */

static ProtobufCBinaryData copy(struct rt_etcd_gather *g, const ProtobufCBinaryData *from,
                                size_t most)
{
    size_t n = from->len < most ? from->len : most;
    ProtobufCBinaryData to = {n, rt_arena_get(&g->arena, n + 1)};
    if (to.data != NULL && n > 0)
        memcpy(to.data, from->data, n);
    return to;
}

static int take_values(struct rt_etcd_conn *c, struct rt_etcd_gather *g,
                       const RtEtcd__TxnResponse *reply)
{
    for (size_t i = 0; i < reply->n_responses && g->valued < g->count; i++) {
        const RtEtcd__RangeResponse *got = rt_etcd_got(reply, i);
        RtEtcd__KeyValue *kv = g->kvs[g->valued];
        if (got == NULL || got->n_kvs != 1)
            return rt_etcd_odd(c);
        kv->lease = got->kvs[0]->lease;
        kv->value = copy(g, &got->kvs[0]->value, RT_ETCD_CARD_MAX); /* no ticket of ours has more */
        if (kv->value.data == NULL)
            return no_room(c);
        g->valued++;
    }
    return 0;
}

static void values_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_gather *g = a->owner;
    if (is_compacted(g, a, err)) {
        err = start_again(c, g);
        if (err == 0)
            return;
    } else if (err != 0 && a->reason == RT_ETCD_TOO_LARGE) {
        if (g->each == 1)
            g->valued++; /* what it says is not known */
        g->each = (g->each + 1) / 2;
        err = 0;
    } else if (err == 0) {
        err = take_values(c, g, reply);
        g->each = g->each * 2 < EACH_MAX ? g->each * 2 : EACH_MAX;
    }
    if (err == 0 && g->valued < g->count) {
        err = send_values(c, g);
        if (err == 0)
            return;
    }
    g->fn(c, g, err);
}

static int send_values(struct rt_etcd_conn *c, struct rt_etcd_gather *g)
{
    struct rt_etcd_txn t;
    rt_etcd_txn_open(c, &t, 0, EACH_MAX, 0);
    for (size_t i = g->valued; i < g->count && i < g->valued + g->each; i++)
        rt_etcd_get(&t, RT_ETCD_THEN, g->kvs[i]->key.data, g->kvs[i]->key.len)->revision =
            g->revision;
    return rt_etcd_work_txn(c, g->work, &t, values_seen, g);
}

/* ---- Keys -------------------------------------------------------------------------------------- */

static int keep(struct rt_etcd_conn *c, struct rt_etcd_gather *g, const RtEtcd__KeyValue *kv)
{
    if (!rt_grow(&g->kvs, &g->room, g->count + 1, sizeof(RtEtcd__KeyValue *)))
        return no_room(c);
    RtEtcd__KeyValue *mine = rt_arena_get(&g->arena, sizeof(*mine));
    if (mine == NULL)
        return no_room(c);
    *mine = *kv;
    mine->lease = 0;
    mine->key = copy(g, &kv->key, kv->key.len);
    mine->value = (ProtobufCBinaryData){0, mine->key.data};
    if (mine->key.data == NULL)
        return no_room(c);
    g->kvs[g->count++] = mine;
    return 0;
}

static int read_page(struct rt_etcd_conn *c, struct rt_etcd_gather *g,
                     const RtEtcd__RangeResponse *got)
{
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < got->n_kvs; i++)
        if (g->wants(c, got->kvs[i]))
            rv = keep(c, g, got->kvs[i]);
    if (g->revision == 0)
        g->revision = rt_etcd_revision(got->header);
    g->more = got->more && got->n_kvs > 0;
    if (rv != 0 || !g->more)
        return rv;
    const ProtobufCBinaryData *last = &got->kvs[got->n_kvs - 1]->key;
    /* A key longer than any of ours: no other key with the same beginning is ours either. */
    g->last_size = last->len < RT_ETCD_KEY_MAX ? last->len : RT_ETCD_KEY_MAX;
    memcpy(g->last, last->data, g->last_size);
    g->last[g->last_size++] = last->len < RT_ETCD_KEY_MAX ? '\0' : '\x7f';
    return 0;
}

static void page_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_gather *g = a->owner;
    bool sent = false;
    if (is_compacted(g, a, err)) {
        err = start_again(c, g);
        sent = true;
    } else if (err == 0) {
        err = read_page(c, g, reply);
        if (err == 0 && g->more && !g->one_page) {
            err = send_page(c, g);
            sent = true;
        } else if (err == 0 && g->count > 0) {
            err = send_values(c, g);
            sent = true;
        }
    }
    if (err != 0 || !sent)
        g->fn(c, g, err);
}

static int send_page(struct rt_etcd_conn *c, struct rt_etcd_gather *g)
{
    RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
    char end[sizeof(g->end)];
    memcpy(end, g->end, sizeof(end));
    range.key.data = (uint8_t *)(g->last_size > 0 ? g->last : g->begin);
    range.key.len = g->last_size > 0 ? g->last_size : g->begin_size;
    range.range_end.data = (uint8_t *)end;
    range.range_end.len = g->end_size;
    range.limit = PAGE;
    range.revision = g->revision;
    range.keys_only = true;
    return rt_etcd_work_ask(c, g->work, RT_ETCD_RANGE, &range, page_seen, g, 0);
}

int rt_etcd_gather(struct rt_etcd_conn *c, struct rt_etcd_gather *g, struct rt_work *w,
                   bool (*wants)(struct rt_etcd_conn *c, const RtEtcd__KeyValue *kv),
                   void (*fn)(struct rt_etcd_conn *c, struct rt_etcd_gather *g, int err))
{
    g->arena = RT_ETCD_ARENA;
    g->work = w;
    g->wants = wants;
    g->fn = fn;
    g->each = EACH_MAX;
    return send_page(c, g);
}

/* ---- Which ------------------------------------------------------------------------------------- */

/* Writes the first key behind all that begin with PREFIX into OUT (as large); returns its size; 0: there is none. */
static size_t prefix_end(const char *prefix, char *out)
{
    size_t n = strlen(prefix);
    memcpy(out, prefix, n + 1);
    while (n > 0 && (unsigned char)out[n - 1] == 0xff)
        n--;
    if (n > 0)
        out[n - 1]++;
    return n;
}

void rt_etcd_gather_prefix(struct rt_etcd_gather *g, const char *prefix)
{
    g->begin_size = strlen(prefix);
    memcpy(g->begin, prefix, g->begin_size + 1);
    g->end_size = prefix_end(prefix, g->end);
    if (g->begin_size == 0)
        g->begin_size = 1; /* "\0": from the beginning of all */
    if (g->end_size == 0) {
        g->end[0] = '\0'; /* to the end of all */
        g->end_size = 1;
    }
}

void rt_etcd_gather_line(struct rt_etcd_gather *g, const char *name)
{
    g->begin_size = rt_etcd_line_begin(g->begin, name);
    g->end_size = rt_etcd_line_end(g->end, name);
}
