/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated resources: branches, the connections that work on them, markers. A gated one is like MariaDB (T0.1,
 * T0.2, T2.5), with what it loses; the others are like PostgreSQL. */
#include "sim/txn/txn.h"

static bool attached(const struct ts_world *w, const struct ts_branch *b)
{
    bool held = !b->closed || w->now < b->detached_at;
    return held && !b->was_reset && (b->state == TS_ACTIVE || b->state == TS_PREPARED);
}

static void commit(struct ts_world *w, uint32_t fact, uint32_t branch)
{
    struct ts_fact *f = &w->facts[fact];
    struct ts_branch *b = &f->branches[branch];
    if (f->foreign)
        ts_violated(w, "X6", "t%u is not of our journal, and is committed", fact);
    if (f->ever == RT_DECISION_NONE)
        ts_violated(w, "X2", "branch %u of t%u commits, and nothing is decided", branch, fact);
    if (f->ever != RT_DECISION_COMMIT || !b->listed)
        ts_violated(w, "X4", "branch %u of t%u commits, and ABORT was decided", branch, fact);
    b->state = TS_COMMITTED;
    b->marker = true;
}

static void roll_back(struct ts_world *w, uint32_t fact, uint32_t branch)
{
    struct ts_fact *f = &w->facts[fact];
    struct ts_branch *b = &f->branches[branch];
    if (f->foreign)
        ts_violated(w, "X6", "t%u is not of our journal, and is rolled back", fact);
    if (f->ever == RT_DECISION_COMMIT && b->listed)
        ts_violated(w, "X4", "branch %u of t%u is rolled back, and COMMIT was decided", branch,
                    fact);
    bool below = rt_txn_id_birth(&f->id) < w->floor_ms && !f->row;
    if (b->state == TS_PREPARED && f->ever == RT_DECISION_NONE && !below)
        ts_violated(w, "X3", "branch %u of t%u is prepared and rolled back, and nothing is decided",
                    branch, fact);
    b->state = TS_ROLLED;
}

static uint8_t prepare(struct ts_world *w, struct ts_branch *b, bool stays)
{
    if (b->state != TS_ACTIVE || b->fenced)
        return RT_REPLY_NO;
    bool tag_says_no = b->failed &&
                       !w->resources[b->resource].gated; /* MariaDB prepares what was done */
    if (b->says_no || tag_says_no) {
        b->state = TS_ROLLED;
        return RT_REPLY_NO;
    }
    bool ends = b->reads && !stays;
    b->state = ends ? TS_READ : TS_PREPARED;
    return ends ? RT_REPLY_READONLY : RT_REPLY_YES;
}

static uint8_t one_phase(struct ts_world *w, uint32_t fact, struct ts_branch *b)
{
    if (b->state != TS_ACTIVE || b->fenced || b->says_no) {
        b->state = b->state == TS_ACTIVE ? TS_ROLLED : b->state;
        return RT_REPLY_NO;
    }
    if (b->failed)
        ts_violated(w, "X2", "t%u commits in one phase, and its branch has failed", fact);
    b->state = TS_COMMITTED;
    b->marker = b->one_phase = true;
    return RT_REPLY_DONE;
}

/* By a connection other than the one that prepared. */
static uint8_t take_over(struct ts_world *w, const struct ts_event *r, struct ts_branch *b)
{
    bool gated = w->resources[b->resource].gated;
    if (b->state != TS_PREPARED)
        return RT_REPLY_ABSENT;
    if (gated && !b->closed && !b->was_reset)
        return RT_REPLY_HELD;
    if (gated && (b->was_reset || w->now < b->detached_at)) { /* "OK" */
        if (!b->was_reset)
            ts_violated(
                w, "X7",
                "branch %u of t%u was taken over while its connection was ending: it is lost",
                r->branch, r->fact);
        TS_TRACE(w, "branch %u of t%u is lost by its resource", r->branch, r->fact);
        b->state = TS_GHOST;
        b->lost_once = true;
        ts_counts.ghosts++;
        return RT_REPLY_DONE;
    }
    if (r->bop == RT_BRANCH_COMMIT)
        commit(w, r->fact, r->branch);
    else
        roll_back(w, r->fact, r->branch);
    return RT_REPLY_DONE;
}

static uint8_t order(struct ts_world *w, const struct ts_event *r, struct ts_branch *b)
{
    if (!r->own)
        return take_over(w, r, b);
    if (b->state == TS_PREPARED && r->bop == RT_BRANCH_COMMIT) {
        commit(w, r->fact, r->branch);
        return RT_REPLY_DONE;
    }
    bool open = b->state == TS_PREPARED || b->state == TS_ACTIVE;
    if (open && r->bop == RT_BRANCH_ROLLBACK) {
        roll_back(w, r->fact, r->branch);
        return RT_REPLY_DONE;
    }
    bool ended = b->state == TS_ROLLED && r->bop == RT_BRANCH_ROLLBACK;
    return ended ? RT_REPLY_DONE : RT_REPLY_ABSENT;
}

