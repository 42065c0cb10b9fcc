/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated journal: a row per id, and a floor. What it does has happened by the time it answers, or earlier. */
#include "base/bug.h"
#include "sim/txn/txn.h"

static bool below(const struct ts_world *w, const struct ts_fact *f)
{
    return rt_txn_id_birth(&f->id) < w->floor_ms;
}

/* COMMIT is about to be written for the first time. */
static void check_commit(const struct ts_world *w, uint32_t fact, uint32_t parts)
{
    const struct ts_fact *f = &w->facts[fact];
    for (uint32_t i = 0; i < f->count; i++) {
        const struct ts_branch *b = &f->branches[i];
        bool part = (parts >> i & 1) != 0;
        if (b->failed)
            ts_violated(w, "X2", "t%u is decided COMMIT, and branch %u has failed", fact, i);
        bool prepared = b->state == (b->service ? TS_RESERVED : TS_PREPARED);
        if (part && !prepared)
            ts_violated(w, "X2", "t%u is decided COMMIT, and branch %u is not prepared", fact, i);
        if (!part && prepared)
            ts_violated(w, "X4", "t%u is decided COMMIT without branch %u, which is prepared", fact,
                        i);
        if (!part && b->joined && b->state == TS_ACTIVE)
            ts_violated(w, "X2", "t%u is decided COMMIT without branch %u, which is at work", fact,
                        i);
        if (!part && b->registered)
            ts_violated(w, "X2", "t%u is decided COMMIT without branch %u, which is registered",
                        fact, i);
    }
    bool told = f->told == RT_OUTCOME_ABORTED;
    for (uint32_t i = 0; i < f->join_count; i++)
        told = told || f->joins[i].vote == RT_OUTCOME_ABORTED ||
               f->joins[i].end == RT_OUTCOME_ABORTED;
    if (told)
        ts_violated(w, "X5", "t%u is decided COMMIT, and somebody was told ABORTED", fact);
}

static void write_row(struct ts_world *w, const struct ts_event *r)
{
    struct ts_fact *f = &w->facts[r->fact];
    if (f->ever == RT_DECISION_NONE && r->decision == RT_DECISION_COMMIT)
        check_commit(w, r->fact, r->parts);
    if (f->ever != RT_DECISION_NONE && f->ever != r->decision)
        ts_violated(w, "X1", "t%u was decided %u, and is decided %u now", r->fact, f->ever,
                    r->decision);
    if (f->ever != RT_DECISION_NONE && !f->row)
        ts_violated(w, "X9", "t%u was decided, done and forgotten, and is decided again", r->fact);
    f->row = true;
    f->stands = f->ever = r->decision;
    for (uint32_t i = 0; i < f->count; i++)
        f->branches[i].listed = r->decision == RT_DECISION_COMMIT && (r->parts >> i & 1) != 0;
    TS_TRACE(w, "journal: t%u is decided %s", r->fact,
             r->decision == RT_DECISION_COMMIT ? "COMMIT" : "ABORT");
}

static uint32_t registered_bits(const struct ts_fact *f)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < f->count; i++)
        bits |= (uint32_t)f->branches[i].registered << i;
    return bits;
}

static void enter(struct ts_world *w, const struct ts_event *r)
{
    struct ts_fact *f = &w->facts[r->fact];
    if (f->stands != RT_DECISION_NONE || (!f->row && below(w, f)))
        return; /* too late */
    if (f->ever != RT_DECISION_NONE)
        ts_violated(w, "X9", "t%u was decided and forgotten, and somebody joins it", r->fact);
    f->row = true;
    for (uint32_t i = 0; i < f->count; i++)
        f->branches[i].registered = f->branches[i].registered || (r->parts >> i & 1) != 0;
    TS_TRACE(w, "journal: branches %x of t%u are registered", r->parts, r->fact);
}

static uint32_t registered_count(const struct ts_fact *f)
{
    return (uint32_t)__builtin_popcount(registered_bits(f)) +
           (uint32_t)__builtin_popcount(f->vouchers);
}

/* A joiner says that its services said yes. */
static void vouch(struct ts_world *w, const struct ts_event *r)
{
    struct ts_fact *f = &w->facts[r->fact];
    if (f->stands != RT_DECISION_NONE || (!f->row && below(w, f)))
        return; /* too late */
    f->row = true;
    f->vouched |= r->parts;
    f->vouchers |= 1u << r->branch;
}

