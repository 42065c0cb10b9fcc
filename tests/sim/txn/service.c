/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated services: each has a fence (T3.5), so that a try that comes late, a call that comes twice and a cancel that
 * comes alone do no harm. And the threads that try them (X11). */
#include "sim/txn/txn.h"
#include "txn/core/reserve.h"

#include <assert.h>

/* ---- The participant's side ---------------------------------------------- */

static uint8_t reserve(struct ts_world *w, const struct ts_event *r, struct ts_branch *b)
{
    const struct ts_fact *f = &w->facts[r->fact];
    if (b->fence == TS_BY_TRY)
        return RT_REPLY_YES;
    bool late = b->fence == TS_BY_CANCEL || TS_WALL + w->now / TS_MS > f->deadline_ms;
    ts_counts.late_tries += late;
    if (late || b->says_no)
        return RT_REPLY_NO;
    b->fence = TS_BY_TRY;
    b->state = TS_RESERVED;
    return RT_REPLY_YES;
}

static uint8_t confirm(struct ts_world *w, const struct ts_event *r, struct ts_branch *b)
{
    const struct ts_fact *f = &w->facts[r->fact];
    if (f->ever != RT_DECISION_COMMIT || !b->listed)
        ts_violated(w, f->ever == RT_DECISION_NONE ? "X2" : "X4",
                    "service %u of t%u is to confirm, and that was not decided", r->branch,
                    r->fact);
    if (b->state == TS_COMMITTED)
        return RT_REPLY_DONE;
    if (b->state != TS_RESERVED)
        ts_violated(w, "X2", "service %u of t%u is to confirm what it has not reserved", r->branch,
                    r->fact);
    b->state = TS_COMMITTED;
    return RT_REPLY_DONE;
}

static uint8_t cancel(struct ts_world *w, const struct ts_event *r, struct ts_branch *b)
{
    const struct ts_fact *f = &w->facts[r->fact];
    if (f->ever == RT_DECISION_COMMIT && b->listed)
        ts_violated(w, "X4", "service %u of t%u is cancelled, and COMMIT was decided", r->branch,
                    r->fact);
    if (f->ever == RT_DECISION_NONE)
        ts_violated(w, "X3", "service %u of t%u is cancelled, and nothing is decided", r->branch,
                    r->fact);
    ts_counts.empty += b->fence == TS_NO_FENCE;
    b->fence = b->fence == TS_NO_FENCE ? TS_BY_CANCEL : b->fence;
    b->cancelled = true;
    b->state = TS_ROLLED;
    return RT_REPLY_DONE;
}

uint8_t ts_service_call(struct ts_world *w, const struct ts_event *r, struct ts_branch *b)
{
    assert(b->service);
    if (r->bop == RT_BRANCH_PREPARE)
        return reserve(w, r, b);
    if (!w->healing && sim_chance(&w->third, w->plan.held))
        return RT_REPLY_HELD;
    if (!w->healing && sim_chance(&w->third, w->plan.refuses)) {
        b->lost_once = true; /* it may be stuck */
        ts_counts.refused++;
        return RT_REPLY_REFUSED;
    }
    return r->bop == RT_BRANCH_COMMIT ? confirm(w, r, b) : cancel(w, r, b);
}

/* DONE is written: nothing that was tried is left (X11). */
void ts_service_check_done(const struct ts_world *w, uint32_t fact)
{
    const struct ts_fact *f = &w->facts[fact];
    for (uint32_t i = 0; i < f->count; i++) {
        const struct ts_branch *b = &f->branches[i];
        bool ended = f->stands == RT_DECISION_COMMIT ? b->state == TS_COMMITTED : b->cancelled;
        if (b->service && b->left && !ended)
            ts_violated(w, "X11", "t%u is written as done, and its service %u is not", fact, i);
    }
}

/* ---- Whoever calls --------------------------------------------------------- */

void ts_service_add(struct ts_world *w, struct ts_slot *s, struct ts_fact *f)
{
    struct ts_branch *b = &f->branches[f->count];
    if (f->count == TS_BRANCHES)
        return;
    b->service = true;
    b->joined = s->t.joined;
    b->resource = (uint8_t)sim_below(&w->third, w->plan.resources);
    b->says_no = sim_chance(&w->third, w->plan.says_no);
    rt_reserve_add(&s->t, f->count, b->resource);
    s->mine |= 1u << f->count++;
}

void ts_service_plan(struct ts_world *w, struct ts_slot *s, struct ts_fact *f)
{
    uint32_t n = 1 + sim_below(&w->third, 2);
    for (uint32_t i = 0; i < n; i++)
        ts_service_add(w, s, f);
    s->t.ordered = sim_chance(&w->third, 300);
}

bool ts_service_waits(struct ts_world *w, const struct ts_slot *s)
{
    bool waits = false;
    for (uint32_t i = 0; s->t.state == RT_TXN_ACTIVE && i < s->t.count; i++) {
        const struct rt_branch *b = &s->b[i];
        waits = waits ||
                (b->service && (b->state == RT_BRANCH_JOINING || b->state == RT_BRANCH_ACTIVE ||
                                b->state == RT_BRANCH_PREPARING));
    }
    return waits && sim_chance(&w->third, 950);
}

/* Its try leaves, if the core lets it. */
bool ts_service_try(struct ts_world *w, struct ts_proc *p, struct ts_slot *s)
{
    for (uint32_t i = 0; s->t.state == RT_TXN_ACTIVE && i < s->t.count; i++) {
        struct rt_branch *own = &s->b[i];
        if (!own->service || own->state != RT_BRANCH_ACTIVE || w->now >= s->t.deadline_at)
            continue;
        if (!w->healing && sim_below(&w->third, 10000) < w->plan.dies) {
            ts_proc_crash(w, p);
            return false;
        }
        struct ts_branch *b = &w->facts[s->fact].branches[own->number];
        if (!b->registered)
            ts_violated(w, "X11", "a try of t%u leaves, and service %u is not registered", s->fact,
                        own->number);
        struct ts_event e = {.kind = TS_EV_RESOURCE, .op = TS_OP_TXN, .gen = p->gen};
        e.proc = (uint8_t)(p - w->procs);
        e.slot = (uint8_t)(s - p->slots);
        e.slot_gen = s->gen;
        e.fact = s->fact;
        e.to = RT_TXN_BRANCH;
        e.bop = RT_BRANCH_PREPARE;
        e.branch = (uint8_t)own->number;
        e.resource = b->resource;
        e.seq = rt_reserve_try(&s->t, own);
        b->left = true;
        ts_counts.tries++;
        ts_send(w, &e);
    }
    return true;
}
