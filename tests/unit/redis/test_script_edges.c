/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts at their edges: keys that others removed or put there, the dead among the waiters, and what may be
 * left in a room. What each answers is written down as in test_script_stories.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "script_story.h"

#include <stdio.h>
#include <string.h>

extern const struct rt_redis_text rt_redis_texts_test[RT_REDIS_SCRIPTS][2];

static long long number_of(const char *command, const char *key)
{
    redisReply *r = redisCommand(story_work, command, STORY_ROOM, key);
    assert_non_null(r);
    long long n = r->type == REDIS_REPLY_INTEGER ? r->integer : -1;
    freeReplyObject(r);
    return n;
}

/* ---- Keys of another type ---------------------------------------------------------------- */

/* A ticket that its at_least would keep past its end: the key that counts ends is checked before anything is
 * written. */
static void a_foreign_key_is_found_before_anything_is_written(void **state)
{
    (void)state;
    open_sessions('A');
    freeReplyObject(redisCommand(story_work, "RENAME %s:e %s:kept", STORY_ROOM, STORY_ROOM));
    freeReplyObject(redisCommand(story_work, "SET %s:e hello", STORY_ROOM));
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 1, .flags = "x", .at_least_ms = 300});
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 2, .flags = "x", .value = "v"});
    freeReplyObject(redisCommand(story_work, "RENAME %s:kept %s:e", STORY_ROOM, STORY_ROOM));
    RUN(LIST, "0");
    assert_int_equal(count_of('A'), 0);
    expect("join: WRONGTYPE\n"
           "join: WRONGTYPE\n"
           "list: 0 0\n");
}

/* ... but only where it is needed: what keeps no value and no time is not refused because of it. */
static void a_foreign_key_keeps_out_who_needs_it(void **state)
{
    (void)state;
    open_sessions('A');
    freeReplyObject(redisCommand(story_work, "SET %s:x:lock hello", STORY_ROOM));
    ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 1}, {.name = "other", .nonce = 2});
    freeReplyObject(redisCommand(story_work, "DEL %s:x:lock", STORY_ROOM));
    expect("join: 0 @0 0 @0 1 @0+1 1\n");
}

/* A folded line with a waiter in it is not lost when the key it unfolds into is somebody else's. */
static void a_line_that_cannot_be_unfolded_stays(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('B', "-", (struct wish){.name = "lock", .nonce = 2});
    freeReplyObject(redisCommand(story_work, "SET %s:w:lock hello", STORY_ROOM));
    RUN(INSPECT, "lock");
    RUN(SWEEP, "10", "", "lock");
    RUN(LOOK, "lock", "0");
    freeReplyObject(redisCommand(story_work, "DEL %s:w:lock", STORY_ROOM));
    RUN(LIST, "0");
    RUN(LEAVE, "lock", sid('A'), at(0, 0));
    RUN(LEAVE, "lock", sid('B'), at(0, 1));
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "inspect: WRONGTYPE\n"
           "sweep: WRONGTYPE\n"
           "look: WRONGTYPE\n"
           "list: 0 0 lock 1 1\n"
           "leave: TAG | p b: B 1 G @0+1 lock\n"
           "leave: TAG\n");
}

/* ---- The dead among those who wait --------------------------------------------------------- */

/* A waiter for more than there is has died: one that needs less is let in at once, and is not told to wait. */
static void the_dead_in_front_do_not_keep_out(void **state)
{
    (void)state;
    open_sessions('C');
    ASK_LONG(sid('C'), "-", NULL, {.name = "pool", .nonce = 1, .mode = 2, .take = 1, .of = 2});
    ASK_LONG(sid('A'), "-", NULL, {.name = "pool", .nonce = 2, .mode = 2, .take = 2, .of = 2});
    clock_at(1000);
    ASK_LONG(sid('B'), "-", NULL, {.name = "pool", .nonce = 3, .mode = 2, .take = 1, .of = 2});
    RUN(LIST, "0");
    expect("join: 0 @0 0 @0 1\n"
           "join: 0 @0 @2000 @0+1 4\n"
           "join: 0 @1000 0 @1000 1\n"
           "list: 0 0 pool 2 0\n");
}

