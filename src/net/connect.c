/* SPDX-License-Identifier: Apache-2.0 */
/* How a stream comes up: its name looked up, its addresses tried one after the other, TLS begun. */
#include "net/dial.h"
#include "net/wire.h"

#include <errno.h>
#include <netdb.h>
#include <rota.h>
#include <string.h>
#include <unistd.h>

static void connected(struct rt_stream *s)
{
    rt_watch_want(&s->watch, true, false);
    s->deadline = s->dial->until;
    if (s->dial->tls == NULL) {
        rt_stream_go_up(s);
        return;
    }
    s->state = RT_STREAM_GREETING;
    rt_stream_alarm(s, s->deadline);
    rt_tls_greet(s);
    rt_loop_defer(s->loop, &s->flush);
    rt_stream_tell(s);
}

static void watch_ready(struct rt_watch *w, bool readable, bool writable)
{
    struct rt_stream *s = rt_stream_of(w);

    if (s->state != RT_STREAM_CONNECTING) {
        rt_stream_ready(s, readable, writable);
        return;
    }
    int err = rt_dial_outcome(s->fd);
    if (err == 0)
        connected(s);
    else {
        s->errnum = err;
        rt_stream_drop_socket(s); /* the next when the watch is free again */
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
void rt_connect_next(struct rt_stream *s, int errnum)
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
            rt_stream_alarm(s, s->deadline);
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
    rt_stream_go_down(s);
}

static void looked_up(struct rt_dial *d, int gai, int errnum)
{
    struct rt_stream *s = d->stream;

    if (gai == 0) {
        rt_connect_next(s, 0);
        return;
    }
    const char *what = gai == EAI_SYSTEM ? strerror(errnum) : gai_strerror(gai);
    rt_stream_fail(s, gai == EAI_MEMORY ? ROTA_NOMEM : ROTA_UNREACHABLE,
                   "the name %s cannot be looked up: %s", d->host, what);
    rt_stream_go_down(s);
}

void rt_connect_start(struct rt_stream *s)
{
    struct rt_dial *d = s->dial;

    rt_stream_alarm(s, s->deadline);
    if (d->count > 0) {
        rt_connect_next(s, 0);
        return;
    }
    s->state = RT_STREAM_RESOLVING;
    int rv = rt_lookup_start(d, s->loop, looked_up);
    if (rv == 0)
        return;
    rt_stream_fail(s, rv == ROTA_NOMEM ? rv : ROTA_UNREACHABLE,
                   "the name %s cannot be looked up: %s", d->host,
                   rv == ROTA_NOMEM ? "out of memory" : strerror(errno));
    rt_stream_go_down(s);
}
