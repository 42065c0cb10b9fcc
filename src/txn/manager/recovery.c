/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: finds what dead processes left, in the journal and at the participants, and finishes it.
 *
 *          every recover_ms      all pages              all resources have told, or cannot be reached
 *   REST ──────────────────▶ SCAN ───────▶ LISTING ──────────────────────────▶ judged (core/sweep.h), adopted ──▶ REST
 *
 * Several recoveries may do this at the same time: the journal's first decision wins, and every order may be given
 * twice. No safety rests on anything here. */
#include "txn/manager/inside.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "txn/point.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SEEN_ROOM 32768     /* ids remembered between two passes */
#define FOUND_MOST 12288    /* in one pass: the rest waits for the next, which then comes soon */
#define ADOPTED_MOST 12288  /* at once, not counting those whose participant is silent */
#define WAITING_MOST 65536  /* ... which count here */
#define SLACK_MS 1000       /* clocks differ by less than this */
#define APART (500 * RT_MS) /* between first sight and settling */
#define MISSING_EVERY 60000 /* ms: how often unreachable resources are reported */
#define MISSING_FIRST 5000  /* ms: an application names its own after opening the manager */

struct finding { /* something unfinished, seen in this pass */
    struct rt_name name;
    uint64_t connection;
    struct rt_resource *resource; /* NULL: in the journal */
    bool decided;
};

struct findings {
    struct finding *at;
    size_t count, room;
    bool cut; /* no memory for all, or too many: the next pass sees them */
};

struct listing {           /* LIST at one resource */
    struct rt_asker asker; /* first */
    struct rt_recovery *r;
    struct rt_resource *resource;
    struct rt_errand errand;
    struct findings found;
    struct listing *next;
    bool under_way;
};

struct rt_recovery {
    struct rt_asker asker; /* first */
    struct rota_txns *m;
    struct rt_timer_call timer;
    struct rt_sweep sweep;
    struct rt_seen *seen;
    struct rt_journal_op op;
    struct findings found;
    struct listing *listings;
    size_t listed;  /* where in `found` the participants' findings begin */
    uint32_t waits; /* listings under way */
    bool asks;      /* the journal */
    int64_t missing_at;
};

static void note(struct findings *f, const struct finding *what)
{
    if (!rt_grow(&f->at, &f->room, f->count + 1, sizeof(*f->at))) {
        f->cut = true;
        return;
    }
    f->at[f->count++] = *what;
}

/* ---- Adopting --------------------------------------------------------------------- */

static int add_found(struct rota_txn *t, const struct finding *f)
{
    const struct rt_party_kind *kind = rt_resource_kind(f->resource);
    enum rt_branch_mode mode = kind->gated ? RT_XA_MYSQL : RT_XA_POSTGRES;

    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->core.branches[i].number == f->name.branch)
            return 0;
    struct rota_branch *b = rt_entry_room(t, 1) == 0
                                ? rt_entry_branch(t, rt_resource_name(f->resource), mode)
                                : NULL;
    if (b == NULL)
        return ROTA_NOMEM;
    b->index = t->core.count;
    b->bond->part.name = f->name;
    b->bond->part.connection = f->connection;
    b->bond->part.prepared = true;
    t->branches[b->index] = b;
    struct rt_txn_part part = {
        .number = f->name.branch, .resource = rt_resource_index(f->resource), .gated = kind->gated};
    rt_txn_found(&t->core, &part);
    return 0;
}

static void adopt(struct rota_txns *m, const struct findings *all, size_t first, size_t listed)
{
    const struct finding *f = &all->at[first];
    struct rota_txn *t = rt_entry_new(m);

    if (t == NULL)
        return; /* the next pass tries again */
    struct rt_branch *branches = t->core.branches;
    rt_txn_adopt(&t->core, &f->name.id, f->name.deadline_ms, branches, t->core.room);
    rt_entry_named(t);
    for (size_t i = first > listed ? first : listed; i < all->count; i++)
        if (all->at[i].resource != NULL && rt_txn_id_same(&all->at[i].name.id, &f->name.id) &&
            add_found(t, &all->at[i]) != 0) {
            rt_entry_free(t);
            return;
        }
    rt_point("recover-aborting");
    t->life = RT_LIFE_ALONE;
    bool presumed = RT_BUG(RT_BUG_MANAGER_ABORT_PRESUMED) && !f->decided;
    rt_txn_settle(&t->core, presumed ? RT_DECISION_ABORT : RT_DECISION_NONE, NULL, 0,
                  rt_loop_now(&m->loop));
    rt_txns_due(t);
}

