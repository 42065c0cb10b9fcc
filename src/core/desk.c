/* SPDX-License-Identifier: Apache-2.0 */
/* The desk: one client's whole state; requests and answers in, things to do and news out. */
#include "core/desk.h"
#include "core/grant.h"

#include "base/bug.h"

#include <assert.h>
#include <rota.h>

/* Pauses before something is sent again: short at first, since most failures are one broken
 * connection; then longer, up to a second, since a waiter may stand behind our dead ticket, or
 * call_ms, since a release may have to wait for it, but not less than RETRY_LEAST. */
#define RETRY_FIRST (20 * RT_MS)
#define RETRY_MOST (1000 * RT_MS)
#define RETRY_LEAST (250 * RT_MS)

#define DEFAULT_PASS_LIMIT 16
#define DEFAULT_PASS_MS 10
#define DEFAULT_CALL_MS 5000

void rt_desk_init(struct rt_desk *desk, struct rt_timers *timers, const struct rt_desk_options *o)
{
    *desk = (struct rt_desk){.timers = timers};
    rt_session_init(&desk->session);
    desk->beat_timer.kind = RT_TIMER_DESK;
    desk->retry_timer.kind = RT_TIMER_DESK;
    desk->patience_timer.kind = RT_TIMER_DESK;
    desk->last_nonce = o->nonce;
    desk->strict_order = o->pass_limit == ROTA_NEVER || o->pass_ms == ROTA_NEVER;
    desk->pass_limit = o->pass_limit != 0 ? o->pass_limit : DEFAULT_PASS_LIMIT;
    if (desk->pass_limit > UINT16_MAX)
        desk->pass_limit = UINT16_MAX; /* what a line counts to */
    desk->pass = (o->pass_ms != 0 ? o->pass_ms : DEFAULT_PASS_MS) * RT_MS;
    desk->call = (o->call_ms != 0 ? o->call_ms : DEFAULT_CALL_MS) * RT_MS;
    desk->retry_pause = RETRY_FIRST;
}

/* ---- Lists -------------------------------------------------------------- */

static void link_ticket(struct rt_desk *desk, struct rt_ticket *t)
{
    t->prev = NULL;
    t->next = desk->tickets;
    if (t->next != NULL)
        t->next->prev = t;
    desk->tickets = t;
}

static void unlink_ticket(struct rt_desk *desk, struct rt_ticket *t)
{
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        desk->tickets = t->next;
    if (t->next != NULL)
        t->next->prev = t->prev;
    t->next = t->prev = NULL;
}

static bool is_linked(const struct rt_desk *desk, const struct rt_ticket *t)
{
    return t->next != NULL || t->prev != NULL || desk->tickets == t;
}

static void push(struct rt_ticket **list, struct rt_ticket *t)
{
    assert(!rt_ticket_has(t, RT_TICKET_LISTED));
    t->flags |= RT_TICKET_LISTED;
    t->out_next = *list;
    *list = t;
}

static struct rt_ticket *pop(struct rt_ticket **list)
{
    struct rt_ticket *t = *list;
    if (t != NULL) {
        *list = t->out_next;
        t->out_next = NULL;
        t->flags &= (uint16_t)~RT_TICKET_LISTED;
    }
    return t;
}

void rt_desk_post(struct rt_desk *desk, struct rt_ticket *t)
{
    if (rt_ticket_has(t, RT_TICKET_LISTED) || t->want == 0)
        return;
    t->flags |= RT_TICKET_LISTED;
    t->out_next = NULL;
    if (desk->outbox == NULL)
        desk->outbox = t;
    else
        desk->outbox_tail->out_next = t;
    desk->outbox_tail = t;
}

void rt_desk_tell(struct rt_desk *desk, struct rt_ask *ask, unsigned news)
{
    assert((ask->news & news) == 0); /* I9: each once */
    bool listed = ask->news != 0;
    ask->news = (uint8_t)(ask->news | news);
    if (listed)
        return;
    ask->news_next = NULL;
    if (desk->news == NULL)
        desk->news = ask;
    else
        desk->news_tail->news_next = ask;
    desk->news_tail = ask;
}

