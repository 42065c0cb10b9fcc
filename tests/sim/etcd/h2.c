/* SPDX-License-Identifier: Apache-2.0 */
/* The server's half of gRPC over HTTP/2. */
#include "sim/etcd/h2.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX 5

static void add(struct es_bytes *b, const void *bytes, size_t n)
{
    if (b->room - b->n < n) {
        b->room = (b->n + n) * 2;
        b->at = realloc(b->at, b->room);
        assert(b->at != NULL);
    }
    if (n > 0)
        memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

static void drop_first(struct es_bytes *b, size_t n)
{
    b->n -= n;
    if (b->n > 0)
        memmove(b->at, b->at + n, b->n);
}

/* ---- Calls -------------------------------------------------------------- */

void es_rpc_keep(struct es_rpc *rpc)
{
    rpc->refs++;
}

void es_rpc_drop(struct es_rpc *rpc)
{
    if (--rpc->refs > 0)
        return;
    free(rpc->in.at);
    free(rpc->out.at);
    free(rpc);
}

static struct es_rpc *find(const struct es_h2 *h, int32_t id)
{
    struct es_rpc *rpc = h->rpcs;
    while (rpc != NULL && rpc->id != id)
        rpc = rpc->next;
    return rpc;
}

static void end(struct es_rpc *rpc)
{
    struct es_h2 *h = rpc->h2;
    struct es_rpc **at = &h->rpcs;
    while (*at != rpc)
        at = &(*at)->next;
    *at = rpc->next;
    h->user->gone(rpc);
    rpc->h2 = NULL;
    es_rpc_drop(rpc);
}

/* ---- Ears --------------------------------------------------------------- */

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
    struct es_h2 *h = arg;
    (void)s;
    if (find(h, frame->hd.stream_id) != NULL)
        return 0;
    struct es_rpc *rpc = calloc(1, sizeof(*rpc));
    assert(rpc != NULL);
    *rpc = (struct es_rpc){.next = h->rpcs, .h2 = h, .refs = 1, .id = frame->hd.stream_id};
    h->rpcs = rpc;
    return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t size, uint8_t flags, void *arg)
{
    struct es_rpc *rpc = find(arg, frame->hd.stream_id);
    (void)s;
    (void)flags;
    if (rpc != NULL && name_size == 5 && memcmp(name, ":path", 5) == 0)
        snprintf(rpc->path, sizeof(rpc->path), "%.*s", (int)size, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
                   void *arg)
{
    struct es_rpc *rpc = find(arg, id);
    (void)s;
    (void)flags;
    if (rpc == NULL)
        return 0;
    add(&rpc->in, bytes, n);
    es_rpc_keep(rpc);
    while (rpc->h2 != NULL && rpc->in.n >= PREFIX) {
        const uint8_t *p = rpc->in.at;
        size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | (size_t)p[4];
        if (rpc->in.n < PREFIX + size)
            break;
        rpc->h2->user->message(rpc, p + PREFIX, size);
        drop_first(&rpc->in, PREFIX + size);
    }
    es_rpc_drop(rpc);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t error_code, void *arg)
{
    struct es_rpc *rpc = find(arg, id);
    (void)s;
    (void)error_code;
    if (rpc != NULL)
        end(rpc);
    return 0;
}

/* ---- Mouth -------------------------------------------------------------- */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_out(nghttp2_session *s, int32_t id, uint8_t *buffer, size_t room,
                        uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct es_rpc *rpc = source->ptr;
    size_t n = rpc->out.n < room ? rpc->out.n : room;
    (void)arg;
    if (n == 0 && rpc->status[0] == '\0') {
        rpc->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0)
        memcpy(buffer, rpc->out.at, n);
    drop_first(&rpc->out, n);
    if (rpc->out.n > 0 || rpc->status[0] == '\0')
        return (ssize_t)n;
    nghttp2_nv nv[] = {header("grpc-status", rpc->status), header("grpc-message", rpc->text)};
    int rv = nghttp2_submit_trailer(s, id, nv, rpc->text[0] != '\0' ? 2 : 1);
    assert(rv == 0);
    (void)rv;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return (ssize_t)n;
}

static void flush(struct es_h2 *h)
{
    const uint8_t *bytes;
    struct es_bytes all = {0};
    ssize_t n;
    while ((n = nghttp2_session_mem_send(h->session, &bytes)) > 0)
        add(&all, bytes, (size_t)n);
    assert(n == 0);
    if (all.n > 0)
        h->user->write(h, all.at, all.n);
    free(all.at);
}

static void push(struct es_rpc *rpc)
{
    nghttp2_session *session = rpc->h2->session;
    int rv = 0;
    if (rpc->deferred) {
        rpc->deferred = false;
        rv = nghttp2_session_resume_data(session, rpc->id);
    } else if (!rpc->answers) {
        nghttp2_nv nv[] = {header(":status", "200"), header("content-type", "application/grpc")};
        nghttp2_data_provider source = {{.ptr = rpc}, read_out};
        rpc->answers = true;
        rv = nghttp2_submit_response(session, rpc->id, nv, 2, &source);
    }
    assert(rv == 0);
    (void)rv;
    flush(rpc->h2);
}

void es_rpc_send(struct es_rpc *rpc, const uint8_t *bytes, size_t n)
{
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                    (uint8_t)n};
    if (rpc->h2 == NULL || rpc->status[0] != '\0')
        return;
    add(&rpc->out, prefix, sizeof(prefix));
    add(&rpc->out, bytes, n);
    push(rpc);
}

void es_rpc_end(struct es_rpc *rpc, uint32_t status, const char *text)
{
    if (rpc->h2 == NULL || rpc->status[0] != '\0')
        return;
    snprintf(rpc->status, sizeof(rpc->status), "%u", status);
    snprintf(rpc->text, sizeof(rpc->text), "%s", text);
    push(rpc);
}

/* ---- Connections -------------------------------------------------------- */

bool es_h2_feed(struct es_h2 *h, const void *bytes, size_t n)
{
    ssize_t used = nghttp2_session_mem_recv(h->session, bytes, n);
    if (used == (ssize_t)n)
        flush(h);
    return used == (ssize_t)n;
}

void es_h2_open(struct es_h2 *h, const struct es_h2_user *user, void *arg)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384}};
    nghttp2_session_callbacks *cb;
    int rv = nghttp2_session_callbacks_new(&cb);
    assert(rv == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    *h = (struct es_h2){.user = user, .arg = arg};
    rv = nghttp2_session_server_new(&h->session, cb, h);
    assert(rv == 0);
    nghttp2_session_callbacks_del(cb);
    rv = nghttp2_submit_settings(h->session, 0, settings, 1);
    assert(rv == 0);
    (void)rv;
}

void es_h2_close(struct es_h2 *h)
{
    while (h->rpcs != NULL)
        end(h->rpcs);
    nghttp2_session_del(h->session);
    h->session = NULL;
}
