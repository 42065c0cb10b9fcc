/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE, CHANGE and BREAK: they take a ticket out of its line, or change it where it stands. */
#include "engine/sql/sql.h"

#include "base/bug.h"
#include "engine/kit/check.h"

enum { SHORT, PASS, WHOLE }; /* the stages: the line folded, or handed to the next, or anything */

/* ---- LEAVE ------------------------------------------------------------------------------------------------------ */

/* Whether the ticket stands as a row, and so does whatever is behind it: the line is not folded. */
static bool is_row(const struct rt_sql_ask *a)
{
    const struct rt_sql_ticket *t = rt_sql_wait_find(a->c, a->name, a->entry.op->leave.number);
    return t != NULL && t->waited;
}

static void leave_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    struct rt_sql_cell name = rt_sql_text(a->name), session = rt_sql_number(op->leave.session),
                       number = rt_sql_number(op->leave.number),
                       nonce = rt_sql_number(op->leave.nonce);
    if (a->stage == SHORT) {
        rt_sql_say(b, RT_SQL_GIVE, name, session, number, nonce);
        return;
    }
    if (a->stage == PASS) {
        rt_sql_say(b, RT_SQL_PASS, name, session, number, nonce);
        rt_sql_say(b, RT_SQL_TELL, name);
    } else {
        if (is_row(a) && !a->follows && a->behind == NULL)
            rt_sql_say(b, RT_SQL_LOCK, name);
        else if (!a->follows)
            rt_sql_say_unfold(b, a->name);
        rt_sql_say(b, RT_SQL_LEAVE, name, session, number, nonce,
                   rt_sql_number(rt_leave_keeps(op)));
        if (a->behind == NULL || !a->behind->plan->leaves)
            rt_sql_say_settle(b, a->name);
    }
    rt_sql_bell_ring(a->c, b, a->name, op->leave.nonce);
}

static bool leave_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_op *op = a->entry.op;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_LEAVE, 0);
    bool briefly = a->stage != WHOLE;
    if (briefly && rt_sql_changed(a, b, a->stage == SHORT ? RT_SQL_GIVE : RT_SQL_PASS) == 0)
        return false;
    if (a->stage == SHORT)
        rt_sql_bell_idle(a->c, a->name, op->leave.nonce);
    else
        rt_sql_bell_rung(a->c, a->name, op->leave.nonce);
    rt_sql_wait_left(a->c, a->name, op->leave.number);
    op->leave.granted = briefly || (row != NULL && rt_sql_int(row, 0) != 0);
    bool left = briefly || row != NULL || RT_BUG(RT_BUG_MISSING_IS_LEFT);
    rt_sql_done(a, left ? 0 : rt_words_no_ticket(&a->c->base, a->name));
    return true;
}

static bool leave_refused(struct rt_sql_ask *a)
{
    bool passes = a->stage == PASS;
    a->stage = WHOLE;
    return passes;
}

static void leave_failed(struct rt_sql_ask *a, int err)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(a->c, a->name, a->entry.op->leave.number);
    (void)err;
    if (t != NULL)
        rt_sql_wait_stays(a->c, t);
}

static void leave_share(struct rt_sql_ask *a)
{
    a->stage = WHOLE;
}

static const struct rt_sql_plan leave_plan = {.leaves = true,
                                              .say = leave_say,
                                              .heard = leave_heard,
                                              .failed = leave_failed,
                                              .refused = leave_refused,
                                              .share = leave_share};

void rt_sql_begin_leave(struct rt_sql_conn *c, struct rt_op *op)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(c, op->leave.name, op->leave.number);
    struct rt_sql_ask *a = rt_sql_ask_new(c, &leave_plan, op, op->leave.name, NULL);
    if (a == NULL)
        return;
    if (t != NULL)
        t->leaving = true;
    /* Without a number it may be of a JOIN that is aboard, and must come after that. */
    a->shares = op->leave.number != 0;
    a->stage = is_row(a)               ? (t->waits || t->shares ? WHOLE : PASS)
               : op->leave.number != 0 ? SHORT
                                       : WHOLE;
    rt_sql_ask_go(a);
}

