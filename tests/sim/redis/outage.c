/* SPDX-License-Identifier: Apache-2.0 */
/* What befalls a model Redis: restarts that forget or do not, a stale replica promoted, a clock that
 * jumps, scripts forgotten, listeners cut off, refusals. */
#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/invariants.h"
#include "sim/redis/kind.h"
#include "sim/redis/truth.h"
#include "sim/world.h"

#include <string.h>

/* ---- Losses ------------------------------------------------------------- */

/* Fences keep growing after a loss, unless both the counter and the clock are behind what was numbered. */
static void look_at_fences(struct sim *sim)
{
    uint64_t counter = sim_truth_counter(sim->redis);
    if (counter >= sim->highest_number)
        sim->highest_number = counter;
    else if ((uint64_t)rs_server_clock(sim->redis) <= sim->highest_number)
        for (uint32_t i = 0; i < sim->plan.names; i++)
            sim->lines[i].highest_told = 0;
}

bool sim_redis_fences_grow(const struct sim *sim)
{
    return sim_truth_counter(sim->redis) >= sim->highest_number ||
           (uint64_t)rs_server_clock(sim->redis) > sim->highest_number;
}

/* With ?replicas=1: whatever anybody was told that it holds is on the replica. */
static void check_replica(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        for (const struct sim_job *job = c->open ? c->jobs : NULL; job != NULL; job = job->next) {
            struct sim_place place;
            const char *name = sim->lines[job->name].name;
            if (!sim_believes(sim, job))
                continue;
            if (!sim_world_find(sim, name, job->ask.fence, &place) || !place.granted)
                sim_violated(sim, "replicas",
                             "c%u was told it holds %s by %llu before the replica knew", c->index,
                             name, (unsigned long long)job->ask.fence);
        }
    }
}

static void lose(struct sim *sim, enum rs_loss loss, int64_t until)
{
    look_at_fences(sim);
    rs_server_restart(sim->redis, loss, until);
    sim->promote_at = 0; /* the replica begins anew */
    if (sim->plan.replicated && loss == RS_LOSES_LAST)
        check_replica(sim);
    sim_excuse_all(sim, false);
    sim_harm(sim, sim->now);
    sim_counts.losses++;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        sim->lines[i].last_exclusive = 0; /* an old holder stands there again until it is told */
    look_at_fences(sim);
}

/* ---- Outages ------------------------------------------------------------ */

static int64_t a_while(struct sim *sim)
{
    uint32_t ms = sim_chance(&sim->random, 500) ? sim->plan.ttl_ms / 10 : sim->plan.ttl_ms;
    return sim->now + 1 + sim_spread_ns(&sim->random, ms * 1000);
}

static int64_t down_time(struct sim *sim)
{
    return sim_chance(&sim->random, 500) ? sim->now : a_while(sim);
}

static void refuse(struct sim *sim)
{
    static const char *const refusals[] = {
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "BUSY Redis is busy running a script.",
    };
    struct rs_server *s = sim->redis;
    if (sim_chance(&sim->random, 250)) {
        s->machine.full = !s->machine.full;
        SIM_TRACE(sim, NULL, "Redis' memory is %s", s->machine.full ? "full" : "enough again");
        return;
    }
    s->refusal = refusals[sim_below(&sim->random, 4)];
    s->busy_until = a_while(sim);
    SIM_TRACE(sim, NULL, "Redis refuses until %.6f: %s", (double)s->busy_until / 1e9, s->refusal);
}

static void fall_behind(struct sim *sim)
{
    if (sim->promote_at != 0)
        return;
    rs_server_keep(sim->redis);
    sim->promote_at = a_while(sim);
    SIM_TRACE(sim, NULL, "the replica of Redis falls behind until %.6f",
              (double)sim->promote_at / 1e9);
}

