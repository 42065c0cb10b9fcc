/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes do for a ticket: its number, where its seat's transaction is the lock; the row, where it is not
 * there yet. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

/* On the lanes: the number of what its seat's transaction holds. */
struct fence {
    struct rt_sqlhold_conn *c;
    struct rt_sqlhold_about about;
    uint64_t session, nonce, round;
    bool shared;
    char name[];
};

static struct rt_sqlhold_ask *fence_for(const struct fence *f)
{
    struct rt_sqlhold_ticket *t = rt_sqlhold_find(f->c, f->name, f->session, 0, f->nonce);
    return t != NULL && t->ask != NULL && t->ask->fencing && t->round == f->round ? t->ask : NULL;
}

static void fence_say(struct rt_sql_ask *sa, struct rt_sql_book *b)
{
    struct fence *f = sa->about;
    struct rt_sqlhold_ask *a = fence_for(f);
    if (a == NULL)
        return;
    f->about.ticket = a->ticket;
    rt_sqlhold_say(f->c, b, f->shared ? RT_HOLD_SAY_FENCE_SHARED : RT_HOLD_SAY_FENCE, &f->about);
    if (f->shared)
        rt_sqlhold_say(f->c, b, RT_HOLD_SAY_FENCE_SHARED_ROW, &f->about);
    rt_sqlhold_say(f->c, b, f->shared ? RT_HOLD_SAY_NUMBER_SHARED : RT_HOLD_SAY_NUMBER, &f->about);
}

static bool fence_heard(struct rt_sql_ask *sa, const struct rt_sql_book *b)
{
    struct fence *f = sa->about;
    struct rt_sqlhold_ask *a = fence_for(f);
    const struct rt_sql_row *row = rt_sql_row(sa, b, RT_SQL_SAYING, 0);
    if (a == NULL)
        return true;
    a->fencing = false;
    a->ticket->fence = row != NULL ? (uint64_t)rt_sql_int(row, 0) : 0;
    if (a->ticket->fence == 0)
        rt_sqlhold_seat_cut(a->ticket->seat, "the server gave no number");
    else /* if still held after that, nobody was granted it meanwhile with a lower one */
        rt_sqlhold_fly_as(a, RT_HOLD_VERIFY);
    return true;
}

static void fence_failed(struct rt_sql_ask *sa, int err)
{
    struct rt_sqlhold_ask *a = fence_for(sa->about);
    (void)err;
    if (a == NULL)
        return;
    a->fencing = false;
    rt_sqlhold_seat_cut(a->ticket->seat, "it could not be numbered");
}

static void about_freed(struct rt_sql_ask *sa)
{
    rt_free(sa->about);
}

static const struct rt_sql_plan fence_plan = {
    .say = fence_say, .heard = fence_heard, .failed = fence_failed, .freed = about_freed};

void rt_sqlhold_number(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    size_t size = strlen(t->name) + 1;
    struct fence *f = rt_alloc(sizeof(*f) + size);
    struct rt_sql_ask *sa = NULL;
    a->fencing = true;
    t->round++;
    if (f != NULL) {
        *f = (struct fence){.c = a->c,
                            .about = {.holder = t->seat->id},
                            .session = t->session,
                            .nonce = t->nonce,
                            .round = t->round,
                            .shared = t->mode == RT_SHARED};
        memcpy(f->name, t->name, size);
        sa = rt_sql_ask_new(&a->c->sql, &fence_plan, NULL, f->name, f);
    }
    if (sa == NULL) {
        rt_free(f);
        a->fencing = false;
        rt_sqlhold_seat_cut(t->seat, "out of memory");
        return;
    }
    rt_sql_ask_go(sa);
}

/* What A is to lock is not there and cannot be made, and that will not change. */
void rt_sqlhold_not_made(struct rt_sqlhold_ask *a, int err, const char *why)
{
    struct rt_sqlhold_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    char said[sizeof(c->sql.base.errmsg)];
    snprintf(said, sizeof(said), "%s", why);
    if (op == NULL) {
        rt_sqlhold_seat_cut(a->ticket->seat, said);
        return;
    }
    a->entry.op = NULL;
    rt_sqlhold_withdraw(a->ticket, NULL);
    (void)rt_sqlhold_fail(c, err, "%.80s: there is nothing to lock, and it cannot be made: %.150s",
                          op->join.joins[0].name, said);
    rt_conn_done(rt_sqlhold_base(c), op, err == ROTA_PROTOCOL ? ROTA_UNSUPPORTED : err);
}

