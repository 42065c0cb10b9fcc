/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the etcd engine's connection: what open.c, conn.c, say.c, auth.c, ask.c, watch.c, lease.c and
 * probe.c share, and those who embed one. */
#ifndef RT_ETCD_LINK_H
#define RT_ETCD_LINK_H

#include "base/list.h"
#include "engine/etcd/etcd.h"
#include "engine/kit/link.h"
#include "net/grpc.h"

#define RT_ETCD_LED "hasleader" /* to fail at once, also later, if the server has no leader */

struct rt_etcd_wire {     /* one connection to one endpoint, from dialing to its end */
    struct rt_wire wire;  /* first */
    struct rt_grpc *grpc; /* NULL until it is up */
    struct rt_grpc_call *status_call, *auth_call;
    struct rt_grpc_call *watch_call, *lease_call; /* the two streams; NULL: not open */
    uint32_t watch_token, status_token;           /* the serials of their tokens */
    bool status_refused;                          /* for lack of a token: to be asked again ... */
    bool status_again;                            /* ... and was, once */
    int64_t pinged_at, progress_at, drain_until;
    bool pinged;     /* since last heard */
    bool sick;       /* no new asks; cut when the last is answered, or at drain_until */
    bool broken;     /* the codec cannot go on: to be cut from a turn */
    bool lease_owes; /* an answer may come to a keep-alive that was given up */
};

struct rt_etcd_conn {
    struct rt_conn *base;          /* in whose name: loop, times, errmsg, log */
    const struct rt_etcd_user *on; /* its user */
    struct rt_link link;           /* the timer of its ledger is for keeps, too */
    struct rt_etcd_facts facts;
    /* Who we are. */
    char *token; /* NULL: none */
    size_t token_size;
    uint32_t token_serial;
    bool authenticating; /* asks wait for it */
    bool auth_off;       /* the server has no users */
    /* Asks. */
    struct rt_etcd_ask *spare; /* by entry.next */
    uint32_t spares;
    struct rt_arena arena; /* of the message that is being told */
    /* Watches. */
    struct rt_etcd_watch watches; /* the head of a ring */
    struct rt_etcd_watch **buckets;
    size_t bucket_count, watch_count;
    int64_t last_watch_id;
    /* Keeps. */
    struct rt_etcd_keep keeps; /* the head of a ring */
};

/* ---- conn.c ------------------------------------------------------------------------------------- */

#define rt_etcd_cut(c, ...) rt_link_cut(&(c)->link, __VA_ARGS__)
#define rt_etcd_fatal(c, ...) rt_link_fail(&(c)->link, __VA_ARGS__)
#define rt_etcd_at(c) rt_link_at(&(c)->link)
/* Nothing new goes to this endpoint: another is tried as soon as what is under way has ended. */
RT_LINK_SAYS(2) void rt_etcd_sicken(struct rt_etcd_conn *c, const char *format, ...);
bool rt_etcd_usable(const struct rt_etcd_conn *c);
extern const struct rt_link_user rt_etcd_link_user;

static inline struct rt_etcd_wire *rt_etcd_wire(const struct rt_etcd_conn *c) /* NULL: DOWN */
{
    return (struct rt_etcd_wire *)(void *)c->link.wire;
}

static inline struct rt_etcd_conn *rt_etcd_of_link(struct rt_link *k)
{
    return (struct rt_etcd_conn *)(void *)((char *)k - offsetof(struct rt_etcd_conn, link));
}

static inline struct rt_etcd_conn *rt_etcd_of_wire(const struct rt_etcd_wire *l) /* NULL: let go */
{
    return l->wire.link != NULL ? rt_etcd_of_link(l->wire.link) : NULL;
}

/* ---- say.c ---------------------------------------------------------------------------------------- */

/* To be called after anything that writes: what the codec could not do is acted on from a turn. */
void rt_etcd_wrote(struct rt_etcd_conn *c);
/* Something was answered: it works. */
void rt_etcd_progress(struct rt_etcd_conn *c);
/* One message on a stream: as rt_grpc_send. */
int rt_etcd_say(struct rt_etcd_conn *c, struct rt_grpc_call *call, const void *message);
/* Opens a stream; the callbacks' argument is the link. As rt_grpc_call. */
int rt_etcd_stream_open(struct rt_etcd_conn *c, const char *path, rt_grpc_message_fn *on_message,
                        rt_grpc_end_fn *on_end, struct rt_grpc_call **out);
/* Pings a server that has owed an answer for long, cuts one that has owed it for too long, and looks again later. */
void rt_etcd_look_for_silence(struct rt_etcd_conn *c, int64_t now);

/* ---- auth.c --------------------------------------------------------------------------------------- */

void rt_etcd_greet(struct rt_etcd_conn *c);
/* A token with SERIAL was refused: asks wait until there is another. False: we have no user. */
bool rt_etcd_reauthenticate(struct rt_etcd_conn *c, uint32_t serial);
void rt_etcd_auth_lost(struct rt_etcd_conn *c); /* with the connection */
/* From auth.c to conn.c: the greeting is over. */
void rt_etcd_greeted(struct rt_etcd_conn *c);

/* ---- ask.c ---------------------------------------------------------------------------------------- */

extern const struct rt_ledger_user rt_etcd_asks;
void rt_etcd_ask_free(struct rt_ledger *l, struct rt_entry *e); /* without a word */
void rt_etcd_ask_fini(struct rt_etcd_conn *c); /* the spare asks kept for the next */

/* ---- watch.c, lease.c ------------------------------------------------------------------------------- */

void rt_etcd_watch_init(struct rt_etcd_conn *c);
void rt_etcd_watch_fini(struct rt_etcd_conn *c);
void rt_etcd_watch_linked(struct rt_etcd_conn *c); /* creates them (again) */
void rt_etcd_watch_lost(struct rt_etcd_conn *c);   /* with the connection or its stream */

void rt_etcd_lease_linked(struct rt_etcd_conn *c);
void rt_etcd_lease_lost(struct rt_etcd_conn *c);
void rt_etcd_lease_refuse(struct rt_etcd_conn *c, const char *why);
/* Ends the keeps whose deadline has passed; returns the next deadline. */
int64_t rt_etcd_lease_tick(struct rt_etcd_conn *c, int64_t now);
/* When the oldest unanswered keep-alive was sent; RT_NEVER: there is none. */
int64_t rt_etcd_lease_owed(const struct rt_etcd_conn *c);
void rt_etcd_lease_reopen(struct rt_etcd_conn *c); /* it stands still: opens another */

#endif
