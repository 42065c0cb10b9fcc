/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts one by one: what each answers and pushes, as lua/README.md has it. The expected text is the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "script_story.h"

#include <stdio.h>

/* ---- Sessions ----------------------------------------------------------- */

static void sessions(void **state)
{
    (void)state;
    RUN(OPEN, sid('A'), "1000", "me");
    RUN(OPEN, sid('A'), "1000", "me");
    RUN(OPEN, sid('A'), "1000", "you");
    RUN(BEAT, sid('A'), "1000", "10");
    RUN(OPEN, sid('B'), "3000", "b");
    RUN(BEAT, sid('A'), "1000", "10");
    RUN(BEAT, sid('B'), "3000", "10");
    clock_at(999);
    RUN(BEAT, sid('B'), "3000", "10");
    RUN(OPEN, sid('A'), "1000", "me");
    clock_at(1000);
    RUN(OPEN, sid('A'), "1000", "me");
    RUN(BEAT, sid('A'), "1000", "10");
    RUN(BEAT, sid('A'), "1000", "10");
    RUN(BEAT, sid('B'), "3000", "10");
    RUN(BEAT, sid('C'), "3000", "10");
    expect("open: 0 @0\n"
           "open: 0 @0\n"
           "open: 5\n"
           "beat: 0 @0 0 0 0 0 0\n"
           "open: 0 @0\n"
           "beat: 0 @0 0 0 @3000 0 0\n"
           "beat: 0 @0 0 0 @1000 0 0\n"
           "beat: 0 @999 0 0 @1000 0 0\n"
           "open: 0 @999\n"
           "open: 5\n"
           "beat: 1\n"
           "beat: 1\n"
           "beat: 0 @1000 0 0 0 0 0\n"
           "beat: 1\n");
}

static void ends(void **state)
{
    (void)state;
    open_sessions('B');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    RUN(END, sid('A'));
    RUN(END, sid('B'), at(1, 0));
    RUN(END, sid('B'), at(2000, 0));
    RUN(END, sid('B'));
    RUN(END, sid('C'));
    RUN(BEAT, sid('B'), "1000", "10");
    RUN(LEAVE, "lock", sid('A'), at(0, 0));
    RUN(END, sid('A'));
    expect("join: TAG @0\n"
           "end: 0 0\n"
           "end: 0 0\n"
           "end: 0 1\n"
           "end: 0 0\n"
           "end: 0 0\n"
           "beat: 1\n"
           "leave: TAG\n"
           "end: 0 1\n");
}

static void opening_sweeps(void **state)
{
    (void)state;
    open_sessions('B');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 1});
    clock_at(1000);
    RUN(OPEN, sid('C'), "1000", "c");
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "open: 0 @1000 | p b: B 1 G @0+1 lock\n"
           "list: 0 0 lock 1 0\n");
}

/* ---- Joining ------------------------------------------------------------ */

static void plain_joins(void **state)
{
    (void)state;
    open_sessions('D');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('A', "-", (struct wish){.name = "other", .nonce = 2});
    ASK_LONG(sid('A'), "-", NULL, {.name = "third", .nonce = 3});
    ASK_LONG(sid('A'), "t", NULL, {.name = "fourth", .nonce = 4});
    clock_at(5);
    ask('B', "t", (struct wish){.name = "lock", .nonce = 5});
    ASK_LONG(sid('B'), "t", NULL, {.name = "lock", .nonce = 5});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 6});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 7});
    ASK_LONG(sid('D'), "-", NULL, {.name = "lock", .nonce = 8});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 6});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 7});
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    RUN(LIST, "0");
    RUN(INSPECT, "lock");
    expect(
        "join: TAG @0\n"
        "join: TAG @0+1\n"
        "join: 0 @0 0 @0+2 1\n"
        "join: 0 @0 0 @0+3 1\n"
        "join: 2 lA 0\n"
        "join: 2 lA 0\n"
        "join: 0 @5 @1000 @5 4\n"
        "join: 0 @5 @1000 @5+1 0\n"
        "join: 0 @5 @1000 @5+2 0\n"
        "join: 0 @5 @1000 @5 4\n"
        "join: 0 @5 @1000 @5+1 0\n"
        "join: 0 @5 0 @0 1\n"
        "list: 0 0 fourth 1 0 lock 1 3 other 1 0 third 1 0\n"
        "inspect: 0 @5 lock @0 A 1 0 0 0 - 0 0 @1000 lA '' 1 lock @5 B 6 0 0 0 - 0 0 @2000 lB '' 0 lock @5+1 C 7 0 0 0 - 0 0 @3000 lC '' 0 lock @5+2 D 8 0 0 0 - 0 0 @4000 lD '' 0\n");
}

