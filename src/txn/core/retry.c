/* SPDX-License-Identifier: Apache-2.0 */
/* Asking again: pauses that double, and no end. */
#include "txn/core/retry.h"

#include <assert.h>

bool rt_retry_may(const struct rt_retry *r, int64_t now)
{
    return r->seq == 0 && r->at <= now;
}

void rt_retry_sent(struct rt_retry *r, uint32_t seq)
{
    assert(r->seq == 0 && seq != 0);
    r->seq = seq;
}

bool rt_retry_answered(struct rt_retry *r, uint32_t seq)
{
    assert(seq != 0);
    if (r->seq != seq)
        return false;
    r->seq = 0;
    return true;
}

bool rt_retry_later(struct rt_retry *r, int64_t now)
{
    int64_t pause = RT_RETRY_FIRST;
    assert(r->seq == 0);
    for (uint32_t i = 0; i < r->tries && pause < RT_RETRY_MOST; i++)
        pause *= 2;
    r->tries += r->tries < UINT32_MAX;
    r->at = now + (pause < RT_RETRY_MOST ? pause : RT_RETRY_MOST);
    return r->tries == RT_RETRY_ATTENTION;
}

void rt_retry_not_before(struct rt_retry *r, int64_t at)
{
    assert(r->seq == 0);
    r->at = at;
}

void rt_retry_soon(struct rt_retry *r, int64_t now)
{
    r->tries = 0;
    if (r->at > now)
        r->at = now;
}