/* How it stands, as REGISTER, DECIDE and LOOK tell it. */
static void tell(const struct ts_world *w, struct ts_event *r)
{
    const struct ts_fact *f = &w->facts[r->fact];
    if (f->stands == RT_DECISION_NONE) {
        r->reply = !f->row && below(w, f) ? RT_REPLY_BELOW : RT_REPLY_OPEN;
        r->parts = registered_bits(f);
        r->registered = registered_count(f);
        r->vouched = f->vouched;
        r->has_parts = f->row;
        return;
    }
    r->reply = RT_REPLY_STANDS;
    r->decision = f->stands;
    r->done = f->done;
    r->has_parts = true;
    r->parts = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const struct ts_branch *b = &f->branches[i];
        bool told = f->stands == RT_DECISION_COMMIT ? b->listed : b->service && b->registered;
        r->parts |= (uint32_t)told << i;
    }
}

static void done(struct ts_world *w, struct ts_event *r)
{
    struct ts_fact *f = &w->facts[r->fact];
    r->reply = RT_REPLY_DONE;
    if (f->stands == RT_DECISION_NONE)
        return;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->stands == RT_DECISION_COMMIT && f->branches[i].listed &&
            f->branches[i].state != TS_COMMITTED)
            ts_violated(w, "X8", "t%u is written as done, and branch %u is not committed", r->fact,
                        i);
    ts_service_check_done(w, r->fact);
    f->done = true;
}

/* No higher than the newest it has, as a journal does that has no clock. */
static int64_t newest(const struct ts_world *w)
{
    int64_t ms = 0;
    for (uint32_t i = 0; i < w->begun; i++)
        if (w->facts[i].row && rt_txn_id_birth(&w->facts[i].id) > ms)
            ms = rt_txn_id_birth(&w->facts[i].id);
    return ms;
}

static void forget(struct ts_world *w, struct ts_event *r)
{
    if (r->floor_ms > newest(w))
        r->floor_ms = newest(w);
    for (uint32_t i = 0; i < w->begun; i++) {
        struct ts_fact *f = &w->facts[i];
        if (!f->row || !f->done || rt_txn_id_birth(&f->id) >= r->floor_ms)
            continue;
        f->row = false;
        f->stands = RT_DECISION_NONE;
        ts_counts.forgotten++;
        TS_TRACE(w, "journal: t%u is forgotten", i);
    }
    if (r->floor_ms > w->floor_ms && !RT_BUG(RT_BUG_TXN_FORGETS_FIRST))
        w->floor_ms = r->floor_ms;
}

static void scan(const struct ts_world *w, struct ts_event *r)
{
    r->marks = 0;
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct ts_fact *f = &w->facts[i];
        r->listed[i] = 0;
        if (!f->row || f->done)
            continue;
        r->marks |= 1u << i;
        r->listed[i] = TS_SEEN | (f->stands == RT_DECISION_COMMIT ? TS_IS_COMMIT : 0) |
                       (f->stands == RT_DECISION_NONE ? TS_IS_OPEN : 0);
        for (uint32_t k = 0; k < f->count; k++)
            r->listed[i] |= (uint32_t)f->branches[k].listed << k;
    }
}

bool ts_journal_serve(struct ts_world *w, struct ts_event *r)
{
    if (w->now < w->journal_down_until)
        return false;
    if (r->op == TS_OP_SCAN || (r->op == TS_OP_GC && r->gc_op == RT_GC_SCAN))
        scan(w, r);
    else if (r->op == TS_OP_GC)
        forget(w, r);
    else if (r->to == RT_TXN_DONE)
        done(w, r);
    else {
        struct ts_fact *f = &w->facts[r->fact];
        bool unknown = r->decision == RT_DECISION_COMMIT && registered_count(f) > r->registered;
        bool writes = r->to == RT_TXN_DECIDE && f->stands == RT_DECISION_NONE &&
                      (f->row || !below(w, f)) && !unknown;
        if (r->to == RT_TXN_REGISTER)
            enter(w, r);
        if (r->to == RT_TXN_VOUCH)
            vouch(w, r);
        if (RT_BUG(RT_BUG_TXN_OVERWRITES) && r->to == RT_TXN_DECIDE)
            writes = !unknown;
        if (writes)
            write_row(w, r);
        tell(w, r);
    }
    return true;
}
