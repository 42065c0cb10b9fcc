/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlocks: asks with ROTA_DETECT that wait for long hunt for a cycle they are in.
 *
 * One hunt at a time per client; the others queue for it. Its questions are sent from
 * rt_hunt_go_on, never from inside an answer. */
#include "client/client.h"

#include "base/alloc.h"
#include "core/hunt.h"

#include <assert.h>

/* Most waits are shorter than the first; a cycle stays until somebody finds it. */
#define FIRST_AFTER (100 * RT_MS)
#define NEXT_AFTER (300 * RT_MS)

struct rt_hunter { /* of one waiting ask */
    struct rt_timer_call timer;
    struct rota *r;
    struct rota_lock *lock;
    struct rt_hunter *next; /* in the queue for the hunt */
    bool queued;
};

struct rt_hunting {       /* the client's one hunt */
    struct rt_request rq; /* first */
    struct rt_hunt hunt;
    struct rt_hunter *hunter;             /* whose it is; NULL: idle, or its ask is decided */
    struct rt_hunter *queue, *queue_tail; /* who is next */
    bool in_flight, due;
};

static void enqueue(struct rt_hunting *hg, struct rt_hunter *hunter)
{
    hunter->queued = true;
    hunter->next = NULL;
    if (hg->queue == NULL)
        hg->queue = hunter;
    else
        hg->queue_tail->next = hunter;
    hg->queue_tail = hunter;
    hg->due = true;
}

static void dequeue(struct rt_hunting *hg, struct rt_hunter *hunter)
{
    struct rt_hunter *before = NULL, *at = hg->queue;

    if (!hunter->queued)
        return;
    for (; at != hunter; at = at->next)
        before = at;
    if (before != NULL)
        before->next = hunter->next;
    else
        hg->queue = hunter->next;
    if (hg->queue_tail == hunter)
        hg->queue_tail = before;
    hunter->queued = false;
}

static void due(struct rt_timer_call *call, int64_t now)
{
    struct rt_hunter *hunter = (struct rt_hunter *)(void *)call;

    (void)now;
    enqueue(hunter->r->hunting, hunter);
}

int rt_hunter_new(struct rota *r, struct rt_more *more)
{
    assert(rt_client_mine(r));
    if (r->hunting == NULL)
        r->hunting = rt_alloc(sizeof(*r->hunting));
    struct rt_hunter *hunter = r->hunting != NULL ? rt_alloc(sizeof(*hunter)) : NULL;
    if (hunter == NULL || rt_loop_reserve(&r->loop, 1) != 0) {
        rt_free(hunter);
        return ROTA_NOMEM;
    }
    *hunter = (struct rt_hunter){
        .timer = {.timer = {.kind = RT_TIMER_CALL}, .fire = due},
        .r = r,
        .lock = rt_lock_of(more->terms.ask),
    };
    more->hunter = hunter;
    rt_timers_start(&r->loop.timers, &hunter->timer.timer, rt_loop_now(&r->loop) + FIRST_AFTER);
    return 0;
}

void rt_hunter_free(struct rota *r, struct rt_more *more)
{
    assert(rt_client_mine(r));
    struct rt_hunter *hunter = more->hunter;

    if (hunter == NULL)
        return;
    more->hunter = NULL;
    dequeue(r->hunting, hunter);
    if (r->hunting->hunter == hunter)
        r->hunting->hunter = NULL; /* the answer under way finds nobody */
    rt_timers_stop(&r->loop.timers, &hunter->timer.timer);
    rt_loop_unreserve(&r->loop, 1);
    rt_free(hunter);
}

void rt_hunting_fini(struct rota *r)
{
    rt_free(r->hunting);
    r->hunting = NULL;
}

/* ---- Hunting ------------------------------------------------------------ */

static void each_place(void *arg, const char *name, const struct rota_place *place)
{
    struct rt_hunting *hg = arg;

    if (hg->hunter != NULL)
        rt_hunt_place(&hg->hunt, name, place);
}

static void answered(struct rt_dispatch *d, struct rt_request *rq)
{
    struct rt_hunting *hg = (struct rt_hunting *)(void *)rq;

    (void)d;
    hg->in_flight = false;
    hg->due = true;
    if (hg->hunter == NULL)
        return;
    if (rq->op.err == 0)
        rt_hunt_answered(&hg->hunt);
    else
        rt_hunt_fail(&hg->hunt);
}

/* Begins the next hunt, if its ask stands in its line. */
static void begin(struct rota *r, struct rt_hunting *hg)
{
    struct rt_hunter *hunter = hg->queue;
    const struct rt_ask *ask = &hunter->lock->ask;
    const struct rt_ticket *t = ask->ticket;

    dequeue(hg, hunter);
    if (t != NULL && t->state == RT_TICKET_WAITING && ask->owner != 0) {
        hg->hunter = hunter;
        rt_hunt_begin(&hg->hunt, ask->line->name, t->id, rt_desk_session(&r->d.desk), ask->owner);
    } else {
        rt_timers_start(&r->loop.timers, &hunter->timer.timer, rt_loop_now(&r->loop) + NEXT_AFTER);
    }
}

static void end(struct rota *r, struct rt_hunting *hg)
{
    struct rt_hunter *hunter = hg->hunter;
    struct rt_ask *ask = &hunter->lock->ask;
    int64_t now = rt_loop_now(&r->loop);
    bool refuse = hg->hunt.verdict == RT_HUNT_VICTIM;

    hg->hunter = NULL;
    if (refuse && rt_desk_cancel(&r->d.desk, ask, ROTA_DEADLOCK, now))
        return; /* the news frees the hunter */
    rt_timers_start(&r->loop.timers, &hunter->timer.timer, now + NEXT_AFTER);
}

static void ask_next(struct rota *r, struct rt_hunting *hg)
{
    const char *name = NULL;
    uint64_t session = 0;

    if (rt_hunt_next(&hg->hunt, &name, &session) == RT_HUNT_OVER) {
        end(r, hg);
        return;
    }
    hg->rq.op = (struct rt_op){
        .kind = RT_OP_INSPECT,
        .deadline = rt_loop_now(&r->loop) + r->call_ms * RT_MS,
        .inspect = {.name = name, .session = session, .each = each_place, .arg = hg},
    };
    hg->rq.done = answered;
    hg->in_flight = true;
    rt_dispatch_send(&r->d, &hg->rq);
}

bool rt_hunt_go_on(struct rota *r)
{
    struct rt_hunting *hg = r->hunting;

    if (hg == NULL || !hg->due || hg->in_flight || r->d.conn == NULL)
        return false;
    if (hg->hunter != NULL)
        ask_next(r, hg);
    else if (hg->queue != NULL)
        begin(r, hg);
    else
        hg->due = false;
    return hg->due;
}
