/* SPDX-License-Identifier: Apache-2.0 */
/* What a model etcd has, and what requests do to it. */
#include "sim/etcd/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_LEASE "etcdserver: requested lease not found"

static struct es_answer refusal(uint32_t status, const char *text)
{
    return (struct es_answer){status, text, NULL};
}

static void *grow(void *items, size_t *room, size_t size)
{
    *room = *room > 0 ? *room * 2 : 64;
    void *more = realloc(items, *room * size);
    assert(more != NULL);
    return more;
}

/* ---- Keys --------------------------------------------------------------- */

static struct es_kv *kv_new(struct es_text key, struct es_text value)
{
    struct es_kv *kv = calloc(1, sizeof(*kv) + key.n + value.n);
    assert(kv != NULL);
    kv->refs = 1;
    kv->key = (struct es_text){kv->bytes, key.n};
    kv->value = (struct es_text){kv->bytes + key.n, value.n};
    if (key.n > 0)
        memcpy(kv->bytes, key.at, key.n);
    if (value.n > 0)
        memcpy(kv->bytes + key.n, value.at, value.n);
    return kv;
}

static void kv_drop(struct es_kv *kv)
{
    if (kv != NULL && --kv->refs == 0)
        free(kv);
}

/* Where KEY is, or would be. */
static size_t place_of(const struct es_store *s, struct es_text key, bool *there)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (es_text_order(s->kvs[mid]->key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *there = low < s->count && es_text_order(s->kvs[low]->key, key) == 0;
    return low;
}

const struct es_kv *es_store_find(const struct es_store *s, struct es_text key)
{
    bool there;
    size_t at = place_of(s, key, &there);
    return there ? s->kvs[at] : NULL;
}

static void note(struct es_store *s, int64_t revision, struct es_kv *before, struct es_kv *after)
{
    if (s->log_count == s->log_room)
        s->log = grow(s->log, &s->log_room, sizeof(*s->log));
    if (after != NULL)
        after->refs++;
    s->log[s->log_count++] = (struct es_change){
        .revision = revision, .before = before, .after = after}; /* has BEFORE now */
}

static void put_key(struct es_store *s, int64_t revision, struct es_kv *kv)
{
    bool there;
    size_t at = place_of(s, kv->key, &there);
    struct es_kv *before = there ? s->kvs[at] : NULL;
    if (s->count == s->room)
        s->kvs = grow(s->kvs, &s->room, sizeof(*s->kvs));
    if (!there)
        memmove(&s->kvs[at + 1], &s->kvs[at], (s->count++ - at) * sizeof(struct es_kv *));
    s->kvs[at] = kv;
    kv->create = there ? before->create : revision;
    kv->version = there ? before->version + 1 : 1;
    kv->mod = revision;
    note(s, revision, before, kv);
}

static void delete_key(struct es_store *s, int64_t revision, size_t at)
{
    note(s, revision, s->kvs[at], NULL);
    memmove(&s->kvs[at], &s->kvs[at + 1], (--s->count - at) * sizeof(struct es_kv *));
}

/* ---- Steps: what a transaction is made of -------------------------------- */

static RtEtcd__PutResponse *put(struct es_store *s, struct rt_arena *arena,
                                const RtEtcd__PutRequest *rq, int64_t revision)
{
    RtEtcd__PutResponse *m = es_new(arena, sizeof(*m));
    const struct es_kv *before = es_store_find(s, es_text_of(rq->key));
    rt_etcd__put_response__init(m);
    if (rq->prev_kv && before != NULL)
        m->prev_kv = es_kv_message(arena, before, false);
    struct es_kv *kv = kv_new(es_text_of(rq->key),
                              rq->ignore_value ? before->value : es_text_of(rq->value));
    kv->lease = rq->ignore_lease ? before->lease : rq->lease;
    put_key(s, revision, kv);
    m->header = es_header(arena, revision);
    return m;
}

static RtEtcd__DeleteRangeResponse *delete_range(struct es_store *s, struct rt_arena *arena,
                                                 const RtEtcd__DeleteRangeRequest *rq,
                                                 int64_t revision)
{
    struct es_text key = es_text_of(rq->key), end = es_text_of(rq->range_end);
    RtEtcd__DeleteRangeResponse *m = es_new(arena, sizeof(*m));
    size_t n;
    const struct es_kv **kvs = es_scan(s, arena, key, end, 0, &n);
    rt_etcd__delete_range_response__init(m);
    m->deleted = (int64_t)n;
    m->prev_kvs = es_new(arena, n * sizeof(*m->prev_kvs));
    for (size_t i = 0; i < n; i++) {
        bool there;
        if (rq->prev_kv)
            m->prev_kvs[m->n_prev_kvs++] = es_kv_message(arena, kvs[i], false);
        delete_key(s, revision, place_of(s, kvs[i]->key, &there));
    }
    m->header = es_header(arena, n > 0 ? revision : s->revision);
    return m;
}

/* The revision grows if anything was done with the next one. */
static void commit(struct es_store *s)
{
    if (s->log_count > 0 && s->log[s->log_count - 1].revision > s->revision)
        s->revision++;
}

/* What is wrong with it in any state; NULL: nothing. */
static const char *check_form(const RtEtcd__PutRequest *rq)
{
    if (rq->key.len == 0)
        return "etcdserver: key is not provided";
    if (rq->ignore_value && rq->value.len > 0)
        return "etcdserver: value is provided";
    if (rq->ignore_lease && rq->lease != 0)
        return "etcdserver: lease is provided";
    return NULL;
}

static const char *check_put(const struct es_store *s, const RtEtcd__PutRequest *rq,
                             uint32_t *status)
{
    const char *why = check_form(rq);
    *status = RT_GRPC_INVALID_ARGUMENT;
    if (why != NULL)
        return why;
    if ((rq->ignore_value || rq->ignore_lease) && es_store_find(s, es_text_of(rq->key)) == NULL)
        return "etcdserver: key not found";
    *status = RT_GRPC_NOT_FOUND;
    if (rq->lease != 0 && es_store_lease(s, rq->lease) == NULL)
        return NO_LEASE;
    return NULL;
}

/* ---- Transactions ------------------------------------------------------- */

static bool holds(int64_t order, RtEtcd__Compare__Result result)
{
    switch (result) {
    case RT_ETCD__COMPARE__RESULT__GREATER:
        return order > 0;
    case RT_ETCD__COMPARE__RESULT__LESS:
        return order < 0;
    case RT_ETCD__COMPARE__RESULT__NOT_EQUAL:
        return order != 0;
    default:
        return order == 0;
    }
}

static bool compare_one(const RtEtcd__Compare *c, const struct es_kv *kv)
{
    static const struct es_kv none;
    const struct es_kv *with = kv != NULL ? kv : &none;
    switch (c->target) {
    case RT_ETCD__COMPARE__TARGET__VERSION:
        return holds(with->version - c->version, c->result);
    case RT_ETCD__COMPARE__TARGET__CREATE:
        return holds(with->create - c->create_revision, c->result);
    case RT_ETCD__COMPARE__TARGET__MOD:
        return holds(with->mod - c->mod_revision, c->result);
    case RT_ETCD__COMPARE__TARGET__LEASE:
        return holds(with->lease - c->lease, c->result);
    default:
        return kv != NULL && holds(es_text_order(kv->value, es_text_of(c->value)), c->result);
    }
}

static bool compare_all(const struct es_store *s, struct rt_arena *arena,
                        const RtEtcd__TxnRequest *rq, int64_t view)
{
    for (size_t i = 0; i < rq->n_compare; i++) {
        const RtEtcd__Compare *c = rq->compare[i];
        size_t n;
        const struct es_kv **kvs = es_scan(s, arena, es_text_of(c->key), es_text_of(c->range_end),
                                           view, &n);
        if (n == 0 && !compare_one(c, NULL))
            return false;
        for (size_t k = 0; k < n; k++)
            if (!compare_one(c, kvs[k]))
                return false;
    }
    return true;
}

static RtEtcd__ResponseOp *step(struct es_store *s, struct rt_arena *arena,
                                const RtEtcd__RequestOp *op, int64_t view, int64_t revision)
{
    RtEtcd__ResponseOp *m = es_new(arena, sizeof(*m));
    rt_etcd__response_op__init(m);
    if (op->request_case == RT_ETCD__REQUEST_OP__REQUEST_PUT) {
        m->response_case = RT_ETCD__RESPONSE_OP__RESPONSE_PUT;
        m->put = put(s, arena, op->put, revision);
    } else if (op->request_case == RT_ETCD__REQUEST_OP__REQUEST_DELETE_RANGE) {
        m->response_case = RT_ETCD__RESPONSE_OP__RESPONSE_DELETE_RANGE;
        m->delete_range = delete_range(s, arena, op->delete_range, revision);
    } else {
        struct es_answer a = es_range(s, arena, op->range, view);
        assert(a.status == RT_GRPC_OK); /* as was checked */
        m->response_case = RT_ETCD__RESPONSE_OP__RESPONSE_RANGE;
        memcpy(&m->range, &a.reply, sizeof(m->range));
    }
    return m;
}

static const char *check_step(const struct es_store *s, struct rt_arena *arena,
                              const RtEtcd__RequestOp *op, int64_t view, uint32_t *status)
{
    if (op->request_case == RT_ETCD__REQUEST_OP__REQUEST_PUT)
        return check_put(s, op->put, status);
    if (op->request_case != RT_ETCD__REQUEST_OP__REQUEST_RANGE)
        return NULL;
    struct es_answer a = es_range(s, arena, op->range, view);
    *status = a.status;
    return a.status != RT_GRPC_OK ? a.text : NULL;
}

/* Looks at the puts of both branches, before it is known which. */
static const char *check_forms(const RtEtcd__TxnRequest *rq, bool *puts)
{
    const char *why = NULL;
    *puts = false;
    for (size_t i = 0; why == NULL && i < rq->n_success + rq->n_failure; i++) {
        const RtEtcd__RequestOp *op = i < rq->n_success ? rq->success[i]
                                                        : rq->failure[i - rq->n_success];
        if (op->request_case != RT_ETCD__REQUEST_OP__REQUEST_PUT)
            continue;
        *puts = true;
        why = check_form(op->put);
    }
    return why;
}

static struct es_answer txn(struct es_store *s, struct rt_arena *arena,
                            const RtEtcd__TxnRequest *rq, int64_t view)
{
    if (rq->n_compare > ES_OPS_MAX || rq->n_success > ES_OPS_MAX || rq->n_failure > ES_OPS_MAX)
        return refusal(RT_GRPC_INVALID_ARGUMENT, "etcdserver: too many operations in txn request");
    bool puts;
    const char *bad = check_forms(rq, &puts);
    if (bad != NULL)
        return refusal(RT_GRPC_INVALID_ARGUMENT, bad);
    if (s->full && puts)
        return refusal(RT_GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded");
    bool succeeded = compare_all(s, arena, rq, view);
    RtEtcd__RequestOp **ops = succeeded ? rq->success : rq->failure;
    size_t n = succeeded ? rq->n_success : rq->n_failure;
    for (size_t i = 0; i < n; i++) {
        uint32_t status;
        const char *why = check_step(s, arena, ops[i], view, &status);
        if (why != NULL)
            return refusal(status, why);
    }
    RtEtcd__TxnResponse *m = es_new(arena, sizeof(*m));
    rt_etcd__txn_response__init(m);
    m->succeeded = succeeded;
    m->n_responses = n;
    m->responses = es_new(arena, n * sizeof(*m->responses));
    for (size_t i = 0; i < n; i++)
        m->responses[i] = step(s, arena, ops[i], view, s->revision + 1);
    commit(s);
    m->header = es_header(arena, view != 0 ? view : s->revision);
    return (struct es_answer){RT_GRPC_OK, "", m};
}

/* ---- Leases ------------------------------------------------------------- */

struct es_lease *es_store_lease(const struct es_store *s, int64_t id)
{
    for (size_t i = 0; i < s->lease_count; i++)
        if (s->leases[i].id == id)
            return &s->leases[i];
    return NULL;
}

bool es_store_revoke(struct es_store *s, int64_t id)
{
    struct es_lease *lease = es_store_lease(s, id);
    if (lease == NULL)
        return false;
    *lease = s->leases[--s->lease_count];
    for (size_t i = 0; i < s->count;) {
        if (s->kvs[i]->lease == id)
            delete_key(s, s->revision + 1, i);
        else
            i++;
    }
    commit(s);
    return true;
}

static struct es_answer lease_grant(struct es_store *s, struct rt_arena *arena,
                                    const RtEtcd__LeaseGrantRequest *rq)
{
    RtEtcd__LeaseGrantResponse *m = es_new(arena, sizeof(*m));
    if (s->full)
        return refusal(RT_GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded");
    if (rq->id != 0 && es_store_lease(s, rq->id) != NULL)
        return refusal(RT_GRPC_FAILED_PRECONDITION, "etcdserver: lease already exists");
    if (rq->ttl > INT64_C(9000000000))
        return refusal(RT_GRPC_OUT_OF_RANGE, "etcdserver: too large lease TTL");
    if (s->lease_count == s->lease_room)
        s->leases = grow(s->leases, &s->lease_room, sizeof(*s->leases));
    rt_etcd__lease_grant_response__init(m);
    m->id = rq->id != 0 ? rq->id : (s->last_lease += 0x101);
    m->ttl = rq->ttl > ES_LEASE_LEAST_S ? rq->ttl : ES_LEASE_LEAST_S;
    m->header = es_header(arena, s->revision);
    s->leases[s->lease_count++] = (struct es_lease){.id = m->id, .ttl_s = m->ttl};
    return (struct es_answer){RT_GRPC_OK, "", m};
}

static struct es_answer lease_revoke(struct es_store *s, struct rt_arena *arena,
                                     const RtEtcd__LeaseRevokeRequest *rq)
{
    RtEtcd__LeaseRevokeResponse *m = es_new(arena, sizeof(*m));
    if (!es_store_revoke(s, rq->id))
        return refusal(RT_GRPC_NOT_FOUND, NO_LEASE);
    rt_etcd__lease_revoke_response__init(m);
    m->header = es_header(arena, s->revision);
    return (struct es_answer){RT_GRPC_OK, "", m};
}

/* ---- Requests ----------------------------------------------------------- */

static struct es_answer put_alone(struct es_store *s, struct rt_arena *arena,
                                  const RtEtcd__PutRequest *rq)
{
    uint32_t status;
    const char *why = check_put(s, rq, &status);
    if (check_form(rq) == NULL && rq->lease != 0 && es_store_lease(s, rq->lease) == NULL)
        return refusal(RT_GRPC_NOT_FOUND, NO_LEASE); /* here this is checked before the key */
    if (why != NULL)
        return refusal(status, why);
    if (s->full)
        return refusal(RT_GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded");
    RtEtcd__PutResponse *m = put(s, arena, rq, s->revision + 1);
    commit(s);
    return (struct es_answer){RT_GRPC_OK, "", m};
}

static struct es_answer delete_alone(struct es_store *s, struct rt_arena *arena,
                                     const RtEtcd__DeleteRangeRequest *rq)
{
    if (rq->key.len == 0)
        return refusal(RT_GRPC_INVALID_ARGUMENT, "etcdserver: key is not provided");
    RtEtcd__DeleteRangeResponse *m = delete_range(s, arena, rq, s->revision + 1);
    commit(s);
    return (struct es_answer){RT_GRPC_OK, "", m};
}

struct es_answer es_store_do(struct es_store *s, struct rt_arena *arena, enum rt_etcd_call call,
                             const void *request, int64_t view)
{
    const RtEtcd__RangeRequest *range = request;
    assert(view == 0 || es_only_reads(call, request));
    switch (call) {
    case RT_ETCD_RANGE:
        if (range->key.len == 0)
            return refusal(RT_GRPC_INVALID_ARGUMENT, "etcdserver: key is not provided");
        return es_range(s, arena, range, view);
    case RT_ETCD_TXN:
        return txn(s, arena, request, view);
    case RT_ETCD_PUT:
        return put_alone(s, arena, request);
    case RT_ETCD_DELETE:
        return delete_alone(s, arena, request);
    case RT_ETCD_LEASE_GRANT:
        return lease_grant(s, arena, request);
    case RT_ETCD_LEASE_REVOKE:
        return lease_revoke(s, arena, request);
    default:
        return refusal(RT_GRPC_UNIMPLEMENTED, "the model does not know it");
    }
}

static bool are_ranges(RtEtcd__RequestOp *const *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i]->request_case != RT_ETCD__REQUEST_OP__REQUEST_RANGE)
            return false;
    return true;
}

bool es_only_reads(enum rt_etcd_call call, const void *request)
{
    const RtEtcd__TxnRequest *rq = request;
    if (call != RT_ETCD_TXN)
        return call == RT_ETCD_RANGE;
    return are_ranges(rq->success, rq->n_success) && are_ranges(rq->failure, rq->n_failure);
}

/* ---- Beginning and end -------------------------------------------------- */

void es_store_open(struct es_store *s)
{
    *s = (struct es_store){.revision = 1, .last_lease = 0x7000};
}

void es_store_compact(struct es_store *s, int64_t revision)
{
    size_t n = 0;
    while (n < s->log_count && s->log[n].revision <= revision) {
        kv_drop(s->log[n].before);
        kv_drop(s->log[n].after);
        n++;
    }
    if (n > 0)
        memmove(s->log, s->log + n, (s->log_count - n) * sizeof(*s->log));
    s->log_count -= n;
    if (revision > s->compacted)
        s->compacted = revision;
}

void es_store_close(struct es_store *s)
{
    es_store_compact(s, s->revision);
    for (size_t i = 0; i < s->count; i++)
        kv_drop(s->kvs[i]);
    free(s->kvs);
    free(s->log);
    free(s->leases);
    *s = (struct es_store){0};
}
