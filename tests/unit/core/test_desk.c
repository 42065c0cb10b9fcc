/* SPDX-License-Identifier: Apache-2.0 */
/* What one client does, told as stories in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

#include <rota.h>

static struct story story;
static struct story *const s = &story;

static void one_flight_to_acquire_one_to_release(void **state)
{
    (void)state;
    story_held(s, 0);
    let_go(s, 'A');
    left(s, 0);
    expect(s, "[    0] > LEAVE L #7\n"
              "[    0] A released: ok\n");
    story_end(s);
}

static void re_entry_keeps_the_fence_and_costs_nothing(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .owner = 'A');
    ask(s, 'C', "L", .owner = 'A', .mode = RT_SHARED);
    let_go(s, 'A');
    let_go(s, 'C');
    expect(s, "[    0] B holds L #7\n"
              "[    0] C holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] C released: ok\n");
    let_go(s, 'B');
    left(s, 0);
    expect(s, "[    0] > LEAVE L #7\n"
              "[    0] B released: ok\n");
    story_end(s);
}

static void a_try_among_threads_needs_no_flight(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .flags = RT_ASK_TRY);
    expect(s, "[    0] B refused: BUSY\n");
    let_go(s, 'A');
    ask(s, 'C', "L", .flags = RT_ASK_TRY); /* the release is under way: wait for it, then try */
    left(s, 0);
    joined(s, 0, 8, true, false);
    expect(s, "[    0] > LEAVE L #7\n"
              "[    0] A released: ok\n"
              "[    0] > JOIN L exclusive try\n"
              "[    0] C holds L #8\n");
    let_go(s, 'C');
    left(s, 0);
    story_end(s);
}

static void a_tenure_is_passed_on_without_the_engine(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", 0);
    ask(s, 'C', "L", 0);
    armed(s, 0, false);
    let_go(s, 'A');
    let_go(s, 'B');
    expect(s, "[    0] > ARM L #7\n"
              "[    0] B holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] C holds L #7\n"
              "[    0] B released: ok\n");
    let_go(s, 'C');
    left(s, 0);
    expect(s, "[    0] > LEAVE L #7\n"
              "[    0] C released: ok\n");
    story_end(s);
}

static void passing_on_is_counted_once_somebody_waits_elsewhere(void **state)
{
    (void)state;
    story_held(s, 0);
    for (char who = 'B'; who <= 'E'; who++)
        ask(s, who, "L", 0);
    armed(s, 0, true); /* the answer says: somebody waits */
    let_go(s, 'A');
    let_go(s, 'B');
    expect(s, "[    0] > ARM L #7\n"
              "[    0] B holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] C holds L #7\n"
              "[    0] B released: ok\n");
    let_go(s, 'C'); /* pass_limit is 2 */
    left(s, 0);
    joined(s, 0, 12, false, false);
    granted(s, "L", 12);
    expect(s, "[    0] > LEAVE L #7\n"
              "[    0] C released: ok\n"
              "[    0] > JOIN L exclusive arm\n"
              "[    0] D holds L #12\n");
    let_go(s, 'D');
    let_go(s, 'E');
    left(s, 0);
    expect(s, "[    0] E holds L #12\n"
              "[    0] D released: ok\n"
              "[    0] > LEAVE L #12\n"
              "[    0] E released: ok\n");
    story_end(s);
}

