/* SPDX-License-Identifier: Apache-2.0 */
/* What each step of engine/sql/driver.h does to the rows. look.c has those that only look. */
#include "sim/sql/step.h"

#include "core/grant.h"

#include <stdio.h>
#include <stdlib.h>

#define WHOLE (INT64_C(1) << 62)

/* ---- Telling ------------------------------------------------------------------------------------------------------ */

void ss_channel_of_bell(char out[SS_CHANNEL], int64_t bell)
{
    snprintf(out, SS_CHANNEL, "rota_%016llx", (unsigned long long)bell);
}

/* Any hash will do: nobody outside reads it. */
void ss_channel_of_line(char out[SS_CHANNEL], const char *name, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    snprintf(out, SS_CHANNEL, "rota_o%016llx%016llx", (unsigned long long)hash,
             (unsigned long long)~hash);
}

static void tell(const struct ss_at *a, const struct ss_line *l, const struct ss_ticket *t,
                 char kind)
{
    char channel[SS_CHANNEL], words[SS_TEXT_MAX + 32];
    ss_channel_of_bell(channel, t->bell);
    snprintf(words, sizeof(words), "%lld %c %s", (long long)t->number, kind, l->name);
    a->f->notify(a->f, channel, words);
}

/* ---- The server --------------------------------------------------------------------------------------------------- */

static void do_facts(struct ss_at *a)
{
    SS_ROW_OF(a, ss_number(150000), ss_words("a model"), ss_number(a->f->writable),
              ss_number(a->f->backend), ss_words(""), ss_words(""), ss_words(a->f->who),
              ss_number(a->now), ss_number(a->f->most - a->now));
}

static void do_layout(struct ss_at *a)
{
    SS_ROW_OF(a, ss_words("1.0"), ss_words(a->s->server));
}

static void do_here(struct ss_at *a)
{
    ss_text(a, 0, a->s->server);
}

static void do_make(struct ss_at *a)
{
    a->s->made = true;
}

static void do_doctor(struct ss_at *a)
{
    SS_ROW_OF(a, ss_words("a model"), ss_words("kept"), ss_words(""), ss_words(""));
}

/* ---- Sessions ----------------------------------------------------------------------------------------------------- */

static void do_open(struct ss_at *a)
{
    if (ss_session(a->s, ss_num(a, 0)) != NULL)
        return;
    struct ss_session *s = ss_session_add(a->s, ss_num(a, 0));
    s->expires = a->now + ss_num(a, 1);
    ss_text(a, 2, s->label);
    SS_ROW_OF(a, ss_number(s->expires));
}

static void do_renew(struct ss_at *a)
{
    struct ss_session *s = ss_session(a->s, ss_num(a, 0));
    int64_t ttl = ss_num(a, 1);
    bool lives = s != NULL && s->expires > a->now;
    if (lives && s->expires < a->now + ttl)
        s->expires = a->now + ttl;
    if (lives && s->expires > a->now + 3 * ttl)
        s->expires = a->now + 3 * ttl;
    if (lives)
        SS_ROW_OF(a, ss_number(s->expires));
}

static void do_end(struct ss_at *a)
{
    struct ss_session *s = ss_session(a->s, ss_num(a, 0));
    bool goes = s != NULL && !ss_has_rows(a->s, s->id);
    if (goes)
        ss_session_drop(a->s, s);
    ss_changed(a, goes);
}

static void do_mine(struct ss_at *a)
{
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++)
        for (const struct ss_ticket *t = l->tickets; t < l->tickets + l->count; t++)
            if (t->session == ss_num(a, 0) && !t->durable)
                SS_ROW_OF(a, ss_words(l->name), ss_number(t->number), ss_number(t->nonce),
                          ss_number(t->granted), ss_number(ss_is_wanted(l, t)));
}

static void do_folded(struct ss_at *a)
{
    if (a->l != NULL && a->l->folded && a->l->session == ss_num(a, 1))
        SS_ROW_OF(a, ss_number(a->l->fence), ss_number(a->l->nonce));
}

