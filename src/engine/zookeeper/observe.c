/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: watches the children of the line and the data of its front, and looks whenever an event comes. */
#include "engine/zookeeper/ops.h"

#include <stdio.h>
#include <string.h>

struct view {
    struct rt_observer base; /* first */
    struct rt_zk_look look;
    struct rt_zk_watch watch;
    uint64_t labelled; /* the session whose label is known, if a leader's data is its value */
    char label[RT_LABEL_MAX + 1];
};

static struct view *of(struct rt_observer *o)
{
    return (struct view *)(void *)o;
}

static void fired(struct rt_zk *z, struct rt_zk_watch *w, enum rt_zk_event event, bool afresh)
{
    (void)event;
    (void)afresh;
    rt_observe_look(&z->observers, w->owner);
}

/* What the look has seen. */
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

/* The look is over. */
static void tell(struct rt_zk *z, struct view *v)
{
    struct rt_view_state seen = {0};
    if (v->look.err == 0)
        fill(z, v, &seen);
    rt_observed(&z->observers, &v->base, v->look.err, &seen, true);
}

static void label_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct view *v = a->owner;
    struct rt_text text = rt_zk_answered_node(err, reply, NULL);
    const char *end = text.size > 0 ? memchr(text.at, '\n', text.size) : NULL;
    size_t n = end != NULL ? (size_t)(end - (const char *)text.at) : text.size;
    (void)snprintf(v->label, sizeof(v->label), "%.*s", (int)n,
                   text.size > 0 ? (const char *)text.at : "");
    v->labelled = a->extra;
    tell(z, v);
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

static void look(void *engine, struct rt_observer *o)
{
    struct rt_zk *z = engine;
    struct view *v = of(o);
    v->look.fired = fired;
    v->look.watch = &v->watch;
    int err = rt_zk_watch(&z->c, &v->watch, RT_ZK_WATCH_CHILDREN, rt_zk_line_path(z, o->view.name),
                          fired, v);
    if (err == 0)
        err = rt_zk_look(z, &v->look, o->view.name, RT_ZK_LOOK_FRONT | RT_ZK_LOOK_WATCH,
                         o->work != NULL ? o->work->op : NULL, looked, v);
    if (err == 0)
        return;
    v->look.err = err;
    tell(z, v);
}

static void unwatch(void *engine, struct rt_observer *o)
{
    (void)engine;
    rt_zk_unwatch(&of(o)->watch);
    rt_zk_unwatch(&of(o)->look.front);
}

static void empty(void *engine, struct rt_observer *o)
{
    unwatch(engine, o);
    rt_zk_look_fini(&of(o)->look);
}

static int check(void *engine, const char *name)
{
    return rt_zk_check_name(engine, name);
}

const struct rt_observer_user rt_zk_observer_user = {
    .size = sizeof(struct view), .check = check, .look = look, .unwatch = unwatch, .empty = empty};

static int begin_observe(void *engine, struct rt_work *w)
{
    return rt_observe(&((struct rt_zk *)engine)->observers, w);
}

const struct rt_turn_kind rt_zk_observe = {.size = sizeof(struct rt_work), .begin = begin_observe};
