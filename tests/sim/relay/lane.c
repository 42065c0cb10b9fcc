/* SPDX-License-Identifier: Apache-2.0 */
/* A lane and its two connections, step by step; and the database's side of a turn. */
#include "sim/relay/relay.h"

#include "base/bug.h"

#include <assert.h>
#include <rota.h>
#include <stdint.h>
#include <string.h>

#define LEASE (10000 * RY_MS)
#define REPUBLISH (60000 * RY_MS)
#define REFUSED "no route"

static const char *const names[RY_ROWS] = {0};

void ry_lane_start(struct ry_world *w, uint32_t i)
{
    struct ry_lane *l = &w->lanes[i];
    const struct rt_lane_options opts = {
        .batch = RY_BATCH, .attempts = 6, .strict = w->plan.strict};

    *l = (struct ry_lane){.alive = true};
    rt_lane_begin(&l->lane, &opts, l->items, l->marks, l->past);
}

static void let_go(struct ry_world *w, uint32_t i)
{
    for (uint32_t k = 0; k < w->begun; k++)
        if (w->rows[k].owner == (int8_t)i)
            w->rows[k].owner = -1;
}

void ry_lane_sever(struct ry_world *w, uint32_t i)
{
    ry_trace(w, "lane %u has stood still", i);
    let_go(w, i);
    w->lanes[i].severed = true;
    ry_counts.severed++;
}

static void add_counts(const struct rt_lane_counts *c)
{
    ry_counts.published += c->confirmed;
    ry_counts.again += c->again;
    ry_counts.refused += c->refused;
    ry_counts.dead += c->dead;
    ry_counts.deferred += c->deferred;
}

void ry_lane_crash(struct ry_world *w, uint32_t i)
{
    add_counts(&w->lanes[i].lane.counts);
    let_go(w, i);
    w->lanes[i].alive = false;
    ry_counts.crashes++;
}

/* ---- The database ------------------------------------------------------------------------------- */

static void do_mark(struct ry_world *w, struct ry_lane *l, const struct rt_store_mark *m)
{
    struct ry_row *row = &w->rows[m->id - 1];

    ry_trace(w, "%lld is marked: %d", (long long)m->id - 1, (int)m->what);
    if (m->what == RT_MARK_PUBLISHED && !row->in_broker)
        ry_violated("V4", "%lld is marked, and the broker never had it", (long long)m->id - 1);
    if (row->state != RY_NEW && row->state != RY_PUBLISHED)
        return; /* processed meanwhile: it stays so */
    if (m->what == RT_MARK_PUBLISHED && row->dropped > 0 && row->state == RY_NEW) {
        row->dropped--;
        l->not_before[m->id - 1] = w->now + 1000 * RY_MS;
        ry_counts.dropped++;
        return;
    }
    row->changed_at = w->now;
    if (m->what == RT_MARK_PUBLISHED) {
        row->state = RY_PUBLISHED;
    } else {
        row->attempts += m->what != RT_MARK_ASIDE;
        row->next_at = w->now + m->next_in_ms * RY_MS;
        if (m->what == RT_MARK_DEAD)
            row->state = RY_DEAD;
    }
}

static bool claimable(const struct ry_world *w, uint32_t id)
{
    const struct ry_row *row = &w->rows[id];
    bool stale = row->state == RY_PUBLISHED && !w->plan.until_published &&
                 row->changed_at + REPUBLISH <= w->now;

    if (RT_BUG(RT_BUG_RELAY_BY_ID) && id < w->seen)
        return false;
    return (row->state == RY_NEW || stale) && row->next_at <= w->now && row->owner < 0;
}

/* The next smaller id of the same key that has not gone; 0: none. */
static int64_t before(const struct ry_world *w, uint32_t id)
{
    if (w->rows[id].key == RY_KEYS)
        return 0;
    for (uint32_t i = id; i-- > 0;) {
        const struct ry_row *row = &w->rows[i];
        bool waits = row->state == RY_NEW || (w->plan.strict && row->state == RY_PUBLISHED);
        if (row->key == w->rows[id].key && waits)
            return (int64_t)i + 1;
    }
    return 0;
}

/* By the snapshot of the statement: predecessors are looked for before anything is locked. */
static size_t claim(struct ry_world *w, uint32_t i, uint32_t limit, int64_t after)
{
    struct ry_lane *l = &w->lanes[i];
    size_t n = 0;

    for (uint32_t id = 0; id < w->begun && n < limit; id++) {
        if (!claimable(w, id) || (w->rows[id].state == RY_NEW && (int64_t)id < after))
            continue;
        w->rows[id].owner = (int8_t)i;
        ry_trace(w, "lane %u claims %u, behind %lld", i, id, (long long)before(w, id) - 1);
        l->rows[n++] = (struct rt_store_row){.id = (int64_t)id + 1,
                                             .prev = before(w, id),
                                             .attempts = w->rows[id].attempts,
                                             .again = w->rows[id].state == RY_PUBLISHED,
                                             .event_id = names[id],
                                             .size = 1};
        if (RT_BUG(RT_BUG_RELAY_BY_ID))
            w->seen = id + 1;
    }
    l->claimed_at = w->now;
    return n;
}