static void do_dead(struct ss_at *a)
{
    int64_t most = ss_num(a, 0);
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count && most > 0;
         l++) {
        bool any = false;
        for (size_t i = 0; i < l->count; i++)
            any = any || ss_over(a->s, &l->tickets[i], a->now);
        most -= any;
        if (any)
            SS_ROW_OF(a, ss_words(l->name));
    }
}

static void do_bury(struct ss_at *a)
{
    int64_t most = ss_num(a, 0);
    for (size_t i = a->s->session_count; i-- > 0 && most > 0;) {
        struct ss_session *s = &a->s->sessions[i];
        if (s->expires > a->now || ss_has_rows(a->s, s->id))
            continue;
        ss_session_drop(a->s, s);
        most--;
    }
    ss_changed(a, (uint64_t)(ss_num(a, 0) - most));
}

static bool is_idle(const struct ss_at *a, const struct ss_line *l, int64_t before)
{
    return l->count == 0 && (!l->folded || !ss_alive(a->s, l->session, a->now)) &&
           l->since < before && l->fence < before && l->watched < before;
}

static void do_idle(struct ss_at *a)
{
    char after[SS_TEXT_MAX], last[SS_TEXT_MAX] = "";
    int64_t most = ss_num(a, 2);
    size_t i = 0;
    ss_text(a, 0, after);
    while (i < a->s->line_count && strcmp(a->s->lines[i].name, after) <= 0)
        i++;
    for (; i < a->s->line_count && most > 0; most--) {
        struct ss_line *l = &a->s->lines[i];
        memcpy(last, l->name, sizeof(last));
        if (is_idle(a, l, a->now - ss_num(a, 1)))
            ss_line_drop(a->s, l);
        else
            i++;
    }
    if (last[0] != '\0')
        SS_ROW_OF(a, ss_words(last));
}

static void do_strays(struct ss_at *a)
{
    int64_t most = ss_num(a, 0);
    for (const struct ss_line *l = a->s->lines; l < a->s->lines + a->s->line_count; l++)
        for (const struct ss_ticket *t = l->tickets; t < l->tickets + l->count && most > 0; t++)
            if (!t->durable && ss_session(a->s, t->session) == NULL) {
                SS_ROW_OF(a, ss_words(l->name));
                most--;
            }
}

#define SWEEPER_MOST_US INT64_C(7200000000) /* no time further ahead was written by this clock */

static bool is_free(const struct ss_at *a)
{
    int64_t left = a->s->sweeper.until - a->now;
    return left <= 0 || left > SWEEPER_MOST_US;
}

static void do_sweeper(struct ss_at *a)
{
    if (a->s->sweeper.known)
        SS_ROW_OF(a, ss_number(is_free(a) ? 0 : a->s->sweeper.until - a->now));
}

static void do_sweep(struct ss_at *a)
{
    if (!is_free(a) && a->s->sweeper.who != ss_num(a, 0))
        return;
    a->s->sweeper.known = true;
    a->s->sweeper.who = ss_num(a, 0);
    a->s->sweeper.until = a->now + ss_num(a, 1);
    SS_ROW_OF(a, ss_words(a->s->sweeper.after));
}

static void do_swept(struct ss_at *a)
{
    bool ours = a->s->sweeper.known && a->s->sweeper.who == ss_num(a, 0);
    if (ours) {
        a->s->sweeper.who = ss_num(a, 1);
        a->s->sweeper.until = a->now + ss_num(a, 2);
        ss_text(a, 3, a->s->sweeper.after);
    }
    ss_changed(a, ours);
}

/* ---- Folded lines -------------------------------------------------------------------------------------------------- */

static int64_t next_number(const struct ss_line *l, int64_t now)
{
    return l->fence + 1 > now ? l->fence + 1 : now;
}

static bool fails(const struct ss_at *a)
{
    return a->f->fails != NULL && a->f->fails(a->f);
}

