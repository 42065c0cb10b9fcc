/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up: what an ask leaves behind when it ends without a hold, and when it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

#include <rota.h>

static struct story story;
static struct story *const s = &story;

/* ---- at_least_ms: who was never told that it holds keeps nothing --------- */

static void a_limit_crossed_by_its_grant_keeps_nothing(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .limit_ms = 20, .at_least_ms = 100);
    joined(s, 0, 7, false, false);
    until(s, 20); /* granted on the engine by now, and nobody here knows */
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] A refused: TIMEOUT\n"
              "[   20] > LEAVE L #7 untold\n");
    story_end(s);
}

static void a_join_given_up_under_way_keeps_nothing(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100);
    cancel(s, 'A', ROTA_CANCELED);
    joined(s, 0, 7, true, false);
    left(s, ROTA_UNKNOWN);
    until(s, 20);
    left(s, ROTA_LOST);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A refused: CANCELED\n"
              "[    0] > LEAVE L #7 untold\n"
              "[   20] > LEAVE L #7 again untold\n");
    ask(s, 'B', "L", .at_least_ms = 100);
    cancel(s, 'B', ROTA_DEADLOCK);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 60);
    left(s, 0);
    expect(s, "[   20] > JOIN L exclusive\n"
              "[   20] B refused: DEADLOCK\n"
              "[   60] > LEAVE L by nonce untold\n");
    story_end(s);
}

static void closing_while_it_waits_keeps_nothing(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100);
    joined(s, 0, 7, false, false);
    rt_desk_close(&s->desk);
    rt_desk_close_line(&s->desk, s->asks[0].ask.line, s->now);
    until(s, 1);
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    1] A refused: CLOSED\n"
              "[    1] > LEAVE L #7 untold\n");
    story_end(s);
}

static void a_set_that_was_not_complete_keeps_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    story_ask_all(s, "AB", names, false, &(struct wish){.at_least_ms = 100, .limit_ms = 20});
    joined_all(s, 0, 7, 1); /* A's is granted */
    until(s, 20);
    left(s, 0);
    left(s, 0);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[   20] A refused: TIMEOUT\n"
              "[   20] > LEAVE L #7 untold\n"
              "[   20] > LEAVE M #8 untold\n");
    story_ask_all(s, "AB", names, false, &(struct wish){.at_least_ms = 100});
    joined_all(s, 0, 9, 3);
    let_go(s, 'A');
    let_go(s, 'B');
    left(s, 0);
    left(s, 0);
    expect(s, "[   20] > JOIN_ALL 2\n"
              "[   20] A holds L #9\n"
              "[   20] > LEAVE L #9 told\n"
              "[   20] > LEAVE M #10 told\n"
              "[   20] A released: ok\n"
              "[   20] B released: ok\n");
    story_end(s);
}

/* However it ends. */
static void who_was_told_keeps_the_line(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100);
    joined(s, 0, 7, true, false);
    let_go(s, 'A');
    left(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100, .hold_ms = 20);
    joined(s, 0, 8, false, false);
    granted(s, "L", 8);
    until(s, 20);
    let_go(s, 'A');
    left(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100);
    joined(s, 0, 9, true, false);
    rt_desk_close(&s->desk);
    rt_desk_close_line(&s->desk, s->asks[0].ask.line, s->now);
    until(s, 20);
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n"
              "[    0] > LEAVE L #7 told\n"
              "[    0] A released: ok\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #8\n"
              "[   20] A lost: TIMEOUT\n"
              "[   20] > LEAVE L #8 told\n"
              "[   20] A released: LOST\n"
              "[   20] > JOIN L exclusive\n"
              "[   20] A holds L #9\n"
              "[   20] > LEAVE L #9 told\n");
    story_end(s);
}

/* The desk granted it, but its user did not hand it on (a fence that went back). */
static void what_is_taken_back_keeps_nothing(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100);
    joined(s, 0, 7, true, false);
    rt_desk_take_back(&s->desk, &s->asks[0].ask, s->now);
    until(s, 1);
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n"
              "[    1] > LEAVE L #7 untold\n"
              "[    1] A released: ok\n");
    story_end(s);
}

/* ---- A JOIN that may have taken effect is taken back (I5) ---------------- */

