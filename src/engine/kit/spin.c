/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kit/spin.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/hash.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- Tickets ------------------------------------------------------------------------------------ */

static struct rt_spin_ticket **bucket(struct rt_spin *s, const char *name)
{
    return &s->buckets[rt_hash(name, strlen(name)) % RT_SPIN_BUCKETS];
}

struct rt_spin_ticket *rt_spin_by_nonce(struct rt_spin *s, const char *name, uint64_t nonce)
{
    struct rt_spin_ticket *t = *bucket(s, name);
    while (t != NULL && (t->nonce != nonce || strcmp(t->name, name) != 0))
        t = t->next;
    return t;
}

struct rt_spin_ticket *rt_spin_by_number(struct rt_spin *s, const char *name, uint64_t number)
{
    struct rt_spin_ticket *t = *bucket(s, name);
    while (t != NULL && (number == 0 || t->number != number || strcmp(t->name, name) != 0))
        t = t->next;
    return t;
}

struct rt_spin_ticket *rt_spin_leaver(struct rt_spin *s, const struct rt_op *op)
{
    assert(op->kind == RT_OP_LEAVE);
    struct rt_spin_ticket *t = op->leave.nonce != 0
                                   ? rt_spin_by_nonce(s, op->leave.name, op->leave.nonce)
                                   : rt_spin_by_number(s, op->leave.name, op->leave.number);
    return t != NULL && rt_leave_names(op, t->number, t->nonce) ? t : NULL;
}

static struct rt_spin_ticket *ticket_new(struct rt_spin *s, const struct rt_join *join)
{
    size_t size = strlen(join->name) + 1;
    struct rt_spin_ticket *t = rt_alloc(s->user->size + size);
    if (t == NULL)
        return NULL;
    t->name = memcpy((char *)t + s->user->size, join->name, size);
    t->nonce = join->nonce;
    t->owner = join->owner;
    t->mode = join->mode;
    t->detects = join->flags & RT_JOIN_DETECT;
    struct rt_spin_ticket **head = bucket(s, join->name);
    RT_LIST_ADD(head, t);
    s->tickets++;
    return t;
}

void rt_spin_state(struct rt_spin *s, struct rt_spin_ticket *t, enum rt_spin_state state)
{
    s->waiting -= t->state == RT_SPIN_WAITING;
    s->waiting += state == RT_SPIN_WAITING;
    t->state = state;
}

void rt_spin_free(struct rt_spin *s, struct rt_spin_ticket *t)
{
    if (s->user->freed != NULL)
        s->user->freed(s, t);
    rt_spin_state(s, t, RT_SPIN_LEAVING);
    RT_LIST_OUT(t);
    assert(s->tickets > 0);
    s->tickets--;
    rt_free(t);
}

void rt_spin_each(struct rt_spin *s,
                  void (*each)(struct rt_spin *s, struct rt_spin_ticket *t, void *arg), void *arg)
{
    for (size_t i = 0; s->tickets > 0 && i < RT_SPIN_BUCKETS; i++)
        for (struct rt_spin_ticket *t = s->buckets[i], *next; t != NULL; t = next) {
            next = t->next;
            each(s, t, arg);
        }
}

static void forget(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    (void)arg;
    rt_spin_free(s, t);
}

void rt_spin_forget_all(struct rt_spin *s)
{
    rt_spin_each(s, forget, NULL);
    assert(s->tickets == 0 && s->waiting == 0);
}

/* ---- JOIN --------------------------------------------------------------------------------------- */

void rt_spin_unmake(struct rt_spin *s, const struct rt_op *op)
{
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_spin_ticket *t = rt_spin_by_nonce(s, op->join.joins[i].name,
                                                    op->join.joins[i].nonce);
        if (t != NULL && t->state == RT_SPIN_JOINING)
            rt_spin_free(s, t);
    }
}

int rt_spin_make(struct rt_spin *s, const struct rt_op *op)
{
    for (size_t i = 0; i < op->join.n; i++) {
        const struct rt_join *j = &op->join.joins[i];
        if (rt_spin_by_nonce(s, j->name, j->nonce) == NULL && ticket_new(s, j) == NULL) {
            rt_spin_unmake(s, op);
            return rt_words_nomem(s->base);
        }
    }
    return 0;
}

bool rt_spin_stands(struct rt_spin *s, struct rt_op *op)
{
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        const struct rt_spin_ticket *t = rt_spin_by_nonce(s, j->name, j->nonce);
        if (t == NULL || t->state != RT_SPIN_WAITING)
            return false;
        j->number = t->number;
        j->granted = j->wanted = false;
    }
    rt_conn_done(s->base, op, 0);
    return true;
}

