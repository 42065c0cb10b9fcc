/* SPDX-License-Identifier: Apache-2.0 */
/* What each step of engine/sql/driver.h does to the rows. */
#include "core/grant.h"
#include "sim/sql/store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE (INT64_C(1) << 62)

struct at { /* the step that runs */
    struct ss_flight *f;
    struct ss_store *s;
    const struct rt_sql_step *step;
    size_t index;
    int64_t now;
    struct ss_line *l; /* of the first argument, if it names one that is there */
};

/* ---- Arguments and rows ------------------------------------------------------------------------------------------- */

static int64_t num(const struct at *a, size_t i)
{
    assert(i < a->step->count && a->step->args[i].text == NULL && !a->step->args[i].null);
    return a->step->args[i].number;
}

static void text(const struct at *a, size_t i, char out[SS_TEXT_MAX])
{
    const struct rt_sql_cell *c = &a->step->args[i];
    size_t n = c->null ? 0 : c->size < SS_TEXT_MAX - 1 ? c->size : SS_TEXT_MAX - 1;
    assert(i < a->step->count && (c->null || c->text != NULL));
    if (n > 0)
        memcpy(out, c->text, n);
    out[n] = '\0';
}

static struct rt_sql_cell number(int64_t n)
{
    return (struct rt_sql_cell){.number = n};
}

static struct rt_sql_cell words(const char *t)
{
    return (struct rt_sql_cell){.text = t, .size = strlen(t)};
}

static const struct rt_sql_cell nothing = {.null = true};

static struct rt_sql_cell left(int64_t us)
{
    return us == INT64_MAX ? nothing : number(us > 0 ? us : 0);
}

#define ROW(a, ...)                                                            \
    (a)->f->row((a)->f, (a)->index, (const struct rt_sql_cell[]){__VA_ARGS__}, \
                sizeof((const struct rt_sql_cell[]){__VA_ARGS__}) / sizeof(struct rt_sql_cell))

static void changed(const struct at *a, uint64_t count)
{
    a->f->changed(a->f, a->index, count);
}

/* ---- Telling ------------------------------------------------------------------------------------------------------ */

void ss_channel_of_bell(char out[SS_CHANNEL], int64_t bell)
{
    snprintf(out, SS_CHANNEL, "rota_%016llx", (unsigned long long)bell);
}

/* Any hash does: nobody outside reads it. */
void ss_channel_of_line(char out[SS_CHANNEL], const char *name, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    snprintf(out, SS_CHANNEL, "rota_o%016llx%016llx", (unsigned long long)hash,
             (unsigned long long)~hash);
}

static void tell(const struct at *a, const struct ss_line *l, const struct ss_ticket *t, char kind)
{
    char channel[SS_CHANNEL], words[SS_TEXT_MAX + 32];
    ss_channel_of_bell(channel, t->bell);
    snprintf(words, sizeof(words), "%lld %c %s", (long long)t->number, kind, l->name);
    a->f->notify(a->f, channel, words);
}

/* ---- Lines as they are -------------------------------------------------------------------------------------------- */

static struct ss_ticket *by_number(struct ss_line *l, int64_t session, int64_t number)
{
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].number == number && l->tickets[i].session == session)
            return &l->tickets[i];
    return NULL;
}

static struct ss_ticket *by_nonce(struct ss_line *l, int64_t session, int64_t nonce)
{
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].nonce == nonce && l->tickets[i].session == session)
            return &l->tickets[i];
    return NULL;
}

static const char *label_of(const struct at *a, const struct ss_ticket *t)
{
    const struct ss_session *s = t->durable ? NULL : ss_session(a->s, t->session);
    return s != NULL ? s->label : t->label;
}

static bool is_wanted(const struct ss_line *l, const struct ss_ticket *t)
{
    return t->granted && t->flags & RT_SQL_ARMED && l->waiting > 0;
}

/* When T may end by time, from now on; INT64_MAX: never. */
static int64_t end_of(const struct at *a, const struct ss_ticket *t)
{
    const struct ss_session *s = t->durable ? NULL : ss_session(a->s, t->session);
    if (t->durable)
        return t->until != 0 ? t->until - a->now : INT64_MAX;
    return s != NULL ? s->expires - a->now : 0;
}

