/* SPDX-License-Identifier: Apache-2.0 */
/* What flies on seats, and what becomes of a ticket by it: hold.h has the drawing. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/check.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct rt_sqlhold_set { /* a JOIN_ALL that tries: all, or none */
    struct rt_sqlhold_set *next, **link;
    struct rt_sqlhold_conn *c;
    struct rt_op *op;
    size_t left;
};

static struct rt_sqlhold_ask *of_entry(struct rt_entry *e)
{
    return (struct rt_sqlhold_ask *)(void *)e; /* its first member */
}

static struct rt_sqlhold_conn *of_ledger(struct rt_ledger *l)
{
    return (struct rt_sqlhold_conn *)(void *)((char *)l - offsetof(struct rt_sqlhold_conn, ledger));
}

/* ---- Tickets --------------------------------------------------------------------------------------------------------- */

static size_t bucket_of(const char *name)
{
    return rt_hash(name, strlen(name)) % RT_HOLD_BUCKETS;
}

struct rt_sqlhold_ticket *rt_sqlhold_find(struct rt_sqlhold_conn *c, const char *name,
                                          uint64_t session, uint64_t number, uint64_t nonce)
{
    struct rt_sqlhold_ticket *t = c->tickets[bucket_of(name)];
    while (t != NULL && (t->session != session || strcmp(t->name, name) != 0 ||
                         (number != 0 ? t->number != number : t->nonce != nonce)))
        t = t->next;
    return t;
}

void rt_sqlhold_each(struct rt_sqlhold_conn *c,
                     void (*each)(struct rt_sqlhold_ticket *t, void *arg), void *arg)
{
    for (size_t i = 0; c->ticket_count > 0 && i < RT_HOLD_BUCKETS; i++)
        for (struct rt_sqlhold_ticket *t = c->tickets[i], *next; t != NULL; t = next) {
            next = t->next;
            each(t, arg);
        }
}

static struct rt_sqlhold_ticket *ticket_new(struct rt_sqlhold_conn *c, const struct rt_join *j)
{
    size_t size = strlen(j->name) + 1;
    struct rt_sqlhold_ticket *t = rt_alloc(sizeof(*t) + size);
    if (t == NULL)
        return NULL;
    memcpy(t->name, j->name, size);
    t->c = c;
    t->session = j->session;
    t->nonce = j->nonce;
    t->owner = j->owner;
    t->mode = j->mode;
    t->try = j->flags & RT_JOIN_TRY;
    struct rt_sqlhold_ticket **head = &c->tickets[bucket_of(j->name)];
    RT_LIST_ADD(head, t);
    c->ticket_count++;
    return t;
}

static bool is_of(const struct rt_entry *e, const void *ticket)
{
    return ((const struct rt_sqlhold_ask *)(const void *)e)->ticket == ticket;
}

static void begin_ticket(struct rt_sqlhold_ticket *t);

/* Asks about it that are under way end without it. */
static void ticket_free(struct rt_sqlhold_ticket *t)
{
    struct rt_sqlhold_conn *c = t->c;
    struct rt_entry *e;
    while ((e = rt_ledger_find(&c->ledger, is_of, t)) != NULL)
        of_entry(e)->ticket = NULL;
    if (t->seat != NULL && t->seat->ticket == t)
        rt_sqlhold_seat_free(t->seat);
    struct rt_sqlhold_ticket *behind = t->behind;
    if (behind != NULL)
        behind->ahead = NULL;
    if (t->ahead != NULL)
        t->ahead->behind = NULL;
    RT_LIST_OUT(t);
    assert(c->ticket_count > 0);
    c->ticket_count--;
    rt_free(t);
    if (behind != NULL && behind->ask != NULL && behind->state == RT_HOLD_QUEUED && !c->closing)
        begin_ticket(behind);
}

/* ---- Asks ------------------------------------------------------------------------------------------------------------ */

