/* SPDX-License-Identifier: Apache-2.0 */
/* Re-entry: whoever holds a name takes it again at once. */
#include "core/reentry.h"

#include "core/desk.h"
#include "core/grant.h"

#include <assert.h>
#include <rota.h>

/* The hold that ASK would go on with; NULL: none. */
static struct rt_ask *find(const struct rt_ask *ask, int64_t now)
{
    struct rt_ask *by = NULL;
    if (ask->owner == 0 || (ask->mode != RT_EXCLUSIVE && ask->mode != RT_SHARED))
        return NULL;
    for (struct rt_ask *h = ask->line->holders; h != NULL; h = h->next)
        if (h->state == RT_ASK_HELD && h->owner == ask->owner && !rt_ask_is_over(h, now) &&
            (by == NULL || h->mode == RT_EXCLUSIVE))
            by = h;
    return by != NULL && by->ticket->mode <= RT_SHARED ? by : NULL;
}

static enum rt_reentry_fault fault_of(const struct rt_ask *ask, const struct rt_ask *by)
{
    const struct rt_terms *terms = ask->terms;
    assert(by->state == RT_ASK_HELD && by->owner == ask->owner);
    if (terms != NULL && (terms->value != NULL || terms->at_least_ms > 0))
        return RT_REENTRY_TERMS;
    if (ask->mode == RT_EXCLUSIVE && by->mode != RT_EXCLUSIVE)
        return RT_REENTRY_UPGRADE;
    return by->ticket->holds == RT_HOLDS_MOST ? RT_REENTRY_TOO_OFTEN : RT_REENTRY_FINE;
}

bool rt_reentry_try(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    const struct rt_ask *by = find(ask, now);
    struct rt_ticket *own = ask->ticket;
    assert(ask->state == RT_ASK_NEW);
    if (by == NULL)
        return false;
    if (fault_of(ask, by) != RT_REENTRY_FINE) {
        rt_ask_fail(desk, ask, ROTA_INVALID);
        return true;
    }
    rt_ask_grant(desk, ask, by->ticket, now);
    if (own != NULL)
        rt_outbox_settle(desk, own); /* not needed */
    return true;
}

enum rt_reentry_fault rt_reentry_why(const struct rt_ask *ask, int64_t now)
{
    const struct rt_ask *by = find(ask, now);
    assert(ask->state != RT_ASK_HELD);
    return by != NULL ? fault_of(ask, by) : RT_REENTRY_FINE;
}

bool rt_reentry_is(const struct rt_ask *ask)
{
    assert(ask->state == RT_ASK_HELD);
    for (const struct rt_ask *h = ask->line->holders; h != NULL && ask->owner != 0; h = h->next)
        if (h != ask && h->state == RT_ASK_HELD && h->owner == ask->owner &&
            h->ticket == ask->ticket)
            return true;
    return false;
}