static void passing_on_ends_pass_ms_after_wanted(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", 0);
    armed(s, 0, false);
    until(s, 50);
    wanted(s, "L", 7);
    wanted(s, "L", 7); /* doubled: changes nothing */
    until(s, 60);
    let_go(s, 'A');
    left(s, 0);
    joined(s, 0, 9, true, false);
    expect(s, "[    0] > ARM L #7\n"
              "[   60] > LEAVE L #7\n"
              "[   60] A released: ok\n"
              "[   60] > JOIN L exclusive\n"
              "[   60] B holds L #9\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void strict_order_takes_a_ticket_for_each_ask(void **state)
{
    (void)state;
    story_begin(s, ROTA_NEVER, 0);
    ask(s, 'A', "L", 0);
    beat(s, 0, 1, 0);
    ask(s, 'B', "L", 0);
    joined(s, 0, 7, true, false);
    joined(s, 0, 8, false, false);
    let_go(s, 'A');
    left(s, 0);
    granted(s, "L", 8);
    expect(s, "[    0] > BEAT open\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n"
              "[    0] > LEAVE L #7\n"
              "[    0] A released: ok\n"
              "[    0] B holds L #8\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void a_lingering_tenure_is_taken_again_without_the_engine(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .linger_ms = 100);
    joined(s, 0, 7, true, false);
    let_go(s, 'A');
    ask(s, 'B', "L", .linger_ms = 100);
    until(s, 90);
    let_go(s, 'B');
    until(s, 150); /* the first timer fires too early and is moved */
    expect(s, "[    0] > JOIN L exclusive arm\n"
              "[    0] A holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] B holds L #7\n"
              "[   90] B released: ok\n");
    until(s, 200);
    left(s, 0);
    expect(s, "[  190] > LEAVE L #7\n");
    story_end(s);
}

static void wanted_ends_lingering_at_once(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .linger_ms = 100);
    joined(s, 0, 7, true, false);
    let_go(s, 'A');
    until(s, 10);
    wanted(s, "L", 7);
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive arm\n"
              "[    0] A holds L #7\n"
              "[    0] A released: ok\n"
              "[   10] > LEAVE L #7\n");
    story_end(s);
}

static void hold_ms_gives_the_ticket_back_and_the_next_takes_a_new_one(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .hold_ms = 30);
    joined(s, 0, 7, true, false);
    ask(s, 'B', "L", 0);
    armed(s, 0, false);
    until(s, 30);
    assert_int_equal(rt_desk_until(&s->desk, &s->asks[0].ask), 0);
    left(s, 0);
    joined(s, 0, 8, true, false);
    let_go(s, 'A');
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n"
              "[    0] > ARM L #7\n"
              "[   30] A lost: TIMEOUT\n"
              "[   30] > LEAVE L #7\n"
              "[   30] > JOIN L exclusive\n"
              "[   30] B holds L #8\n"
              "[   30] A released: LOST\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void who_gives_up_while_joining_leaves_nothing(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .limit_ms = 20);
    until(s, 20);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] A refused: TIMEOUT\n");
    joined(s, 0, 7, true, false); /* granted in the moment it gave up: neither leaked nor lost */
    left(s, 0);
    expect(s, "[   20] > LEAVE L #7\n");
    story_end(s);
}

static void a_limit_tells_of_an_engine_that_is_away(void **state)
{
    (void)state;
    story_open(s, 0);
    s->desk.away = true;
    ask(s, 'A', "L", .limit_ms = 20);
    until(s, 20);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] A refused: UNREACHABLE\n");
    joined(s, 0, 7, false, false);
    left(s, 0);
    ask(s, 'B', "L", .limit_ms = 20);
    joined(s, 0, 8, false, false); /* in line: somebody else's turn, whatever happens then */
    until(s, 40);
    left(s, 0);
    expect(s, "[   20] > LEAVE L #7\n"
              "[   20] > JOIN L exclusive\n"
              "[   40] B refused: TIMEOUT\n"
              "[   40] > LEAVE L #8\n");
    story_end(s);
}

/* It waits for its own client, which has no reader's ticket yet. */
static void a_reader_behind_a_local_holder_is_only_late(void **state)
{
    (void)state;
    story_held(s, 0);
    s->desk.away = true;
    ask(s, 'B', "L", .mode = RT_SHARED, .limit_ms = 20);
    armed(s, 0, false);
    until(s, 20);
    let_go(s, 'A');
    left(s, 0);
    expect(s, "[    0] > ARM L #7\n"
              "[   20] B refused: TIMEOUT\n"
              "[   20] > LEAVE L #7\n"
              "[   20] A released: ok\n");
    story_end(s);
}

static void a_given_up_join_serves_who_comes_next(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", 0);
    cancel(s, 'A', ROTA_CANCELED);
    ask(s, 'B', "L", 0);
    joined(s, 0, 7, true, false);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A refused: CANCELED\n"
              "[    0] B holds L #7\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void a_lost_reply_to_join_is_asked_again(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", 0);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 20);
    joined(s, 0, 7, true, false);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] > JOIN L exclusive again\n"
              "[   20] A holds L #7\n");
    let_go(s, 'A');
    left(s, 0);
    story_end(s);
}

static void a_lost_reply_of_a_join_given_up_is_taken_back_by_nonce(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .limit_ms = 10);
    until(s, 10);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 30);
    left(s, ROTA_LOST);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   10] A refused: TIMEOUT\n"
              "[   30] > LEAVE L by nonce\n");
    story_end(s);
}

static void a_lost_reply_to_leave_is_never_taken_for_success(void **state)
{
    (void)state;
    story_held(s, 0);
    let_go(s, 'A');
    left(s, ROTA_UNKNOWN);
    until(s, 20);
    left(s, ROTA_LOST); /* gone, but whose doing was it? */
    expect(s, "[    0] > LEAVE L #7\n"
              "[   20] > LEAVE L #7 again\n"
              "[   20] A released: UNKNOWN\n");
    story_end(s);
}

