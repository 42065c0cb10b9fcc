/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves the desk: requests in their order, news, and what may be freed. */
#include "core/outbox.h"

#include "base/bug.h"
#include "core/desk.h"

#include <assert.h>
#include <rota.h>

/* Pauses before something is sent again: short at first, since most failures are one broken
 * connection; then longer, up to a second, since a waiter may stand behind our dead ticket, or
 * call_ms, since a release may have to wait for it, but not less than RETRY_LEAST. */
#define RETRY_FIRST (20 * RT_MS)
#define RETRY_MOST (1000 * RT_MS)
#define RETRY_LEAST (250 * RT_MS)

void rt_outbox_init(struct rt_outbox *out)
{
    *out = (struct rt_outbox){.retry_timer.kind = RT_TIMER_DESK,
                              .retry_pause = RETRY_FIRST,
                              .most = RT_UNDER_WAY_MOST,
                              .full_at = INT64_MIN};
}

/* ---- Lists -------------------------------------------------------------- */

bool rt_outbox_holds(const struct rt_desk *desk, const struct rt_ticket *t)
{
    return t->next != NULL || t->prev != NULL || desk->tickets == t;
}

static void link_ticket(struct rt_desk *desk, struct rt_ticket *t)
{
    assert(!rt_outbox_holds(desk, t));
    t->prev = NULL;
    t->next = desk->tickets;
    if (t->next != NULL)
        t->next->prev = t;
    desk->tickets = t;
}

static void unlink_ticket(struct rt_desk *desk, struct rt_ticket *t)
{
    assert(rt_outbox_holds(desk, t));
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        desk->tickets = t->next;
    if (t->next != NULL)
        t->next->prev = t->prev;
    t->next = t->prev = NULL;
}

static void push(struct rt_ticket **list, struct rt_ticket *t)
{
    assert(!rt_ticket_has(t, RT_TICKET_LISTED));
    t->flags |= RT_TICKET_LISTED;
    t->out_next = *list;
    *list = t;
}

struct rt_ticket *rt_outbox_pop(struct rt_ticket **list)
{
    struct rt_ticket *t = *list;
    if (t != NULL) {
        assert(rt_ticket_has(t, RT_TICKET_LISTED));
        *list = t->out_next;
        t->out_next = NULL;
        t->flags &= (uint16_t)~RT_TICKET_LISTED;
    }
    return t;
}

static void append(struct rt_posted *list, struct rt_ticket *t)
{
    assert(!rt_ticket_has(t, RT_TICKET_LISTED));
    t->flags |= RT_TICKET_LISTED;
    t->out_next = NULL;
    if (list->first == NULL)
        list->first = t;
    else
        list->last->out_next = t;
    list->last = t;
}

void rt_outbox_post(struct rt_desk *desk, struct rt_ticket *t)
{
    if (rt_ticket_has(t, RT_TICKET_LISTED) || t->want == 0)
        return;
    assert(t->state != RT_TICKET_IDLE); /* it wants something */
    append(&desk->out.posted, t);
}

void rt_outbox_tell(struct rt_desk *desk, struct rt_ask *ask, unsigned news)
{
    assert((ask->news & news) == 0); /* I9: each once */
    bool listed = ask->news != 0;
    ask->news = (uint8_t)(ask->news | news);
    if (listed)
        return;
    ask->news_next = NULL;
    if (desk->out.news == NULL)
        desk->out.news = ask;
    else
        desk->out.news_last->news_next = ask;
    desk->out.news_last = ask;
}

struct rt_ask *rt_outbox_news(struct rt_desk *desk)
{
    struct rt_ask *ask = desk->out.news;
    if (ask != NULL) {
        assert(ask->news != 0);
        desk->out.news = ask->news_next;
        ask->news_next = NULL;
    }
    return ask;
}

struct rt_ticket *rt_outbox_dead(struct rt_desk *desk)
{
    return rt_outbox_pop(&desk->out.dead);
}

struct rt_set *rt_outbox_dead_set(struct rt_desk *desk)
{
    struct rt_set *set = desk->out.dead_sets;
    if (set != NULL)
        desk->out.dead_sets = set->next;
    return set;
}