static uint32_t adopted_now(const struct rota_txns *m)
{
    uint32_t busy = 0, waiting = 0;
    for (const struct rota_txn *t = m->txns; t != NULL; t = t->next) {
        bool waits = false;
        for (uint32_t i = 0; t->core.adopted && i < t->core.count; i++)
            waits = waits || t->core.branches[i].retry.tries >= 3;
        waiting += t->core.adopted && waits;
        busy += t->core.adopted && !waits;
    }
    return waiting < WAITING_MOST ? busy : ADOPTED_MOST;
}

static void judge_all(struct rt_recovery *r)
{
    struct rota_txns *m = r->m;
    int64_t now = rt_loop_now(&m->loop), wall = rt_txns_wall_ms();
    uint32_t adopted = adopted_now(m);

    if (RT_BUG(RT_BUG_MANAGER_NO_DEADLINE))
        wall = INT64_MAX / 2;
    for (size_t i = 0; i < r->found.count; i++) {
        const struct finding *f = &r->found.at[i];
        bool settle = rt_sweep_judge(&r->sweep, &f->name, f->decided, now, wall) == RT_SWEEP_SETTLE;
        if (!settle || adopted >= ADOPTED_MOST || rt_entry_find(m, &f->name.id) != NULL)
            continue;
        adopt(m, &r->found, i, r->listed);
        adopted++;
    }
}

static void rest(struct rt_recovery *r)
{
    struct rota_txns *m = r->m;
    int64_t pause = m->opts.recover_ms * RT_MS;
    if (r->found.cut && pause > APART) /* there is more */
        pause = APART;
    rt_timers_start(&m->loop.timers, &r->timer.timer, rt_loop_now(&m->loop) + pause);
}

/* ---- Looking at the participants ---------------------------------------------------- */

/* On the worker's thread; nobody else looks at FOUND meanwhile. */
static void on_seen(void *arg, const struct rt_party_seen *seen)
{
    struct listing *l = arg;
    struct finding f = {
        .name = seen->name, .connection = seen->connection, .resource = l->resource};

    if (seen->ours && rt_txn_id_journal(&seen->name.id) == l->r->m->number)
        note(&l->found, &f);
}

static void all_told(struct rt_recovery *r)
{
    r->listed = r->found.count;
    for (struct listing *l = r->listings; l != NULL; l = l->next) {
        for (size_t i = 0; i < l->found.count; i++)
            note(&r->found, &l->found.at[i]);
        l->found.count = 0;
    }
    rt_point("recover-listed");
    judge_all(r);
    rest(r);
}

static void listing_back(struct rt_asker *a, struct rt_errand *e)
{
    struct listing *l = (struct listing *)(void *)a;

    assert(l->under_way && l->r->waits > 0);
    l->under_way = false;
    if (e->op.reply != RT_REPLY_DONE)
        l->found.count = 0; /* what was told before does not count */
    if (--l->r->waits == 0)
        all_told(l->r);
}

static void list_one(struct rt_recovery *r, struct listing *l)
{
    struct rota_txns *m = r->m;

    l->found.count = 0;
    l->errand.op = (struct rt_party_op){.what = RT_PARTY_LIST};
    l->errand.op.deadline = rt_loop_now(&m->loop) + m->opts.call_ms * RT_MS;
    l->errand.op.list.journal = m->number;
    l->errand.op.list.each = on_seen;
    l->errand.op.list.arg = l;
    l->errand.user = &l->asker;
    l->under_way = rt_txns_send(m, l->resource, &l->errand) == 0;
    r->waits += l->under_way;
}

static void know(void *arg, struct rt_resource *resource)
{
    struct rt_recovery *r = arg;

    for (struct listing *l = r->listings; l != NULL; l = l->next)
        if (l->resource == resource)
            return;
    struct listing *l = rt_alloc(sizeof(*l));
    if (l == NULL)
        return; /* the next pass tries again */
    l->asker = (struct rt_asker){.m = r->m, .back = listing_back};
    l->r = r;
    l->resource = resource;
    l->next = r->listings;
    r->listings = l;
}

static void list_all(struct rt_recovery *r)
{
    rt_resources_each(r->m->resources, know, r);
    assert(r->waits == 0);
    r->waits = 1; /* so that none is the last before all are asked */
    for (struct listing *l = r->listings; l != NULL; l = l->next)
        list_one(r, l);
    if (--r->waits == 0)
        all_told(r);
}

/* ---- Looking at the journal ----------------------------------------------------------- */

static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct rt_recovery *r = arg;
    struct finding f = {.name = {.id = record->id, .deadline_ms = record->deadline_ms}};

    if (record->deadline_ms >= RT_JOURNAL_SERVED)
        return; /* a server's (txn/serve) */
    f.decided = record->stands == RT_JOURNAL_COMMIT || record->stands == RT_JOURNAL_ABORT;
    bool young = !f.decided && rt_txns_wall_ms() < record->deadline_ms + SLACK_MS;
    if (young && !RT_BUG(RT_BUG_MANAGER_NO_DEADLINE))
        return; /* so that they leave room for the others */
    if (rt_entry_find(r->m, &record->id) != NULL)
        return; /* it is being finished, or its application has it */
    if (r->found.count >= FOUND_MOST)
        r->found.cut = true;
    else
        note(&r->found, &f);
}

