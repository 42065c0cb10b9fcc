/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a flight: mysql.h says why it is one command. hear.c hears its answers. */
#include "engine/mysql/mysql.h"

#include "base/alloc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COM_STMT_PREPARE = 22, COM_STMT_EXECUTE = 23 };
enum { TYPE_NULL = 6, TYPE_LONGLONG = 8, TYPE_BLOB = 252 };

bool rt_mysql_flies(const struct rt_mysql_link *l)
{
    return l->state == RT_MYSQL_PREPARING || l->state == RT_MYSQL_FLYING;
}

void rt_mysql_flight_free(struct rt_mysql_link *l)
{
    rt_free(l->steps);
    rt_free(l->parts);
    l->steps = NULL;
    l->parts = NULL;
    l->step_count = l->step_room = l->part_count = l->part_room = 0;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* Texts in hexadecimal: nothing in them can be misread, whatever the server's settings. */
static void put_literal(struct rt_mysql_bytes *b, const struct rt_sql_cell *cell)
{
    static const char digits[] = "0123456789abcdef";
    char text[24], pair[2];
    if (cell->null) {
        rt_mysql_add_text(b, "NULL");
        return;
    }
    if (cell->text == NULL) {
        snprintf(text, sizeof(text), "%" PRId64, cell->number);
        rt_mysql_add_text(b, text);
        return;
    }
    rt_mysql_add_text(b, "x'");
    for (size_t i = 0; i < cell->size; i++) {
        uint8_t byte = (uint8_t)cell->text[i];
        pair[0] = digits[byte >> 4];
        pair[1] = digits[byte & 15];
        rt_mysql_add(b, pair, 2);
    }
    rt_mysql_add_text(b, "'");
}

static const struct rt_sql_cell *arg(const struct rt_sql_step *s, uint8_t number)
{
    assert(number >= 1 && number <= s->count);
    return &s->args[number - 1];
}

/* ---- One statement by itself --------------------------------------------------------------------------------------- */

static void put_types(struct rt_mysql_bytes *b, const struct rt_sql_step *s, const uint8_t *args,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct rt_sql_cell *cell = arg(s, args[i]);
        rt_mysql_add_int(b,
                         cell->null           ? TYPE_NULL
                         : cell->text != NULL ? TYPE_BLOB
                                              : TYPE_LONGLONG,
                         2);
    }
}

static void put_values(struct rt_mysql_bytes *b, const struct rt_sql_step *s, const uint8_t *args,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct rt_sql_cell *cell = arg(s, args[i]);
        if (cell->null)
            continue;
        if (cell->text == NULL) {
            rt_mysql_add_int(b, (uint64_t)cell->number, 8);
            continue;
        }
        rt_mysql_add_length(b, cell->size);
        rt_mysql_add(b, cell->text, cell->size);
    }
}

static void put_packet(struct rt_mysql_link *l, size_t step)
{
    const struct rt_sql_step *s = &l->steps[step];
    size_t form = rt_mysql_form(s, 0);
    uint8_t args[RT_MYSQL_MARKS], nulls[(RT_MYSQL_MARKS + 7) / 8] = {0};
    size_t count = rt_mysql_marks(rt_mysql_text(l, form), NULL, args);
    struct rt_mysql_bytes *b = &l->out;
    rt_mysql_add_int(b, l->ids[form], 4);
    rt_mysql_add_int(b, 0, 1); /* no cursor */
    rt_mysql_add_int(b, 1, 4); /* once */
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (arg(s, args[i])->null)
            nulls[i / 8] |= (uint8_t)(1u << i % 8);
    rt_mysql_add(b, nulls, (count + 7) / 8);
    rt_mysql_add_int(b, 1, 1); /* types follow */
    put_types(b, s, args, count);
    put_values(b, s, args, count);
}

static int send_prepare(struct rt_mysql_link *l, size_t form)
{
    rt_mysql_command(l, COM_STMT_PREPARE);
    (void)rt_mysql_marks(rt_mysql_text(l, form), &l->out, NULL);
    l->state = RT_MYSQL_PREPARING;
    l->form = form;
    l->skip = 0;
    return rt_mysql_send(l);
}

