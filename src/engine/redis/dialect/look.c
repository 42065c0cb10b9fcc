/* SPDX-License-Identifier: Apache-2.0 */
/* Looking: who holds a lock, even if it is not ours; which locks there are; and, by looking again and again, what
 * becomes of one. */
#include "engine/redis/dialect/dialect.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_FIELDS 6 /* id, number, left, mode, granted, text */
#define LIST_FIELDS 3
#define LOOK_MS 250 /* an observed lock is looked at this often */

/* ---- A reply of a look ----------------------------------------------------------------------------- */

struct place {
    struct rota_place place;
    struct rt_text label, value;
    char foreign[RT_LABEL_MAX + 1];
};

static bool is_look(int status, const redisReply *reply)
{
    return status == RT_REDIS_OK && rt_redis_count(reply) > 0 &&
           rt_redis_shaped(reply, 1, "siiiis");
}

/* Who stands at AT. P stays where it is: its label points into it. */
static void read_place(const struct rt_dia_conn *c, const redisReply *reply, size_t at,
                       struct place *p)
{
    const char *id = rt_redis_str(reply, at);
    int64_t now = rt_redis_int(reply, 0), number = rt_redis_int(reply, at + 1);
    int64_t mode = rt_redis_int(reply, at + 3), left = rt_redis_int(reply, at + 2);
    *p = (struct place){.place = {.number = (uint64_t)number, .since_ms = -1, .left_ms = left}};
    p->place.mode = mode == RT_SHARED ? RT_SHARED : RT_EXCLUSIVE;
    if (rt_redis_int(reply, at + 4) != 0)
        p->place.flags |= ROTA_PLACE_GRANTED;
    if (rt_dia_is_mine(c, id))
        p->place.flags |= ROTA_PLACE_MINE;
    if (rt_redis_str(reply, at + 5)[0] != '\0' &&
        rt_dia_text_read(rt_redis_str(reply, at + 5), &p->place, &p->label, &p->value)) {
        p->place.session = rt_dia_session_of(c, id);
        if (number > 0)
            p->place.since_ms = now > number ? (now - number) / 1000 : 0;
        return;
    }
    if (mode < 0)
        (void)snprintf(p->foreign, sizeof(p->foreign),
                       "no lock of dialect %s, but a key of its name: %.100s", c->dialect->name,
                       id);
    else
        rt_dia_whose(c, id, p->foreign, sizeof(p->foreign));
    p->label = (struct rt_text){p->foreign, strlen(p->foreign)};
}

/* ---- INSPECT ------------------------------------------------------------------------------------------ */

static void inspect_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                             const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    struct rt_shown_list shown = {0};
    bool good = err == 0 &&
                (op->inspect.name != NULL ? is_look(status, reply)
                                          : status == RT_REDIS_OK && rt_redis_count(reply) > 0 &&
                                                rt_redis_shaped(reply, 1, "ssiiiis"));
    if (err == 0 && !good)
        err = rt_dia_odd(c, rq);
    /* Of a session each has its name before it. */
    size_t named = op->inspect.name == NULL, each = PLACE_FIELDS + named;
    for (size_t i = 1; err == 0 && i < rt_redis_count(reply); i += each) {
        struct place p;
        read_place(c, reply, i + named, &p);
        const char *of = named ? rt_redis_str(reply, i) : op->inspect.name;
        struct rt_text name = {of, strlen(of)};
        struct rt_shown *s = rt_shown_add(&shown, name, p.label, p.value);
        if (s == NULL) {
            err = rt_words_nomem(&c->base);
            break;
        }
        p.place.label = s->place.label;
        p.place.value = s->place.value;
        s->place = p.place;
    }
    if (err == 0)
        rt_shown_tell(&shown, op);
    rt_shown_fini(&shown);
    rt_conn_done(&c->base, op, err);
}

