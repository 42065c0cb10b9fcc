/* SPDX-License-Identifier: Apache-2.0 */
/* Labels, and branches registered before anything is decided. */
#include "together.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- Labels ---------------------------------------------------------------------------------------- */

void test_long_label_is_cut(void **state)
{
    struct clerk *c = *state;
    char label[300];
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    memset(label, 'a', sizeof(label));
    memcpy(label + 254, "\xc3\xa4", 2); /* a character over the edge */
    label[299] = '\0';
    op.decide.id = clerk_id(c);
    op.decide.decision = RT_JOURNAL_ABORT;
    op.decide.label = label;
    assert_int_equal(clerk_do(c, &op), 0);
    struct seen s = clerk_read(c, op.decide.id);
    assert_int_equal(strlen(s.label), 254);
}

/* ---- Registered branches ---------------------------------------------------------------------------- */

void test_register(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c);
    assert_int_equal(clerk_register(c, id, 5), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_register(c, id, 5), RT_JOURNAL_OPEN); /* asked again */
    assert_int_equal(clerk_register(c, id, 4), RT_JOURNAL_OPEN);
    struct seen s = clerk_read(c, id);
    assert_int_equal(s.stands, RT_JOURNAL_OPEN);
    assert_int_equal(s.registered, 2);
    assert_int_equal(s.of_register, 2);
    assert_string_equal(s.label, "joined");
    assert_int_equal(s.decided_ms, 0);
    assert_int_equal(s.numbers[0] + s.numbers[1], 9); /* in any order */
    assert_int_not_equal(s.numbers[0], s.numbers[1]);
}

/* To commit, one must know of all registered branches; to abort, one need not. */
void test_commit_counts(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c), other = clerk_id(c);
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    assert_int_equal(clerk_register(c, id, 1), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_register(c, id, 2), RT_JOURNAL_OPEN);
    op.decide.id = id;
    op.decide.decision = RT_JOURNAL_COMMIT;
    op.decide.registered = 1;
    assert_int_equal(clerk_do(c, &op), 0);
    assert_int_equal(op.decide.stands, RT_JOURNAL_OPEN);
    assert_int_equal(op.decide.registered, 2);
    assert_int_equal(clerk_read(c, id).stands, RT_JOURNAL_OPEN);
    assert_int_equal(clerk_do(c, &op), 0);
    assert_int_equal(op.decide.stands, RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_read(c, id).of_register, 2);
    assert_int_equal(clerk_register(c, other, 1), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_decide(c, other, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
}

/* seata#3220: a branch that comes after the decision is refused, and leaves nothing. */
void test_too_late_to_register(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c), other = clerk_id(c);
    assert_int_equal(clerk_decide(c, id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_register(c, id, 1), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_read(c, id).registered, 0);
    assert_int_equal(clerk_read(c, id).branch_count, 0);
    assert_int_equal(clerk_register(c, other, 1), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_decide(c, other, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_register(c, other, 2), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_register(c, other, 1),
                     RT_JOURNAL_ABORT); /* was there, and is too late all the same */
    assert_int_equal(clerk_read(c, other).registered, 1);
}

/* Two clients at once: REGISTER, and COMMIT of what was known before it. Never do both succeed. */
void test_register_races_commit(void **state)
{
    static struct rt_journal_op reg[RACED], commit[RACED];
    static const struct rt_journal_branch one = {.number = 9, .resource = "late"};
    struct clerk *a = *state, b;
    clerk_start(&b, url);
    for (int i = 0; i < RACED; i++) {
        reg[i] = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
        commit[i] = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
        reg[i].reg.id = commit[i].decide.id = clerk_id(a);
        reg[i].reg.branches = &one;
        reg[i].reg.count = 1;
        commit[i].decide.decision = RT_JOURNAL_COMMIT;
        if (i % 2 == 0)
            assert_int_equal(clerk_register(a, reg[i].reg.id, 1), RT_JOURNAL_OPEN);
        commit[i].decide.registered = i % 2 == 0;
    }
    for (int i = 0; i < RACED; i++) {
        clerk_submit(a, &reg[i]);
        clerk_submit(&b, &commit[RACED - 1 - i]);
    }
    for (int i = 0; i < RACED; i++) {
        while (!clerk_told(&reg[i]) || !clerk_told(&commit[i])) {
            clerk_turn(a, 1);
            clerk_turn(&b, 1);
        }
        assert_int_equal(reg[i].err, 0);
        assert_int_equal(commit[i].err, 0);
        bool added = reg[i].reg.stands == RT_JOURNAL_OPEN;
        assert_int_equal(commit[i].decide.stands, added ? RT_JOURNAL_OPEN : RT_JOURNAL_COMMIT);
        assert_int_equal(clerk_read(a, reg[i].reg.id).registered, (i % 2 == 0) + added);
    }
    clerk_close(&b);
}

void test_begin_record(void **state)
{
    struct clerk *c = *state;
    struct rt_journal_op op = {.kind = RT_JOURNAL_REGISTER};
    op.reg.id = clerk_id(c);
    op.reg.deadline_ms = 4711;
    assert_int_equal(clerk_do(c, &op), 0);
    assert_int_equal(op.reg.stands, RT_JOURNAL_OPEN);
    assert_int_equal(clerk_read(c, op.reg.id).deadline_ms, 4711);
    assert_int_equal(clerk_decide(c, op.reg.id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_read(c, op.reg.id).deadline_ms, 4711); /* the first one stays */
    clerk_finish(c, op.reg.id);
}
