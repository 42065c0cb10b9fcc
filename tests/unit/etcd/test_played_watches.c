/* SPDX-License-Identifier: Apache-2.0 */
/* Many watches on one stream: each hears of its own key, however many came and went before. */
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MANY 150

struct mine {
    struct rt_etcd_watch w; /* first */
    int created, events, lost;
    int64_t id; /* on the wire */
};

static struct mine watches[MANY];
static struct town_wire *wire;
static size_t call;
static int creates, cancels;
static int64_t last_id;

static bool play_watches(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__WatchRequest *rq;
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.Watch/Watch"))
        return false;
    wire = w;
    call = i;
    while ((rq = town_read(w, i, &rt_etcd__watch_request__descriptor)) != NULL) {
        RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
        if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CREATE) {
            creates++;
            last_id = r.watch_id = rq->create->watch_id;
            r.created = true;
        } else {
            cancels++;
            r.watch_id = rq->cancel->watch_id;
            r.canceled = true;
        }
        town_say(w, i, &r);
        protobuf_c_message_free_unpacked(&rq->base, NULL);
    }
    return true;
}

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision)
{
    (void)c;
    (void)revision;
    ((struct mine *)(void *)w)->created++;
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    (void)c;
    (void)revision;
    (void)events;
    ((struct mine *)(void *)w)->events += (int)n;
}

static void on_lost(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int err)
{
    (void)c;
    assert_int_equal(err, 0);
    ((struct mine *)(void *)w)->lost++;
}

static const struct rt_etcd_watch_user watch_user = {on_created, on_events, on_lost};

static void begin(struct mine *m, int n)
{
    char key[16];
    int size = snprintf(key, sizeof(key), "key%d", n);
    *m = (struct mine){0};
    int before = creates;
    assert_int_equal(rt_etcd_watch(t.conn, &m->w, key, (size_t)size, NULL, 0, 0, &watch_user), 0);
    town_until(&t, &creates, before + 1);
    m->id = last_id;
    town_until(&t, &m->created, 1);
}

static void say_event(int64_t id)
{
    RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
    RtEtcd__Event event = RT_ETCD__EVENT__INIT, *events[] = {&event};
    RtEtcd__KeyValue kv = RT_ETCD__KEY_VALUE__INIT;
    event.kv = &kv;
    r.watch_id = id;
    r.events = events;
    r.n_events = 1;
    town_say(wire, call, &r);
}

static void assert_each_hears(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        say_event(watches[i].id);
        town_until(&t, &watches[i].events, 1);
        watches[i].events = 0;
    }
    for (int i = 0; i < 4; i++)
        town_step(&t);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(watches[i].events, 0); /* nobody heard of another's */
}

static void many_at_once(void **state)
{
    (void)state;
    creates = cancels = 0;
    open_town(play_watches);
    for (int i = 0; i < MANY; i++)
        begin(&watches[i], i);
    assert_each_hears(MANY);
    for (int i = 0; i < MANY; i++)
        rt_etcd_unwatch(t.conn, &watches[i].w);
    town_until(&t, &cancels, MANY);
    say_event(watches[0].id); /* too late: nobody is there */
    for (int i = 0; i < 4; i++)
        town_step(&t);
    assert_int_equal(watches[0].events, 0);
    close_town();
}

/* A few stay while others come and go: their ids collide in one place of any table. */
static void many_one_after_the_other(void **state)
{
    (void)state;
    creates = cancels = 0;
    open_town(play_watches);
    for (int i = 0; i < 8; i++)
        begin(&watches[i], i);
    for (int i = 0; i < 300; i++) {
        struct mine *m = &watches[8 + i % 4];
        if (i >= 4)
            rt_etcd_unwatch(t.conn, &m->w);
        begin(m, 8 + i);
        if (i % 37 == 0)
            assert_each_hears(8 + (size_t)(i < 4 ? i % 4 + 1 : 4));
    }
    assert_each_hears(12);
    for (int i = 0; i < 12; i += 2) /* from the middle of where they stand */
        rt_etcd_unwatch(t.conn, &watches[i].w);
    for (int i = 1; i < 12; i += 2) {
        say_event(watches[i].id);
        town_until(&t, &watches[i].events, 1);
        rt_etcd_unwatch(t.conn, &watches[i].w);
    }
    close_town();
}

/* The connection is cut: all watches are made again on the next, under its ids. */
static void made_again(void **state)
{
    (void)state;
    creates = cancels = 0;
    open_town(play_watches);
    for (int i = 0; i < 5; i++)
        begin(&watches[i], i);
    int before = creates;
    town_cut(&t);
    for (int i = 0; i < 5; i++)
        assert_int_equal(watches[i].lost, 1);
    town_until(&t, &creates, before + 5);
    for (int i = 0; i < 5; i++)
        town_until(&t, &watches[i].created, 2);
    for (int id = 1; id <= 5; id++)
        say_event(id);
    for (int i = 0; i < 5; i++)
        town_until(&t, &watches[i].events, 1);
    for (int i = 0; i < 5; i++)
        rt_etcd_unwatch(t.conn, &watches[i].w);
    close_town();
}

/* ---- Without the right --------------------------------------------------------------------------- */

static int told_lost, told_err;

static void on_refused(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int err)
{
    (void)c;
    (void)w;
    if (err == 0)
        return; /* it is made again */
    told_lost++;
    told_err = err;
}

static const struct rt_etcd_watch_user refused_user = {NULL, NULL, on_refused};

static bool play_refused(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__WatchRequest *rq;
    (void)town;
    if (!town_is_call(w, i, "/etcdserverpb.Watch/Watch"))
        return false;
    while ((rq = town_read(w, i, &rt_etcd__watch_request__descriptor)) != NULL) {
        RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
        if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CREATE) {
            creates++;
            r.watch_id = -1;
            r.created = r.canceled = true;
            r.cancel_reason = text(
                "rpc error: code = PermissionDenied desc = etcdserver: permission denied");
            town_say(w, i, &r);
        }
        protobuf_c_message_free_unpacked(&rq->base, NULL);
    }
    return true;
}

/* etcd says so of an old token, too: asked once more with a new one, and then it is true. Not again and again. */
static void who_may_not_watch_is_told_once(void **state)
{
    struct rt_etcd_watch w = {0};
    (void)state;
    creates = told_lost = 0;
    txns = 0;
    town_init(&t, 1);
    t.play = play_refused;
    town_open(&t, "etcd://ada:x@a");
    town_until_ready(&t);
    assert_int_equal(rt_etcd_watch(t.conn, &w, "key", 3, NULL, 0, 0, &refused_user), 0);
    town_until(&t, &told_lost, 1);
    assert_int_equal(told_err, ROTA_AUTH);
    assert_int_equal(creates, 2);
    assert_int_equal(t.authenticated, 2);
    for (int i = 0; i < 20; i++)
        town_step(&t);
    assert_int_equal(creates, 2);
    close_town();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(many_one_after_the_other),
        cmocka_unit_test(made_again),
        cmocka_unit_test(who_may_not_watch_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
