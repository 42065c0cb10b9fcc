/* SPDX-License-Identifier: Apache-2.0 */
/* One schedule: a safety phase full of trouble, a liveness phase, and everybody's departure. */
#include "sim/sim.h"

#include "base/alloc.h"
#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/invariants.h"
#include "sim/job.h"
#include "sim/world.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_counts sim_counts;

#define RESTS_MAX 10000 /* runs of clients at one moment before we conclude that it never ends */

/* ---- Words -------------------------------------------------------------- */

void sim_trace(const struct sim *sim, const struct sim_client *c, const char *format, ...)
{
    char line[512];
    int n = snprintf(line, sizeof(line), "[%12.6f] %-6s ", (double)sim->now / 1e9,
                     c != NULL ? c->label : "");
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    sim_out(line);
}

_Noreturn void sim_violated(const struct sim *sim, const char *invariant, const char *format, ...)
{
    char why[512];
    int n = snprintf(why, sizeof(why), "%s is violated: ", invariant);
    va_list args;
    va_start(args, format);
    vsnprintf(why + n, sizeof(why) - (size_t)n, format, args);
    va_end(args);
    if (sim->tracing) {
        sim_out_tail();
        sim_dump(sim);
    }
    sim_end(why);
}

static bool listed(const uint64_t *list, size_t count, uint64_t what)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == what)
            return true;
    return false;
}

bool sim_is_broken(const struct sim *sim, uint64_t number)
{
    return listed(sim->broken, sim->broken_count, number);
}

bool sim_is_lost(const struct sim *sim, uint64_t session)
{
    return listed(sim->lost_sessions, sim->lost_session_count, session);
}

void sim_taint(uint64_t *list, size_t *count, uint64_t what)
{
    assert(*count < SIM_TAINTS_MAX);
    list[(*count)++] = what;
}

/* ---- Troubles ----------------------------------------------------------- */

static struct sim_client *any_client(struct sim *sim)
{
    return &sim->clients[sim_below(&sim->random, sim->plan.clients)];
}

static int64_t some_ttls(struct sim *sim)
{
    return sim->now + 1 + sim_spread_ns(&sim->random, sim->plan.ttl_ms * 1000);
}

/* Around the deadline of C, where the client and the engine may think differently; or any time. */
static int64_t pause_end(struct sim *sim, const struct sim_client *c)
{
    const struct rt_session *s = &c->d.desk.session;
    if (s->state != RT_SESSION_ALIVE || sim->plan.forever || sim_chance(&sim->random, 500))
        return some_ttls(sim);
    int64_t until = s->usable_until - RT_MS + sim_spread_ns(&sim->random, sim->plan.ttl_ms * 40);
    return until > sim->now ? until : sim->now + 1;
}

static void befall_process(struct sim *sim, uint32_t process, enum sim_trouble trouble)
{
    int64_t until = 0;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        struct sim_client *c = &sim->clients[i];
        if (c->process != process || !c->open)
            continue;
        if (trouble == SIM_TROUBLE_CRASH) {
            sim_client_crash(c);
        } else {
            if (until == 0)
                until = pause_end(sim, c);
            SIM_TRACE(sim, c, "pauses until %.6f", (double)until / 1e9);
            sim_harm(sim, until);
            c->paused_until = until;
            sim_counts.pauses++;
        }
    }
}

void sim_process_crash(struct sim *sim, uint32_t process)
{
    befall_process(sim, process, SIM_TROUBLE_CRASH);
}

static void cut(struct sim *sim, struct sim_client *c)
{
    uint32_t ways = 1 + sim_below(&sim->random, 3);
    SIM_TRACE(sim, c, "is cut, ways %u", ways);
    c->cut_until = some_ttls(sim);
    sim_harm(sim, c->cut_until);
    sim_client_cut(c, ways);
}

static void break_done(struct rt_dispatch *d, struct rt_request *rq)
{
    (void)d;
    rt_free(rq);
}

