/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts that end and change tickets, as stories: leave, change, break. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "script_story.h"

#include <stdio.h>

/* ---- Leaving ------------------------------------------------------------ */

static void leaving(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    RUN(LEAVE, "lock", sid('B'), at(0, 0));
    RUN(LEAVE, "lock", sid('A'), at(0, 1));
    RUN(LEAVE, "lock", sid('A'), "0", "2");
    RUN(LEAVE, "lock", sid('A'), "0", "1");
    ask('A', "-", (struct wish){.name = "lock", .nonce = 2});
    RUN(LEAVE, "lock", sid('A'), at(0, 1));
    RUN(LEAVE, "lock", sid('A'), at(0, 1));
    ask('A', "-", (struct wish){.name = "lock", .nonce = 3});
    RUN(LEAVE, "lock", sid('A'), at(0, 2), "0", "u");
    ask('A', "-", (struct wish){.name = "lock", .nonce = 4});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 5});
    RUN(LEAVE, "lock", sid('B'), at(0, 4));
    ask('B', "-", (struct wish){.name = "lock", .nonce = 6, .flags = "a"});
    RUN(LEAVE, "lock", sid('A'), at(0, 3));
    ask('C', "-", (struct wish){.name = "lock", .nonce = 7, .flags = "a"});
    ask('D', "-", (struct wish){.name = "lock", .nonce = 8});
    RUN(LEAVE, "lock", sid('B'), at(0, 5));
    RUN(LEAVE, "lock", sid('C'), "0", "7");
    RUN(LEAVE, "lock", sid('D'), at(0, 7));
    expect("join: TAG @0\n"
           "leave: 1\n"
           "leave: 1\n"
           "leave: 1\n"
           "leave: 0 1\n"
           "join: TAG @0+1\n"
           "leave: TAG\n"
           "leave: 1\n"
           "join: TAG @0+2\n"
           "leave: 0 1\n"
           "join: TAG @0+3\n"
           "join: 0 @0 @1000 @0+4 4\n"
           "leave: 0 0\n"
           "join: 0 @0 @1000 @0+5 4\n"
           "leave: TAG | p b: B 1 G @0+5 lock\n"
           "join: 0 @0 @1000 @0+6 4 | p b: B 2 W @0+5 lock\n"
           "join: 0 @0 @1000 @0+7 0\n"
           "leave: TAG | p c: C 1 H @0+6 lock\n"
           "leave: 0 1 | p d: D 1 G @0+7 lock\n"
           "leave: TAG\n");
}

/* A leave in the long form says whether it held; in the short form that is clear, whoever stands behind it. */
static void leaving_in_every_form(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "one", .nonce = 1});
    ask('B', "-", (struct wish){.name = "one", .nonce = 2});
    RUN(LEAVE, "one", sid('A'), at(0, 0), "0", "u");
    RUN(LEAVE, "one", sid('B'), at(0, 1), "2", "u");
    ask('A', "-", (struct wish){.name = "two", .nonce = 3});
    ask('B', "-", (struct wish){.name = "two", .nonce = 4});
    ask('C', "-", (struct wish){.name = "two", .nonce = 5});
    RUN(LEAVE, "two", sid('A'), at(0, 2), "3", "u");
    RUN(LEAVE, "two", sid('C'), at(0, 4));
    RUN(LEAVE, "two", sid('B'), at(0, 3), "0", "u");
    ask('A', "-", (struct wish){.name = "gone", .nonce = 6});
    ask('B', "-", (struct wish){.name = "gone", .nonce = 7});
    ask('C', "-", (struct wish){.name = "gone", .nonce = 8});
    RUN(LEAVE, "gone", sid('B'), at(0, 6));
    RUN(LEAVE, "gone", sid('C'), "0", "8");
    RUN(LEAVE, "gone", sid('A'), at(0, 5));
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "leave: 0 1 | p b: B 1 G @0+1 one\n"
           "leave: 0 1\n"
           "join: TAG @0+2\n"
           "join: 0 @0 @1000 @0+3 4\n"
           "join: 0 @0 @1000 @0+4 0\n"
           "leave: 0 1 | p b: B 2 G @0+3 two\n"
           "leave: 0 0\n"
           "leave: 0 1\n"
           "join: TAG @0+5\n"
           "join: 0 @0 @1000 @0+6 4\n"
           "join: 0 @0 @1000 @0+7 0\n"
           "leave: 0 0\n"
           "leave: 0 0\n"
           "leave: TAG\n"
           "list: 0 0\n");
}

