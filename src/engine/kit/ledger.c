/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: kept, sent, sent again, ended at their deadline. */
#include "engine/kit/ledger.h"

#include "base/list.h"
#include "engine/kit/words.h"
#include "engine/kit/work.h"

#include <assert.h>
#include <stddef.h>

#define PAUSE_FIRST_MS 20
#define PAUSE_LAST_MS 500
#define LATER (UINT64_C(1) << 63) /* of an order: not `first` */
#define LAST (UINT64_C(1) << 62)  /* ... and behind all that are not `last` */

/* ---- Rings ------------------------------------------------------------------------------------ */

static void take(struct rt_entry *e)
{
    assert(e->next != NULL);
    RT_RING_OUT(e);
    e->next = e->prev = NULL;
}

void rt_ledger_heard(struct rt_ledger *l, const struct rt_entry *e)
{
    l->heard_at = rt_loop_now(l->base->loop);
    if (e->sent_at > l->heard_of)
        l->heard_of = e->sent_at;
}

void rt_ledger_out(struct rt_entry *e)
{
    take(e);
    if (e->pending != NULL)
        (*e->pending)--;
}

/* By its order: mostly the last, or, if it comes back, the first. */
static void wait(struct rt_ledger *l, struct rt_entry *e)
{
    struct rt_entry *head = &l->waiting, *behind = head, *ahead = head->next;
    while (behind->prev != head && behind->prev->order > e->order) {
        if (ahead->order > e->order) {
            behind = ahead;
            break;
        }
        behind = behind->prev;
        ahead = ahead->next;
    }
    e->flying = false;
    RT_RING_ADD(behind, e);
}

/* ---- Sending ---------------------------------------------------------------------------------- */

void rt_ledger_by(struct rt_ledger *l, int64_t at)
{
    struct rt_timer *t = &l->timer.timer;
    if (at != RT_NEVER && (t->slot == 0 || t->at > at))
        rt_timers_start(&l->base->loop->timers, t, at);
}

static void give_up(struct rt_ledger *l, struct rt_entry *e, int err)
{
    e->given_up = true;
    e->err = err;
    rt_ledger_by(l, rt_loop_now(l->base->loop));
}

/* E is in no ring; afterwards it is. */
static bool try_send(struct rt_ledger *l, struct rt_entry *e)
{
    int64_t now = rt_loop_now(l->base->loop);
    int rv = ROTA_UNREACHABLE;
    if (!e->given_up && e->not_before <= now && e->deadline > now)
        rv = l->user->send(l, e, &e->via);
    if (rv == 0) {
        e->flying = true;
        e->sent_at = now;
        if (e->delayed)
            e->deadline = now + l->base->call_ms * RT_MS;
        e->delayed = false;
        RT_RING_ADD(&l->flying, e);
        return true;
    }
    if (rv != ROTA_UNREACHABLE)
        give_up(l, e, rv);
    wait(l, e);
    if (e->not_before > now)
        rt_ledger_by(l, e->not_before);
    return false;
}

void rt_ledger_for(struct rt_ledger *l, struct rt_entry *e, struct rt_op *op)
{
    e->op = op;
    e->has_time = op != NULL && rt_work_has_time(op);
    e->deadline = op != NULL && op->deadline != RT_NEVER ? op->deadline : 0;
    if (e->has_time && e->deadline <= rt_loop_now(l->base->loop))
        e->deadline = 0; /* a later step of one that has taken longer */
}

bool rt_ledger_add(struct rt_ledger *l, struct rt_entry *e)
{
    assert(e->next == NULL && !e->given_up);
    if (e->deadline == 0)
        e->deadline = rt_loop_now(l->base->loop) + l->base->call_ms * RT_MS;
    e->order = ++l->orders | (e->first ? 0 : LATER) | (e->last ? LAST : 0);
    if (e->pending != NULL)
        (*e->pending)++;
    rt_ledger_by(l, e->deadline);
    return try_send(l, e);
}

static void come_back(struct rt_entry *e)
{
    take(e);
    e->was_again = e->was_again || e->maybe;
    e->flying = false;
}

void rt_ledger_again(struct rt_ledger *l, struct rt_entry *e, bool pause)
{
    int64_t ms = PAUSE_FIRST_MS << (e->pauses < 5 ? e->pauses : 5);
    come_back(e);
    e->not_before = rt_loop_now(l->base->loop);
    if (pause) {
        e->pauses++;
        e->not_before += (ms > PAUSE_LAST_MS ? PAUSE_LAST_MS : ms) * RT_MS;
    }
    wait(l, e);
    rt_ledger_by(l, e->not_before);
}

