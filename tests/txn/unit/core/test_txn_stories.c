/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of the process that begins a transaction: votes, the decision, what the caller is told (X1 to X5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

static struct story s;

static void two_branches_commit(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "1 yes", "");
    happens(&s, "0 yes", "DECIDE COMMIT 0 1"); /* nobody is told anything before that stands (X2) */
    happens(&s, "journal COMMIT", "told COMMITTED, COMMIT 0, COMMIT 1");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "DONE");
    happens(&s, "journal done", "ended");
    assert_true(rt_txn_next(&s.t) == RT_TXN_NEVER);
}

static void who_waits_is_told_after_phase_two(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit wait", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "COMMIT 0, COMMIT 1");
    happens(&s, "1 done", "");
    happens(&s, "0 done", "told COMMITTED, DONE");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DONE");
    happens(&s, "journal done", "ended");
    story_begin(&s, 2); /* ... or when its patience ends: it is committed all the same */
    happens(&s, "commit wait", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT", "COMMIT 0, COMMIT 1");
    happens(&s, "+5000", "told COMMITTED");
}

static void one_no_is_enough(void **state)
{
    (void)state;
    story_begin(&s, 3);
    happens(&s, "commit", "PREPARE 0, PREPARE 1, PREPARE 2");
    happens(&s, "0 yes", "");
    happens(&s, "1 no", "told ABORTED, DECIDE ABORT");      /* nobody else can write COMMIT */
    happens(&s, "journal ABORT", "ROLLBACK 0, ROLLBACK 1"); /* 2 has not voted: it may be at work */
    happens(&s, "2 yes", "ROLLBACK 2");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "");
    happens(&s, "2 done", "DONE");
    happens(&s, "journal done", "ended");
}

static void a_lost_vote_is_a_no(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 lost", "told ABORTED, DECIDE ABORT");
    happens(&s, "1 yes", "");
    happens(&s, "journal ABORT", "ROLLBACK 0 over, ROLLBACK 1"); /* its connection is of no use */
    happens(&s, "1 done", "");
    happens(&s, "0 absent", "ASK 0 fence"); /* it may be at it still, or be committed by hand */
    happens(&s, "0 absent", "DONE");
    happens(&s, "journal done", "ended");
}

static void a_failed_branch_votes_no(void **state)
{
    (void)state;
    story_begin(&s, 2);
    s.b[1].failed = true;
    happens(&s, "commit",
            "told ABORTED, ROLLBACK 0, ROLLBACK 1"); /* nothing is in doubt: no journal */
    happens(&s, "0 done", "");
    happens(&s, "1 done", "ended");
    story_begin(&s, 1);
    s.b[0].failed = true;
    happens(&s, "commit", "told ABORTED, ROLLBACK 0");
}

static void read_only_branches_drop_out(void **state)
{
    (void)state;
    story_begin(&s, 3);
    happens(&s, "commit", "PREPARE 0, PREPARE 1, PREPARE 2");
    happens(&s, "0 readonly", "");
    happens(&s, "1 yes", "");
    happens(&s, "2 yes", "DECIDE COMMIT 1 2");
    happens(&s, "journal COMMIT 1 2", "told COMMITTED, COMMIT 1, COMMIT 2");
    story_begin(&s, 2); /* all of them: there is nothing to decide */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 readonly", "");
    happens(&s, "1 readonly", "told COMMITTED, ended");
    story_begin(&s, 2); /* ... unless others know the id, and may ask */
    s.t.shared = true;
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 readonly", "");
    happens(&s, "1 readonly", "DECIDE COMMIT");
    happens(&s, "journal COMMIT", "told COMMITTED, DONE");
    story_begin(&s, 0);
    happens(&s, "commit", "told COMMITTED, ended");
}

static void a_lost_decision_is_asked_for_again(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal lost", "");
    happens(&s, "+99", "");
    happens(&s, "+1", "DECIDE COMMIT 0 1");
    happens(&s, "journal lost", "");
    happens(&s, "again", ""); /* late, or doubled: it does nothing */
    happens(&s, "+200", "DECIDE COMMIT 0 1");
    happens(&s, "journal COMMIT 0 1", "told COMMITTED, COMMIT 0, COMMIT 1");
    happens(&s, "again", "");
}

static void what_stands_counts_not_what_was_asked(void **state)
{
    (void)state;
    story_begin(&s, 2); /* stopped for an hour after its votes: recovery was here */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    s.now += 3600000 * STORY_MS;
    happens(&s, "journal ABORT", "told ABORTED, ROLLBACK 0, ROLLBACK 1");
    story_begin(&s, 2); /* the first request was below the floor: it was never committed */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal below", "told ABORTED, ROLLBACK 0, ROLLBACK 1");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "ended"); /* no row: nothing to close */
    story_begin(&s, 2); /* an earlier one may have stood, been done, and been forgotten (X5) */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DECIDE COMMIT 0 1");
    happens(&s, "journal below", "told EXPIRED, ROLLBACK 0, ROLLBACK 1");
}

static void a_silent_journal_is_unknown(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "+5000", "told UNKNOWN");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DECIDE COMMIT 0 1");
    happens(&s, "journal lost", "");
    happens(&s, "+54900", "DECIDE ABORT"); /* its deadline: whichever comes first stands */
    happens(&s, "journal COMMIT 0 1", "COMMIT 0, COMMIT 1"); /* the first did */
}

