/* SPDX-License-Identifier: Apache-2.0 */
/* The world of three-phase commit: its plan, its network, its troubles, and how a run goes. */
#include "sim/sim.h"
#include "sim/three/three.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct th_counts th_counts;

/* ---- What is said ------------------------------------------------------------- */

void th_trace(const struct th_world *w, const char *format, ...)
{
    char line[256];
    int n = snprintf(line, sizeof(line), "%12.3f ", (double)w->now / (double)TH_MS);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    sim_out(line);
}

_Noreturn void th_violated(const char *invariant, const char *format, ...)
{
    char why[256];
    int n = snprintf(why, sizeof(why), "%s is violated: ", invariant);
    va_list args;
    va_start(args, format);
    vsnprintf(why + n, sizeof(why) - (size_t)n, format, args);
    va_end(args);
    sim_end(why);
}

void th_report(void)
{
    const struct th_counts *n = &th_counts;
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"begun", n->begun},
        {"told COMMITTED", n->committed},
        {"told ABORTED", n->aborted},
        {"not told", n->untold},
        {"mixed outcomes", n->mixed},
        {"  branches, each told", n->told_by_parts},
        {"  told by a coordinator", n->told_by_coordinator},
        {"  told by recovery", n->told_by_recovery},
        {"ended of themselves", n->alone},
        {"blocked after T2", n->blocked},
        {"adopted", n->adopted},
        {"ended by recovery", n->settled},
        {"closed by recovery", n->closed_by_recovery},
        {"held, mean, ms", n->held > 0 ? n->held_ms / n->held : 0},
        {"held, most, ms", n->held_most_ms},
        {"crashes", n->crashes},
        {"pauses", n->pauses},
        {"partitions", n->cuts},
        {"messages lost", n->lost},
        {"messages doubled", n->doubled},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("  %-24s %10llu\n", rows[i].what, (unsigned long long)rows[i].count);
}

/* ---- Events: a heap ------------------------------------------------------------ */