static void break_ticket(struct sim *sim, struct sim_client *c)
{
    const char *name = sim->lines[sim_below(&sim->random, sim->plan.names)].name;
    struct sim_place places[SIM_PLACES_MAX];
    size_t n = sim->kind->look(sim, name, places, SIM_PLACES_MAX);
    if (n == 0 || sim->broken_count == SIM_TAINTS_MAX)
        return;
    uint64_t number = places[sim_below(&sim->random, (uint32_t)n)].number;
    sim_taint(sim->broken, &sim->broken_count, number);
    SIM_TRACE(sim, c, "breaks ticket %llu of %s", (unsigned long long)number, name);
    struct rt_request *rq = rt_alloc(sizeof(*rq));
    assert(rq != NULL);
    rq->op.kind = RT_OP_BREAK;
    rq->op.deadline = sim->now + sim->plan.call_ms * RT_MS;
    rq->op.brk.name = name;
    rq->op.brk.number = number;
    rq->done = break_done;
    rt_dispatch_send(&c->d, rq);
}

uint32_t sim_pick_weighted(struct sim *sim, const uint32_t *weights, uint32_t n)
{
    uint32_t sum = 0, i = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += weights[k];
    if (sum == 0)
        return n;
    uint32_t dice = sim_below(&sim->random, sum);
    while (dice >= weights[i])
        dice -= weights[i++];
    return i;
}

static void befall(struct sim *sim)
{
    sim_harm(sim, sim->now);
    uint32_t trouble = sim_pick_weighted(sim, sim->plan.trouble, SIM_TROUBLE_KINDS);
    struct sim_client *c = any_client(sim);
    if (trouble == SIM_TROUBLE_KINDS)
        return;
    if (trouble == SIM_TROUBLE_KILL_SESSION) {
        if (sim->kind->kill_session != NULL)
            sim->kind->kill_session(sim);
        return;
    }
    if (!sim_client_runs(c) || c->close_by != 0)
        return;
    sim_client_wake(c);
    if (trouble == SIM_TROUBLE_PAUSE || trouble == SIM_TROUBLE_CRASH) {
        befall_process(sim, c->process, (enum sim_trouble)trouble);
        return;
    }
    if (trouble == SIM_TROUBLE_CLOSE)
        sim_client_close(c);
    else if (trouble == SIM_TROUBLE_CUT)
        cut(sim, c);
    else if (trouble == SIM_TROUBLE_RESET)
        sim_client_reset(c);
    else
        break_ticket(sim, c);
    sim_client_drain(c);
    sim_check_step(sim, c);
}

/* ---- Time --------------------------------------------------------------- */

static void act(struct sim *sim, struct sim_client *c)
{
    if (!c->open) {
        sim_client_open(sim, c);
        return;
    }
    if (c->paused_until != 0)
        return;
    enum sim_act what = (enum sim_act)sim_pick_weighted(sim, sim->plan.act, SIM_ACT_KINDS);
    sim_client_wake(c);
    if (!sim_job_act(c, what))
        (void)sim_job_act(c, SIM_ACT_ASK);
    if (sim_observe > 0 && sim_chance(&sim->aside, sim_observe))
        sim_watcher_act(c);
    sim_client_drain(c);
    sim_check_step(sim, c);
}

void sim_client_step(struct sim *sim, struct sim_client *c)
{
    if (sim_client_due(c)) {
        sim_client_run(c);
        sim_check_step(sim, c);
    } else if (!sim->healing && c->close_by == 0) {
        act(sim, c);
    }
}

/* In the liveness phase threads only let go of what they have; false: they have nothing. */
static bool let_go(struct sim *sim)
{
    bool any = false;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        struct sim_client *c = &sim->clients[i];
        if (!sim_client_runs(c))
            continue;
        sim_client_wake(c);
        if (sim_job_untie(c) || sim_job_release_any(c)) {
            any = true;
            sim_client_drain(c);
            sim_check_step(sim, c);
        }
    }
    return any;
}

