/* SPDX-License-Identifier: Apache-2.0 */
/* What real servers seldom do, played in virtual time: compacted watches, lost replies, many tickets. */
#include "engine/etcd/ops.h"
#include "town.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STEPS_MAX 10000

static struct town t;

static void open_town(town_play_fn *play)
{
    town_init(&t, 1);
    t.play = play;
    town_open(&t, "etcd://a");
    town_until_ready(&t);
}

static void until(const int *count, int n)
{
    town_until(&t, count, n);
}

/* ---- Watches -------------------------------------------------------------------------------------- */

static int created, cancels; /* asked for */
static struct town_wire *watch_wire;
static size_t watch_call;
static int64_t watch_id;

static bool play_watch(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__WatchRequest *rq;
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.Watch/Watch"))
        return false;
    watch_wire = w;
    watch_call = i;
    while ((rq = town_read(w, i, &rt_etcd__watch_request__descriptor)) != NULL) {
        RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
        cancels += rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CANCEL;
        if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CREATE) {
            assert_int_equal(rq->create->start_revision, 0); /* from now */
            watch_id = r.watch_id = rq->create->watch_id;
            r.created = true;
            town_say(w, i, &r);
            created++;
        }
        protobuf_c_message_free_unpacked(&rq->base, NULL);
    }
    return true;
}

static int told_created, told_lost, told_events;

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision)
{
    (void)c;
    (void)w;
    (void)revision;
    told_created++;
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    (void)c;
    (void)w;
    (void)revision;
    (void)events;
    told_events += (int)n;
}

static void on_lost(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int err)
{
    (void)c;
    (void)w;
    assert_int_equal(err, 0);
    told_lost++;
}

static const struct rt_etcd_watch_user watch_user = {on_created, on_events, on_lost};

static void say_event(void)
{
    RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
    RtEtcd__Event event = RT_ETCD__EVENT__INIT, *events[] = {&event};
    RtEtcd__KeyValue kv = RT_ETCD__KEY_VALUE__INIT;
    event.kv = &kv;
    r.watch_id = watch_id;
    r.events = events;
    r.n_events = 1;
    town_say(watch_wire, watch_call, &r);
}

/* An operator compacts while this client is slow: etcd ends its watch. It is made again, on the same stream; otherwise
 * the waiter is never woken, because nothing else looks at the key. */
static void a_compacted_watch_is_made_again(void **state)
{
    struct rt_etcd_watch w = {0};
    (void)state;
    created = cancels = told_created = told_lost = told_events = 0;
    open_town(play_watch);
    assert_int_equal(rt_etcd_watch(t.conn, &w, "key", 3, NULL, 0, 0, &watch_user), 0);
    until(&told_created, 1);
    RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
    r.watch_id = watch_id;
    r.canceled = true;
    r.compact_revision = 40;
    town_say(watch_wire, watch_call, &r);
    until(&told_lost, 1); /* what happened before it is looked for */
    until(&told_created, 2);
    assert_int_equal(created, 2);
    say_event();
    until(&told_events, 1);
    assert_int_equal(t.wire_count, 1); /* nobody is to blame */
    rt_etcd_unwatch(t.conn, &w);
    until(&cancels, 1);
    town_close(&t);
}

/* ---- Looks ---------------------------------------------------------------------------------------- */

static int looks, kept; /* LeaseTimeToLive, keep-alives */

static bool play_session(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__PutResponse put = RT_ETCD__PUT_RESPONSE__INIT;
    RtEtcd__LeaseTimeToLiveResponse left = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    RtEtcd__LeaseKeepAliveResponse alive = RT_ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    RtEtcd__LeaseKeepAliveRequest *rq;
    left.id = alive.id = 7;
    left.ttl = alive.ttl = 2;
    if (town_is_call(w, i, "/etcdserverpb.KV/Put")) {
        town_answer(w, i, &put);
    } else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive")) {
        looks++;
        town_answer(w, i, &left);
    } else if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseKeepAlive")) {
        while ((rq = town_read(w, i, &rt_etcd__lease_keep_alive_request__descriptor)) != NULL) {
            kept++;
            town_say(w, i, &alive);
            protobuf_c_message_free_unpacked(&rq->base, NULL);
        }
    } else {
        return play_watch(town, w, i);
    }
    return true;
}

