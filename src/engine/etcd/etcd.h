/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd connection (open.c, conn.c, say.c, auth.c, ask.c, watch.c, lease.c), for whoever needs one: the lock
 * engine (ops.h) is one user of it.
 *
 *   user ──▶ ask(s) ──▶ queue ──▶ a unary call ════════▶ one of the endpoints
 *   user ◀── answer ◀──────────── its end ◀═════════════╡
 *   user ◀── events ◀─────────── the Watch stream ◀═════╡   all on one HTTP/2 connection
 *   user ──▶ keep ──────────────▶ the LeaseKeepAlive stream
 *
 * A connection (enum rt_dial_state) greets by Authenticate and Status. One that falls sick is drained; when one is
 * lost, the next endpoint is tried.
 *
 * Everything here is serialised as engines are. No answer, up-call or callback comes from inside a
 * function of this header: all come from a turn of the loop. Inside them every function here is
 * legal except rt_etcd_conn_close.
 *
 * etcd serves the calls of a connection side by side: two asks in flight at once may take effect in
 * either order. Whoever needs an order waits for the first answer. */
#ifndef RT_ETCD_H
#define RT_ETCD_H

#include "engine/etcd/proto.h"
#include "engine/etcd/status.h"
#include "engine/kit/ledger.h"
#include "engine/kit/words.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_etcd_conn;

/* ---- Asks: unary calls (ask.c) --------------------------------------------------------------- */

enum rt_etcd_call {                       /* message sent, message answered */
                    RT_ETCD_RANGE,        /* RtEtcd__RangeRequest, RtEtcd__RangeResponse */
                    RT_ETCD_TXN,          /* TxnRequest, TxnResponse */
                    RT_ETCD_PUT,          /* PutRequest, PutResponse */
                    RT_ETCD_DELETE,       /* DeleteRangeRequest, DeleteRangeResponse */
                    RT_ETCD_LEASE_GRANT,  /* LeaseGrantRequest, LeaseGrantResponse */
                    RT_ETCD_LEASE_REVOKE, /* LeaseRevokeRequest, LeaseRevokeResponse */
                    RT_ETCD_LEASE_LEFT,   /* LeaseTimeToLiveRequest, LeaseTimeToLiveResponse */
                    RT_ETCD_STATUS,  /* StatusRequest, StatusResponse: of the server we are on */
                    RT_ETCD_MEMBERS, /* MemberListRequest, MemberListResponse */
                    RT_ETCD_AUTHENTICATE, /* the connection's own */
                    RT_ETCD_CALLS
};

/* What came of an ask: ERR 0 and REPLY, an RtEtcd__...Response that lives until this returns; or
 * REPLY NULL, conn->errmsg set, a->reason what etcd said, and ERR is
 *   ROTA_UNKNOWN      it may have been done, or may still be (never for `reads`)
 *   ROTA_UNREACHABLE  it was not done by its deadline: no server, no leader, no space, too busy
 *   ROTA_CANCELED     abandoned by rt_etcd_ask_abandon before it was sent
 *   ROTA_LOST         with RT_ETCD_NO_LEASE: the lease is gone
 *   ROTA_AUTH, ROTA_INVALID, ROTA_UNSUPPORTED, ROTA_PROTOCOL, ROTA_NOMEM  refused: not done
 * Called exactly once, from a turn, never after rt_etcd_conn_close. The ask is freed
 * when it returns. */
struct rt_etcd_ask;
typedef void rt_etcd_answer_fn(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err,
                               const void *reply);

struct rt_etcd_ask {           /* made by rt_etcd_ask_new, filled, sent; freed after `answer` */
    struct rt_entry entry;     /* first: deadline (RT_NEVER: as 0), reads, again; was_again */
    rt_etcd_answer_fn *answer; /* NULL: nobody waits for it */
    /* The owner's: set before sending, then left alone. */
    void *owner;
    uint64_t extra;
    /* Answered. */
    uint8_t reason; /* enum rt_etcd_reason */
    /* The rest is the connection's. */
    uint8_t call_kind;     /* enum rt_etcd_call */
    uint32_t token_serial; /* it was sent with */
    struct rt_etcd_conn *conn;
    struct rt_grpc_call *call;
    size_t room, size;
    uint8_t *bytes; /* packed, behind the struct */
};

/* An ask with MESSAGE (the address of an initialised RtEtcd__...Request of the right kind) packed into
 * it; MESSAGE may go afterwards. NULL: no memory. `reads` is set for calls that only read. */
struct rt_etcd_ask *rt_etcd_ask_new(struct rt_etcd_conn *c, enum rt_etcd_call call,
                                    const void *message, rt_etcd_answer_fn *answer);

/* Sends it now, or as soon as a connection is ready; dials if nothing is under way. */
void rt_etcd_ask_send(struct rt_etcd_conn *c, struct rt_etcd_ask *a);

