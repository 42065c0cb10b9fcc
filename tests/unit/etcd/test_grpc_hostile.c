/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC codec against servers that do not behave: cut short, oversized, out of order, floods. Each
 * costs its call or its connection, never more memory than is allowed, and every call ends once. */
#include "lib/h2_raw.h"
#include "lib/scarce.h"
#include "peer.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ENOUGH (512u << 10) /* bytes for a connection that was not sent large messages */
#define FEED (64u << 10)    /* what a stream reads at once */

static struct peer p;
static struct told t;
static struct grpc_bytes b; /* what the server is going to say */
static size_t most;         /* of the heap */

static int setup(void **state)
{
    (void)state;
    scarce_begin();
    peer_open(&p);
    assert_int_equal(told_unary(&t, p.g, "question", 8), 0); /* stream 1 */
    p.wire.size = 0;
    b.size = most = 0;
    raw_frame(&b, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    peer_close(&p);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    told_clear(&t);
    free(b.at);
    b = (struct grpc_bytes){0};
    return 0;
}

/* Says it, in pieces as they would come; what the client answers is dropped. */
static void say(void)
{
    for (size_t at = 0; at < b.size && p.err == 0; at += FEED) {
        peer_feed(&p, b.at + at, b.size - at < FEED ? b.size - at : FEED);
        p.wire.size = 0;
        most = scarce.bytes > most ? scarce.bytes : most;
    }
    b.size = 0;
}

static void ends_with(int err)
{
    say();
    assert_int_equal(p.err, err);
    assert_true(rt_grpc_why(p.g)[0] != '\0');
    rt_grpc_down(p.g, p.err, rt_grpc_why(p.g));
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.verdict.fate, RT_GRPC_MAYBE);
    assert_true(most < ENOUGH);
}

/* Only the call ends. */
static void call_ends_with(uint32_t status, const char *text)
{
    say();
    assert_int_equal(p.err, 0);
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.status, status);
    assert_string_equal(t.text, text);
    assert_int_equal(t.verdict.err, ROTA_PROTOCOL);
    assert_true(most < ENOUGH);
}

static void headers(uint8_t flags)
{
    struct grpc_bytes h = {0};
    raw_header(&h, ":status", "200");
    raw_header(&h, "content-type", "application/grpc");
    raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | flags, 1, h.at, h.size);
    free(h.at);
}

static void trailers(const char *status)
{
    struct grpc_bytes h = {0};
    raw_header(&h, "grpc-status", status);
    raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, h.at,
              h.size);
    free(h.at);
}

/* ---- Not HTTP/2 ---------------------------------------------------------------------------- */

static void other_protocols(void **state)
{
    (void)state;
    static const char *const words[] = {
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        "-ERR unknown command 'PRI'\r\n-ERR unknown command 'SM'\r\n",
        "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        "x",
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        b.size = 0;
        grpc_bytes_add(&b, words[i], strlen(words[i]));
        ends_with(ROTA_PROTOCOL);
        assert_string_equal(rt_grpc_why(p.g), "it does not speak HTTP/2");
        teardown(NULL);
        setup(NULL);
    }
}

static void not_settings_first(void **state)
{
    (void)state;
    b.size = 0;
    raw_frame(&b, NGHTTP2_PING, 0, 0, "12345678", 8);
    p.chunk = 1;
    ends_with(ROTA_PROTOCOL);
    assert_string_equal(rt_grpc_why(p.g), "it does not speak HTTP/2");
}

static void only_tls(void **state)
{
    (void)state;
    b.size = 0;
    grpc_bytes_add(&b, "\x15\x03\x01\x00\x02\x02\x46", 7);
    ends_with(ROTA_PROTOCOL);
    assert_string_equal(rt_grpc_why(p.g), "it speaks TLS");
}

static void four_bytes_are_enough(void **state)
{
    (void)state;
    b.size = 0;
    grpc_bytes_add(&b, "\0\0\x08\x06", 4);
    ends_with(ROTA_PROTOCOL);
}

static void garbage(void **state)
{
    (void)state;
    uint32_t x = 12345;
    for (int i = 0; i < 100000; i++) {
        uint8_t byte = (uint8_t)((x = x * 1103515245 + 12345) >> 16);
        grpc_bytes_add(&b, &byte, 1);
    }
    say();
    if (p.err == 0) /* it may have asked for a large frame, and waits for the rest of it */
        p.err = ROTA_PROTOCOL;
    rt_grpc_down(p.g, p.err, "x");
    assert_int_equal(t.ends, 1);
    assert_true(most < ENOUGH);
}

