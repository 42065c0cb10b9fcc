/* SPDX-License-Identifier: Apache-2.0 */
/* Looking: INSPECT, LIST, OBSERVE, CHECK; also BREAK, and ending connections. All on the lanes,
 * which hold nothing. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"
#include "engine/kit/check.h"
#include "engine/kit/shown.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PROBES 1     /* tag of an INSPECT: nobody of ours holds */
#define LOOK_PARTS 6 /* looks of an observer per ttl */

enum { AT_CONN, AT_STARTED, AT_MODE, AT_NUMBER, AT_SESSION, AT_OWNER, AT_SINCE, AT_LABEL };

static struct rt_sqlhold_conn *conn_of(const struct rt_sql_ask *a)
{
    return rt_sqlhold_of(&a->c->base);
}

static void freed(struct rt_sql_ask *a)
{
    rt_free(a->about);
}

/* The row of `about`'s number, or the first. NULL: there is none. */
static const struct rt_sql_row *row_by(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                       uint64_t number)
{
    const struct rt_sql_row *row = NULL;
    while ((row = rt_sql_next(a, b, RT_SQL_SAYING, row)) != NULL)
        if (row->count > AT_LABEL &&
            (number == 0 || (uint64_t)rt_sql_int(row, AT_NUMBER) == number))
            return row;
    return NULL;
}

/* LOOK, where there is something to look at. */
static void say_look(struct rt_sql_ask *a, struct rt_sql_book *b, const char *name)
{
    rt_sqlhold_say(conn_of(a), b,
                   conn_of(a)->unfit[0] == '\0' ? RT_HOLD_SAY_LOOK : RT_HOLD_SAY_PING,
                   &(struct rt_sqlhold_about){.name = name});
}

static int check_name(struct rt_sqlhold_conn *c, const char *name)
{
    int rv = rt_check_name(rt_sqlhold_base(c), name);
    return rv != 0 ? rv : rt_sqlhold_unfit(c);
}

/* ---- INSPECT, LIST, CHECK ------------------------------------------------------------------------------------------- */

static void look_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    struct rt_sqlhold_conn *c = conn_of(a);
    if (op == NULL)
        return;
    if (op->kind == RT_OP_LIST)
        rt_sqlhold_say(
            c, b, RT_HOLD_SAY_LIST,
            &(struct rt_sqlhold_about){.name = op->list.prefix != NULL ? op->list.prefix : ""});
    else if (op->kind == RT_OP_INSPECT && a->tag == PROBES)
        rt_sqlhold_say(c, b, RT_HOLD_SAY_PROBE,
                       &(struct rt_sqlhold_about){.name = op->inspect.name});
    else if (op->kind == RT_OP_INSPECT)
        say_look(a, b, op->inspect.name);
    else {
        rt_sqlhold_say(c, b, RT_HOLD_SAY_PING, &(struct rt_sqlhold_about){0});
        rt_sqlhold_say(c, b, RT_HOLD_SAY_DOCTOR, &(struct rt_sqlhold_about){0});
    }
}

static bool show(struct rt_shown_list *list, const char *name, const struct rt_sql_row *row)
{
    const char *label = rt_sql_str(row, AT_LABEL);
    struct rt_shown *s = rt_shown_add(list, (struct rt_text){name, strlen(name)},
                                      (struct rt_text){label, strlen(label)},
                                      (struct rt_text){"", 0});
    if (s == NULL)
        return false;
    s->place.number = (uint64_t)rt_sql_int(row, AT_NUMBER);
    s->place.session = (uint64_t)rt_sql_int(row, AT_SESSION);
    s->place.owner = (uint64_t)rt_sql_int(row, AT_OWNER);
    int64_t since = rt_sql_int(row, AT_SINCE);
    s->place.since_ms = rt_sql_null(row, AT_SINCE) ? -1 : since > 0 ? since / 1000 : 0;
    s->place.left_ms = -1;
    s->place.mode = rt_sql_int(row, AT_MODE) == 1 ? RT_SHARED : RT_EXCLUSIVE;
    s->place.flags = ROTA_PLACE_GRANTED;
    return true;
}

static int show_all(const struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    struct rt_shown_list list = {0};
    const struct rt_sql_row *row = NULL;
    bool good = true;
    while (good && (row = rt_sql_next(a, b, RT_SQL_SAYING, row)) != NULL)
        good = show(&list, op->inspect.name, row);
    if (good)
        rt_shown_tell(&list, op);
    rt_shown_fini(&list);
    return good ? 0 : rt_words_nomem(&a->c->base);
}

