/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and its flights.
 *
 *   DOWN ── wanted ──▶ DIALING ── up ──▶ GREETING ── FACTS, LAYOUT (MAKE, HERE) ──▶ READY
 *    ▲                    │ refused        │ a replica, a pooler, no tables     │
 *    └──── the next ◀─────┴────────────────┴──── cut, silence ◀─────────────────┘
 *
 * A flight: asks board until the turn is over, leave together in the order of their lines' names, and are
 * answered together. So whoever asks while one is in the air shares the next: one transaction, one fsync. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEADY_MS 5000 /* a connection that lasted this long was a good one */
#define LAYOUT_MAJOR 1
#define CALM_MOST_MS 10000 /* a server's clock further behind than this is not waited for */
#define CALM_LOOK_MS 1000  /* ... and how often it is looked at */

struct rt_sql_lane *rt_sql_lane_of(struct rt_sql_conn *c, const char *name)
{
    if (name == NULL || c->driver->lanes == 1)
        return &c->lanes[0];
    return &c->lanes[rt_hash(name, strlen(name)) % c->driver->lanes];
}

static bool first(const struct rt_sql_lane *lane)
{
    return lane == &lane->c->lanes[0];
}

static int64_t now_of(const struct rt_sql_lane *lane)
{
    return rt_loop_now(lane->c->base.loop);
}

static void set_timer(struct rt_sql_lane *lane, int64_t at)
{
    rt_timers_at(&lane->c->base.loop->timers, &lane->timer.timer, at);
}

const char *rt_sql_lane_at(const struct rt_sql_conn *c)
{
    return c->ring.ends[c->ring.now].at;
}

/* ---- The end of a connection -------------------------------------------------------------------------------- */

static void on_closed(struct rt_sql_link *l)
{
    rt_free(l);
}

static void note_trouble(struct rt_sql_conn *c, int level, const char *why)
{
    if (strcmp(why, c->trouble) != 0)
        rt_words_log(&c->base, level, "%s: %s", c->driver->name, why);
    snprintf(c->trouble, sizeof(c->trouble), "%s", why);
}

/* The same for a connection that was lost, or cannot be had: each lane tells it once for each server until that was
 * well again, whatever other lanes or other servers say or do in between. */
static void note_lost(struct rt_sql_lane *lane, const char *why)
{
    struct rt_sql_conn *c = lane->c;
    char *said = c->ring.ends[c->ring.now].said;
    bool told = strcmp(why, said) == 0 || strcmp(why, lane->said) == 0;
    snprintf(said, sizeof(c->ring.ends->said), "%s", why);
    snprintf(lane->said, sizeof(lane->said), "%s", why);
    if (told)
        snprintf(c->trouble, sizeof(c->trouble), "%s", why);
    else
        note_trouble(c, rt_dial_level(&c->outage), why);
}

static void drop_link(struct rt_sql_lane *lane)
{
    struct rt_sql_link *l = lane->link;
    lane->state = RT_DIAL_DOWN;
    lane->link = NULL;
    lane->listens = lane->flying = lane->failed = lane->calm = lane->compared = false;
    lane->loaded = 0;
    rt_loop_undefer(lane->c->base.loop, &lane->depart);
    set_timer(lane, RT_NEVER);
    rt_sql_book_clear(&lane->book);
    rt_sql_bells_lost(lane->c, lane);
    if (l != NULL)
        lane->c->driver->drop(l, on_closed);
}

/* The other lanes must not stay with a server that is no longer the right one. */
static void next_end(struct rt_sql_lane *lane, bool steady)
{
    struct rt_sql_conn *c = lane->c;
    if (steady)
        lane->pause.ms = 0;
    if (first(lane) && c->ring.count > 1) {
        (void)rt_dial_next(&c->ring);
        for (size_t i = 1; i < RT_SQL_LINKS; i++)
            if (c->lanes[i].state != RT_DIAL_DOWN)
                rt_sql_lane_cut(&c->lanes[i], "another server is asked");
    }
    rt_dial_later(&lane->pause, &c->base, &c->jitter);
}

