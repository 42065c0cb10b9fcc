/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated client: its opening, running, stopping, dying and going. */
#include "sim/process.h"

#include "base/alloc.h"
#include "engine/mem/mem.h"
#include "engine/url.h"
#include "sim/invariants.h"
#include "sim/job.h"
#include "sim/sim.h"
#include "sim/world.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Turns at one moment before we conclude that it will never end. */
#define TURNS_MAX 1000

#define FOREVER_MS 1000000000 /* eleven days */

static struct sim_client *client_of(struct rt_dispatch *d)
{
    return (struct sim_client *)(void *)d; /* its first member */
}

static void on_forget(struct rt_dispatch *d, struct rt_line *line)
{
    struct sim_client *c = client_of(d);
    for (size_t i = 0; i < SIM_NAMES_MAX; i++)
        if (c->lines[i] == line)
            c->lines[i] = NULL;
    rt_loop_unreserve(&c->loop, 1); /* its timer */
}

static const struct rt_dispatch_hooks hooks = {
    .news = sim_job_news,
    .event = sim_watcher_event,
    .forget = on_forget,
    .gone = sim_job_gone,
};

/* mem, the tap at its door, the network, the tap at the client's door. */
static void connect_client(struct sim_client *c)
{
    struct sim *sim = c->sim;
    struct rt_conn *conn = rt_alloc(rt_engine_mem.conn_size);
    struct rt_url url = {
        .path = "sim", .params = {{"fence", sim->kind->late ? "grant" : "join"}}, .param_count = 1};
    assert(conn != NULL);
    *conn = (struct rt_conn){
        .engine = &rt_engine_mem,
        .up = &c->d.up,
        .loop = &c->loop,
        .label = c->label,
        .ttl_ms = sim->plan.forever ? FOREVER_MS : sim->plan.ttl_ms,
        .call_ms = sim->plan.call_ms,
    };
    int rv = rt_engine_mem.open(conn, &url);
    assert(rv == 0);
    c->mem = conn;
    c->bottom = sim_tap_put(&conn, c, true);
    struct rt_fault_config network = sim->plan.network;
    network.seed = sim_next(&sim->random);
    rv = rt_fault_wrap(&conn, &network);
    assert(rv == 0);
    (void)rv;
    c->fault = conn;
    if (sim->healing)
        rt_fault_rates(conn, NULL);
    c->top = sim_tap_put(&conn, c, false);
    c->conn = conn;
    c->d.conn = conn;
}

/* An engine whose network is the model's, or whose machine is ours; the tap at the client's door. False: it
 * cannot be opened now. */
static bool connect_model(struct sim_client *c)
{
    struct sim *sim = c->sim;
    char why[256];
    struct rt_url url;
    int rv = rt_url_parse(&url, sim->kind->url(c), why, sizeof(why));
    assert(rv == 0);
    const struct rt_engine *engine = sim->kind->engine != NULL ? sim->kind->engine
                                                               : rt_engine_find(url.scheme);
    assert(engine != NULL);
    struct rt_conn *conn = rt_alloc(engine->conn_size);
    assert(conn != NULL);
    *conn = (struct rt_conn){
        .engine = engine,
        .up = &c->d.up,
        .loop = &c->loop,
        .label = c->label,
        .ttl_ms = sim->plan.ttl_ms,
        .call_ms = sim->plan.call_ms,
    };
    if (sim->net != NULL) {
        sim_port_open(&c->port, sim->net);
        c->loop.dialer = &c->port.dialer;
    }
    rv = engine->open(conn, &url);
    rt_url_fini(&url);
    if (rv != 0) {
        if (rv != ROTA_UNREACHABLE || sim->kind->refuses == NULL || !sim->kind->refuses(sim))
            sim_violated(sim, "I5", "c%u cannot be opened: %s", c->index, conn->errmsg);
        rt_free(conn);
        return false;
    }
    c->top = sim_tap_put(&conn, c, false);
    c->conn = conn;
    c->d.conn = conn;
    if (sim->kind->opened != NULL)
        sim->kind->opened(c);
    return true;
}

