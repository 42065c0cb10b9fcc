/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: which endpoint, dialed, watched for silence, cut, and the next one. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STEADY_MS 5000 /* a connection that lasted so long was a good one */

const char *rt_etcd_at(const struct rt_etcd_conn *c)
{
    return c->ring.ends[c->ring.now].at;
}

bool rt_etcd_usable(const struct rt_etcd_conn *c)
{
    return c->state == RT_DIAL_READY && !c->link->sick && !c->link->broken;
}

/* ---- What the codec writes -------------------------------------------------------------------- */

static int codec_writes(void *arg, const void *bytes, size_t n)
{
    struct rt_etcd_link *l = arg;
    return rt_stream_write(&l->stream, bytes, n);
}

static void codec_leaves(void *arg)
{
    struct rt_etcd_link *l = arg;
    if (l->conn == NULL)
        return;
    l->leaving = true;
    rt_etcd_sicken(l->conn, "%.200s goes away", rt_etcd_at(l->conn));
}

static const struct rt_grpc_user codec_user = {codec_writes, codec_leaves, rt_etcd_judge};

/* ---- The end of a connection -------------------------------------------------------------------- */

static void on_closed(struct rt_stream *s)
{
    rt_free(s); /* the link begins with it */
}

static void next_end(struct rt_etcd_conn *c, bool planned)
{
    (void)rt_dial_next(&c->ring);
    c->pause.until = rt_loop_now(c->base->loop);
    c->failures++;
    if (!planned && c->failures % c->ring.count == 0) /* else the others may be well */
        rt_dial_later(&c->pause, c->base, &c->jitter);
}

/* Told once per endpoint, not each time that it fails in the same way. What a server said is the better
 * reason: that others cannot be dialed replaces it only when none can. */
static void note_trouble(struct rt_etcd_conn *c, const char *why, bool dialed)
{
    char *said = c->ring.ends[c->ring.now].said;
    if (strcmp(why, said) != 0)
        rt_etcd_log(c, ROTA_LOG_WARN, "etcd: %s", why);
    snprintf(said, sizeof(c->ring.ends->said), "%s", why);
    c->unheard = dialed ? 0 : c->unheard + 1;
    if (dialed || c->unheard >= c->ring.count || c->trouble[0] == '\0')
        snprintf(c->trouble, sizeof(c->trouble), "%s", why);
}

/* Only the connection itself; true: it was ready. */
static bool drop_link(struct rt_etcd_conn *c)
{
    struct rt_etcd_link *l = c->link;
    bool was_ready = c->state == RT_DIAL_READY;
    c->state = RT_DIAL_DOWN;
    c->link = NULL;
    rt_timers_stop(&c->base->loop->timers, &c->link_timer.timer);
    if (l == NULL)
        return was_ready;
    if (was_ready && rt_loop_now(c->base->loop) - l->ready_at > STEADY_MS * RT_MS)
        c->failures = c->pause.ms = 0;
    l->conn = NULL;
    rt_grpc_close(l->grpc);
    l->grpc = NULL;
    rt_stream_close(&l->stream, on_closed);
    return was_ready;
}

static void let_go(struct rt_etcd_conn *c, const char *text)
{
    bool planned = c->link != NULL && c->link->leaving;
    bool dialed = c->state != RT_DIAL_DIALING;
    bool was_ready = drop_link(c);
    note_trouble(c, text, dialed);
    next_end(c, planned);
    rt_etcd_auth_lost(c);
    if (was_ready && c->on->lost != NULL)
        c->on->lost(c);
    rt_ledger_lost(&c->ledger, NULL, text);
    rt_etcd_lease_lost(c);
    rt_etcd_watch_lost(c);
}

/* What FORMAT and what follows it say, in TEXT, an array. */
#define PRINT(text, format)                                \
    do {                                                   \
        va_list args;                                      \
        va_start(args, format);                            \
        (void)vsnprintf(text, sizeof(text), format, args); \
        va_end(args);                                      \
    } while (0)

void rt_etcd_cut(struct rt_etcd_conn *c, const char *format, ...)
{
    char text[sizeof(c->trouble)];
    PRINT(text, format);
    let_go(c, text);
    rt_etcd_want(c);
}

