/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers: asks that are granted together.
 *
 * At the limit the engine decides whether the round was complete: our LEAVE is answered with what
 * the ticket was. Otherwise a party could give up after the others have counted it and gone. For the same
 * reason we wait for a JOIN that is under way at that moment: it counts until it has been taken back. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"

#include <stdio.h>

#define LIMIT_MOST_MS (INT64_MAX / RT_MS / 4)
#define LOOK_EVERY (2 * RT_MS) /* for the answer to the JOIN, after the limit */

struct gathering {
    struct rt_request rq; /* first: the LEAVE at the limit */
    struct rt_timer_call timer;
    struct rota *r;
    struct rt_waiter *w; /* its ask is there until it is done */
    /* after the limit: when a JOIN without an answer is given up; 0: before */
    int64_t unsure_until;
    bool in_flight;
    bool abandoned;          /* its call is over: freed by the answer */
    bool passed;             /* the round was complete when we left */
    char name[RT_NAME_ROOM]; /* as spelled: the LEAVE may outlive the line */
};

static void give_up(struct gathering *g, int err)
{
    (void)rt_desk_cancel(&g->r->d.desk, g->w->ask, err, rt_loop_now(&g->r->loop));
}

static void left(struct rt_dispatch *d, struct rt_request *rq)
{
    struct gathering *g = (struct gathering *)(void *)rq;
    int err = rq->op.err;

    (void)d;
    g->in_flight = false;
    if (g->abandoned) {
        rt_free(g);
        return;
    }
    if (atomic_load(&g->w->word) == RT_WAIT_DONE)
        return;
    g->passed = err == 0 && rq->op.leave.granted;
    if (err == 0)
        give_up(g, ROTA_TIMEOUT);
    else
        give_up(g, err == ROTA_LOST ? err : ROTA_UNKNOWN);
}

/* Whether the engine may have the ticket, and has not said so. */
static bool is_unanswered(const struct rt_ticket *t)
{
    bool unsent = (t->want & RT_WANT_JOIN) != 0 && !rt_ticket_has(t, RT_TICKET_AGAIN);
    return t->state == RT_TICKET_JOINING && !unsent;
}

/* There is no event for "it waits now"; a flight is short, and this is rare. */
static void look_again(struct gathering *g, int64_t now)
{
    if (g->unsure_until == 0)
        g->unsure_until = now + g->r->call_ms * RT_MS;
    if (now < g->unsure_until)
        rt_timers_start(&g->r->loop.timers, &g->timer.timer, now + LOOK_EVERY);
    else
        give_up(g, ROTA_UNKNOWN);
}

static void limit_over(struct rt_timer_call *call, int64_t now)
{
    struct gathering *g = (struct gathering *)(void *)((char *)call -
                                                       offsetof(struct gathering, timer));
    struct rota *r = g->r;

    if (atomic_load(&g->w->word) == RT_WAIT_DONE)
        return;
    const struct rt_ask *ask = g->w->ask;
    if (ask->state != RT_ASK_QUEUED)
        return; /* decided, and told in a moment */
    if (is_unanswered(ask->ticket)) {
        look_again(g, now);
        return;
    }
    if (ask->ticket->state != RT_TICKET_WAITING) {
        give_up(g, ROTA_TIMEOUT);
        return;
    }
    snprintf(g->name, sizeof(g->name), "%s", ask->line->name);
    g->rq.done = left;
    g->rq.op = (struct rt_op){
        .kind = RT_OP_LEAVE,
        /* all in all call_ms after the limit, whoever was asked first */
        .deadline = g->unsure_until != 0 ? g->unsure_until : now + r->call_ms * RT_MS,
        .leave = {.name = g->name,
                  .session = rt_desk_session(&r->d.desk),
                  .number = ask->ticket->id,
                  .nonce = ask->ticket->nonce},
    };
    g->in_flight = true;
    rt_dispatch_send(&r->d, &g->rq);
}

static void cancel_gathering(struct rota *r, struct rt_waiter *w, int err)
{
    (void)rt_desk_cancel(&r->d.desk, w->ask, err, rt_loop_now(&r->loop));
}

static int prepare(struct rota *r, const char *name, uint32_t of, struct gathering **out,
                   struct rota_lock **lock)
{
    struct rt_wish wish = {
        .ask = {.of = of, .owner = ROTA_OWNER_NONE},
        .mode = RT_GATHER,
    };
    struct gathering *g = rt_alloc(sizeof(*g));

    if (g == NULL)
        return ROTA_NOMEM;
    int rv = rt_loop_reserve(&r->loop, 1);
    if (rv != 0)
        goto free_gathering;
    rv = rt_ask_prepare(r, name, &wish, lock);
    if (rv != 0)
        goto unreserve;
    g->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = limit_over};
    g->r = r;
    *out = g;
    return 0;

unreserve:
    rt_loop_unreserve(&r->loop, 1);
free_gathering:
    rt_free(g);
    return rv;
}

static void finish(struct rota *r, struct gathering *g)
{
    rt_client_lock(r);
    rt_timers_stop(&r->loop.timers, &g->timer.timer);
    rt_loop_unreserve(&r->loop, 1);
    g->abandoned = g->in_flight;
    if (!g->in_flight)
        rt_free(g);
    rt_client_leave(r);
}

/* Enters with the mutex, returns without it; R outlives it. */
static int gather(struct rota *r, struct gathering *g, struct rota_lock *lock, uint64_t limit_ms)
{
    struct rt_waiter w;
    int64_t limit = (limit_ms > LIMIT_MOST_MS ? LIMIT_MOST_MS : (int64_t)limit_ms) * RT_MS;

    rt_wait_init(r, &w, &lock->ask, cancel_gathering);
    lock->waiter = &w;
    g->w = &w;
    if (limit != 0)
        rt_timers_start(&r->loop.timers, &g->timer.timer, rt_loop_now(&r->loop) + limit);
    rt_metrics_ask(r, lock);
    rt_wait(r, &w);
    int err = w.err == ROTA_TIMEOUT && g->passed ? 0 : w.err;
    finish(r, g);
    /* All of the round are granted by now: how the leaving ends changes nothing for us. */
    if (w.err == 0)
        (void)rota_release(lock);
    return rt_fail_waiter(r->serial, err, w.errmsg);
}

int rota_barrier(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms)
{
    struct gathering *g;
    struct rota_lock *lock;
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0 && of == 0)
        rv = rt_fail(r, ROTA_INVALID, "a barrier has at least one party");
    if (rv == 0 && (rota_caps(r) & ROTA_CAP_DURABLE) == 0)
        rv = rt_fail(r, ROTA_UNSUPPORTED, "barriers are not possible on %s", r->shown_url);
    if (rv == 0)
        rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    rv = prepare(r, name, of, &g, &lock);
    if (rv != 0) {
        rt_client_leave(r);
        return rt_fail(r, rv, NULL);
    }
    rt_client_hold(r);
    rv = gather(r, g, lock, limit_ms);
    rt_client_drop(r);
    return rv;
}
