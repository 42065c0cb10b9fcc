/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of ours that wait, or hold and want to hear who waits behind them.
 *
 *   joined ──▶ waits ── pushed, or looked for ──▶ granted ── armed ──▶ kept, for WANTED
 *                │ what is ahead may have ended by time ──▶ look ── dead ──▶ tend the line, look again
 *
 * Where the server pushes, a look is due only when what is ahead may have died, and after a new connection; where it
 * does not, all are looked at every POLL_MS, in one flight. Whoever has nothing to hear stops listening after a while: in
 * PostgreSQL a NOTIFY wakes every connection that listens to anything. */
#include "engine/sql/sql.h"

#include "base/alloc.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MS 20
#define GRACE_MS 10  /* after the end of what is ahead: its renewal may be on its way */
#define HEAR_MS 2000 /* listens so long after there is nothing to hear */

static void follow(struct rt_sql_conn *c);

static int64_t now_of(const struct rt_sql_conn *c)
{
    return rt_loop_now(c->base.loop);
}

/* ---- Under the lock ------------------------------------------------------------------------------------------ */

void rt_sql_say_lock(struct rt_sql_conn *c, struct rt_sql_book *b, const char *name)
{
    rt_sql_say(b, RT_SQL_LOCK, rt_sql_text(name), rt_sql_number(++c->turns));
    rt_sql_say(b, RT_SQL_UNFOLD, rt_sql_text(name));
}

void rt_sql_say_settle(struct rt_sql_book *b, const char *name)
{
    rt_sql_say(b, RT_SQL_PURGE, rt_sql_text(name));
    rt_sql_say(b, RT_SQL_SETTLE, rt_sql_text(name));
    rt_sql_say(b, RT_SQL_TELL, rt_sql_text(name));
}

/* ---- Which there are ------------------------------------------------------------------------------------------- */

struct rt_sql_ticket *rt_sql_wait_find(struct rt_sql_conn *c, const char *name, uint64_t number)
{
    for (struct rt_sql_ticket *t = c->tickets; t != NULL; t = t->next)
        if (t->number == number && strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static void drop(struct rt_sql_ticket *t)
{
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    rt_free(t);
}

void rt_sql_wait_left(struct rt_sql_conn *c, const char *name, uint64_t number)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(c, name, number);
    if (t == NULL)
        return;
    drop(t);
    follow(c);
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
        return NULL; /* BEAT tells what is not told otherwise */
    t->session = session;
    t->number = number;
    t->look_at = RT_NEVER;
    memcpy(t->name, name, size);
    t->next = c->tickets;
    t->link = &c->tickets;
    if (t->next != NULL)
        t->next->link = &t->next;
    c->tickets = t;
    return t;
}

static void look_in(struct rt_sql_conn *c, struct rt_sql_ticket *t, int64_t left_us)
{
    int64_t now = now_of(c);
    t->look_at = left_us >= 0 ? now + left_us * 1000 + GRACE_MS * RT_MS : RT_NEVER;
    if (!c->driver->notifies && (t->waits || t->armed) && now + POLL_MS * RT_MS < t->look_at)
        t->look_at = now + POLL_MS * RT_MS;
}

void rt_sql_wait_add(struct rt_sql_conn *c, const struct rt_join *join, int64_t left_us)
{
    bool armed = join->flags & RT_JOIN_ARM;
    struct rt_sql_ticket *t = NULL;
    if (!join->granted || armed)
        t = add(c, join->name, join->session, join->number);
    if (t == NULL)
        return;
    t->waits = t->waited = !join->granted;
    t->armed = armed;
    look_in(c, t, left_us);
    follow(c);
}

void rt_sql_wait_arm(struct rt_sql_conn *c, const char *name, uint64_t session, uint64_t number)
{
    struct rt_sql_ticket *t = add(c, name, session, number);
    if (t == NULL)
        return;
    t->armed = t->waited = true;
    look_in(c, t, -1);
    follow(c);
}

void rt_sql_wait_forget(struct rt_sql_conn *c, uint64_t session)
{
    for (struct rt_sql_ticket *t = c->tickets, *next; t != NULL; t = next) {
        next = t->next;
        if (session == 0 || t->session == session)
            drop(t);
    }
    follow(c);
}

/* ---- Telling ---------------------------------------------------------------------------------------------------- */

static void tell(struct rt_sql_conn *c, enum rt_event_kind kind, uint64_t session, uint64_t number,
                 const char *name)
{
    rt_conn_event(&c->base, &(struct rt_event){
                                .kind = kind, .session = session, .number = number, .name = name});
}

void rt_sql_wait_granted(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    if (!t->waits)
        return;
    t->waits = false;
    t->look_at = RT_NEVER;
    tell(c, RT_GRANTED, t->session, t->number, t->name);
    look_in(c, t, -1);
    follow(c);
}

void rt_sql_wait_lost(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    if (!t->leaving)
        tell(c, RT_TICKET_LOST, t->session, t->number, t->name);
    drop(t);
    follow(c);
}

/* ---- Looks ------------------------------------------------------------------------------------------------------- */

static void tend_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say_lock(a->c, b, a->name);
    rt_sql_say_settle(b, a->name);
}