static void do_take(struct ss_at *a)
{
    const struct rt_sql_cell *name = a->step->args;
    if (ss_num(a, 6) <= a->now || fails(a)) /* the session itself may not be looked at */
        return;
    if (a->l != NULL && (a->l->folded || a->l->count > 0 || a->l->watched > a->now))
        return;
    struct ss_line *l = ss_line_get(a->s, name->text, name->size, a->now);
    l->fence = next_number(l, a->now);
    l->folded = true;
    l->session = ss_num(a, 1);
    l->nonce = ss_num(a, 2);
    l->owner = ss_num(a, 3);
    l->flags = ss_num(a, 4);
    l->bell = ss_num(a, 5);
    l->since = a->now;
    SS_ROW_OF(a, ss_number(l->fence));
}

static bool is_folded_so(const struct ss_at *a)
{
    return a->l != NULL && a->l->folded && a->l->session == ss_num(a, 1) &&
           a->l->fence == ss_num(a, 2);
}

static void do_give(struct ss_at *a)
{
    bool ours = is_folded_so(a) && (ss_num(a, 3) == 0 || a->l->nonce == ss_num(a, 3));
    bool gives = ours && a->l->watched <= a->now && !fails(a);
    if (gives)
        a->l->folded = false;
    ss_changed(a, gives);
}

static void do_verify(struct ss_at *a)
{
    if (is_folded_so(a) && ss_alive(a->s, ss_num(a, 1), a->now))
        SS_ROW_OF(a, ss_number(1));
}

/* ---- Under the lock ------------------------------------------------------------------------------------------------ */

static void do_lock(struct ss_at *a)
{
    const struct rt_sql_cell *name = a->step->args;
    a->l = ss_line_get(a->s, name->text, name->size, a->now);
}

static void do_unfold(struct ss_at *a)
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

bool ss_keeps(const struct ss_at *a, struct ss_ticket *t)
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

static void do_purge(struct ss_at *a)
{
    for (size_t i = a->l->count; i-- > 0;) {
        struct ss_ticket *t = &a->l->tickets[i];
        if (ss_over(a->s, t, a->now) && (t->durable || !ss_keeps(a, t)))
            ss_ticket_drop(a->l, t);
    }
}

static void do_settle(struct ss_at *a)
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

static void do_tell(struct ss_at *a)
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

static bool may_join(const struct ss_at *a, const struct wish *w)
{
    for (const struct ss_ticket *t = a->l->tickets; t < a->l->tickets + a->l->count; t++)
        if (!rt_grant_same_kind(t->mode, t->of, w->mode, w->of))
            return false;
    if (ss_by_nonce(a->l, w->session, w->nonce) != NULL)
        return false;
    if (!w->durable && !ss_alive(a->s, w->session, a->now))
        return false;
    return !w->try || fits(a->l, w);
}