static void a_release_that_stays_open_is_unknown_and_goes_on(void **state)
{
    (void)state;
    story_held(s, 0);
    let_go(s, 'A');
    until(s, 5000);
    left(s, ROTA_UNKNOWN);
    until(s, 5020);
    expect(s, "[    0] > LEAVE L #7\n"
              "[ 5000] A released: UNKNOWN\n"
              "[ 5020] > LEAVE L #7 again\n");
    left(s, 0);
    story_end(s);
}

static void heartbeats_keep_the_deadline_ahead(void **state)
{
    (void)state;
    story_held(s, 3000);
    /* 3000 - (30 + 2) from before the BEAT was sent; told 3000/20 earlier. */
    assert_int_equal(s->desk.session.deadline, 2968 * RT_MS);
    assert_int_equal(rt_desk_until(&s->desk, &s->asks[0].ask), 2818 * RT_MS);
    until(s, 1150);
    expect(s, "[  750] > BEAT\n");
    beat(s, 0, 0, 3000); /* answered 400 ms late: counts from when it was sent */
    assert_int_equal(s->desk.session.deadline, 3718 * RT_MS);
    until(s, 2000);
    expect(s, "[ 1500] > BEAT\n");
    beat(s, 0, 0, 3000);
    let_go(s, 'A');
    left(s, 0);
    expect(s, "[ 2000] > LEAVE L #7\n"
              "[ 2000] A released: ok\n");
    story_end(s);
}

static void a_holder_is_told_before_its_deadline(void **state)
{
    (void)state;
    story_held(s, 3000);
    ask(s, 'B', "L", 0);
    armed(s, 0, false);
    expect(s, "[    0] > ARM L #7\n");
    until(s, 1200);
    beat(s, ROTA_UNREACHABLE, 0, 0);
    until(s, 2900);
    expect(s, "[  750] > BEAT\n"
              "[ 1275] > BEAT\n"
              "[ 2818] A lost: LOST\n"
              "[ 2818] B refused: LOST\n");
    let_go(s, 'A');
    expect(s, "[ 2900] A released: LOST\n");
    beat(s, 0, 0, 3000); /* the late answer revives nothing */
    story_end(s);
    ask(s, 'C', "L", 0); /* a new session, a new ticket; old holds stay lost */
    beat(s, 0, 2, 3000);
    joined(s, 0, 9, true, false);
    expect(s, "[ 2900] > BEAT open\n"
              "[ 2900] > JOIN L exclusive\n"
              "[ 2900] C holds L #9\n");
    let_go(s, 'C');
    left(s, 0);
    story_end(s);
}

static void a_grant_that_comes_after_the_deadline_is_none(void **state)
{
    (void)state;
    story_open(s, 3000);
    ask(s, 'A', "L", 0);
    joined(s, 0, 7, false, false);
    s->now = 4000 * RT_MS; /* stopped: no timer ran */
    granted(s, "L", 7);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[ 4000] A refused: LOST\n");
    story_end(s);
}

static void a_stopped_holder_learns_it_as_the_first_thing(void **state)
{
    (void)state;
    story_held(s, 3000);
    s->now = 4000 * RT_MS;
    assert_true(rt_desk_until(&s->desk, &s->asks[0].ask) < s->now);
    let_go(s, 'A');
    expect(s, "[ 4000] A released: LOST\n");
    story_end(s);
}

static void a_hold_that_is_over_is_over_before_its_timer_ran(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .hold_ms = 30);
    joined(s, 0, 7, true, false);
    s->now = 40 * RT_MS; /* stopped: no timer ran */
    ask(s, 'B', "L", .owner = 'A', .flags = RT_ASK_TRY);
    let_go(s, 'A');
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n"
              "[   40] B refused: BUSY\n"
              "[   40] A released: LOST\n"
              "[   40] > LEAVE L #7\n");
    story_end(s);
}

