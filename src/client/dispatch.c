/* SPDX-License-Identifier: Apache-2.0 */
/* Between a desk and an engine: todo becomes operations, answers and events go to the desk. */
#include "client/dispatch.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "client/stray.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Idle requests kept for the next ones; more are given back. */
#define SPARE_MOST 64

/* A renewal that was not answered in a quarter of the ttl is sent again rather than waited for. */
#define BEAT_PARTS 4

#define OWN_TIMERS 4 /* three of the desk, one for strays */

static struct rt_dispatch *dispatch_of(struct rt_up *up)
{
    return (struct rt_dispatch *)(void *)((char *)up - offsetof(struct rt_dispatch, up));
}

/* ---- From the engine ---------------------------------------------------- */

static void up_done(struct rt_up *up, struct rt_op *op)
{
    struct rt_dispatch *d = dispatch_of(up);
    struct rt_request *rq = (struct rt_request *)(void *)op;

    assert(rq->prev != NULL || d->flying == rq); /* exactly once */
    if (rq->prev != NULL)
        rq->prev->next = rq->next;
    else
        d->flying = rq->next;
    if (rq->next != NULL)
        rq->next->prev = rq->prev;
    if (d->metrics != NULL)
        rt_metrics_op_done(d, rq);
    if (op->err != 0 && d->conn != NULL) {
        d->err = d->said = op->err;
        d->said_at = rt_loop_now(d->loop);
        memcpy(d->errmsg, d->conn->errmsg, sizeof(d->errmsg));
        d->errmsg[sizeof(d->errmsg) - 1] = '\0';
    }
    rq->done(d, rq);
}

/* ---- Events -------------------------------------------------------------- */

/* GRANTED for T, or for a ticket that nobody here knows by its number. */
static void ticket_granted(struct rt_dispatch *d, struct rt_line *line, struct rt_ticket *t,
                           const struct rt_event *event)
{
    bool left = t != NULL && t->state == RT_TICKET_LEAVING;

    if (t == NULL && line != NULL && event->fence != 0)
        t = rt_line_ticket(line,
                           event->fence); /* told before: by its name it is not known any more */
    if (left && event->fence != 0)
        rt_stray_note(d, event); /* the LEAVE names it by what is forgotten now */
    else if (t != NULL)
        rt_desk_granted(&d->desk, t, event->fence, rt_loop_now(d->loop));
    else if (!rt_stray_may_be_joining(line, event->nonce))
        rt_stray_note(d, event);
}

static void up_event(struct rt_up *up, const struct rt_event *event)
{
    struct rt_dispatch *d = dispatch_of(up);
    struct rt_desk *desk = &d->desk;
    int64_t now = rt_loop_now(d->loop);

    if (event->kind == RT_SESSION_LOST) {
        rt_desk_session_lost(desk, event->session, now);
        return;
    }
    if (event->kind == RT_CHANGED || event->kind == RT_LINK) {
        if (d->hooks->event != NULL)
            d->hooks->event(d, event);
        return;
    }
    if (event->session != rt_desk_session(desk))
        return; /* of an earlier session: what it had is lost already */
    struct rt_line *line = rt_names_find(&d->names, event->name);
    struct rt_ticket *t = line != NULL ? rt_line_ticket(line, event->number) : NULL;
    if (event->kind == RT_GRANTED)
        ticket_granted(d, line, t, event);
    else if (t != NULL && event->kind == RT_WANTED && !RT_BUG(RT_BUG_WANTED_NOT_HEARD))
        rt_desk_wanted(desk, t, now);
    else if (t != NULL && event->kind == RT_TICKET_LOST)
        rt_desk_ticket_lost(desk, t, now);
}

static void up_held(struct rt_up *up,
                    void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                    void *arg)
{
    const struct rt_dispatch *d = dispatch_of(up);

    for (const struct rt_ticket *t = NULL; (t = rt_desk_next(&d->desk, t)) != NULL;)
        if (rt_ticket_has(t, RT_TICKET_NUMBERED))
            each(arg, t->line->name, t->id, t->state == RT_TICKET_HELD);
}

static void up_log(struct rt_up *up, int level, const char *line)
{
    struct rt_dispatch *d = dispatch_of(up);

    if (d->hooks->log != NULL)
        d->hooks->log(d, level, line);
}

/* ---- Requests ----------------------------------------------------------- */

static struct rt_request *take_request(struct rt_dispatch *d)
{
    struct rt_request *rq = d->spare;

