/* SPDX-License-Identifier: Apache-2.0 */
/* A model Redis and a real one, asked the same. */
#include "sim/redis/pair.h"

#include "lib/servers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rt_random rs_pair_chance;

static struct rt_server server;
static redisContext *real;
static struct rs_machine model;

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

int rs_pair_start(void **state)
{
    (void)state;
    rt_server_init(&server, "redis", "redis-server");
    const char *const args[] = {
        "--port", "0", "--save", "", "--appendonly", "no",
        /* as small ones: in the order of insertion, which the model has too */
        "--hash-max-listpack-value", "4096", "--zset-max-listpack-value", "4096", "--unixsocket"};
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
        rt_server_arg(&server, "%s", args[i]);
    rt_server_arg(&server, "%s/s", server.dir);
    rt_server_start(&server);
    rt_server_await(&server, connects, NULL, 10000);
    model.clock_us = model_clock;
    model.publish = model_publish;
    return 0;
}

int rs_pair_stop(void **state)
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
    const char *texts[RS_PAIR_ARGS_MAX];
    size_t sizes[RS_PAIR_ARGS_MAX];
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

int rs_pair_check(size_t argc, const struct rs_text *argv)
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
    bool tagged = a->type == REDIS_REPLY_ARRAY && a->elements >= 2;
    int status = tagged && a->element[1]->type == REDIS_REPLY_INTEGER ? (int)a->element[1]->integer
                                                                      : -1;
    if (a->type == REDIS_REPLY_STRING) /* the tag alone */
        status = 0;
    freeReplyObject(a);
    freeReplyObject(b);
    return status;
}

void rs_pair_full(bool full)
{
    struct rs_text size = full ? RS_TEXT("100kb") : RS_TEXT("0");
    freeReplyObject(ask_real(
        4, (struct rs_text[]){RS_TEXT("CONFIG"), RS_TEXT("SET"), RS_TEXT("maxmemory"), size}));
    model.full = full;
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

static void print_store(const char *whose, const struct rs_store *s)
{
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->keys[i].count; k++) {
            const struct rs_entry *e = &s->keys[i].entries[k];
            fprintf(stderr, "%s %s: '%s' %s %.17g\n", whose, s->keys[i].name.at, e->name.at,
                    e->value.at, e->score);
        }
}

void rs_pair_check_stores(void)
{
    struct rs_store truth = {0};
    redisReply *keys = ask_real(2, (struct rs_text[]){RS_TEXT("KEYS"), RS_TEXT("*")});
    for (size_t i = 0; i < keys->elements; i++)
        read_key(&truth, keys->element[i]);
    if (!rs_store_equals(&truth, &model.store)) {
        print_store("real", &truth);
        print_store("model", &model.store);
        fail();
    }
    rs_store_clear(&truth);
    freeReplyObject(keys);
}

void rs_pair_begin(uint64_t seed)
{
    rs_pair_chance.state = seed;
    freeReplyObject(ask_real(1, (struct rs_text[]){RS_TEXT("FLUSHALL")}));
    freeReplyObject(ask_real(2, (struct rs_text[]){RS_TEXT("SCRIPT"), RS_TEXT("FLUSH")}));
    rs_machine_clear(&model);
}
