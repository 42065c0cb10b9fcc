/* SPDX-License-Identifier: Apache-2.0 */
/* The edges of the core, told as stories in virtual time: pauses, second answers, ends that coincide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

#include <rota.h>

static struct story story;
static struct story *const s = &story;

/* ---- Options ------------------------------------------------------------ */

static struct rt_desk desk_of(uint32_t pass_limit, uint32_t pass_ms, uint32_t call_ms)
{
    struct rt_desk desk;
    rt_desk_init(&desk, &s->timers,
                 &(struct rt_desk_options){.pass_limit = pass_limit,
                                           .pass_ms = pass_ms,
                                           .call_ms = call_ms,
                                           .nonce = UINT64_MAX - 1});
    return desk;
}

static void zero_means_the_default(void **state)
{
    (void)state;
    struct rt_desk d = desk_of(0, 0, 0);
    assert_int_equal(d.pass_limit, 16);
    assert_true(d.pass == 10 * RT_MS && d.call == 5000 * RT_MS && !d.strict_order);
    d = desk_of(1, 1, 1);
    assert_int_equal(d.pass_limit, 1);
    assert_true(d.pass == RT_MS && d.call == RT_MS && !d.strict_order);
    assert_int_equal(desk_of(UINT16_MAX, 0, 0).pass_limit, UINT16_MAX);
    assert_int_equal(desk_of(UINT16_MAX + 1, 0, 0).pass_limit,
                     UINT16_MAX); /* a line counts so far */
    assert_true(desk_of(ROTA_NEVER, 5, 0).strict_order);
    assert_true(desk_of(5, ROTA_NEVER, 0).strict_order);
}

/* Two lives of a client differ in where their nonces begin; and 0 is not a nonce. */
static void nonces_go_on_from_where_they_were_told(void **state)
{
    (void)state;
    struct rt_desk d = desk_of(0, 0, 0);
    assert_true(rt_outbox_nonce(&d) == UINT64_MAX);
    assert_int_equal(rt_outbox_nonce(&d), 1);
    assert_int_equal(rt_outbox_nonce(&d), 2);
}

/* ---- Asking again ------------------------------------------------------- */

/* The LEAVE under way fails that often; returns when each try was sent, from the first on. */
static void fail_leaves(int times)
{
    for (int i = 0; i < times; i++) {
        left(s, ROTA_UNREACHABLE);
        until(s, s->desk.out.retry_timer.at / RT_MS);
    }
}

static void pauses_grow_up_to_a_second(void **state)
{
    (void)state;
    story_held(s, 0);
    let_go(s, 'A');
    fail_leaves(8);
    expect(s, "[    0] > LEAVE L #7\n"
              "[   20] > LEAVE L #7\n"
              "[   60] > LEAVE L #7\n"
              "[  140] > LEAVE L #7\n"
              "[  300] > LEAVE L #7\n"
              "[  620] > LEAVE L #7\n"
              "[ 1260] > LEAVE L #7\n"
              "[ 2260] > LEAVE L #7\n"
              "[ 3260] > LEAVE L #7\n");
    left(s, 0);
    expect(s, "[ 3260] A released: ok\n");
    ask(s, 'B', "L", 0);
    joined(s, 0, 8, true, false); /* the engine is there: short pauses again */
    let_go(s, 'B');
    fail_leaves(1);
    left(s, 0);
    expect(s, "[ 3260] > JOIN L exclusive\n"
              "[ 3260] B holds L #8\n"
              "[ 3260] > LEAVE L #8\n"
              "[ 3280] > LEAVE L #8\n"
              "[ 3280] B released: ok\n");
    story_end(s);
}

static void pauses_grow_with_the_patience(void **state)
{
    static const int64_t patience[][2] = {{100, 250}, {600, 600}, {60000, 1000}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        story_held(s, 0);
        s->desk.call = patience[i][0] * RT_MS;
        let_go(s, 'A');
        fail_leaves(9);
        assert_true(s->desk.out.retry_pause == patience[i][1] * RT_MS);
        left(s, 0);
        story_end(s);
    }
}

static void a_beat_that_is_answered_makes_pauses_short(void **state)
{
    (void)state;
    story_held(s, 9000);
    let_go(s, 'A');
    fail_leaves(7);
    assert_true(s->desk.out.retry_pause == 1000 * RT_MS);
    until(s, 3000);
    beat(s, 0, 0, 9000);
    assert_true(s->desk.out.retry_pause == 20 * RT_MS);
    left(s, 0);
    story_end(s);
}

