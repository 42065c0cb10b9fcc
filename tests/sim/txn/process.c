/* SPDX-License-Identifier: Apache-2.0 */
/* A process: threads that begin transactions, a keeper that finishes them, recovery that finishes others',
 * gc. Everything decided here is decided by src/txn/core; this sends what it asks for, and checks what it
 * tells (X5, X6). */
#include "sim/txn/txn.h"

#include <assert.h>
#include <string.h>

static uint32_t index_of(const struct ts_world *w, const struct ts_proc *p)
{
    return (uint32_t)(p - w->procs);
}

static struct ts_slot *free_slot(struct ts_proc *p)
{
    for (uint32_t i = 0; i < TS_SLOTS; i++)
        if (!p->slots[i].used)
            return &p->slots[i];
    return NULL;
}

struct ts_slot *ts_proc_slot(struct ts_proc *p, uint32_t fact)
{
    struct ts_slot *s = free_slot(p);
    if (s == NULL)
        return NULL;
    uint32_t gen = s->gen + 1;
    memset(s, 0, sizeof(*s));
    s->used = true;
    s->gen = gen;
    s->fact = (uint8_t)fact;
    return s;
}

bool ts_proc_idle(const struct ts_proc *p)
{
    for (uint32_t i = 0; i < TS_SLOTS; i++)
        if (p->slots[i].used)
            return false;
    return true;
}

/* ---- Life and death ----------------------------------------------------- */

void ts_proc_start(struct ts_world *w, struct ts_proc *p)
{
    p->alive = true;
    p->gen++;
    p->paused_until = 0;
    p->deaf = false;
    p->wake_at = p->gc_at = RT_TXN_NEVER;
    p->pass_at = w->now + sim_spread_ns(&w->random, w->plan.pass_ms * 500);
    if (p->recovers)
        p->gc_at = w->now + w->plan.keep_ms * TS_MS / 2;
    memset(p->sights, 0, sizeof(p->sights));
    memset(p->sight_last, 0, sizeof(p->sight_last));
    memset(&p->gc, 0, sizeof(p->gc));
    rt_sweep_init(&p->sweep, TS_JOURNAL, w->plan.skew_ms, w->plan.pass_ms * TS_MS / 2, p->seen,
                  TS_FACTS + 2);
    TS_TRACE(w, "p%u begins", index_of(w, p));
}

void ts_proc_crash(struct ts_world *w, struct ts_proc *p)
{
    TS_TRACE(w, "p%u dies", index_of(w, p));
    ts_counts.crashes++;
    p->alive = false;
    p->gen++;
    for (uint32_t i = 0; i < TS_SLOTS; i++) {
        struct ts_slot *s = &p->slots[i];
        if (!s->used)
            continue;
        s->used = false;
        s->gen++;
        if (s->t.adopted)
            continue;
        w->facts[s->fact].owner_gone = w->facts[s->fact].owner_gone || !s->t.joined;
        for (uint32_t k = 0; k < w->facts[s->fact].count; k++)
            if ((s->mine >> k & 1) != 0)
                ts_close_connection(w, s->fact, k);
    }
    struct ts_event e = {.kind = TS_EV_RESTART, .proc = (uint8_t)index_of(w, p), .gen = p->gen};
    e.at = w->now + sim_spread_ns(&w->random, 2000000);
    ts_post(w, &e);
}

/* ---- Its own ------------------------------------------------------------ */

static void add_branch(struct ts_world *w, struct ts_slot *s, struct ts_fact *f)
{
    struct ts_branch *b = &f->branches[f->count];
    b->state = TS_ACTIVE;
    b->resource = (uint8_t)sim_below(&w->random, w->plan.resources);
    b->failed = sim_chance(&w->random, w->plan.failed);
    b->reads = sim_chance(&w->random, w->plan.reads);
    b->says_no = sim_chance(&w->random, w->plan.says_no);
    struct rt_branch *own = rt_txn_add(&s->t, f->count++, b->resource,
                                       w->resources[b->resource].gated);
    own->failed = b->failed;
    s->mine |= 1u << own->number;
}

