/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: what is there is brought to what is wanted, one ask at a time. */
#include "engine/also/also.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/hash.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <string.h>

#define PAUSE (50 * RT_MS) /* before what failed is tried again */

/* ---- The table ------------------------------------------------------------------------------ */

static struct rt_also_ticket **bucket(struct rt_also_conn *c, const char *name)
{
    return &c->buckets[rt_hash(name, strlen(name)) % RT_ALSO_BUCKETS];
}

struct rt_also_ticket *rt_also_by_nonce(struct rt_also_conn *c, const char *name, uint64_t session,
                                        uint64_t nonce)
{
    struct rt_also_ticket *t = *bucket(c, name);
    while (t != NULL && (t->nonce != nonce || t->session != session || strcmp(t->name, name) != 0))
        t = t->next;
    return t;
}

struct rt_also_ticket *rt_also_by_number(struct rt_also_conn *c, const char *name, uint64_t session,
                                         uint64_t number)
{
    struct rt_also_ticket *t = *bucket(c, name);
    while (t != NULL && (t->number != number || t->number == 0 || t->session != session ||
                         strcmp(t->name, name) != 0))
        t = t->next;
    return t;
}

/* Of the foreign session: by its nonce, where that is known, or by its number. */
static struct rt_also_ticket *by_foreign(struct rt_also_conn *c, const struct rt_event *e)
{
    struct rt_also_ticket *t = *bucket(c, e->name);
    for (; t != NULL; t = t->next) {
        if (t->foreign_session != e->session || t->foreign == RT_ALSO_NONE ||
            strcmp(t->name, e->name) != 0)
            continue;
        if (e->nonce != 0 ? t->foreign_nonce == e->nonce
                          : t->foreign_number != 0 && t->foreign_number == e->number)
            return t;
    }
    return NULL;
}

struct rt_also_ticket *rt_also_ticket_new(struct rt_also_conn *c, const struct rt_join *join)
{
    size_t size = strlen(join->name) + 1;
    struct rt_also_ticket *t = rt_alloc(sizeof(*t) + size);
    if (t == NULL)
        return NULL;
    memcpy(t->name, join->name, size);
    t->session = join->session;
    t->nonce = join->nonce;
    t->mode = join->mode;
    t->tries = (join->flags & RT_JOIN_TRY) != 0;
    t->untold = true;
    struct rt_also_ticket **at = bucket(c, t->name);
    RT_LIST_ADD(at, t);
    c->tickets++;
    return t;
}

void rt_also_free_all(struct rt_also_conn *c)
{
    for (size_t i = 0; i < RT_ALSO_BUCKETS; i++)
        while (c->buckets[i] != NULL) {
            struct rt_also_ticket *t = c->buckets[i];
            RT_LIST_OUT(t);
            rt_free(t);
        }
    c->tickets = 0;
}

void rt_also_each(struct rt_also_conn *c,
                  void (*each)(struct rt_also_conn *c, struct rt_also_ticket *t))
{
    uint64_t round = ++c->rounds;
    for (size_t i = 0; i < RT_ALSO_BUCKETS && c->tickets > 0; i++)
        for (struct rt_also_ticket *t = c->buckets[i]; t != NULL;) {
            if (t->seen == round) {
                t = t->next;
                continue;
            }
            t->seen = round;
            each(c, t);
            t = c->buckets[i]; /* it, and others, may be gone */
        }
}

/* ---- Asks ----------------------------------------------------------------------------------- */

int64_t rt_also_deadline(const struct rt_also_conn *c, const struct rt_work *w)
{
    int64_t now = rt_loop_now(c->base.loop);
    if (w != NULL && w->op != NULL && w->op->deadline > now)
        return w->op->deadline;
    return now + c->base.call_ms * RT_MS;
}

static void later(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    t->again_at = rt_loop_now(c->base.loop) + PAUSE;
    rt_also_wake(c, t->again_at);
}

static void tell(struct rt_also_conn *c, struct rt_also_ticket *t, enum rt_event_kind kind)
{
    rt_conn_event(&c->base, &(struct rt_event){.kind = kind,
                                               .session = t->session,
                                               .number = t->number,
                                               .nonce = t->nonce,
                                               .name = t->name});
}

static void tell_granted(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    t->untold = false;
    tell(c, t, RT_GRANTED);
}

