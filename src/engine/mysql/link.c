/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to MariaDB or MySQL: dialed, up, down, dropped. */
#include "engine/mysql/mysql.h"

#include "engine/sql/dialect/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct rt_mysql_link *of_stream(struct rt_stream *s)
{
    return (struct rt_mysql_link *)(void *)((char *)s - offsetof(struct rt_mysql_link, stream));
}

/* ---- Saying ---------------------------------------------------------------------------------------------------- */

static void open_packet(struct rt_mysql_link *l)
{
    l->head = l->out.size;
    rt_mysql_add_int(&l->out, 0, 4);
}

static void close_packet(struct rt_mysql_link *l)
{
    struct rt_mysql_bytes *b = &l->out;
    size_t size = b->size - l->head - 4;
    b->failed = b->failed || size >= RT_MYSQL_PACKET_MAX;
    for (size_t i = 0; i < 3 && !b->failed; i++)
        b->at[l->head + i] = (uint8_t)(size >> 8 * i);
    if (!b->failed)
        b->at[l->head + 3] = l->seq++;
}

void rt_mysql_begin(struct rt_mysql_link *l)
{
    l->out.size = 0;
    l->out.failed = false;
    open_packet(l);
}

void rt_mysql_command(struct rt_mysql_link *l, uint8_t command)
{
    l->seq = 0;
    rt_mysql_begin(l);
    rt_mysql_add_int(&l->out, command, 1);
}

void rt_mysql_next(struct rt_mysql_link *l, uint8_t command)
{
    close_packet(l);
    l->seq = 0;
    open_packet(l);
    rt_mysql_add_int(&l->out, command, 1);
}

int rt_mysql_send(struct rt_mysql_link *l)
{
    close_packet(l);
    if (l->out.failed)
        return ROTA_NOMEM;
    int rv = rt_stream_write(&l->stream, l->out.at, l->out.size);
    return rv == ROTA_NOMEM ? rv : 0; /* going down: told by `down` */
}

/* ---- Its end --------------------------------------------------------------------------------------------------- */

/* In the up-calls the user may drop the link. */
static void end(struct rt_mysql_link *l, int err, const char *why)
{
    if (l->state == RT_MYSQL_IDLE || l->state == RT_MYSQL_DOWN)
        return;
    if (l->state == RT_MYSQL_UNDOING)
        rt_mysql_undone(l);
    bool flies = rt_mysql_flies(l);
    if (l->state == RT_MYSQL_IDLE)
        return;
    l->state = RT_MYSQL_DOWN;
    if (flies)
        l->base.user->landed(&l->base, RT_SQL_CUT, 0, why);
    if (l->state == RT_MYSQL_DOWN)
        l->base.user->down(&l->base, err, why);
}

void rt_mysql_fail(struct rt_mysql_link *l, int err, const char *format, ...)
{
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    end(l, err, why);
}

void rt_mysql_fail_memory(struct rt_mysql_link *l)
{
    rt_mysql_fail(l, ROTA_NOMEM, "out of memory");
}

void rt_mysql_fail_nonsense(struct rt_mysql_link *l)
{
    if (l->state < RT_MYSQL_READY)
        rt_mysql_fail(l, ROTA_PROTOCOL, "%s does not speak as MariaDB or MySQL do: is that one?",
                      l->at);
    else
        rt_mysql_fail(l, ROTA_PROTOCOL, "%s answered something else than it was asked", l->at);
}

/* ---- Hearing --------------------------------------------------------------------------------------------------- */

/* Nobody asked: the server says that it ends the connection, or something is wrong. */
static void unasked(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    struct rt_mysql_error e;
    if (c.at == c.end || c.at[0] != 0xff) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    rt_mysql_error(c, &e);
    rt_mysql_fail(l, ROTA_UNREACHABLE, "%s: %s", l->at, e.text);
}

static void dispatch(struct rt_mysql_link *l, struct rt_mysql_cursor c, uint8_t seq)
{
    bool in_place = seq == l->seq;
    l->seq = (uint8_t)(seq + 1);
    if (l->state == RT_MYSQL_READY)
        unasked(l, c);
    else if (!in_place &&
             !(c.at < c.end && c.at[0] == 0xff)) /* errors at the end may have any number */
        rt_mysql_fail_nonsense(l);
    else if (l->state < RT_MYSQL_READY)
        rt_mysql_greet(l, c);
    else
        rt_mysql_hear(l, c);
}

static bool hears(const struct rt_mysql_link *l)
{
    return l->state > RT_MYSQL_DIALING && l->state < RT_MYSQL_DOWN && l->state != RT_MYSQL_SECURING;
}

