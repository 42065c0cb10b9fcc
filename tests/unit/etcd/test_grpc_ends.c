/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC codec against a server that behaves: every way for a connection to end, memory that fails. */
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

/* ---- Ends of the connection ---------------------------------------------------------------- */

static void down(void **state)
{
    (void)state;
    struct told w = {0};
    nghttp2_settings_entry one = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1};
    assert_int_equal(nghttp2_submit_settings(p.server.session, 0, &one, 1), 0);
    peer_exchange(&p);
    assert_int_equal(told_unary(&t, p.g, "sent", 4), 0);
    assert_int_equal(told_unary(&u, p.g, "waits", 5), 0);
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "cut");
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.status, RT_GRPC_UNAVAILABLE);
    assert_int_equal(t.verdict.err, ROTA_UNREACHABLE);
    assert_int_equal(t.verdict.fate, RT_GRPC_MAYBE);
    assert_string_equal(t.text, "cut");
    assert_int_equal(u.ends, 1);
    assert_int_equal(u.verdict.fate, RT_GRPC_NOT_DONE);
    assert_true(u.verdict.elsewhere);
    assert_int_equal(told_unary(&w, p.g, "late", 4), ROTA_UNREACHABLE);
    assert_int_equal(rt_grpc_feed(p.g, "x", 1), ROTA_UNREACHABLE);
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "twice");
    assert_int_equal(t.ends, 1);
    assert_string_equal(rt_grpc_why(p.g), "cut");
}

static void goes_away(void **state)
{
    (void)state;
    assert_int_equal(told_stream(&t, p.g, "known", 5), 0);
    peer_exchange(&p);
    assert_int_equal(nghttp2_submit_goaway(p.server.session, 0, p.streams[0]->id,
                                           NGHTTP2_ENHANCE_YOUR_CALM,
                                           (const uint8_t *)"too_many_pings", 14),
                     0);
    assert_int_equal(told_unary(&u, p.g, "new", 3), 0); /* has crossed it */
    p.mute = true;
    peer_exchange(&p);
    assert_int_equal(p.leavings, 1);
    assert_non_null(strstr(rt_grpc_why(p.g), "too_many_pings"));
    assert_int_equal(u.ends, 1);
    assert_int_equal(u.verdict.fate, RT_GRPC_NOT_DONE);
    assert_int_equal(u.verdict.err, ROTA_UNREACHABLE);
    assert_true(u.verdict.elsewhere);
    told_clear(&u);
    assert_int_equal(told_unary(&u, p.g, "new", 3), ROTA_UNREACHABLE);
    assert_int_equal(t.ends, 0); /* the one it knows goes on */
    assert_int_equal(p.err, 0);
    peer_answer(&p, 0, "m", 1, "0", NULL);
    peer_exchange(&p);
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.ends, 1);
    assert_int_equal(p.err, ROTA_UNREACHABLE); /* and then it is over */
}

static void goes_away_with_waiting_calls(void **state)
{
    (void)state;
    nghttp2_settings_entry one = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1};
    assert_int_equal(nghttp2_submit_settings(p.server.session, 0, &one, 1), 0);
    peer_exchange(&p);
    assert_int_equal(told_stream(&t, p.g, "known", 5), 0);
    assert_int_equal(told_unary(&u, p.g, "waits", 5), 0);
    peer_exchange(&p);
    assert_int_equal(nghttp2_submit_goaway(p.server.session, 0, p.streams[0]->id, 0, NULL, 0), 0);
    peer_exchange(&p);
    assert_int_equal(u.ends, 1);
    assert_int_equal(u.verdict.fate, RT_GRPC_NOT_DONE);
    assert_int_equal(t.ends, 0);
}