/* It cannot be had, and nobody waits for the answer: its user is told that it lost its place. */
static void refused(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    rt_words_log(&c->base, ROTA_LOG_WARN, "%.120s: at the front, and refused: %.200s", t->name,
                 c->base.errmsg);
    t->unwanted = true;
    tell(c, t, RT_TICKET_LOST);
}

void rt_also_not_asked(struct rt_also_conn *c, struct rt_also_ticket *t, int err)
{
    bool passes = err == ROTA_UNKNOWN || err == ROTA_UNREACHABLE || err == ROTA_LOST;
    if (t->unwanted) {
        rt_also_step(c, t);
    } else if (t->joiner == NULL && (passes || err == ROTA_NOMEM || err == ROTA_CANCELED)) {
        later(c, t);
    } else if (t->joiner == NULL) {
        refused(c, t);
        rt_also_step(c, t);
    } else if (!passes) {
        rt_also_joined(c, t, err);
    } else if (t->tries) {
        rt_also_joined(c, t, ROTA_UNKNOWN); /* it stands in the line */
    } else {
        later(c, t);
        rt_also_joined(c, t, 0); /* it waits */
    }
}

static void asked(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_also_ticket *t = ask->owner;
    int err = ask->op.err;
    bool looked = err == ROTA_BUSY || err == ROTA_INVALID;
    if (t->foreign_session != c->foreign_session) {
        t->foreign = RT_ALSO_NONE; /* that session is gone, and what it had ends with it */
        err = err == 0 ? ROTA_LOST : err;
    } else if (t->foreign == RT_ALSO_HELD && err != ROTA_LOST) {
        err = 0; /* an event was quicker */
    } else if (err == 0) {
        t->doubt = false;
        t->foreign_number = t->join.number;
        t->foreign = t->join.granted ? RT_ALSO_HELD : RT_ALSO_QUEUED;
    } else if (err == ROTA_LOST) {
        t->foreign = RT_ALSO_NONE;
        rt_also_foreign_over(c);
    } else if (err == ROTA_UNKNOWN) {
        t->doubt = true;
    } else if (!t->doubt || looked) {
        t->foreign = RT_ALSO_NONE;
    }
    if (err != 0)
        rt_also_not_asked(c, t, err);
    else if (t->unwanted)
        rt_also_step(c, t);
    else if (t->joiner != NULL)
        rt_also_joined(c, t, 0);
    else if (t->foreign == RT_ALSO_HELD && !t->joining)
        tell_granted(c, t);
}

static void ask_foreign(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    if (c->foreign_session == 0) {
        rt_also_want_foreign(c);
        return;
    }
    if (t->foreign == RT_ALSO_NONE) {
        t->foreign = RT_ALSO_ASKED;
        t->foreign_session = c->foreign_session;
        t->foreign_nonce = ++c->nonces;
        t->foreign_number = 0;
        t->doubt = false;
    }
    /* `owner` tells whoever looks which ticket of the line it belongs to. */
    t->join = (struct rt_join){.name = t->name,
                               .session = t->foreign_session,
                               .nonce = t->foreign_nonce,
                               .owner = t->number,
                               .mode = t->mode,
                               .flags = t->tries ? RT_JOIN_TRY : 0};
    t->foreign_ask.op = (struct rt_op){
        .kind = RT_OP_JOIN, .deadline = rt_also_deadline(c, t->joiner), .join = {&t->join, 1}};
    rt_also_send(&c->foreign, &t->foreign_ask, asked, t);
}

/* The LEAVE of either half has come to nothing so far: whoever waits is told, and it goes on here. */
static void not_left(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    later(c, t);
    if (t->leaver != NULL)
        rt_also_left(c, t, ROTA_UNKNOWN);
    else if (t->asker != NULL)
        rt_also_join_gone(c, t);
}

static void given(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_also_ticket *t = ask->owner;
    int err = ask->op.err;
    bool over = t->foreign_session != c->foreign_session;
    if (err == 0 || err == ROTA_LOST || over) {
        t->was_lost = t->was_lost || (err != 0 && t->foreign == RT_ALSO_HELD);
        t->foreign = RT_ALSO_NONE;
        rt_also_step(c, t);
    } else {
        t->foreign = RT_ALSO_ASKED;
        not_left(c, t);
    }
}

