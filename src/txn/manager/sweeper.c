/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting what is long over: the core (txn/core/gc.h) says what to ask when; this asks it.
 *
 * What time it is, the journal says (journal.h: FORGET): this machine's clock may be wrong, and what it forgot would be
 * forbidden to everybody.
 * A resource that cannot be reached keeps its markers until the next time: they harm nobody. */
#include "txn/manager/inside.h"

#include "base/alloc.h"
#include "txn/core/gc.h"

#include <assert.h>
#include <string.h>

#define EVERY_MOST \
    (INT64_C(3600) * 1000) /* ms between two runs; less if outcomes are kept for less than a day */
#define EVERY_LEAST INT64_C(1000)

struct rt_sweeper {
    struct rt_asker asker; /* first */
    struct rt_gc gc;
    uint32_t seq;
    struct rt_timer_call timer;
    struct rt_journal_op op;
    struct rt_errand errand;
    struct rt_txn_id *keep; /* not done, and below the floor */
    size_t keep_count, keep_room;
    bool no_memory;
    bool busy;      /* something is under way */
    uint32_t stage; /* at the resource: 0: its markers, then as `stages` says */
};

/* What is forgotten at a resource, in this order: flags of RT_PARTY_FORGET. */
static const uint32_t stages[] = {0, RT_PARTY_FENCES, RT_PARTY_PROMISES};
#define STAGES (sizeof(stages) / sizeof(stages[0]))

static void go_on(struct rt_sweeper *s);

static void rest(struct rt_sweeper *s)
{
    struct rota_txns *m = s->asker.m;
    int64_t ms = m->opts.keep_ms / 24;

    ms = ms > EVERY_MOST ? EVERY_MOST : ms < EVERY_LEAST ? EVERY_LEAST : ms;
    rt_timers_start(&m->loop.timers, &s->timer.timer, rt_loop_now(&m->loop) + ms * RT_MS);
}

static void answered(struct rt_sweeper *s, enum rt_gc_reply reply)
{
    s->busy = false;
    rt_gc_answered(&s->gc, s->seq, reply, rt_loop_now(&s->asker.m->loop));
    go_on(s);
}

/* ---- The journal ------------------------------------------------------------------------ */

static void on_undone(void *arg, const struct rt_journal_record *record)
{
    struct rt_sweeper *s = arg;

    if (rt_txn_id_birth(&record->id) >= s->gc.floor_ms)
        return;
    if (!rt_grow(&s->keep, &s->keep_room, s->keep_count + 1, sizeof(*s->keep))) {
        s->no_memory = true;
        return;
    }
    s->keep[s->keep_count++] = record->id;
}

static void submit(struct rt_sweeper *s)
{
    s->op.user = &s->asker;
    s->busy = true;
    rt_journal_submit(s->asker.m->journal, &s->op);
}

static void told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rt_sweeper *s = (struct rt_sweeper *)(void *)a;
    bool scan = op->kind == RT_JOURNAL_SCAN;

    if (op->err == 0 && scan && op->scan.more) {
        submit(s); /* from the cursor on */
        return;
    }
    if (op->err == 0 && !scan) {
        rt_gc_raised(&s->gc, op->forget.before_ms);
        rt_gc_raised(&s->gc, op->forget.floor_ms);
    }
    if (op->err != 0 || (scan && s->no_memory))
        answered(s, RT_GC_LOST);
    else
        answered(s, !scan && op->forget.more ? RT_GC_MORE : RT_GC_OK);
}

static void ask_forget(struct rt_sweeper *s)
{
    s->op = (struct rt_journal_op){.kind = RT_JOURNAL_FORGET};
    s->op.forget.before_ms = s->gc.floor_ms;
    s->op.forget.keep_ms = s->asker.m->opts.keep_ms;
    submit(s);
}

static void ask_scan(struct rt_sweeper *s)
{
    s->keep_count = 0;
    s->no_memory = false;
    s->op = (struct rt_journal_op){.kind = RT_JOURNAL_SCAN};
    s->op.scan.before_ms = RT_TXN_BIRTH_MAX;
    s->op.scan.limit = RT_JOURNAL_PAGE_MAX;
    s->op.scan.each = on_undone;
    s->op.scan.arg = s;
    submit(s);
}

