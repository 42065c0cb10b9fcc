/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a ticket after what its seat heard: hold.h has the drawing. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>

/* ---- Granted -------------------------------------------------------------------------------------------------------------- */

static void tell_granted(struct rt_sqlhold_ticket *t, struct rt_op *op, uint64_t name)
{
    struct rt_sqlhold_conn *c = t->c;
    if (t->set != NULL) {
        rt_sqlhold_set_granted(t);
    } else if (op != NULL) {
        op->join.joins[0].number = t->number;
        op->join.joins[0].granted = true;
        op->join.joins[0].wanted = false;
        rt_conn_done(rt_sqlhold_base(c), op, 0);
    } else {
        rt_conn_event(rt_sqlhold_base(c), &(struct rt_event){.kind = RT_GRANTED,
                                                             .session = t->session,
                                                             .number = name,
                                                             .fence = t->number,
                                                             .nonce = t->nonce,
                                                             .name = t->name});
    }
}

/* T is numbered. Its time counts from when its seat was last asked, and the user counts from the last BEAT, which must
 * not be the later of the two. */
void rt_sqlhold_finish(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    if (a->beats != a->c->beats) {
        rt_sqlhold_fly_as(a, RT_HOLD_VERIFY);
        return;
    }
    struct rt_op *op = a->entry.op;
    uint64_t name = t->number;
    struct rt_sqlhold_ticket *behind = t->behind;
    rt_sqlhold_ask_out(a);
    rt_free(a);
    t->number = t->fence;
    t->state = RT_HOLD_HELD;
    t->behind = NULL;
    if (behind != NULL)
        behind->ahead = NULL;
    tell_granted(t, op, name);
    if (behind != NULL)
        rt_sqlhold_flush_soon(behind->c);
}

static void granted(struct rt_sqlhold_ask *a, uint64_t number)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    t->state = RT_HOLD_NUMBERING;
    t->fence = number;
    if (number != 0)
        rt_sqlhold_finish(a);
    else if (a->c->way->here)
        rt_sqlhold_fly_as(a, RT_HOLD_NUMBERS);
    else
        rt_sqlhold_number(a);
}

/* ---- Not granted ------------------------------------------------------------------------------------------------------------ */

static void wait_for(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_op *op = a->entry.op;
    a->entry.op = NULL;
    a->entry.deadline = RT_NEVER;
    t->state = RT_HOLD_WAITING;
    if (op != NULL) {
        t->number = ++a->c->names;
        op->join.joins[0].number = t->number;
        op->join.joins[0].granted = false;
        op->join.joins[0].wanted = false;
    }
    rt_sqlhold_fly_as(a, RT_HOLD_WAIT);
    if (op != NULL)
        rt_conn_done(rt_sqlhold_base(a->c), op, 0);
}

static void busy(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_sqlhold_conn *c = a->c;
    char name[RT_NAME_ROOM];
    if (!t->try) {
        wait_for(a);
        return;
    }
    t->seat->dirty = t->seat->dirty || c->way->rows; /* a transaction is open */
    t->seat->may_hold = t->seat->dirty;
    if (t->set != NULL) {
        rt_sqlhold_set_failed(t->set, ROTA_BUSY, t->name);
        return;
    }
    struct rt_op *op = a->entry.op;
    snprintf(name, sizeof(name), "%s", t->name);
    rt_sqlhold_ask_out(a);
    rt_free(a);
    rt_sqlhold_ticket_free(t);
    rt_sqlhold_busy(c, op, name);
}

/* ---- Landed ------------------------------------------------------------------------------------------------------------------ */

void rt_sqlhold_tell_lost(struct rt_sqlhold_ticket *t)
{
    char name[RT_NAME_ROOM];
    struct rt_event event = {.kind = RT_TICKET_LOST,
                             .session = t->session,
                             .number = t->number,
                             .nonce = t->nonce,
                             .name = name};
    if (t->state != RT_HOLD_HELD)
        return;
    t->state = RT_HOLD_LEAVING; /* nobody can find it now */
    snprintf(name, sizeof(name), "%s", t->name);
    rt_conn_event(rt_sqlhold_base(t->c), &event);
}

static void tried(struct rt_sqlhold_ask *a, enum rt_sql_end end, const struct rt_sqlhold_heard *h)
{
    const struct rt_sqlhold_way *way = a->c->way;
    bool got = way->by_landing ? end == RT_SQL_LANDED : h->yes;
    bool absent = end == RT_SQL_ABSENT ||
                  (way->rows && !got && (a->what == RT_HOLD_WAIT || !h->exists));
    if (got)
        granted(a, h->number);
    else if (absent && way->tables && a->c->prefix[0] == '\0')
        rt_sqlhold_no_table(a);
    else if (absent && way->tables)
        rt_sqlhold_fly_as(a, RT_HOLD_MAKES);
    else if (absent)
        rt_sqlhold_ensure(a);
    else if (a->what == RT_HOLD_TRY)
        busy(a);
    else
        rt_sqlhold_fly_as(a,
                          RT_HOLD_WAIT); /* the wait has ended: after a year, or by a KILL QUERY */
}

