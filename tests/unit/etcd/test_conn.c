/* SPDX-License-Identifier: Apache-2.0 */
/* The connection and one real etcd: asks, watches, keep-alives; the server killed, stopped, missing.
 *
 *   test_conn bench [SECONDS [URL]]    pairs of a transaction and a delete per second instead */
#include "bare.h"

#include <arpa/inet.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ALLOCATIONS_OF_NGHTTP2 5 /* for each stream */

static struct rt_etcds etcds;
static char *url;
static struct bare b;

static int setup(void **state)
{
    if (bare_setup(state) != 0)
        return -1;
    assert_int_equal(bare_open(&b, url, NULL, 0, 0), 0);
    return 0;
}

static int teardown(void **state)
{
    bare_close(&b);
    return bare_teardown(state);
}

/* ---- Asks ------------------------------------------------------------------------------------------- */

static void asks_are_answered_with_what_they_asked_for(void **state)
{
    struct asked a;
    (void)state;
    ask_put(&b, &a, "a/1", "one", 0); /* before there is a connection */
    ask_end(&b, &a);
    assert_int_equal(a.err, 0);
    assert_int_equal(b.linked, 1);
    assert_int_equal(b.up_events, 1);
    ask_range(&b, &a, "a/", "a0");
    ask_end(&b, &a);
    assert_int_equal(a.number, 1);
    assert_string_equal(a.value, "one");
    ask_create(&b, &a, "a/1");
    ask_end(&b, &a);
    assert_int_equal(a.err, 0);
    assert_int_equal(a.number, 0);
    ask_delete(&b, &a, "a/1");
    ask_end(&b, &a);
    assert_int_equal(a.number, 1);
    ask_create(&b, &a, "a/1");
    ask_end(&b, &a);
    assert_int_equal(a.number, 1);
}

static void facts_are_known(void **state)
{
    (void)state;
    bare_until(&b.linked, 1);
    const struct rt_etcd_facts *f = rt_etcd_facts(b.conn);
    assert_true(f->known && f->major == 3 && f->minor >= 4);
    assert_true(f->leader != 0 && f->leader == f->member && f->term > 0 && f->cluster != 0);
    assert_string_equal(f->alarms, "");
    assert_string_equal(f->at, b.conn->link.ring.ends[0].at);
    assert_true(rt_etcd_ready(b.conn));
}

static void many_at_once(void **state)
{
    enum { N = 500 };
    static struct asked a[N];
    char key[32];
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "many/%d", i);
        ask_create(&b, &a[i], key);
    }
    for (int i = 0; i < N; i++) {
        ask_end(&b, &a[i]);
        assert_int_equal(a[i].err, 0);
        assert_int_equal(a[i].number, 1);
    }
    ask_range(&b, &a[0], "many/", "many0");
    ask_end(&b, &a[0]);
    assert_int_equal(a[0].number, N);
}

/* Per ask: only what nghttp2 allocates for a stream, nothing of ours, and no system call for timers. */
static void asks_cost_little(void **state)
{
    struct asked a;
    (void)state;
    for (int i = 0; i < 8; i++)
        must_put(&b, "cost", "x");
    uint64_t before = bare_allocations;
    int64_t armed = bare_loop.armed_at;
    for (int i = 0; i < 100; i++) {
        ask_create(&b, &a, "cost");
        ask_end(&b, &a);
        assert_int_equal(a.err, 0);
    }
    assert_true(bare_allocations - before <= 100 * ALLOCATIONS_OF_NGHTTP2);
    assert_int_equal(bare_loop.armed_at, armed);
}

static void refusals_are_definite(void **state)
{
    struct asked a;
    (void)state;
    ask_put(&b, &a, "r", "x", 4711); /* no such lease */
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_LOST);
    assert_int_equal(a.reason, RT_ETCD_NO_LEASE);
    ask_put(&b, &a, "", "x", 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_INVALID);
    assert_non_null(strstr(a.why, "key is not provided"));
    char *large = calloc(1, 5 << 20);
    assert_non_null(large);
    memset(large, 'x', (5 << 20) - 1);
    ask_put(&b, &a, "r", large, 0); /* not even sent */
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_INVALID);
    large[2 << 20] = '\0';
    ask_put(&b, &a, "r", large, 0); /* etcd says no */
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_INVALID);
    free(large);
    ask_range(&b, &a, "r", "");
    ask_end(&b, &a);
    assert_int_equal(a.number, 0);
}