/* ---- CHANGE ----------------------------------------------------------------------------------------------------- */

static void change_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    struct rt_sql_cell name = rt_sql_text(a->name), session = rt_sql_number(op->change.session),
                       number = rt_sql_number(op->change.number);
    uint32_t what = op->change.what;
    if (what == 0)
        rt_sql_say(b, RT_SQL_VERIFY, name, session, number);
    if (what != 0) {
        rt_sql_say_unfold(b, a->name);
        rt_sql_say(b, RT_SQL_CHANGE, name, session, number,
                   rt_sql_number((what & RT_CHANGE_DOWNGRADE) != 0),
                   rt_sql_number((what & RT_CHANGE_VALUE) != 0), rt_sql_text(op->change.value),
                   rt_sql_number(what & RT_CHANGE_ARM ? RT_SQL_ARMED : 0));
        rt_sql_say_settle(b, a->name);
        if (what & RT_CHANGE_DOWNGRADE && a->tag != 0)
            rt_sql_bell_ring(a->c, b, a->name, a->tag);
    }
    rt_sql_say(b, RT_SQL_STATE, name, session, number);
}

static bool change_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_op *op = a->entry.op;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_STATE, 0);
    bool folded = rt_sql_row(a, b, RT_SQL_VERIFY, 0) != NULL;
    int rv = 0;
    op->change.wanted = row != NULL && rt_sql_int(row, 2) != 0;
    if (op->change.what & RT_CHANGE_DOWNGRADE && a->tag != 0)
        rt_sql_bell_rung(a->c, a->name, a->tag);
    if (!folded && (row == NULL || rt_sql_int(row, 0) == 0))
        rv = rt_words_no_ticket(&a->c->base, a->name);
    else if (op->change.what & RT_CHANGE_DOWNGRADE && rt_sql_int(row, 1) > RT_SHARED)
        rv = rt_words_not_exclusive(&a->c->base, a->name);
    else if (op->change.what & RT_CHANGE_ARM)
        rt_sql_wait_arm(a->c, a->name, op->change.session, op->change.number);
    rt_sql_done(a, rv);
    return true;
}

static const struct rt_sql_plan change_plan = {.say = change_say, .heard = change_heard};

void rt_sql_begin_change(struct rt_sql_conn *c, struct rt_op *op)
{
    int rv = op->change.what & RT_CHANGE_VALUE
                 ? rt_check_value(&c->base, op->change.name, op->change.value)
                 : 0;
    if (rv != 0) {
        rt_conn_done(&c->base, op, rv);
        return;
    }
    struct rt_sql_ask *a = rt_sql_ask_new(c, &change_plan, op, op->change.name, NULL);
    if (a == NULL)
        return;
    a->ears = op->change.what & RT_CHANGE_ARM;
    a->tag = rt_sql_bell_nonce(c, op->change.name, op->change.number);
    rt_sql_ask_go(a);
}

/* ---- BREAK ------------------------------------------------------------------------------------------------------ */

static void break_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    rt_sql_say_unfold(b, a->name);
    rt_sql_say(b, RT_SQL_BREAK, rt_sql_text(a->name), rt_sql_number(op->brk.number),
               rt_sql_number(op->brk.mode));
    rt_sql_say_settle(b, a->name);
}

static bool break_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    bool found = rt_sql_changed(a, b, RT_SQL_BREAK) > 0;
    rt_sql_done(a, found ? 0 : rt_words_no_such(&a->c->base, a->name));
    return true;
}

static const struct rt_sql_plan break_plan = {.say = break_say, .heard = break_heard};

void rt_sql_begin_break(struct rt_sql_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(&c->base, op->brk.name);
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
    else
        (void)rt_sql_ask(c, &break_plan, op, op->brk.name, NULL);
}
