/* SPDX-License-Identifier: Apache-2.0 */
/* What the dialects whose locks are rows with an end are made of; opening and closing. */
#include "engine/sql/dialect/lease.h"

#include "base/alloc.h"
#include "engine/kit/view.h"
#include "engine/url.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMERS 2
#define OWN_GRANTS (ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

static const struct rt_lease_dialect row = {
    .name = "row",
    .table = "rota_row",
    .caps = OWN_GRANTS,
    .keeps = "a row is the lock, its insert the grant, its delete the release",
    .words = {rt_lease_words[0][0], rt_lease_words[0][1]},
};

static const struct rt_lease_dialect version = {
    .name = "version",
    .table = "rota_version",
    .caps = OWN_GRANTS,
    .keeps = "a row per name, changed if its version is the one that was seen",
    .words = {rt_lease_words[1][0], rt_lease_words[1][1]},
    .reads_first = true,
};

static const struct rt_lease_dialect shedlock = {
    .name = "shedlock",
    .table = "shedlock",
    .caps = ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS,
    .unsafe =
        "dialect shedlock: it has no fences, and whoever is late writes; strict is for dialect line",
    .keeps = "ShedLock's JdbcTemplateLockProvider with usingDbTime()",
    .words = {rt_lease_words[2][0], rt_lease_words[2][1]},
    .by_text = true,
};

/* ---- On the lanes ------------------------------------------------------------------------------- */

static void say_once(struct rt_lease_conn *c, struct rt_sql_book *b, enum rt_lease_say kind)
{
    if (rt_lease_says(c, kind))
        rt_sql_say_own_cells(b, &c->says[kind], NULL, 0);
}

static void say_layout(struct rt_sql_conn *sql, struct rt_sql_book *b)
{
    struct rt_lease_conn *c = rt_lease_of_sql(sql);
    say_once(c, b, RT_LEASE_ZONE);
    say_once(c, b, RT_LEASE_COLUMNS);
    say_once(c, b, RT_LEASE_SHAPE);
}

static void say_make(struct rt_sql_conn *sql, struct rt_sql_book *b)
{
    for (enum rt_lease_say kind = RT_LEASE_MAKE; kind < RT_LEASE_SAYS; kind++)
        say_once(rt_lease_of_sql(sql), b, kind);
}

static bool take_layout(struct rt_sql_conn *sql, const struct rt_sql_book *b, char *why,
                        size_t size)
{
    struct rt_lease_conn *c = rt_lease_of_sql(sql);
    for (size_t i = 0; i < b->row_count; i++)
        if (b->steps[b->rows[i].step].saying == &c->says[RT_LEASE_SHAPE]) {
            (void)snprintf(why, size, "%s", rt_sql_str(&b->rows[i], 0));
            c->name_most = rt_sql_int(&b->rows[i], 1);
            return why[0] == '\0';
        }
    (void)snprintf(why, size, "the server says nothing of the table %.100s", c->table);
    return false;
}

static void linked(struct rt_sql_conn *sql)
{
    struct rt_lease_conn *c = rt_lease_of_sql(sql);
    if (c->dialect->unsafe != NULL) {
        (void)snprintf(sql->base.unsafe, sizeof(sql->base.unsafe), "%s", c->dialect->unsafe);
        atomic_store_explicit(&sql->strict, false, memory_order_relaxed);
    }
    rt_lease_verify(c);
}

/* ---- Opening and closing ------------------------------------------------------------------------ */

static void close_lease(struct rt_conn *conn)
{
    struct rt_lease_conn *c = rt_lease_of(conn);
    struct rt_loop *loop = conn->loop;
    rt_sql_close(conn);
    rt_spin_fini(&c->spin);
    rt_view_close(&c->views);
    rt_timers_stop(&loop->timers, &c->look_timer.timer);
    rt_loop_unreserve(loop, TIMERS);
    rt_free(c->texts);
}