void rt_spin_joined(struct rt_spin *s, struct rt_op *op, size_t i, uint64_t number)
{
    struct rt_join *join = &op->join.joins[i];
    struct rt_spin_ticket *t = rt_spin_by_nonce(s, join->name, join->nonce);
    assert(t != NULL);
    rt_spin_state(s, t, RT_SPIN_HELD);
    t->number = number != 0 ? number : ++s->names;
    t->at_once = t->doubt = false;
    t->set = 0;
    join->number = t->number;
    join->granted = true;
    /* Nobody can say that nobody waits. Not for readers: they would keep each other out that way. */
    join->wanted = join->flags & RT_JOIN_ARM && join->mode == RT_EXCLUSIVE;
}

void rt_spin_wait_all(struct rt_spin *s, struct rt_op *op, int64_t left_ms)
{
    uint64_t set = op->join.n > 1 ? ++s->sets : 0;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *join = &op->join.joins[i];
        struct rt_spin_ticket *t = rt_spin_by_nonce(s, join->name, join->nonce);
        assert(t != NULL);
        t->set = set;
        join->number = t->number = ++s->names;
        join->granted = join->wanted = false;
        rt_spin_wait(s, t, left_ms);
    }
}

/* ---- Waiting ------------------------------------------------------------------------------------ */

static uint64_t throw(struct rt_spin * s)
{
    s->dice ^= s->dice << 13;
    s->dice ^= s->dice >> 7;
    s->dice ^= s->dice << 17;
    return s->dice;
}

void rt_spin_wait(struct rt_spin *s, struct rt_spin_ticket *t, int64_t left_ms)
{
    int64_t half = s->pause_ms / 2;
    int64_t ms = half + (int64_t)(throw(s) % (uint64_t)(half + 1));
    if (left_ms >= 0 && left_ms < ms)
        ms = left_ms + 1;
    rt_spin_state(s, t, RT_SPIN_WAITING);
    t->in_flight = false;
    t->retry_at = rt_loop_now(s->base->loop) + (t->at_once ? 0 : ms * RT_MS);
    t->at_once = false;
    struct rt_timer *timer = &s->timer.timer;
    if (timer->slot == 0 || timer->at > t->retry_at)
        rt_timers_start(&s->base->loop->timers, timer, t->retry_at);
}

void rt_spin_now(struct rt_spin *s, struct rt_spin_ticket *t)
{
    t->at_once = true;
    if (t->state == RT_SPIN_WAITING && !t->in_flight)
        rt_spin_wait(s, t, -1);
}

struct mates { /* tickets that are asked for together */
    uint64_t set;
    struct rt_spin_ticket **list;
    size_t count;
};

static void find_mate(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    struct mates *m = arg;
    (void)s;
    if (t->state != RT_SPIN_WAITING || t->set != m->set)
        return;
    if (m->list != NULL)
        m->list[m->count] = t;
    m->count++;
}

/* Without memory, or a way: there may be one later. */
static void ask_again(struct rt_spin *s, struct rt_spin_ticket **list, size_t n)
{
    s->base->retries++;
    for (size_t i = 0; i < n; i++)
        list[i]->in_flight = true;
    if (s->user->ask(s, list, n))
        return;
    for (size_t i = 0; i < n; i++)
        rt_spin_wait(s, list[i], -1);
}

static void retry(struct rt_spin *s, struct rt_spin_ticket *t)
{
    struct mates m = {.set = t->set};
    if (t->set == 0) {
        ask_again(s, &t, 1);
        return;
    }
    rt_spin_each(s, find_mate, &m);
    m.list = rt_alloc(m.count * sizeof(struct rt_spin_ticket *));
    if (m.list == NULL) {
        rt_spin_wait(s, t, -1);
        return;
    }
    m.count = 0;
    rt_spin_each(s, find_mate, &m);
    ask_again(s, m.list, m.count);
    rt_free(m.list);
}

struct due {
    int64_t now, next;
};

static void if_due(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    struct due *due = arg;
    if (t->state != RT_SPIN_WAITING || t->in_flight)
        return;
    if (t->retry_at <= due->now)
        retry(s, t);
    else if (t->retry_at < due->next)
        due->next = t->retry_at;
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_spin *s = (struct rt_spin *)(void *)((char *)call - offsetof(struct rt_spin, timer));
    struct due due = {.now = now, .next = RT_NEVER};
    if (s->waiting > 0 && !rt_spin_over(s))
        rt_spin_each(s, if_due, &due);
    struct rt_timer *timer = &s->timer.timer; /* a ticket may have set it meanwhile */
    if (due.next != RT_NEVER && (timer->slot == 0 || timer->at > due.next))
        rt_timers_start(&s->base->loop->timers, timer, due.next);
}

