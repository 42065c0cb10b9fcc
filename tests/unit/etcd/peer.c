/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server that the test plays. */
#include "peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The server -------------------------------------------------------------------------- */

static void on_begun(struct grpc_call *c)
{
    struct peer *p = c->server->arg;
    if (p->count == PEER_STREAMS)
        return;
    grpc_call_keep(c);
    p->streams[p->count++] = c;
}

void peer_serve(struct peer *p)
{
    static const struct grpc_server_user user = {.begun = on_begun};
    grpc_server_open(&p->server, &user, p);
}

/* ---- The wire ---------------------------------------------------------------------------- */

static int client_writes(void *arg, const void *bytes, size_t n)
{
    struct peer *p = arg;
    if (p->write_err != 0)
        return p->write_err;
    grpc_bytes_add(&p->wire, bytes, n);
    p->to_server += n;
    return 0;
}

static void client_leaves(void *arg)
{
    ((struct peer *)arg)->leavings++;
}

const struct rt_grpc_user peer_user = {
    .write = client_writes, .leaving = client_leaves, .judge = rt_etcd_judge};

void peer_open(struct peer *p)
{
    peer_serve(p);
    assert_int_equal(rt_grpc_open(&p->g, "127.0.0.1:2379", false, &peer_user, p), 0);
}

void peer_close(struct peer *p)
{
    rt_grpc_close(p->g);
    grpc_server_close(&p->server);
    for (size_t i = 0; i < p->count; i++)
        grpc_call_drop(p->streams[i]);
    free(p->wire.at);
    *p = (struct peer){0};
}

int peer_feed(struct peer *p, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    p->to_client += n;
    while (n > 0 && p->err == 0) {
        size_t size = p->chunk > 0 && p->chunk < n ? p->chunk : n;
        uint8_t *copy = malloc(size); /* so that a look beyond it is seen */
        assert_non_null(copy);
        memcpy(copy, at, size);
        p->err = rt_grpc_feed(p->g, copy, size);
        free(copy);
        at += size;
        n -= size;
    }
    return p->err;
}

void peer_server_reads(struct peer *p)
{
    assert_true(grpc_server_feed(&p->server, p->wire.at, p->wire.size));
    p->wire.size = 0;
}

void peer_exchange(struct peer *p)
{
    struct grpc_bytes said = {0};
    do {
        said.size = 0;
        if (p->wire.size > 0 && !p->mute)
            peer_server_reads(p);
        if (grpc_server_says(&p->server, &said) > 0)
            peer_feed(p, said.at, said.size);
    } while (p->err == 0 && (said.size > 0 || (p->wire.size > 0 && !p->mute)));
    free(said.at);
}

/* ---- The server's mouth ------------------------------------------------------------------ */

static struct grpc_call *stream(struct peer *p, size_t i)
{
    assert_true(i < p->count);
    return p->streams[i];
}

void peer_answer_raw(struct peer *p, size_t i, const void *bytes, size_t n, const char *status)
{
    grpc_call_send_raw(stream(p, i), bytes, n);
    if (status != NULL)
        grpc_call_end(p->streams[i], status, "");
}

void peer_answer(struct peer *p, size_t i, const void *bytes, size_t n, const char *status,
                 const char *text)
{
    grpc_call_send(stream(p, i), bytes, n);
    if (status != NULL)
        grpc_call_end(p->streams[i], status, text != NULL ? text : "");
}

void peer_refuse(struct peer *p, size_t i, const char *http_status, const char *type,
                 const char *status, const char *text)
{
    grpc_call_refuse(stream(p, i), http_status, type, status, text);
}

/* ---- Calls ------------------------------------------------------------------------------- */

static void on_message(void *arg, const uint8_t *bytes, size_t n)
{
    struct told *t = arg;
    assert_int_equal(t->ends, 0);
    t->messages++;
    t->last.size = 0;
    grpc_bytes_add(&t->last, bytes, n);
    if (t->on_message != NULL)
        t->on_message(t);
}

static void on_end(void *arg, const struct rt_grpc_end *end)
{
    struct told *t = arg;
    assert_int_equal(t->ends++, 0);
    t->status = end->status;
    t->verdict = end->verdict;
    snprintf(t->text, sizeof(t->text), "%s", end->message);
    if (end->bytes != NULL) {
        t->last.size = 0;
        grpc_bytes_add(&t->last, end->bytes, end->n);
    }
    if (t->on_end != NULL)
        t->on_end(t);
}

int told_ask(struct told *t, struct rt_grpc *g, struct rt_grpc_ask *ask, const void *bytes,
             size_t n)
{
    ask->end = on_end;
    ask->arg = t;
    return rt_grpc_call(g, ask, bytes, n, &t->call);
}

int told_unary(struct told *t, struct rt_grpc *g, const void *bytes, size_t n)
{
    struct rt_grpc_ask ask = {.path = "/etcdserverpb.KV/Txn"};
    return told_ask(t, g, &ask, bytes, n);
}

int told_stream(struct told *t, struct rt_grpc *g, const void *bytes, size_t n)
{
    struct rt_grpc_ask ask = {
        .path = "/etcdserverpb.Watch/Watch", .message = on_message, .flag = "hasleader"};
    return told_ask(t, g, &ask, bytes, n);
}

void told_clear(struct told *t)
{
    free(t->last.at);
    *t = (struct told){0};
}
