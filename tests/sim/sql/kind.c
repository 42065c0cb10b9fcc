/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over the engine sql and a model server (server.h), as PostgreSQL and as MariaDB: what befalls it, and what
 * is checked. */
#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/invariants.h"
#include "sim/sim.h"
#include "sim/sql/driver.h"
#include "sim/sql/server.h"
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

#define DAY_US (INT64_C(86400) * 1000000)
#define POLL_MS 20 /* where nothing is told, how often waits are looked at */

/* ---- What is looked at -------------------------------------------------------------------------------------------- */

static const char *const words[RT_SQL_STEPS] = {
    "FACTS",       "LAYOUT",        "HERE",      "MAKE",      "OPEN",     "RENEW",  "END",
    "MINE",        "FOLDED",        "DEAD",      "BURY",      "IDLE",     "STRAYS", "SWEEPER",
    "SWEEP",       "SWEPT",         "TAKE",      "GIVE",      "VERIFY",   "LOCK",   "UNFOLD",
    "PURGE",       "SETTLE",        "TELL",      "GATE",      "JOIN",     "WANT",   "ANSWER",
    "LEAVE",       "PASS",          "CHANGE",    "STATE",     "BREAK",    "WATCH",  "LOOK",
    "LOOK_AHEAD",  "FRONT",         "INSPECT",   "LIST",      "DOCTOR",   "LISTEN", "UNLISTEN",
    "LISTEN_LINE", "UNLISTEN_LINE", "BELL_TAKE", "BELL_RING", "BELL_WAIT"};

static void trace_flight(const struct sim *sim, const struct rt_sql_step *steps, size_t count,
                         enum rt_sql_end end)
{
    static const char *const ends[] = {"landed",  "again", "absent",  "denied",
                                       "replica", "full",  "refused", "cut"};
    char text[400] = "";
    size_t n = 0;
    for (size_t i = 0; i < count && n < sizeof(text) - 1; i++) {
        const struct rt_sql_cell *name = steps[i].args;
        bool named = steps[i].count > 0 && name->text != NULL && steps[i].kind != RT_SQL_UNFOLD;
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", words[steps[i].kind]);
        if (steps[i].kind >= RT_SQL_BELL_TAKE && n < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %llx",
                                  (unsigned long long)name->number);
        if (named && n < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %.*s", (int)name->size, name->text);
    }
    sim_trace(sim, NULL, "  sql:%s -> %s", text, ends[end]);
}

/* I8: a release wakes the tickets it grants and at most one more; for a flight in which one ticket leaves. All tickets
 * that a client has in a line share a bell: LEAVER's others there wake whoever is behind them. */
static void check_woken(const struct sim *sim, uint32_t woken, uint64_t leaver)
{
    uint32_t most = 0, granted = 0;
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        const struct sim_witness *w = &sim->lines[i].witness;
        granted += w->granted;
        most += w->granted + w->released;
        for (size_t k = 0; w->released && k < w->count; k++)
            most += w->places[k].session == leaver;
    }
    if (most > granted && woken > most && sim_is_calm(sim))
        sim_violated(sim, "I8", "a release granted %u and woke %u", granted, woken);
}

/* A waiter for the bell of one that went earlier, or one that has itself left, cannot be called back: that
 * is no herd. */
static bool on_stood(struct ss_server *s, const char *name, int64_t number)
{
    const struct sim *sim = s->user;
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        const struct sim_witness *w = &sim->lines[i].witness;
        for (size_t k = 0; strcmp(sim->lines[i].name, name) == 0 && k < w->count; k++)
            if (w->places[k].number == (uint64_t)number) {
                SIM_TRACE(sim, NULL, "  sql: a bell wakes who waits behind %lld of %s",
                          (long long)number, name);
                return true;
            }
    }
    return false;
}

static bool leaves(const struct rt_sql_step *step)
{
    return step->kind == RT_SQL_LEAVE || step->kind == RT_SQL_GIVE || step->kind == RT_SQL_PASS;
}

/* The session that leaves the line NAME (NULL: any) in a flight. Those of a flight belong to one client, but one may be
 * of a session that it no longer has. */
