/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's framing for gRPC over HTTP/2: frames assembled into calls and messages.
 *
 * Frames of a call are collected until its END_STREAM and sent on together; on a long-lived stream,
 * whole messages are. So whatever a fault does to one of them, the rest stays legal. */
#include "proxy_etcd.h"
#include "proxy_frames.h"
#include "proxy_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX 5                /* of a message of gRPC */
#define FRAME_ABSURD (1u << 20) /* then it is something else */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const size_t part_max[2] = {32u << 10, 512u << 10}; /* half of the windows there are */

struct stream {
    struct stream *next;
    uint32_t id[2]; /* on the client's side [UP], on the server's; 0: that side does not know it */
    bool lasts;
    bool dropped; /* the server does not know of it */
    bool reset;   /* by the client: what still comes is passed on */
    char path[64], status[16];
    struct rt_buffer in[2]; /* frames of the call; or messages of a long-lived stream */
    size_t skip[2];         /* of a large message: what still passes unseen */
};

struct h2 {
    struct rt_unpacker unpacker[2];
    struct stream *streams;
    struct stream *more[2]; /* has another message */
    uint32_t last_id;       /* on the server's side */
    bool begun;
    struct rt_buffer out[2], made;
};

/* ---- Streams ------------------------------------------------------------ */

static struct stream *find(struct h2 *h, enum rt_proxy_dir side, uint32_t id)
{
    struct stream *s = h->streams;

    while (s != NULL && s->id[side] != id)
        s = s->next;
    return s;
}

static struct stream *new_stream(struct h2 *h, uint32_t client)
{
    struct stream *s = calloc(1, sizeof(*s));

    if (s == NULL)
        rt_proxy_die("calloc");
    s->id[RT_PROXY_UP] = client;
    s->next = h->streams;
    h->streams = s;
    return s;
}

static void free_stream(struct h2 *h, struct stream *s)
{
    struct stream **at = &h->streams;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s->in[0].at);
    free(s->in[1].at);
    free(s);
}

/* BYTES are the first frames of S that go up: it gets its number, which must be larger than all before
 * it. Otherwise does nothing. */
static void number(struct h2 *h, struct stream *s, enum rt_proxy_dir dir, struct rt_buffer *bytes)
{
    struct rt_frame f;

    if (dir == RT_PROXY_DOWN || s->id[RT_PROXY_DOWN] != 0)
        return;
    h->last_id += h->last_id == 0 ? 1 : 2;
    s->id[RT_PROXY_DOWN] = h->last_id;
    for (size_t at = 0; at < bytes->size && rt_frame_at(&f, bytes->at + at, bytes->size - at);
         at += f.whole)
        rt_frame_put32(bytes->at + at + 5, h->last_id);
}

/* What goes up has the server's number, what goes down the client's. */
static uint32_t id_for(const struct stream *s, enum rt_proxy_dir dir)
{
    return s->id[dir == RT_PROXY_UP ? RT_PROXY_DOWN : RT_PROXY_UP];
}

/* ---- What it says ------------------------------------------------------- */

static void say(const struct stream *s, const char *what, const char *text, size_t n,
                struct rt_proxy_message *msg)
{
    size_t len = (size_t)snprintf(msg->words, sizeof(msg->words), "%s %s%s#%u ", s->path, what,
                                  what[0] != '\0' ? " " : "", s->id[RT_PROXY_DOWN]);

    for (size_t i = 0; i < n && len + 1 < sizeof(msg->words); i++)
        msg->words[len++] = text[i] > ' ' && text[i] <= '~' ? text[i] : '.';
    msg->words[len] = '\0';
}

/* S sends OUT on as a message of this kind. */
static void tell(const struct rt_buffer *out, const struct stream *s, enum rt_message_kind kind,
                 struct rt_proxy_message *msg)
{
    msg->kind = kind;
    msg->channel = s->id[RT_PROXY_DOWN];
    msg->bytes = out->at;
    msg->size = out->size;
}

/* All frames of a call that have been collected. */
static void tell_call(struct h2 *h, struct stream *s, enum rt_proxy_dir dir,
                      struct rt_proxy_message *msg)
{
    struct rt_buffer *out = &h->out[dir];
    struct rt_etcd_gist gist = {0};
    const char *text = "";
    size_t n = 0;
    struct rt_frame f;

