/* SPDX-License-Identifier: Apache-2.0 */
/* The etcd engine's connection without its ops. */
#include "bare.h"

#include "base/alloc.h"
#include "lib/patience.h"

#include <poll.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS (int)rt_patient_ms(30000)

struct rt_loop bare_loop;
uint64_t bare_allocations, bare_fail_at;
static bool inside; /* a function of etcd.h: nothing may be told */

/* ---- Who rides on it ----------------------------------------------------------------------------- */

static struct bare *of(struct rt_etcd_conn *c)
{
    assert_false(inside);
    return (struct bare *)(void *)rt_etcd_base(c)->up;
}

static void on_linked(struct rt_etcd_conn *c)
{
    of(c)->linked++;
    of(c)->up_events++;
}

static void on_link_lost(struct rt_etcd_conn *c)
{
    of(c)->down_events++;
}

static void on_failed(struct rt_etcd_conn *c, int err, const char *why)
{
    struct bare *b = of(c);
    b->failed++;
    b->err = err;
    snprintf(b->why, sizeof(b->why), "%s", why);
}

static const struct rt_etcd_user rider = {
    .linked = on_linked, .lost = on_link_lost, .failed = on_failed};

static void on_log(struct rt_up *up, int level, const char *line)
{
    (void)up;
    (void)level;
    if (getenv("ROTA_TEST_LOG") != NULL)
        fprintf(stderr, "log: %s\n", line);
}

/* ---- The connection ----------------------------------------------------------------------------------- */

static void *counting_calloc(size_t n, size_t size)
{
    return ++bare_allocations == bare_fail_at ? NULL : calloc(n, size);
}

static void *counting_realloc(void *p, size_t size)
{
    return ++bare_allocations == bare_fail_at ? NULL : realloc(p, size);
}

int bare_setup(void **state)
{
    static const struct rt_allocator counting = {counting_calloc, counting_realloc, free};
    (void)state;
    rt_alloc_set(&counting);
    return rt_loop_init(&bare_loop);
}

int bare_teardown(void **state)
{
    (void)state;
    rt_loop_fini(&bare_loop);
    return 0;
}

int bare_open(struct bare *b, const char *url, const char *password, uint32_t call_ms,
              uint32_t ttl_ms)
{
    memset(b, 0, sizeof(*b));
    b->up.log = on_log;
    assert_int_equal(rt_url_parse(&b->url, url, b->why, sizeof(b->why)), 0);
    b->conn = calloc(1, sizeof(*b->conn));
    assert_non_null(b->conn);
    b->base = (struct rt_conn){
        .up = &b->up, .loop = &bare_loop, .call_ms = call_ms, .ttl_ms = ttl_ms};
    if (password != NULL) {
        snprintf(b->password, sizeof(b->password), "%s", password);
        b->url.password = b->password;
    }
    rt_loop_tick(&bare_loop);
    inside = true;
    int rv = rt_etcd_conn_open(b->conn, &b->base, &b->url, &rider);
    if (rv == 0)
        rt_etcd_want(b->conn);
    inside = false;
    if (rv == 0)
        return 0;
    snprintf(b->why, sizeof(b->why), "%s", b->base.errmsg);
    free(b->conn);
    rt_url_fini(&b->url);
    return rv;
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    fail();
}

void bare_close(struct bare *b)
{
    inside = true;
    rt_etcd_conn_close(b->conn);
    inside = false;
    free(b->conn);
    rt_url_fini(&b->url);
    for (int i = 0; i < 4; i++) {
        rt_loop_arm(&bare_loop);
        rt_loop_turn(&bare_loop, no_other, NULL);
    }
}

void bare_turn(void)
{
    struct pollfd pfd = {.fd = rt_loop_fd(&bare_loop), .events = POLLIN};
    rt_loop_tick(&bare_loop);
    rt_loop_arm(&bare_loop);
    if (!bare_loop.dirty)
        assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
    rt_loop_turn(&bare_loop, no_other, NULL);
}

