/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that join: a thread adds branches to another's transaction, votes, and waits for the decision; what it is
 * told is checked (X2, X5). It comes when it comes: long before the beginner commits, or after. */
#include "sim/txn/txn.h"

#include <assert.h>

/* ---- Who joins what, and when ------------------------------------------- */

void ts_join_plan(struct ts_world *w, struct ts_slot *s)
{
    struct ts_fact *f = &w->facts[s->fact];
    if (!sim_chance(&w->aside, w->plan.joins))
        return;
    s->t.shared = true; /* its id is given away */
    f->calls = 1 + sim_below(&w->aside, TS_JOINS);
    f->patience = sim_chance(&w->aside, 150) ? 0 : 10 + sim_below(&w->aside, 40);
    for (uint32_t i = 0; i < f->calls; i++) {
        uint32_t q = sim_below(&w->aside, w->plan.procs);
        struct ts_event e = {.kind = TS_EV_JOIN, .proc = (uint8_t)q, .gen = w->procs[q].gen};
        e.fact = s->fact;
        e.at = w->now + 1 + sim_spread_ns(&w->aside, w->plan.delay_us * 2);
        ts_post(w, &e);
    }
}

bool ts_join_is_called(struct ts_world *w, uint32_t fact, struct ts_event *e)
{
    struct ts_fact *f = &w->facts[fact];
    uint32_t ready = 0;
    for (uint32_t i = 0; i < f->join_count; i++)
        ready += f->joins[i].ready;
    if (ready == f->calls || f->patience == 0)
        return false;
    f->patience--;
    e->at = w->now + 1 + sim_spread_ns(&w->aside, w->plan.delay_us + w->plan.call_ms * 50);
    ts_post(w, e);
    return true;
}

static void post_ask(struct ts_world *w, const struct ts_proc *p, const struct ts_slot *s)
{
    struct ts_event e = {.kind = TS_EV_ASK, .gen = p->gen, .slot_gen = s->gen};
    e.proc = (uint8_t)(p - w->procs);
    e.slot = (uint8_t)(s - p->slots);
    e.fact = s->fact;
    e.at = w->now + 1 + sim_spread_ns(&w->aside, w->plan.delay_us * 2);
    ts_post(w, &e);
}

static void add(struct ts_world *w, struct ts_slot *s, struct ts_join *j)
{
    struct ts_fact *f = &w->facts[s->fact];
    struct ts_branch *b = &f->branches[f->count];
    if (f->count == TS_BRANCHES)
        return;
    if (w->plan.services > 0 && sim_chance(&w->third, 400)) {
        ts_service_add(w, s, f);
        j->mine = s->mine;
        return;
    }
    b->joined = true;
    b->resource = (uint8_t)sim_below(&w->aside, w->plan.resources);
    rt_txn_add(&s->t, f->count, b->resource, w->resources[b->resource].gated);
    j->mine |= 1u << f->count;
    s->mine |= 1u << f->count++;
}

void ts_join_begin(struct ts_world *w, struct ts_proc *p, const struct ts_event *e)
{
    struct ts_fact *f = &w->facts[e->fact];
    struct ts_slot *s = f->join_count < TS_JOINS ? ts_proc_slot(p, e->fact) : NULL;
    if (s == NULL)
        return;
    s->join = (uint8_t)f->join_count++;
    struct ts_join *j = &f->joins[s->join];
    int64_t deadline_at = w->now + (f->deadline_ms - ts_wall_ms(w, p)) * TS_MS;
    rt_txn_join(&s->t, &f->id, f->deadline_ms, deadline_at, deadline_at + w->plan.skew_ms * TS_MS,
                s->b, TS_BRANCHES);
    uint32_t branches = sim_chance(&w->aside, 50) ? 0 : 1 + sim_below(&w->aside, 2);
    for (uint32_t i = 0; i < branches; i++)
        add(w, s, j);
    j->way = (uint8_t)(sim_chance(&w->aside, 800) ? sim_below(&w->aside, TS_ABORTS)
                                                  : sim_below(&w->aside, TS_WAYS));
    post_ask(w, p, s);
    ts_counts.joined++;
    TS_TRACE(w, "p%u joins t%u with %u branches", e->proc, e->fact, s->t.count);
}

