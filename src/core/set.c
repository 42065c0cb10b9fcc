/* SPDX-License-Identifier: Apache-2.0 */
/* Several asks as one: all of them are granted, or none stays behind. */
#include "core/desk.h"
#include "core/reentry.h"

#include <assert.h>
#include <rota.h>

/* The oldest comes first. */
static void link_set(struct rt_desk *desk, struct rt_set *set)
{
    set->next = NULL;
    set->prev = desk->sets_last;
    if (set->prev != NULL)
        set->prev->next = set;
    else
        desk->sets = set;
    desk->sets_last = set;
}

/* From the desk's sets to the dead ones. */
static void bury(struct rt_desk *desk, struct rt_set *set)
{
    assert(set->over && !set->in_flight);
    if (set->prev != NULL)
        set->prev->next = set->next;
    else
        desk->sets = set->next;
    if (set->next != NULL)
        set->next->prev = set->prev;
    else
        desk->sets_last = set->prev;
    set->prev = NULL;
    set->next = desk->out.dead_sets;
    desk->out.dead_sets = set;
}

static void answer(struct rt_desk *desk, struct rt_set *set, int err)
{
    assert(!set->over);
    for (size_t i = 0; i < set->n; i++)
        set->asks[i]->terms->set = NULL; /* from here on each is a hold like any other */
    set->over = true;
    set->want_join = set->again = false;
    set->asks[0]->err = (int16_t)err;
    rt_outbox_tell(desk, set->asks[0], RT_NEWS_ANSWERED);
    if (!set->in_flight)
        bury(desk, set);
}

/* Nobody wants T any more, and nothing about it is under way. */
static void take_back(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    /* Of a JOIN_ALL that was refused, or never sent, nothing is in any line. */
    if (t->state == RT_TICKET_JOINING && !rt_ticket_has(t, RT_TICKET_AGAIN))
        rt_ticket_idle(t, now);
    if (t->state == RT_TICKET_JOINING)
        rt_outbox_leave(desk, t, now);
    else if (t->state != RT_TICKET_IDLE)
        rt_outbox_give_up(desk, t, now);
    rt_outbox_settle(desk, t);
}

/* Gives a member up, whatever it has reached. */
static void abandon(struct rt_desk *desk, struct rt_ask *ask, int err, int64_t now)
{
    struct rt_ticket *t = ask->ticket;
    if (ask->state == RT_ASK_HELD) { /* by re-entry */
        rt_ask_drop(ask);
        ask->ticket = NULL;
        rt_ask_move(ask, RT_ASK_DONE);
        if (--t->holds == 0) /* what it re-entered was let go meanwhile */
            rt_outbox_leave(desk, t, now);
    } else if (ask->state != RT_ASK_DONE) {
        bool flies = ask->terms->set->in_flight;
        rt_ask_fail(desk, ask, err);
        if (flies && t->state == RT_TICKET_JOINING)
            rt_ticket_give_up(t, now); /* the answer says what has to be taken back */
        else
            take_back(desk, t, now);
    }
}

void rt_set_fail(struct rt_desk *desk, struct rt_set *set, int err, int64_t now)
{
    assert(err != 0 && !set->over);
    for (size_t i = 0; i < set->n; i++)
        abandon(desk, set->asks[i], err, now);
    answer(desk, set, err);
}

static void complete(struct rt_desk *desk, struct rt_set *set, int64_t now)
{
    assert(set->pending == 0);
    for (size_t i = 0; i < set->n; i++) {
        struct rt_ask *ask = set->asks[i];
        if (ask->state == RT_ASK_QUEUED)
            rt_ask_grant(desk, ask, ask->ticket, now);
    }
    answer(desk, set, 0);
    for (size_t i = 0; i < set->n; i++)
        rt_ask_start_hold(desk, set->asks[i], now); /* also of those that re-entered before */
}

void rt_desk_ask_all(struct rt_desk *desk, struct rt_set *set, int64_t now)
{
    assert(set->n > 0 && !set->in_flight && !set->over);
    (void)rt_desk_look(desk, now);
    int err = desk->closing ? ROTA_CLOSED : 0;
    set->pending = 0;
    for (size_t i = 0; i < set->n; i++) {
        struct rt_ask *ask = set->asks[i];
        assert(ask->terms->set == set && ask->ticket != NULL);
        rt_desk_bind(ask);
        rt_line_end_linger(desk, ask->line, now); /* our own tenure would stand in the way */
        if (err == 0 && rt_reentry_try(desk, ask, now)) {
            if (ask->state == RT_ASK_DONE)
                err = ask->err;
            continue;
        }
        rt_line_wait(desk, ask, now);
        ask->ticket->flags |= RT_TICKET_SET; /* JOIN_ALL carries its JOIN */
        rt_outbox_join(desk, ask->ticket, set->try, false, now);
        set->pending++;
    }
    set->since = now;
    link_set(desk, set);
    if (set->try)
        rt_patience_start(desk, now);
    if (err != 0)
        rt_set_fail(desk, set, err, now);
    else if (set->pending == 0)
        complete(desk, set, now);
    else
        set->want_join = true;
}

struct rt_set *rt_set_todo(struct rt_desk *desk)
{
    struct rt_set *set = desk->sets;
    while (set != NULL && !set->want_join)
        set = set->next;
    return set;
}

void rt_set_retry(struct rt_desk *desk)
{
    for (struct rt_set *set = desk->sets; set != NULL; set = set->next)
        if (set->again) {
            set->again = false;
            set->want_join = true;
        }
}

/* What JOIN_ALL says of one ticket. */
static void ticket_joined(struct rt_desk *desk, struct rt_set *set, struct rt_ticket *t, int err,
                          const struct rt_joined *j, int64_t now)
{
    rt_outbox_back(desk, t, err, now);
    if (t->state != RT_TICKET_JOINING)
        return; /* the session was lost meanwhile */
    if (err == ROTA_UNKNOWN)
        rt_ticket_again(t, true);
    if (err != 0)
        return;
    rt_ticket_numbered(t, j->number, now);
    if (j->granted && !set->over) {
        rt_ticket_held(t, now);
        set->pending--;
    }
}

void rt_desk_joined_all(struct rt_desk *desk, struct rt_set *set, int err,
                        const struct rt_joined *j, int64_t now)
{
    assert(set->in_flight);
    (void)rt_desk_look(desk, now); /* if not, it has been answered by this */
    set->in_flight = false;
    for (size_t i = 0; i < set->sent; i++)
        ticket_joined(desk, set, set->tickets[i], err, &j[i], now);
    if (set->over) {
        for (size_t i = 0; i < set->sent; i++)
            take_back(desk, set->tickets[i], now);
        bury(desk, set);
    } else if (err == ROTA_UNKNOWN) {
        set->again = true;
        rt_outbox_retry_soon(desk, now);
        rt_patience_try_ended(desk, set->tickets[0], now);
    } else if (err != 0) {
        rt_set_fail(desk, set, err, now);
    } else if (set->pending == 0) {
        complete(desk, set, now);
    }
}

void rt_set_member_lost(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    assert(ask->state == RT_ASK_HELD);
    rt_ask_drop(ask);
    ask->ticket->holds--;
    ask->ticket = NULL;
    rt_ask_move(ask, RT_ASK_DONE);
    rt_set_fail(desk, ask->terms->set, ROTA_LOST, now);
}

void rt_set_held(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_set *set = ask->terms->set;
    assert(set->pending > 0);
    if (--set->pending == 0)
        complete(desk, set, now);
}
