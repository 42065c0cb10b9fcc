/* SPDX-License-Identifier: Apache-2.0 */
/* Where a stream goes: addresses, the look-up of names, sockets. For net/ itself, and for whoever dials by a
 * library. */
#ifndef RT_NET_DIAL_H
#define RT_NET_DIAL_H

#include "net/stream.h"

#include <sys/socket.h>

#define RT_DIAL_ADDRESSES 8 /* of a name; more would only share connect_ms too thinly */

struct rt_address {
    struct sockaddr_storage at;
    socklen_t size;
};

struct rt_lookup;

struct rt_dial {
    struct rt_stream *stream;
    void *arg;                /* of whoever has no stream */
    struct rt_lookup *lookup; /* runs */
    struct rt_tls *tls;
    struct rt_address addresses[RT_DIAL_ADDRESSES];
    uint32_t count, next;
    int64_t until; /* all of it */
    uint32_t connect_ms;
    uint16_t port;
    const char *host;  /* NULL: a unix socket */
    char *server_name; /* what a certificate must be for */
    char *own_name;    /* that, if rt_stream_secure gave it */
    const char *alpn;  /* NULL: none */
    const char *peer;  /* for messages: host:port or the path */
    char text[];
};

/* ROTA_NOMEM or ROTA_INVALID. Addresses that need no look-up are there at once. */
int rt_dial_new(struct rt_dial **out, const struct rt_stream_target *t);
void rt_dial_free(struct rt_dial *d);

/* A nonblocking socket, above 2, that connects to the next address; -1 with errno. */
int rt_dial_socket(struct rt_dial *d);
/* 0: FD is connected, else an errno. */
int rt_dial_outcome(int fd);

/* Looks D's host up on a thread of its own; from a later turn DONE gets 0 and D its addresses, or an
 * error of getaddrinfo (EAI_SYSTEM: see ERRNUM). ROTA_NOMEM, ROTA_UNREACHABLE with errno. */
typedef void rt_lookup_fn(struct rt_dial *d, int gai, int errnum);
int rt_lookup_start(struct rt_dial *d, struct rt_loop *loop, rt_lookup_fn *done);
void rt_lookup_drop(struct rt_dial *d); /* DONE is not called any more; also if none runs */

#endif
