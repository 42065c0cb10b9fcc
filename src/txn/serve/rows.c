/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal has of one of our transactions: branch 0 is its plan, the others are steps of a saga that may have
 * run, or branches of a tcc. A plan may also come with the decision (a submitted message): then that one counts. */
#include "txn/serve/serve.h"

#include "base/bug.h"
#include "txn/point.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct rt_serve_row *row;
    struct rt_plan branches; /* of a tcc */
};

static void read_plan(struct rt_serve_row *row, const struct rt_journal_branch *b)
{
    struct rt_plan plan;

    if (b->size == 0 || row->planned)
        return;
    if (!rt_plan_read(&plan, b->payload, b->size, 1, row->line)) {
        row->damaged = true;
        return;
    }
    row->plan = plan;
    row->planned = true;
}

static void read_step(struct reading *r, const struct rt_journal_branch *b)
{
    struct rt_serve_row *row = r->row;
    const char *gid;

    if (row->plan.kind == RT_PLAN_TCC && b->size > 0)
        row->damaged = !rt_plan_add(&row->plan, b->payload, b->size, 1, &gid, row->line) ||
                       row->damaged;
    else if (row->plan.kind == RT_PLAN_SAGA && b->number <= row->plan.count && row->steps != NULL)
        row->steps[b->number - 1] = !RT_BUG(RT_BUG_SERVE_STEPS_FORGOTTEN);
}

/* On the keeper's thread, while the asker waits. */
static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct reading *r = arg;
    struct rt_serve_row *row = r->row;

    row->stands = record->stands;
    row->done = record->done;
    row->registered = record->registered;
    for (size_t i = 0; i < record->branch_count; i++) {
        const struct rt_journal_branch *b = &record->branches[i];
        if (b->mode != RT_SERVE_MODE)
            row->damaged = true;
        else if (b->number == 0)
            read_plan(row, b);
    }
    if (!row->planned)
        return;
    row->steps = calloc(row->plan.count + 1, sizeof(*row->steps)); /* a saga's */
    row->damaged = row->damaged || row->steps == NULL;
    for (size_t i = 0; i < record->branch_count; i++)
        if (record->branches[i].mode == RT_SERVE_MODE && record->branches[i].number != 0)
            read_step(r, &record->branches[i]);
}

int rt_serve_read(struct rt_serve *s, const struct rt_txn_id *id, struct rt_serve_row *row)
{
    struct reading r = {.row = row};
    struct rt_journal_op op = {.kind = RT_JOURNAL_READ};

    *row = (struct rt_serve_row){.stands = RT_JOURNAL_ABSENT};
    op.read.id = *id;
    op.read.each = on_record;
    op.read.arg = &r;
    return rt_txns_ask(s->m, &op);
}

void rt_serve_row_free(struct rt_serve_row *row)
{
    rt_plan_free(&row->plan);
    free(row->steps);
    *row = (struct rt_serve_row){.stands = RT_JOURNAL_ABSENT};
}

/* ---- Writing ---------------------------------------------------------------------------- */

static struct rt_journal_branch branch(uint32_t number, const void *payload, size_t size)
{
    return (struct rt_journal_branch){.number = number,
                                      .mode = RT_SERVE_MODE,
                                      .resource = RT_SERVE_RESOURCE,
                                      .payload = payload,
                                      .size = size};
}

static int64_t deadline_of(int64_t created_ms)
{
    assert(created_ms > 0 && created_ms < RT_TXN_BIRTH_MAX - RT_JOURNAL_SERVED);
    return RT_JOURNAL_SERVED + created_ms;
}

static int do_register(struct rt_serve *s, const struct rt_txn_id *id, const char *gid,
                       int64_t created_ms, const struct rt_journal_branch *list, size_t count,
                       enum rt_journal_stand *stands)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_REGISTER};

    op.reg.id = *id;
    op.reg.deadline_ms = deadline_of(created_ms);
    op.reg.label = gid;
    op.reg.branches = list;
    op.reg.count = count;
    int err = rt_txns_ask(s->m, &op);
    *stands = op.reg.stands;
    return err;
}

static int register_all(struct rt_serve *s, const struct rt_txn_id *id, const struct rt_plan *plan,
                        bool itself, const bool *steps, enum rt_journal_stand *stands)
{
    size_t n = 0, size = 0;
    char *text = itself ? rt_plan_write(plan, &size) : NULL;
    struct rt_journal_branch *list = calloc(plan->count + 1, sizeof(*list));

    if (list == NULL || (itself && text == NULL)) {
        free(text);
        free(list);
        return ROTA_NOMEM;
    }
    if (itself)
        list[n++] = branch(0, text, size);
    for (size_t i = 0; steps != NULL && i < plan->count; i++)
        if (steps[i])
            list[n++] = branch(plan->steps[i].number, NULL, 0);
    int err = do_register(s, id, plan->gid, plan->created_ms, list, n, stands);
    free(text);
    free(list);
    return err;
}

int rt_serve_register_plan(struct rt_serve *s, const struct rt_txn_id *id,
                           const struct rt_plan *plan, const bool *steps,
                           enum rt_journal_stand *stands)
{
    int err = register_all(s, id, plan, true, steps, stands);

    rt_point("dtm-planned");
    return err;
}

int rt_serve_register_steps(struct rt_serve *s, const struct rt_txn_id *id,
                            const struct rt_plan *plan, const bool *steps,
                            enum rt_journal_stand *stands)
{
    int err = register_all(s, id, plan, false, steps, stands);

    rt_point("dtm-registered");
    return err;
}

int rt_serve_register_branch(struct rt_serve *s, const struct rt_txn_id *id,
                             const struct rt_plan_step *step, int64_t created_ms,
                             enum rt_journal_stand *stands)
{
    size_t size;
    char *text = rt_plan_write_branch(step, &size);

    if (text == NULL)
        return ROTA_NOMEM;
    struct rt_journal_branch b = branch(step->number, text, size);
    int err = do_register(s, id, NULL, created_ms, &b, 1, stands);
    rt_point("dtm-branch");
    free(text);
    return err;
}

int rt_serve_decide(struct rt_serve *s, const struct rt_txn_id *id, const char *gid, bool commit,
                    const struct rt_plan *plan, int64_t created_ms, uint32_t *registered,
                    enum rt_journal_stand *stands)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    struct rt_journal_branch list;
    size_t size = 0;
    char *text = plan != NULL ? rt_plan_write(plan, &size) : NULL;

    if (plan != NULL && text == NULL)
        return ROTA_NOMEM;
    list = branch(0, text, size);
    op.decide.id = *id;
    op.decide.decision = commit ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
    op.decide.deadline_ms = deadline_of(created_ms);
    op.decide.label = gid;
    op.decide.branches = &list;
    op.decide.count = 1;
    op.decide.registered = *registered;
    int err = rt_txns_ask(s->m, &op);
    rt_point("dtm-decided");
    *stands = op.decide.stands;
    *registered = op.decide.registered;
    free(text);
    return err;
}

int rt_serve_finish(struct rt_serve *s, const struct rt_txn_id *id)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};

    op.finish.ids = id;
    op.finish.count = 1;
    int err = rt_txns_ask(s->m, &op);
    rt_point("dtm-finished");
    return err;
}

int rt_serve_claim(struct rt_serve *s, const struct rt_txn_id *id, uint32_t for_ms)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_CLAIM};

    op.claim.id = *id;
    op.claim.who = s->who;
    op.claim.for_ms = for_ms;
    return rt_txns_ask(s->m, &op);
}
