/* SPDX-License-Identifier: Apache-2.0 */
/* What is etcd's own in a connection: its codec, an endpoint that falls sick, the end. */
#include "engine/etcd/link.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct rt_etcd_wire *of(struct rt_wire *w)
{
    return (struct rt_etcd_wire *)(void *)w;
}

bool rt_etcd_usable(const struct rt_etcd_conn *c)
{
    return c->link.state == RT_DIAL_READY && !rt_etcd_wire(c)->sick && !rt_etcd_wire(c)->broken;
}

void rt_etcd_want(struct rt_etcd_conn *c)
{
    rt_link_want(&c->link);
}

/* ---- What the codec writes -------------------------------------------------------------------- */

static int codec_writes(void *arg, const void *bytes, size_t n)
{
    struct rt_etcd_wire *l = arg;
    return rt_stream_write(&l->wire.stream, bytes, n);
}

static void codec_leaves(void *arg)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    if (c == NULL)
        return;
    l->wire.leaving = true;
    rt_etcd_sicken(c, "%.200s goes away", rt_etcd_at(c));
}

static const struct rt_grpc_user codec_user = {codec_writes, codec_leaves, rt_etcd_judge};

/* ---- The end of a connection -------------------------------------------------------------------- */

static void on_dropped(struct rt_wire *w)
{
    rt_grpc_close(of(w)->grpc);
    of(w)->grpc = NULL;
}

static void on_lost(struct rt_link *k, bool was_ready, const char *why)
{
    struct rt_etcd_conn *c = rt_etcd_of_link(k);
    rt_etcd_auth_lost(c);
    if (was_ready && c->on->lost != NULL)
        c->on->lost(c);
    rt_ledger_lost(&k->ledger, NULL, why);
    rt_etcd_lease_lost(c);
    rt_etcd_watch_lost(c);
}

static void on_failed(struct rt_link *k, int err, const char *why)
{
    struct rt_etcd_conn *c = rt_etcd_of_link(k);
    rt_ledger_refuse(&k->ledger, err, why);
    rt_etcd_lease_refuse(c, why);
    if (c->on->failed != NULL)
        c->on->failed(c, err, why);
}

void rt_etcd_sicken(struct rt_etcd_conn *c, const char *format, ...)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    int64_t now = rt_loop_now(c->base->loop);
    char why[sizeof(c->link.trouble)];
    va_list args;
    if (l == NULL || l->sick)
        return;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    l->sick = true;
    l->drain_until = now + rt_dial_patience(c->base);
    rt_link_note(&c->link, why, true);
    rt_link_timer(&c->link,
                  now); /* from its own turn: the caller may be in the middle of something */
}

/* ---- Hearing ---------------------------------------------------------------------------------------- */

static void codec_failed(struct rt_etcd_conn *c, int err)
{
    const char *said = rt_grpc_why(rt_etcd_wire(c)->grpc);
    bool odd = err == ROTA_PROTOCOL && c->link.state == RT_DIAL_GREETING;
    bool tls = strstr(said, "speaks TLS") != NULL;
    char why[sizeof(c->link.trouble)];
    snprintf(why, sizeof(why), "%.120s: %.100s%s", rt_etcd_at(c), said,
             tls   ? ": write etcds://"
             : odd ? ": is that an etcd?"
                   : "");
    if (odd)
        rt_link_refuse(&c->link, err, "%s", why);
    else
        rt_etcd_cut(c, "%s", why);
}

static bool drained(const struct rt_etcd_conn *c)
{
    return rt_etcd_wire(c)->sick && RT_RING_EMPTY(&c->link.ledger.flying);
}

static void on_data(struct rt_wire *w, const char *bytes, size_t n)
{
    of(w)->pinged = false;
    int rv = rt_grpc_feed(of(w)->grpc, bytes, n);
    struct rt_etcd_conn *c = rt_etcd_of_wire(of(w)); /* NULL: it was cut from inside */
    if (rv == ROTA_CLOSED || c == NULL)
        return;
    if (rv != 0)
        codec_failed(c, rv);
    else if (drained(c))
        rt_etcd_cut(c, "%s", c->link.trouble);
}

/* ---- Up --------------------------------------------------------------------------------------------- */

static void on_up(struct rt_wire *w)
{
    struct rt_etcd_conn *c = rt_etcd_of_link(w->link);
    of(w)->progress_at = w->heard_at;
    if (rt_grpc_open(&of(w)->grpc, rt_etcd_at(c), c->link.secure, &codec_user, w) != 0)
        rt_etcd_cut(c, "out of memory");
    else
        rt_etcd_greet(c);
}

void rt_etcd_greeted(struct rt_etcd_conn *c)
{
    rt_link_greeted(&c->link);
    rt_etcd_wire(c)->progress_at = c->link.wire->ready_at;
    rt_etcd_log(c, ROTA_LOG_INFO, "etcd: connected to %s (etcd %s)", rt_etcd_at(c),
                c->facts.known ? c->facts.version : "of an unknown version");
    if (c->on->linked != NULL)
        c->on->linked(c);
    if (!rt_etcd_usable(c))
        return;
    rt_etcd_lease_linked(c);
    rt_etcd_watch_linked(c);
    rt_ledger_flush(&c->link.ledger);
}

static bool on_tick(struct rt_link *k, int64_t now)
{
    struct rt_etcd_conn *c = rt_etcd_of_link(k);
    const struct rt_etcd_wire *l = rt_etcd_wire(c);
    if (l->broken)
        codec_failed(c, rt_grpc_err(l->grpc));
    else if (l->sick && (drained(c) || now >= l->drain_until))
        rt_etcd_cut(c, "%s", k->trouble);
    else if (l->sick)
        rt_link_timer(k, l->drain_until);
    else if (k->state == RT_DIAL_READY)
        rt_etcd_look_for_silence(c, now);
    else
        return false;
    return true;
}

const struct rt_link_user rt_etcd_link_user = {.who = "etcd",
                                               .secure = "etcds",
                                               .alpn = "h2",
                                               .port = 2379,
                                               .secure_port = 2379,
                                               .wire_size = sizeof(struct rt_etcd_wire),
                                               .up = on_up,
                                               .data = on_data,
                                               .tick = on_tick,
                                               .lost = on_lost,
                                               .failed = on_failed,
                                               .dropped = on_dropped};