static void let_go(struct rt_sql_lane *lane, const char *why)
{
    struct rt_sql_conn *c = lane->c;
    char text[sizeof(c->trouble)];
    bool was_ready = lane->state == RT_DIAL_READY;
    bool steady = was_ready && now_of(lane) - lane->ready_at > STEADY_MS * RT_MS;
    snprintf(text, sizeof(text), "%s", why);
    drop_link(lane);
    note_lost(lane, text);
    next_end(lane, steady);
    rt_sql_unlinked(c, lane, was_ready);
    rt_ledger_lost(&c->ledger, lane, text);
}

void rt_sql_lane_cut(struct rt_sql_lane *lane, const char *why)
{
    let_go(lane, why);
    if (lane < &lane->c->lanes[RT_SQL_LANES] || lane->waiter != NULL)
        rt_sql_lane_want(lane);
}

void rt_sql_lane_abandon(struct rt_sql_lane *lane)
{
    for (size_t i = 0; i < lane->loaded; i++)
        if (lane->load[i] != NULL)
            rt_ledger_abandon(&lane->c->ledger, &lane->load[i]->entry, ROTA_CANCELED);
    drop_link(lane);
    rt_ledger_lost(&lane->c->ledger, lane, "nobody waits for it any more");
}

/* Whatever waits is told, because waiting longer would change nothing. The lane dials again when somebody asks. */
static void refuse(struct rt_sql_lane *lane, int err, const char *why)
{
    char text[sizeof(lane->c->trouble)];
    snprintf(text, sizeof(text), "%s", why);
    lane->c->outage = false; /* a refusal is another matter, and logged as such */
    let_go(lane, text);
    if (++lane->refusals < lane->c->ring.count) {
        rt_sql_lane_want(lane);
        return;
    }
    lane->refusals = 0;
    lane->pause = (struct rt_dial_pause){RT_DIAL_REFUSED_MS,
                                         now_of(lane) + RT_DIAL_REFUSED_MS * RT_MS};
    rt_ledger_refuse(&lane->c->ledger, err, text);
}

/* ---- Greeting ------------------------------------------------------------------------------------------------- */

enum { GREET_FACTS, GREET_LAYOUT, GREET_MAKE, GREET_AGAIN, GREET_HERE };

static void fly(struct rt_sql_lane *lane)
{
    struct rt_sql_flight f = {lane->book.steps, lane->book.step_count};
    int64_t patience = rt_dial_patience(&lane->c->base);
    for (size_t i = 0; i < lane->loaded; i++)
        patience += lane->load[i] != NULL ? lane->load[i]->slow : 0;
    lane->left_at = now_of(lane);
    int rv = lane->book.failed ? ROTA_NOMEM : lane->c->driver->send(lane->link, &f);
    lane->flying = true;
    lane->failed = rv != 0; /* told from a turn */
    set_timer(lane, rv != 0 ? now_of(lane) : now_of(lane) + patience);
}

static void say_here(const struct rt_sql_lane *lane, struct rt_sql_book *b)
{
    const struct rt_sql_conn *c = lane->c;
    char text[sizeof(c->facts.who) + 24];
    snprintf(text, sizeof(text), "%s %lld", c->facts.who,
             (long long)(c->floor > lane->clock ? c->floor : 0));
    rt_sql_say(b, RT_SQL_HERE, rt_sql_text(text));
}

/* LAYOUT or MAKE; or what a dialect says there. */
static void say_tables(struct rt_sql_conn *c, struct rt_sql_book *b, enum rt_sql_step_kind kind)
{
    if (c->rider == NULL)
        rt_sql_say_cells(b, kind, NULL, 0);
    else if (kind == RT_SQL_MAKE)
        c->rider->say_make(c, b);
    else
        c->rider->say_layout(c, b);
}

