/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of ?also=token: Rota's line and, at its front, the key of redis-py and its like, on one model Redis;
 * and somebody foreign who takes those keys by SET NX PX, and gives them back or dies with them. A ticket
 * holds here if it is at the front *and* the key is its own; the key of a ticket that is no longer in the
 * line still stands. */
#include "sim/redis/kind.h"
#include "engine/also/also.h"
#include "sim/redis/truth.h"
#include "sim/world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTER "rota:{f}"
#define FOREIGN "foreign" /* what the others' tokens begin with */
#define ROTAS_TOKEN 32    /* digits, then " NUMBER OWNER ..." */
#define NOBODY UINT64_MAX /* the session of a key that no ticket stands behind */

static struct { /* somebody foreign, one per name */
    char token[32];
    bool holds;
    int64_t at; /* when it acts */
} others[SIM_NAMES_MAX];
static struct { /* which key a ticket was first seen to hold */
    uint64_t owner, number;
} held[SIM_NAMES_MAX];
static uint64_t losses,
    floor_us; /* a loss may bring back what was given back: earlier keys do not count */
static struct sim_random dice;
static uint64_t tokens;

/* ---- The keys -------------------------------------------------------------- */

struct key {
    bool there, rotas;
    uint64_t number, owner; /* Rota's: its own, and the ticket of the line that it is for */
    int64_t ends;           /* virtual */
};

static struct key find(const struct sim *sim, const char *name)
{
    const struct rs_key *k = rs_store_find(&sim->redis->machine.store,
                                           (struct rs_text){name, strlen(name)});
    struct key key = {0};
    if (k == NULL || k->type != RS_STRING || k->ends_us == 0)
        return key;
    key.ends = rs_server_when(sim->redis, k->ends_us);
    key.there = key.ends > sim->now;
    const char *value = k->entries[0].value.at;
    key.rotas = k->entries[0].value.n > ROTAS_TOKEN && memcmp(value, FOREIGN, strlen(FOREIGN)) != 0;
    if (key.rotas) {
        char *at;
        key.number = strtoull(value + ROTAS_TOKEN, &at, 10);
        key.owner = strtoull(at, NULL, 10);
    }
    return key;
}

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    size_t n = sim_truth_look(sim->redis, name, out, most);
    struct key key = find(sim, name);
    uint32_t line = 0;
    if (losses != sim_counts.losses)
        floor_us = (uint64_t)sim->redis->clock_most;
    losses = sim_counts.losses;
    while (line < sim->plan.names - 1 && strcmp(sim->lines[line].name, name) != 0)
        line++;
    bool known = key.number != held[line].number ||
                 key.number <= floor_us; /* taken by something late: it ends by its ttl */
    for (size_t i = 0; i < n; i++) {
        bool its = key.there && key.rotas && key.owner == out[i].number;
        if (its && out[i].granted && held[line].owner != key.owner) {
            held[line].owner = key.owner;
            held[line].number = key.number;
        }
        /* It stands behind others only after a loss, which brought back tickets that were gone. */
        known = known || its || out[i].number < key.owner;
        out[i].granted = out[i].granted && its;
    }
    if (known || !key.there || !key.rotas || n == most)
        return n;
    memmove(out + 1, out, n * sizeof(*out));
    out[0] = (struct sim_place){
        .number = key.owner, .session = NOBODY, .mode = RT_SHARED, .granted = true};
    return n + 1;
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    if (id == NOBODY)
        return false;
    if (!sim_truth_session(sim->redis, id, name, ends))
        return false;
    if (name == NULL)
        return true;
    struct key key = find(sim, name);
    if (!key.there || !key.rotas)
        return false;
    *ends = key.ends < *ends ? key.ends : *ends;
    return true;
}

static size_t left(const struct sim *sim)
{
    const struct rs_store *s = &sim->redis->machine.store;
    size_t n = sim_truth_left(sim->redis);
    return n - (rs_store_find(s, RS_TEXT(COUNTER)) != NULL);
}

/* ---- Somebody foreign ------------------------------------------------------ */

