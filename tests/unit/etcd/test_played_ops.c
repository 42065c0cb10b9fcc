/* SPDX-License-Identifier: Apache-2.0 */
/* Ops whose transactions are played in virtual time: each answer is written down before it is asked for. */
#include "../scarce.h"
#include "engine/etcd/ops.h"
#include "town.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RUNNING 1000 /* as an op's error */
#define TXNS 16

extern const struct rt_engine rt_engine_etcd;

static struct town t;

/* ---- Answers -------------------------------------------------------------------------------------- */

struct reply { /* to a transaction */
    RtEtcd__TxnResponse txn;
    RtEtcd__Header header;
    RtEtcd__ResponseOp ops[4], *op_list[4];
    RtEtcd__RangeResponse ranges[4];
    RtEtcd__KeyValue kvs[8], *kv_list[8];
    size_t kv_count;
};

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

static void reply_init(struct reply *r, bool succeeded, int64_t revision)
{
    memset(r, 0, sizeof(*r));
    rt_etcd__txn_response__init(&r->txn);
    rt_etcd__header__init(&r->header);
    r->header.revision = revision;
    r->txn.header = &r->header;
    r->txn.succeeded = succeeded;
    r->txn.responses = r->op_list;
}

static void add_put(struct reply *r)
{
    size_t n = r->txn.n_responses++;
    rt_etcd__response_op__init(&r->ops[n]);
    r->op_list[n] = &r->ops[n];
}

static void add_range(struct reply *r)
{
    size_t n = r->txn.n_responses;
    add_put(r);
    rt_etcd__range_response__init(&r->ranges[n]);
    r->ranges[n].kvs = &r->kv_list[r->kv_count];
    r->ops[n].response_case = RT_ETCD__RESPONSE_OP__RESPONSE_RANGE;
    r->ops[n].range = &r->ranges[n];
}

/* Into the range that was added last. */
static void add_kv(struct reply *r, const char *key, const char *value, int64_t number,
                   int64_t lease)
{
    RtEtcd__KeyValue *kv = &r->kvs[r->kv_count];
    rt_etcd__key_value__init(kv);
    r->kv_list[r->kv_count++] = kv;
    r->ranges[r->txn.n_responses - 1].n_kvs++;
    kv->key = text(key);
    kv->value = text(value);
    kv->create_revision = number;
    kv->mod_revision = number + 100;
    kv->lease = lease;
}

/* ---- The server ----------------------------------------------------------------------------------- */

static const struct reply *script[TXNS]; /* the answer to each transaction; NULL: none, for now */
static RtEtcd__TxnRequest *seen[TXNS];
static struct {
    struct town_wire *wire;
    size_t call;
} held[TXNS];
static int txns, revokes, grants;
static int64_t revoked[8], granted_ttl[8];

static void answer(int txn, const struct reply *r)
{
    town_answer(held[txn].wire, held[txn].call, &r->txn);
}

static void play_txn(struct town_wire *w, size_t i)
{
    assert_true(txns < TXNS);
    seen[txns] = town_read(w, i, &rt_etcd__txn_request__descriptor);
    held[txns].wire = w;
    held[txns].call = i;
    txns++;
    if (script[txns - 1] != NULL)
        answer(txns - 1, script[txns - 1]);
}

static bool play(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    if (town_is_call(w, i, "/etcdserverpb.KV/Txn")) {
        play_txn(w, i);
    } else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseRevoke")) {
        RtEtcd__LeaseRevokeResponse done = RT_ETCD__LEASE_REVOKE_RESPONSE__INIT;
        RtEtcd__LeaseRevokeRequest *rq = town_read(w, i,
                                                   &rt_etcd__lease_revoke_request__descriptor);
        assert_true(revokes < 8);
        revoked[revokes++] = rq->id;
        protobuf_c_message_free_unpacked(&rq->base, NULL);
        town_answer(w, i, &done);
    } else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseGrant")) {
        RtEtcd__LeaseGrantResponse lease = RT_ETCD__LEASE_GRANT_RESPONSE__INIT;
        RtEtcd__LeaseGrantRequest *rq = town_read(w, i, &rt_etcd__lease_grant_request__descriptor);
        assert_true(grants < 8);
        granted_ttl[grants++] = lease.ttl = rq->ttl;
        lease.id = 90 + grants; /* 91, 92 ... */
        protobuf_c_message_free_unpacked(&rq->base, NULL);
        town_answer(w, i, &lease);
    } else {
        return false;
    }
    return true;
}

