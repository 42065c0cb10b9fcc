/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC codec against a server that behaves: calls and streams. test_grpc_ends.c has every way to end. */
#include "lib/scarce.h"
#include "peer.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct peer p;
static struct told t, u;

static int setup(void **state)
{
    (void)state;
    peer_open(&p);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    peer_close(&p);
    told_clear(&t);
    told_clear(&u);
    return 0;
}

/* ---- Unary calls --------------------------------------------------------------------------- */

static void a_call(void **state)
{
    (void)state;
    struct rt_grpc_ask ask = {
        .path = "/etcdserverpb.KV/Put", .token = "secret.1", .flag = "hasleader"};
    assert_int_equal(told_ask(&t, p.g, &ask, "question", 8), 0);
    peer_exchange(&p);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.streams[0]->path, "/etcdserverpb.KV/Put");
    assert_string_equal(p.streams[0]->token, "secret.1");
    assert_string_equal(p.streams[0]->leader, "true");
    assert_true(p.streams[0]->ended);
    assert_int_equal(p.streams[0]->in.size, 13);
    assert_memory_equal(p.streams[0]->in.at, "\0\0\0\0\x08question", 13);
    assert_int_equal(t.ends, 0);
    peer_answer(&p, 0, "answer", 6, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(p.err, 0);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.status, RT_GRPC_OK);
    assert_int_equal(t.verdict.fate, RT_GRPC_DONE);
    assert_int_equal(t.verdict.err, 0);
    assert_int_equal(t.last.size, 6);
    assert_memory_equal(t.last.at, "answer", 6);
    assert_true(p.streams[0]->server == NULL);
    assert_int_equal(p.streams[0]->error_code, NGHTTP2_NO_ERROR);
}

static void empty_messages(void **state)
{
    (void)state;
    assert_int_equal(told_unary(&t, p.g, "", 0), 0);
    peer_exchange(&p);
    assert_int_equal(p.streams[0]->in.size, 5);
    assert_true(p.streams[0]->ended);
    assert_string_equal(p.streams[0]->token, "");
    assert_string_equal(p.streams[0]->leader, "");
    peer_answer(&p, 0, "", 0, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.status, RT_GRPC_OK);
    assert_int_equal(t.last.size, 0);
}

static void one_byte_at_a_time(void **state)
{
    (void)state;
    char large[5000];
    memset(large, 'x', sizeof(large));
    for (size_t chunk = 1; chunk < 30; chunk++) {
        p.chunk = chunk;
        t = (struct told){0};
        size_t i = p.count;
        assert_int_equal(told_unary(&t, p.g, large, sizeof(large)), 0);
        peer_exchange(&p);
        peer_answer(&p, i, large, sizeof(large) - chunk, "0", NULL);
        peer_exchange(&p);
        assert_int_equal(p.err, 0);
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.status, 0);
        assert_int_equal(t.last.size, sizeof(large) - chunk);
        assert_memory_equal(t.last.at, large, t.last.size);
        told_clear(&t);
    }
}

static void large_both_ways(void **state)
{
    (void)state;
    size_t n = RT_GRPC_MESSAGE_MAX;
    char *large = malloc(n);
    memset(large, 'y', n);
    assert_int_equal(told_unary(&t, p.g, large, n + 1), ROTA_INVALID);
    assert_int_equal(told_unary(&t, p.g, large, n), 0); /* needs many windows */
    peer_exchange(&p);
    assert_int_equal(p.streams[0]->in.size, n + 5);
    assert_true(p.streams[0]->ended);
    peer_answer(&p, 0, large, n, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.last.size, n);
    assert_memory_equal(t.last.at, large, n);
    free(large);
}

