/* SPDX-License-Identifier: Apache-2.0 */
/* Majorities, numbers and times of Redlock. */
#include "core/quorum.h"

#include "base/bug.h"
#include "core/timers.h"

#include <assert.h>

#define SECOND (1000 * RT_MS)

void rt_quorum_begin(struct rt_quorum *q, uint32_t nodes)
{
    assert(nodes >= 1 && nodes <= RT_QUORUM_MOST);
    *q = (struct rt_quorum){.nodes = nodes};
}

uint32_t rt_quorum_majority(uint32_t nodes)
{
    assert(nodes > 0);
    return nodes / 2 + 1;
}

void rt_quorum_yes(struct rt_quorum *q, uint32_t node, uint64_t number, bool counts)
{
    assert(node < q->nodes);
    if (q->votes[node] != RT_VOTE_OPEN)
        return;
    q->votes[node] = RT_VOTE_YES;
    q->numbers[node] = number;
    q->idle[node] = !counts && !RT_BUG(RT_BUG_RESTART_COUNTS);
}

void rt_quorum_vote(struct rt_quorum *q, uint32_t node, enum rt_vote vote)
{
    assert(node < q->nodes && vote != RT_VOTE_OPEN);
    if (q->votes[node] == RT_VOTE_OPEN)
        q->votes[node] = (uint8_t)vote;
}

bool rt_quorum_has(const struct rt_quorum *q, uint32_t node)
{
    assert(node < q->nodes);
    return q->votes[node] != RT_VOTE_OPEN;
}

struct tally {
    uint32_t yes, no, maybe, silent, open;
};

/* Those who said YES and do not count are as good as silent. */
static struct tally count(const struct rt_quorum *q)
{
    struct tally t = {0};
    for (uint32_t i = 0; i < q->nodes; i++) {
        t.yes += q->votes[i] == RT_VOTE_YES && !q->idle[i];
        t.no += q->votes[i] == RT_VOTE_NO;
        t.maybe += q->votes[i] == RT_VOTE_MAYBE;
        t.open += q->votes[i] == RT_VOTE_OPEN;
        t.silent += q->votes[i] == RT_VOTE_SILENT || (q->votes[i] == RT_VOTE_YES && q->idle[i]);
    }
    assert(t.yes + t.no + t.maybe + t.silent + t.open == q->nodes);
    return t;
}

/* The largest number, and how many have it. */
static uint32_t count_largest(const struct rt_quorum *q, uint64_t *largest)
{
    uint32_t n = 0;
    *largest = 0;
    for (uint32_t i = 0; i < q->nodes; i++) {
        if (q->votes[i] != RT_VOTE_YES || q->idle[i])
            continue;
        n = q->numbers[i] > *largest ? 1 : n + (q->numbers[i] == *largest);
        *largest = q->numbers[i] > *largest ? q->numbers[i] : *largest;
    }
    return n;
}

enum rt_verdict rt_quorum_taken(const struct rt_quorum *q, uint64_t *fence)
{
    struct tally t = count(q);
    uint32_t majority = rt_quorum_majority(q->nodes);
    uint64_t largest;
    uint32_t with = count_largest(q, &largest);
    bool loose = RT_BUG(RT_BUG_REPLIES_COUNT);
    if (t.yes >= majority || (loose && t.yes > 0 && t.yes + t.no >= majority)) {
        *fence = largest;
        bool equal = with >= majority || loose;
        return equal || RT_BUG(RT_BUG_NO_WRITE_BACK) ? RT_QUORUM_AGREED : RT_QUORUM_MEND;
    }
    if (t.yes + t.open >= majority)
        return RT_QUORUM_OPEN;
    if (t.yes + t.no >= majority)
        return RT_QUORUM_NONE;
    return t.yes + t.no + t.open >= majority ? RT_QUORUM_OPEN : RT_QUORUM_SILENT;
}

enum rt_verdict rt_quorum_kept(const struct rt_quorum *q)
{
    struct tally t = count(q);
    uint32_t majority = rt_quorum_majority(q->nodes);
    if (t.yes >= majority)
        return RT_QUORUM_AGREED;
    if (t.no > q->nodes - majority)
        return RT_QUORUM_NONE;
    return t.open > 0 ? RT_QUORUM_OPEN : RT_QUORUM_SILENT;
}

int64_t rt_quorum_until(int64_t sent_at, int64_t ttl)
{
    assert(ttl > 0);
    return sent_at + ttl - (ttl / 100 + 2 * RT_MS);
}

int64_t rt_quorum_counts_at(int64_t now, int64_t uptime, int64_t longest)
{
    assert(uptime >= 0 && longest >= 0);
    int64_t up = uptime > SECOND ? uptime - SECOND : 0; /* it may say one second too much */
    return longest > up ? now + longest - up : now;
}
