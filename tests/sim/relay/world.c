/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the outbox: its plan, its troubles, and how a run goes. */
#include "sim/relay/relay.h"
#include "sim/sim.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STEPS 6000 /* of trouble */
#define HEALED_MOST 4000000
#define LEASE (10000 * RY_MS)

struct ry_counts ry_counts;

/* ---- What is said ------------------------------------------------------------------------------ */

void ry_trace(const struct ry_world *w, const char *format, ...)
{
    char line[256];
    va_list args;

    if (!w->tracing)
        return;
    int n = snprintf(line, sizeof(line), "%12.3f ", (double)w->now / (double)RY_MS);
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    sim_out(line);
}

_Noreturn void ry_violated(const char *invariant, const char *format, ...)
{
    char why[256];
    va_list args;

    int n = snprintf(why, sizeof(why), "%s is violated: ", invariant);
    va_start(args, format);
    vsnprintf(why + n, sizeof(why) - (size_t)n, format, args);
    va_end(args);
    sim_end(why);
}

void ry_report(void)
{
    const struct ry_counts *n = &ry_counts;
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"events", n->events},
        {"published", n->published},
        {"published again", n->again},
        {"refused", n->refused},
        {"dead", n->dead},
        {"waited for others", n->deferred},
        {"crashes", n->crashes},
        {"transactions ended", n->severed},
        {"forgotten by the broker", n->forgotten},
        {"doubled", n->doubled},
        {"marks dropped", n->dropped},
        {"no room", n->full},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("  %-24s %10llu\n", rows[i].what, (unsigned long long)rows[i].count);
}

/* ---- The plan --------------------------------------------------------------------------------------- */

bool ry_strikes(struct ry_world *w, uint32_t per_mille)
{
    return !w->healing && sim_chance(&w->random, per_mille);
}

static uint32_t often_none(struct ry_world *w, uint32_t most)
{
    return sim_chance(&w->random, 500) ? 0 : sim_below(&w->random, most + 1);
}

static void draw(struct ry_world *w)
{
    struct ry_plan *p = &w->plan;

    p->rows = 4 + sim_below(&w->random, RY_ROWS - 3);
    p->lanes = 1 + sim_below(&w->random, RY_LANES);
    p->crash = often_none(w, 20);
    p->pause = often_none(w, 20);
    p->cut = often_none(w, 150);
    p->lost_mark = often_none(w, 150);
    p->lost_confirm = often_none(w, 400);
    p->dies = often_none(w, 30);
    p->no_report = often_none(w, 300);
    p->rollback = often_none(w, 300);
    p->doubled = often_none(w, 100);
    p->away = often_none(w, 10);
    p->keyless = often_none(w, 1000);
    p->until_published = sim_chance(&w->random, 300);
    p->strict = !p->until_published && sim_chance(&w->random, 250);
    p->forget = p->until_published ? 0 : often_none(w, 10); /* nobody would publish it again */
}

/* ---- A run --------------------------------------------------------------------------------------------- */

static void trouble(struct ry_world *w)
{
    uint32_t lane = sim_below(&w->random, w->plan.lanes);

    if (ry_strikes(w, w->plan.crash) && w->lanes[lane].alive) {
        ry_lane_crash(w, lane);
        ry_lane_start(w, lane);
    }
    if (ry_strikes(w, w->plan.pause) && w->lanes[lane].alive)
        ry_lane_sever(w, lane); /* it stood still for longer than its lease */
    if (ry_strikes(w, w->plan.dies))
        ry_consumer_crash(w, sim_below(&w->random, RY_CONSUMERS));
    if (ry_strikes(w, w->plan.forget))
        ry_forget(w);
    if (ry_strikes(w, w->plan.away))
        w->away = !w->away;
}

/* One step of somebody who has something to do; false: nobody has. */
static bool step(struct ry_world *w)
{
    uint32_t all = RY_WRITERS + w->plan.lanes + RY_CONSUMERS, first = sim_below(&w->random, all);

    for (uint32_t k = 0; k < all; k++) {
        uint32_t who = (first + k) % all;
        if (who < RY_WRITERS) {
            if (ry_writer_step(w, who))
                return true;
        } else if (who < RY_WRITERS + w->plan.lanes) {
            if (ry_lane_ready(w, who - RY_WRITERS)) {
                ry_lane_step(w, who - RY_WRITERS);
                return true;
            }
        } else if (ry_consumer_step(w, who - RY_WRITERS - w->plan.lanes)) {
            return true;
        }
    }
    return false;
}

/* Moves time to when the next lane wakes. */
static void pass_time(struct ry_world *w)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < w->plan.lanes; i++)
        if (w->lanes[i].alive && w->lanes[i].wake_at < next)
            next = w->lanes[i].wake_at;
    assert(next != INT64_MAX);
    w->now = next > w->now ? next : w->now + RY_MS;
}

static bool over(const struct ry_world *w)
{
    if (w->begun < w->plan.rows)
        return false;
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct ry_row *row = &w->rows[i];
        bool done = row->state == RY_PROCESSED || row->state == RY_DEAD || row->state == RY_GONE ||
                    (w->plan.until_published && row->state == RY_PUBLISHED);
        if (!done)
            return false;
    }
    for (uint32_t i = 0; i < RY_CONSUMERS; i++)
        if (w->consumers[i].row >= 0)
            return false;
    return w->head == w->tail;
}

static void check_end(const struct ry_world *w)
{
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct ry_row *row = &w->rows[i];
        if (row->owner >= 0)
            ry_violated("V3", "%u is claimed still", i);
        if (row->state == RY_DEAD && (!row->refused || row->refusals != UINT32_MAX))
            ry_violated("V5", "%u is dead, and the broker would take it", i);
        if (row->state != RY_DEAD && row->state != RY_GONE && row->effects != 1)
            ry_violated("V1", "%u has had %u effects", i, row->effects);
    }
}

static void stop_lanes(struct ry_world *w)
{
    for (uint32_t i = 0; i < w->plan.lanes; i++) {
        rt_lane_stop(&w->lanes[i].lane);
        while (rt_lane_todo(&w->lanes[i].lane).op != RT_LANE_STOP)
            ry_lane_step(w, i);
        ry_lane_crash(w, i);
    }
}

void ry_play(uint64_t seed, bool tracing)
{
    static struct ry_world w;

    memset(&w, 0, sizeof(w));
    w.random.state = seed;
    w.later.state = ~seed;
    w.tracing = tracing;
    draw(&w);
    sim_drawn(&w.plan, sizeof(w.plan));
    w.head = w.tail = RY_QUEUE / 2; /* what comes again goes to the front */
    for (uint32_t i = 0; i < RY_CONSUMERS; i++)
        w.consumers[i].row = -1;
    for (uint32_t i = 0; i < w.plan.lanes; i++)
        ry_lane_start(&w, i);
    for (uint32_t i = 0; i < STEPS && !over(&w); i++) {
        trouble(&w);
        if (!step(&w))
            pass_time(&w);
        if (w.tail > RY_QUEUE - 2 * RY_BATCH)
            break; /* it has seen enough */
    }
    w.healing = true;
    w.away = false;
    ry_trace(&w, "healed");
    for (uint32_t i = 0; !over(&w); i++) {
        if (i == HEALED_MOST)
            ry_violated("V3", "something is never processed");
        if (!step(&w))
            pass_time(&w);
        if (w.head == w.tail)
            w.head = w.tail = RY_QUEUE / 2;
    }
    stop_lanes(&w);
    check_end(&w);
}