static struct rt_sqlhold_ask *ask_new(struct rt_sqlhold_ticket *t, enum rt_sqlhold_what what,
                                      struct rt_op *op)
{
    struct rt_sqlhold_ask *a = rt_alloc(sizeof(*a));
    if (a == NULL)
        return NULL;
    a->c = t->c;
    a->ticket = t;
    a->what = what;
    a->entry.op = op;
    a->entry.deadline = op != NULL ? op->deadline : RT_NEVER;
    return a;
}

static void ask_out(struct rt_sqlhold_ask *a)
{
    if (a->ticket != NULL && a->ticket->ask == a)
        a->ticket->ask = NULL;
    if (a->ticket != NULL && a->ticket->seat != NULL && a->ticket->seat->ask == a)
        a->ticket->seat->ask = NULL;
    if (a->entry.next != NULL)
        rt_ledger_out(&a->entry);
}

static int ask_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct rt_sqlhold_conn *c = of_ledger(l);
    struct rt_sqlhold_ask *a = of_entry(e);
    struct rt_sqlhold_ticket *t = a->ticket;
    if (t ==
        NULL) /* a release that had not left when its connection went: it is over, but who knows since when */
        return a->what == RT_HOLD_GIVE ? ROTA_UNKNOWN : ROTA_LOST;
    if (t->ahead != NULL && t->ask == a && t->state == RT_HOLD_QUEUED)
        return ROTA_UNREACHABLE; /* one before it in its set is not granted yet */
    struct rt_sqlhold_seat *s = rt_sqlhold_seat_for(c, t);
    if (s == NULL || !rt_sqlhold_seat_ready(s))
        return ROTA_UNREACHABLE;
    if (t->state == RT_HOLD_QUEUED)
        t->state = a->what == RT_HOLD_WAIT ? RT_HOLD_WAITING : RT_HOLD_TRYING;
    *via = s;
    return rt_sqlhold_seat_fly(s, a);
}

static void set_failed(struct rt_sqlhold_set *set, int err, const char *busy);

static void ask_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct rt_sqlhold_conn *c = of_ledger(l);
    struct rt_sqlhold_ask *a = of_entry(e);
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_work *w = a->work;
    bool gives = a->what == RT_HOLD_GIVE, brings = t != NULL && t->ask == a,
         no_seat = t != NULL && t->seat == NULL;
    if (t != NULL && t->seat != NULL && t->seat->ask == a)
        t->seat->ask = NULL;
    if (err == ROTA_LOST)
        (void)rt_sqlhold_fail(c, ROTA_LOST, "the ticket is not in its line any more");
    else
        (void)rt_ledger_say(l, e, err, why, c->sql.driver->name, rt_sql_lane_at(&c->sql),
                            c->sql.trouble);
    if (no_seat && c->seat_count == c->seat_room && err == ROTA_UNREACHABLE)
        (void)rt_sqlhold_fail(
            c, err, "all %zu connections for locks are in use: raise ?waits=", c->seat_room);
    struct rt_op *op = a->entry.op;
    a->entry.op = NULL;
    if (brings)
        t->ask = NULL;
    uint64_t number = a->number, holder = a->holder;
    rt_free(a);
    if (w != NULL) {
        rt_sqlhold_touched(c, w, t == NULL ? 0 : err);
        return;
    }
    char said[sizeof(c->sql.base.errmsg)];
    memcpy(said, c->sql.base.errmsg, sizeof(said));
    if (brings && t->set != NULL) {
        set_failed(t->set, err, NULL);
        return;
    }
    if (t != NULL && (brings || gives))
        rt_sqlhold_withdraw(t, NULL);
    memcpy(c->sql.base.errmsg, said, sizeof(said));
    if (op != NULL && gives && err == ROTA_UNKNOWN && (why != NULL || t == NULL))
        rt_sqlhold_unanswered(c, op, number, holder);
    else if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, err);
}

static const struct rt_ledger_user ledger_user = {.send = ask_send, .ended = ask_ended};

