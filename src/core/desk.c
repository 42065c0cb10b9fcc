/* SPDX-License-Identifier: Apache-2.0 */
/* The desk: one client's whole state; requests and answers in, things to do and news out. */
#include "core/desk.h"

#include "base/bug.h"
#include "core/grant.h"

#include <assert.h>
#include <rota.h>

#define DEFAULT_PASS_LIMIT 16
#define DEFAULT_PASS_MS 10
#define DEFAULT_CALL_MS 5000

void rt_desk_init(struct rt_desk *desk, struct rt_timers *timers, const struct rt_desk_options *o)
{
    assert(timers != NULL);
    *desk = (struct rt_desk){.timers = timers};
    rt_session_init(&desk->session);
    desk->beat_timer.kind = RT_TIMER_DESK;
    desk->patience_timer.kind = RT_TIMER_DESK;
    desk->last_nonce = o->nonce;
    desk->strict_order = o->pass_limit == ROTA_NEVER || o->pass_ms == ROTA_NEVER;
    desk->pass_limit = o->pass_limit != 0 ? o->pass_limit : DEFAULT_PASS_LIMIT;
    if (desk->pass_limit > UINT16_MAX)
        desk->pass_limit = UINT16_MAX; /* what a line counts to */
    desk->pass = (o->pass_ms != 0 ? o->pass_ms : DEFAULT_PASS_MS) * RT_MS;
    desk->call = (o->call_ms != 0 ? o->call_ms : DEFAULT_CALL_MS) * RT_MS;
    rt_outbox_init(&desk->out);
}

/* ---- Questions ---------------------------------------------------------- */

uint64_t rt_desk_session(const struct rt_desk *desk)
{
    return desk->session.id;
}

int64_t rt_desk_ttl(const struct rt_desk *desk)
{
    return desk->session.ttl;
}

int64_t rt_desk_call(const struct rt_desk *desk)
{
    return desk->call;
}

int64_t rt_desk_lag(const struct rt_desk *desk)
{
    const struct rt_session *s = &desk->session;
    return s->beat_at != RT_NEVER ? s->sent_at - s->beat_at : -1;
}

struct rt_ticket *rt_desk_next(const struct rt_desk *desk, const struct rt_ticket *t)
{
    assert(t == NULL || rt_outbox_holds(desk, t));
    return t != NULL ? t->next : desk->tickets;
}

bool rt_desk_is_patience(const struct rt_desk *desk, const struct rt_timer *t)
{
    return t == &desk->patience_timer;
}

void rt_desk_away(struct rt_desk *desk, bool away)
{
    desk->away = away;
}

/* ---- The session -------------------------------------------------------- */

static void follow_session(struct rt_desk *desk)
{
    int64_t at = rt_session_next(&desk->session);
    assert(at == RT_NEVER || desk->session.state == RT_SESSION_ALIVE);
    if (at == RT_NEVER)
        rt_timers_stop(desk->timers, &desk->beat_timer);
    else if (desk->beat_timer.slot == 0 || desk->beat_timer.at != at)
        rt_timers_start(desk->timers, &desk->beat_timer, at);
}

void rt_desk_want_session(struct rt_desk *desk, int64_t now)
{
    if (rt_session_want(&desk->session, now))
        desk->out.open_due = true;
    assert(desk->session.state != RT_SESSION_NONE || desk->session.in_flight);
}

bool rt_desk_look(struct rt_desk *desk, int64_t now)
{
    if (desk->session.state != RT_SESSION_ALIVE)
        return false;
    if (rt_session_alive(&desk->session, now))
        return true;
    rt_desk_session_lost(desk, desk->session.id, now);
    assert(desk->session.state == RT_SESSION_NONE);
    return false;
}

static void session_opened(struct rt_desk *desk)
{
    struct rt_ticket *list = rt_outbox_unsent(desk), *t;
    assert(desk->session.state == RT_SESSION_ALIVE);
    while ((t = rt_outbox_pop(&list)) != NULL) {
        rt_outbox_post(desk, t);
        rt_outbox_settle(desk, t);
    }
}

static void session_refused(struct rt_desk *desk, int err, int64_t now)
{
    struct rt_ticket *list = rt_outbox_unsent(desk), *t;
    assert(err != 0);
    while ((t = rt_outbox_pop(&list)) != NULL) {
        if (t->state == RT_TICKET_JOINING)
            rt_line_refused(desk, t, err, now);
        else
            rt_outbox_settle(desk, t);
    }
    struct rt_set *set;
    while ((set = rt_set_todo(desk)) != NULL)
        rt_set_fail(desk, set, err, now);
}

