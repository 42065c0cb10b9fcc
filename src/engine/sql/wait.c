/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of ours that wait, or that hold and want to hear when somebody waits behind them.
 *
 *   joined ──▶ waits ── pushed, or looked for ──▶ granted ── armed ──▶ kept, for WANTED
 *                │ what is ahead may have ended by time ──▶ look ── dead ──▶ tend the line, look again
 *
 * Where the server pushes, a look is due only when what is ahead may have died, and after a new connection; where it
 * does not, a waiter waits for the bell of the ticket ahead, or is looked at every RT_SQL_POLL_MS. A line is served in
 * order, so of our tickets that wait in one line only the first is looked at; the next one has its turn when the first
 * no longer waits. A client with nothing to hear stops listening after a while: in PostgreSQL a NOTIFY wakes every
 * connection that listens to anything. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_MS 10      /* after the end of what is ahead: its renewal may be on its way */
#define NO_LINKS_MS 1000 /* after a link to wait on could not be had */
#define HEAR_MS 2000     /* how long we listen on when there is nothing to hear */

static int64_t now_of(const struct rt_sql_conn *c)
{
    return rt_loop_now(c->base.loop);
}

/* ---- Under the lock ------------------------------------------------------------------------------------------ */

void rt_sql_say_unfold(struct rt_sql_book *b, const char *name)
{
    rt_sql_say(b, RT_SQL_LOCK, rt_sql_text(name));
    rt_sql_say(b, RT_SQL_UNFOLD, rt_sql_text(name));
}

void rt_sql_say_settle(struct rt_sql_book *b, const char *name)
{
    rt_sql_say(b, RT_SQL_PURGE, rt_sql_text(name));
    rt_sql_say(b, RT_SQL_SETTLE, rt_sql_text(name));
    rt_sql_say(b, RT_SQL_TELL, rt_sql_text(name));
}

/* ---- Time ------------------------------------------------------------------------------------------------------ */

/* The timer fires at AT or before; then it is computed anew. */
static void note(struct rt_sql_conn *c, int64_t at)
{
    struct rt_timer *t = &c->wait_timer.timer;
    if (at != RT_NEVER && (t->slot == 0 || at < t->at))
        rt_timers_start(&c->base.loop->timers, t, at);
}

static bool waits_for_bell(const struct rt_sql_conn *c, const struct rt_sql_ticket *t)
{
    return c->driver->bells && t->waits && t->bell != 0 && !t->spins;
}

static void look_at(struct rt_sql_conn *c, struct rt_sql_ticket *t, int64_t at)
{
    t->look_at = at;
    note(c, at);
}

/* Whether there may be a link to wait on. */
static bool has_link(const struct rt_sql_conn *c)
{
    for (const struct rt_sql_lane *lane = &c->lanes[RT_SQL_LANES];
         lane < &c->lanes[RT_SQL_LANES + c->waits]; lane++)
        if (!lane->taken || lane->waiter == NULL)
            return now_of(c) >= c->no_links_until;
    return false;
}

/* ---- Our tickets that wait in one line ------------------------------------------------------------------------ */

/* Where the first that waits in the line NAME is kept. */
static struct rt_sql_ticket **first_of(struct rt_sql_conn *c, const char *name)
{
    struct rt_sql_ticket **at = &c->firsts[rt_hash(name, strlen(name)) % RT_SQL_BUCKETS];
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next_first;
    return at;
}

/* Whether T is looked at: all that do not wait are, and the first of those that do. */
static bool has_turn(struct rt_sql_conn *c, const struct rt_sql_ticket *t)
{
    return !t->waits || *first_of(c, t->name) == t;
}

/* Plans the next look at T: now, in a while, at the end of what is ahead, or never. */
static void plan_look(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    int64_t now = now_of(c), at = RT_NEVER;
    bool hears = c->driver->notifies || !(t->waits || t->armed);
    if (!hears)
        at = waits_for_bell(c, t) && has_link(c) ? now : now + RT_SQL_POLL_MS * RT_MS;
    at = at < t->ends_at ? at : t->ends_at;
    look_at(c, t, has_turn(c, t) ? at : RT_NEVER);
}

/* LEFT_US: how long until what it waits for may end by time; -1: it does not. */
static void look_in(struct rt_sql_conn *c, struct rt_sql_ticket *t, int64_t left_us)
{
    t->ends_at = left_us >= 0 ? now_of(c) + left_us * 1000 + GRACE_MS * RT_MS : RT_NEVER;
    plan_look(c, t);
}