    if (rq == NULL)
        return rt_alloc(sizeof(*rq));
    d->spare = rq->next;
    d->spare_count--;
    return rq;
}

static void give_request(struct rt_dispatch *d, struct rt_request *rq)
{
    assert(rq->done != NULL || rq->ticket == NULL || rq->op.kind == RT_OP_BEAT);
    if (rq != &d->first && d->spare_count >= SPARE_MOST) {
        rt_free(rq);
        return;
    }
    rq->next = d->spare;
    d->spare = rq;
    d->spare_count++;
}

void rt_dispatch_send(struct rt_dispatch *d, struct rt_request *rq)
{
    assert(d->conn != NULL && rq->done != NULL);
    rq->op.err = 0;
    rq->op.next = NULL;
    rq->prev = NULL;
    rq->next = d->flying;
    if (rq->next != NULL)
        rq->next->prev = rq;
    d->flying = rq;
    if (d->metrics != NULL)
        rt_metrics_op_sent(d, rq);
    d->conn->engine->submit(d->conn, &rq->op);
}

static void beat_done(struct rt_dispatch *d, struct rt_request *rq)
{
    struct rt_op *op = &rq->op;
    assert(op->kind == RT_OP_BEAT);

    rt_desk_beaten(&d->desk, op->err, op->beat.session, op->beat.ttl_ms, op->beat.allowance_ms,
                   rt_loop_now(d->loop));
    give_request(d, rq);
}

static void join_done(struct rt_dispatch *d, struct rt_request *rq)
{
    assert(rq->op.kind == RT_OP_JOIN && rq->ticket != NULL);
    struct rt_joined joined = {rq->join.number, rq->join.granted, rq->join.wanted};

    rt_desk_joined(&d->desk, rq->ticket, rq->id, rq->op.err, &joined, rt_loop_now(d->loop));
    give_request(d, rq);
}

static void join_all_done(struct rt_dispatch *d, struct rt_request *rq)
{
    struct rt_batch *batch = rq->batch;
    assert(rq->op.join.n == batch->set.sent);

    for (size_t i = 0; i < rq->op.join.n; i++) {
        const struct rt_join *j = &batch->joins[i];
        batch->answers[i] = (struct rt_joined){j->number, j->granted, j->wanted};
    }
    rt_desk_joined_all(&d->desk, &batch->set, rq->op.err, batch->answers, rt_loop_now(d->loop));
    give_request(d, rq);
}

static void leave_done(struct rt_dispatch *d, struct rt_request *rq)
{
    assert(rq->op.kind == RT_OP_LEAVE && rq->ticket != NULL);
    if (RT_BUG(RT_BUG_RENEWAL_AFTER_RELEASE) && rq->op.err == 0)
        d->last_left = rq->op.leave.number;
    rt_desk_left(&d->desk, rq->ticket, rq->id, rq->op.err, rt_loop_now(d->loop));
    give_request(d, rq);
}

static void arm_done(struct rt_dispatch *d, struct rt_request *rq)
{
    assert(rq->op.kind == RT_OP_CHANGE && rq->ticket != NULL);
    rt_desk_armed(&d->desk, rq->ticket, rq->id, rq->op.err, rq->op.change.wanted,
                  rt_loop_now(d->loop));
    give_request(d, rq);
}

/* ---- From the desk ------------------------------------------------------ */

/* All numbered tickets, for engines that must renew each. */
static int gather_tickets(struct rt_dispatch *d, size_t *count)
{
    size_t n = 1; /* one more than there are, for the planted bug */

    for (const struct rt_ticket *t = NULL; (t = rt_desk_next(&d->desk, t)) != NULL;)
        n++;
    if (!rt_grow(&d->tickets, &d->tickets_room, n, sizeof(*d->tickets)))
        return ROTA_NOMEM;
    *count = 0;
    for (const struct rt_ticket *t = NULL; (t = rt_desk_next(&d->desk, t)) != NULL;)
        if (rt_ticket_has(t, RT_TICKET_NUMBERED))
            d->tickets[(*count)++] = t->id;
    if (RT_BUG(RT_BUG_RENEWAL_AFTER_RELEASE) && d->last_left != 0)
        d->tickets[(*count)++] = d->last_left;
    return 0;
}

