/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of the dialects whose locks live with a connection: opening, incoming ops, time, closing. */
#include "engine/sql/hold/hold.h"

#include "base/alloc.h"
#include "engine/kit/work.h"
#include "engine/url.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMERS 2               /* ours, and the ledger's */
#define SEATS "32"             /* ?waits= */
#define PREFIX "rota_t_"       /* ?tables= */
#define TABLE "rota_forupdate" /* ?table= */
#define COLUMN "name"          /* ?column= */
#define NAME_MOST 60

/* ---- Ops --------------------------------------------------------------------------------------------------------------- */

static void hold_submit(struct rt_conn *conn, struct rt_op *op)
{
    static void (*const begin[])(struct rt_sqlhold_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = rt_sqlhold_begin_beat,     [RT_OP_JOIN] = rt_sqlhold_begin_join,
        [RT_OP_JOIN_ALL] = rt_sqlhold_begin_join, [RT_OP_CHANGE] = rt_sqlhold_begin_change,
        [RT_OP_LEAVE] = rt_sqlhold_begin_leave,   [RT_OP_OBSERVE] = rt_sqlhold_begin_observe,
        [RT_OP_INSPECT] = rt_sqlhold_begin_look,  [RT_OP_LIST] = rt_sqlhold_begin_look,
        [RT_OP_BREAK] = rt_sqlhold_begin_look,    [RT_OP_CHECK] = rt_sqlhold_begin_look,
    };
    assert((unsigned)op->kind < sizeof(begin) / sizeof(begin[0]));
    begin[op->kind](rt_sqlhold_of(conn), op);
}

static void hold_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(conn);
    for (struct rt_work *w = c->works; w != NULL; w = w->next)
        if (w->op == op) {
            rt_work_end(conn, w, rt_sqlhold_fail(c, ROTA_UNKNOWN, "canceled"));
            return;
        }
    if (!rt_sqlhold_cancel_set(c, op) && !rt_ledger_cancel(&c->ledger, op))
        (void)rt_ledger_cancel(&c->sql.ledger, op);
}

/* ---- Time -------------------------------------------------------------------------------------------------------------- */

void rt_sqlhold_by(struct rt_sqlhold_conn *c, int64_t at)
{
    if (at == RT_NEVER || c->closing || (c->timer.timer.slot != 0 && c->timer.timer.at <= at))
        return;
    rt_timers_start(&c->sql.base.loop->timers, &c->timer.timer, at);
}

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    struct rt_sqlhold_conn *c =
        (struct rt_sqlhold_conn *)(void *)((char *)call - offsetof(struct rt_sqlhold_conn, timer));
    rt_sqlhold_by(c, rt_sqlhold_session_tick(c, now));
    rt_sqlhold_by(c, rt_sqlhold_seats_tick(c, now));
    rt_sqlhold_by(c, rt_sqlhold_views_tick(c, now));
}

static void on_flush(struct rt_defer *d)
{
    struct rt_sqlhold_conn *c =
        (struct rt_sqlhold_conn *)(void *)((char *)d - offsetof(struct rt_sqlhold_conn, flush));
    rt_ledger_flush(&c->ledger);
}

void rt_sqlhold_flush_soon(struct rt_sqlhold_conn *c)
{
    if (!c->closing)
        rt_loop_defer(c->sql.base.loop, &c->flush);
}

/* ---- What rides on the lanes ------------------------------------------------------------------------------------------- */

static void say_layout(struct rt_sql_conn *sql, struct rt_sql_book *b)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(&sql->base);
    rt_sqlhold_say(c, b, RT_HOLD_SAY_LAYOUT, &(struct rt_sqlhold_about){0});
    rt_sqlhold_say(c, b, RT_HOLD_SAY_THERE, &(struct rt_sqlhold_about){0});
    rt_sqlhold_say(c, b, RT_HOLD_SAY_SHAPE, &(struct rt_sqlhold_about){0});
}

/* The answer to SHAPE, where it was asked. A table that must not be used is refused only by ops that would use it: a
 * doctor just looks. */