/* An ask that nobody waits for is done all the same; one that is refused, or ends otherwise, does no harm. */
static void asks_that_nobody_waits_for(void **state)
{
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    struct asked a;
    (void)state;
    rq.key = (ProtobufCBinaryData){2, (uint8_t *)"nb"};
    rq.value = (ProtobufCBinaryData){1, (uint8_t *)"x"};
    assert_int_equal(rt_etcd_ask(b.conn, RT_ETCD_PUT, &rq, NULL, NULL, NULL, 0), 0);
    must_put(&b, "nb2", "y"); /* sent after it */
    do {
        ask_range(&b, &a, "nb", "");
        ask_end(&b, &a);
    } while (a.number == 0);
    assert_string_equal(a.value, "x");
    rq.lease = 4711; /* refused */
    assert_int_equal(rt_etcd_ask(b.conn, RT_ETCD_PUT, &rq, NULL, NULL, NULL, 0), 0);
    struct rt_etcd_ask *given_up = rt_etcd_ask_new(b.conn, RT_ETCD_PUT, &rq, NULL);
    assert_non_null(given_up);
    rt_etcd_ask_send(b.conn, given_up);
    rt_etcd_ask_abandon(b.conn, given_up, ROTA_CANCELED);
    must_put(&b, "nb2", "z");
    must_put(&b, "nb2", "z");
}

static void abandoned_asks_end_once(void **state)
{
    struct asked waits, flies, reads;
    (void)state;
    ask_put(&b, &waits, "ab/1", "x", 0); /* no connection yet */
    rt_etcd_ask_abandon(b.conn, waits.ask, ROTA_CANCELED);
    assert_int_equal(waits.answers, 0);
    ask_end(&b, &waits);
    assert_int_equal(waits.err, ROTA_CANCELED);
    must_put(&b, "ab/2", "x");
    ask_put(&b, &flies, "ab/3", "x", 0);
    rt_etcd_ask_abandon(b.conn, flies.ask, ROTA_CANCELED);
    ask_range(&b, &reads, "ab/1", "");
    rt_etcd_ask_abandon(b.conn, reads.ask, ROTA_CANCELED);
    ask_end(&b, &flies);
    ask_end(&b, &reads);
    assert_true(flies.err == ROTA_UNKNOWN || flies.err == 0); /* it may have been answered first */
    assert_true(reads.err == ROTA_CANCELED || reads.err == 0);
    must_put(&b, "ab/4", "x"); /* all is well after it */
    ask_range(&b, &reads, "ab/1", "");
    ask_end(&b, &reads);
    assert_int_equal(reads.number, 0);
}

/* ---- Watches ------------------------------------------------------------------------------------------ */

static void watches_tell(void **state)
{
    static struct watched one, all, none;
    (void)state;
    watch(&b, &one, "w/1", "");
    watch(&b, &all, "w/", "w0");
    watch(&b, &none, "elsewhere", "");
    bare_until(&one.created, 1);
    bare_until(&all.created, 1);
    must_put(&b, "w/1", "x");
    must_put(&b, "w/2", "x");
    bare_until(&all.events, 2);
    bare_until(&one.events, 1);
    assert_string_equal(all.last, "w/2");
    struct asked a;
    ask_delete(&b, &a, "w/1");
    bare_until(&one.events, 2);
    assert_string_equal(one.last, "-w/1");
    rt_etcd_unwatch(b.conn, &one.w);
    rt_etcd_unwatch(b.conn, &one.w); /* not in use: nothing */
    must_put(&b, "w/1", "x");
    bare_until(&all.events, 4);
    assert_int_equal(one.events, 2);
    assert_int_equal(none.events, 0);
    watch(&b, &one, "w/1", ""); /* the same memory, used again */
    bare_until(&one.created, 1);
    rt_etcd_unwatch(b.conn, &one.w);
    watch(&b, &one, "w/1", ""); /* given up before it was confirmed */
    rt_etcd_unwatch(b.conn, &one.w);
    must_put(&b, "w/1", "x");
    bare_until(&all.events, 5);
    assert_int_equal(one.events, 0);
}

static bool half_are_left(void *arg)
{
    (void)arg;
    return (int)rt_etcds_metric(&etcds, 0, RT_ETCDS_WATCHERS) == 500;
}

