/* SPDX-License-Identifier: Apache-2.0 */
/* Replies fuzzed: random bytes, and good replies mutated, on every kind of link. Nothing crashes or
 * hangs, every request ends exactly once, memory stays bounded, and the client recovers.
 *
 *   test_link_fuzz [ROUNDS [SEED]] */
#include "played.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 3000
#define REQUESTS 8

static struct played p;
static uint64_t seed = 1;
static int rounds = ROUNDS;
static long linked, asked, good;
static enum { SINGLE, SENTINEL, CLUSTER } kind;

static uint32_t roll(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* ---- What is said ----------------------------------------------------------------------------------- */

static size_t put(char *out, size_t room, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out + at, room - at, format, args);
    va_end(args);
    return n < 0 || at + (size_t)n >= room ? at : at + (size_t)n;
}

static size_t put_any(char *out, size_t room, size_t at, int depth)
{
    static const char *const words[] = {"message",  "subscribe",    "pong", "OK",
                                        "PONG",     "1.0",          "1",    "rota:{0}:p:0",
                                        "smessage", "sunsubscribe", "0"};
    static const char *const errors[] = {"NOSCRIPT x", "OOM x",       "READONLY x", "MOVED 1 h:1",
                                         "ASK 1 :2",   "LOADING x",   "NOAUTH x",   "WRONGTYPE x",
                                         "MOVED",      "CLUSTERDOWN", "",           "ERR y"};
    switch (roll(depth > 3 ? 5 : 7)) {
    case 0:
        return put(out, room, at, "-%s\r\n", errors[roll(12)]);
    case 1:
        return put(out, room, at, ":%d\r\n", (int)roll(9) - 4);
    case 2:
        return put(out, room, at, "$-1\r\n");
    case 3: {
        const char *word = words[roll(11)];
        return put(out, room, at, "$%zu\r\n%s\r\n", strlen(word), word);
    }
    case 4:
        return put(out, room, at, "+%s\r\n", words[roll(11)]);
    default: {
        uint32_t n = roll(5);
        at = put(out, room, at, "*%u\r\n", n);
        while (n-- > 0)
            at = put_any(out, room, at, depth + 1);
        return at;
    }
    }
}

/* A good reply to COMMAND, as a server would. */
static size_t put_good(char *out, size_t room, size_t at, const char *command)
{
    char tag[24];
    if (strncmp(command, "ECHO ", 5) == 0)
        return put(out, room, at, "$%zu\r\n%s\r\n", strlen(command + 5), command + 5);
    if (strncmp(command, "EVAL", 4) == 0) {
        snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(command));
        return put(out, room, at, "*4\r\n$%zu\r\n%s\r\n:0\r\n$3\r\n1.0\r\n$%d\r\n%s\r\n",
                   strlen(tag), tag, kind == CLUSTER ? 3 : 1, kind == CLUSTER ? "256" : "1");
    }
    if (strcmp(command, "INFO") == 0) {
        const char *info = kind == CLUSTER ? "redis_version:7.0.15\r\nredis_mode:cluster\r\n"
                                           : "redis_version:7.0.15\r\nrole:master\r\n";
        return put(out, room, at, "$%zu\r\n%s\r\n", strlen(info), info);
    }
    if (strcmp(command, "CLUSTER SLOTS") == 0)
        return put(out, room, at,
                   "*2\r\n*3\r\n:0\r\n:%u\r\n*2\r\n$1\r\nh\r\n:6379\r\n"
                   "*3\r\n:%u\r\n:16383\r\n*2\r\n$1\r\n%c\r\n:6379\r\n",
                   8000 + roll(2), 8001 + roll(2), "hij"[roll(3)]);
    if (strncmp(command, "SENTINEL", 8) == 0)
        return put(out, room, at, "*2\r\n$1\r\n%c\r\n$4\r\n6379\r\n", "hij"[roll(3)]);
    if (strncmp(command, "CONFIG", 6) == 0)
        return put(out, room, at, "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    if (strstr(command, "PUBLISH") != NULL || strncmp(command, "WAIT", 4) == 0)
        return put(out, room, at, ":0\r\n");
    if (strncmp(command, "SUBSCRIBE", 9) == 0)
        return put(out, room, at, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                   strlen(command + 10), command + 10);
    return put(out, room, at, "+OK\r\n");
}

static void mutate(char *bytes, size_t n)
{
    for (uint32_t k = roll(4); n > 0 && k > 0; k--)
        switch (roll(3)) {
        case 0:
            bytes[roll((uint32_t)n)] = (char)roll(256);
            break;
        case 1:
            bytes[roll((uint32_t)n)] = "\r\n*$:+-0123456789"[roll(17)];
            break;
        default: {
            size_t from = roll((uint32_t)n), to = roll((uint32_t)n);
            bytes[to] = bytes[from];
        }
        }
}

static size_t say_something(size_t s, char *out, size_t room)
{
    size_t n = 0;
    const char *command;
    uint32_t how = roll(10);
    if (how == 0)
        for (n = 0; n < 40; n++)
            out[n] = (char)roll(256);
    else if (how == 1)
        n = put_any(out, room, 0, 0);
    else
        while ((command = played_next(&p, s))[0] != '\0') {
            n = put_good(out, room, n, command);
            if (roll(20) == 0)
                n = put_any(out, room, n, 0);
        }
    if (how >= 2 && roll(3) != 0)
        return n; /* good after all */
    mutate(out, n);
    return n;
}