/* T begins to wait, by its number mostly as the last. */
static void line_up(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    struct rt_sql_ticket **at = first_of(c, t->name), *first = *at;
    t->waits = true;
    if (first == NULL) {
        t->ahead = t->behind = t;
        t->next_first = NULL;
        *at = t;
        return;
    }
    struct rt_sql_ticket *behind = first; /* it comes in front of this one, in the ring */
    while (behind->ahead->number > t->number && behind->ahead != first)
        behind = behind->ahead;
    if (behind->ahead == first && first->number > t->number) {
        behind = first;
        t->next_first = first->next_first;
        *at = t;
    }
    t->behind = behind;
    t->ahead = behind->ahead;
    t->ahead->behind = t->behind->ahead = t;
}

/* T does not wait any more: the next one has its turn. */
static void step_out(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    struct rt_sql_ticket **at = first_of(c, t->name), *next = t->behind;
    assert(t->waits && *at != NULL);
    t->waits = false;
    if (*at == t)
        *at = next == t ? t->next_first : next;
    else
        next = NULL;
    t->ahead->behind = t->behind;
    t->behind->ahead = t->ahead;
    if (next == NULL || next == t)
        return;
    next->next_first = t->next_first;
    if (t->shares)
        next->ends_at = now_of(c); /* it may have been granted together with T */
    if (next->ask == NULL)
        plan_look(c, next);
}

/* ---- Which there are ------------------------------------------------------------------------------------------- */

static size_t bucket_of(const char *name, uint64_t number)
{
    return (rt_hash(name, strlen(name)) ^ number) % RT_SQL_BUCKETS;
}

/* The one after T (NULL: the first), or NULL. T may be dropped if the next was fetched before. */
static struct rt_sql_ticket *next_of(const struct rt_sql_conn *c, const struct rt_sql_ticket *t)
{
    struct rt_sql_ticket *next = t != NULL ? t->next : NULL;
    size_t i = t != NULL ? bucket_of(t->name, t->number) + 1 : 0;
    for (; next == NULL && i < RT_SQL_BUCKETS; i++)
        next = c->tickets[i];
    return next;
}

struct rt_sql_ticket *rt_sql_wait_find(struct rt_sql_conn *c, const char *name, uint64_t number)
{
    for (struct rt_sql_ticket *t = c->tickets[bucket_of(name, number)]; t != NULL; t = t->next)
        if (t->number == number && strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static void drop(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    if (t->waits)
        step_out(c, t);
    if (--c->ticket_count == 0) {
        c->hear_until = now_of(c) + HEAR_MS * RT_MS;
        note(c, c->hear_until);
    }
    if (t->ask != NULL && t->ask->on != NULL) {
        t->ask->on->waiter = NULL; /* nobody waits there any more, but the server does not know */
        if (!t->ask->entry.flying) /* or will never be told */
            rt_ledger_abandon(&c->ledger, &t->ask->entry, ROTA_CANCELED);
    }
    RT_LIST_OUT(t);
    rt_free(t);
}

void rt_sql_wait_stays(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    t->leaving = false;
    t->ends_at = now_of(c);
    if (t->ask == NULL)
        plan_look(c, t);
}

void rt_sql_wait_left(struct rt_sql_conn *c, const char *name, uint64_t number)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(c, name, number);
    if (t != NULL)
        drop(c, t);
}

static struct rt_sql_ticket *add(struct rt_sql_conn *c, const char *name, uint64_t session,
                                 uint64_t number)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(c, name, number);
    if (t != NULL)
        return t;
    size_t size = strlen(name) + 1;
    t = rt_alloc(sizeof(*t) + size);
    if (t == NULL)
        return NULL; /* BEAT tells what nothing else tells */
    t->session = session;
    t->number = number;
    t->look_at = RT_NEVER;
    memcpy(t->name, name, size);
    RT_LIST_ADD(&c->tickets[bucket_of(name, number)], t);
    c->ticket_count++;
    return t;
}

void rt_sql_wait_add(struct rt_sql_conn *c, const struct rt_join *join, int64_t left_us,
                     uint64_t bell)
{
    bool armed = join->flags & RT_JOIN_ARM;
    struct rt_sql_ticket *t = NULL;
    if (!join->granted || armed)
        t = add(c, join->name, join->session, join->number);
    if (t == NULL)
        return;
    t->armed = armed;
    t->bell = bell;
    t->nonce = join->nonce;
    t->shares = join->mode != RT_EXCLUSIVE;
    t->permits = join->mode == RT_PERMITS;
    t->waited = !join->granted;
    if (t->waits && join->granted)
        step_out(c, t);
    else if (!t->waits && !join->granted)
        line_up(c, t);
    look_in(c, t, left_us);
}

void rt_sql_wait_uncertain(struct rt_sql_conn *c)
{
    for (struct rt_sql_ticket *t = NULL; (t = next_of(c, t)) != NULL;)
        t->waited = false;
}

