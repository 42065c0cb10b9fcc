/* SPDX-License-Identifier: Apache-2.0 */
/* The session: opened, renewed, compared with what the user believes, ended.
 *
 * A renewal goes before everything that waits, and flies alone: at its landing everything that was sent before is
 * answered, and the server and the user speak of the same tickets (kit/belief). Nothing else is in its flight: what
 * others left is swept after it (sweep.c).
 *
 * All tickets that stand as rows are found by their session. Folded ones are looked for by name: LOOKS at a time, in
 * turn, of what the user holds, and every name in doubt. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "engine/kit/belief.h"

#include <string.h>

#define LOOKS 64 /* folded tickets that a renewal looks for */
#define OPEN_TRIES 3
#define DOUBT_TTLS 3 /* how late a lost request may come */

struct rt_sql_doubt {
    struct rt_sql_doubt *next;
    int64_t until;
    char name[];
};

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
    if (RT_BUG(RT_BUG_NO_DOUBTS))
        return;
    int64_t until = rt_loop_now(c->base.loop) + DOUBT_TTLS * c->base.ttl_ms * RT_MS;
    for (struct rt_sql_doubt *d = c->doubts; d != NULL; d = d->next)
        if (strcmp(d->name, name) == 0) {
            d->until = until;
            return;
        }
    size_t size = strlen(name) + 1;
    struct rt_sql_doubt *d = rt_alloc(sizeof(*d) + size);
    if (d == NULL) {
        c->doubt_all_until = until;
        return;
    }
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
    c->expires = 0;
    if (session != 0)
        rt_sql_wait_forget(c, session);
    rt_sql_bells_idle(c);
    rt_sql_forget_doubts(c);
}

/* Notes until when the session lives on the server that was asked, if all lanes are still on that one. */
static void note_expires(struct rt_sql_conn *c, const struct rt_sql_row *row)
{
    c->expires = c->cuts == c->beat_cuts ? rt_sql_int(row, 0) : 0;
}

static void open_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    if (a->tag == 0 && rt_dial_random(&a->c->base, &a->tag, sizeof(a->tag)) != 0)
        a->tag = ++a->c->jitter * UINT64_C(0x9e3779b97f4a7c15);
    a->tag &= INT64_MAX;
    a->tag += a->tag == 0;
    a->c->beat_cuts = a->c->cuts;
    rt_sql_say(b, RT_SQL_OPEN, rt_sql_number(a->tag),
               rt_sql_number(a->c->base.ttl_ms * UINT64_C(1000)), rt_sql_text(a->c->label));
}

static bool open_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_OPEN, 0);
    if (row == NULL) { /* somebody has that id */
        a->tag = 0;
        if (a->stage < OPEN_TRIES)
            return false;
        rt_sql_done(a, rt_sql_fail(c, ROTA_INTERNAL, "the server knows our session ids already"));
        return true;
    }
    forget_session(c);
    note_expires(c, row);
    c->session = a->tag;
    op->beat.session = c->session;
    op->beat.ttl_ms = c->base.ttl_ms;
    op->beat.allowance_ms = 0;
    rt_sql_done(a, 0);
    return true;
}

static const struct rt_sql_plan open_plan = {.alone = true, .say = open_say, .heard = open_heard};

/* ---- Renewing ----------------------------------------------------------------------------------------------------- */