static void a_try_after_a_lost_reply_that_is_never_sent_proves_nothing(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", 0);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 20);
    joined(s, ROTA_UNREACHABLE, 0, false, false); /* not begun before its deadline */
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] > JOIN L exclusive again\n"
              "[   20] A refused: UNREACHABLE\n");
    ask(s, 'B', "L", 0); /* has to wait: which of the two would it be? */
    until(s, 60);
    left(s, 0);
    joined(s, 0, 8, true, false);
    expect(s, "[   60] > LEAVE L by nonce\n"
              "[   60] > JOIN L exclusive\n"
              "[   60] B holds L #8\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

/* The asker that would not wait may hold by the first try: it is told that this is not known (I5). */
static void a_second_try_that_is_never_sent_is_unknown_to_who_would_not_wait(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .flags = RT_ASK_TRY);
    ask(s, 'B', "L", 0);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 20);
    joined(s, ROTA_UNREACHABLE, 0, false, false);
    until(s, 60);
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive try\n"
              "[   20] > JOIN L exclusive try again\n"
              "[   20] A refused: UNKNOWN\n"
              "[   20] B refused: UNREACHABLE\n"
              "[   60] > LEAVE L by nonce\n");
    story_end(s);
}

static void a_join_given_up_after_a_lost_reply_is_taken_back_too(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .limit_ms = 30, .at_least_ms = 100);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 30);
    joined(s, ROTA_NOMEM, 0, false, false);
    until(s, 70);
    left(s, ROTA_LOST);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] > JOIN L exclusive again\n"
              "[   30] A refused: TIMEOUT\n"
              "[   70] > LEAVE L by nonce untold\n");
    story_end(s);
}

/* The engine looked, and the nonce was not there. */
static void an_answer_to_the_second_try_is_an_answer_to_the_first(void **state)
{
    (void)state;
    static const int errs[] = {ROTA_BUSY, ROTA_INVALID};
    for (int i = 0; i < 2; i++) {
        story_open(s, 0);
        ask(s, 'A', "L", .flags = RT_ASK_TRY);
        joined(s, ROTA_UNKNOWN, 0, false, false);
        until(s, 20);
        joined(s, errs[i], 0, false, false);
        story_end(s);
    }
}

/* ---- Nothing takes longer than it says ----------------------------------- */

static void a_set_ends_at_its_limit_while_the_engine_stands_still(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    story_ask_all(s, "AB", names, false, &(struct wish){.at_least_ms = 100, .limit_ms = 100});
    until(s, 100);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[  100] A refused: TIMEOUT\n");
    assert_int_equal(s->asks[1].ask.state, RT_ASK_DONE);
    until(s, 2500);
    joined_all(s, 0, 7, 3); /* the answer finds nobody, and what it brought goes back */
    left(s, 0);
    left(s, 0);
    expect(s, "[ 2500] > LEAVE L #7 untold\n"
              "[ 2500] > LEAVE M #8 untold\n");
    story_end(s);
}

static void a_set_that_was_given_up_under_way_is_taken_back_by_nonce(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    ask_all(s, "AB", names, false);
    cancel(s, 'B', ROTA_CANCELED);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[    0] A refused: CANCELED\n");
    joined_all(s, ROTA_UNKNOWN, 0, 0);
    left(s, ROTA_LOST);
    left(s, 0);
    expect(s, "[    0] > LEAVE L by nonce\n"
              "[    0] > LEAVE M by nonce\n");
    ask_all(s, "AB", names, false);
    cancel(s, 'A', ROTA_CANCELED);
    joined_all(s, ROTA_UNREACHABLE, 0, 0); /* definite: nothing is there */
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[    0] A refused: CANCELED\n");
    story_end(s);
}

static void closing_does_not_wait_for_a_set_under_way(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    ask_all(s, "AB", names, false);
    rt_desk_close(&s->desk);
    rt_desk_close_line(&s->desk, s->asks[1].ask.line, s->now);
    until(s, 1);
    assert_false(rt_desk_quiet(&s->desk)); /* something may have to be taken back */
    joined_all(s, 0, 7, 0);
    left(s, 0);
    left(s, 0);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[    1] A refused: CLOSED\n"
              "[    1] > LEAVE L #7\n"
              "[    1] > LEAVE M #8\n");
    story_end(s);
}