/* What T waits for: of all granted ones if nobody waits ahead of it, else of the one ahead. */
static int64_t left_of(const struct at *a, const struct ss_line *l, const struct ss_ticket *t)
{
    int64_t soonest = INT64_MAX;
    if (t->granted)
        return INT64_MAX;
    if (t > l->tickets && !t[-1].granted)
        return end_of(a, &t[-1]);
    for (const struct ss_ticket *o = l->tickets; o < t; o++) {
        int64_t end = end_of(a, o);
        soonest = end < soonest ? end : soonest;
    }
    return soonest;
}

/* Any of several that hold permits may let T in: there is no one bell for that. */
static struct rt_sql_cell bell_ahead(const struct ss_line *l, const struct ss_ticket *t)
{
    bool several = t > l->tickets + 1 && t[-1].granted && t->mode == RT_PERMITS;
    return t > l->tickets ? number(several ? 0 : t[-1].bell) : nothing;
}

/* ---- The server --------------------------------------------------------------------------------------------------- */

static void do_facts(struct at *a)
{
    ROW(a, number(150000), words("a model"), number(a->f->writable), number(a->f->backend),
        words(""), words(""), words(a->f->who), number(a->now), number(a->f->most - a->now));
}

static void do_layout(struct at *a)
{
    ROW(a, words("1.0"), words(a->s->server));
}

static void do_here(struct at *a)
{
    text(a, 0, a->s->server);
}

static void do_make(struct at *a)
{
    a->s->made = true;
}

static void do_doctor(struct at *a)
{
    ROW(a, words("a model"), words("kept"), words(""), words(""));
}

/* ---- Sessions ----------------------------------------------------------------------------------------------------- */

static void do_open(struct at *a)
{
    if (ss_session(a->s, num(a, 0)) != NULL)
        return;
    struct ss_session *s = ss_session_add(a->s, num(a, 0));
    s->expires = a->now + num(a, 1);
    text(a, 2, s->label);
    ROW(a, number(s->expires));
}

static void do_renew(struct at *a)
{
    struct ss_session *s = ss_session(a->s, num(a, 0));
    int64_t ttl = num(a, 1);
    bool lives = s != NULL && s->expires > a->now;
    if (lives && s->expires < a->now + ttl)
        s->expires = a->now + ttl;
    if (lives && s->expires > a->now + 3 * ttl)
        s->expires = a->now + 3 * ttl;
    if (lives)
        ROW(a, number(s->expires));
}

static void do_end(struct at *a)
{
    struct ss_session *s = ss_session(a->s, num(a, 0));
    bool goes = s != NULL && !ss_has_rows(a->s, s->id);
    if (goes)
        ss_session_drop(a->s, s);
    changed(a, goes);
}

static void do_mine(struct at *a)
{
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++)
        for (const struct ss_ticket *t = l->tickets; t < l->tickets + l->count; t++)
            if (t->session == num(a, 0) && !t->durable)
                ROW(a, words(l->name), number(t->number), number(t->nonce), number(t->granted),
                    number(is_wanted(l, t)));
}

static void do_folded(struct at *a)
{
    if (a->l != NULL && a->l->folded && a->l->session == num(a, 1))
        ROW(a, number(a->l->fence), number(a->l->nonce));
}

static void do_dead(struct at *a)
{
    int64_t most = num(a, 0);
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count && most > 0;
         l++) {
        bool any = false;
        for (size_t i = 0; i < l->count; i++)
            any = any || ss_over(a->s, &l->tickets[i], a->now);
        most -= any;
        if (any)
            ROW(a, words(l->name));
    }
}

static void do_bury(struct at *a)
{
    int64_t most = num(a, 0);
    for (size_t i = a->s->session_count; i-- > 0 && most > 0;) {
        struct ss_session *s = &a->s->sessions[i];
        if (s->expires > a->now || ss_has_rows(a->s, s->id))
            continue;
        ss_session_drop(a->s, s);
        most--;
    }
    changed(a, (uint64_t)(num(a, 0) - most));
}

static void do_idle(struct at *a)
{
    int64_t before = a->now - num(a, 0), most = num(a, 1);
    for (size_t i = a->s->line_count; i-- > 0 && most > 0;) {
        struct ss_line *l = &a->s->lines[i];
        bool empty = l->count == 0 && (!l->folded || !ss_alive(a->s, l->session, a->now));
        if (!empty || l->since >= before || l->fence >= before || l->watched >= before)
            continue;
        ss_line_drop(a->s, l);
        most--;
    }
    changed(a, (uint64_t)(num(a, 1) - most));
}

