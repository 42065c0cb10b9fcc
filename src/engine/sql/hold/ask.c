/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of seats: JOIN, LEAVE, CHANGE, renewals. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

#include <string.h>

/* ---- JOIN ----------------------------------------------------------------------------------------------------------------------- */

static void answer_as_it_stands(struct rt_join *j, const struct rt_sqlhold_ticket *t)
{
    j->number = t->number;
    j->granted = t->state == RT_HOLD_HELD || t->state == RT_HOLD_LEAVING;
    j->wanted = false;
}

/* Asked again: all are there (0), none is (1), or only some: that was another ask (ROTA_LOST). */
static int find_all(struct rt_sqlhold_conn *c, const struct rt_op *op)
{
    size_t found = 0;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        struct rt_sqlhold_ticket *t = rt_sqlhold_find(c, j->name, j->session, 0, j->nonce);
        found += t != NULL;
        if (t != NULL)
            answer_as_it_stands(j, t);
    }
    if (found == 0)
        return 1;
    return found == op->join.n ? 0 : rt_words_set_ended(rt_sqlhold_base(c));
}

/* Frees those of N that were made; none of them has begun. */
static int unmake(struct rt_sqlhold_conn *c, const struct rt_op *op, size_t n, int err)
{
    char said[sizeof(c->sql.base.errmsg)];
    memcpy(said, c->sql.base.errmsg, sizeof(said));
    for (size_t i = 0; i < n; i++) {
        const struct rt_join *j = &op->join.joins[i];
        struct rt_sqlhold_ticket *t = rt_sqlhold_find(c, j->name, j->session, 0, j->nonce);
        if (t == NULL)
            continue;
        rt_free(t->ask);
        t->ask = NULL;
        rt_sqlhold_ticket_free(t);
    }
    memcpy(c->sql.base.errmsg, said, sizeof(said));
    return err;
}

static int make_ticket(struct rt_sqlhold_conn *c, struct rt_op *op, size_t i,
                       struct rt_sqlhold_ticket **out)
{
    struct rt_sqlhold_ticket *t = rt_sqlhold_ticket_new(c, &op->join.joins[i]);
    *out = t;
    if (t == NULL)
        return rt_words_nomem(rt_sqlhold_base(c));
    t->index = i;
    int rv = rt_sqlhold_spell(c, t);
    if (rv != 0)
        return rv;
    t->ask = rt_sqlhold_ask_new(t, RT_HOLD_TRY, op->join.n == 1 ? op : NULL);
    if (t->ask == NULL)
        return rt_words_nomem(rt_sqlhold_base(c));
    t->ask->entry.again = true;
    t->ask->entry.deadline = op->join.n == 1 || t->try ? op->deadline : RT_NEVER;
    return 0;
}

/* In the order of their names, so that two sets never wait for each other. */
static void chain(struct rt_sqlhold_ticket **list, size_t n)
{
    for (size_t i = 1; i < n; i++) /* few */
        for (size_t k = i; k > 0 && strcmp(list[k - 1]->name, list[k]->name) > 0; k--) {
            struct rt_sqlhold_ticket *t = list[k];
            list[k] = list[k - 1];
            list[k - 1] = t;
        }
    for (size_t i = 0; i + 1 < n; i++) {
        list[i]->behind = list[i + 1];
        list[i + 1]->ahead = list[i];
    }
}

static int join_all(struct rt_sqlhold_conn *c, struct rt_op *op, struct rt_sqlhold_ticket **list)
{
    size_t n = op->join.n;
    for (size_t i = 0; i < n; i++) {
        int rv = make_ticket(c, op, i, &list[i]);
        if (rv != 0)
            return unmake(c, op, i + 1, rv);
    }
    int rv = n > 1 && list[0]->try ? rt_sqlhold_set_new(c, op, list) : 0;
    if (rv != 0)
        return unmake(c, op, n, rv);
    bool waits = n > 1 && !list[0]->try;
    for (size_t i = 0; waits && i < n; i++) {
        struct rt_join *j = &op->join.joins[i];
        j->number = list[i]->number = ++c->names;
        j->granted = j->wanted = false;
    }
    chain(list, n);
    for (size_t i = 0; i < n; i++)
        rt_sqlhold_begin_ticket(list[i]);
    if (waits)
        rt_conn_done(rt_sqlhold_base(c), op, 0);
    return 0;
}