/* The dead do not count at a barrier. */
static void gathering_without_the_dead(void **state)
{
    (void)state;
    open_sessions('D');
    ASK_LONG(sid('A'), "-", NULL, {.name = "gate", .nonce = 1, .mode = 4, .of = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "gate", .nonce = 2, .mode = 4, .of = 3});
    clock_at(1000);
    ASK_LONG(sid('C'), "-", NULL, {.name = "gate", .nonce = 3, .mode = 4, .of = 3});
    ASK_LONG(sid('D'), "-", NULL, {.name = "gate", .nonce = 4, .mode = 4, .of = 3});
    RUN(LIST, "0");
    expect("join: 0 @0 @2000 @0 4\n"
           "join: 0 @0 @1000 @0+1 0\n"
           "join: 0 @1000 @1000 @1000 0\n"
           "join: 0 @1000 0 @1000+1 1 | p b: B 1 G @0+1 gate | p c: C 1 G @1000 gate\n"
           "list: 0 0 gate 3 0\n");
}

/* However a line is laid out: with one, with two, with more, and unfolded. */
static void lists(void **state)
{
    (void)state;
    open_sessions('D');
    for (char who = 'A'; who <= 'D'; who++) {
        ask(who, "-", (struct wish){.name = "lock", .nonce = 1});
        RUN(LIST, "0");
    }
    RUN(INSPECT_SESSION, sid('D'));
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "list: 0 0 lock 1 0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "list: 0 0 lock 1 1\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "list: 0 0 lock 1 2\n"
           "join: 0 @0 @1000 @0+3 0\n"
           "list: 0 0 lock 1 3\n"
           "inspect_session: 0 @0 lock @0+3 D 1 0 0 0 - 0 0 @4000 lD '' 0\n"
           "list: 0 0 lock 1 3\n");
}

static void an_armed_holder_hears_it_once(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1, .flags = "a"});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 2});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 3});
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1, .flags = "a"});
    RUN(HELD, sid('A'), "0");
    RUN(HELD, sid('B'), "0");
    RUN(BEAT, sid('A'), "1000", "10");
    ask('A', "-", (struct wish){.name = "read", .nonce = 4, .mode = 1, .flags = "a"});
    ask('B', "-", (struct wish){.name = "read", .nonce = 5, .mode = 1, .flags = "a"});
    ask('C', "-", (struct wish){.name = "read", .nonce = 6});
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4 | p a: A 1 W @0 lock\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "join: 0 @0 0 @0 2\n"
           "held: 0 1 0 @0 lock 2 1\n"
           "held: 0 0 0 @0+1 lock 0 2\n"
           "beat: 0 @0 1 1 @2000 0 0\n"
           "join: TAG @0+3\n"
           "join: 0 @0 0 @0+4 1\n"
           "join: 0 @0 @1000 @0+5 4 | p a: A 2 W @0+3 read | p b: B 1 W @0+4 read\n");
}

static void the_dead_do_not_join(void **state)
{
    (void)state;
    open_sessions('B');
    ask('C', "-", (struct wish){.name = "lock", .nonce = 1});
    ASK_LONG(sid('C'), "-", NULL, {.name = "lock", .nonce = 1});
    clock_at(1000);
    ask('A', "-", (struct wish){.name = "lock", .nonce = 2});
    ASK_LONG(sid('C'), "c", NULL, {.name = "lock", .nonce = 3, .mode = 1});
    clock_at(1500);
    ASK_LONG(sid('C'), "c", NULL, {.name = "lock", .nonce = 3, .mode = 1});
    clock_at(2200);
    RUN(BEAT, sid('C'), "1000", "0");
    RUN(INSPECT_SESSION, sid('C'));
    expect("join: 1\n"
           "join: 1\n"
           "join: 1\n"
           "join: 0 @1000 0 @1000 1\n"
           "join: 0 @1500 0 @1000 1\n"
           "beat: 0 @2200 0 1 @1000 1 0\n"
           "inspect_session: 0 @2200 lock @1000 C 3 1 0 0 - 0 0 @3200 its label '' 1\n");
}

