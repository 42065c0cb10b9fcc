/* SPDX-License-Identifier: Apache-2.0 */
/* The grant rule: `ahead + mine <= capacity`, from the front of the line. */
#include "core/grant.h"

#include <assert.h>

/* The capacity of a lock: more shared tickets than a line can have. */
#define LOCK_CAPACITY (UINT64_C(1) << 62)

static uint64_t capacity(uint32_t mode, uint32_t of)
{
    assert(mode != RT_COUNT && mode != RT_GATHER); /* those are not weighed */
    return mode == RT_PERMITS ? of : LOCK_CAPACITY;
}

static uint64_t weight(uint32_t mode, uint32_t take)
{
    switch (mode) {
    case RT_EXCLUSIVE:
        return LOCK_CAPACITY;
    case RT_SHARED:
        return 1;
    case RT_PERMITS:
        return take;
    default:
        return 0;
    }
}

void rt_grant_init(struct rt_grant *g, uint32_t waiting)
{
    *g = (struct rt_grant){.waiting = waiting};
}

/* A barrier opens for the first `of` that wait; those granted before have gone through. */
static enum rt_grant_verdict gather(struct rt_grant *g, uint32_t of, bool granted)
{
    assert(of >= 1);
    if (granted)
        return RT_GRANT_HOLDS;
    if (g->gathered == 0 && g->waiting < of)
        return RT_GRANT_WAITS;
    if (g->gathered >= of)
        return RT_GRANT_WAITS;
    g->gathered++;
    assert(g->gathered <= of); /* I1 of a barrier: each opening lets through as many as it is for */
    return RT_GRANT_HOLDS;
}

enum rt_grant_verdict rt_grant_next(struct rt_grant *g, uint32_t mode, uint32_t take, uint32_t of,
                                    bool granted)
{
    assert(rt_grant_valid(mode, take, of));
    if (mode == RT_COUNT)
        return RT_GRANT_HOLDS;
    if (mode == RT_GATHER)
        return gather(g, of, granted);
    uint64_t mine = weight(mode, take);
    if (!granted && g->ahead + mine > capacity(mode, of))
        return RT_GRANT_WAITS;
    /* A ticket that was granted stays so (I1 held when it was): it only adds its weight. */
    g->ahead += mine;
    if (g->ahead > LOCK_CAPACITY)
        g->ahead = LOCK_CAPACITY;
    assert(granted || g->ahead <= capacity(mode, of));
    return RT_GRANT_HOLDS;
}

static bool is_lock(uint32_t mode)
{
    return mode == RT_EXCLUSIVE || mode == RT_SHARED;
}

bool rt_grant_same_kind(uint32_t mode_a, uint32_t of_a, uint32_t mode_b, uint32_t of_b)
{
    if (is_lock(mode_a) || is_lock(mode_b))
        return is_lock(mode_a) && is_lock(mode_b);
    return mode_a == mode_b && of_a == of_b;
}

bool rt_grant_valid(uint32_t mode, uint32_t take, uint32_t of)
{
    switch (mode) {
    case RT_EXCLUSIVE:
    case RT_SHARED:
        return take == 0 && of == 0;
    case RT_PERMITS:
        return take >= 1 && take <= of;
    case RT_COUNT:
    case RT_GATHER:
        return take == 0 && of >= 1;
    default:
        return false;
    }
}
