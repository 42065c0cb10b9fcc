/* SPDX-License-Identifier: Apache-2.0 */
/* A network in virtual time: what is on its way to and from a model server. */
#include "sim/net.h"

#include <assert.h>
#include <rota.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHT_US 30 /* mean time of what is not late */

enum kind { SYN, DATA, END };

struct sim_chunk {
    struct sim_chunk *next;
    int64_t at; /* when it arrives */
    enum kind kind;
    size_t n;
    char bytes[];
};

/* ---- On its way --------------------------------------------------------- */

static void way_open(struct sim_way *w)
{
    *w = (struct sim_way){.last = &w->first};
}

static void way_clear(struct sim_way *w)
{
    while (w->first != NULL) {
        struct sim_chunk *chunk = w->first;
        w->first = chunk->next;
        free(chunk);
    }
    w->last = &w->first;
}

static void way_add(struct sim_net *net, struct sim_way *w, enum kind kind, const void *bytes,
                    size_t n)
{
    struct sim_chunk *chunk = malloc(sizeof(*chunk) + n);
    assert(chunk != NULL);
    bool late = sim_chance(&net->random, net->faults.late);
    *chunk = (struct sim_chunk){.kind = kind, .n = n};
    if (n > 0)
        memcpy(chunk->bytes, bytes, n);
    chunk->at = net->now + 1000 +
                sim_spread_ns(&net->random, late ? net->faults.late_us : FLIGHT_US);
    if (chunk->at < w->last_at)
        chunk->at = w->last_at;
    w->last_at = chunk->at;
    *w->last = chunk;
    w->last = &chunk->next;
}

static struct sim_chunk *way_take(struct sim_way *w)
{
    struct sim_chunk *chunk = w->first;
    w->first = chunk->next;
    if (w->first == NULL)
        w->last = &w->first;
    return chunk;
}

static int64_t way_next(const struct sim_way *w, bool cut)
{
    return w->first != NULL && !cut ? w->first->at : RT_NEVER;
}

/* ---- Connections -------------------------------------------------------- */

static void forget(struct sim_conn *c)
{
    if (!c->served)
        return;
    c->served = false;
    c->net->host->forget(c);
}

void sim_conn_send(struct sim_conn *c, const void *bytes, size_t n)
{
    if (c->stream != NULL && !c->broken)
        way_add(c->net, &c->down, DATA, bytes, n);
}

void sim_conn_hold(struct sim_conn *c, int64_t ns)
{
    if (c->down.last_at < c->net->now + ns)
        c->down.last_at = c->net->now + ns;
}

void sim_conn_break(struct sim_conn *c)
{
    forget(c);
    if (c->stream != NULL && !c->broken)
        way_add(c->net, &c->down, END, NULL, 0);
    c->broken = true;
}

static void leave_port(struct sim_conn *c)
{
    struct sim_conn **at = &c->port->conns;
    while (*at != c)
        at = &(*at)->port_next;
    *at = c->port_next;
    c->port = NULL;
}

static void conn_free(struct sim_conn *c)
{
    forget(c);
    if (c->port != NULL)
        leave_port(c);
    way_clear(&c->up);
    way_clear(&c->down);
    free(c);
}

/* ---- Serving ------------------------------------------------------------ */

static void serve_chunk(struct sim_conn *c, const struct sim_chunk *chunk)
{
    struct sim_net *net = c->net;
    if (chunk->kind == SYN && net->down_until == 0 && net->host->accept(c, chunk->bytes)) {
        c->served = true;
        if (c->stream != NULL)
            way_add(net, &c->down, SYN, NULL, 0);
    } else if (chunk->kind == DATA && c->served) {
        net->host->data(c, chunk->bytes, chunk->n);
    } else {
        sim_conn_break(c);
    }
}

static struct sim_conn *next_up(const struct sim_net *net)
{
    struct sim_conn *first = NULL;
    int64_t at = RT_NEVER;
    for (struct sim_conn *c = net->conns; c != NULL; c = c->next)
        if (way_next(&c->up, c->port != NULL && c->port->cut_up) < at) {
            first = c;
            at = c->up.first->at;
        }
    return first;
}

int64_t sim_net_next(const struct sim_net *net)
{
    const struct sim_conn *c = next_up(net);
    return c != NULL ? c->up.first->at : RT_NEVER;
}

static void set_now(struct sim_net *net, int64_t now)
{
    net->now = now > net->now ? now : net->now;
    if (net->down_until != 0 && net->down_until <= net->now)
        net->down_until = 0;
}

void sim_net_step(struct sim_net *net)
{
    struct sim_conn *c = next_up(net);
    assert(c != NULL);
    struct sim_chunk *chunk = way_take(&c->up);
    set_now(net, chunk->at);
    serve_chunk(c, chunk);
    free(chunk);
}