void ts_proc_begin(struct ts_world *w, struct ts_proc *p)
{
    uint32_t fact = w->begun;
    struct ts_slot *s = fact < w->plan.facts ? ts_proc_slot(p, fact) : NULL;
    if (s == NULL)
        return;
    w->begun++;
    struct ts_fact *f = &w->facts[fact];
    int64_t wall = ts_wall_ms(w, p), timeout = w->plan.timeout_ms;
    f->begun = true;
    f->id = rt_txn_id_make(TS_JOURNAL, wall, fact);
    f->deadline_ms = wall + timeout;
    f->aborts = sim_chance(&w->random, w->plan.aborts);
    rt_txn_begin(&s->t, &f->id, f->deadline_ms, w->now + timeout * TS_MS, s->b, TS_BRANCHES);
    s->t.shared = sim_chance(&w->random, w->plan.shared);
    uint32_t branches = sim_chance(&w->random, 150) ? 1 : 2 + sim_below(&w->random, 2);
    bool services = sim_chance(&w->third, w->plan.services);
    branches = services && sim_chance(&w->third, 600) ? 0 : branches;
    for (uint32_t i = 0; i < branches; i++)
        add_branch(w, s, f);
    if (services)
        ts_service_plan(w, s, f);
    struct ts_event e = {.kind = TS_EV_COMMIT, .proc = (uint8_t)index_of(w, p), .gen = p->gen};
    e.at = w->now + sim_spread_ns(&w->random, w->plan.pace_us);
    e.slot = (uint8_t)(s - p->slots);
    e.slot_gen = s->gen;
    ts_post(w, &e);
    ts_counts.begun++;
    TS_TRACE(w, "p%u begins t%u with %u branches", index_of(w, p), fact, branches);
    ts_join_plan(w, s);
}

void ts_proc_commit(struct ts_world *w, struct ts_proc *p, struct ts_event *e)
{
    struct ts_slot *s = &p->slots[e->slot];
    if (!s->used || s->gen != e->slot_gen || ts_join_is_called(w, s->fact, e))
        return;
    if (ts_service_waits(w, s)) {
        e->at = w->now + 1 + sim_spread_ns(&w->third, w->plan.delay_us + w->plan.call_ms * 50);
        ts_post(w, e);
        return;
    }
    int64_t limit = w->now + w->plan.limit_ms * TS_MS;
    TS_TRACE(w, "p%u %s t%u", e->proc, w->facts[s->fact].aborts ? "aborts" : "commits", s->fact);
    if (w->facts[s->fact].aborts)
        rt_txn_abort(&s->t, limit, w->now);
    else
        rt_txn_commit(&s->t, sim_chance(&w->random, w->plan.waits), limit, w->now);
}

/* ---- What it is told, and tells ----------------------------------------- */

/* Nothing was to be committed: all of its branches only read. */
static bool only_read(const struct ts_fact *f)
{
    bool all = true;
    for (uint32_t i = 0; i < f->count; i++)
        all = all && f->branches[i].state == TS_READ;
    return all;
}

static bool is_committed(const struct ts_fact *f)
{
    return f->ever == RT_DECISION_COMMIT || f->branches[0].one_phase;
}

