/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of services: registered, tried, confirmed or cancelled (X3, X10, X11). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "story.h"

static struct story s;

/* Services 0 and 1 have said yes. */
static void tried(void)
{
    story_begin(&s, 0);
    happens(&s, "service 0", "REGISTER 0");
    happens(&s, "journal open", "");
    happens(&s, "try 0", "");
    happens(&s, "service 1", "REGISTER 1");
    happens(&s, "0 yes", "");
    happens(&s, "journal open", "");
    happens(&s, "try 1", "");
    happens(&s, "1 yes", "");
    assert_int_equal(s.b[1].state, RT_BRANCH_PREPARED);
}

static void a_yes_is_confirmed(void **state)
{
    (void)state;
    tried();
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0, CONFIRM 1");
    happens(&s, "1 lost", "");
    happens(&s, "0 done", "");
    happens(&s, "+99", "");
    happens(&s, "+1", "LOOK"); /* somebody else may have done it */
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    happens(&s, "1 held", ""); /* at work: it is given a second */
    happens(&s, "+999", "");
    happens(&s, "+1", "LOOK");
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    happens(&s, "1 done", "DONE");
    happens(&s, "journal done", "ended");
    story_begin(&s, 0); /* one alone: never in one phase */
    happens(&s, "service 0", "REGISTER 0");
    happens(&s, "journal open", "");
    happens(&s, "try 0", "");
    happens(&s, "0 yes", "");
    happens(&s, "commit", "DECIDE COMMIT 0");
}

static void registered_together(void **state)
{
    (void)state;
    story_begin(&s, 0);
    happens(&s, "service 0", "REGISTER 0");
    happens(&s, "service 1", "");
    happens(&s, "service 2", "");
    happens(&s, "journal open", "REGISTER 1 2");
    assert_int_equal(s.b[0].state, RT_BRANCH_ACTIVE);
    assert_int_equal(s.b[1].state, RT_BRANCH_JOINING);
    happens(&s, "journal lost", "");
    happens(&s, "+100", "REGISTER 1 2");
    happens(&s, "journal open", "");
    assert_int_equal(s.b[2].state, RT_BRANCH_ACTIVE);
    assert_int_equal(s.t.registered, 3);
}

static void no_try_is_left_behind(void **state)
{
    (void)state;
    tried(); /* ABORT stands before anybody is cancelled (X3) */
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s", "CANCEL 0, CANCEL 1");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "DONE");
    story_begin(&s,
                0); /* 0: no; 1: lost; 2: never left; 3: nobody knows whether it is registered */
    happens(&s, "service 0", "REGISTER 0");
    happens(&s, "service 1", "");
    happens(&s, "service 2", "");
    happens(&s, "journal open", "REGISTER 1 2");
    happens(&s, "journal open", "");
    happens(&s, "try 0", "");
    happens(&s, "try 1", "");
    happens(&s, "0 no", "");
    happens(&s, "1 lost", "");
    happens(&s, "service 3", "REGISTER 3");
    happens(&s, "commit", "told ABORTED");
    happens(&s, "journal lost", "DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s 2s 3s", "CANCEL 0, CANCEL 1");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "DONE");
    tried(); /* of one that joined nobody knew */
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s 7s", "CANCEL 0, CANCEL 1, CANCEL 7");
    tried(); /* a try that is under way is waited for */
    happens(&s, "service 2", "REGISTER 2");
    happens(&s, "journal open", "");
    happens(&s, "try 2", "");
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s 2s", "CANCEL 0, CANCEL 1");
    happens(&s, "2 yes", "CANCEL 2");
}

