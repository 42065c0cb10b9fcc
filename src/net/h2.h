/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the codec: what its connection (h2.c), its calls (grpc.c) and their messages share. */
#ifndef RT_NET_H2_H
#define RT_NET_H2_H

#include "net/grpc.h"

#include <nghttp2/nghttp2.h>

#define RT_GRPC_PREFIX 5 /* before each message: compressed or not, and its length */

struct rt_grpc_buffer {
    uint8_t *at;
    size_t begin, end, room; /* begin to end are waiting */
};

struct rt_grpc_link { /* of a list; the head is one too */
    struct rt_grpc_link *next, *prev;
};

struct rt_grpc_call {
    struct rt_grpc_link link; /* first; in g->waiting, g->active or g->spare */
    struct rt_grpc *g;
    struct rt_grpc_ask ask;    /* token: into `token` or NULL */
    struct rt_grpc_buffer out; /* not yet sent */
    struct rt_grpc_buffer in;  /* a message that is not whole, or the answer of a unary call */
    char *token;
    size_t header_bytes;
    size_t message_left; /* of the message being read */
    int32_t stream_id;   /* 0: waits */
    int http_status;     /* 0: not yet */
    uint32_t status;     /* of the trailers, or ours */
    int err;             /* not 0: ended by us, for this */
    uint8_t reason;      /* of the verdict, with it */
    uint8_t prefix[RT_GRPC_PREFIX];
    uint8_t prefix_size;
    bool in_message;
    bool answered; /* unary: has its message */
    bool has_status;
    bool is_grpc; /* content-type */
    bool sent;    /* all of the first message has left */
    bool told;    /* `end` was called, or is never to be */
    bool starved; /* nghttp2 waits for us to have more to send */
    char text[RT_GRPC_TEXT_MAX];
};

struct rt_grpc {
    nghttp2_session *session;
    const struct rt_grpc_user *user;
    void *arg;
    struct rt_grpc_link waiting, active, spare;
    size_t calls, spares; /* waiting and active; spare */
    size_t on_wire;       /* active */
    size_t kept;          /* bytes of all `in` */
    uint32_t depth;       /* inside feed or down */
    int err;
    uint8_t first; /* how many of its first bytes were looked at */
    /* after this many more calls its estimate of bandwidth is answered; 0: it owes none */
    uint8_t owed;
    bool greeted; /* its SETTINGS have come: it speaks HTTP/2 */
    bool leaving;
    bool closed;
    bool tls;
    char why[RT_GRPC_TEXT_MAX];
    char authority[];
};

/* ---- h2.c ---------------------------------------------------------------------- */

/* Notes why the connection is over, unless it is known. */
__attribute__((format(printf, 3, 4))) void rt_h2_fail(struct rt_grpc *g, int err, const char *why,
                                                      ...);
/* Begins what may begin and writes all there is, unless a callback runs: then that is done after it. */
void rt_h2_flush(struct rt_grpc *g);
void rt_h2_settle(struct rt_grpc *g); /* a call was begun */
void rt_h2_reset(struct rt_grpc *g, int32_t stream_id, uint32_t error_code);

/* ---- grpc.c -------------------------------------------------------------------- */

void rt_grpc_begin_waiting(struct rt_grpc *g); /* as many as the server allows */
/* Tells the end, unless it was told: by the trailers, else by ERROR_CODE of HTTP/2. */
void rt_grpc_finish(struct rt_grpc_call *c, uint32_t error_code);
/* Ended by us, because of what came: C->err says why, 0 for ROTA_PROTOCOL. */
__attribute__((format(printf, 3, 4))) void rt_grpc_refuse(struct rt_grpc_call *c, uint32_t status,
                                                          const char *why, ...);
void rt_grpc_gone(struct rt_grpc_call *c); /* its stream is closed: the memory is used again */
void rt_grpc_end_all(struct rt_grpc *g, int err, const char *why);
void rt_grpc_silence_all(struct rt_grpc *g);
void rt_grpc_drop_all(struct rt_grpc *g); /* all memory of calls */
/* What nghttp2 asks for when it can send. */
ssize_t rt_grpc_read_out(nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *arg);

/* ---- message.c ----------------------------------------------------------------- */

/* 0 or ROTA_NOMEM. */
int rt_grpc_buffer_add(struct rt_grpc_buffer *b, const void *bytes, size_t n);
void rt_grpc_buffer_clear(struct rt_grpc_buffer *b, bool keep); /* KEEP: a small one stays */
/* N bytes of DATA: whole messages are told, the rest is kept; C is refused if they are wrong. */
void rt_grpc_take(struct rt_grpc_call *c, const uint8_t *bytes, size_t n);
/* A header or trailer; C is refused if there are too many. */
void rt_grpc_take_header(struct rt_grpc_call *c, const uint8_t *name, size_t name_size,
                         const uint8_t *value, size_t size);

#endif
