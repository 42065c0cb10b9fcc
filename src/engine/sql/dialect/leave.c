/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE, CHANGE, BREAK: one statement changes only what is ours, or has this number. */
#include "engine/sql/dialect/lease.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

/* ---- LEAVE -------------------------------------------------------------------------------------- */

static void leave_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct rt_lease_ticket t = {.name = a->name, .session = op->leave.session, .nonce = a->tag};
    rt_lease_say(c, b, RT_LEASE_LEAVE, &t);
}

static bool leave_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct rt_op *op = a->entry.op;
    struct rt_spin_ticket *t = op->leave.session == c->spin.session
                                   ? rt_spin_by_nonce(&c->spin, op->leave.name, a->tag)
                                   : NULL;
    bool waited = t != NULL && t->waited;
    op->leave.granted = rt_sql_changed_by(a, b, 0) > 0;
    if (t != NULL)
        rt_spin_free(&c->spin, t);
    rt_sql_done(a, op->leave.granted || waited ? 0 : rt_words_no_ticket(&a->c->base, a->name));
    return true;
}

static const struct rt_sql_plan leave_plan = {.say = leave_say, .heard = leave_heard};

void rt_lease_begin_leave(struct rt_lease_conn *c, struct rt_op *op)
{
    struct rt_conn *conn = &c->sql.base;
    int rv = rt_check_name(conn, op->leave.name);
    op->leave.granted = false;
    if (rv == 0 && (c->spin.session == 0 || op->leave.session != c->spin.session))
        rv = rt_words_no_ticket(conn, op->leave.name);
    struct rt_spin_ticket *t = rv == 0 ? rt_spin_leaver(&c->spin, op) : NULL;
    if (rv == 0 && t == NULL && op->leave.number != 0)
        rv = rt_words_no_ticket(conn, op->leave.name);
    if (rv == 0 && t != NULL && t->state == RT_SPIN_WAITING && !t->in_flight && !t->doubt) {
        rt_spin_free(&c->spin, t); /* the server knows nothing of it */
        rt_conn_done(conn, op, 0);
        return;
    }
    if (rv != 0) {
        rt_conn_done(conn, op, rv);
        return;
    }
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &leave_plan, op, op->leave.name, NULL);
    if (a == NULL)
        return;
    a->tag = t != NULL ? t->nonce : op->leave.nonce;
    if (t != NULL) {
        t->waited = t->waited || t->state == RT_SPIN_WAITING; /* the answer says whether it held */
        rt_spin_state(&c->spin, t, RT_SPIN_LEAVING);
    }
    rt_sql_ask_go(a);
}

/* ---- Without a word ----------------------------------------------------------------------------- */

static void back_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_lease_ticket t = {
        .name = a->name, .session = *(const uint64_t *)a->about, .nonce = a->tag};
    rt_lease_say(rt_lease_of_sql(a->c), b, RT_LEASE_LEAVE, &t);
}

static bool back_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)a;
    (void)b;
    return true;
}

static void back_freed(struct rt_sql_ask *a)
{
    rt_free(a->about);
}

static const struct rt_sql_plan back_plan = {
    .say = back_say, .heard = back_heard, .freed = back_freed};

void rt_lease_give_back(struct rt_lease_conn *c, const char *name, uint64_t session, uint64_t nonce)
{
    uint64_t *about = rt_alloc(sizeof(*about));
    struct rt_sql_ask *a = about != NULL ? rt_sql_ask_new(&c->sql, &back_plan, NULL, name, about)
                                         : NULL;
    if (a == NULL) { /* its ttl ends it */
        rt_free(about);
        return;
    }
    *about = session;
    a->tag = nonce;
    rt_sql_ask_go(a);
}

/* ---- CHANGE ------------------------------------------------------------------------------------- */

static void change_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct rt_lease_ticket t = {
        .name = a->name, .session = a->entry.op->change.session, .nonce = a->tag};
    rt_lease_say(c, b, RT_LEASE_RENEW, &t);
    rt_lease_say(c, b, RT_LEASE_HAVE, &t);
}

static bool change_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_op *op = a->entry.op;
    bool ours = rt_sql_row_of(a, b, a->steps - 1, NULL) != NULL;
    op->change.wanted = ours &&
                        op->change.what & RT_CHANGE_ARM; /* nobody can say that nobody waits */
    rt_sql_done(a, ours ? 0 : rt_words_no_ticket(&a->c->base, a->name));
    return true;
}

void rt_lease_begin_change(struct rt_lease_conn *c, struct rt_op *op)
{
    static const struct rt_sql_plan plan = {.say = change_say, .heard = change_heard};
    struct rt_conn *conn = &c->sql.base;
    int rv = rt_check_name(conn, op->change.name);
    const struct rt_spin_ticket *t = rv == 0 && c->spin.session != 0 &&
                                             op->change.session == c->spin.session
                                         ? rt_spin_by_number(&c->spin, op->change.name,
                                                             op->change.number)
                                         : NULL;
    if (rv == 0 && (t == NULL || t->state != RT_SPIN_HELD))
        rv = rt_words_no_ticket(conn, op->change.name);
    if (rv == 0 && op->change.what & ~RT_CHANGE_ARM)
        rv = rt_lease_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has no values and no readers",
                           op->change.name, c->dialect->name);
    if (rv != 0) {
        rt_conn_done(conn, op, rv);
        return;
    }
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &plan, op, op->change.name, NULL);
    if (a == NULL)
        return;
    a->tag = t->nonce;
    a->entry.again = true;
    rt_sql_ask_go(a);
}

/* ---- BREAK -------------------------------------------------------------------------------------- */

static void break_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say_own(b, &rt_lease_of_sql(a->c)->says[RT_LEASE_BREAK], rt_sql_text(a->name),
                   rt_sql_number(a->tag));
}

static bool break_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    rt_sql_done(a, rt_sql_changed_by(a, b, 0) > 0 ? 0 : rt_words_no_such(&a->c->base, a->name));
    return true;
}

void rt_lease_begin_break(struct rt_lease_conn *c, struct rt_op *op)
{
    static const struct rt_sql_plan plan = {.say = break_say, .heard = break_heard};
    int rv = rt_check_name(&c->sql.base, op->brk.name);
    if (rv == 0 && op->brk.number == 0) /* there are no durable tickets */
        rv = rt_words_no_such(&c->sql.base, op->brk.name);
    if (rv != 0) {
        rt_conn_done(&c->sql.base, op, rv);
        return;
    }
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &plan, op, op->brk.name, NULL);
    if (a == NULL)
        return;
    a->tag = op->brk.number;
    rt_sql_ask_go(a);
}