/* Of a session only our own is known, and of that what it holds. */
static void show_ours(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    const struct rt_dia_conn *c = rt_dia_of_spin(s);
    const struct rt_op *op = arg;
    struct rota_place place = {.number = t->number,
                               .session = c->spin.session,
                               .owner = t->owner,
                               .since_ms = -1,
                               .left_ms = -1,
                               .mode = t->mode,
                               .flags = ROTA_PLACE_GRANTED | ROTA_PLACE_MINE,
                               .label = c->base.label != NULL ? c->base.label : "",
                               .value = ""};
    if (t->state == RT_SPIN_HELD)
        op->inspect.each(op->inspect.arg, t->name, &place);
}

int rt_dia_begin_inspect(struct rt_dia_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    if (op->inspect.name == NULL && c->dialect->queues) {
        rt_redis_args_few(&a);
        rt_redis_arg_sid(&a, op->inspect.session, false);
        return rt_dia_ask(c, RT_DIA_FAIR_SESSION, &a, 0, op, NULL, inspect_answered) != NULL
                   ? 0
                   : ROTA_NOMEM;
    }
    if (op->inspect.name == NULL) {
        if (op->inspect.session == c->spin.session)
            rt_spin_each(&c->spin, show_ours, op);
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    int rv = rt_check_name(&c->base, op->inspect.name);
    if (rv != 0)
        return rv;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, op->inspect.name);
    return rt_dia_ask(c, c->dialect->look, &a, 0, op, NULL, inspect_answered) != NULL ? 0
                                                                                      : ROTA_NOMEM;
}

/* ---- LIST ------------------------------------------------------------------------------------------------ */

struct entry {
    char *name;
    size_t count, granted;
};

struct listing {
    struct rt_work work; /* first */
    struct entry *entries;
    size_t count, room;
};

static void free_listing(struct rt_conn *conn, struct rt_work *w)
{
    struct listing *l = (struct listing *)(void *)w;
    (void)conn;
    for (size_t i = 0; i < l->count; i++)
        rt_free(l->entries[i].name);
    rt_free(l->entries);
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void tell_list(struct listing *l)
{
    const struct rt_op *op = l->work.op;
    if (l->count > 1)
        qsort(l->entries, l->count, sizeof(*l->entries), by_name);
    for (size_t i = 0; i < l->count; i++) { /* a scan may tell of a key twice */
        const struct entry *e = &l->entries[i];
        if (i == 0 || strcmp(e->name, l->entries[i - 1].name) != 0)
            op->list.each(op->list.arg, e->name, e->count, e->granted);
    }
}

static int collect(struct rt_dia_conn *c, struct listing *l, const char *name, size_t granted,
                   size_t waiting)
{
    bool room = rt_grow(&l->entries, &l->room, l->count + 1, sizeof(*l->entries));
    char *copy = room ? rt_strdup(name) : NULL;
    if (copy == NULL)
        return rt_words_nomem(&c->base);
    l->entries[l->count++] = (struct entry){copy, granted + waiting, granted};
    return 0;
}

static rt_dia_answer_fn list_answered;

/* KEYS of a scan: PREFIX as it is, and whatever follows. */
static int send_list(struct rt_dia_conn *c, struct listing *l, const char *cursor)
{
    struct rt_redis_args a;
    char pattern[2 * RT_NAME_ROOM + 2];
    const char *prefix = l->work.op->list.prefix != NULL ? l->work.op->list.prefix : "";
    size_t n = 0;
    for (; *prefix != '\0' && n + 4 < sizeof(pattern); prefix++) {
        if (strchr("*?[]^\\", *prefix) != NULL)
            pattern[n++] = '\\';
        pattern[n++] = *prefix;
    }
    pattern[n++] = '*';
    pattern[n] = '\0';
    rt_redis_args_few(&a);
    rt_redis_arg(&a, cursor);
    rt_redis_arg(&a, pattern);
    return rt_dia_ask(c, c->dialect->list, &a, 1, NULL, &l->work, list_answered) != NULL
               ? 0
               : ROTA_NOMEM;
}

static void list_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct listing *l = rq->owner;
    if (err == 0 &&
        (status != RT_REDIS_OK || rt_redis_count(reply) < 1 || !rt_redis_shaped(reply, 1, "sii")))
        err = rt_dia_odd(c, rq);
    if (l->work.op == NULL) {
        rt_work_settle(&c->base, &l->work);
        return;
    }
    for (size_t i = 1; err == 0 && i < rt_redis_count(reply); i += LIST_FIELDS)
        err = collect(c, l, rt_redis_str(reply, i), (size_t)rt_redis_int(reply, i + 1),
                      (size_t)rt_redis_int(reply, i + 2));
    if (err == 0 && strcmp(rt_redis_str(reply, 0), "0") != 0) {
        err = send_list(c, l, rt_redis_str(reply, 0));
        if (err == 0)
            return;
    }
    if (err == 0)
        tell_list(l);
    rt_work_end(&c->base, &l->work, err);
}

