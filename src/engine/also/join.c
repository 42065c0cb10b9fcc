/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL: the line first, then, for what is at the front, the foreign lock. The op is answered when the
 * first word about each of those has come: held, or it waits. A set falls apart into its tickets: the line keeps
 * its order, and the foreign locks are asked for one by one. */
#include "engine/also/also.h"

#include "engine/kit/check.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <string.h>

struct joining {
    struct rt_work work; /* first */
    struct rt_also_ask ask;
    bool failed;                     /* it comes to nothing, and waits for its tickets to be gone */
    struct rt_also_ticket **tickets; /* n, behind the joins */
    struct rt_join joins[];          /* n */
};

static struct joining *joining_of(struct rt_work *w)
{
    return (struct joining *)(void *)w;
}

static size_t count_of(const struct rt_work *w)
{
    return w->op->join.n;
}

/* ---- The end -------------------------------------------------------------------------------- */

/* All that was asked for together is given back; the last one's end ends the op. */
static void fail_all(struct rt_also_conn *c, struct rt_work *w)
{
    struct joining *j = joining_of(w);
    if (j->failed)
        return;
    j->failed = true;
    for (size_t i = 0; i < count_of(w); i++) {
        struct rt_also_ticket *t = j->tickets[i];
        if (t == NULL)
            continue;
        t->unwanted = true;
        w->pending += t->joiner == NULL;
        t->joiner = w;
    }
    w->pending++; /* until all were looked at */
    for (size_t i = 0; i < count_of(w); i++)
        if (j->tickets[i] != NULL) /* its end may come at once, and those of others */
            rt_also_step(c, j->tickets[i]);
    w->pending--;
}

/* The name of a ticket that was lost before the op was answered; NULL: none was. */
static const char *lost_one(const struct rt_work *w)
{
    const struct joining *j = (const struct joining *)(const void *)w;
    for (size_t i = 0; i < count_of(w); i++)
        if (j->tickets[i] == NULL || j->tickets[i]->unwanted)
            return j->joins[i].name;
    return NULL;
}

/* Its user knows no number yet, so no event tells of the loss. A JOIN is asked again: LOST would say that the session
 * is gone. A set is lost as a whole. */
static void lose(struct rt_also_conn *c, struct rt_work *w, const char *name)
{
    int err = rt_words_no_ticket(&c->base, name);
    assert(err == ROTA_LOST);
    rt_work_note(&c->base, w, w->op->kind == RT_OP_JOIN ? ROTA_UNKNOWN : err);
    fail_all(c, w);
}

static void answer(struct rt_work *w)
{
    struct joining *j = joining_of(w);
    for (size_t i = 0; i < count_of(w); i++) {
        struct rt_join *join = &w->op->join.joins[i];
        struct rt_also_ticket *t = j->tickets[i];
        join->number = t->number;
        join->granted = t->line == RT_ALSO_FRONT && t->foreign == RT_ALSO_HELD;
        join->wanted = join->granted && join->flags & RT_JOIN_ARM && t->mode == RT_EXCLUSIVE;
        t->untold = t->untold && !join->granted;
    }
}

static void end(struct rt_also_conn *c, struct rt_work *w)
{
    struct joining *j = joining_of(w);
    for (size_t i = 0; i < count_of(w); i++)
        if (j->tickets[i] != NULL)
            j->tickets[i]->asker = NULL;
    rt_turn_end(&c->turns, w, 0);
}

static void finish(struct rt_also_conn *c, struct rt_work *w)
{
    const char *lost = w->pending == 0 && w->err == 0 ? lost_one(w) : NULL;
    if (lost != NULL)
        lose(c, w, lost);
    if (w->pending > 0)
        return;
    if (w->err == 0)
        answer(w);
    end(c, w);
}

void rt_also_join_gone(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    struct rt_work *w = t->asker;
    struct joining *j = joining_of(w);
    for (size_t i = 0; i < count_of(w); i++)
        if (j->tickets[i] == t)
            j->tickets[i] = NULL;
    w->pending -= t->joiner != NULL;
    t->joiner = t->asker = NULL;
    finish(c, w);
}

void rt_also_joined(struct rt_also_conn *c, struct rt_also_ticket *t, int err)
{
    struct rt_work *w = t->joiner;
    assert(w->pending > 0);
    rt_work_note(&c->base, w, err);
    if (err == 0 || err == ROTA_UNKNOWN) {
        t->joiner = NULL;
        w->pending--;
    } else {
        fail_all(c, w);
    }
    finish(c, w);
}

/* ---- The line's answer ---------------------------------------------------------------------- */

