/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are no etcd, and malicious ones: through the whole library each gives one clear error.
 *
 * What the codec does with each single frame is in tests/unit/etcd/test_grpc_hostile.c. The first call of
 * a client is Status on stream 1, the second a Txn on stream 3. */
#include "lib/h2_raw.h"
#include "lib/meeting.h"
#include "lib/refusal.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALL_MS 600
#define SECRET "hush-Wr0ng-7c1"

static struct grpc_bytes first, then;

/* ---- Parts of a conversation ------------------------------------------------- */

static void settings(struct grpc_bytes *b)
{
    raw_frame(b, NGHTTP2_SETTINGS, 0, 0, "", 0);
}

static void headers(struct grpc_bytes *b, uint32_t id)
{
    struct grpc_bytes h = {0};

    raw_header(&h, ":status", "200");
    raw_header(&h, "content-type", "application/grpc");
    raw_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, h.at, h.size);
    free(h.at);
}

static void trailers(struct grpc_bytes *b, uint32_t id, const char *status, const char *message)
{
    struct grpc_bytes h = {0};

    raw_header(&h, "grpc-status", status);
    if (message != NULL)
        raw_header(&h, "grpc-message", message);
    raw_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, h.at,
              h.size);
    free(h.at);
}

static void data(struct grpc_bytes *b, uint32_t id, const void *bytes, size_t n)
{
    raw_frame(b, NGHTTP2_DATA, 0, id, bytes, n);
}

/* "3.5.30", and a leader: so far it is an etcd. */
static void greet(void)
{
    static const char status[] = "\0\0\0\0\x0a\x12\x06"
                                 "3.5.30"
                                 "\x20\x01";

    settings(&first);
    headers(&first, 1);
    data(&first, 1, status, sizeof(status) - 1);
    trailers(&first, 1, "0", NULL);
}

/* ---- Cases --------------------------------------------------------------------- */

static void meet(enum rogue_way way, const char *what, int err, const char *words)
{
    static const char *const secrets[] = {SECRET, NULL};
    struct rogue_options opts = {.way = way,
                                 .first = first.at,
                                 .first_size = first.size,
                                 .then = then.at,
                                 .then_size = then.size,
                                 .seed = 1};

    meeting(&opts, "etcd", "", CALL_MS, what, err, words, secrets);
    first.size = then.size = 0;
}

static int forget(void **state)
{
    (void)state;
    first.size = then.size = 0; /* of a case that was broken off */
    return 0;
}

static void says(const char *words)
{
    grpc_bytes_add(&first, words, strlen(words));
    meet(ROGUE_SAYS, "words", ROTA_PROTOCOL, "etcd?");
}

