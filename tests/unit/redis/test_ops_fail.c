/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that fail after they took effect, against a server that the test plays: nothing is left behind. */
#include "lib/scarce.h"
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Scripts that fail ------------------------------------------------------------------ */

/* SCRIPT, whose call was read, ends with an error at the line of WHERE. */
static void fail_at(enum rt_redis_script script, const char *error, const char *where)
{
    const struct rt_redis_text *t = rt_redis_script_text(script, false);
    const char *at = strstr(t->text, where);
    char text[512], tag[24];
    int line = 1;
    assert_non_null(at);
    for (const char *c = t->text; c < at; c++)
        line += *c == '\n';
    snprintf(text, sizeof(text), "-%s script: %s, on @user_script:%d.\r\n", error, t->sha1, line);
    played_say(&p, WORK, text);
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(played_next(&p, WORK)));
    snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(tag), tag);
    played_say(&p, WORK, text); /* the ECHO after it */
}

#define NO_RIGHT "NOPERM this user has no permissions"

static void test_leave_fails_half_way(void **state)
{
    struct rt_op op;
    (void)state;
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE, NO_RIGHT, "call('PUBLISH'");
    expect_told("leave UNKNOWN"); /* I5: it is out of the line */
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE, NO_RIGHT, "call('HMGET'"); /* before it did anything */
    expect_told("leave AUTH");
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE, NO_RIGHT, "call('HDEL'"); /* the first that writes */
    expect_told("leave AUTH");
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE, "OOM command not allowed", "call('HSET'");
    expect_told("leave UNREACHABLE"); /* Redis says that before the first write */
}

/* Half of a room was moved away under a running script. */
static void test_leave_meets_a_key_that_moved(void **state)
{
    struct rt_op op;
    (void)state;
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE,
            "ERR Script attempted to access a non local key in a cluster node", "call('PUBLISH'");
    expect_told("leave UNKNOWN");
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE,
            "ERR Script attempted to access a non local key in a cluster node", "call('HMGET'");
    expect_told(""); /* asked again when the room is whole */
    played_pass(&p, 6000);
    expect_told("leave UNREACHABLE");
}

/* A definite error says that nothing is left: it is taken back before. */
static void test_join_fails_half_way(void **state)
{
    struct joining j;
    const char *args;
    static const int statuses[] = {RT_REDIS_OK, RT_REDIS_LOST};
    (void)state;
    for (int i = 0; i < 2; i++) {
        join(&j, "a", 7);
        (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
        fail_at(RT_REDIS_SCRIPT_JOIN, NO_RIGHT, "call('PUBLISH'");
        expect_told("");
        uint64_t tag = expect_call(RT_REDIS_SCRIPT_LEAVE, &args);
        assert_non_null(strstr(args, " 0 7"));
        answer(tag, statuses[i], i == 0 ? "i0" : "");
        expect_told("join AUTH");
        assert_non_null(strstr(p.conn->base.errmsg, "lacks the right"));
    }
    join(&j, "a", 8);
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    fail_at(RT_REDIS_SCRIPT_JOIN, NO_RIGHT, "call('PUBLISH'");
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE, NO_RIGHT, "call('HMGET'");
    expect_told("join UNKNOWN"); /* it may stand there */
    join(&j, "a", 9);
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    fail_at(RT_REDIS_SCRIPT_JOIN, NO_RIGHT, "call('HSET'");
    expect_told("join AUTH");
    expect_no_call();
}

static void test_set_fails_half_way(void **state)
{
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .user = join_name};
    struct rt_join joins[] = {{.name = "a", .session = p.conn->session, .nonce = 1},
                              {.name = "b", .session = p.conn->session, .nonce = 2}};
    const char *args;
    (void)state;
    op.join.joins = joins;
    op.join.n = 2;
    submit(&op);
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    fail_at(RT_REDIS_SCRIPT_JOIN, NO_RIGHT, "call('PUBLISH'");
    uint64_t first = expect_call(RT_REDIS_SCRIPT_LEAVE, &args);
    assert_non_null(strstr(args, " 0 1"));
    uint64_t second = expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    answer(first, RT_REDIS_OK, "i1");
    expect_told("");
    answer(second, RT_REDIS_LOST, "");
    expect_told("join AUTH");
}

/* ---- No memory -------------------------------------------------------------------------- */

/* A push that overtook the answer to its JOIN, and could not be kept until that came: told at once, it would
 * name a ticket that nobody knows, and the waiter would wait for ever. The room is asked instead. */
static void test_push_that_cannot_be_kept(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    scarce.asked = 0;
    scarce.fail_at = 1;
    push(1, "G 11 a");
    assert_int_equal(scarce.asked, 1);
    scarce.fail_at = 0;
    expect_told("");
    answer(tag, RT_REDIS_OK, "i1000000000 i0 i11 i4");
    expect_told("join ok");
    believe("a", 11, false);
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), RT_REDIS_OK, "i1 s0 i11 sa i1 s7");
    expect_told("granted a 11");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_session, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_leave_fails_half_way),     TEST(test_leave_meets_a_key_that_moved),
        TEST(test_join_fails_half_way),      TEST(test_set_fails_half_way),
        TEST(test_push_that_cannot_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