static void greet(struct rt_sql_lane *lane, uint32_t stage)
{
    struct rt_sql_book *b = &lane->book;
    lane->greeting = stage;
    rt_sql_book_clear(b);
    if (stage <= GREET_LAYOUT)
        rt_sql_say_cells(b, RT_SQL_FACTS, NULL, 0);
    if (stage == GREET_MAKE)
        say_tables(lane->c, b, RT_SQL_MAKE);
    else if (stage == GREET_HERE)
        say_here(lane, b);
    else if (stage != GREET_FACTS)
        say_tables(lane->c, b, RT_SQL_LAYOUT);
    fly(lane);
}

static const struct rt_sql_row *row_of(const struct rt_sql_book *b, enum rt_sql_step_kind kind)
{
    for (size_t i = 0; i < b->row_count; i++)
        if (b->steps[b->rows[i].step].kind == kind && b->rows[i].cells != NULL)
            return &b->rows[i];
    return NULL;
}

static void ready(struct rt_sql_lane *lane)
{
    struct rt_sql_conn *c = lane->c;
    lane->state = RT_DIAL_READY;
    lane->refusals = 0;
    c->outage = false;
    lane->ready_at = now_of(lane);
    lane->said[0] = c->ring.ends[c->ring.now].said[0] = c->trouble[0] = '\0';
    rt_sql_linked(c, lane);
    rt_ledger_flush(&c->ledger);
}

/* ---- A server whose clock is behind
 *
 * Fences are numbered by the server's clock, so that what a server does not know of (a promoted replica lacks the
 * last grants) is below what it numbers next, unless its clock is behind. Then it is waited for: by clients that
 * were told the last server's clock, and by whoever comes first, with its own clock, to tables that were last used
 * on another server. */

/* False: it is too far behind to be waited for. */
static bool raise_floor(struct rt_sql_lane *lane, int64_t us)
{
    struct rt_sql_conn *c = lane->c;
    int64_t behind = us - lane->clock;
    if (behind <= CALM_MOST_MS * 1000) {
        c->floor = us > c->floor ? us : c->floor;
        return true;
    }
    snprintf(c->facts.unsafe, sizeof(c->facts.unsafe),
             "the server's clock is %lld s behind: fences may go back; set it",
             (long long)(behind / 1000000));
    rt_words_log(&c->base, ROTA_LOG_WARN, "%s: %s", rt_sql_lane_at(c), c->facts.unsafe);
    return false;
}

/* The floor is what the last server's clock would have said when this flight left, before it was answered, or the
 * last number that we were told. */
static void moved(struct rt_sql_lane *lane)
{
    struct rt_sql_conn *c = lane->c;
    int64_t clock = lane->left_at / 1000 + c->facts.ahead;
    (void)raise_floor(lane, clock > (int64_t)c->highest ? clock : (int64_t)c->highest);
    if (c->rider == NULL)
        rt_sql_elsewhere(c);
}

static bool must_calm(struct rt_sql_lane *lane)
{
    struct rt_sql_conn *c = lane->c;
    char why[sizeof(c->trouble)];
    int64_t us = c->floor - lane->clock;
    if (us <= 0 || RT_BUG(RT_BUG_STALE_SERVER_BELIEVED))
        return false;
    snprintf(why, sizeof(why),
             "%.100s: its clock is %lld ms behind: it is waited for, or fences would go back",
             rt_sql_lane_at(c), (long long)(us / 1000 + 1));
    note_trouble(c, ROTA_LOG_WARN, why);
    lane->calm = true;
    set_timer(lane,
              now_of(lane) + (us / 1000 < CALM_LOOK_MS ? us * 1000 + 1 : CALM_LOOK_MS * RT_MS));
    return true;
}