/* ... and its value goes with it, even at a barrier, where the next one who leaves finds it. */
static void the_dead_at_a_barrier_leave_no_value(void **state)
{
    (void)state;
    open_sessions('C');
    ASK_LONG(sid('A'), "-", NULL,
             {.name = "gate", .nonce = 1, .mode = 4, .of = 4, .flags = "x", .value = "gone"});
    ASK_LONG(sid('C'), "-", NULL,
             {.name = "gate", .nonce = 2, .mode = 4, .of = 4, .flags = "x", .value = "stays"});
    ASK_LONG(sid('B'), "-", NULL, {.name = "gate", .nonce = 3, .mode = 4, .of = 4});
    assert_int_equal(number_of("HLEN %s:x:%s", "gate"), 2);
    clock_at(1000);
    RUN(LEAVE, "gate", sid('B'), at(0, 2));
    assert_int_equal(number_of("HLEN %s:x:%s", "gate"), 1);
    RUN(INSPECT, "gate");
    expect("join: 0 @0 @2000 @0 4\n"
           "join: 0 @0 @1000 @0+1 0\n"
           "join: 0 @0 @1000 @0+2 0\n"
           "leave: 0 0\n"
           "inspect: 0 @1000 gate @0+1 C 2 4 0 4 x 0 0 @3000 lC stays 0\n");
}

/* A BREAK that meets the dead takes them out, even behind one that lives. */
static void a_break_ends_the_dead(void **state)
{
    (void)state;
    open_sessions('C');
    ask('B', "-", (struct wish){.name = "lock", .nonce = 1});
    ASK_LONG(sid('C'), "-", NULL, {.name = "lock", .nonce = 2});
    ASK_LONG("d5", "D", "0000000000a2",
             {.name = "lock", .nonce = 3, .flags = "Dx", .until_ms = 500});
    clock_at(600);
    RUN(BREAK, "lock", "0", "0");
    RUN(LIST, "0");
    expect("join: TAG @0\n"
           "join: 0 @0 @1000 @0+1 4\n"
           "join: 0 @0 @500 @0+2 0\n"
           "break: 1\n"
           "list: 0 0 lock 1 1\n");
}

/* ---- More of the dead than one run takes out ------------------------------------------------ */

#define MANY 1200 /* a run takes out 500 */

static void many_wait(void)
{
    for (int i = 0; i < MANY; i++) {
        ask('A', "-", (struct wish){.name = "lock", .nonce = 100 + i});
        story_forget();
    }
    clock_at(1500);
}

/* A try is not told of them, but told to ask again: each run takes out a limited number and no more. */
static void a_try_behind_many_dead(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "lock", .nonce = 1});
    many_wait();
    ask('C', "t", (struct wish){.name = "lock", .nonce = 2});
    assert_int_equal(number_of("ZCARD %s:w:%s", "lock"), MANY - 499); /* and the one that held */
    ASK_LONG(sid('C'), "-", NULL, {.name = "lock", .nonce = 2, .mode = 2, .take = 1, .of = 1});
    assert_int_equal(number_of("ZCARD %s:w:%s", "lock"), MANY - 999);
    assert_int_equal(count_of('C'), 0);
    ask('C', "t", (struct wish){.name = "lock", .nonce = 2});
    expect("join: 7\n"
           "join: 7\n"
           "join: 0 @1500 0 @1500 1\n");
}

/* A release goes no further either: whoever waits behind them goes on sweeping, and so gets in. */
static void a_release_before_many_dead(void **state)
{
    int sweeps = 0;
    (void)state;
    open_sessions('C');
    ask('B', "-", (struct wish){.name = "lock", .nonce = 1});
    many_wait();
    clock_at(900);
    ask('C', "-", (struct wish){.name = "lock", .nonce = 2});
    clock_at(1500);
    story_forget();
    RUN(LEAVE, "lock", sid('B'), at(0, 0));
    assert_int_equal(number_of("ZCARD %s:w:%s", "lock"), MANY + 1 - 500);
    expect("leave: 0 1\n");
    for (long long left = MANY + 1 - 500; left > 0; sweeps++) {
        story_forget();
        RUN(SWEEP, "100", sid('C'), "");
        long long now = number_of("ZCARD %s:w:%s", "lock");
        assert_in_range(left - now, 1, 601);
        left = now;
    }
    assert_true(sweeps > 1);
    expect("sweep: 0 @1500 @1000 1 | p c: C 1 G @900 lock\n");
}