void rt_desk_beaten(struct rt_desk *desk, int err, uint64_t session, uint32_t ttl_ms,
                    uint32_t allowance_ms, int64_t now)
{
    struct rt_session *s = &desk->session;
    assert(s->in_flight);
    if (s->state == RT_SESSION_NONE) { /* ended while its BEAT was under way */
        s->in_flight = false;
        if (desk->out.unsent != NULL || rt_set_todo(desk) != NULL)
            rt_desk_want_session(desk, now);
    } else if (err == 0) {
        rt_outbox_answered(desk);
        if (rt_session_answered(s, session, ttl_ms, allowance_ms, now))
            session_opened(desk);
        (void)rt_desk_look(desk, now); /* the answer may have come too late */
    } else if (s->state == RT_SESSION_OPENING) {
        rt_session_failed(s, now);
        /* Whatever became of the session, no JOIN was sent: for the asker that is definite. */
        session_refused(desk, err == ROTA_UNKNOWN ? ROTA_UNREACHABLE : err, now);
    } else {
        rt_session_failed(s, now);
        if (err == ROTA_LOST)
            rt_desk_session_lost(desk, s->id, now);
    }
    follow_session(desk);
}

static struct rt_ticket *last_ticket(const struct rt_desk *desk)
{
    struct rt_ticket *t = desk->tickets;
    while (t != NULL && t->next != NULL)
        t = t->next;
    return t;
}

/* Whether T was joined after NONCE was given. */
static bool is_fresh(const struct rt_ticket *t, uint64_t nonce)
{
    return t->state == RT_TICKET_JOINING && (int64_t)(t->id - nonce) > 0;
}

void rt_desk_session_lost(struct rt_desk *desk, uint64_t session, int64_t now)
{
    if (desk->session.state != RT_SESSION_ALIVE || session != desk->session.id)
        return;
    rt_session_end(&desk->session);
    follow_session(desk);
    /* Each becomes idle, the oldest first: those that go back into their lines keep their former
     * order. They are linked before all others, so the walk is over when the last is one of them. */
    uint64_t nonce = desk->last_nonce;
    struct rt_ticket *t = last_ticket(desk);
    while (t != NULL && !is_fresh(t, nonce)) {
        struct rt_ticket *before = t->prev;
        rt_line_lost(desk, t, true, now);
        bool next = before != NULL && rt_outbox_holds(desk, before) && before->next == NULL;
        t = next ? before : last_ticket(desk); /* others of a set may have gone with it */
    }
}

void rt_desk_end(struct rt_desk *desk, int64_t now)
{
    rt_desk_session_lost(desk, desk->session.id, now);
    assert(desk->session.state != RT_SESSION_ALIVE);
    session_refused(desk, ROTA_CLOSED, now);
    rt_outbox_end(desk);
    rt_timers_stop(desk->timers, &desk->beat_timer);
    rt_timers_stop(desk->timers, &desk->patience_timer);
}

void rt_desk_fini(struct rt_desk *desk)
{
    rt_timers_stop(desk->timers, &desk->beat_timer);
    rt_timers_stop(desk->timers, &desk->patience_timer);
    rt_outbox_fini(desk);
    assert(desk->beat_timer.slot == 0 && desk->out.retry_timer.slot == 0);
}

/* ---- Asks --------------------------------------------------------------- */

bool rt_desk_solo(const struct rt_desk *desk, const struct rt_ask *ask)
{
    if (desk->strict_order || (ask->flags & RT_ASK_DETECT) != 0)
        return true;
    if (ask->mode != ROTA_EXCLUSIVE && ask->mode != ROTA_SHARED)
        return true;
    const struct rt_terms *terms = ask->terms;
    return terms != NULL && (terms->value != NULL || terms->set != NULL || terms->at_least_ms > 0);
}

void rt_desk_bind(struct rt_ask *ask)
{
    assert(ask->state == RT_ASK_NEW && ask->line != NULL);
    if (ask->ticket != NULL) /* its LEAVE may go on after the ask is answered: the line stays */
        ask->line->solo_tickets++;
    if (ask->terms == NULL)
        return;
    ask->terms->ask = ask;
    ask->terms->timer.kind = RT_TIMER_ASK;
}

void rt_desk_ask(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    rt_desk_bind(ask);
    assert(rt_desk_solo(desk, ask) == (ask->ticket != NULL));
    (void)rt_desk_look(desk, now);
    if (desk->closing)
        rt_ask_fail(desk, ask, ROTA_CLOSED);
    else
        rt_line_ask(desk, ask, now);
}

void rt_desk_release(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    assert(ask->state == RT_ASK_HELD || ask->state == RT_ASK_LOST);
    (void)rt_desk_look(desk, now);
    /* An owner that did not run learns it first of all, even if no timer had a chance yet. */
    if (rt_ask_is_over(ask, now))
        rt_line_hold_over(desk, ask, now);
    rt_line_release(desk, ask, now);
}

