/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT: the line, and before it whoever holds the foreign lock beside it. CHECK: what both engines say. */
#include "engine/also/also.h"

#include "engine/kit/check.h"
#include "engine/kit/shown.h"
#include "engine/kit/words.h"

#include <stdio.h>
#include <string.h>

#define LOOKS_MOST 3 /* the two are not looked at in the same moment */

struct look {
    struct rt_work work; /* first */
    struct rt_also_ask line, foreign;
    struct rt_shown_list in_line, held;
    uint32_t looks;
    int nomem;
};

static struct look *look_of(struct rt_work *w)
{
    return (struct look *)(void *)w;
}

/* ---- Two looks ------------------------------------------------------------------------------ */

static void collect(struct look *l, struct rt_shown_list *list, const char *name,
                    const struct rota_place *p)
{
    struct rt_text n = {name, strlen(name)}, label = {p->label, strlen(p->label)},
                   value = {p->value, strlen(p->value)};
    struct rt_shown *s = rt_shown_add(list, n, label, value);
    if (s == NULL) {
        l->nomem = ROTA_NOMEM;
        return;
    }
    struct rota_place place = *p;
    place.label = s->place.label;
    place.value = s->place.value;
    s->place = place;
}

static void each_in_line(void *arg, const char *name, const struct rota_place *place)
{
    struct look *l = arg;
    collect(l, &l->in_line, name, place);
}

static void each_held(void *arg, const char *name, const struct rota_place *place)
{
    struct look *l = arg;
    if (place->flags & ROTA_PLACE_GRANTED)
        collect(l, &l->held, name, place);
}

/* Whether F, which holds the foreign lock, is S of the line: its ticket says so or, where the dialect has no room
 * for that, its label. */
static bool is_same(const struct rota_place *f, const struct rota_place *s)
{
    if (f->owner != 0)
        return f->owner == s->number;
    return f->label[0] != '\0' && strcmp(f->label, s->label) == 0;
}

static struct rota_place *find(const struct rt_shown_list *list, const struct rota_place *f)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same(f, &list->places[i].place))
            return &list->places[i].place;
    return NULL;
}

/* The line has moved between the looks. */
static bool is_torn(const struct look *l)
{
    for (size_t i = 0; i < l->held.count; i++) {
        const struct rota_place *s = find(&l->in_line, &l->held.places[i].place);
        if (s != NULL && !(s->flags & ROTA_PLACE_GRANTED))
            return true;
    }
    return false;
}

/* The one at the front holds only if it has the foreign lock too. */
static void merge(struct look *l, const struct rt_op *op)
{
    for (size_t i = 0; i < l->in_line.count; i++) {
        struct rota_place *s = &l->in_line.places[i].place;
        bool has = false;
        for (size_t k = 0; k < l->held.count; k++)
            has = has || is_same(&l->held.places[k].place, s);
        if (!has)
            s->flags &= ~(uint32_t)ROTA_PLACE_GRANTED;
    }
    for (size_t k = 0; k < l->held.count; k++)
        if (find(&l->in_line, &l->held.places[k].place) == NULL)
            op->inspect.each(op->inspect.arg, op->inspect.name, &l->held.places[k].place);
    rt_shown_tell(&l->in_line, op);
}

static void look(struct rt_also_conn *c, struct rt_work *w);

static void looked(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    struct look *l = look_of(w);
    w->pending--;
    rt_work_note(&c->base, w, ask->op.err);
    if (l->nomem != 0)
        rt_work_note(&c->base, w, rt_words_nomem(&c->base));
    if (w->pending > 0)
        return;
    if (w->err == 0 && is_torn(l) && ++l->looks < LOOKS_MOST) {
        look(c, w);
        return;
    }
    if (w->err == 0)
        merge(l, w->op);
    rt_turn_end(&c->turns, w, 0);
}

static void look(struct rt_also_conn *c, struct rt_work *w)
{
    struct look *l = look_of(w);
    rt_shown_fini(&l->in_line);
    rt_shown_fini(&l->held);
    l->line.op = l->foreign.op = (struct rt_op){
        .kind = RT_OP_INSPECT,
        .deadline = w->op->deadline,
        .inspect = {.name = w->op->inspect.name, .each = each_in_line, .arg = l}};
    l->foreign.op.inspect.each = each_held;
    w->pending += 2;
    rt_also_send(&c->line, &l->line, looked, w);
    rt_also_send(&c->foreign, &l->foreign, looked, w);
}

static int begin(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    int rv = rt_check_name(&c->base, w->op->inspect.name);
    if (rv == 0)
        look(c, w);
    return rv;
}

static void cancel(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    struct look *l = look_of(w);
    if (l->line.busy && l->foreign.busy)
        rt_also_cancel(&c->line, &l->line);
    rt_also_cancel(&c->foreign, &l->foreign);
}

static void free_look(struct rt_conn *conn, struct rt_work *w)
{
    (void)conn;
    rt_shown_fini(&look_of(w)->in_line);
    rt_shown_fini(&look_of(w)->held);
}

const struct rt_turn_kind rt_also_inspect_kind = {
    .size = sizeof(struct look), .begin = begin, .cancel = cancel, .free = free_look};

/* ---- CHECK ---------------------------------------------------------------------------------- */

struct check {
    struct rt_work work; /* first */
    struct rt_also_ask ask;
    struct rt_also_side *side;
};

/* From the other side only what differs: order and numbers are the line's. */
static void each_foreign(void *arg, const struct rota_verdict *v)
{
    const struct rt_op *op = arg;
    char promise[128];
    if (strncmp(v->promise, "order of arrival", 16) == 0 || strncmp(v->promise, "fences", 6) == 0)
        return;
    (void)snprintf(promise, sizeof(promise), "beside the line: %s", v->promise);
    rt_words_verdict(op, promise, v->verdict, v->setting, v->remedy);
}

static void foreign_checked(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    w->pending--;
    rt_turn_end(&c->turns, w, ask->op.err);
}

static void line_checked(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_work *w = ask->owner;
    struct check *k = (struct check *)(void *)w;
    if (ask->op.err != 0) {
        w->pending--;
        rt_turn_end(&c->turns, w, ask->op.err);
        return;
    }
    k->ask.op = (struct rt_op){
        .kind = RT_OP_CHECK, .deadline = w->op->deadline, .check = {each_foreign, w->op}};
    k->side = &c->foreign;
    rt_also_send(&c->foreign, &k->ask, foreign_checked, w);
}

static int begin_check(void *engine, struct rt_work *w)
{
    struct rt_also_conn *c = engine;
    struct check *k = (struct check *)(void *)w;
    k->ask.op = (struct rt_op){
        .kind = RT_OP_CHECK, .deadline = w->op->deadline, .check = w->op->check};
    k->side = &c->line;
    w->pending++;
    rt_also_send(&c->line, &k->ask, line_checked, w);
    return 0;
}

static void cancel_check(void *engine, struct rt_work *w)
{
    (void)engine;
    struct check *k = (struct check *)(void *)w;
    rt_also_cancel(k->side, &k->ask);
}

const struct rt_turn_kind rt_also_check_kind = {
    .size = sizeof(struct check), .begin = begin_check, .cancel = cancel_check};