static void open_town(town_play_fn *fn)
{
    memset(script, 0, sizeof(script));
    txns = revokes = grants = 0;
    town_init(&t, 1);
    t.play = fn;
    town_open(&t, "etcd://a");
    town_until_ready(&t);
}

static void close_town(void)
{
    for (int i = 0; i < txns; i++)
        protobuf_c_message_free_unpacked(&seen[i]->base, NULL);
    txns = 0;
    town_close(&t);
}

static void assert_bytes(ProtobufCBinaryData got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.data, want, got.len);
}

static struct rt_etcd_ticket *add_ticket(const char *key, uint64_t number)
{
    struct rt_join join = {.name = "a", .session = 7, .nonce = 9, .mode = RT_EXCLUSIVE};
    struct rt_etcd_ticket *ticket = rt_etcd_ticket_with_key(&join, key, strlen(key));
    assert_non_null(ticket);
    ticket->number = number;
    ticket->granted = true;
    rt_etcd_ticket_add(t.conn, ticket);
    return ticket;
}

static struct rt_op leave_op(const char *name, uint64_t number, uint64_t nonce)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .err = RUNNING};
    op.leave.name = name;
    op.leave.session = 7;
    op.leave.number = number;
    op.leave.nonce = nonce;
    return op;
}

/* ---- One after the other ---------------------------------------------------------------------------- */

/* The nonce in the key that transaction I would delete. */
static void assert_leaves(int i, const char *key)
{
    assert_true(seen[i]->n_success > 1);
    assert_bytes(seen[i]->success[1]->range->key, key);
}

/* etcd serves calls side by side. So of one name the next op is sent when the one before has its answer, also when
 * one between them is canceled; other names do not wait, even of the same lane; a set waits for all of its names. */
static void ops_of_a_name_go_one_after_the_other(void **state)
{
    struct reply none;
    struct rt_op first = leave_op("a", 0, 1), second = leave_op("a", 0, 2);
    struct rt_op third = leave_op("a", 0, 3), other = leave_op("ke", 0, 4);
    struct rt_join joins[] = {{.name = "a", .nonce = 5}, {.name = "ke", .nonce = 6}};
    struct rt_op set = {.kind = RT_OP_JOIN_ALL, .err = RUNNING};
    struct rt_op *const all[] = {&first, &second, &third, &other, &set};
    (void)state;
    reply_init(&none, false, 1);
    set.join.joins = joins;
    set.join.n = 2;
    open_town(play);
    for (size_t i = 0; i < 5; i++)
        town_submit(&t, all[i]);
    town_until(&t, &txns, 2);
    assert_leaves(0, "a/7-1");
    assert_leaves(1, "ke/7-4");
    rt_engine_etcd.cancel(rt_etcd_base(t.conn), &second);
    assert_int_equal(second.err, ROTA_CANCELED);
    answer(0, &none);
    town_until(&t, &txns, 3);
    assert_leaves(2, "a/7-3");
    assert_int_equal(first.err, ROTA_LOST);
    answer(2, &none);
    town_until(&t, &t.done, 3);
    assert_int_equal(set.err, RUNNING); /* the other name is not free yet */
    answer(1, &none);
    town_until(&t, &t.done, 5);
    assert_int_equal(set.err, ROTA_LOST); /* begun: it has no session */
    assert_int_equal(txns, 3);
    close_town();
}

