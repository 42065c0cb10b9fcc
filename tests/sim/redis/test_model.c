/* SPDX-License-Identifier: Apache-2.0 */
/* The model Redis of the simulator, held against a real one: the same replies, the same store. */
#include "lib/random.h"
#include "lib/servers.h"
#include "sim/redis/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 16

static struct rt_server server;
static redisContext *real;
static struct rs_machine model;
static struct rt_random chance;

/* ---- The two ------------------------------------------------------------ */

static int64_t model_clock(struct rs_machine *m)
{
    (void)m;
    return 1700000000000000;
}

static int64_t model_publish(struct rs_machine *m, struct rs_text channel, struct rs_text message)
{
    (void)m, (void)channel, (void)message;
    return 0;
}

static bool connects(struct rt_server *s, void *unused)
{
    char path[300];
    (void)unused;
    snprintf(path, sizeof(path), "%s/s", s->dir);
    real = redisConnectUnix(path);
    if (real != NULL && real->err == 0)
        return true;
    redisFree(real);
    real = NULL;
    return false;
}

static int start(void **state)
{
    (void)state;
    rt_server_init(&server, "redis", "redis-server");
    const char *const args[] = {"--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"};
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
        rt_server_arg(&server, "%s", args[i]);
    rt_server_arg(&server, "%s/s", server.dir);
    rt_server_start(&server);
    rt_server_await(&server, connects, NULL, 10000);
    model.clock_us = model_clock;
    model.publish = model_publish;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redisFree(real);
    rt_server_fini(&server);
    rs_machine_clear(&model);
    rs_script_forget_all();
    return 0;
}

/* ---- Replies ------------------------------------------------------------ */

static redisReply *ask_real(size_t argc, const struct rs_text *argv)
{
    const char *texts[ARGS_MAX];
    size_t sizes[ARGS_MAX];
    for (size_t i = 0; i < argc; i++) {
        texts[i] = argv[i].at;
        sizes[i] = argv[i].n;
    }
    redisReply *reply = redisCommandArgv(real, (int)argc, texts, sizes);
    assert_non_null(reply);
    return reply;
}