/* The session ends in the meantime: told at once, and the late answer changes nothing. */
static void a_set_under_way_is_told_of_the_end_of_its_session(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    ask_all(s, "AB", names, false);
    session_lost(s, 1);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[    0] A refused: LOST\n");
    joined_all(s, 0, 7, 3);
    expect(s, "");
    story_end(s);
}

/* Whatever the tries do: one that is not answered, those that end early, the pause between them. A
 * millisecond more: a try that ends in time is heard first, for its words. */
static void a_release_takes_call_ms_and_no_longer(void **state)
{
    (void)state;
    story_held(s, 0);
    let_go(s, 'A');
    until(s, 4990);
    left(s, ROTA_UNKNOWN);
    until(s, 5001); /* in the pause before the next try */
    expect(s, "[    0] > LEAVE L #7\n"
              "[ 5001] A released: UNKNOWN\n");
    until(s, 5010);
    expect(s, "[ 5010] > LEAVE L #7 again\n"); /* it goes on for the others */
    left(s, 0);
    story_end(s);
    ask(s, 'A', "L", 0);
    joined(s, 0, 8, true, false);
    ask(s, 'B', "M", 0);
    joined(s, 0, 9, true, false);
    until(s, 6000);
    let_go(s, 'A');
    until(s, 6500);
    let_go(s, 'B');
    until(s, 11700);
    expect(s, "[ 5010] > JOIN L exclusive\n"
              "[ 5010] A holds L #8\n"
              "[ 5010] > JOIN M exclusive\n"
              "[ 5010] B holds M #9\n"
              "[ 6000] > LEAVE L #8\n"
              "[ 6500] > LEAVE M #9\n"
              "[11001] A released: UNKNOWN\n"
              "[11501] B released: UNKNOWN\n");
    left(s, 0);
    left(s, 0);
    story_end(s);
}

static void a_try_takes_call_ms_and_no_longer(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .flags = RT_ASK_TRY);
    ask(s, 'B', "M", .flags = RT_ASK_TRY, .at_least_ms = 100);
    until(s, 2500);
    joined(s, ROTA_UNKNOWN, 0, false, false); /* A's; tried again, and that stays open */
    until(s, 5001);
    expect(s, "[    0] > JOIN L exclusive try\n"
              "[    0] > JOIN M exclusive try\n"
              "[ 2520] > JOIN L exclusive try again\n"
              "[ 5001] B refused: UNKNOWN\n"
              "[ 5001] A refused: UNKNOWN\n");
    joined(s, 0, 8, true, false); /* B's, late */
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 5100);
    left(s, 0);
    left(s, 0);
    expect(s, "[ 5001] > LEAVE M #8 untold\n"
              "[ 5021] > LEAVE L by nonce\n");
    story_end(s);
}

/* It waits behind our own unanswered release; and for an answer to ARM. */
static void a_try_that_waits_for_another_request_is_not_forgotten(void **state)
{
    (void)state;
    story_held(s, 0);
    let_go(s, 'A');
    until(s, 100);
    ask(s, 'B', "L", .flags = RT_ASK_TRY);
    until(s, 5200);
    expect(s, "[    0] > LEAVE L #7\n"
              "[ 5001] A released: UNKNOWN\n"
              "[ 5101] B refused: UNREACHABLE\n");
    left(s, 0);
    ask(s, 'A', "L", .mode = RT_SHARED);
    joined(s, 0, 8, true, false);
    wanted(s, "L", 8);
    ask(s, 'B', "L", .mode = RT_SHARED, .flags = RT_ASK_TRY);
    until(s, 9000);
    armed(s, ROTA_UNKNOWN, false);
    until(s, 10201);
    expect(s, "[ 5200] > JOIN L shared\n"
              "[ 5200] A holds L #8\n"
              "[ 5200] > ARM L #8\n"
              "[ 9020] > ARM L #8\n"
              "[10201] B refused: UNREACHABLE\n");
    armed(s, 0, false);
    let_go(s, 'A');
    left(s, 0);
    story_end(s);
}

