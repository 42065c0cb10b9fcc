/* SPDX-License-Identifier: Apache-2.0 */
/* What befalls one of Redlock's nodes: it dies and comes back with its data or without, is mute or slow, its clock jumps, it
 * forgets its scripts, or refuses. */
#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/redlock/redlock.h"

#include <string.h>

static int64_t a_while(struct sim *sim)
{
    uint32_t ms = sim_chance(&sim->random, 500) ? sim->plan.ttl_ms / 10 : sim->plan.ttl_ms;
    return sim->now + 1 + sim_spread_ns(&sim->random, ms * 1000);
}

/* Fences keep growing despite losses while every majority has a node that has counted as far as anybody was told. */
static void look_at_fences(struct sim *sim)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        const struct sim_line *line = &sim->lines[i];
        highest = line->highest_told > highest ? line->highest_told : highest;
        highest = line->last_exclusive > highest ? line->last_exclusive : highest;
    }
    if (highest == 0 || sr_counted(highest) > SR_NODES - SR_MAJORITY)
        return;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        sim->lines[i].highest_told = sim->lines[i].last_exclusive = 0;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        sim->clients[i].gone_count = 0;
        for (uint32_t k = 0; k < SIM_NAMES_MAX; k++)
            sim->clients[i].tenures[k].retired = 0;
    }
}

static void restart(struct sim *sim, uint32_t node, bool empty)
{
    struct rs_server *s = &sr_world.nodes[node];
    int64_t until = sim_chance(&sim->random, 500) ? sim->now : a_while(sim);
    SIM_TRACE(sim, NULL, "node %u restarts and has %s", node + 1, empty ? "lost all" : "kept all");
    if (empty)
        sr_haunt(sim, node);
    rs_server_restart(s, empty ? RS_LOSES_ALL : RS_KEEPS_ALL, until);
    sim_counts.losses += empty;
    if (empty)
        look_at_fences(sim);
}

void sr_forget_fences(struct sim *sim)
{
    for (uint32_t i = 0; sim->now < sr_world.odd_until && i < sim->plan.names; i++)
        sim->lines[i].last_exclusive = 0;
}

static void jump(struct sim *sim, uint32_t node, bool back)
{
    struct rs_server *s = &sr_world.nodes[node];
    int64_t by_us = 1 + (a_while(sim) - sim->now) / 1000;
    SIM_TRACE(sim, NULL, "the clock of node %u jumps %s by %lld us", node + 1,
              back ? "back" : "forward", (long long)by_us);
    rs_server_jump(s, back ? -by_us : by_us);
    sim_counts.jumps++;
    if (back) {
        sim->back_ms += (uint32_t)(by_us / 1000) + 1;
        return;
    }
    sim_excuse_all(sim, true); /* its locks end early, and it seems to have been up for longer */
    sr_world.odd_until = sim->now + sim->plan.ttl_ms * RT_MS;
}

static void refuse(struct sim *sim, uint32_t node)
{
    static const char *const refusals[] = {
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "BUSY Redis is busy running a script.",
    };
    struct rs_server *s = &sr_world.nodes[node];
    if (sim_chance(&sim->random, 250)) {
        s->machine.full = !s->machine.full;
        SIM_TRACE(sim, NULL, "node %u's memory is %s", node + 1,
                  s->machine.full ? "full" : "enough again");
        return;
    }
    s->refusal = refusals[sim_below(&sim->random, 3)];
    s->busy_until = a_while(sim);
    SIM_TRACE(sim, NULL, "node %u refuses until %.6f: %s", node + 1, (double)s->busy_until / 1e9,
              s->refusal);
}

static void hinder(struct sim *sim, uint32_t which, bool mute)
{
    struct rs_node *node = &sr_world.nodes[which].nodes[0];
    int64_t until = a_while(sim);
    if (mute)
        node->mute_until = until;
    else
        node->slow_until = until;
    node->slow_ns = sim_spread_ns(&sim->random, sim->plan.ttl_ms * 150);
    SIM_TRACE(sim, NULL, "node %u is %s until %.6f", which + 1, mute ? "mute" : "slow",
              (double)until / 1e9);
}

void sr_outage(struct sim *sim)
{
    uint32_t node = sim_below(&sim->random, SR_NODES);
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_REDLOCK_OUTAGE_KINDS)) {
    case SIM_REDLOCK_RESTART:
        restart(sim, node, false);
        break;
    case SIM_REDLOCK_EMPTY:
        restart(sim, node, true);
        break;
    case SIM_REDLOCK_MUTE:
        hinder(sim, node, true);
        break;
    case SIM_REDLOCK_SLOW:
        hinder(sim, node, false);
        break;
    case SIM_REDLOCK_FORWARD:
        jump(sim, node, false);
        break;
    case SIM_REDLOCK_BACK:
        jump(sim, node, true);
        break;
    case SIM_REDLOCK_SCRIPTS:
        SIM_TRACE(sim, NULL, "node %u forgets its scripts", node + 1);
        sr_world.nodes[node].machine.script_count = 0;
        break;
    case SIM_REDLOCK_REFUSES:
        refuse(sim, node);
        break;
    default:
        break;
    }
}

void sr_heal(struct sim *sim)
{
    sim->net->faults = (struct sim_wire){0};
    for (uint32_t i = 0; i < SR_NODES; i++) {
        struct rs_server *s = &sr_world.nodes[i];
        s->machine.full = false;
        s->down_until = s->busy_until = 0;
        memset(s->nodes, 0, sizeof(s->nodes));
    }
}
