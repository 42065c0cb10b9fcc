/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over the engine zookeeper and a model ensemble (server.h): what befalls it, and what is checked. */
#include "sim/calm.h"
#include "sim/invariants.h"
#include "sim/sim.h"
#include "sim/zookeeper/truth.h"

#include <stdio.h>
#include <string.h>

#define SYNC_TICKS 5 /* a server that is behind for longer is given up by its leader */
#define WRAPS_AT RT_ZK_SEQ_LAST

static const struct rt_zk_dialect *dialect;

/* ---- What is looked at ------------------------------------------------------------------------ */

#define GONE_MAX 512

static struct {
    size_t count;
    struct {
        uint64_t number;
        int64_t at;
    } ring[GONE_MAX];
} gone;

/* The number of what was deleted; 0: that was no ticket. */
static uint64_t number_of(const struct zs_change *change)
{
    char name[64];
    const char *node = zs_truth_name(change->path, name, sizeof(name));
    struct rt_zk_id id;
    if (change->call != RT_ZK_DELETE || node == NULL)
        return 0;
    rt_zk_node_read(dialect, node, &id);
    return id.number != 0 ? id.number : (uint64_t)change->czxid;
}

static void note_gone(const struct zs_server *s, const struct zs_change *change)
{
    uint64_t number = number_of(change);
    if (number == 0)
        return;
    gone.ring[gone.count % GONE_MAX].number = number;
    gone.ring[gone.count++ % GONE_MAX].at = s->net.now;
}

/* Only if it is known how old an answer can be. */
static bool gone_long(const struct sim_client *c, uint64_t number)
{
    const struct sim_plan *plan = &c->sim->plan;
    int64_t slack = sim_steps_ns(&plan->wire, 12);
    if (plan->outage_ms != 0 || plan->trouble[SIM_TROUBLE_CUT] != 0)
        return false;
    for (size_t i = 0; i < gone.count && i < GONE_MAX; i++)
        if (gone.ring[i].number == number)
            return gone.ring[i].at + slack < c->sim->now && c->resumed_at <= gone.ring[i].at;
    return false;
}

/* An event and a look; at_least_ms takes one more node; each of these goes to the leader and back. */
static int64_t wakes_within(const struct sim *sim)
{
    return sim_steps_ns(&sim->plan.wire, 40);
}

static bool is_somebodys(const struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (sim->clients[i].open && rt_desk_session(&sim->clients[i].d.desk) == session)
            return true;
    return false;
}

static void on_asked(struct zs_server *s, const struct sim_conn *c, int32_t call,
                     struct rt_text path)
{
    const struct sim *sim = s->user;
    bool text = call != RT_ZK_MULTI && call != RT_ZK_SET_WATCHES && call != RT_ZK_CLOSE;
    const struct sim_client *client = NULL;
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (c->port == &sim->clients[i].port)
            client = &sim->clients[i];
    sim_trace(sim, client, "    asks server %u: call %d %.*s",
              ((const struct zs_conn *)(const void *)c)->member, (int)call,
              text ? (int)path.size : 0, (const char *)path.at);
}

static void trace_step(const struct sim *sim, const struct zs_step *step, int32_t by)
{
    static const char *const words[] = {[RT_ZK_CREATE] = "create",
                                        [RT_ZK_DELETE] = "delete",
                                        [RT_ZK_SET] = "set",
                                        [RT_ZK_CHECK] = "check"};
    if (step->closes != 0)
        sim_trace(sim, NULL, "  zookeeper: %llx session %llx is over, %s",
                  (unsigned long long)step->zxid, (unsigned long long)step->closes,
                  by == 0 ? "by time" : "closed");
    for (size_t i = 0; i < step->count; i++)
        sim_trace(sim, NULL, "  zookeeper: %llx %s %s", (unsigned long long)step->zxid,
                  words[step->changes[i].call], step->changes[i].path);
}

/* ---- Whom a release wakes --------------------------------------------------------------------- */

static const struct sim_line *line_of(const struct sim *sim, const char *path)
{
    char name[64];
    if (zs_truth_name(path, name, sizeof(name)) == NULL)
        return NULL;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        if (strcmp(sim->lines[i].name, name) == 0)
            return &sim->lines[i];
    return NULL;
}

static void on_herd(struct zs_server *s, const struct zs_step *step, const char *path)
{
    const struct sim *sim = s->user;
    sim_violated(sim, "I8", "a release of %s granted %u and woke %u", path, step->most - 1,
                 step->told);
}