/* How it ended, as whoever finished it sees it; its caller may have been told UNKNOWN before. */
static void check_ended(const struct ts_world *w, uint32_t fact, const struct rt_txn *t)
{
    const struct ts_fact *f = &w->facts[fact];
    if (t->outcome == RT_OUTCOME_OPEN || t->outcome == RT_OUTCOME_UNKNOWN)
        ts_violated(w, "X5", "t%u ends, and nobody knows how", fact);
    if (t->outcome == RT_OUTCOME_ABORTED && is_committed(f))
        ts_violated(w, "X5", "t%u ends as ABORTED, and it is committed", fact);
    if (t->outcome == RT_OUTCOME_COMMITTED && !is_committed(f) && !only_read(f))
        ts_violated(w, "X5", "t%u ends as COMMITTED, and it is not", fact);
    if (t->outcome == RT_OUTCOME_EXPIRED && rt_txn_id_birth(&f->id) >= w->floor_ms)
        ts_violated(w, "X5", "t%u ends as EXPIRED, and nothing of it is", fact);
    ts_counts.expired += t->outcome == RT_OUTCOME_EXPIRED && !t->adopted;
}

static void check_told(struct ts_world *w, uint32_t fact, enum rt_outcome told)
{
    struct ts_fact *f = &w->facts[fact];
    bool committed = is_committed(f);
    if (f->told != RT_OUTCOME_OPEN)
        ts_violated(w, "X5", "the caller of t%u is told twice", fact);
    if (told == RT_OUTCOME_COMMITTED && f->ever == RT_DECISION_NONE && !committed && !only_read(f))
        ts_violated(w, "X2", "the caller of t%u is told COMMITTED, and nothing is decided", fact);
    if (told == RT_OUTCOME_COMMITTED && !committed && !only_read(f))
        ts_violated(w, "X5", "the caller of t%u is told COMMITTED, and it is not", fact);
    if (told == RT_OUTCOME_ABORTED && committed)
        ts_violated(w, "X5", "the caller of t%u is told ABORTED, and it is committed", fact);
    f->told = (uint8_t)told;
    ts_counts.committed += told == RT_OUTCOME_COMMITTED;
    ts_counts.aborted += told == RT_OUTCOME_ABORTED;
    ts_counts.unknown += told == RT_OUTCOME_UNKNOWN;
    ts_counts.one_phase += f->branches[0].one_phase;
    TS_TRACE(w, "the caller of t%u is told %u", fact, told);
}

/* Nobody finishes branches by hand here, so only what was lost can be stuck. */
static void check_stuck(const struct ts_world *w, uint32_t fact)
{
    bool lost = false;
    for (uint32_t i = 0; i < w->facts[fact].count; i++)
        lost = lost || w->facts[fact].branches[i].lost_once;
    if (!lost)
        ts_violated(w, "X10", "t%u is told as stuck, and nothing of it is lost", fact);
    ts_counts.stuck++;
}

static void send(struct ts_world *w, struct ts_proc *p, struct ts_slot *s,
                 const struct rt_txn_todo *todo)
{
    struct ts_event e = {.op = TS_OP_TXN, .proc = (uint8_t)index_of(w, p), .gen = p->gen};
    e.slot = (uint8_t)(s - p->slots);
    e.slot_gen = s->gen;
    e.fact = s->fact;
    e.seq = todo->seq;
    e.to = (uint8_t)todo->to;
    e.kind = todo->to == RT_TXN_BRANCH ? TS_EV_RESOURCE : TS_EV_JOURNAL;
    e.decision = (uint8_t)todo->decision;
    if (todo->to == RT_TXN_BRANCH) {
        e.bop = (uint8_t)todo->op;
        e.branch = (uint8_t)todo->branch->number;
        e.resource = (uint8_t)todo->branch->resource;
        e.own = todo->op == RT_BRANCH_PREPARE || todo->op == RT_BRANCH_ONE_PHASE ||
                (todo->own && todo->op != RT_BRANCH_ASK);
        e.fence = todo->fence;
        e.stays = todo->stays;
        if (todo->op == RT_BRANCH_COMMIT && w->facts[s->fact].ever == RT_DECISION_NONE)
            ts_violated(w, "X2", "t%u is told to commit, and nothing is decided", s->fact);
    } else if (todo->to == RT_TXN_REGISTER) {
        for (uint32_t i = 0; i < s->t.count; i++)
            e.parts |= (uint32_t)s->b[i].entering << s->b[i].number;
    } else if (todo->to == RT_TXN_VOUCH) {
        e.branch = s->join;
        for (uint32_t i = 0; i < s->t.count; i++)
            e.parts |= (uint32_t)s->b[i].service << s->b[i].number;
    } else if (todo->decision == RT_DECISION_COMMIT) {
        e.registered = todo->registered;
        struct rt_txn_part parts[TS_BRANCHES];
        uint32_t n = rt_txn_parts(&s->t, parts, TS_BRANCHES);
        for (uint32_t i = 0; i < n; i++)
            e.parts |= 1u << parts[i].number;
    }
    ts_send(w, &e);
}