static void after_its_deadline_it_is_aborted(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "+60000", "ROLLBACK 0, ROLLBACK 1"); /* nobody has asked: nobody is told */
    happens(&s, "commit", "told ABORTED");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "ended");
    story_begin(&s, 2);
    s.now += 60000 * STORY_MS; /* it did not run meanwhile */
    happens(&s, "commit", "told ABORTED, ROLLBACK 0, ROLLBACK 1");
    story_begin(&s, 2);
    s.now += 57000 * STORY_MS;
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "+3000", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 0");
    happens(&s, "1 lost", "ROLLBACK 1 over");
    story_begin(&s, 2); /* the caller's patience ends first: nobody decided, so it is ABORT */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "+5000", "told ABORTED, DECIDE ABORT");
}

static void abort_needs_the_journal_only_in_doubt(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "abort", "told ABORTED, ROLLBACK 0, ROLLBACK 1");
    happens(&s, "0 done", "");
    happens(&s, "1 done", "ended");
    story_begin(&s, 2); /* others may have joined, and prepared */
    s.t.shared = true;
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 0, ROLLBACK 1");
    story_begin(&s, 2);
    happens(&s, "+60000", "ROLLBACK 0, ROLLBACK 1");
    happens(&s, "abort", "told ABORTED");
}

static void one_branch_commits_in_one_phase(void **state)
{
    (void)state;
    story_begin(&s, 1);
    happens(&s, "commit", "ONE_PHASE 0");
    happens(&s, "0 done", "told COMMITTED, ended");
    story_begin(&s, 1);
    happens(&s, "commit", "ONE_PHASE 0");
    happens(&s, "0 no", "told ABORTED, ROLLBACK 0");
    happens(&s, "0 done", "ended");
    story_begin(&s, 1); /* whoever knows the id may ask the journal for it */
    s.t.shared = true;
    happens(&s, "commit", "PREPARE 0");
    happens(&s, "0 yes", "DECIDE COMMIT 0");
}

static void a_lost_one_phase_is_asked_for(void **state)
{
    (void)state;
    story_begin(&s, 1);
    happens(&s, "commit", "ONE_PHASE 0");
    happens(&s, "0 lost", "");
    happens(&s, "+100", "ASK 0 fence");
    happens(&s, "0 lost", "");
    happens(&s, "+200", "ASK 0 fence");
    happens(&s, "0 committed", "told COMMITTED, ended");
    story_begin(&s, 1);
    happens(&s, "commit", "ONE_PHASE 0");
    happens(&s, "+5000", "told UNKNOWN");
    happens(&s, "0 lost", "");
    happens(&s, "+100", "ASK 0 fence");
    happens(&s, "0 absent", "LOOK"); /* no marker: was there none, or was it cleaned away? */
    happens(&s, "journal lost", "");
    happens(&s, "+100", "LOOK");
    happens(&s, "journal open", "ended");
    assert_int_equal(s.t.outcome, RT_OUTCOME_ABORTED);
    story_begin(&s, 1);
    happens(&s, "commit", "ONE_PHASE 0");
    happens(&s, "0 lost", "");
    happens(&s, "+100", "ASK 0 fence");
    happens(&s, "0 absent", "LOOK");
    happens(&s, "journal below", "told EXPIRED, ended");
}

static void others_have_joined(void **state)
{
    (void)state;
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK"); /* more are registered than we list */
    happens(&s, "journal lost", "");
    happens(&s, "+100", "LOOK");
    happens(&s, "journal open 5", "ASK 5");
    happens(&s, "5 lost", "");
    happens(&s, "+100", "ASK 5");
    happens(&s, "5 prepared", "DECIDE COMMIT 0 1 5");
    happens(&s, "journal COMMIT", "told COMMITTED, COMMIT 0, COMMIT 1, COMMIT 5 over");
    story_begin(&s, 2);
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK");
    happens(&s, "journal open 5", "ASK 5");
    happens(&s, "5 absent", "told ABORTED, DECIDE ABORT"); /* it has not prepared */
    happens(&s, "journal ABORT", "ROLLBACK 0, ROLLBACK 1, ROLLBACK 5 over");
    story_begin(&s, 2); /* somebody decides meanwhile */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK");
    happens(&s, "journal ABORT", "DECIDE ABORT");
    happens(&s, "journal ABORT", "told ABORTED, ROLLBACK 0, ROLLBACK 1");
    story_begin(&s, 2); /* what is registered is our own: known now, so it counts */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK");
    happens(&s, "journal open 1", "DECIDE COMMIT 0 1");
    assert_int_equal(s.t.registered, 1);
    story_begin(&s, 2); /* the caller's patience ends while we look */
    happens(&s, "commit", "PREPARE 0, PREPARE 1");
    happens(&s, "0 yes", "");
    happens(&s, "1 yes", "DECIDE COMMIT 0 1");
    happens(&s, "journal open", "LOOK");
    happens(&s, "+5000", "told ABORTED");
    happens(&s, "journal open 5", "DECIDE ABORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_branches_commit),
        cmocka_unit_test(who_waits_is_told_after_phase_two),
        cmocka_unit_test(one_no_is_enough),
        cmocka_unit_test(a_lost_vote_is_a_no),
        cmocka_unit_test(a_failed_branch_votes_no),
        cmocka_unit_test(read_only_branches_drop_out),
        cmocka_unit_test(a_lost_decision_is_asked_for_again),
        cmocka_unit_test(what_stands_counts_not_what_was_asked),
        cmocka_unit_test(a_silent_journal_is_unknown),
        cmocka_unit_test(after_its_deadline_it_is_aborted),
        cmocka_unit_test(abort_needs_the_journal_only_in_doubt),
        cmocka_unit_test(one_branch_commits_in_one_phase),
        cmocka_unit_test(a_lost_one_phase_is_asked_for),
        cmocka_unit_test(others_have_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