struct rt_spin_ticket *rt_spin_answered(struct rt_spin *s, uint64_t session, const char *name,
                                        uint64_t nonce, bool *leaving)
{
    struct rt_spin_ticket *t = session == s->session ? rt_spin_by_nonce(s, name, nonce) : NULL;
    *leaving = false;
    if (t == NULL)
        return NULL;
    t->in_flight = false;
    *leaving = t->state == RT_SPIN_LEAVING;
    return t->state == RT_SPIN_WAITING ? t : NULL;
}

void rt_spin_granted(struct rt_spin *s, struct rt_spin_ticket *t, uint64_t number)
{
    struct rt_event event = {.kind = RT_GRANTED,
                             .session = s->session,
                             .number = t->number,
                             .nonce = t->nonce,
                             .name = t->name};
    number = number != 0 ? number : ++s->names;
    event.fence = number != t->number ? number : 0;
    t->number = number;
    rt_spin_state(s, t, RT_SPIN_HELD);
    t->set = 0;
    t->doubt = t->at_once = false;
    rt_conn_event(s->base, &event);
}

void rt_spin_lost(struct rt_spin *s, struct rt_spin_ticket *t)
{
    struct rt_event event = {.kind = RT_TICKET_LOST,
                             .session = s->session,
                             .number = t->number,
                             .nonce = t->nonce,
                             .name = t->name};
    rt_spin_state(s, t, RT_SPIN_LEAVING);
    rt_conn_event(s->base, &event); /* nobody who is told calls back */
    rt_spin_free(s, t);
}

/* ---- The session -------------------------------------------------------------------------------- */

void rt_spin_open(struct rt_spin *s, uint64_t session, int64_t at)
{
    assert(session != 0);
    rt_spin_forget_all(s); /* what an earlier one had ends by its ttl */
    s->session = session;
    s->beat_at = at;
}

void rt_spin_renewed(struct rt_spin *s, uint64_t session, int64_t at)
{
    if (session == s->session && at > s->beat_at)
        s->beat_at = at;
}

bool rt_spin_over(struct rt_spin *s)
{
    int64_t ends = s->beat_at + s->base->ttl_ms * RT_MS;
    if (s->session == 0 || rt_loop_now(s->base->loop) < ends || RT_BUG(RT_BUG_ASKS_FOR_THE_DEAD))
        return s->session == 0;
    struct rt_event event = {.kind = RT_SESSION_LOST, .session = s->session};
    rt_spin_forget_all(s); /* what it has on the server ends by its ttl */
    s->session = 0;
    rt_conn_event(s->base, &event);
    return true;
}

static bool is_due(const struct rt_spin_ticket *t, bool asked)
{
    if (t->state == RT_SPIN_HELD)
        return true;
    return asked && !RT_BUG(RT_BUG_ASKED_NOT_RENEWED) &&
           (t->state == RT_SPIN_JOINING ||
            (t->state == RT_SPIN_WAITING && (t->in_flight || t->doubt)));
}

struct rt_spin_dues *rt_spin_dues(struct rt_spin *s, bool asked)
{
    size_t count = 0, bytes = 0, at = 0;
    for (size_t i = 0; i < RT_SPIN_BUCKETS; i++)
        for (const struct rt_spin_ticket *t = s->buckets[i]; t != NULL; t = t->next)
            if (is_due(t, asked)) {
                count++;
                bytes += strlen(t->name) + 1;
            }
    struct rt_spin_dues *d = rt_alloc(sizeof(*d) + count * sizeof(d->list[0]) + bytes);
    if (d == NULL)
        return NULL;
    char *text = (char *)&d->list[count];
    *d = (struct rt_spin_dues){
        .session = s->session, .at = rt_loop_now(s->base->loop), .count = count};
    for (size_t i = 0; i < RT_SPIN_BUCKETS; i++)
        for (const struct rt_spin_ticket *t = s->buckets[i]; t != NULL; t = t->next)
            if (is_due(t, asked)) {
                size_t size = strlen(t->name) + 1;
                d->list[at++] = (struct rt_spin_due){.name = memcpy(text, t->name, size),
                                                     .nonce = t->nonce,
                                                     .held = t->state == RT_SPIN_HELD};
                text += size;
            }
    return d;
}

/* ---- Life --------------------------------------------------------------------------------------- */

void rt_spin_init(struct rt_spin *s, struct rt_conn *base, const struct rt_spin_user *user,
                  uint32_t pause_ms, uint64_t dice)
{
    assert(user->size >= sizeof(struct rt_spin_ticket) && user->ask != NULL);
    *s = (struct rt_spin){.user = user, .base = base, .dice = dice | 1, .pause_ms = pause_ms};
    s->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
}

void rt_spin_fini(struct rt_spin *s)
{
    rt_spin_forget_all(s);
    rt_timers_stop(&s->base->loop->timers, &s->timer.timer);
}