static uint64_t leaver_of(const struct rt_sql_step *steps, size_t count, const char *name)
{
    uint64_t leaver = 0;
    for (size_t i = 0; i < count; i++) {
        const struct rt_sql_cell *line = &steps[i].args[0];
        if (!leaves(&steps[i]) || (name != NULL && (strlen(name) != line->size ||
                                                    memcmp(line->text, name, line->size) != 0)))
            continue;
        uint64_t session = (uint64_t)steps[i].args[1].number;
        leaver = leaver == 0 || leaver == session ? session : SIM_ANYBODY;
    }
    return leaver;
}

static void check_lines(struct sim *sim, const struct rt_sql_step *steps, size_t count)
{
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        sim->leaver = leaver_of(steps, count, sim->lines[i].name);
        sim_check_line(sim, &sim->lines[i]);
    }
    sim->leaver = 0;
}

/* Whether one ticket leaves in the flight, and no bell of another line rides along: whom that bell wakes is
 * not its doing. */
static bool is_release(const struct rt_sql_step *steps, size_t count)
{
    size_t left = 0, rings = 0;
    for (size_t i = 0; i < count; i++) {
        left += leaves(&steps[i]);
        rings += steps[i].kind == RT_SQL_BELL_RING;
    }
    return left == 1 && rings <= 1;
}

static void on_after(struct ss_server *s, const struct rt_sql_step *steps, size_t count,
                     enum rt_sql_end end)
{
    struct sim *sim = s->user;
    sim_counts.scripts++;
    if (sim->tracing)
        trace_flight(sim, steps, count, end);
    check_lines(sim, steps, count);
    if (is_release(steps, count))
        check_woken(sim, s->woken, leaver_of(steps, count, NULL));
}

/* A ticket for which there was no memory is looked at only by beats. */
static int64_t wakes_within(const struct sim *sim)
{
    int64_t beat_ms = sim->plan.starve > 0 ? sim->plan.ttl_ms / 2 : 0;
    return (2 * POLL_MS + beat_ms) * RT_MS + sim_steps_ns(&sim->plan.wire, 30);
}

static int64_t harmed_until(const struct sim *sim)
{
    int64_t down = sim->net->down_until, until = sim->sql->refuses_until;
    until = down > until ? down : until;
    return sim->promote_at > until ? sim->promote_at : until;
}

/* ---- Truth -------------------------------------------------------------------------------------------------------- */

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    const struct ss_store *s = &sim->sql->store;
    const struct ss_line *l = ss_line(s, name, strlen(name));
    size_t n = 0;
    if (l != NULL &&
        l->folded) /* even if its session is dead: as a row, it stands until somebody comes */
        out[n++] = (struct sim_place){.number = (uint64_t)l->fence,
                                      .nonce = (uint64_t)l->nonce,
                                      .session = (uint64_t)l->session,
                                      .granted = true};
    for (size_t i = 0; l != NULL && i < l->count && n < most; i++) {
        const struct ss_ticket *t = &l->tickets[i];
        out[n++] = (struct sim_place){
            .number = (uint64_t)t->number,
            .nonce = (uint64_t)t->nonce,
            .session = t->durable ? 0 : (uint64_t)t->session,
            .mode = t->mode,
            .take = t->take,
            .of = t->of,
            .granted = t->granted,
        };
    }
    return n;
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    const struct ss_session *s = ss_session(&sim->sql->store, (int64_t)id);
    (void)name;
    if (s != NULL)
        *ends = ss_server_when(sim->sql, s->expires);
    return s != NULL;
}

static void sweep(struct sim *sim)
{
    ss_server_run(sim->sql, sim->now);
    ss_server_sweep(sim->sql);
}

/* Whatever has come still runs; then all sessions end, and a day goes by. */
static void expire(struct sim *sim, int64_t ms)
{
    struct ss_server *s = sim->sql;
    const struct rt_sql_cell all[] = {{.text = ""}, {.number = DAY_US}, {.number = 1000}};
    const struct rt_sql_step idle = {RT_SQL_IDLE, 3, all, NULL};
    while (ss_server_next(s) != RT_NEVER)
        ss_server_run(s, ss_server_next(s));
    ss_server_jump(s, s->clock_most - ss_server_clock(s) + ms * 1000 + 1000);
    ss_server_sweep(s);
    ss_server_jump(s, 2 * DAY_US);
    if (s->store.made)
        ss_server_do(s, &idle, 1);
}

static size_t left(const struct sim *sim)
{
    return sim->sql->store.session_count + sim->sql->store.line_count;
}

