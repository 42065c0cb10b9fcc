/* SPDX-License-Identifier: Apache-2.0 */
/* A model Redis in virtual time: its clock, its outages, and what is on its way to and from it. */
#include "sim/redis/server.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <rota.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHT_US 30 /* mean time of what is not late */
#define CLOCK_BEGIN_US INT64_C(1700000000000000)

enum kind { SYN, DATA, END };

struct rs_chunk {
    struct rs_chunk *next;
    int64_t at; /* when it arrives */
    enum kind kind;
    size_t n;
    char bytes[];
};

/* ---- The clock ---------------------------------------------------------- */

int64_t rs_server_clock(const struct rs_server *s)
{
    int64_t us = (s->now - s->clock_at) / 1000;
    return s->clock_us + us + us * s->clock_ppm / 1000000;
}

static int64_t machine_clock(struct rs_machine *m)
{
    struct rs_server *s = (struct rs_server *)(void *)m; /* its first member */
    int64_t us = rs_server_clock(s);
    if (us > s->clock_most)
        s->clock_most = us;
    return us;
}

void rs_server_jump(struct rs_server *s, int64_t by_us)
{
    s->clock_us = rs_server_clock(s) + by_us;
    s->clock_at = s->now;
}

int64_t rs_server_when(const struct rs_server *s, int64_t at_us)
{
    int64_t us = at_us - rs_server_clock(s);
    return s->now + (us - us * s->clock_ppm / 1000000) * 1000;
}

/* ---- On its way --------------------------------------------------------- */

static void way_open(struct rs_way *w)
{
    *w = (struct rs_way){.last = &w->first};
}

static void way_clear(struct rs_way *w)
{
    while (w->first != NULL) {
        struct rs_chunk *chunk = w->first;
        w->first = chunk->next;
        free(chunk);
    }
    w->last = &w->first;
}

static void way_add(struct rs_server *s, struct rs_way *w, enum kind kind, const char *bytes,
                    size_t n)
{
    struct rs_chunk *chunk = malloc(sizeof(*chunk) + n);
    assert(chunk != NULL);
    bool late = sim_chance(&s->random, s->faults.late);
    *chunk = (struct rs_chunk){.kind = kind, .n = n};
    if (n > 0)
        memcpy(chunk->bytes, bytes, n);
    chunk->at = s->now + 1000 + sim_spread_ns(&s->random, late ? s->faults.late_us : FLIGHT_US);
    if (chunk->at < w->last_at)
        chunk->at = w->last_at;
    w->last_at = chunk->at;
    *w->last = chunk;
    w->last = &chunk->next;
}

static struct rs_chunk *way_take(struct rs_way *w)
{
    struct rs_chunk *chunk = w->first;
    w->first = chunk->next;
    if (w->first == NULL)
        w->last = &w->first;
    return chunk;
}

static int64_t way_next(const struct rs_way *w, bool cut)
{
    return w->first != NULL && !cut ? w->first->at : RT_NEVER;
}

/* ---- Connections -------------------------------------------------------- */

static void forget(struct rs_conn *c)
{
    c->served = false;
    while (c->channel_count > 0)
        free((void *)(size_t)c->channels[--c->channel_count].at);
    redisReaderFree(c->reader);
    c->reader = NULL;
}

void rs_conn_send(struct rs_conn *c, const char *bytes, size_t n)
{
    if (c->stream != NULL && !c->broken)
        way_add(c->server, &c->down, DATA, bytes, n);
}

void rs_conn_hold(struct rs_conn *c, int64_t ns)
{
    if (c->down.last_at < c->server->now + ns)
        c->down.last_at = c->server->now + ns;
}

void rs_conn_break(struct rs_conn *c)
{
    if (c->served)
        forget(c);
    if (c->stream != NULL && !c->broken)
        way_add(c->server, &c->down, END, NULL, 0);
    c->broken = true;
}

static void conn_free(struct rs_conn *c)
{
    forget(c);
    way_clear(&c->up);
    way_clear(&c->down);
    free(c);
}