/* It would stand behind itself for ever. */
static void a_set_that_names_a_line_twice_is_told(void **state)
{
    struct rt_join joins[] = {{.name = "a", .nonce = 5, .flags = RT_JOIN_DURABLE},
                              {.name = "a", .nonce = 6, .flags = RT_JOIN_DURABLE}};
    struct rt_op set = {.kind = RT_OP_JOIN_ALL};
    (void)state;
    for (int i = 0; i < 2; i++)
        joins[i].mode = RT_EXCLUSIVE;
    set.join.joins = joins;
    set.join.n = 2;
    open_town(play);
    assert_int_equal(town_do(&t, &set), ROTA_INVALID);
    assert_non_null(strstr(t.why, "twice"));
    assert_int_equal(txns, 0);
    close_town();
}

/* engine.h: nothing is told from `close`, also of what is under way. */
static void who_closes_hears_nothing_more(void **state)
{
    struct rt_op op = leave_op("a", 0, 1);
    (void)state;
    open_town(play);
    town_submit(&t, &op);
    town_until(&t, &txns, 1);
    close_town();
    assert_int_equal(t.done, 0);
}

/* ---- Leaving by nonce -------------------------------------------------------------------------------- */

/* KEY, on LEASE, is found and deleted by its nonce: what is revoked then? */
static int leave_by_nonce(const char *key, int64_t lease, bool second_key)
{
    struct reply r;
    struct rt_op op = leave_op("a", 0, 9);
    reply_init(&r, true, 20);
    add_range(&r);
    add_kv(&r, key, "", 5, lease);
    for (int i = 0; i < 2; i++) {
        add_range(&r);
        if (second_key == (i == 1))
            add_kv(&r, key, "", 5, lease);
    }
    open_town(play);
    script[0] = &r;
    assert_int_equal(town_do(&t, &op), 0);
    assert_true(op.leave.granted); /* it was the first of the line */
    assert_int_equal(seen[0]->n_success, 5);
    struct rt_op empty = leave_op("", 0, 9); /* a turn for what nobody waits for */
    assert_int_equal(town_do(&t, &empty), ROTA_INVALID);
    for (int i = 0; i < 4; i++)
        town_step(&t);
    int count = revokes;
    close_town();
    return count;
}

/* A lease that was the ticket's own ends with it, or etcd keeps it for the years it was given. The session's lease does
 * not: all other tickets of this process are on it. */
static void a_leave_by_nonce_ends_the_lease_of_the_ticket_alone(void **state)
{
    (void)state;
    assert_int_equal(leave_by_nonce("a/p7-9", 99, true), 1);
    assert_int_equal(revoked[0], 99);
    assert_int_equal(leave_by_nonce("a/p7-9", 0, true), 0);
    assert_int_equal(leave_by_nonce("a/7-9", 7, false), 0);
}

/* At a spot only the value has the nonce: found in the line, then deleted if it is that very ticket. */
static void a_leave_by_nonce_finds_its_spot(void **state)
{
    struct reply look, gone;
    struct rt_op op = leave_op("a", 0, 9);
    (void)state;
    reply_init(&look, true, 20);
    add_range(&look);
    add_kv(&look, "a/7-s1", "rota1 0 0 0 - 0 0 0 8 0  ", 4, 7); /* of another nonce */
    add_kv(&look, "a/8-s2", "rota1 0 0 0 - 0 0 0 9 0  ", 5, 8); /* of another session */
    add_kv(&look, "a/7-s3", "rota1 0 0 0 - 0 0 0 9 0  ", 6, 7);
    add_range(&look);
    add_range(&look);
    reply_init(&gone, true, 21);
    add_range(&gone);
    add_kv(&gone, "a/7-s1", "rota1 0 0 0 - 0 0 0 8 0  ", 4, 7);
    add_kv(&gone, "a/7-s3", "rota1 0 0 0 - 0 0 0 9 0  ", 6, 7);
    open_town(play);
    script[0] = &look;
    script[1] = &gone;
    assert_int_equal(town_do(&t, &op), 0);
    assert_false(op.leave.granted);
    assert_int_equal(txns, 2);
    assert_bytes(seen[1]->compare[0]->key, "a/7-s3");
    assert_int_equal(seen[1]->compare[0]->create_revision, 6);
    assert_int_equal(revokes, 0);
    close_town();
}

/* ---- Changing -------------------------------------------------------------------------------------- */

