/* SPDX-License-Identifier: Apache-2.0 */
/* What the branches of a transaction say together. */
#include "txn/core/tally.h"

#include "base/bug.h"

#include <assert.h>

bool rt_tally_over(const struct rt_txn *t)
{
    bool over = true;
    for (uint32_t i = 0; i < t->count; i++)
        over = over && rt_branch_is_over(&t->branches[i]);
    return over;
}

bool rt_tally_failed(const struct rt_txn *t)
{
    bool failed = false, unasked = false;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct rt_branch *b = &t->branches[i];
        failed = failed || b->failed;
        unasked = unasked || b->state == RT_BRANCH_JOINING;
        unasked = unasked || (b->service && b->state != RT_BRANCH_PREPARED);
    }
    return unasked || (failed && !RT_BUG(RT_BUG_TXN_FAILED_VOTES_YES));
}

bool rt_tally_hopeless(const struct rt_txn *t)
{
    bool found = false;
    assert(t->joined);
    for (uint32_t i = 0; i < t->count; i++) {
        uint8_t state = t->branches[i].state;
        if (t->branches[i].service) { /* registered, and not vouched for */
            found = found || (state != RT_BRANCH_JOINING && !t->vouch_sent);
            continue;
        }
        found = found || state == RT_BRANCH_ACTIVE || state == RT_BRANCH_REFUSED;
        found = found || (RT_BUG(RT_BUG_TXN_LOST_VOTE_IS_NO) && state == RT_BRANCH_DOUBTFUL);
    }
    return found;
}