/* A flies once more, as WHAT. */
void rt_sqlhold_fly_as(struct rt_sqlhold_ask *a, enum rt_sqlhold_what what)
{
    a->what = what;
    a->entry.maybe = false;
    (void)rt_ledger_resend(&a->c->ledger, &a->entry);
}

void rt_sqlhold_withdraw(struct rt_sqlhold_ticket *t, struct rt_op *op)
{
    struct rt_sqlhold_conn *c = t->c;
    struct rt_sqlhold_seat *s = t->seat;
    struct rt_sqlhold_ask *a = t->ask;
    struct rt_op *joining = a != NULL ? a->entry.op : NULL;
    uint64_t session = t->session;
    if (a != NULL) {
        ask_out(a);
        rt_free(a);
    }
    bool busy = s != NULL && (s->flying || s->may_hold);
    t->seat = NULL;
    if (s != NULL && !busy)
        rt_sqlhold_seat_free(s);
    ticket_free(t);
    if (joining != NULL)
        rt_conn_done(rt_sqlhold_base(c), joining,
                     session == c->session ? rt_sqlhold_fail(c, ROTA_CANCELED, "canceled")
                                           : rt_words_no_session(rt_sqlhold_base(c), session));
    if (busy)
        rt_sqlhold_seat_end(s, op);
    else if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, 0);
}

/* ---- Sets that try ------------------------------------------------------------------------------------------------------ */

static void take_out(struct rt_sqlhold_ticket *t, void *arg)
{
    if (t->set == arg) {
        if (t->behind != NULL)
            t->behind->ahead = NULL;
        t->behind = NULL;
        t->set = NULL;
        rt_sqlhold_withdraw(t, NULL);
    }
}

/* Nothing of it stays. BUSY: of which name, to be told who holds it. */
static void set_failed(struct rt_sqlhold_set *set, int err, const char *busy)
{
    struct rt_sqlhold_conn *c = set->c;
    struct rt_op *op = set->op;
    char said[sizeof(c->sql.base.errmsg)], name[RT_NAME_ROOM];
    memcpy(said, c->sql.base.errmsg, sizeof(said));
    snprintf(name, sizeof(name), "%s", busy != NULL ? busy : "");
    rt_sqlhold_each(c, take_out, set);
    RT_LIST_OUT(set);
    rt_free(set);
    memcpy(c->sql.base.errmsg, said, sizeof(said));
    if (busy != NULL)
        rt_sqlhold_busy(c, op, name);
    else
        rt_conn_done(rt_sqlhold_base(c), op, err);
}

static void leave_set(struct rt_sqlhold_ticket *t, void *arg)
{
    if (t->set == arg)
        t->set = NULL;
}

static void set_granted(struct rt_sqlhold_ticket *t)
{
    struct rt_sqlhold_set *set = t->set;
    struct rt_sqlhold_conn *c = set->c;
    struct rt_op *op = set->op;
    op->join.joins[t->index].number = t->number;
    op->join.joins[t->index].granted = true;
    op->join.joins[t->index].wanted = false;
    if (--set->left > 0)
        return;
    rt_sqlhold_each(c, leave_set, set);
    RT_LIST_OUT(set);
    rt_free(set);
    rt_conn_done(rt_sqlhold_base(c), op, 0);
}

bool rt_sqlhold_cancel_set(struct rt_sqlhold_conn *c, const struct rt_op *op)
{
    for (struct rt_sqlhold_set *set = c->sets; set != NULL; set = set->next)
        if (set->op == op) {
            set_failed(set, rt_sqlhold_fail(c, ROTA_CANCELED, "canceled"), NULL);
            return true;
        }
    return false;
}

/* Whoever is told may ask for more, or give up others: so from the beginning each time. */
void rt_sqlhold_end_session(struct rt_sqlhold_conn *c)
{
    uint64_t session = c->session;
    c->session = 0; /* from here on no ticket is made */
    while (c->sets != NULL)
        set_failed(c->sets, rt_words_no_session(rt_sqlhold_base(c), session), NULL);
    for (size_t i = 0; i < RT_HOLD_BUCKETS; i++)
        while (c->tickets[i] != NULL)
            rt_sqlhold_withdraw(c->tickets[i], NULL);
}