/* Asks for some, in turn, of what the user holds and no look by session may find. */
static void say_folded(struct rt_sql_conn *c, struct rt_sql_book *b, struct rt_belief *believed)
{
    size_t said = 0, from = c->look_from;
    for (size_t i = 0; i < believed->count; i++) {
        size_t at = (RT_BUG(RT_BUG_LOOKS_MOVE) ? c->look_from : from) + i;
        struct rt_known *k = &believed->at[at % believed->count];
        const struct rt_sql_ticket *t = rt_sql_wait_find(c, k->name, k->number);
        if (!k->granted && t != NULL && t->waits)
            continue; /* a row; what neither holds nor waits is being left, and may be folded */
        k->unasked = said == LOOKS && !c->elsewhere;
        if (said == LOOKS)
            continue;
        rt_sql_say(b, RT_SQL_FOLDED, rt_sql_text(k->name), rt_sql_number(c->session));
        if (++said == LOOKS)
            c->look_from = (from + i + 1) % believed->count;
    }
    for (const struct rt_sql_doubt *d = c->doubts; d != NULL; d = d->next)
        rt_sql_say(b, RT_SQL_FOLDED, rt_sql_text(d->name), rt_sql_number(c->session));
    bool all = c->elsewhere || c->doubt_all_until > rt_loop_now(c->base.loop);
    if (all && !RT_BUG(RT_BUG_STALE_SERVER_BELIEVED))
        /* The server may have what we gave back long ago; this looks at every line. */
        rt_sql_say(b, RT_SQL_INSPECT, rt_sql_text(NULL), rt_sql_number(c->session));
}

/* What the session has on the server, for compare(). Each statement sees what was committed when it began, and a line may be
 * unfolded between two of them: so folded tickets are looked for first, and then those that stand as rows. */
static void say_mine(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_belief *then = a->about;
    rt_belief_fini(then); /* of an earlier flight that was lost */
    *then = (struct rt_belief){0};
    rt_belief_ask(then, &c->base, NULL, NULL);
    forget_old(c, rt_loop_now(c->base.loop));
    say_folded(c, b, then);
    rt_sql_say(b, RT_SQL_MINE, rt_sql_number(c->session));
}

static void say_renew(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    c->beat_cuts = c->cuts;
    rt_sql_say(b, RT_SQL_RENEW, rt_sql_number(c->session),
               rt_sql_number(c->base.ttl_ms * UINT64_C(1000)));
}

static void renew_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    say_renew(a, b);
    say_mine(a, b);
    if (RT_BUG(RT_BUG_RENEWAL_SWEEPS))
        rt_sql_say(b, RT_SQL_BURY, rt_sql_number(8));
}

static void gather(const struct rt_sql_ask *a, const struct rt_sql_book *b, struct rt_belief *there)
{
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, RT_SQL_MINE, r)) != NULL;)
        rt_belief_add(there,
                      (struct rt_known){.number = (uint64_t)rt_sql_int(r, 1),
                                        .nonce = (uint64_t)rt_sql_int(r, 2),
                                        .granted = rt_sql_int(r, 3) != 0,
                                        .wanted = rt_sql_int(r, 4) != 0},
                      rt_sql_str(r, 0));
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, RT_SQL_FOLDED, r)) != NULL;)
        rt_belief_add(there,
                      (struct rt_known){.number = (uint64_t)rt_sql_int(r, 0),
                                        .nonce = (uint64_t)rt_sql_int(r, 1),
                                        .granted = true},
                      b->steps[r->step].args[0].text);
    size_t known = there->count;
    rt_belief_sort(there);
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, RT_SQL_INSPECT, r)) != NULL;) {
        struct rt_known k = {.number = (uint64_t)rt_sql_int(r, 1), .granted = true};
        bool holds = rt_sql_int(r, 7) != 0 && rt_sql_int(r, 8) == 0;
        if (!holds || rt_belief_has(there, known, rt_sql_str(r, 0), k.number))
            continue;
        rt_belief_add(there, k, rt_sql_str(r, 0));
        rt_sql_doubt(a->c, rt_sql_str(r, 0)); /* giving it back may fail */
    }
}

static void tell(void *arg, enum rt_event_kind kind, const struct rt_known *k)
{
    struct rt_sql_conn *c = arg;
    struct rt_sql_ticket *t = rt_sql_wait_find(c, k->name, k->number);
    if (kind == RT_GRANTED && t != NULL && t->waits) {
        rt_sql_wait_granted(c, t);
        return;
    }
    if (kind == RT_TICKET_LOST && t != NULL) {
        rt_sql_wait_lost(c, t);
        return;
    }
    if (kind == RT_TICKET_LOST && k->nonce != 0)
        rt_sql_bell_ring_now(c, k->name, k->nonce);
    rt_conn_event(&c->base, &(struct rt_event){.kind = kind,
                                               .session = c->session,
                                               .number = k->number,
                                               .nonce = k->nonce,
                                               .name = k->name});
}