static void list_all(const struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    const struct rt_sql_row *row = NULL;
    while ((row = rt_sql_next(a, b, RT_SQL_SAYING, row)) != NULL) {
        size_t n = (size_t)rt_sql_int(row, 1);
        op->list.each(op->list.arg, rt_sql_str(row, 0), n, n);
    }
}

static void check_all(const struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    const struct rt_sqlhold_conn *c = conn_of(a);
    const struct rt_sql_row *row = NULL;
    char text[200];
    if (c->unfit[0] != '\0')
        rt_words_verdict(op, "one holder at a time (I1)", "broken", c->unfit,
                         "name another table, or mend this one");
    else
        rt_words_verdict(
            op, "one holder at a time (I1)", "limited",
            "a lock ends with its connection, and a replica that is promoted knows of none",
            "guard the resource by the fence; dialect line outlives connections");
    rt_words_verdict(op, "fences only grow (I2)", "limited",
                     "grants of Rota's clients are numbered, those of others are not",
                     "dialect line numbers all");
    rt_words_verdict(op, "order of arrival (I7)", "limited", "the server's queue, if it has one",
                     "dialect line has an order");
    rt_words_verdict(op, "waking", "kept", "by the server: who waits is answered", "");
    snprintf(
        text, sizeof(text),
        "dialect %s: a connection for each lock that is held or waited for, up to %zu (?waits=); "
        "one that is idle for %u ms is ended by the server",
        c->way->dialect, c->seat_room, c->sql.base.ttl_ms);
    rt_words_verdict(op, "dialect", "kept", text, "");
    while ((row = rt_sql_next(a, b, RT_SQL_SAYING, row)) != NULL)
        if (row->count >= 4)
            rt_words_verdict(op, rt_sql_str(row, 0), rt_sql_str(row, 1), rt_sql_str(row, 2),
                             rt_sql_str(row, 3));
}

/* Whether an INSPECT that found nobody may ask the server once more. */
static bool may_probe(const struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_sqlhold_conn *c = conn_of(a);
    return a->entry.op->kind == RT_OP_INSPECT && a->tag != PROBES && c->unfit[0] == '\0' &&
           c->texts[RT_HOLD_SAY_PROBE] != NULL && row_by(a, b, 0) == NULL;
}

static bool look_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    int rv = 0;
    if (a->entry.op == NULL)
        return true;
    if (may_probe(a, b)) {
        a->tag = PROBES;
        a->single = true; /* in nobody's transaction */
        return false;
    }
    if (a->entry.op->kind == RT_OP_INSPECT && conn_of(a)->unfit[0] == '\0')
        rv = show_all(
            a,
            b); /* else it asked before that was known, as happens when opening: a doctor is next */
    else if (a->entry.op->kind == RT_OP_LIST)
        list_all(a, b);
    else if (a->entry.op->kind == RT_OP_CHECK)
        check_all(a, b);
    rt_sql_done(a, rv);
    return true;
}

static const struct rt_sql_plan look_plan = {.reads = true, .say = look_say, .heard = look_heard};

/* INSPECT of a session: what this client itself knows; of other sessions nothing. */
struct mine {
    const struct rt_op *op;
    struct rt_shown_list list;
    bool failed;
};

static void show_mine(struct rt_sqlhold_ticket *t, void *arg)
{
    struct mine *m = arg;
    if (t->session != m->op->inspect.session || m->failed)
        return;
    const char *label = t->c->sql.label;
    struct rt_shown *s = rt_shown_add(&m->list, (struct rt_text){t->name, strlen(t->name)},
                                      (struct rt_text){label, strlen(label)},
                                      (struct rt_text){"", 0});
    m->failed = s == NULL;
    if (s == NULL)
        return;
    s->place = (struct rota_place){.number = t->number,
                                   .session = t->session,
                                   .owner = t->owner,
                                   .since_ms = -1,
                                   .left_ms = -1,
                                   .mode = t->mode,
                                   .flags = t->state == RT_HOLD_HELD ? ROTA_PLACE_GRANTED : 0,
                                   .label = s->place.label,
                                   .value = s->place.value};
}

static void inspect_session(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    struct mine m = {.op = op};
    rt_sqlhold_each(c, show_mine, &m);
    if (!m.failed)
        rt_shown_tell(&m.list, op);
    rt_shown_fini(&m.list);
    rt_conn_done(rt_sqlhold_base(c), op, m.failed ? rt_words_nomem(rt_sqlhold_base(c)) : 0);
}

/* ---- The end of a connection ------------------------------------------------------------------------------------------ */

