/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of worlds, and that of the engine mem. */
#include "sim/world.h"

#include "engine/mem/world.h"
#include "engines.h"
#include "sim/sim.h"

#include <assert.h>
#include <string.h>

static size_t look_mem(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    const struct rt_mem_line *line = rt_mem_line_find(sim->world, name);
    size_t n = 0;
    if (line == NULL || line->count == 0)
        return 0;
    const struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0 && n < most; left--, t = t->next)
        out[n++] = (struct sim_place){
            .number = t->number,
            .nonce = t->nonce,
            .session = t->session != NULL ? t->session->id : 0,
            .mode = t->mode,
            .take = t->take,
            .of = line->of,
            .granted = (t->flags & RT_MEM_GRANTED) != 0,
            .rung = t->pending != 0,
        };
    return n;
}

static bool session_mem(const struct sim *sim, uint64_t session, const char *name, int64_t *ends)
{
    (void)name;
    struct rt_mem_link *head = &sim->world->sessions;
    for (struct rt_mem_link *l = head->next; l != head; l = l->next)
        if (rt_mem_session_of(l)->id == session) {
            *ends = rt_mem_session_of(l)->expires;
            return true;
        }
    return false;
}

static void open_mem(struct sim *sim)
{
    sim->world = rt_mem_world_get("sim", true, sim->kind->late);
    assert(sim->world != NULL);
}

static void close_mem(struct sim *sim)
{
    rt_mem_world_put(sim->world);
}

static void set_now(struct sim *sim)
{
    if (sim->now > sim->world->now)
        sim->world->now = sim->now;
}

static void sweep_mem(struct sim *sim)
{
    set_now(sim);
    rt_mem_sweep(sim->world);
}

static void expire_mem(struct sim *sim, int64_t ms)
{
    sim->world->now = sim->now + ms * RT_MS;
    rt_mem_sweep(sim->world);
}

static size_t left_mem(const struct sim *sim)
{
    const struct rt_mem_world *w = sim->world;
    return w->line_count + (w->sessions.next != &w->sessions) + (w->fading.next != &w->fading);
}

static void kill_session_mem(struct sim *sim)
{
    struct rt_mem_world *world = sim->world;
    struct rt_mem_link *head = &world->sessions, *l = head->next;
    for (uint32_t left = sim_below(&sim->random, 8); left > 0 && l != head; left--)
        l = l->next;
    if (l == head || sim->lost_session_count == SIM_TAINTS_MAX)
        return;
    struct rt_mem_session *s = rt_mem_session_of(l);
    SIM_TRACE(sim, NULL, "the engine forgets session %llu", (unsigned long long)s->id);
    sim_taint(sim->lost_sessions, &sim->lost_session_count, s->id);
    set_now(sim);
    rt_mem_session_renew(world, s, 0);
    rt_mem_sweep(world);
}

/* What is lost on the way is not known here. */
static int64_t wakes_within_mem(const struct sim *sim)
{
    const struct rt_fault_config *net = &sim->plan.network;
    bool lossy = net->rate[RT_FAULT_REQUEST_LOST] > 0 || net->rate[RT_FAULT_REPLY_LOST] > 0 ||
                 net->event_lost > 0 || net->events_overtake || sim->plan.stray > 0;
    return lossy && !sim->healing ? 0 : (10 + 8 * (int64_t)net->delay_max_ms) * RT_MS;
}

const struct sim_kind sim_mem = {
    .name = "mem",
    .open = open_mem,
    .close = close_mem,
    .look = look_mem,
    .session = session_mem,
    .sweep = sweep_mem,
    .expire = expire_mem,
    .left = left_mem,
    .kill_session = kill_session_mem,
    .wakes_within = wakes_within_mem,
};

const struct sim_kind sim_late = {
    .name = "late",
    .late = true,
    .open = open_mem,
    .close = close_mem,
    .look = look_mem,
    .session = session_mem,
    .sweep = sweep_mem,
    .expire = expire_mem,
    .left = left_mem,
    .kill_session = kill_session_mem,
    .wakes_within = wakes_within_mem,
};

/* ---- All kinds ---------------------------------------------------------- */

const struct sim_kind *sim_kind_find(const char *name)
{
    static const struct sim_kind *const kinds[] = {
        &sim_mem,
        &sim_late,
        &sim_redis,
        &sim_cluster,
        &sim_redlock,
        &sim_token,
        &sim_also,
        &sim_postgres,
        &sim_mysql,
        &sim_txn,
        &sim_three,
        &sim_three_commit,
        &sim_three_strict,
        &sim_relay,
#if ROTA_ENGINE_FILE
        &sim_file,
#endif
#if ROTA_ENGINE_ETCD
        &sim_etcd,
#endif
#if ROTA_ENGINE_ZOOKEEPER
        &sim_zookeeper,
#endif
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

bool sim_world_find(const struct sim *sim, const char *name, uint64_t number, struct sim_place *out)
{
    struct sim_place places[SIM_PLACES_MAX];
    size_t n = sim->kind->look(sim, name, places, SIM_PLACES_MAX);
    for (size_t i = 0; i < n; i++)
        if (places[i].number == number) {
            *out = places[i];
            return true;
        }
    return false;
}