static void take_shape(struct rt_sqlhold_conn *c, const struct rt_sql_book *b)
{
    for (size_t i = 0; i < b->row_count; i++)
        if (b->steps[b->rows[i].step].saying == &c->sayings[RT_HOLD_SAY_SHAPE]) {
            snprintf(c->unfit, sizeof(c->unfit), "%s", rt_sql_str(&b->rows[i], 0));
            c->name_most = rt_sql_int(&b->rows[i], 1);
            c->name_bytes = rt_sql_int(&b->rows[i], 2) != 0;
        }
}

static bool take_layout(struct rt_sql_conn *sql, const struct rt_sql_book *b, char *why,
                        size_t size)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(&sql->base);
    take_shape(c, b);
    for (size_t i = 0; i < b->row_count; i++)
        if (b->steps[b->rows[i].step].saying == &c->sayings[RT_HOLD_SAY_LAYOUT]) {
            int64_t major = rt_sql_int(&b->rows[i], 0) / 1000;
            snprintf(why, size, "the table rota_hold has layout %lld, and this library knows 1",
                     (long long)major);
            return major == 1;
        }
    snprintf(why, size, "the table rota_hold does not say which layout it is of: is it Rota's?");
    return false;
}

static void say_make(struct rt_sql_conn *sql, struct rt_sql_book *b)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(&sql->base);
    rt_sqlhold_say(c, b, RT_HOLD_SAY_MAKE, &(struct rt_sqlhold_about){0});
    rt_sqlhold_say(c, b, RT_HOLD_SAY_MAKE2, &(struct rt_sqlhold_about){0});
}

/* `unsafe` is the dialect's own, whatever the server is. */
static void linked(struct rt_sql_conn *sql)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(&sql->base);
    snprintf(sql->base.unsafe, sizeof(sql->base.unsafe), "%s", c->way->unsafe);
    rt_sqlhold_seats_relinked(c);
    rt_sqlhold_flush_soon(c);
}

static const struct rt_sql_rider rider = {.say_layout = say_layout,
                                          .take_layout = take_layout,
                                          .say_make = say_make,
                                          .linked = linked,
                                          .tables = "rota_hold"};

/* ---- Opening ------------------------------------------------------------------------------------------------------------ */

static int take_seats(struct rt_sqlhold_conn *c, const struct rt_url *url)
{
    const char *text = rt_url_param(url, "waits", SEATS);
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || n < 1 || n > RT_HOLD_SEATS)
        return rt_sqlhold_fail(
            c, ROTA_INVALID,
            "?waits=%.20s is no number from 1 to %d: so many connections may hold or "
            "wait for locks",
            text, RT_HOLD_SEATS);
    c->seats = rt_alloc(n * sizeof(struct rt_sqlhold_seat *));
    c->seat_room = n;
    return c->seats != NULL ? 0 : rt_words_nomem(rt_sqlhold_base(c));
}

/* A name as SQL has them, with a schema in front if DOTS. */
static bool is_name(const char *text, bool dots)
{
    size_t n = strlen(text), dot = 0;
    for (size_t i = 0; i < n; i++) {
        bool good = isalpha((unsigned char)text[i]) || text[i] == '_' ||
                    (i > 0 && (isdigit((unsigned char)text[i]) || text[i] == '$'));
        dot += text[i] == '.';
        if (!good && (text[i] != '.' || !dots || dot > 1 || i == 0 || i + 1 == n))
            return false;
    }
    return n > 0 && n <= NAME_MOST;
}

static int take_name(struct rt_sqlhold_conn *c, const struct rt_url *url, const char *param,
                     const char *usual, bool may, char **out)
{
    const char *text = rt_url_param(url, param, NULL);
    if (text != NULL && !may)
        return rt_sqlhold_fail(c, ROTA_INVALID, "?%s= is not for dialect %s", param,
                               c->way->dialect);
    bool empty = strcmp(param, "tables") == 0 && text != NULL && text[0] == '\0';
    if (text != NULL && !empty && !is_name(text, strcmp(param, "table") == 0))
        return rt_sqlhold_fail(c, ROTA_INVALID,
                               "?%s=%.40s is no plain name: letters, digits and _ are one", param,
                               text);
    *out = rt_strdup(text != NULL ? text : usual);
    return *out != NULL ? 0 : rt_words_nomem(rt_sqlhold_base(c));
}

