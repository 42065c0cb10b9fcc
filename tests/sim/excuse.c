/* SPDX-License-Identifier: Apache-2.0 */
/* What clients are excused for. */
#include "sim/excuse.h"

bool sim_is_excused(const struct sim *sim, const struct sim_client *c)
{
    return c->excused_until > sim->now;
}

void sim_excuse_ends(struct sim_client *c)
{
    if (c->excused_at != 0 && c->beat_at > c->excused_at && c->sim->plan.starve == 0)
        c->excused_until = 0;
}

void sim_excuse_late(struct sim_client *c)
{
    const struct sim *sim = c->sim;
    if (c->excused_at != 0 && c->excused_until != 0 && c->excused_until <= sim->now)
        c->excused_until = sim->now + 1;
}

void sim_excuse_all(struct sim *sim, bool jumped)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        struct sim_client *c = &sim->clients[i];
        bool more = jumped || (sim_is_excused(sim, c) && c->excused_at == 0);
        c->excused_at = more ? 0 : sim->now;
        c->excused_until = sim->now + sim->plan.ttl_ms * RT_MS;
        if (jumped)
            continue;
        /* A clock that was set back gives a lost number again: what was released under it is forgotten. */
        for (uint32_t n = 0; n < SIM_NAMES_MAX; n++)
            c->tenures[n].retired = 0;
        c->gone_count = 0;
    }
}
