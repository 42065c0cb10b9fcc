/* SPDX-License-Identifier: Apache-2.0 */
/* How a transaction ended: what the journal says, and what this process knows about branches that cannot be
 * finished. */
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
                            "'%.60s' is not a transaction id: give 32 hexadecimal digits, or "
                            "what rota_txn_id returns",
                            text != NULL ? text : "");
    if (rt_txn_id_journal(&name.id) != m->number)
        return rt_txns_fail(
            m, ROTA_INVALID,
            "%.32s belongs to another journal: its ids begin with %08x, those of this one "
            "with %08x",
            text, rt_txn_id_journal(&name.id), m->number);
    *id = name.id;
    *deadline_ms = name.deadline_ms;
    return 0;
}

struct look {
    struct rota_txns *m;
    struct rota_outcome o;
};

/* A commit names all branches in its decision; registered ones are reported once more. */
static bool counts(const struct rota_outcome *o, const struct rt_journal_branch *b)
{
    return !b->registered || o->decision != ROTA_STAND_COMMITTED;
}

static bool is_known(const struct rota_txn *t, uint32_t number)
{
    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->core.branches[i].number == number)
            return true;
    return false;
}

/* This process knows more about what it drives, but nothing about branches it has not heard of yet (recovery has just
 * adopted them). */
static void add_what_we_know(const struct rota_txn *t, const struct rt_journal_record *record,
                             struct rota_outcome *o)
{
    uint32_t open = 0;

    for (uint32_t i = 0; i < t->core.count; i++) {
        const struct rt_branch *core = &t->core.branches[i];
        open += !rt_branch_is_over(core);
        if (core->stuck == RT_STUCK_NOT || rt_branch_is_over(core) || o->stand == ROTA_STAND_STUCK)
            continue;
        o->stand = ROTA_STAND_STUCK;
        snprintf(o->why, sizeof(o->why), "%.60s: %s", t->branches[i]->name, rt_drive_stuck(t, i));
    }
    for (size_t i = 0; i < record->branch_count; i++)
        open += counts(o, &record->branches[i]) && !is_known(t, record->branches[i].number);
    o->unfinished = open;
}

/* In the keeper's thread, which has the mutex. */
static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct look *look = arg;
    struct rota_outcome *o = &look->o;

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
        o->branches += counts(o, &record->branches[i]);
    o->unfinished = record->done ? 0 : o->branches;
    const struct rota_txn *t = rt_entry_find(look->m, &record->id);
    if (t != NULL && o->decision != ROTA_STAND_OPEN && !record->done) {
        pthread_mutex_lock(&look->m->front); /* its application may still hold it */
        add_what_we_know(t, record, o);
        pthread_mutex_unlock(&look->m->front);
    }
}

static int answer(struct rota_txns *m, const struct rt_txn_id *id, struct rota_outcome *out,
                  size_t size)
{
    struct look look = {.m = m};
    struct rt_journal_op op = {.kind = RT_JOURNAL_READ};

    op.read.id = *id;
    op.read.each = on_record;
    op.read.arg = &look;
    int rv = rt_txns_ask(m, &op);
    if (rv != 0)
        return rv;
    memset(out, 0, size);
    memcpy(out, &look.o, size < sizeof(look.o) ? size : sizeof(look.o));
    return 0;
}

static int enter(struct rota_txns *m, const char *text, struct rt_txn_id *id, int64_t *deadline_ms,
                 const void *out)
{
    int rv = rt_txns_enter(m, "asking for an outcome");
    if (rv == 0 && out == NULL)
        rv = rt_txns_fail(m, ROTA_INVALID, "an outcome needs a place to be stored");
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
