/* SPDX-License-Identifier: Apache-2.0 */
/* BEAT: the session is this client's own. A renewal says something on every seat that holds, so that the server does
 * not take it for dead, and on a lane. It is answered when all have answered; a seat that does not answer is cut, and
 * its lock is lost.
 *
 * A session that was not renewed for a ttl has ended, here as for its user: its connections go. */
#include "engine/sql/hold/hold.h"

#include "engine/kit/work.h"

#include <assert.h>

#define TIDY_MS 3600000

struct beat {
    struct rt_work work; /* first */
    int64_t sent_at;
    uint64_t session;
};

static void keep_until(struct rt_sqlhold_conn *c, int64_t at)
{
    c->ends_at = at;
    rt_sqlhold_by(c, at);
}

int64_t rt_sqlhold_session_tick(struct rt_sqlhold_conn *c, int64_t now)
{
    if (c->session == 0)
        return RT_NEVER;
    if (now < c->ends_at)
        return c->ends_at;
    rt_sqlhold_end_session(c);
    return RT_NEVER;
}

/* ---- On a lane ------------------------------------------------------------------------------------------------------ */

static void ping_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(&a->c->base);
    int64_t now = rt_loop_now(c->sql.base.loop);
    rt_sqlhold_say(c, b, RT_HOLD_SAY_PING, &(struct rt_sqlhold_about){0});
    if (now < c->tidy_at)
        return;
    c->tidy_at = now + TIDY_MS * RT_MS;
    rt_sqlhold_say(c, b, RT_HOLD_SAY_TIDY, &(struct rt_sqlhold_about){0});
}

static bool open_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(&a->c->base);
    struct rt_op *op = a->entry.op;
    (void)b;
    if (op == NULL)
        return true;
    rt_sqlhold_end_session(c); /* an earlier one */
    c->session = (c->sql.ear + ++c->session_count) & INT64_MAX;
    c->session += c->session == 0;
    keep_until(c, rt_loop_now(c->sql.base.loop) + c->sql.base.ttl_ms * RT_MS);
    op->beat.session = c->session;
    op->beat.ttl_ms = c->sql.base.ttl_ms;
    op->beat.allowance_ms = 0;
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan open_plan = {.reads = true, .say = ping_say, .heard = open_heard};

static bool ping_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_work *w = a->about;
    (void)b;
    a->about = NULL;
    w->pending--;
    rt_sqlhold_touched(rt_sqlhold_of(&a->c->base), w, 0);
    return true;
}

static void ping_failed(struct rt_sql_ask *a, int err)
{
    struct rt_work *w = a->about;
    a->about = NULL;
    w->pending--;
    rt_sqlhold_touched(rt_sqlhold_of(&a->c->base), w, err);
}

static const struct rt_sql_plan ping_plan = {
    .reads = true, .say = ping_say, .heard = ping_heard, .failed = ping_failed};

/* ---- Renewing -------------------------------------------------------------------------------------------------------- */

void rt_sqlhold_touched(struct rt_sqlhold_conn *c, struct rt_work *w, int err)
{
    struct beat *b = (struct beat *)(void *)w;
    rt_work_note(rt_sqlhold_base(c), w, err);
    if (w->pending > 0)
        return;
    if (w->err == 0 && w->op != NULL && b->session != c->session)
        rt_work_note(rt_sqlhold_base(c), w, rt_words_no_session(rt_sqlhold_base(c), b->session));
    if (w->err == 0 && w->op != NULL && b->sent_at + c->sql.base.ttl_ms * RT_MS > c->ends_at)
        keep_until(c, b->sent_at + c->sql.base.ttl_ms * RT_MS);
    rt_work_end(rt_sqlhold_base(c), w, 0);
}

static void touch(struct rt_sqlhold_ticket *t, void *arg)
{
    if (t->state == RT_HOLD_HELD)
        rt_sqlhold_touch(t, arg);
}

static void renew(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    struct beat *b = rt_work_new(&c->works, rt_sqlhold_base(c), sizeof(*b), op);
    if (b == NULL) {
        rt_conn_done(rt_sqlhold_base(c), op, ROTA_NOMEM);
        return;
    }
    c->beats++;
    b->sent_at = rt_loop_now(c->sql.base.loop);
    b->session = op->beat.session;
    op->beat.ttl_ms = c->sql.base.ttl_ms;
    op->beat.allowance_ms = 0;
    b->work.pending++; /* the lane's */
    rt_sqlhold_each(c, touch, &b->work);
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &ping_plan, NULL, NULL, &b->work);
    if (a == NULL) {
        b->work.pending--;
        rt_sqlhold_touched(c, &b->work, ROTA_NOMEM);
        return;
    }
    a->entry.deadline = op->deadline;
    rt_sql_ask_go(a);
}

void rt_sqlhold_begin_beat(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    if (op->beat.open)
        (void)rt_sql_ask(&c->sql, &open_plan, op, NULL, NULL);
    else if (op->beat.session == 0 || op->beat.session != c->session)
        rt_conn_done(rt_sqlhold_base(c), op,
                     rt_words_no_session(rt_sqlhold_base(c), op->beat.session));
    else
        renew(c, op);
}
