/* SPDX-License-Identifier: Apache-2.0 */
/* The local line: who inside this process holds a name, and which tickets stand for them. */
#include "core/line.h"

#include "base/bug.h"
#include "core/desk.h"
#include "core/grant.h"
#include "core/reentry.h"

#include <assert.h>
#include <rota.h>

void rt_line_init(struct rt_line *line)
{
    assert(line->queue == NULL && line->solos == NULL && line->holders == NULL);
    rt_ticket_init(&line->x, line, RT_EXCLUSIVE, 0, 0, 0);
    line->timer.kind = RT_TIMER_LINE;
}

static bool ticket_idle(const struct rt_ticket *t)
{
    assert(t->state != RT_TICKET_IDLE || t->holds == 0);
    return t->state == RT_TICKET_IDLE && t->ops == 0 && !rt_ticket_has(t, RT_TICKET_LISTED);
}

bool rt_line_idle(const struct rt_line *line)
{
    return line->queue == NULL && line->solos == NULL && line->holders == NULL &&
           line->solo_tickets == 0 && ticket_idle(&line->x) &&
           (line->s == NULL || ticket_idle(line->s));
}

struct rt_ask *rt_line_solo(const struct rt_ticket *t)
{
    struct rt_ask *ask = t->line->solos;
    assert(rt_ticket_has(t, RT_TICKET_SOLO));
    while (ask != NULL && ask->ticket != t)
        ask = ask->next;
    return ask;
}

struct rt_ticket *rt_line_ticket(struct rt_line *line, uint64_t number)
{
    if (line->x.id == number && rt_ticket_has(&line->x, RT_TICKET_NUMBERED))
        return &line->x;
    struct rt_ticket *s = line->s;
    if (s != NULL && s->id == number && rt_ticket_has(s, RT_TICKET_NUMBERED))
        return s;
    struct rt_ask *const lists[] = {line->solos, line->holders};
    for (size_t i = 0; i < 2; i++)
        for (struct rt_ask *ask = lists[i]; ask != NULL; ask = ask->next) {
            struct rt_ticket *t = ask->ticket;
            if (t != NULL && t->id == number && rt_ticket_has(t, RT_TICKET_NUMBERED))
                return t;
        }
    return NULL;
}

/* ---- Tickets for the queue ---------------------------------------------- */

static bool coming(const struct rt_ticket *t)
{
    return t != NULL && (t->state == RT_TICKET_JOINING || t->state == RT_TICKET_WAITING);
}

static bool queue_has_writer(const struct rt_line *line)
{
    for (const struct rt_ask *ask = line->queue; ask != NULL; ask = ask->next)
        if (ask->mode == RT_EXCLUSIVE)
            return true;
    return false;
}

static bool queue_all_try(const struct rt_line *line)
{
    for (const struct rt_ask *ask = line->queue; ask != NULL; ask = ask->next)
        if ((ask->flags & RT_ASK_TRY) == 0)
            return false;
    return true;
}

static bool wants_linger(const struct rt_ask *ask)
{
    return ask->terms != NULL && ask->terms->linger > 0;
}

/* WANTED costs nothing with the JOIN, and a flight of its own later. */
static bool queue_wants_arm(const struct rt_line *line)
{
    assert(line->queue != NULL);
    return line->queue->next != NULL || wants_linger(line->queue);
}

static void arm(struct rt_desk *desk, struct rt_ticket *t)
{
    if (t->state != RT_TICKET_HELD || rt_ticket_has(t, RT_TICKET_ARMED))
        return;
    rt_ticket_arm(t);
    rt_outbox_post(desk, t);
}

/* Whether somebody still waits behind T: the answer comes to rt_line_armed. */
static void ask_wanted(struct rt_desk *desk, struct rt_ticket *t)
{
    rt_ticket_arm(t);
    rt_outbox_post(desk, t);
}

static void serve_readers(struct rt_desk *desk, struct rt_line *line, struct rt_ticket *t,
                          int64_t now)
{
    assert(t->state == RT_TICKET_HELD);
    while (line->queue != NULL && line->queue->mode == RT_SHARED && t->holds < RT_HOLDS_MOST)
        rt_ask_grant(desk, line->queue, t, now);
}