static void dump(const struct sim *sim)
{
    const struct ss_store *s = &sim->sql->store;
    sim_trace(sim, NULL, "sql clock %lld", (long long)ss_server_clock(sim->sql));
    for (size_t i = 0; i < s->session_count; i++)
        sim_trace(sim, NULL, "sql session %lld of %s ends %.6f", (long long)s->sessions[i].id,
                  s->sessions[i].label,
                  (double)ss_server_when(sim->sql, s->sessions[i].expires) / 1e9);
    for (size_t i = 0; i < s->line_count; i++)
        sim_trace(sim, NULL, "sql line %s fence %lld folded %d with %lld, %zu tickets, %u wait",
                  s->lines[i].name, (long long)s->lines[i].fence, s->lines[i].folded,
                  (long long)s->lines[i].session, s->lines[i].count, s->lines[i].waiting);
}

/* ---- What befalls it ---------------------------------------------------------------------------------------------- */

static int64_t a_while(struct sim *sim)
{
    uint32_t ms = sim_chance(&sim->random, 500) ? sim->plan.ttl_ms / 10 : sim->plan.ttl_ms;
    return sim->now + 1 + sim_spread_ns(&sim->random, ms * 1000);
}

static int64_t down_time(struct sim *sim)
{
    return sim_chance(&sim->random, 500) ? sim->now : a_while(sim);
}

/* MOST: by no more than that. */
static void jump(struct sim *sim, bool back, int64_t most)
{
    int64_t us = 1 + (a_while(sim) - sim->now) / 1000;
    us = us < most ? us : most;
    if (us <= 0)
        return;
    SIM_TRACE(sim, NULL, "the server's clock is set %s by %lld us", back ? "back" : "forward",
              (long long)us);
    ss_server_jump(sim->sql, back ? -us : us);
    sim_counts.jumps++;
    if (back)
        sim->back_ms += (uint32_t)(us / 1000) + 1;
    else
        sim_excuse_all(sim, true);
}

static void fall_behind(struct sim *sim)
{
    if (sim->promote_at != 0)
        return;
    ss_server_keep(sim->sql);
    sim->promote_at = a_while(sim);
    SIM_TRACE(sim, NULL, "the replica falls behind until %.6f", (double)sim->promote_at / 1e9);
}

/* A replica that knows less is promoted; its clock may be behind: fences keep growing all the same. */
static void lose(struct sim *sim)
{
    /* If it is further behind, it is not waited for (CALM_MOST_MS): then fences may go back, and
     * strict refuses it. */
    int64_t most = 9 * 1000000 - (sim->sql->clock_most - ss_server_clock(sim->sql));
    sim->promote_at = most > 0 ? sim->promote_at : 0;
    if (most <= 0)
        return;
    SIM_TRACE(sim, NULL, "the primary is lost, and its replica goes on as it was earlier");
    ss_server_promote(sim->sql, true, down_time(sim));
    sim->promote_at = 0;
    sim_excuse_all(sim, false);
    sim_harm(sim, sim->now);
    sim_counts.losses++;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        sim->lines[i].last_exclusive = 0; /* an old holder stands there again until it is told */
    if (sim_chance(&sim->random, 500))
        jump(sim, true, most);
}

/* Grants were lost with an earlier primary, and all that have greeted this one since were content with its clock:
 * set back to before those grants now, it takes fences back, which nobody can notice. The pages say so. */
static void set_back(struct sim *sim)
{
    const struct ss_server *s = sim->sql;
    jump(sim, true, s->lost_us == 0 ? INT64_MAX : ss_server_clock(s) - s->lost_us);
}

static void refuse(struct sim *sim)
{
    static const enum rt_sql_end ends[] = {RT_SQL_AGAIN, RT_SQL_FULL, RT_SQL_REPLICA};
    sim->sql->refusal = ends[sim_below(&sim->random, 3)];
    sim->sql->refuses_until = a_while(sim);
    SIM_TRACE(sim, NULL, "the server refuses with %d until %.6f", (int)sim->sql->refusal,
              (double)sim->sql->refuses_until / 1e9);
}

