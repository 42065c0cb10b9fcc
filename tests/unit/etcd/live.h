/* SPDX-License-Identifier: Apache-2.0 */
/* A real etcd, and our codec on a stream to it. */
#ifndef ETCD_LIVE_H
#define ETCD_LIVE_H

#include "engine/etcd/proto.h"
#include "engine/etcd/status.h"
#include "lib/servers.h"
#include "net/grpc.h"
#include "net/stream.h"

struct live {
    struct rt_stream s; /* first */
    struct rt_grpc *g;
    int ups, downs, closed;
    int err; /* of rt_grpc_feed, or of the stream */
    char why[RT_STREAM_WHY_MAX];
    uint64_t received, sent;
};

extern struct rt_server live_server;

extern struct rt_loop live_loop;
extern struct rt_arena live_arena; /* of what is packed and unpacked */
extern uint64_t live_allocations;  /* through base/alloc.h, so far */

void live_start(void); /* the server, the loop, the heap that counts */
void live_stop(void);
void live_turn(void); /* one; fails the test if nothing comes for long */
void live_until(const int *flag, int n);

void live_open(struct live *l, uint16_t port); /* does not wait */
void live_close(struct live *l);

/* ---- Calls --------------------------------------------------------------------- */

struct answer {
    const ProtobufCMessageDescriptor *type; /* of the messages */
    struct rt_grpc_call *call;
    int ends, messages;
    uint32_t status;
    struct rt_grpc_verdict verdict;
    char text[RT_GRPC_TEXT_MAX];
    void *message; /* the last one, in live_arena; valid until the arena is reset */
    void (*on_end)(struct answer *a);
    void (*on_message)(struct answer *a);
    void *arg;
};

/* REQUEST is one of our messages. */
int answer_begin(struct answer *a, struct live *l, const char *path, const void *request,
                 const ProtobufCMessageDescriptor *type);
int answer_stream(struct answer *a, struct live *l, const char *path, const void *request,
                  const ProtobufCMessageDescriptor *type);
void answer_send(struct answer *a, const void *request);
/* Resets the arena, begins, waits for the end; returns the message, or NULL on failure. */
void *answer_of(struct answer *a, struct live *l, const char *path, const void *request,
                const ProtobufCMessageDescriptor *type);

ProtobufCBinaryData live_text(const char *s);

#endif
