/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: how they are opened, live by their deadlines, and end.
 *
 * Everything that tells the user something runs from the watch or from the timer, so from a turn.
 * The timer is lazy: it is moved forward only, and looks at the deadline when it fires. */
#include "net/stream.h"

#include "base/alloc.h"
#include "net/dial.h"
#include "net/wire.h"

#include <assert.h>
#include <errno.h>
#include <rota.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void rt_stream_alarm(struct rt_stream *s, int64_t at)
{
    if (s->timer.timer.slot == 0 || s->timer.timer.at > at)
        rt_timers_start(&s->loop->timers, &s->timer.timer, at);
}

/* ---- The end ---------------------------------------------------------------- */

void rt_stream_fail(struct rt_stream *s, int err, const char *why, ...)
{
    va_list args;

    if (s->err != 0)
        return;
    s->err = err;
    va_start(args, why);
    vsnprintf(s->why, sizeof(s->why), why, args);
    va_end(args);
    rt_stream_alarm(s, rt_loop_now(s->loop));
}

static void finish_close(struct rt_stream *s)
{
    void (*closed)(struct rt_stream *) = s->closed;

    rt_timers_stop(&s->loop->timers, &s->timer.timer);
    rt_loop_unreserve(s->loop, 1);
    rt_dial_free(s->dial);
    s->dial = NULL;
    s->state = RT_STREAM_IDLE;
    if (closed != NULL)
        closed(s); /* S may be gone */
}

static void watch_gone(struct rt_watch *w)
{
    struct rt_stream *s = rt_stream_of(w);

    s->watch_closing = false;
    if (s->state == RT_STREAM_CLOSING)
        finish_close(s);
    else if (s->state == RT_STREAM_CONNECTING)
        rt_connect_next(s, 0);
}

void rt_stream_drop_socket(struct rt_stream *s)
{
    int fd = s->fd;

    if (s->watch.open) {
        rt_watch_stop(&s->watch, watch_gone);
        s->watch_closing = true;
    }
    s->fd = -1; /* before: a child forked meanwhile must not close somebody else's */
    s->wants_write = false;
    if (fd >= 0)
        close(fd);
}

static void let_go(struct rt_stream *s)
{
    rt_loop_undefer(s->loop, &s->flush);
    rt_timers_stop(&s->loop->timers, &s->timer.timer);
    s->deadline = RT_NEVER;
    rt_stream_drop_socket(s);
    rt_lookup_drop(s->dial);
    rt_tls_end(s->tls);
    s->tls = NULL;
    rt_bytes_free(&s->plain);
    rt_bytes_free(&s->out);
    if (s->played) {
        s->played = false;
        s->loop->dialer->close(s->loop->dialer, s);
    }
}

void rt_stream_go_down(struct rt_stream *s)
{
    assert(s->err != 0);
    let_go(s);
    s->state = RT_STREAM_DOWN;
    if (s->user->down != NULL)
        s->user->down(s, s->err, s->why);
}

void rt_stream_close(struct rt_stream *s, void (*closed)(struct rt_stream *s))
{
    if (s->state == RT_STREAM_IDLE)
        return;
    assert(s->state != RT_STREAM_CLOSING);
    if (s->state != RT_STREAM_DOWN)
        let_go(s);
    s->state = RT_STREAM_CLOSING;
    s->closed = closed;
    if (!s->watch_closing)
        rt_stream_alarm(s, rt_loop_now(s->loop));
}

void rt_stream_forked(struct rt_stream *s)
{
    int fd = s->fd;

    if (s->state == RT_STREAM_IDLE || fd < 0)
        return;
    s->fd = -1;
    close(fd);
}

/* ---- What the user is told --------------------------------------------------- */

void rt_stream_go_up(struct rt_stream *s)
{
    s->state = RT_STREAM_UP;
    s->deadline = RT_NEVER;
    if (rt_bytes_waiting(&s->plain) > 0)
        rt_loop_defer(s->loop, &s->flush);
    if (s->user->up != NULL)
        s->user->up(s);
}

void rt_stream_deliver(struct rt_stream *s, const char *bytes, size_t n)
{
    s->deadline = RT_NEVER;
    if (s->user->data != NULL)
        s->user->data(s, bytes, n);
}

/* ---- Deadlines -------------------------------------------------------------- */

