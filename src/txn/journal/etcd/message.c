/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, Txns built on the stack, and their answers. */
#include "txn/journal/etcd/etcd.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Keys */

__attribute__((format(printf, 3, 4))) void rt_jetcd_key(struct rt_jetcd_key *k,
                                                        const struct rt_jetcd *j,
                                                        const char *format, ...)
{
    va_list args;
    int n = snprintf(k->at, sizeof(k->at), "%srota-txn/", j->prefix);
    va_start(args, format);
    n += vsnprintf(k->at + n, sizeof(k->at) - (size_t)n, format, args);
    va_end(args);
    assert((size_t)n < sizeof(k->at));
    k->size = (size_t)n;
}

void rt_jetcd_key_of(struct rt_jetcd_key *k, const struct rt_jetcd *j, const struct rt_txn_id *id)
{
    char text[RT_TXN_ID_TEXT];
    rt_txn_id_text(id, text);
    rt_jetcd_key(k, j, "t/%s", text);
}

void rt_jetcd_key_open(struct rt_jetcd_key *k, const struct rt_jetcd *j, const struct rt_txn_id *id,
                       int64_t deadline_ms)
{
    char text[RT_TXN_ID_TEXT];
    rt_txn_id_text(id, text);
    rt_jetcd_key(k, j, "o/%012" PRIx64 "/%s", (uint64_t)deadline_ms, text);
}

/* protobuf-c has no const, and only reads what it packs. */
static uint8_t *as_bytes(const char *at)
{
    union {
        const char *given;
        uint8_t *taken;
    } u = {.given = at};
    return u.taken;
}

ProtobufCBinaryData rt_jetcd_data(const struct rt_jetcd_key *k)
{
    return (ProtobufCBinaryData){k->size, as_bytes(k->at)};
}

ProtobufCBinaryData rt_jetcd_text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), as_bytes(s)};
}

/* ---- Messages */

void rt_jetcd_message(struct rt_jetcd_message *m)
{
    rt_etcd__txn_request__init(&m->txn);
    m->txn.compare = m->compare_at;
    m->txn.success = m->then_at;
    m->txn.failure = m->other_at;
    m->range_count = m->put_count = m->delete_count = 0;
}

static RtEtcd__Compare *compare(struct rt_jetcd_message *m, ProtobufCBinaryData k)
{
    RtEtcd__Compare *c = &m->compares[m->txn.n_compare];
    assert(m->txn.n_compare < 4);
    rt_etcd__compare__init(c);
    c->key = k;
    m->compare_at[m->txn.n_compare++] = c;
    return c;
}

void rt_jetcd_if_value(struct rt_jetcd_message *m, ProtobufCBinaryData k,
                       RtEtcd__Compare__Result how, const char *value)
{
    RtEtcd__Compare *c = compare(m, k);
    c->target = RT_ETCD__COMPARE__TARGET__VALUE;
    c->result = how;
    c->with_case = RT_ETCD__COMPARE__WITH_VALUE;
    c->value = rt_jetcd_text(value);
}

void rt_jetcd_if_created(struct rt_jetcd_message *m, ProtobufCBinaryData k, int64_t revision)
{
    RtEtcd__Compare *c = compare(m, k);
    c->target = RT_ETCD__COMPARE__TARGET__CREATE;
    c->with_case = RT_ETCD__COMPARE__WITH_CREATE_REVISION;
    c->create_revision = revision;
}

void rt_jetcd_if_changed_at(struct rt_jetcd_message *m, ProtobufCBinaryData k, int64_t revision)
{
    RtEtcd__Compare *c = compare(m, k);
    c->target = RT_ETCD__COMPARE__TARGET__MOD;
    c->with_case = RT_ETCD__COMPARE__WITH_MOD_REVISION;
    c->mod_revision = revision;
}

RtEtcd__RequestOp *rt_jetcd_then(struct rt_jetcd_message *m)
{
    RtEtcd__RequestOp *op = &m->then[m->txn.n_success];
    assert(m->txn.n_success < RT_JETCD_STEPS);
    rt_etcd__request_op__init(op);
    m->then_at[m->txn.n_success++] = op;
    return op;
}

