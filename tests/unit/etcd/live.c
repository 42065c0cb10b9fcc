/* SPDX-License-Identifier: Apache-2.0 */
/* A real etcd, and our codec on a stream to it. */
#include "live.h"
#include "lib/patience.h"
#include "pack.h"

#include "base/alloc.h"

#include <poll.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS (int)rt_patient_ms(20000)

struct rt_server live_server;
static uint16_t peer_port;
struct rt_loop live_loop;
struct rt_arena live_arena;
uint64_t live_allocations;
static int peer_anchor;

/* ---- The server and the loop --------------------------------------------------------------- */

static void *counting_calloc(size_t n, size_t size)
{
    live_allocations++;
    return calloc(n, size);
}

static void *counting_realloc(void *p, size_t size)
{
    live_allocations++;
    return realloc(p, size);
}

void live_start(void)
{
    static const struct rt_allocator counting = {counting_calloc, counting_realloc, free};
    struct rt_server *s = &live_server;
    rt_alloc_set(&counting);
    rt_server_init(s, "etcd", "etcd");
    peer_port = rt_port_reserve(&peer_anchor);
    rt_server_arg(s, "--name=n1");
    rt_server_arg(s, "--data-dir=%s/data", s->dir);
    rt_server_arg(s, "--listen-client-urls=http://127.0.0.1:%u", (unsigned)s->port);
    rt_server_arg(s, "--advertise-client-urls=http://127.0.0.1:%u", (unsigned)s->port);
    rt_server_arg(s, "--listen-peer-urls=http://127.0.0.1:%u", (unsigned)peer_port);
    rt_server_arg(s, "--initial-advertise-peer-urls=http://127.0.0.1:%u", (unsigned)peer_port);
    rt_server_arg(s, "--initial-cluster=n1=http://127.0.0.1:%u", (unsigned)peer_port);
    rt_server_arg(s, "--logger=zap");
    rt_server_arg(s, "--log-level=error");
    rt_server_start(s);
    rt_server_await(s, rt_server_accepts, NULL, (unsigned)PATIENCE_MS);
    assert_int_equal(rt_loop_init(&live_loop), 0);
    live_arena = RT_ETCD_ARENA;
}

void live_stop(void)
{
    rt_arena_fini(&live_arena);
    rt_loop_fini(&live_loop);
    rt_server_fini(&live_server);
    close(peer_anchor);
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    fail();
}

void live_turn(void)
{
    struct pollfd pfd = {.fd = rt_loop_fd(&live_loop), .events = POLLIN};
    rt_loop_tick(&live_loop);
    rt_loop_arm(&live_loop);
    if (!live_loop.dirty)
        assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
    rt_loop_turn(&live_loop, no_other, NULL);
}

void live_until(const int *flag, int n)
{
    while (*flag < n)
        live_turn();
}

/* ---- The connection ------------------------------------------------------------------------ */

static int codec_writes(void *arg, const void *bytes, size_t n)
{
    struct live *l = arg;
    l->sent += n;
    return rt_stream_write(&l->s, bytes, n);
}

static const struct rt_grpc_user codec_user = {.write = codec_writes, .judge = rt_etcd_judge};

static void on_up(struct rt_stream *s)
{
    ((struct live *)(void *)s)->ups++;
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct live *l = (struct live *)(void *)s;
    l->received += n;
    if (l->err != 0)
        return;
    l->err = rt_grpc_feed(l->g, bytes, n);
    if (l->err != 0) {
        snprintf(l->why, sizeof(l->why), "%s", rt_grpc_why(l->g));
        rt_grpc_down(l->g, l->err, l->why);
        l->downs++;
    }
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct live *l = (struct live *)(void *)s;
    if (l->err == 0) {
        l->err = err;
        rt_grpc_down(l->g, err, why);
    }
    l->downs++;
}

void live_open(struct live *l, uint16_t port)
{
    static const struct rt_stream_user user = {on_up, on_data, on_down};
    struct rt_stream_target t = {.host = "127.0.0.1", .port = port};
    char authority[32];
    *l = (struct live){0};
    snprintf(authority, sizeof(authority), "127.0.0.1:%u", (unsigned)port);
    rt_loop_tick(&live_loop);
    assert_int_equal(rt_stream_open(&l->s, &live_loop, &t, &user, (uint32_t)PATIENCE_MS), 0);
    assert_int_equal(rt_grpc_open(&l->g, authority, false, &codec_user, l), 0);
}

static void on_closed(struct rt_stream *s)
{
    ((struct live *)(void *)s)->closed++;
}

void live_close(struct live *l)
{
    rt_grpc_close(l->g);
    rt_stream_close(&l->s, on_closed);
    live_until(&l->closed, 1);
}

/* ---- Calls --------------------------------------------------------------------------------- */

static void unpack(struct answer *a, const uint8_t *bytes, size_t n)
{
    assert_int_equal(rt_etcd_unpack(&live_arena, a->type, bytes, n, &a->message), 0);
}

static void on_end(void *arg, const struct rt_grpc_end *end)
{
    struct answer *a = arg;
    assert_int_equal(a->ends++, 0);
    a->status = end->status;
    a->verdict = end->verdict;
    snprintf(a->text, sizeof(a->text), "%s", end->message);
    if (end->bytes != NULL)
        unpack(a, end->bytes, end->n);
    if (a->on_end != NULL)
        a->on_end(a);
}

static void on_message(void *arg, const uint8_t *bytes, size_t n)
{
    struct answer *a = arg;
    unpack(a, bytes, n);
    a->messages++;
    if (a->on_message != NULL)
        a->on_message(a);
}

static int begin(struct answer *a, struct live *l, struct rt_grpc_ask *ask, const void *request)
{
    const uint8_t *bytes = NULL;
    size_t n = 0;
    ask->end = on_end;
    ask->arg = a;
    ask->flag = "hasleader";
    if (request != NULL)
        assert_int_equal(pack_message(&live_arena, request, &bytes, &n), 0);
    return rt_grpc_call(l->g, ask, bytes, n, &a->call);
}

int answer_begin(struct answer *a, struct live *l, const char *path, const void *request,
                 const ProtobufCMessageDescriptor *type)
{
    struct rt_grpc_ask ask = {.path = path};
    a->type = type;
    return begin(a, l, &ask, request);
}

int answer_stream(struct answer *a, struct live *l, const char *path, const void *request,
                  const ProtobufCMessageDescriptor *type)
{
    struct rt_grpc_ask ask = {.path = path, .message = on_message};
    a->type = type;
    return begin(a, l, &ask, request);
}

void answer_send(struct answer *a, const void *request)
{
    const uint8_t *bytes;
    size_t n;
    assert_int_equal(pack_message(&live_arena, request, &bytes, &n), 0);
    assert_int_equal(rt_grpc_send(a->call, bytes, n), 0);
}

void *answer_of(struct answer *a, struct live *l, const char *path, const void *request,
                const ProtobufCMessageDescriptor *type)
{
    rt_arena_reset(&live_arena);
    *a = (struct answer){0};
    assert_int_equal(answer_begin(a, l, path, request, type), 0);
    live_until(&a->ends, 1);
    return a->status == RT_GRPC_OK ? a->message : NULL;
}

ProtobufCBinaryData live_text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}