void rt_etcd_fatal(struct rt_etcd_conn *c, int err, const char *format, ...)
{
    char text[sizeof(c->trouble)];
    PRINT(text, format);
    let_go(c, text);
    c->refusals = 0;
    c->pause.ms = RT_DIAL_PAUSE_LAST_MS;
    c->pause.until = rt_loop_now(c->base->loop) + RT_DIAL_PAUSE_LAST_MS * RT_MS;
    rt_ledger_refuse(&c->ledger, err, text);
    rt_etcd_lease_refuse(c, text);
    if (c->on->failed != NULL)
        c->on->failed(c, err, text);
}

void rt_etcd_sicken(struct rt_etcd_conn *c, const char *format, ...)
{
    struct rt_etcd_link *l = c->link;
    int64_t now = rt_loop_now(c->base->loop);
    char why[sizeof(c->trouble)];
    if (l == NULL || l->sick)
        return;
    PRINT(why, format);
    l->sick = true;
    l->drain_until = now + rt_dial_patience(c->base);
    note_trouble(c, why, true);
    /* From a turn of its own: who found out may be in the midst of something. */
    rt_timers_start(&c->base->loop->timers, &c->link_timer.timer, now);
}

/* What is no etcd, or not the one that its certificate should be of: for good if all are so. */
static void refused(struct rt_etcd_conn *c, int err, const char *why)
{
    if (++c->refusals >= c->ring.count)
        rt_etcd_fatal(c, err, "%s", why);
    else
        rt_etcd_cut(c, "%s", why);
}

/* ---- Hearing ---------------------------------------------------------------------------------------- */

static struct rt_etcd_link *of_stream(struct rt_stream *s)
{
    return (struct rt_etcd_link *)(void *)s;
}

static void codec_failed(struct rt_etcd_conn *c, int err)
{
    const char *said = rt_grpc_why(c->link->grpc);
    bool odd = err == ROTA_PROTOCOL && c->state == RT_DIAL_GREETING;
    bool tls = strstr(said, "speaks TLS") != NULL;
    char why[sizeof(c->trouble)];
    snprintf(why, sizeof(why), "%.120s: %.100s%s", rt_etcd_at(c), said,
             tls   ? ": write etcds://"
             : odd ? ": is that an etcd?"
                   : "");
    if (odd)
        refused(c, err, why);
    else
        rt_etcd_cut(c, "%s", why);
}

static bool drained(const struct rt_etcd_conn *c)
{
    return c->link->sick && RT_RING_EMPTY(&c->ledger.flying);
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct rt_etcd_link *l = of_stream(s);
    l->heard_at = rt_loop_now(l->conn->base->loop);
    l->heard = true;
    l->pinged = false;
    int rv = rt_grpc_feed(l->grpc, bytes, n);
    struct rt_etcd_conn *c = l->conn; /* NULL: it was cut from inside */
    if (rv == ROTA_CLOSED || c == NULL)
        return;
    if (rv != 0)
        codec_failed(c, rv);
    else if (drained(c))
        rt_etcd_cut(c, "%s", c->trouble);
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct rt_etcd_link *l = of_stream(s);
    struct rt_etcd_conn *c = l->conn;
    bool hint = c->state == RT_DIAL_GREETING && !c->secure && !l->heard; /* etcd does just that */
    char text[sizeof(c->trouble)];
    snprintf(text, sizeof(text), "%.200s%s", why, hint ? ": if it speaks TLS, write etcds://" : "");
    if (c->state != RT_DIAL_READY && (err == ROTA_AUTH || err == ROTA_PROTOCOL))
        refused(c, err, text);
    else
        rt_etcd_cut(c, "%s", text);
}

/* ---- Up --------------------------------------------------------------------------------------------- */

static void on_up(struct rt_stream *s)
{
    struct rt_etcd_link *l = of_stream(s);
    struct rt_etcd_conn *c = l->conn;
    int64_t now = rt_loop_now(c->base->loop);
    if (rt_grpc_open(&l->grpc, rt_etcd_at(c), c->secure, &codec_user, l) != 0) {
        rt_etcd_cut(c, "out of memory");
        return;
    }
    c->state = RT_DIAL_GREETING;
    l->heard_at = l->progress_at = now;
    rt_timers_start(&c->base->loop->timers, &c->link_timer.timer,
                    now + rt_dial_connect_ms(c->base, c->ring.count) * RT_MS);
    rt_etcd_greet(c);
}

