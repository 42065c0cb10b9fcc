/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE: takes out a ticket of ours, if it is that very one (create_revision).
 *
 * Most are in our table: one flight. Others (a durable one of another process, one whose JOIN was never
 * answered) are looked for first, or deleted by both keys their nonce may have, and then looked for.
 * What if the reply is lost: sent again, it finds nothing, and says that it does not know. */
#include "engine/etcd/ops.h"

#include "base/bug.h"
#include "core/grant.h"

struct leaving {
    struct rt_work work; /* first */
    uint64_t number;
    int64_t lease;       /* of its own, to be revoked; 0: none */
    int64_t short_lease; /* for what is marked: no longer than it must be; 0: it stays on its own */
    bool granted, look, marked;
    size_t size;
    char key[RT_ETCD_KEY_MAX];
};

static struct rt_etcd_ticket *ticket_of(struct rt_etcd_conn *c, const struct rt_op *op)
{
    return rt_etcd_ticket_find(c, op->leave.name, op->leave.session, op->leave.number,
                               op->leave.nonce);
}

/* It is out of the line. */
static void gone(struct rt_etcd_conn *c, struct leaving *l)
{
    struct rt_op *op = l->work.op;
    struct rt_etcd_ticket *t = ticket_of(c, op);
    op->leave.granted = l->granted;
    if (t != NULL && l->marked)
        rt_etcd_least_left(c, t, l->short_lease);
    else if (l->short_lease != 0) /* its time was over before */
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)l->short_lease);
    if (t != NULL)
        rt_etcd_ticket_drop(c, t);
    if (l->lease != 0)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)l->lease);
    if (op->leave.number == 0)
        rt_etcd_doubts_end(rt_etcd_s(c), op->leave.session, op->leave.nonce);
    rt_etcd_work_end(c, &l->work, 0);
}

/* As far as we know it is where it was. */
static void stays(struct rt_etcd_conn *c, struct leaving *l, int err)
{
    struct rt_etcd_ticket *t = ticket_of(c, l->work.op);
    if (t != NULL) {
        t->leaving = false;
        rt_etcd_least_refused(c, t);
    }
    rt_etcd_work_end(c, &l->work, err);
}

static void missing(struct rt_etcd_conn *c, struct leaving *l, bool was_again)
{
    struct rt_op *op = l->work.op;
    struct rt_etcd_ticket *t = ticket_of(c, op);
    rt_etcd_s(c)->session.doubtful = true; /* it may be on its way, or not seen by a stale look */
    if (l->short_lease != 0)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)l->short_lease);
    if (t != NULL)
        rt_etcd_ticket_drop(c, t);
    if (op->leave.number == 0)
        rt_etcd_doubts_end(rt_etcd_s(c), op->leave.session, op->leave.nonce);
    int rv = rt_words_no_ticket(rt_etcd_base(c), op->leave.name);
    if (was_again) /* perhaps by the first of our tries */
        rv = rt_etcd_fail(c, ROTA_UNKNOWN, "%.120s: left, or gone before", op->leave.name);
    if (RT_BUG(RT_BUG_MISSING_IS_LEFT))
        rv = 0;
    rt_etcd_work_end(c, &l->work, rv);
}

/* Whether it held, by the line as it was before. */
static int read_granted(struct rt_etcd_conn *c, struct leaving *l, const RtEtcd__RangeResponse *all)
{
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    if (all == NULL)
        return rt_etcd_odd(c);
    if (rt_etcd_line_read(line, all->kvs, all->n_kvs) != 0)
        return rt_etcd_fail(c, ROTA_UNKNOWN, "out of memory");
    const struct rt_etcd_place *place = rt_etcd_line_find(line, l->number);
    l->granted = place != NULL && place->granted;
    return 0;
}

static void mark(struct rt_etcd_conn *c, struct leaving *l);

static void left(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct leaving *l = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    if (a->reason == RT_ETCD_NO_LEASE && l->short_lease != 0) { /* the lease ended first */
        l->short_lease = 0;
        mark(c, l);
        return;
    }
    if (err == 0 && !got->succeeded) {
        missing(c, l, a->entry.was_again);
        return;
    }
    if (err == 0 && l->look)
        err = read_granted(c, l, rt_etcd_got(got, 0));
    if (err == 0 && l->marked)
        rt_etcd_s(c)->marked_at = rt_etcd_revision(got->header);
    if (err != 0)
        stays(c, l, err);
    else
        gone(c, l);
}

