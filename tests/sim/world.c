/* SPDX-License-Identifier: Apache-2.0 */
/* The truth, as the engine mem has it; of a model Redis see redis/truth.c. */
#include "sim/world.h"

#include "engine/mem/world.h"
#include "sim/redis/truth.h"
#include "sim/sim.h"

#include <assert.h>

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

size_t sim_world_look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    return sim->redis != NULL ? sim_truth_look(sim->redis, name, out, most)
                              : look_mem(sim, name, out, most);
}

bool sim_world_find(const struct sim *sim, const char *name, uint64_t number, struct sim_place *out)
{
    struct sim_place places[SIM_PLACES_MAX];
    size_t n = sim_world_look(sim, name, places, SIM_PLACES_MAX);
    for (size_t i = 0; i < n; i++)
        if (places[i].number == number) {
            *out = places[i];
            return true;
        }
    return false;
}

static bool session_mem(const struct sim *sim, uint64_t session, int64_t *ends)
{
    struct rt_mem_link *head = &sim->world->sessions;
    for (struct rt_mem_link *l = head->next; l != head; l = l->next)
        if (rt_mem_session_of(l)->id == session) {
            *ends = rt_mem_session_of(l)->expires;
            return true;
        }
    return false;
}

bool sim_world_session(const struct sim *sim, uint64_t session, int64_t *ends)
{
    return sim->redis != NULL ? sim_truth_session(sim->redis, session, ends)
                              : session_mem(sim, session, ends);
}

void sim_world_open(struct sim *sim)
{
    if (sim->redis != NULL)
        return; /* main.c has it */
    sim->world = rt_mem_world_get("sim", true);
    assert(sim->world != NULL);
}

void sim_world_close(struct sim *sim)
{
    if (sim->redis != NULL)
        rs_server_close(sim->redis);
    else
        rt_mem_world_put(sim->world);
}

void sim_world_sweep(struct sim *sim)
{
    if (sim->redis != NULL) {
        rs_server_run(sim->redis, sim->now);
        sim_truth_sweep(sim->redis);
        return;
    }
    if (sim->now > sim->world->now)
        sim->world->now = sim->now;
    rt_mem_sweep(sim->world);
}

void sim_world_expire(struct sim *sim, int64_t ms)
{
    if (sim->redis != NULL) {
        rs_server_run(sim->redis, sim->now);
        rs_server_jump(sim->redis,
                       sim->redis->clock_most - rs_server_clock(sim->redis) + ms * 1000 + 1000);
        sim_truth_sweep(sim->redis);
        return;
    }
    sim->world->now = sim->now + ms * RT_MS;
    rt_mem_sweep(sim->world);
}

size_t sim_world_left(const struct sim *sim)
{
    const struct rt_mem_world *w = sim->world;
    if (sim->redis != NULL)
        return sim_truth_left(sim->redis);
    return w->line_count + (w->sessions.next != &w->sessions) + (w->fading.next != &w->fading);
}