/* A value is written over what was read, and only if nobody wrote meanwhile; else it is read again. Who waits behind
 * is seen in the same step. */
static void a_value_is_written_over_what_was_read(void **state)
{
    struct reply read, raced, written;
    struct rt_op op = {.kind = RT_OP_CHANGE};
    static const char card[] = "rota1 0 0 0 - 0 0 1700000000000 9 2 me old";
    (void)state;
    reply_init(&read, true, 20);
    add_range(&read);
    add_kv(&read, "a/7-s1", card, 5, 7);
    reply_init(&raced, false, 20);
    reply_init(&written, true, 21);
    add_put(&written);
    add_range(&written);
    add_kv(&written, "a/7-s1", card, 5, 7);
    add_kv(&written, "a/8-s1", "rota1 0 0 0 - 0 0 0 3 0  ", 6, 8);
    open_town(play);
    struct rt_etcd_ticket *ticket = add_ticket("a/7-s1", 5);
    ticket->armed = true;
    script[0] = script[2] = &read;
    script[1] = &raced;
    script[3] = &written;
    op.change.name = "a";
    op.change.session = 7;
    op.change.number = 5;
    op.change.what = RT_CHANGE_VALUE;
    op.change.value = "new";
    assert_int_equal(town_do(&t, &op), 0);
    assert_true(op.change.wanted);
    assert_int_equal(txns, 4);
    assert_int_equal(seen[3]->compare[0]->mod_revision, 105);
    const RtEtcd__PutRequest *put = seen[3]->success[0]->put;
    assert_bytes(put->key, "a/7-s1");
    assert_bytes(put->value, "rota1 0 0 0 - 0 0 1700000000000 9 2 me new");
    assert_true(put->ignore_lease);
    close_town();
}

/* ROTA_LOST: not in the line, or waiting there, or another's. */
static void a_change_of_what_is_not_held_is_lost(void **state)
{
    static const struct {
        const char *key;
        int64_t ahead;
    } lines[] = {{"a/7-s1", 4}, {"a/8-s1", 0}, {"a/7", 0}, {NULL, 0}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct reply read;
        struct rt_op op = {.kind = RT_OP_CHANGE};
        reply_init(&read, true, 20);
        add_range(&read);
        if (lines[i].ahead != 0)
            add_kv(&read, "a/9-s1", "rota1 0 0 0 - 0 0 0 3 0  ", lines[i].ahead, 9);
        if (lines[i].key != NULL)
            add_kv(&read, lines[i].key, "rota1 0 0 0 - 0 0 0 9 0  ", 5, 7);
        open_town(play);
        script[0] = &read;
        op.change.name = "a";
        op.change.session = 7;
        op.change.number = 5;
        op.change.what = RT_CHANGE_VALUE;
        op.change.value = "new";
        assert_int_equal(town_do(&t, &op), ROTA_LOST);
        assert_int_equal(txns, 1);
        close_town();
    }
}

/* ---- Many keys ------------------------------------------------------------------------------------- */

static int pages, listed;
static bool compacts; /* the second page, once */
static char lines_told[64];

static void each_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg;
    listed++;
    size_t n = strlen(lines_told);
    snprintf(lines_told + n, sizeof(lines_told) - n, "%s %zu %zu, ", name, count, granted);
}