/* Memory kept for an answer is freed, however the answer came. */
static void large_one_after_the_other(void **state)
{
    (void)state;
    size_t n = RT_GRPC_MESSAGE_MAX - 7;
    char *large = calloc(1, n);
    p.chunk = 10000;
    assert_int_equal(told_stream(&t, p.g, "w", 1), 0);
    peer_exchange(&p);
    for (size_t i = 1; i <= 6; i++) {
        peer_answer(&p, 0, large, n, NULL, NULL);
        peer_exchange(&p);
        assert_int_equal(t.messages, i);
        assert_int_equal(told_unary(&u, p.g, "q", 1), 0);
        peer_exchange(&p);
        peer_answer(&p, i, large, n, "0", NULL);
        peer_exchange(&p);
        assert_int_equal(u.status, RT_GRPC_OK);
        assert_int_equal(u.last.size, n);
        told_clear(&u);
    }
    free(large);
}

static void many_at_once(void **state)
{
    (void)state;
    enum { CALLS = 200 };
    static struct told many[CALLS];
    char word[16];
    nghttp2_settings_entry few = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 7};
    assert_int_equal(nghttp2_submit_settings(p.server.session, 0, &few, 1), 0);
    peer_exchange(&p);
    for (int i = 0; i < CALLS; i++) {
        snprintf(word, sizeof(word), "q%d", i);
        assert_int_equal(told_unary(&many[i], p.g, word, strlen(word)), 0);
    }
    peer_exchange(&p);
    assert_int_equal(p.count, 7); /* the others wait */
    rt_grpc_cancel(many[100].call);
    for (size_t i = 0; i < CALLS - 1; i++) {
        assert_true(i < p.count);
        peer_answer(&p, i, p.streams[i]->in.at + 5, p.streams[i]->in.size - 5, "0", NULL);
        peer_exchange(&p);
    }
    for (int i = 0; i < CALLS; i++) {
        snprintf(word, sizeof(word), "q%d", i);
        assert_int_equal(many[i].ends, i == 100 ? 0 : 1);
        if (i != 100)
            assert_memory_equal(many[i].last.at, word, strlen(word));
        told_clear(&many[i]);
    }
    assert_int_equal(p.count, CALLS - 1);
}

static void statuses(void **state)
{
    (void)state;
    static const struct {
        const char *http, *type, *status, *text;
        uint32_t expected;
        const char *said;
        int err;
        uint8_t fate, reason;
    } cases[] = {
        {"200", "application/grpc", "5", "etcdserver: requested lease not found", 5,
         "etcdserver: requested lease not found", ROTA_LOST, RT_GRPC_NOT_DONE, RT_ETCD_NO_LEASE},
        {"200", "application/grpc+proto", "14", "etcdserver%3A no%20leader%0A%zz%4", 14,
         "etcdserver: no leader?%zz%4", ROTA_UNREACHABLE, RT_GRPC_NOT_DONE, RT_ETCD_NO_LEADER},
        {"200", "application/grpc", "14", "etcdserver: request timed out", 14,
         "etcdserver: request timed out", ROTA_UNREACHABLE, RT_GRPC_MAYBE, RT_ETCD_OTHER},
        {"200", "application/grpc", "16", NULL, 16, "", ROTA_AUTH, RT_GRPC_NOT_DONE, RT_ETCD_OTHER},
        {"200", "application/grpc", "99", NULL, 2, "", ROTA_PROTOCOL, RT_GRPC_MAYBE, RT_ETCD_OTHER},
        {"200", "application/grpc", "-1", NULL, 2, "", ROTA_PROTOCOL, RT_GRPC_MAYBE, RT_ETCD_OTHER},
        {"200", "application/grpc", "0", NULL, 13, "there is no answer", ROTA_PROTOCOL,
         RT_GRPC_MAYBE, RT_ETCD_OTHER},
        {"200", "application/grpc", NULL, NULL, 13, "it ended without a status", ROTA_PROTOCOL,
         RT_GRPC_MAYBE, RT_ETCD_OTHER},
        {"200", "text/html", NULL, NULL, 2, "it does not speak gRPC", ROTA_PROTOCOL, RT_GRPC_MAYBE,
         RT_ETCD_OTHER},
        {"200", "application/grpcx", NULL, NULL, 2, "it does not speak gRPC", ROTA_PROTOCOL,
         RT_GRPC_MAYBE, RT_ETCD_OTHER},
        {"404", "text/html", NULL, NULL, 12, "HTTP status 404", ROTA_UNSUPPORTED, RT_GRPC_NOT_DONE,
         RT_ETCD_OTHER},
        {"503", NULL, NULL, NULL, 14, "HTTP status 503", ROTA_UNREACHABLE, RT_GRPC_MAYBE,
         RT_ETCD_OTHER},
        {"403", "text/html", NULL, NULL, 7, "HTTP status 403", ROTA_AUTH, RT_GRPC_NOT_DONE,
         RT_ETCD_OTHER},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        t = (struct told){0};
        assert_int_equal(told_unary(&t, p.g, "q", 1), 0);
        peer_exchange(&p);
        peer_refuse(&p, i, cases[i].http, cases[i].type, cases[i].status, cases[i].text);
        peer_exchange(&p);
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.status, cases[i].expected);
        assert_string_equal(t.text, cases[i].said);
        assert_int_equal(t.verdict.err, cases[i].err);
        assert_int_equal(t.verdict.fate, cases[i].fate);
        assert_int_equal(t.verdict.reason, cases[i].reason);
        told_clear(&t);
    }
}