/* A barrier at which many of the dead stand opens for the living once the dead are gone. */
static void a_barrier_with_many_dead(void **state)
{
    (void)state;
    open_sessions('C');
    for (int i = 0; i < MANY; i++) {
        ASK_LONG(sid('A'), "-", NULL, {.name = "lock", .nonce = 100 + i, .mode = 4, .of = 2000});
        story_forget();
    }
    ASK_LONG(sid('B'), "-", NULL, {.name = "lock", .nonce = 1, .mode = 4, .of = 2000});
    assert_int_equal(number_of("ZCARD %s:w:%s", "lock"), MANY + 1);
    clock_at(1500);
    for (long long left = MANY + 1; left > 1;) {
        story_forget();
        RUN(SWEEP, "10", sid('C'), "");
        long long now = number_of("ZCARD %s:w:%s", "lock");
        assert_in_range(left - now, 1, 510);
        left = now;
    }
}

/* ---- Several names ------------------------------------------------------------------------- */

/* Of several names the answer names the one that is taken, and its holder, wherever it stands among them. */
static void a_try_says_who_has_which(void **state)
{
    (void)state;
    open_sessions('C');
    ask('A', "-", (struct wish){.name = "a", .nonce = 1});
    ask('B', "-", (struct wish){.name = "b", .nonce = 2});
    ASK_LONG(sid('C'), "t", NULL, {.name = "x", .nonce = 3}, {.name = "b", .nonce = 4},
             {.name = "a", .nonce = 5});
    ASK_LONG(sid('C'), "t", NULL, {.name = "a", .nonce = 3}, {.name = "x", .nonce = 4},
             {.name = "b", .nonce = 5});
    ASK_LONG(sid('C'), "t", NULL, {.name = "x", .nonce = 3}, {.name = "y", .nonce = 4},
             {.name = "b", .nonce = 5});
    RUN(LIST, "0");
    assert_int_equal(count_of('C'), 0);
    expect("join: TAG @0\n"
           "join: TAG @0+1\n"
           "join: 2 lB 1\n"
           "join: 2 lA 0\n"
           "join: 2 lB 2\n"
           "list: 0 0 a 1 0 b 1 0\n");
}

/* ---- Observers ----------------------------------------------------------------------------- */

/* When nobody looks any more, asks are plain again: the short answer, and a line that stays folded. */
static void a_room_that_nobody_watches_is_plain_again(void **state)
{
    (void)state;
    open_sessions('C');
    RUN(LOOK, "lock", "100");
    ask('B', "-", (struct wish){.name = "other", .nonce = 1});
    clock_at(100);
    RUN(SWEEP, "10", "", "");
    ask('B', "-", (struct wish){.name = "third", .nonce = 2});
    assert_int_equal(number_of("HEXISTS %s %s", "\2"), 0);
    expect("look: 0 @0 @100 0 0 0 0 '' ''\n"
           "join: 0 @0 0 @0 1 | o other: 1 0 0 @0 2 lB\n"
           "sweep: 0 @100 @1000 0\n"
           "join: TAG @100\n");
}

/* A holder whose key is gone (deleted, evicted): the next one's heartbeat finds that it may go on, and observers are
 * told. */