static int open_lease(struct rt_conn *conn, const struct rt_url *url,
                      const struct rt_sql_driver *driver, const struct rt_lease_dialect *dialect)
{
    struct rt_lease_conn *c = rt_lease_of(conn);
    uint64_t dice = 1;
    c->dialect = dialect;
    int rv = rt_lease_speech(c, rt_url_param(url, "table", dialect->table), driver->tongue);
    c->rider = (struct rt_sql_rider){.say_layout = say_layout,
                                     .take_layout = take_layout,
                                     .say_make = say_make,
                                     .linked = linked,
                                     .tables = c->table};
    if (rv == 0)
        rv = rt_dial_random(conn, &dice, sizeof(dice));
    if (rv == 0)
        rv = rt_loop_reserve(conn->loop, TIMERS) == 0 ? 0 : rt_words_nomem(conn);
    if (rv == 0) {
        rv = rt_sql_open_lanes(conn, url, driver, &c->rider);
        if (rv != 0)
            rt_loop_unreserve(conn->loop, TIMERS);
    }
    if (rv != 0) {
        rt_free(c->texts);
        c->texts = NULL;
        return rv;
    }
    rt_spin_init(&c->spin, conn, &rt_lease_spin_user, RT_LEASE_PAUSE_MS, dice);
    c->look_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL},
                                           .fire = rt_lease_look_fire};
    c->process = getpid();
    if (gethostname(c->host, sizeof(c->host) - 1) != 0)
        (void)snprintf(c->host, sizeof(c->host), "?");
    if (dialect->unsafe != NULL)
        (void)snprintf(conn->unsafe, sizeof(conn->unsafe), "%s", dialect->unsafe);
    return 0;
}

int rt_lease_open_row(struct rt_conn *conn, const struct rt_url *url,
                      const struct rt_sql_driver *driver)
{
    return open_lease(conn, url, driver, &row);
}

int rt_lease_open_version(struct rt_conn *conn, const struct rt_url *url,
                          const struct rt_sql_driver *driver)
{
    return open_lease(conn, url, driver, &version);
}

int rt_lease_open_shedlock(struct rt_conn *conn, const struct rt_url *url,
                           const struct rt_sql_driver *driver)
{
    return open_lease(conn, url, driver, &shedlock);
}

/* ---- The engine --------------------------------------------------------------------------------- */

static void submit(struct rt_conn *conn, struct rt_op *op)
{
    static void (*const begin[])(struct rt_lease_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = rt_lease_begin_beat,     [RT_OP_JOIN] = rt_lease_begin_join,
        [RT_OP_JOIN_ALL] = rt_lease_begin_join, [RT_OP_CHANGE] = rt_lease_begin_change,
        [RT_OP_LEAVE] = rt_lease_begin_leave,   [RT_OP_OBSERVE] = rt_lease_begin_observe,
        [RT_OP_INSPECT] = rt_lease_begin_look,  [RT_OP_LIST] = rt_lease_begin_look,
        [RT_OP_BREAK] = rt_lease_begin_break,   [RT_OP_CHECK] = rt_lease_begin_look,
    };
    assert((unsigned)op->kind < sizeof(begin) / sizeof(begin[0]));
    begin[op->kind](rt_lease_of(conn), op);
}

static void cancel(struct rt_conn *conn, struct rt_op *op)
{
    (void)rt_ledger_cancel(&rt_sql_of(conn)->ledger, op);
}

static uint32_t caps(const struct rt_conn *conn)
{
    const struct rt_lease_conn *c = (const struct rt_lease_conn *)(const void *)conn;
    bool strict = atomic_load_explicit(&c->sql.strict, memory_order_relaxed) &&
                  c->dialect->unsafe == NULL;
    return strict ? c->dialect->caps | ROTA_CAP_STRICT : c->dialect->caps;
}

static const char *ddl(const struct rt_conn *conn)
{
    return ((const struct rt_lease_conn *)(const void *)conn)->ddl;
}

static const char *const none[] = {NULL};

const struct rt_engine rt_engine_lease = {
    .schemes = none, /* by those of the engines postgres and mysql */
    .params = none,
    .conn_size = sizeof(struct rt_lease_conn),
    .open = NULL, /* by the table */
    .close = close_lease,
    .submit = submit,
    .cancel = cancel,
    .caps = caps,
    .trouble = rt_sql_trouble,
    .forked = rt_sql_forked,
    .ddl = ddl,
};