/* The number of looks at the lease's keys in that many beats of a client with that many tickets. */
static int looks_in(int beats, size_t tickets)
{
    static const uint64_t none[2000];
    assert_true(tickets <= 2000);
    looks = 0;
    for (int i = 0; i < beats; i++) {
        struct rt_op op = {.kind = RT_OP_BEAT};
        op.beat.session = 7;
        op.beat.tickets = none;
        op.beat.ticket_count = tickets;
        assert_int_equal(town_do(&t, &op), 0);
    }
    return looks;
}

/* A beat looks at 256 tickets at most, on average: with 1,000 every fourth beat looks at all. Less often, and a
 * ticket that is gone is believed in for longer; more often, and beats cost more the more is held. */
static void looks_are_as_seldom_as_tickets_are_many(void **state)
{
    struct rt_op open = {.kind = RT_OP_BEAT};
    (void)state;
    created = cancels = kept = 0;
    open_town(play_session);
    open.beat.open = true;
    assert_int_equal(town_do(&t, &open), 0);
    assert_int_equal(open.beat.session, 7);
    until(&looks, 1); /* with the watch */
    assert_int_equal(looks_in(12, 0), 0);
    assert_int_equal(looks_in(1, 2000), 1); /* those were not spent, and are now */
    assert_int_equal(looks_in(12, 1), 12);
    assert_int_equal(looks_in(12, 256), 12);
    assert_int_equal(looks_in(12, 257), 6);
    assert_int_equal(looks_in(12, 512), 6);
    assert_int_equal(looks_in(12, 1000), 3);
    assert_int_equal(looks_in(24, 2000), 3);
    town_close(&t);
}

/* ---- Leaving -------------------------------------------------------------------------------------- */

static int txns, swallowed; /* transactions; how many get no reply */

static bool play_missing(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__TxnResponse txn = RT_ETCD__TXN_RESPONSE__INIT;
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.KV/Txn"))
        return false;
    if (++txns > swallowed)
        town_answer(w, i, &txn); /* its condition did not hold: no such ticket */
    return true;
}

/* A LEAVE of a ticket that holds, by number, where the first CUTS transactions get no reply. */
static int leave_after(int cuts)
{
    struct rt_join join = {.name = "a", .session = 7, .nonce = 9};
    struct rt_op op = {.kind = RT_OP_LEAVE};
    txns = 0;
    swallowed = cuts;
    open_town(play_missing);
    struct rt_etcd_ticket *ticket = rt_etcd_ticket_with_key(&join, "a/7-s1", 6);
    assert_non_null(ticket);
    ticket->number = 5;
    ticket->granted = true;
    rt_etcd_ticket_add(t.conn, ticket);
    op.leave.name = "a";
    op.leave.session = 7;
    op.leave.number = 5;
    town_submit(&t, &op);
    for (int i = 1; i <= cuts; i++) {
        until(&txns, i);
        town_cut(&t);
    }
    for (int i = 0; i < STEPS_MAX && t.op != NULL; i++)
        town_step(&t);
    assert_null(t.op);
    assert_int_equal(txns, cuts + 1);
    int err = t.err;
    op.leave.number =
        0; /* another, on the same connection: what went wrong before is not its own */
    op.leave.nonce = 9;
    assert_int_equal(town_do(&t, &op), ROTA_LOST);
    town_close(&t);
    return err;
}

/* I5: the first try may have taken it out, or somebody's BREAK before it: the releaser must not be told "yours to the
 * end". Without a lost reply it was no longer ours. */
