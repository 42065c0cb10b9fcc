/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over the engine redis and a model Redis (server.h), one server or a cluster. */
#include "sim/redis/kind.h"

#include "sim/calm.h"
#include "sim/redis/truth.h"
#include "sim/world.h"

static void open_world(struct sim *sim, bool cluster)
{
    static struct rs_server redis;
    struct sim_random aside = sim->random;
    sim_plan_draw_redis(&sim->plan, &aside);
    if (cluster)
        sim_plan_draw_cluster(&sim->plan, &aside);
    rs_server_open(&redis, sim_next(&aside), sim->plan.clock_ppm);
    redis.cluster = cluster;
    redis.net->faults = sim->plan.wire;
    rs_server_run(&redis, sim->now);
    sim->redis = &redis;
    sim->net = redis.net;
    sim_redis_watch(sim);
}

static void open_single(struct sim *sim)
{
    open_world(sim, false);
}

static void open_cluster(struct sim *sim)
{
    open_world(sim, true);
}

static void on_close(struct sim *sim)
{
    rs_server_close(sim->redis);
}

static const char *url(const struct sim_client *c)
{
    return c->sim->plan.replicated ? "redis://127.0.0.1:6379/?replicas=1"
                                   : "redis://127.0.0.1:6379/";
}

static const char *url_of_cluster(const struct sim_client *c)
{
    (void)c;
    return "redis://127.0.0.1:6379,127.0.0.2:6379,127.0.0.3:6379/";
}

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    return sim_truth_look(sim->redis, name, out, most);
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    return sim_truth_session(sim->redis, id, name, ends);
}

static void sweep(struct sim *sim)
{
    rs_server_run(sim->redis, sim->now);
    sim_truth_sweep(sim->redis);
}

static void expire(struct sim *sim, int64_t ms)
{
    rs_server_run(sim->redis, sim->now);
    rs_server_jump(sim->redis,
                   sim->redis->clock_most - rs_server_clock(sim->redis) + ms * 1000 + 1000);
    sim_truth_sweep(sim->redis);
}

static size_t left(const struct sim *sim)
{
    return sim_truth_left(sim->redis);
}

static void dump_key(const void *arg, const char *text)
{
    sim_trace(arg, NULL, "redis %s", text);
}

static void dump(const struct sim *sim)
{
    sim_truth_dump(sim->redis, dump_key, sim);
    for (struct sim_conn *c = sim->net->conns; c != NULL; c = c->next)
        for (size_t i = 0; c->served && i < rs_conn_of(c)->channel_count; i++)
            sim_trace(sim, NULL, "redis tells %.*s", (int)rs_conn_of(c)->channels[i].n,
                      rs_conn_of(c)->channels[i].at);
}

static void run(struct sim *sim)
{
    rs_server_run(sim->redis, sim->now);
    sim_redis_go_on(sim);
}

static int64_t next(const struct sim *sim)
{
    int64_t at = sim_net_next(sim->net);
    return sim->promote_at != 0 && sim->promote_at < at ? sim->promote_at : at;
}

static int64_t wakes_within(const struct sim *sim)
{
    return sim_steps_ns(&sim->plan.wire, 30);
}

static int64_t harmed_until(const struct sim *sim)
{
    const struct rs_server *s = sim->redis;
    int64_t until = s->net->down_until > s->busy_until ? s->net->down_until : s->busy_until;
    if (s->machine.full)
        return RT_NEVER;
    for (uint32_t i = 0; i < RS_NODES; i++) {
        const struct rs_node *n = &s->nodes[i];
        int64_t ends = n->mute_until > n->slow_until ? n->mute_until : n->slow_until;
        until = ends > until ? ends : until;
    }
    return sim->promote_at > until ? sim->promote_at : until;
}

const struct sim_kind sim_redis = {
    .name = "redis",
    .wanted_by_beat = true,
    .open = open_single,
    .close = on_close,
    .look = look,
    .session = session,
    .sweep = sweep,
    .expire = expire,
    .left = left,
    .dump = dump,
    .wakes_within = wakes_within,
    .harmed_until = harmed_until,
    .url = url,
    .run = run,
    .next = next,
    .outage = sim_redis_outage,
    .heal = sim_redis_heal,
    .fences_grow = sim_redis_fences_grow,
};

const struct sim_kind sim_cluster = {
    .name = "cluster",
    .wanted_by_beat = true,
    .open = open_cluster,
    .close = on_close,
    .look = look,
    .session = session,
    .sweep = sweep,
    .expire = expire,
    .left = left,
    .dump = dump,
    .wakes_within = wakes_within,
    .harmed_until = harmed_until,
    .url = url_of_cluster,
    .run = run,
    .next = next,
    .outage = sim_cluster_outage,
    .heal = sim_redis_heal,
};
