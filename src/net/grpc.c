/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: begun, sent, ended.
 *
 * A call's memory stays until nghttp2 has closed its stream, which may be later than its end; then
 * it is used for another one, so that a call costs no allocation of ours. */
#include "net/grpc.h"

#include "base/alloc.h"
#include "base/list.h"
#include "net/h2.h"

#include <assert.h>
#include <rota.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SPARES_KEPT 64
#define HEADERS 9

/* ---- Lists and memory -------------------------------------------------------------------------- */

static struct rt_grpc_call *first(struct rt_grpc_link *head)
{
    return !RT_RING_EMPTY(head) ? (struct rt_grpc_call *)(void *)head->next : NULL;
}

static void free_token(struct rt_grpc_call *c)
{
    rt_free_wiped(c->token, c->token != NULL ? strlen(c->token) : 0);
    c->token = NULL;
}

static void free_call(struct rt_grpc_call *c)
{
    rt_grpc_buffer_clear(&c->in, false);
    rt_grpc_buffer_clear(&c->out, false);
    free_token(c);
    rt_free(c);
}

static struct rt_grpc_call *new_call(struct rt_grpc *g)
{
    struct rt_grpc_call *c = first(&g->spare);
    if (c != NULL) {
        struct rt_grpc_buffer in = c->in, out = c->out;
        char *token = c->token;
        RT_RING_OUT(&c->link);
        g->spares--;
        *c = (struct rt_grpc_call){.in = in, .out = out, .token = token};
    } else {
        c = rt_alloc(sizeof(*c));
    }
    if (c != NULL)
        c->g = g;
    return c;
}

/* Only its buffers are of use from now on. */
static void spare_call(struct rt_grpc *g, struct rt_grpc_call *c)
{
    if (g->spares >= SPARES_KEPT) {
        free_call(c);
        return;
    }
    rt_grpc_buffer_clear(&c->in, true);
    rt_grpc_buffer_clear(&c->out, true);
    RT_RING_ADD(&g->spare, &c->link);
    g->spares++;
}

void rt_grpc_gone(struct rt_grpc_call *c)
{
    struct rt_grpc *g = c->g;
    assert(c->told && g->calls > 0);
    RT_RING_OUT(&c->link);
    g->calls--;
    if (c->stream_id != 0)
        g->on_wire--;
    g->kept -= c->in.end;
    spare_call(g, c);
}

static void drop_list(struct rt_grpc_link *head)
{
    struct rt_grpc_call *c;
    while ((c = first(head)) != NULL) {
        RT_RING_OUT(&c->link);
        free_call(c);
    }
}

void rt_grpc_drop_all(struct rt_grpc *g)
{
    drop_list(&g->waiting);
    drop_list(&g->active);
    drop_list(&g->spare);
}

/* ---- The end ----------------------------------------------------------------------------------- */

const char *rt_grpc_said(const struct rt_grpc_end *end)
{
    return end->message[0] != '\0' ? end->message : rt_grpc_status_name(end->status);
}

static void say(struct rt_grpc_call *c, struct rt_grpc_end *end, uint32_t status, const char *text)
{
    snprintf(c->text, sizeof(c->text), "%s", text);
    end->status = status;
    end->verdict = rt_grpc_judge(status);
}

static void end_without_status(struct rt_grpc_call *c, struct rt_grpc_end *end, uint32_t error_code)
{
    char text[64];
    if (c->http_status != 0 && c->http_status != 200) {
        snprintf(text, sizeof(text), "HTTP status %d", c->http_status);
        say(c, end, rt_grpc_status_of_http(c->http_status), text);
    } else if (c->http_status == 200 && !c->is_grpc) {
        say(c, end, RT_GRPC_UNKNOWN, "it does not speak gRPC");
    } else if (error_code == NGHTTP2_NO_ERROR) {
        say(c, end, RT_GRPC_INTERNAL, "it ended without a status");
    } else {
        snprintf(text, sizeof(text), "HTTP/2: %s", nghttp2_http2_strerror(error_code));
        say(c, end, rt_grpc_status_of_h2(error_code), text);
    }
    if (error_code == NGHTTP2_REFUSED_STREAM) /* RFC 9113, 8.7: nothing was done */
        end->verdict.fate = RT_GRPC_NOT_DONE;
}

/* A status of 0 is believed only together with what it speaks of. */
static void end_well(struct rt_grpc_call *c, struct rt_grpc_end *end)
{
    if (c->in_message || c->prefix_size > 0) {
        say(c, end, RT_GRPC_INTERNAL, "the answer is cut short");
    } else if (c->ask.message == NULL && !c->answered) {
        say(c, end, RT_GRPC_INTERNAL, "there is no answer");
    } else {
        end->bytes = c->in.at;
        end->n = c->in.end;
    }
}

