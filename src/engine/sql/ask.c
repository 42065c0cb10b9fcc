/* SPDX-License-Identifier: Apache-2.0 */
/* What is under way: an op, or a look of our own. It waits in the ledger, boards a flight, and is answered or ends.
 *
 * Ops on a name take effect in order: asks of one name share a flight only if all of them may (ask->shares). Those that
 * fly alone go when all that has left has landed, after what was asked before them (a renewal does not wait for that
 * either), and before anything that was asked after them. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static struct rt_sql_ask *of_entry(struct rt_entry *e)
{
    return (struct rt_sql_ask *)(void *)e; /* its first member */
}

static struct rt_sql_conn *of_ledger(struct rt_ledger *l)
{
    return (struct rt_sql_conn *)(void *)((char *)l - offsetof(struct rt_sql_conn, ledger));
}

/* ---- Those that fly alone ----------------------------------------------------------------------------------- */

/* Whether one that flies alone waits in the ledger and goes before ORDER. */
static bool alone_goes_before(const struct rt_sql_conn *c, uint64_t order)
{
    for (const struct rt_sql_ask *a = c->alones; a != NULL; a = a->next)
        if (a->entry.next != NULL && !a->entry.flying && a->entry.order < order)
            return true;
    return false;
}

static bool all_idle(const struct rt_sql_conn *c)
{
    for (size_t i = 0; i < RT_SQL_LANES; i++)
        if (c->lanes[i].loaded > 0)
            return false;
    return true;
}

/* Whether A must wait for others: for one that flies alone, or because A does. */
static bool must_wait(struct rt_sql_conn *c, const struct rt_sql_ask *a)
{
    if (a->plan->alone && !all_idle(c))
        return true;
    for (size_t i = 0; i < RT_SQL_LANES; i++)
        if (c->lanes[i].loaded > 0 && c->lanes[i].load[0] != NULL &&
            c->lanes[i].load[0]->plan->alone)
            return true;
    return alone_goes_before(c, a->entry.order);
}

/* ---- In the ledger ------------------------------------------------------------------------------------------ */

static int ask_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct rt_sql_conn *c = of_ledger(l);
    struct rt_sql_ask *a = of_entry(e);
    struct rt_sql_lane *lane = a->on != NULL ? a->on : rt_sql_lane_of(c, a->name);
    if (a->on == NULL && must_wait(c, a))
        return ROTA_UNREACHABLE;
    int rv = rt_sql_lane_board(lane, a);
    *via = lane;
    return rv;
}

static void ask_free(struct rt_sql_ask *a)
{
    if (a->plan->alone)
        RT_LIST_OUT(a);
    if (a->plan->freed != NULL)
        a->plan->freed(a);
    rt_free(a);
}

static void ask_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct rt_sql_conn *c = of_ledger(l);
    struct rt_sql_ask *a = of_entry(e);
    if (RT_BUG(RT_BUG_CUT_IS_NOTHING_DONE) && err == ROTA_UNKNOWN)
        err = ROTA_UNREACHABLE;
    for (size_t i = 0; i < RT_SQL_LINKS; i++)
        rt_sql_lane_leave(&c->lanes[i], a);
    (void)rt_ledger_say(l, e, err, why, c->driver->name, rt_sql_lane_at(c), c->trouble);
    if (a->plan->failed != NULL)
        a->plan->failed(a, err);
    rt_sql_done(a, err);
    ask_free(a);
}

/* Trying to board LANE could change something: it takes one more, or is down, and is dialed then. */
static bool has_room(const struct rt_sql_lane *lane)
{
    if (lane->state == RT_DIAL_READY)
        return !lane->flying && lane->loaded < RT_SQL_LOAD;
    return lane->state == RT_DIAL_DOWN && lane->timer.timer.slot == 0;
}

static bool is_full(const struct rt_ledger *l)
{
    const struct rt_sql_conn *c =
        (const struct rt_sql_conn *)(const void *)((const char *)l -
                                                   offsetof(struct rt_sql_conn, ledger));

    for (size_t i = 0; i < c->driver->lanes; i++)
        if (has_room(&c->lanes[i]))
            return false;
    return true;
}

static bool queues(const struct rt_ledger *l, const struct rt_entry *e)
{
    const struct rt_sql_ask *a = (const struct rt_sql_ask *)(const void *)e;

    (void)l;
    return rt_sql_lane_of(a->c, a->name)->state == RT_DIAL_READY;
}

static const struct rt_ledger_user ledger_user = {
    .send = ask_send, .ended = ask_ended, .full = is_full, .queues = queues};

/* ---- Asking ------------------------------------------------------------------------------------------------- */