static void a_thousand_watches(void **state)
{
    enum { N = 1000 };
    static struct watched w[N];
    char key[32];
    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "t/%d", i);
        watch(&b, &w[i], key, "");
    }
    for (int i = 0; i < N; i++)
        bare_until(&w[i].created, 1);
    must_put(&b, "t/700", "x");
    bare_until(&w[700].events, 1);
    for (int i = 0; i < N; i += 2)
        rt_etcd_unwatch(b.conn, &w[i].w);
    must_put(&b, "t/701", "x");
    bare_until(&w[701].events, 1);
    for (int i = 0; i < N; i++)
        assert_int_equal(w[i].events, i == 700 || i == 701);
    assert_true(rt_await(half_are_left, NULL, 10000)); /* at the server too */
}

/* ---- Leases --------------------------------------------------------------------------------------------- */

static void leases_are_kept(void **state)
{
    struct asked a, put;
    static struct kept k, other, gone;
    static struct watched w;
    (void)state;
    ask_grant(&b, &a, 30);
    ask_end(&b, &a);
    assert_int_equal(a.err, 0);
    assert_true(a.lease != 0 && a.ttl == 30);
    ask_put(&b, &put, "l/1", "x", a.lease);
    ask_end(&b, &put);
    keep(&b, &k, a.lease, 0);
    keep(&b, &other, a.lease, 0); /* twice the same, at once */
    keep(&b, &gone, 4711, 0);
    bare_until(&k.answers, 1);
    bare_until(&other.answers, 1);
    bare_until(&gone.answers, 1);
    assert_true(k.err == 0 && k.ttl == 30 && other.err == 0);
    assert_int_equal(gone.err, ROTA_LOST);
    watch(&b, &w, "l/1", "");
    bare_until(&w.created, 1);
    ask_revoke(&b, &put, a.lease);
    bare_until(&w.events, 1);
    assert_string_equal(w.last, "-l/1");
    keep(&b, &k, a.lease, 0);
    bare_until(&k.answers, 1);
    assert_int_equal(k.err, ROTA_LOST);
    keep(&b, &k, a.lease, 0);
    rt_etcd_unkeep(b.conn, &k.k);
    must_put(&b, "l/2", "x");
    assert_int_equal(k.answers, 0);
    ask_end(&b, &put);
}

/* The stream hangs: what is on it goes to another one, and is answered once. */
static void a_stream_of_keep_alives_is_replaced(void **state)
{
    struct asked lease;
    static struct kept k, next;
    (void)state;
    ask_grant(&b, &lease, 30);
    ask_end(&b, &lease);
    rt_server_stop(&etcds.node[0].server);
    keep(&b, &k, lease.lease, 0);
    rt_loop_arm(&bare_loop); /* sent */
    struct rt_grpc_call *old = rt_etcd_wire(b.conn)->lease_call;
    rt_etcd_lease_reopen(b.conn);
    assert_true(rt_etcd_wire(b.conn)->lease_call != old);
    rt_server_cont(&etcds.node[0].server);
    bare_until(&k.answers, 1);
    assert_int_equal(k.err, 0);
    keep(&b, &next, lease.lease, 0);
    bare_until(&next.answers, 1);
    assert_int_equal(k.answers, 1);
    assert_int_equal(b.linked, 1);
}

/* ---- Trouble -------------------------------------------------------------------------------------------- */

/* Stopped, so that everything is certainly in flight; then killed: writes are unknown, reads are not. */
static void a_server_that_dies_and_comes_back(void **state)
{
    struct asked write, again, read;
    static struct watched w;
    static struct kept k;
    struct asked lease;
    (void)state;
    must_put(&b, "d/1", "x");
    ask_grant(&b, &lease, 60);
    ask_end(&b, &lease);
    watch(&b, &w, "d/1", "");
    bare_until(&w.created, 1);
    rt_server_stop(&etcds.node[0].server);
    ask_create(&b, &write, "d/2");
    ask_put(&b, &again, "d/3", "x", 0);
    again.ask->entry.again = true;
    ask_range(&b, &read, "d/1", "");
    again.ask->entry.deadline = read.ask->entry.deadline = rt_loop_now(&bare_loop) + 60000 * RT_MS;
    keep(&b, &k, lease.lease, 60000);
    rt_loop_arm(&bare_loop); /* sent */
    rt_server_kill(&etcds.node[0].server);
    ask_end(&b, &write);
    assert_int_equal(write.err, ROTA_UNKNOWN);
    bare_until(&w.lost, 1);
    assert_int_equal(w.err, 0);
    assert_int_equal(b.down_events, 1);
    rt_etcds_run(&etcds, 0);
    ask_end(&b, &read);
    assert_int_equal(read.err, 0);
    assert_int_equal(read.number, 1);
    ask_end(&b, &again);
    assert_int_equal(again.err, 0);
    assert_true(again.was_again);
    bare_until(&k.answers, 1);
    assert_int_equal(k.err, 0);
    bare_until(&w.created, 2);
    must_put(&b, "d/1", "y");
    bare_until(&w.events, 1);
    assert_int_equal(b.linked, 2);
    assert_int_equal(b.failed, 0);
}