struct rt_ask *rt_desk_news(struct rt_desk *desk)
{
    struct rt_ask *ask = desk->news;
    if (ask != NULL) {
        desk->news = ask->news_next;
        ask->news_next = NULL;
    }
    return ask;
}

struct rt_ticket *rt_desk_dead(struct rt_desk *desk)
{
    return pop(&desk->dead);
}

struct rt_line *rt_desk_idle(struct rt_desk *desk)
{
    struct rt_line *line = desk->idle;
    if (line != NULL) {
        desk->idle = line->idle_next;
        line->idle_listed = 0;
    }
    return line;
}

void rt_desk_line_settle(struct rt_desk *desk, struct rt_line *line)
{
    if (line->idle_listed || !rt_line_idle(line))
        return;
    line->idle_listed = 1;
    line->idle_next = desk->idle;
    desk->idle = line;
}

void rt_desk_settle(struct rt_desk *desk, struct rt_ticket *t)
{
    if (t->state != RT_TICKET_IDLE)
        return;
    if (is_linked(desk, t))
        unlink_ticket(desk, t);
    struct rt_line *line = t->line;
    if (rt_ticket_has(t, RT_TICKET_SOLO) && t->ops == 0 && !rt_ticket_has(t, RT_TICKET_LISTED)) {
        push(&desk->dead, t);
        assert(line->solo_tickets > 0);
        line->solo_tickets--;
    }
    rt_desk_line_settle(desk, line);
}

/* ---- Tickets ------------------------------------------------------------ */

uint64_t rt_desk_nonce(struct rt_desk *desk)
{
    if (++desk->last_nonce == 0)
        ++desk->last_nonce; /* 0 means none */
    return desk->last_nonce;
}

void rt_desk_join(struct rt_desk *desk, struct rt_ticket *t, bool try, bool arm, int64_t now)
{
    rt_ticket_join(t, rt_desk_nonce(desk), try, arm, now);
    link_ticket(desk, t);
    rt_desk_post(desk, t);
}

void rt_desk_leave(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    rt_ticket_leave(t, now);
    rt_desk_post(desk, t);
    rt_desk_settle(desk, t);
}

void rt_desk_give_up(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    if (t->state == RT_TICKET_HELD) {
        rt_desk_leave(desk, t, now);
        return;
    }
    rt_ticket_give_up(t, now);
    rt_desk_post(desk, t);
    rt_desk_settle(desk, t);
}

static void send_later(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    if (!rt_ticket_has(t, RT_TICKET_LISTED))
        push(&desk->retry, t);
    if (desk->retry_timer.slot == 0)
        rt_timers_start(desk->timers, &desk->retry_timer, now + desk->retry_pause);
}

void rt_desk_rejoin(struct rt_desk *desk, struct rt_ticket *t, bool arm, int64_t now)
{
    assert(t->state == RT_TICKET_IDLE);
    unlink_ticket(desk, t);
    rt_desk_join(desk, t, false, arm, now);
}

void rt_desk_again(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    rt_ticket_again(t, false);
    send_later(desk, t, now);
}

static void retry_now(struct rt_desk *desk)
{
    struct rt_ticket *list = desk->retry, *t;
    desk->retry = NULL;
    desk->retry_pause *= 2;
    int64_t most = desk->call < RETRY_MOST ? desk->call : RETRY_MOST;
    if (most < RETRY_LEAST)
        most = RETRY_LEAST;
    if (desk->retry_pause > most)
        desk->retry_pause = most;
    while ((t = pop(&list)) != NULL) {
        rt_desk_post(desk, t);
        rt_desk_settle(desk, t); /* it may have become idle meanwhile */
    }
    rt_set_retry(desk);
}

/* ---- The session -------------------------------------------------------- */

static void follow_session(struct rt_desk *desk)
{
    int64_t at = rt_session_next(&desk->session);
    if (at == RT_NEVER)
        rt_timers_stop(desk->timers, &desk->beat_timer);
    else if (desk->beat_timer.slot == 0 || desk->beat_timer.at != at)
        rt_timers_start(desk->timers, &desk->beat_timer, at);
}

