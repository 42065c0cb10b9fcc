/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server played by the test on nghttp2's other side, and calls that note what they are told. */
#ifndef ETCD_PEER_H
#define ETCD_PEER_H

#include "engine/etcd/status.h"
#include "net/grpc.h"

#include <nghttp2/nghttp2.h>

#define PEER_STREAMS 256

struct peer_bytes {
    uint8_t *at;
    size_t size, room;
};
void peer_add(struct peer_bytes *b, const void *bytes, size_t n);
void peer_drop(struct peer_bytes *b, size_t n); /* the first N */

struct peer_stream { /* as the server sees a call */
    int32_t id;
    char path[64], token[64], timeout[16], leader[8];
    struct peer_bytes body; /* with the prefixes */
    struct peer_bytes reply;
    char trailer[16]; /* grpc-status to end with; "": stays open */
    char text[128];   /* grpc-message */
    bool ended;       /* the client has said all */
    bool closed, deferred;
    bool answers; /* its headers have gone */
    uint32_t error_code;
};

struct peer {
    struct rt_grpc *g;
    nghttp2_session *server;
    struct peer_bytes wire; /* from the client, not yet read by the server */
    struct peer_stream streams[PEER_STREAMS];
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
size_t peer_server_says(struct peer *p, struct peer_bytes *out); /* what it would send */
int peer_feed(struct peer *p, const void *bytes, size_t n);      /* in chunks */

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
    struct peer_bytes last; /* the last message, or the unary answer */
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
