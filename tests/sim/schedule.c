/* SPDX-License-Identifier: Apache-2.0 */
/* What one seed decides: chance itself, and the plan of a schedule drawn from it. */
#include "sim/schedule.h"

#include "core/timers.h"

#include <rota.h>
#include <string.h>

uint64_t sim_next(struct sim_random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t sim_below(struct sim_random *r, uint32_t n)
{
    return (uint32_t)((sim_next(r) >> 32) * n >> 32);
}

bool sim_chance(struct sim_random *r, uint32_t per_mille)
{
    return sim_below(r, 1000) < per_mille;
}

int64_t sim_spread_ns(struct sim_random *r, uint32_t mean_us)
{
    return (int64_t)(sim_next(r) % (2 * (uint64_t)mean_us * 1000 + 1));
}

#define PICK(r, list) ((list)[sim_below((r), sizeof(list) / sizeof((list)[0]))])

/* A rate that is zero half of the time. */
static uint32_t rate(struct sim_random *r, uint32_t most)
{
    return sim_chance(r, 500) ? 0 : sim_below(r, most + 1);
}

static void draw_network(struct sim_plan *plan, struct sim_random *r)
{
    struct rt_fault_config *net = &plan->network;
    static const uint16_t late[] = {0, 100, 500, 900};
    memset(net, 0, sizeof(*net));
    net->rate[RT_FAULT_REQUEST_LATE] = (uint16_t)(PICK(r, late) / 2);
    net->rate[RT_FAULT_REPLY_LATE] = (uint16_t)(PICK(r, late) / 2);
    net->event_late = PICK(r, late);
    if (sim_chance(r, 500)) { /* else slow, but nothing is lost */
        net->rate[RT_FAULT_REQUEST_LOST] = (uint16_t)rate(r, 40);
        net->rate[RT_FAULT_REPLY_LOST] = (uint16_t)rate(r, 60);
        net->rate[RT_FAULT_REQUEST_DOUBLED] = (uint16_t)rate(r, 50);
        net->event_lost = (uint16_t)rate(r, 50);
        net->event_doubled = (uint16_t)rate(r, 50);
        plan->stray = rate(r, 100);
    }
    const uint32_t most[] = {1, 20, plan->ttl_ms / 4, 2 * plan->ttl_ms};
    net->delay_min_ms = 0;
    net->delay_max_ms = PICK(r, most);
    net->events_overtake = sim_chance(r, 300);
}

static void draw_asks(struct sim_plan *plan, struct sim_random *r)
{
    plan->act[SIM_ACT_ASK] = 10;
    plan->act[SIM_ACT_ASK_ALL] = rate(r, 4);
    plan->act[SIM_ACT_RELEASE] = 4 + sim_below(r, 10);
    plan->act[SIM_ACT_CANCEL] = rate(r, 4);
    plan->act[SIM_ACT_DOWNGRADE] = rate(r, 4);
    plan->shared = rate(r, 900);
    plan->try = rate(r, 400);
    plan->limit = rate(r, 500);
    plan->hold = rate(r, 500);
    plan->at_least = rate(r, 150);
    plan->linger = rate(r, 800);
    plan->owned = rate(r, 1000);
    const uint32_t times[] = {2, 20, plan->ttl_ms / 3};
    plan->time_ms = PICK(r, times);
}

static void draw_trouble(struct sim_plan *plan, struct sim_random *r)
{
    if (sim_chance(r, 300))
        return;
    const uint32_t every[] = {plan->ttl_ms / 10, plan->ttl_ms, plan->ttl_ms * 3};
    plan->trouble_ms = PICK(r, every);
    for (int i = 0; i < SIM_TROUBLE_KINDS; i++)
        plan->trouble[i] = rate(r, 4);
}

/* Without beats nothing catches up on what a network lost: it is only slow, as file: is. */
static void draw_forever(struct sim_plan *plan)
{
    struct rt_fault_config *net = &plan->network;
    plan->forever = true;
    net->rate[RT_FAULT_REQUEST_LOST] = net->rate[RT_FAULT_REPLY_LOST] = 0;
    net->event_lost = 0;
    net->events_overtake = false;
    plan->stray = 0;
    plan->trouble[SIM_TROUBLE_RESET] = 0;
}

void sim_plan_draw(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t ttls[] = {100, 500, 3000, 10000}, calls[] = {30, 500, 5000};
    static const uint32_t limits[] = {1, 2, 5, 0, ROTA_NEVER}, passes[] = {1, 0, 200, 0};
    static const uint32_t paces[] = {50, 1000, 20000, 200000};
    memset(plan, 0, sizeof(*plan));
    plan->processes = 2 + sim_below(r, SIM_PROCESSES_MAX - 1);
    plan->clients = plan->processes + sim_below(r, SIM_CLIENTS_MAX - plan->processes + 1);
    plan->names = 1 + sim_below(r, SIM_NAMES_FEW);
    plan->owners = 1 + sim_below(r, 4);
    plan->jobs = 1 + sim_below(r, SIM_JOBS_FEW);
    for (uint32_t i = 0; i < plan->names; i++)
        plan->of[i] = sim_chance(r, 150) ? 1 + sim_below(r, 4) : 0;
    plan->ttl_ms = PICK(r, ttls);
    plan->call_ms = PICK(r, calls);
    plan->pass_limit = PICK(r, limits);
    plan->pass_ms = PICK(r, passes);
    plan->acts = 20 + sim_below(r, 120);
    plan->pace_us = PICK(r, paces);
    draw_asks(plan, r);
    draw_network(plan, r);
    draw_trouble(plan, r);
    struct sim_random aside = *r; /* so that seeds mean what they did before there was hunger */
    plan->starve = sim_chance(&aside, 150) ? 1 + sim_below(&aside, 100) : 0;
    if (plan->starve == 0 && sim_chance(&aside, 200))
        draw_forever(plan);
}

uint32_t sim_plan_of(const struct sim_plan *plan, uint32_t name)
{
    return name < SIM_NAMES_FEW ? plan->of[name] : 0;
}

void sim_plan_crowd(struct sim_plan *plan, struct sim_random *r)
{
    bool line = sim_chance(r, 500);
    plan->processes = 2;
    plan->clients = line ? SIM_CLIENTS_MAX : 2;
    plan->names = line ? 1 : SIM_NAMES_MAX;
    plan->jobs = line ? 13 : SIM_JOBS_MAX;
    plan->pass_limit = line ? ROTA_NEVER : plan->pass_limit; /* each has a place of its own */
    plan->acts = 600;
    plan->pace_us = 4 * plan->ttl_ms; /* over about two ttls */
    memset(plan->of, 0, sizeof(plan->of));
    plan->act[SIM_ACT_ASK] = 100;
    plan->act[SIM_ACT_RELEASE] = 10; /* what is held, and who waits, becomes more and more */
    plan->owned = plan->try = 0;
    plan->starve = 0;
    if (plan->trouble_ms !=
        0) /* what the dead leave in a line must not outgrow what the judge can see */
        plan->trouble_ms = plan->ttl_ms;
}

/* ---- Redis -------------------------------------------------------------- */

static void draw_wire(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t late[] = {0, 50, 300, 900};
    const uint32_t most[] = {200, 5000, plan->ttl_ms * 100, plan->ttl_ms * 1000};
    struct sim_wire *w = &plan->wire;
    memset(w, 0, sizeof(*w));
    w->late = PICK(r, late);
    w->late_us = PICK(r, most);
    if (sim_chance(r, 500))
        return; /* slow, but nothing is lost */
    w->request_lost = rate(r, 20);
    w->request_doubled = rate(r, 20);
    w->reply_lost = rate(r, 20);
    w->reply_doubled = rate(r, 20);
    w->push_lost = rate(r, 100);
    w->push_doubled = rate(r, 100);
    w->reset = rate(r, 20);
}

void sim_plan_draw_redis(struct sim_plan *plan, struct sim_random *r)
{
    const uint32_t every[] = {plan->ttl_ms / 4, plan->ttl_ms * 2, plan->ttl_ms * 8};
    plan->forever = false;
    if (plan->pace_us > plan->ttl_ms * 200) /* else nothing but beats */
        plan->pace_us = plan->ttl_ms * 200;
    plan->trouble[SIM_TROUBLE_KILL_SESSION] = 0; /* outages do that */
    draw_wire(plan, r);
    plan->replicated = sim_chance(r, 250);
    plan->clock_ppm = sim_chance(r, 500) ? 0 : (int32_t)sim_below(r, 12001) - 6000;
    if (sim_chance(r, 300))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
    if (sim_chance(r, 200)) { /* fails over, and little else happens */
        memset(plan->outage, 0, sizeof(plan->outage));
        plan->outage[SIM_OUTAGE_BEHIND] = 1;
        plan->outage_ms = plan->ttl_ms / 2;
        return;
    }
    if (sim_chance(r, 500)) { /* nothing is lost: all must hold */
        plan->outage[SIM_OUTAGE_EMPTY] = plan->outage[SIM_OUTAGE_BEHIND] = 0;
        plan->outage[SIM_OUTAGE_FORWARD] = 0;
    }
}

/* Nothing is lost there: everything must hold, whatever single nodes do. */
void sim_plan_draw_cluster(struct sim_plan *plan, struct sim_random *r)
{
    const uint32_t every[] = {plan->ttl_ms / 4, plan->ttl_ms, plan->ttl_ms * 4};
    memset(plan->outage, 0, sizeof(plan->outage));
    plan->outage_ms = 0;
    plan->replicated = false;
    if (sim_chance(r, 150))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_CLUSTER_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
    plan->outage[SIM_CLUSTER_MUTE] += 1;
    plan->outage[SIM_CLUSTER_SLOW] += 1;
}

/* Exclusive locks only. */
void sim_plan_draw_redlock(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t apart[] = {0, 5, 3000, 60000};
    const uint32_t every[] = {plan->ttl_ms / 8, plan->ttl_ms / 2, plan->ttl_ms * 2};
    plan->shared = plan->at_least = plan->linger = 0;
    plan->act[SIM_ACT_DOWNGRADE] = 0;
    memset(plan->of, 0, sizeof(plan->of));
    memset(plan->outage, 0, sizeof(plan->outage));
    plan->outage_ms = 0;
    plan->replicated = false;
    plan->apart_ms = PICK(r, apart);
    if (plan->wire.late_us > plan->ttl_ms * 50) /* else nothing is ever granted */
        plan->wire.late /= 30;
    if (sim_chance(r, 150))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_REDLOCK_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
    if (sim_chance(r, 800)) /* no lock ends before its time: all must hold */
        plan->outage[SIM_REDLOCK_FORWARD] = 0;
    if (sim_chance(r, 300)) { /* nodes forget, and little else happens */
        memset(plan->outage, 0, sizeof(plan->outage));
        plan->outage[SIM_REDLOCK_EMPTY] = plan->outage[SIM_REDLOCK_MUTE] = 1;
    }
}

/* ---- etcd --------------------------------------------------------------- */

static void draw_etcd_wire(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t rates[] = {0, 50, 300, 900};
    const uint32_t most[] = {200, 5000, 100000, plan->ttl_ms * 500};
    struct sim_wire *w = &plan->wire;
    memset(w, 0, sizeof(*w));
    w->late_us = PICK(r, most);
    w->late = PICK(r, rates) / (w->late_us > 10000 ? 30 : 1); /* else nothing is ever granted */
    w->slow_us = PICK(r, most);
    w->slow = PICK(r, rates) / (w->slow_us > 10000 ? 10 : 1);
    if (sim_chance(r, 500))
        return; /* slow, but nothing is lost */
    w->request_lost = rate(r, 20);
    w->reply_lost = rate(r, 20);
    w->reset = rate(r, 20);
}

void sim_plan_draw_etcd(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t ttls[] = {2000, 3000, 10000}, times[] = {2, 20, 700};
    static const uint32_t calls[] = {300, 1000, 5000};
    plan->call_ms = PICK(r, calls);
    plan->ttl_ms = PICK(r, ttls); /* whole seconds, and not less than etcd gives */
    const uint32_t every[] = {plan->ttl_ms / 10, plan->ttl_ms, plan->ttl_ms * 3};
    plan->forever = false;
    plan->time_ms = PICK(r, times);
    if (plan->pace_us > plan->ttl_ms * 50)
        plan->pace_us = plan->ttl_ms * 50;
    if (plan->trouble_ms != 0)
        plan->trouble_ms = PICK(r, every);
    draw_etcd_wire(plan, r);
    plan->clock_ppm = sim_chance(r, 500) ? 0 : (int32_t)sim_below(r, 12001) - 6000;
    plan->stale = rate(r, 1000);
    plan->expiry_late_ms = rate(r, plan->ttl_ms);
    plan->lies = sim_chance(r, 300);
    if (sim_chance(r, 300))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_ETCD_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
}

/* ---- SQL ---------------------------------------------------------------- */

static void draw_sql_wire(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t rates[] = {0, 50, 300, 900};
    const uint32_t most[] = {200, 5000, plan->ttl_ms * 20, plan->ttl_ms * 500};
    struct sim_wire *w = &plan->wire;
    memset(w, 0, sizeof(*w));
    w->late_us = PICK(r, most);
    w->late = PICK(r, rates) / (w->late_us > plan->ttl_ms * 15 ? 30 : 1);
    w->slow_us = PICK(r, most);
    w->slow = PICK(r, rates) / (w->slow_us > plan->ttl_ms * 15 ? 30 : 1);
    plan->deadlocks = rate(r, 50);
    if (sim_chance(r, 500))
        return; /* slow, but nothing is lost */
    w->request_lost = rate(r, 20);
    w->reply_lost = rate(r, 20);
    w->reset = rate(r, 30);
}

void sim_plan_draw_sql(struct sim_plan *plan, struct sim_random *r)
{
    const uint32_t every[] = {plan->ttl_ms / 4, plan->ttl_ms * 2, plan->ttl_ms * 8};
    plan->forever = false;
    if (plan->pace_us > plan->ttl_ms * 200) /* else nothing but beats */
        plan->pace_us = plan->ttl_ms * 200;
    draw_sql_wire(plan, r);
    plan->clock_ppm = sim_chance(r, 500) ? 0 : (int32_t)sim_below(r, 12001) - 6000;
    if (sim_chance(r, 300))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_SQL_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
    if (sim_chance(r, 500)) /* nothing is lost: all must hold */
        plan->outage[SIM_SQL_BEHIND] = plan->outage[SIM_SQL_FORWARD] = 0;
}

/* ---- ZooKeeper ---------------------------------------------------------- */

static void draw_zookeeper_wire(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t rates[] = {0, 50, 300, 900};
    const uint32_t most[] = {200, 5000, plan->tick_ms * 200, plan->ttl_ms * 400};
    struct sim_wire *w = &plan->wire;
    memset(w, 0, sizeof(*w));
    w->late_us = PICK(r, most);
    w->late = PICK(r, rates) / (w->late_us > 10000 ? 30 : 1); /* else nothing is ever granted */
    w->slow_us = PICK(r, most);
    w->slow = PICK(r, rates) / (w->slow_us > 10000 ? 30 : 1);
    if (sim_chance(r, 500))
        return; /* slow, but nothing is lost */
    w->request_lost = rate(r, 10);
    w->reply_lost = rate(r, 20);
    w->reset = rate(r, 10);
}

static void draw_dialect(struct sim_plan *plan, struct sim_random *r)
{
    plan->dialect = sim_chance(r, 700) ? 0 : 1 + sim_below(r, 3);
    if (plan->dialect == 0)
        return;
    memset(plan->of, 0, sizeof(plan->of)); /* it has no permits */
    plan->at_least = 0;
    if (plan->dialect == 3) /* nor readers */
        plan->shared = plan->act[SIM_ACT_DOWNGRADE] = 0;
}

void sim_plan_draw_zookeeper(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t ttls[] = {600, 2000, 10000}, times[] = {2, 20, 300};
    static const uint32_t calls[] = {300, 1000, 5000}, parts[] = {2, 3, 5, 10};
    plan->call_ms = PICK(r, calls);
    plan->ttl_ms = PICK(r, ttls);
    const uint32_t every[] = {plan->ttl_ms / 5, plan->ttl_ms, plan->ttl_ms * 3};
    plan->tick_ms = plan->ttl_ms / PICK(r, parts);
    plan->tick_told = plan->tick_ms > 2000 || sim_chance(r, 500); /* else it is taken for more */
    plan->servers = sim_chance(r, 850) ? 3 : 1;
    plan->forever = false;
    plan->time_ms = PICK(r, times);
    if (plan->pace_us > plan->ttl_ms * 50)
        plan->pace_us = plan->ttl_ms * 50;
    if (plan->trouble_ms != 0)
        plan->trouble_ms = PICK(r, every);
    draw_zookeeper_wire(plan, r);
    draw_dialect(plan, r);
    if (plan->shared > 0 && plan->act[SIM_ACT_DOWNGRADE] > 0)
        plan->at_least =
            0; /* its keeper stays exclusive, and readers hold beside it (docs/engines/zookeeper.md) */
    plan->wraps = sim_chance(r, 150);
    plan->clock_ppm = sim_chance(r, 500) ? 0 : (int32_t)sim_below(r, 12001) - 6000;
    if (sim_chance(r, 300))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_ZOOKEEPER_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
}

/* ---- file --------------------------------------------------------------- */

void sim_plan_draw_file(struct sim_plan *plan, struct sim_random *r)
{
    static const uint32_t late[] = {0, 50, 500}, preempted[] = {0, 5, 50, 200};
    const uint32_t most[] = {20, 1000, plan->ttl_ms * 100};
    const uint32_t every[] = {plan->ttl_ms / 4, plan->ttl_ms * 2, plan->ttl_ms * 8};
    struct sim_wire *w = &plan->wire;
    draw_forever(plan);
    memset(w, 0, sizeof(*w));
    plan->trouble[SIM_TROUBLE_CUT] = plan->trouble[SIM_TROUBLE_KILL_SESSION] = 0;
    plan->preempted = PICK(r, preempted);
    if (sim_chance(r, 300))
        return; /* many at once, and nothing bad happens */
    w->late = PICK(r, late);
    w->late_us = PICK(r, most);
    w->push_lost = rate(r, 300);
    plan->full = rate(r, 300);
    plan->dies = plan->trouble_ms != 0 ? rate(r, 10) : 0;
    if (sim_chance(r, 300))
        return;
    plan->outage_ms = PICK(r, every);
    for (int i = 0; i < SIM_FILE_OUTAGE_KINDS; i++)
        plan->outage[i] = rate(r, 4);
    if (plan->outage[SIM_FILE_DELETED] > 0) /* both: nobody can know who holds in the deleted one */
        plan->outage[SIM_FILE_TIDIED] = 0;
}