static void want_session(struct rt_desk *desk, int64_t now)
{
    if (rt_session_want(&desk->session, now))
        desk->open_due = true;
}

bool rt_desk_look(struct rt_desk *desk, int64_t now)
{
    if (desk->session.state != RT_SESSION_ALIVE)
        return false;
    if (rt_session_alive(&desk->session, now))
        return true;
    rt_desk_session_lost(desk, desk->session.id, now);
    return false;
}

/* The unsent JOINs were pushed newest first: hand them on in the order they were taken. */
static struct rt_ticket *take_unsent(struct rt_desk *desk)
{
    struct rt_ticket *reversed = NULL, *t;
    while ((t = pop(&desk->unsent)) != NULL)
        push(&reversed, t);
    return reversed;
}

static void session_opened(struct rt_desk *desk)
{
    struct rt_ticket *list = take_unsent(desk), *t;
    while ((t = pop(&list)) != NULL) {
        rt_desk_post(desk, t);
        rt_desk_settle(desk, t);
    }
}

static void session_refused(struct rt_desk *desk, int err, int64_t now)
{
    struct rt_ticket *list = take_unsent(desk), *t;
    while ((t = pop(&list)) != NULL) {
        if (t->state == RT_TICKET_JOINING)
            rt_line_refused(desk, t, err, now);
        else
            rt_desk_settle(desk, t);
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
        if (desk->unsent != NULL || rt_set_todo(desk) != NULL)
            want_session(desk, now);
    } else if (err == 0) {
        desk->retry_pause = RETRY_FIRST;
        if (rt_session_answered(s, session, ttl_ms, allowance_ms, now))
            session_opened(desk);
        (void)rt_desk_look(desk, now); /* the answer may have come too late */
    } else if (s->state == RT_SESSION_OPENING) {
        rt_session_failed(s, now);
        /* Whatever became of the session, no JOIN was sent: for who asked that is definite. */
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
    /* Each becomes idle, the oldest first: who goes back into its line does so in the order of
     * before. Those are linked before all others, so the first of them at the end is the end. */
    uint64_t nonce = desk->last_nonce;
    struct rt_ticket *t = last_ticket(desk);
    while (t != NULL && !is_fresh(t, nonce)) {
        struct rt_ticket *before = t->prev;
        rt_line_lost(desk, t, true, now);
        bool next = before != NULL && is_linked(desk, before) && before->next == NULL;
        t = next ? before : last_ticket(desk); /* others of a set may have gone with it */
    }
}

void rt_desk_end(struct rt_desk *desk, int64_t now)
{
    struct rt_ticket **const lists[] = {&desk->outbox, &desk->retry}, *t;
    rt_desk_session_lost(desk, desk->session.id, now);
    session_refused(desk, ROTA_CLOSED, now);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        while ((t = pop(lists[i])) != NULL)
            rt_desk_settle(desk, t);
    rt_timers_stop(desk->timers, &desk->beat_timer);
    rt_timers_stop(desk->timers, &desk->retry_timer);
    rt_timers_stop(desk->timers, &desk->patience_timer);
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
    /* Who did not run learns it as the first thing, also if no timer had a chance yet. */
    if (rt_ask_is_over(ask, now))
        rt_line_hold_over(desk, ask, now);
    rt_line_release(desk, ask, now);
}

void rt_desk_take_back(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_ticket *t = ask->ticket;
    if (ask->state == RT_ASK_HELD && rt_ticket_has(t, RT_TICKET_SOLO) && t->holds == 1)
        t->flags &= (uint16_t)~RT_TICKET_OWNED;
    rt_desk_release(desk, ask, now);
}

bool rt_desk_cancel(struct rt_desk *desk, struct rt_ask *ask, int err, int64_t now)
{
    if (ask->terms != NULL && ask->terms->set != NULL) { /* also by one that holds, by re-entry */
        rt_set_fail(desk, ask->terms->set, err, now);
        return true;
    }
    if (ask->state != RT_ASK_QUEUED)
        return false;
    (void)rt_desk_look(desk, now); /* who stands behind it may be let in: only while it is ours */
    if (ask->state == RT_ASK_QUEUED)
        rt_line_cancel(desk, ask, err, now);
    return true;
}

void rt_desk_downgraded(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    (void)rt_desk_look(desk, now); /* readers that wait here are let in: only while it is ours */
    if (ask->state == RT_ASK_HELD)
        rt_line_downgraded(desk, ask, now);
}

int64_t rt_desk_until(const struct rt_desk *desk, const struct rt_ask *ask)
{
    if (ask->state != RT_ASK_HELD)
        return 0;
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
    return desk->tickets == NULL && desk->sets == NULL;
}

/* ---- What to do --------------------------------------------------------- */

static bool todo_ticket(struct rt_desk *desk, struct rt_ticket *t, struct rt_todo *todo)
{
    unsigned want = t->want;
    *todo = (struct rt_todo){.ticket = t, .id = t->id, .session = desk->session.id};
    todo->again = rt_ticket_has(t, RT_TICKET_AGAIN);
    todo->untold = !rt_ticket_has(t, RT_TICKET_OWNED) && !RT_BUG(RT_BUG_UNTOLD_KEEPS);
    if ((want & RT_WANT_JOIN) != 0)
        todo->kind = RT_TODO_JOIN;
    else if ((want & RT_WANT_LEAVE) != 0)
        todo->kind = RT_TODO_LEAVE;
    else if ((want & RT_WANT_ARM) != 0)
        todo->kind = RT_TODO_ARM;
    else
        return false;
    t->want = 0;
    t->ops++;
    assert(t->ops != 0);
    return true;
}

static bool todo_beat(struct rt_desk *desk, struct rt_todo *todo)
{
    bool open = desk->open_due;
    if (!open && !desk->beat_due)
        return false;
    desk->open_due = desk->beat_due = false;
    *todo = (struct rt_todo){.kind = RT_TODO_BEAT, .open = open, .session = desk->session.id};
    return true;
}

static bool todo_set(struct rt_desk *desk, struct rt_todo *todo, int64_t now)
{
    struct rt_set *set = rt_set_todo(desk);
    if (set == NULL)
        return false;
    if (desk->session.state != RT_SESSION_ALIVE) {
        want_session(desk, now);
        return todo_beat(desk, todo);
    }
    set->want_join = false;
    set->in_flight = true;
    set->sent = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->asks[i]->state == RT_ASK_QUEUED) {
            set->tickets[set->sent++] = set->asks[i]->ticket;
            set->asks[i]->ticket->ops++;
        }
    *todo = (struct rt_todo){.kind = RT_TODO_JOIN_ALL, .set = set, .session = desk->session.id};
    return true;
}

