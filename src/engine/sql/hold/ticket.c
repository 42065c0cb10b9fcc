/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets, the asks that fly for them, and their end: hold.h has the drawing. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

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
                         !rt_names_ticket(number, nonce, t->number, t->nonce)))
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

struct rt_sqlhold_ticket *rt_sqlhold_ticket_new(struct rt_sqlhold_conn *c, const struct rt_join *j)
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

/* Asks about it that are under way end without it. */
void rt_sqlhold_ticket_free(struct rt_sqlhold_ticket *t)
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
        rt_sqlhold_begin_ticket(behind);
}

/* ---- Asks ------------------------------------------------------------------------------------------------------------ */

struct rt_sqlhold_ask *rt_sqlhold_ask_new(struct rt_sqlhold_ticket *t, enum rt_sqlhold_what what,
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

void rt_sqlhold_ask_out(struct rt_sqlhold_ask *a)
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
        NULL) /* a release not yet sent when its connection went: it is over, but who knows since when */
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
        rt_sqlhold_set_failed(t->set, err, NULL);
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
        rt_sqlhold_ask_out(a);
        rt_free(a);
    }
    bool busy = s != NULL && (s->flying || s->may_hold);
    t->seat = NULL;
    if (s != NULL && !busy)
        rt_sqlhold_seat_free(s);
    rt_sqlhold_ticket_free(t);
    if (joining != NULL)
        rt_conn_done(rt_sqlhold_base(c), joining,
                     session == c->session ? rt_sqlhold_fail(c, ROTA_CANCELED, "canceled")
                                           : rt_words_no_session(rt_sqlhold_base(c), session));
    if (busy)
        rt_sqlhold_seat_end(s, op);
    else if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, 0);
}

void rt_sqlhold_begin_ticket(struct rt_sqlhold_ticket *t)
{
    if (t->ask->entry.next == NULL)
        (void)rt_ledger_add(&t->c->ledger, &t->ask->entry);
    else
        rt_sqlhold_flush_soon(t->c);
}

/* Whoever is told may ask for more or give up others, so each round starts from the beginning. */
void rt_sqlhold_end_session(struct rt_sqlhold_conn *c)
{
    uint64_t session = c->session;
    c->session = 0; /* from here on no ticket is made */
    while (c->sets != NULL)
        rt_sqlhold_set_failed(c->sets, rt_words_no_session(rt_sqlhold_base(c), session), NULL);
    for (size_t i = 0; i < RT_HOLD_BUCKETS; i++)
        while (c->tickets[i] != NULL)
            rt_sqlhold_withdraw(c->tickets[i], NULL);
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
    rt_sqlhold_sets_close(c);
}