struct victim {
    uint64_t id, started, number; /* number: of BREAK, to see it go */
    struct rt_sql_saying saying;
    char text[40];
};

static void kill_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct victim *v = a->about;
    struct rt_sqlhold_conn *c = conn_of(a);
    if (c->texts[RT_HOLD_SAY_KILL] != NULL) {
        rt_sqlhold_say(c, b, RT_HOLD_SAY_KILL,
                       &(struct rt_sqlhold_about){.number = v->id, .owner = v->started});
        return;
    }
    snprintf(v->text, sizeof(v->text), "KILL %llu", (unsigned long long)v->id);
    v->saying = (struct rt_sql_saying){
        .sql = v->text, .types = "", .slot = RT_SQL_ONCE, .reads = true};
    rt_sql_say_own_cells(b, &v->saying, NULL, 0);
}

static bool kill_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    rt_sql_done(a, 0);
    return true;
}

/* It is no longer there, or it does not matter: nobody listens to it. */
static void kill_failed(struct rt_sql_ask *a, int err)
{
    if (err != ROTA_UNREACHABLE && err != ROTA_UNKNOWN && err != ROTA_CANCELED)
        rt_sql_done(a, 0);
}

static const struct rt_sql_plan kill_plan = {
    .say = kill_say, .heard = kill_heard, .failed = kill_failed, .freed = freed};

void rt_sqlhold_kill(struct rt_sqlhold_conn *c, uint64_t id, uint64_t started, struct rt_op *op)
{
    struct victim *v = rt_alloc(sizeof(*v));
    struct rt_sql_ask *a = NULL;
    if (v == NULL) {
        if (op != NULL)
            rt_conn_done(rt_sqlhold_base(c), op, 0); /* the server finds out by itself */
        return;
    }
    v->id = id;
    v->started = started;
    a = rt_sql_ask_new(&c->sql, &kill_plan, op, NULL, v);
    if (a == NULL) {
        rt_free(v);
        return;
    }
    a->single = true;
    a->entry.again = true;
    rt_sql_ask_go(a);
}

/* ---- BREAK: a look, the end of that connection, and looks until it is gone ------------------------------------------- */

static void break_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct victim *v = a->about;
    struct rt_sqlhold_about about = {.holder = v->id};
    if (v->id != 0 && a->tag == 0 &&
        a->entry.op != NULL) { /* recorded before it is done: whoever leaves then asks */
        about.name = a->entry.op->brk.name;
        about.number = a->entry.op->brk.number;
        rt_sqlhold_say(conn_of(a), b, RT_HOLD_SAY_BREAK, &about);
        kill_say(a, b);
    } else if (a->entry.op != NULL)
        say_look(a, b, a->entry.op->brk.name);
}

static bool break_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct victim *v = a->about;
    const struct rt_op *op = a->entry.op;
    if (op == NULL)
        return true;
    if (v->id != 0 && a->tag == 0) { /* it was told to end */
        a->tag = 1;
        return false;
    }
    const struct rt_sql_row *row = row_by(a, b, op->brk.number);
    if (v->id == 0 && row == NULL) {
        rt_sql_done(a, rt_words_no_such(&a->c->base, op->brk.name));
        return true;
    }
    if (v->id == 0) {
        v->id = (uint64_t)rt_sql_int(row, AT_CONN);
        v->started = (uint64_t)rt_sql_int(row, AT_STARTED);
        a->single = true;
        return false;
    }
    for (row = NULL; (row = rt_sql_next(a, b, RT_SQL_SAYING, row)) != NULL;)
        if ((uint64_t)rt_sql_int(row, AT_CONN) == v->id)
            return false; /* not gone yet */
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan break_plan = {
    .say = break_say, .heard = break_heard, .freed = freed};

static void begin_break(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = check_name(c, op->brk.name);
    struct victim *v = NULL;
    if (rv == 0 && op->brk.number == 0) /* there are no durable tickets */
        rv = rt_words_no_such(rt_sqlhold_base(c), op->brk.name);
    if (rv == 0 && (v = rt_alloc(sizeof(*v))) == NULL)
        rv = rt_words_nomem(rt_sqlhold_base(c));
    if (rv != 0) {
        rt_conn_done(rt_sqlhold_base(c), op, rv);
        return;
    }
    if (rt_sql_ask(&c->sql, &break_plan, op, op->brk.name, v) == NULL)
        rt_free(v);
}