static void give_foreign(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    t->had = t->had || t->foreign == RT_ALSO_HELD;
    t->foreign_ask.op = (struct rt_op){
        .kind = RT_OP_LEAVE,
        .deadline = rt_also_deadline(c, t->leaver != NULL ? t->leaver : t->joiner),
        .leave = {.name = t->name, .session = t->foreign_session, .nonce = t->foreign_nonce}};
    rt_also_send(&c->foreign, &t->foreign_ask, given, t);
}

static void line_left(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    struct rt_also_ticket *t = ask->owner;
    int err = ask->op.err;
    if (err != 0 && err != ROTA_LOST) {
        not_left(c, t);
        return;
    }
    t->line = RT_ALSO_OUT;
    t->left =
        true; /* by an earlier LEAVE: this one finds nothing, as if that had been asked of the line itself */
    t->left_err = t->behind ? rt_words_no_ticket(&c->base, t->name) : err;
    if (RT_BUG(RT_BUG_LINE_LEFT_FIRST) && t->leaver != NULL)
        rt_also_left(c, t, err);
    rt_also_step(c, t);
}

static void leave_line(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    t->line_ask.op = (struct rt_op){
        .kind = RT_OP_LEAVE,
        .deadline = rt_also_deadline(c, t->leaver != NULL ? t->leaver : t->joiner),
        .leave = {.name = t->name,
                  .session = t->session,
                  .number = t->number,
                  .nonce = t->nonce,
                  .untold = t->untold}};
    rt_also_send(&c->line, &t->line_ask, line_left, t);
}

/* ---- The step ------------------------------------------------------------------------------- */

/* Out of the table first: whoever is told may have the next op begun. */
static void gone(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    assert(!t->line_ask.busy && !t->foreign_ask.busy);
    RT_LIST_OUT(t);
    c->tickets--;
    if (t->leaver != NULL && !t->left)
        t->left_err = rt_words_no_ticket(&c->base, t->name);
    if (t->leaver != NULL)
        rt_also_left(c, t, t->left_err);
    if (t->asker != NULL)
        rt_also_join_gone(c, t);
    rt_free(t);
}

static void step_out(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    bool early = RT_BUG(RT_BUG_LINE_LEFT_FIRST) && t->line != RT_ALSO_OUT;
    if (t->foreign != RT_ALSO_NONE && !early)
        give_foreign(c, t);
    else if (t->line != RT_ALSO_OUT)
        leave_line(c, t);
    else
        gone(c, t);
}

void rt_also_step(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    int64_t now = rt_loop_now(c->base.loop);
    if (t->line_ask.busy || t->foreign_ask.busy || t->joining)
        return;
    if (t->again_at > now && t->leaver == NULL && t->joiner == NULL) {
        rt_also_wake(c, t->again_at);
        return;
    }
    if (t->unwanted)
        step_out(c, t);
    else if (t->line == RT_ALSO_FRONT && t->foreign < RT_ALSO_QUEUED &&
             (!t->tries || t->joiner != NULL))
        ask_foreign(c, t);
}

void rt_also_step_all(struct rt_also_conn *c)
{
    rt_also_each(c, rt_also_step);
}

/* ---- What is lost --------------------------------------------------------------------------- */

void rt_also_line_gone(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    t->line = RT_ALSO_OUT;
    t->unwanted = true;
    rt_also_step(c, t);
}