static void a_leave_asked_again_that_finds_nothing_is_unknown(void **state)
{
    (void)state;
    assert_int_equal(leave_after(0), ROTA_LOST);
    assert_int_equal(leave_after(1), ROTA_UNKNOWN);
    assert_int_equal(leave_after(2), ROTA_UNKNOWN);
}

/* What a server refuses for now is retried until it is let in: somebody makes room, or the storm is over. */
static void what_is_refused_for_now_is_asked_again(void **state)
{
    static const char *const reasons[] = {"etcdserver: mvcc: database space exceeded",
                                          "etcdserver: too many requests"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rt_op op = {.kind = RT_OP_LEAVE};
        txns = 0;
        swallowed = 0;
        open_town(play_missing);
        t.servers[0].refuses = "/etcdserverpb.KV/Txn";
        t.servers[0].why = reasons[i];
        op.leave.name = "a";
        op.leave.session = 7;
        op.leave.nonce = 9;
        town_submit(&t, &op);
        const char *says = i == 0 ? "space" : "too many requests";
        for (int step = 0; step < STEPS_MAX && strstr(t.conn->link.trouble, says) == NULL; step++)
            town_step(&t);
        assert_non_null(t.op); /* it waits, and says why */
        assert_ptr_equal(rt_etcd_trouble(t.conn), t.conn->link.trouble);
        t.servers[0].refuses = NULL;
        for (int step = 0; step < STEPS_MAX && t.op != NULL; step++)
            town_step(&t);
        assert_null(rt_etcd_trouble(t.conn)); /* no more */
        assert_null(t.op);
        assert_int_equal(t.err,
                         ROTA_LOST); /* no such ticket, and it was never asked twice in vain */
        assert_int_equal(txns, 1);
        town_close(&t);
    }
}

static int refusals;
static int64_t refused_at[8];

static bool play_busy(struct town *town, struct town_wire *w, size_t i)
{
    if (!town_is_call(w, i, "/etcdserverpb.KV/Txn"))
        return false;
    if (refusals == 8)
        return play_missing(town, w, i);
    refused_at[refusals++] = rt_loop_now(&town->loop);
    peer_refuse(&w->peer, i, "200", "application/grpc", "8", "etcdserver: too many requests");
    return true;
}

/* Each time it waits twice as long, up to half a second: we do not add to a server's storm. */
static void pauses_grow_while_refused(void **state)
{
    static const int64_t pauses_ms[] = {20, 40, 80, 160, 320, 500, 500};
    struct rt_op op = {.kind = RT_OP_LEAVE};
    (void)state;
    txns = swallowed = refusals = 0;
    open_town(play_busy);
    op.leave.name = "a";
    op.leave.session = 7;
    op.leave.nonce = 9;
    assert_int_equal(town_do(&t, &op), ROTA_LOST);
    assert_int_equal(refusals, 8);
    for (int i = 0; i < 7; i++)
        assert_int_equal((refused_at[i + 1] - refused_at[i]) / RT_MS, pauses_ms[i]);
    town_close(&t);
}

/* ---- What another process put ------------------------------------------------------------------- */

static RtEtcd__TxnRequest *seen[2]; /* the transactions, as they came */

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

/* The first looks for the ticket 5, and finds it under KEY; the second takes it out. */
static bool play_found(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__TxnResponse txn = RT_ETCD__TXN_RESPONSE__INIT;
    RtEtcd__ResponseOp op = RT_ETCD__RESPONSE_OP__INIT, *ops[] = {&op};
    RtEtcd__RangeResponse range = RT_ETCD__RANGE_RESPONSE__INIT;
    RtEtcd__KeyValue kv = RT_ETCD__KEY_VALUE__INIT, *kvs[] = {&kv};
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.KV/Txn"))
        return false;
    assert_in_range(++txns, 1, 2);
    seen[txns - 1] = town_read(w, i, &rt_etcd__txn_request__descriptor);
    kv.key = text("a/p2a-9"); /* of the durable session 42 */
    kv.create_revision = 5;
    range.kvs = kvs;
    range.n_kvs = 1;
    op.response_case = RT_ETCD__RESPONSE_OP__RESPONSE_RANGE;
    op.range = &range;
    txn.responses = ops;
    txn.n_responses = 1;
    txn.succeeded = true;
    town_answer(w, i, &txn);
    return true;
}