void bare_until(const int *flag, int n)
{
    while (*flag < n)
        bare_turn();
}

/* ---- Asks ------------------------------------------------------------------------------------------------- */

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

static void read_range(struct asked *a, const RtEtcd__RangeResponse *r)
{
    a->number = r->count;
    a->revision = r->header->revision;
    if (r->n_kvs > 0)
        snprintf(a->value, sizeof(a->value), "%.*s", (int)r->kvs[0]->value.len,
                 (const char *)r->kvs[0]->value.data);
}

static void on_answer(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct asked *a = ask->owner;
    (void)of(c);
    assert_ptr_equal(a->ask, ask);
    assert_int_equal(a->answers++, 0);
    a->ask = NULL;
    a->err = err;
    a->reason = ask->reason;
    a->was_again = ask->entry.was_again;
    assert_true((err == 0) == (reply != NULL));
    if (err != 0) {
        snprintf(a->why, sizeof(a->why), "%s", rt_etcd_base(c)->errmsg);
        assert_true(strlen(a->why) > 5);
        return;
    }
    switch ((enum rt_etcd_call)ask->call_kind) {
    case RT_ETCD_RANGE:
        read_range(a, reply);
        break;
    case RT_ETCD_TXN:
        a->number = ((const RtEtcd__TxnResponse *)reply)->succeeded;
        a->revision = ((const RtEtcd__TxnResponse *)reply)->header->revision;
        break;
    case RT_ETCD_DELETE:
        a->number = ((const RtEtcd__DeleteRangeResponse *)reply)->deleted;
        break;
    case RT_ETCD_LEASE_GRANT:
        a->lease = ((const RtEtcd__LeaseGrantResponse *)reply)->id;
        a->ttl = ((const RtEtcd__LeaseGrantResponse *)reply)->ttl;
        break;
    default:
        break;
    }
}

static void ask(struct bare *b, struct asked *a, enum rt_etcd_call call, const void *message)
{
    memset(a, 0, sizeof(*a));
    inside = true;
    a->ask = rt_etcd_ask_new(b->conn, call, message, on_answer);
    assert_non_null(a->ask);
    a->ask->owner = a;
    rt_etcd_ask_send(b->conn, a->ask);
    inside = false;
}

void ask_put(struct bare *b, struct asked *a, const char *key, const char *value, int64_t lease)
{
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    rq.key = text(key);
    rq.value = text(value);
    rq.lease = lease;
    ask(b, a, RT_ETCD_PUT, &rq);
}

void ask_delete(struct bare *b, struct asked *a, const char *key)
{
    RtEtcd__DeleteRangeRequest rq = RT_ETCD__DELETE_RANGE_REQUEST__INIT;
    rq.key = text(key);
    ask(b, a, RT_ETCD_DELETE, &rq);
}

void ask_range(struct bare *b, struct asked *a, const char *key, const char *end)
{
    RtEtcd__RangeRequest rq = RT_ETCD__RANGE_REQUEST__INIT;
    rq.key = text(key);
    rq.range_end = text(end);
    ask(b, a, RT_ETCD_RANGE, &rq);
}

void ask_create(struct bare *b, struct asked *a, const char *key)
{
    RtEtcd__Compare absent = RT_ETCD__COMPARE__INIT;
    absent.target = RT_ETCD__COMPARE__TARGET__CREATE;
    absent.key = text(key);
    absent.with_case = RT_ETCD__COMPARE__WITH_CREATE_REVISION;
    RtEtcd__PutRequest put = RT_ETCD__PUT_REQUEST__INIT;
    put.key = text(key);
    RtEtcd__RequestOp does = RT_ETCD__REQUEST_OP__INIT;
    does.request_case = RT_ETCD__REQUEST_OP__REQUEST_PUT;
    does.put = &put;
    RtEtcd__Compare *compare[] = {&absent};
    RtEtcd__RequestOp *success[] = {&does};
    RtEtcd__TxnRequest txn = RT_ETCD__TXN_REQUEST__INIT;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compare;
    txn.success = success;
    ask(b, a, RT_ETCD_TXN, &txn);
}