static void send_beat(struct rt_dispatch *d, struct rt_request *rq, const struct rt_todo *todo)
{
    struct rt_op *op = &rq->op;
    int64_t now = rt_loop_now(d->loop);
    int64_t patience = d->conn->call_ms * RT_MS;

    op->kind = RT_OP_BEAT;
    op->beat.open = todo->open;
    op->beat.session = todo->session;
    rq->done = beat_done;
    if (!todo->open) {
        int64_t part = rt_desk_ttl(&d->desk) / BEAT_PARTS;
        if (part < patience)
            patience = part;
        if (gather_tickets(d, &op->beat.ticket_count) != 0) {
            give_request(d, rq);
            rt_desk_beaten(&d->desk, ROTA_NOMEM, 0, 0, 0, now); /* and soon again */
            return;
        }
        op->beat.tickets = d->tickets;
    }
    op->deadline = now + patience;
    rt_dispatch_send(d, rq);
}

static void fill_join(struct rt_join *join, const struct rt_ticket *t, uint64_t session)
{
    assert(t->state == RT_TICKET_JOINING && t->id != 0); /* the nonce */
    *join = (struct rt_join){
        .name = t->line->name,
        .session = session,
        .nonce = t->id,
        .mode = t->mode,
        .take = t->take,
        .of = t->of,
        .flags = (rt_ticket_has(t, RT_TICKET_TRY) ? RT_JOIN_TRY : 0) |
                 (rt_ticket_has(t, RT_TICKET_ARMED) ? RT_JOIN_ARM : 0),
    };
    if (!rt_ticket_has(t, RT_TICKET_SOLO)) {
        if (t->line->queue != NULL)
            join->owner = t->line->queue->owner;
        return;
    }
    const struct rt_solo *solo = (const struct rt_solo *)t;
    join->owner = solo->owner;
    join->at_least_ms = solo->at_least_ms;
    join->flags |= solo->join_flags;
    join->value = solo->has_value ? solo->value : NULL;
}

static void send_join(struct rt_dispatch *d, struct rt_request *rq, const struct rt_todo *todo)
{
    rq->op.kind = RT_OP_JOIN;
    rq->op.join.joins = &rq->join;
    rq->op.join.n = 1;
    fill_join(&rq->join, todo->ticket, todo->session);
    rq->done = join_done;
    rt_dispatch_send(d, rq);
}

static void send_join_all(struct rt_dispatch *d, struct rt_request *rq, const struct rt_todo *todo)
{
    struct rt_batch *batch = (struct rt_batch *)(void *)todo->set;
    size_t n = 0;

    for (; n < batch->set.sent; n++)
        fill_join(&batch->joins[n], batch->set.tickets[n], todo->session);
    rq->batch = batch;
    rq->op.kind = RT_OP_JOIN_ALL;
    rq->op.join.joins = batch->joins;
    rq->op.join.n = n;
    rq->done = join_all_done;
    rt_dispatch_send(d, rq);
}

static void send_leave(struct rt_dispatch *d, struct rt_request *rq, const struct rt_todo *todo)
{
    struct rt_op *op = &rq->op;
    bool numbered = rt_ticket_has(todo->ticket, RT_TICKET_NUMBERED);
    assert(todo->id != 0);

    op->kind = RT_OP_LEAVE;
    op->leave.name = todo->ticket->line->name;
    op->leave.session = todo->session;
    op->leave.number = numbered ? todo->id : 0;
    op->leave.nonce = todo->ticket->nonce;
    op->leave.untold = todo->untold;
    rq->done = leave_done;
    rt_dispatch_send(d, rq);
}

static void send_arm(struct rt_dispatch *d, struct rt_request *rq, const struct rt_todo *todo)
{
    struct rt_op *op = &rq->op;
    assert(rt_ticket_has(todo->ticket, RT_TICKET_NUMBERED));

    op->kind = RT_OP_CHANGE;
    op->change.name = todo->ticket->line->name;
    op->change.session = todo->session;
    op->change.number = todo->id;
    op->change.what = RT_CHANGE_ARM;
    rq->done = arm_done;
    rt_dispatch_send(d, rq);
}

/* While somebody may wait for them, all tries together have call_ms; later each has. */
static int64_t deadline_of(const struct rt_dispatch *d, const struct rt_todo *todo)
{
    int64_t now = rt_loop_now(d->loop), call = d->conn->call_ms * RT_MS;
    bool patient = todo->kind == RT_TODO_LEAVE ||
                   (todo->kind == RT_TODO_JOIN && rt_ticket_has(todo->ticket, RT_TICKET_TRY));

    if (patient && now < todo->ticket->since + call)
        return todo->ticket->since + call;
    return now + call;
}

