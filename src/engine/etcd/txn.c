/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions assembled in the side's arena, and their answers taken apart. */
#include "engine/etcd/ops.h"

static void *get(struct rt_etcd_txn *t, size_t size)
{
    void *p = t->failed ? NULL : rt_arena_get(&t->s->arena, size > 0 ? size : 1);
    if (p == NULL)
        t->failed = true;
    return p;
}

static ProtobufCBinaryData copy(struct rt_etcd_txn *t, const void *bytes, size_t n)
{
    ProtobufCBinaryData data = {n, get(t, n)};
    if (data.data == NULL)
        data.len = 0;
    else if (n > 0)
        memcpy(data.data, bytes, n);
    return data;
}

void rt_etcd_txn_open(struct rt_etcd_conn *c, struct rt_etcd_txn *t, size_t compares, size_t thens,
                      size_t elses)
{
    *t = (struct rt_etcd_txn){.s = rt_etcd_s(c), .message = RT_ETCD__TXN_REQUEST__INIT};
    rt_arena_reset(&t->s->arena);
    t->compares = compares;
    t->branches[RT_ETCD_THEN] = thens;
    t->branches[RT_ETCD_ELSE] = elses;
    t->message.compare = get(t, compares * sizeof(*t->message.compare));
    t->message.success = get(t, thens * sizeof(*t->message.success));
    t->message.failure = get(t, elses * sizeof(*t->message.failure));
}

/* ---- Conditions --------------------------------------------------------------------------------- */

/* Compares TARGET of all keys from KEY to END (SIZE 0: of KEY alone) with VALUE. */
static void add_compare(struct rt_etcd_txn *t, ProtobufCBinaryData key, ProtobufCBinaryData end,
                        RtEtcd__Compare__Target target, RtEtcd__Compare__Result result,
                        int64_t value)
{
    static const RtEtcd__Compare__WithCase cases[] = {
        [RT_ETCD__COMPARE__TARGET__VERSION] = RT_ETCD__COMPARE__WITH_VERSION,
        [RT_ETCD__COMPARE__TARGET__CREATE] = RT_ETCD__COMPARE__WITH_CREATE_REVISION,
        [RT_ETCD__COMPARE__TARGET__MOD] = RT_ETCD__COMPARE__WITH_MOD_REVISION,
        [RT_ETCD__COMPARE__TARGET__LEASE] = RT_ETCD__COMPARE__WITH_LEASE,
    };
    RtEtcd__Compare *compare = get(t, sizeof(*compare));
    if (compare == NULL || t->message.n_compare == t->compares) {
        t->failed = true;
        return;
    }
    rt_etcd__compare__init(compare);
    compare->key = key;
    compare->range_end = end;
    compare->target = target;
    compare->result = result;
    compare->with_case = cases[target];
    compare->version = value; /* or any other: a union of numbers */
    t->message.compare[t->message.n_compare++] = compare;
}

static void add_equal(struct rt_etcd_txn *t, const void *key, size_t size,
                      RtEtcd__Compare__Target target, int64_t value)
{
    add_compare(t, copy(t, key, size), (ProtobufCBinaryData){0}, target,
                RT_ETCD__COMPARE__RESULT__EQUAL, value);
}

void rt_etcd_if_absent(struct rt_etcd_txn *t, const char *key, size_t size)
{
    add_equal(t, key, size, RT_ETCD__COMPARE__TARGET__VERSION, 0);
}

void rt_etcd_if_present(struct rt_etcd_txn *t, const char *key, size_t size)
{
    add_compare(t, copy(t, key, size), (ProtobufCBinaryData){0}, RT_ETCD__COMPARE__TARGET__VERSION,
                RT_ETCD__COMPARE__RESULT__GREATER, 0);
}

void rt_etcd_if_created(struct rt_etcd_txn *t, const void *key, size_t size, uint64_t number)
{
    add_equal(t, key, size, RT_ETCD__COMPARE__TARGET__CREATE, (int64_t)number);
}

void rt_etcd_if_leaseless(struct rt_etcd_txn *t, const void *key, size_t size)
{
    add_equal(t, key, size, RT_ETCD__COMPARE__TARGET__LEASE, 0);
}

void rt_etcd_if_changed_at(struct rt_etcd_txn *t, const void *key, size_t size, int64_t revision)
{
    add_equal(t, key, size, RT_ETCD__COMPARE__TARGET__MOD, revision);
}

/* A condition on all tickets of a line. */
static void add_line(struct rt_etcd_txn *t, const char *name, RtEtcd__Compare__Target target,
                     RtEtcd__Compare__Result result, int64_t value)
{
    char begin[RT_ETCD_KEY_MAX], end[RT_ETCD_KEY_MAX];
    size_t begin_size = rt_etcd_line_begin(begin, name), end_size = rt_etcd_line_end(end, name);
    add_compare(t, copy(t, begin, begin_size), copy(t, end, end_size), target, result, value);
}

void rt_etcd_if_line_empty(struct rt_etcd_txn *t, const char *name)
{
    add_line(t, name, RT_ETCD__COMPARE__TARGET__CREATE, RT_ETCD__COMPARE__RESULT__EQUAL, 0);
}

void rt_etcd_if_line_older(struct rt_etcd_txn *t, const char *name, int64_t revision)
{
    add_line(t, name, RT_ETCD__COMPARE__TARGET__MOD, RT_ETCD__COMPARE__RESULT__LESS, revision + 1);
}

/* ---- Steps ---------------------------------------------------------------------------------------- */

