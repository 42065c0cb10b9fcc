/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT, LIST and CHECK: they look, and tell what they saw when all of it is there. */
#include "engine/sql/sql.h"

#include "engine/kit/check.h"

/* ---- INSPECT ---------------------------------------------------------------------------------------------------- */

static void inspect_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_INSPECT, rt_sql_text(a->name),
               rt_sql_number(a->entry.op->inspect.session));
}

static int64_t ms_of(const struct rt_sql_row *row, size_t i)
{
    return rt_sql_null(row, i) ? -1 : rt_sql_int(row, i) / 1000;
}

static void show(const struct rt_sql_ask *a, const struct rt_sql_row *row)
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

static bool inspect_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    for (const struct rt_sql_row *row = NULL;
         (row = rt_sql_next(a, b, RT_SQL_INSPECT, row)) != NULL;)
        show(a, row);
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan inspect_plan = {
    .reads = true, .say = inspect_say, .heard = inspect_heard};

void rt_sql_begin_inspect(struct rt_sql_conn *c, struct rt_op *op)
{
    int rv = op->inspect.name != NULL ? rt_check_name(&c->base, op->inspect.name) : 0;
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
    else
        (void)rt_sql_ask(c, &inspect_plan, op, op->inspect.name, NULL);
}

/* ---- LIST ------------------------------------------------------------------------------------------------------- */

static void list_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_LIST,
               rt_sql_text(a->entry.op->list.prefix != NULL ? a->entry.op->list.prefix : ""));
}

static bool list_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    for (const struct rt_sql_row *row = NULL; (row = rt_sql_next(a, b, RT_SQL_LIST, row)) != NULL;)
        a->entry.op->list.each(a->entry.op->list.arg, rt_sql_str(row, 0),
                               (size_t)rt_sql_int(row, 1), (size_t)rt_sql_int(row, 2));
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan list_plan = {.reads = true, .say = list_say, .heard = list_heard};

void rt_sql_begin_list(struct rt_sql_conn *c, struct rt_op *op)
{
    (void)rt_sql_ask(c, &list_plan, op, NULL, NULL);
}

/* ---- CHECK ------------------------------------------------------------------------------------------------------ */

static void check_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    (void)a;
    rt_sql_say_cells(b, RT_SQL_DOCTOR, NULL, 0);
}

static bool check_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    for (const struct rt_sql_row *row = NULL;
         (row = rt_sql_next(a, b, RT_SQL_DOCTOR, row)) != NULL;) {
        struct rota_verdict v = {rt_sql_str(row, 0), rt_sql_str(row, 1), rt_sql_str(row, 2),
                                 rt_sql_str(row, 3)};
        a->entry.op->check.each(a->entry.op->check.arg, &v);
    }
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan check_plan = {
    .reads = true, .say = check_say, .heard = check_heard};

void rt_sql_begin_check(struct rt_sql_conn *c, struct rt_op *op)
{
    (void)rt_sql_ask(c, &check_plan, op, NULL, NULL);
}
