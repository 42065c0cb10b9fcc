/* SPDX-License-Identifier: Apache-2.0 */
/* The answers to a flight, and how it ends. */
#include "engine/mysql/mysql.h"

#include <stdio.h>

/* ---- Landing --------------------------------------------------------------------------------------------------------- */

static void land(struct rt_mysql_link *l, enum rt_sql_end end, size_t step, const char *why)
{
    l->state = RT_MYSQL_READY;
    l->base.user->landed(&l->base, end, step, why);
}

void rt_mysql_undone(struct rt_mysql_link *l)
{
    char why[sizeof(l->error.text) + 16];
    snprintf(why, sizeof(why), "%s (%u)", l->error.text, l->error.code);
    land(l, rt_mysql_end(l->error.code), l->failed, why);
}

/* A transaction may be open: ends it before anybody is told. */
static void undo(struct rt_mysql_link *l)
{
    rt_mysql_command(l, RT_MYSQL_QUERY);
    rt_mysql_add_text(&l->out, "ROLLBACK");
    l->state = RT_MYSQL_UNDOING;
    if (rt_mysql_send(l) != 0)
        rt_mysql_fail_memory(l); /* which undoes it too */
}

/* A statement failed, and with it the flight, unless that had committed: what follows it was not begun. */
static void failed(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    bool flew = l->state == RT_MYSQL_FLYING, committing = flew && l->part == l->commit;
    size_t step = flew ? l->parts[l->part].step : 0;
    rt_mysql_error(c, &l->error);
    l->failed = step != RT_MYSQL_NOBODY ? step : 0;
    bool unsure = rt_mysql_killed(l->error.code) ||
                  (!l->binary && rt_mysql_end(l->error.code) == RT_SQL_REFUSED);
    if (flew && l->commit != SIZE_MAX && l->part > l->commit) {
        land(l, RT_SQL_LANDED, 0, "");
        if (l->state == RT_MYSQL_READY && rt_mysql_parting(l->error.code))
            rt_mysql_fail(l, ROTA_UNREACHABLE, "%s: %s", l->at, l->error.text);
    } else if (committing && unsure) {
        rt_mysql_fail(l, ROTA_UNREACHABLE, "%s: %s", l->at, l->error.text);
    } else if (rt_mysql_parting(l->error.code)) {
        l->state = RT_MYSQL_UNDOING;
        rt_mysql_fail(l, ROTA_UNREACHABLE, "%s: %s", l->at, l->error.text);
    } else if (l->binary) {
        rt_mysql_undone(l);
    } else {
        undo(l);
    }
}

/* ---- Those that stand by themselves ----------------------------------------------------------------- */

/* What was done in the transaction is undone: it has ended without us. */
static void forget_pending(struct rt_mysql_link *l)
{
    for (size_t i = 0; i < l->part; i++)
        if (l->parts[i].pending)
            l->parts[i] = (struct rt_mysql_part){.step = l->parts[i].step, .form = RT_MYSQL_NOBODY};
}

static void tell_singles(struct rt_mysql_link *l)
{
    for (size_t i = 1; i + 2 < l->part_count && l->state == RT_MYSQL_FLYING; i++) {
        const struct rt_mysql_part p = l->parts[i];
        if (p.affected > 0 && rt_mysql_step(&l->steps[p.step])->by_id)
            l->base.user->row(&l->base, p.step, &(struct rt_sql_cell){.number = (int64_t)p.id}, 1);
        if (l->state == RT_MYSQL_FLYING)
            l->base.user->changed(&l->base, p.step, p.affected);
    }
    if (l->state == RT_MYSQL_FLYING)
        land(l, RT_SQL_LANDED, 0, "");
}

static void heard_single(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    struct rt_mysql_part *p = &l->parts[l->part];
    bool commit = l->part + 1 == l->part_count, error = c.at < c.end && c.at[0] == 0xff;
    struct rt_mysql_ok ok = {0};
    if (error)
        rt_mysql_error(c, &l->error);
    if (error && (p->step == RT_MYSQL_NOBODY || rt_mysql_killed(l->error.code))) {
        rt_mysql_fail(l, ROTA_UNREACHABLE, "%s: %s", l->at, l->error.text);
        return;
    }
    if (!error &&
        (c.at == c.end || c.at[0] != 0 || !rt_mysql_ok(c, &ok) || ok.status & RT_MYSQL_MORE)) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    if (error ? l->error.code == 1213 : !commit && !(ok.status & RT_MYSQL_INSIDE))
        forget_pending(l);
    p->pending = ok.status & RT_MYSQL_INSIDE;
    p->affected = ok.affected;
    p->id = ok.insert_id;
    l->part++;
    l->seq = 1; /* of the next answer */
    if (commit)
        tell_singles(l);
}

/* ---- Hearing --------------------------------------------------------------------------------------------------------- */

static void tell_row(struct rt_mysql_link *l, const struct rt_sql_cell *cells, size_t count)
{
    size_t step = l->parts[l->part].step;
    if (step != RT_MYSQL_NOBODY)
        l->base.user->row(&l->base, step, cells, count);
}