/* The greeting as a whole has connect_ms, however slowly its bytes drip in. */
static void watch_greeting(struct rt_mysql_link *l)
{
    int64_t left = l->deadline - rt_loop_now(l->stream.loop);
    if (l->state > RT_MYSQL_DIALING && l->state < RT_MYSQL_READY && l->state != RT_MYSQL_SECURING)
        rt_stream_expect(&l->stream, left > RT_MS ? (uint32_t)(left / RT_MS) : 1);
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct rt_mysql_link *l = of_stream(s);
    struct rt_mysql_cursor c;
    size_t at = 0, took;
    uint8_t seq;
    if (!hears(l))
        return;
    rt_mysql_add(&l->in, bytes, n);
    if (l->in.failed) {
        rt_mysql_fail_memory(l);
        return;
    }
    while (hears(l) && (took = rt_mysql_packet(l->in.at + at, l->in.size - at, &c, &seq)) > 0) {
        if (took == SIZE_MAX) {
            rt_mysql_fail_nonsense(l);
            return;
        }
        at += took;
        dispatch(l, c, seq);
    }
    if (l->state == RT_MYSQL_SECURING && at < l->in.size) { /* sent before TLS, by anybody */
        rt_mysql_fail_nonsense(l);
        return;
    }
    memmove(l->in.at, l->in.at + at, l->in.size - at);
    l->in.size -= at;
    watch_greeting(l);
}

/* ---- Up and down ------------------------------------------------------------------------------------------------- */

static void on_up(struct rt_stream *s)
{
    struct rt_mysql_link *l = of_stream(s);
    if (l->state == RT_MYSQL_SECURING)
        rt_mysql_secured(l);
    else if (l->state == RT_MYSQL_DIALING)
        l->state = RT_MYSQL_HELLO;
    watch_greeting(l);
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    end(of_stream(s), err, why);
}

static const struct rt_stream_user stream_user = {on_up, on_data, on_down};

static int dial(struct rt_sql_link *base, const struct rt_dial_end *end, uint32_t connect_ms)
{
    struct rt_mysql_link *l = rt_mysql_of(base);
    struct rt_loop *loop = base->base->loop;
    struct rt_stream_target t = {.port = end->port};
    assert(l->state == RT_MYSQL_IDLE);
    *(end->host[0] == '/' ? &t.unix_path : &t.host) = end->host;
    l->at = end->at;
    l->deadline = rt_loop_now(loop) + connect_ms * RT_MS;
    int rv = rt_stream_open(&l->stream, loop, &t, &stream_user, connect_ms);
    if (rv == 0)
        l->state = RT_MYSQL_DIALING;
    return rv;
}

static void on_closed(struct rt_stream *s)
{
    struct rt_mysql_link *l = of_stream(s);
    rt_mysql_bytes_free(&l->in);
    rt_mysql_bytes_free(&l->out);
    rt_mysql_flight_free(l);
    if (l->closed != NULL)
        l->closed(&l->base);
}

static void drop(struct rt_sql_link *base, void (*closed)(struct rt_sql_link *l))
{
    struct rt_mysql_link *l = rt_mysql_of(base);
    assert(l->stream.state != RT_STREAM_IDLE && l->stream.state != RT_STREAM_CLOSING);
    l->state = RT_MYSQL_IDLE;
    l->closed = closed;
    rt_stream_close(&l->stream, on_closed);
}

static void forked(struct rt_sql_link *l)
{
    rt_stream_forked(&rt_mysql_of(l)->stream);
}

/* ---- The driver -------------------------------------------------------------------------------------------------- */

static const char *const schemes[] = {"mysql",    "mysqls",       "mysql+unix", "mariadb",
                                      "mariadbs", "mariadb+unix", NULL};
static const char *const params[] = {"database", "user",   "waits",  "dialect",
                                     "table",    "column", "tables", NULL};

const struct rt_sql_driver rt_mysql_driver = {.name = "MariaDB",
                                              .tongue = RT_SQL_MYSQL,
                                              .schemes = schemes,
                                              .params = params,
                                              .port = 3306,
                                              .link_size = sizeof(struct rt_mysql_link),
                                              .bells = true,
                                              .lanes = 2,
                                              .ddl = rt_mysql_sql_ddl,
                                              .open = rt_mysql_open,
                                              .close = rt_mysql_close,
                                              .dial = dial,
                                              .send = rt_mysql_fly,
                                              .drop = drop,
                                              .forked = forked};

static int open_engine(struct rt_conn *conn, const struct rt_url *url)
{
    return rt_sql_open(conn, url, &rt_mysql_driver);
}

extern const struct rt_engine rt_engine_mysql;
const struct rt_engine rt_engine_mysql = RT_SQL_ENGINE(open_engine, schemes, params);
