/* SPDX-License-Identifier: Apache-2.0 */
/* What a transaction asks next; only its state and its branches' states decide. */
#include "txn/core/ask.h"

#include "base/bug.h"
#include "txn/core/reserve.h"

#include <assert.h>

enum rt_txn_op rt_ask_journal_next(const struct rt_txn *t)
{
    switch (t->state) {
    case RT_TXN_ACTIVE:
        for (uint32_t i = 0; i < t->count; i++)
            if (t->branches[i].state == RT_BRANCH_JOINING)
                return RT_TXN_REGISTER;
        return RT_TXN_BRANCH;
    case RT_TXN_DECIDING:
        return RT_TXN_DECIDE;
    case RT_TXN_LOOKING:
    case RT_TXN_WAITING:
        return RT_TXN_LOOK;
    case RT_TXN_VOUCHING:
        return RT_TXN_VOUCH;
    case RT_TXN_CLOSING:
        return RT_TXN_DONE;
    case RT_TXN_ONE_PHASE:
    case RT_TXN_COMMITTING:
    case RT_TXN_ABORTING:
        for (uint32_t i = 0; i < t->count; i++)
            if (t->branches[i].state == RT_BRANCH_CHECKING || t->branches[i].look)
                return RT_TXN_LOOK;
        return RT_TXN_BRANCH;
    default:
        return RT_TXN_BRANCH; /* nothing */
    }
}

int64_t rt_ask_journal_at(const struct rt_txn *t)
{
    int64_t at = RT_TXN_NEVER;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct rt_branch *b = &t->branches[i];
        if (b->state == RT_BRANCH_CHECKING)
            return t->journal.at;
        if (b->look && b->retry.at < at)
            at = b->retry.at;
    }
    return at == RT_TXN_NEVER || at < t->journal.at ? t->journal.at : at;
}

enum rt_branch_op rt_ask_branch_next(const struct rt_txn *t, struct rt_branch *b)
{
    switch (t->state) {
    case RT_TXN_PREPARING:
        if (b->state != RT_BRANCH_ACTIVE)
            return RT_BRANCH_NOTHING;
        return b->elsewhere ? RT_BRANCH_ASK : RT_BRANCH_PREPARE;
    case RT_TXN_ONE_PHASE:
        if (b->state == RT_BRANCH_CHECKING)
            return RT_BRANCH_NOTHING;
        return b->state == RT_BRANCH_ACTIVE ? RT_BRANCH_ONE_PHASE : RT_BRANCH_ASK;
    case RT_TXN_COMMITTING:
    case RT_TXN_ABORTING:
        if (b->order == RT_DECISION_NONE || (b->service && !rt_reserve_is_next(t, b)))
            return RT_BRANCH_NOTHING;
        return rt_branch_next(b);
    default:
        return RT_BRANCH_NOTHING;
    }
}

void rt_ask_branch(struct rt_txn *t, struct rt_branch *b, enum rt_branch_op op,
                   struct rt_txn_todo *todo)
{
    *todo = (struct rt_txn_todo){.to = RT_TXN_BRANCH, .op = op, .branch = b};
    todo->own = b->own && !b->service;
    todo->seq = ++t->last_seq;
    bool loose = b->late || (b->loose && !RT_BUG(RT_BUG_THREE_NOT_FENCED));
    bool fences = t->state == RT_TXN_ONE_PHASE || (loose && b->order == RT_DECISION_ABORT);
    todo->fence = op == RT_BRANCH_ASK && fences;
    todo->stays = op == RT_BRANCH_PREPARE && t->joined;
    rt_retry_sent(&b->retry, todo->seq);
    if (b->state == RT_BRANCH_ACTIVE) {
        assert(t->state == RT_TXN_PREPARING || t->state == RT_TXN_ONE_PHASE);
        b->state = RT_BRANCH_PREPARING;
        t->sent = true;
    }
}

static void fill_register(struct rt_txn *t)
{
    assert(t->state == RT_TXN_ACTIVE);
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        b->entering = b->state == RT_BRANCH_JOINING;
        if (RT_BUG(RT_BUG_TXN_WORKS_UNREGISTERED) && b->entering)
            rt_branch_registered(b);
    }
}

void rt_ask_journal(struct rt_txn *t, enum rt_txn_op op, struct rt_txn_todo *todo)
{
    assert(op != RT_TXN_BRANCH);
    *todo = (struct rt_txn_todo){.to = op, .seq = ++t->last_seq};
    if (op == RT_TXN_DECIDE) {
        todo->decision = (enum rt_decision)t->want;
        t->asked_commit = t->want == RT_DECISION_COMMIT;
        t->commit_sent = t->commit_sent || t->asked_commit;
        todo->registered = RT_BUG(RT_BUG_TXN_NOT_COUNTED) ? UINT32_MAX : t->registered;
    }
    if (op == RT_TXN_REGISTER)
        fill_register(t);
    t->vouch_sent = t->vouch_sent || op == RT_TXN_VOUCH;
    t->asked = (uint8_t)op;
    rt_retry_sent(&t->journal, todo->seq);
}
