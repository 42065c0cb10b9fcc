/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT, LIST and CHECK: they look, and tell what they saw once it is complete. */
#include "engine/sql/sql.h"

#include "engine/kit/check.h"

/* ---- What is asked ---------------------------------------------------------------------------------------------- */

static enum rt_sql_step_kind step_of(const struct rt_sql_ask *a)
{
    enum rt_op_kind kind = a->entry.op->kind;
    return kind == RT_OP_INSPECT ? RT_SQL_INSPECT
           : kind == RT_OP_LIST  ? RT_SQL_LIST
                                 : RT_SQL_DOCTOR;
}

static void look_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    if (op->kind == RT_OP_INSPECT)
        rt_sql_say(b, RT_SQL_INSPECT, rt_sql_text(a->name), rt_sql_number(op->inspect.session));
    else if (op->kind == RT_OP_LIST)
        rt_sql_say(b, RT_SQL_LIST, rt_sql_text(op->list.prefix != NULL ? op->list.prefix : ""));
    else
        rt_sql_say_cells(b, RT_SQL_DOCTOR, NULL, 0);
}

/* ---- What is seen ----------------------------------------------------------------------------------------------- */

static int64_t ms_of(const struct rt_sql_row *row, size_t i)
{
    return rt_sql_null(row, i) ? -1 : rt_sql_int(row, i) / 1000;
}

static void show_place(const struct rt_sql_ask *a, const struct rt_sql_row *row)
{
    struct rota_place place = {
        .number = (uint64_t)rt_sql_int(row, 1),
        .session = (uint64_t)rt_sql_int(row, 2),
        .owner = (uint64_t)rt_sql_int(row, 3),
        .mode = (uint32_t)rt_sql_int(row, 4),
        .take = (uint32_t)rt_sql_int(row, 5),
        .of = (uint32_t)rt_sql_int(row, 6),
        .since_ms = ms_of(row, 10),
        .left_ms = ms_of(row, 11),
        .value = rt_sql_str(row, 12),
        .label = rt_sql_str(row, 13),
    };
    if (rt_sql_int(row, 7) != 0)
        place.flags |= ROTA_PLACE_GRANTED;
    if (rt_sql_int(row, 8) != 0)
        place.flags |= ROTA_PLACE_DURABLE;
    else if (place.session == a->c->session)
        place.flags |= ROTA_PLACE_MINE;
    if (rt_sql_int(row, 9) & RT_SQL_DETECT)
        place.flags |= ROTA_PLACE_DETECT;
    a->entry.op->inspect.each(a->entry.op->inspect.arg, rt_sql_str(row, 0), &place);
}

static bool look_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, step_of(a), r)) != NULL;)
        if (op->kind == RT_OP_INSPECT)
            show_place(a, r);
        else if (op->kind == RT_OP_LIST)
            op->list.each(op->list.arg, rt_sql_str(r, 0), (size_t)rt_sql_int(r, 1),
                          (size_t)rt_sql_int(r, 2));
        else
            rt_words_verdict(op, rt_sql_str(r, 0), rt_sql_str(r, 1), rt_sql_str(r, 2),
                             rt_sql_str(r, 3));
    rt_sql_done(a, 0);
    return true;
}

void rt_sql_begin_look(struct rt_sql_conn *c, struct rt_op *op)
{
    static const struct rt_sql_plan plan = {.reads = true, .say = look_say, .heard = look_heard};
    const char *name = op->kind == RT_OP_INSPECT ? op->inspect.name : NULL;
    int rv = name != NULL ? rt_check_name(&c->base, name) : 0;
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
    else
        (void)rt_sql_ask(c, &plan, op, name, NULL);
}