static void ask(struct rt_recovery *r)
{
    r->asks = true;
    r->op.user = &r->asker;
    rt_journal_submit(r->m->journal, &r->op);
}

static void on_missing(void *arg, const char *name, const char *url, int64_t seen_ms)
{
    struct rota_txns *m = arg;
    char line[RT_TXN_LINE];

    (void)seen_ms;
    if (rt_resources_knows(m->resources, name) ||
        strncmp(name, RT_JOURNAL_OWN, sizeof(RT_JOURNAL_OWN) - 1) == 0)
        return;
    snprintf(
        line, sizeof(line),
        "others use it (%.80s), but it has no URL here: what they leave there is not finished; add "
        "'NAME = URL' to ~/.config/rota/txn",
        url);
    rt_txns_notice(m, NULL, name, line);
}

static void told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rt_recovery *r = (struct rt_recovery *)(void *)a;

    r->asks = false;
    if (op->kind == RT_JOURNAL_SCAN && op->err == 0 && op->scan.more && !r->found.cut) {
        ask(r);
        return;
    }
    int64_t now = rt_loop_now(&r->m->loop);
    if (op->kind == RT_JOURNAL_SCAN && op->err == 0 && now >= r->missing_at) {
        r->missing_at = now + MISSING_EVERY * RT_MS;
        r->op = (struct rt_journal_op){.kind = RT_JOURNAL_RESOURCES};
        r->op.resources.each = on_missing;
        r->op.resources.arg = r->m;
        ask(r);
        return;
    }
    list_all(r);
}

static void pass(struct rt_timer_call *call, int64_t now)
{
    struct rt_recovery *r = (struct rt_recovery *)(void *)((char *)call -
                                                           offsetof(struct rt_recovery, timer));

    (void)now;
    assert(!r->asks && r->waits == 0);
    rt_sweep_pass(&r->sweep);
    r->found.count = 0;
    r->found.cut = false;
    r->op = (struct rt_journal_op){.kind = RT_JOURNAL_SCAN};
    r->op.scan.before_ms = RT_TXN_BIRTH_MAX;
    r->op.scan.limit = RT_JOURNAL_PAGE_MAX;
    r->op.scan.each = on_record;
    r->op.scan.arg = r;
    ask(r);
}

/* ---- Life -------------------------------------------------------------------------------- */

int rt_recovery_start(struct rota_txns *m)
{
    struct rt_recovery *r = rt_alloc(sizeof(*r));
    struct rt_seen *seen = rt_alloc(SEEN_ROOM * sizeof(*seen));

    if (r == NULL || seen == NULL) {
        rt_free(r);
        rt_free(seen);
        return rt_txns_fail(NULL, ROTA_NOMEM, "out of memory");
    }
    r->asker = (struct rt_asker){.m = m, .told = told};
    r->m = m;
    r->seen = seen;
    r->missing_at = rt_loop_clock() + MISSING_FIRST * RT_MS;
    r->timer.fire = pass;
    rt_sweep_init(&r->sweep, m->number, SLACK_MS, APART, seen, SEEN_ROOM);
    pthread_mutex_lock(&m->mu);
    int rv = rt_loop_reserve(&m->loop, 1);
    m->recovery = r;
    if (rv == 0)
        rt_timers_start(&m->loop.timers, &r->timer.timer, rt_loop_clock());
    if (rv == 0)
        rv = rt_sweeper_start(m);
    rt_txns_wake(m);
    pthread_mutex_unlock(&m->mu);
    return rv == 0 ? 0 : rt_txns_fail(NULL, rv, "out of memory");
}

void rt_recovery_soon(struct rota_txns *m)
{
    struct rt_recovery *r = m->recovery;

    if (r == NULL || r->asks || r->waits > 0)
        return;
    r->missing_at = rt_loop_clock();
    rt_timers_start(&m->loop.timers, &r->timer.timer, rt_loop_clock());
    rt_txns_wake(m);
}

void rt_recovery_fini(struct rota_txns *m)
{
    struct rt_recovery *r = m->recovery;

    if (r == NULL)
        return;
    rt_timers_stop(&m->loop.timers, &r->timer.timer);
    while (r->listings != NULL) {
        struct listing *l = r->listings;
        r->listings = l->next;
        rt_free(l->found.at);
        rt_free(l);
    }
    rt_free(r->found.at);
    rt_free(r->seen);
    rt_free(r);
    m->recovery = NULL;
}