/* ---- Granted -------------------------------------------------------------------------------------------------------------- */

static void tell_granted(struct rt_sqlhold_ticket *t, struct rt_op *op, uint64_t name)
{
    struct rt_sqlhold_conn *c = t->c;
    if (t->set != NULL) {
        set_granted(t);
    } else if (op != NULL) {
        op->join.joins[0].number = t->number;
        op->join.joins[0].granted = true;
        op->join.joins[0].wanted = false;
        rt_conn_done(rt_sqlhold_base(c), op, 0);
    } else {
        rt_conn_event(rt_sqlhold_base(c), &(struct rt_event){.kind = RT_GRANTED,
                                                             .session = t->session,
                                                             .number = name,
                                                             .fence = t->number,
                                                             .nonce = t->nonce,
                                                             .name = t->name});
    }
}

/* T is numbered. Its time counts from when its seat was last asked, and the user counts from the last BEAT: that must not be
 * the later one. */
void rt_sqlhold_finish(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    if (a->beats != a->c->beats) {
        rt_sqlhold_fly_as(a, RT_HOLD_VERIFY);
        return;
    }
    struct rt_op *op = a->entry.op;
    uint64_t name = t->number;
    struct rt_sqlhold_ticket *behind = t->behind;
    ask_out(a);
    rt_free(a);
    t->number = t->fence;
    t->state = RT_HOLD_HELD;
    t->behind = NULL;
    if (behind != NULL)
        behind->ahead = NULL;
    tell_granted(t, op, name);
    if (behind != NULL)
        rt_sqlhold_flush_soon(behind->c);
}

static void granted(struct rt_sqlhold_ask *a, uint64_t number)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    t->state = RT_HOLD_NUMBERING;
    t->fence = number;
    if (number != 0)
        rt_sqlhold_finish(a);
    else if (a->c->way->here)
        rt_sqlhold_fly_as(a, RT_HOLD_NUMBERS);
    else
        rt_sqlhold_number(a);
}

/* ---- Not granted ------------------------------------------------------------------------------------------------------------ */

static void wait_for(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_op *op = a->entry.op;
    a->entry.op = NULL;
    a->entry.deadline = RT_NEVER;
    t->state = RT_HOLD_WAITING;
    if (op != NULL) {
        t->number = ++a->c->names;
        op->join.joins[0].number = t->number;
        op->join.joins[0].granted = false;
        op->join.joins[0].wanted = false;
    }
    rt_sqlhold_fly_as(a, RT_HOLD_WAIT);
    if (op != NULL)
        rt_conn_done(rt_sqlhold_base(a->c), op, 0);
}

static void busy(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_sqlhold_conn *c = a->c;
    char name[RT_NAME_ROOM];
    if (!t->try) {
        wait_for(a);
        return;
    }
    t->seat->dirty = t->seat->dirty || c->way->rows; /* a transaction is open */
    t->seat->may_hold = t->seat->dirty;
    if (t->set != NULL) {
        set_failed(t->set, ROTA_BUSY, t->name);
        return;
    }
    struct rt_op *op = a->entry.op;
    snprintf(name, sizeof(name), "%s", t->name);
    ask_out(a);
    rt_free(a);
    ticket_free(t);
    rt_sqlhold_busy(c, op, name);
}

/* ---- Landed ------------------------------------------------------------------------------------------------------------------ */

void rt_sqlhold_tell_lost(struct rt_sqlhold_ticket *t)
{
    char name[RT_NAME_ROOM];
    struct rt_event event = {.kind = RT_TICKET_LOST,
                             .session = t->session,
                             .number = t->number,
                             .nonce = t->nonce,
                             .name = name};
    if (t->state != RT_HOLD_HELD)
        return;
    t->state = RT_HOLD_LEAVING; /* nobody finds it any more */
    snprintf(name, sizeof(name), "%s", t->name);
    rt_conn_event(rt_sqlhold_base(t->c), &event);
}

