/* SPDX-License-Identifier: Apache-2.0 */
/* Patience: a release or a try that somebody waits for is over after `call`, whatever becomes of the
 * requests that were sent for it. That time does not run while it waits for other requests of ours that are answered. One timer serves all of them, so that the plain pair costs no more: those
 * that are answered do not move it, and when it fires it looks for the next. */
#include "core/desk.h"

#include <assert.h>
#include <rota.h>

/* A request that ends by its deadline, at that moment, is heard first: it says why. */
#define GRACE RT_MS

void rt_patience_start(struct rt_desk *desk, int64_t now)
{
    assert(desk->call > 0);
    if (desk->patience_timer.slot == 0)
        rt_timers_start(desk->timers, &desk->patience_timer, now + desk->call + GRACE);
}

static bool tries(const struct rt_ask *ask)
{
    return (ask->flags & RT_ASK_TRY) != 0 || (rt_ask_in_set(ask) && ask->terms->set->try);
}

/* Whether the time of what began at SINCE is over; if not, *NEXT is no later than that. */
static bool is_over(const struct rt_desk *desk, int64_t since, int64_t now, int64_t *next)
{
    int64_t at = since + desk->call;
    assert(since <= now);
    if (at > now && at < *next)
        *next = at;
    return at <= now;
}

static int64_t since_of(const struct rt_desk *desk, const struct rt_ticket *t,
                        const struct rt_ask *ask)
{
    return t->state == RT_TICKET_JOINING ? rt_outbox_since(desk, t, ask->since) : ask->since;
}

/* An ask that waits for T, or in its line, and has waited long enough; NULL: none. */
static struct rt_ask *find(const struct rt_desk *desk, const struct rt_ticket *t, int64_t now,
                           int64_t *next)
{
    bool solo = rt_ticket_has(t, RT_TICKET_SOLO);
    assert(rt_outbox_holds(desk, t));
    struct rt_ask *ask = t->state == RT_TICKET_LEAVING ? rt_line_releasing(t) : NULL;
    if (ask != NULL && is_over(desk, rt_outbox_since(desk, t, t->since), now, next))
        return ask;
    if (!solo)
        ask = t->line->queue;
    else if (t->state == RT_TICKET_JOINING && rt_ticket_has(t, RT_TICKET_TRY))
        ask = rt_line_solo(t);
    else
        return NULL;
    for (; ask != NULL; ask = solo ? NULL : ask->next)
        if (tries(ask) && is_over(desk, since_of(desk, t, ask), now, next))
            return ask;
    return NULL;
}

/* Whether the engine may have got T's JOIN, and has not answered it. */
static bool is_open(const struct rt_ticket *t)
{
    bool unsent = (t->want & RT_WANT_JOIN) != 0 && !rt_ticket_has(t, RT_TICKET_AGAIN);
    return t->state == RT_TICKET_JOINING && !unsent;
}

/* A try whose JOIN was never sent has failed; what became of any other is unknown, and it is taken back. */
static int try_err(const struct rt_ask *ask)
{
    assert(tries(ask));
    const struct rt_line *line = ask->line;
    bool open;
    if (rt_ask_in_set(ask))
        open = ask->terms->set->in_flight || rt_ticket_has(ask->ticket, RT_TICKET_AGAIN);
    else if (ask->ticket != NULL)
        open = is_open(ask->ticket);
    else
        open = is_open(&line->x) || (line->s != NULL && is_open(line->s));
    return open ? ROTA_UNKNOWN : ROTA_UNREACHABLE;
}

static void end(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    if (ask->state == RT_ASK_RELEASING)
        rt_line_unconfirmed(desk, ask->ticket);
    else
        (void)rt_desk_cancel(desk, ask, try_err(ask), now);
}

/* Looks at each ticket once, however many asks end. What an end puts at the head of the list has just begun. */
void rt_patience_over(struct rt_desk *desk, int64_t now)
{
    int64_t next = RT_NEVER;
    struct rt_ticket *t = desk->tickets;

    while (t != NULL) {
        struct rt_ticket *behind = t->next;
        struct rt_ask *ask = find(desk, t, now, &next);
        if (ask != NULL)
            end(desk, ask, now);
        if (ask != NULL && rt_outbox_holds(desk, t))
            continue; /* others may wait for it */
        t = behind == NULL || rt_outbox_holds(desk, behind) ? behind : desk->tickets;
    }
    assert(next > now);
    if (next != RT_NEVER)
        rt_timers_start(desk->timers, &desk->patience_timer, next + GRACE);
}

void rt_patience_try_ended(struct rt_desk *desk, const struct rt_ticket *t, int64_t now)
{
    assert(t->since <= now);
    struct rt_timer *timer = &desk->patience_timer; /* one look for all that end now */
    if (now - t->since >= desk->call && (timer->slot == 0 || timer->at > now))
        rt_timers_start(desk->timers, timer, now);
}
