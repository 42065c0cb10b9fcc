/* SPDX-License-Identifier: Apache-2.0 */
/* What recovery may touch: ours, past its deadline, and seen before. */
#include "txn/core/sweep.h"

#include "base/bug.h"

#include <assert.h>
#include <stddef.h>

void rt_sweep_init(struct rt_sweep *s, uint32_t journal, int64_t slack_ms, int64_t apart,
                   struct rt_seen *seen, uint32_t room)
{
    assert(room == 0 || seen != NULL);
    *s = (struct rt_sweep){
        .journal = journal, .slack_ms = slack_ms, .apart = apart, .seen = seen, .room = room};
    for (uint32_t i = 0; i < room; i++)
        seen[i] = (struct rt_seen){.last = 0};
}

void rt_sweep_pass(struct rt_sweep *s)
{
    s->pass++;
    assert(s->pass != 0);
    for (uint32_t i = 0; i < s->room; i++)
        if (s->seen[i].last + 2 < s->pass)
            s->seen[i].last = 0;
}

#define WAYS 16 /* slots an id may be in: looked at one by one */

static struct rt_seen *find(struct rt_sweep *s, const struct rt_txn_id *id, int64_t now)
{
    struct rt_seen *free = NULL;
    uint32_t ways = s->room < 2 * WAYS ? s->room : WAYS, sets = ways > 0 ? s->room / ways : 0;
    uint32_t set = sets > 0 ? (uint32_t)(rt_txn_id_part(id, 10, 6) % sets) : 0;
    for (uint32_t i = 0; i < ways; i++) {
        struct rt_seen *e = &s->seen[set * ways + i];
        if (e->last == 0)
            free = free == NULL ? e : free;
        else if (rt_txn_id_same(&e->id, id))
            return e;
    }
    if (free != NULL)
        *free = (struct rt_seen){.id = *id, .first = s->pass, .first_at = now};
    return free;
}

enum rt_verdict rt_sweep_judge(struct rt_sweep *s, const struct rt_name *name, bool decided,
                               int64_t now, int64_t wall_ms)
{
    assert(s->pass > 0); /* a pass has begun */
    if (rt_txn_id_journal(&name->id) != s->journal && !RT_BUG(RT_BUG_TXN_FOREIGN))
        return RT_SWEEP_FOREIGN;
    bool young = !decided && wall_ms < name->deadline_ms + s->slack_ms;
    if (young && !RT_BUG(RT_BUG_TXN_NO_DEADLINE))
        return RT_SWEEP_YOUNG;
    struct rt_seen *seen = find(s, &name->id, now);
    if (seen == NULL)
        return RT_SWEEP_ONCE;
    seen->last = s->pass;
    bool twice = seen->first != s->pass && now - seen->first_at >= s->apart;
    return twice || RT_BUG(RT_BUG_TXN_ONE_PASS) ? RT_SWEEP_SETTLE : RT_SWEEP_ONCE;
}