static void do_gate(struct ss_at *a)
{
    struct wish w = {
        .session = ss_num(a, 1),
        .nonce = ss_num(a, 2),
        .mode = (uint32_t)ss_num(a, 3),
        .of = (uint32_t)ss_num(a, 4),
        .weight = ss_num(a, 5),
        .try = ss_num(a, 6) != 0,
        .durable = ss_num(a, 7) != 0,
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
static void add(struct ss_at *a, const struct wish *w, bool granted)
{
    struct ss_ticket *t = ss_ticket_add(a->l);
    t->number = a->l->fence = next_number(a->l, a->now);
    t->session = w->session;
    t->nonce = w->nonce;
    t->owner = ss_num(a, OWNER);
    t->mode = w->mode;
    t->take = (uint32_t)ss_num(a, TAKE);
    t->of = w->of;
    t->weight = w->weight;
    t->flags = ss_num(a, FLAGS);
    t->at_least = ss_num(a, AT_LEAST);
    t->until = ss_num(a, UNTIL) != 0 ? a->now + ss_num(a, UNTIL) : 0;
    t->durable = w->durable;
    t->since = a->now;
    t->bell = ss_num(a, BELL);
    ss_text(a, VALUE, t->value);
    ss_text(a, LABEL, t->label);
    t->granted = granted;
    a->l->waiting += !granted;
}

static void do_join(struct ss_at *a)
{
    struct wish w = {
        .session = ss_num(a, SESSION),
        .nonce = ss_num(a, NONCE),
        .mode = (uint32_t)ss_num(a, MODE),
        .of = (uint32_t)ss_num(a, OF),
        .weight = ss_num(a, WEIGHT),
        .try = ss_num(a, TRY) != 0,
        .durable = ss_num(a, DURABLE) != 0,
    };
    bool goes = (ss_num(a, GATE) == 0 || a->f->gate == ss_num(a, GATE)) && may_join(a, &w);
    if (goes)
        add(a, &w, w.mode != RT_GATHER && fits(a->l, &w));
    ss_changed(a, goes);
}

static void do_want(struct ss_at *a)
{
    for (size_t i = 0; a->l->waiting == 1 && i < a->l->count; i++)
        if (ss_is_wanted(a->l, &a->l->tickets[i]))
            tell(a, a->l, &a->l->tickets[i], 'W');
}

static void do_answer(struct ss_at *a)
{
    const struct ss_ticket *t = ss_by_nonce(a->l, ss_num(a, 1), ss_num(a, 2));
    const struct ss_ticket *front = a->l->count > 0 ? a->l->tickets : NULL;
    SS_ROW_OF(a, ss_number(ss_alive(a->s, ss_num(a, 1), a->now)),
              t != NULL ? ss_number(t->number) : SS_NOTHING,
              t != NULL ? ss_number(t->granted) : SS_NOTHING,
              ss_number(t != NULL && ss_is_wanted(a->l, t)),
              front != NULL ? ss_number(front->mode) : SS_NOTHING,
              front != NULL ? ss_number(front->of) : SS_NOTHING,
              front != NULL ? ss_words(ss_label_of(a, front)) : SS_NOTHING,
              t != NULL ? ss_left(ss_left_of(a, a->l, t)) : SS_NOTHING,
              t != NULL ? ss_bell_ahead(a->l, t) : SS_NOTHING);
}

static void do_leave(struct ss_at *a)
{
    struct ss_ticket *t = ss_num(a, 2) != 0 ? ss_by_number(a->l, ss_num(a, 1), ss_num(a, 2))
                                            : ss_by_nonce(a->l, ss_num(a, 1), ss_num(a, 3));
    if (t == NULL || (ss_num(a, 3) != 0 && t->nonce != ss_num(a, 3)))
        return;
    SS_ROW_OF(a, ss_number(t->granted));
    if (ss_num(a, 4) == 0 || !ss_keeps(a, t))
        ss_ticket_drop(a->l, t);
}

bool ss_may_pass(const struct ss_store *s, const struct rt_sql_step *step, int64_t now)
{
    struct ss_line *l = ss_line(s, step->args[0].text, step->args[0].size);
    const struct ss_ticket *t = ss_by_number(l, step->args[1].number, step->args[2].number);
    bool ours = t != NULL && (step->args[3].number == 0 || t->nonce == step->args[3].number);
    if (!ours || !t->granted || t->mode != RT_EXCLUSIVE || t->durable || t->at_least != 0 ||
        l->count != l->waiting + 1)
        return false;
    const struct ss_ticket *next = l->tickets + (t == l->tickets);
    return l->count == 1 ||
           (next->mode == RT_EXCLUSIVE && !next->durable && ss_alive(s, next->session, now));
}

static void do_pass(struct ss_at *a)
{
    bool passes = ss_may_pass(a->s, a->step, a->now);
    do_lock(a);
    ss_changed(a, passes);
    if (!passes)
        return;
    ss_ticket_drop(a->l, ss_by_number(a->l, ss_num(a, 1), ss_num(a, 2)));
    if (a->l->count > 0) {
        struct ss_ticket *t = a->l->tickets;
        t->granted = true;
        t->since = a->now;
        a->l->waiting--;
        tell(a, a->l, t, 'G');
    }
}

static void do_change(struct ss_at *a)
{
    struct ss_ticket *t = ss_by_number(a->l, ss_num(a, 1), ss_num(a, 2));
    if (t == NULL || !t->granted) {
        ss_changed(a, 0);
        return;
    }
    if (ss_num(a, 3) != 0 && t->mode == RT_EXCLUSIVE) {
        t->mode = RT_SHARED;
        t->weight = 1;
    }
    if (ss_num(a, 4) != 0)
        ss_text(a, 5, t->value);
    t->flags |= ss_num(a, 6);
    ss_changed(a, 1);
}

static void do_state(struct ss_at *a)
{
    const struct ss_ticket *t = ss_by_number(a->l, ss_num(a, 1), ss_num(a, 2));
    if (t != NULL)
        SS_ROW_OF(a, ss_number(t->granted), ss_number(t->mode), ss_number(ss_is_wanted(a->l, t)));
}

static void do_break(struct ss_at *a)
{
    uint64_t count = 0;
    for (size_t i = a->l->count; i-- > 0;) {
        struct ss_ticket *t = &a->l->tickets[i];
        bool all = ss_num(a, 1) == 0 && t->durable && t->mode == ss_num(a, 2);
        if (!all && t->number != ss_num(a, 1))
            continue;
        if (!t->durable)
            tell(a, a->l, t, 'L');
        ss_ticket_drop(a->l, t);
        count++;
    }
    ss_changed(a, count);
}

static void do_watch(struct ss_at *a)
{
    const struct rt_sql_cell *name = a->step->args;
    struct ss_line *l = ss_line_get(a->s, name->text, name->size, a->now);
    if (l->watched < a->now + ss_num(a, 1))
        l->watched = a->now + ss_num(a, 1);
}

/* ---- Hearing ------------------------------------------------------------------------------------------------------ */

static void do_listen(struct ss_at *a)
{
    char channel[SS_CHANNEL];
    enum rt_sql_step_kind kind = a->step->kind;
    if (kind == RT_SQL_LISTEN || kind == RT_SQL_UNLISTEN)
        ss_channel_of_bell(channel, ss_num(a, 0));
    else
        ss_channel_of_line(channel, a->step->args[0].text, a->step->args[0].size);
    a->f->listen(a->f, channel, kind == RT_SQL_LISTEN || kind == RT_SQL_LISTEN_LINE);
}

/* Whoever waits for one has already waited (server.c). */
static void do_bell(struct ss_at *a)
{
    if (a->step->kind != RT_SQL_BELL_WAIT)
        a->f->bell(a->f, ss_num(a, 0), a->step->kind == RT_SQL_BELL_TAKE);
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static const struct {
    void (*run)(struct ss_at *a);
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
    [RT_SQL_IDLE] = {do_idle, 3, false},
    [RT_SQL_STRAYS] = {do_strays, 1, false},
    [RT_SQL_SWEEPER] = {do_sweeper, 0, false},
    [RT_SQL_SWEEP] = {do_sweep, 2, false},
    [RT_SQL_SWEPT] = {do_swept, 4, false},
    [RT_SQL_TAKE] = {do_take, 7, false},
    [RT_SQL_GIVE] = {do_give, 4, false},
    [RT_SQL_VERIFY] = {do_verify, 3, false},
    [RT_SQL_LOCK] = {do_lock, 1, false},
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
    [RT_SQL_LOOK] = {ss_do_look, 3, false},
    [RT_SQL_LOOK_AHEAD] = {ss_do_look, 3, false},
    [RT_SQL_FRONT] = {ss_do_front, 1, false},
    [RT_SQL_INSPECT] = {ss_do_inspect, 2, false},
    [RT_SQL_LIST] = {ss_do_list, 1, false},
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

/* What the engine owes the server: arguments; locks first, and in order. */
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
        struct ss_at a = {
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