static void outage(struct sim *sim)
{
    bool cut;
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_SQL_OUTAGE_KINDS)) {
    case SIM_SQL_RESTART:
        SIM_TRACE(sim, NULL, "the server restarts");
        ss_server_restart(sim->sql, down_time(sim));
        break;
    case SIM_SQL_BEHIND:
        fall_behind(sim);
        break;
    case SIM_SQL_SWITCH:
        cut = sim_chance(&sim->random, 500);
        SIM_TRACE(sim, NULL, "the replica is the primary now, and the last one %s",
                  cut ? "is gone" : "takes no writes");
        sim->sql->has_earlier = false;
        sim->promote_at = 0;
        ss_server_promote(sim->sql, cut, down_time(sim));
        break;
    case SIM_SQL_FORWARD:
        jump(sim, false, INT64_MAX);
        break;
    case SIM_SQL_BACK:
        set_back(sim);
        break;
    case SIM_SQL_LINKS:
        SIM_TRACE(sim, NULL, "connections are killed");
        ss_server_kill_links(sim->sql, sim_chance(&sim->random, 500) ? 300 : 1000);
        break;
    case SIM_SQL_REFUSES:
        refuse(sim);
        break;
    default:
        break;
    }
}

static void heal(struct sim *sim)
{
    ss_server_heal(sim->sql);
    sim->promote_at = 0;
}

static void kill_session(struct sim *sim)
{
    struct ss_store *s = &sim->sql->store;
    if (s->session_count == 0 || sim->lost_session_count == SIM_TAINTS_MAX)
        return;
    struct ss_session *row = &s->sessions[sim_below(&sim->random, (uint32_t)s->session_count)];
    SIM_TRACE(sim, NULL, "somebody deletes session %lld", (long long)row->id);
    sim_taint(sim->lost_sessions, &sim->lost_session_count, (uint64_t)row->id);
    ss_session_drop(s, row);
    sim->sql->version++;
}

/* ---- The kinds ---------------------------------------------------------------------------------------------------- */

static void on_open(struct sim *sim)
{
    static struct ss_server server;
    struct sim_random aside = sim->random;
    sim_plan_draw_sql(&sim->plan, &aside);
    ss_server_open(&server, sim_next(&aside), sim->plan.clock_ppm);
    server.net.faults = sim->plan.wire;
    server.again = sim->plan.deadlocks;
    server.after = on_after;
    server.stood = on_stood;
    server.user = sim;
    ss_server_run(&server, sim->now);
    sim->sql = &server;
    sim->net = &server.net;
}

static void on_close(struct sim *sim)
{
    ss_server_close(sim->sql);
}

/* Both, in either order; or an address that is always the primary's. */
static const char *postgres_url(const struct sim_client *c)
{
    static const char *const urls[] = {
        "postgres://10.0.0.1,10.0.0.2/",
        "postgres://10.0.0.2,10.0.0.1/",
        "postgres://10.0.0.9/",
    };
    return urls[c->index % 3];
}

static const char *mysql_url(const struct sim_client *c)
{
    static const char *const urls[] = {
        "mysql://10.0.0.9/",
        "mysql://10.0.0.1,10.0.0.2/?waits=1",
        "mysql://10.0.0.2,10.0.0.1/",
        "mysql://10.0.0.9/?waits=0",
    };
    return urls[(c->index + c->sim->seed) % 4];
}

static void run(struct sim *sim)
{
    ss_server_run(sim->sql, sim->now);
    if (sim->promote_at != 0 && sim->promote_at <= sim->now)
        lose(sim);
}

static int64_t next(const struct sim *sim)
{
    int64_t at = ss_server_next(sim->sql);
    return sim->promote_at != 0 && sim->promote_at < at ? sim->promote_at : at;
}

#define KIND(its_name, its_engine, its_url)                                                       \
    {                                                                                             \
        .name = (its_name), .exact = true, .engine = (its_engine), .open = on_open,               \
        .close = on_close, .look = look, .session = session, .sweep = sweep, .expire = expire,    \
        .left = left, .dump = dump, .kill_session = kill_session, .wakes_within = wakes_within,   \
        .harmed_until = harmed_until, .url = its_url, .run = run, .next = next, .outage = outage, \
        .heal = heal,                                                                             \
    }

const struct sim_kind sim_postgres = KIND("postgres", &ss_engine_postgres, postgres_url);
const struct sim_kind sim_mysql = KIND("mysql", &ss_engine_mysql, mysql_url);
