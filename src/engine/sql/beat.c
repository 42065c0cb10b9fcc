/* SPDX-License-Identifier: Apache-2.0 */
/* The session: opened, renewed, compared with what the user believes, ended. And what others left is swept.
 *
 * A renewal flies alone, so at its landing everything that was asked before is answered, and the server and the user
 * speak of the same tickets:
 *
 *   the server has    the user believes      told
 *   granted           waits, or nothing      GRANTED (who does not know the ticket gives it back)
 *   wanted            holds                  WANTED
 *   nothing           waits or holds         TICKET_LOST
 *   waits             holds                  TICKET_LOST (the server is one that knows less)
 *
 * Tickets that stand as rows are found by their session, all of them. Folded ones are looked for by name: LOOKS of
 * what the user holds in turn, and every name in doubt. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "core/session.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS 64 /* folded tickets that a renewal looks for */
#define SWEEP 8  /* lines of the dead, and sessions, of one renewal */
#define OPEN_TRIES 3
#define DOUBT_TTLS 3 /* so long a lost request may come late */
#define DAY_US (INT64_C(86400) * 1000000)
#define TIDY (INT64_C(3600) * 1000 * RT_MS) /* idle lines are looked for so often ... */
#define TIDY_MOST 200                       /* ... and so many are taken away */

struct rt_sql_doubt {
    struct rt_sql_doubt *next;
    int64_t until;
    char name[];
};

/* A ticket as the server, or the user, knows it. */
struct known {
    uint64_t number, nonce;
    const char *name; /* of the book, or to be freed */
    bool granted, wanted;
    bool looked; /* it is folded if it is anywhere, and is looked for by name */
};

struct list {
    struct known *at;
    size_t count, room;
    bool failed; /* no memory */
    bool own;    /* names are copies */
};

/* ---- Lists ----------------------------------------------------------------------------------------------------- */

static void add(struct list *l, struct known k)
{
    if (l->count == l->room) {
        size_t room = l->room != 0 ? 2 * l->room : 16;
        struct known *at = rt_realloc(l->at, room * sizeof(*at));
        if (at == NULL) {
            l->failed = true;
            return;
        }
        l->at = at;
        l->room = room;
    }
    if (l->own && (k.name = rt_strdup(k.name)) == NULL)
        l->failed = true;
    else
        l->at[l->count++] = k;
}

static void empty(struct list *l)
{
    for (size_t i = 0; l->own && i < l->count; i++)
        rt_free((char *)(uintptr_t)l->at[i].name);
    rt_free(l->at);
    *l = (struct list){.own = l->own};
}

static int by_number(const void *x, const void *y)
{
    const struct known *a = x, *b = y;
    if (a->number != b->number)
        return (a->number > b->number) - (a->number < b->number);
    return strcmp(a->name, b->name);
}

static void sort(struct list *l)
{
    if (l->count > 1)
        qsort(l->at, l->count, sizeof(*l->at), by_number);
}

static const struct known *find(const struct list *l, const struct known *k)
{
    return l->count > 0 ? bsearch(k, l->at, l->count, sizeof(*k), by_number) : NULL;
}

static void believe(void *arg, const char *name, uint64_t number, bool granted)
{
    add(arg, (struct known){.number = number, .name = name, .granted = granted});
}

static void ask_user(struct rt_sql_conn *c, struct list *l)
{
    struct rt_up *up = c->base.up;
    if (up->held != NULL)
        up->held(up, believe, l);
}

/* ---- Doubts ------------------------------------------------------------------------------------------------------ */

static void forget_old(struct rt_sql_conn *c, int64_t now)
{
    for (struct rt_sql_doubt **at = &c->doubts; *at != NULL;) {
        struct rt_sql_doubt *d = *at;
        if (d->until > now) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        rt_free(d);
    }
}

void rt_sql_doubt(struct rt_sql_conn *c, const char *name)
{
    int64_t until = rt_loop_now(c->base.loop) + DOUBT_TTLS * c->base.ttl_ms * RT_MS;
    for (struct rt_sql_doubt *d = c->doubts; d != NULL; d = d->next)
        if (strcmp(d->name, name) == 0) {
            d->until = until;
            return;
        }
    size_t size = strlen(name) + 1;
    struct rt_sql_doubt *d = rt_alloc(sizeof(*d) + size);
    if (d == NULL)
        return; /* then it ends with the session */
    d->until = until;
    memcpy(d->name, name, size);
    d->next = c->doubts;
    c->doubts = d;
}

