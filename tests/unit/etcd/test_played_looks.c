/* SPDX-License-Identifier: Apache-2.0 */
/* Looks, played in virtual time: lines by the page, the session and what it holds, waiting, at_least. */
#include "played.h"

#include "core/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

/* More lines than a page holds are all told, once, as of one moment; even when an operator compacts meanwhile: then
 * it starts over. */
static void lists_of_more_than_a_page(void **state)
{
    (void)state;
    list_pages(false, 2);
    list_pages(true, 4);
}

static bool play_all(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__RangeResponse none = RT_ETCD__RANGE_RESPONSE__INIT;
    if (!town_is_call(w, i, "/etcdserverpb.KV/Range"))
        return play(town, w, i);
    RtEtcd__RangeRequest *rq = town_read(w, i, &rt_etcd__range_request__descriptor);
    assert_true(rq->key.len == 1 && rq->key.data[0] == 0);
    assert_true(rq->range_end.len == 1 && rq->range_end.data[0] == 0);
    protobuf_c_message_free_unpacked(&rq->base, NULL);
    pages++;
    town_answer(w, i, &none);
    return true;
}

/* Without a prefix: from the first key there can be to the last. */
static void lists_of_all_that_is_there(void **state)
{
    struct rt_op op = {.kind = RT_OP_LIST};
    (void)state;
    pages = listed = 0;
    open_town(play_all);
    op.list.prefix = "";
    op.list.each = each_line;
    assert_int_equal(town_do(&t, &op), 0);
    assert_int_equal(pages, 1);
    assert_int_equal(listed, 0);
    close_town();
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

/* A look may miss what happens while it is under way: one more follows, however often it was requested. None follows
 * for a session that has ended. */
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

static bool play_deaf(struct town *town, struct town_wire *w, size_t i)
{
    return town_is_call(w, i, "/etcdserverpb.Lease/LeaseKeepAlive") || play_looks(town, w, i);
}

/* A heartbeat without an answer ends at its own deadline, not later: by then its client must know where it stands. */
static void a_beat_ends_at_its_deadline(void **state)
{
    static const int64_t limits_ms[] = {1000, 3000, 0}; /* 0: none */
    (void)state;
    hold_looks = true;
    for (int i = 0; i < 3; i++) {
        struct rt_op op = {.kind = RT_OP_BEAT};
        open_town(play_deaf);
        rt_etcd_s(t.conn)->session.id = 7;
        op.beat.session = 7;
        int64_t began = rt_loop_now(&t.loop);
        op.deadline = limits_ms[i] > 0 ? began + limits_ms[i] * RT_MS : RT_NEVER;
        t.op = &op;
        rt_engine_etcd.submit(rt_etcd_base(t.conn), &op);
        town_until(&t, &t.done, 1);
        assert_int_equal(op.err, ROTA_UNKNOWN);
        assert_int_equal((rt_loop_now(&t.loop) - began) / RT_MS,
                         limits_ms[i] > 0 ? limits_ms[i] : 5000); /* call_ms */
        close_town();
    }
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

/* A hold on a lease of its own that cannot be put back on the session's, because nobody answers: its user is told that
 * it is lost while that lease still lasts. Otherwise it would believe in a lock that another has (I3). */
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

static bool lease_is_over; /* of the next transaction */

static bool play_over(struct town *town, struct town_wire *w, size_t i)
{
    bool txn = town_is_call(w, i, "/etcdserverpb.KV/Txn");
    int before = txns;
    bool mine = play_looks(town, w, i);
    if (txn && txns > before && lease_is_over) {
        lease_is_over = false;
        peer_refuse(&w->peer, i, "200", "application/grpc", "5",
                    "etcdserver: requested lease not found");
    }
    return mine;
}

/* One that leaves before its time keeps the line by a lease that ends with that time, even if nobody is left to end it.
 * If the lease ended before the ticket was put on it, the ticket stays where it was, and goes then. */
static void a_mark_whose_lease_was_over(void **state)
{
    struct reply read, put;
    (void)state;
    secured = 0;
    reply_init(&read, true, 20);
    add_range(&read);
    add_kv(&read, "a/7-9", "", 5, 7);
    reply_init(&put, true, 21);
    add_put(&put);
    hold_looks = true;
    open_town(play_over);
    rt_etcd_s(t.conn)->session.id = 7;
    struct rt_etcd_ticket *ticket = add_ticket("a/7-9", 5);
    ticket->at_least_ms = 4500;
    script[0] = &read;
    script[1] = &put;
    script[3] = &put;
    rt_etcd_least_take(t.conn, ticket, NULL, on_secured, NULL);
    town_until(&t, &secured, 1);
    struct rt_op op = leave_op("a", 5, 0);
    lease_is_over = true;
    assert_int_equal(town_do(&t, &op), 0);
    assert_in_range(granted_ttl[1], 1, 5); /* what was left of 4.5 s, in whole seconds */
    assert_int_equal(seen[2]->success[0]->put->lease, 92);
    assert_int_equal(seen[3]->success[0]->put->lease, 0);
    assert_true(seen[3]->success[0]->put->ignore_lease);
    town_until(&t, &revokes, 1);
    assert_int_equal(revoked[0], 91);
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

/* The last party marks all of them, with its own number as the bound, each only if it is still as it was read; then it
 * looks, and goes through. Without the marks nobody ever would. */
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

/* Nobody wakes a client that may not watch: each heartbeat looks on behalf of all its tickets, not only of one. */
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

/* A reader that is to hear who wants its lock hears of a writer behind it, but not of another reader. */
static void an_armed_reader_hears_of_writers(void **state)
{
    static const char reader[] = "rota1 1 0 0 - 0 0 0 9 0  ",
                      writer[] = "rota1 0 0 0 - 0 0 0 3 0  ";
    (void)state;
    refuses = false;
    for (int wanted = 0; wanted < 2; wanted++) {
        struct reply line;
        watches = 0;
        reply_init(&line, true, 20);
        add_range(&line);
        add_kv(&line, "a/7-s1", reader, 5, 7);
        add_kv(&line, "a/8-s1", wanted != 0 ? writer : reader, 6, 8);
        open_town(play_watches);
        struct rt_etcd_ticket *ticket = add_ticket("a/7-s1", 5);
        ticket->mode = RT_SHARED;
        ticket->armed = true;
        script[0] = &line;
        rt_etcd_arm(t.conn, ticket);
        town_until(&t, &txns, 1);
        for (int i = 0; i < 4; i++)
            town_step(&t);
        assert_int_equal(watches, 1);
        assert_int_equal(t.events[RT_WANTED], wanted);
        close_town();
    }
}

/* ---- The session's end ------------------------------------------------------------------------------- */

static bool part(void)
{
    bool busy = rt_engine_etcd.parting(rt_etcd_base(t.conn));
    for (int i = 0; i < 4; i++)
        town_step(&t);
    return busy;
}

/* Its lease is revoked when nothing stands on it. What does is left to its ttl: somebody is still in there, and must
 * not lose it to a colleague who goes home. */
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

/* Each line once, whatever stands in it, and of each only what belongs to the session: this is how deadlocks are
 * found. */
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

/* ---- Strays ---------------------------------------------------------------------------------------- */

static const char *stray_value;

static bool play_stray(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__LeaseTimeToLiveResponse left = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    RtEtcd__RangeResponse r = RT_ETCD__RANGE_RESPONSE__INIT;
    RtEtcd__KeyValue kv = RT_ETCD__KEY_VALUE__INIT, *list = &kv;
    ProtobufCBinaryData key = text("a/7-s1");
    if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive")) {
        left.id = 7;
        left.ttl = 2;
        left.keys = &key;
        left.n_keys = 1;
        looks++;
        town_answer(w, i, &left);
    } else if (town_is_call(w, i, "/etcdserverpb.KV/Range")) {
        kv.key = key;
        kv.value = text(stray_value);
        kv.create_revision = 5;
        kv.lease = 7;
        r.kvs = &list;
        r.n_kvs = 1;
        pages++;
        town_answer(w, i, &r);
    } else {
        return play(town, w, i);
    }
    return true;
}

static void submit_join(struct rt_op *op, struct rt_join *join)
{
    *join = (struct rt_join){.name = "a", .session = 7, .nonce = 6, .mode = RT_EXCLUSIVE};
    *op = (struct rt_op){.kind = RT_OP_JOIN, .deadline = RT_NEVER};
    op->join.joins = join;
    op->join.n = 1;
    looks = pages = 0;
    open_town(play_stray);
    rt_etcd_s(t.conn)->session.id = 7;
    town_submit(&t, op);
    town_until(&t, &txns, 1);
    rt_etcd_verify(t.conn);
    town_until(&t, &pages, 1);
}

/* A late ticket stands before those who ask after it: whoever asks for that name without a pause (a try, and another)
 * would keep it there for ever if it were left alone while one of them is under way. The value tells whose it is. */
static void a_stray_is_taken_up_while_another_joins(void **state)
{
    struct reply front;
    struct rt_join join;
    struct rt_op op;
    (void)state;
    reply_init(&front, true, 20);
    add_range(&front);
    add_range(&front);
    stray_value = "rota1 0 0 0 - 0 0 0 4 0  ";
    submit_join(&op, &join);
    town_until(&t, &txns, 2);
    answer(1, &front);
    assert_int_equal(seen[1]->compare[0]->create_revision, 5);
    town_until(&t, &t.events[RT_GRANTED], 1);
    assert_int_equal(t.granted_nonce, 4);
    close_town();
}

/* The one that is under way does not count. */
static void who_joins_is_no_stray(void **state)
{
    struct rt_join join;
    struct rt_op op;
    (void)state;
    stray_value = "rota1 0 0 0 - 0 0 0 6 0  ";
    submit_join(&op, &join);
    rt_etcd_verify(t.conn);
    town_until(&t, &pages, 2);
    assert_null(rt_etcd_s(t.conn)->tickets);
    close_town();
}

/* ---- By pages -------------------------------------------------------------------------------------- */

static bool too_large; /* what was asked with its keys */

static bool play_wide(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__LeaseTimeToLiveResponse left = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    if (!town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive"))
        return play(town, w, i);
    RtEtcd__LeaseTimeToLiveRequest *rq = town_read(
        w, i, &rt_etcd__lease_time_to_live_request__descriptor);
    assert_int_equal(rq->keys, too_large);
    protobuf_c_message_free_unpacked(&rq->base, NULL);
    looks++;
    left.id = 7;
    left.ttl = 2;
    uint8_t huge[5] = {0, 0x00, 0x40, 0x00, 0x01}; /* 4 MiB and one byte more */
    if (too_large)
        peer_answer_raw(&w->peer, i, huge, sizeof(huge), NULL);
    else
        town_answer(w, i, &left);
    return true;
}

/* 130 tickets: two pages, the first of which has neither of the two oldest. */
static void look_by_pages(struct reply *all)
{
    char key[32];
    looks = 0;
    open_town(play_wide);
    rt_etcd_s(t.conn)->session.id = 7;
    for (uint64_t i = 1; i <= RT_ETCD_OPS_MAX + 2; i++) {
        snprintf(key, sizeof(key), "a/7-%llx", (unsigned long long)i);
        (void)add_ticket(key, 100 + i);
    }
    if (!too_large)
        rt_etcd_s(t.conn)->key_bytes += 3 << 20;
    rt_etcd_verify(t.conn);
    town_until(&t, &txns, 1);
    assert_int_equal(seen[0]->n_compare, RT_ETCD_OPS_MAX);
    assert_int_equal(seen[0]->n_success, 1); /* or it were answered by whoever is behind */
    assert_bytes(seen[0]->compare[0]->key, "a/7-82");
    assert_int_equal(seen[0]->compare[0]->create_revision, 230);
    reply_init(all, true, 300);
    add_range(all);
}

/* More keys than one answer can have: our tickets are compared by pages, and one that is missing on a page is found.
 * The same where we believed that they would fit. */
static void many_are_looked_at_by_pages(void **state)
{
    struct reply all, not_all, gone;
    (void)state;
    reply_init(&not_all, false, 300);
    reply_init(&gone, false, 300);
    for (int i = 0; i < 2; i++) {
        too_large = i == 1;
        look_by_pages(&all);
        answer(0, &all);
        town_until(&t, &txns, 2);
        assert_int_equal(seen[1]->n_compare, 2);
        assert_bytes(seen[1]->compare[1]->key, "a/7-1");
        answer(1, &not_all);
        town_until(&t, &txns, 4);
        answer(2, &all);
        answer(3, &gone);
        town_until(&t, &t.events[RT_TICKET_LOST], 1);
        assert_int_equal(looks, 1);
        close_town();
    }
}

/* The next page begins with what is left: tickets come and go while one is under way. */
static void what_goes_between_two_pages(void **state)
{
    struct reply all;
    (void)state;
    too_large = false;
    look_by_pages(&all);
    rt_etcd_ticket_drop(t.conn, rt_etcd_s(t.conn)->session.page_end); /* a/7-2 */
    rt_etcd_ticket_drop(t.conn, rt_etcd_s(t.conn)->session.page);
    (void)add_ticket("a/7-new", 250);
    rt_etcd_verify(t.conn); /* one more look, when this is over */
    answer(0, &all);
    town_until(&t, &txns, 2);
    assert_int_equal(seen[1]->n_compare, 1);
    assert_bytes(seen[1]->compare[0]->key, "a/7-1");
    assert_int_equal(looks, 1);
    answer(1, &all);
    town_until(&t, &looks, 2);
    close_town();
}

/* ... and no page is requested for a session that has ended. */
static void pages_end_with_the_session(void **state)
{
    struct reply all;
    (void)state;
    look_by_pages(&all);
    rt_etcd_s(t.conn)->session.id = 8;
    answer(0, &all);
    rt_etcd_verify(t.conn); /* asked for when the other is over */
    town_until(&t, &looks, 2);
    assert_int_equal(txns, 1);
    close_town();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_more_than_a_page),
        cmocka_unit_test(lists_of_all_that_is_there),
        cmocka_unit_test(what_happens_while_we_look_is_looked_for_again),
        cmocka_unit_test(a_beat_ends_at_its_deadline),
        cmocka_unit_test(a_hold_that_cannot_be_moved_is_lost_in_time),
        cmocka_unit_test(a_mark_whose_lease_was_over),
        cmocka_unit_test(a_full_barrier_is_opened),
        cmocka_unit_test(an_armed_reader_hears_of_writers),
        cmocka_unit_test(who_may_not_watch_looks_with_each_beat),
        cmocka_unit_test(a_session_with_a_hold_is_left_to_die),
        cmocka_unit_test(what_a_session_holds_is_shown_once),
        cmocka_unit_test(a_stray_is_taken_up_while_another_joins),
        cmocka_unit_test(who_joins_is_no_stray),
        cmocka_unit_test(many_are_looked_at_by_pages),
        cmocka_unit_test(what_goes_between_two_pages),
        cmocka_unit_test(pages_end_with_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