/* ---- Frames that are wrong ----------------------------------------------------------------- */

static void wrong_frames(void **state)
{
    (void)state;
    static const uint8_t zeros[70000];
    static const struct {
        const char *what;
        uint8_t type, flags;
        uint32_t id;
        size_t n;
    } cases[] = {
        {"a frame too large", NGHTTP2_DATA, 0, 1, 16385},
        {"a frame much too large", NGHTTP2_PING, 0, 0, 70000},
        {"DATA before its time", NGHTTP2_DATA, 0, 3, 5},
        {"DATA on no stream", NGHTTP2_DATA, 0, 0, 5},
        {"HEADERS of a call that we did not make", NGHTTP2_HEADERS, 4, 2, 0},
        {"HEADERS of a call to come", NGHTTP2_HEADERS, 4, 99, 0},
        {"a promise that was forbidden", NGHTTP2_PUSH_PROMISE, 4, 1, 4},
        {"SETTINGS of a stream", NGHTTP2_SETTINGS, 0, 1, 0},
        {"SETTINGS of a wrong size", NGHTTP2_SETTINGS, 0, 0, 5},
        {"an answer to no SETTINGS", NGHTTP2_SETTINGS, 1, 0, 6},
        {"a PING of a wrong size", NGHTTP2_PING, 0, 0, 7},
        {"a RST_STREAM of a wrong size", NGHTTP2_RST_STREAM, 0, 1, 3},
        {"a RST_STREAM of nothing", NGHTTP2_RST_STREAM, 0, 77, 4},
        {"a GOAWAY of a wrong size", NGHTTP2_GOAWAY, 0, 0, 4},
        {"a window that does not grow", NGHTTP2_WINDOW_UPDATE, 0, 0, 4},
        {"a CONTINUATION of nothing", NGHTTP2_CONTINUATION, 4, 1, 4},
        {"padding longer than its frame", NGHTTP2_HEADERS, 12, 1, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        raw_frame(&b, cases[i].type, cases[i].flags, cases[i].id, zeros, cases[i].n);
        say();
        if (p.err != ROTA_PROTOCOL)
            fail_msg("%s: %d", cases[i].what, p.err);
        ends_with(ROTA_PROTOCOL);
        teardown(NULL);
        setup(NULL);
    }
}

/* Before our SETTINGS are acknowledged, which the server can put off for ever: each is refused. */
static void pushes(void **state)
{
    (void)state;
    say();
    for (uint32_t id = 2; id < 20000; id += 2) {
        const uint8_t promise[] = {0, 0,  (uint8_t)(id >> 8), (uint8_t)id, 0x82, 0x84, 0x86, 0x41,
                                   1, 'x'};
        raw_frame(&b, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, promise, sizeof(promise));
        if (id > 2)
            continue;
        peer_feed(&p, b.at, b.size);
        assert_int_equal(p.err, 0);
        assert_int_equal(p.wire.size, 13);
        assert_int_equal(p.wire.at[3], NGHTTP2_RST_STREAM);
        b.size = p.wire.size = 0;
    }
    p.chunk = 4096;
    say();
    assert_int_equal(p.err, 0);
    assert_true(most < ENOUGH);
    headers(0);
    raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\1x", 6);
    trailers("0");
    say();
    assert_int_equal(t.status, RT_GRPC_OK);
    assert_int_equal(t.ends, 1);
}

static void headers_that_are_wrong(void **state)
{
    (void)state;
    struct grpc_bytes h = {0};
    raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff", 6);
    ends_with(ROTA_PROTOCOL); /* HPACK's state is lost with it */
    teardown(NULL);
    setup(NULL);
    raw_header(&h, ":status", "abc");
    raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, h.at, h.size);
    call_ends_with(RT_GRPC_INTERNAL, "HTTP/2: PROTOCOL_ERROR");
    free(h.at);
}

static void data_before_headers(void **state)
{
    (void)state;
    raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\1x", 6);
    ends_with(ROTA_PROTOCOL);
}

static void another_frame_within_headers(void **state)
{
    (void)state;
    raw_frame(&b, NGHTTP2_HEADERS, 0, 1, "\x88", 1);
    raw_frame(&b, NGHTTP2_PING, 0, 0, "12345678", 8);
    ends_with(ROTA_PROTOCOL);
}

/* ---- Messages that are wrong --------------------------------------------------------------- */

static void message_too_large(void **state)
{
    (void)state;
    headers(0);
    raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\xff\xff\xff\xff", 5);
    call_ends_with(RT_GRPC_RESOURCE_EXHAUSTED, "an answer of 4294967295 bytes is too large");
    trailers("0"); /* too late */
    say();
    assert_int_equal(p.err, 0);
}