void rt_sqlhold_no_table(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_conn *c = a->c;
    struct rt_sqlhold_ticket *t = a->ticket;
    struct rt_op *op = a->entry.op;
    char why[200];
    (void)snprintf(why, sizeof(why),
                   "there is no table %.80s: with ?tables= a name is a table of your own", t->name);
    if (t->set != NULL) {
        rt_sqlhold_set_failed(t->set, rt_sqlhold_fail(c, ROTA_INVALID, "%s", why), NULL);
        return;
    }
    if (op == NULL) { /* it was there when the wait began: it may come back */
        rt_sqlhold_seat_cut(t->seat, why);
        return;
    }
    a->entry.op = NULL;
    rt_sqlhold_withdraw(t, NULL);
    rt_conn_done(rt_sqlhold_base(c), op, rt_sqlhold_fail(c, ROTA_INVALID, "%s", why));
}

/* On the lanes: the row to be locked is not there yet. */
static void ensure_say(struct rt_sql_ask *sa, struct rt_sql_book *b)
{
    struct fence *f = sa->about;
    struct rt_sqlhold_ask *a = fence_for(f);
    if (a == NULL)
        return;
    f->about.ticket = a->ticket;
    rt_sqlhold_say(f->c, b, RT_HOLD_SAY_ENSURE, &f->about);
    rt_sqlhold_say(f->c, b, RT_HOLD_SAY_EXISTS, &f->about);
}

/* One insert per ask, unless somebody takes the row away again: what is not found right after the insert
 * never will be. */
static bool ensure_heard(struct rt_sql_ask *sa, const struct rt_sql_book *b)
{
    struct rt_sqlhold_ask *a = fence_for(sa->about);
    const struct rt_sql_row *row = rt_sql_row(sa, b, RT_SQL_SAYING, 0);
    if (a == NULL)
        return true;
    a->fencing = false;
    if (row != NULL && rt_sql_int(row, 0) > 0)
        rt_sqlhold_fly_as(a, a->what);
    else
        rt_sqlhold_not_made(a, ROTA_INVALID,
                            "a row of that name is not kept, or not under that name");
    return true;
}

static void ensure_failed(struct rt_sql_ask *sa, int err)
{
    struct rt_sqlhold_ask *a = fence_for(sa->about);
    struct rt_sqlhold_conn *c = ((struct fence *)sa->about)->c;
    if (a == NULL)
        return;
    a->fencing = false;
    if (err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN)
        rt_sqlhold_seat_cut(a->ticket->seat, c->sql.base.errmsg);
    else
        rt_sqlhold_not_made(a, err, c->sql.base.errmsg);
}

static const struct rt_sql_plan ensure_plan = {
    .say = ensure_say, .heard = ensure_heard, .failed = ensure_failed, .freed = about_freed};

void rt_sqlhold_ensure(struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_ticket *t = a->ticket;
    size_t size = strlen(t->name) + 1;
    struct fence *f = rt_alloc(sizeof(*f) + size);
    struct rt_sql_ask *sa = NULL;
    a->fencing = true;
    t->round++;
    t->seat->dirty = true; /* a transaction is open */
    if (f != NULL) {
        *f = (struct fence){.c = a->c, .session = t->session, .nonce = t->nonce, .round = t->round};
        memcpy(f->name, t->name, size);
        sa = rt_sql_ask_new(&a->c->sql, &ensure_plan, NULL, f->name, f);
    }
    if (sa != NULL)
        sa->single = true; /* it may be refused */
    if (sa == NULL) {
        rt_free(f);
        a->fencing = false;
        rt_sqlhold_seat_cut(t->seat, "out of memory");
        return;
    }
    rt_sql_ask_go(sa);
}
