/* SPDX-License-Identifier: Apache-2.0 */
/* A JOIN_ALL that tries: all of it, or nothing. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"
#include "base/list.h"

#include <stdio.h>
#include <string.h>

struct rt_sqlhold_set { /* a JOIN_ALL that tries: all, or none */
    struct rt_sqlhold_set *next, **link;
    struct rt_sqlhold_conn *c;
    struct rt_op *op;
    size_t left;
};

int rt_sqlhold_set_new(struct rt_sqlhold_conn *c, struct rt_op *op, struct rt_sqlhold_ticket **list)
{
    struct rt_sqlhold_set *set = rt_alloc(sizeof(*set));
    if (set == NULL)
        return rt_words_nomem(rt_sqlhold_base(c));
    set->c = c;
    set->op = op;
    set->left = op->join.n;
    RT_LIST_ADD(&c->sets, set);
    for (size_t i = 0; i < op->join.n; i++)
        list[i]->set = set;
    return 0;
}

static void take_out(struct rt_sqlhold_ticket *t, void *arg)
{
    if (t->set == arg) {
        if (t->behind != NULL)
            t->behind->ahead = NULL;
        t->behind = NULL;
        t->set = NULL;
        rt_sqlhold_withdraw(t, NULL);
    }
}

/* Nothing of the set stays. BUSY: the name that was busy, to say who holds it. */
void rt_sqlhold_set_failed(struct rt_sqlhold_set *set, int err, const char *busy)
{
    struct rt_sqlhold_conn *c = set->c;
    struct rt_op *op = set->op;
    char said[sizeof(c->sql.base.errmsg)], name[RT_NAME_ROOM];
    memcpy(said, c->sql.base.errmsg, sizeof(said));
    snprintf(name, sizeof(name), "%s", busy != NULL ? busy : "");
    rt_sqlhold_each(c, take_out, set);
    RT_LIST_OUT(set);
    rt_free(set);
    memcpy(c->sql.base.errmsg, said, sizeof(said));
    if (busy != NULL)
        rt_sqlhold_busy(c, op, name);
    else
        rt_conn_done(rt_sqlhold_base(c), op, err);
}

static void leave_set(struct rt_sqlhold_ticket *t, void *arg)
{
    if (t->set == arg)
        t->set = NULL;
}

void rt_sqlhold_set_granted(struct rt_sqlhold_ticket *t)
{
    struct rt_sqlhold_set *set = t->set;
    struct rt_sqlhold_conn *c = set->c;
    struct rt_op *op = set->op;
    op->join.joins[t->index].number = t->number;
    op->join.joins[t->index].granted = true;
    op->join.joins[t->index].wanted = false;
    if (--set->left > 0)
        return;
    rt_sqlhold_each(c, leave_set, set);
    RT_LIST_OUT(set);
    rt_free(set);
    rt_conn_done(rt_sqlhold_base(c), op, 0);
}

bool rt_sqlhold_cancel_set(struct rt_sqlhold_conn *c, const struct rt_op *op)
{
    for (struct rt_sqlhold_set *set = c->sets; set != NULL; set = set->next)
        if (set->op == op) {
            rt_sqlhold_set_failed(set, rt_sqlhold_fail(c, ROTA_CANCELED, "canceled"), NULL);
            return true;
        }
    return false;
}

void rt_sqlhold_sets_close(struct rt_sqlhold_conn *c)
{
    while (c->sets != NULL) {
        struct rt_sqlhold_set *set = c->sets;
        RT_LIST_OUT(set);
        rt_free(set);
    }
}