/* SIZE bytes for the request of a new step; NULL: no memory, or no room for it. */
static void *add_step(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                      RtEtcd__RequestOp__RequestCase which, size_t size)
{
    RtEtcd__RequestOp *step = get(t, sizeof(*step));
    void *request = get(t, size);
    size_t *n = b == RT_ETCD_THEN ? &t->message.n_success : &t->message.n_failure;
    if (request == NULL || *n == t->branches[b]) {
        t->failed = true;
        return NULL;
    }
    rt_etcd__request_op__init(step);
    step->request_case = which;
    step->range = request; /* or any other: a union of pointers */
    (b == RT_ETCD_THEN ? t->message.success : t->message.failure)[(*n)++] = step;
    return request;
}

RtEtcd__RangeRequest *rt_etcd_get(struct rt_etcd_txn *t, enum rt_etcd_branch b, const void *key,
                                  size_t size)
{
    RtEtcd__RangeRequest *range = add_step(t, b, RT_ETCD__REQUEST_OP__REQUEST_RANGE,
                                           sizeof(*range));
    if (range == NULL)
        return &t->no_range;
    rt_etcd__range_request__init(range);
    range->key = copy(t, key, size);
    return range;
}

RtEtcd__RangeRequest *rt_etcd_get_line(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                                       const char *name)
{
    char key[RT_ETCD_KEY_MAX];
    size_t size = rt_etcd_line_begin(key, name);
    RtEtcd__RangeRequest *range = rt_etcd_get(t, b, key, size);
    size = rt_etcd_line_end(key, name);
    range->range_end = copy(t, key, size);
    range->order = RT_ETCD__ORDER__ORDER_ASCEND;
    range->by = RT_ETCD__BY__BY_CREATE;
    return range;
}

RtEtcd__RangeRequest *rt_etcd_get_ahead(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                                        const char *name, uint64_t number)
{
    RtEtcd__RangeRequest *range = rt_etcd_get_line(t, b, name);
    range->order = RT_ETCD__ORDER__ORDER_DESCEND;
    range->max_create_revision = (int64_t)number - 1;
    range->limit = 1; /* with its value: keys_only leaves out the lease, since 3.7 */
    return range;
}

RtEtcd__RangeRequest *rt_etcd_get_behind(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                                         const char *name, uint64_t number)
{
    RtEtcd__RangeRequest *range = rt_etcd_get_line(t, b, name);
    range->min_create_revision = (int64_t)number + 1;
    range->limit = 1;
    range->keys_only = true;
    return range;
}

RtEtcd__PutRequest *rt_etcd_put(struct rt_etcd_txn *t, enum rt_etcd_branch b, const void *key,
                                size_t size)
{
    RtEtcd__PutRequest *put = add_step(t, b, RT_ETCD__REQUEST_OP__REQUEST_PUT, sizeof(*put));
    if (put == NULL)
        return &t->no_put;
    rt_etcd__put_request__init(put);
    put->key = copy(t, key, size);
    return put;
}

void rt_etcd_put_value(struct rt_etcd_txn *t, RtEtcd__PutRequest *put, const void *value, size_t n)
{
    put->value = copy(t, value, n);
}

void rt_etcd_delete(struct rt_etcd_txn *t, enum rt_etcd_branch b, const void *key, size_t size)
{
    RtEtcd__DeleteRangeRequest *request = add_step(t, b, RT_ETCD__REQUEST_OP__REQUEST_DELETE_RANGE,
                                                   sizeof(*request));
    if (request == NULL)
        return;
    rt_etcd__delete_range_request__init(request);
    request->key = copy(t, key, size);
}

/* ---- Sending and reading ---------------------------------------------------------------------------- */

static bool only_reads(const RtEtcd__TxnRequest *m)
{
    for (size_t i = 0; i < m->n_success; i++)
        if (m->success[i]->request_case != RT_ETCD__REQUEST_OP__REQUEST_RANGE)
            return false;
    for (size_t i = 0; i < m->n_failure; i++)
        if (m->failure[i]->request_case != RT_ETCD__REQUEST_OP__REQUEST_RANGE)
            return false;
    return true;
}

int rt_etcd_txn_send(struct rt_etcd_conn *c, struct rt_etcd_txn *t, rt_etcd_answer_fn *answer,
                     struct rt_op *op, void *owner, uint32_t *pending)
{
    struct rt_etcd_ask *a = NULL;
    if (!t->failed)
        a = rt_etcd_ask_new(c, RT_ETCD_TXN, &t->message, answer);
    if (a != NULL) {
        a->entry.reads = only_reads(&t->message);
        a->entry.again = true;
    }
    rt_arena_reset(&t->s->arena);
    return rt_etcd_ask_for(c, a, op, owner, 0, pending);
}

const RtEtcd__RangeResponse *rt_etcd_got(const RtEtcd__TxnResponse *reply, size_t i)
{
    if (i >= reply->n_responses ||
        reply->responses[i]->response_case != RT_ETCD__RESPONSE_OP__RESPONSE_RANGE)
        return NULL;
    return reply->responses[i]->range;
}

const RtEtcd__RangeResponse *rt_etcd_seen(struct rt_etcd_conn *c, const void *reply, size_t i,
                                          int *err)
{
    const RtEtcd__RangeResponse *seen = *err == 0 ? rt_etcd_got(reply, i) : NULL;
    if (*err == 0 && seen == NULL)
        *err = rt_etcd_odd(c);
    return seen;
}

int64_t rt_etcd_revision(const RtEtcd__Header *header)
{
    return header != NULL ? header->revision : 0;
}

int rt_etcd_odd(struct rt_etcd_conn *c)
{
    return rt_etcd_fail(c, ROTA_UNKNOWN, "etcd: an answer does not fit what was asked");
}
