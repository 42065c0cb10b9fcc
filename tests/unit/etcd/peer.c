/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server played by the test. */
#include "peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void peer_add(struct peer_bytes *b, const void *bytes, size_t n)
{
    if (b->room - b->size < n) {
        b->room = (b->size + n) * 2;
        b->at = realloc(b->at, b->room);
        assert_non_null(b->at);
    }
    if (n > 0)
        memcpy(b->at + b->size, bytes, n);
    b->size += n;
}

void peer_drop(struct peer_bytes *b, size_t n)
{
    assert_true(n <= b->size);
    b->size -= n;
    if (b->size > 0)
        memmove(b->at, b->at + n, b->size);
}

/* ---- The server's ears ------------------------------------------------------------------- */

static struct peer_stream *find(struct peer *p, int32_t id)
{
    for (size_t i = p->count; i > 0; i--)
        if (p->streams[i - 1].id == id)
            return &p->streams[i - 1];
    return NULL;
}

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
    struct peer *p = arg;
    (void)s;
    if (find(p, frame->hd.stream_id) == NULL && p->count < PEER_STREAMS)
        p->streams[p->count++].id = frame->hd.stream_id;
    return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t size, uint8_t flags, void *arg)
{
    struct peer_stream *st = find(arg, frame->hd.stream_id);
    const char *text = (const char *)value;
    (void)s;
    (void)flags;
    (void)name_size;
    (void)size;
    if (st == NULL)
        return 0;
    if (strcmp((const char *)name, ":path") == 0)
        snprintf(st->path, sizeof(st->path), "%s", text);
    else if (strcmp((const char *)name, "token") == 0)
        snprintf(st->token, sizeof(st->token), "%s", text);
    else if (strcmp((const char *)name, "grpc-timeout") == 0)
        snprintf(st->timeout, sizeof(st->timeout), "%s", text);
    else if (strcmp((const char *)name, "hasleader") == 0)
        snprintf(st->leader, sizeof(st->leader), "%s", text);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
                   void *arg)
{
    struct peer_stream *st = find(arg, id);
    (void)s;
    (void)flags;
    if (st != NULL)
        peer_add(&st->body, bytes, n);
    return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
    struct peer_stream *st = find(arg, frame->hd.stream_id);
    (void)s;
    if (st != NULL && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        st->ended = true;
    return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t error_code, void *arg)
{
    struct peer_stream *st = find(arg, id);
    (void)s;
    if (st != NULL) {
        st->closed = true;
        st->error_code = error_code;
    }
    return 0;
}

void peer_serve(struct peer *p)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384},
    };
    nghttp2_session_callbacks *cb;
    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    assert_int_equal(nghttp2_session_server_new(&p->server, cb, p), 0);
    nghttp2_session_callbacks_del(cb);
    assert_int_equal(nghttp2_submit_settings(p->server, 0, settings, 1), 0);
}

/* ---- The wire ---------------------------------------------------------------------------- */

static int client_writes(void *arg, const void *bytes, size_t n)
{
    struct peer *p = arg;
    if (p->write_err != 0)
        return p->write_err;
    peer_add(&p->wire, bytes, n);
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
    nghttp2_session_del(p->server);
    for (size_t i = 0; i < p->count; i++) {
        free(p->streams[i].body.at);
        free(p->streams[i].reply.at);
    }
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
    ssize_t used = nghttp2_session_mem_recv(p->server, p->wire.at, p->wire.size);
    assert_int_equal(used, p->wire.size);
    p->wire.size = 0;
}

size_t peer_server_says(struct peer *p, struct peer_bytes *out)
{
    const uint8_t *bytes;
    ssize_t n;
    size_t before = out->size;
    while ((n = nghttp2_session_mem_send(p->server, &bytes)) > 0)
        peer_add(out, bytes, (size_t)n);
    assert_int_equal(n, 0);
    return out->size - before;
}

void peer_exchange(struct peer *p)
{
    struct peer_bytes said = {0};
    do {
        said.size = 0;
        if (p->wire.size > 0 && !p->mute)
            peer_server_reads(p);
        if (peer_server_says(p, &said) > 0)
            peer_feed(p, said.at, said.size);
    } while (p->err == 0 && (said.size > 0 || (p->wire.size > 0 && !p->mute)));
    free(said.at);
}

/* ---- The server's mouth ------------------------------------------------------------------ */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_reply(nghttp2_session *s, int32_t id, uint8_t *buf, size_t room,
                          uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct peer_stream *st = source->ptr;
    size_t n = st->reply.size < room ? st->reply.size : room;
    (void)arg;
    if (n == 0 && st->trailer[0] == '\0') {
        st->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(buf, st->reply.at, n);
    peer_drop(&st->reply, n);
    if (st->reply.size > 0 || st->trailer[0] == '\0')
        return (ssize_t)n;
    nghttp2_nv nv[] = {header("grpc-status", st->trailer), header("grpc-message", st->text)};
    assert_int_equal(nghttp2_submit_trailer(s, id, nv, st->text[0] != '\0' ? 2 : 1), 0);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return (ssize_t)n;
}

static void push(struct peer *p, struct peer_stream *st)
{
    if (st->deferred) {
        st->deferred = false;
        assert_int_equal(nghttp2_session_resume_data(p->server, st->id), 0);
        return;
    }
    if (st->answers)
        return; /* what was added will be asked for */
    st->answers = true;
    nghttp2_nv nv[] = {header(":status", "200"), header("content-type", "application/grpc")};
    nghttp2_data_provider source = {{.ptr = st}, read_reply};
    assert_int_equal(nghttp2_submit_response(p->server, st->id, nv, 2, &source), 0);
}

void peer_answer_raw(struct peer *p, size_t i, const void *bytes, size_t n, const char *status)
{
    struct peer_stream *st = &p->streams[i];
    assert_true(i < p->count);
    peer_add(&st->reply, bytes, n);
    if (status != NULL)
        snprintf(st->trailer, sizeof(st->trailer), "%s", status);
    push(p, st);
}

void peer_answer(struct peer *p, size_t i, const void *bytes, size_t n, const char *status,
                 const char *text)
{
    struct peer_bytes b = {0};
    const uint8_t prefix[5] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                               (uint8_t)n};
    assert_true(i < p->count);
    if (text != NULL)
        snprintf(p->streams[i].text, sizeof(p->streams[i].text), "%s", text);
    peer_add(&b, prefix, 5);
    peer_add(&b, bytes, n);
    peer_answer_raw(p, i, b.at, b.size, status);
    free(b.at);
}

void peer_refuse(struct peer *p, size_t i, const char *http_status, const char *type,
                 const char *status, const char *text)
{
    nghttp2_nv nv[4];
    size_t n = 0;
    assert_true(i < p->count);
    nv[n++] = header(":status", http_status);
    if (type != NULL)
        nv[n++] = header("content-type", type);
    if (status != NULL)
        nv[n++] = header("grpc-status", status);
    if (text != NULL)
        nv[n++] = header("grpc-message", text);
    assert_int_equal(nghttp2_submit_response(p->server, p->streams[i].id, nv, n, NULL), 0);
}

/* ---- Calls ------------------------------------------------------------------------------- */

static void on_message(void *arg, const uint8_t *bytes, size_t n)
{
    struct told *t = arg;
    assert_int_equal(t->ends, 0);
    t->messages++;
    t->last.size = 0;
    peer_add(&t->last, bytes, n);
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
        peer_add(&t->last, end->bytes, end->n);
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
    struct rt_grpc_ask ask = {.path = "/etcdserverpb.KV/Txn", .timeout_ms = 4987};
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