static void kinds(void **state)
{
    (void)state;
    open_sessions('B');
    ASK_LONG(sid('A'), "-", NULL, {.name = "permits", .nonce = 1, .mode = 2, .take = 2, .of = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "permits", .nonce = 2, .mode = 2, .take = 2, .of = 4});
    ask('B', "-", (struct wish){.name = "permits", .nonce = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "permits", .nonce = 4, .mode = 2, .take = 2, .of = 3});
    ASK_LONG(sid('B'), "t", NULL, {.name = "permits", .nonce = 5, .mode = 2, .take = 1, .of = 3});
    ask('A', "-", (struct wish){.name = "lock", .nonce = 6});
    ASK_LONG(sid('B'), "-", NULL, {.name = "free", .nonce = 7},
             {.name = "lock", .nonce = 8, .mode = 2, .take = 1, .of = 2});
    RUN(LEAVE, "permits", sid('A'), at(0, 0));
    ASK_LONG(sid('B'), "t", NULL, {.name = "permits", .nonce = 5, .mode = 2, .take = 1, .of = 3});
    expect("join: 0 @0 0 @0 1\n"
           "join: 3 2 3 0\n"
           "join: 3 2 3 0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "join: 2 lA 0\n"
           "join: TAG @0+2\n"
           "join: 3 0 0 1\n"
           "leave: 0 1 | p b: B 1 G @0+1 permits\n"
           "join: 0 @0 0 @0+3 1\n");
}

static void sets(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "y", .nonce = 1});
    ASK_LONG(sid('B'), "t", NULL, {.name = "x", .nonce = 2}, {.name = "y", .nonce = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "x", .nonce = 2}, {.name = "x", .nonce = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "x", .nonce = 2}, {.name = "y", .nonce = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "x", .nonce = 2}, {.name = "y", .nonce = 3});
    RUN(LIST, "0");
    RUN(LEAVE, "y", sid('A'), at(0, 0));
    ASK_LONG(sid('B'), "-", NULL, {.name = "x", .nonce = 2}, {.name = "y", .nonce = 3});
    RUN(LEAVE, "x", sid('B'), "0", "2");
    ASK_LONG(sid('B'), "-", NULL, {.name = "x", .nonce = 2}, {.name = "y", .nonce = 3});
    ASK_LONG(sid('C'), "t", NULL, {.name = "x", .nonce = 4}, {.name = "z", .nonce = 5});
    expect("join: TAG @0\n"
           "join: 2 lA 1\n"
           "join: 6\n"
           "join: 0 @0 @1000 @0+1 1 @0+2 4\n"
           "join: 0 @0 @1000 @0+1 1 @0+2 4\n"
           "list: 0 0 x 1 0 y 1 1\n"
           "leave: 0 1 | p b: B 1 G @0+2 y\n"
           "join: 0 @0 0 @0+1 1 @0+2 1\n"
           "leave: 0 1\n"
           "join: 4\n"
           "join: 0 @0 0 @0+3 1 @0+4 1\n");
}

