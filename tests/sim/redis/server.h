/* SPDX-License-Identifier: Apache-2.0 */
/* A model Redis in virtual time: connections over bad networks, a wall clock of its own, outages.
 *
 *   engine -> stream -> port (rt_dialer) -> [on its way up] -> server: machine (machine.h)
 *   engine <- stream <- port            <- [on its way down] <- replies, pushes
 *
 * Bytes of a connection keep their order, as in TCP; requests and replies may be dropped or doubled
 * as a proxy would. What a client has sent before it closed still arrives, when it does. Everything
 * is decided by the server's own chance. */
#ifndef SIM_REDIS_SERVER_H
#define SIM_REDIS_SERVER_H

#include "net/stream.h"
#include "sim/redis/machine.h"
#include "sim/schedule.h"

struct rs_conn;
struct rs_port;
struct rs_server;

struct rs_server {
    struct rs_machine machine; /* first */
    struct sim_random random;
    struct sim_wire faults;
    struct rs_conn *conns;
    struct rs_store earlier; /* what a replica, or the disk, has */
    bool has_earlier;
    int64_t now;         /* virtual, ns */
    int64_t clock_at;    /* the clock was set at this moment ... */
    int64_t clock_us;    /* ... to this, and since then goes ... */
    int32_t clock_ppm;   /* ... so much too fast */
    int64_t clock_most;  /* the latest time it ever showed */
    int64_t down_until;  /* refuses connections; 0: it does not */
    int64_t busy_until;  /* refuses scripts ... */
    const char *refusal; /* ... with this error */
    uint32_t runs;       /* how often it was started: its run_id */
    /* Before and after every script and command that may write, for whoever watches; may be NULL. */
    void (*before)(struct rs_server *s, size_t argc, const struct rs_text *argv);
    void (*after)(struct rs_server *s, size_t argc, const struct rs_text *argv,
                  const struct rs_buffer *reply);
    void *user;
    uint32_t pushed; /* messages to sessions by the present script */
};

void rs_server_open(struct rs_server *s, uint64_t seed, int32_t clock_ppm);
void rs_server_close(struct rs_server *s);

int64_t rs_server_clock(const struct rs_server *s);
void rs_server_jump(struct rs_server *s, int64_t by_us);
/* When, in virtual time, its clock will show AT_US. */
int64_t rs_server_when(const struct rs_server *s, int64_t at_us);

/* Keeps a copy: what a replica or the disk will have when the server is lost. From then on WAIT waits
 * in vain. */
void rs_server_keep(struct rs_server *s);

enum rs_loss { RS_KEEPS_ALL, RS_LOSES_LAST /* goes back to the copy */, RS_LOSES_ALL };

/* Dies and comes back at UNTIL (virtual), maybe as another that was its replica. All connections
 * break; scripts are forgotten. */
void rs_server_restart(struct rs_server *s, enum rs_loss loss, int64_t until);
/* Breaks the connections that listen. */
void rs_server_kill_listeners(struct rs_server *s);

/* Does what has arrived by NOW; when the next will. */
void rs_server_run(struct rs_server *s, int64_t now);
int64_t rs_server_next(const struct rs_server *s);

/* ---- One client's end --------------------------------------------------- */

struct rs_port {
    struct rt_dialer dialer; /* first; for rt_loop.dialer */
    struct rs_server *server;
    bool cut_up, cut_down; /* nothing gets through; it waits */
    bool mute;             /* what it writes is not sent: it has crashed */
};

void rs_port_open(struct rs_port *p, struct rs_server *s);
void rs_port_close(struct rs_port *p); /* all its streams are closed */
void rs_port_reset(struct rs_port *p); /* all its connections break */

/* Feeds the client's streams what has come down by now; when the next will. */
bool rs_port_due(const struct rs_port *p);
void rs_port_deliver(struct rs_port *p);
int64_t rs_port_next(const struct rs_port *p);

/* ---- Between the files of the server ------------------------------------ */

#define RS_CHANNELS_MAX 16

struct rs_chunk;

struct rs_way { /* what is on its way, in order */
    struct rs_chunk *first, **last;
    int64_t last_at;
};

struct rs_conn {
    struct rs_conn *next;
    struct rs_server *server;
    struct rs_port *port;     /* NULL: the client is gone */
    struct rt_stream *stream; /* NULL: the client has closed it */
    struct rs_way up, down;
    struct redisReader *reader;
    struct rs_text channels[RS_CHANNELS_MAX];
    size_t channel_count;
    bool served; /* the server knows it */
    bool broken; /* and has told, or will tell, the client of its end */
};

/* request.c: one whole request of C. */
void rs_serve(struct rs_conn *c, size_t argc, const struct rs_text *argv);
int64_t rs_publish(struct rs_machine *m, struct rs_text channel, struct rs_text message);
void rs_conn_send(struct rs_conn *c, const char *bytes, size_t n);
void rs_conn_hold(struct rs_conn *c, int64_t ns); /* what follows is sent so much later */
void rs_conn_break(struct rs_conn *c);            /* from the server's side */

#endif