void rt_grpc_finish(struct rt_grpc_call *c, uint32_t error_code)
{
    struct rt_grpc_end end = {.message = c->text, .status = c->status};
    if (c->told)
        return;
    c->told = true;
    if (c->err != 0) {
        end.verdict = (struct rt_grpc_verdict){c->err, RT_GRPC_MAYBE, c->reason,
                                               c->reason != RT_GRPC_TOO_LARGE};
    } else if (c->has_status) {
        end.verdict = c->g->user->judge != NULL ? c->g->user->judge(c->status, c->text)
                                                : rt_grpc_judge(c->status);
        if (c->status == RT_GRPC_OK)
            end_well(c, &end);
    } else {
        end_without_status(c, &end, error_code);
    }
    if (!c->sent && end.verdict.fate == RT_GRPC_MAYBE)
        end.verdict.fate = RT_GRPC_NOT_DONE;
    c->ask.end(c->ask.arg, &end);
}

void rt_grpc_refuse(struct rt_grpc_call *c, uint32_t status, const char *why, ...)
{
    va_list args;
    if (c->told)
        return;
    va_start(args, why);
    vsnprintf(c->text, sizeof(c->text), why, args);
    va_end(args);
    c->status = status;
    if (c->err == 0)
        c->err = ROTA_PROTOCOL;
    rt_h2_reset(c->g, c->stream_id, NGHTTP2_CANCEL);
    rt_grpc_finish(c, NGHTTP2_CANCEL);
}

static void end_list(struct rt_grpc_link *head, int err, const char *why)
{
    struct rt_grpc_call *c;
    while ((c = first(head)) != NULL) {
        snprintf(c->text, sizeof(c->text), "%s", why);
        c->status = RT_GRPC_UNAVAILABLE;
        c->err = err;
        rt_grpc_finish(c, NGHTTP2_NO_ERROR);
        rt_grpc_gone(c);
    }
}

void rt_grpc_end_all(struct rt_grpc *g, int err, const char *why)
{
    end_list(&g->waiting, err, why);
    end_list(&g->active, err, why);
}

void rt_grpc_silence_all(struct rt_grpc *g)
{
    for (struct rt_grpc_link *l = g->waiting.next; l != &g->waiting; l = l->next)
        ((struct rt_grpc_call *)(void *)l)->told = true;
    for (struct rt_grpc_link *l = g->active.next; l != &g->active; l = l->next)
        ((struct rt_grpc_call *)(void *)l)->told = true;
}

/* ---- Out --------------------------------------------------------------------------------------- */

