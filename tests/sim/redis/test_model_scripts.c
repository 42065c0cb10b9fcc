/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own scripts, in random order, on the model Redis and on a real one. */
#include "engine/redis/script.h"
#include "sim/redis/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* As rt_redis_texts, with the clock in a key. */
extern const struct rt_redis_text rt_redis_texts_test[RT_REDIS_SCRIPTS][2];

#define ROOM "rota:{0}"
#define JOIN_NONCES 6
#define TTL_MS 1000

static char words[RS_PAIR_ARGS_MAX][160];
static struct rs_text argv[RS_PAIR_ARGS_MAX];
static size_t argc;
static int64_t now_us;
static unsigned done[RT_REDIS_SCRIPTS];

static const char *const names[] = {"a", "b c", "{0}"};

/* What was asked for lately: a LEAVE or CHANGE means one of these, or any. */
static struct past {
    uint32_t name, sid, nonce;
    uint64_t number;
} pasts[8], now;

static uint32_t below(uint32_t n)
{
    return rt_random_below(&rs_pair_chance, n);
}

__attribute__((format(printf, 1, 2))) static void word(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(words[argc], sizeof(words[0]), format, args);
    va_end(args);
    argv[argc] = (struct rs_text){words[argc], (size_t)n};
    argc++;
}

static void name(void)
{
    word("%s", names[now.name]);
}

static void sid(void)
{
    word("0123456789ab000%u", now.sid);
}

static void number(void)
{
    word("%" PRIu64, below(6) == 0 ? 0 : now.number);
}

static void draw(void)
{
    now = pasts[below(8)];
    if (below(4) == 0) {
        now.name = below(3);
        now.sid = below(4);
        now.nonce = 1 + below(JOIN_NONCES);
    }
}

/* One ticket of a join: nine words. */
static void ticket(const char *its_name)
{
    uint32_t mode = below(10) == 0 ? below(5) : below(2), of = mode >= 2 ? 2 : 0;
    uint32_t take = mode == 2 ? 1 + below(2) : 0;
    bool least = below(8) == 0, value = below(8) == 0;
    static const char *const flags[] = {"-", "a", "d", "x", "ax"};
    word("%s", its_name);
    word("%u %s", now.nonce, its_name);
    word("0123456789ab000%u %u %u %u %u %s 7 0", now.sid, now.nonce, mode, take, of,
         flags[least || value ? 3 + below(2) : below(3)]);
    word("%u", mode);
    word("%u", take);
    word("%u", of);
    word("%u", least ? 500 : 0);
    word("0");
    word("%s", value ? "some value" : "");
}

static void join(void)
{
    static const char *const hows[] = {"-", "t", "c", "c"};
    now = (struct past){below(3), below(4), 1 + below(JOIN_NONCES), (uint64_t)now_us};
    uint32_t n = below(4) == 0 ? 1 + below(3) : 1;
    word("%s", hows[below(4)]);
    sid();
    word("%u", TTL_MS);
    word("label");
    for (uint32_t i = 0; i < n; i++)
        ticket(names[(now.name + i) % 3]);
    pasts[below(8)] = now;
}

static void leave(void)
{
    name();
    sid();
    number();
    word("%u", below(4) > 0 ? now.nonce : 0);
    if (below(4) == 0)
        word("u");
}

static void change(void)
{
    static const char *const whats[] = {"D", "V", "A", "-", "DA"};
    name();
    sid();
    number();
    word("%s", whats[below(5)]);
    word("new");
}

static void arguments(enum rt_redis_script script)
{
    switch (script) {
    case RT_REDIS_SCRIPT_OPEN:
        sid();
        word("%u", TTL_MS);
        word("label");
        break;
    case RT_REDIS_SCRIPT_BEAT:
        sid();
        word("%u", TTL_MS);
        word("100"); /* all: which of them a smaller budget ends is chance */
        word("0");
        break;
    case RT_REDIS_SCRIPT_SWEEP:
        word("100"); /* all: which of them a smaller budget ends is chance */
        sid();
        if (below(2) == 0)
            name();
        else
            word("%s", "");
        break;
    case RT_REDIS_SCRIPT_JOIN:
        join();
        break;
    case RT_REDIS_SCRIPT_LEAVE:
        leave();
        break;
    case RT_REDIS_SCRIPT_CHANGE:
        change();
        break;
    case RT_REDIS_SCRIPT_BREAK:
        name();
        number();
        word("%u", below(5));
        break;
    case RT_REDIS_SCRIPT_LOOK:
        name();
        word("%u", below(2) * 300);
        break;
    case RT_REDIS_SCRIPT_INSPECT:
        name();
        break;
    case RT_REDIS_SCRIPT_LIST:
        word("0");
        break;
    case RT_REDIS_SCRIPT_META:
        word("1.0");
        word("1");
        break;
    default: /* held, inspect_session, end */
        sid();
        word("0");
    }
}

static void set_clock(void)
{
    /* Years with fewer and more digits, and where doubles begin to step by two. */
    static const int64_t years[] = {0, 946684800000000, 999999999990000, 9007199254740000,
                                    9999999999990000};
    now_us += below(80) == 0 ? -(int64_t)below(2000000)
                             : (int64_t)below(below(60) ? 20000 : 2000000);
    if (below(100) == 0)
        now_us = years[below(5)];
    if (now_us < 0)
        now_us = 0;
    char text[32];
    int n = snprintf(text, sizeof(text), "%" PRId64, now_us);
    rs_pair_check(3, (struct rs_text[]){RS_TEXT("SET"), RS_TEXT(ROOM ":clock"), {text, (size_t)n}});
}

static void call(enum rt_redis_script script)
{
    const struct rt_redis_text *t = &rt_redis_texts_test[script][0];
    argc = 5;
    argv[0] = RS_TEXT("EVAL");
    argv[1] = (struct rs_text){t->text, t->length};
    argv[2] = RS_TEXT("1");
    argv[3] = script == RT_REDIS_SCRIPT_META ? RS_TEXT(ROOM ":meta") : RS_TEXT(ROOM);
    argv[4] = RS_TEXT("42");
    draw();
    arguments(script);
    int status = rs_pair_check(argc, argv);
    assert_true(status >= 0);
    done[script] += status == RT_REDIS_OK;
}

static void test_scripts(void **state)
{
    (void)state;
    unsigned long calls = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rs_pair_begin(seed);
        now_us = 1700000000000000;
        for (int i = 0; i < 200; i++, calls++) {
            uint32_t dice = below(3 * RT_REDIS_SCRIPTS);
            set_clock();
            call(dice < RT_REDIS_SCRIPTS       ? (enum rt_redis_script)dice
                 : dice < 2 * RT_REDIS_SCRIPTS ? RT_REDIS_SCRIPT_JOIN
                 : dice % 2 == 0               ? RT_REDIS_SCRIPT_CHANGE
                                               : RT_REDIS_SCRIPT_LEAVE);
            if (i % 20 == 0)
                rs_pair_check_stores();
        }
        rs_pair_check_stores();
    }
    assert_true(calls == 8000);
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++) {
        print_message("%-16s done %u times\n", rt_redis_texts_test[i][0].name, done[i]);
        assert_true(done[i] >= 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
    };
    return cmocka_run_group_tests(tests, rs_pair_start, rs_pair_stop);
}