/* Readers hold through T, and readers are next here: they join them unless somebody waits. */
static void let_readers_in(struct rt_desk *desk, struct rt_line *line, struct rt_ticket *t,
                           int64_t now)
{
    assert(line->queue != NULL && line->queue->mode == RT_SHARED);
    if (rt_ticket_has(t, RT_TICKET_WANTED))
        ask_wanted(desk, t);
    else
        serve_readers(desk, line, t, now);
}

/* Makes T stand for the queue: joins, or takes back that it was given up. */
static void cover(struct rt_desk *desk, struct rt_line *line, struct rt_ticket *t, int64_t now)
{
    assert(line->queue != NULL);
    if (t->state == RT_TICKET_IDLE)
        rt_outbox_join(desk, t, queue_all_try(line), queue_wants_arm(line), now);
    else if (t->state == RT_TICKET_JOINING)
        t->flags &= (uint16_t)~RT_TICKET_DOOMED;
}

/* Sees to it that tickets stand for everybody in the queue. */
static void arrange(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    if (line->queue == NULL)
        return;
    struct rt_ticket *x = &line->x;
    if (x->state == RT_TICKET_HELD) {
        arm(desk, x); /* passing on is limited by waiters elsewhere: find out */
        return;
    }
    if (x->state == RT_TICKET_LEAVING)
        return; /* its end brings us back here */

    assert(line->queue->mode != RT_SHARED || line->s != NULL);
    if (line->queue->mode == RT_SHARED && !coming(x))
        cover(desk, line, line->s, now);
    if (queue_has_writer(line) || coming(x))
        cover(desk, line, x, now);
}

static bool held(const struct rt_ticket *t)
{
    return t != NULL && t->state == RT_TICKET_HELD && t->holds > 0;
}

/* Gives up tickets that stand for nobody, after somebody left the queue. Readers behind a writer
 * that has gone inherit its place, unless readers here hold already: then they may join those. */
static void drop_unneeded(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    bool readers_first = line->queue != NULL && line->queue->mode == RT_SHARED;
    bool s_covers = readers_first && (coming(line->s) || held(line->s));
    if (coming(line->s) && !readers_first)
        rt_outbox_give_up(desk, line->s, now);
    bool x_needed = queue_has_writer(line) || (line->queue != NULL && !s_covers);
    if (coming(&line->x) && !x_needed)
        rt_outbox_give_up(desk, &line->x, now);
    if (readers_first && held(line->s) && !desk->closing)
        let_readers_in(desk, line, line->s, now);
}

/* The tenure of T begins, or goes on, for the front of the queue. */
static void serve(struct rt_desk *desk, struct rt_line *line, struct rt_ticket *t, int64_t now)
{
    assert(line->queue != NULL);
    if (line->queue->mode == RT_EXCLUSIVE) {
        assert(t == &line->x && t->mode == RT_EXCLUSIVE);
        rt_ask_grant(desk, line->queue, t, now);
    } else {
        serve_readers(desk, line, t, now);
    }
    if (t == &line->x && line->queue != NULL)
        arm(desk, t);
}

/* ---- Asking ------------------------------------------------------------- */

static bool only_readers(const struct rt_line *line, const struct rt_ticket *t)
{
    assert(t->holds > 0);
    for (const struct rt_ask *h = line->holders; h != NULL; h = h->next)
        if (h->state == RT_ASK_HELD && h->ticket == t && h->mode == RT_EXCLUSIVE)
            return false;
    return true;
}

/* What readers here hold through; NULL: none do. */
static struct rt_ticket *readers_tenure(struct rt_line *line)
{
    struct rt_ticket *t = line->x.state == RT_TICKET_HELD ? &line->x : line->s;
    return held(t) && only_readers(line, t) ? t : NULL;
}

/* Joins a tenure that is there already: a lingering one, or readers among themselves. */
static bool join_tenure(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_line *line = ask->line;
    struct rt_ticket *x = &line->x;
    assert(ask->state == RT_ASK_NEW && ask->ticket == NULL);
    if (line->queue != NULL)
        return false;
    if (line->lingering) {
        assert(x->state == RT_TICKET_HELD && x->holds == 0);
        line->lingering = 0; /* its timer stays: re-locking must not cost a heap move each time */
        rt_ask_grant(desk, ask, x, now);
        return true;
    }
    if (ask->mode != RT_SHARED)
        return false;
    struct rt_ticket *t = readers_tenure(line);
    if (t == NULL || rt_ticket_has(t, RT_TICKET_WANTED) || t->holds == RT_HOLDS_MOST)
        return false;
    rt_ask_grant(desk, ask, t, now);
    arm(desk, t); /* readers must not keep a writer elsewhere out for ever */
    return true;
}

