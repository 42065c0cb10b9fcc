/* SPDX-License-Identifier: Apache-2.0 */
/* A model Redis in virtual time: a machine (machine.h) behind a network (sim/net.h), a wall clock of its
 * own, outages. Requests and replies may be dropped or doubled as a proxy would.
 *
 * As a cluster it has three addresses, and each may be mute or slow for itself. They share one machine:
 * a room is at only one of them, so nobody can tell. */
#ifndef SIM_REDIS_SERVER_H
#define SIM_REDIS_SERVER_H

#include "sim/net.h"
#include "sim/redis/machine.h"

#define RS_NODES 3 /* of a cluster: RS_NODE_HOST "1" to "3", each with a third of the slots */
#define RS_NODE_HOST "127.0.0."
#define RS_PORT 6379

struct rs_node {
    int64_t mute_until; /* its answers and pushes are swallowed */
    int64_t slow_until; /* its answers are late ... */
    int64_t slow_ns;    /* ... by so much */
};

struct rs_server {
    struct rs_machine machine; /* first */
    bool cluster;
    struct rs_node nodes[RS_NODES];
    struct sim_net *net, own; /* net: its own, or that of its first fellow */
    /* for the first: how many servers stand behind it, from RS_NODE_HOST "1" on; 0: it is alone */
    uint32_t fellows;
    int64_t down_until;      /* one of several: refuses connections */
    int64_t started_us;      /* by its clock */
    struct rs_store earlier; /* what a replica, or the disk, has */
    bool has_earlier;
    int64_t clock_at;    /* the clock was set at this moment ... */
    int64_t clock_us;    /* ... to this, and has since gone ... */
    int32_t clock_ppm;   /* ... this much too fast */
    int64_t clock_most;  /* the latest time it ever showed */
    int64_t busy_until;  /* refuses scripts ... */
    const char *refusal; /* ... with this error */
    uint32_t runs;       /* how often it was started: its run_id */
    /* Before and after every script and command that may write, for whoever watches; may be NULL. */
    void (*before)(struct rs_server *s, size_t argc, const struct rs_text *argv);
    void (*after)(struct rs_server *s, size_t argc, const struct rs_text *argv,
                  const struct rs_buffer *reply);
    void *user;
    uint32_t pushed; /* messages to sessions by the current script */
};

void rs_server_open(struct rs_server *s, uint64_t seed, int32_t clock_ppm);
/* COUNT of them at S, on one network, with a machine and a clock each. */
void rs_servers_open(struct rs_server *s, uint32_t count, uint64_t seed);
void rs_server_close(struct rs_server *s);

int64_t rs_server_clock(const struct rs_server *s);
void rs_server_jump(struct rs_server *s, int64_t by_us);
/* When, in virtual time, its clock will show AT_US. */
int64_t rs_server_when(const struct rs_server *s, int64_t at_us);

/* Keeps a copy: what a replica or the disk will have when the server is lost. From now on WAIT
 * waits in vain. */
void rs_server_keep(struct rs_server *s);

enum rs_loss { RS_KEEPS_ALL, RS_LOSES_LAST /* goes back to the copy */, RS_LOSES_ALL };

/* Dies and comes back at UNTIL (virtual), perhaps as another server that was its replica. All
 * connections break; scripts are forgotten. */
void rs_server_restart(struct rs_server *s, enum rs_loss loss, int64_t until);
/* One node of a cluster dies and is back at once, with all that it had. */
void rs_server_restart_node(struct rs_server *s, uint32_t node);
/* Breaks the connections that listen. */
void rs_server_kill_listeners(struct rs_server *s);

/* Does what has arrived by NOW. */
void rs_server_run(struct rs_server *s, int64_t now);

/* ---- Between the files of the server ------------------------------------ */

#define RS_CHANNELS_MAX 512

struct rs_conn {
    struct sim_conn base; /* first */
    struct rs_server *server;
    struct rs_node *node;
    struct redisReader *reader;
    struct rs_text channels[RS_CHANNELS_MAX];
    size_t channel_count;
};

static inline struct rs_conn *rs_conn_of(struct sim_conn *c)
{
    return (struct rs_conn *)(void *)c;
}

/* request.c: one whole request of C. */
void rs_serve(struct rs_conn *c, size_t argc, const struct rs_text *argv);
int64_t rs_publish(struct rs_machine *m, struct rs_text channel, struct rs_text message);

#endif