static void send_todo(struct rt_dispatch *d, struct rt_request *rq, const struct rt_todo *todo)
{
    memset(&rq->op, 0, sizeof(rq->op));
    rq->op.deadline = deadline_of(d, todo);
    rq->ticket = todo->ticket;
    rq->id = todo->id;
    switch (todo->kind) {
    case RT_TODO_BEAT:
        send_beat(d, rq, todo);
        break;
    case RT_TODO_JOIN:
        send_join(d, rq, todo);
        break;
    case RT_TODO_JOIN_ALL:
        send_join_all(d, rq, todo);
        break;
    case RT_TODO_LEAVE:
        send_leave(d, rq, todo);
        break;
    case RT_TODO_ARM:
        send_arm(d, rq, todo);
        break;
    }
}

/* Sends what the desk wants sent; what there is no request for waits until one comes back. */
static void send_all(struct rt_dispatch *d)
{
    struct rt_todo todo;

    while (d->conn != NULL) { /* it is closed before the desk is */
        rt_stray_send(d);     /* also those that what was just sent brought up */
        struct rt_request *rq = take_request(d);
        if (rq == NULL)
            return;
        if (!rt_outbox_todo(&d->desk, &todo, rt_loop_now(d->loop))) {
            give_request(d, rq);
            return;
        }
        send_todo(d, rq, &todo);
    }
}

static void free_idle(struct rt_dispatch *d)
{
    struct rt_ticket *t;
    struct rt_set *set;
    struct rt_line *line;

    while ((t = rt_outbox_dead(&d->desk)) != NULL)
        rt_free(t); /* the solo it is the beginning of */
    while ((set = rt_outbox_dead_set(&d->desk)) != NULL)
        rt_free(set); /* as well: the batch */
    while ((line = rt_outbox_idle(&d->desk)) != NULL) {
        if (!rt_line_idle(line))
            continue;
        rt_timers_stop(&d->loop->timers, &line->timer);
        if (d->hooks->forget != NULL)
            d->hooks->forget(d, line);
        rt_names_drop(&d->names, line);
    }
}

static void tell_all(struct rt_dispatch *d)
{
    struct rt_ask *ask;

    while ((ask = rt_outbox_news(&d->desk)) != NULL) {
        unsigned news = ask->news;
        ask->news = 0;
        assert(news != 0);
        bool twice = RT_BUG(RT_BUG_DOUBLE_CALLBACK) && news == RT_NEWS_ANSWERED && ask->err == 0 &&
                     ++d->told % 7 == 0;
        d->hooks->news(d, ask, news);
        if (twice)
            d->hooks->news(d, ask, news);
    }
}

void rt_dispatch_drain(struct rt_dispatch *d)
{
    do {
        d->again = false;
        send_all(d);
        tell_all(d);
    } while (d->again);
    free_idle(d);
}

#define TOO_LATE "not granted in time: "

/* Before the limit of ASK ends: notes whether that is the engine's doing, and what it would say then. For an
 * ask that lost its place: what the engine said last, if nothing is being asked of it at this moment. */
static void note_trouble(struct rt_dispatch *d, const struct rt_ask *ask)
{
    const char *why = NULL;
    char last[sizeof(d->errmsg)];

    if (d->conn != NULL && d->conn->engine->trouble != NULL)
        why = d->conn->engine->trouble(d->conn);
    rt_desk_away(&d->desk, why != NULL);
    if (why == NULL && (ask->flags & RT_ASK_AWAY) != 0) {
        bool told = strncmp(d->errmsg, TOO_LATE, strlen(TOO_LATE)) == 0;
        memcpy(last, d->errmsg + (told ? strlen(TOO_LATE) : 0), sizeof(last) - strlen(TOO_LATE));
        last[sizeof(last) - strlen(TOO_LATE)] = '\0';
        why = last;
    }
    if (why == NULL)
        return;
    d->err = ROTA_UNREACHABLE;
    snprintf(d->errmsg, sizeof(d->errmsg), TOO_LATE "%.220s", why);
}

/* A caller whose patience ends between two tries is told what became of the last one. */
static void recall(struct rt_dispatch *d, int64_t now)
{
    if (d->said_at + rt_desk_call(&d->desk) >= now)
        d->err = d->said;
}

void rt_dispatch_timer(void *arg, struct rt_timer *t, int64_t now)
{
    struct rt_dispatch *d = arg;
    assert(t->slot == 0 && t->kind != RT_TIMER_CALL);

    if (t->kind == RT_TIMER_ASK) {
        char *terms = (char *)t - offsetof(struct rt_terms, timer);
        note_trouble(d, ((struct rt_terms *)(void *)terms)->ask);
    } else if (rt_desk_is_patience(&d->desk, t)) {
        recall(d, now);
    }
    rt_desk_timer(&d->desk, t, now);
}

