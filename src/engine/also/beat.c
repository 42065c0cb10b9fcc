/* SPDX-License-Identifier: Apache-2.0 */
/* The two sessions. The user knows the line's; the foreign one lives as long as it can, and another takes its
 * place: only those that held by it are told. A beat is answered when both have answered. */
#include "engine/also/also.h"

#include "base/alloc.h"
#include "engine/kit/words.h"

#include <assert.h>

#define PAUSE (50 * RT_MS) /* before a foreign session is asked for again */

struct beat {
    struct rt_work work; /* first */
    struct rt_also_ask line, foreign;
    uint64_t session;  /* opened */
    uint64_t *numbers; /* of foreign tickets */
};

static struct beat *beat_of(struct rt_work *w)
{
    return (struct beat *)(void *)w;
}

/* ---- Ends of sessions ----------------------------------------------------------------------- */

static void line_over(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    if (t->session != c->session && t->line != RT_ALSO_OUT)
        rt_also_line_gone(c, t);
}

void rt_also_session_over(struct rt_also_conn *c)
{
    c->session = 0;
    rt_also_each(c, line_over);
}

static void foreign_over(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    if (t->foreign_session != c->foreign_session && t->foreign != RT_ALSO_NONE)
        rt_also_foreign_gone(c, t);
}

void rt_also_foreign_over(struct rt_also_conn *c)
{
    c->foreign_session = 0;
    rt_also_each(c, foreign_over);
}

/* ---- Opening the foreign one ---------------------------------------------------------------- */

static void foreign_opened(struct rt_also_conn *c, uint64_t session)
{
    if (c->foreign_session != 0)
        rt_also_foreign_over(c); /* this one has taken its place */
    c->foreign_session = session;
    rt_also_step_all(c);
}

static void each_waits(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    bool waits = t->joiner != NULL && !t->unwanted && t->line == RT_ALSO_FRONT &&
                 t->foreign < RT_ALSO_QUEUED && !t->foreign_ask.busy;
    if (waits)
        rt_also_not_asked(c, t, c->open_err);
}

static void opened(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    if (ask->op.err == 0) {
        foreign_opened(c, ask->op.beat.session);
        return;
    }
    c->open_at = rt_loop_now(c->base.loop) + PAUSE;
    rt_also_wake(c, c->open_at);
    c->open_err = ask->op.err;
    rt_also_each(c, each_waits);
}

void rt_also_want_foreign(struct rt_also_conn *c)
{
    if (c->opening.busy || c->foreign_session != 0)
        return;
    if (c->open_at > rt_loop_now(c->base.loop)) {
        rt_also_wake(c, c->open_at);
        return;
    }
    c->opening.op = (struct rt_op){
        .kind = RT_OP_BEAT, .deadline = rt_also_deadline(c, NULL), .beat = {.open = true}};
    rt_also_send(&c->foreign, &c->opening, opened, NULL);
}

/* ---- BEAT ----------------------------------------------------------------------------------- */

static void finish(struct rt_also_conn *c, struct rt_work *w)
{
    const struct rt_op *l = &beat_of(w)->line.op, *f = &beat_of(w)->foreign.op;
    struct rt_op *op = w->op;
    if (w->pending > 0)
        return;
    if (w->err == 0) {
        uint32_t a = l->beat.ttl_ms, b = f->beat.ttl_ms;
        op->beat.ttl_ms = b != 0 && (a == 0 || b < a) ? b : a;
        op->beat.allowance_ms = l->beat.allowance_ms > f->beat.allowance_ms ? l->beat.allowance_ms
                                                                            : f->beat.allowance_ms;
        if (op->beat.open)
            op->beat.session = c->session = beat_of(w)->session;
    }
    rt_turn_end(&c->turns, w, 0);
}

static void line_beaten(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    w->pending--;
    rt_work_note(&c->base, w, ask->op.err);
    if (ask->op.err == 0)
        beat_of(w)->session = ask->op.beat.session;
    else if (ask->op.err == ROTA_LOST && ask->op.beat.session == c->session)
        rt_also_session_over(c);
    finish(c, w);
}

static rt_also_answer_fn foreign_beaten;

static void open_foreign(struct rt_also_conn *c, struct rt_work *w)
{
    struct beat *b = beat_of(w);
    b->foreign.op = (struct rt_op){
        .kind = RT_OP_BEAT, .deadline = w->op->deadline, .beat = {.open = true}};
    w->pending++;
    rt_also_send(&c->foreign, &b->foreign, foreign_beaten, w);
}

static void foreign_beaten(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    w->pending--;
    if (ask->op.err == 0 && ask->op.beat.open) {
        foreign_opened(c, ask->op.beat.session);
    } else if (ask->op.err == ROTA_LOST && !ask->op.beat.open) {
        if (ask->op.beat.session == c->foreign_session)
            rt_also_foreign_over(c);
        open_foreign(c, w);
        return;
    }
    rt_work_note(&c->base, w, ask->op.err);
    finish(c, w);
}

static size_t count_foreign(const struct rt_also_conn *c, uint64_t *numbers)
{
    size_t n = 0;
    for (size_t i = 0; i < RT_ALSO_BUCKETS; i++)
        for (const struct rt_also_ticket *t = c->buckets[i]; t != NULL; t = t->next) {
            if (t->foreign < RT_ALSO_QUEUED || t->foreign_session != c->foreign_session)
                continue;
            if (numbers != NULL)
                numbers[n] = t->foreign_number;
            n++;
        }
    return n;
}

static bool beat_foreign(struct rt_also_conn *c, struct rt_work *w)
{
    struct beat *b = beat_of(w);
    size_t n = count_foreign(c, NULL);
    b->numbers = rt_alloc((n + 1) * sizeof(*b->numbers));
    if (b->numbers == NULL)
        return false;
    (void)count_foreign(c, b->numbers);
    b->foreign.op = (struct rt_op){
        .kind = RT_OP_BEAT,
        .deadline = w->op->deadline,
        .beat = {.session = c->foreign_session, .tickets = b->numbers, .ticket_count = n}};
    w->pending++;
    rt_also_send(&c->foreign, &b->foreign, foreign_beaten, w);
    return true;
}

static int begin(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    struct beat *b = beat_of(w);
    if (w->op->beat.open)
        rt_also_session_over(c); /* its user gave it up */
    w->pending++;                /* until both were asked */
    if (c->foreign_session == 0)
        open_foreign(c, w);
    else if (!beat_foreign(c, w)) {
        w->pending--;
        return rt_words_nomem(&c->base);
    }
    b->line.op = (struct rt_op){
        .kind = RT_OP_BEAT, .deadline = w->op->deadline, .beat = w->op->beat};
    rt_also_send(&c->line, &b->line, line_beaten, w);
    return 0;
}

static void cancel(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    struct beat *b = beat_of(w);
    if (b->foreign.busy && b->line.busy)
        rt_also_cancel(&c->foreign, &b->foreign);
    rt_also_cancel(&c->line, &b->line);
}

static void free_beat(struct rt_conn *conn, struct rt_work *w)
{
    (void)conn;
    rt_free(beat_of(w)->numbers);
}

const struct rt_turn_kind rt_also_beat_kind = {
    .size = sizeof(struct beat), .begin = begin, .cancel = cancel, .free = free_beat};