/* A replica that lacks the last tickets, and whose clock is behind, gives their numbers again, even to the same
 * session: the late LEAVE of a lost one has its own nonce. One line in each shape: folded alone, with one waiter, with
 * several waiters, and unfolded; and of one that waits. */
static void leaving_a_number_given_again(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 2});
    RUN(LEAVE, "lock", sid('A'), at(0, 0), "1");
    ask('B', "-", (struct wish){.name = "lock", .nonce = 3});
    RUN(LEAVE, "lock", sid('A'), at(0, 0), "1");
    RUN(LEAVE, "lock", sid('B'), at(0, 1), "1");
    ask('B', "-", (struct wish){.name = "lock", .nonce = 3}); /* found: it waits as it did */
    ask('C', "-", (struct wish){.name = "lock", .nonce = 4});
    ask('D', "-", (struct wish){.name = "lock", .nonce = 5});
    RUN(LEAVE, "lock", sid('A'), at(0, 0), "1");
    RUN(LEAVE, "lock", sid('D'), at(0, 3), "1");
    RUN(LEAVE, "lock", sid('A'), at(0, 0), "2");
    RUN(LEAVE, "lock", sid('B'), at(0, 1), "3");
    RUN(LEAVE, "lock", sid('C'), at(0, 2), "4");
    RUN(LEAVE, "lock", sid('D'), at(0, 3), "5");
    ask('A', "-", (struct wish){.name = "many", .nonce = 6, .mode = 1});
    RUN(LEAVE, "many", sid('A'), at(0, 4), "5");
    RUN(LEAVE, "many", sid('A'), at(0, 4), "6");
    expect("join: TAG @0\n"
           "leave: 1\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "leave: 1\n"
           "leave: 1\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "join: 0 @0 @1000 @0+3 0\n"
           "leave: 1\n"
           "leave: 1\n"
           "leave: 0 1 | p b: B 1 G @0+1 lock\n"
           "leave: TAG | p c: C 1 G @0+2 lock\n"
           "leave: TAG | p d: D 1 G @0+3 lock\n"
           "leave: TAG\n"
           "join: TAG @0+4\n"
           "leave: 1\n"
           "leave: TAG\n");
}

/* Others may have waited: the one granted is told of those that do now. */
static void leaving_when_some_have_gone(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "gone", .nonce = 1});
    ask('B', "-", (struct wish){.name = "gone", .nonce = 2});
    ask('C', "-", (struct wish){.name = "gone", .nonce = 3});
    RUN(LEAVE, "gone", sid('B'), at(0, 1));
    RUN(LEAVE, "gone", sid('C'), at(0, 2));
    ask('B', "-", (struct wish){.name = "armed", .nonce = 4});
    ask('C', "-", (struct wish){.name = "armed", .nonce = 5, .flags = "a"});
    ask('D', "-", (struct wish){.name = "armed", .nonce = 6});
    RUN(LEAVE, "armed", sid('D'), at(0, 5));
    RUN(LEAVE, "armed", sid('B'), at(0, 3));
    RUN(LEAVE, "gone", sid('A'), at(0, 0), "0", "u");
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "leave: 0 0\n"
           "leave: 0 0\n"
           "join: TAG @0+3\n"
           "join: 0 @0 @1000 @0+4 4\n"
           "join: 0 @0 @1000 @0+5 0\n"
           "leave: 0 0\n"
           "leave: TAG | p c: C 1 G @0+4 armed\n"
           "leave: 0 1\n");
}