/* New, the owner's fields, send: enough for most. OP (its deadline counts) may be NULL. 0, or ROTA_NOMEM with
 * errmsg and no answer comes. */
int rt_etcd_ask(struct rt_etcd_conn *c, enum rt_etcd_call call, const void *message,
                rt_etcd_answer_fn *answer, struct rt_op *op, void *owner, uint64_t extra);
/* The last two of these steps, for A (NULL: there was no memory). A is counted in *PENDING unless that is NULL. */
int rt_etcd_ask_for(struct rt_etcd_conn *c, struct rt_etcd_ask *a, struct rt_op *op, void *owner,
                    uint64_t extra, uint32_t *pending);

/* Ends it early, from the next turn: ERR if it was never sent (or surely not done, or reads), else
 * ROTA_UNKNOWN. Not legal from inside its own answer, nor after it. */
void rt_etcd_ask_abandon(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err);

/* The same for the ask of OP (the first, if there are several), with ROTA_CANCELED. False: there is none. */
bool rt_etcd_ask_cancel(struct rt_etcd_conn *c, const struct rt_op *op);

/* ---- Watches (watch.c) ----------------------------------------------------------------------- */

struct rt_etcd_watch;
struct rt_etcd_watch_user {
    /* Events are told from REVISION + 1 on. Called again after each `lost` with 0: whoever waits must
     * look once more now, because what happened in between is not told. */
    void (*created)(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision);
    /* N > 0 of them, in order of revision; all of a revision together, except that one change to a very
     * large number of keys may come in several portions. They live until this returns. */
    void (*events)(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                   RtEtcd__Event *const *events, size_t n);
    /* ERR 0: nothing is told until `created` comes again, which happens by itself (after a lost
     * connection, a compaction). Else W is over as if by rt_etcd_unwatch: ROTA_AUTH (no right to read
     * this range), with errmsg. May be NULL; so may the others. */
    void (*lost)(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int err);
};

#define RT_ETCD_WATCH_NO_PUT 0x1u
#define RT_ETCD_WATCH_NO_DELETE 0x2u

struct rt_etcd_watch { /* embedded in its owner's struct; zeroed before the first use */
    const struct rt_etcd_watch_user *user; /* NULL: not in use */
    void *owner;                           /* the owner's */
    /* The rest is the connection's. */
    struct rt_etcd_watch *next, *prev; /* all of them */
    struct rt_etcd_watch *hash_next;
    int64_t id;   /* on this stream; 0: not asked for */
    bool created; /* and told */
    bool refused; /* once, with a token that may have been old */
    uint32_t flags;
    size_t key_size, end_size;
    uint8_t *key; /* end behind it */
};

/* Watches KEY (END_SIZE 0), or KEY to END, from now on, across reconnections, until unwatched. 0, or
 * ROTA_NOMEM with errmsg and nothing begun. Key and end are copied. All share one stream. */
int rt_etcd_watch(struct rt_etcd_conn *c, struct rt_etcd_watch *w, const void *key, size_t key_size,
                  const void *end, size_t end_size, uint32_t flags,
                  const struct rt_etcd_watch_user *user);

/* Nothing more is told of W, whose memory may go. Legal also if W is not in use. */
void rt_etcd_unwatch(struct rt_etcd_conn *c, struct rt_etcd_watch *w);

/* ---- Leases (lease.c): granted, revoked and looked at by asks, kept alive on one stream --------- */

struct rt_etcd_keep;
/* ERR 0: alive, for TTL_S from when the server read the request; ROTA_LOST: there is no such lease (any
 * more); ROTA_UNREACHABLE: no answer by the deadline. Exactly once, unless unkept before. K may be
 * reused from inside. SENT_AT: the loop's time when the answered request was written; the lease's end
 * counts from it. */
typedef void rt_etcd_kept_fn(struct rt_etcd_conn *c, struct rt_etcd_keep *k, int err, int64_t ttl_s,
                             int64_t sent_at);

struct rt_etcd_keep {      /* embedded in its owner's struct; zeroed before the first use */
    rt_etcd_kept_fn *kept; /* NULL: not in use */
    void *owner;           /* the owner's */
    /* The rest is the connection's. */
    struct rt_etcd_keep *next, *prev;
    int64_t lease, deadline, sent_at;
    bool sent; /* on this stream */
};

/* Keeps LEASE alive once: one message, sent again on a new stream or connection until DEADLINE (RT_NEVER:
 * call_ms from now). K must not be in use. Never fails: errors come through KEPT. */
void rt_etcd_keep(struct rt_etcd_conn *c, struct rt_etcd_keep *k, int64_t lease, int64_t deadline,
                  rt_etcd_kept_fn *kept);
void rt_etcd_unkeep(struct rt_etcd_conn *c, struct rt_etcd_keep *k); /* also if not in use */