void rt_sql_wait_arm(struct rt_sql_conn *c, const char *name, uint64_t session, uint64_t number)
{
    struct rt_sql_ticket *t = add(c, name, session, number);
    if (t == NULL)
        return;
    t->armed = t->waited = true;
    look_in(c, t, -1);
}

void rt_sql_wait_forget(struct rt_sql_conn *c, uint64_t session)
{
    for (struct rt_sql_ticket *t = next_of(c, NULL), *next; t != NULL; t = next) {
        next = next_of(c, t);
        if (session == 0 || t->session == session)
            drop(c, t);
    }
}

/* ---- Telling ---------------------------------------------------------------------------------------------------- */

void rt_sql_tell(struct rt_sql_conn *c, enum rt_event_kind kind, uint64_t session, uint64_t number,
                 const char *name)
{
    rt_conn_event(&c->base, &(struct rt_event){
                                .kind = kind, .session = session, .number = number, .name = name});
}

void rt_sql_wait_granted(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    if (!t->waits)
        return;
    step_out(c, t);
    rt_sql_tell(c, RT_GRANTED, t->session, t->number, t->name);
    if (t->shares) /* those behind it may hold too, and wait for it */
        rt_sql_bell_ring_now(c, t->name, t->nonce);
    look_in(c, t, -1);
    if (t->armed) /* those who wait behind it by now came before it held, and told nobody */
        look_at(c, t, now_of(c));
}

void rt_sql_wait_lost(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    if (t->nonce != 0)
        rt_sql_bell_ring_now(c, t->name, t->nonce);
    if (!t->leaving)
        rt_sql_tell(c, RT_TICKET_LOST, t->session, t->number, t->name);
    drop(c, t);
}

/* ---- Looks ------------------------------------------------------------------------------------------------------- */

static void tend_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say_unfold(b, a->name);
    rt_sql_say_settle(b, a->name);
}

static bool tend_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_ticket *first = *first_of(a->c, a->name);
    (void)b;
    if (first != NULL && first->ask == NULL)
        look_at(a->c, first, now_of(a->c) + (a->c->driver->notifies ? GRACE_MS * RT_MS : 0));
    return true;
}

static const struct rt_sql_plan tend_plan = {.reads = true, .say = tend_say, .heard = tend_heard};

void rt_sql_tend(struct rt_sql_conn *c, const char *name)
{
    if (!RT_BUG(RT_BUG_DEAD_NOT_TENDED))
        (void)rt_sql_ask(c, &tend_plan, NULL, name, NULL);
}

static int64_t bell_ms(const struct rt_sql_conn *c, const struct rt_sql_ticket *t)
{
    int64_t most = c->base.ttl_ms; /* its own BEAT tells in time what no bell does */
    int64_t left = t->ends_at != RT_NEVER ? (t->ends_at - now_of(c)) / RT_MS : most;
    return left < 0 ? 0 : left < most ? left : most;
}

static void look_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_sql_ticket *t = rt_sql_wait_find(a->c, a->name, a->tag);
    enum rt_sql_step_kind kind = t != NULL && !t->waits                      ? RT_SQL_STATE
                                 : a->on != NULL && t != NULL && !t->permits ? RT_SQL_LOOK_AHEAD
                                                                             : RT_SQL_LOOK;
    if (t != NULL && a->on != NULL)
        rt_sql_say(b, RT_SQL_BELL_WAIT, rt_sql_number(t->bell),
                   rt_sql_number((uint64_t)bell_ms(a->c, t)));
    rt_sql_say(b, kind, rt_sql_text(a->name), rt_sql_number(t != NULL ? t->session : 0),
               rt_sql_number(a->tag));
}

/* It still waits, behind what ROW says. */
static void look_on(struct rt_sql_ask *a, struct rt_sql_ticket *t, const struct rt_sql_row *row)
{
    uint64_t bell = (uint64_t)rt_sql_int(row, 2);
    bool soon = a->on != NULL && now_of(a->c) - a->entry.sent_at < RT_SQL_POLL_MS * RT_MS;
    t->spins = bell == t->bell && (soon || t->spins);
    t->bell = bell;
    look_in(a->c, t, rt_sql_null(row, 1) ? -1 : rt_sql_int(row, 1));
    if (!rt_sql_null(row, 1) && rt_sql_int(row, 1) <= 0)
        rt_sql_tend(a->c, a->name);
}

static void look_armed(struct rt_sql_conn *c, struct rt_sql_ticket *t,
                       const struct rt_sql_row *state)
{
    bool wanted = state != NULL && rt_sql_int(state, 2) != 0;
    if (wanted && !t->wanted)
        rt_sql_tell(c, RT_WANTED, t->session, t->number, t->name);
    t->wanted = wanted;
    look_in(c, t, -1);
}

