/* SPDX-License-Identifier: Apache-2.0 */
/* What everybody has, for a person. */
#include "sim/invariants.h"
#include "sim/sim.h"
#include "sim/world.h"

static void dump_line(const struct sim *sim, const char *name)
{
    struct sim_place places[SIM_PLACES_MAX];
    size_t n = sim->kind->look(sim, name, places, SIM_PLACES_MAX);
    for (size_t i = 0; i < n; i++)
        sim_trace(sim, NULL, "engine %s: %llu mode %u take %u%s session %llx", name,
                  (unsigned long long)places[i].number, places[i].mode, places[i].take,
                  places[i].granted ? " granted" : "", (unsigned long long)places[i].session);
}

static void dump_client(const struct sim *sim, const struct sim_client *c)
{
    static const char *const job_states[] = {"asked", "held", "lost", "releasing"};
    static const char *const states[] = {"idle", "joining", "waiting", "held", "leaving"};
    const struct rt_desk *desk = &c->d.desk;
    sim_trace(sim, c, "%s%s session %llu state %d usable until %.6f retry %.6f",
              c->paused_until != 0 ? "paused " : "", c->close_by != 0 ? "closing " : "",
              (unsigned long long)desk->session.id, (int)desk->session.state,
              (double)desk->session.usable_until / 1e9,
              desk->out.retry_timer.slot != 0 ? (double)desk->out.retry_timer.at / 1e9 : 0.0);
    for (const struct rt_ticket *t = desk->tickets; t != NULL; t = t->next)
        sim_trace(sim, c,
                  "  ticket %s of %s id %llu mode %u flags %x want %x ops %u holds %u listed %u",
                  states[t->state], t->line->name, (unsigned long long)t->id, t->mode, t->flags,
                  t->want, t->ops, t->holds, rt_ticket_has(t, RT_TICKET_LISTED));
    for (const struct sim_job *job = c->jobs; job != NULL; job = job->next)
        sim_trace(sim, c, "  job %u %s %s owner %llu mode %u ask state %u fence %llu%s%s", job->id,
                  job_states[job->state], sim->lines[job->name].name,
                  (unsigned long long)job->ask.owner, job->ask.mode, job->ask.state,
                  (unsigned long long)job->ask.fence, job->downgrading ? " downgrading" : "",
                  job->set != NULL ? " in a set" : "");
}

void sim_dump(const struct sim *sim)
{
    sim_trace(sim, NULL, "---- state");
    for (uint32_t i = 0; i < sim->plan.names; i++)
        dump_line(sim, sim->lines[i].name);
    if (sim->kind->dump != NULL)
        sim->kind->dump(sim);
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (sim->clients[i].open)
            dump_client(sim, &sim->clients[i]);
}
