/* SPDX-License-Identifier: Apache-2.0 */
/* ?replicas=1: a grant is told when the replica has it; one that the replica does not get is taken back before it is
 * told. */
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WAIT_STREAM 1

/* WAIT is asked for MS. */
static void expect_wait(const char *ms)
{
    char words[32];
    snprintf(words, sizeof(words), "WAIT 1 %s", ms);
    assert_string_equal(played_next(&p, WAIT_STREAM), "PING");
    assert_string_equal(played_next(&p, WAIT_STREAM), words);
    played_say(&p, WAIT_STREAM, "+PONG\r\n");
}

/* That many replicas have all that was written. */
static void say_replicas(int replicas)
{
    char text[32];
    snprintf(text, sizeof(text), ":%d\r\n", replicas);
    played_say(&p, WAIT_STREAM, text);
}

static void join_granted(struct joining *j, const char *words)
{
    join(j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, words);
}

static void test_grant_is_told_when_it_is_there(void **state)
{
    struct joining j;
    (void)state;
    join_granted(&j, "i1000000000 i0 i11 i1");
    expect_wait("3750"); /* of 5 s a quarter is for taking it back */
    expect_told("");
    say_replicas(1);
    expect_told("join ok");
    expect_no_call();
    join_granted(&j, "i1000000000 i0 i12 i0"); /* a waiter has nothing yet that could be lost */
    expect_told("join ok");
    assert_string_equal(played_next(&p, WAIT_STREAM), "");
}

static void test_grant_is_taken_back(void **state)
{
    struct joining j;
    const char *args;
    char words[64];
    (void)state;
    for (int i = 0; i < 3; i++) {
        join_granted(&j, "i1000000000 i0 i11 i1");
        expect_wait("3750");
        played_pass(&p, 3750);
        say_replicas(0);
        expect_told("");
        uint64_t tag = expect_call(RT_REDIS_SCRIPT_LEAVE, &args);
        snprintf(words, sizeof(words), "a %s 11 7 u", p.conn->sid);
        assert_string_equal(args, words);
        answer(tag, i, i == 0 ? "i1" : "");
        expect_told(i < 2 ? "join UNREACHABLE"
                          : "join UNKNOWN"); /* the last may stand there still */
    }
    /* ... and its LEAVE may come at any time: asked again, it is not told that it holds, but is taken back. */
    join(&j, "a", 7);
    uint64_t again = expect_call(RT_REDIS_SCRIPT_LEAVE, &args);
    snprintf(words, sizeof(words), "a %s 11 7 u", p.conn->sid);
    assert_string_equal(args, words);
    answer(again, 0, "i1");
    expect_told("join UNREACHABLE");
    join_granted(&j, "i1000000000 i0 i12 i1");
    expect_wait("3750");
    say_replicas(1);
    expect_told("join ok");
}

/* Time enough to hear of the replica and to take it back, or it does not begin. */
static void test_no_time_for_replicas(void **state)
{
    struct rt_join j = {.name = "a", .session = p.conn->session, .nonce = 7};
    struct rt_op op = {.kind = RT_OP_JOIN, .user = join_name, .join = {&j, 1}};
    (void)state;
    op.deadline = rt_loop_now(&p.loop) + 100 * RT_MS - 1;
    submit(&op);
    expect_told("join UNREACHABLE");
    assert_string_equal(p.conn->base.errmsg, "no time is left to hear of 1 replicas");
    expect_no_call();
    op.deadline = rt_loop_now(&p.loop) + 100 * RT_MS;
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i0 i11 i1");
    expect_wait("75");
    say_replicas(1);
    expect_told("join ok");
    op.deadline = rt_loop_now(&p.loop) + 60000 * RT_MS; /* not longer than a call */
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i0 i11 i1");
    expect_wait("3750");
    say_replicas(1);
    expect_told("join ok");
}

/* By push as by answer; what came in between is told after it, and once. */
static void test_push_is_told_when_it_is_there(void **state)
{
    (void)state;
    push(1, "G 11 a");
    expect_wait("5000");
    push(2, "W 12 a"); /* of another ticket: at once */
    expect_told("wanted a 12");
    push(3, "W 11 a");
    expect_told("");
    say_replicas(1);
    expect_told("granted a 11");
    expect_told("wanted a 11");
    (void)expect_call(RT_REDIS_SCRIPT_HELD, NULL); /* pushes came meanwhile */
    push(4, "W 11 a");
    expect_told("wanted a 11");
}

/* If not confirmed, the next beat asks for it: the user may hold it without knowing. */
static void test_push_is_not_confirmed(void **state)
{
    struct rt_op op;
    (void)state;
    push(1, "G 11 a");
    expect_wait("5000");
    played_pass(&p, 2000);
    push(2, "L 11 a"); /* what is gone is told at once */
    expect_told("lost a 11");
    played_pass(&p, 3000);
    say_replicas(0);
    expect_told("");
    expect_no_call();
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1000000000 i2 i0 i0 i0 s0");
    expect_told("beat ok");
    (void)expect_call(RT_REDIS_SCRIPT_HELD, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_grant_is_told_when_it_is_there, setup_replicated,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_grant_is_taken_back, setup_replicated, teardown),
        cmocka_unit_test_setup_teardown(test_no_time_for_replicas, setup_replicated, teardown),
        cmocka_unit_test_setup_teardown(test_push_is_told_when_it_is_there, setup_replicated,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_push_is_not_confirmed, setup_replicated, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