void rt_line_end_linger(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    if (!line->lingering)
        return;
    assert(line->x.state == RT_TICKET_HELD && line->x.holds == 0);
    line->lingering = 0;
    rt_outbox_leave(desk, &line->x, now);
}

static bool busy_here(const struct rt_line *line)
{
    const struct rt_ticket *s = line->s;
    return coming(&line->x) || line->x.state == RT_TICKET_HELD || coming(s) ||
           (s != NULL && s->state == RT_TICKET_HELD);
}

void rt_line_wait(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    rt_ask_move(ask, RT_ASK_QUEUED);
    ask->since = now;
    rt_ask_append(ask);
    rt_ask_start_limit(desk, ask);
    if ((ask->flags & RT_ASK_TRY) != 0)
        rt_patience_start(desk, now);
}

void rt_line_ask(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_line *line = ask->line;
    bool try = (ask->flags & RT_ASK_TRY) != 0;
    assert(ask->state == RT_ASK_NEW);
    if (rt_reentry_try(desk, ask, now))
        return;
    if (ask->ticket != NULL) {
        rt_line_wait(desk, ask, now);
        /* Our own lingering tenure would be told WANTED; save the engine the trouble. */
        rt_line_end_linger(desk, line, now);
        rt_outbox_join(desk, ask->ticket, try, wants_linger(ask), now);
        return;
    }
    if (join_tenure(desk, ask, now))
        return;
    /* If only WANTED keeps it from the readers' tenure, that may be over: ask, also for a try. */
    struct rt_ticket *t = ask->mode == RT_SHARED && line->queue == NULL ? readers_tenure(line)
                                                                        : NULL;
    bool unsure = t != NULL && rt_ticket_has(t, RT_TICKET_WANTED);
    if (try && !unsure && (line->queue != NULL || busy_here(line))) {
        rt_ask_fail(desk, ask, ROTA_BUSY);
        return;
    }
    rt_line_wait(desk, ask, now);
    if (unsure)
        ask_wanted(desk, t);
    arrange(desk, line, now);
}

void rt_line_cancel(struct rt_desk *desk, struct rt_ask *ask, int err, int64_t now)
{
    struct rt_line *line = ask->line;
    struct rt_ticket *own = ask->ticket;
    assert(ask->state == RT_ASK_QUEUED && err != 0);
    rt_ask_fail(desk, ask, err);
    if (own != NULL)
        rt_outbox_give_up(desk, own, now);
    else
        drop_unneeded(desk, line, now);
}

/* ---- Letting go --------------------------------------------------------- */

static bool may_pass(const struct rt_desk *desk, const struct rt_line *line, int64_t now)
{
    const struct rt_ticket *x = &line->x;
    assert(line->queue != NULL && x->state == RT_TICKET_HELD);
    if (x->mode != RT_EXCLUSIVE && line->queue->mode == RT_EXCLUSIVE)
        return false;
    if (!rt_ticket_has(x, RT_TICKET_WANTED))
        return true;
    return line->passes < desk->pass_limit && now < line->wanted_at + desk->pass;
}

static void leave_for(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    assert(ask->ticket->holds == 0);
    rt_ask_move(ask, RT_ASK_RELEASING);
    rt_ask_append(ask);
    rt_patience_start(desk, now);
    rt_outbox_leave(desk, ask->ticket, now);
}

static void linger(struct rt_desk *desk, struct rt_line *line, int64_t until)
{
    assert(line->queue == NULL && line->x.holds == 0);
    line->lingering = 1;
    line->linger_until = until;
    arm(desk, &line->x);
    /* Lazily: a timer that runs already is only moved when it fires too early. */
    if (line->timer.slot == 0 || line->timer.at > until)
        rt_timers_start(desk->timers, &line->timer, until);
}

