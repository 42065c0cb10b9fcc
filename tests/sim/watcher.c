/* SPDX-License-Identifier: Apache-2.0 */
/* Observers: what they do, and what they are told. */
#include "sim/watcher.h"

#include "sim/calm.h"
#include "sim/sim.h"
#include "sim/world.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS \
    50 /* after this long, a state that may be older than the one before is looked at again */

/* ---- What they do ------------------------------------------------------- */

static void done(struct rt_dispatch *d, struct rt_request *rq)
{
    struct sim_watcher *w = (struct sim_watcher *)(void *)rq; /* its first member */
    const struct rt_op *op = &rq->op;
    const struct sim *sim = w->client->sim;
    (void)d;
    SIM_TRACE(sim, w->client, "%s %s: %s", op->observe.stop ? "observes no more" : "observes",
              sim->lines[w->name].name, op->err == 0 ? "ok" : rota_strerror(op->err));
    if (op->err == ROTA_LOST || op->err == ROTA_BUSY)
        sim_violated(sim, "OBSERVE", "c%u was told %s", w->client->index, rota_strerror(op->err));
    w->busy = false;
    w->begun = op->err == 0 && !op->observe.stop;
    w->on = w->begun;
    w->differs_since = 0;
}

static void ask(struct sim_watcher *w, bool stop)
{
    struct sim_client *c = w->client;
    struct rt_op *op = &w->request.op;
    memset(&w->request, 0, sizeof(w->request));
    op->kind = RT_OP_OBSERVE;
    op->deadline = c->sim->now + c->sim->plan.call_ms * RT_MS;
    op->observe.name = c->sim->lines[w->name].name;
    op->observe.cookie = w;
    op->observe.stop = stop;
    w->request.done = done;
    w->busy = true;
    w->on = !stop;
    w->told = false;
    rt_dispatch_send(&c->d, &w->request);
}

void sim_watcher_act(struct sim_client *c)
{
    struct sim *sim = c->sim;
    uint32_t name = sim_below(&sim->aside, sim->plan.names);
    struct sim_watcher *w = &c->watchers[name];
    if (w->busy || c->close_by != 0)
        return;
    w->client = c;
    w->name = name;
    ask(w, w->on && sim_chance(&sim->aside, 500));
}

/* ---- What they are told ------------------------------------------------- */

/* Over mem requests and events may be late, lost and doubled on their way. */
static bool is_exact(const struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    const struct rt_fault_config *net = &plan->network;
    bool bad = plan->starve > 0 || plan->trouble[SIM_TROUBLE_RESET] > 0 ||
               plan->trouble[SIM_TROUBLE_CUT] > 0 || net->event_doubled > 0 ||
               net->event_lost > 0 || net->event_late > 0;
    for (int i = 0; i < RT_FAULT_KINDS; i++)
        bad = bad || net->rate[i] > 0;
    return sim->net != NULL || !bad;
}

static bool is_same(const struct sim_watcher *w, const struct rt_event *e)
{
    return w->last.fence == e->front.fence && w->last.count == e->count &&
           w->last.mode == e->mode && w->last.of == e->of &&
           strcmp(w->last.label, e->front.label) == 0;
}

void sim_watcher_event(struct rt_dispatch *d, const struct rt_event *event)
{
    const struct sim_client *c = (const struct sim_client *)(const void *)d; /* its first member */
    struct sim_watcher *w = event->cookie;
    const struct sim *sim = c->sim;
    if (event->kind != RT_CHANGED || c->dead)
        return;
    assert(w->client == c);
    SIM_TRACE(sim, c, "sees %s: %zu, front %llu of %s", event->name, event->count,
              (unsigned long long)event->front.fence, event->front.label);
    if (strcmp(event->name, sim->lines[w->name].name) != 0)
        sim_violated(sim, "OBSERVE", "c%u observes %s and was told of %s", c->index,
                     sim->lines[w->name].name, event->name);
    if (!w->on && is_exact(sim))
        sim_violated(sim, "OBSERVE", "c%u was told of %s, which it does not observe", c->index,
                     event->name);
    if (w->told && is_same(w, event) && is_exact(sim))
        sim_violated(sim, "OBSERVE", "c%u was told of %s again, and nothing is new", c->index,
                     event->name);
    w->told = true;
    w->last.fence = event->front.fence;
    w->last.count = event->count;
    w->last.mode = event->mode;
    w->last.of = event->of;
    snprintf(w->last.label, sizeof(w->last.label), "%.15s", event->front.label);
}

/* ---- What stands in the line -------------------------------------------- */

/* Whether a ticket that is dead, or nobody's, stands there: when it ends depends on who looks. */
static bool is_unsettled(const struct sim *sim, const char *name, const struct sim_place *places,
                         size_t n)
{
    int64_t ends;
    for (size_t i = 0; i < n; i++)
        if (places[i].session == 0 || !sim->kind->session(sim, places[i].session, name, &ends) ||
            ends <= sim->now)
            return true;
    return false;
}

static bool is_label_of(const struct sim *sim, uint64_t session, const char *label)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        if (c->open && c->d.desk.session.id == session)
            return strcmp(c->label, label) == 0;
    }
    return true; /* it is gone, or has another one by now */
}

static bool is_so(const struct sim *sim, const struct sim_watcher *w,
                  const struct sim_place *places, size_t n)
{
    bool granted = n > 0 && places[0].granted;
    if (!w->told || w->last.count != n || w->last.fence != (granted ? places[0].number : 0))
        return false;
    if (n > 0 && (w->last.mode != places[0].mode || w->last.of != places[0].of))
        return false;
    return !granted || is_label_of(sim, places[0].session, w->last.label);
}

static void check(const struct sim *sim, struct sim_watcher *w)
{
    struct sim_place places[SIM_PLACES_MAX];
    const char *name = sim->lines[w->name].name;
    size_t n = sim->kind->look(sim, name, places, SIM_PLACES_MAX);
    if (is_so(sim, w, places, n) || is_unsettled(sim, name, places, n)) {
        w->differs_since = 0;
        return;
    }
    if (w->differs_since == 0)
        w->differs_since = sim->now;
    int64_t by = sim_told_by(sim, w->differs_since);
    if (by != RT_NEVER && sim->now > by + LOOK_MS * RT_MS)
        sim_violated(sim, "OBSERVE",
                     "c%u sees %zu of %s, front %llu of %s; it is not so since %lld us",
                     w->client->index, w->last.count, name, (unsigned long long)w->last.fence,
                     w->last.label, (long long)(sim->now - w->differs_since) / 1000);
}

void sim_watcher_check(const struct sim *sim, struct sim_client *c)
{
    for (uint32_t i = 0; i < sim->plan.names && !sim->kind->late && is_exact(sim); i++)
        if (c->watchers[i].begun && c->watchers[i].on && !c->watchers[i].busy)
            check(sim, &c->watchers[i]);
}