bool rt_desk_todo(struct rt_desk *desk, struct rt_todo *todo, int64_t now)
{
    if (todo_beat(desk, todo))
        return true;
    struct rt_ticket *t;
    while ((t = pop(&desk->outbox)) != NULL) {
        if ((t->want & RT_WANT_JOIN) != 0 && desk->session.state != RT_SESSION_ALIVE) {
            push(&desk->unsent, t);
            want_session(desk, now);
            if (todo_beat(desk, todo))
                return true;
            continue;
        }
        if (todo_ticket(desk, t, todo))
            return true;
        rt_desk_settle(desk, t);
    }
    return todo_set(desk, todo, now);
}

/* ---- Answers and events ------------------------------------------------- */

static void ticket_granted(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    /* The wait may have outlasted our session (I3; etcd #11456 is this check left out). */
    if (!RT_BUG(RT_BUG_NO_RECHECK_AFTER_WAIT) && !rt_desk_look(desk, now))
        return;
    rt_ticket_held(t, now);
    rt_line_held(desk, t, now);
}

static void join_unknown(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    bool doomed = rt_ticket_has(t, RT_TICKET_DOOMED);
    rt_ticket_again(t, true);
    if (doomed)
        rt_ticket_leave(t, now); /* by its nonce */
    send_later(desk, t, now);
    rt_patience_try_ended(desk, t, now);
}

