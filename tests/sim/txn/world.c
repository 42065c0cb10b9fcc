/* SPDX-License-Identifier: Apache-2.0 */
/* The world of transactions: its plan, its network, its troubles, and how a run goes. */
#include "sim/txn/txn.h"

#include "sim/sim.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct ts_counts ts_counts;

/* ---- What is said ------------------------------------------------------- */

void ts_trace(const struct ts_world *w, const char *format, ...)
{
    char line[256];
    int n = snprintf(line, sizeof(line), "%12.3f ", (double)w->now / (double)TS_MS);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    sim_out(line);
}

_Noreturn void ts_violated(const struct ts_world *w, const char *invariant, const char *format, ...)
{
    char why[256];
    int n = snprintf(why, sizeof(why), "%s is violated: ", invariant);
    va_list args;
    va_start(args, format);
    vsnprintf(why + n, sizeof(why) - (size_t)n, format, args);
    va_end(args);
    (void)w;
    sim_end(why);
}

void ts_report(void)
{
    const struct ts_counts *n = &ts_counts;
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"begun", n->begun},
        {"told COMMITTED", n->committed},
        {"  of them in one phase", n->one_phase},
        {"told ABORTED", n->aborted},
        {"told UNKNOWN", n->unknown},
        {"ended as EXPIRED", n->expired},
        {"joined", n->joined},
        {"  voted yes", n->prepared},
        {"  told COMMITTED", n->told_yes},
        {"  told ABORTED", n->told_no},
        {"  too late", n->late},
        {"tries of services", n->tries},
        {"  late, refused", n->late_tries},
        {"  empty cancels", n->empty},
        {"  refused ends", n->refused},
        {"adopted by recovery", n->adopted},
        {"branches stuck", n->stuck},
        {"  commits MariaDB lost", n->ghosts},
        {"calls for attention", n->attention},
        {"rows forgotten", n->forgotten},
        {"crashes", n->crashes},
        {"pauses", n->pauses},
        {"  of them for an hour", n->hours},
        {"outages", n->downs},
        {"messages lost", n->lost},
        {"messages doubled", n->doubled},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("  %-24s %10llu\n", rows[i].what, (unsigned long long)rows[i].count);
}

/* ---- Events: a heap ----------------------------------------------------- */