/* ---- Several as one command ------------------------------------------------------------------------------------------ */

static void put_part(struct rt_mysql_link *l, size_t step, size_t form)
{
    if (!rt_grow(&l->parts, &l->part_room, l->part_count + 1, sizeof(*l->parts))) {
        l->out.failed = true;
        return;
    }
    l->parts[l->part_count++] = (struct rt_mysql_part){.step = (uint16_t)step,
                                                       .form = (uint16_t)form};
}

static void put_text(struct rt_mysql_link *l, const char *text, size_t step)
{
    size_t size = l->out.size;
    if (l->part_count > 0 && !l->out.failed && memcmp(l->out.at + size - 2, ";\n", 2) != 0)
        rt_mysql_add_text(&l->out, ";");
    rt_mysql_add_text(&l->out, text);
    put_part(l, step, RT_MYSQL_NOBODY);
}

/* PREPAREs FORM by its name, ahead of all that is done: the server learns of it in the same flight as
 * its first use. */
static void put_name(struct rt_mysql_link *l, size_t form)
{
    char head[40];
    uint8_t args[RT_MYSQL_MARKS];
    if (l->named[form])
        return;
    for (size_t i = 0; i < l->part_count; i++)
        if (l->parts[i].form == form)
            return;
    struct rt_mysql_bytes text = {0};
    snprintf(head, sizeof(head), "PREPARE rota%zu FROM '", form);
    (void)rt_mysql_marks(rt_mysql_text(l, form), &text, args);
    put_text(l, head, RT_MYSQL_NOBODY);
    if (l->part_count > 0)
        l->parts[l->part_count - 1].form = (uint16_t)form;
    for (size_t i = 0; i < text.size; i++) /* a quote in it stands twice */
        rt_mysql_add(&l->out, text.at[i] == '\'' ? "''" : (const char *)&text.at[i],
                     text.at[i] == '\'' ? 2 : 1);
    rt_mysql_add_text(&l->out, "'");
    l->out.failed = l->out.failed || text.failed;
    rt_mysql_bytes_free(&text);
}

/* MySQL's EXECUTE takes only variables: sets those of S, for all its statements. */
static void put_variables(struct rt_mysql_link *l, const struct rt_sql_step *s)
{
    char name[16];
    for (uint32_t i = 0; !l->mariadb && i < s->count; i++) {
        snprintf(name, sizeof(name), "%s@r%u=", i > 0 ? "," : "", i + 1);
        if (i == 0)
            put_text(l, "SET ", RT_MYSQL_NOBODY);
        rt_mysql_add_text(&l->out, name);
        put_literal(&l->out, &s->args[i]);
    }
}

static void put_execute(struct rt_mysql_link *l, size_t step, size_t form,
                        const struct rt_sql_step *s)
{
    uint8_t args[RT_MYSQL_MARKS];
    char text[40];
    size_t count = rt_mysql_marks(rt_mysql_text(l, form), NULL, args);
    snprintf(text, sizeof(text), "EXECUTE rota%zu", form);
    put_text(l, text, step);
    for (size_t i = 0; i < count; i++) {
        rt_mysql_add_text(&l->out, i == 0 ? " USING " : ",");
        if (l->mariadb) {
            put_literal(&l->out, arg(s, args[i]));
        } else {
            snprintf(text, sizeof(text), "@r%u", args[i]);
            rt_mysql_add_text(&l->out, text);
        }
    }
}

static bool same_name(const struct rt_sql_step *a, const struct rt_sql_step *b)
{
    return a->args[0].size == b->args[0].size &&
           memcmp(a->args[0].text, b->args[0].text, a->args[0].size) == 0;
}

/* Whether STEP is the first that changes its line's tickets: one recount at the end is enough for all. */
static bool is_first(const struct rt_mysql_link *l, size_t step)
{
    const struct rt_sql_step *s = &l->steps[step];
    if (!rt_mysql_step(s)->recounts)
        return false;
    for (size_t i = step; i > 0; i--)
        if (rt_mysql_step(&l->steps[i - 1])->recounts && same_name(&l->steps[i - 1], s))
            return false;
    return true;
}