    rt_buffer_take(out, &s->in[dir]);
    number(h, s, dir, out);
    for (size_t at = 0; at < out->size && rt_frame_at(&f, out->at + at, out->size - at);
         at += f.whole) {
        if (f.type == NGHTTP2_DATA && f.size > PREFIX && n == 0) {
            text = f.data + RT_FRAME_HEAD + PREFIX;
            n = f.size - PREFIX;
        }
    }
    if (dir == RT_PROXY_UP)
        rt_etcd_gist(s->path, dir, (const uint8_t *)text, n, &gist);
    else if (s->status[0] != '\0')
        snprintf(gist.what, sizeof(gist.what), "status %s", s->status);
    else
        snprintf(gist.what, sizeof(gist.what), "reset");
    tell(out, s, dir == RT_PROXY_UP ? RT_MESSAGE_REQUEST : RT_MESSAGE_REPLY, msg);
    msg->alone = dir == RT_PROXY_UP;
    say(s, gist.what, text, n, msg);
}

static void tell_bytes(struct h2 *h, struct stream *s, enum rt_proxy_dir dir,
                       struct rt_proxy_message *msg)
{
    rt_buffer_take(&h->out[dir], &h->made);
    if (s->id[RT_PROXY_UP] != 0)
        number(h, s, dir, &h->out[dir]);
    tell(&h->out[dir], s, RT_MESSAGE_BYTES, msg);
}

/* ---- Streams that last -------------------------------------------------- */

static size_t message_size(const struct rt_buffer *b)
{
    return b->size < PREFIX ? SIZE_MAX : PREFIX + (size_t)rt_frame_get32(b->at + 1);
}

/* The next whole message of S, or a part of a large one, or nothing. */
static void tell_message(struct h2 *h, struct stream *s, enum rt_proxy_dir dir,
                         struct rt_proxy_message *msg)
{
    struct rt_buffer *in = &s->in[dir], *out = &h->out[dir];
    size_t size = s->skip[dir] > 0 ? s->skip[dir] : message_size(in);
    size_t n = size < in->size ? size : in->size;
    struct rt_etcd_gist gist = {.kind = RT_MESSAGE_BYTES};

    h->more[dir] = NULL;
    if (n == 0 || (s->skip[dir] == 0 && n < size && n <= part_max[dir])) {
        msg->kind = RT_MESSAGE_NOTHING;
        return;
    }
    if (s->skip[dir] == 0) {
        rt_etcd_gist(s->path, dir, (const uint8_t *)in->at + PREFIX, n - PREFIX, &gist);
        say(s, gist.what, in->at + PREFIX, n - PREFIX, msg);
    }
    out->size = 0;
    for (size_t at = 0; at < n; at += RT_FRAME_MAX)
        rt_frame_add(out, NGHTTP2_DATA, 0, id_for(s, dir), in->at + at,
                     n - at < RT_FRAME_MAX ? n - at : RT_FRAME_MAX);
    tell(out, s, gist.kind, msg);
    msg->channel |= (uint64_t)gist.sort << 32;
    s->skip[dir] = size - n;
    rt_buffer_remove(in, n);
    msg->more = in->size > 0;
    h->more[dir] = msg->more ? s : NULL;
}

/* ---- Frames ------------------------------------------------------------- */

/* A frame of a call, which waits for the others. */
static void collect(struct h2 *h, struct stream *s, enum rt_proxy_dir dir, bool end,
                    struct rt_proxy_message *msg)
{
    struct rt_buffer *in = &s->in[dir];

    if (s->reset) {
        tell_bytes(h, s, dir, msg);
    } else {
        rt_buffer_add(in, h->made.at, h->made.size);
        msg->kind = RT_MESSAGE_NOTHING;
        if (end) {
            tell_call(h, s, dir, msg);
        } else if (in->size > part_max[dir]) {
            rt_buffer_take(&h->out[dir], in);
            number(h, s, dir, &h->out[dir]);
            tell(&h->out[dir], s, RT_MESSAGE_BYTES, msg);
        }
    }
    if (end && dir == RT_PROXY_DOWN)
        free_stream(h, s);
}

