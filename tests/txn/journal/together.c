/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the conformance suite: many decisions at once. */
#include "together.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Two clients at once decide the same ids in opposite ways: one wins, both hear the same. */
void test_raced(void **state)
{
    static struct rt_journal_op ops[2][RACED];
    struct clerk *one = *state, two;
    clerk_start(&two, url);
    assert_int_equal(two.number, one->number);
    for (int i = 0; i < RACED; i++)
        for (int k = 0; k < 2; k++) {
            struct rt_journal_op *op = &ops[k][i];
            *op = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
            op->decide.id = k == 0 ? clerk_id(one) : ops[0][i].decide.id;
            op->decide.decision = (i + k) % 2 == 0 ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
            op->decide.deadline_ms = one->now_ms;
        }
    for (int i = 0; i < RACED; i++) {
        clerk_submit(one, &ops[0][i]);
        clerk_submit(&two, &ops[1][RACED - 1 - i]);
        if (i % 8 == 7) {
            clerk_turn(one, 0);
            clerk_turn(&two, 0);
        }
    }
    for (int i = 0; i < RACED; i++) {
        while (!clerk_told(&ops[0][i]) || !clerk_told(&ops[1][i])) {
            clerk_turn(one, 1);
            clerk_turn(&two, 1);
        }
        assert_int_equal(ops[0][i].err, 0);
        assert_int_equal(ops[1][i].err, 0);
        assert_int_equal(ops[0][i].decide.stands, ops[1][i].decide.stands);
        assert_int_equal(clerk_read(one, ops[0][i].decide.id).stands, ops[0][i].decide.stands);
    }
    clerk_close(&two);
}

/* All at once: each is told once, with its own answer; those on one id in the order of submission. */
void test_many_at_once(void **state)
{
    static struct rt_journal_op ops[MANY];
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c);
    long before = c->done;
    for (int i = 0; i < MANY; i++) {
        ops[i] = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
        ops[i].decide.id = i % 3 == 0 ? id : clerk_id(c);
        ops[i].decide.decision = i % 2 == 0 ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
        clerk_submit(c, &ops[i]);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(clerk_wait(c, &ops[i]), 0);
        assert_int_equal(ops[i].decide.stands,
                         i % 3 == 0 ? RT_JOURNAL_COMMIT : ops[i].decide.decision);
    }
    assert_int_equal(c->done - before, MANY);
}

enum kind { FRESH, KNOWN, UNKNOWN, DECIDED, ABORTED, EXPIRED, OLD, KINDS };

static void prepare(struct clerk *c, struct rt_journal_op *op, enum kind kind, int64_t floor)
{
    static const uint32_t branches[KINDS] = {[KNOWN] = 2, [UNKNOWN] = 2, [ABORTED] = 1, [OLD] = 1};
    bool below = kind == EXPIRED || kind == OLD;
    *op = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
    op->decide.id = below ? clerk_born(c, floor - 1) : clerk_id(c);
    op->decide.decision = kind == ABORTED ? RT_JOURNAL_ABORT : RT_JOURNAL_COMMIT;
    op->decide.registered = kind == UNKNOWN ? 1 : kind == ABORTED ? 0 : branches[kind];
    for (uint32_t i = 1; i <= branches[kind]; i++)
        assert_int_equal(clerk_register(c, op->decide.id, i), RT_JOURNAL_OPEN);
    if (kind == DECIDED)
        assert_int_equal(clerk_decide(c, op->decide.id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
}

/* Whatever a decision shares a flight with, it is answered as if it were alone: new ones; those that find a row they
 * may decide, or may not, or that is already decided; and those below the floor. */
void test_decided_together(void **state)
{
    static const enum rt_journal_stand comes_to[KINDS] = {
        [FRESH] = RT_JOURNAL_COMMIT,  [KNOWN] = RT_JOURNAL_COMMIT,  [UNKNOWN] = RT_JOURNAL_OPEN,
        [DECIDED] = RT_JOURNAL_ABORT, [ABORTED] = RT_JOURNAL_ABORT, [EXPIRED] = RT_JOURNAL_EXPIRED,
        [OLD] = RT_JOURNAL_COMMIT,
    };
    static struct rt_journal_op ops[6 * KINDS];
    struct clerk *c = *state;
    int64_t floor = c->floor_ms + 1000;
    for (int i = 0; i < 6 * KINDS; i++)
        prepare(c, &ops[i], (enum kind)(i % KINDS), floor);
    clerk_forget(c, floor);
    for (int i = 0; i < 6 * KINDS; i++)
        clerk_submit(c, &ops[i]);
    for (int i = 0; i < 6 * KINDS; i++) {
        enum kind kind = (enum kind)(i % KINDS);
        assert_int_equal(clerk_wait(c, &ops[i]), 0);
        assert_int_equal(ops[i].decide.stands, comes_to[kind]);
        if (kind == UNKNOWN)
            assert_int_equal(ops[i].decide.registered, 2);
        assert_int_equal(clerk_read(c, ops[i].decide.id).stands, comes_to[kind]);
    }
}
