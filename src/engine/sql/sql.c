/* SPDX-License-Identifier: Apache-2.0 */
/* The engines on SQL databases: their tables of functions, opening and closing, what they can promise. */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "engine/sql/dialect/table.h"
#include "engine/url.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMERS (4 + RT_SQL_LINKS) /* the ledger's, two of waiting, the sweep's, one per lane */

/* ---- Ops ---------------------------------------------------------------------------------------------------------- */

void rt_sql_submit(struct rt_conn *conn, struct rt_op *op)
{
    static void (*const begin[])(struct rt_sql_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = rt_sql_begin_beat,     [RT_OP_JOIN] = rt_sql_begin_join,
        [RT_OP_JOIN_ALL] = rt_sql_begin_join, [RT_OP_CHANGE] = rt_sql_begin_change,
        [RT_OP_LEAVE] = rt_sql_begin_leave,   [RT_OP_OBSERVE] = rt_sql_begin_observe,
        [RT_OP_INSPECT] = rt_sql_begin_look,  [RT_OP_LIST] = rt_sql_begin_look,
        [RT_OP_BREAK] = rt_sql_begin_break,   [RT_OP_CHECK] = rt_sql_begin_look,
    };
    assert((unsigned)op->kind < sizeof(begin) / sizeof(begin[0]));
    begin[op->kind](rt_sql_of(conn), op);
}

void rt_sql_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_sql_conn *c = rt_sql_of(conn);
    if (!rt_sql_observe_cancel(c, op))
        (void)rt_ledger_cancel(&c->ledger, op);
}

/* ---- What it can promise ------------------------------------------------------------------------------------------- */

static void judge(struct rt_sql_conn *c)
{
    snprintf(c->base.unsafe, sizeof(c->base.unsafe), "%s", c->facts.unsafe);
    if (c->ring.count > 1 && c->facts.unsafe[0] == '\0')
        snprintf(
            c->base.unsafe, sizeof(c->base.unsafe),
            "the URL names several servers, and two of them may take writes, which know nothing of each other: "
            "name one");
    atomic_store_explicit(&c->strict, c->base.unsafe[0] == '\0', memory_order_relaxed);
}

uint32_t rt_sql_caps(const struct rt_conn *conn)
{
    const uint32_t caps = ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS |
                          ROTA_CAP_WANTED | ROTA_CAP_DURABLE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS;
    const struct rt_sql_conn *c = (const struct rt_sql_conn *)(const void *)conn;
    return atomic_load_explicit(&c->strict, memory_order_relaxed) ? caps | ROTA_CAP_STRICT : caps;
}

/* ---- Links --------------------------------------------------------------------------------------------------------- */

void rt_sql_linked(struct rt_sql_conn *c, struct rt_sql_lane *lane)
{
    if (lane < &c->lanes[RT_SQL_LANES] && c->rider == NULL)
        rt_sql_learn(c);
    if (lane != &c->lanes[0])
        return;
    c->links++;
    judge(c);
    rt_words_log(&c->base, ROTA_LOG_INFO, "%s: connected (%s)", c->driver->name, c->facts.text);
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_LINK, .up = true});
    if (c->rider != NULL) {
        c->rider->linked(c);
        return;
    }
    rt_sql_hear_linked(c);
    rt_sql_observe_look(c, NULL);
}

void rt_sql_uncertain(struct rt_sql_conn *c)
{
    c->cuts++;
    c->expires = 0;
    rt_sql_wait_uncertain(c);
}

void rt_sql_unlinked(struct rt_sql_conn *c, struct rt_sql_lane *lane, bool was_ready)
{
    if (!was_ready) {
        rt_sql_wait_refused(c, lane);
        return;
    }
    if (lane < &c->lanes[RT_SQL_LANES])
        rt_sql_uncertain(c);
    if (lane == &c->lanes[0])
        rt_conn_event(&c->base, &(struct rt_event){.kind = RT_LINK, .up = false});
}

const char *rt_sql_trouble(const struct rt_conn *conn)
{
    const struct rt_sql_conn *c = (const struct rt_sql_conn *)(const void *)conn;
    return c->trouble[0] != '\0' ? c->trouble : NULL;
}

/* ---- Opening and closing -------------------------------------------------------------------------------------------- */

