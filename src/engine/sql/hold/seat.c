/* SPDX-License-Identifier: Apache-2.0 */
/* A seat: a connection that asks for one lock at a time, waits for it, holds it.
 *
 *   DOWN ──▶ DIALING ──▶ GREETING: FACTS; its settings, who we are there ──▶ READY ── flights of its ticket
 *    ▲                                                                         │
 *    └── cut, silence; ended by us, then also from a lane ◀────────────────────┘ */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GREET_FACTS, GREET_SETTINGS };

static int64_t now_of(const struct rt_sqlhold_conn *c)
{
    return rt_loop_now(c->sql.base.loop);
}

/* ---- The end of a connection ------------------------------------------------------------------------------------- */

static void on_closed(struct rt_sql_link *l)
{
    rt_free(l);
}

static void drop_link(struct rt_sqlhold_seat *s)
{
    struct rt_sql_link *l = s->link;
    s->link = NULL;
    s->state = RT_DIAL_DOWN;
    s->flying = s->failed = s->dirty = s->cleaning = s->may_hold = false;
    s->ask = NULL;
    s->id = 0;
    s->keep_until = 0;
    s->patient_until = RT_NEVER;
    rt_sql_book_clear(&s->book);
    if (l != NULL)
        s->c->sql.driver->drop(l, on_closed);
}

/* What it had at the server is ended from a lane, unless the lane is on another server by now. */
static void kill_there(struct rt_sqlhold_conn *c, uint64_t id, uint64_t started, uint64_t epoch,
                       struct rt_op *op)
{
    if (id != 0 && epoch == c->sql.links)
        rt_sqlhold_kill(c, id, started, op);
    else if (op != NULL)
        rt_conn_done(rt_sqlhold_base(c), op, 0);
}

void rt_sqlhold_seat_end(struct rt_sqlhold_seat *s, struct rt_op *op)
{
    uint64_t id = s->may_hold || s->flying ? s->id : 0, started = s->started, epoch = s->epoch;
    struct rt_sqlhold_conn *c = s->c;
    drop_link(s);
    s->ticket = NULL;
    rt_sqlhold_flush_soon(c);
    kill_there(c, id, started, epoch, op);
}

/* It broke, or is silent (CUT: by us). If it still has a ticket, it is dialed again for that. */
static void lost(struct rt_sqlhold_seat *s, bool cut, const char *why)
{
    struct rt_sqlhold_conn *c = s->c;
    char text[200];
    uint64_t id = cut && (s->may_hold || s->flying) ? s->id : 0, started = s->started,
             epoch = s->epoch;
    snprintf(text, sizeof(text), "%s", why);
    if (s->state != RT_DIAL_READY)
        snprintf(c->sql.trouble, sizeof(c->sql.trouble), "%s", text);
    if (s->state != RT_DIAL_READY || s->ticket == NULL)
        rt_dial_later(&s->pause, &c->sql.base, &c->sql.jitter);
    if (s->ticket != NULL && s->ticket->state == RT_HOLD_HELD) {
        rt_words_log(&c->sql.base, ROTA_LOG_WARN, "%s: its connection broke: %s", s->ticket->name,
                     text);
        rt_sqlhold_tell_lost(s->ticket);
    }
    drop_link(s);
    if (cut && id != 0)
        kill_there(c, id, started, epoch, NULL);
    rt_sqlhold_unseated(s);
    rt_ledger_lost(&c->ledger, s, text);
    rt_sqlhold_flush_soon(c);
}

void rt_sqlhold_seat_cut(struct rt_sqlhold_seat *s, const char *why)
{
    lost(s, true, why);
}

void rt_sqlhold_seats_relinked(struct rt_sqlhold_conn *c)
{
    for (size_t i = 0; i < c->seat_count; i++) {
        struct rt_sqlhold_seat *s = c->seats[i];
        if (s->state != RT_DIAL_DOWN && s->ticket != NULL && s->ticket->state == RT_HOLD_WAITING)
            lost(s, true, "the server was lost and found again");
    }
}

