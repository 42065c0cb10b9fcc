/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over Redlock and five model Redis servers, each with a machine and a clock of its own. */
#include "sim/calm.h"
#include "sim/invariants.h"
#include "sim/redlock/redlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sr_world sr_world;

#define HOUR_US INT64_C(3600000000)

static void trace(const struct sim *sim, const struct rs_server *s, size_t argc,
                  const struct rs_text *argv, const struct rs_buffer *reply)
{
    char text[300] = "", answer[120];
    size_t n = 0, m = reply->n < sizeof(answer) ? reply->n : sizeof(answer) - 1;
    const char *name = "?";
    for (int i = 0; i < RT_REDLOCK_SCRIPTS; i++)
        if (rs_text_equals(argv[1], (struct rs_text){rt_redlock_texts[i][0].sha1, 40}) ||
            argv[1].n == rt_redlock_texts[i][0].length)
            name = rt_redlock_texts[i][0].name;
    for (size_t i = 3; i < argc && n < sizeof(text) - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %.*s", (int)argv[i].n, argv[i].at);
    for (size_t i = 0; i < m; i++)
        answer[i] = reply->at[i] < ' ' ? ' ' : reply->at[i];
    answer[m] = '\0';
    sim_trace(sim, NULL, "  node %u: %s%s -> %s", (unsigned)(s - sr_world.nodes) + 1, name, text,
              answer);
}

static void on_after(struct rs_server *s, size_t argc, const struct rs_text *argv,
                     const struct rs_buffer *reply)
{
    struct sim *sim = s->user;
    sim_counts.scripts++;
    if (sim->tracing && argc > 4)
        trace(sim, s, argc, argv, reply);
    sr_forget_fences(sim);
    sim_check_lines(sim, 0);
}

static void on_open(struct sim *sim)
{
    static struct rs_server nodes[SR_NODES];
    struct sim_random aside = sim->random;
    sim_plan_draw_redis(&sim->plan, &aside);
    sim_plan_draw_redlock(&sim->plan, &aside);
    memset(&sr_world, 0, sizeof(sr_world));
    sr_forget_orphans();
    sr_world.nodes = nodes;
    rs_servers_open(nodes, SR_NODES, sim_next(&aside));
    nodes[0].net->faults = sim->plan.wire;
    rs_server_run(&nodes[0], sim->now);
    for (uint32_t i = 0; i < SR_NODES; i++) {
        int64_t apart_us = (int64_t)sim->plan.apart_ms * 1000;
        if (sim->plan.clock_ppm != 0)
            nodes[i].clock_ppm = (int32_t)sim_below(&aside, 12001) - 6000;
        rs_server_jump(&nodes[i],
                       (int64_t)(sim_next(&aside) % (uint64_t)(2 * apart_us + 1)) - apart_us);
        nodes[i].started_us = rs_server_clock(&nodes[i]) - HOUR_US;
        nodes[i].after = on_after;
        nodes[i].user = sim;
    }
    sim->net = nodes[0].net;
}

static void on_close(struct sim *sim)
{
    (void)sim;
    for (uint32_t i = SR_NODES; i-- > 0;) {
        rs_server_close(&sr_world.nodes[i]);
        rs_store_clear(&sr_world.ghosts[i].store);
    }
}

static const char *url(const struct sim_client *c)
{
    static char text[160];
    snprintf(text, sizeof(text),
             "redlock://127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5/?max_ttl=%ums",
             c->sim->plan.ttl_ms);
    return text;
}

static void sweep(struct sim *sim)
{
    rs_server_run(&sr_world.nodes[0], sim->now);
    for (uint32_t i = 0; i < SR_NODES; i++)
        rs_machine_expire(&sr_world.nodes[i].machine);
}

static void expire(struct sim *sim, int64_t ms)
{
    rs_server_run(&sr_world.nodes[0], sim->now);
    for (uint32_t i = 0; i < SR_NODES; i++) {
        struct rs_server *s = &sr_world.nodes[i];
        rs_server_jump(s, s->clock_most - rs_server_clock(s) + ms * 1000 + 1000);
    }
    sweep(sim);
}

static size_t left(const struct sim *sim)
{
    (void)sim;
    return sr_left();
}

static void run(struct sim *sim)
{
    rs_server_run(&sr_world.nodes[0], sim->now);
    sr_check_orphans(sim);
}

static int64_t next(const struct sim *sim)
{
    return sim_net_next(sim->net);
}

const struct sim_kind sim_redlock = {
    .name = "redlock",
    .late = true,
    .to_deadline = true,
    .open = on_open,
    .close = on_close,
    .look = sr_look,
    .session = sr_session,
    .sweep = sweep,
    .expire = expire,
    .left = left,
    .dump = sr_dump,
    .url = url,
    .run = run,
    .next = next,
    .outage = sr_outage,
    .heal = sr_heal,
};