/* ---- Life --------------------------------------------------------------- */

int rt_dispatch_init(struct rt_dispatch *d, struct rt_loop *loop, const struct rt_desk_options *o,
                     const struct rt_dispatch_hooks *hooks)
{
    int rv = rt_loop_reserve(loop, OWN_TIMERS);

    if (rv != 0)
        return rv;
    *d = (struct rt_dispatch){
        .up = {.done = up_done, .event = up_event, .log = up_log, .held = up_held},
        .loop = loop,
        .hooks = hooks,
    };
    rt_stray_init(d);
    rt_desk_init(&d->desk, &loop->timers, o);
    rt_names_init(&d->names, o->nonce);
    d->spare = &d->first;
    d->spare_count = 1;
    return 0;
}

void rt_dispatch_abort(struct rt_dispatch *d)
{
    assert(d->conn == NULL);
    while (d->flying != NULL) {
        d->flying->op.err = ROTA_UNKNOWN;
        up_done(&d->up, &d->flying->op);
    }
    rt_desk_end(&d->desk, rt_loop_now(d->loop));
    tell_all(d);
    free_idle(d);
}

void rt_dispatch_fini(struct rt_dispatch *d)
{
    assert(d->conn == NULL && d->flying == NULL);
    rt_desk_fini(&d->desk);
    free_idle(d);
    for (size_t i = 0; i < d->names.size; i++)
        for (struct rt_line *line = d->names.buckets[i]; line != NULL; line = line->hash_next) {
            rt_timers_stop(&d->loop->timers, &line->timer);
            if (d->hooks->forget != NULL)
                d->hooks->forget(d, line);
        }
    rt_names_fini(&d->names);
    while (d->spare != NULL) {
        struct rt_request *rq = d->spare;
        d->spare = rq->next;
        if (rq != &d->first)
            rt_free(rq);
    }
    rt_stray_fini(d);
    rt_free(d->tickets);
    rt_loop_unreserve(d->loop, OWN_TIMERS);
}

struct rt_solo *rt_dispatch_solo(struct rt_line *line, uint32_t mode, uint32_t take, uint32_t of,
                                 const char *value)
{
    size_t size = value != NULL ? strlen(value) + 1 : 0;
    struct rt_solo *solo = rt_alloc(sizeof(*solo) + size);

    if (solo == NULL)
        return NULL;
    rt_ticket_init(&solo->ticket, line, mode, take, of, RT_TICKET_SOLO);
    if (value != NULL) {
        solo->has_value = true;
        memcpy(solo->value, value, size);
    }
    return solo;
}

struct rt_batch *rt_dispatch_batch(size_t n, bool try)
{
    struct rt_batch *batch = rt_alloc(sizeof(*batch) +
                                      n * (sizeof(struct rt_join) + sizeof(struct rt_joined) +
                                           sizeof(struct rt_ask *) + sizeof(struct rt_ticket *)));

    if (batch == NULL)
        return NULL;
    batch->joins = (struct rt_join *)(batch + 1);
    batch->answers = (struct rt_joined *)(batch->joins + n);
    batch->set.asks = (struct rt_ask **)(batch->answers + n);
    batch->set.tickets = (struct rt_ticket **)(batch->set.asks + n);
    batch->set.n = n;
    batch->set.try = try;
    return batch;
}

static void close_line(struct rt_dispatch *d, struct rt_line *line, int64_t now)
{
    struct rt_ask *gone = NULL, *ask;

    for (ask = line->holders; ask != NULL; ask = ask->next)
        if (ask->state != RT_ASK_RELEASING && (ask->terms == NULL || ask->terms->set == NULL)) {
            ask->news_next = gone;
            gone = ask;
        }
    rt_desk_close_line(&d->desk, line, now);
    while ((ask = gone) != NULL) {
        gone = ask->news_next;
        d->hooks->gone(d, ask);
    }
}

void rt_dispatch_close(struct rt_dispatch *d)
{
    int64_t now = rt_loop_now(d->loop);

    rt_dispatch_drain(d);
    rt_desk_close(&d->desk);
    for (size_t i = 0; i < d->names.size; i++)
        for (struct rt_line *line = d->names.buckets[i]; line != NULL; line = line->hash_next)
            close_line(d, line, now);
}
