/* SPDX-License-Identifier: Apache-2.0 */
/* Strays: tickets of ours that nobody here knows. */
#include "client/stray.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

struct rt_stray {
    struct rt_request request;
    struct rt_stray *next;
    uint64_t session, number;
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
    memcpy(stray->name, event->name, size);
    stray->next = d->strays;
    d->strays = stray;
}

static void stray_done(struct rt_dispatch *d, struct rt_request *rq)
{
    (void)d;
    rt_free(rq); /* the stray it is the beginning of; if it failed, a BEAT brings it up again */
}

void rt_stray_send(struct rt_dispatch *d)
{
    struct rt_stray *stray;

    while ((stray = d->strays) != NULL) {
        struct rt_op *op = &stray->request.op;
        d->strays = stray->next;
        op->kind = RT_OP_LEAVE;
        op->deadline = rt_loop_now(d->loop) + d->conn->call_ms * RT_MS;
        op->leave.name = stray->name;
        op->leave.session = stray->session;
        op->leave.number = stray->number;
        op->leave.untold = true;
        stray->request.done = stray_done;
        rt_dispatch_send(d, &stray->request);
    }
}

void rt_stray_fini(struct rt_dispatch *d)
{
    struct rt_stray *stray;

    while ((stray = d->strays) != NULL) {
        d->strays = stray->next;
        rt_free(stray);
    }
}