/* ---- Folded lines -------------------------------------------------------------------------------------------------- */

static int64_t next_number(const struct ss_line *l, int64_t now)
{
    return l->fence + 1 > now ? l->fence + 1 : now;
}

static bool fails(const struct at *a)
{
    return a->f->fails != NULL && a->f->fails(a->f);
}

static void do_take(struct at *a)
{
    const struct rt_sql_cell *name = a->step->args;
    if (num(a, 6) <= a->now || fails(a)) /* the session itself may not be looked at */
        return;
    if (a->l != NULL && (a->l->folded || a->l->count > 0 || a->l->watched > a->now))
        return;
    struct ss_line *l = ss_line_get(a->s, name->text, name->size, a->now);
    l->fence = next_number(l, a->now);
    l->folded = true;
    l->session = num(a, 1);
    l->nonce = num(a, 2);
    l->owner = num(a, 3);
    l->flags = num(a, 4);
    l->bell = num(a, 5);
    l->since = a->now;
    ROW(a, number(l->fence));
}

static bool is_folded_so(const struct at *a)
{
    return a->l != NULL && a->l->folded && a->l->session == num(a, 1) && a->l->fence == num(a, 2);
}

static void do_give(struct at *a)
{
    bool gives = is_folded_so(a) && a->l->watched <= a->now && !fails(a);
    if (gives)
        a->l->folded = false;
    changed(a, gives);
}

static void do_verify(struct at *a)
{
    if (is_folded_so(a) && ss_alive(a->s, num(a, 1), a->now))
        ROW(a, number(1));
}

/* ---- Under the lock ------------------------------------------------------------------------------------------------ */

static void do_lock(struct at *a)
{
    const struct rt_sql_cell *name = a->step->args;
    a->l = ss_line_get(a->s, name->text, name->size, a->now);
    a->l->turn = num(a, 1);
}

static void do_unfold(struct at *a)
{
    struct ss_line *l = a->l;
    if (!l->folded)
        return;
    l->folded = false;
    if (!ss_alive(a->s, l->session, a->now))
        return;
    struct ss_ticket *t = ss_ticket_add(l);
    t->number = l->fence;
    t->session = l->session;
    t->nonce = l->nonce;
    t->owner = l->owner;
    t->flags = l->flags;
    t->since = l->since;
    t->bell = l->bell;
    t->weight = WHOLE;
    t->granted = true;
}

/* T keeps its line taken, as nobody's. */
static bool keeps(const struct at *a, struct ss_ticket *t)
{
    int64_t until = (t->since < a->now ? t->since : a->now) + t->at_least;
    if (!t->granted || t->at_least == 0 || until <= a->now)
        return false;
    const struct ss_session *s = t->durable ? NULL : ss_session(a->s, t->session);
    if (s != NULL)
        memcpy(t->label, s->label, sizeof(t->label));
    t->durable = true;
    t->session = t->nonce = t->owner = t->bell = 0;
    t->until = until;
    return true;
}

static void do_purge(struct at *a)
{
    for (size_t i = a->l->count; i-- > 0;) {
        struct ss_ticket *t = &a->l->tickets[i];
        if (ss_over(a->s, t, a->now) && (t->durable || !keeps(a, t)))
            ss_ticket_drop(a->l, t);
    }
}

static void do_settle(struct at *a)
{
    struct rt_grant g;
    rt_grant_init(&g, a->l->waiting);
    for (struct ss_ticket *t = a->l->tickets; t < a->l->tickets + a->l->count; t++) {
        if (rt_grant_next(&g, t->mode, t->take, t->of, t->granted) == RT_GRANT_WAITS)
            return;
        if (t->granted)
            continue;
        t->granted = true;
        t->since = a->now;
        a->l->waiting--;
        tell(a, a->l, t, 'G');
    }
}

static void do_tell(struct at *a)
{
    char channel[SS_CHANNEL];
    if (a->l->watched <= a->now)
        return;
    ss_channel_of_line(channel, a->l->name, strlen(a->l->name));
    a->f->notify(a->f, channel, a->l->name);
}

