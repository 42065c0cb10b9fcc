/* SPDX-License-Identifier: Apache-2.0 */
/* The session is the client's own: the server knows only rows. A beat renews all that is held and all that is being
 * asked for, one batch per flight; what it does not find is lost. Now and then it sweeps, in bounded steps. */
#include "engine/sql/dialect/lease.h"

#include "base/alloc.h"
#include "base/bug.h"

#include <string.h>

#define SWEEP_EACH 8 /* beats */
#define SWEEP_MOST 100
#define TIDY (INT64_C(3600000) * RT_MS)

/* ---- Opening ------------------------------------------------------------------------------------ */

static void open_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    /* Finds out whether the server and its table are there. */
    a->tag = (uint64_t)rt_loop_now(a->c->base.loop);
    rt_sql_say_own(b, &rt_lease_of_sql(a->c)->says[RT_LEASE_LOOK], rt_sql_text(""));
}

static bool open_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct rt_op *op = a->entry.op;
    uint64_t session = 0;
    (void)b;
    int rv = rt_dial_random(&a->c->base, &session, sizeof(session));
    if (rv == 0) {
        rt_spin_open(&c->spin, (session >> 1) | 1, (int64_t)a->tag); /* below 2^63, and never 0 */
        op->beat.session = c->spin.session;
        op->beat.ttl_ms = a->c->base.ttl_ms;
        op->beat.allowance_ms = 0;
    }
    rt_sql_done(a, rv);
    return true;
}

static const struct rt_sql_plan open_plan = {
    .alone = true, .reads = true, .say = open_say, .heard = open_heard};

/* ---- Renewing ----------------------------------------------------------------------------------- */

struct beat {
    struct rt_spin_dues *dues;
    size_t from; /* of those: the batch that flies */
    bool sweeps, tidies;
};

static size_t batch_end(const struct beat *bt)
{
    size_t end = bt->from + RT_SPIN_BATCH;
    return end < bt->dues->count ? end : bt->dues->count;
}

static void say_sweep(struct rt_lease_conn *c, struct rt_sql_book *b, enum rt_lease_say kind)
{
    if (rt_lease_says(c, kind))
        rt_sql_say_own(b, &c->says[kind], rt_sql_number(SWEEP_MOST));
}

static void renew_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct beat *bt = a->about;
    for (size_t i = bt->from; i < batch_end(bt); i++) {
        struct rt_lease_ticket t = {.name = bt->dues->list[i].name,
                                    .session = bt->dues->session,
                                    .nonce = bt->dues->list[i].nonce};
        rt_lease_say(c, b, RT_LEASE_RENEW, &t);
        rt_lease_say(c, b, RT_LEASE_HAVE, &t);
    }
    if (bt->dues->count == 0) /* is the server there? */
        rt_sql_say_own(b, &c->says[RT_LEASE_LOOK], rt_sql_text(""));
}

static void lost_one(struct rt_lease_conn *c, const struct rt_spin_due *d)
{
    struct rt_spin_ticket *t = rt_spin_by_nonce(&c->spin, d->name, d->nonce);
    if (t != NULL && t->state == RT_SPIN_HELD && d->held && !RT_BUG(RT_BUG_RENEWAL_NOT_READ))
        rt_spin_lost(&c->spin, t);
}

/* True: there are more. */
static bool read_batch(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct beat *bt = a->about;
    size_t each = rt_lease_says(c, RT_LEASE_HAVE) ? 2 : 1, from = bt->from, end = batch_end(bt);
    bool ours = bt->dues->session == c->spin.session;
    for (size_t i = from; ours && i < end; i++)
        if (rt_sql_row_of(a, b, (i - from) * each + each - 1, NULL) == NULL)
            lost_one(c, &bt->dues->list[i]);
    bt->from = end;
    return ours && end < bt->dues->count;
}

static void sweep_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    say_sweep(c, b, RT_LEASE_SWEEP);
    if (a->tag != 0)
        say_sweep(c, b, RT_LEASE_TIDY);
}

static bool sweep_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)a;
    (void)b;
    return true;
}

/* Separate from the beat, and after it: if the sweep fails or waits, nothing else does. */
static void sweep(struct rt_lease_conn *c)
{
    static const struct rt_sql_plan plan = {.say = sweep_say, .heard = sweep_heard};
    int64_t now = rt_loop_now(c->sql.base.loop);
    bool tidies = now >= c->tidy_at && rt_lease_says(c, RT_LEASE_TIDY);
    if (c->beats++ % SWEEP_EACH != 0 || (!tidies && !rt_lease_says(c, RT_LEASE_SWEEP)))
        return;
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &plan, NULL, NULL, NULL);
    if (a == NULL)
        return;
    a->single = true;
    a->tag = tidies;
    if (tidies)
        c->tidy_at = now + TIDY;
    rt_sql_ask_go(a);
}

static bool renew_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct beat *bt = a->about;
    struct rt_op *op = a->entry.op;
    if (read_batch(a, b))
        return false;
    if (bt->dues->session != c->spin.session) {
        rt_sql_done(a, rt_words_no_session(&a->c->base, bt->dues->session));
        return true;
    }
    rt_spin_renewed(&c->spin, bt->dues->session, bt->dues->at);
    if (op != NULL) {
        op->beat.ttl_ms = a->c->base.ttl_ms;
        op->beat.allowance_ms = 0;
    }
    rt_sql_done(a, 0);
    if (op != NULL)
        sweep(c);
    return true;
}

static void renew_freed(struct rt_sql_ask *a)
{
    struct beat *bt = a->about;
    rt_free(bt->dues);
    rt_free(bt);
}

static const struct rt_sql_plan renew_plan = {
    .alone = true, .say = renew_say, .heard = renew_heard, .freed = renew_freed};

/* NULL: no memory, OP (if there is one) has ended. */
static struct rt_sql_ask *ask_renewal(struct rt_lease_conn *c, struct rt_op *op)
{
    struct beat *bt = rt_alloc(sizeof(*bt));
    struct rt_spin_dues *dues = bt != NULL ? rt_spin_dues(&c->spin, op != NULL) : NULL;
    if (dues == NULL) {
        rt_free(bt);
        if (op != NULL)
            rt_conn_done(&c->sql.base, op, rt_words_nomem(&c->sql.base));
        return NULL;
    }
    bt->dues = dues;
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &renew_plan, op, NULL, bt);
    if (a == NULL) {
        rt_free(dues);
        rt_free(bt);
        return NULL;
    }
    a->entry.again = true; /* renewing twice is harmless */
    return a;
}

void rt_lease_verify(struct rt_lease_conn *c)
{
    if (c->spin.session == 0 || c->spin.tickets == 0 || RT_BUG(RT_BUG_NOT_ASKED_AFTER_RECONNECT))
        return;
    struct rt_sql_ask *a = ask_renewal(c, NULL);
    if (a == NULL)
        return;
    a->entry.first = true;
    rt_sql_ask_go(a);
}

void rt_lease_begin_beat(struct rt_lease_conn *c, struct rt_op *op)
{
    if (op->beat.open) {
        (void)rt_sql_ask(&c->sql, &open_plan, op, NULL, NULL);
        return;
    }
    if (op->beat.session == 0 || op->beat.session != c->spin.session) {
        rt_conn_done(&c->sql.base, op, rt_words_no_session(&c->sql.base, op->beat.session));
        return;
    }
    struct rt_sql_ask *a = ask_renewal(c, op);
    if (a != NULL)
        rt_sql_ask_go(a);
}