struct rt_sql_ask *rt_sql_ask_new(struct rt_sql_conn *c, const struct rt_sql_plan *plan,
                                  struct rt_op *op, const char *name, void *about)
{
    size_t size = name != NULL && op == NULL ? strlen(name) + 1 : 0;
    struct rt_sql_ask *a = rt_alloc(sizeof(*a) + size);
    if (a == NULL) {
        int rv = rt_words_nomem(&c->base);
        if (op != NULL)
            rt_conn_done(&c->base, op, rv);
        return NULL;
    }
    a->c = c;
    a->plan = plan;
    a->entry.op = op;
    a->about = about;
    a->name = size > 0 ? memcpy((char *)a + sizeof(*a), name, size) : name;
    a->entry.reads = plan->reads;
    a->entry.deadline = op != NULL ? op->deadline : 0;
    if (plan->alone)
        RT_LIST_ADD(&c->alones, a);
    return a;
}

void rt_sql_ask_go(struct rt_sql_ask *a)
{
    a->entry.first = a->entry.first || a->on != NULL; /* a lane of its own need not be full */
    (void)rt_ledger_add(&a->c->ledger, &a->entry);
}

struct rt_sql_ask *rt_sql_ask(struct rt_sql_conn *c, const struct rt_sql_plan *plan,
                              struct rt_op *op, const char *name, void *about)
{
    struct rt_sql_ask *a = rt_sql_ask_new(c, plan, op, name, about);
    if (a != NULL)
        rt_sql_ask_go(a);
    return a;
}

/* ---- Answers ------------------------------------------------------------------------------------------------ */

void rt_sql_ask_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_ledger *l = &a->c->ledger;
    rt_ledger_heard(l, &a->entry);
    if (a->plan->heard(a, b)) {
        rt_ledger_out(&a->entry);
        ask_free(a);
        return;
    }
    a->entry.maybe = false; /* it has done nothing yet */
    a->stage++;
    if (!a->entry.given_up)
        rt_ledger_again(l, &a->entry, false);
}

void rt_sql_ask_refused(struct rt_sql_ask *a, int err, const char *why)
{
    rt_ledger_out(&a->entry);
    a->entry.flying = false; /* this is its answer */
    ask_ended(&a->c->ledger, &a->entry, err, why);
}

void rt_sql_done(struct rt_sql_ask *a, int err)
{
    struct rt_op *op = a->entry.op;
    a->entry.op = NULL;
    if (op != NULL)
        rt_conn_done(&a->c->base, op, err);
}

const struct rt_sql_row *rt_sql_next(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                     enum rt_sql_step_kind kind, const struct rt_sql_row *after)
{
    const struct rt_sql_row *row = after != NULL ? after + 1 : b->rows;
    for (; row < b->rows + b->row_count; row++)
        if (row->step - a->first < a->steps && b->steps[row->step].kind == kind)
            return row;
    return NULL;
}

const struct rt_sql_row *rt_sql_row_of(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                       size_t k, const struct rt_sql_row *after)
{
    const struct rt_sql_row *row = after != NULL ? after + 1 : b->rows;
    assert(k < a->steps);
    for (; row < b->rows + b->row_count; row++)
        if (row->step == a->first + k)
            return row;
    return NULL;
}

uint64_t rt_sql_changed_by(const struct rt_sql_ask *a, const struct rt_sql_book *b, size_t k)
{
    assert(k < a->steps);
    return b->changed[a->first + k];
}

const struct rt_sql_row *rt_sql_row(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                    enum rt_sql_step_kind kind, size_t n)
{
    const struct rt_sql_row *row = rt_sql_next(a, b, kind, NULL);
    while (row != NULL && n-- > 0)
        row = rt_sql_next(a, b, kind, row);
    return row;
}

bool rt_sql_said(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                 enum rt_sql_step_kind kind)
{
    for (size_t i = a->first; i < a->first + a->steps; i++)
        if (b->steps[i].kind == kind)
            return true;
    return false;
}

uint64_t rt_sql_changed(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                        enum rt_sql_step_kind kind)
{
    uint64_t changed = 0;
    for (size_t i = a->first; i < a->first + a->steps; i++)
        changed += b->steps[i].kind == kind ? b->changed[i] : 0;
    return changed;
}

int rt_sql_odd(struct rt_sql_conn *c)
{
    return rt_sql_fail(c, ROTA_UNKNOWN,
                       "%s gave an answer that makes no sense: are the tables Rota's?",
                       c->driver->name);
}

/* ---- Life --------------------------------------------------------------------------------------------------- */

void rt_sql_ask_init(struct rt_sql_conn *c)
{
    rt_ledger_init(&c->ledger, &c->base, &ledger_user);
}

static void drop(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    ask_free(of_entry(e));
}

void rt_sql_ask_fini(struct rt_sql_conn *c)
{
    rt_ledger_fini(&c->ledger, drop);
}