/* ---- Its work ----------------------------------------------------------- */

static void begin_branch(struct ts_world *w, struct ts_branch *b, struct rt_branch *own)
{
    assert(b->state == TS_NONE);
    if (w->now < w->resources[b->resource].down_until) {
        own->failed = true;
        return;
    }
    b->state = TS_ACTIVE;
    own->failed = b->failed = sim_chance(&w->aside, w->plan.failed);
    b->reads = sim_chance(&w->aside, w->plan.reads);
    b->says_no = sim_chance(&w->aside, w->plan.says_no);
}

void ts_join_work(struct ts_world *w, struct ts_slot *s)
{
    struct ts_fact *f = &w->facts[s->fact];
    for (uint32_t i = 0; s->t.state == RT_TXN_ACTIVE && i < s->t.count; i++) {
        struct rt_branch *own = &s->b[i];
        struct ts_branch *b = &f->branches[own->number];
        if (own->state == RT_BRANCH_ACTIVE && b->state == TS_NONE && !own->failed && !own->service)
            begin_branch(w, b, own);
    }
}

/* Whether its thread still waits for a branch that is not registered yet; it may give up. */
static bool is_patient(struct ts_world *w, struct ts_slot *s)
{
    bool patient = false;
    for (uint32_t i = 0; s->t.state == RT_TXN_ACTIVE && i < s->t.count; i++) {
        struct rt_branch *own = &s->b[i];
        bool waits = own->state == RT_BRANCH_JOINING && !own->failed;
        own->failed = own->failed || (waits && sim_chance(&w->aside, 50));
        patient = patient || (waits && !own->failed);
    }
    return patient;
}

void ts_join_ask(struct ts_world *w, struct ts_proc *p, struct ts_event *e)
{
    struct ts_slot *s = &p->slots[e->slot];
    if (!s->used || s->gen != e->slot_gen)
        return;
    struct ts_join *j = &w->facts[s->fact].joins[s->join];
    if (is_patient(w, s) || ts_service_waits(w, s)) {
        e->at = w->now + 1 + sim_spread_ns(&w->aside, w->plan.call_ms * 500);
        ts_post(w, e);
        return;
    }
    ts_join_work(w, s);
    bool votes = (j->way == TS_VOTES || j->way == TS_VOTES_ABORTS) && j->vote == RT_OUTCOME_OPEN;
    bool aborts = j->way == TS_ABORTS || j->way == TS_VOTES_ABORTS;
    int64_t limit = w->now + w->plan.limit_ms * TS_MS;
    TS_TRACE(w, "p%u %s t%u", e->proc,
             votes    ? "votes in"
             : aborts ? "is against"
                      : "is for",
             s->fact);
    if (votes)
        rt_txn_vote(&s->t, limit, w->now);
    else if (aborts)
        rt_txn_abort(&s->t, limit, w->now);
    else
        rt_txn_commit(&s->t, sim_chance(&w->aside, w->plan.waits), limit, w->now);
    j->asked = !votes;
}

/* ---- What it is told ---------------------------------------------------- */

/* It has promised, and is told so: each branch is there, and will end as decided. */
static void check_prepared(const struct ts_world *w, uint32_t fact, const struct ts_join *j)
{
    const struct ts_fact *f = &w->facts[fact];
    for (uint32_t k = 0; k < f->count; k++) {
        const struct ts_branch *b = &f->branches[k];
        bool prepared = b->state == TS_PREPARED || b->state == TS_GHOST || b->state == TS_RESERVED;
        bool ended = b->state == TS_COMMITTED || b->state == TS_ROLLED;
        if ((j->mine >> k & 1) == 0)
            continue;
        if (!b->registered)
            ts_violated(w, "X2",
                        "t%u: who joined is told PREPARED, and branch %u is not registered", fact,
                        k);
        if (!prepared && !(ended && f->ever != RT_DECISION_NONE))
            ts_violated(w, "X2", "t%u: who joined is told PREPARED, and branch %u is not", fact, k);
    }
}

