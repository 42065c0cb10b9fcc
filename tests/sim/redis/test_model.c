/* SPDX-License-Identifier: Apache-2.0 */
/* The model Redis of the simulator, held against a real one: the same replies, the same store. */
#include "sim/redis/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* ---- Random commands ---------------------------------------------------- */

/* k: a key, f: a field or member, n: a whole number, s: a score, b: a bound, v: a value; * repeats the
 * word before it up to three times; the rest stands for itself. */
static const char *const shapes[] = {
    "DEL k*",
    "EXISTS k*",
    "TYPE k",
    "GET k",
    "SET k v",
    "SET k v NX",
    "SET k v PX 1000000000",
    "SET k v NX PX 1000000000",
    "SET k v PX 0",
    "PEXPIRE k 1000000000",
    "PEXPIRE k 0",
    "HSET k fv*",
    "HSETNX k f v",
    "HGET k f",
    "HMGET k f*",
    "HDEL k f*",
    "HLEN k",
    "HEXISTS k f",
    "HINCRBY k f n",
    "HGETALL k",
    "HKEYS k",
    "HVALS k",
    "HSCAN k 0",
    "HRANDFIELD k 100 WITHVALUES",
    "ZADD k sf*",
    "ZADD k NX sf*",
    "ZADD k XX CH sf*",
    "ZADD k GT sf*",
    "ZADD k LT CH sf*",
    "ZREM k f*",
    "ZPOPMIN k",
    "ZCARD k",
    "ZSCORE k f",
    "ZMSCORE k f*",
    "ZRANK k f",
    "ZINCRBY k s f",
    "ZSCAN k 0",
    "ZRANGE k n n",
    "ZRANGE k n n WITHSCORES",
    "ZRANGE k n n REV",
    "ZRANGE k b b BYSCORE",
    "ZRANGE k b b BYSCORE LIMIT 1 2 WITHSCORES",
    "ZRANGE k b b BYSCORE REV LIMIT 0 1",
    "ZRANGEBYSCORE k b b WITHSCORES LIMIT 0 1",
    "ZREVRANGE k n n",
    "ZCOUNT k b b",
    "ZREMRANGEBYSCORE k b b",
    "ZREMRANGEBYRANK k n n",
    "PUBLISH k v",
};

static char words[RS_PAIR_ARGS_MAX][40];

static const char *draw(char kind, char *out)
{
    static const char *const bounds[] = {"-inf", "+inf", "(2", "3", "(1700000000000003", "1"};
    static const char *const scores[] = {"1", "2", "3.5", "1700000000000003", "9007199254740991"};
    uint32_t dice = rt_random_below(&rs_pair_chance, 6);
    switch (kind) {
    case 'k':
        snprintf(out, 40, "rota:{0}:%c", "ghz"[dice % 3]);
        break;
    case 'f':
        snprintf(out, 40, "f %u", dice);
        break;
    case 'n':
        snprintf(out, 40, "%d", (int)dice - 2);
        break;
    case 's':
        snprintf(out, 40, "%s", scores[dice % 5]);
        break;
    case 'b':
        snprintf(out, 40, "%s", bounds[dice]);
        break;
    default:
        snprintf(out, 40, dice < 3 ? "%u" : "a\tvalue %u", dice);
    }
    return out;
}

static size_t add_word(struct rs_text *argv, size_t n, const char *word, size_t size)
{
    bool drawn = strspn(word, "kfnsbv") >= (word[size - 1] == '*' ? size - 1 : size);
    if (!drawn) {
        argv[n] = (struct rs_text){word, size};
        return n + 1;
    }
    uint32_t times = word[size - 1] == '*' ? 1 + rt_random_below(&rs_pair_chance, 3) : 1;
    for (; times > 0; times--)
        for (size_t i = 0; i < size && word[i] != '*'; i++, n++) {
            argv[n].at = draw(word[i], words[n]);
            argv[n].n = strlen(words[n]);
        }
    return n;
}

static void test_commands(void **state)
{
    (void)state;
    rs_pair_begin(4);
    for (unsigned i = 0; i < 20000; i++) {
        struct rs_text argv[RS_PAIR_ARGS_MAX];
        size_t n = 0;
        const char *at =
            shapes[rt_random_below(&rs_pair_chance, sizeof(shapes) / sizeof(shapes[0]))];
        for (; *at != '\0'; at += strspn(at, " ")) {
            size_t size = strcspn(at, " ");
            n = add_word(argv, n, at, size);
            at += size;
        }
        rs_pair_check(n, argv);
        if (i % 500 == 0)
            rs_pair_check_stores();
    }
    rs_pair_check_stores();
}

/* ---- Conversions -------------------------------------------------------- */