/* Three tickets on two pages, and what is none: a session, a name longer than any. */
static bool play_pages(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__RangeResponse r = RT_ETCD__RANGE_RESPONSE__INIT;
    RtEtcd__Header header = RT_ETCD__HEADER__INIT;
    RtEtcd__KeyValue kvs[3], *list[] = {&kvs[0], &kvs[1], &kvs[2]};
    char longest[RT_NAME_ROOM + 8];
    if (!town_is_call(w, i, "/etcdserverpb.KV/Range"))
        return play(town, w, i);
    memset(longest, 'a', RT_NAME_ROOM);
    snprintf(longest + RT_NAME_ROOM, 8, "/p7-4");
    RtEtcd__RangeRequest *rq = town_read(w, i, &rt_etcd__range_request__descriptor);
    bool first = rq->revision == 0;
    assert_true(rq->keys_only);
    assert_bytes(rq->range_end, "b");
    if (first)
        assert_bytes(rq->key, "a");
    else
        assert_true(rq->key.len == 8 && memcmp(rq->key.data, "a1/p7-2", 8) == 0);
    protobuf_c_message_free_unpacked(&rq->base, NULL);
    pages++;
    if (!first && compacts) {
        compacts = false;
        peer_refuse(&w->peer, i, "200", "application/grpc", "11",
                    "etcdserver: mvcc: required revision has been compacted");
        return true;
    }
    header.revision = 30;
    const char *const first_keys[] = {"a1/p7-1", "a+rota/7", "a1/p7-2"};
    const char *const last_keys[] = {"a2/p7-3", longest};
    for (int k = 0; k < (first ? 3 : 2); k++) {
        rt_etcd__key_value__init(&kvs[k]);
        kvs[k].key = text(first ? first_keys[k] : last_keys[k]);
        kvs[k].create_revision = first ? 5 + k : 8 + k;
    }
    r.header = &header;
    r.kvs = list;
    r.n_kvs = first ? 3 : 2;
    r.more = first;
    town_answer(w, i, &r);
    return true;
}