void rt_also_foreign_gone(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    bool held = t->foreign == RT_ALSO_HELD;
    if (t->foreign_ask.busy || RT_BUG(RT_BUG_FOREIGN_LOSS_FORGOTTEN))
        return; /* its answer says so */
    t->foreign = RT_ALSO_NONE;
    if (held && t->unwanted)
        t->was_lost = true;
    if (held && !t->unwanted) {
        t->unwanted = true;
        tell(c, t, RT_TICKET_LOST);
    }
    rt_also_step(c, t);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* A JOIN of NAME whose number is not known yet: the user asks again, and is answered then. */
static bool may_be_joining(struct rt_also_conn *c, const struct rt_event *e)
{
    for (const struct rt_also_ticket *t = *bucket(c, e->name); t != NULL; t = t->next)
        if (t->number == 0 && t->session == e->session && strcmp(t->name, e->name) == 0 &&
            (e->nonce == 0 || e->nonce == t->nonce))
            return true;
    return false;
}

static void line_granted(struct rt_also_conn *c, struct rt_also_ticket *t, const struct rt_event *e)
{
    if (t == NULL) {
        if (!may_be_joining(c, e))
            rt_conn_event(&c->base, e); /* nobody's: it is given back */
        return;
    }
    if (t->line == RT_ALSO_WAITING)
        t->line = RT_ALSO_FRONT;
    bool told = !t->unwanted && t->joiner == NULL && !t->joining && t->line == RT_ALSO_FRONT &&
                (t->foreign == RT_ALSO_HELD || RT_BUG(RT_BUG_TOLD_AT_THE_FRONT));
    if (told)
        tell_granted(c, t);
    rt_also_step(c, t);
}

void rt_also_line_event(struct rt_also_conn *c, const struct rt_event *event)
{
    if (event->kind == RT_CHANGED || event->kind == RT_LINK) {
        rt_conn_event(&c->base, event);
        return;
    }
    if (event->kind == RT_SESSION_LOST) {
        rt_conn_event(&c->base, event);
        if (event->session == c->session)
            rt_also_session_over(c);
        return;
    }
    struct rt_also_ticket *t = rt_also_by_number(c, event->name, event->session, event->number);
    if (event->kind == RT_GRANTED) {
        line_granted(c, t, event);
        return;
    }
    rt_conn_event(&c->base, event);
    if (t != NULL && event->kind == RT_TICKET_LOST)
        rt_also_line_gone(c, t);
}

struct stray { /* a foreign grant that nobody knows */
    struct rt_also_ask ask;
    char name[];
};

static void stray_left(struct rt_also_conn *c, struct rt_also_ask *ask)
{
    (void)c;
    rt_free(ask); /* if it is still there, the next beat tells of it again */
}

static void give_stray(struct rt_also_conn *c, const struct rt_event *e)
{
    size_t size = strlen(e->name) + 1;
    struct stray *s = rt_alloc(sizeof(*s) + size);
    if (s == NULL)
        return;
    memcpy(s->name, e->name, size);
    s->ask.op = (struct rt_op){.kind = RT_OP_LEAVE,
                               .deadline = rt_also_deadline(c, NULL),
                               .leave = {.name = s->name,
                                         .session = e->session,
                                         .number = e->fence != 0 ? e->fence : e->number,
                                         .nonce = e->nonce,
                                         .untold = true}};
    rt_also_send(&c->foreign, &s->ask, stray_left, s);
}

static void foreign_granted(struct rt_also_conn *c, struct rt_also_ticket *t,
                            const struct rt_event *e)
{
    bool held = t->foreign == RT_ALSO_HELD;
    t->foreign = RT_ALSO_HELD;
    t->foreign_number = e->fence != 0 ? e->fence : e->number;
    if (held || t->unwanted || t->foreign_ask.busy || t->joining)
        return; /* told before; or its LEAVE, or the answer to either JOIN, says the rest */
    if (t->joiner != NULL)
        rt_also_joined(c, t, 0);
    else if (t->line == RT_ALSO_FRONT)
        tell_granted(c, t);
}

void rt_also_foreign_event(struct rt_also_conn *c, const struct rt_event *event)
{
    if (event->kind == RT_SESSION_LOST) {
        if (event->session == c->foreign_session)
            rt_also_foreign_over(c);
        return;
    }
    if (event->kind != RT_GRANTED && event->kind != RT_TICKET_LOST)
        return;
    struct rt_also_ticket *t = by_foreign(c, event);
    if (t != NULL && event->kind == RT_GRANTED)
        foreign_granted(c, t, event);
    else if (t != NULL)
        rt_also_foreign_gone(c, t);
    else if (event->kind == RT_GRANTED && event->session == c->foreign_session)
        give_stray(c, event);
}

void rt_also_held(struct rt_also_conn *c, bool foreign,
                  void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                  void *arg)
{
    for (size_t i = 0; i < RT_ALSO_BUCKETS; i++)
        for (const struct rt_also_ticket *t = c->buckets[i]; t != NULL; t = t->next) {
            if (foreign && t->foreign >= RT_ALSO_QUEUED && t->foreign_session == c->foreign_session)
                each(arg, t->name, t->foreign_number, t->foreign == RT_ALSO_HELD);
            else if (!foreign && t->line >= RT_ALSO_WAITING && t->session == c->session)
                each(arg, t->name, t->number, t->line == RT_ALSO_FRONT);
        }
}