void rt_sqlhold_begin_look(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = 0;
    if (op->kind == RT_OP_BREAK) {
        begin_break(c, op);
        return;
    }
    if (op->kind == RT_OP_INSPECT && op->inspect.name == NULL) {
        inspect_session(c, op);
        return;
    }
    if (op->kind == RT_OP_INSPECT)
        rv = check_name(c, op->inspect.name);
    if (rv != 0)
        rt_conn_done(rt_sqlhold_base(c), op, rv);
    else
        (void)rt_sql_ask(&c->sql, &look_plan, op, NULL, NULL);
}

/* ---- Who holds, for a try that found it busy --------------------------------------------------------------------------- */

static void busy_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    say_look(a, b, a->about);
}

static bool busy_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_sql_row *row = row_by(a, b, 0);
    const char *who = row != NULL ? rt_sql_str(row, AT_LABEL) : "somebody";
    rt_sql_done(a, rt_words_busy(&a->c->base, a->about, who, strlen(who)));
    return true;
}

static void busy_failed(struct rt_sql_ask *a, int err)
{
    (void)err; /* it was busy, whoever held it */
    rt_sql_done(a, rt_words_busy(&a->c->base, a->about, "somebody", 8));
}

static const struct rt_sql_plan busy_plan = {
    .reads = true, .say = busy_say, .heard = busy_heard, .failed = busy_failed, .freed = freed};

void rt_sqlhold_busy(struct rt_sqlhold_conn *c, struct rt_op *op, const char *name)
{
    char *copy = rt_strdup(name);
    if (copy == NULL)
        rt_conn_done(rt_sqlhold_base(c), op,
                     rt_words_busy(rt_sqlhold_base(c), name, "somebody", 8));
    else if (rt_sql_ask(&c->sql, &busy_plan, op, NULL, copy) == NULL)
        rt_free(copy);
}

/* ---- A LEAVE that was not answered -------------------------------------------------------------------------------------- */

/* That its row is another's by now says nothing: it would be so too if the release had been done. */

static void broken_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct victim *v = a->about;
    if (a->entry.op != NULL)
        rt_sqlhold_say(conn_of(a), b, RT_HOLD_SAY_BROKEN,
                       &(struct rt_sqlhold_about){
                           .name = a->entry.op->leave.name, .number = v->number, .holder = v->id});
}

static bool broken_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    if (op == NULL)
        return true;
    if (rt_sql_next(a, b, RT_SQL_SAYING, NULL) != NULL)
        rt_sql_done(a, rt_words_no_ticket(&a->c->base, op->leave.name));
    else
        rt_sql_done(
            a, rt_words_fail(
                   &a->c->base, ROTA_UNKNOWN,
                   "%.80s: its connection broke before the release was answered; the lock is gone",
                   op->leave.name));
    return true;
}

static void broken_failed(struct rt_sql_ask *a, int err)
{
    (void)err;
    rt_sql_done(a, ROTA_UNKNOWN);
}

static const struct rt_sql_plan broken_plan = {.reads = true,
                                               .say = broken_say,
                                               .heard = broken_heard,
                                               .failed = broken_failed,
                                               .freed = freed};

void rt_sqlhold_unanswered(struct rt_sqlhold_conn *c, struct rt_op *op, uint64_t number,
                           uint64_t holder)
{
    struct victim *v = rt_alloc(sizeof(*v));
    if (v == NULL) {
        rt_conn_done(rt_sqlhold_base(c), op, ROTA_UNKNOWN);
        return;
    }
    v->id = holder;
    v->number = number;
    if (rt_sql_ask(&c->sql, &broken_plan, op, NULL, v) == NULL)
        rt_free(v);
}

/* ---- Notes for who looks -------------------------------------------------------------------------------------------------- */

struct note {
    enum rt_sqlhold_say say;
    struct rt_sqlhold_about about;
    char name[];
};

static void note_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct note *n = a->about;
    rt_sqlhold_say(conn_of(a), b, n->say, &n->about);
}

static bool note_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)a;
    (void)b;
    return true;
}

static const struct rt_sql_plan note_plan = {.say = note_say, .heard = note_heard, .freed = freed};

void rt_sqlhold_note(const struct rt_sqlhold_ticket *t, enum rt_sqlhold_say say, uint64_t holder)
{
    size_t size = strlen(t->name) + 1;
    struct note *n = rt_alloc(sizeof(*n) + size);
    if (n == NULL)
        return;
    memcpy(n->name, t->name, size);
    n->say = say;
    n->about = (struct rt_sqlhold_about){.name = n->name,
                                         .holder = holder,
                                         .session = t->session,
                                         .owner = t->owner,
                                         .number = t->number};
    struct rt_sql_ask *a = rt_sql_ask_new(&t->c->sql, &note_plan, NULL, n->name, n);
    if (a == NULL) {
        rt_free(n);
        return;
    }
    a->entry.again = true;
    rt_sql_ask_go(a);
}