/* False: it died of it. */
static bool run_slot(struct ts_world *w, struct ts_proc *p, struct ts_slot *s)
{
    struct rt_txn_todo todo;
    if (s->t.joined)
        ts_join_work(w, s);
    if (!ts_service_try(w, p, s))
        return false;
    rt_txn_tick(&s->t, w->now);
    while (rt_txn_todo(&s->t, &todo, w->now)) {
        if (!w->healing && sim_below(&w->random, 10000) < w->plan.dies) {
            ts_proc_crash(w, p);
            return false;
        }
        send(w, p, s, &todo);
    }
    uint32_t news = rt_txn_news(&s->t);
    if (s->t.joined && s->t.state != RT_TXN_ACTIVE && s->t.state != RT_TXN_PREPARING)
        w->facts[s->fact].joins[s->join].ready = true;
    if ((news & RT_TXN_ANSWERED) != 0 && s->t.joined)
        ts_join_told(w, p, s);
    else if ((news & RT_TXN_ANSWERED) != 0)
        check_told(w, s->fact, (enum rt_outcome)s->t.told);
    if ((news & RT_TXN_STUCK) != 0)
        check_stuck(w, s->fact);
    ts_counts.attention += (news & RT_TXN_ATTENTION) != 0;
    bool answered = s->t.joined ? ts_join_is_answered(w, s)
                                : s->t.adopted || s->t.told != RT_OUTCOME_OPEN;
    if (s->t.state == RT_TXN_ENDED && answered) {
        TS_TRACE(w, "p%u has done with t%u", index_of(w, p), s->fact);
        if (s->t.joined)
            ts_join_ended(w, s);
        else
            check_ended(w, s->fact, &s->t);
        s->used = false;
    }
    return true;
}

/* ---- Recovery and gc ---------------------------------------------------- */

static void begin_pass(struct ts_world *w, struct ts_proc *p)
{
    rt_sweep_pass(&p->sweep);
    struct ts_event e = {.kind = TS_EV_JOURNAL, .op = TS_OP_SCAN, .gen = p->gen};
    e.proc = (uint8_t)index_of(w, p);
    e.pass = p->sweep.pass;
    ts_send(w, &e);
    e.kind = TS_EV_RESOURCE;
    e.op = TS_OP_LIST;
    for (uint32_t i = 0; i < w->plan.resources; i++) {
        e.resource = (uint8_t)i;
        ts_send(w, &e);
    }
    p->pass_at = w->now + w->plan.pass_ms * TS_MS;
}

static void check_settles(const struct ts_world *w, const struct ts_proc *p, uint32_t fact,
                          bool decided)
{
    const struct ts_fact *f = &w->facts[fact];
    if (f->foreign)
        ts_violated(w, "X6", "t%u is not of our journal, and p%u settles it", fact, index_of(w, p));
    if (!decided && ts_wall_ms(w, p) < f->deadline_ms)
        ts_violated(w, "X6", "p%u settles t%u before its deadline", index_of(w, p), fact);
    if (p->sights[fact] < 2)
        ts_violated(w, "X6", "p%u settles t%u, which it saw in one pass", index_of(w, p), fact);
}

