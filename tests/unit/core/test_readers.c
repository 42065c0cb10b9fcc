/* SPDX-License-Identifier: Apache-2.0 */
/* Readers and writers inside one client, told as stories in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

#include <rota.h>

static struct story story;
static struct story *const s = &story;

static void an_upgrade_is_refused(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    joined(s, 0, 7, true, false);
    ask(s, 'B', "L", .owner = 'A');
    expect(s, "[    0] > JOIN L shared\n"
              "[    0] A holds L #7\n"
              "[    0] B refused: INVALID\n");
    let_go(s, 'A');
    left(s, 0);
    story_end(s);
}

static void readers_share_one_ticket(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    ask(s, 'B', "L", .mode = RT_SHARED);
    joined(s, 0, 7, true, false);
    ask(s, 'C', "L", .mode = RT_SHARED);
    armed(s, 0, false);
    expect(s, "[    0] > JOIN L shared\n"
              "[    0] A holds L #7\n"
              "[    0] B holds L #7\n"
              "[    0] C holds L #7\n"
              "[    0] > ARM L #7\n");
    wanted(s, "L", 7); /* a writer elsewhere: no more readers under this ticket */
    ask(s, 'D', "L", .mode = RT_SHARED);
    armed(s, 0, true);
    let_go(s, 'A');
    let_go(s, 'B');
    let_go(s, 'C');
    left(s, 0);
    joined(s, 0, 9, false, false);
    expect(s, "[    0] > ARM L #7\n"
              "[    0] A released: ok\n"
              "[    0] B released: ok\n"
              "[    0] > LEAVE L #7\n"
              "[    0] C released: ok\n"
              "[    0] > JOIN L shared\n");
    granted(s, "L", 9);
    let_go(s, 'D');
    left(s, 0);
    story_end(s);
}

static void readers_share_an_exclusive_tenure(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .mode = RT_SHARED);
    ask(s, 'C', "L", .mode = RT_SHARED);
    ask(s, 'D', "L", 0);
    armed(s, 0, false);
    let_go(s, 'A');
    expect(s, "[    0] > ARM L #7\n"
              "[    0] B holds L #7\n"
              "[    0] C holds L #7\n"
              "[    0] A released: ok\n");
    let_go(s, 'B');
    let_go(s, 'C');
    let_go(s, 'D');
    left(s, 0);
    expect(s, "[    0] B released: ok\n"
              "[    0] D holds L #7\n"
              "[    0] C released: ok\n"
              "[    0] > LEAVE L #7\n"
              "[    0] D released: ok\n");
    story_end(s);
}

static void a_local_writer_waits_behind_its_own_readers(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    joined(s, 0, 7, true, false);
    ask(s, 'B', "L", 0);
    joined(s, 0, 8, false, false);
    let_go(s, 'A');
    left(s, 0);
    granted(s, "L", 8);
    granted(s, "L", 8); /* doubled */
    expect(s, "[    0] > JOIN L shared\n"
              "[    0] A holds L #7\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] > LEAVE L #7\n"
              "[    0] A released: ok\n"
              "[    0] B holds L #8\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void readers_keep_the_place_of_a_writer_that_gave_up(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", 0);
    ask(s, 'B', "L", .mode = RT_SHARED);
    joined(s, 0, 7, false, false);
    cancel(s, 'A', ROTA_CANCELED);
    granted(s, "L", 7);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A refused: CANCELED\n"
              "[    0] B holds L #7\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void a_downgraded_tenure_lets_readers_in(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .mode = RT_SHARED);
    ask(s, 'C', "L", 0);
    armed(s, 0, false);
    rt_desk_downgraded(&s->desk, &s->asks[0].ask, s->now);
    let_go(s, 'A');
    let_go(s, 'B'); /* what became shared cannot be passed on to a writer */
    left(s, 0);
    joined(s, 0, 9, true, false);
    expect(s, "[    0] > ARM L #7\n"
              "[    0] B holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] > LEAVE L #7\n"
              "[    0] B released: ok\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] C holds L #9\n");
    let_go(s, 'C');
    left(s, 0);
    story_end(s);
}

static void a_writer_that_gave_up_keeps_no_reader_out(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    joined(s, 0, 7, true, false);
    ask(s, 'B', "L", .limit_ms = 10);
    joined(s, 0, 8, false, false);
    ask(s, 'C', "L", .mode = RT_SHARED);
    until(s, 10);
    left(s, 0);
    expect(s, "[    0] > JOIN L shared\n"
              "[    0] A holds L #7\n"
              "[    0] > JOIN L exclusive\n"
              "[   10] B refused: TIMEOUT\n"
              "[   10] C holds L #7\n"
              "[   10] > LEAVE L #8\n");
    let_go(s, 'A');
    let_go(s, 'C');
    left(s, 0);
    story_end(s);
}