void sim_client_cut(struct sim_client *c, uint32_t ways)
{
    if (c->fault != NULL) {
        rt_fault_cut(c->fault, ways);
        return;
    }
    c->port.cut_up = (ways & RT_FAULT_UP) != 0;
    c->port.cut_down = (ways & RT_FAULT_DOWN) != 0;
}

void sim_client_reset(struct sim_client *c)
{
    if (c->fault != NULL)
        rt_fault_reset(c->fault);
    else
        sim_port_reset(&c->port);
}

void sim_client_open(struct sim *sim, struct sim_client *c)
{
    uint32_t index = c->index, process = c->process;
    struct rt_desk_options o = {
        .pass_limit = sim->plan.pass_limit,
        .pass_ms = sim->plan.pass_ms,
        .call_ms = sim->plan.call_ms,
        .nonce = sim_next(&sim->random),
    };
    memset(c, 0, sizeof(*c));
    c->sim = sim;
    sim->current = c;
    c->index = index;
    c->process = process;
    snprintf(c->label, sizeof(c->label), "p%u/c%u", process, index);
    rt_loop_init_virtual(&c->loop);
    rt_loop_advance(&c->loop, sim->now);
    int rv = rt_dispatch_init(&c->d, &c->loop, &o, &hooks);
    assert(rv == 0);
    if (sim->seed / 2 % 2 == 0) /* so that requests wait for others */
        c->d.desk.out.most = 2;
    (void)rv;
    c->open = sim->kind->url == NULL || connect_model(c);
    if (sim->kind->url == NULL)
        connect_client(c);
    SIM_TRACE(sim, c, c->open ? "opens" : "cannot be opened");
    if (c->open)
        return;
    rt_dispatch_fini(&c->d);
    rt_loop_fini(&c->loop);
}

/* Where sessions have no ttl, one ends with its client. */
static void end_sessions(struct sim *sim)
{
    struct rt_mem_link *head = &sim->world->sessions, *l = head->next;
    if (sim->now > sim->world->now)
        sim->world->now = sim->now;
    while (l != head) {
        struct rt_mem_session *s = rt_mem_session_of(l);
        l = l->next;
        if (s->conn == NULL)
            rt_mem_session_renew(sim->world, s, 0);
    }
    rt_mem_sweep(sim->world);
}

static void ignore(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg, (void)t, (void)now;
}

/* Streams are closed from a later turn. */
static void close_port(struct sim_client *c)
{
    rt_loop_arm(&c->loop);
    while (rt_timers_next(&c->loop.timers) <= c->sim->now)
        rt_loop_turn(&c->loop, ignore, NULL);
    sim_port_close(&c->port);
}

static void discard(struct sim_client *c)
{
    bool quiet = rt_desk_quiet(&c->d.desk);
    c->d.conn = NULL;
    c->port.mute = c->dead; /* the dead say no farewell */
    c->sim->current = c;
    c->parting = true; /* what it had ends now, bit by bit */
    if (c->dead && c->sim->kind->dies != NULL)
        c->sim->kind->dies(c);
    c->conn->engine->close(c->conn);
    if (c->sim->plan.forever && c->mem != NULL)
        end_sessions(c->sim);
    rt_dispatch_abort(&c->d);
    if (quiet && !c->dead && c->d.names.count > 0)
        sim_violated(c->sim, "I6", "c%u was quiet and keeps %zu lines", c->index, c->d.names.count);
    if (c->dead) /* its asks are in the lines, and its timers in the loop */
        sim_job_free_all(c);
    else if (c->jobs != NULL)
        sim_violated(c->sim, "I9", "c%u was closed, and a thread never told", c->index);
    rt_dispatch_fini(&c->d);
    if (c->sim->net != NULL)
        close_port(c);
    rt_free(c->conn);
    rt_loop_fini(&c->loop);
    c->open = false;
    c->paused_until = c->cut_until = c->close_by = 0;
}

