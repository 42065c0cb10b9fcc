/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a stream: one send per turn, one recv when there is something. */
#include "net/dial.h"
#include "net/wire.h"

#include <errno.h>
#include <rota.h>
#include <string.h>
#include <sys/socket.h>

/* Reads in a row of a socket that has failed: more is told in the next turn. */
#define DRAIN_MOST 16

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
void rt_stream_flush(struct rt_defer *d)
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

void rt_stream_flush_now(struct rt_stream *s)
{
    if (!s->flush.waits)
        return;
    rt_loop_undefer(s->loop, &s->flush);
    s->flush.run(&s->flush);
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
        rt_stream_alarm(s, s->deadline);
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
    const char *when = s->state == RT_STREAM_GREETING ? rt_tls_cut(s) : "";
    if (got < 0)
        rt_stream_fail(s, ROTA_UNREACHABLE, "the connection to %s broke: %s%s", s->dial->peer,
                       strerror(errno), when);
    else
        rt_stream_fail(s, ROTA_UNREACHABLE, "%s closed the connection%s", s->dial->peer, when);
    return false;
}

static bool has_socket(const struct rt_stream *s)
{
    return s->fd >= 0 && (s->state == RT_STREAM_UP || s->state == RT_STREAM_GREETING);
}

/* What came before the end is worth hearing, even when sending has failed already. */
static void drain(struct rt_stream *s)
{
    for (int i = 0; i < DRAIN_MOST && has_socket(s) && read_some(s); i++)
        ;
}

/* Tells the end if there is one. */
void rt_stream_tell(struct rt_stream *s)
{
    if (s->err == 0 || s->state >= RT_STREAM_DOWN)
        return;
    drain(s);
    if (s->state < RT_STREAM_DOWN)
        rt_stream_go_down(s);
}

void rt_stream_ready(struct rt_stream *s, bool readable, bool writable)
{
    if (s->watch.stopped)
        drain(s); /* it has failed: what is there, and then why */
    else if (readable)
        (void)read_some(s);
    if (rt_stream_lives(s)) {
        if (s->watch.stopped)
            rt_watch_want(&s->watch, true, s->wants_write);
        if (writable && s->wants_write)
            send_some(s);
    }
    rt_stream_tell(s);
}
