/* SPDX-License-Identifier: Apache-2.0 */
/* DONE for many at once: nobody waits for it, so it is held back until something else goes to the journal.
 *
 *   filling ── a DECIDE leaves, it is full, LINGER_MS pass, somebody asks the journal, closing ──▶ asked ──▶ told
 *
 * If the process dies with some held back, recovery finds them committed and not done, and asks for DONE again: as if
 * the process had died before its DONE. */
#include "txn/manager/inside.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LINGER_MS 5 /* whoever reads the journal later than that finds it done */

struct rt_finish {
    struct rt_asker asker; /* first */
    struct rt_finish *next;
    struct rt_journal_op op;
    uint32_t count;
    struct rota_txn *txns[RT_JOURNAL_PAGE_MAX];
    struct rt_txn_id ids[RT_JOURNAL_PAGE_MAX];
};

static void told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rt_finish *f = (struct rt_finish *)(void *)a;
    struct rt_finish **at = &a->m->finishing;

    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    for (uint32_t i = 0; i < f->count; i++)
        rt_decision_finished(f->txns[i], op->err);
    rt_free(f);
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct rt_txn_id));
}

void rt_finish_send(struct rota_txns *m)
{
    struct rt_finish *f = m->finish;

    if (f == NULL)
        return;
    m->finish = NULL;
    rt_timers_stop(&m->loop.timers, &m->finish_timer.timer);
    f->next = m->finishing;
    m->finishing = f;
    qsort(f->ids, f->count, sizeof(f->ids[0]), by_id); /* rows are locked in this order */
    f->op = (struct rt_journal_op){.kind = RT_JOURNAL_DONE, .user = &f->asker};
    f->op.finish.ids = f->ids;
    f->op.finish.count = f->count;
    rt_journal_submit(m->journal, &f->op);
}

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    (void)now;
    rt_finish_send(
        (struct rota_txns *)(void *)((char *)call - offsetof(struct rota_txns, finish_timer)));
}

bool rt_finish_add(struct rota_txn *t)
{
    struct rota_txns *m = t->m;
    struct rt_finish *f = m->finish;

    if (f == NULL) {
        f = rt_alloc(sizeof(*f));
        if (f == NULL)
            return false;
        f->asker = (struct rt_asker){.m = m, .told = told};
        m->finish = f;
        m->finish_timer.fire = on_timer;
        rt_timers_start(&m->loop.timers, &m->finish_timer.timer,
                        rt_loop_now(&m->loop) + LINGER_MS * RT_MS);
    }
    assert(f->count < RT_JOURNAL_PAGE_MAX);
    f->txns[f->count] = t;
    f->ids[f->count++] = t->core.id;
    if (f->count == RT_JOURNAL_PAGE_MAX || m->closing)
        rt_finish_send(m);
    return true;
}

void rt_finish_fini(struct rota_txns *m)
{
    rt_free(m->finish);
    m->finish = NULL;
    while (m->finishing != NULL) {
        struct rt_finish *f = m->finishing;
        m->finishing = f->next;
        rt_free(f);
    }
}