static void resets(void **state)
{
    (void)state;
    static const struct {
        uint32_t code, status;
        uint8_t fate;
    } cases[] = {
        {NGHTTP2_REFUSED_STREAM, RT_GRPC_UNAVAILABLE, RT_GRPC_NOT_DONE},
        {NGHTTP2_CANCEL, RT_GRPC_CANCELLED, RT_GRPC_MAYBE},
        {NGHTTP2_INTERNAL_ERROR, RT_GRPC_INTERNAL, RT_GRPC_MAYBE},
        {NGHTTP2_NO_ERROR, RT_GRPC_INTERNAL, RT_GRPC_MAYBE},
        {NGHTTP2_ENHANCE_YOUR_CALM, RT_GRPC_RESOURCE_EXHAUSTED, RT_GRPC_MAYBE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(told_unary(&t, p.g, "q", 1), 0);
        peer_exchange(&p);
        assert_int_equal(
            nghttp2_submit_rst_stream(p.server.session, 0, p.streams[i]->id, cases[i].code), 0);
        peer_exchange(&p);
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.status, cases[i].status);
        assert_int_equal(t.verdict.fate, cases[i].fate);
        told_clear(&t);
    }
}

static void a_server_that_does_not_read(void **state)
{
    (void)state;
    char *large = calloc(1, RT_GRPC_UNSENT_MAX);
    assert_int_equal(told_stream(&t, p.g, "w", 1), 0);
    p.mute = true;
    int rv = 0, sent = 0;
    while (rv == 0 && sent < 100) {
        rv = rt_grpc_send(t.call, large, 500000);
        sent++;
    }
    assert_int_equal(rv, ROTA_UNREACHABLE);
    assert_true(sent < 12);
    assert_true(p.wire.size < 100000); /* its window */
    assert_int_equal(rt_grpc_send(t.call, large, RT_GRPC_MESSAGE_MAX + 1), ROTA_INVALID);
    assert_int_equal(told_unary(&u, p.g, "q", 1), 0); /* waits behind it: the window is shared */
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "cut");
    assert_int_equal(u.verdict.fate, RT_GRPC_NOT_DONE);
    free(large);
}

static void writing_fails(void **state)
{
    (void)state;
    assert_int_equal(told_unary(&t, p.g, "q", 1), 0);
    p.write_err = ROTA_NOMEM;
    int rv = told_unary(&u, p.g, "r", 1);
    assert_int_equal(rt_grpc_err(p.g), ROTA_NOMEM);
    assert_int_equal(rt_grpc_feed(p.g, "", 0), ROTA_NOMEM);
    rt_grpc_down(p.g, ROTA_NOMEM, "cut");
    assert_int_equal(t.ends, 1);
    assert_int_equal(u.ends, rv == 0 ? 1 : 0); /* begun and ended, or neither */
}

static void pings(void **state)
{
    (void)state;
    uint8_t data[8] = "12345678";
    peer_exchange(&p);
    uint64_t before = p.to_client;
    rt_grpc_ping(p.g);
    peer_exchange(&p);
    assert_int_equal(p.to_client - before, 17); /* an answer */
    before = p.to_server;
    assert_int_equal(nghttp2_submit_ping(p.server.session, 0, data), 0);
    peer_exchange(&p);
    assert_int_equal(p.to_server - before, 17);
}

/* Bytes of one more call, the Ith. */
static uint64_t bytes_of_call(size_t i)
{
    uint64_t before = p.to_server;
    t = (struct told){0};
    assert_int_equal(told_unary(&t, p.g, "q", 1), 0);
    peer_exchange(&p);
    peer_answer(&p, i, "a", 1, "0", NULL);
    peer_exchange(&p);
    told_clear(&t);
    return p.to_server - before;
}

/* Go's ping after each request, for its estimate of bandwidth, is not worth a wake-up: it is answered with a later
 * call; a second one, which Go does not send before that, is answered at once. */
static void pings_that_can_wait(void **state)
{
    (void)state;
    static const uint8_t estimate[8] = {2, 4, 16, 16, 9, 14, 7, 7};
    (void)bytes_of_call(0); /* names the headers */
    uint64_t one = bytes_of_call(1), before = p.to_server;
    assert_int_equal(nghttp2_submit_ping(p.server.session, 0, estimate), 0);
    peer_exchange(&p);
    assert_int_equal(p.to_server, before);
    assert_int_equal(nghttp2_submit_ping(p.server.session, 0, estimate), 0);
    peer_exchange(&p);
    assert_int_equal(p.to_server - before, 17);
    size_t calls = 1;
    while (calls < 100 && bytes_of_call(1 + calls) == one)
        calls++;
    assert_int_equal(calls, 64);
    assert_int_equal(bytes_of_call(2 + calls), one); /* and that was all */
    assert_int_equal(p.err, 0);
}

