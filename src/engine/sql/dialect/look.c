/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT, LIST, OBSERVE, CHECK: they look. */
#include "engine/sql/dialect/lease.h"

#include "engine/kit/check.h"
#include "engine/kit/view.h"

#include <stdio.h>
#include <string.h>

#define LOOK_MS 250 /* how often an observed lock is looked at */

/* ---- INSPECT and LIST --------------------------------------------------------------------------- */

static void say_look(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    const struct rt_op *op = a->entry.op;
    if (op != NULL && op->kind == RT_OP_LIST)
        rt_sql_say_own(b, &c->says[RT_LEASE_LIST],
                       rt_sql_text(op->list.prefix != NULL ? op->list.prefix : ""));
    else if (op != NULL && op->kind == RT_OP_CHECK)
        rt_sql_say_own_cells(b, &c->says[RT_LEASE_SHAPE], NULL, 0);
    else
        rt_sql_say_own(b, &c->says[RT_LEASE_LOOK], rt_sql_text(a->name));
}

static void show(const struct rt_lease_conn *c, const struct rt_op *op,
                 const struct rt_lease_row *r)
{
    struct rota_place place = {.number = r->number,
                               .session = r->session,
                               .owner = r->owner,
                               .since_ms = r->since_us > 0 ? r->since_us / 1000 : 0,
                               .left_ms = rt_lease_left(r),
                               .flags = ROTA_PLACE_GRANTED,
                               .label = r->label,
                               .value = ""};
    if (r->ours && r->session == c->spin.session)
        place.flags |= ROTA_PLACE_MINE;
    op->inspect.each(op->inspect.arg, op->inspect.name, &place);
}

/* Only our own session is known, and of that only what it holds. */
static void show_ours(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    const struct rt_op *op = arg;
    struct rota_place place = {.number = t->number,
                               .session = s->session,
                               .owner = t->owner,
                               .since_ms = -1,
                               .left_ms = -1,
                               .mode = t->mode,
                               .flags = ROTA_PLACE_GRANTED | ROTA_PLACE_MINE,
                               .label = s->base->label != NULL ? s->base->label : "",
                               .value = ""};
    if (t->state == RT_SPIN_HELD)
        op->inspect.each(op->inspect.arg, t->name, &place);
}

/* ---- CHECK -------------------------------------------------------------------------------------- */

static void check(const struct rt_lease_conn *c, const struct rt_op *op, const char *shape)
{
    char text[256];
    bool fences = c->dialect->caps & ROTA_CAP_FENCE, safe = c->sql.facts.unsafe[0] == '\0';
    const char *holders = "one holder at a time (I1)";
    (void)snprintf(text, sizeof(text), "%s", c->sql.facts.unsafe);
    char *change = strstr(text, "; ");
    if (change != NULL)
        *change = '\0';
    if (shape[0] != '\0')
        rt_words_verdict(op, holders, "broken", shape, "rota doctor --ddl prints the table");
    else if (!safe)
        rt_words_verdict(op, holders, "limited", text, change != NULL ? change + 2 : "");
    else
        rt_words_verdict(op, holders, "kept", "every grant is on disk before it is told", "");
    rt_words_verdict(op, "fences only grow (I2)", fences && safe ? "kept" : "limited",
                     fences ? "above the name's last, and never behind the server's clock"
                            : "the dialect has none",
                     fences ? (change != NULL ? change + 2 : "") : "dialect line numbers all");
    rt_words_verdict(op, "order of arrival (I7)", "limited",
                     "who waits asks again: nobody is in front", "dialect line has an order");
    (void)snprintf(text, sizeof(text), "dialect %s in the table %.120s: %s", c->dialect->name,
                   c->table, c->dialect->keeps);
    rt_words_verdict(op, "dialect", "kept", text, "");
    rt_words_verdict(op, "waking", "limited", "by asking again every 25 to 50 ms",
                     "dialect line wakes who is next");
    (void)snprintf(text, sizeof(text), "%.60s, the server's time for every end", c->sql.facts.text);
    rt_words_verdict(op, "server", "kept", text, "");
}

/* ---- Their answers ------------------------------------------------------------------------------ */

