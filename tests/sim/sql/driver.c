/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a model SQL server: drivers like PostgreSQL's and MariaDB's, over a stream of
 * the simulator's network. */
#include "sim/sql/driver.h"

#include "base/alloc.h"
#include "engine/sql/dialect/table.h"
#include "net/stream.h"
#include "sim/sql/wire.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct link {
    struct rt_sql_link base; /* first */
    struct rt_stream stream;
    void (*closed)(struct rt_sql_link *l);
    bool flying, dropped;
};

static struct link *link_of(struct rt_sql_link *l)
{
    return (struct link *)(void *)l;
}

static struct link *of_stream(struct rt_stream *s)
{
    return s->arg;
}

/* ---- What comes --------------------------------------------------------------------------------------------------- */

static void on_up(struct rt_stream *s)
{
    struct link *l = of_stream(s);
    l->base.user->up(&l->base);
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct link *l = of_stream(s);
    bool flying = l->flying;
    l->flying = false;
    if (flying)
        l->base.user->landed(&l->base, RT_SQL_CUT, 0, why);
    if (!l->dropped)
        l->base.user->down(&l->base, err, why);
}

static void take_row(struct link *l, struct ss_reader *r)
{
    struct rt_sql_cell cells[RT_SQL_ARGS];
    size_t step = (size_t)ss_get_number(r), count = ss_get_cells(r, cells, RT_SQL_ARGS);
    l->base.user->row(&l->base, step, cells, count);
}

static void copy(char *out, size_t size, struct ss_reader *r)
{
    size_t n;
    const char *text = ss_get_text(r, &n);
    snprintf(out, size, "%.*s", (int)n, text);
}

static void take_end(struct link *l, struct ss_reader *r)
{
    char why[128];
    enum rt_sql_end end = (enum rt_sql_end)ss_get_number(r);
    size_t step = (size_t)ss_get_number(r);
    copy(why, sizeof(why), r);
    assert(l->flying);
    l->flying = false;
    l->base.user->landed(&l->base, end, step, why);
}

static void take_notice(struct link *l, struct ss_reader *r)
{
    char channel[64], text[512];
    copy(channel, sizeof(channel), r);
    copy(text, sizeof(text), r);
    l->base.user->notice(&l->base, channel, text);
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct link *l = of_stream(s);
    struct ss_reader r = {bytes, bytes + n};
    while (r.at < r.end && !l->dropped) {
        switch ((enum ss_word)ss_get_number(&r)) {
        case SS_ROW:
            take_row(l, &r);
            break;
        case SS_CHANGED: {
            size_t step = (size_t)ss_get_number(&r);
            l->base.user->changed(&l->base, step, (uint64_t)ss_get_number(&r));
            break;
        }
        case SS_END:
            take_end(l, &r);
            break;
        case SS_NOTICE:
            take_notice(l, &r);
            break;
        }
    }
}

static const struct rt_stream_user stream_user = {.up = on_up, .data = on_data, .down = on_down};

/* ---- What goes ---------------------------------------------------------------------------------------------------- */

static int driver_open(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                       void **self)
{
    (void)conn, (void)url, (void)ring;
    *self = NULL;
    return 0;
}

static void driver_close(void *self)
{
    (void)self;
}

static int driver_dial(struct rt_sql_link *base, const struct rt_dial_end *end, uint32_t connect_ms)
{
    struct link *l = link_of(base);
    struct rt_stream_target t = {.host = end->host, .port = end->port};
    l->stream.arg = l;
    return rt_stream_open(&l->stream, base->base->loop, &t, &stream_user, connect_ms);
}

static int driver_send(struct rt_sql_link *base, const struct rt_sql_flight *f)
{
    struct link *l = link_of(base);
    struct ss_bytes b = {.realloc = rt_realloc};
    assert(!l->flying && !l->dropped);
    ss_put_flight(&b, f);
    int rv = b.failed ? ROTA_NOMEM : rt_stream_write(&l->stream, b.at, b.n);
    rt_free(b.at);
    l->flying = rv != ROTA_NOMEM; /* about to be down: then it says so */
    return rv == ROTA_NOMEM ? rv : 0;
}

static void on_closed(struct rt_stream *s)
{
    struct link *l = of_stream(s);
    if (l->closed != NULL)
        l->closed(&l->base);
}

static void driver_drop(struct rt_sql_link *base, void (*closed)(struct rt_sql_link *l))
{
    struct link *l = link_of(base);
    assert(!l->dropped);
    l->dropped = true;
    l->closed = closed;
    rt_stream_close(&l->stream, on_closed);
}

static void driver_forked(struct rt_sql_link *base)
{
    rt_stream_forked(&link_of(base)->stream);
}

/* ---- Engines ------------------------------------------------------------------------------------------------------ */

static const char *const postgres_schemes[] = {"postgres", NULL}, *const mysql_schemes[] = {"mysql",
                                                                                            NULL};
static const char *const none[] = {NULL};

#define DRIVER(its_name, its_schemes, tells, its_lanes)                                         \
    {                                                                                           \
        .name = (its_name), .schemes = (its_schemes), .params = none, .port = 5432,             \
        .link_size = sizeof(struct link), .bells = !(tells), .notifies = (tells),               \
        .lanes = (its_lanes), .ddl = "", .open = driver_open, .close = driver_close,            \
        .dial = driver_dial, .send = driver_send, .drop = driver_drop, .forked = driver_forked, \
    }

static const struct rt_sql_driver postgres = DRIVER("a model of PostgreSQL", postgres_schemes, true,
                                                    1);
static const struct rt_sql_driver mysql = DRIVER("a model of MariaDB", mysql_schemes, false, 2);

static int open_postgres(struct rt_conn *conn, const struct rt_url *url)
{
    return rt_sql_open(conn, url, &postgres);
}

static int open_mysql(struct rt_conn *conn, const struct rt_url *url)
{
    return rt_sql_open(conn, url, &mysql);
}

const struct rt_engine ss_engine_postgres = RT_SQL_ENGINE(open_postgres, postgres_schemes, none);
const struct rt_engine ss_engine_mysql = RT_SQL_ENGINE(open_mysql, mysql_schemes, none);
