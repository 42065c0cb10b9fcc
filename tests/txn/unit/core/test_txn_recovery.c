/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: what it may touch (X6), and stories of what it finishes for others (X3, X4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"
#include "txn/core/sweep.h"

static struct story s;

static void an_orphan_is_aborted_before_it_is_touched(void **state)
{
    (void)state;
    story_adopt(&s, 2, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal lost", "");
    happens(&s, "+100", "DECIDE ABORT");
    happens(&s, "journal ABORT", "ROLLBACK 0 over, ROLLBACK 1 over");
    happens(&s, "0 done", "");
    happens(&s, "1 absent", "ASK 1");
    happens(&s, "1 absent", "DONE");
    happens(&s, "journal done", "ended"); /* and nobody is told: nobody has asked */
}

static void an_orphan_that_was_committed_is_committed(void **state)
{
    (void)state;
    story_adopt(&s, 1, false); /* branch 0 was found; the decision lists 1 and 2 beside it */
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal COMMIT 0 1 2", "COMMIT 0 over, COMMIT 1 over, COMMIT 2 over");
    happens(&s, "0 done", "");
    happens(&s, "2 done", "");
    happens(&s, "1 absent", "ASK 1");
    happens(&s, "1 committed", "DONE");
    assert_int_equal(s.t.outcome, RT_OUTCOME_COMMITTED);
}

static void who_joined_too_late_is_rolled_back(void **state)
{
    (void)state;
    story_adopt(&s, 2, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal COMMIT 0", "COMMIT 0 over, ROLLBACK 1 over");
}

static void below_the_floor_nothing_can_stand(void **state)
{
    (void)state;
    story_adopt(&s, 1, false);
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal below", "ROLLBACK 0 over");
    happens(&s, "0 done", "ended");
    story_adopt(&s, 1, false); /* or it stood, was done, and is forgotten: that is not mixed */
    rt_txn_settle(&s.t, RT_DECISION_NONE, NULL, 0, s.now);
    happens(&s, "", "DECIDE ABORT");
    happens(&s, "journal below", "ROLLBACK 0 over");
    happens(&s, "0 absent", "ASK 0");
    happens(&s, "0 committed", "ended");
}

static void what_the_journal_has_is_finished(void **state)
{
    (void)state;
    const struct rt_txn_part parts[] = {{.number = 0, .resource = 0, .gated = true},
                                        {.number = 3, .resource = 3, .gated = false}};
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_COMMIT, parts, 2, s.now);
    happens(&s, "", "GATE 0, COMMIT 3 over");
    assert_int_equal(s.t.outcome, RT_OUTCOME_COMMITTED);
    happens(&s, "3 done", "");
    happens(&s, "0 held", ""); /* its owner lives, and may be about to do it */
    happens(&s, "+100", "GATE 0");
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_ABORT, parts + 1, 1, s.now);
    happens(&s, "", "ROLLBACK 3 over");
    happens(&s, "3 done", "DONE");
    story_adopt(&s, 0, false); /* presumed: it lists nobody */
    rt_txn_settle(&s.t, RT_DECISION_ABORT, NULL, 0, s.now);
    happens(&s, "", "DONE");
}

static void a_resource_that_is_not_known_is_told(void **state)
{
    (void)state;
    const struct rt_txn_part parts[] = {{.number = 0, .resource = RT_BRANCH_NO_RESOURCE},
                                        {.number = 1, .resource = 1, .gated = false}};
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_COMMIT, parts, 2, s.now);
    happens(&s, "", "COMMIT 1 over, stuck");
    happens(&s, "1 done", ""); /* not skipped: it is not done */
    assert_int_equal(s.b[0].stuck, RT_STUCK_NO_RESOURCE);
    happens(&s, "+29999", "");
    happens(&s, "+1", "LOOK"); /* a person may have finished it */
    happens(&s, "journal COMMIT 0 1", "");
    happens(&s, "+30000", "LOOK");
    happens(&s, "journal COMMIT 0 1 done", "DONE");
    story_adopt(&s, 0, false);
    rt_txn_settle(&s.t, RT_DECISION_COMMIT, parts, 2, s.now);
    happens(&s, "", "COMMIT 1 over, stuck");
    rt_branch_moved(&s.b[0], 7, s.now); /* its URL is known now */
    assert_int_equal(s.b[0].stuck, RT_STUCK_NOT);
    happens(&s, "", "LOOK");
    happens(&s, "journal COMMIT 0 1", "COMMIT 0 over");
    happens(&s, "0 done", "");
    rt_branch_moved(&s.b[1], 1, s.now); /* another URL while it is asked */
    happens(&s, "1 lost", "COMMIT 1 over");
    happens(&s, "1 lost", "");
    happens(&s, "+100", "COMMIT 1 over");
}