static void an_arm_that_failed_is_sent_again(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", 0);
    armed(s, ROTA_UNKNOWN, false);
    until(s, 20);
    armed(s, 0, true);
    expect(s, "[    0] > ARM L #7\n"
              "[   20] > ARM L #7\n");
    let_go(s, 'A');
    until(s, 31); /* pass_ms after it was told */
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

/* A network that is slower than call_ms answers no question in time. Until one is answered nobody is known to wait, so
 * the tenure is passed on; from then on it is counted, from the answer. (The simulator: sim --mem --seed
 * 11066040741.) */
static void until_somebody_is_known_to_wait_it_is_passed_on(void **state)
{
    (void)state;
    story_held(s, 0);
    for (char who = 'B'; who <= 'E'; who++)
        ask(s, who, "L", 0);
    armed(s, ROTA_UNKNOWN, false);
    until(s, 20);
    armed(s, ROTA_UNKNOWN, false);
    let_go(s, 'A');
    until(s, 60);
    armed(s, ROTA_UNKNOWN, false);
    let_go(s, 'B');
    until(s, 140);
    let_go(s, 'C');
    expect(s, "[    0] > ARM L #7\n"
              "[   20] > ARM L #7\n"
              "[   20] B holds L #7\n"
              "[   20] A released: ok\n"
              "[   60] > ARM L #7\n"
              "[   60] C holds L #7\n"
              "[   60] B released: ok\n"
              "[  140] > ARM L #7\n"
              "[  140] D holds L #7\n"
              "[  140] C released: ok\n");
    armed(s, 0, true);
    until(s, 151); /* pass_ms after it was told */
    let_go(s, 'D');
    left(s, 0);
    joined(s, 0, 12, true, false);
    expect(s, "[  151] > LEAVE L #7\n"
              "[  151] D released: ok\n"
              "[  151] > JOIN L exclusive\n"
              "[  151] E holds L #12\n");
    let_go(s, 'E');
    left(s, 0);
    story_end(s);
}

/* How long a try has been open counts from when it was asked, whenever that was. */
static void a_try_that_stays_open_is_told_after_call_ms(void **state)
{
    (void)state;
    story_open(s, 0);
    until(s, 4000);
    ask(s, 'A', "L", .flags = RT_ASK_TRY);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 4020);
    joined(s, 0, 7, true, false);
    expect(s, "[ 4000] > JOIN L exclusive try\n"
              "[ 4020] > JOIN L exclusive try again\n"
              "[ 4020] A holds L #7\n");
    let_go(s, 'A');
    left(s, 0);
    story_end(s);
}

/* ---- Who waits elsewhere ------------------------------------------------ */

static void the_answer_to_a_join_says_that_somebody_waits(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .linger_ms = 1000); /* so it is armed */
    for (char who = 'B'; who <= 'D'; who++)
        ask(s, who, "L", 0);
    joined(s, 0, 7, true, true);
    for (char who = 'A'; who <= 'C'; who++)
        let_go(s, who); /* pass_limit is 2 */
    expect(s, "[    0] > JOIN L exclusive arm\n"
              "[    0] A holds L #7\n"
              "[    0] B holds L #7\n"
              "[    0] A released: ok\n"
              "[    0] C holds L #7\n"
              "[    0] B released: ok\n"
              "[    0] > LEAVE L #7\n");
    left(s, 0);
    joined(s, 0, 8, true, false);
    let_go(s, 'D');
    left(s, 0);
    story_end(s);
}

/* ---- Re-entry ----------------------------------------------------------- */

/* An owner that holds both ways goes on with the stronger hold: that is no upgrade. */
static void re_entry_goes_on_with_the_exclusive_hold(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .owner = 'A', .mode = RT_SHARED);
    ask(s, 'C', "L", .owner = 'A');
    expect(s, "[    0] B holds L #7\n"
              "[    0] C holds L #7\n");
    for (char who = 'A'; who <= 'C'; who++)
        let_go(s, who);
    left(s, 0);
    story_end(s);
}

static void a_millisecond_of_at_least_is_more_than_plain(void **state)
{
    (void)state;
    story_held(s, 0);
    ask(s, 'B', "L", .owner = 'A', .at_least_ms = 1);
    expect(s, "[    0] B refused: INVALID\n");
    let_go(s, 'A');
    left(s, 0);
    story_end(s);
}