bool sim_net_strikes(struct sim_net *net, uint32_t per_mille)
{
    bool strikes = sim_chance(&net->random, per_mille);
    if (strikes)
        net->harmed_at = net->now;
    return strikes;
}

void sim_net_advance(struct sim_net *net, int64_t now)
{
    struct sim_conn **at = &net->conns;
    set_now(net, now);
    while (*at != NULL) {
        struct sim_conn *c = *at;
        if (c->stream == NULL && c->up.first == NULL) {
            *at = c->next;
            conn_free(c);
        } else {
            at = &c->next;
        }
    }
}

void sim_net_open(struct sim_net *net, const struct sim_host *host, uint64_t seed)
{
    *net = (struct sim_net){.host = host};
    net->random.state = seed;
}

void sim_net_close(struct sim_net *net)
{
    while (net->conns != NULL) {
        struct sim_conn *c = net->conns;
        net->conns = c->next;
        conn_free(c);
    }
}

/* ---- One client's end --------------------------------------------------- */

static struct sim_conn *conn_of(const struct sim_port *p, const struct rt_stream *stream)
{
    struct sim_conn *c = p->conns;
    while (c != NULL && c->stream != stream)
        c = c->port_next;
    return c;
}

static int port_dial(struct rt_dialer *d, struct rt_stream *stream,
                     const struct rt_stream_target *t)
{
    struct sim_port *p = (struct sim_port *)(void *)d; /* its first member */
    struct sim_conn *c = calloc(1, p->net->host->conn_size);
    assert(c != NULL);
    c->net = p->net;
    c->port = p;
    c->stream = stream;
    way_open(&c->up);
    way_open(&c->down);
    c->next = p->net->conns;
    p->net->conns = c;
    c->port_next = p->conns;
    p->conns = c;
    way_add(p->net, &c->up, SYN, t->host, strlen(t->host) + 1);
    return 0;
}

static void port_write(struct rt_dialer *d, struct rt_stream *stream, const char *bytes, size_t n)
{
    struct sim_port *p = (struct sim_port *)(void *)d;
    struct sim_conn *c = conn_of(p, stream);
    assert(c != NULL);
    if (!p->mute)
        way_add(p->net, &c->up, DATA, bytes, n);
}

static void port_hang_up(struct rt_dialer *d, struct rt_stream *stream)
{
    struct sim_port *p = (struct sim_port *)(void *)d;
    struct sim_conn *c = conn_of(p, stream);
    assert(c != NULL);
    c->stream = NULL;
    way_clear(&c->down);
    way_add(p->net, &c->up, END, NULL, 0);
}

void sim_port_open(struct sim_port *p, struct sim_net *net)
{
    *p = (struct sim_port){
        .dialer = {.open = port_dial, .write = port_write, .close = port_hang_up},
        .net = net,
    };
}

void sim_port_close(struct sim_port *p)
{
    while (p->conns != NULL) {
        assert(p->conns->stream == NULL);
        leave_port(p->conns);
    }
}

void sim_port_reset(struct sim_port *p)
{
    for (struct sim_conn *c = p->conns; c != NULL; c = c->port_next)
        sim_conn_break(c);
}

static struct sim_conn *next_down(const struct sim_port *p)
{
    struct sim_conn *first = NULL;
    int64_t at = RT_NEVER;
    for (struct sim_conn *c = p->conns; c != NULL; c = c->port_next)
        if (c->stream != NULL && way_next(&c->down, p->cut_down) < at) {
            first = c;
            at = c->down.first->at;
        }
    return first;
}

int64_t sim_port_next(const struct sim_port *p)
{
    const struct sim_conn *c = next_down(p);
    return c != NULL ? c->down.first->at : RT_NEVER;
}

bool sim_port_due(const struct sim_port *p)
{
    return sim_port_next(p) <= p->net->now;
}

void sim_port_deliver(struct sim_port *p)
{
    struct sim_conn *c;
    while ((c = next_down(p)) != NULL && c->down.first->at <= p->net->now) {
        struct sim_chunk *chunk = way_take(&c->down);
        struct rt_stream *stream = c->stream;
        if (chunk->kind == END) {
            c->stream = NULL; /* down: it does not hang up any more */
            way_clear(&c->down);
            rt_stream_feed_down(stream, ROTA_UNREACHABLE, "the model broke the connection");
        } else if (chunk->kind == SYN) {
            rt_stream_feed_up(stream);
        } else {
            rt_stream_feed_data(stream, chunk->bytes, chunk->n);
        }
        free(chunk);
    }
}