static void what_others_settled_is_cancelled(void **state)
{
    (void)state;
    tried();
    happens(&s, "service 2", "REGISTER 2");
    happens(&s, "journal ABORT", "DECIDE ABORT"); /* too late: who else is registered? */
    happens(&s, "journal ABORT 0s 1s 7s", "CANCEL 0, CANCEL 1, CANCEL 7");
    happens(&s, "commit", "told ABORTED");
    tried(); /* stopped for an hour: settled, cancelled, forgotten */
    s.now += 3600000 * STORY_MS;
    happens(&s, "commit", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal below", "ended");
    tried(); /* or confirmed, and forgotten: nobody may cancel that */
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal lost", "");
    s.now += 3600000 * STORY_MS;
    happens(&s, "", "told UNKNOWN, DECIDE ABORT");
    happens(&s, "journal below", "ended");
    assert_int_equal(s.t.outcome, RT_OUTCOME_EXPIRED);
}

static void recovery_reads_whom_to_cancel(void **state)
{
    (void)state;
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal ABORT 3s 4s", "CANCEL 3, CANCEL 4");
    happens(&s, "3 done", "");
    happens(&s, "4 done", "DONE");
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal COMMIT 3s 4s", "CONFIRM 3, CONFIRM 4");
}

static void a_refusal_calls_a_person(void **state)
{
    (void)state;
    tried();
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0, CONFIRM 1");
    happens(&s, "0 done", "");
    happens(&s, "1 refused", "stuck");
    assert_int_equal(s.b[1].stuck, RT_STUCK_CONFIRM_REFUSED);
    happens(&s, "+29999", "");
    happens(&s, "+1", "LOOK");
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    happens(&s, "1 refused", "");
    happens(&s, "+29999", "");
    happens(&s, "+1", "LOOK");
    happens(&s, "journal COMMIT 0s 1s done", "DONE"); /* done by hand: not called again */
    tried();
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s", "CANCEL 0, CANCEL 1");
    happens(&s, "0 done", "");
    happens(&s, "1 refused", "stuck");
    assert_int_equal(s.b[1].stuck, RT_STUCK_CANCEL_REFUSED);
    happens(&s, "+30000", "LOOK");
    happens(&s, "journal ABORT 0s 1s", "CANCEL 1");
    happens(&s, "1 done", "DONE");
}

/* An adversary's finding: it was asked once a second for ever, and nobody heard of it. */
static void at_work_for_ever_calls_a_person(void **state)
{
    static const char *const pauses[] = {"+999",  "+999",  "+999",   "+999",  "+1599",
                                         "+3199", "+6399", "+12799", "+25599"};

    (void)state;
    tried();
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0, CONFIRM 1");
    happens(&s, "0 done", "");
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        happens(&s, "1 held", "");
        happens(&s, pauses[i], "");
        happens(&s, "+1", "LOOK");
        happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    }
    happens(&s, "1 held", "attention"); /* the tenth time; once */
    happens(&s, "+29999", "");
    happens(&s, "+1", "LOOK");
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    happens(&s, "1 held", "");
    happens(&s, "+30000", "LOOK");
    happens(&s, "journal COMMIT 0s 1s done", "DONE");
}

static void nobody_serves_it_here(void **state)
{
    (void)state;
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal ABORT 3s", "CANCEL 3");
    happens(&s, "3 absent", "stuck");
    assert_int_equal(s.b[0].stuck, RT_STUCK_NO_RESOURCE);
    happens(&s, "+29999", "");
    happens(&s, "serve 3", "LOOK");
    happens(&s, "journal ABORT 3s", "CANCEL 3");
    happens(&s, "3 done", "DONE");
}

static void one_after_the_other(void **state)
{
    (void)state;
    tried();
    s.t.ordered = true;
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0");
    happens(&s, "0 lost", "");
    happens(&s, "+100", "LOOK");
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 0");
    happens(&s, "0 done", "LOOK"); /* that may have taken long */
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    happens(&s, "1 done", "DONE");
    tried();
    s.t.ordered = true;
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s", "CANCEL 1");
    happens(&s, "1 done", "LOOK");
    happens(&s, "journal ABORT 0s 1s", "CANCEL 0");
}