/* A refusal is no answer to an earlier try unless the engine looked for that: the first may have
 * taken effect (I5), so it is taken back, by its nonce. */
static void join_refused(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now)
{
    bool looked = err == ROTA_BUSY || err == ROTA_INVALID;
    /* Who waits on asks again with the same nonce, and finds it. */
    bool unsure = rt_ticket_has(t, RT_TICKET_AGAIN) && !looked && !rt_line_outlasts(desk, t, err);
    if (unsure)
        rt_ticket_leave(t, now);
    rt_line_refused(desk, t, err, now);
    if (unsure)
        send_later(desk, t, now);
}

void rt_desk_joined(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err,
                    const struct rt_joined *j, int64_t now)
{
    assert(t->ops > 0);
    t->ops--;
    if (!rt_ticket_is(t, RT_TICKET_JOINING, id)) { /* lost or given up meanwhile */
        rt_desk_settle(desk, t);
    } else if (err == 0) {
        bool doomed = rt_ticket_has(t, RT_TICKET_DOOMED);
        desk->retry_pause = RETRY_FIRST;
        rt_ticket_numbered(t, j->number, now);
        if (!doomed)
            rt_line_joined(desk, t);
        if (doomed)
            rt_desk_leave(desk, t, now);
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
    assert(t->ops > 0);
    t->ops--;
    if (!rt_ticket_is(t, RT_TICKET_LEAVING, id)) {
        rt_desk_settle(desk, t);
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
    send_later(desk, t, now);
    rt_patience_try_ended(desk, t, now);
}

void rt_desk_armed(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err, bool wanted,
                   int64_t now)
{
    assert(t->ops > 0);
    t->ops--;
    (void)rt_desk_look(desk, now); /* readers may be let in: only while it is ours */
    if (!rt_ticket_is(t, RT_TICKET_HELD, id)) {
        rt_desk_settle(desk, t);
    } else if (err == ROTA_LOST) {
        rt_line_lost(desk, t, false, now);
    } else if (err != 0) {
        t->want |= RT_WANT_ARM;
        send_later(desk, t, now);
    } else {
        t->flags &= (uint16_t)~RT_TICKET_ASKING;
        rt_line_armed(desk, t, wanted, now);
    }
}

void rt_desk_granted(struct rt_desk *desk, struct rt_ticket *t, uint64_t fence, int64_t now)
{
    if (t->state != RT_TICKET_WAITING)
        return;
    if (fence != 0)
        rt_ticket_fenced(t, fence);
    ticket_granted(desk, t, now);
}

void rt_desk_wanted(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    if (rt_desk_look(desk, now) && t->state == RT_TICKET_HELD)
        rt_line_wanted(desk, t, now);
}

void rt_desk_ticket_lost(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    /* While it is being left, the answer to LEAVE decides what its owner is told. */
    if (t->state == RT_TICKET_WAITING || t->state == RT_TICKET_HELD)
        rt_line_lost(desk, t, false, now);
}

static void desk_timer(struct rt_desk *desk, struct rt_timer *t, int64_t now)
{
    if (t == &desk->retry_timer) {
        retry_now(desk);
    } else if (t == &desk->patience_timer) {
        rt_patience_over(desk, now);
    } else if (rt_desk_look(desk, now)) {
        if (rt_session_beat(&desk->session, now))
            desk->beat_due = true;
        follow_session(desk);
    }
}

/* Nobody else's turn is what it waited for, if it never came into the line. */
static int limit_err(const struct rt_desk *desk, const struct rt_ask *ask)
{
    const struct rt_ticket *t = ask->ticket;

    if (t == NULL)
        t = ask->mode == RT_SHARED ? ask->line->s : &ask->line->x;
    bool away = desk->away || (ask->flags & RT_ASK_AWAY) != 0;
    if (away && t != NULL && t->state == RT_TICKET_JOINING)
        return ROTA_UNREACHABLE;
    return ROTA_TIMEOUT;
}

void rt_desk_timer(struct rt_desk *desk, struct rt_timer *t, int64_t now)
{
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
