/* SPDX-License-Identifier: Apache-2.0 */
/* The server's half of gRPC over HTTP/2. */
#include "lib/grpc_server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX 5 /* bytes before each message: whether it is compressed, its size */

void grpc_bytes_add(struct grpc_bytes *b, const void *bytes, size_t n)
{
    if (b->room - b->size < n) {
        b->room = (b->size + n) * 2;
        b->at = realloc(b->at, b->room);
        assert(b->at != NULL);
    }
    if (n > 0)
        memcpy(b->at + b->size, bytes, n);
    b->size += n;
}

void grpc_bytes_drop(struct grpc_bytes *b, size_t n)
{
    assert(n <= b->size);
    b->size -= n;
    if (b->size > 0)
        memmove(b->at, b->at + n, b->size);
}

/* ---- Calls -------------------------------------------------------------- */

void grpc_call_keep(struct grpc_call *c)
{
    c->refs++;
}

void grpc_call_drop(struct grpc_call *c)
{
    if (--c->refs > 0)
        return;
    free(c->in.at);
    free(c->out.at);
    free(c);
}

static struct grpc_call *find(const struct grpc_server *s, int32_t id)
{
    struct grpc_call *c = s->calls;
    while (c != NULL && c->id != id)
        c = c->next;
    return c;
}

static void end(struct grpc_call *c)
{
    struct grpc_server *s = c->server;
    struct grpc_call **at = &s->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (s->user->gone != NULL)
        s->user->gone(c);
    c->server = NULL;
    grpc_call_drop(c);
}

/* ---- Ears --------------------------------------------------------------- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_server *s = arg;
    (void)session;
    if (find(s, frame->hd.stream_id) != NULL)
        return 0;
    struct grpc_call *c = calloc(1, sizeof(*c));
    assert(c != NULL);
    *c = (struct grpc_call){.next = s->calls, .server = s, .refs = 1, .id = frame->hd.stream_id};
    s->calls = c;
    if (s->user->begun != NULL)
        s->user->begun(c);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t size, uint8_t flags, void *arg)
{
    struct grpc_call *c = find(arg, frame->hd.stream_id);
    (void)session;
    (void)flags;
    (void)name_size;
    if (c == NULL)
        return 0;
    const struct {
        const char *name;
        char *at;
        size_t room;
    } kept[] = {{":path", c->path, sizeof(c->path)},
                {"token", c->token, sizeof(c->token)},
                {"hasleader", c->leader, sizeof(c->leader)}};
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (strcmp((const char *)name, kept[i].name) == 0)
            snprintf(kept[i].at, kept[i].room, "%.*s", (int)size, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *arg)
{
    struct grpc_call *c = find(arg, id);
    (void)session;
    (void)flags;
    if (c == NULL)
        return 0;
    grpc_bytes_add(&c->in, bytes, n);
    if (c->server->user->message == NULL)
        return 0;
    grpc_call_keep(c);
    while (c->server != NULL && c->in.size >= PREFIX) {
        const uint8_t *p = c->in.at;
        size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | (size_t)p[4];
        if (c->in.size < PREFIX + size)
            break;
        c->server->user->message(c, p + PREFIX, size);
        grpc_bytes_drop(&c->in, PREFIX + size);
    }
    grpc_call_drop(c);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_call *c = find(arg, frame->hd.stream_id);
    (void)session;
    if (c != NULL && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        c->ended = true;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *arg)
{
    struct grpc_call *c = find(arg, id);
    (void)session;
    if (c != NULL) {
        c->error_code = error_code;
        end(c);
    }
    return 0;
}

/* ---- Mouth -------------------------------------------------------------- */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* What nghttp2 refuses here is a mistake of whoever plays the server. */
static void must(int rv)
{
    assert(rv == 0);
    (void)rv;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room,
                        uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc_call *c = source->ptr;
    size_t n = c->out.size < room ? c->out.size : room;
    (void)arg;
    if (n == 0 && c->status[0] == '\0') {
        c->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0)
        memcpy(buffer, c->out.at, n);
    grpc_bytes_drop(&c->out, n);
    if (c->out.size > 0 || c->status[0] == '\0')
        return (ssize_t)n;
    nghttp2_nv nv[] = {header("grpc-status", c->status), header("grpc-message", c->text)};
    must(nghttp2_submit_trailer(session, id, nv, c->text[0] != '\0' ? 2 : 1));
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return (ssize_t)n;
}