struct wish { /* what GATE and JOIN judge by */
    int64_t session, nonce, weight;
    uint32_t mode, of;
    bool try, durable;
};

static bool fits(const struct ss_line *l, const struct wish *w)
{
    int64_t ahead = 0, most = w->mode == RT_PERMITS ? w->of : WHOLE;
    if (w->mode == RT_COUNT)
        return true;
    if (w->mode == RT_GATHER)
        return l->waiting + 1 == w->of;
    for (size_t i = 0; i < l->count; i++)
        ahead = ahead > WHOLE - l->tickets[i].weight ? WHOLE : ahead + l->tickets[i].weight;
    return l->waiting == 0 && ahead <= most - w->weight;
}

static bool may_join(const struct at *a, const struct wish *w)
{
    for (const struct ss_ticket *t = a->l->tickets; t < a->l->tickets + a->l->count; t++)
        if (!rt_grant_same_kind(t->mode, t->of, w->mode, w->of))
            return false;
    if (by_nonce(a->l, w->session, w->nonce) != NULL)
        return false;
    if (!w->durable && !ss_alive(a->s, w->session, a->now))
        return false;
    return !w->try || fits(a->l, w);
}

static void do_gate(struct at *a)
{
    struct wish w = {
        .session = num(a, 1),
        .nonce = num(a, 2),
        .mode = (uint32_t)num(a, 3),
        .of = (uint32_t)num(a, 4),
        .weight = num(a, 5),
        .try = num(a, 6) != 0,
        .durable = num(a, 7) != 0,
    };
    a->f->gate += may_join(a, &w);
}

enum {
    NAME,
    SESSION,
    NONCE,
    OWNER,
    MODE,
    TAKE,
    OF,
    WEIGHT,
    FLAGS,
    AT_LEAST,
    UNTIL,
    DURABLE,
    TRY,
    VALUE,
    LABEL,
    BELL,
    GATE
};

/* A barrier's last one is granted by SETTLE, with the others. */
static void add(struct at *a, const struct wish *w, bool granted)
{
    struct ss_ticket *t = ss_ticket_add(a->l);
    t->number = a->l->fence = next_number(a->l, a->now);
    t->session = w->session;
    t->nonce = w->nonce;
    t->owner = num(a, OWNER);
    t->mode = w->mode;
    t->take = (uint32_t)num(a, TAKE);
    t->of = w->of;
    t->weight = w->weight;
    t->flags = num(a, FLAGS);
    t->at_least = num(a, AT_LEAST);
    t->until = num(a, UNTIL) != 0 ? a->now + num(a, UNTIL) : 0;
    t->durable = w->durable;
    t->since = a->now;
    t->bell = num(a, BELL);
    text(a, VALUE, t->value);
    text(a, LABEL, t->label);
    t->granted = granted;
    a->l->waiting += !granted;
}

static void do_join(struct at *a)
{
    struct wish w = {
        .session = num(a, SESSION),
        .nonce = num(a, NONCE),
        .mode = (uint32_t)num(a, MODE),
        .of = (uint32_t)num(a, OF),
        .weight = num(a, WEIGHT),
        .try = num(a, TRY) != 0,
        .durable = num(a, DURABLE) != 0,
    };
    bool goes = (num(a, GATE) == 0 || a->f->gate == num(a, GATE)) && may_join(a, &w);
    if (goes)
        add(a, &w, w.mode != RT_GATHER && fits(a->l, &w));
    changed(a, goes);
}

static void do_want(struct at *a)
{
    for (size_t i = 0; a->l->waiting == 1 && i < a->l->count; i++)
        if (is_wanted(a->l, &a->l->tickets[i]))
            tell(a, a->l, &a->l->tickets[i], 'W');
}

static void do_answer(struct at *a)
{
    const struct ss_ticket *t = by_nonce(a->l, num(a, 1), num(a, 2));
    const struct ss_ticket *front = a->l->count > 0 ? a->l->tickets : NULL;
    ROW(a, number(ss_alive(a->s, num(a, 1), a->now)), t != NULL ? number(t->number) : nothing,
        t != NULL ? number(t->granted) : nothing, number(t != NULL && is_wanted(a->l, t)),
        front != NULL ? number(front->mode) : nothing, front != NULL ? number(front->of) : nothing,
        front != NULL ? words(label_of(a, front)) : nothing,
        t != NULL ? left(left_of(a, a->l, t)) : nothing, t != NULL ? bell_ahead(a->l, t) : nothing);
}