static void mend(struct sim *sim, struct sim_client *c)
{
    if (c->paused_until != 0 && c->paused_until <= sim->now) {
        c->paused_until = 0;
        c->resumed_at = sim->now;
        sim_harm(sim, sim->now);
        SIM_TRACE(sim, c, "goes on");
        sim_excuse_late(c);
        if (!sim->healing && sim_chance(&sim->random, 500))
            act(sim, c); /* before it looked at the clock or listened to anybody */
    }
    if (sim_client_runs(c) && c->cut_until != 0 && c->cut_until <= sim->now) {
        c->cut_until = 0;
        sim_harm(sim, sim->now);
        SIM_TRACE(sim, c, "is connected again");
        sim_excuse_late(c);
        sim_client_wake(c);
        sim_client_cut(c, 0);
        sim_client_drain(c);
        sim_check_step(sim, c);
    }
}

static void come_to_rest(struct sim *sim)
{
    uint32_t n = sim->plan.clients, first = sim_below(&sim->random, n);
    uint32_t runs = 0, idle = 0;
    for (uint32_t i = first; idle < n; i = (i + 1) % n) {
        struct sim_client *c = &sim->clients[i];
        idle++;
        if (!sim_client_runs(c) || !sim_client_due(c))
            continue;
        idle = 0;
        sim_client_run(c);
        sim_check_step(sim, c);
        if (++runs > RESTS_MAX)
            sim_violated(sim, "liveness", "nobody comes to rest");
    }
    sim_check_moment(sim);
}

static void sooner(int64_t *at, int64_t other)
{
    if (other < *at)
        *at = other;
}

static int64_t next_moment(const struct sim *sim, bool acting)
{
    int64_t at = RT_NEVER;
    if (acting)
        sooner(&at, sim->act_at);
    if (!sim->healing) {
        sooner(&at, sim->trouble_at);
        sooner(&at, sim->outage_at);
    }
    if (sim->kind->next != NULL)
        sooner(&at, sim->kind->next(sim));
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        if (c->paused_until != 0) {
            sooner(&at, c->paused_until);
            continue;
        }
        if (!c->open)
            continue;
        sooner(&at, sim_client_next(c));
        if (c->cut_until != 0)
            sooner(&at, c->cut_until);
    }
    return at > sim->now ? at : sim->now;
}

static void serve(struct sim *sim)
{
    sim->kind->run(sim);
    if (!sim->healing && sim->outage_at <= sim->now) {
        sim->kind->outage(sim);
        sim_harm(sim, sim->now);
        sim->outage_at = sim->now + 1 + sim_spread_ns(&sim->random, sim->plan.outage_ms * 1000);
    }
}

/* Goes on to the next moment at which something happens; false: it is after LIMIT. */
static bool advance(struct sim *sim, int64_t limit, bool acting)
{
    int64_t at = next_moment(sim, acting);
    if (at > limit) {
        sim->now = limit;
        return false;
    }
    sim->now = at;
    if (sim->kind->run != NULL)
        serve(sim);
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        mend(sim, &sim->clients[i]);
    if (!sim->healing && sim->trouble_at <= sim->now) {
        befall(sim);
        sim->trouble_at = sim->now + 1 + sim_spread_ns(&sim->random, sim->plan.trouble_ms * 1000);
    }
    bool idle = false;
    if (acting && sim->act_at <= sim->now) {
        if (sim->healing)
            idle = !let_go(sim);
        else
            act(sim, any_client(sim));
        sim->act_at = RT_NEVER;
    }
    if (sim->act_at == RT_NEVER && !idle) /* else when something has happened */
        sim->act_at = sim->now + 1 + sim_spread_ns(&sim->random, sim->plan.pace_us);
    come_to_rest(sim);
    return true;
}

/* ---- Phases ------------------------------------------------------------- */