static void release_x(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_line *line = ask->line;
    struct rt_ticket *x = &line->x;
    assert(x->state == RT_TICKET_HELD && x->holds == 0);
    bool wanted = rt_ticket_has(x, RT_TICKET_WANTED);
    if (line->queue != NULL && may_pass(desk, line, now)) {
        if (wanted)
            line->passes++;
        serve(desk, line, x, now);
        rt_ask_released(desk, ask, 0);
    } else if (line->queue == NULL && !wanted && wants_linger(ask) && x->mode == RT_EXCLUSIVE &&
               !desk->closing) {
        linger(desk, line, now + ask->terms->linger);
        rt_ask_released(desk, ask, 0);
    } else {
        leave_for(desk, ask, now);
    }
}

void rt_line_release(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    assert(ask->state == RT_ASK_HELD || ask->state == RT_ASK_LOST);
    rt_ask_drop(ask);
    if (ask->state == RT_ASK_LOST) {
        rt_ask_released(desk, ask, ROTA_LOST);
        return;
    }
    struct rt_ticket *t = ask->ticket;
    assert(t->holds > 0);
    rt_ask_stop_timer(desk, ask);
    t->holds--;
    if (t->holds > 0)
        rt_ask_released(desk, ask, 0);
    else if (t == &ask->line->x)
        release_x(desk, ask, now);
    else
        leave_for(desk, ask, now);
}

/* Ended by hold_ms: the ticket goes back, and whoever is next here takes a new one (DESIGN 6). */
void rt_line_hold_over(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_ticket *t = ask->ticket;
    struct rt_line *line = ask->line;
    assert(ask->state == RT_ASK_HELD && t->state == RT_TICKET_HELD);
    rt_ask_take_away(desk, ask, ROTA_TIMEOUT);
    if (t->holds > 0)
        return;
    if (RT_BUG(RT_BUG_PASS_ON_AFTER_HOLD_MS) && t == &line->x && line->queue != NULL)
        serve(desk, line, t, now);
    else
        rt_outbox_leave(desk, t, now);
}

void rt_line_linger_over(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    assert(!line->lingering || line->x.state == RT_TICKET_HELD);
    if (line->lingering && now < line->linger_until)
        rt_timers_start(desk->timers, &line->timer, line->linger_until);
    else
        rt_line_end_linger(desk, line, now);
}

bool rt_line_sole_writer(const struct rt_ask *ask)
{
    assert(ask->state == RT_ASK_HELD);
    for (const struct rt_ask *h = ask->line->holders; h != NULL; h = h->next)
        if (h != ask && h->state == RT_ASK_HELD && h->ticket == ask->ticket &&
            h->mode == RT_EXCLUSIVE)
            return false;
    return true;
}

void rt_line_downgraded(struct rt_desk *desk, struct rt_ask *ask, int64_t now)
{
    struct rt_line *line = ask->line;
    struct rt_ticket *t = ask->ticket;
    assert(ask->state == RT_ASK_HELD && t->state == RT_TICKET_HELD);
    t->mode = RT_SHARED;
    for (struct rt_ask *h = line->holders; h != NULL; h = h->next)
        if (h->state == RT_ASK_HELD && h->ticket == t)
            h->mode = RT_SHARED;
    if (t == &line->x && line->queue != NULL && line->queue->mode == RT_SHARED)
        let_readers_in(desk, line, t, now); /* if the waiter elsewhere is a reader, it came in */
}

/* ---- What the engine says ----------------------------------------------- */

void rt_line_held(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    struct rt_line *line = t->line;
    assert(t->state == RT_TICKET_HELD && t->holds == 0);
    if (rt_ticket_has(t, RT_TICKET_SOLO)) {
        struct rt_ask *ask = rt_line_solo(t);
        assert(ask != NULL);
        if (ask->terms != NULL && ask->terms->set != NULL)
            rt_set_held(desk, ask, now);
        else
            rt_ask_grant(desk, ask, t, now);
        return;
    }
    if (t == &line->x)
        line->passes = 0;
    bool served = line->queue != NULL && (t == &line->x || line->queue->mode == RT_SHARED);
    if (served)
        serve(desk, line, t, now);
    else
        rt_outbox_leave(desk, t, now); /* the asker is gone */
}