static void durable_ones(void **state)
{
    (void)state;
    open_sessions('B');
    ASK_LONG("d5", "tD", "0000000000a2",
             {.name = "once", .nonce = 1, .flags = "Dx", .until_ms = 500, .value = "v"});
    ASK_LONG("d6", "tD", "0000000000a2", {.name = "once", .nonce = 2, .flags = "Dx"});
    ask('A', "-", (struct wish){.name = "once", .nonce = 3});
    RUN(INSPECT, "once");
    clock_at(499);
    RUN(SWEEP, "10", "", "once");
    clock_at(500);
    RUN(SWEEP, "10", "", "");
    RUN(LEAVE, "once", sid('A'), at(0, 1));
    ASK_LONG("d5", "D", "0000000000a2",
             {.name = "count", .nonce = 4, .mode = 3, .of = 2, .flags = "Dx"});
    ASK_LONG("d6", "D", "0000000000a2",
             {.name = "count", .nonce = 5, .mode = 3, .of = 2, .flags = "Dx"});
    RUN(BREAK, "count", "0", "0");
    RUN(BREAK, "count", "0", "3");
    RUN(BREAK, "count", "0", "3");
    expect(
        "join: 0 @0 0 @0 1\n"
        "join: 2 its label 0\n"
        "join: 0 @0 @500 @0+1 4\n"
        "inspect: 0 @0 once @0 d5 1 0 0 0 Dx 0 0 c @500 its label v 1 once @0+1 A 3 0 0 0 - 0 0 @1000 lA '' 0\n"
        "sweep: 0 @499 @500 0\n"
        "sweep: 0 @500 @1000 0 | p a: A 1 G @0+1 once\n"
        "leave: 0 1\n"
        "join: 0 @500 0 @500 1\n"
        "join: 0 @500 0 @500+1 1\n"
        "break: 1\n"
        "break: 0 2\n"
        "break: 1\n");
}

static void gathering(void **state)
{
    (void)state;
    open_sessions('C');
    ASK_LONG(sid('A'), "-", NULL, {.name = "gate", .nonce = 1, .mode = 4, .of = 3});
    ASK_LONG(sid('B'), "-", NULL, {.name = "gate", .nonce = 2, .mode = 4, .of = 3});
    ASK_LONG(sid('C'), "t", NULL, {.name = "gate", .nonce = 3, .mode = 4, .of = 4});
    ASK_LONG(sid('C'), "-", NULL, {.name = "gate", .nonce = 3, .mode = 4, .of = 3});
    ASK_LONG(sid('C'), "-", NULL, {.name = "gate", .nonce = 4, .mode = 4, .of = 3});
    RUN(LEAVE, "gate", sid('A'), at(0, 0));
    RUN(LIST, "0");
    expect("join: 0 @0 @2000 @0 4\n"
           "join: 0 @0 @1000 @0+1 0\n"
           "join: 3 4 3 0\n"
           "join: 0 @0 0 @0+2 1 | p a: A 1 G @0 gate | p b: B 1 G @0+1 gate\n"
           "join: 0 @0 @1000 @0+3 4\n"
           "leave: 0 1\n"
           "list: 0 0 gate 2 1\n");
}

/* ---- Looking ------------------------------------------------------------ */

static void looks(void **state)
{
    (void)state;
    open_sessions('B');
    RUN(LOOK, "lock", "0");
    RUN(LOOK, "lock", "500");
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    ASK_LONG(sid('B'), "-", NULL, {.name = "lock", .nonce = 2, .flags = "x", .value = "leads"});
    RUN(LOOK, "lock", "100");
    RUN(LEAVE, "lock", sid('A'), at(0, 0));
    clock_at(499);
    RUN(CHANGE, "lock", sid('B'), at(0, 1), "V", "still");
    clock_at(500);
    RUN(CHANGE, "lock", sid('B'), at(0, 1), "V", "more");
    RUN(LOOK, "lock", "0");
    RUN(LEAVE, "lock", sid('B'), at(0, 1));
    RUN(LOOK, "lock", "0");
    expect("look: 0 @0 @1000 0 0 0 0 '' ''\n"
           "look: 0 @0 @500 0 0 0 0 '' ''\n"
           "join: 0 @0 0 @0 1 | o lock: 1 0 0 @0 2 lA\n"
           "join: 0 @0 @500 @0+1 4 | o lock: 2 0 0 @0 2 lA\n"
           "look: 0 @0 @500 2 0 0 @0 lA ''\n"
           "leave: 0 1 | p b: B 1 G @0+1 lock | o lock: 1 0 0 @0+1 2 lBleads\n"
           "change: 0 0 | o lock: 1 0 0 @0+1 2 lBstill\n"
           "change: 0 0\n"
           "look: 0 @500 @500 1 0 0 @0+1 lB more\n"
           "leave: 0 1\n"
           "look: 0 @500 @500 0 0 0 0 '' ''\n");
}