struct rt_line *rt_outbox_idle(struct rt_desk *desk)
{
    struct rt_line *line = desk->out.idle;
    if (line != NULL) {
        assert(line->idle_listed);
        desk->out.idle = line->idle_next;
        line->idle_listed = 0;
    }
    return line;
}

void rt_outbox_line_settle(struct rt_desk *desk, struct rt_line *line)
{
    if (line->idle_listed || !rt_line_idle(line))
        return;
    assert(line->solo_tickets == 0); /* else one of them still points to it */
    line->idle_listed = 1;
    line->idle_next = desk->out.idle;
    desk->out.idle = line;
}

void rt_outbox_settle(struct rt_desk *desk, struct rt_ticket *t)
{
    if (t->state != RT_TICKET_IDLE)
        return;
    assert(t->want == 0 && t->holds == 0);
    if (rt_outbox_holds(desk, t))
        unlink_ticket(desk, t);
    struct rt_line *line = t->line;
    if (rt_ticket_has(t, RT_TICKET_SOLO) && t->ops == 0 && !rt_ticket_has(t, RT_TICKET_LISTED)) {
        push(&desk->out.dead, t);
        assert(line->solo_tickets > 0);
        line->solo_tickets--;
    }
    rt_outbox_line_settle(desk, line);
}

/* ---- Tickets ------------------------------------------------------------ */

uint64_t rt_outbox_nonce(struct rt_desk *desk)
{
    if (++desk->last_nonce == 0)
        ++desk->last_nonce; /* 0 means none */
    assert(desk->last_nonce != 0);
    return desk->last_nonce;
}

void rt_outbox_join(struct rt_desk *desk, struct rt_ticket *t, bool try, bool arm, int64_t now)
{
    rt_ticket_join(t, rt_outbox_nonce(desk), try, arm, now);
    assert(t->ops == 0 || t->id == desk->last_nonce); /* what is under way has another nonce */
    link_ticket(desk, t);
    rt_outbox_post(desk, t);
}

void rt_outbox_leave(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    rt_ticket_leave(t, now);
    assert(t->state == RT_TICKET_LEAVING || t->state == RT_TICKET_IDLE);
    rt_outbox_post(desk, t);
    rt_outbox_settle(desk, t);
}

void rt_outbox_give_up(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    if (t->state == RT_TICKET_HELD) {
        rt_outbox_leave(desk, t, now);
        return;
    }
    rt_ticket_give_up(t, now);
    assert(t->state != RT_TICKET_WAITING); /* JOINING: doomed, its answer decides */
    rt_outbox_post(desk, t);
    rt_outbox_settle(desk, t);
}

void rt_outbox_rejoin(struct rt_desk *desk, struct rt_ticket *t, bool arm, int64_t now)
{
    assert(t->state == RT_TICKET_IDLE);
    unlink_ticket(desk, t);
    rt_outbox_join(desk, t, false, arm, now);
}

/* ---- Once more, later --------------------------------------------------- */

void rt_outbox_retry_soon(struct rt_desk *desk, int64_t now)
{
    struct rt_outbox *out = &desk->out;
    assert(out->retry_pause >= RETRY_FIRST);
    if (out->retry_timer.slot == 0) /* others wait for it: it must not be put off */
        rt_timers_start(desk->timers, &out->retry_timer, now + out->retry_pause);
}

void rt_outbox_answered(struct rt_desk *desk)
{
    desk->out.retry_pause = RETRY_FIRST;
}

void rt_outbox_later(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    assert(t->want != 0);
    if (!rt_ticket_has(t, RT_TICKET_LISTED))
        push(&desk->out.retry, t);
    rt_outbox_retry_soon(desk, now);
}

void rt_outbox_again(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    assert(t->state == RT_TICKET_JOINING);
    rt_ticket_again(t, false);
    rt_outbox_later(desk, t, now);
}

