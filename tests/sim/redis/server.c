/* SPDX-License-Identifier: Apache-2.0 */
/* A model Redis in virtual time: its clock, its outages, and its connections. */
#include "sim/redis/server.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <rota.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MOST 1000000
#define CLOCK_BEGIN_US INT64_C(1700000000000000)

/* ---- The clock ---------------------------------------------------------- */

int64_t rs_server_clock(const struct rs_server *s)
{
    int64_t us = (s->net->now - s->clock_at) / 1000;
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
    s->clock_at = s->net->now;
}

int64_t rs_server_when(const struct rs_server *s, int64_t at_us)
{
    int64_t us = at_us - rs_server_clock(s);
    return s->net->now + (us - us * s->clock_ppm / 1000000) * 1000;
}

/* ---- Serving ------------------------------------------------------------ */

static void serve_data(struct rs_conn *c, const char *bytes, size_t n)
{
    void *request;
    redisReaderFeed(c->reader, bytes, n);
    while (c->base.served && redisReaderGetReply(c->reader, &request) == REDIS_OK &&
           request != NULL) {
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

static bool on_accept(struct sim_conn *base, const char *host)
{
    struct rs_conn *c = rs_conn_of(base);
    struct rs_server *s = base->net->user;
    uint32_t node = (uint32_t)atoi(host + strlen(RS_NODE_HOST)) - 1;
    assert(node < (s->fellows > 0 ? s->fellows : RS_NODES));
    c->server = s->fellows > 0 ? &s[node] : s;
    c->node = &c->server->nodes[s->fellows > 0 ? 0 : node];
    if (c->server->down_until > base->net->now)
        return false;
    c->reader = redisReaderCreate();
    assert(c->reader != NULL);
    return true;
}

static void on_data(struct sim_conn *base, const char *bytes, size_t n)
{
    serve_data(rs_conn_of(base), bytes, n);
}

static void on_forget(struct sim_conn *base)
{
    struct rs_conn *c = rs_conn_of(base);
    while (c->channel_count > 0)
        free((void *)(size_t)c->channels[--c->channel_count].at);
    redisReaderFree(c->reader);
    c->reader = NULL;
}

static const struct sim_host host = {sizeof(struct rs_conn), on_accept, on_data, on_forget};

void rs_server_run(struct rs_server *s, int64_t now)
{
    while (sim_net_next(s->net) <= now)
        sim_net_step(s->net);
    sim_net_advance(s->net, now);
}

/* ---- Outages ------------------------------------------------------------ */

void rs_server_open(struct rs_server *s, uint64_t seed, int32_t clock_ppm)
{
    memset(s, 0, sizeof(*s));
    s->net = &s->own;
    sim_net_open(s->net, &host, seed);
    s->net->user = s;
    s->machine.clock_us = machine_clock;
    s->machine.publish = rs_publish;

    s->clock_us = CLOCK_BEGIN_US;
    s->clock_ppm = clock_ppm;
    s->runs = 1;
    rs_machine_changed(&s->machine);
}

void rs_servers_open(struct rs_server *s, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        rs_server_open(&s[i], seed, 0);
        s[i].net = &s[0].own;
        s[i].runs += i * RUNS_MOST; /* no two are one server */
    }
    s[0].fellows = count;
}

void rs_server_close(struct rs_server *s)
{
    if (s->net == &s->own)
        sim_net_close(s->net);
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
    for (struct sim_conn *c = s->net->conns; c != NULL; c = c->next)
        if (c->served && rs_conn_of(c)->server == s)
            sim_conn_break(c);
    s->machine.script_count = 0;
    if (s->net->user == s && s->fellows == 0)
        s->net->down_until = until > s->net->now ? until : 0;
    else
        s->down_until = until;
    s->runs++;
    s->started_us = rs_server_clock(s);
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

void rs_server_restart_node(struct rs_server *s, uint32_t node)
{
    for (struct sim_conn *c = s->net->conns; c != NULL; c = c->next)
        if (c->served && rs_conn_of(c)->node == &s->nodes[node])
            sim_conn_break(c);
}

void rs_server_kill_listeners(struct rs_server *s)
{
    for (struct sim_conn *c = s->net->conns; c != NULL; c = c->next)
        if (c->served && rs_conn_of(c)->channel_count > 0)
            sim_conn_break(c);
}