/* A and B share ticket 7, and were told of a writer elsewhere. */
static void begin_wanted(void)
{
    story_open(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    joined(s, 0, 7, true, false);
    ask(s, 'B', "L", .mode = RT_SHARED);
    armed(s, 0, false);
    wanted(s, "L", 7);
    expect(s, "[    0] > JOIN L shared\n"
              "[    0] A holds L #7\n"
              "[    0] B holds L #7\n"
              "[    0] > ARM L #7\n");
}

static void whether_a_writer_still_waits_is_asked_for_the_next_reader(void **state)
{
    (void)state;
    begin_wanted();
    ask(s, 'C', "L", .mode = RT_SHARED);
    ask(s, 'D', "L", .mode = RT_SHARED, .flags = RT_ASK_TRY); /* somebody waits before it */
    armed(s, 0, false);                                       /* it has gone */
    expect(s, "[    0] > ARM L #7\n"
              "[    0] D refused: BUSY\n"
              "[    0] C holds L #7\n");
    ask(s, 'E', "L", .mode = RT_SHARED); /* that is known now */
    expect(s, "[    0] E holds L #7\n");
    for (char who = 'A'; who <= 'C'; who++)
        let_go(s, who);
    let_go(s, 'E');
    left(s, 0);
    story_end(s);
}

static void a_try_of_a_reader_asks_too(void **state)
{
    (void)state;
    begin_wanted();
    ask(s, 'C', "L", .mode = RT_SHARED, .flags = RT_ASK_TRY);
    armed(s, 0, true); /* it waits still */
    ask(s, 'D', "L", .mode = RT_SHARED, .flags = RT_ASK_TRY);
    armed(s, 0, false);
    expect(s, "[    0] > ARM L #7\n"
              "[    0] C refused: BUSY\n"
              "[    0] > ARM L #7\n"
              "[    0] D holds L #7\n");
    let_go(s, 'A');
    let_go(s, 'B');
    let_go(s, 'D');
    left(s, 0);
    story_end(s);
}

/* An error for the readers' ticket is theirs alone: a writer behind them has a ticket of its own. */
static void what_readers_are_refused_is_not_told_to_writers(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    ask(s, 'B', "L", .mode = RT_SHARED);
    ask(s, 'C', "L", 0);
    joined(s, ROTA_AUTH, 0, false, false);
    expect(s, "[    0] > JOIN L shared\n"
              "[    0] > JOIN L exclusive arm\n"
              "[    0] A refused: AUTH\n"
              "[    0] B refused: AUTH\n");
    joined(s, 0, 8, true, false);
    expect(s, "[    0] C holds L #8\n");
    let_go(s, 'C');
    left(s, 0);
    story_end(s);
}

/* The answer was on its way when a writer came to wait: the event is newer. A reader that went by the answer
 * alone would come in before that writer, and one more after each such answer. */
static void a_writer_that_came_while_it_was_asked_keeps_readers_out(void **state)
{
    (void)state;
    begin_wanted();
    ask(s, 'C', "L", .mode = RT_SHARED);
    ask(s, 'D', "L", .mode = RT_SHARED);
    wanted(s, "L", 7);
    armed(s, 0, false);
    expect(s, "[    0] > ARM L #7\n");
    let_go(s, 'A');
    let_go(s, 'B');
    left(s, 0);
    joined(s, 0, 9, true, false);
    expect(s, "[    0] A released: ok\n"
              "[    0] > LEAVE L #7\n"
              "[    0] B released: ok\n"
              "[    0] > JOIN L shared arm\n"
              "[    0] C holds L #9\n"
              "[    0] D holds L #9\n");
    let_go(s, 'C');
    let_go(s, 'D');
    left(s, 0);
    story_end(s);
}

static void a_downgrade_lets_local_readers_in_when_nobody_waits_any_more(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .mode = RT_SHARED);
    armed(s, 0, true); /* a reader elsewhere */
    rt_desk_downgraded(&s->desk, &s->asks[0].ask, s->now);
    until(s, 1);
    armed(s, 0, false); /* which came in by the downgrade */
    expect(s, "[    0] > ARM L #7\n"
              "[    1] > ARM L #7\n"
              "[    1] B holds L #7\n");
    let_go(s, 'A');
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upgrade_is_refused),
        cmocka_unit_test(readers_share_one_ticket),
        cmocka_unit_test(readers_share_an_exclusive_tenure),
        cmocka_unit_test(a_local_writer_waits_behind_its_own_readers),
        cmocka_unit_test(readers_keep_the_place_of_a_writer_that_gave_up),
        cmocka_unit_test(a_downgraded_tenure_lets_readers_in),
        cmocka_unit_test(a_writer_that_gave_up_keeps_no_reader_out),
        cmocka_unit_test(whether_a_writer_still_waits_is_asked_for_the_next_reader),
        cmocka_unit_test(a_try_of_a_reader_asks_too),
        cmocka_unit_test(what_readers_are_refused_is_not_told_to_writers),
        cmocka_unit_test(a_writer_that_came_while_it_was_asked_keeps_readers_out),
        cmocka_unit_test(a_downgrade_lets_local_readers_in_when_nobody_waits_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