bool rt_ledger_resend(struct rt_ledger *l, struct rt_entry *e)
{
    come_back(e);
    return try_send(l, e);
}

/* The entries of REST wait again; what came to wait meanwhile takes its place among them. */
static void wait_on(struct rt_ledger *l, struct rt_entry *rest)
{
    struct rt_entry came, *head = &l->waiting;

    RT_RING_INIT(&came);
    while (head->prev != head && head->prev->order > rest->next->order) {
        struct rt_entry *e = head->prev;
        take(e);
        RT_RING_ADD(&came, e);
    }
    head->prev->next = rest->next;
    rest->next->prev = head->prev;
    rest->prev->next = head;
    head->prev = rest->prev;
    while (!RT_RING_EMPTY(&came)) {
        struct rt_entry *e = came.next;
        take(e);
        wait(l, e);
    }
}

static bool is_full(const struct rt_ledger *l)
{
    return l->user->full != NULL && l->user->full(l);
}

void rt_ledger_flush(struct rt_ledger *l)
{
    struct rt_entry all;
    RT_RING_MOVE(&all, &l->waiting);
    while (!RT_RING_EMPTY(&all)) {
        struct rt_entry *e = all.next;
        if ((e->order & LATER) != 0 && is_full(l)) {
            wait_on(l, &all);
            return;
        }
        take(e);
        (void)try_send(l, e);
    }
}

/* What was to be tried again by now. */
static void flush_due(struct rt_ledger *l)
{
    struct rt_entry due;
    RT_RING_INIT(&due);
    for (struct rt_entry *e = l->waiting.next, *next; e != &l->waiting; e = next) {
        next = e->next;
        if (e->not_before == 0)
            continue;
        take(e);
        RT_RING_ADD(&due, e);
    }
    while (!RT_RING_EMPTY(&due)) {
        struct rt_entry *e = due.next;
        take(e);
        (void)try_send(l, e);
    }
}

void rt_ledger_abandon(struct rt_ledger *l, struct rt_entry *e, int err)
{
    if (e->next != NULL && !e->given_up)
        give_up(l, e, err);
}

/* ---- Ends ------------------------------------------------------------------------------------- */

/* E is in a ring. */
static void end(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    rt_ledger_out(e);
    bool unknown = !e->reads && (e->maybe || e->flying);
    l->user->ended(l, e, unknown ? ROTA_UNKNOWN : err, why);
}

static bool may_be_delayed(const struct rt_ledger *l, const struct rt_entry *e, int64_t now)
{
    return e->deadline <= now && !e->first && !e->last && e->sent_at == 0 && l->user->queues(l, e);
}

/* What has never been sent, and waits for others of ours, which are answered. */
static void delay(struct rt_ledger *l, int64_t now)
{
    int64_t until = l->heard_at + l->base->call_ms * RT_MS;

    if (l->user->queues == NULL || l->heard_at == 0 || until <= now)
        return;
    for (struct rt_entry *e = l->waiting.next; e != &l->waiting; e = e->next)
        if (may_be_delayed(l, e, now)) {
            e->deadline = until;
            e->delayed = true;
        }
}

/* What flies, is late, and may be, because the server is only slow. */
static void put_off(struct rt_ledger *l, int64_t now)
{
    int64_t call = l->base->call_ms * RT_MS, until = l->heard_at + call;

    if (l->heard_at == 0 || until <= now)
        return;
    for (struct rt_entry *e = l->flying.next; e != &l->flying; e = e->next)
        if (e->has_time && e->deadline <= now && l->heard_of < e->sent_at + call)
            e->deadline = until;
}

static void take_over(struct rt_entry *from, struct rt_entry *over, int64_t now)
{
    for (struct rt_entry *e = from->next, *next; e != from; e = next) {
        next = e->next;
        if (!e->given_up && e->deadline > now)
            continue;
        take(e);
        RT_RING_ADD(over, e);
    }
}

