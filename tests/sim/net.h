/* SPDX-License-Identifier: Apache-2.0 */
/* A network in virtual time between engines and a model of their server.
 *
 *   engine -> stream -> port (rt_dialer) -> [on its way up]   -> host
 *   engine <- stream <- port             <- [on its way down] <- sim_conn_send
 *
 * Bytes of a connection keep their order, as in TCP. What a client has sent before it closed still
 * arrives, when it does. Everything is decided by the network's own chance. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "net/stream.h"
#include "sim/schedule.h"

struct sim_chunk;
struct sim_conn;
struct sim_net;
struct sim_port;

struct sim_host {     /* the server's side */
    size_t conn_size; /* of a struct that begins with struct sim_conn; zeroed */
    /* A client has come; false: refused. */
    bool (*accept)(struct sim_conn *c, const char *host);
    void (*data)(struct sim_conn *c, const char *bytes, size_t n);
    /* The server has nothing more to do with C: what it keeps for C goes. Only after accept. */
    void (*forget)(struct sim_conn *c);
};

struct sim_net {
    const struct sim_host *host;
    void *user; /* the host's */
    struct sim_random random;
    struct sim_wire faults; /* here only that of bytes: late */
    struct sim_conn *conns;
    int64_t now;        /* virtual, ns */
    int64_t down_until; /* refuses connections; 0: it does not */
    int64_t harmed_at;  /* when something was last lost, doubled or cut off */
};

struct sim_way { /* what is on its way, in order */
    struct sim_chunk *first, **last;
    int64_t last_at;
};

struct sim_conn {
    struct sim_conn *next, *port_next; /* of all; of its port */
    struct sim_net *net;
    struct sim_port *port;    /* NULL: the client is gone */
    struct rt_stream *stream; /* NULL: the client has closed it */
    struct sim_way up, down;
    bool served; /* the server knows it */
    bool broken; /* the client was told, or will be told, of its end */
};

void sim_net_open(struct sim_net *net, const struct sim_host *host, uint64_t seed);
void sim_net_close(struct sim_net *net);

/* When the next bytes will arrive at the server; hands it the first ones, whose time has then come. */
int64_t sim_net_next(const struct sim_net *net);
void sim_net_step(struct sim_net *net);
/* By chance, PER_MILLE of the time, something is lost, doubled or cut off; if so, that is noted. */
bool sim_net_strikes(struct sim_net *net, uint32_t per_mille);
/* It is NOW; nothing arrives earlier. Forgets connections that nobody needs any more. */
void sim_net_advance(struct sim_net *net, int64_t now);

void sim_conn_send(struct sim_conn *c, const void *bytes, size_t n);
void sim_conn_hold(struct sim_conn *c, int64_t ns); /* what follows is sent that much later */
void sim_conn_break(struct sim_conn *c);            /* from the server's side */

/* ---- One client's end --------------------------------------------------- */

struct sim_port {
    struct rt_dialer dialer; /* first; for rt_loop.dialer */
    struct sim_net *net;
    struct sim_conn *conns;
    bool cut_up, cut_down; /* nothing gets through; it waits */
    bool mute;             /* what it writes is not sent: it has crashed */
};

void sim_port_open(struct sim_port *p, struct sim_net *net);
void sim_port_close(struct sim_port *p); /* all its streams are closed */
void sim_port_reset(struct sim_port *p); /* all its connections break */

/* Feeds the client's streams what has come down by now; when the next will come. */
bool sim_port_due(const struct sim_port *p);
void sim_port_deliver(struct sim_port *p);
int64_t sim_port_next(const struct sim_port *p);

#endif