void rt_line_wanted(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    struct rt_line *line = t->line;
    assert(t->state == RT_TICKET_HELD);
    if (rt_ticket_has(t, RT_TICKET_ASKING))
        t->flags |= RT_TICKET_TOLD;
    if (rt_ticket_has(t, RT_TICKET_WANTED))
        return;
    t->flags |= RT_TICKET_WANTED;
    if (t != &line->x)
        return;
    line->wanted_at = now;
    line->passes = 0;
    rt_line_end_linger(desk, line, now);
}

/* The answer to ARM. Readers that were kept out because somebody waits learn whether that is so. */
void rt_line_armed(struct rt_desk *desk, struct rt_ticket *t, bool wanted, int64_t now)
{
    struct rt_line *line = t->line;
    assert(t->state == RT_TICKET_HELD);
    if (wanted || rt_ticket_has(t, RT_TICKET_TOLD)) { /* an event may overtake an older answer */
        rt_line_wanted(desk, t, now);
        for (struct rt_ask *ask = line->queue, *next; ask != NULL; ask = next) {
            next = ask->next;
            if (ask->mode != RT_SHARED || t->state != RT_TICKET_HELD)
                break;
            if ((ask->flags & RT_ASK_TRY) != 0)
                rt_ask_fail(desk, ask, ROTA_BUSY);
        }
        return;
    }
    t->flags &= (uint16_t)~RT_TICKET_WANTED;
    if (readers_tenure(line) == t)
        serve_readers(desk, line, t, now);
}

bool rt_line_outlasts(const struct rt_desk *desk, const struct rt_ticket *t, int err)
{
    struct rt_line *line = t->line;
    assert(err != 0);
    if (rt_ticket_has(t, RT_TICKET_SOLO)) {
        const struct rt_ask *solo = rt_line_solo(t);
        return solo != NULL && !rt_ask_in_set(solo) && rt_ask_waits_on(desk, solo, t, err);
    }
    for (const struct rt_ask *ask = line->queue; ask != NULL; ask = ask->next) {
        if (t != &line->x && ask->mode != RT_SHARED)
            break;
        if (rt_ask_waits_on(desk, ask, t, err))
            return true;
    }
    return false;
}

/* Fails those T stood for; with BUSY only those that would not wait. */
static void fail_queue(struct rt_desk *desk, struct rt_ticket *t, int err)
{
    struct rt_line *line = t->line;
    struct rt_ask *ask = line->queue, *next;
    bool tries_only = err == ROTA_BUSY;
    assert(!rt_ticket_has(t, RT_TICKET_SOLO) && err != 0);
    for (; ask != NULL; ask = next) {
        next = ask->next;
        if (t != &line->x && ask->mode != RT_SHARED)
            break;
        if (!tries_only || (ask->flags & RT_ASK_TRY) != 0)
            rt_ask_refuse(desk, ask, t, err);
    }
}

static void fail_waiters(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now)
{
    assert(err != 0);
    if (!rt_ticket_has(t, RT_TICKET_SOLO)) {
        fail_queue(desk, t, err);
        return;
    }
    struct rt_ask *ask = rt_line_solo(t);
    if (ask == NULL)
        return;
    if (ask->terms != NULL && ask->terms->set != NULL)
        rt_set_fail(desk, ask->terms->set, err, now);
    else
        rt_ask_refuse(desk, ask, t, err);
}

static void make_idle(struct rt_desk *desk, struct rt_ticket *t, int64_t now)
{
    struct rt_line *line = t->line;
    assert(t->holds == 0);
    if (t->state != RT_TICKET_IDLE)
        rt_ticket_idle(t, now);
    if (t == &line->x) {
        t->mode = RT_EXCLUSIVE; /* it may have been downgraded */
        rt_timers_stop(desk->timers, &line->timer);
    }
    rt_outbox_settle(desk, t);
}

void rt_line_refused(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now)
{
    struct rt_line *line = t->line;
    bool again = t->state == RT_TICKET_JOINING && rt_line_outlasts(desk, t, err);
    assert(err != 0);
    fail_waiters(desk, t, err, now);
    if (again) {
        rt_outbox_again(desk, t, now);
        return;
    }
    if (t->state == RT_TICKET_JOINING)
        rt_ticket_idle(t, now);
    if (t->state == RT_TICKET_IDLE)
        make_idle(desk, t, now);
    arrange(desk, line, now);
}