void rt_sql_forget_doubts(struct rt_sql_conn *c)
{
    forget_old(c, RT_NEVER);
}

/* ---- Opening ------------------------------------------------------------------------------------------------------ */

static void forget_session(struct rt_sql_conn *c)
{
    uint64_t session = c->session;
    c->session = 0;
    if (session != 0)
        rt_sql_wait_forget(c, session);
    rt_sql_forget_doubts(c);
}

static void open_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    if (a->tag == 0 && rt_dial_random(&a->c->base, &a->tag, sizeof(a->tag)) != 0)
        a->tag = ++a->c->jitter * UINT64_C(0x9e3779b97f4a7c15);
    a->tag &= INT64_MAX;
    a->tag += a->tag == 0;
    rt_sql_say(b, RT_SQL_OPEN, rt_sql_number(a->tag),
               rt_sql_number(a->c->base.ttl_ms * UINT64_C(1000)), rt_sql_text(a->c->label));
}

static bool open_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_op *op = a->op;
    if (rt_sql_changed(a, b, RT_SQL_OPEN) == 0) { /* somebody has that id */
        a->tag = 0;
        if (a->stage < OPEN_TRIES)
            return false;
        rt_sql_done(a, rt_sql_fail(c, ROTA_INTERNAL, "the server knows our session ids already"));
        return true;
    }
    forget_session(c);
    c->session = a->tag;
    op->beat.session = c->session;
    op->beat.ttl_ms = c->base.ttl_ms;
    op->beat.allowance_ms = 0;
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan open_plan = {.alone = true, .say = open_say, .heard = open_heard};

/* ---- Renewing ----------------------------------------------------------------------------------------------------- */

/* Of what the user holds and no look by session may find, some in turn. */
static void say_folded(struct rt_sql_conn *c, struct rt_sql_book *b, struct list *believed)
{
    size_t said = 0;
    for (size_t i = 0; i < believed->count && said < LOOKS; i++) {
        struct known *k = &believed->at[(c->look_from + i) % believed->count];
        if (!k->granted)
            continue;
        k->looked = true;
        said++;
        rt_sql_say(b, RT_SQL_FOLDED, rt_sql_text(k->name), rt_sql_number(c->session));
        if (said == LOOKS)
            c->look_from = (c->look_from + i + 1) % believed->count;
    }
    for (const struct rt_sql_doubt *d = c->doubts; d != NULL; d = d->next)
        rt_sql_say(b, RT_SQL_FOLDED, rt_sql_text(d->name), rt_sql_number(c->session));
}

static void renew_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct list *believed = a->about;
    int64_t now = rt_loop_now(c->base.loop);
    empty(believed);
    ask_user(c, believed);
    forget_old(c, now);
    rt_sql_say(b, RT_SQL_RENEW, rt_sql_number(c->session),
               rt_sql_number(c->base.ttl_ms * UINT64_C(1000)));
    rt_sql_say(b, RT_SQL_MINE, rt_sql_number(c->session));
    say_folded(c, b, believed);
    sort(believed);
    rt_sql_say(b, RT_SQL_DEAD, rt_sql_number(SWEEP));
    rt_sql_say(b, RT_SQL_BURY, rt_sql_number(SWEEP));
    if (now >= c->tidy_at)
        rt_sql_say(b, RT_SQL_IDLE, rt_sql_number((uint64_t)DAY_US), rt_sql_number(TIDY_MOST));
}

static void gather(const struct rt_sql_ask *a, const struct rt_sql_book *b, struct list *there)
{
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, RT_SQL_MINE, r)) != NULL;)
        add(there, (struct known){.name = rt_sql_str(r, 0),
                                  .number = (uint64_t)rt_sql_int(r, 1),
                                  .nonce = (uint64_t)rt_sql_int(r, 2),
                                  .granted = rt_sql_int(r, 3) != 0,
                                  .wanted = rt_sql_int(r, 4) != 0});
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, RT_SQL_FOLDED, r)) != NULL;)
        add(there, (struct known){.name = b->steps[r->step].args[0].text,
                                  .number = (uint64_t)rt_sql_int(r, 0),
                                  .nonce = (uint64_t)rt_sql_int(r, 1),
                                  .granted = true});
    sort(there);
}

