/* SPDX-License-Identifier: Apache-2.0 */
/* Observations: begun, looked at, told, stopped. */
#include "engine/kit/observe.h"

#include "engine/kit/words.h"

#include <assert.h>

static struct rt_observer *of(struct rt_view *v)
{
    return (struct rt_observer *)(void *)v;
}

static void empty(struct rt_observers *all, struct rt_observer *o)
{
    if (all->user->empty != NULL)
        all->user->empty(all->turns->engine, o);
}

static void stop(struct rt_observers *all, struct rt_observer *o)
{
    all->user->unwatch(all->turns->engine, o);
    if (!o->view.looking)
        empty(all, o);
    rt_view_stop(&o->view);
}

static void end_work(struct rt_observers *all, struct rt_work *w, int err)
{
    w->pending--;
    rt_turn_end(all->turns, w, err);
}

void rt_observe_look(struct rt_observers *all, struct rt_observer *o)
{
    if (!o->view.over && rt_view_begin(&o->view))
        all->user->look(all->turns->engine, o);
}

void rt_observe_look_all(struct rt_observers *all)
{
    for (struct rt_view *v = all->views, *next; v != NULL; v = next) {
        next = v->next;
        rt_observe_look(all, of(v));
    }
}

void rt_observed(struct rt_observers *all, struct rt_observer *o, int err,
                 const struct rt_view_state *s, bool again)
{
    struct rt_work *first = o->work;
    if (o->view.over)
        empty(all, o);
    if (!rt_view_end(&o->view))
        return;
    o->work = NULL;
    if (first != NULL && err != 0)
        stop(all, o);
    if (first != NULL)
        end_work(all, first, err);
    if (first != NULL && err != 0)
        return;
    if (err == 0)
        rt_view_tell(all->turns->conn, &o->view, s);
    if (o->view.again || (err == ROTA_UNREACHABLE && again))
        rt_observe_look(all, o);
}

static void stop_by(struct rt_observers *all, struct rt_observer *o)
{
    struct rt_work *first = o->work;
    o->work = NULL;
    if (first != NULL) /* its look has not been answered */
        end_work(all, first, rt_words_fail(all->turns->conn, ROTA_CANCELED, "canceled"));
    stop(all, o);
}

static int make(struct rt_observers *all, const struct rt_op *op, struct rt_observer **out)
{
    void *engine = all->turns->engine;
    int rv = all->user->check(engine, op->observe.name);
    if (rv != 0 || *out != NULL)
        return rv;
    *out = rt_view_new(&all->views, all->user->size, op->observe.name, op->observe.cookie);
    if (*out == NULL)
        return rt_words_nomem(all->turns->conn);
    rv = all->user->made != NULL ? all->user->made(engine, *out) : 0;
    if (rv != 0)
        rt_view_free(&(*out)->view);
    return rv;
}

int rt_observe(struct rt_observers *all, struct rt_work *w)
{
    struct rt_observer *o = of(rt_view_find(all->views, w->op->observe.cookie));
    assert(w->op->kind == RT_OP_OBSERVE);
    if (w->op->observe.stop) {
        if (o != NULL)
            stop_by(all, o);
        rt_turn_end(all->turns, w, 0);
        return 0;
    }
    int rv = make(all, w->op, &o);
    if (rv != 0)
        return rv;
    o->view.told = false; /* asked again: told again */
    if (o->work != NULL) {
        rt_turn_end(all->turns, w, 0); /* the one under way tells */
        return 0;
    }
    o->work = w;
    w->pending++;
    rt_observe_look(all, o);
    return 0;
}

void rt_observe_close(struct rt_observers *all)
{
    for (struct rt_view *v = all->views; v != NULL; v = v->next)
        empty(all, of(v));
    rt_view_close(&all->views);
}