static void list_pages(bool compact, int want)
{
    struct reply values;
    struct rt_op op = {.kind = RT_OP_LIST};
    reply_init(&values, true, 30);
    for (int i = 0; i < 3; i++) {
        add_range(&values);
        add_kv(&values, "k", "rota1 0 0 0 - 0 0 0 1 0  ", 5, 0);
    }
    pages = listed = 0;
    compacts = compact;
    lines_told[0] = '\0';
    open_town(play_pages);
    script[0] = &values;
    op.list.prefix = "a";
    op.list.each = each_line;
    assert_int_equal(town_do(&t, &op), 0);
    assert_string_equal(lines_told, "a1 2 1, a2 1 1, ");
    assert_int_equal(pages, want);
    assert_int_equal(seen[0]->n_success, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(seen[0]->success[i]->range->revision, 30);
    close_town();
}

/* More lines than a page holds are all told, once, as of one moment; also when an operator compacts meanwhile: then
 * from the beginning. */
static void lists_of_more_than_a_page(void **state)
{
    (void)state;
    list_pages(false, 2);
    list_pages(true, 4);
}

/* ---- Looks at the session ---------------------------------------------------------------------------- */

static int looks;
static bool hold_looks;
static struct town_wire *look_wire;
static size_t look_call;

static void answer_look(void)
{
    RtEtcd__LeaseTimeToLiveResponse left = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    left.id = 7;
    left.ttl = 2;
    town_answer(look_wire, look_call, &left);
}

static bool play_looks(struct town *town, struct town_wire *w, size_t i)
{
    if (!town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive"))
        return play(town, w, i);
    looks++;
    look_wire = w;
    look_call = i;
    if (!hold_looks)
        answer_look();
    return true;
}

/* What happens while a look is under way may be missed by it: one more follows, however often it was asked for. None of
 * a session that has ended. */
static void what_happens_while_we_look_is_looked_for_again(void **state)
{
    (void)state;
    looks = 0;
    hold_looks = true;
    open_town(play_looks);
    rt_etcd_s(t.conn)->session.id = 7;
    for (int i = 0; i < 3; i++)
        rt_etcd_verify(t.conn);
    town_until(&t, &looks, 1);
    answer_look();
    town_until(&t, &looks, 2);
    rt_etcd_verify(t.conn);
    rt_etcd_s(t.conn)->session.id = 0;
    answer_look();
    struct rt_op op = leave_op("a", 0, 1); /* sent after whatever would follow */
    struct reply none;
    reply_init(&none, false, 1);
    script[0] = &none;
    assert_int_equal(town_do(&t, &op), ROTA_LOST);
    assert_int_equal(looks, 2);
    close_town();
}

/* ---- at_least_ms -------------------------------------------------------------------------------------- */

static int secured, secured_err;

static void on_secured(struct rt_etcd_conn *c, void *arg, int err)
{
    (void)c;
    (void)arg;
    secured++;
    secured_err = err;
}

/* A hold on a lease of its own that cannot be put back on the session's, for nobody answers: its user is told that it
 * is lost while that lease still lasts. Else it would believe in a lock that another has (I3). */
static void a_hold_that_cannot_be_moved_is_lost_in_time(void **state)
{
    struct reply read, put;
    (void)state;
    secured = 0;
    reply_init(&read, true, 20);
    add_range(&read);
    add_kv(&read, "a/7-9", "", 5, 7);
    reply_init(&put, true, 21);
    add_put(&put);
    hold_looks = true; /* when it is linked again */
    open_town(play_looks);
    rt_etcd_s(t.conn)->session.id = 7;
    struct rt_etcd_ticket *ticket = add_ticket("a/7-9", 5);
    ticket->at_least_ms = 1000;
    script[0] = &read;
    script[1] = &put;
    int64_t began = rt_loop_now(&t.loop);
    rt_etcd_least_take(t.conn, ticket, NULL, on_secured, NULL);
    town_until(&t, &secured, 1);
    assert_int_equal(secured_err, 0);
    assert_int_equal(granted_ttl[0], 15); /* its time, a 64th of it, a ttl and 3 s */
    assert_int_equal(ticket->lease, 91);
    assert_int_equal(seen[1]->compare[0]->mod_revision, 105);
    assert_int_equal(seen[1]->success[0]->put->lease, 91);
    assert_true(seen[1]->success[0]->put->ignore_value);
    int64_t promised = rt_etcd_least_clamp(t.conn,
                                           60000); /* no longer than the lease, less 1 % and 2 ms */
    assert_in_range(promised, 14848 - (rt_loop_now(&t.loop) - began) / RT_MS, 14848);
    town_until(&t, &t.events[RT_TICKET_LOST], 1);
    int64_t took = (rt_loop_now(&t.loop) - began) / RT_MS;
    assert_true(took >= 1000 && took <= 15000 - 5000);
    assert_bytes(seen[2]->success[0]->put->key, "a/7-9"); /* it was tried */
    assert_int_equal(seen[2]->success[0]->put->lease, 7);
    assert_true(txns > 2);
    close_town();
}

/* ---- Waiting --------------------------------------------------------------------------------------- */

static int watches;
static bool refuses; /* to watch */
static struct town_wire *watch_wire;
static size_t watch_call;
static int64_t watch_id;

static bool play_watches(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__WatchRequest *rq;
    if (!town_is_call(w, i, "/etcdserverpb.Watch/Watch"))
        return play_looks(town, w, i);
    watch_wire = w;
    watch_call = i;
    while ((rq = town_read(w, i, &rt_etcd__watch_request__descriptor)) != NULL) {
        RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
        if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CREATE) {
            watch_id = r.watch_id = rq->create->watch_id;
            r.created = true;
            r.canceled = refuses;
            r.cancel_reason = text(refuses ? "etcdserver: permission denied" : "");
            town_say(w, i, &r);
            watches++;
        }
        protobuf_c_message_free_unpacked(&rq->base, NULL);
    }
    return true;
}

static struct rt_etcd_ticket *add_waiting(const char *key, uint32_t mode, uint32_t of,
                                          uint64_t number)
{
    struct rt_etcd_ticket *ticket = add_ticket(key, number);
    ticket->granted = false;
    ticket->mode = mode;
    ticket->of = of;
    rt_etcd_wait_begin(t.conn, ticket, NULL);
    return ticket;
}

/* The last party marks all of them, with its own number as the bound, each only as it was read; then it looks, and
 * goes through. Without the marks nobody ever would. */
static void a_full_barrier_is_opened(void **state)
{
    struct reply full, marked, open;
    static const char *const keys[] = {"a/7-s1", "a/8-s1", "a/9-s1"};
    (void)state;
    reply_init(&full, true, 20);
    add_range(&full);
    reply_init(&open, true, 22);
    add_range(&open);
    for (int i = 0; i < 3; i++) { /* the third waits for the next round */
        add_kv(&full, keys[i], "rota1 4 0 2 - 0 0 0 9 0  ", 5 + i, 7 + i);
        add_kv(&open, keys[i], i < 2 ? "rota1 4 0 2 - 0 6 0 9 0  " : "rota1 4 0 2 - 0 0 0 9 0  ",
               5 + i, 7 + i);
    }
    reply_init(&marked, true, 21);
    add_put(&marked);
    add_put(&marked);
    watches = 0;
    refuses = false;
    open_town(play_watches);
    script[0] = &full;
    script[1] = &marked;
    script[2] = script[3] = &open;
    (void)add_waiting("a/7-s1", RT_GATHER, 2, 5);
    town_until(&t, &t.events[RT_GRANTED], 1);
    assert_int_equal(txns, 3); /* looks, marks, looks */
    assert_int_equal(seen[1]->n_compare, 2);
    for (size_t i = 0; i < 2; i++) {
        const RtEtcd__PutRequest *put = seen[1]->success[i]->put;
        assert_int_equal(seen[1]->compare[i]->mod_revision, i == 0 ? 106 : 105);
        assert_bytes(put->key, keys[1 - i]);
        assert_bytes(put->value, "rota1 4 0 2 - 0 6 0 9 0  ");
        assert_true(put->ignore_lease);
    }
    close_town();
}

/* Who may not watch is woken by nobody: each heartbeat looks for it, and not only for one of many. */
static void who_may_not_watch_looks_with_each_beat(void **state)
{
    struct reply behind;
    static const char *const keys[] = {"a/7-s1", "a/7-s2", "a/7-s3"};
    (void)state;
    reply_init(&behind, true, 20);
    add_range(&behind);
    add_kv(&behind, "a/8-s1", "rota1 0 0 0 - 0 0 0 3 0  ", 4, 8);
    add_range(&behind);
    watches = 0;
    refuses = true;
    open_town(play_watches);
    for (int i = 0; i < 9; i++)
        script[i] = &behind;
    for (uint64_t i = 0; i < 3; i++)
        (void)add_waiting(keys[i], RT_EXCLUSIVE, 0, 5 + i);
    town_until(&t, &watches, 3);
    for (int i = 0; i < 4; i++)
        town_step(&t);
    assert_int_equal(txns, 3);
    rt_etcd_wait_catch_up(t.conn); /* what a beat does */
    town_until(&t, &txns, 6);
    for (int i = 0; i < 3; i++) /* all of them */
        for (int k = 3; k < 6; k++)
            if (seen[k]->compare[0]->create_revision == 5 + i)
                break;
            else
                assert_true(k < 5);
    town_until(&t, &watches, 6);
    close_town();
}

/* ---- The session's end ------------------------------------------------------------------------------- */

static bool part(void)
{
    bool busy = rt_engine_etcd.parting(rt_etcd_base(t.conn));
    for (int i = 0; i < 4; i++)
        town_step(&t);
    return busy;
}

/* Its lease is revoked when nothing stands on it. What does is left to its ttl: somebody is in there still, and must not
 * lose it to a colleague who goes home. */
static void a_session_with_a_hold_is_left_to_die(void **state)
{
    (void)state;
    open_town(play);
    rt_etcd_s(t.conn)->session.id = 7;
    struct rt_etcd_ticket *ticket = add_ticket("a/7-s1", 5);
    assert_false(part());
    assert_int_equal(revokes, 0);
    ticket->lease = 91; /* one of its own */
    assert_true(part());
    assert_int_equal(revokes, 1);
    assert_int_equal(revoked[0], 7);
    assert_false(part());
    assert_int_equal(revokes, 1);
    close_town();
}

/* ---- What a session holds ---------------------------------------------------------------------------- */

static char shown[64];

static void each_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    size_t n = strlen(shown);
    snprintf(shown + n, sizeof(shown) - n, "%s %llu, ", name, (unsigned long long)place->number);
}

