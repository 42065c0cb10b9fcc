/* SPDX-License-Identifier: Apache-2.0 */
/* What became of each line, from change to change. */
#include "sim/witness.h"

#include "sim/sim.h"

#include <assert.h>
#include <string.h>

static const struct sim_place *find(const struct sim_place *places, size_t n,
                                    const struct sim_place *p)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].number == p->number && places[i].session == p->session &&
            places[i].nonce == p->nonce)
            return &places[i];
    return NULL;
}

static void note_left(const struct sim *sim, struct sim_line *line, const struct sim_place *p,
                      bool keeps)
{
    struct sim_witness *w = &line->witness;
    w->left[w->left_count++ % SIM_LEFT_MAX] = (struct sim_left){
        .number = p->number,
        .nonce = p->nonce,
        .session = p->session,
        .at = sim->now,
        .held = p->granted,
        .by_leave = sim->leaver == p->session || sim->leaver == SIM_ANYBODY,
        .keeps = keeps,
    };
}

/* A ticket that merely became nobody's still keeps its line. */
static bool keeps(const struct sim_place *places, size_t n, uint64_t number)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].number == number && places[i].granted)
            return true;
    return false;
}

static void note_front(const struct sim *sim, struct sim_witness *w)
{
    const struct sim_place *front = w->places;
    bool wanted = false;
    for (size_t i = 1; i < w->count; i++)
        wanted = wanted || (front->session != w->places[i].session && w->places[i].session != 0);
    if (w->count == 0 || front->mode != RT_EXCLUSIVE || !front->granted || !wanted) {
        w->wanted_since = 0;
        return;
    }
    if (w->wanted_since == 0 || w->front != front->number)
        w->wanted_since = sim->now;
    w->front = front->number;
}

void sim_witness(const struct sim *sim, struct sim_line *line, const struct sim_place *places,
                 size_t n)
{
    struct sim_witness *w = &line->witness;
    assert(n <= SIM_PLACES_MAX);
    w->granted = 0;
    w->released = false;
    memset(w->fresh, 0, sizeof(w->fresh));
    if (n == w->count && memcmp(places, w->places, n * sizeof(*places)) == 0)
        return;
    for (size_t i = 0; i < w->count; i++) {
        const struct sim_place *p = &w->places[i];
        if (find(places, n, p) != NULL)
            continue;
        bool stays = keeps(places, n, p->number);
        if (p->session != 0)
            note_left(sim, line, p, stays);
        w->released = w->released || (p->granted && !stays);
    }
    for (size_t i = 0; i < n; i++) {
        const struct sim_place *p = find(w->places, w->count, &places[i]);
        w->fresh[i] = places[i].granted && p != NULL && !p->granted;
        w->granted += w->fresh[i];
    }
    memcpy(w->places, places, n * sizeof(*places));
    w->count = n;
    note_front(sim, w);
}

bool sim_witness_left(struct sim_witness *w, const struct rt_op *op, int64_t sent_at)
{
    uint32_t known = w->left_count < SIM_LEFT_MAX ? w->left_count : SIM_LEFT_MAX;
    for (uint32_t i = 0; i < known; i++) {
        struct sim_left *l = &w->left[i];
        bool same = rt_leave_names(op, l->number, l->nonce);
        /* A ticket whose session has ended may still be left while it keeps its line: that cannot
         * be seen anywhere. */
        if (!same || l->session != op->leave.session || (!l->by_leave && !l->keeps))
            continue;
        if (l->at < sent_at && (!l->keeps || l->told))
            continue;
        l->told = true;
        return true;
    }
    /* It may have been forgotten. */
    return known == SIM_LEFT_MAX && w->left[w->left_count % SIM_LEFT_MAX].at >= sent_at;
}

bool sim_witness_released(const struct sim_witness *w, uint64_t number)
{
    for (uint32_t i = w->left_count; i-- > 0 && w->left_count - i <= SIM_LEFT_MAX;)
        if (w->left[i % SIM_LEFT_MAX].number == number)
            return w->released && w->left[i % SIM_LEFT_MAX].held;
    return false;
}

uint32_t sim_witness_waits(const struct sim_witness *w, uint64_t number)
{
    uint64_t session = 0;
    uint32_t n = 0;
    for (uint32_t i = w->left_count; i-- > 0 && w->left_count - i <= SIM_LEFT_MAX && session == 0;)
        if (w->left[i % SIM_LEFT_MAX].number == number)
            session = w->left[i % SIM_LEFT_MAX].session;
    for (size_t k = 0; k < w->count; k++)
        n += w->places[k].session == session && !w->places[k].granted;
    return n;
}
