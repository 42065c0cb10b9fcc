/* SPDX-License-Identifier: Apache-2.0 */
/* The guard in Redis: fence and command in one step, on a real server. */
#include "lib/redis_server.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct rt_redis node;
static redisContext *db;

static int connect_db(void **state)
{
    (void)state;
    rt_redis_must(&node, "FLUSHALL");
    db = redisConnect("127.0.0.1", node.server.port);
    return db == NULL || db->err != 0;
}

static int disconnect_db(void **state)
{
    (void)state;
    redisFree(db);
    return 0;
}

static int run(uint64_t fence, int argc, const char **argv, redisReply **reply)
{
    return rota_guard_redis(db, "{stock}:fence", fence, argc, argv, NULL, reply);
}

static int set(uint64_t fence, const char *value)
{
    return run(fence, 3, (const char *[]){"SET", "stock", value}, NULL);
}

static void is(const char *key, const char *wanted)
{
    redisReply *reply = rt_redis_do(&node, "GET %s", key);

    assert_non_null(reply);
    if (wanted == NULL)
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    else
        assert_string_equal(reply->str, wanted);
    freeReplyObject(reply);
}

static void an_older_fence_is_refused(void **state)
{
    (void)state;
    assert_int_equal(set(34, "b"), 0);
    assert_int_equal(set(33, "a"), ROTA_LOST);
    assert_non_null(strstr(rota_errmsg(NULL), "fence 34 was here"));
    is("stock", "b");
    assert_int_equal(set(34, "bb"), 0);
    assert_int_equal(set(35, "c"), 0);
    is("stock", "c");
    is("{stock}:fence", "35");
}

static void a_guarded_look_keeps_the_earlier_one_out(void **state)
{
    const char *get[] = {"GET", "stock"};
    redisReply *reply = NULL;

    (void)state;
    assert_int_equal(set(33, "7"), 0);
    assert_int_equal(run(34, 2, get, &reply), 0);
    assert_string_equal(reply->str, "7");
    freeReplyObject(reply);
    assert_int_equal(set(33, "8"), ROTA_LOST);
    is("stock", "7");
}

/* 2^53 and 2^53 + 1 are the same number for Lua. */
static void numbers_are_exact(void **state)
{
    (void)state;
    assert_int_equal(set(9, "a"), 0);
    assert_int_equal(set(10, "b"), 0);
    assert_int_equal(set(9, "c"), ROTA_LOST);
    assert_int_equal(set(9007199254740993, "d"), 0);
    assert_int_equal(set(9007199254740992, "e"), ROTA_LOST);
    assert_int_equal(set(INT64_MAX, "f"), 0);
    assert_int_equal(set(INT64_MAX - 1, "g"), ROTA_LOST);
    is("stock", "f");
}

static void bytes_are_passed_through(void **state)
{
    const char *argv[] = {"SET", "st\0ck", "a\0'\"\r\n"};
    const size_t lengths[] = {3, 5, 6};
    redisReply *reply = NULL;

    (void)state;
    assert_int_equal(rota_guard_redis(db, "f", 1, 3, argv, lengths, NULL), 0);
    argv[0] = "GET";
    assert_int_equal(rota_guard_redis(db, "f", 1, 2, argv, lengths, &reply), 0);
    assert_int_equal(reply->len, 6);
    assert_memory_equal(reply->str, argv[2], 6);
    freeReplyObject(reply);
}

static void the_commands_own_error_is_told(void **state)
{
    redisReply *reply = NULL;

    (void)state;
    rt_redis_must(&node, "RPUSH stock 1");
    assert_int_equal(run(34, 2, (const char *[]){"INCR", "stock"}, &reply), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "WRONGTYPE"));
    assert_null(reply);
    assert_int_equal(run(34, 1, (const char *[]){"NOSUCH"}, &reply), ROTA_INVALID);
    assert_int_equal(run(33, 2, (const char *[]){"INCR", "n"}, NULL), ROTA_LOST);
}

static void a_foreign_guard_key_is_left_alone(void **state)
{
    (void)state;
    rt_redis_must(&node, "SET {stock}:fence some-text");
    assert_int_equal(set(34, "a"), ROTA_INVALID);
    is("{stock}:fence", "some-text");
    rt_redis_must(&node, "DEL {stock}:fence");
    rt_redis_must(&node, "RPUSH {stock}:fence 1");
    assert_int_equal(set(34, "a"), ROTA_INVALID);
    is("stock", NULL);
}

static void wrong_arguments_are_refused(void **state)
{
    const char *argv[] = {"SET", "stock", "a"};

    (void)state;
    assert_int_equal(set(0, "a"), ROTA_INVALID);
    assert_int_equal(set((uint64_t)INT64_MAX + 1, "a"), ROTA_INVALID);
    assert_int_equal(rota_guard_redis(NULL, "f", 1, 3, argv, NULL, NULL), ROTA_INVALID);
    assert_int_equal(rota_guard_redis(db, "", 1, 3, argv, NULL, NULL), ROTA_INVALID);
    assert_int_equal(rota_guard_redis(db, "f", 1, 0, argv, NULL, NULL), ROTA_INVALID);
    is("stock", NULL);
}

static void inside_multi_it_says_so(void **state)
{
    (void)state;
    freeReplyObject(redisCommand(db, "MULTI"));
    assert_int_equal(set(34, "a"), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "MULTI"));
}

static void rights_and_a_full_server_are_told(void **state)
{
    (void)state;
    rt_redis_must(&node, "ACL SETUSER default -set");
    assert_int_equal(set(34, "a"), ROTA_AUTH);
    rt_redis_must(&node, "ACL SETUSER default +set");
    rt_redis_must(&node, "CONFIG SET maxmemory 1");
    assert_int_equal(set(34, "a"), ROTA_UNREACHABLE);
    rt_redis_must(&node, "CONFIG SET maxmemory 0");
    is("stock", NULL);
    assert_int_equal(set(34, "a"), 0);
}

static void no_answer_is_unknown_and_then_unreachable(void **state)
{
    (void)state;
    assert_int_equal(set(33, "a"), 0); /* the server knows of the connection */
    rt_redis_must(&node, "CLIENT KILL TYPE normal SKIPME yes");
    assert_int_equal(set(34, "a"), ROTA_UNKNOWN);
    assert_int_equal(set(34, "a"), ROTA_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, connect_db, disconnect_db)
        CASE(an_older_fence_is_refused),
        CASE(a_guarded_look_keeps_the_earlier_one_out),
        CASE(numbers_are_exact),
        CASE(bytes_are_passed_through),
        CASE(the_commands_own_error_is_told),
        CASE(a_foreign_guard_key_is_left_alone),
        CASE(wrong_arguments_are_refused),
        CASE(inside_multi_it_says_so),
        CASE(rights_and_a_full_server_are_told),
        CASE(no_answer_is_unknown_and_then_unreachable),
#undef CASE
    };

    rt_redis_start(&node, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_redis_fini(&node);
    return failed;
}