static void a_try_without_a_session_was_never_sent(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_begin(s, 2, 10);
    ask(s, 'A', "L", .flags = RT_ASK_TRY);
    until(s, 1000);
    ask_all(s, "BC", names, true);
    until(s, 6001);
    expect(s, "[    0] > BEAT open\n"
              "[ 5001] A refused: UNREACHABLE\n"
              "[ 6001] B refused: UNREACHABLE\n");
    beat(s, 0, 1, 0);
    story_end(s);
}

static void a_set_that_tries_takes_call_ms_and_no_longer(void **state)
{
    (void)state;
    static const char *const names[] = {"L", "M"};
    story_open(s, 0);
    ask_all(s, "AB", names, true);
    until(s, 5001);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[ 5001] A refused: UNKNOWN\n");
    joined_all(s, ROTA_BUSY, 0, 0);
    expect(s, "");
    story_end(s);
}

/* ---- What waits behind other requests of ours ------------------------------ */

/* As if requests for other names were under way, so many that no more may be. */
/* So many requests are under way that there is no room for another one, ... */
static void fill_up(void)
{
    s->desk.out.under_way = 2 * RT_UNDER_WAY_MOST;
}

/* ... or for another JOIN. */
static void fill_up_joins(void)
{
    s->desk.out.under_way = RT_UNDER_WAY_MOST;
}

static void make_room(void) /* for one */
{
    s->desk.out.under_way = RT_UNDER_WAY_MOST - 1;
}

static void story_end_of_many(void)
{
    s->desk.out.under_way = 0;
    story_end(s);
}

/* Its time runs from when it is sent, as long as those before it are answered; a BEAT goes at once. */
static void what_waits_behind_ours_has_its_time_when_it_is_sent(void **state)
{
    (void)state;
    story_held(s, 10000);
    ask(s, 'C', "N", 0);
    fill_up();
    let_go(s, 'A');
    ask(s, 'B', "M", .flags = RT_ASK_TRY);
    until(s, 4000);
    expect(s, "[    0] > JOIN N exclusive\n"
              "[ 2500] > BEAT\n");
    beat(s, 0, 1, 10000);
    joined(s, 0, 8, true, false);
    until(s, 8000);
    beat(s, 0, 1, 10000);
    fill_up_joins();
    left(s, 0);
    until(s, 13000);
    beat(s, 0, 1, 10000);
    until(s, 13001);
    expect(s, "[ 4000] C holds N #8\n"
              "[ 4000] > LEAVE L #7\n"
              "[ 5000] > BEAT\n"
              "[ 8000] A released: ok\n"
              "[ 8000] > JOIN M exclusive try\n"
              "[ 8000] > BEAT\n"
              "[13000] > BEAT\n"
              "[13001] B refused: UNKNOWN\n");
    beat(s, 0, 1, 10000);
    joined(s, ROTA_BUSY, 0, false, false);
    let_go(s, 'C');
    left(s, 0);
    expect(s, "[13001] > LEAVE N #8\n"
              "[13001] C released: ok\n");
    story_end_of_many();
}

/* What is sent again, because it came to nothing, has no more time. */
static void what_was_sent_late_has_its_time_once(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'C', "N", 0);
    fill_up();
    let_go(s, 'A');
    until(s, 4000);
    joined(s, 0, 8, true, false);
    until(s, 6000);
    fill_up();
    left(s, ROTA_UNKNOWN);
    until(s, 9001);
    expect(s, "[    0] > JOIN N exclusive\n"
              "[ 4000] C holds N #8\n"
              "[ 4000] > LEAVE L #7\n"
              "[ 6020] > LEAVE L #7 again\n"
              "[ 9001] A released: UNKNOWN\n");
    left(s, 0);
    let_go(s, 'C');
    left(s, 0);
    expect(s, "[ 9001] > LEAVE N #8\n"
              "[ 9001] C released: ok\n");
    story_end_of_many();
}

/* JOINs may wait for what a LEAVE gives back: while there is no room for more of them, LEAVEs go past those that wait. */
static void a_release_goes_past_what_waits(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'C', "N", 0);
    fill_up_joins();
    ask(s, 'B', "M", 0);
    let_go(s, 'A');
    left(s, 0);
    expect(s, "[    0] > JOIN N exclusive\n"
              "[    0] > LEAVE L #7\n"
              "[    0] A released: ok\n");
    joined(s, 0, 8, true, false);
    joined(s, 0, 9, true, false);
    let_go(s, 'B');
    let_go(s, 'C');
    left(s, 0);
    left(s, 0);
    expect(s, "[    0] C holds N #8\n"
              "[    0] > JOIN M exclusive\n"
              "[    0] B holds M #9\n"
              "[    0] > LEAVE M #9\n"
              "[    0] > LEAVE N #8\n"
              "[    0] B released: ok\n"
              "[    0] C released: ok\n");
    story_end_of_many();
}

