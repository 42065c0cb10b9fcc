/* SPDX-License-Identifier: Apache-2.0 */
/* One ask of a caller: where it stands, and what it is told. */
#include "core/ask.h"

#include "core/desk.h"

#include <assert.h>
#include <rota.h>

#define BIT(state) (1u << (state))

/* From which states each state may be reached: the arrows of the diagram in ask.h. */
static const unsigned allowed_from[] = {
    [RT_ASK_NEW] = 0,
    [RT_ASK_QUEUED] = BIT(RT_ASK_NEW),
    [RT_ASK_HELD] = BIT(RT_ASK_NEW) | BIT(RT_ASK_QUEUED),
    [RT_ASK_LOST] = BIT(RT_ASK_HELD),
    [RT_ASK_RELEASING] = BIT(RT_ASK_HELD),
    [RT_ASK_DONE] = BIT(RT_ASK_NEW) | BIT(RT_ASK_QUEUED) | BIT(RT_ASK_HELD) | BIT(RT_ASK_LOST) |
                    BIT(RT_ASK_RELEASING),
};

void rt_ask_move(struct rt_ask *ask, enum rt_ask_state to)
{
    assert((allowed_from[to] & BIT(ask->state)) != 0);
    ask->state = (uint8_t)to;
}

/* ---- Lists -------------------------------------------------------------- */

/* Each list's first has its last as prev, so that one pointer per list is enough. */

static struct rt_ask **list_of(const struct rt_ask *ask)
{
    assert(ask->state != RT_ASK_NEW && ask->state != RT_ASK_DONE); /* those are in no list */
    struct rt_line *line = ask->line;
    if (ask->state != RT_ASK_QUEUED)
        return &line->holders;
    return ask->ticket != NULL ? &line->solos : &line->queue;
}

void rt_ask_append(struct rt_ask *ask)
{
    assert(ask->next == NULL && ask->prev == NULL);
    struct rt_ask **list = list_of(ask), *first = *list;
    ask->next = NULL;
    if (first == NULL) {
        ask->prev = ask;
        *list = ask;
        return;
    }
    ask->prev = first->prev;
    first->prev->next = ask;
    first->prev = ask;
}

void rt_ask_drop(struct rt_ask *ask)
{
    assert(ask->prev != NULL); /* the first has the last */
    struct rt_ask **list = list_of(ask);
    if (*list == ask)
        *list = ask->next;
    else
        ask->prev->next = ask->next;
    if (ask->next != NULL)
        ask->next->prev = ask->prev;
    else if (*list != NULL)
        (*list)->prev = ask->prev;
    ask->next = ask->prev = NULL;
}

/* ---- Times and ends ----------------------------------------------------- */

void rt_ask_stop_timer(struct rt_desk *desk, struct rt_ask *ask)
{
    assert(ask->terms == NULL || ask->terms->timer.kind == RT_TIMER_ASK); /* bound */
    if (ask->terms != NULL)
        rt_timers_stop(desk->timers, &ask->terms->timer);
}

void rt_ask_start_limit(struct rt_desk *desk, struct rt_ask *ask)
{
    assert(ask->state == RT_ASK_QUEUED);
    struct rt_terms *terms = ask->terms;
    if (terms != NULL && terms->limit_at != RT_NEVER)
        rt_timers_start(desk->timers, &terms->timer, terms->limit_at);
}

void rt_ask_start_hold(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    assert(ask->state == RT_ASK_HELD);
    if (ask->terms != NULL && ask->terms->hold > 0)
        rt_timers_start(desk->timers, &ask->terms->timer, now + ask->terms->hold);
}

void rt_ask_grant(struct rt_desk *desk, struct rt_ask *ask, struct rt_ticket *t, int64_t now)
{
    assert(t->state == RT_TICKET_HELD);
    if (ask->state == RT_ASK_QUEUED)
        rt_ask_drop(ask);
    rt_ask_stop_timer(desk, ask);
    ask->ticket = t;
    ask->fence = t->id;
    ask->err = 0;
    rt_ask_move(ask, RT_ASK_HELD);
    assert(t->holds < RT_HOLDS_MOST);
    t->holds++;
    t->flags |= RT_TICKET_OWNED;
    rt_ask_append(ask);
    if (rt_ask_in_set(ask))
        return; /* it is told, and its time begins, when all of the set are granted */
    rt_ask_start_hold(desk, ask, now);
    rt_outbox_tell(desk, ask, RT_NEWS_ANSWERED);
}

