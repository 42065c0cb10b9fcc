/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: connecting, one send per turn, reading, deadlines, and the end.
 *
 * Everything that tells the user something runs from the watch or from the timer, so from a turn.
 * The timer is lazy: it is moved forward only, and looks at the deadline when it fires. */
#include "net/stream.h"

#include "net/dial.h"
#include "net/wire.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <rota.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Reads in a row of a socket that has failed: more is told in the next turn. */
#define DRAIN_MOST 16

static void try_next(struct rt_stream *s, int errnum);
static void watch_ready(struct rt_watch *w, bool readable, bool writable);

static struct rt_stream *of_watch(struct rt_watch *w)
{
    return (struct rt_stream *)((char *)w - offsetof(struct rt_stream, watch));
}

static void alarm_at(struct rt_stream *s, int64_t at)
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
    alarm_at(s, rt_loop_now(s->loop));
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
    struct rt_stream *s = of_watch(w);

    s->watch_closing = false;
    if (s->state == RT_STREAM_CLOSING)
        finish_close(s);
    else if (s->state == RT_STREAM_CONNECTING)
        try_next(s, 0);
}

static void drop_socket(struct rt_stream *s)
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
    drop_socket(s);
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

static void go_down(struct rt_stream *s)
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
        alarm_at(s, rt_loop_now(s->loop));
}

void rt_stream_forked(struct rt_stream *s)
{
    int fd = s->fd;

    if (s->state == RT_STREAM_IDLE || fd < 0)
        return;
    s->fd = -1;
    close(fd);
}

/* ---- Up and running --------------------------------------------------------- */

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

static void want_write(struct rt_stream *s, bool wants)
{
    if (s->wants_write == wants)
        return;
    s->wants_write = wants;
    rt_watch_want(&s->watch, true, wants);
}

static void send_some(struct rt_stream *s)
{
    struct rt_bytes *b = s->tls != NULL ? &s->out : &s->plain;
    size_t waiting = rt_bytes_waiting(b);
    ssize_t sent = 0;

    if (waiting > 0) {
        do
            sent = send(s->fd, b->at + b->begin, waiting, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (sent < 0 && errno == EINTR);
    }
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        rt_stream_fail(s, ROTA_UNREACHABLE, "the connection to %s broke: %s", s->dial->peer,
                       strerror(errno));
        return;
    }
    if (sent > 0)
        rt_bytes_sent(b, (size_t)sent);
    want_write(s, rt_bytes_waiting(b) > 0);
}

/* Before the loop polls: no word to the user from here. */
static void flush(struct rt_defer *d)
{
    struct rt_stream *s = (struct rt_stream *)((char *)d - offsetof(struct rt_stream, flush));

    if (!rt_stream_lives(s))
        return;
    size_t waiting = rt_bytes_waiting(&s->plain);
    if (s->played) {
        if (waiting > 0)
            s->loop->dialer->write(s->loop->dialer, s, s->plain.at + s->plain.begin, waiting);
        rt_bytes_sent(&s->plain, waiting);
        return;
    }
    if (s->tls != NULL && s->state == RT_STREAM_UP && waiting > 0)
        rt_tls_encrypt(s);
    if (s->err == 0 && !s->wants_write)
        send_some(s);
}

int rt_stream_write(struct rt_stream *s, const void *bytes, size_t n)
{
    if (s->err != 0 || s->state == RT_STREAM_IDLE || s->state >= RT_STREAM_DOWN)
        return ROTA_UNREACHABLE;
    if (n == 0)
        return 0;
    if (rt_bytes_waiting(&s->plain) + rt_bytes_waiting(&s->out) + n > RT_STREAM_UNSENT_MAX) {
        rt_stream_fail(s, ROTA_UNREACHABLE, "%s does not read what it is sent: %u MiB wait",
                       s->dial->peer, RT_STREAM_UNSENT_MAX >> 20);
        return ROTA_UNREACHABLE;
    }
    int rv = rt_bytes_add(&s->plain, bytes, n);
    if (rv == 0 && s->state == RT_STREAM_UP)
        rt_loop_defer(s->loop, &s->flush);
    return rv;
}