static bool before(const struct ts_event *a, const struct ts_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void ts_post(struct ts_world *w, const struct ts_event *e)
{
    assert(w->event_count < TS_EVENTS && e->at >= w->now);
    uint32_t i = w->event_count++;
    struct ts_event in = *e;
    in.order = w->order++;
    for (; i > 0 && before(&in, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
        w->events[i] = w->events[(i - 1) / 2];
    w->events[i] = in;
}

static void pop(struct ts_world *w, struct ts_event *out)
{
    assert(w->event_count > 0);
    *out = w->events[0];
    struct ts_event last = w->events[--w->event_count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < w->event_count; child = 2 * i + 1) {
        if (child + 1 < w->event_count && before(&w->events[child + 1], &w->events[child]))
            child++;
        if (before(&last, &w->events[child]))
            break;
        w->events[i] = w->events[child];
        i = child;
    }
    w->events[i] = last;
}

/* ---- The network -------------------------------------------------------- */

int64_t ts_wall_ms(const struct ts_world *w, const struct ts_proc *p)
{
    return TS_WALL + w->now / TS_MS + p->skew_ms;
}

int64_t ts_delay(struct ts_world *w)
{
    int64_t delay = 1000 + sim_spread_ns(&w->random, w->plan.delay_us);
    if (!w->healing && sim_chance(&w->random, w->plan.late))
        delay += sim_spread_ns(&w->random, w->plan.call_ms * 2000);
    return delay;
}

static bool strikes(struct ts_world *w, uint32_t per_mille)
{
    return !w->healing && sim_chance(&w->random, per_mille);
}

static void carry(struct ts_world *w, const struct ts_event *e)
{
    struct ts_event copy = *e;
    copy.at = w->now + ts_delay(w);
    if (strikes(w, w->plan.lost)) {
        ts_counts.lost++;
        return;
    }
    ts_post(w, &copy);
}

/* Over one given connection nothing comes twice; what may go over any connection may be asked again by whoever
 * carries it. Answers may always come twice. */
static void carry_perhaps_twice(struct ts_world *w, const struct ts_event *e)
{
    carry(w, e);
    bool once = e->own && e->kind == TS_EV_RESOURCE;
    if (!once && strikes(w, w->plan.doubled)) {
        ts_counts.doubled++;
        carry(w, e);
    }
}

void ts_send(struct ts_world *w, const struct ts_event *request)
{
    carry_perhaps_twice(w, request);
    struct ts_event limit = *request;
    limit.kind = TS_EV_ANSWER;
    limit.give_up = true;
    limit.at = w->now + w->plan.call_ms * TS_MS;
    ts_post(w, &limit);
}

void ts_close_connection(struct ts_world *w, uint32_t fact, uint32_t branch)
{
    struct ts_event e = {.kind = TS_EV_CLOSE, .fact = (uint8_t)fact, .branch = (uint8_t)branch};
    e.at = w->now + ts_delay(w);
    ts_post(w, &e);
}

static void serve(struct ts_world *w, struct ts_event *e)
{
    bool journal = e->kind == TS_EV_JOURNAL;
    bool answers = journal ? ts_journal_serve(w, e) : ts_resource_serve(w, e);
    if (!answers)
        return;
    e->kind = TS_EV_ANSWER;
    carry_perhaps_twice(w, e);
}

/* ---- Troubles ----------------------------------------------------------- */

#define TROUBLES 60 /* of a run */
#define HOUR (3600 * 1000 * TS_MS)

static struct ts_proc *some_proc(struct ts_world *w)
{
    return &w->procs[sim_below(&w->random, w->plan.procs)];
}

/* One whose decision is under way, or awaited, if there is one: that is when it matters. */
static struct ts_proc *some_decider(struct ts_world *w)
{
    for (uint32_t i = 0; i < w->plan.procs; i++)
        for (uint32_t k = 0; k < TS_SLOTS; k++)
            if (w->procs[i].slots[k].used && (w->procs[i].slots[k].t.state == RT_TXN_DECIDING ||
                                              w->procs[i].slots[k].t.state == RT_TXN_WAITING))
                return &w->procs[i];
    return some_proc(w);
}

static void pause_one(struct ts_world *w, int64_t ns)
{
    struct ts_proc *p = ns == HOUR ? some_decider(w) : some_proc(w);
    if (p->paused_until > w->now)
        return;
    p->paused_until = w->now + ns;
    ts_counts.pauses++;
    ts_counts.hours += ns == HOUR;
    p->deaf = ns == HOUR && sim_chance(&w->random, 500);
    TS_TRACE(w, "p%u is stopped for %.0f ms", (unsigned)(p - w->procs), (double)ns / (double)TS_MS);
}

static void take_down(struct ts_world *w)
{
    uint32_t i = sim_below(&w->random, w->plan.resources);
    bool for_long = sim_chance(&w->random, 100);
    w->resources[i].down_until = w->now + sim_spread_ns(&w->random, for_long ? 200000000 : 3000000);
    ts_resource_restart(w, i);
    ts_counts.downs++;
    TS_TRACE(w, "resource %u is down", i);
}

/* A connection of some transaction ends, or is reset with a prepared branch on it. */
static void harm_connection(struct ts_world *w, bool reset)
{
    if (w->begun == 0)
        return;
    uint32_t fact = sim_below(&w->random, w->begun);
    struct ts_fact *f = &w->facts[fact];
    if (f->count == 0 || f->foreign)
        return;
    uint32_t k = sim_below(&w->random, f->count);
    struct ts_branch *b = &f->branches[k];
    if (!reset)
        ts_close_connection(w, fact, k);
    else if (b->state == TS_PREPARED && !b->closed && w->resources[b->resource].gated) {
        b->was_reset = true;
        TS_TRACE(w, "the connection of branch %u of t%u is reset", k, fact);
    }
}

static void befall(struct ts_world *w)
{
    uint32_t sum = 0, kind = 0;
    for (uint32_t i = 0; i < TS_TROUBLES; i++)
        sum += w->plan.trouble[i];
    if (sum == 0)
        return;
    uint32_t pick = sim_below(&w->random, sum);
    while (pick >= w->plan.trouble[kind])
        pick -= w->plan.trouble[kind++];
    struct ts_proc *p = some_proc(w);
    switch (kind) {
    case TS_CRASH:
        if (p->alive)
            ts_proc_crash(w, p);
        break;
    case TS_PAUSE:
        pause_one(w, sim_spread_ns(&w->random, w->plan.timeout_ms * 1000));
        break;
    case TS_HOUR:
        pause_one(w, HOUR);
        break;
    case TS_DOWN:
        take_down(w);
        break;
    case TS_JOURNAL_DOWN:
        w->journal_down_until = w->now + sim_spread_ns(&w->random, 2000000);
        ts_counts.downs++;
        break;
    default:
        harm_connection(w, kind == TS_RESET);
    }
}

/* ---- The plan ----------------------------------------------------------- */

#define PICK(r, list) ((list)[sim_below((r), sizeof(list) / sizeof((list)[0]))])

static uint32_t rate(struct sim_random *r, uint32_t most)
{
    return sim_chance(r, 500) ? 0 : sim_below(r, most + 1);
}

static void draw_troubles(struct ts_plan *plan, struct sim_random *r)
{
    for (uint32_t i = 0; i < TS_TROUBLES; i++)
        plan->trouble[i] = rate(r, 5);
    plan->trouble[TS_HOUR] = sim_chance(r, 150) ? 1 + sim_below(r, 3) : 0;
    static const uint32_t between[] = {0, 5, 30, 200, 1000};
    plan->trouble_ms = PICK(r, between);
    plan->dies = rate(r, 300);
    plan->lost = rate(r, 150);
    plan->late = rate(r, 300);
    plan->doubled = rate(r, 200);
}

static void draw(struct ts_plan *plan, struct sim_random *r)
{
    static const uint32_t timeouts[] = {60, 500, 3000, 20000}, delays[] = {50, 500, 5000};
    static const uint32_t paces[] = {100, 2000, 50000}, passes[] = {500, 2000, 10000};
    static const uint32_t rests[] = {0, 100, 3000, 3000, 100000};
    static const uint32_t calls[] = {20, 200, 1000}, limits[] = {30, 300, 5000};
    memset(plan, 0, sizeof(*plan));
    plan->procs = 1 + sim_below(r, TS_PROCS);
    plan->recoveries = 1 + sim_below(r, 2);
    plan->resources = 1 + sim_below(r, TS_RESOURCES);
    plan->facts = 1 + sim_below(r, TS_FACTS);
    plan->timeout_ms = PICK(r, timeouts);
    plan->delay_us = PICK(r, delays);
    plan->pace_us = PICK(r, paces);
    plan->pass_ms = PICK(r, passes);
    plan->call_ms = PICK(r, calls);
    plan->limit_ms = PICK(r, limits);
    plan->rest_ms = PICK(r, rests);
    plan->skew_ms = rate(r, 3000);
    plan->failed = rate(r, 150);
    plan->reads = rate(r, 300);
    plan->says_no = rate(r, 200);
    plan->aborts = rate(r, 300);
    plan->shared = rate(r, 1000);
    plan->waits = rate(r, 1000);
    draw_troubles(plan, r);
    bool long_run = plan->trouble[TS_HOUR] > 0;
    plan->pass_ms = long_run && plan->pass_ms < 10000 ? 10000 : plan->pass_ms;
    plan->keep_ms = long_run ? 600000 : plan->timeout_ms + 5000 + sim_below(r, 60000);
}

/* Many branches, many messages, and each must go well: half of those worlds are gentle with them, or little would ever
 * be committed. */
static void draw_joins(struct ts_plan *plan, struct sim_random *r)
{
    plan->joins = rate(r, 1000);
    if (plan->joins == 0 || sim_chance(r, 500))
        return;
    plan->timeout_ms = plan->timeout_ms < 3000 ? 3000 : plan->timeout_ms;
    plan->limit_ms = sim_chance(r, 500) ? 5000 : plan->limit_ms;
    plan->failed = plan->says_no = plan->aborts = 0;
    plan->lost /= 4;
}

/* Half of the worlds have services; half of those are gentle, as with joins. */
static void draw_services(struct ts_plan *plan, struct sim_random *r)
{
    plan->services = rate(r, 1000);
    plan->held = rate(r, 200);
    plan->refuses = rate(r, 60);
    if (plan->services == 0 || sim_chance(r, 500))
        return;
    plan->timeout_ms = plan->timeout_ms < 3000 ? 3000 : plan->timeout_ms;
    plan->lost /= 4;
}

/* ---- How it goes -------------------------------------------------------- */

static void make_foreign(struct ts_world *w)
{
    if (!sim_chance(&w->random, 300) || w->plan.facts < 2)
        return;
    struct ts_fact *f = &w->facts[w->begun];
    f->id = rt_txn_id_make(TS_JOURNAL + 1, TS_WALL - 100000, w->begun++);
    f->deadline_ms = TS_WALL - 90000;
    f->foreign = f->begun = true;
    f->count = 1;
    f->branches[0] = (struct ts_branch){.state = TS_PREPARED, .closed = true};
}

static void begin(struct ts_world *w, uint64_t seed, bool tracing)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->tracing = tracing;
    w->random.state = seed * UINT64_C(0xd1342543de82ef95);
    draw(&w->plan, &w->random);
    w->aside.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    draw_joins(&w->plan, &w->aside);
    w->third.state = seed * UINT64_C(0xbf58476d1ce4e5b9) + 2;
    draw_services(&w->plan, &w->third);
    sim_drawn(&w->plan, sizeof(w->plan));
    if (w->plan.keep_ms < w->plan.timeout_ms + 5000) /* fences go only long after any deadline */
        w->plan.keep_ms = w->plan.timeout_ms + 5000;
    w->floor_ms = TS_WALL - 100000000;
    for (uint32_t i = 0; i < w->plan.resources; i++) {
        w->resources[i].gated = sim_chance(&w->random, 500);
        w->resources[i].view_at = -1000 * TS_MS;
    }
    make_foreign(w);
    for (uint32_t i = 0; i < w->plan.procs; i++) {
        struct ts_proc *p = &w->procs[i];
        p->recovers = i < w->plan.recoveries;
        p->skew_ms = (int64_t)sim_below(&w->random, w->plan.skew_ms + 1);
        ts_proc_start(w, p);
    }
    struct ts_event act = {.kind = TS_EV_ACT}, trouble = {.kind = TS_EV_TROUBLE};
    trouble.at = w->plan.trouble_ms * TS_MS;
    ts_post(w, &act);
    if (w->plan.trouble_ms > 0)
        ts_post(w, &trouble);
}

static void heal(struct ts_world *w)
{
    TS_TRACE(w, "---- all is healed");
    w->healing = true;
    w->journal_down_until = 0;
    for (uint32_t i = 0; i < w->plan.resources; i++) {
        w->resources[i].down_until = 0;
        ts_resource_restart(w, i);
    }
    for (uint32_t i = 0; i < w->plan.procs; i++) {
        struct ts_proc *p = &w->procs[i];
        if (!p->alive)
            ts_proc_start(w, p);
        for (uint32_t k = 0; p->paused_until <= w->now && k < w->plan.resources; k++)
            ts_proc_back(w, p, k);
        ts_proc_run(w, p);
    }
}

static void act(struct ts_world *w)
{
    struct ts_proc *p = some_proc(w);
    struct ts_event e = {.kind = TS_EV_ACT};
    if (p->alive && p->paused_until <= w->now) {
        ts_proc_begin(w, p);
        ts_proc_run(w, p);
    }
    e.at = w->now + 1 + sim_spread_ns(&w->random, w->plan.pace_us);
    if (w->begun < w->plan.facts)
        ts_post(w, &e);
}

static void happen(struct ts_world *w, struct ts_event *e)
{
    struct ts_proc *p = &w->procs[e->proc];
    switch (e->kind) {
    case TS_EV_ACT:
        act(w);
        return;
    case TS_EV_TROUBLE:
        if (w->healing || w->troubles++ == TROUBLES)
            return;
        befall(w);
        e->at = w->now + 1 + sim_spread_ns(&w->random, w->plan.trouble_ms * 1000);
        ts_post(w, e);
        return;
    case TS_EV_JOURNAL:
    case TS_EV_RESOURCE:
        serve(w, e);
        return;
    case TS_EV_CLOSE:
        ts_resource_closed(w, &w->facts[e->fact], &w->facts[e->fact].branches[e->branch]);
        return;
    case TS_EV_RESTART:
        if (!p->alive && p->gen == e->gen)
            ts_proc_start(w, p);
        break;
    default:
        if (!p->alive || p->gen != e->gen)
            return;
        if (p->paused_until > w->now) { /* it comes to it when it runs again */
            e->at = p->paused_until;
            if (e->kind != TS_EV_ANSWER || e->give_up || !p->deaf)
                ts_post(w, e);
            return;
        }
    }
    if (e->kind == TS_EV_ANSWER)
        ts_proc_answer(w, p, e);
    else if (e->kind == TS_EV_COMMIT)
        ts_proc_commit(w, p, e);
    else if (e->kind == TS_EV_JOIN)
        ts_join_begin(w, p, e);
    else if (e->kind == TS_EV_ASK)
        ts_join_ask(w, p, e);
    else if (e->kind == TS_EV_WAKE && p->wake_at <= e->at)
        p->wake_at = RT_TXN_NEVER;
    if (p->alive && p->paused_until <= w->now)
        ts_proc_run(w, p);
}

static bool settled(const struct ts_world *w)
{
    for (uint32_t i = 0; i < w->plan.procs; i++)
        if (!w->procs[i].alive || !ts_proc_idle(&w->procs[i]))
            return false;
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct ts_fact *f = &w->facts[i];
        if (f->foreign)
            continue;
        if ((f->row && !f->done) || (f->told == RT_OUTCOME_OPEN && !f->owner_gone))
            return false;
        for (uint32_t k = 0; k < f->count; k++)
            if (f->branches[k].state == TS_ACTIVE || f->branches[k].state == TS_PREPARED ||
                f->branches[k].state == TS_GHOST || f->branches[k].state == TS_RESERVED)
                return false;
    }
    return true;
}

/* All is over: what was told is true, and for each id one thing happened. */
static void check_end(const struct ts_world *w)
{
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct ts_fact *f = &w->facts[i];
        bool committed = f->ever == RT_DECISION_COMMIT;
        for (uint32_t k = 0; k < f->count; k++) {
            const struct ts_branch *b = &f->branches[k];
            if (committed && b->listed && b->state != TS_COMMITTED)
                ts_violated(w, "X4", "t%u is committed, and its branch %u is not", i, k);
            if (!committed && b->state == TS_COMMITTED && !b->one_phase)
                ts_violated(w, "X4", "t%u is not committed, and its branch %u is", i, k);
            if (f->told == RT_OUTCOME_ABORTED && b->state == TS_COMMITTED)
                ts_violated(w, "X5",
                            "the caller of t%u was told ABORTED, and branch %u is committed", i, k);
        }
        ts_join_check_end(w, i);
    }
}

static void step(struct ts_world *w)
{
    struct ts_event e;
    pop(w, &e);
    assert(e.at >= w->now);
    w->now = e.at;
    sim_counts.steps++;
    happen(w, &e);
}

void ts_play(uint64_t seed, bool tracing)
{
    static struct ts_world world;
    struct ts_world *w = &world;
    begin(w, seed, tracing);
    while (w->begun < w->plan.facts)
        step(w);
    int64_t troubled = w->now + sim_spread_ns(&w->random, w->plan.rest_ms * 1000);
    while (w->event_count > 0 && w->events[0].at < troubled)
        step(w);
    w->now = w->now > troubled ? w->now : troubled;
    heal(w);
    int64_t bound = w->now + (3600 + 600) * 1000 * TS_MS;
    while (!settled(w)) {
        if (w->event_count == 0 || w->events[0].at > bound)
            ts_violated(w, "X10", "something is left, and nobody finishes it");
        step(w);
    }
    check_end(w);
}