/* ---- The connection (open.c, conn.c, auth.c) ---------------------------------------------------- */

struct rt_etcd_facts {         /* what Status said at the last greeting */
    char version[32], at[280]; /* "3.4.23"; "host:port" */
    char alarms[160];          /* as etcd words them: "" is none */
    int major, minor, patch;
    uint64_t leader, member, cluster, term; /* ids */
    int64_t db_size, db_quota, revision;    /* quota 0: not told (before 3.6) */
    bool known, learner, auth;              /* auth: the server took our password */
};

/* facts.c. Fills F with what R says, except `auth`; AT: who said it. */
void rt_etcd_facts_read(struct rt_etcd_facts *f, const RtEtcd__StatusResponse *r, const char *at);
/* Known bugs of leases in that version, for people; "" if it has none. */
const char *rt_etcd_lease_bugs(const struct rt_etcd_facts *f);
/* The same for known holes in the rights of users. */
const char *rt_etcd_rights_bugs(const struct rt_etcd_facts *f);
#define RT_ETCD_UPGRADE "3.5.33, 3.6.14, 3.7.1 or later" /* have neither */

/* probe.c. The state of each endpoint, asked over a separate connection. */
struct rt_etcd_probe;
struct rt_etcd_probed {
    struct rt_etcd_facts facts; /* known: it said */
    bool answers;               /* else WHY says why not */
    char why[200];
};
/* Asks all; DONE comes from a turn when each has answered or failed, within MS. NULL: no memory. */
struct rt_etcd_probe *rt_etcd_probe_new(struct rt_etcd_conn *c, uint32_t ms,
                                        void (*done)(struct rt_etcd_conn *c, void *arg), void *arg);
const struct rt_etcd_probed *rt_etcd_probed(const struct rt_etcd_probe *p, size_t end);
void rt_etcd_probe_free(struct rt_etcd_probe *p); /* at any time: nothing is told then. NULL too */

/* The user of a connection. Each member may be NULL; none is called from inside a function of this
 * header except rt_etcd_conn_close. */
struct rt_etcd_user {
    /* A connection is ready, for the first time or again, and its facts are new; what is asked from
     * here goes before what waits. Afterwards the watches are re-created by themselves. */
    void (*linked)(struct rt_etcd_conn *c);
    void (*lost)(struct rt_etcd_conn *c); /* it is gone; comes before its asks are told */
    /* No connection is possible (a wrong password, a wrong certificate): all waiting asks have been
     * answered with ERR and WHY. Another attempt is made when something is asked. */
    void (*failed)(struct rt_etcd_conn *c, int err, const char *why);
    /* From rt_etcd_conn_close, while it may still send: asks that nobody waits for (`answer` NULL: a revoke)
     * leave at once if the connection is ready. Watches and keeps were given back just before
     * (rt_etcd_unwatch and _unkeep then do nothing), so their memory must last until this call. */
    void (*close)(struct rt_etcd_conn *c);
    /* What the user's keys begin with, for a message about missing rights; "": with anything. */
    const char *(*prefix)(struct rt_etcd_conn *c);
};

/* Sets up C, zeroed, from URL (hosts, user, TLS); link.h has the struct, to be embedded. BASE: loop, times
 * (0: the defaults), errmsg, and `up` for the log, which may be NULL; `engine` and `label` are ignored. Does
 * not dial. 0, or an error: nothing stays open and errmsg says why. */
int rt_etcd_conn_open(struct rt_etcd_conn *c, struct rt_conn *base, const struct rt_url *url,
                      const struct rt_etcd_user *user);
/* Gives everything back without waiting; no answer, user call or callback comes after it. */
void rt_etcd_conn_close(struct rt_etcd_conn *c);
void rt_etcd_conn_forked(struct rt_etcd_conn *c); /* in a child: closes what is the parent's */
void rt_etcd_want(struct rt_etcd_conn *c);        /* dials unless it is up, or on its way */

const struct rt_etcd_facts *rt_etcd_facts(const struct rt_etcd_conn *c);
struct rt_conn *rt_etcd_base(struct rt_etcd_conn *c);
/* Why asks wait at this moment; NULL: nothing is known to be wrong. */
const char *rt_etcd_trouble(const struct rt_etcd_conn *c);
bool rt_etcd_ready(const struct rt_etcd_conn *c);       /* asks leave at once */
bool rt_etcd_secure(const struct rt_etcd_conn *c);      /* etcds:// */
size_t rt_etcd_end_count(const struct rt_etcd_conn *c); /* endpoints of the URL */

/* Sets errmsg and returns ERR. */
#define rt_etcd_fail(c, ...) rt_words_fail(rt_etcd_base(c), __VA_ARGS__)
#define rt_etcd_log(c, ...) rt_words_log(rt_etcd_base(c), __VA_ARGS__)

#endif