static void verified(struct rt_sqlhold_ask *a, bool yes)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_sqlhold_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    struct rt_work *w = a->work;
    if (t->ask == a) {
        if (yes)
            rt_sqlhold_finish(a);
        else
            rt_sqlhold_seat_cut(t->seat, "the server has let go of it");
        return;
    }
    bool down = a->what == RT_HOLD_DOWNGRADE;
    uint64_t holder = t->seat->id;
    rt_sqlhold_ask_out(a);
    rt_free(a);
    if (yes && down)
        t->mode = RT_SHARED;
    if (op != NULL)
        op->change.wanted = yes && op->change.what & RT_CHANGE_ARM && t->mode == RT_EXCLUSIVE;
    if (yes && down)
        rt_sqlhold_note(t, RT_HOLD_SAY_FENCE_SHARED_ROW, holder);
    int err = yes || op == NULL ? 0 : rt_words_no_ticket(rt_sqlhold_base(c), t->name);
    if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, err);
    if (!yes) {
        rt_sqlhold_tell_lost(t);
        rt_sqlhold_withdraw(t, NULL);
    }
    if (w != NULL)
        rt_sqlhold_touched(c, w, 0);
}

static void gave(struct rt_sqlhold_ask *a, bool yes)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_sqlhold_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    if (t->mode == RT_SHARED &&
        c->way->tongue == RT_SQL_POSTGRES) /* MariaDB's seats do so themselves */
        rt_sqlhold_note(t, RT_HOLD_SAY_CLEAR_SHARED, t->seat->id);
    op->leave.granted = true;
    int err = yes ? 0 : rt_words_no_ticket(rt_sqlhold_base(c), t->name);
    rt_sqlhold_ask_out(a);
    rt_free(a);
    rt_sqlhold_ticket_free(t);
    rt_conn_done(rt_sqlhold_base(c), op, err);
}

/* If it was found locked (AGAIN), it exists. */
static void made(struct rt_sqlhold_ask *a, enum rt_sql_end end, const char *why)
{
    bool tries = a->entry.op != NULL || a->ticket->set != NULL;
    if (end == RT_SQL_LANDED || end == RT_SQL_AGAIN)
        rt_sqlhold_fly_as(a, tries ? RT_HOLD_TRY : RT_HOLD_WAIT);
    else
        rt_sqlhold_not_made(a, end == RT_SQL_DENIED ? ROTA_AUTH : ROTA_PROTOCOL, why);
}

void rt_sqlhold_landed(struct rt_sqlhold_ask *a, enum rt_sql_end end,
                       const struct rt_sqlhold_heard *h, const char *why)
{
    switch (a->what) {
    case RT_HOLD_TRY:
    case RT_HOLD_WAIT:
        tried(a, end, h);
        return;
    case RT_HOLD_NUMBERS:
        if (a->c->way->here && h->yes && h->number != 0) {
            a->ticket->fence = h->number;
            rt_sqlhold_finish(a);
        } else {
            rt_sqlhold_seat_cut(a->ticket->seat, "the server has let go of it");
        }
        return;
    case RT_HOLD_VERIFY:
    case RT_HOLD_DOWNGRADE:
        verified(a, h->yes);
        return;
    case RT_HOLD_MAKES:
        made(a, end, why);
        return;
    case RT_HOLD_GIVE:
    case RT_HOLD_WHATS:
        gave(a, h->yes);
    }
}

void rt_sqlhold_unseated(struct rt_sqlhold_seat *s)
{
    struct rt_sqlhold_ticket *t = s->ticket;
    if (t == NULL)
        return;
    assert(t->state != RT_HOLD_HELD);
    if (t->state == RT_HOLD_LEAVING) {
        s->ticket = NULL;
        t->seat =
            NULL; /* its LEAVE, if any, ends with what flew; or finds that there is no ticket */
        rt_sqlhold_ticket_free(t);
    } else if (t->ask != NULL) { /* asked for anew */
        struct rt_sqlhold_ask *a = t->ask;
        bool flies = a->entry.flying;
        a->fencing = false;
        t->round++;
        t->state = RT_HOLD_QUEUED;
        a->what = a->entry.op != NULL || t->set != NULL ? RT_HOLD_TRY : RT_HOLD_WAIT;
        a->entry.maybe = false; /* whatever it got ends with its connection */
        if (flies)
            rt_ledger_again(&t->c->ledger, &a->entry, false);
    }
}