void rt_etcd_greeted(struct rt_etcd_conn *c)
{
    struct rt_etcd_link *l = c->link;
    c->state = RT_DIAL_READY;
    c->refusals = 0;
    c->ring.ends[c->ring.now].said[0] = '\0';
    l->ready_at = l->progress_at = rt_loop_now(c->base->loop);
    rt_timers_stop(&c->base->loop->timers, &c->link_timer.timer);
    rt_etcd_log(c, ROTA_LOG_INFO, "etcd: connected to %s (etcd %s)", rt_etcd_at(c),
                c->facts.known ? c->facts.version : "of an unknown version");
    if (c->on->linked != NULL)
        c->on->linked(c);
    if (!rt_etcd_usable(c))
        return;
    rt_etcd_lease_linked(c);
    rt_etcd_watch_linked(c);
    rt_ledger_flush(&c->ledger);
}

static const struct rt_stream_user stream_user = {on_up, on_data, on_down};

static void dial(struct rt_etcd_conn *c)
{
    const struct rt_dial_end *end = &c->ring.ends[c->ring.now];
    struct rt_stream_target target = {
        .host = end->host, .port = end->port, .tls = c->tls, .alpn = "h2"};
    struct rt_etcd_link *l = rt_alloc(sizeof(*l));
    int rv = ROTA_NOMEM;
    if (l != NULL) {
        l->conn = c;
        rv = rt_stream_open(&l->stream, c->base->loop, &target, &stream_user,
                            rt_dial_connect_ms(c->base, c->ring.count));
    }
    if (rv == 0) {
        c->link = l;
        c->state = RT_DIAL_DIALING;
        return;
    }
    rt_free(l);
    snprintf(c->trouble, sizeof(c->trouble), "%.180s cannot be dialed: %s", end->at,
             rota_strerror(rv));
    next_end(c, false);
    if (c->pause.until == rt_loop_now(c->base->loop))
        c->pause.until += RT_DIAL_PAUSE_FIRST_MS * RT_MS;
    rt_timers_start(&c->base->loop->timers, &c->link_timer.timer, c->pause.until);
}

void rt_etcd_want(struct rt_etcd_conn *c)
{
    if (c->state != RT_DIAL_DOWN || c->closing || c->link_timer.timer.slot != 0)
        return;
    if (c->pause.until <= rt_loop_now(c->base->loop))
        dial(c);
    else
        rt_timers_start(&c->base->loop->timers, &c->link_timer.timer, c->pause.until);
}

/* ---- Life --------------------------------------------------------------------------------------------- */

static void link_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_etcd_conn *c =
        (struct rt_etcd_conn *)(void *)((char *)call - offsetof(struct rt_etcd_conn, link_timer));
    if (c->state == RT_DIAL_DOWN) {
        rt_etcd_want(c);
    } else if (c->link->broken) {
        codec_failed(c, rt_grpc_err(c->link->grpc));
    } else if (c->link->sick && (drained(c) || now >= c->link->drain_until)) {
        rt_etcd_cut(c, "%s", c->trouble);
    } else if (c->link->sick) {
        rt_timers_start(&c->base->loop->timers, &c->link_timer.timer, c->link->drain_until);
    } else if (c->state == RT_DIAL_READY) {
        rt_etcd_look_for_silence(c, now);
    } else {
        rt_etcd_cut(c, "%.180s is connected, but does not answer", rt_etcd_at(c));
    }
}

void rt_etcd_link_init(struct rt_etcd_conn *c)
{
    c->link_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = link_fire};
}

void rt_etcd_link_close(struct rt_etcd_conn *c)
{
    struct rt_etcd_link *l = c->link;
    if (c->state == RT_DIAL_READY)
        rt_stream_flush_now(&l->stream); /* there may be no other turn */
    (void)drop_link(c);
}
