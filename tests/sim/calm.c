/* SPDX-License-Identifier: Apache-2.0 */
/* How soon those who have to know something must have been told. */
#include "sim/calm.h"

#include "sim/world.h"

void sim_harm(struct sim *sim, int64_t until)
{
    if (until > sim->harmed_until)
        sim->harmed_until = until;
}

int64_t sim_steps_ns(const struct sim_wire *w, int64_t n)
{
    return 10 * RT_MS +
           n * 1000 * ((int64_t)(w->late > 0 ? w->late_us : 0) + (w->slow > 0 ? w->slow_us : 0));
}

/* The last moment at which something bad happened, or will; 0: none did. */
static int64_t harmed_until(const struct sim *sim)
{
    int64_t until = sim->harmed_until;
    if (sim->net != NULL && sim->net->harmed_at > until)
        until = sim->net->harmed_at;
    int64_t kinds = sim->kind->harmed_until != NULL ? sim->kind->harmed_until(sim) : 0;
    return kinds > until ? kinds : until;
}

/* A client that heard nothing asks again: when its patience with an answer ends, on a new connection, or with the next
 * beat; and a clock that was set back may have to catch up first. */
static int64_t recovery(const struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    return ((int64_t)plan->ttl_ms + 2 * (int64_t)plan->call_ms + 1000 + sim->back_ms) * RT_MS;
}

bool sim_is_calm(const struct sim *sim)
{
    int64_t harmed = harmed_until(sim);
    bool hungry = sim->plan.starve > 0 && !sim->healing;
    return !hungry && (harmed == 0 || (harmed != RT_NEVER && sim->now > harmed + recovery(sim)));
}

int64_t sim_told_by(const struct sim *sim, int64_t since)
{
    int64_t within = sim->kind->wakes_within != NULL ? sim->kind->wakes_within(sim) : 0;
    int64_t harmed = harmed_until(sim);
    if (within == 0 || harmed == RT_NEVER || (sim->plan.starve > 0 && !sim->healing))
        return RT_NEVER;
    int64_t by = since + within;
    int64_t again = harmed > 0 ? harmed + within + recovery(sim) : 0;
    return again > by ? again : by;
}

int64_t sim_wanted_by(const struct sim *sim, int64_t since)
{
    int64_t by = sim_told_by(sim, since);
    int64_t lost_at = sim->kind->wanted_lost_at != NULL ? sim->kind->wanted_lost_at(sim) : 0;
    if (by != RT_NEVER && lost_at > since)
        by = sim_told_by(sim, lost_at);
    return by == RT_NEVER || !sim->kind->wanted_by_beat ? by : by + sim->plan.ttl_ms / 2 * RT_MS;
}