static int64_t next_due(const struct rt_entry *head, int64_t now)
{
    int64_t next = RT_NEVER;
    for (const struct rt_entry *e = head->next; e != head; e = e->next) {
        int64_t at = e->given_up ? now : e->deadline;
        if (!e->flying && e->not_before > now && e->not_before < at)
            at = e->not_before;
        next = at < next ? at : next;
    }
    return next;
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_ledger *l = (struct rt_ledger *)(void *)((char *)call -
                                                       offsetof(struct rt_ledger, timer));
    struct rt_entry over;
    RT_RING_INIT(&over);
    delay(l, now);
    put_off(l, now);
    take_over(&l->waiting, &over, now);
    take_over(&l->flying, &over, now);
    while (!RT_RING_EMPTY(&over)) {
        struct rt_entry *e = over.next;
        end(l, e, e->given_up ? e->err : ROTA_UNREACHABLE, NULL);
    }
    if (l->user->tick != NULL)
        rt_ledger_by(l, l->user->tick(l, now));
    flush_due(l);
    rt_ledger_by(l, next_due(&l->waiting, now));
    rt_ledger_by(l, next_due(&l->flying, now));
}

/* Those that stay wait again before anybody is told, so that whoever is told finds them: to give up, or to answer. */
void rt_ledger_lost(struct rt_ledger *l, const void *via, const char *why)
{
    struct rt_entry over;
    RT_RING_INIT(&over);
    for (struct rt_entry *e = l->flying.next, *next; e != &l->flying; e = next) {
        next = e->next;
        if (e->via != via)
            continue;
        e->maybe = true;
        if ((e->reads || e->again) && !e->given_up) {
            rt_ledger_again(l, e, false);
            continue;
        }
        take(e);
        RT_RING_ADD(&over, e);
    }
    while (!RT_RING_EMPTY(&over))
        end(l, over.next, over.next->err, why);
}

void rt_ledger_refuse(struct rt_ledger *l, int err, const char *why)
{
    struct rt_entry all;
    RT_RING_MOVE(&all, &l->waiting);
    while (!RT_RING_EMPTY(&all))
        end(l, all.next, err, why);
}

struct rt_entry *rt_ledger_find(const struct rt_ledger *l,
                                bool (*is)(const struct rt_entry *e, const void *arg),
                                const void *arg)
{
    for (struct rt_entry *e = l->flying.next; e != &l->flying; e = e->next)
        if (is(e, arg))
            return e;
    for (struct rt_entry *e = l->waiting.next; e != &l->waiting; e = e->next)
        if (is(e, arg))
            return e;
    return NULL;
}

static bool is_of(const struct rt_entry *e, const void *op)
{
    return e->op == op;
}

bool rt_ledger_cancel(struct rt_ledger *l, const struct rt_op *op)
{
    assert(op != NULL);
    struct rt_entry *e = rt_ledger_find(l, is_of, op);
    if (e != NULL)
        rt_ledger_abandon(l, e, ROTA_CANCELED);
    return e != NULL;
}

int rt_ledger_say(struct rt_ledger *l, const struct rt_entry *e, int err, const char *why,
                  const char *who, const char *at, const char *trouble)
{
    struct rt_conn *conn = l->base;
    if (why != NULL)
        return rt_words_fail(conn, err, "%s%.220s", e->flying ? "no answer came: " : "", why);
    if (err == ROTA_NOMEM)
        return rt_words_nomem(conn);
    if (e->given_up)
        return rt_words_fail(conn, err, "given up %s",
                             e->flying ? "under way" : "before it was sent");
    if (e->flying)
        return rt_words_fail(conn, err, "%.180s has not answered in time", at);
    return rt_words_fail(conn, err, "%s cannot be used now: %.220s", who,
                         trouble[0] != '\0' ? trouble : "it has not answered yet");
}

/* ---- Life ------------------------------------------------------------------------------------- */

void rt_ledger_init(struct rt_ledger *l, struct rt_conn *base, const struct rt_ledger_user *user)
{
    l->user = user;
    l->base = base;
    RT_RING_INIT(&l->waiting);
    RT_RING_INIT(&l->flying);
    l->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
}

void rt_ledger_fini(struct rt_ledger *l, void (*free)(struct rt_ledger *l, struct rt_entry *e))
{
    rt_timers_stop(&l->base->loop->timers, &l->timer.timer);
    for (int i = 0; i < 2; i++) {
        struct rt_entry *head = i == 0 ? &l->waiting : &l->flying;
        while (!RT_RING_EMPTY(head)) {
            struct rt_entry *e = head->next;
            take(e);
            free(l, e);
        }
    }
}
