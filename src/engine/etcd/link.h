/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the etcd engine's connection: what open.c, conn.c, say.c, auth.c, ask.c, watch.c, lease.c and
 * probe.c share, and who has one embedded. */
#ifndef RT_ETCD_LINK_H
#define RT_ETCD_LINK_H

#include "base/list.h"
#include "engine/etcd/etcd.h"
#include "engine/kit/dial.h"
#include "net/grpc.h"
#include "net/stream.h"

#define RT_ETCD_LED "hasleader" /* to fail at once, also later on, if the server has no leader */

/* One connection to one endpoint, from its dialing to its end; its memory lasts until the stream has
 * closed, which may be later than the conn. */
struct rt_etcd_link {
    struct rt_stream stream; /* first */
    struct rt_etcd_conn *conn;
    struct rt_grpc *grpc; /* NULL until it is up */
    struct rt_grpc_call *status_call, *auth_call;
    struct rt_grpc_call *watch_call, *lease_call; /* the two streams; NULL: not open */
    uint32_t watch_token, status_token;           /* the serials of their tokens */
    bool status_refused;                          /* for want of a token: to be asked again ... */
    bool status_again;                            /* ... and was, once */
    int64_t heard_at, pinged_at, progress_at, ready_at, drain_until;
    bool heard;      /* it has said anything at all */
    bool pinged;     /* since it was heard */
    bool sick;       /* no new asks; cut when the last was answered, or at drain_until */
    bool leaving;    /* it says so: nothing is wrong */
    bool broken;     /* the codec cannot go on: to be cut from a turn */
    bool lease_owes; /* an answer may come to a keep-alive that was given up */
};

struct rt_etcd_conn {
    struct rt_conn *base;          /* in whose name: loop, times, errmsg, log */
    const struct rt_etcd_user *on; /* who rides on it */
    /* From the URL. */
    char *user, *password;
    struct rt_tls *tls;
    struct rt_dial_ring ring;
    bool secure;
    /* The connection. */
    enum rt_dial_state state;
    struct rt_etcd_link *link;       /* NULL: DOWN */
    struct rt_timer_call link_timer; /* to dial, the end of a greeting, silence */
    uint32_t failures;               /* in a row, since something was answered */
    uint32_t refusals;               /* of them certificates, and peers that are no etcd */
    struct rt_dial_pause pause;
    uint64_t jitter;
    char trouble[256]; /* the last reason why something did not go well ... */
    uint32_t unheard;  /* ... and how many endpoints could not even be dialed since */
    bool closing;
    struct rt_etcd_facts facts;
    /* Who we are. */
    char *token; /* NULL: none */
    size_t token_size;
    uint32_t token_serial;
    bool authenticating; /* asks wait for it */
    bool auth_off;       /* the server has no users */
    /* Asks. */
    struct rt_ledger ledger;   /* its timer is for keeps, too */
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

void rt_etcd_link_init(struct rt_etcd_conn *c);
/* Each for the reason that FORMAT and what follows it say. */
#define RT_ETCD_SAYS(n) __attribute__((format(printf, n, (n) + 1)))
/* Ends the connection at once: asks in flight end or wait again, watches are lost. From a turn only. */
RT_ETCD_SAYS(2) void rt_etcd_cut(struct rt_etcd_conn *c, const char *format, ...);
/* For good: all that waits is refused. From a turn only. */
RT_ETCD_SAYS(3) void rt_etcd_fatal(struct rt_etcd_conn *c, int err, const char *format, ...);
/* Nothing new goes to this endpoint: another is tried as soon as what is under way has ended. */
RT_ETCD_SAYS(2) void rt_etcd_sicken(struct rt_etcd_conn *c, const char *format, ...);
void rt_etcd_link_close(struct rt_etcd_conn *c);
const char *rt_etcd_at(const struct rt_etcd_conn *c); /* the endpoint in use */
bool rt_etcd_usable(const struct rt_etcd_conn *c);

/* ---- say.c ---------------------------------------------------------------------------------------- */

/* To be called after anything that has written: what the codec could not do is acted on from a turn. */
void rt_etcd_wrote(struct rt_etcd_conn *c);
/* Something was answered: it works. */
void rt_etcd_progress(struct rt_etcd_conn *c);
/* One message on a stream: as rt_grpc_send. */
int rt_etcd_say(struct rt_etcd_conn *c, struct rt_grpc_call *call, const void *message);
/* Opens a stream; the callbacks' argument is the link. As rt_grpc_call. */
int rt_etcd_stream_open(struct rt_etcd_conn *c, const char *path, rt_grpc_message_fn *on_message,
                        rt_grpc_end_fn *on_end, struct rt_grpc_call **out);
/* Pings who owes an answer for long, cuts who owes it for too long, and looks again later. */
void rt_etcd_look_for_silence(struct rt_etcd_conn *c, int64_t now);

/* ---- auth.c --------------------------------------------------------------------------------------- */

void rt_etcd_greet(struct rt_etcd_conn *c);
/* A token with SERIAL was refused: asks wait until there is another. False: we have no user. */
bool rt_etcd_reauthenticate(struct rt_etcd_conn *c, uint32_t serial);
void rt_etcd_auth_lost(struct rt_etcd_conn *c); /* with the connection */
/* From auth.c to conn.c: the greeting is over. */
void rt_etcd_greeted(struct rt_etcd_conn *c);

/* ---- ask.c ---------------------------------------------------------------------------------------- */

void rt_etcd_ask_init(struct rt_etcd_conn *c);
void rt_etcd_ask_fini(struct rt_etcd_conn *c); /* all go without a word */

/* ---- watch.c, lease.c ------------------------------------------------------------------------------- */

void rt_etcd_watch_init(struct rt_etcd_conn *c);
void rt_etcd_watch_fini(struct rt_etcd_conn *c);
void rt_etcd_watch_linked(struct rt_etcd_conn *c); /* creates them (again) */
void rt_etcd_watch_lost(struct rt_etcd_conn *c);   /* with the connection or its stream */

void rt_etcd_lease_linked(struct rt_etcd_conn *c);
void rt_etcd_lease_lost(struct rt_etcd_conn *c);
void rt_etcd_lease_refuse(struct rt_etcd_conn *c, const char *why);
/* Ends those that are over; when the next is. */
int64_t rt_etcd_lease_tick(struct rt_etcd_conn *c, int64_t now);
/* When the oldest that was sent and not answered was; RT_NEVER. */
int64_t rt_etcd_lease_owed(const struct rt_etcd_conn *c);
void rt_etcd_lease_reopen(struct rt_etcd_conn *c); /* the stream stands still: another */

#endif