/* A key of another type, by whoever put it there, is met before anything is written. */
static void what_fails_leaves_nothing(void **state)
{
    (void)state;
    open_sessions('A');
    freeReplyObject(redisCommand(story_work, "SET %s:x:lock hello", STORY_ROOM));
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 1, .flags = "x", .at_least_ms = 300});
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 2, .flags = "x", .value = "v"});
    ASK_LONG("d5", "D", "0000000000a2", {.name = "lock", .nonce = 3, .flags = "Dx"});
    RUN(LIST, "0");
    assert_int_equal(count_of('A'), 0);
    ask('A', "-", (struct wish){.name = "lock", .nonce = 4}); /* a plain one does not need it */
    freeReplyObject(redisCommand(story_work, "DEL %s:x:lock", STORY_ROOM));
    RUN(LEAVE, "lock", sid('A'), at(0, 0));
    expect("join: WRONGTYPE\n"
           "join: WRONGTYPE\n"
           "join: WRONGTYPE\n"
           "list: 0 0\n"
           "join: TAG @0\n"
           "leave: TAG\n");
}

/* Observers hear of what changed, however it did, and of nothing else. */
static void observers_hear_of_changes_only(void **state)
{
    (void)state;
    open_sessions('C');
    RUN(LOOK, "lock", "900");
    ask('B', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 2});
    RUN(SWEEP, "10", "", "lock");
    RUN(BREAK, "lock", at(0, 7), "0");
    RUN(LEAVE, "lock", sid('A'), at(0, 0));
    freeReplyObject(redisCommand(story_work, "DEL %s:g:lock", STORY_ROOM));
    RUN(SWEEP, "10", "", "lock");
    RUN(SWEEP, "10", "", "lock");
    RUN(LEAVE, "lock", sid('B'), at(0, 0));
    expect("look: 0 @0 @900 0 0 0 0 '' ''\n"
           "join: 0 @0 0 @0 1 | o lock: 1 0 0 @0 2 lB\n"
           "join: 0 @0 @900 @0+1 4 | o lock: 2 0 0 @0 2 lB\n"
           "sweep: 0 @0 @900 0\n"
           "break: 1\n"
           "leave: 1\n"
           "sweep: 0 @0 @900 0 | p c: C 1 G @0+1 lock | o lock: 1 0 0 @0+1 2 lC\n"
           "sweep: 0 @0 @900 0\n"
           "leave: 1\n");
}

/* A durable one that waits ends by its time, even behind one that lives. */
static void what_waits_may_end(void **state)
{
    (void)state;
    open_sessions('B');
    ask('B', "-", (struct wish){.name = "lock", .nonce = 1});
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 2});
    ASK_LONG("d5", "D", "0000000000a2",
             {.name = "lock", .nonce = 3, .flags = "Dx", .until_ms = 500});
    clock_at(499);
    RUN(LOOK, "lock", "0");
    clock_at(500);
    RUN(LOOK, "lock", "0");
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "join: 0 @0 @2000 @0+1 4\n"
           "join: 0 @0 @500 @0+2 0\n"
           "look: 0 @499 @500 3 0 0 @0 lB ''\n"
           "look: 0 @500 @1000 2 0 0 @0 lB ''\n"
           "list: 0 0 lock 1 1\n");
}