/* False: this is not a server to stay with, and it was let go. */
static bool take_facts(struct rt_sql_lane *lane)
{
    struct rt_sql_conn *c = lane->c;
    const struct rt_sql_row *row = row_of(&lane->book, RT_SQL_FACTS);
    char why[sizeof(c->trouble)];
    if (row == NULL) {
        refuse(lane, ROTA_PROTOCOL, "the server says nothing of itself: is that a database?");
        return false;
    }
    if (rt_sql_str(row, 5)[0] != '\0') {
        snprintf(why, sizeof(why), "%.100s: %.150s", rt_sql_lane_at(c), rt_sql_str(row, 5));
        refuse(lane, ROTA_UNSUPPORTED, why);
        return false;
    }
    if (rt_sql_int(row, 2) == 0) {
        snprintf(why, sizeof(why), "%.150s takes no writes: it is a replica, or read-only",
                 rt_sql_lane_at(c));
        rt_sql_lane_cut(lane, why);
        return false;
    }
    if (lane->greeting == GREET_LAYOUT && rt_sql_int(row, 3) != lane->server) {
        snprintf(why, sizeof(why),
                 "%.100s is a pooler that changes connections between transactions: "
                 "name the server itself, or a pool by session",
                 rt_sql_lane_at(c));
        refuse(lane, ROTA_UNSUPPORTED, why);
        return false;
    }
    lane->server = rt_sql_int(row, 3);
    lane->clock = rt_sql_int(row, 7);
    lane->ours = lane->clock + rt_sql_int(row, 8);
    snprintf(c->facts.unsafe, sizeof(c->facts.unsafe), "%s", rt_sql_str(row, 4));
    if (c->facts.known && strcmp(c->facts.who, rt_sql_str(row, 6)) != 0)
        moved(lane);
    snprintf(c->facts.who, sizeof(c->facts.who), "%s", rt_sql_str(row, 6));
    c->facts.known = true;
    c->facts.ahead = lane->clock - lane->left_at / 1000;
    c->facts.version = rt_sql_int(row, 0);
    snprintf(c->facts.text, sizeof(c->facts.text), "%s", rt_sql_str(row, 1));
    return true;
}

static void settled(struct rt_sql_lane *lane)
{
    if (!must_calm(lane))
        ready(lane);
}

/* AT: where the tables were used last, and the floor that the first client waited for there, so that clients with
 * little time wait together. "": nobody has used them. */
static void settle(struct rt_sql_lane *lane, const char *at)
{
    struct rt_sql_conn *c = lane->c;
    size_t n = strlen(c->facts.who);
    bool known = strncmp(at, c->facts.who, n) == 0 && at[n] == ' ';
    int64_t floor = known ? strtoll(at + n, NULL, 10) : 0;
    if (floor > c->floor && floor <= lane->clock + CALM_MOST_MS * 1000)
        c->floor = floor; /* else the clock was set back since */
    bool first = !known && !lane->compared;
    lane->compared = true;
    if (first && (at[0] == '\0' || raise_floor(lane, lane->ours)))
        greet(lane, GREET_HERE);
    else
        settled(lane);
}

/* A dialect's. */
static void take_tables(struct rt_sql_lane *lane)
{
    struct rt_sql_conn *c = lane->c;
    char why[sizeof(c->trouble)], text[sizeof(c->trouble)];
    if (c->rider->take_layout(c, &lane->book, why, sizeof(why))) {
        settled(lane);
        return;
    }
    snprintf(text, sizeof(text), "%.60s: %.190s", rt_sql_lane_at(c), why);
    refuse(lane, ROTA_UNSUPPORTED, text);
}

static void take_layout(struct rt_sql_lane *lane)
{
    const struct rt_sql_row *row = row_of(&lane->book, RT_SQL_LAYOUT);
    char why[sizeof(lane->c->trouble)];
    if (lane->c->rider != NULL) {
        take_tables(lane);
        return;
    }
    if (row != NULL && strtol(rt_sql_str(row, 0), NULL, 10) == LAYOUT_MAJOR) {
        settle(lane, rt_sql_str(row, 1));
        return;
    }
    if (row == NULL &&
        lane->greeting ==
            GREET_LAYOUT) { /* another is just making it: MariaDB's DDL is no transaction */
        greet(lane, GREET_MAKE);
        return;
    }
    if (row == NULL)
        snprintf(why, sizeof(why),
                 "%.100s: the table rota_meta does not say which layout it is of: is it Rota's?",
                 rt_sql_lane_at(lane->c));
    else
        snprintf(
            why, sizeof(why),
            "%.100s has Rota's layout %.20s, and this library knows %d: use a library that fits",
            rt_sql_lane_at(lane->c), rt_sql_str(row, 0), LAYOUT_MAJOR);
    refuse(lane, ROTA_UNSUPPORTED, why);
}