/* ---- What it may touch -------------------------------------------------- */

#define APART (1000 * STORY_MS)

static struct rt_seen seen[2];
static struct rt_sweep sweep;
static int64_t now;

static struct rt_name name_of(uint32_t journal, uint64_t random)
{
    return (struct rt_name){.id = rt_txn_id_make(journal, 5000, random), .deadline_ms = 65000};
}

static enum rt_verdict judge(uint64_t random, bool decided, int64_t wall_ms)
{
    struct rt_name name = name_of(7, random);
    return rt_sweep_judge(&sweep, &name, decided, now, wall_ms);
}

static int sweep_anew(void **state)
{
    (void)state;
    now = 0;
    rt_sweep_init(&sweep, 7, 100, APART, seen, 2);
    rt_sweep_pass(&sweep);
    return 0;
}

static void others_are_left_alone(void **state)
{
    struct rt_name name = name_of(8, 1);
    (void)state;
    for (int i = 0; i < 3; i++, now += APART, rt_sweep_pass(&sweep))
        assert_int_equal(rt_sweep_judge(&sweep, &name, true, now, 1 << 20), RT_SWEEP_FOREIGN);
}

static void the_young_are_left_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++, now += APART, rt_sweep_pass(&sweep))
        assert_int_equal(judge(1, false, 65099), RT_SWEEP_YOUNG); /* clocks differ by 100 ms */
    assert_int_equal(judge(1, false, 65100), RT_SWEEP_ONCE);      /* from now on it counts */
    now += APART;
    assert_int_equal(judge(1, false, 65100), RT_SWEEP_ONCE); /* the same pass */
    rt_sweep_pass(&sweep);
    assert_int_equal(judge(1, false, 65100), RT_SWEEP_SETTLE);
}

static void it_is_seen_in_two_passes(void **state)
{
    (void)state;
    assert_int_equal(judge(1, true, 0), RT_SWEEP_ONCE); /* decided: whatever its deadline is */
    now += APART - 1;
    rt_sweep_pass(&sweep);
    assert_int_equal(judge(1, true, 0), RT_SWEEP_ONCE); /* too soon after the first */
    now += 1;
    assert_int_equal(judge(1, true, 0), RT_SWEEP_SETTLE);
    assert_int_equal(judge(2, true, 0), RT_SWEEP_ONCE); /* each by itself */
}

static void what_is_gone_is_forgotten(void **state)
{
    (void)state;
    assert_int_equal(judge(1, true, 0), RT_SWEEP_ONCE);
    now += APART;
    rt_sweep_pass(&sweep); /* one that failed */
    rt_sweep_pass(&sweep);
    assert_int_equal(judge(1, true, 0), RT_SWEEP_SETTLE);
    for (int i = 0; i < 3; i++)
        rt_sweep_pass(&sweep);
    assert_int_equal(judge(1, true, 0), RT_SWEEP_ONCE);
}

static void without_room_it_waits(void **state)
{
    (void)state;
    assert_int_equal(judge(1, true, 0), RT_SWEEP_ONCE);
    assert_int_equal(judge(2, true, 0), RT_SWEEP_ONCE);
    now += APART;
    rt_sweep_pass(&sweep);
    assert_int_equal(judge(3, true, 0), RT_SWEEP_ONCE);
    assert_int_equal(judge(1, true, 0), RT_SWEEP_SETTLE);
    now += APART;
    rt_sweep_pass(&sweep);
    assert_int_equal(judge(3, true, 0), RT_SWEEP_ONCE); /* nobody remembers it */
    rt_sweep_pass(&sweep);                              /* 2 is forgotten */
    assert_int_equal(judge(3, true, 0), RT_SWEEP_ONCE);
    now += APART;
    rt_sweep_pass(&sweep);
    assert_int_equal(judge(3, true, 0), RT_SWEEP_SETTLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_orphan_is_aborted_before_it_is_touched),
        cmocka_unit_test(an_orphan_that_was_committed_is_committed),
        cmocka_unit_test(who_joined_too_late_is_rolled_back),
        cmocka_unit_test(below_the_floor_nothing_can_stand),
        cmocka_unit_test(what_the_journal_has_is_finished),
        cmocka_unit_test(a_resource_that_is_not_known_is_told),
        cmocka_unit_test_setup(others_are_left_alone, sweep_anew),
        cmocka_unit_test_setup(the_young_are_left_alone, sweep_anew),
        cmocka_unit_test_setup(it_is_seen_in_two_passes, sweep_anew),
        cmocka_unit_test_setup(what_is_gone_is_forgotten, sweep_anew),
        cmocka_unit_test_setup(without_room_it_waits, sweep_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
