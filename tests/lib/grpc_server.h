/* SPDX-License-Identifier: Apache-2.0 */
/* The server's half of gRPC over HTTP/2 on nghttp2, for whoever plays a server: calls with their messages, in and out, and
 * bytes. It reads and writes no socket. */
#ifndef GRPC_SERVER_H
#define GRPC_SERVER_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grpc_server;
struct grpc_call;

struct grpc_bytes {
    uint8_t *at;
    size_t size, room;
};
void grpc_bytes_add(struct grpc_bytes *b, const void *bytes, size_t n);
void grpc_bytes_drop(struct grpc_bytes *b, size_t n); /* the first N */

struct grpc_server_user {               /* each may be NULL */
    void (*begun)(struct grpc_call *c); /* its headers begin */
    /* A whole message; NULL: what comes stays in `in`, prefixes and all. */
    void (*message)(struct grpc_call *c, const uint8_t *bytes, size_t n);
    void (*gone)(struct grpc_call *c); /* ended, canceled, or its connection is gone */
    /* Sends bytes as soon as there are any; NULL: the user fetches them by grpc_server_says. */
    void (*write)(struct grpc_server *s, const uint8_t *bytes, size_t n);
};

struct grpc_call { /* its memory goes when nobody refers to it */
    struct grpc_call *next;
    struct grpc_server *server; /* NULL: gone */
    uint32_t refs;
    int32_t id;
    char path[64], token[64], leader[8]; /* its headers */
    struct grpc_bytes in, out;
    char status[16], text[128]; /* to end with, once all of `out` was sent; "": it stays open */
    bool ended;                 /* the client has said all */
    bool answers;               /* the headers of the answer have gone */
    bool deferred;
    uint32_t error_code; /* it was closed with, once it is gone */
    void *user;          /* the user's */
};

struct grpc_server { /* embedded */
    nghttp2_session *session;
    const struct grpc_server_user *user;
    struct grpc_call *calls;
    void *arg; /* the user's */
};

void grpc_server_open(struct grpc_server *s, const struct grpc_server_user *user, void *arg);
void grpc_server_close(struct grpc_server *s); /* all calls are gone */
/* Bytes from the client; false: they are not HTTP/2. */
bool grpc_server_feed(struct grpc_server *s, const void *bytes, size_t n);
/* Adds to OUT what it has to send; returns how much that is. */
size_t grpc_server_says(struct grpc_server *s, struct grpc_bytes *out);

/* All of these have no effect if the call is gone, or has been ended. */
void grpc_call_send(struct grpc_call *c, const void *bytes, size_t n);     /* one message */
void grpc_call_send_raw(struct grpc_call *c, const void *bytes, size_t n); /* DATA as it is */
void grpc_call_end(struct grpc_call *c, const char *status, const char *text);
/* Ends it with headers alone. NULL: without that header. */
void grpc_call_refuse(struct grpc_call *c, const char *http_status, const char *type,
                      const char *status, const char *text);
void grpc_call_keep(struct grpc_call *c);
void grpc_call_drop(struct grpc_call *c); /* what grpc_call_keep kept */

#endif