static void a_server_that_is_silent(void **state)
{
    struct asked write, read;
    (void)state;
    must_put(&b, "s/1", "x");
    rt_etcd_base(b.conn)->ttl_ms = 800; /* patience 200 ms */
    rt_server_stop(&etcds.node[0].server);
    ask_create(&b, &write, "s/2");
    ask_range(&b, &read, "s/1", "");
    read.ask->entry.deadline = rt_loop_now(&bare_loop) + 60000 * RT_MS;
    ask_end(&b, &write);
    assert_int_equal(write.err, ROTA_UNKNOWN);
    assert_int_equal(read.answers, 0);
    assert_int_equal(b.down_events, 1);
    rt_server_cont(&etcds.node[0].server);
    ask_end(&b, &read);
    assert_int_equal(read.err, 0);
}

static void compaction_does_not_end_a_watch(void **state)
{
    static struct watched w;
    (void)state;
    watch(&b, &w, "c/1", "");
    bare_until(&w.created, 1);
    for (int i = 0; i < 5; i++)
        must_put(&b, "c/other", "x");
    rt_etcds_compact(&etcds);
    must_put(&b, "c/1", "x");
    bare_until(&w.events, 1);
    assert_string_equal(w.last, "c/1");
}

static void nobody_there(void **state)
{
    struct bare nobody;
    struct asked write, read;
    static struct kept k;
    char gone[64];
    int anchor;
    (void)state;
    snprintf(gone, sizeof(gone), "etcd://127.0.0.1:%u", (unsigned)rt_port_reserve(&anchor));
    assert_int_equal(bare_open(&nobody, gone, NULL, 300, 0), 0);
    ask_put(&nobody, &write, "x", "x", 0);
    ask_range(&nobody, &read, "x", "");
    keep(&nobody, &k, 7, 0);
    ask_end(&nobody, &write);
    ask_end(&nobody, &read);
    bare_until(&k.answers, 1);
    assert_int_equal(write.err, ROTA_UNREACHABLE); /* definite: it never left */
    assert_int_equal(read.err, ROTA_UNREACHABLE);
    assert_int_equal(k.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(write.why, "refused"));
    bare_close(&nobody);
    close(anchor);
}

/* The first of two endpoints is dead: the second is used. */
static void the_next_endpoint(void **state)
{
    struct bare two;
    char both[96];
    int anchor;
    (void)state;
    snprintf(both, sizeof(both), "etcd://127.0.0.1:%u,127.0.0.1:%u",
             (unsigned)rt_port_reserve(&anchor), (unsigned)etcds.node[0].server.port);
    assert_int_equal(bare_open(&two, both, NULL, 0, 0), 0);
    must_put(&two, "next", "x");
    assert_int_equal(two.failed, 0);
    bare_close(&two);
    close(anchor);
}

static int listen_at(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 4) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void what_is_no_etcd(void **state)
{
    static const char words[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    struct bare odd;
    struct asked a;
    uint16_t port;
    char where[64];
    int fd = listen_at(&port);
    (void)state;
    snprintf(where, sizeof(where), "etcd://127.0.0.1:%u", (unsigned)port);
    assert_int_equal(bare_open(&odd, where, NULL, 0, 0), 0);
    ask_put(&odd, &a, "x", "x", 0);
    bare_turn();
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer >= 0);
    assert_int_equal(write(peer, words, sizeof(words) - 1), (int)sizeof(words) - 1);
    ask_end(&odd, &a);
    assert_int_equal(a.err, ROTA_PROTOCOL);
    assert_int_equal(odd.failed, 1);
    assert_int_equal(odd.err, ROTA_PROTOCOL);
    bare_close(&odd);
    close(peer);
    close(fd);
}

static void urls_that_cannot_work(void **state)
{
    static const struct {
        const char *url, *why;
    } bad[] = {
        {"etcd:", "names no host"},
        {"etcd://127.0.0.1/path", "no path"},
        {"etcd://rota@127.0.0.1", "without a password"},
        {"etcd://127.0.0.1/?ca=/x", "etcds://"},
        {"etcds://127.0.0.1/?ca=/there/is/none", "/there/is/none"},
    };
    struct bare wrong;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(bare_open(&wrong, bad[i].url, NULL, 0, 0), ROTA_INVALID);
        assert_non_null(strstr(wrong.why, bad[i].why));
    }
}