/* What is lost is told before the session is renewed. Without memory the next renewal does it. */
static void compare(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_belief there = {0}, now = {0};
    if (RT_BUG(RT_BUG_BEAT_COMPARES_NOTHING))
        return;
    gather(a, b, &there);
    rt_belief_ask(&now, &a->c->base, NULL, NULL);
    if (rt_belief_compare(&there, a->about, &now, tell, a->c) && rt_sql_said(a, b, RT_SQL_INSPECT))
        a->c->elsewhere = false;
    rt_belief_fini(&there);
    rt_belief_fini(&now);
}

static void renew_free(struct rt_sql_ask *a)
{
    rt_belief_fini(a->about);
    rt_free(a->about);
}

static bool renew_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_op *op = a->entry.op;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_RENEW, 0);
    if (row == NULL) {
        forget_session(c);
        rt_sql_done(a, rt_sql_fail(c, ROTA_LOST, "the session has ended on the server"));
    } else {
        note_expires(c, row);
        op->beat.ttl_ms = c->base.ttl_ms;
        op->beat.allowance_ms = 0;
        compare(a, b);
        rt_sql_done(a, 0);
        rt_sql_hear_renewed(c);
        rt_sql_sweep(c);
    }
    return true;
}

static const struct rt_sql_plan renew_plan = {
    .alone = true, .say = renew_say, .heard = renew_heard, .freed = renew_free};

/* ---- After a cut ------------------------------------------------------------------------------------------------------ */

/* If the session is dead, the next BEAT says so. */
static bool learn_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_RENEW, 0);
    if (row != NULL)
        note_expires(a->c, row);
    return true;
}

static const struct rt_sql_plan learn_plan = {
    .alone = true, .say = say_renew, .heard = learn_heard};

void rt_sql_learn(struct rt_sql_conn *c)
{
    if (c->session == 0 || c->expires != 0 || c->elsewhere)
        return;
    struct rt_sql_ask *a = rt_sql_ask_new(c, &learn_plan, NULL, NULL, NULL);
    if (a == NULL)
        return;
    a->entry.first = a->entry.again = true;
    rt_sql_ask_go(a);
}

/* ---- On another server ---------------------------------------------------------------------------------------------- */

static bool check_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    compare(a, b);
    return true;
}

static const struct rt_sql_plan check_plan = {
    .alone = true, .reads = true, .say = say_mine, .heard = check_heard, .freed = renew_free};

/* NULL: no memory, OP (if there is one) has ended. */
static struct rt_sql_ask *ask_mine(struct rt_sql_conn *c, const struct rt_sql_plan *plan,
                                   struct rt_op *op)
{
    struct rt_belief *then = rt_alloc(sizeof(*then));
    struct rt_sql_ask *a = then != NULL ? rt_sql_ask_new(c, plan, op, NULL, then) : NULL;
    if (then == NULL && op != NULL)
        rt_conn_done(&c->base, op, rt_words_nomem(&c->base));
    if (a == NULL)
        rt_free(then);
    return a;
}

/* If this cannot be asked, or is not answered, a renewal looks at all. */
void rt_sql_elsewhere(struct rt_sql_conn *c)
{
    struct rt_sql_ask *a = c->session != 0 ? ask_mine(c, &check_plan, NULL) : NULL;
    rt_sql_uncertain(c);
    c->elsewhere = c->session != 0;
    if (a == NULL)
        return;
    a->entry.first = true;
    rt_sql_ask_go(a);
}

/* ---- Beginning to renew -------------------------------------------------------------------------------------------- */

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
    struct rt_sql_ask *a = ask_mine(c, &renew_plan, op);
    if (a == NULL)
        return;
    a->entry.first = !RT_BUG(RT_BUG_RENEWAL_BEHIND_ASKS);
    a->entry.again = true; /* renewing twice is harmless */
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
    if (c->parting == RT_SQL_STAYS && c->session != 0 && c->lanes[0].state == RT_DIAL_READY) {
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