/* ---- Flights ------------------------------------------------------------------------------------------------------- */

static void fly(struct rt_sqlhold_seat *s, int64_t patience)
{
    struct rt_sql_flight f = {s->book.steps, s->book.step_count};
    int rv = s->book.failed ? ROTA_NOMEM : s->c->sql.driver->send(s->link, &f);
    s->flying = true;
    s->failed = rv != 0; /* told from a turn */
    s->patient_until = rv != 0                ? now_of(s->c)
                       : patience == RT_NEVER ? RT_NEVER
                                              : now_of(s->c) + patience;
    rt_sqlhold_by(s->c, s->patient_until);
}

static void greet(struct rt_sqlhold_seat *s, uint32_t stage)
{
    s->greeting = stage;
    rt_sql_book_clear(&s->book);
    if (stage == GREET_FACTS) {
        rt_sql_say_cells(&s->book, RT_SQL_FACTS, NULL, 0);
    } else {
        rt_sqlhold_say(s->c, &s->book, RT_HOLD_SAY_SETTINGS, &(struct rt_sqlhold_about){0});
        rt_sqlhold_say(s->c, &s->book, RT_HOLD_SAY_WHO, &(struct rt_sqlhold_about){0});
        if (s->c->way
                ->tables) /* of nothing: prepared now, because under LOCK TABLES no other table may be named */
            rt_sqlhold_say(s->c, &s->book, RT_HOLD_SAY_CLEAR, &(struct rt_sqlhold_about){0});
    }
    fly(s, rt_dial_patience(&s->c->sql.base));
}

static void clean(struct rt_sqlhold_seat *s)
{
    s->cleaning = true;
    s->ask = NULL;
    rt_sql_book_clear(&s->book);
    rt_sqlhold_say(s->c, &s->book, RT_HOLD_SAY_ROLLBACK, &(struct rt_sqlhold_about){0});
    fly(s, rt_dial_patience(&s->c->sql.base));
}

int rt_sqlhold_seat_fly(struct rt_sqlhold_seat *s, struct rt_sqlhold_ask *a)
{
    struct rt_sqlhold_conn *c = s->c;
    const struct rt_sqlhold_ticket *t = a->ticket;
    const uint8_t *says = c->way->flights[a->what][t->mode == RT_SHARED];
    struct rt_sqlhold_about about = {.ticket = t, .holder = s->id, .number = t->number};
    assert(s->state == RT_DIAL_READY && !s->flying && s->ticket == t);
    rt_sql_book_clear(&s->book);
    for (size_t i = 0; i < RT_HOLD_STEPS && says[i] != RT_HOLD_END; i++)
        rt_sqlhold_say(c, &s->book, (enum rt_sqlhold_say)says[i], &about);
    assert(s->book.failed || s->book.step_count > 0);
    s->ask = a;
    s->may_hold = s->may_hold || a->what <= RT_HOLD_WAIT;
    a->beats = c->beats;
    fly(s, a->what == RT_HOLD_WAIT ? RT_NEVER : rt_dial_patience(&c->sql.base));
    return 0;
}

/* What the rows of a flight say. */
static struct rt_sqlhold_heard hear(const struct rt_sqlhold_seat *s)
{
    struct rt_sqlhold_heard h = {0};
    const struct rt_sqlhold_conn *c = s->c;
    uint64_t tried = 0, there = 0;
    for (size_t i = 0; i < s->book.row_count; i++) {
        const struct rt_sql_row *row = &s->book.rows[i];
        const struct rt_sql_saying *saying = s->book.steps[row->step].saying;
        switch (saying - c->sayings) {
        case RT_HOLD_SAY_FENCE:
        case RT_HOLD_SAY_FENCE_SHARED:
        case RT_HOLD_SAY_NUMBER:
        case RT_HOLD_SAY_NUMBER_SHARED:
            h.number = (uint64_t)rt_sql_int(row, 0);
            break;
        case RT_HOLD_SAY_EXISTS:
            there = (uint64_t)rt_sql_int(row, 0);
            h.exists = there > 0;
            break;
        default:
            h.answered = true;
            h.yes = rt_sql_int(row, 0) > 0;
            tried += h.yes;
            if (row->count > 1)
                h.number = (uint64_t)rt_sql_int(row, 1);
        }
    }
    if (s->ask->what == RT_HOLD_TRY && c->way->rows) /* all rows of that name, or it is not ours */
        h.yes = tried > 0 && tried == there;
    return h;
}