static void a_broken_ticket_is_told_and_the_next_takes_a_new_one(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", 0);
    armed(s, 0, false);
    ticket_lost(s, "L", 7);
    joined(s, 0, 9, true, false);
    let_go(s, 'A');
    expect(s, "[    0] > ARM L #7\n"
              "[    0] A lost: LOST\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] B holds L #9\n"
              "[    0] A released: LOST\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

static void all_of_a_set_or_none(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    ask_all(s, "AB", names, false);
    joined_all(s, 0, 7, 1);
    expect(s, "[    0] > JOIN_ALL 2\n");
    granted(s, "M", 8);
    expect(s, "[    0] A holds L #7\n");
    assert_int_equal(s->asks[1].ask.state, RT_ASK_HELD);
    let_go(s, 'A');
    let_go(s, 'B');
    left(s, 0);
    left(s, 0);
    expect(s, "[    0] > LEAVE L #7\n"
              "[    0] > LEAVE M #8\n"
              "[    0] A released: ok\n"
              "[    0] B released: ok\n");
    ask_all(s, "AB", names, false);
    joined_all(s, 0, 9, 1);
    cancel(s, 'B', ROTA_TIMEOUT);
    left(s, 0);
    left(s, 0);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[    0] A refused: TIMEOUT\n"
              "[    0] > LEAVE L #9\n"
              "[    0] > LEAVE M #10\n");
    story_end(s);
}

static void what_belongs_to_the_ticket_cannot_be_asked_for_by_re_entry(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .owner = 'A', .at_least_ms = 100);
    expect(s, "[    0] B refused: INVALID\n");
    let_go(s, 'A');
    left(s, 0);
    story_end(s);
}

static void a_set_does_not_wait_for_our_own_lingering(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    ask(s, 'A', "L", .linger_ms = 1000);
    joined(s, 0, 7, true, false);
    let_go(s, 'A');
    ask_all(s, "BC", names, true);
    expect(s, "[    0] > JOIN L exclusive arm\n"
              "[    0] A holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] > LEAVE L #7\n"
              "[    0] > JOIN_ALL 2\n");
    left(s, 0);
    joined_all(s, 0, 8, 3);
    let_go(s, 'B');
    let_go(s, 'C');
    left(s, 0);
    left(s, 0);
    story_end(s);
}

static void closing_fails_who_waits_and_gives_back_what_is_held(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", 0);
    armed(s, 0, false);
    rt_desk_close(&s->desk);
    rt_desk_close_line(&s->desk, s->asks[0].ask.line, s->now);
    ask(s, 'C', "M", 0);
    left(s, 0);
    expect(s, "[    0] > ARM L #7\n"
              "[    0] B refused: CLOSED\n"
              "[    0] C refused: CLOSED\n"
              "[    0] > LEAVE L #7\n");
    story_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flight_to_acquire_one_to_release),
        cmocka_unit_test(re_entry_keeps_the_fence_and_costs_nothing),
        cmocka_unit_test(a_try_among_threads_needs_no_flight),
        cmocka_unit_test(a_tenure_is_passed_on_without_the_engine),
        cmocka_unit_test(passing_on_is_counted_once_somebody_waits_elsewhere),
        cmocka_unit_test(passing_on_ends_pass_ms_after_wanted),
        cmocka_unit_test(strict_order_takes_a_ticket_for_each_ask),
        cmocka_unit_test(a_lingering_tenure_is_taken_again_without_the_engine),
        cmocka_unit_test(wanted_ends_lingering_at_once),
        cmocka_unit_test(hold_ms_gives_the_ticket_back_and_the_next_takes_a_new_one),
        cmocka_unit_test(who_gives_up_while_joining_leaves_nothing),
        cmocka_unit_test(a_limit_tells_of_an_engine_that_is_away),
        cmocka_unit_test(a_reader_behind_a_local_holder_is_only_late),
        cmocka_unit_test(a_given_up_join_serves_who_comes_next),
        cmocka_unit_test(a_lost_reply_to_join_is_asked_again),
        cmocka_unit_test(a_lost_reply_of_a_join_given_up_is_taken_back_by_nonce),
        cmocka_unit_test(a_lost_reply_to_leave_is_never_taken_for_success),
        cmocka_unit_test(a_release_that_stays_open_is_unknown_and_goes_on),
        cmocka_unit_test(heartbeats_keep_the_deadline_ahead),
        cmocka_unit_test(a_holder_is_told_before_its_deadline),
        cmocka_unit_test(a_grant_that_comes_after_the_deadline_is_none),
        cmocka_unit_test(a_stopped_holder_learns_it_as_the_first_thing),
        cmocka_unit_test(a_hold_that_is_over_is_over_before_its_timer_ran),
        cmocka_unit_test(a_broken_ticket_is_told_and_the_next_takes_a_new_one),
        cmocka_unit_test(all_of_a_set_or_none),
        cmocka_unit_test(what_belongs_to_the_ticket_cannot_be_asked_for_by_re_entry),
        cmocka_unit_test(a_set_does_not_wait_for_our_own_lingering),
        cmocka_unit_test(closing_fails_who_waits_and_gives_back_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