static void tried(struct rt_sqlhold_ask *a, enum rt_sql_end end, const struct rt_sqlhold_heard *h)
{
    const struct rt_sqlhold_way *way = a->c->way;
    bool got = way->by_landing ? end == RT_SQL_LANDED : h->yes;
    bool absent = end == RT_SQL_ABSENT ||
                  (way->rows && !got && (a->what == RT_HOLD_WAIT || !h->exists));
    if (got)
        granted(a, h->number);
    else if (absent && way->tables)
        rt_sqlhold_fly_as(a, RT_HOLD_MAKES);
    else if (absent)
        rt_sqlhold_ensure(a);
    else if (a->what == RT_HOLD_TRY)
        busy(a);
    else
        rt_sqlhold_fly_as(a,
                          RT_HOLD_WAIT); /* its time was over: a year, or somebody's KILL QUERY */
}

static void verified(struct rt_sqlhold_ask *a, bool yes)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_sqlhold_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    struct rt_work *w = a->work;
    if (t->ask == a) {
        if (yes)
            rt_sqlhold_finish(a);
        else
            rt_sqlhold_seat_cut(t->seat, "the server has let go of it");
        return;
    }
    bool down = a->what == RT_HOLD_DOWNGRADE;
    uint64_t holder = t->seat->id;
    ask_out(a);
    rt_free(a);
    if (yes && down)
        t->mode = RT_SHARED;
    if (op != NULL)
        op->change.wanted = yes && op->change.what & RT_CHANGE_ARM && t->mode == RT_EXCLUSIVE;
    if (yes && down)
        rt_sqlhold_note(t, RT_HOLD_SAY_FENCE_SHARED_ROW, holder);
    int err = yes || op == NULL ? 0 : rt_words_no_ticket(rt_sqlhold_base(c), t->name);
    if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, err);
    if (!yes) {
        rt_sqlhold_tell_lost(t);
        rt_sqlhold_withdraw(t, NULL);
    }
    if (w != NULL)
        rt_sqlhold_touched(c, w, 0);
}

static void gave(struct rt_sqlhold_ask *a, bool yes)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_sqlhold_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    if (t->mode == RT_SHARED &&
        c->way->tongue == RT_SQL_POSTGRES) /* MariaDB's seats do so themselves */
        rt_sqlhold_note(t, RT_HOLD_SAY_CLEAR_SHARED, t->seat->id);
    op->leave.granted = true;
    int err = yes ? 0 : rt_words_no_ticket(rt_sqlhold_base(c), t->name);
    ask_out(a);
    rt_free(a);
    ticket_free(t);
    rt_conn_done(rt_sqlhold_base(c), op, err);
}

/* Who found it locked found it there. */
static void made(struct rt_sqlhold_ask *a, enum rt_sql_end end, const char *why)
{
    bool tries = a->entry.op != NULL || a->ticket->set != NULL;
    if (end == RT_SQL_LANDED || end == RT_SQL_AGAIN)
        rt_sqlhold_fly_as(a, tries ? RT_HOLD_TRY : RT_HOLD_WAIT);
    else
        rt_sqlhold_not_made(a, end == RT_SQL_DENIED ? ROTA_AUTH : ROTA_PROTOCOL, why);
}

void rt_sqlhold_landed(struct rt_sqlhold_ask *a, enum rt_sql_end end,
                       const struct rt_sqlhold_heard *h, const char *why)
{
    switch (a->what) {
    case RT_HOLD_TRY:
    case RT_HOLD_WAIT:
        tried(a, end, h);
        return;
    case RT_HOLD_NUMBERS:
        if (a->c->way->here && h->yes && h->number != 0) {
            a->ticket->fence = h->number;
            rt_sqlhold_finish(a);
        } else {
            rt_sqlhold_seat_cut(a->ticket->seat, "the server has let go of it");
        }
        return;
    case RT_HOLD_VERIFY:
    case RT_HOLD_DOWNGRADE:
        verified(a, h->yes);
        return;
    case RT_HOLD_MAKES:
        made(a, end, why);
        return;
    case RT_HOLD_GIVE:
    case RT_HOLD_WHATS:
        gave(a, h->yes);
    }
}