static void greeted(struct rt_sqlhold_seat *s)
{
    const struct rt_sql_row *who = NULL;
    for (size_t i = 0; i < s->book.row_count; i++)
        if (s->book.steps[s->book.rows[i].step].saying == &s->c->sayings[RT_HOLD_SAY_WHO])
            who = &s->book.rows[i];
    if (who == NULL || (uint64_t)rt_sql_int(who, 0) != s->id) {
        lost(s, true,
             "a pooler that changes connections between transactions: name the server itself");
        return;
    }
    s->started = (uint64_t)rt_sql_int(who, 1);
    s->epoch = s->c->sql.links;
    s->state = RT_DIAL_READY;
    s->c->said[0] = '\0';
    s->pause = (struct rt_dial_pause){0};
    s->idle_since = now_of(s->c);
    rt_ledger_flush(&s->c->ledger);
}

static void greet_landed(struct rt_sqlhold_seat *s, enum rt_sql_end end, const char *why)
{
    if (end != RT_SQL_LANDED || s->book.row_count == 0) {
        lost(s, true, end == RT_SQL_LANDED ? "the server says nothing of itself" : why);
        return;
    }
    if (s->greeting == GREET_SETTINGS) {
        greeted(s);
        return;
    }
    s->id = (uint64_t)rt_sql_int(&s->book.rows[0], 3);
    if (rt_sql_int(&s->book.rows[0], 2) == 0)
        lost(s, false, "the server takes no writes");
    else
        greet(s, GREET_SETTINGS);
}

/* Whether END says only that somebody else has it, and nothing worse. */
static bool is_busy(const struct rt_sqlhold_seat *s, enum rt_sql_end end)
{
    return end == RT_SQL_AGAIN && s->c->way->by_landing && s->ask->what == RT_HOLD_TRY;
}

static void landed(struct rt_sqlhold_seat *s, enum rt_sql_end end, const char *why)
{
    struct rt_sqlhold_conn *c = s->c;
    struct rt_sqlhold_ask *a = s->ask;
    if (s->cleaning) {
        s->cleaning = s->dirty = false;
        if (end != RT_SQL_LANDED)
            lost(s, true, why);
        else
            rt_ledger_flush(&c->ledger);
        return;
    }
    if (s->keep_until != 0) /* too late: it stays until then */
        return;
    if (a == NULL) { /* nobody wants it any more: what it has got must go */
        rt_sqlhold_seat_end(s, NULL);
        return;
    }
    if (end != RT_SQL_LANDED && !is_busy(s, end) && (end != RT_SQL_ABSENT || !c->way->tables) &&
        a->what != RT_HOLD_MAKES) {
        lost(s, true, why);
        return;
    }
    struct rt_sqlhold_heard h = {0};
    if (end == RT_SQL_LANDED)
        h = hear(s);
    s->ask = NULL;
    s->dirty = end != RT_SQL_LANDED;
    s->idle_since = now_of(c);
    rt_sqlhold_landed(a, end, &h, why);
    rt_sqlhold_flush_soon(c);
}

bool rt_sqlhold_seat_ready(struct rt_sqlhold_seat *s)
{
    if (s->state == RT_DIAL_READY && !s->flying && s->dirty)
        clean(s);
    return s->state == RT_DIAL_READY && !s->flying;
}

