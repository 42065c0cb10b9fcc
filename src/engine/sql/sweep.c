/* SPDX-License-Identifier: Apache-2.0 */
/* What others left is taken away: lines of the dead are tended, their sessions buried, idle lines deleted.
 *
 * None of it is urgent, so none of it is in a renewal's flight, and all of it goes after everything that waits: each ask
 * is a flight of its own, begun when a renewal was answered. One that never had its turn makes the next one go in its
 * order, or a client that always has something to ask would never sweep.
 *
 * Idle lines: a row stays behind for every name that was ever used, and no index says which are idle: it would be
 * written by every lock and unlock. So one client of all walks through the lines by their names, LINES at a time.
 *
 *   ── SWEEPER ──▶ free ── SWEEP ──▶ ours ──▶ IDLE, SWEPT ── STEP later ──▶ IDLE, SWEPT ... ──▶ STRAYS, SWEPT: it rests
 *        │                  └── not ours ──┐        └── SWEPT: not ours any more ──┐
 *        └── somebody's, or it rests ──────┴── asked again, when that is over ─────┘
 *
 * Whose it is stands in rota_meta until a time by the server's clock, and so does where it is: if its client is gone,
 * another goes on there. Two who walk at once would do no harm. */
#include "engine/sql/sql.h"

#include "base/alloc.h"

#include <stddef.h>
#include <string.h>

#define SWEEP 8          /* lines of the dead, and sessions, at once */
#define SWEEP_EACH 3     /* every so many renewals: about once a ttl ... */
#define SWEEP_WAITING 30 /* ... and of waiters, who are many: others sweep, too */
/* Far longer than any statement takes: a TAKE that has read the clock and then waits for a row that is deleted makes it again
 * with a fence of that time, which must be larger than any before. */
#define DAY_US (INT64_C(86400) * 1000000)
#define LINES 500         /* of a step: a million in 33 minutes */
#define STEP_MS 1000      /* from one to the next */
#define LEASE_MS 30000    /* how long it is ours without a step */
#define REST_MS 3600000   /* from the end of a walk to the next */
#define ASK_MOST_MS 60000 /* how often it is asked whose it is ... */
#define ASK_TTLS 6        /* ... and where the ttl is short, once in so many */
#define STRAYS 64         /* lines, once in a walk */

static int64_t now_of(const struct rt_sql_conn *c)
{
    return rt_loop_now(c->base.loop);
}

/* It goes after all that waits, in a flight of its own, and may be done twice. False: no memory. */
static bool ask_last(struct rt_sql_conn *c, const struct rt_sql_plan *plan, uint64_t tag)
{
    struct rt_sql_ask *a = rt_sql_ask_new(c, plan, NULL, NULL, NULL);
    if (a == NULL)
        return false;
    a->tag = tag;
    a->single = true;
    a->entry.again = true;
    a->entry.last = !c->sweep.starved;
    c->sweep.starved = false;
    rt_sql_ask_go(a);
    return true;
}

static void note_failed(struct rt_sql_conn *c, int err)
{
    c->sweep.starved = err == ROTA_UNREACHABLE;
}

static void tend_all(struct rt_sql_ask *a, const struct rt_sql_book *b, enum rt_sql_step_kind kind)
{
    for (const struct rt_sql_row *r = NULL; (r = rt_sql_next(a, b, kind, r)) != NULL;)
        rt_sql_tend(a->c, rt_sql_str(r, 0));
}

/* ---- The dead ------------------------------------------------------------------------------------------------------ */

static void dead_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    (void)a;
    rt_sql_say(b, RT_SQL_DEAD, rt_sql_number(SWEEP));
    rt_sql_say(b, RT_SQL_BURY, rt_sql_number(SWEEP));
}

static bool dead_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    tend_all(a, b, RT_SQL_DEAD);
    return true;
}

static void dead_failed(struct rt_sql_ask *a, int err)
{
    note_failed(a->c, err);
}

static const struct rt_sql_plan dead_plan = {
    .say = dead_say, .heard = dead_heard, .failed = dead_failed};

/* ---- The walk ------------------------------------------------------------------------------------------------------ */

/* Asks whose it is within a minute or so, but not before MS from now: all clients do, and not at once. */
static void ask_in(struct rt_sql_conn *c, int64_t ms)
{
    int64_t most = ASK_TTLS * (int64_t)c->base.ttl_ms;
    most = most < ASK_MOST_MS ? most : ASK_MOST_MS;
    c->sweep.ask_at = now_of(c) + (ms + 1 + rt_dial_jitter(&c->jitter, most)) * RT_MS;
}

static void set_after(struct rt_sql_conn *c, const char *name)
{
    size_t size = strlen(name) + 1;
    char *after = size > 1 ? rt_alloc(size) : NULL;
    if (after != NULL)
        memcpy(after, name, size);
    rt_free(c->sweep.after);
    c->sweep.after = after; /* without memory it begins at the first name */
}