/* The FAIL_ATth allocation fails; false: there are not that many. Whatever happens, everything is answered. */
static bool life_with_little_memory(uint64_t fail_at)
{
    static struct bare poor;
    static struct watched w;
    static struct kept k;
    struct asked a;
    bare_allocations = 0;
    bare_fail_at = fail_at;
    if (bare_open(&poor, url, NULL, 0, 0) == 0) {
        if (try_put(&poor, &a, "poor")) {
            ask_end(&poor, &a);
            assert_true(a.err == 0 || a.err == ROTA_NOMEM || a.err == ROTA_UNKNOWN);
        }
        bool watches = try_watch(&poor, &w, "poor");
        keep(&poor, &k, 4711, 0);
        bare_until(&k.answers, 1);
        assert_int_equal(k.err, ROTA_LOST);
        if (watches)
            bare_until(&w.created, 1);
        bare_close(&poor);
    }
    bool reached = bare_allocations >= fail_at;
    bare_fail_at = 0;
    return reached;
}

static void memory_runs_out(void **state)
{
    uint64_t n = 4; /* the URL's are the test's own */
    (void)state;
    while (life_with_little_memory(n))
        n++;
    assert_true(n > 20);
}

static void closed_with_work_under_way(void **state)
{
    struct bare shut;
    static struct asked a[4];
    static struct watched w;
    static struct kept k;
    (void)state;
    assert_int_equal(bare_open(&shut, url, NULL, 0, 0), 0);
    bare_close(&shut); /* at once */
    assert_int_equal(bare_open(&shut, url, NULL, 0, 0), 0);
    must_put(&shut, "cl", "x");
    for (size_t i = 0; i < 4; i++)
        ask_put(&shut, &a[i], "cl", "x", 0);
    watch(&shut, &w, "cl", "");
    keep(&shut, &k, 4711, 0);
    bare_close(&shut);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(a[i].answers, 0);
}

/* ---- The bench -------------------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void bench(int flying, double seconds)
{
    static struct asked a[64];
    static bool holds[64];
    char key[32];
    long pairs = 0;
    double end = now_s() + seconds, began = now_s();
    memset(holds, 0, sizeof(holds));
    for (int i = 0; i < flying; i++)
        a[i] = (struct asked){.answers = 1};
    while (now_s() < end) {
        for (int i = 0; i < flying; i++) {
            if (a[i].answers == 0)
                continue;
            snprintf(key, sizeof(key), "bench/%d", i);
            pairs += holds[i];
            holds[i] = !holds[i];
            if (holds[i])
                ask_create(&b, &a[i], key);
            else
                ask_delete(&b, &a[i], key);
        }
        bare_turn();
    }
    printf("%d in flight: %.0f pairs/s\n", flying, (double)pairs / (now_s() - began));
    for (int i = 0; i < flying; i++)
        ask_end(&b, &a[i]);
}

static int run_bench(double seconds)
{
    assert_int_equal(setup(NULL), 0);
    must_put(&b, "warm", "x");
    bench(1, seconds);
    bench(64, seconds);
    return teardown(NULL);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(asks_are_answered_with_what_they_asked_for),
        TEST(facts_are_known),
        TEST(many_at_once),
        TEST(asks_cost_little),
        TEST(refusals_are_definite),
        TEST(asks_that_nobody_waits_for),
        TEST(abandoned_asks_end_once),
        TEST(watches_tell),
        TEST(a_thousand_watches),
        TEST(leases_are_kept),
        TEST(a_stream_of_keep_alives_is_replaced),
        TEST(a_server_that_dies_and_comes_back),
        TEST(a_server_that_is_silent),
        TEST(compaction_does_not_end_a_watch),
        TEST(nobody_there),
        TEST(the_next_endpoint),
        TEST(what_is_no_etcd),
        TEST(urls_that_cannot_work),
        TEST(closed_with_work_under_way),
        TEST(memory_runs_out),
    };
    int rv;
    if (argc > 3) {
        url = strdup(argv[3]);
    } else {
        rt_etcds_start(&etcds, 1, NULL);
        url = rt_etcds_url(&etcds, NULL);
    }
    if (argc > 1 && strcmp(argv[1], "bench") == 0)
        rv = run_bench(argc > 2 ? atof(argv[2]) : 2);
    else
        rv = cmocka_run_group_tests(tests, NULL, NULL);
    rt_etcds_fini(&etcds);
    free(url);
    return rv;
}