/* ---- From the driver ------------------------------------------------------------------------------------------------ */

static void on_up(struct rt_sql_link *l)
{
    struct rt_sqlhold_seat *s = l->owner;
    s->state = RT_DIAL_GREETING;
    greet(s, GREET_FACTS);
}

static void on_down(struct rt_sql_link *l, int err, const char *why)
{
    struct rt_sqlhold_seat *s = l->owner;
    struct rt_sqlhold_conn *c = s->c;
    (void)err;
    if (s->state == RT_DIAL_READY ||
        strcmp(why, c->said) != 0) /* else once for all refused like this */
        rt_words_log(&c->sql.base, s->ticket != NULL ? ROTA_LOG_WARN : ROTA_LOG_INFO, "%s: %s",
                     s->ticket != NULL ? s->ticket->name : "an idle connection", why);
    if (s->state != RT_DIAL_READY)
        snprintf(c->said, sizeof(c->said), "%s", why);
    lost(s, false, why);
}

static void on_row(struct rt_sql_link *l, size_t step, const struct rt_sql_cell *cells,
                   size_t count)
{
    rt_sql_book_hear(&((struct rt_sqlhold_seat *)l->owner)->book, step, cells, count);
}

static void on_changed(struct rt_sql_link *l, size_t step, uint64_t count)
{
    struct rt_sql_book *b = &((struct rt_sqlhold_seat *)l->owner)->book;
    b->changed[step] = count;
}

static void on_landed(struct rt_sql_link *l, enum rt_sql_end end, size_t step, const char *why)
{
    struct rt_sqlhold_seat *s = l->owner;
    (void)step;
    if (end == RT_SQL_CUT)
        return; /* `down` follows */
    s->flying = false;
    s->patient_until = RT_NEVER;
    if (s->book.failed)
        lost(s, true, "out of memory");
    else if (s->state == RT_DIAL_GREETING)
        greet_landed(s, end, why);
    else
        landed(s, end, why);
}

static void on_notice(struct rt_sql_link *l, const char *channel, const char *text)
{
    (void)l;
    (void)channel;
    (void)text;
}

static const struct rt_sql_user link_user = {on_up,      on_down,   on_row,
                                             on_changed, on_landed, on_notice};

/* ---- Dialing ---------------------------------------------------------------------------------------------------------- */

static void dial(struct rt_sqlhold_seat *s)
{
    struct rt_sql_conn *c = &s->c->sql;
    struct rt_sql_link *l = rt_alloc(c->driver->link_size);
    int rv = ROTA_NOMEM;
    if (l != NULL) {
        *l = (struct rt_sql_link){
            .base = &c->base, .user = &link_user, .driver = c->self, .owner = s};
        rv = c->driver->dial(l, &c->ring.ends[c->ring.now],
                             rt_dial_connect_ms(&c->base, c->ring.count));
    }
    if (rv == 0) {
        s->link = l;
        s->state = RT_DIAL_DIALING;
        return;
    }
    rt_free(l);
    rt_dial_later(&s->pause, &c->base, &c->jitter);
}

static void want(struct rt_sqlhold_seat *s)
{
    if (s->state != RT_DIAL_DOWN || s->c->closing)
        return;
    if (s->pause.until <= now_of(s->c))
        dial(s);
    if (s->state == RT_DIAL_DOWN)
        rt_sqlhold_by(s->c, s->pause.until);
}

/* ---- Which one -------------------------------------------------------------------------------------------------------- */

static struct rt_sqlhold_seat *new_seat(struct rt_sqlhold_conn *c)
{
    if (c->seat_count == c->seat_room)
        return NULL;
    struct rt_sqlhold_seat *s = rt_alloc(sizeof(*s));
    if (s == NULL)
        return NULL;
    s->c = c;
    s->patient_until = RT_NEVER;
    c->seats[c->seat_count++] = s;
    return s;
}