static uint32_t parts_of(const struct ts_world *w, uint32_t fact, uint32_t bits, uint32_t vouched,
                         struct rt_txn_part *out)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < w->facts[fact].count; k++) {
        uint32_t resource = w->facts[fact].branches[k].resource;
        if ((bits >> k & 1) != 0)
            out[n++] = (struct rt_txn_part){.number = k,
                                            .resource = resource,
                                            .gated = w->resources[resource].gated &&
                                                     !w->facts[fact].branches[k].service,
                                            .service = w->facts[fact].branches[k].service,
                                            .vouched = (vouched >> k & 1) != 0};
    }
    return n;
}

static void settle(struct ts_world *w, struct ts_proc *p, uint32_t fact, enum rt_decision decision,
                   uint32_t bits)
{
    struct rt_txn_part parts[TS_BRANCHES];
    check_settles(w, p, fact, decision != RT_DECISION_NONE);
    for (uint32_t i = 0; i < TS_SLOTS; i++)
        if (p->slots[i].used && p->slots[i].fact == fact && !p->slots[i].t.joined)
            return; /* it is being settled, or its own keeper does it */
    struct ts_slot *s = ts_proc_slot(p, fact);
    if (s == NULL)
        return;
    TS_TRACE(w, "p%u adopts t%u", index_of(w, p), fact);
    ts_counts.adopted++;
    rt_txn_adopt(&s->t, &w->facts[fact].id, w->facts[fact].deadline_ms, s->b, TS_BRANCHES);
    uint32_t n = parts_of(w, fact, bits, 0, parts);
    if (decision == RT_DECISION_ABORT) /* only the journal knows whom to cancel */
        decision = RT_DECISION_NONE;
    for (uint32_t i = 0; decision == RT_DECISION_NONE && i < n; i++)
        rt_txn_found(&s->t, &parts[i]);
    rt_txn_settle(&s->t, decision, parts, n, w->now);
}

static void pass_answered(struct ts_world *w, struct ts_proc *p, const struct ts_event *e)
{
    if (e->pass != p->sweep.pass || e->give_up)
        return;
    int64_t wall = ts_wall_ms(w, p);
    for (uint32_t i = 0; i < w->begun; i++) {
        struct ts_fact *f = &w->facts[i];
        if ((e->listed[i] & TS_SEEN) == 0)
            continue;
        bool decided = e->op == TS_OP_SCAN && (e->listed[i] & TS_IS_OPEN) == 0;
        if ((decided || wall >= f->deadline_ms) && p->sight_last[i] != e->pass) {
            p->sight_last[i] = e->pass;
            p->sights[i]++;
        }
        struct rt_name name = {.id = f->id, .deadline_ms = f->deadline_ms};
        if (rt_sweep_judge(&p->sweep, &name, decided, w->now, wall) != RT_SWEEP_SETTLE)
            continue;
        enum rt_decision decision = (e->listed[i] & TS_IS_COMMIT) != 0 ? RT_DECISION_COMMIT
                                    : decided                          ? RT_DECISION_ABORT
                                                                       : RT_DECISION_NONE;
        settle(w, p, i, decision, e->listed[i] & TS_BITS);
    }
}

static void run_gc(struct ts_world *w, struct ts_proc *p)
{
    uint32_t seq;
    if (p->gc_at <= w->now) {
        p->gc_at = w->now + w->plan.keep_ms * TS_MS / 2;
        if (p->gc.step == RT_GC_REST)
            rt_gc_start(&p->gc, w->plan.resources, ts_wall_ms(w, p), w->plan.keep_ms, w->now);
    }
    enum rt_gc_op op = rt_gc_todo(&p->gc, &seq, w->now);
    if (op == RT_GC_REST)
        return;
    struct ts_event e = {
        .op = TS_OP_GC, .proc = (uint8_t)index_of(w, p), .gen = p->gen, .seq = seq};
    e.kind = op == RT_GC_MARKS ? TS_EV_RESOURCE : TS_EV_JOURNAL;
    e.resource = (uint8_t)p->gc.resource;
    e.gc_op = (uint8_t)op;
    e.floor_ms = p->gc.floor_ms;
    e.marks = p->undone;
    ts_send(w, &e);
}