/* ---- The participants -------------------------------------------------------------------- */

struct nth {
    uint32_t index;
    struct rt_resource *found;
};

static void see(void *arg, struct rt_resource *r)
{
    struct nth *n = arg;
    if (rt_resource_index(r) == n->index)
        n->found = r;
}

static void ask_marks(struct rt_sweeper *s)
{
    struct rota_txns *m = s->asker.m;
    struct nth n = {.index = s->gc.resource};

    rt_resources_each(m->resources, see, &n);
    memset(&s->errand, 0, sizeof(s->errand));
    s->errand.op.what = RT_PARTY_FORGET;
    s->errand.op.flags = stages[s->stage];
    s->errand.op.deadline = rt_loop_now(&m->loop) + m->opts.call_ms * RT_MS;
    s->errand.op.forget.journal = m->number;
    s->errand.op.forget.before_ms = s->gc.floor_ms;
    s->errand.op.forget.keep = s->keep;
    s->errand.op.forget.keep_count = s->keep_count;
    s->errand.user = &s->asker;
    s->busy = n.found != NULL && rt_txns_send(m, n.found, &s->errand) == 0;
    if (!s->busy) {
        s->stage = 0;
        answered(s, RT_GC_OK);
    }
}

static void back(struct rt_asker *a, struct rt_errand *e)
{
    struct rt_sweeper *s = (struct rt_sweeper *)(void *)a;

    bool more = e->op.reply == RT_REPLY_DONE && e->op.forget.more;
    bool lost = e->op.reply == RT_REPLY_LOST;

    s->stage = lost ? 0 : (s->stage + !more) % STAGES;
    if (more || s->stage > 0)
        ask_marks(s);
    else
        answered(s, RT_GC_OK);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void go_on(struct rt_sweeper *s)
{
    struct rota_txns *m = s->asker.m;
    int64_t now = rt_loop_now(&m->loop);

    assert(!s->busy);
    switch (rt_gc_todo(&s->gc, &s->seq, now)) {
    case RT_GC_FORGET:
        ask_forget(s);
        break;
    case RT_GC_SCAN:
        ask_scan(s);
        break;
    case RT_GC_MARKS:
        ask_marks(s);
        break;
    default:
        if (s->gc.step == RT_GC_REST)
            rest(s);
        else /* a pause after a failure */
            rt_timers_start(&m->loop.timers, &s->timer.timer, s->gc.retry.at);
    }
}

static void count(void *arg, struct rt_resource *r)
{
    (void)r;
    ++*(uint32_t *)arg;
}

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    struct rt_sweeper *s = (struct rt_sweeper *)(void *)((char *)call -
                                                         offsetof(struct rt_sweeper, timer));
    struct rota_txns *m = s->asker.m;
    uint32_t resources = 0;

    if (s->gc.step == RT_GC_REST) {
        rt_resources_each(m->resources, count, &resources);
        rt_gc_start(&s->gc, resources, RT_TXN_BIRTH_MAX, 0, now);
    }
    go_on(s);
}

int rt_sweeper_start(struct rota_txns *m)
{
    struct rt_sweeper *s = rt_alloc(sizeof(*s));

    if (s == NULL)
        return ROTA_NOMEM;
    s->asker = (struct rt_asker){.m = m, .told = told, .back = back};
    s->timer.fire = on_timer;
    if (rt_loop_reserve(&m->loop, 1) != 0) {
        rt_free(s);
        return ROTA_NOMEM;
    }
    m->sweeper = s;
    rest(s);
    return 0;
}

void rt_sweeper_fini(struct rota_txns *m)
{
    struct rt_sweeper *s = m->sweeper;

    if (s == NULL)
        return;
    rt_timers_stop(&m->loop.timers, &s->timer.timer);
    rt_free(s->keep);
    rt_free(s);
    m->sweeper = NULL;
}