void rt_sqlhold_unseated(struct rt_sqlhold_seat *s)
{
    struct rt_sqlhold_ticket *t = s->ticket;
    if (t == NULL)
        return;
    assert(t->state != RT_HOLD_HELD);
    if (t->state == RT_HOLD_LEAVING) {
        s->ticket = NULL;
        t->seat =
            NULL; /* its LEAVE, if there is one, ends with what flew; or finds that there is none */
        ticket_free(t);
    } else if (t->ask != NULL) { /* asked for anew */
        struct rt_sqlhold_ask *a = t->ask;
        bool flies = a->entry.flying;
        a->fencing = false;
        t->round++;
        t->state = RT_HOLD_QUEUED;
        a->what = a->entry.op != NULL || t->set != NULL ? RT_HOLD_TRY : RT_HOLD_WAIT;
        a->entry.maybe = false; /* whatever it got ends with its connection */
        if (flies)
            rt_ledger_again(&t->c->ledger, &a->entry, false);
    }
}

/* ---- JOIN ----------------------------------------------------------------------------------------------------------------------- */

static void begin_ticket(struct rt_sqlhold_ticket *t)
{
    if (t->ask->entry.next == NULL)
        (void)rt_ledger_add(&t->c->ledger, &t->ask->entry);
    else
        rt_sqlhold_flush_soon(t->c);
}

static void answer_as_it_stands(struct rt_join *j, const struct rt_sqlhold_ticket *t)
{
    j->number = t->number;
    j->granted = t->state == RT_HOLD_HELD || t->state == RT_HOLD_LEAVING;
    j->wanted = false;
}

/* Asked again: all are there (0), none is (1), or some: that was another ask (ROTA_LOST). */
static int find_all(struct rt_sqlhold_conn *c, const struct rt_op *op)
{
    size_t found = 0;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        struct rt_sqlhold_ticket *t = rt_sqlhold_find(c, j->name, j->session, 0, j->nonce);
        found += t != NULL;
        if (t != NULL)
            answer_as_it_stands(j, t);
    }
    if (found == 0)
        return 1;
    return found == op->join.n ? 0 : rt_words_set_ended(rt_sqlhold_base(c));
}

/* Those of N that were made, of which none has begun, go. */
static int unmake(struct rt_sqlhold_conn *c, const struct rt_op *op, size_t n, int err)
{
    char said[sizeof(c->sql.base.errmsg)];
    memcpy(said, c->sql.base.errmsg, sizeof(said));
    for (size_t i = 0; i < n; i++) {
        const struct rt_join *j = &op->join.joins[i];
        struct rt_sqlhold_ticket *t = rt_sqlhold_find(c, j->name, j->session, 0, j->nonce);
        if (t == NULL)
            continue;
        rt_free(t->ask);
        t->ask = NULL;
        ticket_free(t);
    }
    memcpy(c->sql.base.errmsg, said, sizeof(said));
    return err;
}

static int make_ticket(struct rt_sqlhold_conn *c, struct rt_op *op, size_t i,
                       struct rt_sqlhold_ticket **out)
{
    struct rt_sqlhold_ticket *t = ticket_new(c, &op->join.joins[i]);
    *out = t;
    if (t == NULL)
        return rt_words_nomem(rt_sqlhold_base(c));
    t->index = i;
    if (!rt_sqlhold_spell(c, t))
        return rt_sqlhold_fail(c, ROTA_INVALID, "%.80s has no key by this ?keys=", t->name);
    t->ask = ask_new(t, RT_HOLD_TRY, op->join.n == 1 ? op : NULL);
    if (t->ask == NULL)
        return rt_words_nomem(rt_sqlhold_base(c));
    t->ask->entry.again = true;
    t->ask->entry.deadline = op->join.n == 1 || t->try ? op->deadline : RT_NEVER;
    return 0;
}