static redisReply *ask_model(size_t argc, const struct rs_text *argv)
{
    struct rs_buffer bytes = {0};
    void *reply = NULL;
    assert_true(rs_machine_run(&model, argc, argv, &bytes));
    redisReader *reader = redisReaderCreate();
    assert_int_equal(redisReaderFeed(reader, bytes.at, bytes.n), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    rs_buffer_free(&bytes);
    return reply;
}

/* Of errors only the first word: the rest is for people. */
static bool same(const redisReply *a, const redisReply *b)
{
    if (a->type != b->type)
        return false;
    if (a->type == REDIS_REPLY_ERROR)
        return strncmp(a->str, b->str, strcspn(b->str, " ")) == 0;
    if (a->type == REDIS_REPLY_STRING || a->type == REDIS_REPLY_STATUS)
        return a->len == b->len && memcmp(a->str, b->str, (size_t)a->len) == 0;
    if (a->type == REDIS_REPLY_INTEGER)
        return a->integer == b->integer;
    if (a->type != REDIS_REPLY_ARRAY)
        return true;
    if (a->elements != b->elements)
        return false;
    for (size_t i = 0; i < a->elements; i++)
        if (!same(a->element[i], b->element[i]))
            return false;
    return true;
}

static void print_reply(const redisReply *r)
{
    if (r->type == REDIS_REPLY_INTEGER)
        fprintf(stderr, " %lld", r->integer);
    else if (r->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < r->elements; i++)
            print_reply(r->element[i]);
    else
        fprintf(stderr, " '%s'", r->type == REDIS_REPLY_NIL ? "nil" : r->str);
}

static void check(size_t argc, const struct rs_text *argv)
{
    redisReply *a = ask_real(argc, argv), *b = ask_model(argc, argv);
    if (!same(a, b)) {
        for (size_t i = 0; i < argc; i++)
            fprintf(stderr, "%.*s ", (int)argv[i].n, argv[i].at);
        fprintf(stderr, "\nreal: ");
        print_reply(a);
        fprintf(stderr, "\nmodel:");
        print_reply(b);
        fprintf(stderr, "\n");
        fail();
    }
    freeReplyObject(a);
    freeReplyObject(b);
}

/* ---- Stores ------------------------------------------------------------- */

static struct rs_text text_of(const redisReply *r)
{
    return (struct rs_text){r->str, (size_t)r->len};
}

static redisReply *ask_key(const char *command, const redisReply *key, const char *more)
{
    struct rs_text argv[5] = {
        {command, strlen(command)}, text_of(key), RS_TEXT("0"), RS_TEXT("-1")};
    argv[4] = (struct rs_text){more, more != NULL ? strlen(more) : 0};
    return ask_real(more != NULL ? 5 : 2, argv);
}

static void read_key(struct rs_store *store, const redisReply *key)
{
    redisReply *type = ask_key("TYPE", key, NULL), *all;
    if (strcmp(type->str, "string") == 0) {
        all = ask_key("GET", key, NULL);
        rs_hash_set(rs_store_get(store, text_of(key), RS_STRING), RS_TEXT(""), text_of(all));
    } else if (strcmp(type->str, "hash") == 0) {
        all = ask_key("HGETALL", key, NULL);
        for (size_t i = 0; i < all->elements; i += 2)
            rs_hash_set(rs_store_get(store, text_of(key), RS_HASH), text_of(all->element[i]),
                        text_of(all->element[i + 1]));
    } else {
        all = ask_key("ZRANGE", key, "WITHSCORES");
        for (size_t i = 0; i < all->elements; i += 2)
            rs_zset_set(rs_store_get(store, text_of(key), RS_ZSET), text_of(all->element[i]),
                        strtod(all->element[i + 1]->str, NULL));
    }
    freeReplyObject(all);
    freeReplyObject(type);
}

static void check_stores(void)
{
    struct rs_store truth = {0};
    redisReply *keys = ask_real(2, (struct rs_text[]){RS_TEXT("KEYS"), RS_TEXT("*")});
    for (size_t i = 0; i < keys->elements; i++)
        read_key(&truth, keys->element[i]);
    assert_true(rs_store_equals(&truth, &model.store));
    rs_store_clear(&truth);
    freeReplyObject(keys);
}

static void begin(uint64_t seed)
{
    chance.state = seed;
    freeReplyObject(ask_real(1, (struct rs_text[]){RS_TEXT("FLUSHALL")}));
    freeReplyObject(ask_real(2, (struct rs_text[]){RS_TEXT("SCRIPT"), RS_TEXT("FLUSH")}));
    rs_machine_clear(&model);
}

/* ---- Random commands ---------------------------------------------------- */

/* k: a key, f: a field or member, n: a whole number, s: a score, b: a bound, v: a value; * repeats
 * the word before up to three times, the rest stands for itself. */
static const char *const shapes[] = {
    "DEL k*",
    "EXISTS k*",
    "TYPE k",
    "GET k",
    "SET k v",
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

static char words[ARGS_MAX][40];

static const char *draw(char kind, char *out)
{
    static const char *const bounds[] = {"-inf", "+inf", "(2", "3", "(1700000000000003", "1"};
    static const char *const scores[] = {"1", "2", "3.5", "1700000000000003", "9007199254740991"};
    uint32_t dice = rt_random_below(&chance, 6);
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
    uint32_t times = word[size - 1] == '*' ? 1 + rt_random_below(&chance, 3) : 1;
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
    begin(4);
    for (unsigned i = 0; i < 20000; i++) {
        struct rs_text argv[ARGS_MAX];
        size_t n = 0;
        const char *at = shapes[rt_random_below(&chance, sizeof(shapes) / sizeof(shapes[0]))];
        for (; *at != '\0'; at += strspn(at, " ")) {
            size_t size = strcspn(at, " ");
            n = add_word(argv, n, at, size);
            at += size;
        }
        check(n, argv);
        if (i % 500 == 0)
            check_stores();
    }
    check_stores();
}

/* ---- Conversions -------------------------------------------------------- */

static void check_script(const char *text)
{
    struct rs_text argv[] = {RS_TEXT("EVAL"),     {text, strlen(text)}, RS_TEXT("1"),
                             RS_TEXT("rota:{0}"), RS_TEXT("arg"),       RS_TEXT("7")};
    check(6, argv);
}

static void test_conversions(void **state)
{
    (void)state;
    begin(5);
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
        "redis.call('ZADD', 'rota:{0}:z', 1700000000000003, 'm')"
        " return redis.call('ZRANGE', 'rota:{0}:z', 0, -1, 'WITHSCORES')",
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
    check_stores();
}

static void test_cache(void **state)
{
    (void)state;
    begin(6);
    static const char text[] = "return ARGV[1]";
    char sha[RS_SHA_SIZE];
    rs_sha1(RS_TEXT(text), sha);
    struct rs_text by_hash[] = {RS_TEXT("EVALSHA"), {sha, strlen(sha)}, RS_TEXT("0"), RS_TEXT("x")};
    struct rs_text exists[] = {RS_TEXT("SCRIPT"), RS_TEXT("EXISTS"), {sha, strlen(sha)}};
    check(4, by_hash); /* NOSCRIPT */
    check(3, (struct rs_text[]){RS_TEXT("SCRIPT"), RS_TEXT("LOAD"), RS_TEXT(text)});
    check(4, by_hash);
    check(3, exists);
    check(2, (struct rs_text[]){RS_TEXT("SCRIPT"), RS_TEXT("FLUSH")});
    check(4, by_hash);
    check(4, (struct rs_text[]){RS_TEXT("EVAL"), RS_TEXT(text), RS_TEXT("0"), RS_TEXT("y")});
    check(4, by_hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