/* A statement is through; its step too, perhaps the flight. */
static void through(struct rt_mysql_link *l, uint16_t status, bool rows)
{
    const struct rt_mysql_part *p = &l->parts[l->part];
    bool more = status & RT_MYSQL_MORE, last = p->last;
    size_t step = p->step;
    if (more != (l->part + 1 < l->part_count)) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    if (p->form != RT_MYSQL_NOBODY)
        l->named[p->form] = true;
    l->part++;
    l->phase = RT_MYSQL_HEAD;
    if (last) {
        uint64_t changed = l->changed;
        l->changed = 0;
        if (!rows)
            l->base.user->changed(&l->base, step, changed);
    }
    if (l->state == RT_MYSQL_FLYING && !more)
        land(l, RT_SQL_LANDED, 0, "");
}

static void heard_ok(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    size_t step = l->parts[l->part].step;
    struct rt_mysql_ok ok;
    if (!rt_mysql_ok(c, &ok)) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    if (step != RT_MYSQL_NOBODY && ok.affected > 0)
        l->changed = ok.affected;
    if (step != RT_MYSQL_NOBODY && ok.affected > 0 && rt_mysql_step(&l->steps[step])->by_id)
        tell_row(l, &(struct rt_sql_cell){.number = (int64_t)ok.insert_id}, 1);
    if (l->state == RT_MYSQL_FLYING)
        through(l, ok.status, false);
}

static void heard_head(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    uint64_t columns = rt_mysql_length(&c);
    if (c.bad || c.at != c.end || columns == 0 || columns > RT_MYSQL_COLUMNS) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    l->columns = (struct rt_mysql_columns){.count = (size_t)columns};
    l->phase = RT_MYSQL_DEFINITIONS;
}

static bool is_end(struct rt_mysql_cursor c)
{
    return c.at < c.end && c.at[0] == 0xfe;
}

static void heard_definition(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    bool whole = l->columns.seen == l->columns.count; /* an EOF is due */
    if (whole ? !is_end(c) : !rt_mysql_column(c, &l->columns))
        rt_mysql_fail_nonsense(l);
    else if (whole || (l->no_eof && l->columns.seen == l->columns.count))
        l->phase = RT_MYSQL_ROWS;
}

static void heard_row(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    struct rt_sql_cell cells[RT_MYSQL_COLUMNS];
    struct rt_mysql_ok ok = {0};
    if (is_end(c) && l->no_eof) {
        if (rt_mysql_ok(c, &ok))
            through(l, ok.status, true);
        else
            rt_mysql_fail_nonsense(l);
    } else if (is_end(c) && c.end - c.at == 5) {
        through(l, (uint16_t)(c.at[3] | c.at[4] << 8), true);
    } else if (rt_mysql_row(c, &l->columns, l->binary, cells)) {
        tell_row(l, cells, l->columns.count);
    } else {
        rt_mysql_fail_nonsense(l);
    }
}

/* Takes the number by which the statement is executed; then executes it. */
static void heard_prepared(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    size_t form = l->form;
    if (l->skip == 0) {
        bool good = rt_mysql_int(&c, 1) == 0;
        l->ids[form] = (uint32_t)rt_mysql_int(&c, 4);
        size_t columns = rt_mysql_int(&c, 2), marks = rt_mysql_int(&c, 2);
        if (c.bad || !good || l->ids[form] == 0 ||
            marks != rt_mysql_marks(rt_mysql_text(l, form), NULL, NULL)) {
            rt_mysql_fail_nonsense(l);
            return;
        }
        l->skip = 1 + columns + marks;
        if (!l->no_eof)
            l->skip += (columns > 0 ? 1u : 0u) + (marks > 0 ? 1u : 0u);
    }
    if (--l->skip == 0 && rt_mysql_send_packets(l) != 0)
        rt_mysql_fail_memory(l);
}

void rt_mysql_hear(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    uint8_t first = c.at < c.end ? c.at[0] : 0xfb;
    bool file = first == 0xfb && l->phase == RT_MYSQL_HEAD; /* "a file of yours, please" */
    if (l->state == RT_MYSQL_UNDOING && (first == 0 || first == 0xff))
        rt_mysql_undone(l);
    else if (file || l->state == RT_MYSQL_UNDOING)
        rt_mysql_fail_nonsense(l);
    else if (l->singles && l->state == RT_MYSQL_FLYING)
        heard_single(l, c);
    else if (first == 0xff && l->phase != RT_MYSQL_DEFINITIONS)
        failed(l, c);
    else if (l->state == RT_MYSQL_PREPARING)
        heard_prepared(l, c);
    else if (l->phase == RT_MYSQL_HEAD && first == 0)
        heard_ok(l, c);
    else if (l->phase == RT_MYSQL_HEAD)
        heard_head(l, c);
    else if (l->phase == RT_MYSQL_DEFINITIONS)
        heard_definition(l, c);
    else
        heard_row(l, c);
}