void rt_desk_take_back(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_ticket *t = ask->ticket;
    assert(ask->state != RT_ASK_HELD || t != NULL);
    if (ask->state == RT_ASK_HELD && rt_ticket_has(t, RT_TICKET_SOLO) && t->holds == 1)
        t->flags &= (uint16_t)~RT_TICKET_OWNED;
    rt_desk_release(desk, ask, now);
}

bool rt_desk_cancel(struct rt_desk *desk, struct rt_ask *ask, int err, int64_t now)
{
    assert(err != 0);
    if (ask->terms != NULL && ask->terms->set != NULL) { /* also by one that holds, by re-entry */
        rt_set_fail(desk, ask->terms->set, err, now);
        return true;
    }
    if (ask->state != RT_ASK_QUEUED)
        return false;
    (void)rt_desk_look(desk, now); /* others behind it may be let in: only while it is ours */
    if (ask->state == RT_ASK_QUEUED)
        rt_line_cancel(desk, ask, err, now);
    return true;
}

void rt_desk_downgraded(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    assert(ask->state == RT_ASK_HELD || ask->state == RT_ASK_LOST);
    (void)rt_desk_look(desk, now); /* readers that wait here are let in: only while it is ours */
    if (ask->state == RT_ASK_HELD)
        rt_line_downgraded(desk, ask, now);
}

int64_t rt_desk_until(const struct rt_desk *desk, const struct rt_ask *ask)
{
    if (ask->state != RT_ASK_HELD)
        return 0;
    assert(ask->ticket != NULL && ask->ticket->holds > 0);
    int64_t until = desk->session.usable_until;
    if (ask->terms != NULL && ask->terms->hold > 0 && ask->terms->timer.at < until)
        until = ask->terms->timer.at;
    return until;
}

void rt_desk_close(struct rt_desk *desk)
{
    desk->closing = true;
}

void rt_desk_close_line(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    assert(desk->closing);
    rt_line_close(desk, line, now);
}

bool rt_desk_quiet(const struct rt_desk *desk)
{
    assert(desk->tickets == NULL || desk->tickets->prev == NULL);
    return desk->tickets == NULL && desk->sets == NULL;
}

/* ---- Answers and events ------------------------------------------------- */

static void ticket_granted(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    assert(rt_ticket_has(t, RT_TICKET_NUMBERED));
    /* The wait may have outlasted our session (I3; etcd #11456 is this check left out). */
    if (!RT_BUG(RT_BUG_NO_RECHECK_AFTER_WAIT) && !rt_desk_look(desk, now))
        return;
    rt_ticket_held(t, now);
    rt_line_held(desk, t, now);
}

static void join_unknown(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    bool doomed = rt_ticket_has(t, RT_TICKET_DOOMED);
    assert(t->state == RT_TICKET_JOINING);
    rt_ticket_again(t, true);
    if (doomed)
        rt_ticket_leave(t, now); /* by its nonce */
    rt_outbox_later(desk, t, now);
    rt_patience_try_ended(desk, t, now);
}

/* A refusal is no answer to an earlier try unless the engine looked for that: the first may have
 * taken effect (I5), so it is taken back, by its nonce. */
static void join_refused(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now)
{
    bool looked = err == ROTA_BUSY || err == ROTA_INVALID;
    assert(t->state == RT_TICKET_JOINING && err != ROTA_UNKNOWN);
    /* An ask that waits on asks again with the same nonce, and finds it. */
    bool unsure = rt_ticket_has(t, RT_TICKET_AGAIN) && !looked && !rt_line_outlasts(desk, t, err);
    if (unsure)
        rt_ticket_leave(t, now);
    rt_line_refused(desk, t, err, now);
    if (unsure)
        rt_outbox_later(desk, t, now);
}

void rt_desk_joined(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err,
                    const struct rt_joined *j, int64_t now)
{
    assert(err != 0 || j->number != 0);
    rt_outbox_back(desk, t, err, now);
    if (!rt_ticket_is(t, RT_TICKET_JOINING, id)) { /* lost or given up meanwhile */
        rt_outbox_settle(desk, t);
    } else if (err == 0) {
        bool doomed = rt_ticket_has(t, RT_TICKET_DOOMED);
        rt_outbox_answered(desk);
        rt_ticket_numbered(t, j->number, now);
        if (!doomed)
            rt_line_joined(desk, t);
        if (doomed)
            rt_outbox_leave(desk, t, now);
        else if (j->granted)
            ticket_granted(desk, t, now);
        if (j->wanted && t->state == RT_TICKET_HELD)
            rt_line_wanted(desk, t, now);
    } else if (err == ROTA_UNKNOWN) {
        join_unknown(desk, t, now);
    } else if (err == ROTA_LOST) {
        rt_desk_session_lost(desk, desk->session.id, now);
    } else {
        join_refused(desk, t, err, now);
    }
}