/* A page with a body, and an answer that an error follows. */
static void bodies_that_do_not_count(void **state)
{
    (void)state;
    assert_int_equal(told_unary(&t, p.g, "q", 1), 0);
    peer_exchange(&p);
    peer_answer(&p, 0, "answer", 6, "8", "etcdserver: too many requests");
    peer_exchange(&p);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.last.size, 0);
    assert_int_equal(t.verdict.reason, RT_ETCD_TOO_MANY);
    assert_int_equal(t.verdict.fate, RT_GRPC_NOT_DONE);
}

static void codes_have_names(void **state)
{
    (void)state;
    assert_string_equal(rt_grpc_status_name(14), "UNAVAILABLE");
    assert_string_equal(rt_grpc_status_name(17), "unknown status");
    assert_int_equal(rt_grpc_status_parse((const uint8_t *)"016", 3), 16);
    assert_int_equal(rt_grpc_status_parse((const uint8_t *)"0000", 4), RT_GRPC_UNKNOWN);
    assert_int_equal(rt_grpc_status_parse(NULL, 0), RT_GRPC_UNKNOWN);
    assert_int_equal(rt_etcd_judge(12345, "").err, ROTA_PROTOCOL);
    assert_int_equal(rt_etcd_judge(0, "etcdserver: no leader").fate, RT_GRPC_DONE);
    char small[4];
    rt_grpc_text(small, sizeof(small), (const uint8_t *)"%41bcd", 6);
    assert_string_equal(small, "Abc");
}

/* ---- Streams ------------------------------------------------------------------------------- */

static void a_stream(void **state)
{
    (void)state;
    assert_int_equal(told_stream(&t, p.g, NULL, 0), 0);
    peer_exchange(&p);
    assert_int_equal(p.streams[0]->in.size, 0);
    assert_int_equal(rt_grpc_send(t.call, "one", 3), 0);
    assert_int_equal(rt_grpc_send(t.call, "two", 3), 0);
    peer_exchange(&p);
    assert_memory_equal(p.streams[0]->in.at, "\0\0\0\0\3one\0\0\0\0\3two", 16);
    assert_false(p.streams[0]->ended);
    peer_answer(&p, 0, "eins", 4, NULL, NULL);
    peer_exchange(&p);
    assert_int_equal(t.messages, 1);
    assert_memory_equal(t.last.at, "eins", 4);
    peer_answer(&p, 0, "zwei", 4, NULL, NULL);
    peer_answer(&p, 0, "", 0, NULL, NULL);
    p.chunk = 1;
    peer_exchange(&p);
    assert_int_equal(t.messages, 3);
    assert_int_equal(rt_grpc_send(t.call, "three", 5), 0);
    peer_exchange(&p);
    assert_int_equal(p.streams[0]->in.size, 26);
    peer_answer(&p, 0, "last", 4, "14", "etcdserver: no leader");
    peer_exchange(&p);
    assert_int_equal(t.messages, 4);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.verdict.reason, RT_ETCD_NO_LEADER);
    assert_true(p.streams[0]->server == NULL); /* our half too */
    assert_int_equal(p.err, 0);
}