/* How it went for the joiner: as told, or as known to it when it ends. */
static void check_outcome(const struct ts_world *w, uint32_t fact, const struct ts_join *j,
                          enum rt_outcome outcome)
{
    const struct ts_fact *f = &w->facts[fact];
    uint32_t in = 0;
    for (uint32_t k = 0; k < f->count; k++)
        in |= (uint32_t)f->branches[k].listed << k & j->mine;
    bool committed = f->ever == RT_DECISION_COMMIT;
    if (outcome == RT_OUTCOME_COMMITTED && (!committed || in != j->mine))
        ts_violated(w, "X5", "t%u: who joined is told COMMITTED, and it is not", fact);
    if (outcome == RT_OUTCOME_LATE && (!committed || in != 0))
        ts_violated(w, "X5", "t%u: who joined is told LATE, and it was not", fact);
    if (outcome == RT_OUTCOME_ABORTED && committed)
        ts_violated(w, "X5", "t%u: who joined is told ABORTED, and it is committed", fact);
    if (outcome == RT_OUTCOME_EXPIRED && rt_txn_id_birth(&f->id) >= w->floor_ms)
        ts_violated(w, "X5", "t%u: who joined is told EXPIRED, and nothing of it is", fact);
}

void ts_join_told(struct ts_world *w, struct ts_proc *p, struct ts_slot *s)
{
    struct ts_join *j = &w->facts[s->fact].joins[s->join];
    uint8_t told = s->t.told, *what = j->asked ? &j->end : &j->vote;
    if (*what != RT_OUTCOME_OPEN || told == RT_OUTCOME_OPEN)
        ts_violated(w, "X5", "t%u: who joined is told twice, or nothing", s->fact);
    *what = told;
    if (told == RT_OUTCOME_PREPARED && j->asked)
        ts_violated(w, "X5", "t%u: who joined asks for its end, and is told PREPARED", s->fact);
    if (told == RT_OUTCOME_PREPARED)
        check_prepared(w, s->fact, j);
    check_outcome(w, s->fact, j, (enum rt_outcome)told);
    ts_counts.prepared += told == RT_OUTCOME_PREPARED;
    ts_counts.told_yes += told == RT_OUTCOME_COMMITTED;
    ts_counts.told_no += told == RT_OUTCOME_ABORTED;
    ts_counts.late += told == RT_OUTCOME_LATE;
    TS_TRACE(w, "who joined t%u in p%u is told %u", s->fact, (unsigned)(p - w->procs), told);
    if (!j->asked)
        post_ask(w, p, s);
}

bool ts_join_is_answered(const struct ts_world *w, const struct ts_slot *s)
{
    assert(s->t.joined);
    return w->facts[s->fact].joins[s->join].end != RT_OUTCOME_OPEN;
}

void ts_join_ended(const struct ts_world *w, const struct ts_slot *s)
{
    const struct ts_join *j = &w->facts[s->fact].joins[s->join];
    enum rt_outcome outcome = (enum rt_outcome)s->t.outcome;
    if (outcome == RT_OUTCOME_OPEN || outcome == RT_OUTCOME_UNKNOWN)
        ts_violated(w, "X5", "t%u ends for who joined, and nobody knows how", s->fact);
    check_outcome(w, s->fact, j, outcome);
}

void ts_join_check_end(const struct ts_world *w, uint32_t fact)
{
    const struct ts_fact *f = &w->facts[fact];
    for (uint32_t i = 0; i < f->join_count; i++) {
        check_outcome(w, fact, &f->joins[i], (enum rt_outcome)f->joins[i].vote);
        check_outcome(w, fact, &f->joins[i], (enum rt_outcome)f->joins[i].end);
    }
}