void rt_desk_left(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err, int64_t now)
{
    rt_outbox_back(desk, t, err, now);
    if (!rt_ticket_is(t, RT_TICKET_LEAVING, id)) {
        rt_outbox_settle(desk, t);
        return;
    }
    if (err == 0 || err == ROTA_LOST) {
        /* After an unknown end, "not there" does not say whose doing that was (I5). */
        if (err == ROTA_LOST && rt_ticket_has(t, RT_TICKET_AGAIN))
            err = ROTA_UNKNOWN;
        rt_line_left(desk, t, err, now);
        return;
    }
    rt_ticket_again(t, err == ROTA_UNKNOWN);
    rt_outbox_later(desk, t, now);
    rt_patience_try_ended(desk, t, now);
}

void rt_desk_armed(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err, bool wanted,
                   int64_t now)
{
    rt_outbox_back(desk, t, err, now);
    (void)rt_desk_look(desk, now); /* readers may be let in: only while it is ours */
    if (!rt_ticket_is(t, RT_TICKET_HELD, id)) {
        rt_outbox_settle(desk, t);
    } else if (err == ROTA_LOST) {
        rt_line_lost(desk, t, false, now);
    } else if (err != 0) {
        t->want |= RT_WANT_ARM;
        rt_outbox_later(desk, t, now);
    } else {
        t->flags &= (uint16_t)~RT_TICKET_ASKING;
        rt_line_armed(desk, t, wanted, now);
    }
}

void rt_desk_granted(struct rt_desk *desk, struct rt_ticket *t, uint64_t fence, int64_t now)
{
    assert(rt_ticket_has(t, RT_TICKET_NUMBERED));
    if (t->state != RT_TICKET_WAITING)
        return;
    if (fence != 0)
        rt_ticket_fenced(t, fence);
    ticket_granted(desk, t, now);
}

void rt_desk_wanted(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    assert(rt_ticket_has(t, RT_TICKET_NUMBERED));
    if (rt_desk_look(desk, now) && t->state == RT_TICKET_HELD)
        rt_line_wanted(desk, t, now);
}

void rt_desk_ticket_lost(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    assert(rt_ticket_has(t, RT_TICKET_NUMBERED));
    /* While it is being left, the answer to LEAVE decides what its owner is told. */
    if (t->state == RT_TICKET_WAITING || t->state == RT_TICKET_HELD)
        rt_line_lost(desk, t, false, now);
}

static void desk_timer(struct rt_desk *desk, struct rt_timer *t, int64_t now)
{
    assert(t->kind == RT_TIMER_DESK && t->slot == 0);
    if (t == &desk->out.retry_timer) {
        rt_outbox_retry(desk);
    } else if (t == &desk->patience_timer) {
        rt_patience_over(desk, now);
    } else if (rt_desk_look(desk, now)) {
        if (rt_session_beat(&desk->session, now))
            desk->out.beat_due = true;
        follow_session(desk);
    }
}

/* An ask that never came into the line did not wait for somebody else's turn. */
static int limit_err(const struct rt_desk *desk, const struct rt_ask *ask)
{
    const struct rt_ticket *t = ask->ticket;

    assert(ask->state != RT_ASK_HELD); /* that has no limit any more */
    if (t == NULL)
        t = ask->mode == RT_SHARED ? ask->line->s : &ask->line->x;
    bool away = desk->away || (ask->flags & RT_ASK_AWAY) != 0;
    if (away && t != NULL && t->state == RT_TICKET_JOINING)
        return ROTA_UNREACHABLE;
    return ROTA_TIMEOUT;
}

void rt_desk_timer(struct rt_desk *desk, struct rt_timer *t, int64_t now)
{
    assert(t->slot == 0); /* it was taken out when it fell due */
    if (t->kind == RT_TIMER_DESK) {
        desk_timer(desk, t, now);
    } else if (t->kind == RT_TIMER_LINE) {
        char *line = (char *)t - offsetof(struct rt_line, timer);
        rt_line_linger_over(desk, (struct rt_line *)(void *)line, now);
    } else {
        char *terms = (char *)t - offsetof(struct rt_terms, timer);
        struct rt_ask *ask = ((struct rt_terms *)(void *)terms)->ask;
        if (ask->state == RT_ASK_HELD)
            rt_line_hold_over(desk, ask, now);
        else
            (void)rt_desk_cancel(desk, ask, limit_err(desk, ask), now);
    }
}