static void cancels_itself(struct told *it)
{
    rt_grpc_cancel(it->call);
}

static void canceled(void **state)
{
    (void)state;
    assert_int_equal(told_stream(&t, p.g, "w", 1), 0);
    assert_int_equal(told_unary(&u, p.g, "q", 1), 0);
    peer_exchange(&p);
    rt_grpc_cancel(u.call);
    peer_exchange(&p);
    assert_true(p.streams[1]->server == NULL);
    assert_int_equal(p.streams[1]->error_code, NGHTTP2_CANCEL);
    t.on_message = cancels_itself; /* in the midst of three */
    peer_answer(&p, 0, "1", 1, NULL, NULL);
    peer_answer(&p, 0, "2", 1, NULL, NULL);
    peer_answer(&p, 0, "3", 1, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.ends, 0);
    assert_int_equal(u.ends, 0);
    assert_int_equal(p.err, 0);
    told_clear(&t);
    assert_int_equal(told_unary(&t, p.g, "q", 1), 0); /* and the connection goes on */
    peer_exchange(&p);
    peer_answer(&p, 2, "a", 1, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(t.ends, 1);
}

static void asks_again(struct told *it)
{
    it->on_end = NULL;
    it->ends = 0;
    size_t written = p.wire.size;
    assert_int_equal(told_unary(it, p.g, "again", 5), 0);
    rt_grpc_cancel(u.call);
    assert_int_equal(p.wire.size, written); /* nghttp2 must not be asked from inside it */
}

static void calls_inside_callbacks(void **state)
{
    (void)state;
    t.on_end = asks_again;
    assert_int_equal(told_unary(&t, p.g, "q", 1), 0);
    assert_int_equal(told_unary(&u, p.g, "q", 1), 0);
    peer_exchange(&p);
    peer_answer(&p, 0, "a", 1, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(p.count, 3);
    assert_true(p.streams[1]->server == NULL);
    assert_int_equal(t.ends, 0);
    peer_answer(&p, 2, "a", 1, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(t.ends, 1);
    assert_int_equal(u.ends, 0);
}

static void closes_all(struct told *it)
{
    (void)it;
    struct rt_grpc_call *none;
    struct rt_grpc_ask ask = {.path = "/"};
    rt_grpc_close(p.g);
    assert_int_equal(rt_grpc_call(p.g, &ask, "", 0, &none), ROTA_CLOSED);
    assert_int_equal(rt_grpc_send(t.call, "x", 1), ROTA_UNREACHABLE);
    rt_grpc_ping(p.g);
}

static void closed_inside_a_callback(void **state)
{
    (void)state;
    t.on_message = closes_all;
    assert_int_equal(told_stream(&t, p.g, "w", 1), 0);
    assert_int_equal(told_unary(&u, p.g, "q", 1), 0);
    peer_exchange(&p);
    peer_answer(&p, 1, "a", 1, "0", NULL);
    peer_answer(&p, 0, "1", 1, NULL, NULL);
    peer_answer(&p, 0, "2", 1, NULL, NULL);
    peer_exchange(&p);
    assert_int_equal(p.err, ROTA_CLOSED);
    p.g = NULL;
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.ends, 0);
}

static void closes_at_the_end(struct told *it)
{
    (void)it;
    rt_grpc_close(p.g);
}

static void closed_while_going_down(void **state)
{
    (void)state;
    t.on_end = closes_at_the_end;
    assert_int_equal(told_stream(&t, p.g, "w", 1), 0);
    assert_int_equal(told_unary(&u, p.g, "q", 1), 0);
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "gone");
    p.g = NULL;
    assert_int_equal(t.ends, 1);
    assert_int_equal(u.ends, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_call),
        CASE(empty_messages),
        CASE(one_byte_at_a_time),
        CASE(large_both_ways),
        CASE(large_one_after_the_other),
        CASE(many_at_once),
        CASE(statuses),
        CASE(bodies_that_do_not_count),
        CASE(codes_have_names),
        CASE(a_stream),
        CASE(canceled),
        CASE(calls_inside_callbacks),
        CASE(closed_inside_a_callback),
        CASE(closed_while_going_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