void rt_outbox_retry(struct rt_desk *desk)
{
    struct rt_ticket *list = desk->out.retry, *t;
    assert(desk->out.retry_timer.slot == 0);
    desk->out.retry = NULL;
    desk->out.retry_pause *= 2;
    int64_t most = desk->call < RETRY_MOST ? desk->call : RETRY_MOST;
    if (most < RETRY_LEAST)
        most = RETRY_LEAST;
    if (desk->out.retry_pause > most)
        desk->out.retry_pause = most;
    while ((t = rt_outbox_pop(&list)) != NULL) {
        rt_outbox_post(desk, t);
        rt_outbox_settle(desk, t); /* it may have become idle meanwhile */
    }
    rt_set_retry(desk);
}

/* ---- What to do --------------------------------------------------------- */

/* The unsent JOINs were pushed newest first: hand them on in the order they were taken. */
struct rt_ticket *rt_outbox_unsent(struct rt_desk *desk)
{
    struct rt_ticket *reversed = NULL, *t;
    while ((t = rt_outbox_pop(&desk->out.unsent)) != NULL)
        push(&reversed, t);
    return reversed;
}

/* Whether T waits, or has waited, because there are too many requests under way. */
static bool is_late(const struct rt_desk *desk, const struct rt_ticket *t)
{
    return !rt_ticket_has(t, RT_TICKET_SENT) && desk->out.full_at >= t->since;
}

int64_t rt_outbox_since(const struct rt_desk *desk, const struct rt_ticket *t, int64_t since)
{
    int64_t at = since;
    if (is_late(desk, t))
        at = desk->out.heard_at;
    else if (rt_ticket_has(t, RT_TICKET_LATE))
        at = t->since;
    return at > since ? at : since;
}

static void send_out(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    rt_ticket_sent(t, is_late(desk, t), now);
    desk->out.under_way++;
}

void rt_outbox_back(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now)
{
    assert(t->ops > 0 && desk->out.under_way > 0);
    t->ops--;
    desk->out.under_way--;
    if (err != ROTA_UNREACHABLE && err != ROTA_UNKNOWN)
        desk->out.heard_at = now;
}

static bool wants_join(const struct rt_ticket *t)
{
    return (t->want & RT_WANT_JOIN) != 0;
}

/* The next that may be sent now; NULL: none. While there is no room for a JOIN, those that come first are held back. */
static struct rt_ticket *next_posted(struct rt_desk *desk, int64_t now)
{
    struct rt_outbox *out = &desk->out;
    bool full = out->under_way >= out->most;
    struct rt_ticket *t;
    if (!full && (t = rt_outbox_pop(&out->held_back.first)) != NULL)
        return t;
    while (out->under_way < 2 * out->most && (t = rt_outbox_pop(&out->posted.first)) != NULL) {
        if (!full || !wants_join(t))
            return t;
        append(&out->held_back, t);
    }
    if (full && (out->held_back.first != NULL || out->posted.first != NULL))
        out->full_at = now;
    return NULL;
}

/* T has a JOIN to send, and none of those that it waited for was answered for as long as one may take. */
static bool is_hopeless(const struct rt_desk *desk, const struct rt_ticket *t, int64_t now)
{
    return is_late(desk, t) && rt_outbox_since(desk, t, t->since) + desk->call <= now;
}

static bool todo_ticket(struct rt_desk *desk, struct rt_ticket *t, struct rt_todo *todo,
                        int64_t now)
{
    unsigned want = t->want;
    *todo = (struct rt_todo){.ticket = t, .id = t->id, .session = desk->session.id};
    todo->again = rt_ticket_has(t, RT_TICKET_AGAIN);
    todo->untold = !rt_ticket_has(t, RT_TICKET_OWNED) && !RT_BUG(RT_BUG_UNTOLD_KEEPS);
    if (wants_join(t))
        todo->kind = RT_TODO_JOIN;
    else if ((want & RT_WANT_LEAVE) != 0)
        todo->kind = RT_TODO_LEAVE;
    else if ((want & RT_WANT_ARM) != 0)
        todo->kind = RT_TODO_ARM;
    else
        return false;
    t->want = 0;
    send_out(desk, t, now);
    return true;
}

