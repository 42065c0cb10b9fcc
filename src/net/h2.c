/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP/2 connection under the calls: nghttp2's session, and what it tells.
 *
 * nghttp2 bounds what a block of headers may have (64 KiB a header, 8 CONTINUATION frames), what it
 * owes in acknowledgements (1000 in one feed) and settings (32); the rest is bounded in grpc_message.c. A
 * violation makes it queue a GOAWAY of ours, and the connection is over when that has been written. */
#include "net/h2.h"

#include "base/alloc.h"
#include "base/list.h"

#include <assert.h>
#include <rota.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Ids are 31 bits and never used again; before they run out the connection is left, with enough of
 * them for all calls that wait. */
#define LAST_NEW_ID (0x7fffffff - 4 * (uint32_t)RT_GRPC_CALLS_MAX)

void rt_h2_fail(struct rt_grpc *g, int err, const char *why, ...)
{
    va_list args;
    if (g->err != 0)
        return;
    g->err = err;
    va_start(args, why);
    vsnprintf(g->why, sizeof(g->why), why, args);
    va_end(args);
}

static void fail_by(struct rt_grpc *g, ssize_t error)
{
    if (error == NGHTTP2_ERR_NOMEM)
        rt_h2_fail(g, ROTA_NOMEM, "out of memory");
    else if (!g->greeted)
        rt_h2_fail(g, ROTA_PROTOCOL, "it does not speak HTTP/2");
    else
        rt_h2_fail(g, ROTA_PROTOCOL, "HTTP/2: %s", nghttp2_strerror((int)error));
}

/* ---- The heap ---------------------------------------------------------------------------------- */

/* HPACK's table has copies of the headers, tokens too, and nghttp2 does not say how large what it frees is. */
struct block {
    size_t size;
    _Alignas(max_align_t) unsigned char bytes[];
};

static struct block *block_of(void *p)
{
    return (struct block *)(void *)((unsigned char *)p - offsetof(struct block, bytes));
}

static void *h2_malloc(size_t size, void *arg)
{
    struct block *b = rt_alloc(sizeof(*b) + size);
    (void)arg;
    if (b == NULL)
        return NULL;
    b->size = size;
    return b->bytes;
}

static void *h2_calloc(size_t n, size_t size, void *arg)
{
    assert(size == 0 || n <= SIZE_MAX / size);
    return h2_malloc(n * size, arg);
}

static void h2_free(void *p, void *arg)
{
    (void)arg;
    if (p != NULL)
        rt_free_wiped(block_of(p), sizeof(struct block) + block_of(p)->size);
}

static void *h2_realloc(void *p, size_t size, void *arg)
{
    if (p == NULL)
        return h2_malloc(size, arg);
    struct block *b = block_of(p);
    b = rt_realloc_wiped(b, sizeof(*b) + b->size, sizeof(*b) + size);
    if (b == NULL)
        return NULL;
    b->size = size;
    return b->bytes;
}

/* ---- Out --------------------------------------------------------------------------------------- */

static void pump(struct rt_grpc *g)
{
    const uint8_t *bytes;
    while (g->err == 0 && !g->closed) {
        rt_grpc_begin_waiting(g);
        ssize_t n = nghttp2_session_mem_send(g->session, &bytes);
        if (n < 0)
            fail_by(g, n);
        if (n <= 0)
            break;
        int rv = g->user->write(g->arg, bytes, (size_t)n);
        if (rv != 0)
            rt_h2_fail(g, rv, "it cannot be written to");
    }
}

void rt_h2_flush(struct rt_grpc *g)
{
    if (g->depth == 0)
        pump(g);
}

void rt_h2_reset(struct rt_grpc *g, int32_t stream_id, uint32_t error_code)
{
    int rv = nghttp2_submit_rst_stream(g->session, NGHTTP2_FLAG_NONE, stream_id, error_code);
    if (rv != 0)
        fail_by(g, rv);
}

void rt_grpc_ping(struct rt_grpc *g)
{
    if (g->err != 0 || g->closed)
        return;
    int rv = nghttp2_submit_ping(g->session, NGHTTP2_FLAG_NONE, NULL);
    if (rv != 0)
        fail_by(g, rv);
    rt_h2_flush(g);
}

/* ---- Pings of the server ------------------------------------------------------------------------ */

/* Go's gRPC sends this one after each request, to estimate bandwidth, and no other until it was answered: to
 * answer at once would wake us twice for each call. So it is answered now and then, with a call of ours; all
 * other pings at once. */
static const uint8_t estimate[8] = {2, 4, 16, 16, 9, 14, 7, 7};
#define CALLS_PER_ESTIMATE 64

