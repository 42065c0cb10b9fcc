/* SPDX-License-Identifier: Apache-2.0 */
/* CHANGE: a ticket of ours is verified, given a value, downgraded, armed.
 *
 * Verifying and arming is one transaction that reads. A leader's new value is one that writes. The rest
 * reads the ticket first, because whatever else its value says must stay. */
#include "engine/etcd/ops.h"

#include "core/grant.h"

#include <stdlib.h>

#define TRIES 50

struct changing {
    struct rt_work work; /* first */
    uint32_t tries;
};

static struct rt_etcd_ticket *ticket_of(struct rt_etcd_conn *c, const struct rt_op *op)
{
    return rt_etcd_ticket_find(c, op->change.name, op->change.session, op->change.number, 0);
}

static void lost(struct rt_etcd_conn *c, struct changing *ch)
{
    struct rt_op *op = ch->work.op;
    struct rt_etcd_ticket *t = ticket_of(c, op);
    int rv = rt_words_no_ticket(rt_etcd_base(c), op->change.name);
    if (t != NULL && t->granted)
        rt_etcd_ticket_drop(c, t);
    rt_etcd_work_end(c, &ch->work, rv);
}

/* Done; OTHERS wait behind it. */
static void changed(struct rt_etcd_conn *c, struct changing *ch, bool others)
{
    struct rt_op *op = ch->work.op;
    struct rt_etcd_ticket *t = ticket_of(c, op);
    uint32_t what = op->change.what;
    if (t != NULL) {
        t->told = false; /* its client knows */
        t->armed = t->armed || what & RT_CHANGE_ARM;
        if (what & RT_CHANGE_DOWNGRADE) {
            t->mode = RT_SHARED;
            t->plain = false;
        }
        op->change.wanted = t->armed && others;
        t->wanted = op->change.wanted;
        if (t->wanted)
            rt_etcd_wait_end(c, t);
        else if (t->armed)
            rt_etcd_arm(c, t);
    } else {
        op->change.wanted = others && what & RT_CHANGE_ARM;
    }
    rt_etcd_work_end(c, &ch->work, 0);
}

/* ---- Verified, or a leader's value: one flight -------------------------------------------------- */

static void answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct changing *ch = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    if (err == 0 && !got->succeeded) {
        lost(c, ch);
        return;
    }
    const RtEtcd__RangeResponse *seen = rt_etcd_seen(c, got, 0, &err);
    if (err != 0) {
        rt_etcd_work_end(c, &ch->work, err);
        return;
    }
    const struct rt_etcd_ticket *t = ticket_of(c, ch->work.op);
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    bool others = seen->n_kvs > 0;
    if (t != NULL && t->mode != RT_EXCLUSIVE)
        others = rt_etcd_line_read(line, seen->kvs, seen->n_kvs) == 0 && line->waiting > 0;
    changed(c, ch, others);
}

static int send_short(struct rt_etcd_conn *c, struct changing *ch, const struct rt_etcd_ticket *t)
{
    const struct rt_op *op = ch->work.op;
    struct rt_etcd_txn txn;
    rt_etcd_txn_open(c, &txn, 1, 2, 0);
    rt_etcd_if_created(&txn, t->key, t->key_size, t->number);
    if (t->mode == RT_EXCLUSIVE)
        (void)rt_etcd_get_behind(&txn, RT_ETCD_THEN, op->change.name, t->number);
    else
        (void)rt_etcd_get_line(&txn, RT_ETCD_THEN, op->change.name);
    if (op->change.what & RT_CHANGE_VALUE) {
        const char *value = op->change.value;
        RtEtcd__PutRequest *put = rt_etcd_put(&txn, RT_ETCD_THEN, t->key, t->key_size);
        rt_etcd_put_value(&txn, put, value, strlen(value));
        put->ignore_lease = true;
    }
    return rt_etcd_work_txn(c, &ch->work, &txn, answered, ch);
}

/* ---- The rest: read, then written if nobody changed it meanwhile ------------------------------------ */

static int send_find(struct rt_etcd_conn *c, struct changing *ch);

static void written(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct changing *ch = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    if (err == 0 && !got->succeeded) { /* touched, or gone: look again */
        err = ++ch->tries < TRIES ? send_find(c, ch)
                                  : rt_etcd_fail(c, ROTA_UNREACHABLE, "%.120s changes all the time",
                                                 ch->work.op->change.name);
        if (err != 0)
            rt_etcd_work_end(c, &ch->work, err);
        return;
    }
    const RtEtcd__RangeResponse *seen = rt_etcd_seen(c, got, 1, &err);
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    if (err != 0)
        rt_etcd_work_end(c, &ch->work, err);
    else
        changed(c, ch, rt_etcd_line_read(line, seen->kvs, seen->n_kvs) == 0 && line->waiting > 0);
}