static void note_header(void *arg, const char *name, const char *value, size_t size)
{
    struct stream *s = arg;

    if (strcmp(name, ":path") == 0)
        snprintf(s->path, sizeof(s->path), "%.*s", (int)size, value);
    else if (strcmp(name, "grpc-status") == 0)
        snprintf(s->status, sizeof(s->status), "%.*s", (int)size, value);
}

static bool on_headers(struct h2 *h, enum rt_proxy_dir dir, const struct rt_frame *f,
                       struct rt_proxy_message *msg)
{
    struct stream *s = find(h, dir, f->id);
    bool end = (f->flags & NGHTTP2_FLAG_END_STREAM) != 0;

    if (s == NULL && dir == RT_PROXY_UP)
        s = new_stream(h, f->id);
    h->made.size = 0;
    if (s == NULL ||
        !rt_unpack_headers(&h->unpacker[dir], f, id_for(s, dir), &h->made, note_header, s))
        return false;
    s->lasts = rt_etcd_lasts(s->path);
    if (!s->lasts) {
        collect(h, s, dir, end, msg);
        return true;
    }
    tell_bytes(h, s, dir, msg);
    say(s, "headers", "", 0, msg);
    msg->ends = end && dir == RT_PROXY_DOWN;
    if (msg->ends)
        free_stream(h, s);
    return true;
}

static void on_data(struct h2 *h, enum rt_proxy_dir dir, struct stream *s, const struct rt_frame *f,
                    struct rt_proxy_message *msg)
{
    bool end = (f->flags & NGHTTP2_FLAG_END_STREAM) != 0;

    h->made.size = 0;
    if (!s->lasts || end) {
        rt_frame_add(&h->made, f->type, f->flags, id_for(s, dir), f->data + RT_FRAME_HEAD, f->size);
        if (s->lasts) /* nobody does that in the middle of something */
            tell_bytes(h, s, dir, msg);
        else
            collect(h, s, dir, end, msg);
        return;
    }
    rt_buffer_add(&s->in[dir], f->data + RT_FRAME_HEAD, f->size);
    tell_message(h, s, dir, msg);
}

static void on_reset(struct h2 *h, enum rt_proxy_dir dir, struct stream *s,
                     struct rt_proxy_message *msg)
{
    if (dir == RT_PROXY_DOWN && !s->lasts) {
        s->status[0] = '\0';
        collect(h, s, dir, true, msg);
        return;
    }
    tell_bytes(h, s, dir, msg);
    say(s, "reset", "", 0, msg);
    msg->ends = true;
    s->reset = true;
    if (dir == RT_PROXY_DOWN)
        free_stream(h, s);
}

/* From the server: the last stream that it has seen. */
static void rename_last(struct h2 *h, char *at)
{
    uint32_t last = rt_frame_get32(at) & 0x7fffffff, best = 0;

    if (last > h->last_id)
        return;
    for (const struct stream *s = h->streams; s != NULL; s = s->next) {
        if (s->id[RT_PROXY_DOWN] <= last && s->id[RT_PROXY_UP] > best)
            best = s->id[RT_PROXY_UP];
    }
    rt_frame_put32(at, best);
}

/* Frames that are not part of a message: they pass, with the other side's numbers. */
static void on_other(struct h2 *h, enum rt_proxy_dir dir, const struct rt_frame *f,
                     struct rt_proxy_message *msg)
{
    struct stream none = {0}, *s = f->id != 0 ? find(h, dir, f->id) : &none;

    msg->kind = RT_MESSAGE_NOTHING;
    if (s == NULL || (s != &none && (s->dropped || id_for(s, dir) == 0)))
        return; /* of a stream that is over, or that the other side does not know */
    h->made.size = 0;
    rt_frame_add(&h->made, f->type, f->flags, id_for(s, dir), f->data + RT_FRAME_HEAD, f->size);
    if (f->type == NGHTTP2_GOAWAY && dir == RT_PROXY_DOWN && f->size >= 4)
        rename_last(h, h->made.at + RT_FRAME_HEAD);
    if (f->type == NGHTTP2_RST_STREAM && s != &none)
        on_reset(h, dir, s, msg);
    else
        tell_bytes(h, s, dir, msg);
}