static void a_byte_too_large(void **state)
{
    (void)state;
    headers(0);
    raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\x40\0\1", 5);
    call_ends_with(RT_GRPC_RESOURCE_EXHAUSTED, "an answer of 4194305 bytes is too large");
}

static void compressed(void **state)
{
    (void)state;
    headers(0);
    raw_frame(&b, NGHTTP2_DATA, 0, 1, "\1\0\0\0\1x", 6);
    call_ends_with(RT_GRPC_INTERNAL, "the answer is compressed, which was not asked for");
}

static void answered_twice(void **state)
{
    (void)state;
    headers(0);
    raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\1x\0\0\0\0\1y", 12);
    call_ends_with(RT_GRPC_INTERNAL, "several answers to one question");
}

static void answers_cut_short(void **state)
{
    (void)state;
    for (size_t n = 1; n < 9; n++) {
        headers(0);
        raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\4word", n);
        trailers("0");
        call_ends_with(RT_GRPC_INTERNAL, "the answer is cut short");
        teardown(NULL);
        setup(NULL);
    }
    headers(0);
    raw_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\4word", 9);
    call_ends_with(RT_GRPC_INTERNAL, "it ended without a status");
}

/* A page is not taken for messages. */
static void pages(void **state)
{
    (void)state;
    static const char *const statuses[] = {"404", "200"};
    for (size_t i = 0; i < 2; i++) {
        struct grpc_bytes h = {0};
        raw_header(&h, ":status", statuses[i]);
        raw_header(&h, "content-type", "text/html");
        raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, h.at, h.size);
        raw_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "<html>no</html>", 15);
        say();
        assert_int_equal(t.ends, 1);
        assert_string_equal(t.text, i == 0 ? "HTTP status 404" : "it does not speak gRPC");
        free(h.at);
        teardown(NULL);
        setup(NULL);
    }
}

/* A good conversation that breaks off anywhere: the call ends once, well or not. */
static void breaks_off_anywhere(void **state)
{
    (void)state;
    size_t whole = SIZE_MAX;
    for (size_t n = 0; n < whole; n++) {
        headers(0);
        raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\4word", 9);
        trailers("0");
        whole = b.size;
        b.size = n;
        say();
        assert_int_equal(p.err, 0);
        assert_int_equal(t.ends, 0);
        rt_grpc_down(p.g, ROTA_UNREACHABLE, "cut");
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.verdict.fate, RT_GRPC_MAYBE);
        teardown(NULL);
        setup(NULL);
    }
}

/* ---- Floods ---------------------------------------------------------------------------------- */

/* More acknowledgements owed than anybody needs: the connection is cut. */
static void pings_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++)
        raw_frame(&b, NGHTTP2_PING, 0, 0, "12345678", 8);
    ends_with(ROTA_PROTOCOL);
}

static void settings_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++)
        raw_frame(&b, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    ends_with(ROTA_PROTOCOL);
}

static void settings_too_many(void **state)
{
    (void)state;
    uint8_t many[6 * 1000] = {0};
    for (size_t i = 0; i < sizeof(many); i += 6)
        many[i + 1] = 4; /* initial window 0, a thousand times */
    raw_frame(&b, NGHTTP2_SETTINGS, 0, 0, many, sizeof(many));
    ends_with(ROTA_PROTOCOL);
}

/* A few at a time are answered, for ever, and cost nothing that stays. */
static void pings_for_ever(void **state)
{
    (void)state;
    say();
    size_t before = scarce.bytes;
    for (int i = 0; i < 2000; i++) {
        for (int k = 0; k < 50; k++)
            raw_frame(&b, NGHTTP2_PING, 0, 0, "12345678", 8);
        say();
        assert_int_equal(p.err, 0);
    }
    assert_int_equal(scarce.bytes, before);
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "cut");
}

static void empty_frames_for_ever(void **state)
{
    (void)state;
    headers(0);
    say();
    size_t before = scarce.bytes;
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 1000; k++) {
            raw_frame(&b, NGHTTP2_DATA, 0, 1, NULL, 0);
            raw_frame(&b, NGHTTP2_PRIORITY, 0, 1, "\0\0\0\0\x10", 5);
            raw_frame(&b, 0xee, 0, 1, "unknown", 7);
        }
        say();
    }
    assert_int_equal(scarce.bytes, before);
    assert_int_equal(p.err, 0);
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "cut");
    assert_int_equal(t.ends, 1);
}