void rt_line_joined(struct rt_desk *desk, struct rt_ticket *t)
{
    struct rt_line *line = t->line;
    assert(t->state == RT_TICKET_WAITING);
    if (rt_ticket_has(t, RT_TICKET_SOLO)) {
        rt_ask_back(desk, rt_line_solo(t));
        return;
    }
    for (struct rt_ask *ask = line->queue; ask != NULL; ask = ask->next) {
        if (t != &line->x && ask->mode != RT_SHARED)
            break;
        rt_ask_back(desk, ask);
    }
}

struct rt_ask *rt_line_releasing(const struct rt_ticket *t)
{
    assert(t->line != NULL);
    struct rt_ask *ask = t->line->holders;
    while (ask != NULL && (ask->state != RT_ASK_RELEASING || ask->ticket != t))
        ask = ask->next;
    return ask;
}

static void finish_release(struct rt_desk *desk, struct rt_ticket *t, int err)
{
    struct rt_ask *ask = rt_line_releasing(t);
    if (ask == NULL)
        return;
    rt_ask_drop(ask);
    rt_ask_released(desk, ask, err);
}

void rt_line_left(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now)
{
    struct rt_line *line = t->line;
    assert(t->state == RT_TICKET_LEAVING);
    finish_release(desk, t, err);
    make_idle(desk, t, now);
    arrange(desk, line, now);
}

void rt_line_unconfirmed(struct rt_desk *desk, struct rt_ticket *t)
{
    assert(t->state == RT_TICKET_LEAVING);
    finish_release(desk, t, ROTA_UNKNOWN);
}

void rt_line_lost(struct rt_desk *desk, struct rt_ticket *t, bool session, int64_t now)
{
    struct rt_line *line = t->line;
    bool waiting = coming(t);
    assert(t->state != RT_TICKET_IDLE);
    for (struct rt_ask *h = line->holders, *next; h != NULL; h = next) {
        next = h->next;
        if (h->state != RT_ASK_HELD || h->ticket != t)
            continue;
        if (rt_ask_in_set(h))
            rt_set_member_lost(desk, h, now);
        else
            rt_ask_take_away(desk, h, ROTA_LOST);
    }
    finish_release(desk, t, ROTA_UNKNOWN);
    if (t == &line->x)
        line->lingering = 0;
    assert(t->holds == 0);
    rt_ticket_idle(t, now);
    bool again = rt_ticket_has(t, RT_TICKET_SOLO) && rt_line_outlasts(desk, t, ROTA_LOST);
    if (rt_ticket_has(t, RT_TICKET_SOLO) || waiting)
        fail_waiters(desk, t, ROTA_LOST, now);
    for (struct rt_ask *ask = session ? line->queue : NULL, *next; ask != NULL; ask = next) {
        next = ask->next;
        rt_ask_refuse(desk, ask, t, ROTA_LOST);
    }
    if (again) {
        rt_outbox_rejoin(desk, t, wants_linger(rt_line_solo(t)), now);
        return;
    }
    make_idle(desk, t, now);
    arrange(desk, line, now);
}

static void close_waiting(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    assert(desk->closing);
    while (line->queue != NULL)
        rt_line_cancel(desk, line->queue, ROTA_CLOSED, now);
    while (line->solos != NULL) /* others of its set go with it */
        (void)rt_desk_cancel(desk, line->solos, ROTA_CLOSED, now);
}

void rt_line_close(struct rt_desk *desk, struct rt_line *line, int64_t now)
{
    assert(desk->closing);
    close_waiting(desk, line, now);
    struct rt_ask *h = line->holders, *next;
    for (; h != NULL; h = next) {
        next = h->next;
        if (h->state == RT_ASK_RELEASING)
            continue;
        if (rt_ask_in_set(h)) { /* by re-entry, and the set still waits */
            rt_set_fail(desk, h->terms->set, ROTA_CLOSED, now);
            continue;
        }
        rt_ask_drop(h);
        rt_ask_stop_timer(desk, h);
        struct rt_ticket *t = h->ticket;
        h->ticket = NULL;
        rt_ask_move(h, RT_ASK_DONE);
        if (t != NULL && --t->holds == 0)
            rt_outbox_leave(desk, t, now);
    }
    rt_line_end_linger(desk, line, now);
    rt_outbox_line_settle(desk, line);
}
