/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: the children of the line are watched, and the data of its front; looked at whenever something came. */
#include "engine/zookeeper/ops.h"

#include <stdio.h>
#include <string.h>

struct view {
    struct rt_view base;  /* first */
    struct rt_work *work; /* OBSERVE, until the first look */
    struct rt_zk_look look;
    struct rt_zk_watch watch;
    uint64_t
        labelled; /* the session whose label is known: where a leader's data is its value alone */
    char label[RT_LABEL_MAX + 1];
};

static struct view *view_of(struct rt_view *v)
{
    return (struct view *)(void *)v;
}

static void look(struct rt_zk *z, struct view *v);
static void tell(struct rt_zk *z, struct view *v);

/* Its memory is the list's: what it holds goes before. */
static void empty(struct view *v)
{
    rt_zk_unwatch(&v->watch);
    rt_zk_unwatch(&v->look.front);
    rt_zk_look_fini(&v->look);
}

static void stop(struct view *v)
{
    rt_zk_unwatch(&v->watch);
    rt_zk_unwatch(&v->look.front);
    if (!v->base.looking)
        empty(v);
    rt_view_stop(&v->base);
}

static void fired(struct rt_zk_conn *c, struct rt_zk_watch *w, enum rt_zk_event event, bool afresh)
{
    (void)event;
    (void)afresh;
    if (!((struct view *)w->owner)->base.over)
        look(rt_zk_of(c), w->owner);
}

static void fill(struct rt_zk *z, const struct view *v, struct rt_view_state *s)
{
    const struct rt_zk_line *line = &v->look.line;
    const struct rt_zk_place *front = line->places;
    struct rt_zk_card card;
    s->count = line->count;
    if (line->count == 0)
        return;
    s->mode = front->id.mode;
    s->of = front->id.of;
    if (!front->granted)
        return;
    s->fence = rt_zk_number(front);
    rt_zk_card_read(z, front->data, &card);
    rt_view_value(s, card.value.at, card.value.size);
    if (card.foreign)
        rt_view_label(s, front->node, strlen(front->node));
    else if (card.label.size == 0 && front->id.session == v->labelled)
        rt_view_label(s, v->label, strlen(v->label));
    else
        rt_view_label(s, card.label.at, card.label.size);
}

static void label_seen(struct rt_zk_conn *c, struct rt_zk_ask *a, int err,
                       struct rt_zk_reply *reply)
{
    struct view *v = a->owner;
    struct rt_text text = rt_zk_answered_node(err, reply, NULL);
    const char *end = text.size > 0 ? memchr(text.at, '\n', text.size) : NULL;
    size_t n = end != NULL ? (size_t)(end - (const char *)text.at) : text.size;
    (void)snprintf(v->label, sizeof(v->label), "%.*s", (int)n,
                   text.size > 0 ? (const char *)text.at : "");
    v->labelled = a->extra;
    tell(rt_zk_of(c), v);
}

/* A leader's value stands alone: its label is with its session. False: it is known, or not needed. */
static bool ask_label(struct rt_zk *z, struct view *v)
{
    const struct rt_zk_place *front = v->look.line.places;
    if (!z->dialect->bare || v->look.err != 0 || v->look.line.count == 0 || !front->id.ours ||
        front->id.session == v->labelled)
        return false;
    const char *path = rt_zk_session_path(z, front->id.session);
    return rt_zk_send(&z->c, rt_zk_read(&z->c, RT_ZK_GET, path, false, label_seen), NULL, v,
                      front->id.session, NULL) == 0;
}

static void looked(struct rt_zk *z, struct rt_zk_look *l)
{
    if (!ask_label(z, l->owner))
        tell(z, l->owner);
}

/* The look is over. */
static void tell(struct rt_zk *z, struct view *v)
{
    struct rt_work *w = v->work;
    struct rt_view_state seen = {0};
    int err = v->look.err;
    v->work = NULL;
    if (v->base.over) {
        empty(v);
        (void)rt_view_end(&v->base);
        return;
    }
    (void)rt_view_end(&v->base);
    if (w != NULL && err != 0)
        stop(v);
    if (w != NULL) {
        w->pending--;
        rt_zk_end(z, w, err);
    }
    if (w != NULL && err != 0)
        return;
    if (err == 0) {
        fill(z, v, &seen);
        rt_view_tell(&z->base, &v->base, &seen);
    }
    if (v->base.again || err == ROTA_UNREACHABLE)
        look(z, v);
}

static void look(struct rt_zk *z, struct view *v)
{
    if (!rt_view_begin(&v->base))
        return;
    v->look.fired = fired;
    v->look.watch = &v->watch;
    int err = rt_zk_watch(&z->c, &v->watch, RT_ZK_WATCH_CHILDREN, rt_zk_line_path(z, v->base.name),
                          fired, v);
    if (err == 0)
        err = rt_zk_look(z, &v->look, v->base.name, RT_ZK_LOOK_FRONT | RT_ZK_LOOK_WATCH,
                         v->work != NULL ? v->work->op : NULL, looked, v);
    if (err == 0)
        return;
    v->look.err = err;
    v->look.owner = v;
    looked(z, &v->look);
}

void rt_zk_views_look(struct rt_zk *z)
{
    for (struct rt_view *v = z->views, *next; v != NULL; v = next) {
        next = v->next;
        if (!v->over)
            look(z, view_of(v));
    }
}

void rt_zk_views_close(struct rt_zk *z)
{
    for (struct rt_view *v = z->views; v != NULL; v = v->next)
        empty(view_of(v));
    rt_view_close(&z->views);
}

static int begin_observe(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    const struct rt_op *op = w->op;
    struct view *v = view_of(rt_view_find(z->views, op->observe.cookie));
    if (op->observe.stop) {
        struct rt_work *first = v != NULL ? v->work : NULL;
        if (v != NULL)
            v->work = NULL;
        if (first != NULL) { /* the first look has not been answered */
            first->pending--;
            rt_zk_end(z, first, rt_words_fail(&z->base, ROTA_CANCELED, "canceled"));
        }
        if (v != NULL)
            stop(v);
        rt_zk_end(z, w, 0);
        return 0;
    }
    int rv = rt_zk_check_name(z, op->observe.name);
    if (rv == 0 && v == NULL)
        v = rt_view_new(&z->views, sizeof(*v), op->observe.name, op->observe.cookie);
    if (rv == 0 && v == NULL)
        rv = rt_words_nomem(&z->base);
    if (rv != 0)
        return rv;
    v->base.told = false; /* asked again: told again */
    if (v->work != NULL) {
        rt_zk_end(z, w, 0); /* the one under way tells */
        return 0;
    }
    v->work = w;
    w->pending++;
    look(z, v);
    return 0;
}

const struct rt_turn_kind rt_zk_observe = {.size = sizeof(struct rt_work), .begin = begin_observe};
