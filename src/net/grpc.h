/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client without I/O and without a clock: one HTTP/2 connection, many calls.
 *
 *   call ──▶ waits (the server allows only so many at once) ──▶ under way ──▶ ended ──▶ gone
 *              └──────────────── cancel: gone, nothing more is told ──────────┘
 *
 * Bytes come in by rt_grpc_feed, go out by the user's `write`. Serialised by its user. Callbacks of
 * calls run inside rt_grpc_feed and rt_grpc_down and nowhere else; in them everything is legal except
 * those two. Each call that was begun ends exactly once: by `end`, by rt_grpc_cancel, or silently with
 * rt_grpc_close. What a server sends costs at most RT_GRPC_KEPT_MAX and its connection. */
#ifndef RT_NET_GRPC_H
#define RT_NET_GRPC_H

#include "net/grpc_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_GRPC_MESSAGE_MAX (4u << 20)  /* of one message, gRPC's own limit */
#define RT_GRPC_KEPT_MAX (16u << 20)    /* of all answers that are not whole yet */
#define RT_GRPC_UNSENT_MAX (4u << 20)   /* of a call whose server does not read */
#define RT_GRPC_HEADERS_MAX (16u << 10) /* of all headers of a call, as HTTP/2 counts them */
#define RT_GRPC_WINDOW (1 << 20)        /* bytes that may come unasked, per call and together */
#define RT_GRPC_TOKEN_MAX 8192          /* JWTs are long */
#define RT_GRPC_CALLS_MAX 65536         /* at once: more means that nobody reads answers */
#define RT_GRPC_TEXT_MAX 256

/* ---- Connections ------------------------------------------------------------ */

struct rt_grpc;

struct rt_grpc_user {
    /* N > 0 bytes for the server, to be copied. Not 0: they could not be; the connection is broken
     * from then on (rt_grpc_err is that number), and its user ends it from a later turn. */
    int (*write)(void *arg, const void *bytes, size_t n);
    /* The server begins to go away: no call can be begun any more, those it knows go on. Once,
     * from rt_grpc_feed. May be NULL. */
    void (*leaving)(void *arg);
    /* What a status of the trailers (any number) with MESSAGE ("" if none) means to this server. NULL: by
     * its code alone. */
    struct rt_grpc_verdict (*judge)(uint32_t status, const char *message);
};

/* Writes the greeting; calls need not wait for the answer. AUTHORITY (host:port) is copied, USER's
 * address kept. 0, ROTA_NOMEM, or what `write` said. */
int rt_grpc_open(struct rt_grpc **out, const char *authority, bool tls,
                 const struct rt_grpc_user *user, void *arg);

/* Its calls go, and nobody is told. Legal in callbacks: it is then gone when rt_grpc_feed or rt_grpc_down
 * returns. NULL is legal. */
void rt_grpc_close(struct rt_grpc *g);

/* From the server. 0; or the connection is over: ROTA_PROTOCOL, ROTA_NOMEM, ROTA_UNREACHABLE (it went
 * away), what `write` said, or ROTA_CLOSED: a callback closed it, G is no more. Its calls are
 * still to be ended by rt_grpc_down. */
int rt_grpc_feed(struct rt_grpc *g, const void *bytes, size_t n);

/* Ends all calls: RT_GRPC_UNAVAILABLE, ERR, and not done or maybe as the case is with each. From then on
 * only rt_grpc_close has an effect. */
void rt_grpc_down(struct rt_grpc *g, int err, const char *why);

/* Not 0: the connection is broken. To be asked after call, send, cancel and ping, which do not report it,
 * because what they began may still be done. */
int rt_grpc_err(const struct rt_grpc *g);
const char *rt_grpc_why(const struct rt_grpc *g); /* one line; "" */

/* Makes the server send some bytes: for rt_stream_expect. Servers cut off clients that do it often (etcd: more
 * often than every 5 s). */
void rt_grpc_ping(struct rt_grpc *g);

/* ---- Calls --------------------------------------------------------------------- */

struct rt_grpc_call;

struct rt_grpc_end {
    const char *message; /* one line; "" */
    const uint8_t *bytes;
    size_t n;                       /* the answer of a unary call that went well */
    uint32_t status;                /* enum rt_grpc_status */
    struct rt_grpc_verdict verdict; /* fate: never MAYBE for what was not sent; says nothing of
                                     * messages that a stream has answered */
};

/* What was said, or else the name of the status. */
const char *rt_grpc_said(const struct rt_grpc_end *end);

/* Bytes and texts are valid until it returns. */
typedef void rt_grpc_message_fn(void *arg, const uint8_t *bytes, size_t n);
typedef void rt_grpc_end_fn(void *arg, const struct rt_grpc_end *end);

struct rt_grpc_ask {
    const char *path;            /* "/etcdserverpb.KV/Txn": static, it is not copied */
    const char *token;           /* of Authenticate; NULL or "": none */
    rt_grpc_message_fn *message; /* not NULL: a stream both ways, this for each message */
    rt_grpc_end_fn *end;
    void *arg;
    const char *flag; /* a header that says "true": its name, static; NULL: none */
};

/* Begins a call; the first message of a stream may come later (BYTES NULL). 0, or nothing was begun:
 * ROTA_INVALID (too large), ROTA_NOMEM, ROTA_UNREACHABLE (leaving, too many calls), or
 * rt_grpc_err. *OUT is valid until `end` has returned or it was canceled. */
int rt_grpc_call(struct rt_grpc *g, const struct rt_grpc_ask *ask, const void *bytes, size_t n,
                 struct rt_grpc_call **out);

/* One more message on a stream. 0, ROTA_INVALID, ROTA_NOMEM, ROTA_UNREACHABLE (the server does not read, or
 * the call has ended); nothing is half sent. */
int rt_grpc_send(struct rt_grpc_call *c, const void *bytes, size_t n);

/* Nothing more is told; the server hears of it unless it never heard of the call. */
void rt_grpc_cancel(struct rt_grpc_call *c);

#endif