static int acknowledge(struct rt_grpc *g, const uint8_t *data)
{
    int rv = nghttp2_submit_ping(g->session, NGHTTP2_FLAG_ACK, data);
    if (rv != 0)
        fail_by(g, rv); /* a flood of them */
    return rv == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_ping(struct rt_grpc *g, const nghttp2_ping *ping)
{
    if (ping->hd.flags & NGHTTP2_FLAG_ACK)
        return 0;
    if (g->owed > 0 || memcmp(ping->opaque_data, estimate, sizeof(estimate)) != 0)
        return acknowledge(g, ping->opaque_data);
    g->owed = CALLS_PER_ESTIMATE;
    return 0;
}

void rt_h2_settle(struct rt_grpc *g)
{
    if (g->owed > 0 && --g->owed == 0)
        (void)acknowledge(g, estimate);
}

/* Our own GOAWAY has been written: the server did something illegal. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct rt_grpc *g = arg;
    (void)session;
    if (frame->hd.type != NGHTTP2_GOAWAY || frame->goaway.error_code == NGHTTP2_NO_ERROR)
        return 0;
    char said[128];
    rt_grpc_text(said, sizeof(said), frame->goaway.opaque_data, frame->goaway.opaque_data_len);
    if (!g->greeted)
        rt_h2_fail(g, ROTA_PROTOCOL, "it does not speak HTTP/2");
    else
        rt_h2_fail(g, ROTA_PROTOCOL, "HTTP/2: %s%s%s",
                   nghttp2_http2_strerror(frame->goaway.error_code), said[0] != '\0' ? ": " : "",
                   said);
    return 0;
}

/* ---- In ---------------------------------------------------------------------------------------- */

/* NULL: none of ours, or nothing of it counts any more. */
static struct rt_grpc_call *open_call(nghttp2_session *session, int32_t stream_id)
{
    struct rt_grpc_call *c = nghttp2_session_get_stream_user_data(session, stream_id);
    return c != NULL && !c->told ? c : NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t size, uint8_t flags, void *arg)
{
    struct rt_grpc_call *c = open_call(session, frame->hd.stream_id);
    (void)flags;
    (void)arg;
    if (c != NULL)
        rt_grpc_take_header(c, name, name_size, value, size);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t n, void *arg)
{
    struct rt_grpc_call *c = open_call(session, stream_id);
    struct rt_grpc *g = arg;
    (void)flags;
    if (c != NULL)
        rt_grpc_take(c, bytes, n);
    return g->closed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void leave(struct rt_grpc *g, const char *why)
{
    if (g->leaving)
        return;
    g->leaving = true;
    snprintf(g->why, sizeof(g->why), "%s", why);
    if (g->user->leaving != NULL)
        g->user->leaving(g->arg);
}

static void on_goaway(struct rt_grpc *g, const nghttp2_goaway *frame)
{
    char said[128], why[RT_GRPC_TEXT_MAX];
    rt_grpc_text(said, sizeof(said), frame->opaque_data, frame->opaque_data_len);
    snprintf(why, sizeof(why), "the server is going away (%s%s%s)",
             nghttp2_http2_strerror(frame->error_code), said[0] != '\0' ? ": " : "", said);
    leave(g, why);
    while (!RT_RING_EMPTY(&g->waiting)) { /* these can never begin */
        struct rt_grpc_call *c = (struct rt_grpc_call *)(void *)g->waiting.next;
        rt_grpc_finish(c, NGHTTP2_REFUSED_STREAM);
        rt_grpc_gone(c);
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct rt_grpc *g = arg;
    struct rt_grpc_call *c;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        g->greeted = true;
        break;
    case NGHTTP2_GOAWAY:
        on_goaway(g, &frame->goaway);
        break;
    case NGHTTP2_PING:
        if (on_ping(g, &frame->ping) != 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        c = open_call(session, frame->hd.stream_id);
        if (c == NULL || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
            break;
        /* The server needs nothing more from us, even if we still had something to say. */
        if (nghttp2_session_get_stream_local_close(session, frame->hd.stream_id) == 0)
            rt_h2_reset(g, frame->hd.stream_id, NGHTTP2_CANCEL);
        rt_grpc_finish(c, NGHTTP2_NO_ERROR);
        break;
    default:
        break;
    }
    return g->closed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *arg)
{
    struct rt_grpc *g = arg;
    struct rt_grpc_call *c = nghttp2_session_get_stream_user_data(session, stream_id);
    if (c == NULL)
        return 0;
    if (!c->told && g->depth == 0) { /* while something is written: nobody may be called now */
        rt_h2_fail(g, ROTA_INTERNAL, "a call could not be sent");
        return 0;
    }
    rt_grpc_finish(c, error_code);
    rt_grpc_gone(c);
    return g->closed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* A server that went away has ended all calls it knew; or our GOAWAY is written. */
static void look_for_end(struct rt_grpc *g)
{
    if (g->err != 0 || g->closed)
        return;
    if (nghttp2_session_get_next_stream_id(g->session) > LAST_NEW_ID)
        leave(g, "the connection has had too many calls");
    if (!nghttp2_session_want_read(g->session) && !nghttp2_session_want_write(g->session))
        rt_h2_fail(g, ROTA_UNREACHABLE, "%s",
                   g->leaving ? "the server has gone away" : "it is over");
}

static void destroy(struct rt_grpc *g)
{
    nghttp2_session_del(g->session);
    rt_grpc_drop_all(g);
    rt_free(g);
}

/* HTTP/2 begins with a SETTINGS frame of less than 64 KiB: so other protocols are found out by their
 * first four bytes, even if they say no more. */
static bool begins_well(struct rt_grpc *g, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n && g->first < 4; i++, g->first++) {
        if (g->first == 0 && bytes[i] == 0x15) /* an alert */
            rt_h2_fail(g, ROTA_PROTOCOL, "it speaks TLS");
        else if ((g->first == 0 && bytes[i] != 0) ||
                 (g->first == 3 && bytes[i] != NGHTTP2_SETTINGS))
            rt_h2_fail(g, ROTA_PROTOCOL, "it does not speak HTTP/2");
    }
    return g->err == 0;
}

int rt_grpc_feed(struct rt_grpc *g, const void *bytes, size_t n)
{
    assert(g->depth == 0 && !g->closed);
    if (g->err != 0 || !begins_well(g, bytes, n))
        return g->err;
    g->depth++;
    ssize_t used = nghttp2_session_mem_recv(g->session, bytes, n);
    if (used < 0 && !g->closed)
        fail_by(g, used);
    pump(g);
    look_for_end(g);
    g->depth--;
    if (!g->closed)
        return g->err;
    destroy(g);
    return ROTA_CLOSED;
}

void rt_grpc_down(struct rt_grpc *g, int err, const char *why)
{
    assert(g->depth == 0 && !g->closed);
    rt_h2_fail(g, err, "%s", why);
    g->depth++;
    rt_grpc_end_all(g, err, why);
    g->depth--;
    if (g->closed)
        destroy(g);
}

/* ---- Its life ---------------------------------------------------------------------------------- */

static int new_session(struct rt_grpc *g)
{
    static const nghttp2_mem mem = {NULL, h2_malloc, h2_free, h2_calloc, h2_realloc};
    nghttp2_mem heap = mem;
    nghttp2_session_callbacks *callbacks; /* these come from libc, and go back at once */
    nghttp2_option *option;
    int rv = nghttp2_session_callbacks_new(&callbacks);
    if (rv != 0)
        return ROTA_NOMEM;
    rv = nghttp2_option_new(&option);
    if (rv != 0)
        goto callbacks;
    nghttp2_option_set_no_auto_ping_ack(option, 1);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    rv = nghttp2_session_client_new3(&g->session, callbacks, g, option, &heap);
    nghttp2_option_del(option);
callbacks:
    nghttp2_session_callbacks_del(callbacks);
    return rv == 0 ? 0 : ROTA_NOMEM;
}

static int greet(struct rt_grpc *g)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, RT_GRPC_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RT_GRPC_HEADERS_MAX},
    };
    if (nghttp2_submit_settings(g->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof(settings) / sizeof(settings[0])) != 0 ||
        nghttp2_session_set_local_window_size(g->session, NGHTTP2_FLAG_NONE, 0, RT_GRPC_WINDOW) !=
            0)
        return ROTA_NOMEM;
    pump(g);
    return g->err;
}

int rt_grpc_open(struct rt_grpc **out, const char *authority, bool tls,
                 const struct rt_grpc_user *user, void *arg)
{
    size_t size = strlen(authority) + 1;
    struct rt_grpc *g = rt_alloc(sizeof(*g) + size);
    if (g == NULL)
        return ROTA_NOMEM;
    g->user = user;
    g->arg = arg;
    g->tls = tls;
    memcpy(g->authority, authority, size);
    RT_RING_INIT(&g->waiting);
    RT_RING_INIT(&g->active);
    RT_RING_INIT(&g->spare);
    int rv = new_session(g);
    if (rv != 0)
        goto free_it;
    rv = greet(g);
    if (rv != 0)
        goto delete_session;
    *out = g;
    return 0;
delete_session:
    nghttp2_session_del(g->session);
free_it:
    rt_free(g);
    return rv;
}

void rt_grpc_close(struct rt_grpc *g)
{
    if (g == NULL)
        return;
    if (g->depth == 0) {
        destroy(g);
        return;
    }
    g->closed = true; /* whoever called the callback gives it back */
    rt_grpc_silence_all(g);
}

int rt_grpc_err(const struct rt_grpc *g)
{
    return g->err;
}

const char *rt_grpc_why(const struct rt_grpc *g)
{
    return g->why;
}