static void continuations_for_ever(void **state)
{
    (void)state;
    raw_frame(&b, NGHTTP2_HEADERS, 0, 1, "\x88", 1);
    for (int i = 0; i < 100000; i++)
        raw_frame(&b, NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
    ends_with(ROTA_PROTOCOL);
}

static void headers_for_ever(void **state)
{
    (void)state;
    struct grpc_bytes h = {0};
    raw_header(&h, ":status", "200");
    for (int i = 0; i < 400; i++)
        raw_header(&h, "x-large", "0123456789012345678901234567890123456789");
    raw_frame(&b, NGHTTP2_HEADERS, 0, 1, h.at, h.size < 16000 ? h.size : 16000);
    call_ends_with(RT_GRPC_RESOURCE_EXHAUSTED, "too many headers");
    free(h.at);
}

/* One header as large as the table allows, then only its number, again and again. */
static void a_bomb_of_headers(void **state)
{
    (void)state;
    struct grpc_bytes h = {0};
    char value[3000];
    memset(value, 'b', sizeof(value));
    grpc_bytes_add(&h, "\x88\x40\x01x\x7f\xb9\x16", 7); /* a literal of 3000 bytes, to be kept */
    grpc_bytes_add(&h, value, sizeof(value));
    for (int i = 0; i < 10000; i++)
        grpc_bytes_add(&h, "\xbe", 1);
    raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, h.at, h.size);
    call_ends_with(RT_GRPC_RESOURCE_EXHAUSTED, "too many headers");
    free(h.at);
}

static void interim_answers_for_ever(void **state)
{
    (void)state;
    struct grpc_bytes h = {0};
    raw_header(&h, ":status", "103");
    for (int i = 0; i < 100000; i++)
        raw_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, h.at, h.size);
    call_ends_with(RT_GRPC_RESOURCE_EXHAUSTED, "too many headers");
    free(h.at);
}

/* Large answers to many calls, none of them whole. */
static void many_large_answers(void **state)
{
    (void)state;
    enum { CALLS = 40 };
    static struct told many[CALLS];
    size_t n = RT_GRPC_MESSAGE_MAX - 1;
    uint8_t *large = calloc(1, n + 5);
    const uint8_t prefix[5] = {0, (uint8_t)((n + 1) >> 24), (uint8_t)((n + 1) >> 16),
                               (uint8_t)((n + 1) >> 8), (uint8_t)(n + 1)};
    memcpy(large, prefix, 5);
    int refused = 0, whole = 0;
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(told_unary(&many[i], p.g, "q", 1), 0);
    peer_close(&p); /* anew, with a server that speaks for itself */
    peer_open(&p);
    for (int i = 0; i < CALLS; i++) {
        told_clear(&many[i]);
        assert_int_equal(told_unary(&many[i], p.g, "q", 1), 0);
    }
    peer_exchange(&p);
    for (size_t i = 0; i < CALLS; i++) {
        peer_answer_raw(&p, i, large, n + 5, NULL);
        peer_exchange(&p);
        assert_int_equal(p.err, 0);
        most = scarce.bytes > most ? scarce.bytes : most;
    }
    assert_true(most < 2 * RT_GRPC_KEPT_MAX + ENOUGH);
    rt_grpc_down(p.g, ROTA_UNREACHABLE, "cut");
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(many[i].ends, 1);
        refused += many[i].status == RT_GRPC_RESOURCE_EXHAUSTED;
        whole += many[i].status == RT_GRPC_OK;
        told_clear(&many[i]);
    }
    assert_int_equal(whole, 0);
    assert_true(refused >= CALLS - 5);
    free(large);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(other_protocols),
        CASE(not_settings_first),
        CASE(only_tls),
        CASE(four_bytes_are_enough),
        CASE(garbage),
        CASE(wrong_frames),
        CASE(pushes),
        CASE(headers_that_are_wrong),
        CASE(data_before_headers),
        CASE(another_frame_within_headers),
        CASE(message_too_large),
        CASE(a_byte_too_large),
        CASE(compressed),
        CASE(answered_twice),
        CASE(answers_cut_short),
        CASE(pages),
        CASE(breaks_off_anywhere),
        CASE(pings_at_once),
        CASE(settings_at_once),
        CASE(settings_too_many),
        CASE(pings_for_ever),
        CASE(empty_frames_for_ever),
        CASE(continuations_for_ever),
        CASE(headers_for_ever),
        CASE(a_bomb_of_headers),
        CASE(interim_answers_for_ever),
        CASE(many_large_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