ssize_t rt_grpc_read_out(nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct rt_grpc_call *c = source->ptr;
    size_t n = c->out.end - c->out.begin;
    (void)session;
    (void)stream_id;
    (void)arg;
    if (n == 0 && c->ask.message != NULL) {
        c->starved = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    n = n < room ? n : room;
    memcpy(buf, c->out.at + c->out.begin, n);
    c->out.begin += n;
    if (c->out.begin < c->out.end)
        return (ssize_t)n;
    c->sent = true; /* if writing it fails, the server may have it or not */
    rt_grpc_buffer_clear(&c->out, true);
    if (c->ask.message == NULL)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void add_header(nghttp2_nv *nv, size_t *count, const char *name, const char *value)
{
    assert(*count < HEADERS);
    union { /* nghttp2 does not write to what it is told not to copy */
        const char *text;
        uint8_t *bytes;
    } n = {name}, v = {value};
    nv[(*count)++] = (nghttp2_nv){n.bytes, v.bytes, strlen(name), strlen(value),
                                  NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static size_t make_headers(struct rt_grpc_call *c, nghttp2_nv *nv)
{
    size_t n = 0;
    add_header(nv, &n, ":method", "POST");
    add_header(nv, &n, ":scheme", c->g->tls ? "https" : "http");
    add_header(nv, &n, ":path", c->ask.path);
    add_header(nv, &n, ":authority", c->g->authority);
    add_header(nv, &n, "te", "trailers");
    add_header(nv, &n, "content-type", "application/grpc");
    add_header(nv, &n, "user-agent", "rota/" ROTA_VERSION);
    if (c->ask.token != NULL)
        add_header(nv, &n, "token", c->ask.token);
    if (c->ask.flag != NULL)
        add_header(nv, &n, c->ask.flag, "true");
    return n;
}

void rt_grpc_begin_waiting(struct rt_grpc *g)
{
    struct rt_grpc_call *c;
    nghttp2_nv nv[HEADERS];
    uint32_t most = nghttp2_session_get_remote_settings(g->session,
                                                        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    while (g->on_wire < most && (c = first(&g->waiting)) != NULL) {
        nghttp2_data_provider source = {{.ptr = c}, rt_grpc_read_out};
        int32_t id = nghttp2_submit_request(g->session, NULL, nv, make_headers(c, nv), &source, c);
        if (id < 0) {
            rt_h2_fail(g, id == NGHTTP2_ERR_NOMEM ? ROTA_NOMEM : ROTA_UNREACHABLE, "HTTP/2: %s",
                       nghttp2_strerror(id));
            return;
        }
        c->stream_id = id;
        g->on_wire++;
        rt_h2_settle(g);
        RT_RING_OUT(&c->link);
        RT_RING_ADD(&g->active, &c->link);
    }
}

/* All of the message, or nothing. */
static int put_message(struct rt_grpc_call *c, const void *bytes, size_t n)
{
    uint8_t prefix[RT_GRPC_PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                      (uint8_t)n};
    size_t before = c->out.end - c->out.begin;
    int rv = rt_grpc_buffer_add(&c->out, prefix, sizeof(prefix));
    if (rv == 0)
        rv = rt_grpc_buffer_add(&c->out, bytes, n);
    if (rv != 0)
        c->out.end = c->out.begin + before;
    return rv;
}

static int set_token(struct rt_grpc_call *c, const char *token)
{
    c->ask.token = NULL;
    if (token == NULL || token[0] == '\0')
        return 0;
    if (c->token == NULL || strcmp(c->token, token) != 0) { /* mostly that of the call before */
        free_token(c);
        c->token = rt_strdup(token);
    }
    c->ask.token = c->token;
    return c->token != NULL ? 0 : ROTA_NOMEM;
}

static int may_call(const struct rt_grpc *g, const struct rt_grpc_ask *ask, size_t n)
{
    if (g->closed)
        return ROTA_CLOSED;
    if (g->err != 0)
        return g->err;
    if (n > RT_GRPC_MESSAGE_MAX || (ask->token != NULL && strlen(ask->token) > RT_GRPC_TOKEN_MAX))
        return ROTA_INVALID;
    return g->leaving || g->calls >= RT_GRPC_CALLS_MAX ? ROTA_UNREACHABLE : 0;
}

int rt_grpc_call(struct rt_grpc *g, const struct rt_grpc_ask *ask, const void *bytes, size_t n,
                 struct rt_grpc_call **out)
{
    int rv = may_call(g, ask, n);
    struct rt_grpc_call *c = rv == 0 ? new_call(g) : NULL;
    if (c == NULL)
        return rv != 0 ? rv : ROTA_NOMEM;
    assert(ask->message != NULL || bytes != NULL);
    c->ask = *ask;
    rv = set_token(c, ask->token);
    if (rv == 0 && bytes != NULL)
        rv = put_message(c, bytes, n);
    if (rv != 0) {
        spare_call(g, c);
        return rv;
    }
    RT_RING_ADD(&g->waiting, &c->link);
    g->calls++;
    rt_h2_flush(g);
    if (g->err != 0 && !c->sent) {
        c->told = true; /* never to be: its memory goes with the connection */
        return g->err;
    }
    *out = c;
    return 0;
}

int rt_grpc_send(struct rt_grpc_call *c, const void *bytes, size_t n)
{
    struct rt_grpc *g = c->g;
    if (n > RT_GRPC_MESSAGE_MAX)
        return ROTA_INVALID;
    if (g->closed || c->told)
        return ROTA_UNREACHABLE;
    if (g->err != 0)
        return g->err;
    size_t unsent = c->out.end - c->out.begin;
    if (unsent > 0 && unsent + n > RT_GRPC_UNSENT_MAX)
        return ROTA_UNREACHABLE;
    int rv = put_message(c, bytes, n);
    if (rv != 0)
        return rv;
    if (c->starved) {
        c->starved = false;
        rv = nghttp2_session_resume_data(g->session, c->stream_id);
        if (rv != 0)
            rt_h2_fail(g, ROTA_NOMEM, "HTTP/2: %s", nghttp2_strerror(rv));
    }
    rt_h2_flush(g);
    return 0;
}

void rt_grpc_cancel(struct rt_grpc_call *c)
{
    struct rt_grpc *g = c->g;
    if (c->told) /* inside its own `end` */
        return;
    c->told = true;
    if (g->err != 0 || g->closed)
        return;
    if (c->stream_id == 0) {
        rt_grpc_gone(c);
        return;
    }
    rt_h2_reset(g, c->stream_id, NGHTTP2_CANCEL);
    rt_h2_flush(g);
}