static void late(struct rt_stream *s, int64_t now)
{
    struct rt_dial *d = s->dial;

    if (s->state == RT_STREAM_CONNECTING && s->watch.open && now < d->until) {
        s->errnum = ETIMEDOUT;
        s->deadline = d->until;
        rt_stream_alarm(s, s->deadline);
        rt_stream_drop_socket(s);
        return;
    }
    const char *what = s->state == RT_STREAM_RESOLVING ? "was not found"
                       : s->state == RT_STREAM_GREETING
                           ? "did not finish the TLS handshake (does it speak TLS?)"
                           : "did not answer";
    rt_stream_fail(s, ROTA_UNREACHABLE, "%s %s within %u ms", d->peer, what,
                   s->state == RT_STREAM_UP ? s->expected_ms : d->connect_ms);
    rt_stream_go_down(s);
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_stream *s = (struct rt_stream *)((char *)call - offsetof(struct rt_stream, timer));

    if (s->state == RT_STREAM_CLOSING)
        finish_close(s);
    else if (s->err != 0)
        rt_stream_tell(s);
    else if (s->state == RT_STREAM_STARTING)
        rt_connect_start(s);
    else if (s->deadline <= now)
        late(s, now);
    else if (s->deadline != RT_NEVER)
        rt_stream_alarm(s, s->deadline);
}

/* ---- Opening ---------------------------------------------------------------- */

static int begin(struct rt_stream *s, const struct rt_stream_target *t)
{
    struct rt_dialer *dialer = s->loop->dialer;

    if (dialer == NULL) {
        s->state = RT_STREAM_STARTING;
        rt_stream_alarm(s, rt_loop_now(s->loop));
        return s->loop->virtual_time ? ROTA_INVALID : rt_loop_scratch(s->loop);
    }
    s->state = RT_STREAM_CONNECTING;
    s->played = true;
    int rv = dialer->open(dialer, s, t);
    if (rv == 0)
        rt_stream_alarm(s, s->deadline);
    return rv;
}

int rt_stream_open(struct rt_stream *s, struct rt_loop *loop, const struct rt_stream_target *t,
                   const struct rt_stream_user *user, uint32_t connect_ms)
{
    void *arg = s->arg;

    assert(s->state == RT_STREAM_IDLE);
    memset(s, 0, sizeof(*s));
    s->arg = arg;
    s->loop = loop;
    s->user = user;
    s->fd = -1;
    s->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
    s->flush.run = rt_stream_flush;
    int rv = rt_dial_new(&s->dial, t);
    if (rv != 0)
        return rv;
    s->dial->stream = s;
    s->dial->connect_ms = connect_ms;
    s->deadline = s->dial->until = rt_loop_now(loop) + connect_ms * RT_MS;
    rv = rt_loop_reserve(loop, 1);
    if (rv != 0)
        goto free_dial;
    rv = begin(s, t);
    if (rv == 0)
        return 0;
    rt_timers_stop(&loop->timers, &s->timer.timer);
    rt_loop_unreserve(loop, 1);
    s->state = RT_STREAM_IDLE;
free_dial:
    rt_dial_free(s->dial);
    s->dial = NULL;
    return rv;
}

/* ---- TLS, later --------------------------------------------------------------- */

int rt_stream_secure(struct rt_stream *s, struct rt_tls *tls, const char *server_name)
{
    struct rt_dial *d = s->dial;

    assert(tls != NULL);
    if (s->state != RT_STREAM_UP || s->tls != NULL || s->played)
        return ROTA_INVALID;
    if (s->err != 0)
        return ROTA_UNREACHABLE;
    if (server_name != NULL) {
        char *name = rt_strdup(server_name);
        if (name == NULL)
            return ROTA_NOMEM;
        rt_free(d->own_name);
        d->server_name = d->own_name = name;
    }
    d->tls = tls;
    s->state = RT_STREAM_GREETING;
    s->deadline = d->until = rt_loop_now(s->loop) + d->connect_ms * RT_MS;
    rt_stream_alarm(s, s->deadline);
    s->out = s->plain; /* what waits there goes first, as it is */
    s->plain = (struct rt_bytes){0};
    rt_tls_greet(s);
    rt_loop_defer(s->loop, &s->flush);
    return 0;
}

/* ---- Played by a simulator -------------------------------------------------- */

void rt_stream_feed_up(struct rt_stream *s)
{
    assert(s->played && s->state == RT_STREAM_CONNECTING);
    rt_stream_go_up(s);
}

void rt_stream_feed_data(struct rt_stream *s, const char *bytes, size_t n)
{
    assert(s->played && s->state == RT_STREAM_UP);
    if (s->err == 0)
        rt_stream_deliver(s, bytes, n);
}

void rt_stream_feed_down(struct rt_stream *s, int err, const char *why)
{
    assert(s->played);
    s->played = false;
    rt_stream_fail(s, err, "%s", why);
    rt_stream_go_down(s);
}