void rt_stream_expect(struct rt_stream *s, uint32_t ms)
{
    if (s->state != RT_STREAM_UP || s->err != 0)
        return;
    s->deadline = ms == 0 ? RT_NEVER : rt_loop_now(s->loop) + ms * RT_MS;
    s->expected_ms = ms;
    if (ms != 0)
        alarm_at(s, s->deadline);
}

/* One recv; whether there may be more. */
static bool read_some(struct rt_stream *s)
{
    char *scratch = s->loop->scratch;
    ssize_t got;

    do
        got = recv(s->fd, scratch, RT_SCRATCH, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (got > 0) {
        if (s->tls != NULL)
            rt_tls_feed(s, scratch, (size_t)got);
        else
            rt_stream_deliver(s, scratch, (size_t)got);
        return true;
    }
    if (got < 0)
        rt_stream_fail(s, ROTA_UNREACHABLE, "the connection to %s broke: %s", s->dial->peer,
                       strerror(errno));
    else
        rt_stream_fail(s, ROTA_UNREACHABLE, "%s closed the connection%s", s->dial->peer,
                       s->state == RT_STREAM_GREETING ? rt_tls_cut(s) : "");
    return false;
}

static bool has_socket(const struct rt_stream *s)
{
    return s->fd >= 0 && (s->state == RT_STREAM_UP || s->state == RT_STREAM_GREETING);
}

/* What came before the end is worth hearing, also when sending has failed already. */
static void drain(struct rt_stream *s)
{
    for (int i = 0; i < DRAIN_MOST && has_socket(s) && read_some(s); i++)
        ;
}

/* Tells the end if there is one. */
static void tell(struct rt_stream *s)
{
    if (s->err == 0 || s->state >= RT_STREAM_DOWN)
        return;
    drain(s);
    if (s->state < RT_STREAM_DOWN)
        go_down(s);
}

static void ready(struct rt_stream *s, bool readable, bool writable)
{
    if (!writable) { /* the usual */
        if (readable)
            (void)read_some(s);
        tell(s);
        return;
    }
    drain(s); /* there is room, or it has failed, and then libuv has stopped the watch */
    if (rt_stream_lives(s)) {
        s->wants_write = false;
        rt_watch_want(&s->watch, true, false);
        send_some(s);
    }
    tell(s);
}

/* ---- Connecting ------------------------------------------------------------- */

static void connected(struct rt_stream *s)
{
    rt_watch_want(&s->watch, true, false);
    s->deadline = s->dial->until;
    if (s->dial->tls == NULL) {
        rt_stream_go_up(s);
        return;
    }
    s->state = RT_STREAM_GREETING;
    alarm_at(s, s->deadline);
    rt_tls_greet(s);
    rt_loop_defer(s->loop, &s->flush);
    tell(s);
}

static void watch_ready(struct rt_watch *w, bool readable, bool writable)
{
    struct rt_stream *s = of_watch(w);

    if (s->state != RT_STREAM_CONNECTING) {
        ready(s, readable, writable);
        return;
    }
    int err = rt_dial_outcome(s->fd);
    if (err == 0)
        connected(s);
    else {
        s->errnum = err;
        drop_socket(s); /* the next when the watch is free again */
    }
}

static bool watch_socket(struct rt_stream *s, int fd)
{
    s->fd = fd;
    if (rt_watch_start(s->loop, &s->watch, fd, watch_ready) == 0) {
        rt_watch_want(&s->watch, false, true);
        return true;
    }
    s->fd = -1;
    close(fd);
    return false;
}

/* ERRNUM: why the last one failed; 0: S knows. */
static void try_next(struct rt_stream *s, int errnum)
{
    struct rt_dial *d = s->dial;
    int64_t left = d->until - rt_loop_now(s->loop);

    if (errnum != 0)
        s->errnum = errnum;
    s->state = RT_STREAM_CONNECTING;
    while (d->next < d->count && left > 0) {
        int fd = rt_dial_socket(d);
        if (fd >= 0 && watch_socket(s, fd)) {
            s->deadline = rt_loop_now(s->loop) + left / (d->count - d->next + 1);
            alarm_at(s, s->deadline);
            return;
        }
        s->errnum = fd >= 0 ? ENOMEM : errno;
    }
    if (s->errnum == ETIMEDOUT || s->errnum == 0)
        rt_stream_fail(s, ROTA_UNREACHABLE, "%s did not answer within %u ms", d->peer,
                       d->connect_ms);
    else
        rt_stream_fail(s, ROTA_UNREACHABLE, "cannot connect to %s: %s", d->peer,
                       strerror(s->errnum));
    go_down(s);
}

static void looked_up(struct rt_dial *d, int gai, int errnum)
{
    struct rt_stream *s = d->stream;

    if (gai == 0) {
        try_next(s, 0);
        return;
    }
    const char *what = gai == EAI_SYSTEM ? strerror(errnum) : gai_strerror(gai);
    rt_stream_fail(s, gai == EAI_MEMORY ? ROTA_NOMEM : ROTA_UNREACHABLE,
                   "the name %s cannot be looked up: %s", d->host, what);
    go_down(s);
}

static void start(struct rt_stream *s)
{
    struct rt_dial *d = s->dial;

    alarm_at(s, s->deadline);
    if (d->count > 0) {
        try_next(s, 0);
        return;
    }
    s->state = RT_STREAM_RESOLVING;
    int rv = rt_lookup_start(d, s->loop, looked_up);
    if (rv == 0)
        return;
    rt_stream_fail(s, rv == ROTA_NOMEM ? rv : ROTA_UNREACHABLE,
                   "the name %s cannot be looked up: %s", d->host,
                   rv == ROTA_NOMEM ? "out of memory" : strerror(errno));
    go_down(s);
}

/* ---- Deadlines -------------------------------------------------------------- */

static void late(struct rt_stream *s, int64_t now)
{
    struct rt_dial *d = s->dial;

    if (s->state == RT_STREAM_CONNECTING && s->watch.open && now < d->until) {
        s->errnum = ETIMEDOUT;
        s->deadline = d->until;
        alarm_at(s, s->deadline);
        drop_socket(s);
        return;
    }
    const char *what = s->state == RT_STREAM_RESOLVING ? "was not found"
                       : s->state == RT_STREAM_GREETING
                           ? "did not finish the TLS handshake (does it speak TLS?)"
                           : "did not answer";
    rt_stream_fail(s, ROTA_UNREACHABLE, "%s %s within %u ms", d->peer, what,
                   s->state == RT_STREAM_UP ? s->expected_ms : d->connect_ms);
    go_down(s);
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_stream *s = (struct rt_stream *)((char *)call - offsetof(struct rt_stream, timer));

    if (s->state == RT_STREAM_CLOSING)
        finish_close(s);
    else if (s->err != 0)
        tell(s);
    else if (s->state == RT_STREAM_STARTING)
        start(s);
    else if (s->deadline <= now)
        late(s, now);
    else if (s->deadline != RT_NEVER)
        alarm_at(s, s->deadline);
}

/* ---- Opening ---------------------------------------------------------------- */

static int begin(struct rt_stream *s, const struct rt_stream_target *t)
{
    struct rt_dialer *dialer = s->loop->dialer;

    if (dialer == NULL) {
        s->state = RT_STREAM_STARTING;
        alarm_at(s, rt_loop_now(s->loop));
        return s->loop->virtual_time ? ROTA_INVALID : rt_loop_scratch(s->loop);
    }
    s->state = RT_STREAM_CONNECTING;
    s->played = true;
    int rv = dialer->open(dialer, s, t);
    if (rv == 0)
        alarm_at(s, s->deadline);
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
    s->flush.run = flush;
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
    go_down(s);
}