/* Whether the client that listens on C waits in that line. One that has left it and was not heard yet does not count,
 * nor does a watch set for an earlier ticket: with several tickets nobody can tell for which. */
static bool on_waits(struct zs_server *s, const struct sim_conn *c, const char *path, int64_t zxid)
{
    const struct sim *sim = s->user;
    bool heard = c->stream != NULL && sim_is_calm(sim); /* else it has closed that connection */
    const struct sim_line *line = heard ? line_of(sim, path) : NULL;
    const struct sim_place *only = NULL;
    size_t n = 0;
    for (uint32_t i = 0; line != NULL && i < sim->plan.clients; i++)
        for (size_t k = 0; c->port == &sim->clients[i].port && k < line->witness.count; k++)
            if (line->witness.places[k].session == sim->clients[i].d.desk.session.id) {
                only = &line->witness.places[k];
                n++;
            }
    return n == 1 && !only->granted && only->number < (uint64_t)zxid;
}

/* How many were not yet told that they hold, or only just now: their watches may not have ended. */
static uint32_t untold(const struct sim *sim, const struct sim_line *line)
{
    const struct sim_witness *w = &line->witness;
    uint32_t n = 0;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        for (const struct rt_ticket *t = c->open ? c->d.desk.tickets : NULL; t != NULL; t = t->next)
            for (size_t k = 0; k < w->count; k++)
                n += w->places[k].number == t->id && w->places[k].granted && !w->fresh[k] &&
                     strcmp(t->line->name, line->name) == 0 &&
                     (t->state == RT_TICKET_WAITING ||
                      (t->state == RT_TICKET_HELD && sim->now - t->since < wakes_within(sim)));
    }
    return n;
}

/* I8: a release wakes the tickets it grants and at most one more; a client that left and waits there again may hear of
 * it, too. Not where others look on: they are told of everything. */
static void judge_release(const struct sim *sim, struct zs_step *step)
{
    if (sim_observe > 0 || step->count != 1 || step->changes[0].call != RT_ZK_DELETE)
        return;
    const struct sim_line *line = line_of(sim, step->changes[0].path);
    uint64_t number = line != NULL ? number_of(&step->changes[0]) : 0;
    if (line != NULL && sim_witness_released(&line->witness, number))
        step->most = line->witness.granted + 1 + untold(sim, line) +
                     sim_witness_waits(&line->witness, number);
}

static void on_after(struct zs_server *s, struct zs_step *step, int32_t by)
{
    struct sim *sim = s->user;
    sim_counts.scripts++;
    for (size_t i = 0; i < step->count; i++)
        note_gone(s, &step->changes[i]);
    if (step->closes != 0 && !is_somebodys(sim, step->closes))
        sim_harm(sim, sim->now); /* see harmed_until */
    if (sim->tracing)
        trace_step(sim, step, by);
    sim_check_lines(sim, by != 0 ? SIM_ANYBODY : 0);
    judge_release(sim, step);
}

/* A ticket whose owner is gone hands on nothing when its turn comes: the waiter behind it finds that out with its
 * next beat. */
static int64_t harmed_until(const struct sim *sim)
{
    const struct zs_server *s = sim->zookeeper;
    int64_t until = s->leaderless_until > s->behind_until ? s->leaderless_until : s->behind_until;
    for (uint32_t i = 0; i < s->member_count; i++) {
        const struct zs_member *m = &s->members[i];
        until = m->down_until > until ? m->down_until : until;
        until = m->frozen_until > until ? m->frozen_until : until;
        until = m->stale_until > until ? m->stale_until : until;
    }
    for (size_t i = 0; i < s->session_count; i++)
        if (s->sessions[i].expires > until && !is_somebodys(sim, s->sessions[i].id))
            until = s->sessions[i].expires;
    return until;
}

/* ---- What befalls it -------------------------------------------------------------------------- */

static int64_t a_while(struct sim *sim, uint32_t ms)
{
    return sim->now + 1 + sim_spread_ns(&sim->random, ms * 500);
}

static bool is_well(const struct zs_server *s)
{
    for (uint32_t i = 0; i < s->member_count; i++)
        if (s->members[i].down_until != 0 || s->members[i].frozen_until != 0 ||
            s->members[i].deposed)
            return false;
    return s->leaderless_until == 0;
}

