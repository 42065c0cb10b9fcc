/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of phase two: lost answers, takeovers through the gate, what is found nowhere (X7, X8, X10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "story.h"

static struct story s;

/* Two branches, decided COMMIT; 1 is done, and 0's answer is to come. */
static void until_ordered(bool gated)
{
    if (gated)
        story_begin_gated(&s, 2);
    else
        story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, COMMIT 0, COMMIT 1");
    happens(&s, "1 done", "");
}

static void a_lost_order_is_given_again(void **state)
{
    (void)state;
    until_ordered(false);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "COMMIT 0 over");
    happens(&s, "0 absent",
            "ASK 0"); /* the lost one was done, or nobody knows: never assumed (X8) */
    happens(&s, "0 lost", "");
    happens(&s, "+200", "ASK 0");
    happens(&s, "0 committed", "DONE");
    until_ordered(false);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "COMMIT 0 over");
    happens(&s, "0 done", "DONE"); /* nothing can lose it there */
}

static void a_takeover_goes_through_the_gate(void **state)
{
    (void)state;
    until_ordered(true);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "GATE 0");
    happens(&s, "0 clear", "");
    happens(&s, "+149", "");
    happens(&s, "back 0", ""); /* ... which nothing shortens */
    happens(&s, "+1", "GATE 0");
    happens(&s, "0 clear", "COMMIT 0 over");
    happens(&s, "0 done", "ASK 0"); /* it says so; the marker proves it */
    happens(&s, "0 committed", "DONE");
    happens(&s, "journal done", "ended");
}

/* Found by the bank: recoveries that ask at once keep each other's view from being refreshed; with longer and longer
 * pauses none ever got through. */
static void a_shut_gate_is_looked_at_before_long(void **state)
{
    (void)state;
    until_ordered(true);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "GATE 0");
    for (int i = 0; i < 8; i++) {
        happens(&s, "0 held", "");
        happens(&s, "+1000", "GATE 0");
    }
}

/* Found by the bank: with two recoveries, the gate was asked for ever about what was no longer there. */
static void what_another_finished_is_not_at_the_gate(void **state)
{
    (void)state;
    until_ordered(true);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "GATE 0");
    happens(&s, "0 absent", "ASK 0");
    happens(&s, "0 committed", "DONE");
    happens(&s, "journal done", "ended");
}

static void the_gate_is_seen_clear_twice_in_a_row(void **state)
{
    (void)state;
    until_ordered(true);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "GATE 0");
    happens(&s, "0 clear", "");
    happens(&s, "+150", "GATE 0");
    happens(&s, "0 held", "");
    happens(&s, "+200", "GATE 0");
    happens(&s, "0 clear", "");
    happens(&s, "+150", "GATE 0");
    happens(&s, "0 lost", ""); /* no answer is no sight */
    happens(&s, "+400", "GATE 0");
    happens(&s, "0 clear", "COMMIT 0 over");
    happens(&s, "0 held", ""); /* somebody has it all the same: from the beginning */
    happens(&s, "+100", "GATE 0");
    happens(&s, "0 clear", "");
    happens(&s, "+150", "GATE 0");
    happens(&s, "0 clear", "COMMIT 0 over");
}

static void what_mariadb_lost_is_found_after_its_restart(void **state)
{
    (void)state;
    until_ordered(true);
    happens(&s, "0 lost", "");
    happens(&s, "+100", "GATE 0");
    happens(&s, "0 clear", "");
    happens(&s, "+150", "GATE 0");
    happens(&s, "0 clear", "COMMIT 0 over");
    happens(&s, "0 done", "ASK 0");
    happens(&s, "0 absent", "LOOK"); /* has somebody finished it, and its marker is cleaned away? */
    happens(&s, "journal COMMIT 0 1", "stuck");
    assert_int_equal(s.b[0].stuck, RT_STUCK_LOST);
    happens(&s, "+29999", "");
    happens(&s, "+1", "ASK 0");
    happens(&s, "0 absent", "LOOK");
    happens(&s, "journal COMMIT 0 1", ""); /* told once */
    happens(&s, "back 0", "ASK 0");
    happens(&s, "0 prepared", "");
    assert_int_equal(s.b[0].stuck, RT_STUCK_NOT);
    happens(&s, "+100", "COMMIT 0 over");
    happens(&s, "0 done", "ASK 0");
    happens(&s, "0 committed", "DONE");
}

static void somebody_else_has_finished_it(void **state)
{
    (void)state;
    until_ordered(false);
    happens(&s, "0 absent", "ASK 0");
    happens(&s, "0 absent", "LOOK");
    happens(&s, "journal COMMIT 0 1 done", "DONE");
    until_ordered(false);
    happens(&s, "0 absent", "ASK 0");
    happens(&s, "0 absent", "LOOK");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "LOOK");
    happens(&s, "journal below", "DONE"); /* what is not done is not forgotten (X9) */
}

/* Databases that are gone: once a person was called, each try is preceded by a look whether that person has finished
 * it. */