/* Readers, and a line somebody looked at, are plain again once only one is left: a hand-over is then short. */
static void the_last_one_is_plain_again(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "read", .nonce = 1, .mode = 1});
    ask('B', "-", (struct wish){.name = "read", .nonce = 2, .mode = 1});
    RUN(LEAVE, "read", sid('A'), at(0, 0));
    RUN(LEAVE, "read", sid('B'), at(0, 1));
    ask('A', "-", (struct wish){.name = "read", .nonce = 3, .mode = 1});
    ask('B', "-", (struct wish){.name = "read", .nonce = 4, .mode = 1});
    ask('C', "-", (struct wish){.name = "read", .nonce = 5});
    RUN(LEAVE, "read", sid('A'), at(0, 2));
    RUN(LEAVE, "read", sid('B'), at(0, 3));
    RUN(LEAVE, "read", sid('C'), at(0, 4));
    expect("join: TAG @0\n"
           "join: 0 @0 0 @0+1 1\n"
           "leave: 0 1\n"
           "leave: TAG\n"
           "join: TAG @0+2\n"
           "join: 0 @0 0 @0+3 1\n"
           "join: 0 @0 @1000 @0+4 4\n"
           "leave: 0 1\n"
           "leave: TAG | p c: C 1 G @0+4 read\n"
           "leave: TAG\n");
}

/* One that was never told that it holds keeps nothing, whatever it asked for. */
static void a_leave_of_what_was_not_told_keeps_nothing(void **state)
{
    (void)state;
    open_sessions('B');
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 1, .flags = "x", .at_least_ms = 300});
    RUN(LEAVE, "lock", sid('A'), at(0, 0), "0", "u");
    ASK_LONG(sid('A'), "t", NULL, {.name = "lock", .nonce = 2, .flags = "x", .at_least_ms = 300});
    RUN(LEAVE, "lock", sid('A'), "0", "2");
    ASK_LONG(sid('B'), "t", NULL, {.name = "lock", .nonce = 3, .flags = "x", .at_least_ms = 300});
    RUN(LEAVE, "lock", sid('B'), at(0, 2), "0");
    ASK_LONG(sid('A'), "t", NULL, {.name = "lock", .nonce = 4, .flags = "x", .at_least_ms = 300});
    expect("join: 0 @0 0 @0 1\n"
           "leave: 0 1\n"
           "join: 0 @0 0 @0+1 1\n"
           "leave: 0 1\n"
           "join: 0 @0 0 @0+2 1\n"
           "leave: 0 1\n"
           "join: 2 its label 0\n");
}

/* A ticket that others deleted: its nonce is forgotten, and the one behind it goes on. */
static void leaving_what_is_not_there(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1, .mode = 1});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 2, .mode = 1});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 3});
    RUN(LEAVE, "lock", sid('A'), at(0, 1));
    RUN(LEAVE, "lock", sid('B'), at(0, 2));
    freeReplyObject(redisCommand(story_work, "DEL %s:g:lock", STORY_ROOM));
    assert_int_equal(count_of('A'), 1);
    RUN(LEAVE, "lock", sid('A'), "0", "1");
    assert_int_equal(count_of('A'), 0);
    RUN(LEAVE, "lock", sid('B'), at(0, 1));
    RUN(LEAVE, "lock", sid('C'), at(0, 2));
    expect("join: TAG @0\n"
           "join: 0 @0 0 @0+1 1\n"
           "join: 0 @0 @1000 @0+2 4\n"
           "leave: 1\n"
           "leave: 1\n"
           "leave: 1 | p c: C 1 G @0+2 lock\n"
           "leave: 1\n"
           "leave: 0 1\n");
}

/* A look at a line takes the dead out of it, wherever they stand. */
static void many_dead_wait(void **state)
{
    (void)state;
    open_sessions('B');
    RUN(OPEN, sid('C'), "1500", "c");
    ask('B', "-", (struct wish){.name = "lock", .nonce = 100, .mode = 1});
    ask('A', "-", (struct wish){.name = "lock", .nonce = 50, .mode = 1});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 60});
    for (int i = 0; i < 12; i++)
        ask('A', "-", (struct wish){.name = "lock", .nonce = i + 1});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 61});
    story_forget();
    clock_at(1000);
    RUN(LIST, "0");
    RUN(LOOK, "lock", "0");
    RUN(LIST, "0");
    expect("list: 0 0 lock 2 14\n"
           "look: 0 @1000 @1000 3 1 0 @0 lB ''\n"
           "list: 0 0 lock 1 2\n");
}