static bool tend_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    for (struct rt_sql_ticket *t = a->c->tickets; t != NULL; t = t->next)
        if (t->waits && strcmp(t->name, a->name) == 0)
            t->look_at = now_of(a->c) + (a->c->driver->notifies ? GRACE_MS * RT_MS : 0);
    follow(a->c);
    return true;
}

static const struct rt_sql_plan tend_plan = {.reads = true, .say = tend_say, .heard = tend_heard};

void rt_sql_tend(struct rt_sql_conn *c, const char *name)
{
    (void)rt_sql_ask(c, &tend_plan, NULL, name, NULL);
}

static void look_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_sql_ticket *t = rt_sql_wait_find(a->c, a->name, a->tag);
    enum rt_sql_step_kind kind = t == NULL || t->waits ? RT_SQL_LOOK : RT_SQL_STATE;
    rt_sql_say(b, kind, rt_sql_text(a->name), rt_sql_number(t != NULL ? t->session : 0),
               rt_sql_number(a->tag));
}

static bool look_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    struct rt_sql_ticket *t = rt_sql_wait_find(c, a->name, a->tag);
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_LOOK, 0),
                            *state = rt_sql_row(a, b, RT_SQL_STATE, 0);
    if (t == NULL)
        return true;
    t->asked = false;
    look_in(c, t, row == NULL || rt_sql_null(row, 1) ? -1 : rt_sql_int(row, 1));
    if (state != NULL && rt_sql_int(state, 2) != 0)
        tell(c, RT_WANTED, t->session, t->number, t->name);
    if (!t->waits || t->leaving)
        return true;
    if (row == NULL) {
        rt_sql_wait_lost(c, t);
    } else if (rt_sql_int(row, 0) != 0) {
        rt_sql_wait_granted(c, t);
    } else if (!rt_sql_null(row, 1) && rt_sql_int(row, 1) <= 0) {
        rt_sql_tend(c, a->name);
    }
    follow(c);
    return true;
}

static void look_failed(struct rt_sql_ask *a, int err)
{
    struct rt_sql_ticket *t = rt_sql_wait_find(a->c, a->name, a->tag);
    (void)err;
    if (t == NULL)
        return;
    t->asked = false;
    look_in(a->c, t, a->c->base.ttl_ms * INT64_C(1000) / 3);
    follow(a->c);
}

static const struct rt_sql_plan look_plan = {
    .reads = true, .say = look_say, .heard = look_heard, .failed = look_failed};

static void look(struct rt_sql_conn *c, struct rt_sql_ticket *t)
{
    struct rt_sql_ask *a = rt_sql_ask_new(c, &look_plan, NULL, t->name, NULL);
    if (a == NULL) {
        look_in(c, t, POLL_MS * 1000);
        return;
    }
    a->tag = t->number;
    t->asked = true;
    t->look_at = RT_NEVER;
    rt_sql_ask_go(a);
}

/* ---- Listening --------------------------------------------------------------------------------------------------- */

static void unlisten_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_UNLISTEN, rt_sql_number(a->c->ear));
}

static bool unlisten_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    a->c->lanes[0].listens = false;
    return true;
}

static const struct rt_sql_plan unlisten_plan = {
    .alone = true, .reads = true, .say = unlisten_say, .heard = unlisten_heard};

/* In a flight before the looks: what commits between a look and this flight's own end would be missed. */
static void listen_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_LISTEN, rt_sql_number(a->c->ear));
}

static bool listen_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    a->c->lanes[0].listens = true;
    for (struct rt_sql_ticket *t = a->c->tickets; t != NULL; t = t->next)
        if (!t->asked)
            t->look_at = now_of(a->c);
    follow(a->c);
    return true;
}