static void what_a_person_has_finished_is_not_asked(void **state)
{
    (void)state;
    for (int gated = 0; gated <= 1; gated++) {
        const char *order = gated ? "GATE 0" : "COMMIT 0 over";
        until_ordered(gated);
        for (int i = 1; i < RT_RETRY_ATTENTION; i++) {
            happens(&s, "0 lost", "");
            happens(&s, "+30000", order);
        }
        happens(&s, "0 lost", "attention");
        happens(&s, "+29999", "");
        happens(&s, "+1", "LOOK");
        happens(&s, "journal COMMIT 0 1", order);
        happens(&s, "0 lost", "");
        happens(&s, "back 0", "LOOK"); /* it is there again */
        happens(&s, "journal COMMIT 0 1 done", "DONE");
    }
    until_ordered(false); /* the same for one that will not */
    happens(&s, "0 lost", "");
    happens(&s, "+100", "COMMIT 0 over");
    happens(&s, "0 refused", "stuck");
    happens(&s, "+200", "LOOK");
    happens(&s, "journal COMMIT 0 1", "COMMIT 0 over");
    happens(&s, "0 refused", "");
    happens(&s, "+400", "LOOK");
    happens(&s, "journal COMMIT 0 1 done", "DONE");
}

/* A request sent before a branch was missed says nothing of that branch. */
static void a_look_counts_for_what_was_missed_before(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, COMMIT 0, COMMIT 1");
    happens(&s, "0 absent", "ASK 0");
    happens(&s, "1 absent", "ASK 1");
    happens(&s, "0 absent", "LOOK");
    happens(&s, "1 absent", "");
    happens(&s, "journal COMMIT 0 1", "LOOK, stuck");
    happens(&s, "journal COMMIT 0 1 done", "");
    assert_true(rt_branch_is_over(&s.b[1]) && !rt_branch_is_over(&s.b[0]));
}

static void retries_do_not_end(void **state)
{
    (void)state;
    static const int pauses[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600};
    until_ordered(false);
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        char before[16];
        snprintf(before, sizeof(before), "+%d", pauses[i] - 1);
        happens(&s, "0 lost", "");
        happens(&s, before, "");
        happens(&s, "+1", "COMMIT 0 over");
    }
    happens(&s, "0 lost", "attention"); /* the tenth time; once */
    for (int i = 0; i < 20; i++) {
        happens(&s, "+29999", "");
        happens(&s, "+1", "LOOK");
        happens(&s, "journal COMMIT 0 1", "COMMIT 0 over");
        happens(&s, "0 lost", "");
    }
    happens(&s, "back 1", ""); /* another resource */
    happens(&s, "back 0", "LOOK");
    happens(&s, "journal COMMIT 0 1", "COMMIT 0 over");
    happens(&s, "0 lost", "");
    happens(&s, "+100", "COMMIT 0 over"); /* pauses are short again */
    happens(&s, "0 done", "DONE");
}

static void a_refusal_needs_a_person(void **state)
{
    (void)state;
    until_ordered(false);
    happens(&s, "0 refused", "stuck");
    assert_int_equal(s.b[0].stuck, RT_STUCK_REFUSED);
    happens(&s, "+100", "COMMIT 0");
    happens(&s, "0 refused", ""); /* told once */
    happens(&s, "+200", "COMMIT 0");
    happens(&s, "0 done", "DONE");
    assert_int_equal(s.b[0].stuck, RT_STUCK_NOT);
}

static void a_commit_by_hand_against_the_decision_is_told(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 no", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 0, ROLLBACK 1");
    happens(&s, "1 done", "");
    happens(&s, "0 absent", "ASK 0");
    happens(&s, "0 committed", "LOOK, stuck"); /* X4: told */
    assert_int_equal(s.b[0].stuck, RT_STUCK_MIXED);
    happens(&s, "journal ABORT", ""); /* ... and not closed, */
    assert_int_equal(s.b[0].stuck, RT_STUCK_MIXED);
    happens(&s, "+30000", "ASK 0");
    happens(&s, "0 committed", "LOOK");
    happens(&s, "journal ABORT done", "DONE"); /* until a person has */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_order_is_given_again),
        cmocka_unit_test(a_shut_gate_is_looked_at_before_long),
        cmocka_unit_test(a_takeover_goes_through_the_gate),
        cmocka_unit_test(what_another_finished_is_not_at_the_gate),
        cmocka_unit_test(the_gate_is_seen_clear_twice_in_a_row),
        cmocka_unit_test(what_mariadb_lost_is_found_after_its_restart),
        cmocka_unit_test(somebody_else_has_finished_it),
        cmocka_unit_test(what_a_person_has_finished_is_not_asked),
        cmocka_unit_test(a_look_counts_for_what_was_missed_before),
        cmocka_unit_test(retries_do_not_end),
        cmocka_unit_test(a_refusal_needs_a_person),
        cmocka_unit_test(a_commit_by_hand_against_the_decision_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