/* A hand-over skips the dead, but not one whose end was moved by a beat. */
static void a_hand_over_looks_who_lives(void **state)
{
    (void)state;
    open_sessions('C');
    clock_at(10);
    ask('C', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('A', "-", (struct wish){.name = "lock", .nonce = 2});
    clock_at(600);
    RUN(BEAT, sid('A'), "1000", "10");
    clock_at(1500);
    RUN(LEAVE, "lock", sid('C'), at(10, 0));
    ask('B', "-", (struct wish){.name = "lock", .nonce = 3});
    clock_at(1999);
    RUN(LEAVE, "lock", sid('A'), at(10, 1));
    ask('C', "-", (struct wish){.name = "lock", .nonce = 4});
    clock_at(2000);
    RUN(SWEEP, "0", sid('C'), "");
    RUN(LEAVE, "lock", sid('B'), at(1500, 0));
    RUN(SWEEP, "1", sid('C'), "");
    RUN(SWEEP, "9", sid('C'), "");
    expect("join: TAG @10\n"
           "join: 0 @10 @2000 @10+1 4\n"
           "beat: 0 @600 0 1 @2000 0 0\n"
           "leave: TAG | p a: A 1 G @10+1 lock\n"
           "join: 0 @1500 @1600 @1500 4\n"
           "leave: TAG | p b: B 1 G @1500 lock\n"
           "join: 0 @1999 @1600 @1999 4\n"
           "sweep: 0 @2000 @1600 1\n"
           "leave: TAG | p c: C 1 G @1999 lock\n"
           "sweep: 0 @2000 @2000 1\n"
           "sweep: 0 @2000 0 0\n");
}

static void a_hand_over_goes_past_the_dead(void **state)
{
    (void)state;
    open_sessions('D');
    ask('D', "-", (struct wish){.name = "two", .nonce = 1});
    ask('B', "-", (struct wish){.name = "two", .nonce = 2});
    ask('C', "-", (struct wish){.name = "two", .nonce = 3});
    ask('D', "-", (struct wish){.name = "one", .nonce = 4});
    ask('B', "-", (struct wish){.name = "one", .nonce = 5});
    ask('B', "-", (struct wish){.name = "held", .nonce = 6});
    ask('C', "-", (struct wish){.name = "held", .nonce = 7});
    clock_at(2000);
    RUN(LEAVE, "two", sid('D'), at(0, 0));
    RUN(LEAVE, "one", sid('D'), at(0, 3));
    ask('D', "-", (struct wish){.name = "one", .nonce = 8});
    ask('D', "t", (struct wish){.name = "held", .nonce = 9});
    RUN(INSPECT, "held");
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "join: TAG @0+3\n"
           "join: 0 @0 @1000 @0+4 4\n"
           "join: TAG @0+5\n"
           "join: 0 @0 @1000 @0+6 4\n"
           "leave: 0 1 | p c: C 1 G @0+2 two\n"
           "leave: 0 1\n"
           "join: TAG @2000\n"
           "join: 2 lC 0 | p c: C 2 G @0+6 held\n"
           "inspect: 0 @2000 held @0+6 C 7 0 0 0 - 0 @2000 @3000 lC '' 1\n"
           "list: 0 0 held 1 0 one 1 0 two 1 0\n");
}

static void at_least_counts_from_the_grant(void **state)
{
    (void)state;
    open_sessions('C');
    ask('C', "-", (struct wish){.name = "lock", .nonce = 1});
    ASK_LONG(sid('B'), "-", NULL, {.name = "lock", .nonce = 2, .flags = "x", .at_least_ms = 300});
    clock_at(200);
    RUN(LEAVE, "lock", sid('C'), at(0, 0));
    clock_at(400);
    RUN(LEAVE, "lock", sid('B'), at(0, 1));
    ask('C', "t", (struct wish){.name = "lock", .nonce = 3});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 4});
    RUN(INSPECT, "lock");
    clock_at(499);
    RUN(SWEEP, "10", "", "");
    clock_at(500);
    RUN(SWEEP, "10", "", "");
    RUN(LEAVE, "lock", sid('C'), at(400, 0));
    ASK_LONG(sid('C'), "-", NULL, {.name = "lock", .nonce = 5, .flags = "x", .at_least_ms = 300});
    clock_at(800);
    RUN(LEAVE, "lock", sid('C'), at(500, 0));
    RUN(LIST, "0");
    expect(
        "join: TAG @0\n"
        "join: 0 @0 @1000 @0+1 4\n"
        "leave: 0 1 | p b: B 1 G @0+1 lock\n"
        "leave: 0 1\n"
        "join: 2 its label 0\n"
        "join: 0 @400 @500 @400 4\n"
        "inspect: 0 @400 lock @0+1 - @0+1 0 0 0 Dx 0 @200 @500 its label '' 1 lock @400 C 4 0 0 0 - 0 0 @3000 lC '' 0\n"
        "sweep: 0 @499 @500 0\n"
        "sweep: 0 @500 @1000 0 | p c: C 1 G @400 lock\n"
        "leave: 0 1\n"
        "join: 0 @500 0 @500 1\n"
        "leave: 0 1\n"
        "list: 0 0\n");
}