static void begin(struct sim *sim, uint64_t seed, const struct sim_kind *kind, bool tracing)
{
    memset(sim, 0, sizeof(*sim));
    sim->seed = seed;
    sim->tracing = tracing;
    sim->random.state = seed * UINT64_C(0xd1342543de82ef95);
    sim_plan_draw(&sim->plan, &sim->random);
    if (sim_crowd)
        sim_plan_crowd(&sim->plan, &sim->random);
    sim->lines = calloc(sim->plan.names, sizeof(*sim->lines));
    assert(sim->lines != NULL);
    sim_hunger.state = seed;
    sim->aside.state = seed;
    sim->now = RT_MS;
    sim->trouble_at = sim->plan.trouble_ms != 0 ? sim->plan.trouble_ms * RT_MS : RT_NEVER;
    sim->kind = kind;
    kind->open(sim);
    sim_drawn(&sim->plan, sizeof(sim->plan));
    sim->outage_at = sim->plan.outage_ms != 0 ? sim->plan.outage_ms * RT_MS : RT_NEVER;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        snprintf(sim->lines[i].name, sizeof(sim->lines[i].name), "n%u", i);
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        sim->clients[i].index = i;
        sim->clients[i].process = i % sim->plan.processes;
        sim_client_open(sim, &sim->clients[i]);
    }
}

static void heal(struct sim *sim)
{
    SIM_TRACE(sim, NULL, "---- all is healed");
    sim->healing = true;
    sim->harmed_until = 0; /* what would have lasted longer */
    if (sim->plan.trouble_ms + sim->plan.outage_ms + sim->plan.starve > 0 || sim->net == NULL)
        sim_harm(sim, sim->now);
    if (sim->kind->heal != NULL)
        sim->kind->heal(sim);
    sim->outage_at = RT_NEVER;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        struct sim_client *c = &sim->clients[i];
        if (!c->open)
            continue;
        if (c->fault != NULL)
            rt_fault_rates(c->fault, NULL);
        if (c->paused_until != 0)
            c->paused_until = sim->now;
        if (c->cut_until != 0)
            c->cut_until = sim->now;
    }
}

static bool jobs_left(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (sim->clients[i].jobs != NULL || sim->clients[i].close_by != 0)
            return true;
    return false;
}

static void live(struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    heal(sim);
    int64_t bound = sim->now + (20 * (plan->ttl_ms + plan->call_ms) + 100 * plan->time_ms) * RT_MS +
                    (60 * 1000 + sim->back_ms) * RT_MS;
    while (jobs_left(sim))
        if (!advance(sim, bound, true))
            sim_violated(sim, "liveness", "stuck: a thread waits for ever");
    /* What was late, forgotten or lingers is over within this long, and so are leases that nobody has. */
    int64_t settled = sim->now + (4 * plan->ttl_ms + 2 * plan->time_ms + plan->call_ms) * RT_MS;
    settled += sim->back_ms * RT_MS;
    while (advance(sim, settled, false))
        continue;
    sim_check_settled(sim);
}

static void leave_all(struct sim *sim)
{
    SIM_TRACE(sim, NULL, "---- everybody goes");
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        struct sim_client *c = &sim->clients[i];
        if (!c->open)
            continue;
        sim_client_wake(c);
        if (sim_chance(&sim->random, 800))
            sim_client_close(c);
        else
            sim_client_crash(c);
    }
    while (jobs_left(sim))
        (void)advance(sim, RT_NEVER, false);
    int64_t longest = sim->plan.ttl_ms + 2 * sim->plan.time_ms + 3;
    if (sim->net != NULL) /* what they sent before they went */
        while (sim_net_next(sim->net) != RT_NEVER)
            (void)advance(sim, RT_NEVER, false);
    sim->kind->expire(sim, longest);
    sim_check_empty(sim);
    sim->kind->close(sim);
}

void sim_run(uint64_t seed, const struct sim_kind *kind, bool tracing)
{
    static struct sim sim;
    if (kind->play != NULL) {
        kind->play(seed, tracing);
        return;
    }
    begin(&sim, seed, kind, tracing);
    for (uint32_t i = 0; i < sim.plan.acts;) {
        int64_t before = sim.act_at;
        (void)advance(&sim, RT_NEVER, true);
        i += sim.act_at != before;
    }
    live(&sim);
    leave_all(&sim);
    free(sim.lines);
}
