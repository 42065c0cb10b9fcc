/* SPDX-License-Identifier: Apache-2.0 */
/* What comes first, and when things are forgotten: ops against a server that the test plays. */
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* After an outage the server is first asked what it knows of our tickets: what was submitted meanwhile, however early,
 * is sent after that, so that nobody hears of a success before it hears of a loss. */
static void test_what_is_held_comes_first(void **state)
{
    struct joining j, k;
    (void)state;
    believe("a", 11, true);
    size_t before = p.opened;
    played_end(&p, WORK);
    join(&j, "b", 7);
    join(&k, "c", 8);
    for (int i = 0; i < 100 && p.opened == before; i++)
        played_pass(&p, 50);
    work_stream = p.opened - 1;
    played_accept(&p, WORK);
    played_greet(&p, WORK);
    uint64_t held = expect_call(RT_REDIS_SCRIPT_HELD, NULL);
    uint64_t first = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    uint64_t second = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    assert_true(first < second); /* in the order they were submitted */
    answer(held, 0, "i0 s0 i11 sa i1 s3");
    answer(first, 0, "i1000000000 i0 i12 i1");
    answer(second, 0, "i1000000000 i0 i13 i1");
    expect_told("join ok");
    expect_told("join ok");
}

/* SCRIPT, whose call was read, ends with an error at the line of WHERE. */
static void fail_at(enum rt_redis_script script, const char *where)
{
    const struct rt_redis_text *t = rt_redis_script_text(script, false);
    const char *at = strstr(t->text, where);
    char text[256], tag[24];
    int line = 1;
    assert_non_null(at);
    for (const char *c = t->text; c < at; c++)
        line += *c == '\n';
    snprintf(text, sizeof(text), "-NOPERM no script: %s, on @user_script:%d.\r\n", t->sha1, line);
    played_say(&p, WORK, text);
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(played_next(&p, WORK)));
    snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(tag), tag);
    played_say(&p, WORK, text);
}

/* What is to be taken back is remembered as long as its session: a ticket of the next session is a ticket of its
 * own. */
static void test_what_was_given_up_ends_with_the_session(void **state)
{
    struct joining j;
    struct rt_op op;
    (void)state;
    join(&j, "a", 7);
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    fail_at(RT_REDIS_SCRIPT_JOIN, "call('PUBLISH'");
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    fail_at(RT_REDIS_SCRIPT_LEAVE, "call('HMGET'");
    expect_told("join UNKNOWN"); /* it may stand there */
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), RT_REDIS_LOST, "");
    expect_told("beat LOST");
    open_session();
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), RT_REDIS_OK, "i1000000000 i0 i12 i1");
    expect_told("join ok");
}

/* A set whose withdrawal was not confirmed is taken back when it is asked again, every ticket of it, and not put. */
static void test_a_set_is_taken_back_again(void **state)
{
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .user = join_name};
    struct rt_join joins[] = {{.name = "a", .session = p.conn->session, .nonce = 1},
                              {.name = "b", .session = p.conn->session, .nonce = 2}};
    (void)state;
    op.join.joins = joins;
    op.join.n = 2;
    submit(&op);
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    fail_at(RT_REDIS_SCRIPT_JOIN, "call('PUBLISH'");
    uint64_t first = expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    uint64_t second = expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    answer(first, RT_REDIS_BUSY, ""); /* no answer to a LEAVE */
    answer(second, RT_REDIS_BUSY, "");
    expect_told("join UNKNOWN");
    op.deadline = 0;
    submit(&op);
    const char *args;
    first = expect_call(RT_REDIS_SCRIPT_LEAVE, &args);
    assert_true(strncmp(args, "a ", 2) == 0);
    second = expect_call(RT_REDIS_SCRIPT_LEAVE, &args);
    assert_true(strncmp(args, "b ", 2) == 0);
    answer(first, RT_REDIS_LOST, "");
    expect_told("");
    answer(second, RT_REDIS_OK, "i0");
    expect_told("join AUTH");
    expect_no_call();
}