static void greet_failed(struct rt_sql_lane *lane, enum rt_sql_end end, const char *said)
{
    char why[sizeof(lane->c->trouble)];
    bool making = lane->greeting >= GREET_MAKE;
    const char *tables = lane->c->rider != NULL ? lane->c->rider->tables : NULL;
    snprintf(why, sizeof(why), "%.80s: %.160s", rt_sql_lane_at(lane->c), said);
    if (end == RT_SQL_AGAIN || end == RT_SQL_FULL || end == RT_SQL_REPLICA || end == RT_SQL_CUT) {
        rt_sql_lane_cut(lane, why);
        return;
    }
    if (making && end == RT_SQL_DENIED)
        snprintf(
            why, sizeof(why),
            "%.50s: there are no tables%s%.30s, and this user may not make them: let somebody who may run what "
            "`%s --ddl` prints (%.60s)",
            rt_sql_lane_at(lane->c), tables != NULL ? " " : "", tables != NULL ? tables : "",
            tables != NULL && lane->c->rider->doctor != NULL ? lane->c->rider->doctor
                                                             : "rota doctor",
            said);
    else if (making && end == RT_SQL_ABSENT)
        snprintf(why, sizeof(why), "%.60s: the tables %.40s are of another shape than %s (%.80s)",
                 rt_sql_lane_at(lane->c), tables != NULL ? tables : "rota_*",
                 tables != NULL ? "this dialect's" : "Rota's", said);
    refuse(lane, end == RT_SQL_DENIED && !making ? ROTA_AUTH : ROTA_UNSUPPORTED, why);
}

static void greet_landed(struct rt_sql_lane *lane, enum rt_sql_end end, const char *why)
{
    lane->flying = false;
    set_timer(lane, RT_NEVER);
    if (lane->book.failed) { /* what the server said of itself was not heard in full */
        rt_sql_lane_cut(lane, "out of memory");
        return;
    }
    if (lane->greeting == GREET_LAYOUT && end == RT_SQL_ABSENT) {
        if (take_facts(lane)) /* they came before */
            greet(lane, GREET_MAKE);
    } else if (lane->greeting == GREET_HERE && (end == RT_SQL_LANDED || end == RT_SQL_DENIED)) {
        settled(lane); /* without that right the next one compares clocks too */
    } else if (end != RT_SQL_LANDED) {
        greet_failed(lane, end, why);
    } else if (lane->greeting == GREET_FACTS) {
        if (take_facts(lane))
            greet(lane, GREET_LAYOUT);
    } else if (lane->greeting == GREET_MAKE) {
        greet(lane, GREET_AGAIN);
    } else if (lane->greeting == GREET_AGAIN || take_facts(lane)) {
        take_layout(lane);
    }
}

/* ---- Flights -------------------------------------------------------------------------------------------------- */

/* Whether A may fly together with what is aboard of its name. Once one could not, none that was asked after it may. */
static bool may_share(struct rt_sql_lane *lane, struct rt_sql_ask *a)
{
    size_t aboard = 0;
    for (size_t i = 0; a->name != NULL && i < lane->loaded; i++) {
        struct rt_sql_ask *b = lane->load[i];
        if (b == NULL || b->name == NULL || strcmp(b->name, a->name) != 0)
            continue;
        b->closed = b->closed || !a->shares || !b->shares || ++aboard == RT_SQL_SHARE;
        if (b->closed)
            return false;
    }
    return true;
}