static void tell(struct rt_sql_conn *c, enum rt_event_kind kind, const struct known *k)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(c, k->name, k->number);
    if (kind == RT_GRANTED && t != NULL && t->waits)
        rt_sql_wait_granted(c, t);
    else if (kind == RT_TICKET_LOST && t != NULL)
        rt_sql_wait_lost(c, t);
    else
        rt_conn_event(&c->base, &(struct rt_event){.kind = kind,
                                                   .session = c->session,
                                                   .number = k->number,
                                                   .nonce = k->nonce,
                                                   .name = k->name});
}

static void tell_all(struct rt_sql_conn *c, const struct list *there, const struct list *then,
                     const struct list *now)
{
    for (size_t i = 0; i < there->count; i++) {
        const struct known *k = &there->at[i], *believed = find(now, k);
        if (k->granted && (believed == NULL || !believed->granted))
            tell(c, RT_GRANTED, k);
        if (k->wanted)
            tell(c, RT_WANTED, k);
    }
    for (size_t i = 0; i < now->count; i++) {
        const struct known *k = &now->at[i], *found = find(there, k), *before = find(then, k);
        if (before == NULL)
            continue;
        if (found == NULL ? !k->granted || before->looked
                          : k->granted && before->granted && !found->granted)
            tell(c, RT_TICKET_LOST, k);
    }
}

/* What is lost is told before the session is renewed. */
static void compare(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct list there = {0}, now = {.own = true};
    gather(a, b, &there);
    ask_user(a->c, &now);
    sort(&now);
    if (!there.failed && !now.failed && !((struct list *)a->about)->failed)
        tell_all(a->c, &there, a->about, &now);
    empty(&there);
    empty(&now);
}

static void sweep(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, RT_SQL_DEAD, r)) != NULL;)
        rt_sql_tend(a->c, rt_sql_str(r, 0));
    if (rt_loop_now(a->c->base.loop) >= a->c->tidy_at)
        a->c->tidy_at = rt_loop_now(a->c->base.loop) + TIDY;
}

static void renew_free(struct rt_sql_ask *a)
{
    empty(a->about);
    rt_free(a->about);
}

static bool renew_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_op *op = a->op;
    if (rt_sql_changed(a, b, RT_SQL_RENEW) == 0) {
        forget_session(c);
        rt_sql_done(a, rt_sql_fail(c, ROTA_LOST, "the session has ended on the server"));
    } else {
        op->beat.ttl_ms = c->base.ttl_ms;
        op->beat.allowance_ms = 0;
        compare(a, b);
        rt_sql_done(a, 0);
        sweep(a, b);
    }
    return true;
}

static const struct rt_sql_plan renew_plan = {
    .alone = true, .say = renew_say, .heard = renew_heard, .freed = renew_free};

void rt_sql_begin_beat(struct rt_sql_conn *c, struct rt_op *op)
{
    if (op->beat.open) {
        (void)rt_sql_ask(c, &open_plan, op, NULL, NULL);
        return;
    }
    if (op->beat.session == 0 || op->beat.session != c->session) {
        rt_conn_done(&c->base, op, rt_words_no_session(&c->base, op->beat.session));
        return;
    }
    struct list *believed = rt_alloc(sizeof(*believed));
    if (believed == NULL) {
        rt_conn_done(&c->base, op, rt_words_nomem(&c->base));
        return;
    }
    believed->own = true;
    struct rt_sql_ask *a = rt_sql_ask_new(c, &renew_plan, op, NULL, believed);
    if (a == NULL) {
        rt_free(believed);
        return;
    }
    a->entry.again = true; /* renewed twice is renewed */
    rt_sql_ask_go(a);
}

/* ---- Ending -------------------------------------------------------------------------------------------------------- */

static void end_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_END, rt_sql_number(a->tag));
}

static bool end_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    a->c->parting = RT_SQL_PARTED;
    return true;
}

static void end_failed(struct rt_sql_ask *a, int err)
{
    (void)err;
    a->c->parting = RT_SQL_PARTED;
}

static const struct rt_sql_plan end_plan = {
    .alone = true, .say = end_say, .heard = end_heard, .failed = end_failed};

bool rt_sql_parting(struct rt_conn *conn)
{
    struct rt_sql_conn *c = rt_sql_of(conn);
    if (c->parting == RT_SQL_STAYS && c->session != 0 && c->lanes[0].state == RT_SQL_READY) {
        struct rt_sql_ask *a = rt_sql_ask_new(c, &end_plan, NULL, NULL, NULL);
        if (a != NULL) {
            c->parting = RT_SQL_PARTS;
            a->tag = c->session;
            c->session = 0;
            rt_sql_ask_go(a);
        }
    }
    return c->parting == RT_SQL_PARTS;
}