/* ---- Rounds ---------------------------------------------------------------------------------------------- */

static void feed(size_t s)
{
    static char out[16384];
    size_t n = say_something(s, out, sizeof(out)), at = 0;
    while (at < n && p.streams[s].stream != NULL) {
        size_t piece = roll(2) == 0 ? n - at : 1 + roll((uint32_t)(n - at));
        played_say_bytes(&p, s, out + at, piece);
        at += piece;
    }
}

static void one_round(void)
{
    kind = roll(3);
    played_open(&p, kind == SENTINEL ? "redis://h,i?sentinel=m&replicas=1" : "redis://h",
                roll(2) == 0 ? "secret" : NULL, 0);
    bool subscribed = false;
    for (int step = 0; step < 30 && p.opened < PLAYED_STREAMS / 2; step++) {
        for (size_t s = 0; s < p.opened; s++) {
            struct rt_stream *stream = p.streams[s].stream;
            if (stream != NULL && stream->state == RT_STREAM_CONNECTING)
                played_accept(&p, s);
            else if (stream != NULL)
                feed(s);
        }
        if (p.conn->rooms != NULL && p.asked_count < REQUESTS)
            (void)played_ask(&p, "x", 1 + roll(5000));
        if (p.conn->rooms != NULL && !subscribed) {
            assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "rota:{0}:p:0"), 0);
            subscribed = true;
        }
        played_pass(&p, roll(4) == 0 ? roll(3000) : roll(30));
    }
    played_pass(&p, 20000);
    linked += p.ups;
    asked += p.asked_count;
    for (int i = 0; i < p.asked_count; i++) {
        assert_int_equal(p.asked[i].answers, 1);
        good += p.asked[i].err == 0;
    }
    played_close(&p);
}

static void test_rounds(void **state)
{
    (void)state;
    struct mallinfo2 before = {0};
    for (int i = 0; i < rounds; i++) {
        one_round();
        if (i == rounds / 2)
            before = mallinfo2();
    }
    print_message("%d rounds: %ld links, %ld requests, %ld of them answered\n", rounds, linked,
                  asked, good);
    assert_true(linked > rounds / 10 && good > rounds / 10 &&
                good < asked); /* it tried something */
    /* Under the sanitizers these are zero, and the leak checker looks instead. */
    assert_true(mallinfo2().uordblks <= before.uordblks + (1u << 20));
}

/* ---- Want of memory ------------------------------------------------------------------------------------ */

static int left; /* allocations until one fails; < 0: none does */
static bool for_good;

static bool fails(void)
{
    if (left < 0)
        return false;
    if (left > 0)
        left--;
    bool now = left == 0;
    if (now && !for_good)
        left = -1;
    return now;
}

static void *scarce_calloc(size_t n, size_t size)
{
    return fails() ? NULL : calloc(n, size);
}

static void *scarce_realloc(void *at, size_t size)
{
    return fails() ? NULL : realloc(at, size);
}

/* A good server for STEPS steps. */
static void serve(int steps)
{
    static char out[65536];
    const char *command;
    for (int step = 0; step < steps; step++) {
        for (size_t s = 0; s < p.opened; s++) {
            struct rt_stream *stream = p.streams[s].stream;
            size_t n = 0;
            if (stream != NULL && stream->state == RT_STREAM_CONNECTING)
                played_accept(&p, s);
            while (p.streams[s].stream != NULL && (command = played_next(&p, s))[0] != '\0')
                n = put_good(out, sizeof(out), n, command);
            if (n > 0 && p.streams[s].stream != NULL)
                played_say_bytes(&p, s, out, n);
        }
        played_pass(&p, 30);
    }
}

/* Whatever the allocation, it fails once or from then on; afterwards all is well again. */
static bool survives(int nth)
{
    struct rt_url url;
    char errmsg[256];
    static const char *const urls[] = {"redis://h", "redis://h,i?sentinel=m&replicas=1",
                                       "redis://h:6379"};
    kind = nth % 3;
    for_good = nth % 2 != 0;
    assert_int_equal(rt_url_parse(&url, urls[kind], errmsg, sizeof(errmsg)), 0);
    left = nth / 3 + 1;
    bool opened = played_try(&p, &url);
    if (opened) {
        serve(6);
        if (p.conn->rooms != NULL) {
            (void)rt_resp_subscribe(&p.conn->link, 0, "rota:{0}:p:0");
            serve(3);
        }
        bool hit = left <= 0;
        left = -1;
        serve(60);
        assert_non_null(p.conn->rooms);
        (void)played_ask(&p, "x", 3000);
        serve(10);
        assert_int_equal(p.asked[0].err, 0);
        played_close(&p);
        rt_url_fini(&url);
        return hit;
    }
    left = -1;
    rt_url_fini(&url);
    return true;
}

static void test_want_of_memory(void **state)
{
    const struct rt_allocator scarce = {scarce_calloc, scarce_realloc, free};
    int nth = 0, calm = 0;
    (void)state;
    left = -1;
    rt_alloc_set(&scarce);
    while (calm < 12) /* until the number is beyond all that is allocated */
        calm = survives(nth++) ? 0 : calm + 1;
    rt_alloc_set(NULL);
    print_message("%d allocations failed\n", nth / 3);
    assert_true(nth > 60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_want_of_memory)};
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
