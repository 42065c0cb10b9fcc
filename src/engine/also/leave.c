/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE, CHANGE, BREAK. */
#include "engine/also/also.h"

#include "engine/kit/check.h"
#include "engine/kit/words.h"

#include <assert.h>

struct asking {          /* of one ask at a time */
    struct rt_work work; /* first */
    struct rt_also_ask ask;
    struct rt_also_side *side; /* where it is */
};

static struct asking *asking_of(struct rt_work *w)
{
    return (struct asking *)(void *)w;
}

/* Hands the op of W on to SIDE as it is. */
static void hand_on(struct rt_also_side *side, struct rt_work *w, rt_also_answer_fn *answer)
{
    struct asking *a = asking_of(w);
    a->ask.op = *w->op;
    a->side = side;
    w->pending++;
    rt_also_send(side, &a->ask, answer, w);
}

static void cancel(void *engine, struct rt_work *w)
{
    (void)engine;
    struct asking *a = asking_of(w);
    if (a->side != NULL)
        rt_also_cancel(a->side, &a->ask);
}

static void end(struct rt_also_conn *c, struct rt_work *w, int err)
{
    rt_turn_end(&c->turns, w, err);
}

/* ---- LEAVE ---------------------------------------------------------------------------------- */

void rt_also_left(struct rt_also_conn *c, struct rt_also_ticket *t, int err)
{
    struct rt_work *w = t->leaver;
    t->leaver = NULL;
    w->op->leave.granted = t->had;
    if (err == 0 && t->was_lost)
        err = rt_words_no_ticket(&c->base, t->name);
    assert(w->pending > 0);
    w->pending--;
    end(c, w, err);
}

static void left_alone(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    w->op->leave.granted = ask->op.leave.granted;
    w->pending--;
    end(c, w, ask->op.err);
}

static int begin_leave(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    const struct rt_op *op = w->op;
    int rv = rt_check_name(&c->base, op->leave.name);
    if (rv != 0)
        return rv;
    struct rt_also_ticket *t = op->leave.nonce != 0
                                   ? rt_also_by_nonce(c, op->leave.name, op->leave.session,
                                                      op->leave.nonce)
                                   : rt_also_by_number(c, op->leave.name, op->leave.session,
                                                       op->leave.number);
    if (t == NULL || !rt_leave_names(op, t->number, t->nonce)) {
        hand_on(&c->line, w, left_alone);
        return 0;
    }
    assert(t->leaver == NULL && t->joiner == NULL);
    t->leaver = w;
    t->behind = t->line_ask.busy;
    t->unwanted = true;
    t->untold = t->untold || !rt_leave_keeps(op);
    w->pending++;
    rt_also_step(c, t);
    return 0;
}

static void find_leaver(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    if (t->leaver == NULL || t->leaver->err != ROTA_CANCELED)
        return;
    t->leaver->err = 0;
    if (t->foreign_ask.busy)
        rt_also_cancel(&c->foreign, &t->foreign_ask);
    else if (t->line_ask.busy)
        rt_also_cancel(&c->line, &t->line_ask);
}

static void cancel_leave(void *engine, struct rt_work *w)
{
    if (asking_of(w)->side != NULL) {
        cancel(engine, w);
        return;
    }
    w->err = ROTA_CANCELED; /* the mark by which its ticket is found */
    rt_also_each(engine, find_leaver);
}

const struct rt_turn_kind rt_also_leave_kind = {
    .size = sizeof(struct asking), .begin = begin_leave, .cancel = cancel_leave};

/* ---- CHANGE --------------------------------------------------------------------------------- */

static struct rt_also_ticket *held(struct rt_also_conn *c, const struct rt_op *op)
{
    struct rt_also_ticket *t = rt_also_by_number(c, op->change.name, op->change.session,
                                                 op->change.number);
    bool is = t != NULL && !t->unwanted && t->line == RT_ALSO_FRONT && t->foreign == RT_ALSO_HELD;
    return is ? t : NULL;
}

static void line_changed(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    struct rt_op *op = w->op;
    struct rt_also_ticket *t = held(c, op);
    int err = ask->op.err;
    w->pending--;
    if (err == 0 && t == NULL)
        err = rt_words_no_ticket(&c->base, op->change.name);
    if (err == 0 && op->change.what & RT_CHANGE_DOWNGRADE)
        t->mode = RT_SHARED;
    /* Nobody can say that nobody waits elsewhere. Not for readers: they would keep each other out that way. */
    op->change.wanted = err == 0 && (ask->op.change.wanted ||
                                     (op->change.what & RT_CHANGE_ARM && t->mode == RT_EXCLUSIVE));
    if (err == ROTA_LOST && t != NULL)
        rt_also_line_gone(c, t);
    end(c, w, err);
}

static void foreign_changed(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    struct rt_also_ticket *t = held(c, w->op);
    w->pending--;
    if (ask->op.err == 0) {
        hand_on(&c->line, w, line_changed);
        return;
    }
    if (ask->op.err == ROTA_LOST && t != NULL && t->foreign_number == ask->op.change.number)
        rt_also_foreign_gone(c, t);
    end(c, w, ask->op.err);
}

static int begin_change(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    const struct rt_op *op = w->op;
    struct asking *a = asking_of(w);
    int rv = rt_check_name(&c->base, op->change.name);
    if (rv != 0)
        return rv;
    const struct rt_also_ticket *t = held(c, op);
    if (t == NULL)
        return rt_words_no_ticket(&c->base, op->change.name);
    if (op->change.what == RT_CHANGE_ARM || op->change.what == RT_CHANGE_VALUE) {
        hand_on(&c->line, w, line_changed); /* the others have neither */
        return 0;
    }
    a->ask.op = (struct rt_op){.kind = RT_OP_CHANGE,
                               .deadline = op->deadline,
                               .change = {.name = op->change.name,
                                          .session = t->foreign_session,
                                          .number = t->foreign_number,
                                          .what = op->change.what & RT_CHANGE_DOWNGRADE}};
    a->side = &c->foreign;
    w->pending++;
    rt_also_send(&c->foreign, &a->ask, foreign_changed, w);
    return 0;
}

const struct rt_turn_kind rt_also_change_kind = {
    .size = sizeof(struct asking), .begin = begin_change, .cancel = cancel};

/* ---- BREAK ---------------------------------------------------------------------------------- */

/* Only in the line: its holder gives the foreign lock back when it hears of it, or the lock ends by its ttl. A number
 * means nothing to the others. */
static void broken(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    w->pending--;
    end(c, w, ask->op.err);
}

static int begin_break(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    int rv = rt_check_name(&c->base, w->op->brk.name);
    if (rv == 0)
        hand_on(&c->line, w, broken);
    return rv;
}

const struct rt_turn_kind rt_also_break_kind = {
    .size = sizeof(struct asking), .begin = begin_break, .cancel = cancel};