static int check(struct rt_sqlhold_conn *c, const struct rt_op *op)
{
    int rv = rt_check_joins(rt_sqlhold_base(c), op);
    if (rv == 0)
        rv = rt_check_session(rt_sqlhold_base(c), op, c->session);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++) {
        const struct rt_join *j = &op->join.joins[i];
        bool good = (j->mode == RT_EXCLUSIVE ||
                     (j->mode == RT_SHARED && c->way->caps & ROTA_CAP_SHARED)) &&
                    (j->flags & RT_JOIN_DURABLE) == 0 && j->at_least_ms == 0 && j->value == NULL;
        if (!good)
            rv = rt_sqlhold_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has no such locks",
                                 j->name, c->way->dialect);
    }
    if (rv == 0 && op->join.n > c->seat_room)
        rv = rt_sqlhold_fail(c, ROTA_UNSUPPORTED,
                             "a set of %zu needs a connection each, and ?waits= is %zu", op->join.n,
                             c->seat_room);
    return rv;
}

void rt_sqlhold_begin_join(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = check(c, op);
    if (rv == 0)
        rv = find_all(c, op);
    if (rv == 1) {
        struct rt_sqlhold_ticket **list = rt_alloc(op->join.n * sizeof(struct rt_sqlhold_ticket *));
        rv = list != NULL ? join_all(c, op, list) : rt_words_nomem(rt_sqlhold_base(c));
        rt_free(list);
        if (rv == 0)
            return;
    }
    rt_conn_done(rt_sqlhold_base(c), op, rv);
}

/* ---- LEAVE, CHANGE, touches --------------------------------------------------------------------------------------------------- */

void rt_sqlhold_begin_leave(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(rt_sqlhold_base(c), op->leave.name);
    struct rt_sqlhold_ticket *t = rv == 0 ? rt_sqlhold_find(c, op->leave.name, op->leave.session,
                                                            op->leave.number, op->leave.nonce)
                                          : NULL;
    op->leave.granted = false;
    if (rv == 0 && (t == NULL || t->state == RT_HOLD_LEAVING || t->session != c->session))
        rv = rt_words_no_ticket(rt_sqlhold_base(c), op->leave.name);
    if (rv == 0 && t->state != RT_HOLD_HELD) {
        rt_sqlhold_withdraw(t, op);
        return;
    }
    struct rt_sqlhold_ask *a = rv == 0 ? rt_sqlhold_ask_new(t, RT_HOLD_GIVE, op) : NULL;
    if (rv == 0 && a == NULL)
        rv = rt_words_nomem(rt_sqlhold_base(c));
    if (rv != 0) {
        rt_conn_done(rt_sqlhold_base(c), op, rv);
        return;
    }
    t->state = RT_HOLD_LEAVING;
    a->number = t->number;
    a->holder = t->seat->id;
    (void)rt_ledger_add(&c->ledger, &a->entry);
}

void rt_sqlhold_begin_change(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(rt_sqlhold_base(c), op->change.name);
    struct rt_sqlhold_ticket *t = rv == 0 ? rt_sqlhold_find(c, op->change.name, op->change.session,
                                                            op->change.number, 0)
                                          : NULL;
    bool down = op->change.what & RT_CHANGE_DOWNGRADE;
    op->change.wanted = false;
    if (rv == 0 && (t == NULL || t->state != RT_HOLD_HELD))
        rv = rt_words_no_ticket(rt_sqlhold_base(c), op->change.name);
    if (rv == 0 &&
        (op->change.what & RT_CHANGE_VALUE || (down && c->way->sql[RT_HOLD_SAY_DOWNGRADE] == NULL)))
        rv = rt_sqlhold_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has no %s", op->change.name,
                             c->way->dialect, down ? "way from a writer to a reader" : "values");
    down = down && rv == 0 && t->mode == RT_EXCLUSIVE;
    struct rt_sqlhold_ask *a = rv == 0 ? rt_sqlhold_ask_new(
                                             t, down ? RT_HOLD_DOWNGRADE : RT_HOLD_VERIFY, op)
                                       : NULL;
    if (rv == 0 && a == NULL)
        rv = rt_words_nomem(rt_sqlhold_base(c));
    if (rv != 0)
        rt_conn_done(rt_sqlhold_base(c), op, rv);
    else
        (void)rt_ledger_add(&c->ledger, &a->entry);
}

void rt_sqlhold_touch(struct rt_sqlhold_ticket *t, struct rt_work *w)
{
    struct rt_sqlhold_ask *a = rt_sqlhold_ask_new(t, RT_HOLD_VERIFY, NULL);
    if (a == NULL) {
        rt_work_note(rt_sqlhold_base(t->c), w, rt_words_nomem(rt_sqlhold_base(t->c)));
        return;
    }
    a->work = w;
    a->entry.pending = &w->pending;
    a->entry.deadline = w->op->deadline;
    (void)rt_ledger_add(&t->c->ledger, &a->entry);
}