/* ---- Changing and breaking ---------------------------------------------- */

static void changes(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    RUN(CHANGE, "lock", sid('A'), at(0, 0), "-", "");
    RUN(CHANGE, "lock", sid('B'), at(0, 0), "-", "");
    RUN(CHANGE, "lock", sid('A'), at(0, 1), "-", "");
    ask('B', "-", (struct wish){.name = "lock", .nonce = 2, .mode = 1});
    RUN(CHANGE, "lock", sid('B'), at(0, 1), "-", "");
    RUN(CHANGE, "lock", sid('A'), at(0, 0), "A", "");
    ask('C', "-", (struct wish){.name = "lock", .nonce = 3});
    ask('D', "-", (struct wish){.name = "lock", .nonce = 4, .mode = 1});
    RUN(CHANGE, "lock", sid('A'), at(0, 0), "D", "");
    RUN(CHANGE, "lock", sid('A'), at(0, 0), "D", "");
    RUN(CHANGE, "lock", sid('A'), at(0, 0), "V", "a value");
    RUN(INSPECT, "lock");
    ASK_LONG(sid('A'), "-", NULL, {.name = "permits", .nonce = 5, .mode = 2, .take = 1, .of = 2});
    RUN(CHANGE, "permits", sid('A'), at(0, 4), "D", "");
    clock_at(1000);
    RUN(CHANGE, "lock", sid('A'), at(0, 0), "-", "");
    expect(
        "join: TAG @0\n"
        "change: 0 0\n"
        "change: 1\n"
        "change: 1\n"
        "join: 0 @0 @1000 @0+1 4\n"
        "change: 1\n"
        "change: 0 1\n"
        "join: 0 @0 @1000 @0+2 0\n"
        "join: 0 @0 @1000 @0+3 0\n"
        "change: 0 1 | p b: B 1 G @0+1 lock\n"
        "change: 0 1\n"
        "change: 0 1\n"
        "inspect: 0 @0 lock @0 A 1 1 0 0 -ax 0 0 @1000 lA a value 1 lock @0+1 B 2 1 0 0 - 0 @0 @2000 lB '' 1 lock @0+2 C 3 0 0 0 - 0 0 @3000 lC '' 0 lock @0+3 D 4 1 0 0 - 0 0 @4000 lD '' 0\n"
        "join: 0 @0 0 @0+4 1\n"
        "change: 3 2 2 0\n"
        "change: 1\n");
}

static void breaking(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 2});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 3});
    RUN(BREAK, "lock", at(0, 7), "0");
    RUN(BREAK, "lock", at(0, 1), "0");
    RUN(BREAK, "lock", at(0, 0), "0");
    RUN(BREAK, "lock", at(0, 0), "0");
    RUN(BREAK, "lock", "0", "0");
    clock_at(3000);
    RUN(BREAK, "lock", at(0, 2), "0");
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "break: 1\n"
           "break: 0 1 | p b: B 1 L @0+1 lock\n"
           "break: 0 1 | p a: A 1 L @0 lock | p c: C 1 G @0+2 lock\n"
           "break: 1\n"
           "break: 1\n"
           "break: 1\n"
           "list: 0 0\n");
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, story_begin, story_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(leaving),
        STORY(leaving_in_every_form),
        STORY(leaving_a_number_given_again),
        STORY(leaving_when_some_have_gone),
        STORY(the_last_one_is_plain_again),
        STORY(a_leave_of_what_was_not_told_keeps_nothing),
        STORY(leaving_what_is_not_there),
        STORY(many_dead_wait),
        STORY(a_hand_over_looks_who_lives),
        STORY(a_hand_over_goes_past_the_dead),
        STORY(at_least_counts_from_the_grant),
        STORY(changes),
        STORY(breaking),
    };
    return cmocka_run_group_tests(tests, story_start, story_stop);
}