/* What is not ASCII may not be UTF-8 either, and a database refuses that: labels are for people. */
static void take_label(struct rt_sql_conn *c)
{
    snprintf(c->label, sizeof(c->label), "%s", c->base.label != NULL ? c->base.label : "");
    for (char *p = c->label; *p != '\0'; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
}

static int take_waits(struct rt_sql_conn *c, const struct rt_url *url)
{
    const char *text = rt_url_param(url, "waits", "8");
    char *end;
    unsigned long waits = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || waits > RT_SQL_WAITS)
        return rt_sql_fail(c, ROTA_INVALID, "?waits=%.20s is no number from 0 to %d", text,
                           RT_SQL_WAITS);
    c->waits = (uint32_t)waits;
    return 0;
}

static int take_url(struct rt_sql_conn *c, const struct rt_url *url)
{
    int rv = c->rider == NULL ? take_waits(c, url) : 0; /* a dialect's are its own */
    if (rv == 0)
        rv = c->driver->open(&c->base, url, &c->ring, &c->self);
    if (rv == 0 && c->ring.count == 0)
        rv = rt_dial_hosts(&c->ring, &c->base, url, c->driver->port);
    if (rv == 0)
        rv = rt_dial_random(&c->base, &c->jitter, sizeof(c->jitter));
    if (rv == 0)
        rv = rt_dial_random(&c->base, &c->ear, sizeof(c->ear));
    if (rv == 0)
        rv = rt_loop_reserve(c->base.loop, TIMERS);
    c->ear &= INT64_MAX;
    return rv;
}

int rt_sql_open(struct rt_conn *conn, const struct rt_url *url, const struct rt_sql_driver *driver)
{
    const char *dialect = rt_url_param(url, "dialect", "line");
    if (strcmp(dialect, "line") != 0)
        return rt_sql_dialect_open(conn, url, driver, dialect);
    if (rt_url_param(url, "table", NULL) != NULL)
        return rt_words_fail(conn, ROTA_INVALID,
                             "?table= is for the dialects that have one: name it, too (?dialect=)");
    return rt_sql_open_lanes(conn, url, driver, NULL);
}

int rt_sql_open_lanes(struct rt_conn *conn, const struct rt_url *url,
                      const struct rt_sql_driver *driver, const struct rt_sql_rider *rider)
{
    struct rt_sql_conn *c = rt_sql_of(conn);
    c->driver = driver;
    c->rider = rider;
    assert(driver->lanes >= 1 && driver->lanes <= RT_SQL_LANES);
    snprintf(conn->unsafe, sizeof(conn->unsafe), "the server has not been reached yet");
    rt_dial_times(conn);
    take_label(c);
    rt_sql_ask_init(c);
    rt_sql_wait_init(c);
    rt_sql_hear_init(c);
    rt_sql_observe_init(c);
    rt_sql_sweep_init(c);
    for (size_t i = 0; i < RT_SQL_LINKS; i++)
        rt_sql_lane_init(&c->lanes[i], c);
    int rv = take_url(c, url);
    if (rv == 0) {
        rt_sql_lane_soon(&c->lanes[0]);
        return 0;
    }
    if (c->self != NULL)
        driver->close(c->self);
    rt_dial_ring_fini(&c->ring);
    return rv == ROTA_NOMEM ? rt_words_nomem(conn) : rv;
}

void rt_sql_close(struct rt_conn *conn)
{
    struct rt_sql_conn *c = rt_sql_of(conn);
    c->closing = true;
    for (size_t i = 0; i < RT_SQL_LINKS; i++)
        rt_sql_lane_close(&c->lanes[i]);
    rt_sql_wait_fini(c);
    rt_sql_hear_fini(c);
    rt_sql_sweep_fini(c);
    rt_sql_ask_fini(c);
    rt_sql_observe_fini(c);
    rt_sql_forget_doubts(c);
    rt_sql_bells_lost(c, NULL);
    c->driver->close(c->self);
    rt_dial_ring_fini(&c->ring);
    rt_loop_unreserve(conn->loop, TIMERS);
}

void rt_sql_forked(struct rt_conn *conn)
{
    struct rt_sql_conn *c = rt_sql_of(conn);
    for (size_t i = 0; i < RT_SQL_LINKS; i++)
        if (c->lanes[i].link != NULL)
            c->driver->forked(c->lanes[i].link);
}

const char *rt_sql_ddl(const struct rt_conn *conn)
{
    return ((const struct rt_sql_conn *)(const void *)conn)->driver->ddl;
}