/* ---- OBSERVE: servers tell nobody, so they are looked at several times per ttl -------------------------------------------- */

struct watch {
    struct rt_view base; /* first */
    struct rt_op *op;    /* the OBSERVE that is not answered yet */
};

static void look_at(struct rt_sqlhold_conn *c, struct watch *w);

static void watch_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct watch *w = a->about;
    say_look(a, b, w->base.name);
}

static void state_of(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                     struct rt_view_state *s)
{
    const struct rt_sql_row *row = NULL;
    while ((row = rt_sql_next(a, b, RT_SQL_SAYING, row)) != NULL) {
        if (s->count++ > 0)
            continue;
        const char *label = rt_sql_str(row, AT_LABEL);
        s->fence = (uint64_t)rt_sql_int(row, AT_NUMBER);
        s->mode = rt_sql_int(row, AT_MODE) == 1 ? RT_SHARED : RT_EXCLUSIVE;
        rt_view_label(s, label, strlen(label));
    }
}

static void watched(struct rt_sqlhold_conn *c, struct watch *w, int err,
                    const struct rt_view_state *s)
{
    struct rt_op *op = w->op;
    w->op = NULL;
    if (!rt_view_end(&w->base))
        return;
    if (op != NULL && err != 0)
        rt_view_stop(&w->base); /* nobody counts on it */
    if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, err);
    if (op != NULL && err != 0)
        return;
    if (err == 0)
        rt_view_tell(rt_sqlhold_base(c), &w->base, s);
    if (w->base.again)
        look_at(c, w);
}

static bool watch_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_view_state s = {0};
    int rv = rt_sqlhold_unfit(conn_of(a));
    if (rv == 0)
        state_of(a, b, &s);
    a->entry.op = NULL;
    watched(conn_of(a), a->about, rv, &s);
    return true;
}

static void watch_failed(struct rt_sql_ask *a, int err)
{
    a->entry.op = NULL;
    watched(conn_of(a), a->about, err, NULL);
}

static const struct rt_sql_plan watch_plan = {
    .reads = true, .say = watch_say, .heard = watch_heard, .failed = watch_failed};

static void look_at(struct rt_sqlhold_conn *c, struct watch *w)
{
    w->base.look_at = rt_loop_now(c->sql.base.loop) + c->sql.base.ttl_ms * RT_MS / LOOK_PARTS;
    rt_sqlhold_by(c, w->base.look_at);
    if (!rt_view_begin(&w->base))
        return;
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, &watch_plan, NULL, NULL, w);
    if (a == NULL) {
        watched(c, w, ROTA_NOMEM, NULL);
        return;
    }
    a->entry.op = w->op; /* to be found by a cancel */
    a->entry.deadline = w->op != NULL ? w->op->deadline : 0;
    rt_sql_ask_go(a);
}

int64_t rt_sqlhold_views_tick(struct rt_sqlhold_conn *c, int64_t now)
{
    for (struct rt_view *v = c->views, *next; v != NULL; v = next) {
        next = v->next;
        if (!v->over && !v->looking && v->look_at <= now)
            look_at(c, (struct watch *)(void *)v);
    }
    return rt_view_next(c->views);
}

static void stop(struct rt_sqlhold_conn *c, struct watch *w)
{
    struct rt_op *op = w->op;
    w->op = NULL;
    if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op,
                     rt_sqlhold_fail(c, ROTA_CANCELED, "the observation was ended"));
    rt_view_stop(&w->base);
}

void rt_sqlhold_begin_observe(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    struct watch *w = (struct watch *)(void *)rt_view_find(c->views, op->observe.cookie);
    if (op->observe.stop) {
        if (w != NULL)
            stop(c, w);
        rt_conn_done(rt_sqlhold_base(c), op, 0);
        return;
    }
    int rv = check_name(c, op->observe.name);
    if (rv == 0 && w == NULL &&
        (w = rt_view_new(&c->views, sizeof(*w), op->observe.name, op->observe.cookie)) == NULL)
        rv = rt_words_nomem(rt_sqlhold_base(c));
    if (rv != 0) {
        rt_conn_done(rt_sqlhold_base(c), op, rv);
        return;
    }
    w->base.told = false;  /* asked again: told again */
    if (w->base.looking) { /* it is under way already */
        w->base.again = true;
        rt_conn_done(rt_sqlhold_base(c), op, 0);
        return;
    }
    w->op = op;
    look_at(c, w);
}