static void do_leave(struct at *a)
{
    struct ss_ticket *t = num(a, 2) != 0 ? by_number(a->l, num(a, 1), num(a, 2))
                                         : by_nonce(a->l, num(a, 1), num(a, 3));
    if (t == NULL)
        return;
    ROW(a, number(t->granted));
    if (num(a, 4) == 0 || !keeps(a, t))
        ss_ticket_drop(a->l, t);
}

bool ss_may_pass(const struct ss_store *s, const struct rt_sql_step *step, int64_t now)
{
    struct ss_line *l = ss_line(s, step->args[0].text, step->args[0].size);
    const struct ss_ticket *t = by_number(l, step->args[2].number, step->args[3].number);
    if (t == NULL || !t->granted || t->mode != RT_EXCLUSIVE || t->durable || t->at_least != 0 ||
        l->count != l->waiting + 1)
        return false;
    const struct ss_ticket *next = l->tickets + (t == l->tickets);
    return l->count == 1 ||
           (next->mode == RT_EXCLUSIVE && !next->durable && ss_alive(s, next->session, now));
}

static void do_pass(struct at *a)
{
    bool passes = ss_may_pass(a->s, a->step, a->now);
    do_lock(a);
    changed(a, passes);
    if (!passes)
        return;
    ss_ticket_drop(a->l, by_number(a->l, num(a, 2), num(a, 3)));
    if (a->l->count > 0) {
        struct ss_ticket *t = a->l->tickets;
        t->granted = true;
        t->since = a->now;
        a->l->waiting--;
        tell(a, a->l, t, 'G');
    }
}

static void do_change(struct at *a)
{
    struct ss_ticket *t = by_number(a->l, num(a, 1), num(a, 2));
    if (t == NULL || !t->granted) {
        changed(a, 0);
        return;
    }
    if (num(a, 3) != 0 && t->mode == RT_EXCLUSIVE) {
        t->mode = RT_SHARED;
        t->weight = 1;
    }
    if (num(a, 4) != 0)
        text(a, 5, t->value);
    t->flags |= num(a, 6);
    changed(a, 1);
}

static void do_state(struct at *a)
{
    const struct ss_ticket *t = by_number(a->l, num(a, 1), num(a, 2));
    if (t != NULL)
        ROW(a, number(t->granted), number(t->mode), number(is_wanted(a->l, t)));
}

static void do_break(struct at *a)
{
    uint64_t count = 0;
    for (size_t i = a->l->count; i-- > 0;) {
        struct ss_ticket *t = &a->l->tickets[i];
        bool all = num(a, 1) == 0 && t->durable && t->mode == num(a, 2);
        if (!all && t->number != num(a, 1))
            continue;
        if (!t->durable)
            tell(a, a->l, t, 'L');
        ss_ticket_drop(a->l, t);
        count++;
    }
    changed(a, count);
}

static void do_watch(struct at *a)
{
    const struct rt_sql_cell *name = a->step->args;
    struct ss_line *l = ss_line_get(a->s, name->text, name->size, a->now);
    if (l->watched < a->now + num(a, 1))
        l->watched = a->now + num(a, 1);
}

/* ---- Looking ------------------------------------------------------------------------------------------------------ */

static void do_look(struct at *a)
{
    const struct ss_ticket *t = by_number(a->l, num(a, 1), num(a, 2));
    if (t != NULL && !ss_over(a->s, t, a->now))
        ROW(a, number(t->granted), left(left_of(a, a->l, t)), bell_ahead(a->l, t));
}

/* A folded ticket as the row it would be; false: there is none, or it is dead. */
static bool unfolded(const struct at *a, const struct ss_line *l, struct ss_ticket *t)
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

/* T as PURGE would leave it, made in *ROOM if need be; or NULL. */
static const struct ss_ticket *purged(const struct at *a, const struct ss_ticket *t,
                                      struct ss_ticket *room)
{
    if (!ss_over(a->s, t, a->now))
        return t;
    *room = *t;
    return !t->durable && keeps(a, room) ? room : NULL;
}

