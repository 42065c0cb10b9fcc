/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: states of a line, told when they differ.
 *
 *   LISTEN_LINE, WATCH, FRONT ──▶ told ──▶ FRONT once more: what was committed between the look and the end of its
 *   own flight was not heard
 *   look again: when the line tells, when something in it ends by time, after every link, and every third of the ttl, which
 *   also keeps the line notifying. Where the server pushes nothing: every RT_SQL_POLL_MS. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

#include <stddef.h>
#include <string.h>

#define LOOK_PARTS 3 /* looks per ttl */

struct watch {
    struct rt_view base; /* first */
    struct rt_sql_conn *c;
    struct rt_sql_ask *ask; /* the look under way */
    struct rt_op *op;       /* the OBSERVE that is not answered yet */
    uint64_t links;         /* the line is heard on that connection */
};

static void look(struct watch *w);

static struct watch *watch_of(struct rt_view *v)
{
    return (struct watch *)(void *)v;
}

/* ---- Time --------------------------------------------------------------------------------------------------------- */

static void follow(struct rt_sql_conn *c)
{
    rt_timers_at(&c->base.loop->timers, &c->view_timer.timer, rt_view_next(c->views));
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_sql_conn *c =
        (struct rt_sql_conn *)(void *)((char *)call - offsetof(struct rt_sql_conn, view_timer));
    for (struct rt_view *v = c->views; v != NULL; v = v->next)
        if (!v->over && !v->looking && v->look_at <= now)
            look(watch_of(v));
    follow(c);
}

/* ---- Looking ------------------------------------------------------------------------------------------------------ */

static void look_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct watch *w = a->about;
    struct rt_sql_cell name = rt_sql_text(a->name);
    if (w->links != a->c->links)
        rt_sql_say(b, RT_SQL_LISTEN_LINE, name);
    rt_sql_say(b, RT_SQL_WATCH, name, rt_sql_number(a->c->base.ttl_ms * UINT64_C(1000)));
    rt_sql_say(b, RT_SQL_FRONT, name);
}

static void read_front(struct rt_view_state *s, const struct rt_sql_row *row)
{
    s->count = (size_t)rt_sql_int(row, 2);
    s->mode = (uint32_t)rt_sql_int(row, 3);
    s->of = (uint32_t)rt_sql_int(row, 4);
    if (rt_sql_int(row, 1) == 0)
        return;
    s->fence = (uint64_t)rt_sql_int(row, 0);
    rt_view_value(s, rt_sql_str(row, 5), strlen(rt_sql_str(row, 5)));
    rt_view_label(s, rt_sql_str(row, 6), strlen(rt_sql_str(row, 6)));
}

/* Plans the next look of W; LEFT_US: something in the line ends then. */
static void plan_look(struct watch *w, int64_t left_us)
{
    struct rt_conn *base = &w->c->base;
    int64_t now = rt_loop_now(base->loop), after = base->ttl_ms * RT_MS / LOOK_PARTS;
    if (!w->c->driver->notifies)
        after = RT_SQL_POLL_MS * RT_MS;
    if (left_us >= 0 && left_us * 1000 + RT_SQL_POLL_MS * RT_MS < after)
        after = left_us * 1000 + RT_SQL_POLL_MS * RT_MS;
    w->base.look_at = now + after;
}

static void last_one_unlistens(struct rt_sql_conn *c, const char *name);

static void end(struct watch *w)
{
    struct rt_sql_conn *c = w->c;
    if (rt_view_of(c->views, w->base.name) == &w->base &&
        rt_view_of(w->base.next, w->base.name) == NULL)
        last_one_unlistens(c, w->base.name);
    rt_view_stop(&w->base);
    follow(c);
}

static void over(struct rt_sql_ask *a, int err)
{
    struct watch *w = a->about;
    struct rt_op *op = w->op;
    w->op = NULL;
    w->ask = NULL;
    if (op != NULL)
        rt_conn_done(&a->c->base, op, err);
    if (op != NULL && err != 0) /* nobody counts on it */
        end(w);
}

static bool look_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct watch *w = a->about;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_FRONT, 0);
    struct rt_view_state s = {0};
    bool fresh = w->links != a->c->links;
    if (!rt_view_end(&w->base))
        return true;
    w->links = a->c->links;
    over(a, 0);
    plan_look(w, row == NULL || rt_sql_null(row, 7) ? -1 : rt_sql_int(row, 7));
    if (row != NULL)
        read_front(&s, row);
    rt_view_tell(&a->c->base, &w->base, &s);
    if (w->base.again || (fresh && a->c->driver->notifies))
        look(w);
    follow(a->c);
    return true;
}