static void other_protocols(void **state)
{
    (void)state;
    says("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    says("-ERR unknown command 'PRI'\r\n");
    says("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    grpc_bytes_add(&first, "\x15\x03\x01\x00\x02\x02\x46", 7);
    meet(ROGUE_SAYS, "TLS", ROTA_PROTOCOL, "TLS|etcds://");
    meet(ROGUE_NOISE, "noise", ROTA_PROTOCOL, NULL);
    meet(ROGUE_ECHOES, "echoes", ROTA_PROTOCOL, NULL);
    meet(ROGUE_MUTE, "mute", ROTA_UNREACHABLE, "answer");
    meet(ROGUE_CLOSES, "closes", ROTA_UNREACHABLE, "connection");
}

/* gRPC, but not of etcd; and pages. */
static void other_services(void **state)
{
    struct grpc_bytes h = {0};

    (void)state;
    settings(&first);
    headers(&first, 1);
    trailers(&first, 1, "12", "unknown service");
    meet(ROGUE_TALKS, "another service", ROTA_PROTOCOL, "no etcd");
    settings(&first);
    raw_header(&h, ":status", "404");
    raw_header(&h, "content-type", "text/html");
    raw_frame(&first, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, h.at, h.size);
    raw_frame(&first, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "<html>no</html>", 15);
    meet(ROGUE_TALKS, "a page", ROTA_PROTOCOL, "no etcd");
    free(h.at);
}

static void cut_in_the_middle(void **state)
{
    (void)state;
    settings(&first);
    headers(&first, 1);
    first.size -= 10;
    meet(ROGUE_HANGS_UP, "cut in HEADERS", ROTA_UNREACHABLE, "connection");
    settings(&first);
    headers(&first, 1);
    data(&first, 1, "\0\0\0\0\x0a\x12\x06", 7); /* three bytes of ten */
    meet(ROGUE_HANGS_UP, "cut in a message", ROTA_UNREACHABLE, "connection");
    greet();
    meet(ROGUE_HANGS_UP, "cut after the greeting", ROTA_UNREACHABLE, "connection");
}

static void frames_that_are_wrong(void **state)
{
    static const uint8_t zeros[70000];
    static const struct {
        const char *what;
        uint8_t type, flags;
        uint32_t id;
        size_t n;
    } cases[] = {
        {"a frame too large", NGHTTP2_DATA, 0, 1, 16385},
        {"a frame much too large", NGHTTP2_PING, 0, 0, 70000},
        {"DATA before HEADERS", NGHTTP2_DATA, 0, 1, 6},
        {"DATA of a stream never opened", NGHTTP2_DATA, 0, 99, 6},
        {"a PUSH_PROMISE", NGHTTP2_PUSH_PROMISE, 4, 1, 4},
        {"a CONTINUATION of nothing", NGHTTP2_CONTINUATION, 4, 1, 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        settings(&first);
        raw_frame(&first, cases[i].type, cases[i].flags, cases[i].id, zeros, cases[i].n);
        meet(ROGUE_TALKS, cases[i].what, ROTA_PROTOCOL, "HTTP/2");
    }
    greet();
    raw_frame(&then, NGHTTP2_DATA, 0, 99, zeros, 6);
    meet(ROGUE_TALKS, "later, DATA of a stream never opened", ROTA_UNREACHABLE, "HTTP/2");
}

static void messages_that_are_wrong(void **state)
{
    (void)state;
    settings(&first);
    headers(&first, 1);
    data(&first, 1, "\0\x80\0\0\0", 5);
    data(&then, 1, "xxxxxxxxxxxxxxxx", 16);
    meet(ROGUE_FLOODS, "a message of 2 GiB", ROTA_UNREACHABLE, "too large");
    settings(&first);
    headers(&first, 1);
    data(&first, 1, "\0\0\0\0\x04\xff\xff\xff\xff", 9);
    trailers(&first, 1, "0", NULL);
    meet(ROGUE_TALKS, "a message that is none", ROTA_UNREACHABLE, "understood");
    greet();
    headers(&then, 3);
    data(&then, 3, "\0\0\0\0\x04\xff\xff\xff\xff", 9);
    trailers(&then, 3, "0", NULL);
    meet(ROGUE_TALKS, "later, a message that is none", MEETING_EITHER, NULL);
}

static void a_huge_reason(void **state)
{
    struct grpc_bytes h = {0};
    static char text[120];

    (void)state;
    memset(text, 'n', sizeof(text) - 1);
    for (int i = 0; i < 100; i++)
        raw_header(&h, "grpc-message", text);
    raw_header(&h, "grpc-status", "13");
    settings(&first);
    headers(&first, 1);
    raw_frame(&first, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, h.at,
              h.size);
    meet(ROGUE_TALKS, "a huge grpc-message", ROTA_UNREACHABLE, NULL);
    free(h.at);
}

/* The same frame, repeated until it fills whole reads. */
static void flood(uint8_t type, uint32_t id, const void *bytes, size_t n)
{
    for (int i = 0; i < 4000; i++)
        raw_frame(&then, type, 0, id, bytes, n);
}

static void floods(void **state)
{
    (void)state;
    settings(&first);
    raw_frame(&first, NGHTTP2_HEADERS, 0, 1, "\x88", 1);
    flood(NGHTTP2_CONTINUATION, 1, "", 0);
    meet(ROGUE_FLOODS, "CONTINUATION for ever", ROTA_PROTOCOL, "CONTINUATION");
    settings(&first);
    flood(NGHTTP2_SETTINGS, 0, "", 0);
    meet(ROGUE_FLOODS, "SETTINGS for ever", MEETING_EITHER, NULL);
    settings(&first);
    flood(NGHTTP2_PING, 0, "12345678", 8);
    meet(ROGUE_FLOODS, "PING for ever", MEETING_EITHER, NULL);
    greet();
    flood(NGHTTP2_PING, 0, "12345678", 8);
    meet(ROGUE_FLOODS, "PING for ever, later", ROTA_UNREACHABLE, NULL);
    settings(&first);
    headers(&first, 1);
    flood(NGHTTP2_DATA, 1, "", 0);
    meet(ROGUE_FLOODS, "empty DATA for ever", ROTA_UNREACHABLE, "answer");
}

/* What a process keeps from its first client on is not counted. */
static int warm_up(void **state)
{
    (void)state;
    return refusal_of("mem:warm", CALL_MS).err;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(other_protocols, forget),
        cmocka_unit_test_setup(other_services, forget),
        cmocka_unit_test_setup(cut_in_the_middle, forget),
        cmocka_unit_test_setup(frames_that_are_wrong, forget),
        cmocka_unit_test_setup(messages_that_are_wrong, forget),
        cmocka_unit_test_setup(a_huge_reason, forget),
        cmocka_unit_test_setup(floods, forget),
    };
    int rv;

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    rv = cmocka_run_group_tests(tests, warm_up, NULL);
    free(first.at);
    free(then.at);
    return rv;
}