/* It stays, owned by nobody, until its lease ends. */
static void add_mark(struct rt_etcd_conn *c, struct rt_etcd_txn *txn,
                     const struct rt_etcd_ticket *t, int64_t lease)
{
    char text[RT_ETCD_CARD_MAX];
    struct rt_etcd_card card = {.mode = t->mode,
                                .take = t->take,
                                .of = t->of,
                                .flags = RT_ETCD_CARD_LEFT,
                                .since_ms = rt_etcd_wall_ms(),
                                .nonce = t->nonce};
    rt_etcd_label(c, &card);
    size_t size = rt_etcd_card_write(&card, text);
    RtEtcd__PutRequest *put = rt_etcd_put(txn, RT_ETCD_THEN, t->key, t->key_size);
    rt_etcd_put_value(txn, put, text, size);
    put->lease = lease;
    put->ignore_lease = lease == 0;
}

/* KEY and number are known. */
static int send_leave(struct rt_etcd_conn *c, struct leaving *l, const struct rt_etcd_ticket *t)
{
    struct rt_etcd_txn txn;
    rt_etcd_txn_open(c, &txn, 1, 2, 0);
    rt_etcd_if_created(&txn, l->key, l->size, l->number);
    if (l->look)
        (void)rt_etcd_get_line(&txn, RT_ETCD_THEN, l->work.op->leave.name);
    if (l->marked)
        add_mark(c, &txn, t, l->short_lease);
    else
        rt_etcd_delete(&txn, RT_ETCD_THEN, l->key, l->size);
    return rt_etcd_work_txn(c, &l->work, &txn, left, l);
}

/* Marks it if its time is not over yet; else it goes. */
static void mark(struct rt_etcd_conn *c, struct leaving *l)
{
    struct rt_etcd_ticket *t = ticket_of(c, l->work.op);
    if (t == NULL) { /* lost meanwhile */
        missing(c, l, false);
        return;
    }
    l->marked = rt_etcd_least_holds(c, t);
    int err = send_leave(c, l, t);
    if (err != 0)
        stays(c, l, err);
}

/* The lease for the marked key was granted, or cannot be had: then the key stays on its own. */
static void lease_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err,
                           const void *reply)
{
    struct leaving *l = a->owner;
    const RtEtcd__LeaseGrantResponse *got = reply;
    if (err == 0)
        l->short_lease = got->id;
    mark(c, l);
}

/* Its own lease lasts a ttl longer than its time, for the deadline of its holder; now nobody holds it. */
static int ask_short_lease(struct rt_etcd_conn *c, struct leaving *l,
                           const struct rt_etcd_ticket *t)
{
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    grant.ttl = rt_etcd_least_seconds(c, t);
    return rt_etcd_work_ask(c, &l->work, RT_ETCD_LEASE_GRANT, &grant, lease_answered, l, 0);
}

static int leave_known(struct rt_etcd_conn *c, struct leaving *l, struct rt_etcd_ticket *t)
{
    t->leaving = true;
    l->number = t->number;
    l->granted = t->granted;
    l->look = !t->granted;
    l->marked = rt_leave_keeps(l->work.op) && rt_etcd_least_holds(c, t);
    l->lease = l->marked || t->least != NULL ? 0 : t->lease;
    l->size = t->key_size;
    memcpy(l->key, t->key, t->key_size);
    return l->marked ? ask_short_lease(c, l, t) : send_leave(c, l, t);
}

/* ---- Not in our table --------------------------------------------------------------------------- */

static void found(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct leaving *l = a->owner;
    const RtEtcd__RangeResponse *all = rt_etcd_seen(c, reply, 0, &err);
    const struct rt_op *op = l->work.op;
    struct rt_etcd_id id = {0};
    size_t name_size;
    if (err != 0) {
        rt_etcd_work_end(c, &l->work, err);
        return;
    }
    const RtEtcd__KeyValue *kv = all->n_kvs > 0 ? all->kvs[0] : NULL;
    if (kv == NULL || !rt_etcd_key_read(kv->key.data, kv->key.len, &name_size, &id) || !id.ours ||
        id.session != op->leave.session || kv->key.len >= sizeof(l->key)) {
        missing(c, l, false);
        return;
    }
    l->size = kv->key.len;
    memcpy(l->key, kv->key.data, kv->key.len);
    if (id.durable || (uint64_t)kv->lease != id.session)
        l->lease = kv->lease;
    err = send_leave(c, l, NULL);
    if (err != 0)
        rt_etcd_work_end(c, &l->work, err);
}