void sim_client_crash(struct sim_client *c)
{
    SIM_TRACE(c->sim, c, "crashes");
    sim_counts.crashes++;
    c->dead = true;
    discard(c);
}

void sim_client_close(struct sim_client *c)
{
    SIM_TRACE(c->sim, c, "closes");
    sim_counts.closes++;
    sim_client_wake(c);
    c->close_by = c->sim->now + c->sim->plan.call_ms * RT_MS;
    rt_dispatch_close(&c->d);
    sim_client_drain(c);
}

void sim_client_finish(struct sim_client *c)
{
    SIM_TRACE(c->sim, c, "is closed, %s", rt_desk_quiet(&c->d.desk) ? "quiet" : "in a hurry");
    discard(c);
}

bool sim_client_runs(const struct sim_client *c)
{
    return c->open && c->paused_until == 0;
}

int64_t sim_client_next(const struct sim_client *c)
{
    int64_t at = rt_timers_next(&c->loop.timers);
    int64_t coming = c->sim->net != NULL ? sim_port_next(&c->port) : RT_NEVER;
    if (c->sim->kind->coming != NULL)
        coming = c->sim->kind->coming(c);
    if (coming < at)
        at = coming;
    if (c->close_by != 0 && c->close_by < at)
        at = c->close_by;
    return at;
}

static bool hears(const struct sim_client *c)
{
    if (c->sim->kind->coming != NULL)
        return c->sim->kind->coming(c) <= c->sim->now;
    return c->mem != NULL ? rt_mem_pending(c->mem) : sim_port_due(&c->port);
}

bool sim_client_due(const struct sim_client *c)
{
    return sim_client_next(c) <= c->sim->now || hears(c) ||
           (c->close_by != 0 && !c->parting && rt_desk_quiet(&c->d.desk));
}

void sim_client_wake(struct sim_client *c)
{
    c->sim->current = c;
    rt_loop_advance(&c->loop, c->sim->now);
}

static void starve(const struct sim_client *c, bool on)
{
    sim_starving = on && !c->sim->healing ? c->sim->plan.starve : 0;
}

void sim_client_drain(struct sim_client *c)
{
    if (!c->open)
        return; /* it died meanwhile */
    starve(c, true);
    rt_dispatch_drain(&c->d);
    rt_loop_arm(&c->loop); /* sends */
    starve(c, false);
    if (c->dying)
        sim_process_crash(c->sim, c->process);
}

void sim_client_run(struct sim_client *c)
{
    unsigned turns = 0;
    sim_client_wake(c);
    while (!c->dying && (rt_timers_next(&c->loop.timers) <= c->sim->now || hears(c))) {
        /* As on a real loop: a client that was away hears of others before it looks at its timers. */
        starve(c, true);
        if (c->sim->kind->deliver != NULL)
            c->sim->kind->deliver(c);
        else if (c->mem == NULL)
            sim_port_deliver(&c->port);
        else if (rt_mem_pending(c->mem))
            rt_mem_deliver(c->mem);
        if (sim_chance(&c->sim->random, 200))
            rt_dispatch_drain(&c->d);
        rt_loop_turn(&c->loop, rt_dispatch_timer, &c->d);
        rt_dispatch_drain(&c->d);
        rt_loop_arm(&c->loop);
        starve(c, false);
        if (++turns > TURNS_MAX)
            sim_violated(c->sim, "liveness", "c%u never comes to rest", c->index);
    }
    if (c->dying)
        sim_process_crash(c->sim, c->process);
    if (!c->open || c->close_by == 0)
        return;
    c->parting = rt_desk_quiet(&c->d.desk) && c->conn->engine->parting(c->conn);
    rt_loop_arm(&c->loop);
    if (c->close_by <= c->sim->now || (rt_desk_quiet(&c->d.desk) && !c->parting))
        sim_client_finish(c);
}