static void in_line(struct rt_also_conn *c, struct rt_work *w)
{
    struct joining *j = joining_of(w);
    size_t n = count_of(w);
    w->pending++; /* until all were looked at */
    for (size_t i = 0; i < n; i++) {
        struct rt_also_ticket *t = j->tickets[i];
        t->number = j->joins[i].number;
        t->line = j->joins[i].granted ? RT_ALSO_FRONT : RT_ALSO_WAITING;
        if (t->line == RT_ALSO_FRONT && t->foreign < RT_ALSO_QUEUED)
            t->joiner = w;
        w->pending += t->joiner != NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (j->tickets[i] != NULL && j->tickets[i]->joiner == w)
            rt_also_step(c, j->tickets[i]);
    w->pending--;
    finish(c, w);
}

static void not_in_line(struct rt_also_conn *c, struct rt_work *w, int err)
{
    struct joining *j = joining_of(w);
    bool looked = err == ROTA_BUSY || err == ROTA_INVALID || err == ROTA_LOST;
    size_t n = count_of(w);
    for (size_t i = 0; i < n; i++) {
        struct rt_also_ticket *t = j->tickets[i];
        if (err == ROTA_UNKNOWN && t->line == RT_ALSO_OUT)
            t->line = RT_ALSO_DOUBT;
        if (err == ROTA_UNKNOWN || (t->line != RT_ALSO_OUT && !looked))
            continue; /* it is asked for again, or left, by its nonce */
        t->line = RT_ALSO_OUT;
        t->unwanted = true;
    }
    rt_work_note(&c->base, w, err);
    for (size_t i = 0; i < n; i++)
        j->tickets[i]->asker = NULL;
    for (size_t i = 0; i < n; i++)
        rt_also_step(c, j->tickets[i]); /* each once: it may be gone then */
    /* A set may have lost one of its tickets only: the next beat says how the session is. */
    if (err == ROTA_LOST && w->op->kind == RT_OP_JOIN && j->joins[0].session == c->session)
        rt_also_session_over(c);
    rt_turn_end(&c->turns, w, 0);
}

static void line_answered(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    struct joining *j = joining_of(w);
    w->pending--;
    for (size_t i = 0; i < count_of(w); i++)
        j->tickets[i]->joining = false;
    if (ask->op.err == 0 && j->joins[0].session == c->session)
        in_line(c, w);
    else if (ask->op.err == 0)
        not_in_line(c, w, rt_words_no_session(&c->base, j->joins[0].session));
    else
        not_in_line(c, w, ask->op.err);
}

/* ---- The beginning -------------------------------------------------------------------------- */

static int check_one(struct rt_also_conn *c, const struct rt_join *join)
{
    const char *also = c->row->also;
    bool shared = c->base.engine->caps(&c->base) & ROTA_CAP_SHARED;
    if (strncmp(join->name, "rota:", 5) == 0)
        return rt_words_fail(
            &c->base, ROTA_INVALID,
            "%.80s: the line's own keys begin with rota:, so with also=%s no name does", join->name,
            also);
    if (join->mode != RT_EXCLUSIVE && (join->mode != RT_SHARED || !shared))
        return rt_words_fail(&c->base, ROTA_UNSUPPORTED,
                             "%.80s: also=%s excludes everybody: it has exclusive locks%s only",
                             join->name, also, shared ? " and shared ones" : "");
    if (join->flags & RT_JOIN_DURABLE || join->at_least_ms != 0)
        return rt_words_fail(&c->base, ROTA_UNSUPPORTED,
                             "%.80s: with also=%s nothing outlives its session", join->name, also);
    return 0;
}

/* The ticket of an earlier try, or a new one. */
static int take_ticket(struct rt_also_conn *c, const struct rt_join *join,
                       struct rt_also_ticket **out)
{
    struct rt_also_ticket *t = rt_also_by_nonce(c, join->name, join->session, join->nonce);
    if (t != NULL && t->unwanted)
        return rt_words_fail(&c->base, ROTA_UNKNOWN,
                             "%.80s: its last try is still being taken back", join->name);
    if (t == NULL)
        t = rt_also_ticket_new(c, join);
    *out = t;
    return t != NULL ? 0 : rt_words_nomem(&c->base);
}

static void forget_new(struct rt_also_conn *c, struct joining *j)
{
    for (size_t i = 0; i < count_of(&j->work) && j->tickets[i] != NULL; i++)
        if (j->tickets[i]->line == RT_ALSO_OUT)
            rt_also_line_gone(c, j->tickets[i]); /* it never was there */
}

static int begin(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    struct joining *j = joining_of(w);
    struct rt_op *op = w->op;
    j->tickets = (struct rt_also_ticket **)(void *)(j->joins + op->join.n);
    int rv = rt_check_joins(&c->base, op);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++)
        rv = check_one(c, &op->join.joins[i]);
    if (rv == 0)
        rv = rt_check_session(&c->base, op, c->session);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++)
        rv = take_ticket(c, &op->join.joins[i], &j->tickets[i]);
    if (rv != 0) {
        forget_new(c, j);
        return rv;
    }
    memcpy(j->joins, op->join.joins, op->join.n * sizeof(*j->joins));
    for (size_t i = 0; i < op->join.n; i++) {
        j->tickets[i]->asker = w;
        j->tickets[i]->joining = true;
    }
    j->ask.op = (struct rt_op){
        .kind = op->kind, .deadline = op->deadline, .join = {j->joins, op->join.n}};
    w->pending++;
    rt_also_send(&c->line, &j->ask, line_answered, w);
    return 0;
}

static void cancel(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    struct joining *j = joining_of(w);
    if (j->ask.busy) {
        rt_also_cancel(&c->line, &j->ask);
        return;
    }
    w->pending++; /* until all were looked at */
    for (size_t i = 0; i < count_of(w); i++) {
        struct rt_also_ticket *t = j->tickets[i];
        if (t == NULL || t->joiner != w)
            continue;
        if (t->foreign_ask.busy && !t->unwanted)
            rt_also_cancel(&c->foreign, &t->foreign_ask);
        else if (!t->foreign_ask.busy && !t->line_ask.busy)
            rt_also_joined(c, t, rt_words_fail(&c->base, ROTA_CANCELED, "canceled"));
    }
    w->pending--;
    finish(c, w);
}

const struct rt_turn_kind rt_also_join_kind = {
    .size = sizeof(struct joining),
    .each = sizeof(struct rt_join) + sizeof(struct rt_also_ticket *),
    .begin = begin,
    .cancel = cancel,
};