static void look_failed(struct rt_sql_ask *a, int err)
{
    struct watch *w = a->about;
    if (!rt_view_end(&w->base))
        return;
    plan_look(w, 0); /* what it was asked for is still unknown: soon again */
    over(a, err);
    follow(a->c);
}

static const struct rt_sql_plan look_plan = {
    .reads = true, .say = look_say, .heard = look_heard, .failed = look_failed};

static void look(struct watch *w)
{
    plan_look(w, -1);
    if (!rt_view_begin(&w->base))
        return;
    struct rt_sql_ask *a = rt_sql_ask_new(w->c, &look_plan, NULL, w->base.name, w);
    if (a == NULL) {
        (void)rt_view_end(&w->base); /* the next one is due as usual */
        return;
    }
    if (w->op != NULL)
        a->entry.deadline = w->op->deadline;
    w->ask = a;
    rt_sql_ask_go(a);
}

void rt_sql_observe_look(struct rt_sql_conn *c, const char *name)
{
    for (struct rt_view *v = c->views; v != NULL; v = v->next)
        if (!v->over && (name == NULL || strcmp(v->name, name) == 0))
            look(watch_of(v));
    follow(c);
}

/* ---- OBSERVE ------------------------------------------------------------------------------------------------------ */

static void unlisten_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_UNLISTEN_LINE, rt_sql_text(a->name));
}

/* Whoever began to observe it meanwhile listens again. */
static void listen_anew(struct rt_sql_ask *a)
{
    for (struct rt_view *v = a->c->views; (v = rt_view_of(v, a->name)) != NULL; v = v->next)
        watch_of(v)->links = 0;
    rt_sql_observe_look(a->c, a->name);
}

static bool unlisten_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    listen_anew(a);
    return true;
}

/* Out of time: the server may have done it. */
static void unlisten_failed(struct rt_sql_ask *a, int err)
{
    (void)err;
    if (!a->c->closing)
        listen_anew(a);
}

static const struct rt_sql_plan unlisten_plan = {
    .reads = true, .say = unlisten_say, .heard = unlisten_heard, .failed = unlisten_failed};

static void last_one_unlistens(struct rt_sql_conn *c, const char *name)
{
    if (c->driver->notifies)
        (void)rt_sql_ask(c, &unlisten_plan, NULL, name, NULL);
}

static void stop(struct watch *w)
{
    struct rt_op *op = w->op;
    w->op = NULL;
    if (op != NULL) /* still unanswered: its end is all that is left of it */
        rt_conn_done(&w->c->base, op,
                     rt_sql_fail(w->c, ROTA_CANCELED, "the observation was ended"));
    end(w);
}

bool rt_sql_observe_cancel(struct rt_sql_conn *c, struct rt_op *op)
{
    for (struct rt_view *v = c->views; v != NULL; v = v->next)
        if (!v->over && watch_of(v)->op == op) {
            stop(watch_of(v));
            return true;
        }
    return false;
}

void rt_sql_begin_observe(struct rt_sql_conn *c, struct rt_op *op)
{
    struct watch *w = watch_of(rt_view_find(c->views, op->observe.cookie));
    if (op->observe.stop) {
        if (w != NULL)
            stop(w);
        rt_conn_done(&c->base, op, 0);
        return;
    }
    int rv = rt_check_name(&c->base, op->observe.name);
    if (rv == 0 && w == NULL) {
        w = rt_view_new(&c->views, sizeof(*w), op->observe.name, op->observe.cookie);
        rv = w == NULL ? rt_words_nomem(&c->base) : 0;
    }
    if (rv != 0) {
        rt_conn_done(&c->base, op, rv);
        return;
    }
    w->c = c;
    w->base.told = false;  /* asked again: told again */
    if (w->base.looking) { /* it is under way already */
        w->base.again = true;
        rt_conn_done(&c->base, op, 0);
        return;
    }
    w->op = op;
    look(w);
    if (w->ask == NULL) {
        w->op = NULL;
        end(w);
        rt_conn_done(&c->base, op, rt_words_nomem(&c->base));
    }
}

void rt_sql_observe_init(struct rt_sql_conn *c)
{
    c->view_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
}

void rt_sql_observe_fini(struct rt_sql_conn *c)
{
    rt_view_close(&c->views);
    rt_timers_stop(&c->base.loop->timers, &c->view_timer.timer);
}
