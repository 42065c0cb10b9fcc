/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of a process that joins a transaction: branches registered before they begin, a vote, and another process's
 * decision (X1 to X5, X8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

static struct story s;

/* Branches 5 and 6 are registered and at work. */
static void joined(void)
{
    story_join(&s);
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "add 6", "REGISTER 6");
    happens(&s, "journal open", "");
    assert_int_equal(s.b[0].state, RT_BRANCH_ACTIVE);
    assert_int_equal(s.b[1].state, RT_BRANCH_ACTIVE);
}

/* ... and have prepared. */
static void prepared(void)
{
    joined();
    happens(&s, "vote", "PREPARE 5 stays, PREPARE 6 stays");
    happens(&s, "6 yes", "");
    happens(&s, "5 yes", "told PREPARED");
}

static void a_yes_waits_for_the_decision(void **state)
{
    (void)state;
    prepared();
    happens(&s, "+20", "LOOK");
    happens(&s, "journal open 5 6", "");
    happens(&s, "+40", "LOOK");
    happens(&s, "journal COMMIT 0 1 5 6", "COMMIT 5, COMMIT 6"); /* its own only */
    assert_int_equal(s.t.count, 2);
    happens(&s, "5 done", "");
    happens(&s, "6 done", "ended"); /* DONE is another's to write: it does not know 0 and 1 (X8) */
    assert_int_equal(s.t.outcome, RT_OUTCOME_COMMITTED);
    happens(&s, "commit", "told COMMITTED");
    prepared();
    happens(&s, "+20", "LOOK");
    happens(&s, "journal ABORT", "ROLLBACK 5, ROLLBACK 6");
    happens(&s, "commit", "told ABORTED");
    happens(&s, "5 done", "");
    happens(&s, "6 done", "ended");
}

static void nothing_begins_before_it_is_registered(void **state)
{
    (void)state;
    story_join(&s);
    happens(&s, "add 5", "REGISTER 5");
    assert_int_equal(s.b[0].state, RT_BRANCH_JOINING);
    happens(&s, "journal lost", "");
    assert_int_equal(s.b[0].state, RT_BRANCH_JOINING);
    happens(&s, "+100", "REGISTER 5"); /* twice is as good as once */
    happens(&s, "add 6", "");          /* one at a time */
    happens(&s, "journal open", "REGISTER 6");
    happens(&s, "again", "");
    assert_int_equal(s.b[0].state, RT_BRANCH_ACTIVE);
    assert_int_equal(s.b[1].state, RT_BRANCH_JOINING);
    happens(&s, "vote", "told ABORTED"); /* a branch that is not there has not voted */
    happens(&s, "journal open", "DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 5"); /* of 6 nobody has heard */
    happens(&s, "5 done", "ended");
}

static void who_comes_too_late_is_told(void **state)
{
    (void)state;
    story_join(&s); /* committed without us */
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal COMMIT 0 1", "ended");
    assert_int_equal(s.t.outcome, RT_OUTCOME_LATE);
    happens(&s, "vote", "told LATE");
    happens(&s, "commit", "told LATE");
    story_join(&s);
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "add 6", "REGISTER 6");
    happens(&s, "journal ABORT", "ROLLBACK 5"); /* nothing is prepared: no doubt, no journal */
    happens(&s, "abort", "told ABORTED");
    happens(&s, "5 done", "ended");
    story_join(&s);
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal below", "ended");
    happens(&s, "vote", "told EXPIRED");
    story_join(&s); /* it does not know whether it is in, and gives up: it was not */
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "vote", "");
    happens(&s, "journal lost", "DECIDE ABORT");
    happens(&s, "journal COMMIT 0 1", "told LATE, ended");
}

static void a_no_is_written_down(void **state)
{
    (void)state;
    joined(); /* so that the beginner learns of it, and before the prepared is rolled back (X3) */
    happens(&s, "vote", "PREPARE 5 stays, PREPARE 6 stays");
    happens(&s, "5 yes", "");
    happens(&s, "6 no", "told ABORTED, DECIDE ABORT"); /* a committer would have to find 6 */
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 5, ROLLBACK 6");
    happens(&s, "5 done", "");
    happens(&s, "6 done", "ended");
    joined();
    s.b[0].failed = true;
    happens(&s, "vote", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 5, ROLLBACK 6");
    joined();
    happens(&s, "abort", "told ABORTED, DECIDE ABORT");
    joined();
    happens(&s, "+60000", "DECIDE ABORT"); /* its deadline */
    happens(&s, "vote", "told ABORTED");
    joined(); /* after a yes: if nothing stands yet */
    happens(&s, "vote", "PREPARE 5 stays, PREPARE 6 stays");
    happens(&s, "6 yes", "");
    happens(&s, "5 yes", "told PREPARED");
    happens(&s, "abort", "DECIDE ABORT");
    happens(&s, "journal COMMIT 5 6", "told COMMITTED, COMMIT 5, COMMIT 6");
}

static void a_lost_vote_may_have_been_heard(void **state)
{
    (void)state;
    story_join(&s);
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "vote", "PREPARE 5 stays");
    happens(&s, "5 lost", "DECIDE ABORT"); /* nobody is told: it may be prepared, and found so */
    happens(&s, "journal ABORT", "told ABORTED, ROLLBACK 5 over");
    story_join(&s);
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "vote", "PREPARE 5 stays");
    happens(&s, "5 lost", "DECIDE ABORT");
    happens(&s, "journal COMMIT 0 5", "told COMMITTED, COMMIT 5 over");
    story_join(&s); /* its caller's patience ends before the vote has come */
    happens(&s, "add 5", "REGISTER 5");
    happens(&s, "journal open", "");
    happens(&s, "vote", "PREPARE 5 stays");
    happens(&s, "+5000", "told UNKNOWN, DECIDE ABORT");
    happens(&s, "journal COMMIT 0 5", ""); /* it was found prepared: that is its vote */
    happens(&s, "5 yes", "COMMIT 5");
    happens(&s, "5 done", "ended");
}