static bool play_keys(struct town *town, struct town_wire *w, size_t i)
{
    static const char *const keys[] = {"a/7-s2", "+rota/7", "#/7-s1", "data", "a/7-s1"};
    RtEtcd__LeaseTimeToLiveResponse left = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    ProtobufCBinaryData list[5];
    if (!town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive"))
        return play(town, w, i);
    for (size_t k = 0; k < 5; k++)
        list[k] = text(keys[k]);
    left.id = 7;
    left.ttl = 2;
    left.keys = list;
    left.n_keys = 5;
    town_answer(w, i, &left);
    return true;
}

/* Each line once, whatever stands in it, and of each only what is the session's: deadlocks are found by it. */
static void what_a_session_holds_is_shown_once(void **state)
{
    struct reply lines;
    struct rt_op op = {.kind = RT_OP_INSPECT};
    (void)state;
    reply_init(&lines, true, 20);
    add_range(&lines);
    add_kv(&lines, "#/7-s1", "rota1 0 0 0 - 0 0 0 5 0  ", 7, 7);
    add_range(&lines);
    add_kv(&lines, "a/8-s1", "rota1 0 0 0 - 0 0 0 3 0  ", 4, 8);
    add_kv(&lines, "a/7-s1", "rota1 0 0 0 - 0 0 0 3 0  ", 5, 7);
    add_kv(&lines, "a/7-s2", "rota1 0 0 0 - 0 0 0 4 0  ", 6, 7);
    shown[0] = '\0';
    open_town(play_keys);
    script[0] = &lines;
    op.inspect.session = 7;
    op.inspect.each = each_place;
    assert_int_equal(town_do(&t, &op), 0);
    assert_int_equal(txns, 1);
    assert_int_equal(seen[0]->n_success, 2);
    assert_string_equal(shown, "# 7, a 5, a 6, ");
    close_town();
}

/* ---- Small things -------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec ts;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &ts), 0);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* "held since" is for people, on other machines too. */
static void the_wall_clock_is_that_of_the_system(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t before = now_ms(), got = rt_etcd_wall_ms(), after = now_ms();
        assert_true(before <= got && got <= after);
    }
}