static void turn(struct ry_world *w, uint32_t i, uint32_t limit, int64_t after)
{
    struct ry_lane *l = &w->lanes[i];

    if (l->severed) {
        l->severed = false;
        memset(l->not_before, 0, sizeof(l->not_before));
        rt_lane_turned(&l->lane, ROTA_UNREACHABLE, NULL, 0);
        return;
    }
    bool never_came = ry_strikes(w, w->plan.cut), unheard = ry_strikes(w, w->plan.lost_mark);
    ry_trace(w, "lane %u turns, for %u%s%s", i, limit, never_came ? ", in vain" : "",
             unheard ? ", unheard" : "");
    if (!never_came)
        for (size_t k = 0; k < l->lane.mark_count; k++)
            do_mark(w, l, &l->lane.marks[k]);
    let_go(w, i);
    if (never_came || unheard) {
        memset(l->not_before, 0, sizeof(l->not_before)); /* it cannot know what was written */
        rt_lane_turned(&l->lane, ROTA_UNREACHABLE, NULL, 0);
        return;
    }
    size_t n = claim(w, i, limit, after);
    rt_lane_turned(&l->lane, 0, l->rows, n);
}

/* ---- The broker's side of a batch ------------------------------------------------------------------ */

static void begin(struct ry_world *w, struct ry_lane *l)
{
    l->going = rt_lane_batch(&l->lane, l->messages);
    l->at = 0;
    l->publishing = true;
    l->cut = ry_strikes(w, w->plan.cut) ? (int)sim_below(&w->random, (uint32_t)l->going + 1) : -1;
    for (size_t k = 0; k < l->going; k++)
        l->sent[k] = RT_SENT_LOST, l->why[k] = NULL;
}

/* The row of the batch's Kth message. */
static uint32_t row_of(const struct ry_lane *l, size_t k)
{
    for (size_t i = 0;; i++) {
        assert(i < l->lane.count);
        if (l->items[i].goes && l->items[i].wave == l->lane.wave && k-- == 0)
            return (uint32_t)(l->rows[i].id - 1);
    }
}

static void send_one(struct ry_world *w, struct ry_lane *l)
{
    uint32_t id = row_of(l, l->at);
    struct ry_row *row = &w->rows[id];

    if (w->now < l->not_before[id] && row->state == RY_NEW)
        ry_violated("V6", "%u is published again at once, and its mark was dropped", id);
    if (row->full > 0) {
        row->full--;
        ry_trace(w, "there is no room for %u", id);
        l->sent[l->at] = RT_SENT_FULL;
        ry_counts.full++;
    } else if (row->refusals > 0) {
        row->refusals -= row->refusals != UINT32_MAX;
        ry_trace(w, "%u is refused", id);
        l->sent[l->at] = RT_SENT_REFUSED;
        l->why[l->at] = REFUSED;
        row->refused = true;
    } else {
        ry_trace(w, "%u is published", id);
        ry_put(w, id);
        l->sent[l->at] = RT_SENT_CONFIRMED;
    }
    l->at++;
}

static void publish(struct ry_world *w, uint32_t i)
{
    struct ry_lane *l = &w->lanes[i];

    if (!l->publishing)
        begin(w, l);
    if (l->at < l->going && !w->away && l->cut != (int)l->at) {
        send_one(w, l);
        return;
    }
    bool broken = w->away || l->cut >= 0;
    for (size_t k = 0; broken && k < l->going;
         k++) /* confirms that were on their way: the first of them came */
        if (ry_strikes(w, w->plan.lost_confirm))
            for (; k < l->going; k++)
                l->sent[k] = RT_SENT_LOST;
    l->publishing = false;
    rt_lane_published(&l->lane, broken ? ROTA_UNREACHABLE : 0, l->sent, l->why);
}

/* ---- Its steps ------------------------------------------------------------------------------------- */

bool ry_lane_ready(const struct ry_world *w, uint32_t i)
{
    const struct ry_lane *l = &w->lanes[i];

    return l->alive && (rt_lane_todo(&l->lane).op != RT_LANE_WAIT || l->wake_at <= w->now);
}

void ry_lane_step(struct ry_world *w, uint32_t i)
{
    struct ry_lane *l = &w->lanes[i];
    struct rt_lane_todo todo = rt_lane_todo(&l->lane);

    if (todo.op == RT_LANE_REACH)
        rt_lane_reached(&l->lane, w->away ? ROTA_UNREACHABLE : 0);
    else if (todo.op == RT_LANE_TURN)
        turn(w, i, todo.limit, todo.after);
    else if (todo.op == RT_LANE_PUBLISH)
        publish(w, i);
    else
        rt_lane_woken(&l->lane);
    todo = rt_lane_todo(&l->lane);
    if (todo.op == RT_LANE_WAIT)
        l->wake_at = w->now + todo.ns;
}