void rt_ask_fail(struct rt_desk *desk, struct rt_ask *ask, int err)
{
    assert(ask->state == RT_ASK_NEW || ask->state == RT_ASK_QUEUED);
    if (ask->state == RT_ASK_QUEUED)
        rt_ask_drop(ask);
    rt_ask_stop_timer(desk, ask);
    struct rt_ticket *own = ask->state == RT_ASK_NEW ? ask->ticket : NULL;
    ask->ticket = NULL;
    ask->fence = 0;
    ask->err = (int16_t)err;
    rt_ask_move(ask, RT_ASK_DONE);
    if (!rt_ask_in_set(ask))
        rt_outbox_tell(desk, ask, RT_NEWS_ANSWERED);
    if (own != NULL)
        rt_outbox_settle(desk, own); /* never used: free it */
    rt_outbox_line_settle(desk, ask->line);
}

/* An outage: the place is gone, or cannot be had anew. An ask that never had one, and cannot have one without our
 * knowing (T's JOIN was not answered), is told that it gets none: a mistyped host, a server that is full. */
bool rt_ask_waits_on(const struct rt_desk *desk, const struct rt_ask *ask,
                     const struct rt_ticket *t, int err)
{
    assert(err != 0 && t->line == ask->line);
    bool stood = (ask->flags & RT_ASK_AWAY) != 0 || rt_ticket_has(t, RT_TICKET_AGAIN);
    bool outage = err == ROTA_LOST || (err == ROTA_UNREACHABLE && stood);
    return outage && (ask->flags & RT_ASK_REJOIN) != 0 && !desk->closing;
}

void rt_ask_refuse(struct rt_desk *desk, struct rt_ask *ask, const struct rt_ticket *t, int err)
{
    assert(ask->state == RT_ASK_QUEUED);
    /* T is taken back, for an earlier JOIN may have taken effect: a try that failed for certain did not (I5). */
    bool unknown = (ask->flags & RT_ASK_TRY) != 0 && t->state == RT_TICKET_LEAVING;
    if (!rt_ask_waits_on(desk, ask, t, err)) {
        rt_ask_fail(desk, ask, unknown ? ROTA_UNKNOWN : err);
        return;
    }
    if ((ask->flags & RT_ASK_AWAY) == 0 && (ask->news & RT_NEWS_AWAY) == 0)
        rt_outbox_tell(desk, ask, RT_NEWS_AWAY);
    ask->flags |= RT_ASK_AWAY;
}

void rt_ask_back(struct rt_desk *desk, struct rt_ask *ask)
{
    assert(ask->state == RT_ASK_QUEUED);
    if ((ask->flags & RT_ASK_AWAY) != 0 && (ask->news & RT_NEWS_BACK) == 0)
        rt_outbox_tell(desk, ask, RT_NEWS_BACK);
    ask->flags &= (uint8_t)~RT_ASK_AWAY;
}

void rt_ask_released(struct rt_desk *desk, struct rt_ask *ask, int err)
{
    assert(ask->state != RT_ASK_DONE);
    ask->ticket = NULL;
    ask->err = (int16_t)err;
    rt_ask_move(ask, RT_ASK_DONE);
    bool told_nothing = (ask->news & RT_NEWS_LOST) != 0;
    if (told_nothing) /* whoever lets go needs no message that it is gone */
        ask->news = (uint8_t)(ask->news & ~RT_NEWS_LOST);
    if (told_nothing && ask->news == 0)
        ask->news = RT_NEWS_RELEASED; /* still in the list of news */
    else
        rt_outbox_tell(desk, ask, RT_NEWS_RELEASED);
    rt_outbox_line_settle(desk, ask->line);
}

void rt_ask_take_away(struct rt_desk *desk, struct rt_ask *ask, int reason)
{
    assert(ask->state == RT_ASK_HELD);
    assert(ask->ticket->holds > 0);
    rt_ask_stop_timer(desk, ask);
    ask->ticket->holds--;
    ask->ticket = NULL;
    ask->lost = (int16_t)reason;
    rt_ask_move(ask, RT_ASK_LOST);
    rt_outbox_tell(desk, ask, RT_NEWS_LOST);
}

bool rt_ask_is_over(const struct rt_ask *ask, int64_t now)
{
    assert(ask->terms == NULL || ask->terms->ask == ask);
    return ask->state == RT_ASK_HELD && ask->terms != NULL && ask->terms->hold > 0 &&
           ask->terms->timer.at <= now;
}