/* Those that nobody needs any more. */
static void collect(struct rs_server *s)
{
    struct rs_conn **at = &s->conns;
    while (*at != NULL) {
        struct rs_conn *c = *at;
        if (c->stream == NULL && c->up.first == NULL) {
            *at = c->next;
            conn_free(c);
        } else {
            at = &c->next;
        }
    }
}

/* ---- Serving ------------------------------------------------------------ */

static void serve_data(struct rs_conn *c, const struct rs_chunk *chunk)
{
    void *request;
    redisReaderFeed(c->reader, chunk->bytes, chunk->n);
    while (c->served && redisReaderGetReply(c->reader, &request) == REDIS_OK && request != NULL) {
        const redisReply *r = request;
        struct rs_text argv[1024];
        assert(r->type == REDIS_REPLY_ARRAY && r->elements > 0 && r->elements <= 1024);
        for (size_t i = 0; i < r->elements; i++) {
            assert(r->element[i]->type == REDIS_REPLY_STRING);
            argv[i] = (struct rs_text){r->element[i]->str, (size_t)r->element[i]->len};
        }
        rs_serve(c, r->elements, argv);
        freeReplyObject(request);
    }
    assert(c->reader == NULL || c->reader->err == 0); /* the engine writes no nonsense */
}

static void serve_chunk(struct rs_conn *c, const struct rs_chunk *chunk)
{
    struct rs_server *s = c->server;
    if (chunk->kind == SYN && s->down_until == 0) {
        c->served = true;
        c->reader = redisReaderCreate();
        assert(c->reader != NULL);
        if (c->stream != NULL)
            way_add(s, &c->down, SYN, NULL, 0);
    } else if (chunk->kind == DATA && c->served) {
        serve_data(c, chunk);
    } else {
        rs_conn_break(c);
    }
}

static bool cut_up(const struct rs_conn *c)
{
    return c->port != NULL && c->port->cut_up;
}

void rs_server_run(struct rs_server *s, int64_t now)
{
    for (;;) {
        struct rs_conn *first = NULL;
        int64_t at = now + 1;
        for (struct rs_conn *c = s->conns; c != NULL; c = c->next)
            if (way_next(&c->up, cut_up(c)) < at) {
                first = c;
                at = c->up.first->at;
            }
        if (first == NULL)
            break;
        s->now = at > s->now ? at : s->now;
        if (s->down_until != 0 && s->down_until <= s->now)
            s->down_until = 0;
        struct rs_chunk *chunk = way_take(&first->up);
        serve_chunk(first, chunk);
        free(chunk);
    }
    s->now = now;
    if (s->down_until != 0 && s->down_until <= now)
        s->down_until = 0;
    collect(s);
}

int64_t rs_server_next(const struct rs_server *s)
{
    int64_t at = RT_NEVER;
    for (const struct rs_conn *c = s->conns; c != NULL; c = c->next)
        if (way_next(&c->up, cut_up(c)) < at)
            at = c->up.first->at;
    return at;
}

/* ---- Outages ------------------------------------------------------------ */

void rs_server_open(struct rs_server *s, uint64_t seed, int32_t clock_ppm)
{
    memset(s, 0, sizeof(*s));
    s->machine.clock_us = machine_clock;
    s->machine.publish = rs_publish;
    s->random.state = seed;
    s->clock_us = CLOCK_BEGIN_US;
    s->clock_ppm = clock_ppm;
    s->runs = 1;
    rs_machine_changed(&s->machine);
}

void rs_server_close(struct rs_server *s)
{
    while (s->conns != NULL) {
        struct rs_conn *c = s->conns;
        s->conns = c->next;
        conn_free(c);
    }
    rs_machine_clear(&s->machine);
    rs_store_clear(&s->earlier);
}

void rs_server_keep(struct rs_server *s)
{
    rs_store_copy(&s->earlier, &s->machine.store);
    s->has_earlier = true;
}

