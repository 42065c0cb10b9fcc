/* SPDX-License-Identifier: Apache-2.0 */
/* How a transaction ended: what the journal says, and what this process knows of branches that cannot be finished. */
#include "txn/manager/inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

int rt_txns_read_id(struct rota_txns *m, const char *text, struct rt_txn_id *id,
                    int64_t *deadline_ms)
{
    struct rt_name name = {.deadline_ms = 0};

    if (text == NULL || (!rt_name_ticket_parse(text, &name) && !rt_txn_id_read(text, &name.id)))
        return rt_txns_fail(m, ROTA_INVALID,
                            "'%.60s' is no id of a transaction: 32 hexadecimal digits, or as "
                            "rota_txn_id gives it",
                            text != NULL ? text : "");
    if (rt_txn_id_journal(&name.id) != m->number)
        return rt_txns_fail(
            m, ROTA_INVALID,
            "%.32s is of another journal: its ids begin with %08x, those of this one "
            "with %08x",
            text, rt_txn_id_journal(&name.id), m->number);
    *id = name.id;
    *deadline_ms = name.deadline_ms;
    return 0;
}

static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct rota_outcome *o = arg;

    *o = (struct rota_outcome){.deadline_ms = record->deadline_ms,
                               .decided_ms = record->decided_ms};
    switch (record->stands) {
    case RT_JOURNAL_COMMIT:
        o->stand = o->decision = ROTA_STAND_COMMITTED;
        break;
    case RT_JOURNAL_ABORT:
        o->stand = o->decision = ROTA_STAND_ABORTED;
        break;
    case RT_JOURNAL_EXPIRED:
        o->stand = ROTA_STAND_EXPIRED;
        break;
    default:
        o->stand = ROTA_STAND_OPEN;
    }
    for (size_t i = 0; i < record->branch_count; i++)
        o->branches += !record->branches[i].registered || o->decision != ROTA_STAND_COMMITTED;
    o->unfinished = record->done ? 0 : o->branches;
}

/* What this process drives, it knows more of. */
static void add_what_we_know(struct rota_txns *m, const struct rt_txn_id *id,
                             struct rota_outcome *o)
{
    pthread_mutex_lock(&m->mu);
    const struct rota_txn *t = rt_entry_find(m, id);
    uint32_t open = 0;
    for (uint32_t i = 0; t != NULL && o->decision != ROTA_STAND_OPEN && i < t->core.count; i++) {
        const struct rt_branch *core = &t->core.branches[i];
        open += !rt_branch_is_over(core);
        if (core->stuck == RT_STUCK_NOT || rt_branch_is_over(core) || o->stand == ROTA_STAND_STUCK)
            continue;
        o->stand = ROTA_STAND_STUCK;
        snprintf(o->why, sizeof(o->why), "%.60s: %s", t->branches[i]->name, rt_drive_stuck(t, i));
    }
    if (t != NULL && o->decision != ROTA_STAND_OPEN)
        o->unfinished = open;
    pthread_mutex_unlock(&m->mu);
}

static int look(struct rota_txns *m, const struct rt_txn_id *id, struct rota_outcome *o)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_READ};

    op.read.id = *id;
    op.read.each = on_record;
    op.read.arg = o;
    int rv = rt_txns_ask(m, &op);
    if (rv == 0)
        add_what_we_know(m, id, o);
    return rv;
}

static int answer(struct rota_txns *m, const struct rt_txn_id *id, struct rota_outcome *out,
                  size_t size)
{
    struct rota_outcome o = {0};

    int rv = look(m, id, &o);
    if (rv != 0)
        return rv;
    memset(out, 0, size);
    memcpy(out, &o, size < sizeof(o) ? size : sizeof(o));
    return 0;
}

static int enter(struct rota_txns *m, const char *text, struct rt_txn_id *id, int64_t *deadline_ms,
                 const void *out)
{
    int rv = rt_txns_enter(m, "asking for an outcome");
    if (rv == 0 && out == NULL)
        rv = rt_txns_fail(m, ROTA_INVALID, "an outcome needs a place");
    return rv == 0 ? rt_txns_read_id(m, text, id, deadline_ms) : rv;
}

int rota_txn_outcome_sized(struct rota_txns *m, const char *id, struct rota_outcome *out,
                           size_t size)
{
    struct rt_txn_id parsed;
    int64_t deadline_ms;

    int rv = enter(m, id, &parsed, &deadline_ms, out);
    return rv == 0 ? answer(m, &parsed, out, size) : rv;
}

int rota_txn_settle_sized(struct rota_txns *m, const char *id, struct rota_outcome *out,
                          size_t size)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    int64_t deadline_ms;

    int rv = enter(m, id, &op.decide.id, &deadline_ms, out);
    if (rv != 0)
        return rv;
    struct rt_txn_id parsed = op.decide.id;
    op.decide.decision = RT_JOURNAL_ABORT;
    op.decide.deadline_ms = deadline_ms != 0 ? deadline_ms : rt_txns_wall_ms();
    rv = rt_txns_ask(m, &op);
    return rv == 0 ? answer(m, &parsed, out, size) : rv;
}