static bool todo_beat(struct rt_desk *desk, struct rt_todo *todo)
{
    bool open = desk->out.open_due;
    if (!open && !desk->out.beat_due)
        return false;
    assert(desk->session.in_flight);
    desk->out.open_due = desk->out.beat_due = false;
    *todo = (struct rt_todo){.kind = RT_TODO_BEAT, .open = open, .session = desk->session.id};
    return true;
}

static bool todo_set(struct rt_desk *desk, struct rt_todo *todo, int64_t now)
{
    struct rt_set *set = rt_set_todo(desk);
    if (set == NULL)
        return false;
    if (desk->session.state != RT_SESSION_ALIVE) {
        rt_desk_want_session(desk, now);
        return todo_beat(desk, todo);
    }
    set->want_join = false;
    set->in_flight = true;
    set->sent = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->asks[i]->state == RT_ASK_QUEUED) {
            set->tickets[set->sent++] = set->asks[i]->ticket;
            send_out(desk, set->asks[i]->ticket, now);
        }
    assert(set->sent > 0);
    *todo = (struct rt_todo){.kind = RT_TODO_JOIN_ALL, .set = set, .session = desk->session.id};
    return true;
}

/* Whether a set has waited longer than the JOINs that are held back: then it is next, as soon as there is room. */
static bool is_sets_turn(struct rt_desk *desk)
{
    const struct rt_outbox *out = &desk->out;
    const struct rt_set *set = out->held_back.first != NULL ? rt_set_todo(desk) : NULL;
    if (set == NULL || set->since > out->held_back.first->since)
        return false;
    return out->under_way < out->most;
}

bool rt_outbox_todo(struct rt_desk *desk, struct rt_todo *todo, int64_t now)
{
    if (todo_beat(desk, todo))
        return true;
    struct rt_ticket *t;
    assert(!desk->out.open_due && !desk->out.beat_due); /* a BEAT goes before all */
    if (is_sets_turn(desk))
        return todo_set(desk, todo, now);
    while ((t = next_posted(desk, now)) != NULL) {
        if (wants_join(t) && is_hopeless(desk, t, now)) {
            t->flags |= RT_TICKET_SENT; /* as good as sent */
            rt_line_refused(desk, t, ROTA_UNREACHABLE, now);
            continue;
        }
        if (wants_join(t) && desk->session.state != RT_SESSION_ALIVE) {
            push(&desk->out.unsent, t);
            rt_desk_want_session(desk, now);
            if (todo_beat(desk, todo))
                return true;
            continue;
        }
        if (todo_ticket(desk, t, todo, now))
            return true;
        rt_outbox_settle(desk, t);
    }
    if (desk->out.under_way < desk->out.most)
        return todo_set(desk, todo, now);
    if (rt_set_todo(desk) != NULL)
        desk->out.full_at = now;
    return false;
}

void rt_outbox_end(struct rt_desk *desk)
{
    struct rt_ticket **const lists[] = {&desk->out.held_back.first, &desk->out.posted.first,
                                        &desk->out.retry},
                             *t;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        while ((t = rt_outbox_pop(lists[i])) != NULL)
            rt_outbox_settle(desk, t);
    rt_timers_stop(desk->timers, &desk->out.retry_timer);
    assert(desk->out.posted.first == NULL && desk->out.held_back.first == NULL &&
           desk->out.retry == NULL);
}

void rt_outbox_fini(struct rt_desk *desk)
{
    struct rt_outbox *out = &desk->out;
    struct rt_ticket *t, *after;
    rt_timers_stop(desk->timers, &out->retry_timer);
    out->posted = out->held_back = (struct rt_posted){0};
    out->unsent = out->retry = NULL;
    for (t = desk->tickets; t != NULL; t = after) {
        after = t->next;
        t->flags &= (uint16_t)~RT_TICKET_LISTED;
        if (rt_ticket_has(t, RT_TICKET_SOLO))
            push(&out->dead, t);
    }
    desk->tickets = NULL;
    for (struct rt_set *set; (set = desk->sets) != NULL;) {
        desk->sets = set->next;
        set->next = out->dead_sets;
        out->dead_sets = set;
    }
    assert(rt_desk_quiet(desk));
}