static void jump(struct sim *sim, bool back)
{
    int64_t by_us = 1 + (a_while(sim) - sim->now) / 1000;
    SIM_TRACE(sim, NULL, "the clock of Redis jumps %s by %lld us", back ? "back" : "forward",
              (long long)by_us);
    rs_server_jump(sim->redis, back ? -by_us : by_us);
    sim_counts.jumps++;
    look_at_fences(sim);
    if (back)
        sim->back_ms += (uint32_t)(by_us / 1000) + 1;
    else
        sim_excuse_all(sim, true);
}

void sim_redis_outage(struct sim *sim)
{
    struct rs_server *s = sim->redis;
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_OUTAGE_KINDS)) {
    case SIM_OUTAGE_RESTART:
        SIM_TRACE(sim, NULL, "Redis restarts and has kept all");
        rs_server_restart(s, RS_KEEPS_ALL, down_time(sim));
        break;
    case SIM_OUTAGE_EMPTY:
        SIM_TRACE(sim, NULL, "Redis restarts and has lost all");
        lose(sim, RS_LOSES_ALL, down_time(sim));
        break;
    case SIM_OUTAGE_BEHIND:
        fall_behind(sim);
        break;
    case SIM_OUTAGE_FORWARD:
        jump(sim, false);
        break;
    case SIM_OUTAGE_BACK:
        jump(sim, true);
        break;
    case SIM_OUTAGE_SCRIPTS:
        SIM_TRACE(sim, NULL, "Redis forgets its scripts");
        s->machine.script_count = 0;
        break;
    case SIM_OUTAGE_LISTENERS:
        SIM_TRACE(sim, NULL, "Redis cuts off who listens");
        rs_server_kill_listeners(s);
        break;
    case SIM_OUTAGE_REFUSES:
        refuse(sim);
        break;
    default:
        break;
    }
}

/* One node is mute, or late: the others go on. */
static void hinder_node(struct sim *sim, bool mute)
{
    uint32_t which = sim_below(&sim->random, RS_NODES);
    struct rs_node *node = &sim->redis->nodes[which];
    int64_t until = a_while(sim);
    if (mute)
        node->mute_until = until;
    else
        node->slow_until = until;
    node->slow_ns = sim_spread_ns(&sim->random, sim->plan.ttl_ms * 150);
    SIM_TRACE(sim, NULL, "node %u of Redis is %s until %.6f", which + 1, mute ? "mute" : "slow",
              (double)until / 1e9);
}

void sim_cluster_outage(struct sim *sim)
{
    struct rs_server *s = sim->redis;
    uint32_t node;
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_CLUSTER_OUTAGE_KINDS)) {
    case SIM_CLUSTER_MUTE:
        hinder_node(sim, true);
        break;
    case SIM_CLUSTER_SLOW:
        hinder_node(sim, false);
        break;
    case SIM_CLUSTER_RESTART:
        node = sim_below(&sim->random, RS_NODES);
        SIM_TRACE(sim, NULL, "node %u of Redis restarts and has kept all", node + 1);
        rs_server_restart_node(s, node);
        break;
    case SIM_CLUSTER_SCRIPTS:
        SIM_TRACE(sim, NULL, "Redis forgets its scripts");
        s->machine.script_count = 0;
        break;
    case SIM_CLUSTER_LISTENERS:
        SIM_TRACE(sim, NULL, "Redis cuts off who listens");
        rs_server_kill_listeners(s);
        break;
    case SIM_CLUSTER_REFUSES:
        refuse(sim);
        break;
    default:
        break;
    }
}

void sim_redis_go_on(struct sim *sim)
{
    if (sim->promote_at == 0 || sim->promote_at > sim->now)
        return;
    sim->promote_at = 0;
    SIM_TRACE(sim, NULL, "Redis is lost, and goes on as it was earlier");
    lose(sim, RS_LOSES_LAST, down_time(sim));
}

void sim_redis_heal(struct sim *sim)
{
    struct rs_server *s = sim->redis;
    s->net->faults = (struct sim_wire){0};
    s->machine.full = false;
    s->net->down_until = s->busy_until = 0;
    memset(s->nodes, 0, sizeof(s->nodes));
    s->has_earlier = false;
    sim->promote_at = 0;
}
