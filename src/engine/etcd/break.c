/* SPDX-License-Identifier: Apache-2.0 */
/* BREAK: takes out anybody's ticket, and tells its session by touching that session's key. */
#include "engine/etcd/ops.h"

#define BATCH 60 /* durable tickets per step */

struct breaking {
    struct rt_work work; /* first */
    int64_t lease;       /* of the ticket's own: revoked too */
    bool any, tells;     /* some went already; the session is told in the same step */
    bool was_again;      /* an earlier try may have done it */
    bool effect;         /* something was done: from now on no definite error, but UNKNOWN */
    size_t size;
    char key[RT_ETCD_KEY_MAX];
};

static void end(struct rt_etcd_conn *c, struct breaking *b, int err)
{
    if (b->effect && err != 0 && err != ROTA_UNKNOWN)
        err = rt_etcd_fail(c, ROTA_UNKNOWN, "some tickets are left");
    rt_etcd_work_end(c, &b->work, err);
}

static int none_there(struct rt_etcd_conn *c, const struct breaking *b)
{
    return rt_words_no_such(rt_etcd_base(c), b->work.op->brk.name);
}

/* ---- One ------------------------------------------------------------------------------------------ */

static int send_one(struct rt_etcd_conn *c, struct breaking *b, uint64_t session);

static void broken(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct breaking *b = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    b->was_again = b->was_again || a->entry.was_again;
    if (err == 0 && !got->succeeded && b->tells) {
        err = send_one(c, b, 0); /* its session has no key */
        if (err != 0)
            end(c, b, err);
        return;
    }
    if (err == 0 && !got->succeeded)
        err = b->was_again ? rt_etcd_fail(c, ROTA_UNKNOWN, "broken, or gone before")
                           : none_there(c, b);
    if (err == 0 && b->lease != 0)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)b->lease);
    end(c, b, err);
}

static int send_one(struct rt_etcd_conn *c, struct breaking *b, uint64_t session)
{
    struct rt_etcd_txn t;
    b->tells = session != 0;
    rt_etcd_txn_open(c, &t, 2, 2, 0);
    rt_etcd_if_created(&t, b->key, b->size, b->work.op->brk.number);
    rt_etcd_delete(&t, RT_ETCD_THEN, b->key, b->size);
    if (session != 0) {
        char key[RT_ETCD_KEY_MAX];
        size_t size = rt_etcd_session_key(c, session, key);
        rt_etcd_if_present(&t, key, size);
        RtEtcd__PutRequest *put = rt_etcd_put(&t, RT_ETCD_THEN, key, size);
        put->ignore_value = put->ignore_lease = true;
    }
    return rt_etcd_work_txn(c, &b->work, &t, broken, b);
}

static void found(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct breaking *b = a->owner;
    const RtEtcd__RangeResponse *seen = rt_etcd_seen(c, reply, 0, &err);
    struct rt_etcd_id id = {0};
    struct rt_etcd_card card;
    size_t name_size;
    if (err == 0 && seen->n_kvs > 0 && seen->kvs[0]->key.len >= sizeof(b->key))
        err = rt_etcd_odd(c);
    if (err == 0 && seen->n_kvs == 0)
        err = none_there(c, b);
    if (err == 0) {
        const RtEtcd__KeyValue *kv = seen->kvs[0];
        (void)rt_etcd_key_read(kv->key.data, kv->key.len, &name_size, &id);
        b->size = kv->key.len;
        memcpy(b->key, kv->key.data, kv->key.len);
        rt_etcd_card_read(&card, kv->value.data, kv->value.len);
        if (rt_etcd_is_ours(&id, &card) && (id.durable || (uint64_t)kv->lease != id.session))
            b->lease = kv->lease; /* a foreign lease may have more keys than this */
        err = send_one(c, b, id.ours && !id.durable ? id.session : 0);
    }
    if (err != 0)
        end(c, b, err);
}

/* ---- All durable ones of a mode ----------------------------------------------------------------------- */

static int look_for_all(struct rt_etcd_conn *c, struct breaking *b);

static void batch_gone(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct breaking *b = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    b->effect = b->effect || (err == 0 && got->succeeded); /* else one has changed */
    if (err == 0)
        err = look_for_all(c, b);
    if (err != 0)
        end(c, b, err);
}

static void all_found(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct breaking *b = a->owner;
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    const RtEtcd__RangeResponse *all = rt_etcd_seen(c, reply, 0, &err);
    struct rt_etcd_txn t;
    size_t n = 0;
    if (err == 0 && rt_etcd_line_read(line, all->kvs, all->n_kvs) != 0)
        err = rt_words_nomem(rt_etcd_base(c));
    if (err == 0)
        rt_etcd_txn_open(c, &t, BATCH, BATCH, 0);
    for (size_t i = 0; err == 0 && i < line->count && n < BATCH; i++) {
        const struct rt_etcd_place *p = &line->places[i];
        bool durable = p->id.durable || p->card.flags & RT_ETCD_CARD_LEFT;
        if (!durable || p->card.mode != b->work.op->brk.mode || !rt_etcd_is_ours(&p->id, &p->card))
            continue;
        rt_etcd_if_changed_at(&t, p->kv->key.data, p->kv->key.len, p->kv->mod_revision);
        rt_etcd_delete(&t, RT_ETCD_THEN, p->kv->key.data, p->kv->key.len);
        n++;
    }
    b->any = b->any || n > 0;
    if (err == 0 && n > 0) {
        err = rt_etcd_work_txn(c, &b->work, &t, batch_gone, b);
        if (err == 0)
            return;
    }
    if (err == 0 && !b->any)
        err = none_there(c, b);
    end(c, b, err);
}

static int look_for_all(struct rt_etcd_conn *c, struct breaking *b)
{
    return rt_etcd_work_look(c, &b->work, b->work.op->brk.name, 0, all_found, b);
}

static int begin_break(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    const struct rt_op *op = w->op;
    int rv = rt_etcd_check_name(c, op->brk.name);
    return rv != 0 ? rv
                   : rt_etcd_work_look(c, w, op->brk.name, op->brk.number,
                                       op->brk.number == 0 ? all_found : found, w);
}

const struct rt_turn_kind rt_etcd_break = {.size = sizeof(struct breaking), .begin = begin_break};