static bool look_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    const struct rt_op *op = a->entry.op;
    const struct rt_sql_row *row = rt_sql_row_of(a, b, 0, NULL);
    struct rt_lease_row r;
    if (op->kind == RT_OP_INSPECT) {
        rt_lease_read(c, row, &r);
        if (r.held)
            show(c, op, &r);
    } else if (op->kind == RT_OP_CHECK) {
        check(c, op, row != NULL ? rt_sql_str(row, 0) : "");
    } else {
        for (; row != NULL; row = rt_sql_row_of(a, b, 0, row))
            op->list.each(op->list.arg, rt_sql_str(row, 0), 1, 1);
    }
    rt_sql_done(a, 0);
    return true;
}

void rt_lease_begin_look(struct rt_lease_conn *c, struct rt_op *op)
{
    static const struct rt_sql_plan plan = {.reads = true, .say = say_look, .heard = look_heard};
    if (op->kind == RT_OP_INSPECT && op->inspect.name == NULL) {
        if (op->inspect.session == c->spin.session)
            rt_spin_each(&c->spin, show_ours, op);
        rt_conn_done(&c->sql.base, op, 0);
        return;
    }
    const char *name = op->kind == RT_OP_INSPECT ? op->inspect.name : NULL;
    int rv = name != NULL ? rt_check_name(&c->sql.base, name) : 0;
    if (rv != 0)
        rt_conn_done(&c->sql.base, op, rv);
    else
        (void)rt_sql_ask(&c->sql, &plan, op, name, NULL);
}

/* ---- OBSERVE ------------------------------------------------------------------------------------ */

static void follow(struct rt_lease_conn *c)
{
    rt_timers_at(&c->sql.base.loop->timers, &c->look_timer.timer, rt_view_next(c->views));
}

static void viewed(struct rt_lease_conn *c, struct rt_view *v)
{
    v->look_at = rt_loop_now(c->sql.base.loop) + LOOK_MS * RT_MS;
    follow(c);
}

static bool view_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(a->c);
    struct rt_view *v = a->about;
    struct rt_view_state s = {0};
    struct rt_lease_row r;
    if (!rt_view_end(v))
        return true;
    rt_lease_read(c, rt_sql_row_of(a, b, 0, NULL), &r);
    if (r.held) {
        s.count = 1;
        s.fence = r.number;
        rt_view_label(&s, r.label, strlen(r.label));
    }
    rt_view_tell(&c->sql.base, v, &s);
    viewed(c, v);
    return true;
}

static void view_failed(struct rt_sql_ask *a, int err)
{
    (void)err;
    if (rt_view_end(a->about))
        viewed(rt_lease_of_sql(a->c), a->about);
}

static int look(struct rt_lease_conn *c, struct rt_view *v)
{
    static const struct rt_sql_plan plan = {
        .reads = true, .say = say_look, .heard = view_heard, .failed = view_failed};
    if (!rt_view_begin(v) || rt_sql_ask(&c->sql, &plan, NULL, v->name, v) != NULL)
        return 0;
    (void)rt_view_end(v);
    return ROTA_NOMEM;
}

void rt_lease_look_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_lease_conn *c =
        (struct rt_lease_conn *)(void *)((char *)call - offsetof(struct rt_lease_conn, look_timer));
    for (struct rt_view *v = c->views; v != NULL; v = v->next)
        if (!v->over && !v->looking && v->look_at <= now && look(c, v) != 0)
            v->look_at = now + LOOK_MS * RT_MS;
    follow(c);
}

void rt_lease_begin_observe(struct rt_lease_conn *c, struct rt_op *op)
{
    struct rt_view *v = rt_view_find(c->views, op->observe.cookie);
    int rv = op->observe.stop ? 0 : rt_check_name(&c->sql.base, op->observe.name);
    if (rv == 0 && op->observe.stop && v != NULL)
        rt_view_stop(v);
    if (rv == 0 && !op->observe.stop) {
        if (v == NULL)
            v = rt_view_new(&c->views, sizeof(*v), op->observe.name, op->observe.cookie);
        rv = v != NULL ? 0 : rt_words_nomem(&c->sql.base);
        if (v != NULL)
            v->told = false;
        if (rv == 0 && (rv = look(c, v)) != 0)
            rt_view_stop(v);
    }
    follow(c);
    rt_conn_done(&c->sql.base, op, rv);
}
