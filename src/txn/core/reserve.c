/* SPDX-License-Identifier: Apache-2.0 */
/* Branches that are services: registering and trying them, and the order in which they end. */
#include "txn/core/reserve.h"

#include "base/bug.h"

#include <assert.h>

struct rt_branch *rt_reserve_add(struct rt_txn *t, uint32_t number, uint32_t resource)
{
    assert(t->count < t->room && t->state == RT_TXN_ACTIVE && !t->adopted);
    struct rt_branch *b = &t->branches[t->count++];
    rt_branch_init(b, number, resource, false);
    b->service = b->own = true;
    b->state = RT_BRANCH_JOINING;
    t->shared = true;
    return b;
}

uint32_t rt_reserve_try(struct rt_txn *t, struct rt_branch *b)
{
    assert(b->service && b->state == RT_BRANCH_ACTIVE && t->state == RT_TXN_ACTIVE);
    uint32_t seq = ++t->last_seq;
    b->state = RT_BRANCH_PREPARING;
    t->sent = true;
    rt_retry_sent(&b->retry, seq);
    return seq;
}

void rt_reserve_found(struct rt_branch *b, bool vouched)
{
    bool believed = RT_BUG(RT_BUG_TXN_UNVOUCHED_IS_YES);
    assert(b->service && b->state == RT_BRANCH_ACTIVE);
    b->state = vouched || believed ? RT_BRANCH_PREPARED : RT_BRANCH_DOUBTFUL;
}

bool rt_reserve_is_next(const struct rt_txn *t, const struct rt_branch *b)
{
    bool next = true, backwards = b->order == RT_DECISION_ABORT;
    for (uint32_t i = 0; t->ordered && i < t->count; i++) {
        const struct rt_branch *other = &t->branches[i];
        bool before = backwards ? other->number > b->number : other->number < b->number;
        next = next && !(other->service && before && !rt_branch_is_over(other));
    }
    return next;
}

void rt_reserve_look(struct rt_txn *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        b->look = b->look || (b->service && b->state == RT_BRANCH_ORDERED && b->retry.seq == 0);
    }
}

bool rt_reserve_any(const struct rt_txn *t)
{
    bool any = false;
    for (uint32_t i = 0; i < t->count; i++)
        any = any || t->branches[i].service;
    return any;
}

void rt_reserve_back(struct rt_branch *b, int64_t now)
{
    assert(b->service);
    if (b->retry.seq == 0)
        rt_retry_soon(&b->retry, now);
}
