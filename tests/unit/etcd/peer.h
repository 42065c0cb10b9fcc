/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client and the server that the test plays for it, byte for byte; and calls that record what they are told. */
#ifndef ETCD_PEER_H
#define ETCD_PEER_H

#include "engine/etcd/status.h"
#include "lib/grpc_server.h"
#include "net/grpc.h"

#define PEER_STREAMS 256

struct peer {
    struct rt_grpc *g;
    struct grpc_server server;
    struct grpc_bytes wire;                  /* from the client, not yet read by the server */
    struct grpc_call *streams[PEER_STREAMS]; /* in their order, kept: `in` has the prefixes */
    size_t count;
    size_t chunk; /* bytes the client is fed at once; 0: all */
    int err;      /* of rt_grpc_feed */
    int write_err;
    int leavings;
    uint64_t to_client, to_server; /* bytes */
    bool mute;                     /* the server reads nothing */
};

void peer_open(struct peer *p);  /* the greetings are not exchanged yet */
void peer_close(struct peer *p); /* the client too, unless it is NULL */
void peer_serve(struct peer *p); /* the server's half anew, for a client that is made by the test */
/* Bytes go to and fro until nobody has anything to say, or the client has ended. */
void peer_exchange(struct peer *p);
void peer_server_reads(struct peer *p);
int peer_feed(struct peer *p, const void *bytes, size_t n); /* in chunks */

extern const struct rt_grpc_user peer_user; /* arg: the peer */

/* An answer: response headers before the first, the message, then the end if STATUS is not NULL. */
void peer_answer(struct peer *p, size_t i, const void *bytes, size_t n, const char *status,
                 const char *text);
/* Raw bytes as DATA instead of a message. */
void peer_answer_raw(struct peer *p, size_t i, const void *bytes, size_t n, const char *status);
/* Headers only, with the end of the stream. NULL: without that header. */
void peer_refuse(struct peer *p, size_t i, const char *http_status, const char *type,
                 const char *status, const char *text);

/* ---- Calls --------------------------------------------------------------------- */

struct told {
    struct rt_grpc_call *call;
    int ends, messages;
    uint32_t status;
    struct rt_grpc_verdict verdict;
    char text[RT_GRPC_TEXT_MAX];
    struct grpc_bytes last; /* the last message, or the unary answer */
    void (*on_message)(struct told *t);
    void (*on_end)(struct told *t);
    void *arg;
};

int told_unary(struct told *t, struct rt_grpc *g, const void *bytes, size_t n);
int told_stream(struct told *t, struct rt_grpc *g, const void *bytes, size_t n);
int told_ask(struct told *t, struct rt_grpc *g, struct rt_grpc_ask *ask, const void *bytes,
             size_t n);
void told_clear(struct told *t); /* its memory; it may be used again */

#endif