/* A durable ticket of another process is looked for by its number, and taken out only if it is that very one. */
static void a_leave_of_what_another_put(void **state)
{
    struct rt_op op = {.kind = RT_OP_LEAVE};
    (void)state;
    txns = 0;
    open_town(play_found);
    op.leave.name = "a";
    op.leave.session = 42;
    op.leave.number = 5;
    assert_int_equal(town_do(&t, &op), 0);
    assert_int_equal(txns, 2);
    const RtEtcd__RangeRequest *look = seen[0]->success[0]->range;
    assert_true(look->min_create_revision == 5 && look->max_create_revision == 5);
    assert_int_equal(seen[1]->n_compare, 1);
    assert_int_equal(seen[1]->compare[0]->target, RT_ETCD__COMPARE__TARGET__CREATE);
    assert_int_equal(seen[1]->compare[0]->create_revision, 5);
    const RtEtcd__RequestOp *last = seen[1]->success[seen[1]->n_success - 1];
    assert_int_equal(last->request_case, RT_ETCD__REQUEST_OP__REQUEST_DELETE_RANGE);
    for (int i = 0; i < 2; i++)
        protobuf_c_message_free_unpacked(&seen[i]->base, NULL);
    town_close(&t);
}

/* ---- Greeting -------------------------------------------------------------------------------------- */

static int greeted;

static bool play_greeting(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    greeted += town_is_call(w, i, "/etcdserverpb.Maintenance/Status");
    return true; /* and says nothing to it */
}

/* A server that hangs up on plain text may want TLS; etcd does not say so. One that has answered does not want it. */
static void who_hangs_up_without_a_word_may_want_tls(void **state)
{
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        greeted = 0;
        town_init(&t, 1);
        t.play = play_greeting;
        town_open(&t, "etcd://a");
        for (int i = 0; i < STEPS_MAX && !t.wires[0].up; i++)
            town_step(&t);
        assert_true(t.wires[0].up);
        if (heard)
            until(&greeted, 1);
        town_cut(&t);
        assert_int_equal(strstr(t.conn->link.trouble, "etcds://") == NULL, heard);
        town_close(&t);
    }
}

/* At least half of the pause and at most all of it, at random: clients that lost the same server do not all come back
 * at the same moment, nor at once. */
static void who_is_down_is_dialed_again_after_a_pause(void **state)
{
    struct rt_dial_pause pause = {0};
    uint64_t jitter = 1;
    int64_t last = 0;
    (void)state;
    town_init(&t, 1);
    t.servers[0].down = true;
    town_open(&t, "etcd://a");
    for (size_t n = 1; n < TOWN_WIRES; n++) {
        for (int i = 0; i < STEPS_MAX && t.wire_count < n; i++)
            town_step(&t);
        assert_int_equal(t.wire_count, n);
        int64_t now = rt_loop_now(&t.loop);
        if (n > 1) {
            rt_dial_later(&pause, t.base, &jitter);
            assert_in_range(now - last, pause.ms * RT_MS / 2, pause.ms * RT_MS);
        }
        last = now;
    }
    town_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compacted_watch_is_made_again),
        cmocka_unit_test(looks_are_as_seldom_as_tickets_are_many),
        cmocka_unit_test(a_leave_asked_again_that_finds_nothing_is_unknown),
        cmocka_unit_test(what_is_refused_for_now_is_asked_again),
        cmocka_unit_test(pauses_grow_while_refused),
        cmocka_unit_test(a_leave_of_what_another_put),
        cmocka_unit_test(who_hangs_up_without_a_word_may_want_tls),
        cmocka_unit_test(who_is_down_is_dialed_again_after_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