static int find_number(struct rt_etcd_conn *c, struct leaving *l)
{
    const struct rt_op *op = l->work.op;
    l->look = true;
    l->number = op->leave.number;
    return rt_etcd_work_look(c, &l->work, op->leave.name, op->leave.number, found, l);
}

/* The ticket with the op's nonce among those at spots; NULL: none. */
static const RtEtcd__KeyValue *find_at_spot(const struct rt_op *op,
                                            const RtEtcd__RangeResponse *all)
{
    for (size_t i = 0; all != NULL && i < all->n_kvs; i++) {
        const RtEtcd__KeyValue *kv = all->kvs[i];
        struct rt_etcd_card card;
        struct rt_etcd_id id;
        size_t name_size;
        rt_etcd_card_read(&card, kv->value.data, kv->value.len);
        if (rt_etcd_key_read(kv->key.data, kv->key.len, &name_size, &id) && id.spot != 0 &&
            id.session == op->leave.session && card.nonce == op->leave.nonce &&
            kv->key.len < RT_ETCD_KEY_MAX)
            return kv;
    }
    return NULL;
}

/* By nonce: it had one of the two keys, or it is at a spot, where it still stands. */
static void left_by_nonce(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct leaving *l = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    const RtEtcd__KeyValue *kv = NULL;
    for (size_t i = 1; err == 0 && i <= 2; i++) {
        const RtEtcd__RangeResponse *one = rt_etcd_got(got, i);
        if (one != NULL && one->n_kvs > 0)
            kv = one->kvs[0];
    }
    const RtEtcd__KeyValue *at_spot = NULL;
    if (err == 0 && kv == NULL)
        at_spot = find_at_spot(l->work.op, rt_etcd_got(got, 0));
    if (err == 0 && kv == NULL && at_spot == NULL) {
        missing(c, l, a->entry.was_again);
        return;
    }
    if (at_spot != NULL) {
        l->number = (uint64_t)at_spot->create_revision;
        l->look = true;
        l->size = at_spot->key.len;
        memcpy(l->key, at_spot->key.data, at_spot->key.len);
        err = send_leave(c, l, NULL);
        if (err == 0)
            return;
    } else if (err == 0) {
        l->number = (uint64_t)kv->create_revision;
        if ((uint64_t)kv->lease != l->work.op->leave.session)
            l->lease = kv->lease;
        err = read_granted(c, l, rt_etcd_got(got, 0));
    }
    if (err != 0)
        rt_etcd_work_end(c, &l->work, err);
    else
        gone(c, l);
}

static int leave_nonce(struct rt_etcd_conn *c, struct leaving *l)
{
    const struct rt_op *op = l->work.op;
    char key[2][RT_ETCD_KEY_MAX];
    size_t size[2];
    struct rt_etcd_txn txn;
    rt_etcd_txn_open(c, &txn, 0, 5, 0);
    (void)rt_etcd_get_line(&txn, RT_ETCD_THEN, op->leave.name);
    for (size_t i = 0; i < 2; i++) {
        size[i] = rt_etcd_key(key[i], op->leave.name, op->leave.session, i == 1, op->leave.nonce);
        (void)rt_etcd_get(&txn, RT_ETCD_THEN, key[i], size[i]);
    }
    for (size_t i = 0; i < 2; i++)
        rt_etcd_delete(&txn, RT_ETCD_THEN, key[i], size[i]);
    return rt_etcd_work_txn(c, &l->work, &txn, left_by_nonce, l);
}

static int begin_leave(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    struct leaving *l = (struct leaving *)(void *)w;
    const struct rt_op *op = w->op;
    int rv = rt_etcd_check_name(c, op->leave.name);
    struct rt_etcd_ticket *t = rv == 0 ? ticket_of(c, op) : NULL;
    if (rv == 0 && t != NULL)
        rv = leave_known(c, l, t);
    else if (rv == 0 && op->leave.number != 0)
        rv = find_number(c, l);
    else if (rv == 0)
        rv = leave_nonce(c, l);
    if (rv != 0)
        stays(c, l, rv);
    return 0;
}

const struct rt_turn_kind rt_etcd_leave = {.size = sizeof(struct leaving), .begin = begin_leave};