/* In the order of their names: so two sets never wait for each other. */
static void chain(struct rt_sqlhold_ticket **list, size_t n)
{
    for (size_t i = 1; i < n; i++) /* few */
        for (size_t k = i; k > 0 && strcmp(list[k - 1]->name, list[k]->name) > 0; k--) {
            struct rt_sqlhold_ticket *t = list[k];
            list[k] = list[k - 1];
            list[k - 1] = t;
        }
    for (size_t i = 0; i + 1 < n; i++) {
        list[i]->behind = list[i + 1];
        list[i + 1]->ahead = list[i];
    }
}

static int make_set(struct rt_sqlhold_conn *c, struct rt_op *op, struct rt_sqlhold_ticket **list)
{
    struct rt_sqlhold_set *set = rt_alloc(sizeof(*set));
    if (set == NULL)
        return rt_words_nomem(rt_sqlhold_base(c));
    set->c = c;
    set->op = op;
    set->left = op->join.n;
    RT_LIST_ADD(&c->sets, set);
    for (size_t i = 0; i < op->join.n; i++)
        list[i]->set = set;
    return 0;
}

static int join_all(struct rt_sqlhold_conn *c, struct rt_op *op, struct rt_sqlhold_ticket **list)
{
    size_t n = op->join.n;
    for (size_t i = 0; i < n; i++) {
        int rv = make_ticket(c, op, i, &list[i]);
        if (rv != 0)
            return unmake(c, op, i + 1, rv);
    }
    int rv = n > 1 && list[0]->try ? make_set(c, op, list) : 0;
    if (rv != 0)
        return unmake(c, op, n, rv);
    bool waits = n > 1 && !list[0]->try;
    for (size_t i = 0; waits && i < n; i++) {
        struct rt_join *j = &op->join.joins[i];
        j->number = list[i]->number = ++c->names;
        j->granted = j->wanted = false;
    }
    chain(list, n);
    for (size_t i = 0; i < n; i++)
        begin_ticket(list[i]);
    if (waits)
        rt_conn_done(rt_sqlhold_base(c), op, 0);
    return 0;
}

static int check(struct rt_sqlhold_conn *c, const struct rt_op *op)
{
    int rv = rt_check_joins(rt_sqlhold_base(c), op);
    if (rv == 0)
        rv = rt_check_session(rt_sqlhold_base(c), op, c->session);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++) {
        const struct rt_join *j = &op->join.joins[i];
        bool good = (j->mode == RT_EXCLUSIVE ||
                     (j->mode == RT_SHARED && c->way->caps & ROTA_CAP_SHARED)) &&
                    (j->flags & RT_JOIN_DURABLE) == 0 && j->at_least_ms == 0 && j->value == NULL;
        if (!good)
            rv = rt_sqlhold_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has no such locks",
                                 j->name, c->way->dialect);
    }
    if (rv == 0 && op->join.n > c->seat_room)
        rv = rt_sqlhold_fail(c, ROTA_UNSUPPORTED,
                             "a set of %zu needs a connection each, and ?waits= is %zu", op->join.n,
                             c->seat_room);
    return rv;
}

void rt_sqlhold_begin_join(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = check(c, op);
    if (rv == 0)
        rv = find_all(c, op);
    if (rv == 1) {
        struct rt_sqlhold_ticket **list = rt_alloc(op->join.n * sizeof(struct rt_sqlhold_ticket *));
        rv = list != NULL ? join_all(c, op, list) : rt_words_nomem(rt_sqlhold_base(c));
        rt_free(list);
        if (rv == 0)
            return;
    }
    rt_conn_done(rt_sqlhold_base(c), op, rv);
}

/* ---- LEAVE, CHANGE, touches --------------------------------------------------------------------------------------------------- */