static const struct rt_sql_plan listen_plan = {
    .reads = true, .say = listen_say, .heard = listen_heard};

void rt_sql_wait_linked(struct rt_sql_conn *c)
{
    if (c->tickets != NULL && c->driver->notifies)
        (void)rt_sql_ask(c, &listen_plan, NULL, NULL, NULL);
}

/* ---- Pushes ------------------------------------------------------------------------------------------------------- */

struct rt_sql_push {
    struct rt_sql_push *next;
    bool line; /* what observers are told by */
    char text[];
};

/* "NUMBER KIND NAME" */
static void hear(struct rt_sql_conn *c, const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (number == 0 || end[0] != ' ' || end[1] == '\0' || end[2] != ' ')
        return;
    const char *name = end + 3;
    struct rt_sql_ticket *t = rt_sql_wait_find(c, name, number);
    uint64_t session = t != NULL ? t->session : c->session;
    switch (end[1]) {
    case 'G':
        if (t != NULL)
            rt_sql_wait_granted(c, t);
        else
            tell(c, RT_GRANTED, session, number, name);
        break;
    case 'W':
        tell(c, RT_WANTED, session, number, name);
        break;
    case 'L':
        if (t != NULL)
            rt_sql_wait_lost(c, t);
        else
            tell(c, RT_TICKET_LOST, session, number, name);
        break;
    default:
        break;
    }
}

static void pass_on(struct rt_sql_conn *c, bool line, const char *text)
{
    if (line)
        rt_sql_observe_notice(c, text);
    else
        hear(c, text);
}

void rt_sql_notice(struct rt_sql_conn *c, bool later, const char *channel, const char *text)
{
    bool line = strncmp(channel, "rota_o", 6) == 0;
    if (!later) {
        pass_on(c, line, text);
        return;
    }
    size_t size = strlen(text) + 1;
    struct rt_sql_push *p = rt_alloc(sizeof(*p) + size);
    if (p == NULL)
        return; /* BEAT tells it */
    p->line = line;
    memcpy(p->text, text, size);
    *c->pushes_end = p;
    c->pushes_end = &p->next;
}

static struct rt_sql_push *take_push(struct rt_sql_conn *c)
{
    struct rt_sql_push *p = c->pushes;
    if (p == NULL)
        return NULL;
    c->pushes = p->next;
    if (c->pushes == NULL)
        c->pushes_end = &c->pushes;
    return p;
}

void rt_sql_told(struct rt_sql_conn *c)
{
    for (struct rt_sql_push *p; (p = take_push(c)) != NULL; rt_free(p))
        pass_on(c, p->line, p->text);
}

/* ---- Time --------------------------------------------------------------------------------------------------------- */

static void follow(struct rt_sql_conn *c)
{
    int64_t at = RT_NEVER;
    for (const struct rt_sql_ticket *t = c->tickets; t != NULL; t = t->next)
        if (!t->asked && t->look_at < at)
            at = t->look_at;
    if (c->tickets != NULL)
        c->hear_until = now_of(c) + HEAR_MS * RT_MS;
    else if (c->lanes[0].listens)
        at = c->hear_until;
    if (at == RT_NEVER)
        rt_timers_stop(&c->base.loop->timers, &c->wait_timer.timer);
    else
        rt_timers_start(&c->base.loop->timers, &c->wait_timer.timer, at);
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_sql_conn *c =
        (struct rt_sql_conn *)(void *)((char *)call - offsetof(struct rt_sql_conn, wait_timer));
    for (struct rt_sql_ticket *t = c->tickets; t != NULL; t = t->next)
        if (!t->asked && t->look_at <= now)
            look(c, t);
    if (c->tickets != NULL)
        follow(c);
    else if (c->lanes[0].listens && c->hear_until <= now)
        (void)rt_sql_ask(c, &unlisten_plan, NULL, NULL, NULL);
}

void rt_sql_wait_init(struct rt_sql_conn *c)
{
    c->wait_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
    c->pushes_end = &c->pushes;
}

void rt_sql_wait_fini(struct rt_sql_conn *c)
{
    while (c->tickets != NULL)
        drop(c->tickets);
    for (struct rt_sql_push *p; (p = take_push(c)) != NULL;)
        rt_free(p);
    rt_timers_stop(&c->base.loop->timers, &c->wait_timer.timer);
}