RtEtcd__RequestOp *rt_jetcd_otherwise(struct rt_jetcd_message *m)
{
    RtEtcd__RequestOp *op = &m->other[m->txn.n_failure];
    assert(m->txn.n_failure < 4);
    rt_etcd__request_op__init(op);
    m->other_at[m->txn.n_failure++] = op;
    return op;
}

RtEtcd__RangeRequest *rt_jetcd_get(struct rt_jetcd_message *m, RtEtcd__RequestOp *op,
                                   ProtobufCBinaryData k)
{
    RtEtcd__RangeRequest *r = &m->ranges[m->range_count++];
    assert(m->range_count <= 8);
    rt_etcd__range_request__init(r);
    r->key = k;
    op->request_case = RT_ETCD__REQUEST_OP__REQUEST_RANGE;
    op->range = r;
    return r;
}

void rt_jetcd_put(struct rt_jetcd_message *m, RtEtcd__RequestOp *op, ProtobufCBinaryData k,
                  ProtobufCBinaryData value)
{
    RtEtcd__PutRequest *p = &m->puts[m->put_count++];
    assert(m->put_count <= 4);
    rt_etcd__put_request__init(p);
    p->key = k;
    p->value = value;
    op->request_case = RT_ETCD__REQUEST_OP__REQUEST_PUT;
    op->put = p;
}

void rt_jetcd_delete(struct rt_jetcd_message *m, RtEtcd__RequestOp *op, ProtobufCBinaryData k)
{
    RtEtcd__DeleteRangeRequest *d = &m->deletes[m->delete_count++];
    assert(m->delete_count <= RT_JETCD_STEPS);
    rt_etcd__delete_range_request__init(d);
    d->key = k;
    op->request_case = RT_ETCD__REQUEST_OP__REQUEST_DELETE_RANGE;
    op->delete_range = d;
}

/* 0, or ROTA_NOMEM: no answer will come. */
int rt_jetcd_send_message(struct rt_jetcd *j, struct rt_jetcd_message *m, int64_t deadline,
                          rt_etcd_answer_fn *answer, void *owner)
{
    struct rt_etcd_ask *ask = rt_etcd_ask_new(&j->conn, RT_ETCD_TXN, &m->txn, answer);
    if (ask == NULL)
        return rt_words_nomem(&j->base.base);
    ask->entry.reads = m->put_count == 0 && m->delete_count == 0;
    ask->entry.again = true;
    ask->entry.deadline = deadline;
    ask->owner = owner;
    rt_etcd_ask_send(&j->conn, ask);
    return 0;
}

int rt_jetcd_send_range(struct rt_jetcd *j, const RtEtcd__RangeRequest *r, int64_t deadline,
                        rt_etcd_answer_fn *answer, void *owner)
{
    struct rt_etcd_ask *ask = rt_etcd_ask_new(&j->conn, RT_ETCD_RANGE, r, answer);
    if (ask == NULL)
        return rt_words_nomem(&j->base.base);
    ask->entry.deadline = deadline;
    ask->owner = owner;
    rt_etcd_ask_send(&j->conn, ask);
    return 0;
}

/* The only key of the Ith answer; NULL: there is none. */
const RtEtcd__KeyValue *rt_jetcd_only(const RtEtcd__TxnResponse *r, size_t i)
{
    if (i >= r->n_responses ||
        r->responses[i]->response_case != RT_ETCD__RESPONSE_OP__RESPONSE_RANGE ||
        r->responses[i]->range->n_kvs != 1)
        return NULL;
    return r->responses[i]->range->kvs[0];
}

/* Gets what is there: meta, floor, the record. */
void rt_jetcd_say_look(struct rt_jetcd_message *m,
                       RtEtcd__RequestOp *(*where)(struct rt_jetcd_message *m),
                       const struct rt_jetcd_key *meta, const struct rt_jetcd_key *floor,
                       const struct rt_jetcd_key *row)
{
    (void)rt_jetcd_get(m, where(m), rt_jetcd_data(meta));
    (void)rt_jetcd_get(m, where(m), rt_jetcd_data(floor));
    (void)rt_jetcd_get(m, where(m), rt_jetcd_data(row));
}
