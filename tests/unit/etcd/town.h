/* SPDX-License-Identifier: Apache-2.0 */
/* A town of etcd servers that the test plays in virtual time, and the engine on them: what each says of itself is
 * set here; what locks need is not played. */
#ifndef ETCD_TOWN_H
#define ETCD_TOWN_H

#include "engine/etcd/link.h"
#include "engine/etcd/ops.h"
#include "peer.h"

#define TOWN_SERVERS 3
#define TOWN_WIRES 64

struct town_server {
    const char *version, *alarm;
    uint64_t cluster;
    int64_t db_size, db_quota;
    bool down, mute;     /* refuses connections; says nothing */
    bool wants_token;    /* for Status, too */
    int64_t slow_ms;     /* to answer KV/Range */
    const char *refuses; /* the path that this user may not call; NULL */
    const char *why;     /* ... and what it is told; NULL: permission denied */
};

struct town_wire {            /* a connection */
    struct rt_stream *stream; /* NULL: closed */
    struct peer peer;
    size_t answered, server;
    int64_t asked_at; /* what is answered slowly; 0: nothing */
    bool up;
};

struct town;
/* True: the test answers call I of W, or does not. A stream is shown as often as it has bytes to read. */
typedef bool town_play_fn(struct town *t, struct town_wire *w, size_t i);

struct town {
    struct rt_dialer dialer; /* first */
    struct rt_loop loop;
    struct rt_up up;
    struct rt_conn *base;
    struct rt_etcd_conn *conn; /* of it */
    town_play_fn *play;        /* asked first; NULL */
    struct town_server servers[TOWN_SERVERS];
    size_t members;
    uint32_t ttl_ms;
    struct town_wire wires[TOWN_WIRES];
    size_t wire_count;
    int authenticated; /* passwords checked */
    char token[32];    /* the only one that is good */
    struct rt_op *op;  /* NULL: it has ended */
    int err;
    char why[256];
    int done;            /* ops that have ended */
    int events[RT_LINK]; /* told, by their kind */
    uint64_t granted_nonce;
};

/* MEMBERS servers of 3.6.16 without users. */
void town_init(struct town *t, size_t members);
void town_open(struct town *t, const char *url);    /* hosts a, b, c */
int town_try_open(struct town *t, const char *url); /* its error: then nothing is to be closed */
void town_close(struct town *t);
void town_until_ready(struct town *t);
void town_cut(struct town *t); /* all connections */
/* What PLAY says: the answer to a call, or one message on a stream. */
void town_answer(struct town_wire *w, size_t i, const void *message);
void town_say(struct town_wire *w, size_t i, const void *message);
/* The next message that a stream was sent; NULL: none yet. To be freed by protobuf_c_message_free_unpacked. */
void *town_read(struct town_wire *w, size_t i, const ProtobufCMessageDescriptor *type);
/* t->op is NULL once it has ended, with t->err. If there are many, t->op is the last. */
void town_submit(struct town *t, struct rt_op *op);
/* Submits OP and waits for its end; returns its error. */
int town_do(struct town *t, struct rt_op *op);
void town_step(
    struct town *t); /* bytes to and fro, a turn, and time goes on if nothing else does */
void town_until(struct town *t, const int *count, int n); /* it becomes N, and no more */
bool town_is_call(const struct town_wire *w, size_t i, const char *path);

#endif
