/* SPDX-License-Identifier: Apache-2.0 */
/* Writers, the broker's queue, consumers. */
#include "sim/relay/relay.h"

#include "base/bug.h"

#include <assert.h>
#include <string.h>

/* ---- Writers: a transaction with one to three events ------------------------------------------ */

/* Whoever writes events of a key has locked what the key stands for, so their ids are in commit order. */
static bool key_is_free(const struct ry_world *w, uint32_t key)
{
    for (uint32_t i = 0; i < RY_ROWS; i++)
        if (w->rows[i].state == RY_OPEN && i < w->begun && w->rows[i].key == key)
            return key == RY_KEYS;
    return true;
}

static bool own_key(const struct ry_world *w, const struct ry_writer *writer, uint32_t key)
{
    for (uint32_t i = 0; i < writer->count; i++)
        if (w->rows[writer->rows[i]].key == key)
            return true;
    return key_is_free(w, key);
}

static void insert(struct ry_world *w, struct ry_writer *writer)
{
    uint32_t key = sim_below(&w->random, 1000) < w->plan.keyless ? RY_KEYS
                                                                 : sim_below(&w->random, RY_KEYS);

    if (!own_key(w, writer, key))
        return; /* it waits for the lock */
    uint32_t row = w->begun++;
    w->rows[row] = (struct ry_row){.state = RY_OPEN, .key = (uint8_t)key, .owner = -1};
    if (sim_chance(&w->random, 40))
        w->rows[row].refusals = sim_chance(&w->random, 200) ? UINT32_MAX
                                                            : 1 + sim_below(&w->random, 3);
    if (sim_chance(&w->later, 30))
        w->rows[row].dropped = 1 + sim_below(&w->later, 4);
    if (sim_chance(&w->later, 40))
        w->rows[row].full = 1 + sim_below(&w->later, 30);
    writer->rows[writer->count++] = row;
    writer->open = true;
}

static void end(struct ry_world *w, struct ry_writer *writer)
{
    bool commits = !ry_strikes(w, w->plan.rollback);

    for (uint32_t i = 0; i < writer->count; i++) {
        struct ry_row *row = &w->rows[writer->rows[i]];
        row->state = commits ? RY_NEW : RY_GONE;
        row->changed_at = w->now;
        ry_counts.events += commits;
    }
    ry_trace(w, "a writer %s %u events from %u on", commits ? "commits" : "rolls back",
             writer->count, writer->rows[0]);
    *writer = (struct ry_writer){0};
}

bool ry_writer_step(struct ry_world *w, uint32_t i)
{
    struct ry_writer *writer = &w->writers[i];
    bool more = w->begun < w->plan.rows && writer->count < 3;

    if (!writer->open && !more)
        return false;
    if (more && (!writer->open || sim_chance(&w->random, 400))) {
        uint32_t before = w->begun;
        insert(w, writer);
        if (w->begun > before || writer->open)
            return true;
        return false;
    }
    end(w, writer);
    return true;
}

/* ---- The broker ---------------------------------------------------------------------------------- */

void ry_put(struct ry_world *w, uint32_t row)
{
    assert(w->tail < RY_QUEUE);
    w->queue[w->tail++] = row;
    w->rows[row].in_broker = true;
    if (ry_strikes(w, w->plan.doubled) && w->tail < RY_QUEUE) {
        w->queue[w->tail++] = row;
        ry_counts.doubled++;
    }
}

void ry_forget(struct ry_world *w)
{
    uint32_t waiting = w->tail - w->head;

    if (waiting == 0)
        return;
    uint32_t gone = 1 + sim_below(&w->random, waiting);
    w->tail -= gone;
    w->forgot = true;
    ry_counts.forgotten += gone;
    ry_trace(w, "the broker forgets %u", gone);
}

/* ---- Consumers -------------------------------------------------------------------------------------- */

/* V2: everything of the key that comes before it has had its effect. */
static void check_order(const struct ry_world *w, uint32_t id)
{
    if (w->forgot || w->rows[id].key == RY_KEYS)
        return;
    for (uint32_t i = 0; i < id; i++)
        if (w->rows[i].key == w->rows[id].key && w->rows[i].effects == 0 &&
            (w->rows[i].state == RY_NEW || w->rows[i].state == RY_PUBLISHED))
            ry_violated("V2", "%u has its effect before %u of the same key", id, i);
}

/* The inbox row and the effect are one transaction. */
static void work(struct ry_world *w, struct ry_consumer *c)
{
    struct ry_row *row = &w->rows[c->row];

    if (!row->taken || RT_BUG(RT_BUG_RELAY_NO_INBOX)) {
        ry_trace(w, "%d has its effect", c->row);
        check_order(w, (uint32_t)c->row);
        row->taken = true;
        row->effects++;
        if (row->state == RY_OPEN || row->state == RY_GONE)
            ry_violated("V1", "%d has an effect and was never committed", c->row);
        if (row->effects > 1)
            ry_violated("V1", "%d has had its effect twice", c->row);
    }
    c->committed = true;
}

/* It says so in a statement of its own; that may be lost with it. */
static void report(struct ry_world *w, struct ry_consumer *c)
{
    struct ry_row *row = &w->rows[c->row];
    bool locked = row->owner >= 0 && !w->lanes[row->owner].severed;

    if (locked)
        return; /* it waits for the lock */
    if (!w->plan.until_published && !ry_strikes(w, w->plan.no_report) &&
        (row->state == RY_NEW || row->state == RY_PUBLISHED))
        row->state = RY_PROCESSED;
    c->row = -1;
}

void ry_consumer_crash(struct ry_world *w, uint32_t i)
{
    struct ry_consumer *c = &w->consumers[i];

    if (c->row < 0 || c->reporting)
        return; /* it was acknowledged before: the report is lost with it, as no_report plays */
    if (!RT_BUG(RT_BUG_RELAY_ACK_FIRST)) /* not acknowledged: it comes again, before all others */
        w->queue[--w->head] = (uint32_t)c->row;
    c->row = -1;
    ry_counts.crashes++;
}

/* One consumer at a time works on what a queue has: with several, brokers keep no order. */
bool ry_consumer_step(struct ry_world *w, uint32_t i)
{
    struct ry_consumer *c = &w->consumers[i];

    if (c->row < 0) {
        for (uint32_t k = 0; k < RY_CONSUMERS; k++)
            if (w->consumers[k].row >= 0 && !w->consumers[k].reporting)
                return false;
        if (w->head == w->tail)
            return false;
        *c = (struct ry_consumer){.row = (int32_t)w->queue[w->head++]};
        return true;
    }
    if (!c->committed)
        work(w, c);
    else if (!c->reporting)
        c->reporting = true; /* acknowledged */
    else
        report(w, c);
    return true;
}