void rt_sqlhold_begin_leave(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(rt_sqlhold_base(c), op->leave.name);
    struct rt_sqlhold_ticket *t = rv == 0 ? rt_sqlhold_find(c, op->leave.name, op->leave.session,
                                                            op->leave.number, op->leave.nonce)
                                          : NULL;
    op->leave.granted = false;
    if (rv == 0 && (t == NULL || t->state == RT_HOLD_LEAVING || t->session != c->session))
        rv = rt_words_no_ticket(rt_sqlhold_base(c), op->leave.name);
    if (rv == 0 && t->state != RT_HOLD_HELD) {
        rt_sqlhold_withdraw(t, op);
        return;
    }
    struct rt_sqlhold_ask *a = rv == 0 ? ask_new(t, RT_HOLD_GIVE, op) : NULL;
    if (rv == 0 && a == NULL)
        rv = rt_words_nomem(rt_sqlhold_base(c));
    if (rv != 0) {
        rt_conn_done(rt_sqlhold_base(c), op, rv);
        return;
    }
    t->state = RT_HOLD_LEAVING;
    a->number = t->number;
    a->holder = t->seat->id;
    (void)rt_ledger_add(&c->ledger, &a->entry);
}

void rt_sqlhold_begin_change(struct rt_sqlhold_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(rt_sqlhold_base(c), op->change.name);
    struct rt_sqlhold_ticket *t = rv == 0 ? rt_sqlhold_find(c, op->change.name, op->change.session,
                                                            op->change.number, 0)
                                          : NULL;
    bool down = op->change.what & RT_CHANGE_DOWNGRADE;
    op->change.wanted = false;
    if (rv == 0 && (t == NULL || t->state != RT_HOLD_HELD))
        rv = rt_words_no_ticket(rt_sqlhold_base(c), op->change.name);
    if (rv == 0 &&
        (op->change.what & RT_CHANGE_VALUE || (down && c->way->sql[RT_HOLD_SAY_DOWNGRADE] == NULL)))
        rv = rt_sqlhold_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has no %s", op->change.name,
                             c->way->dialect, down ? "way from a writer to a reader" : "values");
    down = down && rv == 0 && t->mode == RT_EXCLUSIVE;
    struct rt_sqlhold_ask *a = rv == 0 ? ask_new(t, down ? RT_HOLD_DOWNGRADE : RT_HOLD_VERIFY, op)
                                       : NULL;
    if (rv == 0 && a == NULL)
        rv = rt_words_nomem(rt_sqlhold_base(c));
    if (rv != 0)
        rt_conn_done(rt_sqlhold_base(c), op, rv);
    else
        (void)rt_ledger_add(&c->ledger, &a->entry);
}

void rt_sqlhold_touch(struct rt_sqlhold_ticket *t, struct rt_work *w)
{
    struct rt_sqlhold_ask *a = ask_new(t, RT_HOLD_VERIFY, NULL);
    if (a == NULL) {
        rt_work_note(rt_sqlhold_base(t->c), w, rt_words_nomem(rt_sqlhold_base(t->c)));
        return;
    }
    a->work = w;
    a->entry.pending = &w->pending;
    a->entry.deadline = w->op->deadline;
    (void)rt_ledger_add(&t->c->ledger, &a->entry);
}

/* ---- Life ------------------------------------------------------------------------------------------------------------------------ */

void rt_sqlhold_asks_open(struct rt_sqlhold_conn *c)
{
    rt_ledger_init(&c->ledger, rt_sqlhold_base(c), &ledger_user);
}

static void drop_ask(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    rt_free(of_entry(e));
}

static void drop_ticket(struct rt_sqlhold_ticket *t, void *arg)
{
    (void)arg;
    RT_LIST_OUT(t);
    rt_free(t);
}

void rt_sqlhold_asks_close(struct rt_sqlhold_conn *c)
{
    rt_ledger_fini(&c->ledger, drop_ask);
    rt_sqlhold_each(c, drop_ticket, NULL);
    c->ticket_count = 0;
    while (c->sets != NULL) {
        struct rt_sqlhold_set *set = c->sets;
        RT_LIST_OUT(set);
        rt_free(set);
    }
}