/* A value that could not be told to any observer is not written: neither by a JOIN nor by a CHANGE. */
static void test_a_value_has_its_limit(void **state)
{
    static char value[ROTA_VALUE_MAX + 2];
    struct rt_op op = {.kind = RT_OP_CHANGE, .user = other_name};
    (void)state;
    memset(value, 'v', sizeof(value) - 1);
    op.change.name = "a";
    op.change.session = p.conn->session;
    op.change.number = 5;
    op.change.what = RT_CHANGE_VALUE;
    op.change.value = value;
    submit(&op);
    expect_told("op INVALID");
    expect_no_call();
    value[ROTA_VALUE_MAX] = '\0';
    op.deadline = 0;
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_CHANGE, NULL), 0, "i0");
    expect_told("op ok");
}

/* In a cluster a room is swept while a ticket of ours waits in it, and not while that holds. */
static void test_rooms_are_swept_while_we_wait(void **state)
{
    struct joining j;
    char name[16];
    uint32_t room = 0;
    (void)state;
    for (int i = 0; room == 0; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        room = rt_redis_room_of(p.conn, name);
    }
    join(&j, name, 7);
    answer(expect_call_in(room, RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i1001000000 i11 i4");
    expect_told("join ok");
    believe(name, 11, false);
    played_pass(&p, 1500);
    answer(expect_call_in(room, RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i1001500000 i1002500000 i0");
    played_pass(&p, 1500);
    answer(expect_call_in(room, RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i1003000000 i1004000000 i0");
    user.held[0].granted = true;
    played_pass(&p, 1500);
    expect_no_call();
}

/* A failed sweep is repeated, or whoever waits behind the dead would wait until somebody else comes. */
static void test_a_sweep_that_fails_is_done_again(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i1001000000 i11 i4");
    expect_told("join ok");
    believe("a", 11, false);
    played_pass(&p, 1100);
    answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i1001500000 sodd i0 i0");
    expect_no_call(); /* not at once */
    played_pass(&p, 1100);
    answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i1001500000 i0 i0");
    played_pass(&p, 1100);
    expect_no_call(); /* nothing will end */
}

/* While somebody waits, the link over which its grant would come is asked whether it lives. Redis answers PING there
 * with an array: that is an answer, and the link stays; without one it is cut. */
static void test_the_link_of_pushes_is_asked(void **state)
{
    struct joining j;
    int asked = 0;
    (void)state;
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i1001000000 i11 i4");
    expect_told("join ok");
    believe("a", 11, false);
    for (int i = 0; i < 60; i++) {
        const char *command = played_next(&p, WORK);
        if (calls(command, RT_REDIS_SCRIPT_SWEEP))
            answer(played_tag(command), 0, "i1001500000 i1002500000 i0");
        assert_non_null(p.streams[PUSH].stream);
        if (strcmp(played_next(&p, PUSH), "PING") == 0) {
            played_say(&p, PUSH, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
            asked++;
        }
        played_pass(&p, 500);
    }
    assert_true(asked > 1); /* and again */
    assert_non_null(p.streams[PUSH].stream);
    for (int i = 0; i < 60 && p.streams[PUSH].stream != NULL; i++) {
        const char *command = played_next(&p, WORK);
        if (calls(command, RT_REDIS_SCRIPT_SWEEP))
            answer(played_tag(command), 0, "i1001500000 i1002500000 i0");
        played_pass(&p, 500);
    }
    assert_null(p.streams[PUSH].stream); /* it did not answer any more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_held_comes_first, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_given_up_ends_with_the_session, setup_session,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rooms_are_swept_while_we_wait, setup_cluster,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_link_of_pushes_is_asked, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_a_sweep_that_fails_is_done_again, setup_session,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_set_is_taken_back_again, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_a_value_has_its_limit, setup_session, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