/* Where there is no room for a JOIN, a set has its place among those that wait: behind older ones, before younger ones. */
static void a_set_has_its_place_among_what_waits(void **state)
{
    static const char *const names[] = {"P", "Q"};
    (void)state;
    story_held(s, 0);
    ask(s, 'E', "N", 0);
    fill_up_joins();
    ask(s, 'F', "M", 0);
    until(s, 1);
    ask_all(s, "BC", names, false);
    until(s, 2);
    ask(s, 'D', "O", 0);
    make_room();
    until(s, 3);
    expect(s, "[    0] > JOIN N exclusive\n"
              "[    3] > JOIN M exclusive\n");
    make_room();
    until(s, 4);
    expect(s, "[    4] > JOIN_ALL 2\n");
    make_room();
    until(s, 5);
    expect(s, "[    5] > JOIN O exclusive\n");
}

/* An engine that is away ends what waits, too, when what is under way has ended. */
static void what_waits_behind_ours_in_vain_ends_with_them(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'C', "N", 0);
    fill_up();
    let_go(s, 'A');
    ask(s, 'B', "M", .flags = RT_ASK_TRY);
    ask(s, 'D', "O", 0);
    until(s, 5001);
    fill_up_joins();
    joined(s, ROTA_UNREACHABLE, 0, false, false);
    left(s, ROTA_UNREACHABLE);
    until(s, 5001);
    until(s, 5021);
    left(s, 0);
    expect(s, "[    0] > JOIN N exclusive\n"
              "[ 5001] B refused: UNREACHABLE\n"
              "[ 5001] A released: UNKNOWN\n"
              "[ 5001] C refused: UNREACHABLE\n"
              "[ 5001] > LEAVE L #7\n"
              "[ 5001] D refused: UNREACHABLE\n"
              "[ 5021] > LEAVE L #7\n");
    story_end_of_many();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_crossed_by_its_grant_keeps_nothing),
        cmocka_unit_test(a_join_given_up_under_way_keeps_nothing),
        cmocka_unit_test(closing_while_it_waits_keeps_nothing),
        cmocka_unit_test(a_set_that_was_not_complete_keeps_nothing),
        cmocka_unit_test(who_was_told_keeps_the_line),
        cmocka_unit_test(what_is_taken_back_keeps_nothing),
        cmocka_unit_test(a_try_after_a_lost_reply_that_is_never_sent_proves_nothing),
        cmocka_unit_test(a_second_try_that_is_never_sent_is_unknown_to_who_would_not_wait),
        cmocka_unit_test(a_join_given_up_after_a_lost_reply_is_taken_back_too),
        cmocka_unit_test(an_answer_to_the_second_try_is_an_answer_to_the_first),
        cmocka_unit_test(a_set_ends_at_its_limit_while_the_engine_stands_still),
        cmocka_unit_test(a_set_that_was_given_up_under_way_is_taken_back_by_nonce),
        cmocka_unit_test(closing_does_not_wait_for_a_set_under_way),
        cmocka_unit_test(a_set_under_way_is_told_of_the_end_of_its_session),
        cmocka_unit_test(a_release_takes_call_ms_and_no_longer),
        cmocka_unit_test(a_try_takes_call_ms_and_no_longer),
        cmocka_unit_test(a_try_that_waits_for_another_request_is_not_forgotten),
        cmocka_unit_test(a_try_without_a_session_was_never_sent),
        cmocka_unit_test(what_waits_behind_ours_has_its_time_when_it_is_sent),
        cmocka_unit_test(what_was_sent_late_has_its_time_once),
        cmocka_unit_test(a_release_goes_past_what_waits),
        cmocka_unit_test(a_set_has_its_place_among_what_waits),
        cmocka_unit_test(what_waits_behind_ours_in_vain_ends_with_them),
        cmocka_unit_test(a_set_that_tries_takes_call_ms_and_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