/* What is no longer in any line is forgotten; the first page renews. */
static void what_is_held(void **state)
{
    (void)state;
    open_sessions('B');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1, .flags = "a"});
    ASK_LONG(sid('A'), "-", NULL,
             {.name = "read", .nonce = 2, .mode = 1, .flags = "ax", .value = "v"});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 3});
    ask('B', "-", (struct wish){.name = "read", .nonce = 4});
    RUN(HELD, sid('A'), "0", "5000");
    RUN(HELD, sid('B'), "0");
    freeReplyObject(redisCommand(story_work, "HDEL %s:g:read %s", STORY_ROOM, at(0, 1)));
    RUN(HELD, sid('A'), "0");
    assert_int_equal(count_of('A'), 1);
    clock_at(2000);
    RUN(HELD, sid('B'), "0");
    RUN(HELD, sid('C'), "0");
    RUN(BEAT, sid('A'), "1000", "0");
    expect("join: TAG @0\n"
           "join: 0 @0 0 @0+1 1\n"
           "join: 0 @0 @1000 @0+2 4 | p a: A 1 W @0 lock\n"
           "join: 0 @0 @1000 @0+3 4 | p a: A 2 W @0+1 read\n"
           "held: 0 2 0 @0 lock 2 1 @0+1 read 2 2\n"
           "held: 0 0 0 @0+2 lock 0 3 @0+3 read 0 4\n"
           "held: 0 2 0 @0 lock 2 1\n"
           "held: 1\n"
           "held: 1\n"
           "beat: 0 @2000 2 1 @2000 1 0\n");
}

/* Of a dead session's 20 tickets about as many as allowed: Redis decides which, and two of those it draws may be the
 * session's own fields. */
static void a_sweep_ends_so_many(void **state)
{
    (void)state;
    open_sessions('B');
    for (int i = 0; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%d", i);
        ask('A', "-", (struct wish){.name = name, .nonce = i + 1});
    }
    story_forget();
    clock_at(999);
    RUN(SWEEP, "10", "", "");
    RUN(SWEEP, "10", sid('A'), "");
    assert_int_equal(count_of('A'), 20);
    clock_at(1000);
    RUN(SWEEP, "2", "", "n99");
    assert_in_range(count_of('A'), 16, 18);
    RUN(BEAT, sid('B'), "2000", "0");
    assert_in_range(count_of('A'), 16, 18);
    RUN(BEAT, sid('A'), "2000", "2");
    assert_in_range(count_of('A'), 12, 16);
    RUN(BEAT, sid('B'), "2000", "2");
    assert_in_range(count_of('A'), 8, 14);
    RUN(BEAT, sid('B'), "2000", "30");
    RUN(LIST, "0");
    expect("sweep: 0 @999 @1000 0\n"
           "sweep: 0 @999 @2000 0\n"
           "sweep: 0 @1000 @1000 1\n"
           "beat: 0 @1000 0 0 @1000 1 0\n"
           "beat: 1\n"
           "beat: 0 @1000 0 0 @1000 1 0\n"
           "beat: 0 @1000 0 0 0 0 0\n"
           "list: 0 0\n");
}

static void run_meta(const char *const *args)
{
    story_run(RT_REDIS_SCRIPT_META, 2, args);
}

static void the_layout(void **state)
{
    (void)state;
    static const char *const args[] = {"1", "16"};
    static const char *const later[] = {"2", "32"};
    run_meta(args);
    run_meta(later);
    RUN(RIGHTS, "");
    freeReplyObject(
        redisCommand(story_work, "HDEL %s layout", STORY_ROOM)); /* half of it is none */
    run_meta(args);
    freeReplyObject(redisCommand(story_work, "HDEL %s rooms", STORY_ROOM));
    run_meta(later);
    freeReplyObject(redisCommand(story_work, "HDEL %s layout rooms", STORY_ROOM));
    expect("meta: 0 1 16\n"
           "meta: 0 1 16\n"
           "rights: 0 ''\n"
           "meta: 0 1 16\n"
           "meta: 0 1 32\n");
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, story_begin, story_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(sessions),
        STORY(ends),
        STORY(opening_sweeps),
        STORY(plain_joins),
        STORY(gathering_without_the_dead),
        STORY(lists),
        STORY(an_armed_holder_hears_it_once),
        STORY(the_dead_do_not_join),
        STORY(kinds),
        STORY(sets),
        STORY(durable_ones),
        STORY(gathering),
        STORY(looks),
        STORY(what_fails_leaves_nothing),
        STORY(observers_hear_of_changes_only),
        STORY(what_waits_may_end),
        STORY(what_is_held),
        STORY(a_sweep_ends_so_many),
        STORY(the_layout),
    };
    return cmocka_run_group_tests(tests, story_start, story_stop);
}