/* EACH of the line's tickets that live, front first. */
static size_t each(const struct at *a, const struct ss_line *l,
                   void (*one)(const struct at *a, const struct ss_line *l,
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
static bool front_of(const struct at *a, const struct ss_line *l, struct ss_ticket *front,
                     int64_t *soonest)
{
    bool any = unfolded(a, l, front);
    *soonest = any ? end_of(a, front) : INT64_MAX;
    for (size_t i = 0; i < l->count; i++) {
        struct ss_ticket room;
        const struct ss_ticket *t = purged(a, &l->tickets[i], &room);
        if (t == NULL)
            continue;
        if (!any)
            *front = *t;
        any = true;
        if (end_of(a, t) < *soonest)
            *soonest = end_of(a, t);
    }
    return any;
}

static void do_front(struct at *a)
{
    struct ss_ticket t;
    int64_t soonest;
    if (a->l != NULL && front_of(a, a->l, &t, &soonest))
        ROW(a, number(t.number), number(t.granted), number((int64_t)each(a, a->l, NULL)),
            number(t.mode), number(t.of), words(t.value), words(label_of(a, &t)), left(soonest));
}

static void show(const struct at *a, const struct ss_line *l, const struct ss_ticket *t)
{
    if (a->step->args[0].null && t->session != num(a, 1))
        return;
    ROW(a, words(l->name), number(t->number), number(t->durable ? 0 : t->session), number(t->owner),
        number(t->mode), number(t->take), number(t->of), number(t->granted), number(t->durable),
        number(t->flags), number(a->now - t->since), left(end_of(a, t)), words(t->value),
        words(label_of(a, t)));
}

static void do_inspect(struct at *a)
{
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++)
        if (a->step->args[0].null || l == a->l)
            (void)each(a, l, show);
}

static void do_list(struct at *a)
{
    const struct rt_sql_cell *prefix = a->step->args;
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++) {
        size_t n = each(a, l, NULL), waiting = 0;
        for (size_t i = 0; i < l->count; i++)
            waiting += !l->tickets[i].granted && !ss_over(a->s, &l->tickets[i], a->now);
        if (n > 0 && strncmp(l->name, prefix->text, prefix->size) == 0)
            ROW(a, words(l->name), number((int64_t)n), number((int64_t)(n - waiting)));
    }
}

/* ---- Hearing ------------------------------------------------------------------------------------------------------ */

static void do_listen(struct at *a)
{
    char channel[SS_CHANNEL];
    enum rt_sql_step_kind kind = a->step->kind;
    if (kind == RT_SQL_LISTEN || kind == RT_SQL_UNLISTEN)
        ss_channel_of_bell(channel, num(a, 0));
    else
        ss_channel_of_line(channel, a->step->args[0].text, a->step->args[0].size);
    a->f->listen(a->f, channel, kind == RT_SQL_LISTEN || kind == RT_SQL_LISTEN_LINE);
}