void ask_grant(struct bare *b, struct asked *a, int64_t ttl)
{
    RtEtcd__LeaseGrantRequest rq = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    rq.ttl = ttl;
    ask(b, a, RT_ETCD_LEASE_GRANT, &rq);
}

void ask_revoke(struct bare *b, struct asked *a, int64_t lease)
{
    RtEtcd__LeaseRevokeRequest rq = RT_ETCD__LEASE_REVOKE_REQUEST__INIT;
    rq.id = lease;
    ask(b, a, RT_ETCD_LEASE_REVOKE, &rq);
}

bool try_put(struct bare *b, struct asked *a, const char *key)
{
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    memset(a, 0, sizeof(*a));
    rq.key = text(key);
    a->ask = rt_etcd_ask_new(b->conn, RT_ETCD_PUT, &rq, on_answer);
    if (a->ask == NULL)
        return false;
    a->ask->owner = a;
    rt_etcd_ask_send(b->conn, a->ask);
    return true;
}

void ask_end(struct bare *b, struct asked *a)
{
    (void)b;
    bare_until(&a->answers, 1);
}

void must_put(struct bare *b, const char *key, const char *value)
{
    struct asked a;
    ask_put(b, &a, key, value, 0);
    ask_end(b, &a);
    assert_string_equal(a.why, "");
}

/* ---- Watches and keeps -------------------------------------------------------------------------------------- */

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *rw, int64_t revision)
{
    struct watched *w = (struct watched *)(void *)rw;
    (void)of(c);
    assert_int_equal(w->created, w->lost); /* in turns */
    w->created++;
    w->revision = revision;
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *rw, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    struct watched *w = (struct watched *)(void *)rw;
    (void)of(c);
    assert_true(w->created == w->lost + 1 && n > 0 && revision > 0);
    w->events += (int)n;
    const RtEtcd__Event *last = events[n - 1];
    snprintf(w->last, sizeof(w->last), "%s%.*s",
             last->type == RT_ETCD__EVENT__TYPE__DELETE ? "-" : "", (int)last->kv->key.len,
             (const char *)last->kv->key.data);
}

static void on_lost(struct rt_etcd_conn *c, struct rt_etcd_watch *rw, int err)
{
    struct watched *w = (struct watched *)(void *)rw;
    (void)of(c);
    w->lost++;
    w->err = err;
}

static const struct rt_etcd_watch_user user = {on_created, on_events, on_lost};

bool try_watch(struct bare *b, struct watched *w, const char *key)
{
    memset(w, 0, sizeof(*w));
    int rv = rt_etcd_watch(b->conn, &w->w, key, strlen(key), "", 0, 0, &user);
    assert_true(rv == 0 || rv == ROTA_NOMEM);
    return rv == 0;
}

void watch(struct bare *b, struct watched *w, const char *key, const char *end)
{
    memset(w, 0, sizeof(*w));
    inside = true;
    assert_int_equal(rt_etcd_watch(b->conn, &w->w, key, strlen(key), end, strlen(end), 0, &user),
                     0);
    inside = false;
}

static void on_kept(struct rt_etcd_conn *c, struct rt_etcd_keep *rk, int err, int64_t ttl_s,
                    int64_t sent_at)
{
    struct kept *k = (struct kept *)(void *)rk;
    (void)of(c);
    assert_true(err != 0 || sent_at > 0);
    k->answers++;
    k->err = err;
    k->ttl = ttl_s;
}

void keep(struct bare *b, struct kept *k, int64_t lease, uint32_t ms)
{
    memset(k, 0, sizeof(*k));
    inside = true;
    rt_etcd_keep(b->conn, &k->k, lease, ms == 0 ? RT_NEVER : rt_loop_now(&bare_loop) + ms * RT_MS,
                 on_kept);
    inside = false;
}