static bool look_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_sql_ticket *t = rt_sql_wait_find(c, a->name, a->tag);
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_LOOK, 0);
    if (row == NULL)
        row = rt_sql_row(a, b, RT_SQL_LOOK_AHEAD, 0);
    if (t == NULL || t->ask != a)
        return true;
    t->ask = NULL;
    if (t->leaving)
        return true; /* the answer to its LEAVE says the rest */
    if (!t->waits)
        look_armed(c, t, rt_sql_row(a, b, RT_SQL_STATE, 0));
    else if (row == NULL)
        rt_sql_wait_lost(c, t);
    else if (rt_sql_int(row, 0) != 0)
        rt_sql_wait_granted(c, t);
    else
        look_on(a, t, row);
    return true;
}

static void look_failed(struct rt_sql_ask *a, int err)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(a->c, a->name, a->tag);
    (void)err;
    if (t == NULL || t->ask != a)
        return;
    t->ask = NULL;
    t->spins = has_link(a->c); /* or there is none to wait on: it is looked at now and then, too */
    look_in(a->c, t, a->c->base.ttl_ms * INT64_C(1000) / 3);
}

static void look_freed(struct rt_sql_ask *a)
{
    if (a->on != NULL && (a->on->waiter == NULL || a->on->waiter == a)) {
        a->on->waiter = NULL;
        a->on->taken = false;
    }
}

static const struct rt_sql_plan look_plan = {.reads = true,
                                             .say = look_say,
                                             .heard = look_heard,
                                             .failed = look_failed,
                                             .freed = look_freed};

/* A link to wait on, or NULL. One that still waits for somebody who has gone is cut only if there is no other. */
static struct rt_sql_lane *free_link(struct rt_sql_conn *c)
{
    struct rt_sql_lane *left = NULL;
    for (struct rt_sql_lane *lane = &c->lanes[RT_SQL_LANES];
         lane < &c->lanes[RT_SQL_LANES + c->waits]; lane++) {
        if (!lane->taken)
            return lane;
        left = lane->waiter == NULL ? lane : left;
    }
    if (left != NULL)
        rt_sql_lane_abandon(left);
    return left;
}

static void look(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    struct rt_sql_ask *a = rt_sql_ask_new(c, &look_plan, NULL, t->name, NULL);
    if (a == NULL) {
        look_in(c, t, RT_SQL_POLL_MS * 1000);
        return;
    }
    a->tag = t->number;
    a->on = waits_for_bell(c, t) && has_link(c) ? free_link(c) : NULL;
    if (a->on != NULL) {
        a->on->taken = true;
        a->on->waiter = a;
        a->single = true;
        a->slow = bell_ms(c, t) * RT_MS;
        a->entry.deadline = now_of(c) + a->slow + c->base.call_ms * RT_MS;
    }
    t->ask = a;
    t->look_at = RT_NEVER;
    rt_sql_ask_go(a);
}

void rt_sql_wait_refused(struct rt_sql_conn *c, struct rt_sql_lane *lane)
{
    if (lane->waiter == NULL)
        return;
    c->no_links_until = now_of(c) + NO_LINKS_MS * RT_MS;
    rt_ledger_abandon(&c->ledger, &lane->waiter->entry, ROTA_UNREACHABLE);
    lane->waiter = NULL;
}

/* Those that have no turn yet are looked at when they have. */
void rt_sql_wait_look_all(struct rt_sql_conn *c)
{
    for (struct rt_sql_ticket *t = NULL; (t = next_of(c, t)) != NULL;) {
        t->ends_at = now_of(c);
        if (t->ask == NULL)
            plan_look(c, t);
    }
}

/* ---- Life --------------------------------------------------------------------------------------------------------- */

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_sql_conn *c =
        (struct rt_sql_conn *)(void *)((char *)call - offsetof(struct rt_sql_conn, wait_timer));
    for (struct rt_sql_ticket *t = NULL; (t = next_of(c, t)) != NULL;) {
        if (t->leaving)
            continue;
        if (t->ask == NULL && t->look_at <= now)
            look(c, t);
        if (t->ask == NULL) /* else its look's answer says when the next is due */
            note(c, t->look_at);
    }
    if (c->ticket_count > 0 || !c->lanes[0].listens)
        return;
    if (c->hear_until <= now)
        rt_sql_unlisten(c);
    else
        note(c, c->hear_until);
}

void rt_sql_wait_init(struct rt_sql_conn *c)
{
    c->wait_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
}

void rt_sql_wait_fini(struct rt_sql_conn *c)
{
    rt_sql_wait_forget(c, 0);
    rt_timers_stop(&c->base.loop->timers, &c->wait_timer.timer);
}