static void new_card(struct rt_etcd_conn *c, const struct rt_op *op, struct rt_etcd_card *card)
{
    if (op->change.what & RT_CHANGE_VALUE) {
        const char *value = op->change.value != NULL ? op->change.value : "";
        card->value = (const uint8_t *)value;
        card->value_size = strlen(value);
        if (card->plain && !rt_etcd_plain_fits(value)) {
            card->plain = false;
            rt_etcd_label(c, card);
        }
    }
    if (op->change.what & RT_CHANGE_DOWNGRADE) {
        card->mode = RT_SHARED;
        if (card->plain) {
            card->plain = false;
            card->since_ms = rt_etcd_wall_ms();
            rt_etcd_label(c, card);
        }
    }
}

static int send_write(struct rt_etcd_conn *c, struct changing *ch,
                      const struct rt_etcd_place *place)
{
    const struct rt_op *op = ch->work.op;
    struct rt_etcd_card card = place->card;
    char text[RT_ETCD_CARD_MAX];
    struct rt_etcd_txn txn;
    const ProtobufCBinaryData *key = &place->kv->key;
    if (op->change.what & RT_CHANGE_DOWNGRADE && card.mode != RT_EXCLUSIVE &&
        card.mode != RT_SHARED)
        return rt_words_not_exclusive(rt_etcd_base(c), op->change.name);
    new_card(c, op, &card);
    size_t size = rt_etcd_card_write(&card, text);
    rt_etcd_txn_open(c, &txn, 1, 2, 0);
    rt_etcd_if_changed_at(&txn, key->data, key->len, place->kv->mod_revision);
    RtEtcd__PutRequest *put = rt_etcd_put(&txn, RT_ETCD_THEN, key->data, key->len);
    rt_etcd_put_value(&txn, put, text, size);
    put->ignore_lease = true;
    (void)rt_etcd_get_line(&txn, RT_ETCD_THEN, op->change.name);
    return rt_etcd_work_txn(c, &ch->work, &txn, written, ch);
}

static void found(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct changing *ch = a->owner;
    const struct rt_op *op = ch->work.op;
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    const RtEtcd__RangeResponse *all = rt_etcd_seen(c, reply, 0, &err);
    const struct rt_etcd_place *place = NULL;
    if (err == 0 && rt_etcd_line_read(line, all->kvs, all->n_kvs) != 0)
        err = rt_words_nomem(rt_etcd_base(c));
    if (err == 0) {
        place = rt_etcd_line_find(line, op->change.number);
        if (place == NULL || !place->id.ours || place->id.session != op->change.session ||
            !place->granted) {
            lost(c, ch);
            return;
        }
        if (op->change.what & (RT_CHANGE_VALUE | RT_CHANGE_DOWNGRADE)) {
            err = send_write(c, ch, place);
        } else {
            changed(c, ch, line->waiting > 0);
            return;
        }
    }
    if (err != 0)
        rt_etcd_work_end(c, &ch->work, err);
}

static int send_find(struct rt_etcd_conn *c, struct changing *ch)
{
    return rt_etcd_work_look(c, &ch->work, ch->work.op->change.name, 0, found, ch);
}

static int begin_change(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    struct changing *ch = (struct changing *)(void *)w;
    const struct rt_op *op = w->op;
    uint32_t writes = op->change.what & (RT_CHANGE_VALUE | RT_CHANGE_DOWNGRADE);
    int rv = rt_etcd_check_name(c, op->change.name);
    if (rv == 0 && op->change.what & RT_CHANGE_VALUE)
        rv = rt_check_value(rt_etcd_base(c), op->change.name, op->change.value);
    const struct rt_etcd_ticket *t = rv == 0 ? ticket_of(c, op) : NULL;
    bool leader = t != NULL && t->plain && writes == RT_CHANGE_VALUE && op->change.value != NULL &&
                  rt_etcd_plain_fits(op->change.value);
    if (rv != 0)
        return rv;
    return t != NULL && t->granted && (writes == 0 || leader) ? send_short(c, ch, t)
                                                              : send_find(c, ch);
}

const struct rt_turn_kind rt_etcd_change = {.size = sizeof(struct changing), .begin = begin_change};