int rt_sql_lane_board(struct rt_sql_lane *lane, struct rt_sql_ask *a)
{
    if (lane->state != RT_DIAL_READY) {
        rt_sql_lane_want(lane);
        return ROTA_UNREACHABLE;
    }
    if (lane->flying || lane->loaded == RT_SQL_LOAD ||
        (lane->loaded > 0 && (lane->single || a->single)) || !may_share(lane, a))
        return ROTA_UNREACHABLE;
    a->closed = false;
    lane->load[lane->loaded++] = a;
    lane->single = a->single;
    rt_loop_defer(lane->c->base.loop, &lane->depart);
    return 0;
}

void rt_sql_lane_leave(struct rt_sql_lane *lane, struct rt_sql_ask *a)
{
    for (size_t i = 0; i < lane->loaded; i++)
        if (lane->load[i] == a)
            lane->load[i] = NULL;
}

/* Every flight locks lines in the order of their names, so flights never wait for each other in a circle. Of one name
 * those that leave come first, then all as they were asked. */
static int by_name(const void *x, const void *y)
{
    const struct rt_sql_ask *a = *(struct rt_sql_ask *const *)x,
                            *b = *(struct rt_sql_ask *const *)y;
    if (a == NULL || b == NULL)
        return (a != NULL) - (b != NULL);
    if (a->name == NULL || b->name == NULL)
        return (a->name != NULL) - (b->name != NULL);
    int order = strcmp(a->name, b->name);
    if (order == 0)
        order = b->plan->leaves - a->plan->leaves;
    return order != 0 ? order
                      : (a->entry.order > b->entry.order) - (a->entry.order < b->entry.order);
}

/* Those that are aboard, in the order in which they speak. */
static void in_order(struct rt_sql_lane *lane)
{
    qsort(lane->load, lane->loaded, sizeof(struct rt_sql_ask *), by_name);
    for (size_t i = 0; i < lane->loaded; i++) {
        struct rt_sql_ask *a = lane->load[i], *before = i > 0 ? lane->load[i - 1] : NULL;
        if (a == NULL)
            continue;
        a->follows = before != NULL && before->name != NULL && a->name != NULL &&
                     strcmp(before->name, a->name) == 0;
        a->behind = NULL;
        if (!a->follows)
            continue;
        before->behind = a;
        before->plan->share(before);
        a->plan->share(a);
    }
}

static void say_listen(struct rt_sql_lane *lane)
{
    bool ears = false;
    for (size_t i = 0; i < lane->loaded; i++)
        ears = ears || (lane->load[i] != NULL && lane->load[i]->ears);
    if (RT_BUG(RT_BUG_LOST_WAKE_UP))
        ears = false;
    lane->will_listen = ears && !lane->listens && lane->c->driver->notifies;
    if (lane->will_listen)
        rt_sql_say(&lane->book, RT_SQL_LISTEN, rt_sql_number(lane->c->ear));
}

/* All have ended meanwhile, or have nothing left to say (a bell that is gone): the latter end from the next turn. */
static void stay(struct rt_sql_lane *lane)
{
    for (size_t i = 0; i < lane->loaded; i++)
        if (lane->load[i] != NULL)
            rt_ledger_abandon(&lane->c->ledger, &lane->load[i]->entry, ROTA_CANCELED);
    lane->loaded = 0;
}

static void depart(struct rt_defer *d)
{
    struct rt_sql_lane *lane = (struct rt_sql_lane *)(void *)((char *)d -
                                                              offsetof(struct rt_sql_lane, depart));
    struct rt_sql_book *b = &lane->book;
    assert(lane->state == RT_DIAL_READY && !lane->flying);
    rt_sql_book_clear(b);
    in_order(lane);
    say_listen(lane);
    for (size_t i = 0; i < lane->loaded; i++) {
        struct rt_sql_ask *a = lane->load[i];
        if (a == NULL)
            continue;
        a->first = b->step_count;
        a->plan->say(a, b);
        a->steps = b->step_count - a->first;
    }
    if (b->step_count > 0 || b->failed)
        fly(lane);
    else
        stay(lane);
}