static bool is_free(const struct rt_sqlhold_seat *s)
{
    return s->ticket == NULL && s->keep_until == 0;
}

struct rt_sqlhold_seat *rt_sqlhold_seat_for(struct rt_sqlhold_conn *c, struct rt_sqlhold_ticket *t)
{
    struct rt_sqlhold_seat *best = t->seat;
    for (size_t i = 0; best == NULL && i < c->seat_count; i++)
        if (is_free(c->seats[i]) && c->seats[i]->state == RT_DIAL_READY)
            best = c->seats[i];
    for (size_t i = 0; best == NULL && i < c->seat_count; i++)
        if (is_free(c->seats[i]))
            best = c->seats[i];
    if (best == NULL)
        best = new_seat(c);
    if (best == NULL)
        return NULL;
    best->ticket = t;
    t->seat = best;
    want(best);
    return best;
}

void rt_sqlhold_seat_free(struct rt_sqlhold_seat *s)
{
    s->ticket = NULL;
    s->may_hold = false;
    s->idle_since = now_of(s->c);
    rt_sqlhold_by(s->c, s->idle_since + s->c->sql.base.ttl_ms * RT_MS / 2);
    (void)rt_sqlhold_seat_ready(s); /* no transaction stays open on it */
    rt_sqlhold_flush_soon(s->c);
}

void rt_sqlhold_seat_close(struct rt_sqlhold_seat *s)
{
    drop_link(s);
    rt_sql_book_free(&s->book);
    rt_free(s);
}

/* ---- Time --------------------------------------------------------------------------------------------------------------- */

/* A renewal was not answered. Its holder is told now; but a moment ago it may have looked how long it has the lock, and
 * rely on that: until then nobody else gets it. */
static void retire(struct rt_sqlhold_seat *s)
{
    struct rt_sqlhold_conn *c = s->c;
    static const char why[] = "the server does not answer";
    rt_words_log(&c->sql.base, ROTA_LOG_WARN, "%s: %s", s->ticket->name, why);
    s->keep_until = s->patient_until = c->ends_at;
    s->ask = NULL;
    rt_sqlhold_tell_lost(s->ticket);
    rt_sqlhold_unseated(s);
    rt_ledger_lost(&c->ledger, s, why);
    rt_sqlhold_flush_soon(c);
}

static void silent(struct rt_sqlhold_seat *s, int64_t now)
{
    bool held = s->ticket != NULL && s->ticket->state == RT_HOLD_HELD;
    if (held && !s->failed && s->c->ends_at > now)
        retire(s);
    else
        lost(s, true, s->failed ? "out of memory" : "the server does not answer");
}

static int64_t tick(struct rt_sqlhold_seat *s, int64_t now)
{
    int64_t idle = s->c->sql.base.ttl_ms * RT_MS / 2;
    if (s->flying && s->patient_until <= now)
        silent(s, now);
    if (s->keep_until != 0 && s->keep_until <= now)
        lost(s, true, "its time is over");
    if (is_free(s) && s->state == RT_DIAL_READY && !s->flying && now - s->idle_since >= idle)
        drop_link(s); /* before the server does */
    if (s->ticket != NULL && s->state == RT_DIAL_DOWN)
        want(s);
    if (s->keep_until != 0)
        return s->keep_until;
    if (s->flying)
        return s->patient_until;
    if (s->ticket != NULL && s->state == RT_DIAL_DOWN)
        return s->pause.until;
    return s->ticket == NULL && s->state == RT_DIAL_READY ? s->idle_since + idle : RT_NEVER;
}

int64_t rt_sqlhold_seats_tick(struct rt_sqlhold_conn *c, int64_t now)
{
    int64_t next = RT_NEVER;
    for (size_t i = 0; i < c->seat_count; i++) {
        int64_t at = tick(c->seats[i], now);
        next = at < next ? at : next;
    }
    return next;
}