static uint8_t ask(struct ts_branch *b, bool fence)
{
    if (b->state == TS_COMMITTED && b->marker)
        return RT_REPLY_COMMITTED;
    if (b->state == TS_PREPARED)
        return RT_REPLY_PREPARED;
    b->fenced = b->fenced || fence;
    return RT_REPLY_ABSENT;
}

/* Who is connected, as the server tells it: looked up anew if the answer is 100 ms old. */
static uint8_t gate(struct ts_world *w, const struct ts_event *r, const struct ts_branch *b)
{
    struct ts_resource *res = &w->resources[b->resource];
    if (w->now - res->view_at > 100 * TS_MS) {
        res->view_at = w->now;
        for (uint32_t i = 0; i < w->begun; i++) {
            res->view[i] = 0;
            for (uint32_t k = 0; k < w->facts[i].count; k++)
                res->view[i] |= (uint32_t)attached(w, &w->facts[i].branches[k]) << k;
        }
    }
    if (b->state != TS_PREPARED)
        return RT_REPLY_ABSENT;
    return (res->view[r->fact] >> r->branch & 1) != 0 ? RT_REPLY_HELD : RT_REPLY_CLEAR;
}

static void list(const struct ts_world *w, struct ts_event *r)
{
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct ts_fact *f = &w->facts[i];
        r->listed[i] = 0;
        for (uint32_t k = 0; k < f->count; k++)
            if (f->branches[k].resource == r->resource && f->branches[k].state == TS_PREPARED)
                r->listed[i] |= TS_SEEN | 1u << k;
    }
}

static void clean_marks(struct ts_world *w, const struct ts_event *r)
{
    for (uint32_t i = 0; i < w->begun; i++) {
        struct ts_fact *f = &w->facts[i];
        if (rt_txn_id_birth(&f->id) >= r->floor_ms || (r->marks >> i & 1) != 0)
            continue;
        for (uint32_t k = 0; k < f->count; k++)
            if (f->branches[k].resource == r->resource) {
                f->branches[k].marker = false;
                f->branches[k].fence = TS_NO_FENCE; /* a late try is refused by its deadline */
            }
    }
}

bool ts_resource_serve(struct ts_world *w, struct ts_event *r)
{
    if (w->now < w->resources[r->resource].down_until)
        return false;
    if (r->op == TS_OP_LIST) {
        list(w, r);
        return true;
    }
    if (r->op == TS_OP_GC) {
        clean_marks(w, r);
        return true;
    }
    struct ts_branch *b = &w->facts[r->fact].branches[r->branch];
    if (r->own && (b->closed || b->was_reset))
        return false; /* there is nobody to answer */
    if (b->service) {
        r->reply = ts_service_call(w, r, b);
        TS_TRACE(w, "service %u: t%u.%u op %u: %u", r->resource, r->fact, r->branch, r->bop,
                 r->reply);
        return true;
    }
    switch (r->bop) {
    case RT_BRANCH_PREPARE:
        r->reply = prepare(w, b, r->stays);
        break;
    case RT_BRANCH_ONE_PHASE:
        r->reply = one_phase(w, r->fact, b);
        break;
    case RT_BRANCH_ASK:
        r->reply = ask(b, r->fence);
        break;
    case RT_BRANCH_GATED:
        r->reply = gate(w, r, b);
        break;
    default:
        r->reply = order(w, r, b);
    }
    TS_TRACE(w, "resource %u: t%u.%u op %u%s: %u", r->resource, r->fact, r->branch, r->bop,
             r->own ? "" : " taken over", r->reply);
    return true;
}

void ts_resource_closed(struct ts_world *w, struct ts_fact *f, struct ts_branch *b)
{
    if (b->closed || b->state == TS_NONE || b->service)
        return;
    b->closed = true;
    b->detached_at = w->now + (int64_t)sim_below(&w->random, 50000) * 1000;
    if (b->state == TS_ACTIVE)
        b->state = TS_ROLLED;
    (void)f;
}

void ts_resource_restart(struct ts_world *w, uint32_t resource)
{
    for (uint32_t i = 0; i < w->begun; i++)
        for (uint32_t k = 0; k < w->facts[i].count; k++) {
            struct ts_branch *b = &w->facts[i].branches[k];
            if (b->resource != resource || b->service)
                continue;
            ts_resource_closed(w, &w->facts[i], b);
            b->detached_at = w->now;
            b->was_reset = false;
            if (b->state == TS_GHOST)
                b->state = TS_PREPARED;
        }
}
