/* SPDX-License-Identifier: Apache-2.0 */
/* The server's half of gRPC over HTTP/2 on nghttp2: calls with their messages, in and out. */
#ifndef SIM_ETCD_H2_H
#define SIM_ETCD_H2_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct es_h2;
struct es_rpc;

struct es_bytes {
    uint8_t *at;
    size_t n, room;
};

struct es_h2_user {
    void (*message)(struct es_rpc *rpc, const uint8_t *bytes, size_t n); /* a whole one */
    void (*gone)(struct es_rpc *rpc); /* ended, canceled, or its connection is no more */
    void (*write)(struct es_h2 *h, const uint8_t *bytes, size_t n);
};

struct es_rpc { /* a call; its memory goes when nobody refers to it */
    struct es_rpc *next;
    struct es_h2 *h2; /* NULL: gone */
    uint32_t refs;
    int32_t id;
    char path[64];
    struct es_bytes in, out;
    char status[8], text[128]; /* to end with, when all of `out` has left; "": it stays open */
    bool answers;              /* its headers have gone */
    bool deferred;
    void *user; /* the user's */
};

struct es_h2 { /* embedded */
    nghttp2_session *session;
    const struct es_h2_user *user;
    struct es_rpc *rpcs;
    void *arg; /* the user's */
};

void es_h2_open(struct es_h2 *h, const struct es_h2_user *user, void *arg);
void es_h2_close(struct es_h2 *h); /* all calls are gone */
/* Bytes of the client; false: they are no HTTP/2. */
bool es_h2_feed(struct es_h2 *h, const void *bytes, size_t n);

/* Without effect if the call is gone. */
void es_rpc_send(struct es_rpc *rpc, const uint8_t *bytes, size_t n); /* one message */
void es_rpc_end(struct es_rpc *rpc, uint32_t status, const char *text);
void es_rpc_keep(struct es_rpc *rpc);
void es_rpc_drop(struct es_rpc *rpc); /* what es_rpc_keep kept */

#endif