/* Calls EACH for all aboard, then lets the next board. */
static void unload(struct rt_sql_lane *lane, void (*each)(struct rt_sql_ask *a, void *arg),
                   void *arg)
{
    for (size_t i = 0; i < lane->loaded; i++) {
        struct rt_sql_ask *a = lane->load[i];
        lane->load[i] = NULL;
        if (a != NULL)
            each(a, arg);
    }
    lane->loaded = 0;
    lane->flying = lane->failed = false;
    rt_sql_bells_kept(lane->c, lane);
}

static void hear(struct rt_sql_ask *a, void *arg)
{
    rt_sql_ask_heard(a, arg);
}

static void later(struct rt_sql_ask *a, void *pause)
{
    a->entry.maybe = false;
    rt_ledger_again(&a->c->ledger, &a->entry, pause != NULL);
}

static bool another_way(struct rt_sql_ask *a)
{
    return a->plan->refused != NULL && a->plan->refused(a);
}

static void by_itself(struct rt_sql_ask *a, void *arg)
{
    a->single = !another_way(a);
    later(a, arg);
}

struct refusal {
    int err;
    const char *why;
};

static void refuse_one(struct rt_sql_ask *a, void *arg)
{
    const struct refusal *r = arg;
    rt_sql_ask_refused(a, r->err, r->why);
}

static void refuse_alone(struct rt_sql_ask *a, void *arg)
{
    if (another_way(a))
        later(a, NULL);
    else
        refuse_one(a, arg);
}

static void not_landed(struct rt_sql_lane *lane, enum rt_sql_end end, const char *said)
{
    struct rt_sql_conn *c = lane->c;
    struct refusal r = {end == RT_SQL_DENIED ? ROTA_AUTH : ROTA_PROTOCOL, said};
    switch (end) {
    case RT_SQL_FULL:
        note_trouble(c, ROTA_LOG_WARN, said); /* fall through */
    case RT_SQL_AGAIN:
        unload(lane, later, lane);
        break;
    case RT_SQL_ABSENT: /* somebody took the tables away: they are made anew */
        unload(lane, later, lane);
        rt_sql_lane_cut(lane, said);
        break;
    case RT_SQL_REPLICA:
        unload(lane, later, NULL);
        rt_sql_lane_cut(lane, said);
        break;
    default:
        if (lane->loaded > 1)
            unload(lane, by_itself, NULL);
        else
            unload(lane, refuse_alone, &r);
    }
}

static bool is_refused(const struct rt_entry *e, const void *arg)
{
    (void)arg;
    return e->pauses > 0;
}

static void landed(struct rt_sql_lane *lane, enum rt_sql_end end, const char *why)
{
    struct rt_sql_conn *c = lane->c;
    set_timer(lane, RT_NEVER);
    if (end == RT_SQL_CUT) /* what was aboard is told with the link's end */
        return;
    if (end != RT_SQL_LANDED) {
        not_landed(lane, end, why);
    } else if (lane->book.failed) {
        unload(lane, refuse_one, &(struct refusal){ROTA_UNKNOWN, "out of memory"});
    } else {
        lane->listens = lane->listens || lane->will_listen;
        rt_sql_bells_landed(c, lane);
        unload(lane, hear, &lane->book);
        if (c->trouble[0] != '\0' && rt_ledger_find(&c->ledger, is_refused, NULL) == NULL)
            c->trouble[0] = '\0'; /* else a disk is still full, although a heartbeat found room */
    }
    rt_sql_told(c);
    rt_ledger_flush(&c->ledger);
}

/* ---- From the driver ------------------------------------------------------------------------------------------- */

static void on_up(struct rt_sql_link *l)
{
    struct rt_sql_lane *lane = l->owner;
    lane->state = RT_DIAL_GREETING;
    greet(lane, GREET_FACTS);
}

static void on_down(struct rt_sql_link *l, int err, const char *why)
{
    struct rt_sql_lane *lane = l->owner;
    if (lane->state != RT_DIAL_READY && err != ROTA_UNREACHABLE && err != ROTA_NOMEM)
        refuse(lane, err, why);
    else
        rt_sql_lane_cut(lane, why);
}

