/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over a dialect of Redis, token, and one model server: whoever waits asks again, and the server
 * knows only keys. */
#include "engine/redis/dialect/dialect.h"
#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/invariants.h"
#include "sim/redis/server.h"
#include "sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN 32
#define COUNTER RS_TEXT("rota:{f}")

static struct rs_server server;

/* ---- What the server has -------------------------------------------------- */

struct seen {
    uint64_t session, nonce, number;
    int64_t ends; /* virtual */
};

static uint64_t hex(const char *at)
{
    char digits[17];
    snprintf(digits, sizeof(digits), "%.16s", at);
    return strtoull(digits, NULL, 16);
}

static bool read_key(const struct sim *sim, const struct rs_key *key, struct seen *out)
{
    if (key == NULL || key->type != RS_STRING || key->entries[0].value.n <= TOKEN)
        return false;
    const char *value = key->entries[0].value.at;
    *out = (struct seen){.session = hex(value),
                         .nonce = hex(value + 16),
                         .number = strtoull(value + TOKEN + 1, NULL, 10),
                         .ends = rs_server_when(&server, key->ends_us)};
    return out->ends > sim->now;
}

static bool find(const struct sim *sim, const char *name, struct seen *out)
{
    return read_key(sim, rs_store_find(&server.machine.store, (struct rs_text){name, strlen(name)}),
                    out);
}

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    struct seen s;
    if (most == 0 || !find(sim, name, &s))
        return 0;
    *out = (struct sim_place){.number = s.number,
                              .nonce = s.nonce,
                              .session = s.session,
                              .mode = RT_EXCLUSIVE,
                              .granted = true};
    return 1;
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    struct seen s;
    *ends = RT_NEVER; /* it is the client's own */
    if (name == NULL)
        return true;
    if (!find(sim, name, &s) || s.session != id)
        return false;
    *ends = s.ends;
    return true;
}

static size_t left(const struct sim *sim)
{
    size_t n = 0;
    (void)sim;
    for (size_t k = 0; k < server.machine.store.count; k++)
        n += !rs_text_equals(server.machine.store.keys[k].name, COUNTER);
    return n;
}

static void dump(const struct sim *sim)
{
    sim_trace(sim, NULL, "redis: clock %" PRId64, rs_server_clock(&server));
    for (size_t k = 0; k < server.machine.store.count; k++) {
        const struct rs_key *key = &server.machine.store.keys[k];
        sim_trace(sim, NULL, "redis: %.*s '%.*s' until %" PRId64, (int)key->name.n, key->name.at,
                  (int)key->entries[0].value.n, key->entries[0].value.at, key->ends_us);
    }
}

/* ---- The world -------------------------------------------------------------- */

static void trace(const struct sim *sim, size_t argc, const struct rs_text *argv,
                  const struct rs_buffer *reply)
{
    char text[300] = "", answer[120];
    size_t n = 0, m = reply->n < sizeof(answer) ? reply->n : sizeof(answer) - 1;
    const char *name = "?";
    for (int i = 0; i < RT_DIA_SCRIPTS; i++)
        if (rs_text_equals(argv[1], (struct rs_text){rt_dia_texts[i][0].sha1, 40}) ||
            argv[1].n == rt_dia_texts[i][0].length)
            name = rt_dia_texts[i][0].name;
    for (size_t i = 3; i < argc && n < sizeof(text) - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %.*s", (int)argv[i].n, argv[i].at);
    for (size_t i = 0; i < m; i++)
        answer[i] = reply->at[i] < ' ' ? ' ' : reply->at[i];
    answer[m] = '\0';
    sim_trace(sim, NULL, "  redis: %s%s -> %s", name, text, answer);
}

/* Fences keep growing, unless both the counter and the clock are behind what was numbered; even if that is passed on in
 * a process that has not heard yet. */
static void look_at_fences(struct sim *sim)
{
    const struct rs_key *key = rs_store_find(&server.machine.store, COUNTER);
    uint64_t counter = key != NULL ? strtoull(key->entries[0].value.at, NULL, 10) : 0;
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        struct sim_line *line = &sim->lines[i];
        if (counter < line->highest_told &&
            (uint64_t)rs_server_clock(&server) <= line->highest_told)
            line->highest_told = 0;
    }
}

static void on_after(struct rs_server *s, size_t argc, const struct rs_text *argv,
                     const struct rs_buffer *reply)
{
    struct sim *sim = s->user;
    sim_counts.scripts++;
    if (sim->tracing && argc > 4)
        trace(sim, argc, argv, reply);
    look_at_fences(sim);
    sim_check_lines(sim, 0);
}

static void on_open(struct sim *sim)
{
    struct sim_random aside = sim->random;
    sim_plan_draw_redis(&sim->plan, &aside);
    sim_plan_draw_redlock(&sim->plan,
                          &aside); /* what befalls one node there befalls the only one here */
    rs_servers_open(&server, 1, sim_next(&aside));
    server.net->faults = sim->plan.wire;
    server.clock_ppm = sim->plan.clock_ppm;
    server.after = on_after;
    server.user = sim;
    rs_server_run(&server, sim->now);
    sim->net = server.net;
}

