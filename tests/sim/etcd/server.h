/* SPDX-License-Identifier: Apache-2.0 */
/* A model etcd of three members in virtual time: one store (store.h) behind gRPC (lib/grpc_server.h) and
 * a network.
 *
 *   engine -> net -> h2 -> a call -> [waits] -> the store, if there is a leader -> [waits] -> its answer
 *                          watches of a member <- what that member has applied
 *
 * Calls of a connection are served side by side and overtake each other, as in etcd. What is written
 * is written for all; a member that is behind answers, and tells its watchers, when it has caught up.
 * One with the bug #20418 may answer reads before that. Leases are the leader's; a new leader
 * restarts their times. */
#ifndef SIM_ETCD_SERVER_H
#define SIM_ETCD_SERVER_H

#include "lib/grpc_server.h"
#include "sim/etcd/store.h"
#include "sim/net.h"

#define ES_MEMBERS 3
#define ES_REVOKED_MAX 64

struct es_server;
struct es_task;

struct es_member {
    int64_t down_until;   /* refuses connections; 0: it does not */
    int64_t behind_until; /* applies nothing; 0: it has all */
    int64_t frozen_until; /* is stopped; 0: it runs */
    int64_t applied;      /* revision */
};

struct es_server {
    struct sim_net net; /* first */
    struct es_store store;
    struct es_member members[ES_MEMBERS];
    uint32_t leader;
    uint64_t term;
    int64_t leaderless_until; /* nothing is agreed on; 0: there is a leader */
    struct es_task *tasks;    /* by time */
    int32_t clock_ppm;        /* of the leader's, for leases */
    uint32_t expiry_late_ms;  /* it notices the end of a lease up to this much too late */
    bool flooded;             /* a client asks, and asks, and asks */
    uint32_t crowd;           /* so many more calls are no flood */
    uint32_t stale;           /* per mille of the reads on a member that is behind */
    bool lies;          /* keep-alives of leases that were revoked are answered well (#20813) */
    int64_t busy_until; /* "too many requests" until then */
    struct {
        int64_t id, ttl_s;
    } revoked[ES_REVOKED_MAX];
    uint32_t revoked_count;
    uint64_t version; /* counts the changes */
    /* After every request that reached the store, and every lease that ended; may be NULL. */
    void (*after)(struct es_server *s, const char *what, const void *request,
                  const struct es_answer *answer);
    /* Whether somebody waits at C in the line that KEY belongs to. */
    bool (*waits)(struct es_server *s, const struct sim_conn *c, struct es_text key);
    /* One more than allowed was told of CHANGE. */
    void (*herd)(struct es_server *s, const struct es_change *change);
    void *user;
};

struct es_conn {
    struct sim_conn base; /* first */
    struct es_server *server;
    struct grpc_server h2;
    uint32_t member;
    bool doomed;      /* breaks once what came has been looked at */
    uint32_t asked;   /* so many calls ... */
    int64_t asked_at; /* ... since then */
};

void es_server_open(struct es_server *s, uint64_t seed);
void es_server_close(struct es_server *s);
/* Does what is due by NOW; when the next thing will be. */
void es_server_run(struct es_server *s, int64_t now);
int64_t es_server_next(const struct es_server *s);

/* ---- What befalls it ---------------------------------------------------- */

void es_server_revoke(struct es_server *s, int64_t lease); /* by hand, or by a bug */
void es_server_lose_leader(struct es_server *s, int64_t until, int64_t frozen_until);
void es_server_fall_behind(struct es_server *s, uint32_t member, int64_t until);
void es_server_take_down(struct es_server *s, uint32_t member, int64_t until);
/* Forgets old revisions; MISSED per mille of the watches had not been told all of them. */
void es_server_compact(struct es_server *s, uint32_t missed);
void es_server_end_watches(struct es_server *s); /* all streams */
void es_server_heal(struct es_server *s);

/* ---- Between the files of the server ------------------------------------ */

struct es_task { /* something that will happen */
    struct es_task *next;
    int64_t at;
    void (*run)(struct es_server *s, struct es_task *t); /* may put it back (es_later) */
    struct grpc_call *rpc;                               /* kept; NULL: nobody waits */
    uint32_t member;
    enum rt_etcd_call call; /* of a request */
    uint32_t status;        /* of an answer */
    const char *text;
    bool ends, put_back;
    size_t n;
    uint8_t bytes[]; /* a request, or a message */
};

struct es_task *es_task_new(struct es_server *s, struct grpc_call *rpc, uint32_t member,
                            const void *bytes, size_t n,
                            void (*run)(struct es_server *s, struct es_task *t));
void es_task_add(struct es_server *s, struct es_task *t, int64_t at);
void es_later(struct es_server *s, struct es_task *t, int64_t at); /* from inside its run */
int64_t es_think(struct es_server *s);                   /* ns: how long something takes in there */
struct es_conn *es_conn_of(const struct grpc_call *rpc); /* NULL: gone */
bool es_frozen(struct es_server *s, struct es_task *t);  /* true: it was put back until it is not */

/* A message for RPC at AT, or its end (BYTES NULL). */
void es_say(struct es_server *s, struct grpc_call *rpc, uint32_t member, int64_t at,
            const void *message);
void es_say_end(struct es_server *s, struct grpc_call *rpc, uint32_t member, int64_t at,
                uint32_t status, const char *text);

/* CHANGE may wake at most MOST of those that wait. */
void es_judge(struct es_server *s, struct es_change *change, uint32_t most);

/* The store may have changed: tells all who are to hear of it. */
void es_applied(struct es_server *s);
void es_lease_begin(struct es_server *s, struct es_lease *lease, int64_t extra_ns);
RtEtcd__Header *es_member_header(struct es_server *s, struct rt_arena *arena, uint32_t member,
                                 int64_t revision);

/* call.c: a unary request; lease.c: a message on the stream of keep-alives; watch.c: of watches. */
void es_call(struct grpc_call *rpc, const uint8_t *bytes, size_t n);
void es_keep_alive(struct grpc_call *rpc, const uint8_t *bytes, size_t n);
void es_watch(struct grpc_call *rpc, const uint8_t *bytes, size_t n);
void es_watch_gone(struct grpc_call *rpc);
void es_watch_notify(struct es_server *s, uint32_t member);

#define ES_WATCH_PATH "/etcdserverpb.Watch/Watch"
#define ES_KEEP_PATH "/etcdserverpb.Lease/LeaseKeepAlive"

#endif
