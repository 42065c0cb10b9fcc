/* SPDX-License-Identifier: Apache-2.0 */
/* FORGET: the floor, then what is done and below it. */
#include "txn/journal/etcd/etcd.h"

#include "base/alloc.h"
#include "txn/journal/etcd/entry.h"
#include "txn/point.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SWEEP_RANGE 128 /* keys per look */
#define SWEEP_MOST 100  /* deletes per Txn: etcd takes 128 */

/* FORGET: the newest birth, the floor, then looks at SWEEP_RANGE keys, each followed by a Txn that deletes those that are
 * done. A->extra is the key after which the next look begins. */
struct sweep {
    struct rt_jetcd_key from, to, rows[SWEEP_MOST];
    size_t count;
    bool last, touched; /* touched: something may have changed */
    bool named;         /* those below the floor are done with: FROM and TO are named ones */
};

static void sweep_end(struct rt_jetcd *j, struct rt_journal_ask *a, int err)
{
    struct sweep *s = a->extra;
    if (err == ROTA_UNREACHABLE && s->touched)
        err = ROTA_UNKNOWN;
    rt_free(s);
    a->extra = NULL;
    rt_jetcd_end(j, a, err);
}

static void on_swept(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply);

static void on_old(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    struct sweep *s = a->extra;
    const RtEtcd__RangeResponse *r = reply;
    struct rt_entry_record record;
    struct rt_jetcd_message m;
    s->count = 0;
    rt_jetcd_message(&m);
    for (size_t i = 0; err == 0 && i < r->n_kvs; i++) {
        const RtEtcd__KeyValue *kv = r->kvs[i];
        if (kv->key.len >= sizeof(s->from.at) ||
            !rt_entry_read(kv->value.data, kv->value.len, &record)) {
            err = rt_jetcd_damaged(j);
            break;
        }
        memcpy(s->from.at, kv->key.data, kv->key.len);
        s->from.at[kv->key.len] = '\0';
        s->from.size = kv->key.len + 1;
        if (!record.done || (s->named && record.decided_ms >= a->in.forget.before_ms))
            continue;
        s->rows[s->count] = s->from;
        s->rows[s->count].size--;
        rt_jetcd_delete(&m, rt_jetcd_then(&m), rt_jetcd_data(&s->rows[s->count]));
        if (++s->count == SWEEP_MOST)
            break;
    }
    if (err != 0) {
        sweep_end(j, a, err);
        return;
    }
    s->last = !r->more && s->count < SWEEP_MOST;
    if (s->last && !s->named) {
        struct rt_txn_id first = rt_txn_id_first_named(j->desk.number);
        s->named = true;
        s->last = false;
        rt_jetcd_key_of(&s->from, j, &first);
        rt_jetcd_key(&s->to, j, "t0"); /* after all that begin with t/ */
    }
    err = s->count > 0 ? rt_jetcd_send_message(j, &m, a->in.deadline, on_swept, a) : 0;
    if (err != 0)
        sweep_end(j, a, err);
    else if (s->count == 0)
        on_swept(c, ask, 0, NULL);
}

static int look_old(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    RtEtcd__RangeRequest r = RT_ETCD__RANGE_REQUEST__INIT;
    struct sweep *s = a->extra;
    r.key = rt_jetcd_data(&s->from);
    r.range_end = rt_jetcd_data(&s->to);
    r.limit = SWEEP_RANGE;
    return rt_jetcd_send_range(j, &r, a->in.deadline, on_old, a);
}

static void on_swept(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    struct sweep *s = a->extra;
    (void)reply;
    if (err == 0) {
        a->in.forget.count += (uint32_t)s->count;
        s->touched = s->touched || s->count > 0;
        a->in.forget.more = !s->last;
        if (!s->last && a->in.forget.count < RT_JOURNAL_PAGE_MAX)
            err = look_old(j, a);
        else {
            sweep_end(j, a, 0);
            return;
        }
    }
    if (err != 0)
        sweep_end(j, a, err);
}