void rs_server_restart(struct rs_server *s, enum rs_loss loss, int64_t until)
{
    for (struct rs_conn *c = s->conns; c != NULL; c = c->next)
        if (c->served)
            rs_conn_break(c);
    s->machine.script_count = 0;
    s->down_until = until > s->now ? until : 0;
    s->runs++;
    if (loss == RS_KEEPS_ALL)
        return;
    rs_store_clear(&s->machine.store);
    if (loss == RS_LOSES_LAST && s->has_earlier) {
        s->machine.store = s->earlier;
        s->earlier = (struct rs_store){0};
    }
    s->has_earlier = false;
    rs_machine_changed(&s->machine);
}

void rs_server_kill_listeners(struct rs_server *s)
{
    for (struct rs_conn *c = s->conns; c != NULL; c = c->next)
        if (c->served && c->channel_count > 0)
            rs_conn_break(c);
}

/* ---- One client's end --------------------------------------------------- */

static struct rs_conn *conn_of(const struct rs_port *p, const struct rt_stream *stream)
{
    struct rs_conn *c = p->server->conns;
    while (c != NULL && c->stream != stream)
        c = c->next;
    return c;
}

static int port_dial(struct rt_dialer *d, struct rt_stream *stream,
                     const struct rt_stream_target *t)
{
    struct rs_port *p = (struct rs_port *)(void *)d; /* its first member */
    struct rs_conn *c = calloc(1, sizeof(*c));
    (void)t; /* there is one server */
    assert(c != NULL);
    c->server = p->server;
    c->port = p;
    c->stream = stream;
    way_open(&c->up);
    way_open(&c->down);
    c->next = p->server->conns;
    p->server->conns = c;
    way_add(p->server, &c->up, SYN, NULL, 0);
    return 0;
}

static void port_write(struct rt_dialer *d, struct rt_stream *stream, const char *bytes, size_t n)
{
    struct rs_port *p = (struct rs_port *)(void *)d;
    struct rs_conn *c = conn_of(p, stream);
    assert(c != NULL);
    if (!p->mute)
        way_add(p->server, &c->up, DATA, bytes, n);
}

static void port_hang_up(struct rt_dialer *d, struct rt_stream *stream)
{
    struct rs_port *p = (struct rs_port *)(void *)d;
    struct rs_conn *c = conn_of(p, stream);
    assert(c != NULL);
    c->stream = NULL;
    way_clear(&c->down);
    way_add(p->server, &c->up, END, NULL, 0);
}

void rs_port_open(struct rs_port *p, struct rs_server *s)
{
    *p = (struct rs_port){
        .dialer = {.open = port_dial, .write = port_write, .close = port_hang_up},
        .server = s,
    };
}

void rs_port_close(struct rs_port *p)
{
    for (struct rs_conn *c = p->server->conns; c != NULL; c = c->next)
        if (c->port == p) {
            assert(c->stream == NULL);
            c->port = NULL;
        }
}

void rs_port_reset(struct rs_port *p)
{
    for (struct rs_conn *c = p->server->conns; c != NULL; c = c->next)
        if (c->port == p)
            rs_conn_break(c);
}

static struct rs_conn *next_down(const struct rs_port *p)
{
    struct rs_conn *first = NULL;
    int64_t at = RT_NEVER;
    for (struct rs_conn *c = p->server->conns; c != NULL; c = c->next)
        if (c->port == p && c->stream != NULL && way_next(&c->down, p->cut_down) < at) {
            first = c;
            at = c->down.first->at;
        }
    return first;
}

int64_t rs_port_next(const struct rs_port *p)
{
    const struct rs_conn *c = next_down(p);
    return c != NULL ? c->down.first->at : RT_NEVER;
}

bool rs_port_due(const struct rs_port *p)
{
    return rs_port_next(p) <= p->server->now;
}

void rs_port_deliver(struct rs_port *p)
{
    struct rs_conn *c;
    while ((c = next_down(p)) != NULL && c->down.first->at <= p->server->now) {
        struct rs_chunk *chunk = way_take(&c->down);
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