static void on_row(struct rt_sql_link *l, size_t step, const struct rt_sql_cell *cells,
                   size_t count)
{
    rt_sql_book_hear(&((struct rt_sql_lane *)l->owner)->book, step, cells, count);
}

static void on_changed(struct rt_sql_link *l, size_t step, uint64_t count)
{
    struct rt_sql_book *b = &((struct rt_sql_lane *)l->owner)->book;
    assert(step < b->step_count);
    b->changed[step] = count;
}

static void on_landed(struct rt_sql_link *l, enum rt_sql_end end, size_t step, const char *why)
{
    struct rt_sql_lane *lane = l->owner;
    (void)step;
    if (lane->state == RT_DIAL_GREETING && end == RT_SQL_CUT)
        return; /* `down` follows */
    if (lane->state == RT_DIAL_GREETING)
        greet_landed(lane, end, why);
    else
        landed(lane, end, why);
}

static void on_notice(struct rt_sql_link *l, const char *channel, const char *text)
{
    struct rt_sql_lane *lane = l->owner;
    rt_sql_notice(lane->c, lane->flying, channel, text);
}

static const struct rt_sql_user link_user = {on_up,      on_down,   on_row,
                                             on_changed, on_landed, on_notice};

/* ---- Dialing --------------------------------------------------------------------------------------------------- */

static void dial(struct rt_sql_lane *lane)
{
    struct rt_sql_conn *c = lane->c;
    struct rt_sql_link *l = rt_alloc(c->driver->link_size);
    int rv = ROTA_NOMEM;
    if (l != NULL) {
        *l = (struct rt_sql_link){
            .base = &c->base, .user = &link_user, .driver = c->self, .owner = lane};
        rv = c->driver->dial(l, &c->ring.ends[c->ring.now],
                             rt_dial_connect_ms(&c->base, c->ring.count));
    }
    if (rv == 0) {
        lane->link = l;
        lane->state = RT_DIAL_DIALING;
        return;
    }
    rt_free(l);
    if (rv == ROTA_NOMEM)
        (void)rt_words_nomem(&c->base);
    note_lost(lane, c->base.errmsg);
    next_end(lane, false);
    set_timer(lane, lane->pause.until);
}

void rt_sql_lane_want(struct rt_sql_lane *lane)
{
    if (lane->state != RT_DIAL_DOWN || lane->timer.timer.slot != 0 || lane->c->closing)
        return;
    if (lane->pause.until <= now_of(lane))
        dial(lane);
    else
        set_timer(lane, lane->pause.until);
}

void rt_sql_lane_soon(struct rt_sql_lane *lane)
{
    set_timer(lane, now_of(lane));
}

/* ---- Life ------------------------------------------------------------------------------------------------------ */

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_sql_lane *lane = (struct rt_sql_lane *)(void *)((char *)call -
                                                              offsetof(struct rt_sql_lane, timer));
    char why[sizeof(lane->c->trouble)];
    (void)now;
    if (lane->state == RT_DIAL_DOWN) {
        rt_sql_lane_want(lane);
    } else if (lane->calm) {
        lane->calm = false;
        greet(lane, GREET_LAYOUT);
    } else if (lane->failed && lane->state == RT_DIAL_READY) {
        unload(lane, refuse_one, &(struct refusal){ROTA_NOMEM, "out of memory"});
        rt_ledger_flush(&lane->c->ledger);
    } else {
        snprintf(why, sizeof(why), "%.180s %s", rt_sql_lane_at(lane->c),
                 lane->failed ? "cannot be asked: out of memory" : "does not answer");
        rt_sql_lane_cut(lane, why);
    }
}

void rt_sql_lane_init(struct rt_sql_lane *lane, struct rt_sql_conn *c)
{
    lane->c = c;
    lane->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
    lane->depart.run = depart;
}

void rt_sql_lane_close(struct rt_sql_lane *lane)
{
    drop_link(lane);
    rt_sql_book_free(&lane->book);
}
