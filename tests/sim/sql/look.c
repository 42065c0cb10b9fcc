/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as they are, and the steps that only look at them. */
#include "core/grant.h"
#include "sim/sql/step.h"

#include <assert.h>

/* ---- Lines as they are -------------------------------------------------------------------------------------------- */

struct ss_ticket *ss_by_number(struct ss_line *l, int64_t session, int64_t number)
{
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].number == number && l->tickets[i].session == session)
            return &l->tickets[i];
    return NULL;
}

struct ss_ticket *ss_by_nonce(struct ss_line *l, int64_t session, int64_t nonce)
{
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].nonce == nonce && l->tickets[i].session == session)
            return &l->tickets[i];
    return NULL;
}

const char *ss_label_of(const struct ss_at *a, const struct ss_ticket *t)
{
    const struct ss_session *s = t->durable ? NULL : ss_session(a->s, t->session);
    return s != NULL ? s->label : t->label;
}

bool ss_is_wanted(const struct ss_line *l, const struct ss_ticket *t)
{
    return t->granted && t->flags & RT_SQL_ARMED && l->waiting > 0;
}

int64_t ss_end_of(const struct ss_at *a, const struct ss_ticket *t)
{
    const struct ss_session *s = t->durable ? NULL : ss_session(a->s, t->session);
    if (t->durable)
        return t->until != 0 ? t->until - a->now : INT64_MAX;
    return s != NULL ? s->expires - a->now : 0;
}

int64_t ss_left_of(const struct ss_at *a, const struct ss_line *l, const struct ss_ticket *t)
{
    int64_t soonest = INT64_MAX;
    if (t->granted)
        return INT64_MAX;
    if (t == l->tickets && t->mode != RT_GATHER)
        return 0;
    if (t > l->tickets && (!t[-1].granted || a->step->kind == RT_SQL_LOOK_AHEAD))
        return ss_end_of(a, &t[-1]);
    for (const struct ss_ticket *o = l->tickets; o < t; o++) {
        int64_t end = ss_end_of(a, o);
        soonest = end < soonest ? end : soonest;
    }
    return soonest;
}

struct rt_sql_cell ss_bell_ahead(const struct ss_line *l, const struct ss_ticket *t)
{
    bool several = t > l->tickets + 1 && t[-1].granted && t->mode == RT_PERMITS;
    return t > l->tickets ? ss_number(several ? 0 : t[-1].bell) : SS_NOTHING;
}

/* ---- Looking ------------------------------------------------------------------------------------------------------ */

void ss_do_look(struct ss_at *a)
{
    const struct ss_ticket *t = ss_by_number(a->l, ss_num(a, 1), ss_num(a, 2));
    assert(a->step->kind == RT_SQL_LOOK || t == NULL || t->mode != RT_PERMITS);
    if (t != NULL && !ss_over(a->s, t, a->now))
        SS_ROW_OF(a, ss_number(t->granted), ss_left(ss_left_of(a, a->l, t)),
                  ss_bell_ahead(a->l, t));
}

/* A folded ticket as the row it would be; false: there is none, or it is dead. */
static bool unfolded(const struct ss_at *a, const struct ss_line *l, struct ss_ticket *t)
{
    if (!l->folded || !ss_alive(a->s, l->session, a->now))
        return false;
    *t = (struct ss_ticket){
        .number = l->fence,
        .session = l->session,
        .nonce = l->nonce,
        .owner = l->owner,
        .flags = l->flags,
        .since = l->since,
        .granted = true,
    };
    return true;
}

/* T as PURGE would leave it, built in *ROOM if need be; or NULL. */
static const struct ss_ticket *purged(const struct ss_at *a, const struct ss_ticket *t,
                                      struct ss_ticket *room)
{
    if (!ss_over(a->s, t, a->now))
        return t;
    *room = *t;
    return !t->durable && ss_keeps(a, room) ? room : NULL;
}

/* Calls EACH for the line's living tickets, front first. */
static size_t each(const struct ss_at *a, const struct ss_line *l,
                   void (*one)(const struct ss_at *a, const struct ss_line *l,
                               const struct ss_ticket *t))
{
    struct ss_ticket room;
    size_t n = unfolded(a, l, &room);
    if (n > 0 && one != NULL)
        one(a, l, &room);
    for (size_t i = 0; i < l->count; i++) {
        const struct ss_ticket *t = purged(a, &l->tickets[i], &room);
        n += t != NULL;
        if (t != NULL && one != NULL)
            one(a, l, t);
    }
    return n;
}

/* The first in *FRONT, and when the soonest ends; false: nobody is there. */
static bool front_of(const struct ss_at *a, const struct ss_line *l, struct ss_ticket *front,
                     int64_t *soonest)
{
    bool any = unfolded(a, l, front);
    *soonest = any ? ss_end_of(a, front) : INT64_MAX;
    for (size_t i = 0; i < l->count; i++) {
        struct ss_ticket room;
        const struct ss_ticket *t = purged(a, &l->tickets[i], &room);
        if (t == NULL)
            continue;
        if (!any)
            *front = *t;
        any = true;
        if (ss_end_of(a, t) < *soonest)
            *soonest = ss_end_of(a, t);
    }
    return any;
}

void ss_do_front(struct ss_at *a)
{
    struct ss_ticket t;
    int64_t soonest;
    if (a->l != NULL && front_of(a, a->l, &t, &soonest))
        SS_ROW_OF(a, ss_number(t.number), ss_number(t.granted),
                  ss_number((int64_t)each(a, a->l, NULL)), ss_number(t.mode), ss_number(t.of),
                  ss_words(t.value), ss_words(ss_label_of(a, &t)), ss_left(soonest));
}

static void show(const struct ss_at *a, const struct ss_line *l, const struct ss_ticket *t)
{
    if (a->step->args[0].null && t->session != ss_num(a, 1))
        return;
    SS_ROW_OF(a, ss_words(l->name), ss_number(t->number), ss_number(t->durable ? 0 : t->session),
              ss_number(t->owner), ss_number(t->mode), ss_number(t->take), ss_number(t->of),
              ss_number(t->granted), ss_number(t->durable), ss_number(t->flags),
              ss_number(a->now - t->since), ss_left(ss_end_of(a, t)), ss_words(t->value),
              ss_words(ss_label_of(a, t)));
}

void ss_do_inspect(struct ss_at *a)
{
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++)
        if (a->step->args[0].null || l == a->l)
            (void)each(a, l, show);
}

void ss_do_list(struct ss_at *a)
{
    const struct rt_sql_cell *prefix = a->step->args;
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++) {
        size_t n = each(a, l, NULL), waiting = 0;
        for (size_t i = 0; i < l->count; i++)
            waiting += !l->tickets[i].granted && !ss_over(a->s, &l->tickets[i], a->now);
        if (n > 0 && strncmp(l->name, prefix->text, prefix->size) == 0)
            SS_ROW_OF(a, ss_words(l->name), ss_number((int64_t)n),
                      ss_number((int64_t)(n - waiting)));
    }
}