int rt_dia_begin_list(struct rt_dia_conn *c, struct rt_op *op)
{
    struct listing *l = rt_work_new(&c->works, &c->base, sizeof(*l), op);
    if (l == NULL)
        return ROTA_NOMEM;
    l->work.free = free_listing;
    int rv = send_list(c, l, "0");
    if (rv != 0)
        rt_work_end(&c->base, &l->work, rv);
    return 0;
}

/* ---- OBSERVE ------------------------------------------------------------------------------------------------ */

static void follow_looks(struct rt_dia_conn *c)
{
    rt_timers_at(&c->base.loop->timers, &c->look_timer.timer, rt_view_next(c->views));
}

static void read_state(const struct rt_dia_conn *c, const redisReply *reply,
                       struct rt_view_state *s)
{
    struct place p;
    *s = (struct rt_view_state){.count = (rt_redis_count(reply) - 1) / PLACE_FIELDS};
    if (s->count == 0)
        return;
    read_place(c, reply, 1, &p);
    s->mode = p.place.mode;
    s->of = p.place.of;
    if (!(p.place.flags & ROTA_PLACE_GRANTED))
        return;
    if (c->dialect->stamps) /* its number and label are until when: each renewal would be news */
        return;
    s->fence = c->dialect->caps & ROTA_CAP_FENCE ? p.place.number : 0;
    rt_view_label(s, p.label.at, p.label.size);
    rt_view_value(s, p.value.at, p.value.size);
}

static void view_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct rt_view *v = rq->owner;
    struct rt_view_state s;
    bool again = v->again;
    if (!rt_view_end(v))
        return;
    if (err == 0 && is_look(status, reply)) {
        read_state(c, reply, &s);
        rt_view_tell(&c->base, v, &s);
    }
    v->look_at = rt_loop_now(c->base.loop) + (again ? 0 : LOOK_MS * RT_MS);
    follow_looks(c);
}

static int look(struct rt_dia_conn *c, struct rt_view *v)
{
    struct rt_redis_args a;
    if (!rt_view_begin(v))
        return 0;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, v->name);
    struct rt_dia_request *rq = rt_dia_request_new(c, c->dialect->look, &a, 0, 0, view_answered);
    if (rq == NULL) {
        (void)rt_view_end(v);
        return ROTA_NOMEM;
    }
    rq->owner = v;
    rt_dia_send(c, rq);
    return 0;
}

void rt_dia_look_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_dia_conn *c = RT_DIA_OF_TIMER(call, look_timer);
    for (struct rt_view *v = c->views; v != NULL; v = v->next)
        if (!v->over && !v->looking && v->look_at <= now && look(c, v) != 0)
            v->look_at = now + LOOK_MS * RT_MS;
    follow_looks(c);
}

int rt_dia_begin_observe(struct rt_dia_conn *c, struct rt_op *op)
{
    struct rt_view *v = rt_view_find(c->views, op->observe.cookie);
    if (op->observe.stop) {
        if (v != NULL)
            rt_view_stop(v);
        follow_looks(c);
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    int rv = rt_check_name(&c->base, op->observe.name);
    if (rv != 0)
        return rv;
    if (v == NULL)
        v = rt_view_new(&c->views, sizeof(*v), op->observe.name, op->observe.cookie);
    if (v == NULL)
        return rt_words_nomem(&c->base);
    v->told = false;
    rv = look(c, v);
    if (rv != 0) {
        rt_view_stop(v);
        return rv;
    }
    rt_conn_done(&c->base, op, 0);
    return 0;
}