static void gc_answered(struct ts_world *w, struct ts_proc *p, const struct ts_event *e)
{
    if (e->gc_op == RT_GC_SCAN && !e->give_up && e->seq == p->gc.retry.seq)
        p->undone = e->marks;
    if (e->gc_op == RT_GC_FORGET && !e->give_up && e->seq == p->gc.retry.seq)
        rt_gc_raised(&p->gc, e->floor_ms);
    rt_gc_answered(&p->gc, e->seq, e->give_up ? RT_GC_LOST : RT_GC_OK, w->now);
    if (p->gc.step == RT_GC_REST)
        p->undone = 0;
}

/* ---- Answers and time --------------------------------------------------- */

static void txn_answered(struct ts_world *w, struct ts_proc *p, const struct ts_event *e)
{
    struct ts_slot *s = &p->slots[e->slot];
    struct rt_txn_part parts[TS_BRANCHES];
    struct rt_branch *b = NULL;
    if (!s->used || s->gen != e->slot_gen)
        return;
    for (uint32_t i = 0; e->to == RT_TXN_BRANCH && i < s->t.count; i++)
        if (s->b[i].number == e->branch)
            b = &s->b[i];
    struct rt_txn_answer a = {.seq = e->seq, .reply = e->give_up ? RT_REPLY_LOST : e->reply};
    a.decision = (enum rt_decision)e->decision;
    a.done = e->done;
    a.parts = e->has_parts ? parts : NULL;
    a.part_count = e->has_parts ? parts_of(w, e->fact, e->parts, e->vouched, parts) : 0;
    a.registered = e->registered;
    if (e->give_up && e->own && b != NULL && b->retry.seq == e->seq)
        ts_close_connection(w, e->fact, e->branch); /* it is no longer of use */
    rt_txn_answered(&s->t, b, &a, w->now);
}

void ts_proc_answer(struct ts_world *w, struct ts_proc *p, const struct ts_event *e)
{
    if (e->op == TS_OP_TXN)
        txn_answered(w, p, e);
    else if (e->op == TS_OP_GC)
        gc_answered(w, p, e);
    else
        pass_answered(w, p, e);
}

void ts_proc_back(struct ts_world *w, struct ts_proc *p, uint32_t resource)
{
    for (uint32_t i = 0; i < TS_SLOTS; i++)
        if (p->slots[i].used)
            rt_txn_back(&p->slots[i].t, resource, w->now);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_of(struct ts_proc *p)
{
    int64_t at = p->recovers ? sooner(p->pass_at, p->gc_at) : RT_TXN_NEVER;
    if (p->gc.step != RT_GC_REST && p->gc.retry.seq == 0)
        at = sooner(at, p->gc.retry.at);
    for (uint32_t i = 0; i < TS_SLOTS; i++)
        if (p->slots[i].used)
            at = sooner(at, rt_txn_next(&p->slots[i].t));
    return at;
}

void ts_proc_run(struct ts_world *w, struct ts_proc *p)
{
    for (uint32_t i = 0; i < TS_SLOTS; i++)
        if (p->slots[i].used && !run_slot(w, p, &p->slots[i]))
            return;
    if (p->recovers && p->pass_at <= w->now)
        begin_pass(w, p);
    run_gc(w, p);
    int64_t at = next_of(p);
    assert(at > w->now);
    if (at == RT_TXN_NEVER || at >= p->wake_at)
        return;
    p->wake_at = at;
    struct ts_event e = {.kind = TS_EV_WAKE, .at = at, .gen = p->gen};
    e.proc = (uint8_t)index_of(w, p);
    ts_post(w, &e);
}