static void a_heartbeat_that_lets_in_tells_who_looks(void **state)
{
    (void)state;
    open_sessions('C');
    RUN(LOOK, "lock", "900");
    ask('B', "-", (struct wish){.name = "lock", .nonce = 1});
    ask('C', "-", (struct wish){.name = "lock", .nonce = 2});
    freeReplyObject(redisCommand(story_work, "DEL %s:g:lock", STORY_ROOM));
    RUN(BEAT, sid('C'), "3000", "10");
    RUN(BEAT, sid('C'), "3000", "10");
    expect("look: 0 @0 @900 0 0 0 0 '' ''\n"
           "join: 0 @0 0 @0 1 | o lock: 1 0 0 @0 2 lB\n"
           "join: 0 @0 @900 @0+1 4 | o lock: 2 0 0 @0 2 lB\n"
           "beat: 0 @0 1 1 @900 0 0 | p c: C 1 G @0+1 lock | o lock: 1 0 0 @0+1 2 lC\n"
           "beat: 0 @0 1 1 @900 0 0\n");
}

/* ---- Half a session ------------------------------------------------------------------------- */

/* A session of whose two keys one is gone: it is over, and the other goes too. */
static void half_a_session_is_none(void **state)
{
    (void)state;
    open_sessions('C');
    freeReplyObject(redisCommand(story_work, "DEL %s:s:%s", STORY_ROOM, sid('A')));
    freeReplyObject(redisCommand(story_work, "HDEL %s \3%s", STORY_ROOM, sid('B')));
    RUN(BEAT, sid('A'), "1000", "10");
    RUN(BEAT, sid('B'), "1000", "10");
    char field[32];
    snprintf(field, sizeof(field), "\3%s", sid('A'));
    assert_int_equal(number_of("HEXISTS %s %s", field), 0);
    assert_int_equal(number_of("EXISTS %s:s:%s", sid('B')), 0);
    RUN(OPEN, sid('A'), "1000", "a"); /* so its id is free again */
    RUN(OPEN, sid('B'), "1000", "b");
    expect("beat: 1\n"
           "beat: 1\n"
           "open: 0 @0\n"
           "open: 0 @0\n");
}

/* A session with many tickets is checked page by page, beat by beat: one that others deleted is missed in the end,
 * wherever it stands among them. */
static void many_tickets_are_looked_at_in_turn(void **state)
{
    char cursor[32] = "0", name[16], count[16] = "";
    int beats = 0;
    (void)state;
    open_sessions('A');
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        ask('A', "-", (struct wish){.name = name, .nonce = i + 1});
    }
    story_forget();
    for (int i = 0; i < 600; i += 3) {
        snprintf(name, sizeof(name), "n%d", i);
        freeReplyObject(redisCommand(story_work, "HDEL %s %s", STORY_ROOM, name));
    }
    do {
        redisReply *r = redisCommand(story_work, "EVALSHA %s 1 %s TAG %s 1000 10 %s",
                                     rt_redis_texts_test[RT_REDIS_SCRIPT_BEAT][0].sha1, STORY_ROOM,
                                     sid('A'), cursor);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 8);
        snprintf(cursor, sizeof(cursor), "%s", r->element[7]->str);
        snprintf(count, sizeof(count), "%lld", r->element[4]->integer);
        freeReplyObject(r);
        assert_true(++beats < 100);
    } while (strcmp(cursor, "0") != 0);
    assert_true(beats > 1); /* not all at once */
    assert_string_equal(count, "400");
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        freeReplyObject(redisCommand(story_work, "HDEL %s %s", STORY_ROOM, name));
    }
}

int main(void)
{
#define STORY(fn) cmocka_unit_test_setup_teardown(fn, story_begin, story_end)
    const struct CMUnitTest tests[] = {
        STORY(a_foreign_key_is_found_before_anything_is_written),
        STORY(a_foreign_key_keeps_out_who_needs_it),
        STORY(a_line_that_cannot_be_unfolded_stays),
        STORY(the_dead_in_front_do_not_keep_out),
        STORY(the_dead_at_a_barrier_leave_no_value),
        STORY(a_break_ends_the_dead),
        STORY(many_tickets_are_looked_at_in_turn),
        STORY(a_try_behind_many_dead),
        STORY(a_release_before_many_dead),
        STORY(a_barrier_with_many_dead),
        STORY(a_try_says_who_has_which),
        STORY(a_room_that_nobody_watches_is_plain_again),
        STORY(a_heartbeat_that_lets_in_tells_who_looks),
        STORY(half_a_session_is_none),
    };
    return cmocka_run_group_tests(tests, story_start, story_stop);
}