/* Who waits for one has waited before (server.c). */
static void do_bell(struct at *a)
{
    if (a->step->kind != RT_SQL_BELL_WAIT)
        a->f->bell(a->f, num(a, 0), a->step->kind == RT_SQL_BELL_TAKE);
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static const struct {
    void (*run)(struct at *a);
    uint32_t args;
    bool locked; /* its line was locked before, in this flight */
} table[RT_SQL_STEPS] = {
    [RT_SQL_FACTS] = {do_facts, 0, false},
    [RT_SQL_LAYOUT] = {do_layout, 0, false},
    [RT_SQL_MAKE] = {do_make, 0, false},
    [RT_SQL_HERE] = {do_here, 1, false},
    [RT_SQL_OPEN] = {do_open, 3, false},
    [RT_SQL_RENEW] = {do_renew, 2, false},
    [RT_SQL_END] = {do_end, 1, false},
    [RT_SQL_MINE] = {do_mine, 1, false},
    [RT_SQL_FOLDED] = {do_folded, 2, false},
    [RT_SQL_DEAD] = {do_dead, 1, false},
    [RT_SQL_BURY] = {do_bury, 1, false},
    [RT_SQL_IDLE] = {do_idle, 2, false},
    [RT_SQL_TAKE] = {do_take, 7, false},
    [RT_SQL_GIVE] = {do_give, 3, false},
    [RT_SQL_VERIFY] = {do_verify, 3, false},
    [RT_SQL_LOCK] = {do_lock, 2, false},
    [RT_SQL_UNFOLD] = {do_unfold, 1, true},
    [RT_SQL_PURGE] = {do_purge, 1, true},
    [RT_SQL_SETTLE] = {do_settle, 1, true},
    [RT_SQL_TELL] = {do_tell, 1, true},
    [RT_SQL_GATE] = {do_gate, 8, true},
    [RT_SQL_JOIN] = {do_join, 17, true},
    [RT_SQL_WANT] = {do_want, 1, true},
    [RT_SQL_ANSWER] = {do_answer, 3, true},
    [RT_SQL_LEAVE] = {do_leave, 5, true},
    [RT_SQL_PASS] = {do_pass, 4, false},
    [RT_SQL_CHANGE] = {do_change, 7, true},
    [RT_SQL_STATE] = {do_state, 3, false},
    [RT_SQL_BREAK] = {do_break, 3, true},
    [RT_SQL_WATCH] = {do_watch, 2, false},
    [RT_SQL_LOOK] = {do_look, 3, false},
    [RT_SQL_FRONT] = {do_front, 1, false},
    [RT_SQL_INSPECT] = {do_inspect, 2, false},
    [RT_SQL_LIST] = {do_list, 1, false},
    [RT_SQL_DOCTOR] = {do_doctor, 0, false},
    [RT_SQL_LISTEN] = {do_listen, 1, false},
    [RT_SQL_UNLISTEN] = {do_listen, 1, false},
    [RT_SQL_LISTEN_LINE] = {do_listen, 1, false},
    [RT_SQL_UNLISTEN_LINE] = {do_listen, 1, false},
    [RT_SQL_BELL_TAKE] = {do_bell, 1, false},
    [RT_SQL_BELL_RING] = {do_bell, 1, false},
    [RT_SQL_BELL_WAIT] = {do_bell, 2, false},
};

static bool has_name(const struct rt_sql_step *step)
{
    return step->count > 0 && step->args[0].text != NULL;
}

static int compare(const struct rt_sql_cell *a, const struct rt_sql_cell *b)
{
    size_t n = a->size < b->size ? a->size : b->size;
    int c = memcmp(a->text, b->text, n);
    return c != 0 ? c : (a->size > b->size) - (a->size < b->size);
}

static bool locks(const struct rt_sql_step *step)
{
    return step->kind == RT_SQL_LOCK || step->kind == RT_SQL_PASS;
}

static bool is_locked(const struct rt_sql_step *steps, size_t before,
                      const struct rt_sql_cell *name)
{
    for (size_t i = 0; i < before; i++)
        if (locks(&steps[i]) && compare(&steps[i].args[0], name) == 0)
            return true;
    return false;
}

/* What the engine owes the server: arguments, locks first, and those in their order. */
static void check(const struct rt_sql_step *steps, size_t at)
{
    const struct rt_sql_step *step = &steps[at];
    assert((unsigned)step->kind < RT_SQL_STEPS && table[step->kind].run != NULL);
    assert(step->count == table[step->kind].args);
    assert(!table[step->kind].locked || is_locked(steps, at, step->args));
    assert(step->kind != RT_SQL_BELL_WAIT || at == 0); /* nothing is held while it waits */
    for (size_t i = 0; locks(step) && i < at; i++)
        assert(!locks(&steps[i]) || compare(&steps[i].args[0], &step->args[0]) < 0);
}

enum rt_sql_end ss_run(struct ss_flight *f, const struct rt_sql_step *steps, size_t count,
                       size_t *at)
{
    f->gate = 0;
    for (size_t i = 0; i < count; i++) {
        struct at a = {
            .f = f, .s = f->store, .step = &steps[i], .index = f->first + i, .now = f->now(f)};
        check(steps, i);
        *at = i;
        if (!f->store->made && steps[i].kind != RT_SQL_FACTS && steps[i].kind != RT_SQL_MAKE) {
            assert(i == 0 || steps[i - 1].kind == RT_SQL_FACTS);
            return RT_SQL_ABSENT;
        }
        if (has_name(&steps[i]))
            a.l = ss_line(f->store, steps[i].args[0].text, steps[i].args[0].size);
        table[steps[i].kind].run(&a);
    }
    return RT_SQL_LANDED;
}