static bool command(struct sim *sim, size_t argc, const struct rs_text *argv)
{
    struct rs_buffer reply = {0};
    bool known = rs_machine_run(&sim->redis->machine, argc, argv, &reply);
    assert(known);
    bool yes = known && reply.n > 0 && reply.at[0] == '+';
    rs_buffer_free(&reply);
    return yes;
}

static struct rs_text text_of(const char *text)
{
    return (struct rs_text){text, strlen(text)};
}

static void take(struct sim *sim, uint32_t i)
{
    char ms[16];
    snprintf(others[i].token, sizeof(others[i].token), FOREIGN "%llu",
             (unsigned long long)++tokens);
    snprintf(ms, sizeof(ms), "%u", 1 + sim_below(&dice, sim->plan.ttl_ms));
    struct rs_text argv[] = {RS_TEXT("SET"),
                             text_of(sim->lines[i].name),
                             text_of(others[i].token),
                             RS_TEXT("NX"),
                             RS_TEXT("PX"),
                             text_of(ms)};
    others[i].holds = command(sim, sizeof(argv) / sizeof(argv[0]), argv);
    if (others[i].holds)
        SIM_TRACE(sim, NULL, "somebody foreign takes %s for %s ms", sim->lines[i].name, ms);
}

/* Some die with it. */
static void give(struct sim *sim, uint32_t i)
{
    const struct rs_key *k = rs_store_find(&sim->redis->machine.store, text_of(sim->lines[i].name));
    others[i].holds = false;
    if (k == NULL || k->type != RS_STRING || sim_chance(&dice, 100) ||
        !rs_text_equals(k->entries[0].value, text_of(others[i].token)))
        return;
    struct rs_text argv[] = {RS_TEXT("DEL"), text_of(sim->lines[i].name)};
    (void)command(sim, 2, argv);
    SIM_TRACE(sim, NULL, "somebody foreign gives %s back", sim->lines[i].name);
}

static int64_t after(const struct sim *sim, uint32_t us)
{
    return sim->now + 1 + sim_spread_ns(&dice, us);
}

static void act(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.names && !sim->healing; i++) {
        if (others[i].at > sim->now)
            continue;
        if (others[i].holds)
            give(sim, i);
        else
            take(sim, i);
        others[i].at = after(sim,
                             others[i].holds ? sim->plan.ttl_ms * 100 : sim->plan.ttl_ms * 300);
    }
}

/* ---- The world ------------------------------------------------------------- */

static void on_open(struct sim *sim)
{
    sim_redis.open(sim);
    struct sim_plan *plan = &sim->plan;
    plan->replicated = false; /* their keys wait for no replica */
    plan->shared = plan->at_least = plan->linger = plan->act[SIM_ACT_DOWNGRADE] = 0;
    memset(plan->of, 0, sizeof(plan->of));
    dice = sim->random;
    tokens = 0;
    memset(others, 0, sizeof(others));
    memset(held, 0, sizeof(held));
    losses = sim_counts.losses;
    floor_us = 0;
    for (uint32_t i = 0; i < SIM_NAMES_MAX; i++)
        others[i].at = after(sim, sim->plan.ttl_ms * 300);
}

static const char *url(const struct sim_client *c)
{
    (void)c;
    return "redis://127.0.0.1:6379/?also=token";
}

static void sweep(struct sim *sim)
{
    sim_redis.sweep(sim);
    rs_machine_expire(&sim->redis->machine);
}

static void expire(struct sim *sim, int64_t ms)
{
    sim_redis.expire(sim, ms);
    rs_machine_expire(&sim->redis->machine);
}

static void run(struct sim *sim)
{
    sim_redis.run(sim);
    act(sim);
}

static int64_t next(const struct sim *sim)
{
    int64_t at = sim_redis.next(sim);
    for (uint32_t i = 0; i < sim->plan.names && !sim->healing; i++)
        at = others[i].at < at ? others[i].at : at;
    return at;
}

static void on_close(struct sim *sim)
{
    sim_redis.close(sim);
}

static void dump(const struct sim *sim)
{
    sim_redis.dump(sim);
}

const struct sim_kind sim_also = {
    .name = "also",
    .to_deadline = true,
    .engine = &rt_engine_also,
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
    .outage = sim_redis_outage,
    .heal = sim_redis_heal,
    .fences_grow = sim_redis_fences_grow,
};