static void tokens_too_long(void **state)
{
    (void)state;
    char *token = calloc(1, RT_GRPC_TOKEN_MAX + 2);
    memset(token, 'j', RT_GRPC_TOKEN_MAX + 1);
    struct rt_grpc_ask ask = {.path = "/x", .token = token};
    assert_int_equal(told_ask(&t, p.g, &ask, "q", 1), ROTA_INVALID);
    token[RT_GRPC_TOKEN_MAX] = '\0';
    assert_int_equal(told_ask(&t, p.g, &ask, "q", 1), 0);
    peer_exchange(&p);
    assert_int_equal(p.err, 0);
    assert_int_equal(p.count, 1);
    free(token);
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* A connection's whole life with the Nth allocation failing, alone or with all after it. Every call that
 * was begun ends once, nothing stays. True: the end was reached without a failure. */
static bool life(long fail_at)
{
    static struct peer q;
    struct told a = {0}, b = {0};
    char large[20000];
    memset(large, 'z', sizeof(large));
    q = (struct peer){0};
    peer_serve(&q);
    scarce_begin();
    scarce_leave(fail_at);
    int begun_a = -1, begun_b = -1;
    if (rt_grpc_open(&q.g, "host:1", false, &peer_user, &q) == 0) {
        begun_a = told_unary(&a, q.g, large, sizeof(large));
        peer_exchange(&q);
        if (q.err == 0)
            begun_b = told_stream(&b, q.g, "w", 1);
        peer_exchange(&q);
        if (begun_b == 0 && b.ends == 0 && q.err == 0)
            (void)rt_grpc_send(b.call, large, sizeof(large));
        for (size_t i = 0; i < q.count; i++)
            peer_answer(&q, i, large, sizeof(large), i == 0 ? "0" : NULL, NULL);
        peer_exchange(&q);
        if (begun_b == 0 && b.ends == 0 && q.err == 0)
            rt_grpc_cancel(b.call);
        else if (q.err != 0)
            rt_grpc_down(q.g, q.err, "cut");
        else if (rt_grpc_err(q.g) != 0)
            rt_grpc_down(q.g, rt_grpc_err(q.g), "cut");
    }
    bool whole = !scarce_is_out() && q.g != NULL && q.err == 0 && a.status == 0;
    if (begun_a == 0 && q.err == 0 && rt_grpc_err(q.g) != 0)
        rt_grpc_down(q.g, ROTA_NOMEM, "cut");
    assert_int_equal(a.ends, begun_a == 0 ? 1 : 0);
    scarce_leave(-1);
    peer_close(&q);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    told_clear(&a);
    told_clear(&b);
    return whole;
}

static void memory_fails(void **state)
{
    (void)state;
    long n = 0;
    while (!life(n))
        assert_true(++n < 2000);
    assert_true(n > 20);
}

/* A message is sent as a whole or not at all. */
static void memory_fails_for_one_message(void **state)
{
    (void)state;
    static struct peer q;
    char large[3000] = "";
    q = (struct peer){0};
    scarce_begin();
    peer_open(&q);
    assert_int_equal(told_stream(&t, q.g, "w", 1), 0);
    q.mute = true;
    while (rt_grpc_send(t.call, large, sizeof(large)) == 0 && q.to_server < 65000)
        ; /* the window is full now, and more has to wait */
    scarce_leave(0);
    int failed = 0, sent = 0;
    for (int i = 0; i < 3000 && failed < 5; i++) {
        if (rt_grpc_send(t.call, large, 1 + (size_t)(i % 7)) == 0)
            sent++;
        else
            failed++;
    }
    assert_int_equal(failed, 5);
    scarce_leave(-1);
    assert_int_equal(rt_grpc_send(t.call, "last", 4), 0);
    q.mute = false;
    peer_exchange(&q);
    struct grpc_bytes *body = &q.streams[0]->in;
    size_t at = 0, last = 0;
    while (at < body->size) { /* all prefixes are in their places */
        assert_true(body->size - at >= 5);
        last = (size_t)body->at[at + 3] << 8 | body->at[at + 4];
        at += 5 + last;
    }
    assert_int_equal(at, body->size);
    assert_int_equal(last, 4);
    assert_memory_equal(body->at + at - 4, "last", 4);
    peer_close(&q);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

static void memory_fails_for_one_answer(void **state)
{
    (void)state;
    static struct peer q;
    struct grpc_bytes out = {0};
    q = (struct peer){0};
    scarce_begin();
    peer_open(&q);
    assert_int_equal(told_unary(&t, q.g, "q", 1), 0);
    assert_int_equal(told_unary(&u, q.g, "q", 1), 0);
    peer_exchange(&q);
    peer_answer(&q, 0, "a", 1, NULL, NULL);
    peer_exchange(&q);
    peer_answer(&q, 1, "a", 1, NULL, NULL);
    (void)grpc_server_says(&q.server, &out);
    peer_feed(&q, out.at, 9 + out.at[2]); /* the headers have their memory */
    scarce_leave(0);
    size_t head = 9 + (size_t)out.at[2];
    peer_feed(&q, out.at + head, out.size - head);
    assert_int_equal(u.ends, 1);
    assert_int_equal(u.verdict.err, ROTA_NOMEM);
    assert_int_equal(u.verdict.fate, RT_GRPC_MAYBE);
    assert_int_equal(t.ends, 0);
    scarce_leave(-1);
    peer_close(&q);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    free(out.at);
}

/* Many calls at once do not leave their memory behind. */
static void few_are_kept(void **state)
{
    (void)state;
    static struct peer q;
    static struct told many[PEER_STREAMS];
    q = (struct peer){0};
    scarce_begin();
    peer_open(&q);
    peer_exchange(&q);
    for (size_t i = 0; i < PEER_STREAMS; i++)
        assert_int_equal(told_unary(&many[i], q.g, "q", 1), 0);
    peer_exchange(&q);
    long before = scarce.live;
    for (size_t i = 0; i < PEER_STREAMS; i++)
        peer_answer(&q, i, "a", 1, "0", NULL);
    peer_exchange(&q);
    for (size_t i = 0; i < PEER_STREAMS; i++) {
        assert_int_equal(many[i].ends, 1);
        told_clear(&many[i]);
    }
    assert_true(scarce.live < before / 2);
    assert_true(scarce.bytes < 100000);
    peer_close(&q);
    scarce_end();
}

/* What a call costs once the connection is warm; and nothing grows. */
static void nothing_grows(void **state)
{
    (void)state;
    static struct peer q;
    q = (struct peer){0};
    peer_serve(&q);
    scarce_begin();
    assert_int_equal(rt_grpc_open(&q.g, "127.0.0.1:2379", false, &peer_user, &q), 0);
    size_t bytes = 0;
    uint64_t up = 0, down_bytes = 0;
    for (size_t i = 0; i < PEER_STREAMS; i++) {
        assert_int_equal(told_unary(&t, q.g, "0123456789", 10), 0);
        peer_exchange(&q);
        peer_answer(&q, i, "0123456789", 10, "0", NULL);
        peer_exchange(&q);
        assert_int_equal(t.ends, 1);
        told_clear(&t);
        if (i == 10) {
            bytes = scarce.bytes;
            up = q.to_server;
            down_bytes = q.to_client;
        }
    }
    assert_int_equal(scarce.bytes, bytes);
    print_message(
        "a connection keeps %zu bytes; a call of 10 + 10 bytes: %llu bytes up, %llu down\n", bytes,
        (unsigned long long)(q.to_server - up) / (PEER_STREAMS - 11),
        (unsigned long long)(q.to_client - down_bytes) / (PEER_STREAMS - 11));
    peer_close(&q);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(down),
        CASE(goes_away),
        CASE(goes_away_with_waiting_calls),
        CASE(resets),
        CASE(a_server_that_does_not_read),
        CASE(writing_fails),
        CASE(pings),
        CASE(pings_that_can_wait),
        CASE(tokens_too_long),
        cmocka_unit_test(memory_fails),
        CASE(memory_fails_for_one_message),
        CASE(memory_fails_for_one_answer),
        cmocka_unit_test(few_are_kept),
        CASE(nothing_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
