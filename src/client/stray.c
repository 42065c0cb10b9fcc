/* SPDX-License-Identifier: Apache-2.0 */
/* Strays: tickets of ours that nobody here knows. */
#include "client/stray.h"

#include "base/alloc.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define PAUSE (1000 * RT_MS) /* until one that could not be given back is tried again */

struct rt_stray {
    struct rt_request request; /* first */
    struct rt_stray *next;
    uint64_t session, number, nonce; /* nonce 0: the engine has not told it */
    char name[];
};

/* Whether T is joining, by NONCE if that is known. */
static bool is_joining(const struct rt_ticket *t, uint64_t nonce)
{
    return t != NULL && t->state == RT_TICKET_JOINING && (nonce == 0 || t->id == nonce);
}

bool rt_stray_may_be_joining(const struct rt_line *line, uint64_t nonce)
{
    if (line == NULL)
        return false;
    for (const struct rt_ask *ask = line->solos; ask != NULL; ask = ask->next)
        if (is_joining(ask->ticket, nonce))
            return true;
    return is_joining(&line->x, nonce) || is_joining(line->s, nonce);
}

void rt_stray_note(struct rt_dispatch *d, const struct rt_event *event)
{
    assert(event->kind == RT_GRANTED);
    size_t size = strlen(event->name) + 1;
    struct rt_stray *stray = rt_alloc(sizeof(*stray) + size);
    if (stray == NULL)
        return;
    stray->session = event->session;
    stray->number = event->fence != 0 ? event->fence : event->number;
    stray->nonce = event->nonce;
    memcpy(stray->name, event->name, size);
    stray->next = d->strays;
    d->strays = stray;
}

/* Whether nobody but us will ever end it, and it may still stand there. */
static bool must_be_left_again(const struct rt_dispatch *d, const struct rt_stray *stray)
{
    int err = stray->request.op.err;

    return err != 0 && err != ROTA_LOST && rt_desk_ttl(&d->desk) == 0 &&
           stray->session == rt_desk_session(&d->desk);
}

static void stray_done(struct rt_dispatch *d, struct rt_request *rq)
{
    struct rt_stray *stray = (struct rt_stray *)(void *)rq;

    if (!must_be_left_again(d, stray)) {
        rt_free(stray);
        return;
    }
    stray->next = d->strays_left;
    d->strays_left = stray;
    if (d->stray_timer.timer.slot == 0)
        rt_timers_start(&d->loop->timers, &d->stray_timer.timer, rt_loop_now(d->loop) + PAUSE);
}

/* The time is over: what is left goes out with the next drain. */
static void again(struct rt_timer_call *call, int64_t now)
{
    struct rt_dispatch *d =
        (struct rt_dispatch *)(void *)((char *)call - offsetof(struct rt_dispatch, stray_timer));
    struct rt_stray *stray;

    (void)now;
    while ((stray = d->strays_left) != NULL) {
        d->strays_left = stray->next;
        stray->next = d->strays;
        d->strays = stray;
    }
}

void rt_stray_init(struct rt_dispatch *d)
{
    assert(d->strays == NULL && d->strays_left == NULL);
    d->stray_timer = (struct rt_timer_call){.timer.kind = RT_TIMER_CALL, .fire = again};
}

void rt_stray_send(struct rt_dispatch *d)
{
    assert(d->conn != NULL);
    struct rt_stray *stray;

    while ((stray = d->strays) != NULL) {
        struct rt_op *op = &stray->request.op;
        d->strays = stray->next;
        op->kind = RT_OP_LEAVE;
        op->deadline = rt_loop_now(d->loop) + d->conn->call_ms * RT_MS;
        op->leave.name = stray->name;
        op->leave.session = stray->session;
        op->leave.number = stray->number;
        op->leave.nonce = stray->nonce;
        op->leave.untold = true;
        stray->request.done = stray_done;
        rt_dispatch_send(d, &stray->request);
    }
}

void rt_stray_fini(struct rt_dispatch *d)
{
    struct rt_stray *stray;

    rt_timers_stop(&d->loop->timers, &d->stray_timer.timer);
    again(&d->stray_timer, 0);
    while ((stray = d->strays) != NULL) {
        d->strays = stray->next;
        rt_free(stray);
    }
}