static void on_close(struct sim *sim)
{
    (void)sim;
    rs_server_close(&server);
}

static const char *url(const struct sim_client *c)
{
    (void)c;
    return "redis://127.0.0.1/?dialect=token";
}

static void sweep(struct sim *sim)
{
    rs_server_run(&server, sim->now);
    rs_machine_expire(&server.machine);
}

static void expire(struct sim *sim, int64_t ms)
{
    rs_server_run(&server, sim->now);
    rs_server_jump(&server, server.clock_most - rs_server_clock(&server) + ms * 1000 + 1000);
    sweep(sim);
}

static void run(struct sim *sim)
{
    rs_server_run(&server, sim->now);
}

static int64_t next(const struct sim *sim)
{
    return sim_net_next(sim->net);
}

/* ---- Outages ------------------------------------------------------------------ */

static int64_t a_while(struct sim *sim)
{
    uint32_t ms = sim_chance(&sim->random, 500) ? sim->plan.ttl_ms / 10 : sim->plan.ttl_ms;
    return sim->now + 1 + sim_spread_ns(&sim->random, ms * 1000);
}

static void restart(struct sim *sim, bool empty)
{
    int64_t until = sim_chance(&sim->random, 500) ? sim->now : a_while(sim);
    SIM_TRACE(sim, NULL, "Redis restarts and has %s", empty ? "lost all" : "kept all");
    rs_server_restart(&server, empty ? RS_LOSES_ALL : RS_KEEPS_ALL, until);
    if (!empty)
        return;
    sim_counts.losses++;
    sim_excuse_all(sim, false);
    sim_harm(sim, sim->now);
    for (uint32_t i = 0; i < sim->plan.names; i++)
        sim->lines[i].last_exclusive = 0; /* an old holder believes until it is told */
    look_at_fences(sim);
}

static void jump(struct sim *sim, bool back)
{
    int64_t by_us = 1 + (a_while(sim) - sim->now) / 1000;
    SIM_TRACE(sim, NULL, "the clock of Redis jumps %s by %lld us", back ? "back" : "forward",
              (long long)by_us);
    rs_server_jump(&server, back ? -by_us : by_us);
    sim_counts.jumps++;
    look_at_fences(sim);
    if (back)
        sim->back_ms += (uint32_t)(by_us / 1000) + 1;
    else
        sim_excuse_all(sim, true); /* its locks end early */
}

static void refuse(struct sim *sim)
{
    static const char *const refusals[] = {
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "BUSY Redis is busy running a script.",
    };
    if (sim_chance(&sim->random, 250)) {
        server.machine.full = !server.machine.full;
        SIM_TRACE(sim, NULL, "Redis' memory is %s", server.machine.full ? "full" : "enough again");
        return;
    }
    server.refusal = refusals[sim_below(&sim->random, 3)];
    server.busy_until = a_while(sim);
    SIM_TRACE(sim, NULL, "Redis refuses until %.6f: %s", (double)server.busy_until / 1e9,
              server.refusal);
}

static void hinder(struct sim *sim, bool mute)
{
    struct rs_node *node = &server.nodes[0];
    int64_t until = a_while(sim);
    if (mute)
        node->mute_until = until;
    else
        node->slow_until = until;
    node->slow_ns = sim_spread_ns(&sim->random, sim->plan.ttl_ms * 150);
    SIM_TRACE(sim, NULL, "Redis is %s until %.6f", mute ? "mute" : "slow", (double)until / 1e9);
}

static void outage(struct sim *sim)
{
    uint32_t which = sim_pick_weighted(sim, sim->plan.outage, SIM_REDLOCK_OUTAGE_KINDS);
    if (which == SIM_REDLOCK_RESTART || which == SIM_REDLOCK_EMPTY)
        restart(sim, which == SIM_REDLOCK_EMPTY);
    else if (which == SIM_REDLOCK_MUTE || which == SIM_REDLOCK_SLOW)
        hinder(sim, which == SIM_REDLOCK_MUTE);
    else if (which == SIM_REDLOCK_FORWARD || which == SIM_REDLOCK_BACK)
        jump(sim, which == SIM_REDLOCK_BACK);
    else if (which == SIM_REDLOCK_SCRIPTS)
        server.machine.script_count = 0;
    else if (which == SIM_REDLOCK_REFUSES)
        refuse(sim);
}

static void heal(struct sim *sim)
{
    sim->net->faults = (struct sim_wire){0};
    server.machine.full = false;
    server.down_until = server.busy_until = 0;
    memset(server.nodes, 0, sizeof(server.nodes));
}

const struct sim_kind sim_token = {
    .name = "token",
    .late = true,
    .to_deadline = true,
    .open = on_open,
    .close = on_close,
    .look = look,
    .session = session,
    .sweep = sweep,
    .expire = expire,
    .left = left,
    .dump = dump,
    .url = url,
    .run = run,
    .next = next,
    .outage = outage,
    .heal = heal,
};
