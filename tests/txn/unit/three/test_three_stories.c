/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of three-phase commit in virtual time: one participant and a coordinator; what happens, and what they do in
 * turn. docs/transactions/three-phase.md cites them by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "txn/three/coordinator.h"
#include "txn/three/participant.h"

#define MS INT64_C(1000000)
#define WALL INT64_C(1800000000000)
#define T1 (1000 * MS)
#define T2 (3000 * MS)

static struct rt_participant p;
static struct rt_coordinator c;
static struct rt_coordinator_part parts[2];
static int64_t now;
static uint32_t local_seq, round_seq, part_seq[2], journal_seq;
static char said[512];

static const char *const ops[] = {"", "WRITE", "WORK", "COMMIT", "ROLLBACK", "LOOK", "ASK"};
static const char *const stances[] = {"NONE", "WAIT", "PRECOMMITTED", "COMMITTED", "ABORTED"};
static const char *const asks[] = {"", "CAN", "PRE", "DO", "NO"};

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    size_t used = strlen(said);
    va_list args;
    if (used > 0)
        used += (size_t)snprintf(said + used, sizeof(said) - used, ", ");
    va_start(args, format);
    vsnprintf(said + used, sizeof(said) - used, format, args);
    va_end(args);
}

static void participant_does(void)
{
    struct rt_participant_todo todo;
    said[0] = '\0';
    while (rt_participant_todo(&p, &todo, WALL + now / MS, now)) {
        if (todo.op == RT_PARTICIPANT_WRITE)
            say("%s %s", ops[todo.op], stances[todo.row.stand.stance]);
        else if (todo.op == RT_PARTICIPANT_ASK)
            say("%s %u", ops[todo.op], todo.whom);
        else
            say("%s", ops[todo.op]);
        if (todo.op == RT_PARTICIPANT_ASK)
            round_seq = todo.seq;
        else
            local_seq = todo.seq;
    }
    uint32_t news = rt_participant_news(&p);
    static const char *const names[] = {"mixed", "blocked", "attention", "over", "alone"};
    for (uint32_t i = 0; i < 5; i++)
        if ((news >> i & 1) != 0)
            say("%s", names[i]);
}

static void is(const char *expected)
{
    assert_string_equal(said, expected);
}

static void asked(enum rt_three_ask ask, const char *expected)
{
    rt_participant_asked(&p, ask, now);
    participant_does();
    is(expected);
}

static void did(enum rt_reply reply, const char *expected)
{
    rt_participant_did(&p, local_seq, reply, now);
    participant_does();
    is(expected);
}

static void heard(uint32_t whom, enum rt_stance stance, const char *expected)
{
    rt_participant_heard(&p, whom, round_seq, stance, now);
    participant_does();
    is(expected);
}

static void later(int64_t ms, const char *expected)
{
    now += ms * MS;
    participant_does();
    is(expected);
}

static void stands(enum rt_stance stance, enum rt_how how)
{
    assert_int_equal(rt_participant_stand(&p).stance, stance);
    assert_int_equal(rt_participant_stand(&p).how, how);
}

static void begin(bool textbook)
{
    now = 1000 * MS;
    rt_participant_init(&p, 2, textbook, T1, T2);
}

static void promised(bool textbook)
{
    begin(textbook);
    asked(RT_THREE_CAN, "WRITE WAIT");
    stands(RT_STANCE_NONE, RT_HOW_NONE); /* not before the row is durable (H4) */
    did(RT_REPLY_DONE, "");
    stands(RT_STANCE_WAIT, RT_HOW_NONE);
}

static void precommitted(bool textbook)
{
    promised(textbook);
    asked(RT_THREE_PRE, "WORK");
    did(RT_REPLY_YES, "WRITE PRECOMMITTED");
    stands(RT_STANCE_WAIT, RT_HOW_NONE);
    did(RT_REPLY_DONE, "");
    stands(RT_STANCE_PRECOMMITTED, RT_HOW_NONE);
}

/* ---- A participant ------------------------------------------------------------ */