static void lose_leader(struct sim *sim)
{
    struct zs_server *s = sim->zookeeper;
    bool frozen = s->member_count > 1 && sim_chance(&sim->random, 500);
    int64_t until = a_while(sim, sim_chance(&sim->random, 500) ? s->tick_ms : sim->plan.ttl_ms);
    int64_t thaws = frozen ? until + 1 + a_while(sim, sim->plan.ttl_ms) - sim->now : 0;
    SIM_TRACE(sim, NULL, "zookeeper has no leader until %.6f; %u is %s until %.6f",
              (double)until / 1e9, s->leader, frozen ? "stopped" : "gone", (double)thaws / 1e9);
    zs_server_lose_leader(s, until, thaws);
    sim_counts.losses++;
}

static void lose_member(struct sim *sim)
{
    struct zs_server *s = sim->zookeeper;
    uint32_t member = sim_below(&sim->random, s->member_count);
    int64_t until = a_while(sim, sim_chance(&sim->random, 500) ? 500 : sim->plan.ttl_ms);
    if (member == s->leader) {
        lose_leader(sim);
        return;
    }
    SIM_TRACE(sim, NULL, "server %u of zookeeper is down until %.6f", member, (double)until / 1e9);
    zs_server_take_down(s, member, until);
}

static void freeze(struct sim *sim)
{
    struct zs_server *s = sim->zookeeper;
    uint32_t member = sim_below(&sim->random, s->member_count);
    int64_t until = a_while(sim, SYNC_TICKS * s->tick_ms);
    SIM_TRACE(sim, NULL, "server %u of zookeeper%s is stopped until %.6f", member,
              member == s->leader ? ", which leads," : "", (double)until / 1e9);
    zs_server_freeze(s, member, until);
}

static void fall_behind(struct sim *sim)
{
    struct zs_server *s = sim->zookeeper;
    uint32_t member = sim_below(&sim->random, s->member_count);
    bool up = sim_chance(&sim->random, 400);
    int64_t until = a_while(sim, SYNC_TICKS * s->tick_ms);
    if (member == s->leader)
        return;
    SIM_TRACE(sim, NULL, "server %u of zookeeper is %s until %.6f", member,
              up ? "not heard of" : "behind", (double)until / 1e9);
    zs_server_fall_behind(s, member, up, until);
}

static void outage(struct sim *sim)
{
    struct zs_server *s = sim->zookeeper;
    if (!is_well(s))
        return; /* the other two are a majority */
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_ZOOKEEPER_OUTAGE_KINDS)) {
    case SIM_ZOOKEEPER_LEADER:
        lose_leader(sim);
        break;
    case SIM_ZOOKEEPER_DOWN:
        lose_member(sim);
        break;
    case SIM_ZOOKEEPER_STOPPED:
        freeze(sim);
        break;
    case SIM_ZOOKEEPER_BEHIND:
        fall_behind(sim);
        break;
    case SIM_ZOOKEEPER_REAPS:
        SIM_TRACE(sim, NULL, "zookeeper reaps its containers");
        zs_server_reap(s);
        break;
    default:
        break;
    }
}

/* Somebody who has its password closes it. */
static void kill_session(struct sim *sim)
{
    struct zs_server *s = sim->zookeeper;
    if (s->session_count == 0 || sim->lost_session_count == SIM_TAINTS_MAX || !is_well(s))
        return;
    uint64_t id = s->sessions[sim_below(&sim->random, (uint32_t)s->session_count)].id;
    SIM_TRACE(sim, NULL, "session %llx is closed by somebody", (unsigned long long)id);
    sim_taint(sim->lost_sessions, &sim->lost_session_count, id);
    zs_server_end(s, id);
}

static void heal(struct sim *sim)
{
    zs_server_heal(sim->zookeeper);
}

/* ---- The kind --------------------------------------------------------------------------------- */

/* Lines that have had nearly as many tickets as a sequence can count. */
static void make_old_lines(struct sim *sim, struct zs_server *s)
{
    for (uint32_t i = 0; i <= sim->plan.names; i++) {
        char path[32] = ZS_ROOT;
        if (i > 0)
            snprintf(path, sizeof(path), ZS_ROOT "/n%u", i - 1);
        struct zs_ask ask = {.call = RT_ZK_CREATE, .path = path, .flags = i > 0 ? 4 : 0};
        (void)zs_step_add(zs_step_new(s), &s->head, 0, &ask);
        if (i > 0)
            zs_tree_find(&s->head, path)->creates = WRAPS_AT -
                                                    (int32_t)sim_below(&s->net.random, 20);
    }
    for (uint32_t i = 0; i < s->member_count; i++) {
        zs_tree_copy(&s->members[i].tree, &s->head);
        s->members[i].done = s->log_count;
    }
}

