/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a link: its socket watched, its timer, its end told; and the driver as a whole. */
#include "engine/postgres/postgres.h"

#include "base/alloc.h"
#include "engine/sql/dialect/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- The socket ------------------------------------------------------------------------------------ */

static void socket_closed(struct rt_watch *w)
{
    rt_free((struct rt_postgres_socket *)(void *)w);
}

static void drop_socket(struct rt_postgres_link *l)
{
    struct rt_postgres_socket *s = l->socket;

    l->socket = NULL;
    l->wants_write = false;
    l->fd = 0;
    if (s != NULL)
        rt_watch_stop(&s->watch, socket_closed);
}

static void ready(struct rt_watch *w, bool readable, bool writable)
{
    struct rt_postgres_link *l = ((struct rt_postgres_socket *)(void *)w)->link;
    uint32_t life = l->life;

    if (l->state == RT_POSTGRES_DIALING) {
        rt_postgres_poll(l);
        return;
    }
    if (writable && l->wants_write)
        rt_postgres_write(l);
    if (readable && l->life == life && l->state < RT_POSTGRES_ENDED)
        rt_postgres_read(l);
}

static bool new_socket(struct rt_postgres_link *l, int fd)
{
    struct rt_postgres_socket *s = rt_alloc(sizeof(*s));

    drop_socket(l);
    if (s == NULL)
        return false;
    s->link = l;
    if (fd < 0 || rt_watch_start(l->loop, &s->watch, fd, ready) != 0) {
        rt_free(s);
        return false;
    }
    l->socket = s;
    l->fd = fd;
    return true;
}

bool rt_postgres_watch(struct rt_postgres_link *l, bool readable, bool writable)
{
    int fd = rt_pq.PQsocket(l->pg);

    if ((l->socket == NULL || l->fd != fd) && !new_socket(l, fd)) {
        rt_postgres_fail(l, ROTA_NOMEM, "out of memory");
        return false;
    }
    rt_watch_want(&l->socket->watch, readable, writable);
    return true;
}

/* ---- The end --------------------------------------------------------------------------------------- */

void rt_postgres_alarm(struct rt_postgres_link *l, int64_t at)
{
    assert(l->reserved);
    rt_timers_at(&l->loop->timers, &l->timer.timer, at);
}

void rt_postgres_finish(struct rt_postgres_link *l)
{
    PGconn *pg = l->pg;

    drop_socket(l); /* first: its number may soon be somebody else's */
    l->pg = NULL;
    if (pg != NULL)
        rt_pq.PQfinish(pg);
}

static void let_go(struct rt_postgres_link *l)
{
    l->life++;
    rt_postgres_finish(l);
    rt_dial_free(l->dial);
    l->dial = NULL;
    rt_free(l->due);
    l->due = NULL;
    rt_free(l->arrays);
    l->arrays = NULL;
    l->arrays_room = 0;
    l->due_count = l->due_room = l->due_next = 0;
}

void rt_postgres_end(struct rt_postgres_link *l, int err)
{
    l->err = err;
    l->state = RT_POSTGRES_ENDED;
    if (l->socket != NULL)
        rt_watch_want(&l->socket->watch, false, false);
    rt_postgres_alarm(l, 0);
}

void rt_postgres_fail(struct rt_postgres_link *l, int err, const char *format, ...)
{
    va_list args;

    if (l->state == RT_POSTGRES_ENDED)
        return;
    va_start(args, format);
    vsnprintf(l->why, sizeof(l->why), format, args);
    va_end(args);
    rt_postgres_end(l, err);
}

static void tell_end(struct rt_postgres_link *l)
{
    char why[RT_POSTGRES_WHY + RT_DIAL_AT + 32];
    bool flying = l->flying;

    let_go(l);
    uint32_t life = l->life;
    l->flying = false;
    l->state = RT_POSTGRES_IDLE;
    snprintf(why, sizeof(why), "PostgreSQL at %s: %s", l->end->at, l->why);
    if (flying)
        l->base.user->landed(&l->base, RT_SQL_CUT, 0, why);
    if (l->life == life && l->state == RT_POSTGRES_IDLE)
        l->base.user->down(&l->base, l->err, why);
}

void rt_postgres_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_postgres_link *l =
        (struct rt_postgres_link *)(void *)((char *)call -
                                            offsetof(struct rt_postgres_link, timer));

    (void)now;
    if (l->state == RT_POSTGRES_ENDED)
        tell_end(l);
    else if (l->state == RT_POSTGRES_GREETING)
        rt_postgres_fail(l, ROTA_UNREACHABLE, "did not answer within %u ms", l->connect_ms);
    else if (l->state == RT_POSTGRES_UP)
        rt_postgres_read(l);
    else if (l->state == RT_POSTGRES_LOOKING || l->state == RT_POSTGRES_DIALING)
        rt_postgres_too_late(l);
}

static void gone(struct rt_parting *p)
{
    struct rt_postgres_link *l =
        (struct rt_postgres_link *)(void *)((char *)p - offsetof(struct rt_postgres_link, parting));

    l->state = RT_POSTGRES_IDLE;
    if (l->closed != NULL)
        l->closed(&l->base);
}

static void drop(struct rt_sql_link *base, void (*closed)(struct rt_sql_link *l))
{
    struct rt_postgres_link *l = rt_postgres_of(base);

    assert(l->state != RT_POSTGRES_CLOSING);
    let_go(l);
    l->loop = base->base->loop;
    if (l->reserved) {
        rt_postgres_alarm(l, RT_NEVER);
        rt_loop_unreserve(l->loop, 1);
    }
    l->reserved = l->flying = false;
    l->closed = closed;
    l->state = RT_POSTGRES_CLOSING;
    rt_loop_part(l->loop, &l->parting, gone);
}

static void forked(struct rt_sql_link *base)
{
    struct rt_postgres_link *l = rt_postgres_of(base);
    int fd = l->fd;

    l->fd = 0;
    l->pg = NULL; /* its memory stays: freeing it would say goodbye for our parent */
    if (fd > 0)
        close(fd);
}

/* ---- The driver and the engine ------------------------------------------------------------------------------------- */

static const char *const schemes[] = {"postgres", "postgresql", NULL};

const struct rt_sql_driver rt_postgres_driver = {
    .name = "PostgreSQL",
    .tongue = RT_SQL_POSTGRES,
    .schemes = schemes,
    .params = rt_postgres_params,
    .port = 5432,
    .link_size = sizeof(struct rt_postgres_link),
    .notifies = true,
    .lanes = 1,
    .ddl = rt_postgres_sql_ddl,
    .open = rt_postgres_open,
    .close = rt_postgres_close,
    .dial = rt_postgres_dial,
    .send = rt_postgres_send,
    .drop = drop,
    .forked = forked,
};

static int open_engine(struct rt_conn *conn, const struct rt_url *url)
{
    return rt_sql_open(conn, url, &rt_postgres_driver);
}

const struct rt_engine rt_engine_postgres = RT_SQL_ENGINE(open_engine, schemes, rt_postgres_params);