static void silence_is_no_decision(void **state)
{
    (void)state;
    prepared();
    for (int i = 0; i < 5; i++) {
        s.now += 1000 * STORY_MS;
        happens(&s, "", "LOOK");
        happens(&s, "journal open 5 6", "");
    }
    happens(&s, "+499", ""); /* 20 ms, doubling, at most 500 */
    happens(&s, "+1", "LOOK");
    happens(&s, "journal lost", "");
    happens(&s, "+99", "");
    happens(&s, "+1", "LOOK");
    happens(&s, "+60000", ""); /* a look waits for that */
    happens(&s, "journal open 5 6", "DECIDE ABORT");
    happens(&s, "journal COMMIT 5 6", "COMMIT 5, COMMIT 6"); /* what stands counts */
    prepared(); /* nobody is there any more: anybody may abort, long after the deadline */
    happens(&s, "+64999", "LOOK");
    happens(&s, "+1", "");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 5, ROLLBACK 6");
}

static void what_is_forgotten_is_told_as_expired(void **state)
{
    (void)state;
    prepared(); /* stopped for an hour: decided, done and forgotten; if it was COMMIT, 5 and 6 are (X9) */
    s.now += 3600000 * STORY_MS;
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal below", "ROLLBACK 5, ROLLBACK 6");
    assert_int_equal(s.t.outcome, RT_OUTCOME_EXPIRED);
    happens(&s, "5 absent", "ASK 5");
    happens(&s, "5 committed", ""); /* nobody knows better: nothing is wrong */
    happens(&s, "6 absent", "ASK 6");
    happens(&s, "6 absent", "ended");
    happens(&s, "commit", "told EXPIRED");
    joined(); /* what was registered and never prepared was not committed: that is known */
    s.now += 3600000 * STORY_MS;
    happens(&s, "vote", "told ABORTED, DECIDE ABORT");
    happens(&s, "journal below", "ROLLBACK 5, ROLLBACK 6");
}

static void both_end_the_same_branch(void **state)
{
    (void)state;
    prepared();
    happens(&s, "commit wait", "");
    happens(&s, "+20", "LOOK");
    happens(&s, "journal COMMIT 5 6", "COMMIT 5, COMMIT 6");
    happens(&s, "5 absent", "ASK 5"); /* its beginner was first: the marker tells */
    happens(&s, "5 committed", "");
    happens(&s, "6 absent", "ASK 6");
    happens(&s, "6 absent", "LOOK"); /* ... or it is done, and the marker cleaned away */
    happens(&s, "journal COMMIT 5 6 done", "told COMMITTED, ended");
    prepared(); /* never taken for a commit (X8) */
    happens(&s, "+20", "LOOK");
    happens(&s, "journal COMMIT 5 6", "COMMIT 5, COMMIT 6");
    happens(&s, "6 done", "");
    happens(&s, "5 absent", "ASK 5");
    happens(&s, "5 absent", "LOOK");
    happens(&s, "journal COMMIT 5 6", "stuck");
    happens(&s, "+30000", "ASK 5");
    happens(&s, "5 prepared", "");
    happens(&s, "+100", "COMMIT 5");
}

static void commit_votes_and_waits(void **state)
{
    (void)state;
    joined();
    happens(&s, "commit", "PREPARE 5 stays, PREPARE 6 stays");
    happens(&s, "5 yes", "");
    happens(&s, "6 yes", "");
    happens(&s, "+20", "LOOK");
    happens(&s, "journal COMMIT 5 6", "told COMMITTED, COMMIT 5, COMMIT 6");
    prepared();
    happens(&s, "commit", "");
    happens(&s, "+20", "LOOK");
    happens(&s, "journal lost", "");
    happens(&s, "+5000", "told UNKNOWN, LOOK"); /* and goes on */
    happens(&s, "journal COMMIT 5 6", "COMMIT 5, COMMIT 6");
    happens(&s, "5 done", "");
    happens(&s, "6 done", "ended");
    story_join(&s); /* without branches it waits too: its caller wants to know */
    happens(&s, "vote", "told PREPARED");
    happens(&s, "+20", "LOOK");
    happens(&s, "journal COMMIT", "ended");
    assert_int_equal(s.t.outcome, RT_OUTCOME_COMMITTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_yes_waits_for_the_decision),
        cmocka_unit_test(nothing_begins_before_it_is_registered),
        cmocka_unit_test(who_comes_too_late_is_told),
        cmocka_unit_test(a_no_is_written_down),
        cmocka_unit_test(a_lost_vote_may_have_been_heard),
        cmocka_unit_test(silence_is_no_decision),
        cmocka_unit_test(what_is_forgotten_is_told_as_expired),
        cmocka_unit_test(both_end_the_same_branch),
        cmocka_unit_test(commit_votes_and_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