static void on_raised(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    struct sweep *s = a->extra;
    const RtEtcd__TxnResponse *r = reply;
    if (err == 0) {
        s->touched = true;
        rt_point("forget-floor");
        err = rt_jetcd_check_meta(j, rt_jetcd_only(r, r->succeeded ? 1 : 0));
    }
    if (err == 0)
        err = rt_jetcd_floor_of(j, rt_jetcd_only(r, r->succeeded ? 2 : 1), &a->in.forget.floor_ms);
    if (err == 0)
        err = look_old(j, a);
    if (err != 0)
        sweep_end(j, a, err);
}

static int raise_floor(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    struct rt_jetcd_message m;
    struct rt_jetcd_key meta, floor;
    char value[16];
    struct sweep *s = a->extra;
    struct rt_txn_id below = rt_txn_id_make(j->desk.number, a->in.forget.floor_ms, 0);
    rt_jetcd_key(&meta, j, "meta");
    rt_jetcd_key(&floor, j, "floor");
    rt_jetcd_key(&s->from, j, "t/");
    rt_jetcd_key_of(&s->to, j, &below);
    snprintf(value, sizeof(value), "%012" PRIx64, (uint64_t)a->in.forget.floor_ms);
    rt_jetcd_message(&m);
    rt_jetcd_if_value(&m, rt_jetcd_data(&meta), RT_ETCD__COMPARE__RESULT__EQUAL, j->meta);
    rt_jetcd_if_value(&m, rt_jetcd_data(&floor), RT_ETCD__COMPARE__RESULT__LESS, value);
    rt_jetcd_put(&m, rt_jetcd_then(&m), rt_jetcd_data(&floor), rt_jetcd_text(value));
    (void)rt_jetcd_get(&m, rt_jetcd_then(&m), rt_jetcd_data(&meta));
    (void)rt_jetcd_get(&m, rt_jetcd_then(&m), rt_jetcd_data(&floor));
    (void)rt_jetcd_get(&m, rt_jetcd_otherwise(&m), rt_jetcd_data(&meta));
    (void)rt_jetcd_get(&m, rt_jetcd_otherwise(&m), rt_jetcd_data(&floor));
    return rt_jetcd_send_message(j, &m, a->in.deadline, on_raised, a);
}

/* The id in a record's key; false: that is no key of a record. */
static bool id_of_key(const struct rt_jetcd *j, const RtEtcd__KeyValue *kv, struct rt_txn_id *id)
{
    struct rt_jetcd_key t;
    char text[RT_TXN_ID_TEXT];
    rt_jetcd_key(&t, j, "t/");
    if (kv->key.len != t.size + RT_TXN_ID_TEXT - 1)
        return false;
    memcpy(text, kv->key.data + t.size, RT_TXN_ID_TEXT - 1);
    text[RT_TXN_ID_TEXT - 1] = '\0';
    return rt_txn_id_read(text, id);
}

static void on_newest(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    const RtEtcd__RangeResponse *r = reply;
    struct rt_txn_id id;
    if (err == 0 && r->n_kvs > 0 && !id_of_key(j, r->kvs[0], &id))
        err = rt_jetcd_damaged(j);
    if (err == 0) {
        rt_journal_ask_clamp(a, rt_jetcd_wall_ms(), r->n_kvs > 0 ? rt_txn_id_birth(&id) : 0);
        err = raise_floor(j, a);
    }
    if (err != 0)
        sweep_end(j, a, err);
}

/* etcd has no clock: all it knows of the time is the newest birth among its rows. */
int rt_jetcd_forget(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    RtEtcd__RangeRequest r = RT_ETCD__RANGE_REQUEST__INIT;
    struct sweep *s = rt_alloc(sizeof(*s));
    struct rt_txn_id named = rt_txn_id_first_named(j->desk.number);
    if (s == NULL)
        return rt_words_nomem(&j->base.base);
    rt_jetcd_key(&s->from, j, "t/");
    rt_jetcd_key_of(&s->to, j, &named);
    r.key = rt_jetcd_data(&s->from);
    r.range_end = rt_jetcd_data(&s->to);
    r.limit = 1;
    r.order = RT_ETCD__ORDER__ORDER_DESCEND;
    r.by = RT_ETCD__BY__BY_KEY;
    r.keys_only = true;
    a->in.forget.count = 0;
    a->in.forget.more = false;
    a->extra = s;
    int rv = rt_jetcd_send_range(j, &r, a->in.deadline, on_newest, a);
    if (rv != 0) {
        rt_free(s);
        a->extra = NULL;
    }
    return rv;
}