static void put_names(struct rt_mysql_link *l)
{
    for (size_t i = 0; i < l->step_count; i++) {
        const struct rt_sql_step *s = &l->steps[i];
        const struct rt_mysql_step *t = rt_mysql_step(s);
        for (size_t k = 0; !t->plain && k < RT_MYSQL_PARTS && t->sql[k] != NULL; k++)
            put_name(l, rt_mysql_form(s, k));
        if (t->recounts)
            put_name(l, RT_MYSQL_RECOUNT);
    }
}

/* As it stands: each semicolon at the end of a line ends a statement, which has an answer. */
static void put_plain(struct rt_mysql_link *l, const char *sql, size_t step)
{
    put_text(l, sql, step);
    for (const char *at = sql; (at = strstr(at, ";\n")) != NULL && at[2] != '\0'; at += 2)
        put_part(l, step, RT_MYSQL_NOBODY);
}

/* For the server to compare. */
static void put_clock(struct rt_mysql_link *l)
{
    char text[64];
    snprintf(text, sizeof(text), "SET @rota_ours=%" PRId64, rt_sql_wall_us());
    put_text(l, text, RT_MYSQL_NOBODY);
}

static void put_step(struct rt_mysql_link *l, size_t step)
{
    const struct rt_sql_step *s = &l->steps[step];
    const struct rt_mysql_step *t = rt_mysql_step(s);
    if (s->kind == RT_SQL_DOCTOR || s->kind == RT_SQL_FACTS)
        put_clock(l);
    if (!t->plain && t->sql[0] != NULL)
        put_variables(l, s);
    size_t before = l->part_count;
    for (size_t k = 0; k < RT_MYSQL_PARTS && t->sql[k] != NULL; k++)
        if (t->plain)
            put_plain(l, s->saying != NULL ? s->saying->sql : t->sql[k], step);
        else
            put_execute(l, step, rt_mysql_form(s, k), s);
    if (l->part_count > before)
        l->parts[l->part_count - 1].last = true;
}

static void put_steps(struct rt_mysql_link *l, bool behind)
{
    for (size_t i = 0; i < l->step_count; i++)
        if (rt_mysql_step(&l->steps[i])->behind == behind)
            put_step(l, i);
}

static int send_several(struct rt_mysql_link *l)
{
    bool gate = false, writes = false;
    for (size_t i = 0; i < l->step_count; i++) {
        const struct rt_mysql_step *t = rt_mysql_step(&l->steps[i]);
        gate = gate || t->gate;
        writes = writes || (t->sql[0] != NULL && !t->reads && !t->loose && !t->plain);
    }
    l->part_count = 0;
    l->singles = false;
    rt_mysql_command(l, RT_MYSQL_QUERY);
    put_names(l);
    if (writes)
        put_text(l, "BEGIN", RT_MYSQL_NOBODY);
    if (gate)
        put_text(l, "SET @rota_gate=0", RT_MYSQL_NOBODY);
    put_steps(l, false);
    for (size_t i = 0; i < l->step_count; i++)
        if (is_first(l, i)) {
            put_variables(l, &l->steps[i]);
            put_execute(l, RT_MYSQL_NOBODY, RT_MYSQL_RECOUNT, &l->steps[i]);
        }
    l->commit = writes ? l->part_count : SIZE_MAX;
    if (writes)
        put_text(l, "COMMIT", RT_MYSQL_NOBODY);
    put_steps(l, true);
    if (l->part_count == 0)
        put_text(l, "DO 0", RT_MYSQL_NOBODY); /* steps that are nothing here */
    l->state = RT_MYSQL_FLYING;
    return rt_mysql_send(l);
}

/* ---- Leaving --------------------------------------------------------------------------------------------------------- */

static int send_one(struct rt_mysql_link *l)
{
    rt_mysql_command(l, COM_STMT_EXECUTE);
    put_packet(l, l->parts[0].step);
    l->state = RT_MYSQL_FLYING;
    return rt_mysql_send(l);
}