static ptrdiff_t h2_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                         struct rt_proxy_message *msg)
{
    struct h2 *h = state;
    struct stream *s;
    struct rt_frame f;

    if (h->more[dir] != NULL) {
        tell_message(h, h->more[dir], dir, msg);
        return 1;
    }
    if (dir == RT_PROXY_UP && !h->begun) {
        size_t n = sizeof(preface) - 1;

        h->begun = len >= n;
        if (memcmp(data, preface, len < n ? len : n) != 0)
            return -1;
        return h->begun ? (ptrdiff_t)n : 0;
    }
    if (!rt_frame_at(&f, data, len))
        return len >= RT_FRAME_HEAD && f.size > FRAME_ABSURD ? -1 : 0;
    if (f.type == NGHTTP2_HEADERS) {
        if (!rt_frame_block(&f, len))
            return 0;
        return on_headers(h, dir, &f, msg) ? (ptrdiff_t)f.whole : -1;
    }
    s = f.type == NGHTTP2_DATA ? find(h, dir, f.id) : NULL;
    if (s != NULL)
        on_data(h, dir, s, &f, msg);
    else
        on_other(h, dir, &f, msg);
    return (ptrdiff_t)f.whole;
}

/* ---- Faults ------------------------------------------------------------- */

/* The sender's windows open again by as much as its peer will never read. */
static size_t h2_dropped(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                         const char **out)
{
    enum rt_proxy_dir side = dir == RT_PROXY_UP ? RT_PROXY_DOWN : RT_PROXY_UP;
    struct h2 *h = state;
    struct stream *s = NULL;
    uint32_t lost = 0;
    char size[4];
    struct rt_frame f;

    for (size_t at = 0; at < len && rt_frame_at(&f, data + at, len - at); at += f.whole) {
        s = f.id != 0 ? find(h, side, f.id) : NULL;
        lost += f.type == NGHTTP2_DATA ? (uint32_t)f.size : 0;
        if (s != NULL && dir == RT_PROXY_UP && f.type == NGHTTP2_HEADERS)
            s->dropped = true;
    }
    rt_frame_put32(size, lost);
    h->made.size = 0;
    if (lost > 0)
        rt_frame_add(&h->made, NGHTTP2_WINDOW_UPDATE, 0, 0, size, sizeof(size));
    if (lost > 0 && s != NULL && s->lasts)
        rt_frame_add(&h->made, NGHTTP2_WINDOW_UPDATE, 0, s->id[dir], size, sizeof(size));
    *out = h->made.at;
    return h->made.size;
}

static size_t h2_twice(void *state, const char *data, size_t len, const char **out)
{
    struct h2 *h = state;
    struct rt_frame f;

    h->made.size = 0;
    for (size_t at = 0; at < len && rt_frame_at(&f, data + at, len - at); at += f.whole) {
        rt_buffer_add(&h->made, f.data, f.whole);
        if (f.type == NGHTTP2_DATA && (f.flags & NGHTTP2_FLAG_END_STREAM) == 0)
            rt_buffer_add(&h->made, f.data, f.whole);
    }
    *out = h->made.at;
    return h->made.size;
}

static size_t h2_twin(void *state, const char *data, size_t len, const char **out,
                      uint64_t *channel)
{
    struct h2 *h = state;
    struct stream *s = new_stream(h, 0);

    h->made.size = 0;
    rt_buffer_add(&h->made, data, len);
    number(h, s, RT_PROXY_UP, &h->made);
    *channel = s->id[RT_PROXY_DOWN];
    *out = h->made.at;
    return h->made.size;
}

static void h2_fini(void *state)
{
    struct h2 *h = state;

    while (h->streams != NULL)
        free_stream(h, h->streams);
    for (int i = 0; i < 2; i++) {
        rt_unpacker_fini(&h->unpacker[i]);
        free(h->out[i].at);
    }
    free(h->made.at);
}

const struct rt_proxy_framing rt_proxy_h2 = {.name = "h2",
                                             .state_size = sizeof(struct h2),
                                             .next = h2_next,
                                             .fini = h2_fini,
                                             .dropped = h2_dropped,
                                             .twice = h2_twice,
                                             .twin = h2_twin};