static void check_script(const char *text)
{
    struct rs_text argv[] = {RS_TEXT("EVAL"),     {text, strlen(text)}, RS_TEXT("1"),
                             RS_TEXT("rota:{0}"), RS_TEXT("arg"),       RS_TEXT("7")};
    rs_pair_check(6, argv);
}

static void test_conversions(void **state)
{
    (void)state;
    rs_pair_begin(5);
    static const char *const scripts[] = {
        "return 1700000000000003.9",
        "return {1, 2.9, 'x', {3, nil, 4}, true, false, 5}",
        "return {1, nil, 3}",
        "return nil",
        "return redis.status_reply('FINE')",
        "return redis.error_reply('MINE is an error')",
        "return {ok = 'OK'}",
        "return {err = 'MINE other'}",
        "return KEYS[1] .. ARGV[1] .. #ARGV",
        "return redis.call('HSET', KEYS[1], 'a', 1700000000000003, 'b', 0.1, 'c', -5)",
        "return redis.call('HGETALL', KEYS[1])",
        "return redis.call('ZADD', KEYS[1], 1, 'x')",
        "return redis.pcall('ZADD', KEYS[1], 1, 'x')",
        "local r = redis.pcall('ZADD', KEYS[1], 1, 'x'); return r.err and 1 or 0",
        "return pcall(redis.call, 'ZADD', KEYS[1], 1, 'x') and 1 or 0",
        "return {redis.call('HGET', KEYS[1], 'none') == false, redis.call('HGET', KEYS[1], 'a')}",
        "return redis.call('TYPE', KEYS[1]).ok",
        "return redis.call('ZADD', 'rota:{0}:z', 1700000000000003, 'm')",
        "return redis.call('ZRANGE', 'rota:{0}:z', 0, -1, 'WITHSCORES')",
        "return string.format('%.0f', redis.call('ZSCORE', 'rota:{0}:z', 'm') + 1)",
        "return redis.sha1hex('')",
        "undeclared = 1",
        "return undeclared",
        "return {}",
        "return 1700000000000003 .. ''",
        "return redis.call('ZSCORE', 'rota:{0}:z', 'm') * 2",
        "return tostring(1e15 + 0.5)",
        "this is no Lua",
        "return redis.call('HMGET', KEYS[1], 'a', 'none', 'b')",
        "return #redis.call('HMGET', KEYS[1], 'a', 'none', 'b')",
        "return redis.call('NOSUCH')",
        "error('mine')",
        "error({err = 'MINE raised'})",
    };
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        check_script(scripts[i]);
    rs_pair_check_stores();
}

static void test_cache(void **state)
{
    (void)state;
    rs_pair_begin(6);
    static const char text[] = "return ARGV[1]";
    char sha[RS_SHA_SIZE];
    rs_sha1(RS_TEXT(text), sha);
    struct rs_text by_hash[] = {RS_TEXT("EVALSHA"), {sha, strlen(sha)}, RS_TEXT("0"), RS_TEXT("x")};
    struct rs_text exists[] = {RS_TEXT("SCRIPT"), RS_TEXT("EXISTS"), {sha, strlen(sha)}};
    rs_pair_check(4, by_hash); /* NOSCRIPT */
    rs_pair_check(3, (struct rs_text[]){RS_TEXT("SCRIPT"), RS_TEXT("LOAD"), RS_TEXT(text)});
    rs_pair_check(4, by_hash);
    rs_pair_check(3, exists);
    rs_pair_check(2, (struct rs_text[]){RS_TEXT("SCRIPT"), RS_TEXT("FLUSH")});
    rs_pair_check(4, by_hash);
    rs_pair_check(4,
                  (struct rs_text[]){RS_TEXT("EVAL"), RS_TEXT(text), RS_TEXT("0"), RS_TEXT("y")});
    rs_pair_check(4, by_hash);
}

static void test_full(void **state)
{
    (void)state;
    rs_pair_begin(7);
    check_script("return redis.call('HSET', KEYS[1], 'a', 1)");
    rs_pair_full(true);
    check_script("return redis.call('HSET', KEYS[1], 'a', 2)");
    check_script("return redis.call('ZADD', 'rota:{0}:z', 2, 'm')");
    check_script("redis.call('HGET', KEYS[1], 'a') return redis.call('HSET', KEYS[1], 'a', 3)");
    check_script("redis.call('PUBLISH', 'c', 'm') return redis.call('HSET', KEYS[1], 'a', 4)");
    /* Once it has written it goes on, even if that changed nothing. */
    check_script("redis.call('HDEL', KEYS[1], 'none') return redis.call('HSET', KEYS[1], 'a', 5)");
    check_script(
        "redis.call('ZREM', 'rota:{0}:z', 'x') return redis.call('HINCRBY', KEYS[1], 'a', 1)");
    check_script("return redis.call('HDEL', KEYS[1], 'a')");
    rs_pair_full(false);
    rs_pair_check_stores();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, rs_pair_start, rs_pair_stop);
}