/* "DO 0" tells, in its status, whether the transaction has lasted until then. */
static int send_singles(struct rt_mysql_link *l)
{
    rt_mysql_command(l, RT_MYSQL_QUERY);
    rt_mysql_add_text(&l->out, "BEGIN");
    for (size_t i = 1; i + 2 < l->part_count; i++) {
        rt_mysql_next(l, COM_STMT_EXECUTE);
        put_packet(l, l->parts[i].step);
    }
    rt_mysql_next(l, RT_MYSQL_QUERY);
    rt_mysql_add_text(&l->out, "DO 0");
    rt_mysql_next(l, RT_MYSQL_QUERY);
    rt_mysql_add_text(&l->out, "COMMIT");
    l->state = RT_MYSQL_FLYING;
    return rt_mysql_send(l);
}

int rt_mysql_send_packets(struct rt_mysql_link *l)
{
    for (size_t i = 0; i < l->part_count; i++) {
        size_t step = l->parts[i].step;
        size_t form = step != RT_MYSQL_NOBODY ? rt_mysql_form(&l->steps[step], 0) : 0;
        if (step != RT_MYSQL_NOBODY && l->ids[form] == 0)
            return send_prepare(l, form);
    }
    return l->singles ? send_singles(l) : send_one(l);
}

/* Whether it flies by packets: it is one statement, or all of them stand by themselves. If so, the parts
 * are in place. */
static bool by_packets(struct rt_mysql_link *l)
{
    size_t count = 0, singles = 0;
    l->part_count = 0;
    put_part(l, RT_MYSQL_NOBODY, RT_MYSQL_NOBODY); /* BEGIN */
    for (size_t i = 0; i < l->step_count; i++) {
        const struct rt_mysql_step *t = rt_mysql_step(&l->steps[i]);
        if (t->sql[0] == NULL)
            continue;
        if (t->plain || t->sql[1] != NULL || t->recounts || t->gate)
            return false;
        count++;
        singles += t->single;
        put_part(l, i, RT_MYSQL_NOBODY);
    }
    if (l->part_count != count + 1 || count == 0 || (count > 1 && singles < count))
        return false;
    l->singles = count > 1;
    if (l->singles) {
        put_part(l, RT_MYSQL_NOBODY, RT_MYSQL_NOBODY); /* DO 0 */
        put_part(l, RT_MYSQL_NOBODY, RT_MYSQL_NOBODY); /* COMMIT */
        return l->part_count == count + 3;
    }
    l->parts[0] = l->parts[1];
    l->parts[0].last = true;
    l->part_count = 1;
    l->commit = rt_mysql_step(&l->steps[l->parts[0].step])->reads ? SIZE_MAX : 0;
    return true;
}

int rt_mysql_fly(struct rt_sql_link *base, const struct rt_sql_flight *f)
{
    struct rt_mysql_link *l = rt_mysql_of(base);
    assert(l->state == RT_MYSQL_READY && f->count > 0 && f->count < RT_MYSQL_NOBODY);
    if (!rt_grow(&l->steps, &l->step_room, f->count, sizeof(*l->steps)))
        return ROTA_NOMEM;
    memcpy(l->steps, f->steps, f->count * sizeof(*f->steps));
    for (size_t i = 0; i < f->count; i++)
        if (f->steps[i].kind == RT_SQL_SAYING && f->steps[i].saying->slot < RT_SQL_SLOTS)
            l->own[f->steps[i].saying->slot] = f->steps[i].saying->sql;
    l->step_count = f->count;
    l->part = 0;
    l->changed = 0;
    l->phase = RT_MYSQL_HEAD;
    l->singles = false;
    l->out.failed = false;
    l->binary = by_packets(l);
    int rv = l->binary ? rt_mysql_send_packets(l) : send_several(l);
    if (rv != 0)
        l->state = RT_MYSQL_READY;
    return rv != 0 ? ROTA_NOMEM : 0;
}