static int take_keys(struct rt_sqlhold_conn *c, const struct rt_url *url)
{
    const char *text = rt_url_param(url, "keys", NULL);
    if (text != NULL && !c->way->keyed)
        return rt_sqlhold_fail(c, ROTA_INVALID, "?keys= is for dialect advisory");
    if (text != NULL && !rt_sqlhold_keys_find(text, &c->keys))
        return rt_sqlhold_fail(c, ROTA_INVALID, "?keys=%.40s is none of " RT_HOLD_KEYS_NAMES, text);
    return 0;
}

static int take_url(struct rt_sqlhold_conn *c, const struct rt_url *url)
{
    int rv = take_seats(c, url);
    c->table_said = rt_url_param(url, "table", NULL) != NULL;
    c->schema_said = rt_url_param(url, "schema", NULL) != NULL;
    if (rv == 0)
        rv = take_name(c, url, "table", TABLE, c->way->rows, &c->table);
    if (rv == 0)
        rv = take_name(c, url, "column", COLUMN, c->way->rows, &c->column);
    if (rv == 0)
        rv = take_name(c, url, "tables", PREFIX, c->way->tables, &c->prefix);
    if (rv == 0)
        rv = take_keys(c, url);
    return rv == 0 ? rt_sqlhold_words_open(c) : rv;
}

int rt_sqlhold_open(struct rt_conn *conn, const struct rt_url *url,
                    const struct rt_sql_driver *driver)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(conn);
    const char *dialect = rt_url_param(url, "dialect", "");
    for (const struct rt_sqlhold_way *const *at = rt_sqlhold_ways; *at != NULL; at++)
        if (strcmp((*at)->dialect, dialect) == 0 && (*at)->tongue == driver->tongue)
            c->way = *at;
    assert(c->way != NULL);
    rt_dial_times(conn);
    c->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = on_timer};
    c->flush.run = on_flush;
    rt_sqlhold_asks_open(c);
    int rv = take_url(c, url);
    if (rv == 0 && rt_loop_reserve(conn->loop, TIMERS) != 0)
        rv = rt_words_nomem(conn);
    else if (rv == 0 && (rv = rt_sql_open_lanes(conn, url, driver, &rider)) != 0)
        rt_loop_unreserve(conn->loop, TIMERS);
    if (rv != 0) {
        rt_sqlhold_words_close(c);
        rt_free(c->seats);
    }
    return rv;
}

static void hold_close(struct rt_conn *conn)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(conn);
    c->closing = true;
    rt_loop_undefer(conn->loop, &c->flush);
    rt_timers_stop(&conn->loop->timers, &c->timer.timer);
    for (size_t i = 0; i < c->seat_count; i++)
        rt_sqlhold_seat_close(c->seats[i]);
    rt_sqlhold_asks_close(c);
    rt_view_close(&c->views);
    rt_loop_unreserve(conn->loop, TIMERS);
    rt_sql_close(conn);
    rt_work_close(&c->works, conn); /* their ping has ended only now */
    rt_sqlhold_words_close(c);
    rt_free(c->seats);
}

static void hold_forked(struct rt_conn *conn)
{
    struct rt_sqlhold_conn *c = rt_sqlhold_of(conn);
    for (size_t i = 0; i < c->seat_count; i++)
        if (c->seats[i]->link != NULL)
            c->sql.driver->forked(c->seats[i]->link);
    rt_sql_forked(conn);
}

static uint32_t hold_caps(const struct rt_conn *conn)
{
    return ((const struct rt_sqlhold_conn *)(const void *)conn)->way->caps;
}

static const char *const none[] = {NULL};

const struct rt_engine rt_engine_sqlhold = {
    .schemes = none, /* by those of postgres: and mysql: */
    .params = none,
    .conn_size = sizeof(struct rt_sqlhold_conn),
    .open = NULL, /* rt_sqlhold_open: it is told the driver */
    .close = hold_close,
    .submit = hold_submit,
    .cancel = hold_cancel,
    .caps = hold_caps,
    .forked = hold_forked,
    .trouble = rt_sql_trouble,
    .ddl = rt_sqlhold_ddl,
};