/* It is not ours, or not any more. */
static void stop(struct rt_sql_conn *c)
{
    c->sweep.who = 0;
    set_after(c, "");
    rt_timers_stop(&c->base.loop->timers, &c->sweep.timer.timer);
}

static void step_in(struct rt_sql_conn *c, int64_t ms)
{
    rt_timers_at(&c->base.loop->timers, &c->sweep.timer.timer, now_of(c) + ms * RT_MS);
}

/* Where that is not ours to write, others sweep; the right may be given later. */
static void failed(struct rt_sql_ask *a, int err)
{
    struct rt_sql_conn *c = a->c;
    note_failed(c, err);
    c->sweep.asked = false;
    if (c->sweep.who != 0 && err == ROTA_UNREACHABLE) {
        step_in(c, STEP_MS);
        return;
    }
    stop(c);
    ask_in(c, err == ROTA_AUTH ? REST_MS : ASK_MOST_MS);
}

/* Stage 0 walks; stage 1 has come to the end. */
static void walk_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    const char *after = c->sweep.after != NULL ? c->sweep.after : "";
    bool ends = a->stage > 0;
    if (ends)
        rt_sql_say(b, RT_SQL_STRAYS, rt_sql_number(STRAYS));
    else
        rt_sql_say(b, RT_SQL_IDLE, rt_sql_text(after), rt_sql_number((uint64_t)DAY_US),
                   rt_sql_number(LINES));
    rt_sql_say(b, RT_SQL_SWEPT, rt_sql_number(a->tag), rt_sql_number(ends ? 0 : a->tag),
               rt_sql_number((ends ? REST_MS : LEASE_MS) * UINT64_C(1000)),
               rt_sql_text(ends ? "" : after));
}

static bool walk_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_IDLE, 0);
    bool ours = rt_sql_changed(a, b, RT_SQL_SWEPT) > 0 && c->sweep.who == a->tag;
    tend_all(a, b, RT_SQL_STRAYS);
    if (ours && a->stage == 0 && row == NULL)
        return false;
    c->sweep.asked = false;
    if (ours && row != NULL) {
        set_after(c, rt_sql_str(row, 0));
        step_in(c, STEP_MS);
        return true;
    }
    stop(c);
    ask_in(c, ours ? REST_MS : 0);
    return true;
}

static const struct rt_sql_plan walk_plan = {
    .say = walk_say, .heard = walk_heard, .failed = failed};

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_sql_conn *c =
        (struct rt_sql_conn *)(void *)((char *)call - offsetof(struct rt_sql_conn, sweep.timer));
    (void)now;
    if (c->sweep.who == 0 || c->sweep.who != c->session)
        stop(c);
    else if (ask_last(c, &walk_plan, c->sweep.who))
        c->sweep.asked = true;
    else
        step_in(c, STEP_MS);
}

/* ---- Whose it is --------------------------------------------------------------------------------------------------- */

/* Stage 0 only looks: most find that it is somebody's. Stage 1 takes it. */
static void seek_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    if (a->stage == 0)
        rt_sql_say_cells(b, RT_SQL_SWEEPER, NULL, 0);
    else
        rt_sql_say(b, RT_SQL_SWEEP, rt_sql_number(a->tag),
                   rt_sql_number(LEASE_MS * UINT64_C(1000)));
}

static bool seek_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_sql_conn *c = a->c;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_SWEEPER, 0);
    int64_t left_ms = row != NULL ? rt_sql_int(row, 0) / 1000 : 0;
    if (a->stage == 0 && left_ms == 0)
        return false;
    c->sweep.asked = false;
    row = rt_sql_row(a, b, RT_SQL_SWEEP, 0);
    if (row == NULL || c->session != a->tag) {
        ask_in(c, left_ms < REST_MS ? left_ms : REST_MS);
        return true;
    }
    c->sweep.who = a->tag;
    set_after(c, rt_sql_str(row, 0));
    step_in(c, STEP_MS);
    return true;
}

static const struct rt_sql_plan seek_plan = {
    .say = seek_say, .heard = seek_heard, .failed = failed};

/* ---- After a renewal ----------------------------------------------------------------------------------------------- */

void rt_sql_sweep(struct rt_sql_conn *c)
{
    if (c->beats++ % (c->ticket_count > 0 ? SWEEP_WAITING : SWEEP_EACH) == 0)
        (void)ask_last(c, &dead_plan, 0);
    if (c->sweep.ask_at == 0)
        ask_in(c, 0);
    else if (c->sweep.who == 0 && !c->sweep.asked && c->sweep.ask_at <= now_of(c))
        c->sweep.asked = ask_last(c, &seek_plan, c->session);
}

void rt_sql_sweep_init(struct rt_sql_conn *c)
{
    c->sweep.timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
}

void rt_sql_sweep_fini(struct rt_sql_conn *c)
{
    stop(c);
}