/* resolve --done: whatever step it is at, no service is called after that, by nobody. */
static void what_a_person_has_finished_is_not_called(void **state)
{
    static const char *const failures[] = {"lost", "held", "refused", "absent"};
    char event[32];

    (void)state;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
        for (int commit = 0; commit <= 1; commit++) {
            tried();
            happens(&s, commit ? "commit" : "abort",
                    commit ? "DECIDE COMMIT 0 1" : "told ABORTED, DECIDE ABORT");
            happens(&s, commit ? "journal COMMIT" : "journal ABORT 0s 1s",
                    commit ? "told COMMITTED, CONFIRM 0, CONFIRM 1" : "CANCEL 0, CANCEL 1");
            snprintf(event, sizeof(event), "1 %s", failures[i]);
            happens(&s, event, i < 2 ? "" : "stuck");
            happens(&s, "+30000", "LOOK");
            happens(&s, commit ? "journal COMMIT 0s 1s done" : "journal ABORT 0s 1s done", "");
            happens(&s, "0 lost", ""); /* it was under way */
            happens(&s, "+30000", "LOOK");
            happens(&s, commit ? "journal COMMIT 0s 1s done" : "journal ABORT 0s 1s done", "DONE");
        }
    tried(); /* the second was never called, and never is */
    s.t.ordered = true;
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0");
    happens(&s, "0 lost", "");
    happens(&s, "+100", "LOOK");
    happens(&s, "journal COMMIT 0s 1s done", "DONE");
    story_adopt(&s, 0, false); /* just before recovery took it */
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal COMMIT 3s 4s done", "DONE");
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal ABORT 3s 4s done", "DONE");
}

/* A service in its pause is not called because a look for another one was answered. */
static void each_pause_has_its_own_look(void **state)
{
    (void)state;
    tried();
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0, CONFIRM 1");
    happens(&s, "0 refused", "stuck");
    happens(&s, "1 lost", "");
    happens(&s, "+100", "LOOK");
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 1");
    happens(&s, "1 done", "");
    happens(&s, "+29899", "");
    happens(&s, "+1", "LOOK");
    happens(&s, "journal lost", ""); /* no call without a look */
    happens(&s, "+100", "LOOK");
    happens(&s, "journal COMMIT 0s 1s", "CONFIRM 0");
}

static void who_joined_vouches(void **state)
{
    (void)state;
    story_join(&s);
    happens(&s, "service 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "try 5", "");
    happens(&s, "5 yes", "");
    happens(&s, "vote", "VOUCH");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "VOUCH");
    happens(&s, "journal open", "told PREPARED");
    happens(&s, "+20", "LOOK");
    happens(&s, "journal COMMIT 0 5s", "ended"); /* its beginner confirms */
    happens(&s, "commit", "told COMMITTED");
    story_join(&s); /* what nobody has vouched for is not committed */
    happens(&s, "service 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "try 5", "");
    happens(&s, "5 lost", "");
    happens(&s, "vote", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT", "ended");
    tried(); /* its beginner counts both, and believes only what is vouched for */
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK");
    happens(&s, "journal open 0s 1s 5v", "DECIDE COMMIT 0 1 5");
    assert_int_equal(s.t.registered, 4);
    happens(&s, "journal COMMIT", "told COMMITTED, CONFIRM 0, CONFIRM 1, CONFIRM 5");
    tried();
    happens(&s, "commit", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK");
    happens(&s, "journal open 0s 1s 5s", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT 0s 1s 5s", "CANCEL 0, CANCEL 1, CANCEL 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_yes_is_confirmed),
        cmocka_unit_test(registered_together),
        cmocka_unit_test(no_try_is_left_behind),
        cmocka_unit_test(what_others_settled_is_cancelled),
        cmocka_unit_test(recovery_reads_whom_to_cancel),
        cmocka_unit_test(a_refusal_calls_a_person),
        cmocka_unit_test(at_work_for_ever_calls_a_person),
        cmocka_unit_test(nobody_serves_it_here),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(what_a_person_has_finished_is_not_called),
        cmocka_unit_test(each_pause_has_its_own_look),
        cmocka_unit_test(who_joined_vouches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