static bool before(const struct th_event *a, const struct th_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void th_post(struct th_world *w, const struct th_event *e)
{
    assert(w->event_count < TH_EVENTS && e->at >= w->now);
    uint32_t i = w->event_count++;
    struct th_event in = *e;
    in.order = w->order++;
    for (; i > 0 && before(&in, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
        w->events[i] = w->events[(i - 1) / 2];
    w->events[i] = in;
}

static void pop(struct th_world *w, struct th_event *out)
{
    assert(w->event_count > 0);
    *out = w->events[0];
    struct th_event last = w->events[--w->event_count];
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

/* ---- The network ---------------------------------------------------------------- */

int64_t th_wall_ms(const struct th_world *w, uint32_t node)
{
    return TH_WALL + w->now / TH_MS + w->nodes[node].skew_ms;
}

bool th_strikes(struct th_world *w, uint32_t per_mille)
{
    return !w->healing && sim_chance(&w->random, per_mille);
}

int64_t th_delay(struct th_world *w)
{
    int64_t delay = 1000 + sim_spread_ns(&w->random, w->plan.delay_us);
    if (th_strikes(w, w->plan.late))
        delay += sim_spread_ns(&w->random, w->plan.call_ms * 2000);
    return delay;
}

void th_send(struct th_world *w, const struct th_event *e)
{
    uint32_t copies = 1 + th_strikes(w, w->plan.doubled);
    th_counts.doubled += copies - 1;
    for (uint32_t i = 0; i < copies; i++) {
        struct th_event copy = *e;
        copy.at = w->now + th_delay(w);
        if (w->cut_until[e->from][e->to] > w->now || th_strikes(w, w->plan.lost))
            th_counts.lost++;
        else
            th_post(w, &copy);
    }
}

/* ---- Troubles -------------------------------------------------------------------- */

#define TROUBLES 40

void th_crash(struct th_world *w, uint32_t node)
{
    struct th_node *n = &w->nodes[node];
    n->alive = false;
    th_counts.crashes++;
    TH_TRACE(w, "node %u dies", node);
    struct th_event e = {.kind = TH_EV_RESTART, .to = (uint8_t)node, .gen = n->gen};
    e.at = w->now + 1 + sim_spread_ns(&w->random, w->plan.down_ms * 1000);
    th_post(w, &e);
}

static void cut(struct th_world *w, uint32_t a, uint32_t b, int64_t until)
{
    w->cut_until[a][b] = w->cut_until[b][a] = until;
}

/* Two groups of nodes that do not hear each other; or two nodes. */
static void split(struct th_world *w, bool groups)
{
    uint32_t nodes = w->plan.parts + 1, side = sim_below(&w->random, UINT32_C(1) << nodes);
    int64_t until = w->now + sim_spread_ns(&w->random, w->plan.down_ms * 1000);
    th_counts.cuts++;
    TH_TRACE(w, "the network falls apart: %x", side);
    for (uint32_t a = 0; a < nodes; a++)
        for (uint32_t b = 0; b < a; b++)
            if (groups ? (side >> a & 1) != (side >> b & 1)
                       : (side >> a & 1) != 0 && (side >> b & 1) != 0)
                cut(w, a, b, until);
}

static void befall(struct th_world *w)
{
    uint32_t sum = 0, kind = 0;
    for (uint32_t i = 0; i < TH_TROUBLES; i++)
        sum += w->plan.trouble[i];
    if (sum == 0)
        return;
    uint32_t pick = sim_below(&w->random, sum);
    while (pick >= w->plan.trouble[kind])
        pick -= w->plan.trouble[kind++];
    uint32_t node = sim_below(&w->random, w->plan.parts + 1);
    struct th_node *n = &w->nodes[node];
    if (kind == TH_CRASH && n->alive)
        th_crash(w, node);
    else if (kind == TH_PAUSE && n->paused_until <= w->now) {
        n->paused_until = w->now + sim_spread_ns(&w->random, w->plan.t2_ms * 2000);
        th_counts.pauses++;
        TH_TRACE(w, "node %u is stopped", node);
    } else if (kind == TH_JOURNAL_DOWN)
        w->journal_down_until = w->now + sim_spread_ns(&w->random, w->plan.down_ms * 1000);
    else if (kind == TH_CUT || kind == TH_SPLIT)
        split(w, kind == TH_SPLIT);
}

/* ---- The plan -------------------------------------------------------------------- */

#define PICK(r, list) ((list)[sim_below((r), sizeof(list) / sizeof((list)[0]))])

static uint32_t rate(struct sim_random *r, uint32_t most)
{
    return sim_chance(r, 500) ? 0 : sim_below(r, most + 1);
}

static void draw(struct th_plan *plan, struct sim_random *r)
{
    static const uint32_t delays[] = {50, 500, 5000}, paces[] = {100, 5000, 100000};
    static const uint32_t t1s[] = {50, 200, 1000}, calls[] = {20, 100, 500};
    static const uint32_t troubles[] = {0, 5, 30, 200}, downs[] = {20, 300, 3000, 20000};
    static const uint32_t rests[] = {0, 100, 3000, 30000}, passes[] = {200, 2000, 20000};
    static const uint32_t timeouts[] = {100, 1000, 10000, 60000};
    memset(plan, 0, sizeof(*plan));
    plan->facts = 1 + sim_below(r, TH_FACTS);
    plan->parts = 2 + sim_below(r, TH_PARTS - 1);
    plan->delay_us = PICK(r, delays);
    plan->pace_us = PICK(r, paces);
    plan->t1_ms = PICK(r, t1s);
    plan->t2_ms = plan->t1_ms * (1 + sim_below(r, 3));
    plan->margin_ms = plan->t1_ms / 5;
    plan->call_ms = PICK(r, calls);
    plan->trouble_ms = PICK(r, troubles);
    plan->down_ms = PICK(r, downs);
    plan->rest_ms = PICK(r, rests);
    plan->recover_ms = PICK(r, passes);
    plan->timeout_ms = PICK(r, timeouts);
    plan->skew_ms = rate(r, 3000);
    plan->failed = rate(r, 100);
    plan->refuses = rate(r, 100);
    plan->dies = rate(r, 300);
    plan->lost = rate(r, 100);
    plan->late = rate(r, 200);
    plan->doubled = rate(r, 200);
    for (uint32_t i = 0; i < TH_TROUBLES; i++)
        plan->trouble[i] = rate(r, 5);
}

/* ---- How it goes ------------------------------------------------------------------ */

static void begin(struct th_world *w, enum th_rules rules, uint64_t seed, bool tracing)
{
    memset(w, 0, sizeof(*w));
    w->rules = rules;
    w->tracing = tracing;
    w->random.state = seed * UINT64_C(0xd1342543de82ef95) + 3;
    draw(&w->plan, &w->random);
    sim_drawn(&w->plan, sizeof(w->plan));
    for (uint32_t i = 0; i <= w->plan.parts; i++) {
        w->nodes[i].skew_ms = (int64_t)sim_below(&w->random, w->plan.skew_ms + 1);
        th_node_start(w, i);
    }
    struct th_event act = {.kind = TH_EV_BEGIN}, trouble = {.kind = TH_EV_TROUBLE},
                    pass = {.kind = TH_EV_RECOVER};
    trouble.at = w->plan.trouble_ms * TH_MS;
    pass.at = w->plan.recover_ms * TH_MS;
    th_post(w, &act);
    th_post(w, &pass);
    if (w->plan.trouble_ms > 0)
        th_post(w, &trouble);
}

static void begin_one(struct th_world *w)
{
    struct th_fact *f = &w->facts[w->begun];
    if (w->nodes[0].alive && w->nodes[0].paused_until <= w->now) {
        f->begun = true;
        f->deadline_ms = TH_WALL + w->now / TH_MS + w->plan.timeout_ms;
        for (uint32_t i = 0; i < w->plan.parts; i++)
            f->parts[i].refuses = sim_chance(&w->random, w->plan.refuses);
        th_counts.begun++;
        w->begun++;
        th_node_begin(w, w->begun - 1);
    }
    struct th_event e = {.kind = TH_EV_BEGIN};
    e.at = w->now + 1 + sim_spread_ns(&w->random, w->plan.pace_us);
    if (w->begun < w->plan.facts)
        th_post(w, &e);
}

static void to_node(struct th_world *w, struct th_event *e)
{
    struct th_node *n = &w->nodes[e->to];
    bool own = e->kind == TH_EV_WAKE || e->kind == TH_EV_DID || e->kind == TH_EV_WROTE;
    if (!n->alive || (own && e->gen != n->gen))
        return;
    if (n->paused_until > w->now) { /* it comes to it when it runs again */
        e->at = n->paused_until;
        th_post(w, e);
        return;
    }
    th_node_get(w, e);
    th_node_run(w, e->to);
}

static void again(struct th_world *w, struct th_event *e, uint32_t in_ms)
{
    e->at = w->now + 1 + in_ms * TH_MS;
    th_post(w, e);
}

static void happen(struct th_world *w, struct th_event *e)
{
    switch ((enum th_event_kind)e->kind) {
    case TH_EV_BEGIN:
        begin_one(w);
        break;
    case TH_EV_TROUBLE:
        if (w->healing || w->troubles++ == TROUBLES)
            break;
        befall(w);
        again(w, e, sim_below(&w->random, w->plan.trouble_ms * 2));
        break;
    case TH_EV_RECOVER:
        th_recover(w);
        again(w, e, w->plan.recover_ms);
        break;
    case TH_EV_SETTLE:
        th_settle(w, e);
        break;
    case TH_EV_EFFECT:
        th_effect(w, e);
        break;
    case TH_EV_JOURNAL:
        th_journal(w, e);
        break;
    case TH_EV_RESTART:
        if (!w->nodes[e->to].alive && w->nodes[e->to].gen == e->gen) {
            th_node_start(w, e->to);
            th_node_run(w, e->to);
        }
        break;
    default:
        to_node(w, e);
    }
}

static void step(struct th_world *w)
{
    struct th_event e;
    pop(w, &e);
    assert(e.at >= w->now);
    w->now = e.at;
    sim_counts.steps++;
    happen(w, &e);
}

static void heal(struct th_world *w)
{
    TH_TRACE(w, "---- all is healed");
    w->healing = true;
    w->journal_down_until = 0;
    memset(w->cut_until, 0, sizeof(w->cut_until));
    for (uint32_t i = 0; i <= w->plan.parts; i++)
        if (!w->nodes[i].alive)
            th_node_start(w, i);
    for (uint32_t i = 0; i <= w->plan.parts; i++)
        if (w->nodes[i].paused_until <= w->now)
            th_node_run(w, i);
}

static bool settled(const struct th_world *w)
{
    for (uint32_t i = 0; i <= w->plan.parts; i++)
        if (!w->nodes[i].alive || !th_node_idle(w, i))
            return false;
    for (uint32_t i = 0; i < w->begun; i++)
        for (uint32_t k = 0; k < w->plan.parts; k++)
            if (w->facts[i].parts[k].db == TH_PREPARED)
                return false;
    return true;
}

void th_play(enum th_rules rules, uint64_t seed, bool tracing)
{
    static struct th_world world;
    struct th_world *w = &world;
    begin(w, rules, seed, tracing);
    while (w->begun < w->plan.facts)
        step(w);
    int64_t troubled = w->now + sim_spread_ns(&w->random, w->plan.rest_ms * 1000);
    while (w->event_count > 0 && w->events[0].at < troubled)
        step(w);
    w->now = w->now > troubled ? w->now : troubled;
    heal(w);
    int64_t bound = w->now + 1200 * 1000 * TH_MS;
    while (!settled(w)) {
        if (w->event_count == 0 || w->events[0].at > bound)
            th_violated("H6", "something is left, and nobody finishes it");
        step(w);
    }
    th_check_end(w);
}