static void on_open(struct sim *sim)
{
    static struct zs_server ensemble;
    static uint64_t version; /* of no other world's */
    struct sim_random aside = sim->random;
    version += 1u << 20;
    sim_plan_draw_zookeeper(&sim->plan, &aside);
    zs_server_open(&ensemble, sim_next(&aside), sim->plan.servers, sim->plan.tick_ms);
    static const char *const dialects[] = {"curator", "curator-rw", "kazoo", "curator-latch"};
    dialect = rt_zk_dialect(dialects[sim->plan.dialect]);
    ensemble.version = version;
    ensemble.net.faults = sim->plan.wire;
    ensemble.clock_ppm = sim->plan.clock_ppm;
    if (sim->plan.wraps)
        make_old_lines(sim, &ensemble);
    ensemble.after = on_after;
    ensemble.waits = on_waits;
    ensemble.herd = on_herd;
    ensemble.asked = sim->tracing ? on_asked : NULL;
    ensemble.user = sim;
    gone.count = 0;
    zs_server_run(&ensemble, sim->now);
    sim->zookeeper = &ensemble;
    sim->net = &ensemble.net;
}

static void on_close(struct sim *sim)
{
    zs_server_close(sim->zookeeper);
}

static const char *url(const struct sim_client *c)
{
    static char text[128];
    const struct sim_plan *plan = &c->sim->plan;
    int n = snprintf(text, sizeof(text), "zk://%s" ZS_ROOT "?dialect=%s",
                     plan->servers > 1 ? "10.0.0.1,10.0.0.2,10.0.0.3" : "10.0.0.1", dialect->name);
    if (plan->tick_told)
        snprintf(text + n, sizeof(text) - (size_t)n, "&tick_ms=%u", plan->tick_ms);
    return text;
}

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    return zs_truth_look(sim->zookeeper, dialect, name, out, most);
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    (void)name;
    return zs_truth_session(sim->zookeeper, id, ends);
}

/* What keeps a line ends without a word: an observer sees it with the next beat. */
static void note_over(struct sim *sim)
{
    static int64_t since;
    int64_t now = zs_ms(sim->zookeeper);
    if (sim_observe > 0 && zs_truth_over(sim->zookeeper, dialect, since, now))
        sim_harm(sim, sim->now);
    since = now;
}

static void run(struct sim *sim)
{
    zs_server_run(sim->zookeeper, sim->now);
    note_over(sim);
    if (sim->zookeeper->flooded)
        sim_violated(sim, "liveness", "a client asks ZooKeeper as fast as it answers");
}

static int64_t next(const struct sim *sim)
{
    return zs_server_next(sim->zookeeper);
}

static void expire(struct sim *sim, int64_t ms)
{
    zs_server_run(sim->zookeeper, sim->now);
    zs_truth_expire(sim->zookeeper, dialect, ms);
}

static size_t left(const struct sim *sim)
{
    return zs_truth_left(sim->zookeeper);
}

static void dump(const struct sim *sim)
{
    const struct zs_server *s = sim->zookeeper;
    sim_trace(sim, NULL, "zookeeper: tick %u ms, leader %u, %zu steps", s->tick_ms, s->leader,
              s->log_count);
    for (uint32_t i = 0; i < s->member_count; i++)
        sim_trace(sim, NULL, "  server %u: %zu steps done, %zu touches not passed on", i,
                  s->members[i].done, s->members[i].touch_count);
    for (size_t i = 0; i < s->session_count; i++)
        sim_trace(sim, NULL, "  session %llx of %u ms, at %u, ends %.6f",
                  (unsigned long long)s->sessions[i].id, s->sessions[i].timeout_ms,
                  s->sessions[i].owner, (double)s->sessions[i].expires / 1e9);
    for (size_t i = 0; i < s->head.count; i++)
        sim_trace(sim, NULL, "  %s made %llx of %llx", s->head.nodes[i].path,
                  (unsigned long long)s->head.nodes[i].czxid,
                  (unsigned long long)s->head.nodes[i].owner);
}

const struct sim_kind sim_zookeeper = {
    .name = "zookeeper",
    .exact = true,
    .open = on_open,
    .close = on_close,
    .look = look,
    .session = session,
    .sweep = run,
    .expire = expire,
    .left = left,
    .dump = dump,
    .kill_session = kill_session,
    .wakes_within = wakes_within,
    .harmed_until = harmed_until,
    .gone_long = gone_long,
    .url = url,
    .run = run,
    .next = next,
    .outage = outage,
    .heal = heal,
};