/* An open that fails for want of memory says so, and leaves nothing behind. */
static void an_open_without_memory(void **state)
{
    int failed = 0;
    (void)state;
    scarce_begin();
    for (;; failed++) {
        town_init(&t, 1);
        scarce.asked = 0;
        scarce.fail_at = failed + 1;
        int rv = town_try_open(&t, "etcd://a,b?prefix=x");
        bool reached = scarce.asked >= scarce.fail_at;
        scarce.fail_at = 0;
        if (!reached) {
            assert_int_equal(rv, 0);
            break;
        }
        if (rv == 0) { /* its first connection is tried again */
            struct rt_op op = leave_op("a", 0, 1);
            town_until_ready(&t);
            assert_int_equal(town_do(&t, &op), ROTA_LOST);
            town_close(&t);
        } else {
            assert_int_equal(rv, ROTA_NOMEM);
        }
        assert_int_equal(scarce.live, 0);
    }
    assert_true(failed > 3);
    town_until_ready(&t);
    town_close(&t);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_of_a_name_go_one_after_the_other),
        cmocka_unit_test(a_set_that_names_a_line_twice_is_told),
        cmocka_unit_test(who_closes_hears_nothing_more),
        cmocka_unit_test(a_leave_by_nonce_ends_the_lease_of_the_ticket_alone),
        cmocka_unit_test(a_leave_by_nonce_finds_its_spot),
        cmocka_unit_test(a_value_is_written_over_what_was_read),
        cmocka_unit_test(a_change_of_what_is_not_held_is_lost),
        cmocka_unit_test(lists_of_more_than_a_page),
        cmocka_unit_test(what_happens_while_we_look_is_looked_for_again),
        cmocka_unit_test(a_hold_that_cannot_be_moved_is_lost_in_time),
        cmocka_unit_test(a_full_barrier_is_opened),
        cmocka_unit_test(who_may_not_watch_looks_with_each_beat),
        cmocka_unit_test(a_session_with_a_hold_is_left_to_die),
        cmocka_unit_test(what_a_session_holds_is_shown_once),
        cmocka_unit_test(the_wall_clock_is_that_of_the_system),
        cmocka_unit_test(an_open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