/* ---- Ends --------------------------------------------------------------- */

static void a_beat_that_finds_no_session_ends_it(void **state)
{
    (void)state;
    story_held(s, 9000);
    until(s, 3000);
    beat(s, ROTA_LOST, 0, 0);
    expect(s, "[ 2250] > BEAT\n"
              "[ 3000] A lost: LOST\n");
    assert_int_equal(s->desk.beat_timer.slot, 0); /* and nobody beats for it */
    let_go(s, 'A');
    expect(s, "[ 3000] A released: LOST\n");
    story_end(s);
}

/* A process that did not run: the grant is read before any timer has fired (I3). */
static void a_grant_read_too_late_is_none(void **state)
{
    (void)state;
    story_open(s, 9000);
    ask(s, 'A', "L", 0);
    joined(s, 0, 7, false, false);
    s->now = s->desk.session.usable_until;
    granted(s, "L", 7);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[ 8458] A refused: LOST\n");
    story_end(s);
}

/* What somebody was told it holds stays held while another hold of its owner continues with it. */
static void taking_one_of_two_holds_back_leaves_the_other(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'A', "L", .at_least_ms = 100);
    joined(s, 0, 7, true, false);
    ask(s, 'B', "L", .owner = 'A');
    rt_desk_take_back(&s->desk, &s->asks[1].ask, s->now);
    let_go(s, 'A');
    left(s, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n"
              "[    0] B holds L #7\n"
              "[    0] B released: ok\n"
              "[    0] > LEAVE L #7 told\n"
              "[    0] A released: ok\n");
    story_end(s);
}

static const char *const two[] = {"L", "M"};

static void a_set_is_not_taken_when_closing(void **state)
{
    (void)state;
    story_open(s, 0);
    rt_desk_close(&s->desk);
    ask_all(s, "AB", two, false);
    expect(s, "[    0] A refused: CLOSED\n");
    story_end(s);
}

/* Nothing of a refused set is in any line: there is nothing to take back. */
static void a_refused_set_takes_nothing_back(void **state)
{
    (void)state;
    story_open(s, 0);
    ask_all(s, "AB", two, true);
    joined_all(s, ROTA_BUSY, 0, 0);
    expect(s, "[    0] > JOIN_ALL 2\n"
              "[    0] A refused: BUSY\n");
    story_end(s);
}

/* A set that builds on a hold of its owner and waits for the rest: when that hold is lost, so is the set. */
static void a_set_ends_with_the_hold_it_re_entered(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'H', "L", .owner = 1);
    joined(s, 0, 7, true, false);
    ask_all(s, "AB", two, false);
    joined_all(s, 0, 8, 0);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] H holds L #7\n"
              "[    0] > JOIN_ALL 2\n");
    ticket_lost(s, "L", 7);
    expect(s, "[    0] H lost: LOST\n"
              "[    0] A refused: LOST\n"
              "[    0] > LEAVE M #8\n");
    assert_null(s->asks[0].ask.ticket); /* which may be freed */
    left(s, 0);
    let_go(s, 'H');
    story_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_means_the_default),
        cmocka_unit_test(nonces_go_on_from_where_they_were_told),
        cmocka_unit_test(pauses_grow_up_to_a_second),
        cmocka_unit_test(pauses_grow_with_the_patience),
        cmocka_unit_test(a_beat_that_is_answered_makes_pauses_short),
        cmocka_unit_test(an_arm_that_failed_is_sent_again),
        cmocka_unit_test(until_somebody_is_known_to_wait_it_is_passed_on),
        cmocka_unit_test(a_try_that_stays_open_is_told_after_call_ms),
        cmocka_unit_test(the_answer_to_a_join_says_that_somebody_waits),
        cmocka_unit_test(re_entry_goes_on_with_the_exclusive_hold),
        cmocka_unit_test(a_millisecond_of_at_least_is_more_than_plain),
        cmocka_unit_test(a_beat_that_finds_no_session_ends_it),
        cmocka_unit_test(a_grant_read_too_late_is_none),
        cmocka_unit_test(taking_one_of_two_holds_back_leaves_the_other),
        cmocka_unit_test(a_set_is_not_taken_when_closing),
        cmocka_unit_test(a_refused_set_takes_nothing_back),
        cmocka_unit_test(a_set_ends_with_the_hold_it_re_entered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