static void as_it_should_be(void **state)
{
    (void)state;
    precommitted(false);
    asked(RT_THREE_DO, "WRITE COMMITTED");
    did(RT_REPLY_DONE, "COMMIT");
    did(RT_REPLY_DONE, "WRITE COMMITTED");
    did(RT_REPLY_DONE, "over");
    stands(RT_STANCE_COMMITTED, RT_HOW_TOLD);
    asked(RT_THREE_PRE, ""); /* late, doubled: nothing is undone */
    asked(RT_THREE_CAN, "");
    asked(RT_THREE_DO, "");
    stands(RT_STANCE_COMMITTED, RT_HOW_TOLD);
}

static void a_promise_ends_by_itself(void **state)
{
    (void)state;
    promised(false);
    later(999, "");
    later(1, "ASK 0, ASK 1, ASK 2");
    heard(0, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_PRECOMMITTED, "");
    heard(2, RT_STANCE_NONE, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
    stands(RT_STANCE_ABORTED, RT_HOW_TIMEOUT);
    asked(RT_THREE_PRE, ""); /* and is not kept any more */
    stands(RT_STANCE_ABORTED, RT_HOW_TIMEOUT);
}

static void a_promise_is_kept_while_the_coordinator_is_undecided(void **state)
{
    (void)state;
    promised(false);
    later(1000, "ASK 0, ASK 1, ASK 2");
    heard(0, RT_STANCE_WAIT, "");
    heard(1, RT_STANCE_WAIT, "");
    heard(2, RT_STANCE_WAIT, "");
    stands(RT_STANCE_WAIT, RT_HOW_NONE);
    later(100, "ASK 0, ASK 1, ASK 2");
    asked(RT_THREE_PRE, "WORK");
}

static void an_abort_before_the_promise_stays(void **state)
{
    (void)state;
    begin(false);
    asked(RT_THREE_NO, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
    asked(RT_THREE_CAN, ""); /* it was late */
    stands(RT_STANCE_ABORTED, RT_HOW_TOLD);
}

static void work_that_fails_is_a_no(void **state)
{
    (void)state;
    promised(false);
    asked(RT_THREE_PRE, "WORK");
    did(RT_REPLY_NO, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
    stands(RT_STANCE_ABORTED, RT_HOW_FAILED);
    promised(false);
    asked(RT_THREE_PRE, "WORK");
    did(RT_REPLY_LOST, "WRITE ABORTED"); /* it may be prepared */
    did(RT_REPLY_DONE, "ROLLBACK");
    did(RT_REPLY_LOST, "");
    later(100, "ROLLBACK");
    did(RT_REPLY_ABSENT, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
}

static void a_lost_write_is_written_again(void **state)
{
    (void)state;
    begin(false);
    asked(RT_THREE_CAN, "WRITE WAIT");
    did(RT_REPLY_LOST, "");
    stands(RT_STANCE_NONE, RT_HOW_NONE);
    later(100, "WRITE WAIT");
    did(RT_REPLY_DONE, "");
    stands(RT_STANCE_WAIT, RT_HOW_NONE);
}

/* Nobody is there: on_timeout = block waits for as long as it takes. */
static void block_waits(void **state)
{
    (void)state;
    precommitted(false);
    later(3000, "ASK 0, LOOK, ASK 1, ASK 2");
    heard(0, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_PRECOMMITTED, "");
    heard(2, RT_STANCE_NONE, "");
    did(RT_REPLY_PREPARED, "blocked");
    for (int i = 0; i < 200; i++) { /* more than an hour and a half */
        now += 30000 * MS;
        participant_does();
        is("ASK 0, LOOK, ASK 1, ASK 2");
        heard(0, RT_STANCE_NONE, "");
        heard(1, RT_STANCE_NONE, "");
        heard(2, RT_STANCE_NONE, "");
        rt_participant_did(&p, local_seq, RT_REPLY_PREPARED, now);
        participant_does();
    }
    stands(RT_STANCE_PRECOMMITTED, RT_HOW_NONE);
    later(30000, "ASK 0, LOOK, ASK 1, ASK 2");
    heard(0, RT_STANCE_ABORTED, ""); /* the coordinator is back; LOOK is under way */
    did(RT_REPLY_PREPARED, "WRITE ABORTED");
    did(RT_REPLY_DONE, "ROLLBACK");
    did(RT_REPLY_DONE, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
}

/* ... and on_timeout = commit does not, and is told that it was wrong. */
static void commit_commits_alone(void **state)
{
    (void)state;
    precommitted(true);
    later(3000, "ASK 0, LOOK, ASK 1, ASK 2");
    heard(0, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_PRECOMMITTED, "");
    heard(2, RT_STANCE_NONE, "");
    did(RT_REPLY_PREPARED, "WRITE COMMITTED, alone");
    did(RT_REPLY_DONE, "COMMIT");
    did(RT_REPLY_DONE, "WRITE COMMITTED");
    stands(RT_STANCE_COMMITTED, RT_HOW_TIMEOUT);
    did(RT_REPLY_DONE, "ASK 0, ASK 1, ASK 2"); /* it does not know: it asks on */
    heard(2, RT_STANCE_ABORTED, "");
    heard(0, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_COMMITTED, "WRITE COMMITTED, mixed");
    did(RT_REPLY_DONE, "");
    assert_true(rt_participant_stand(&p).mixed);
    later(100, "ASK 0, ASK 1, ASK 2");
    heard(0, RT_STANCE_ABORTED, "WRITE COMMITTED");
    did(RT_REPLY_DONE, "over"); /* known, and still mixed: the row stays */
    assert_true(rt_participant_stand(&p).mixed);
}

static void peers_know(void **state)
{
    (void)state;
    precommitted(false);
    later(3000, "ASK 0, LOOK, ASK 1, ASK 2");
    did(RT_REPLY_PREPARED, "");
    heard(0, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_PRECOMMITTED, "");
    heard(2, RT_STANCE_ABORTED, "WRITE ABORTED");
    did(RT_REPLY_DONE, "ROLLBACK");
    did(RT_REPLY_DONE, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
    stands(RT_STANCE_ABORTED, RT_HOW_PEER);
    precommitted(false);
    later(3000, "ASK 0, LOOK, ASK 1, ASK 2");
    did(RT_REPLY_PREPARED, "");
    heard(2, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_COMMITTED, "");
    heard(0, RT_STANCE_NONE, "WRITE COMMITTED");
    did(RT_REPLY_DONE, "COMMIT");
}

/* A peer that waits will abort: on_timeout = commit does not commit over it. */
static void commit_waits_for_who_waits(void **state)
{
    (void)state;
    precommitted(true);
    later(3000, "ASK 0, LOOK, ASK 1, ASK 2");
    did(RT_REPLY_PREPARED, "");
    heard(0, RT_STANCE_NONE, "");
    heard(1, RT_STANCE_WAIT, "");
    heard(2, RT_STANCE_NONE, "blocked");
    stands(RT_STANCE_PRECOMMITTED, RT_HOW_NONE);
}

/* Recovery ended its branch: the participant finds that out at its own database. */
static void recovery_is_seen(void **state)
{
    (void)state;
    precommitted(false);
    later(3000, "ASK 0, LOOK, ASK 1, ASK 2");
    did(RT_REPLY_COMMITTED, "WRITE COMMITTED");
    did(RT_REPLY_DONE, "ASK 0, ASK 1, ASK 2");
    stands(RT_STANCE_COMMITTED, RT_HOW_ELSEWHERE);
    heard(0, RT_STANCE_COMMITTED, "WRITE COMMITTED");
    did(RT_REPLY_DONE, "over");
    assert_false(rt_participant_stand(&p).mixed);
}

static void after_a_restart(void **state)
{
    (void)state;
    precommitted(false);
    struct rt_promise row = p.kept;
    rt_participant_init(&p, 2, false, T1, T2);
    rt_participant_restore(&p, &row, WALL + now / MS, now);
    later(2999, "");
    later(1, "ASK 0, LOOK, ASK 1, ASK 2");
    promised(false);
    row = p.kept;
    rt_participant_init(&p, 2, false, T1, T2);
    rt_participant_restore(&p, &row, WALL + now / MS, now);
    later(0, "WRITE ABORTED"); /* it may have died at its work */
    did(RT_REPLY_DONE, "ROLLBACK");
    did(RT_REPLY_ABSENT, "WRITE ABORTED");
    did(RT_REPLY_DONE, "over");
    stands(RT_STANCE_ABORTED, RT_HOW_RESTART);
}

/* ---- A coordinator -------------------------------------------------------------- */

static void coordinator_does(void)
{
    struct rt_coordinator_todo todo;
    said[0] = '\0';
    while (rt_coordinator_todo(&c, &todo, now)) {
        if (todo.op == RT_COORDINATOR_TELL) {
            say("%s %u", asks[todo.ask], todo.whom);
            part_seq[todo.whom] = todo.seq;
        } else {
            bool commit = todo.decision == RT_DECISION_COMMIT;
            if (todo.op == RT_COORDINATOR_DONE)
                say("DONE");
            else if (todo.op == RT_COORDINATOR_REGISTER)
                say("REGISTER");
            else
                say("DECIDE %s", commit ? "COMMIT" : "ABORT");
            journal_seq = todo.seq;
        }
    }
    uint32_t news = rt_coordinator_news(&c);
    static const char *const names[] = {"told", "mixed", "attention", "over"};
    for (uint32_t i = 0; i < 4; i++)
        if ((news >> i & 1) != 0)
            say("%s", names[i]);
}

static void answers(uint32_t whom, enum rt_stance stance, const char *expected)
{
    struct rt_stand stand = {.stance = (uint8_t)stance, .ended = rt_stance_is_end((uint8_t)stance)};
    rt_coordinator_answered(&c, whom, part_seq[whom], stance == RT_STANCE_NONE, &stand, now);
    coordinator_does();
    is(expected);
}

static void wrote(enum rt_reply reply, enum rt_decision decision, const char *expected)
{
    rt_coordinator_wrote(&c, journal_seq, reply, decision, now);
    coordinator_does();
    is(expected);
}

static void warned(bool textbook)
{
    now = 1000 * MS;
    rt_coordinator_begin(&c, parts, 2, textbook, T1, T2, 100 * MS, now);
    coordinator_does();
    is("CAN 0, CAN 1");
    answers(1, RT_STANCE_WAIT, "");
    if (textbook) {
        answers(0, RT_STANCE_WAIT, "REGISTER");
        wrote(RT_REPLY_OPEN, RT_DECISION_NONE, "PRE 0, PRE 1");
    } else
        answers(0, RT_STANCE_WAIT, "PRE 0, PRE 1");
}

static void three_phases(void **state)
{
    (void)state;
    warned(false);
    answers(0, RT_STANCE_PRECOMMITTED, "");
    answers(1, RT_STANCE_PRECOMMITTED, "DECIDE COMMIT");
    assert_int_equal(rt_coordinator_stance(&c), RT_STANCE_WAIT);
    wrote(RT_REPLY_LOST, RT_DECISION_NONE, "");
    now += 100 * MS;
    coordinator_does();
    is("DECIDE COMMIT");
    wrote(RT_REPLY_STANDS, RT_DECISION_COMMIT, "DO 0, DO 1, told");
    assert_int_equal(rt_coordinator_stance(&c), RT_STANCE_COMMITTED);
    answers(0, RT_STANCE_COMMITTED, "");
    answers(1, RT_STANCE_NONE, "");
    now += 100 * MS;
    coordinator_does();
    is("DO 1");
    answers(1, RT_STANCE_COMMITTED, "DONE");
    wrote(RT_REPLY_DONE, RT_DECISION_NONE, "over");
}

static void a_no_aborts(void **state)
{
    (void)state;
    warned(false);
    answers(0, RT_STANCE_PRECOMMITTED, "");
    answers(1, RT_STANCE_ABORTED, "DECIDE ABORT");
    wrote(RT_REPLY_STANDS, RT_DECISION_ABORT, "NO 0, NO 1, told");
    answers(1, RT_STANCE_ABORTED, "");
    answers(0, RT_STANCE_ABORTED, "DONE");
}

/* A missing answer is a no, after half of T2; with the textbook's rule only before T2. */
static void a_missing_answer(void **state)
{
    (void)state;
    for (int textbook = 0; textbook < 2; textbook++) {
        warned(textbook);
        answers(0, RT_STANCE_PRECOMMITTED, "");
        now += 1450 * MS;
        coordinator_does();
        is("DECIDE ABORT");
    }
    warned(true);
    answers(0, RT_STANCE_PRECOMMITTED, "");
    now += 2901 * MS; /* it was stopped: a T2 may be over */
    coordinator_does();
    is("attention");
    answers(1, RT_STANCE_NONE, "");
    now += 100 * MS;
    coordinator_does();
    is("PRE 1");
    answers(1, RT_STANCE_COMMITTED, "DECIDE COMMIT"); /* it was there, and has waited too long */
}

static void a_mix_is_told_and_never_closed(void **state)
{
    (void)state;
    warned(true);
    answers(0, RT_STANCE_PRECOMMITTED, "");
    now += 1450 * MS;
    coordinator_does();
    is("DECIDE ABORT");
    wrote(RT_REPLY_STANDS, RT_DECISION_ABORT, "NO 0, NO 1, told");
    answers(0, RT_STANCE_COMMITTED, "mixed");
    answers(1, RT_STANCE_ABORTED, "over");
    assert_int_equal(c.state, RT_COORDINATOR_MIXED);
    coordinator_does();
    is("");
}

/* Whoever closes it later has to know whom to ask; and what was decided meanwhile counts. */
static void no_pre_leaves_before_the_journal_knows_who_takes_part(void **state)
{
    (void)state;
    for (int decided = 0; decided < 2; decided++) {
        now = 1000 * MS;
        rt_coordinator_begin(&c, parts, 2, true, T1, T2, 100 * MS, now);
        coordinator_does();
        answers(1, RT_STANCE_WAIT, "");
        answers(0, RT_STANCE_WAIT, "REGISTER");
        wrote(RT_REPLY_LOST, RT_DECISION_NONE, "");
        now += 100 * MS;
        coordinator_does();
        is("REGISTER");
        if (decided == 1)
            wrote(RT_REPLY_STANDS, RT_DECISION_ABORT, "NO 0, NO 1, told");
        else {
            now += 800 * MS; /* T1: promises end */
            coordinator_does();
            is("DECIDE ABORT");
        }
    }
}

static void adopted(void **state)
{
    (void)state;
    now = 1000 * MS;
    rt_coordinator_adopt(&c, parts, 2, false, now);
    coordinator_does();
    is("DECIDE ABORT");
    wrote(RT_REPLY_STANDS, RT_DECISION_COMMIT, "DO 0, DO 1, told"); /* the journal knows better */
    rt_coordinator_adopt(&c, parts, 2, true, now);
    coordinator_does();
    is("REGISTER, attention"); /* somebody may have committed */
    wrote(RT_REPLY_OPEN, RT_DECISION_NONE, "PRE 0, PRE 1");
    answers(0, RT_STANCE_COMMITTED, "");
    answers(1, RT_STANCE_PRECOMMITTED, "DECIDE COMMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_should_be),
        cmocka_unit_test(a_promise_ends_by_itself),
        cmocka_unit_test(a_promise_is_kept_while_the_coordinator_is_undecided),
        cmocka_unit_test(an_abort_before_the_promise_stays),
        cmocka_unit_test(work_that_fails_is_a_no),
        cmocka_unit_test(a_lost_write_is_written_again),
        cmocka_unit_test(block_waits),
        cmocka_unit_test(commit_commits_alone),
        cmocka_unit_test(peers_know),
        cmocka_unit_test(commit_waits_for_who_waits),
        cmocka_unit_test(recovery_is_seen),
        cmocka_unit_test(after_a_restart),
        cmocka_unit_test(three_phases),
        cmocka_unit_test(a_no_aborts),
        cmocka_unit_test(a_missing_answer),
        cmocka_unit_test(a_mix_is_told_and_never_closed),
        cmocka_unit_test(no_pre_leaves_before_the_journal_knows_who_takes_part),
        cmocka_unit_test(adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