size_t grpc_server_says(struct grpc_server *s, struct grpc_bytes *out)
{
    const uint8_t *bytes;
    size_t before = out->size;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(s->session, &bytes)) > 0)
        grpc_bytes_add(out, bytes, (size_t)n);
    assert(n == 0);
    return out->size - before;
}

static void flush(struct grpc_server *s)
{
    struct grpc_bytes all = {0};
    if (s->user->write == NULL)
        return;
    if (grpc_server_says(s, &all) > 0)
        s->user->write(s, all.at, all.size);
    free(all.at);
}

static void push(struct grpc_call *c)
{
    nghttp2_session *session = c->server->session;
    if (c->deferred) {
        c->deferred = false;
        must(nghttp2_session_resume_data(session, c->id));
    } else if (!c->answers) { /* else what was added will be asked for */
        nghttp2_nv nv[] = {header(":status", "200"), header("content-type", "application/grpc")};
        nghttp2_data_provider source = {{.ptr = c}, read_out};
        c->answers = true;
        must(nghttp2_submit_response(session, c->id, nv, 2, &source));
    }
    flush(c->server);
}

static bool is_over(const struct grpc_call *c)
{
    return c->server == NULL || c->status[0] != '\0';
}

void grpc_call_send_raw(struct grpc_call *c, const void *bytes, size_t n)
{
    if (is_over(c))
        return;
    grpc_bytes_add(&c->out, bytes, n);
    push(c);
}

void grpc_call_send(struct grpc_call *c, const void *bytes, size_t n)
{
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                    (uint8_t)n};
    if (is_over(c))
        return;
    grpc_bytes_add(&c->out, prefix, sizeof(prefix));
    grpc_bytes_add(&c->out, bytes, n);
    push(c);
}

void grpc_call_end(struct grpc_call *c, const char *status, const char *text)
{
    if (is_over(c))
        return;
    snprintf(c->status, sizeof(c->status), "%s", status);
    snprintf(c->text, sizeof(c->text), "%s", text);
    push(c);
}

void grpc_call_refuse(struct grpc_call *c, const char *http_status, const char *type,
                      const char *status, const char *text)
{
    const char *const names[] = {"content-type", "grpc-status", "grpc-message"};
    const char *const values[] = {type, status, text};
    nghttp2_nv nv[4] = {header(":status", http_status)};
    size_t n = 1;
    if (is_over(c))
        return;
    for (size_t i = 0; i < 3; i++)
        if (values[i] != NULL)
            nv[n++] = header(names[i], values[i]);
    must(nghttp2_submit_response(c->server->session, c->id, nv, n, NULL));
    flush(c->server);
}

/* ---- Connections -------------------------------------------------------- */

bool grpc_server_feed(struct grpc_server *s, const void *bytes, size_t n)
{
    ssize_t used = nghttp2_session_mem_recv(s->session, bytes, n);
    if (used == (ssize_t)n)
        flush(s);
    return used == (ssize_t)n;
}

void grpc_server_open(struct grpc_server *s, const struct grpc_server_user *user, void *arg)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384}};
    nghttp2_session_callbacks *cb;
    must(nghttp2_session_callbacks_new(&cb));
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    *s = (struct grpc_server){.user = user, .arg = arg};
    must(nghttp2_session_server_new(&s->session, cb, s));
    nghttp2_session_callbacks_del(cb);
    must(nghttp2_submit_settings(s->session, 0, settings, 1));
}

void grpc_server_close(struct grpc_server *s)
{
    while (s->calls != NULL)
        end(s->calls);
    nghttp2_session_del(s->session);
    s->session = NULL;
}
