/* SPDX-License-Identifier: Apache-2.0 */
/* A ZooKeeper connection (conn.c, greet.c, ask.c, watch.c), for whoever needs one: the lock engine (ops.h) is one user of it.
 *
 *   user ──▶ asks ──▶ ledger ──▶ one stream, in order ════════▶ one of the servers
 *   user ◀── answer ◀── the oldest that flies ◀═══════════════╡
 *   user ◀── fired ◀─── a watch, once ◀═══════════════════════╡
 *
 * The connection (enum rt_dial_state) has a ZooKeeper session from its greeting on: without one nothing can be read.
 * When the connection is lost, the session is resumed on the next server, with all watches; from then on nothing that
 * the old connection said can take effect any more (the leader refuses it). Only when the servers say that the session
 * is over is there a new one.
 *
 *   no session ── ConnectRequest ──▶ has one ── connection lost ──▶ resumed elsewhere ───┐
 *       ▲                              ▲ ◀───────────────────────────────────────────────┘
 *       └── `expired` ◀── over ────────┘ rt_zk_anew, closeSession: ended by us
 *
 * What is asked on one connection takes effect and is answered in the order of asking: a reply that is not the oldest's
 * cuts the connection.
 *
 * Touches (D1). The leader ends sessions that it has not heard of for their timeout; it hears of them, twice a tick,
 * from the server that a client is connected to. A server that dies takes with it what it had not passed on. So a touch
 * counts from when it is *secured*, by two more requests that go to the leader and back (`sync`; their connection keeps
 * the order). The answer to one that was sent half a tick after the touch was answered came after a ping, however late
 * that was; the answer to one sent then comes after the answer to that ping. A quarter of a tick lies between them,
 * because a leader that was stopped may answer everything that waited, all at once, before it pings; but it pings soon:
 * it waits half a tick by a clock that goes on while it is stopped, so its ping is overdue. (A leader that is stopped
 * again between those two is not provided for.) On a standalone server each touch counts at once; and connecting
 * counts, because the leader is asked about the session. rt_zk_secured says up to when the session certainly lives: the
 * time before the last secured touch was sent, plus the timeout.
 *
 * Everything here is serialised as engines are. No answer, up-call or callback comes from inside a function of this header:
 * all come from a turn of the loop. Inside them every function here is legal except rt_zk_conn_close. */
#ifndef RT_ZK_H
#define RT_ZK_H

#include "engine/kit/link.h"
#include "engine/zookeeper/jute.h"

struct rt_zk_conn;
struct rt_zk; /* its user, which is told; nothing is known of it here */

/* ---- Asks (ask.c) ----------------------------------------------------------------------------- */

enum rt_zk_call {
    RT_ZK_CREATE = 1,
    RT_ZK_DELETE = 2,
    RT_ZK_EXISTS = 3,
    RT_ZK_GET = 4,
    RT_ZK_SET = 5,
    RT_ZK_GET_ACL = 6,
    RT_ZK_SYNC = 9,
    RT_ZK_CHECK = 13,
    RT_ZK_MULTI = 14,
    RT_ZK_CREATE2 = 15,
    RT_ZK_CONTAINER = 19,
    RT_ZK_AUTH = 100,
    RT_ZK_SET_WATCHES = 101,
    RT_ZK_EPHEMERALS = 103, /* since 3.6 */
    RT_ZK_CHILDREN = 8,
    RT_ZK_CLOSE = -11,
};

enum rt_zk_flag { RT_ZK_PERSISTENT = 0, RT_ZK_EPHEMERAL = 1, RT_ZK_SEQUENTIAL = 2 };

/* What servers say that counts as an answer. */
enum {
    RT_ZK_OK = 0,
    RT_ZK_NO_NODE = -101,
    RT_ZK_BAD_VERSION = -103,
    RT_ZK_EXISTS_ALREADY = -110,
    RT_ZK_NOT_EMPTY = -111,
};

struct rt_zk_reply {
    int32_t said; /* one of these */
    int64_t zxid;
    struct rt_jute_in body;
};

/* What came of an ask: ERR 0 and REPLY, which lives until this returns; or REPLY NULL, conn->errmsg set, and ERR is
 *   ROTA_UNKNOWN      it may have been done (never for `reads`)
 *   ROTA_UNREACHABLE  it was not done by its deadline
 *   ROTA_CANCELED     given up, and it was never sent
 *   ROTA_LOST         its session is over; it was not done
 *   ROTA_AUTH, ROTA_INVALID, ROTA_UNSUPPORTED, ROTA_PROTOCOL, ROTA_NOMEM  refused: not done
 * Called exactly once, from a turn, never after rt_zk_conn_close. The ask is freed when it returns. */
struct rt_zk_ask;
typedef void rt_zk_answer_fn(struct rt_zk *z, struct rt_zk_ask *a, int err,
                             struct rt_zk_reply *reply);

struct rt_zk_ask {           /* made by rt_zk_ask_new, its body written, sent */
    struct rt_entry entry;   /* first: deadline, reads, again; was_again, sent_at */
    rt_zk_answer_fn *answer; /* NULL: nobody waits for it */
    void *owner;             /* the owner's: set before sending, then left alone ... */
    uint64_t extra;
    uint64_t session; /* not sent in any other; 0: in any */
    void (*prepare)(struct rt_zk *z,
                    struct rt_zk_ask *a); /* writes its body when it is sent; or NULL */
    /* The rest is the connection's. */
    enum rt_zk_call call;
    int32_t xid; /* while it flies */
    struct rt_jute_out out;
};

/* Never NULL: if there is no memory, rt_zk_send says so. `reads` is set for calls that only read. */
struct rt_zk_ask *rt_zk_ask_new(struct rt_zk_conn *c, enum rt_zk_call call,
                                rt_zk_answer_fn *answer);

/* The common ones, with their body. PATH is a full path. */
struct rt_zk_ask *rt_zk_path(struct rt_zk_conn *c, enum rt_zk_call call, const char *path,
                             rt_zk_answer_fn *answer); /* SYNC, EPHEMERALS, GET_ACL */
struct rt_zk_ask *rt_zk_read(struct rt_zk_conn *c, enum rt_zk_call call, const char *path,
                             bool watch, rt_zk_answer_fn *answer); /* GET, EXISTS, CHILDREN */
struct rt_zk_ask *rt_zk_create(struct rt_zk_conn *c, enum rt_zk_call call, const char *path,
                               struct rt_text data, uint32_t flags, rt_zk_answer_fn *answer);
/* May be asked twice: no path is used for two things. */
struct rt_zk_ask *rt_zk_delete(struct rt_zk_conn *c, const char *path, rt_zk_answer_fn *answer);
struct rt_zk_ask *rt_zk_set(struct rt_zk_conn *c, const char *path, struct rt_text data,
                            rt_zk_answer_fn *answer);

/* The body of a create, for callers that prepare one. */
void rt_zk_put_create(const struct rt_zk_conn *c, struct rt_jute_out *o, const char *path,
                      struct rt_text data, uint32_t flags);

/* The parts of a MULTI. */
void rt_zk_multi_create(struct rt_zk_conn *c, struct rt_zk_ask *a, const char *path,
                        struct rt_text data, uint32_t flags);
void rt_zk_multi_delete(struct rt_zk_ask *a, const char *path);
void rt_zk_multi_set(struct rt_zk_ask *a, const char *path, struct rt_text data, int32_t version);
void rt_zk_multi_check(struct rt_zk_ask *a, const char *path, int32_t version);
/* Reads its answer: 0, or what the first part that failed said. EACH, which may be NULL, is called for creates. */
int32_t rt_zk_multi_read(struct rt_zk_reply *reply,
                         void (*each)(void *arg, size_t part, struct rt_text path), void *arg);

/* What GET and CREATE2 answer: a text, and in *STAT, which may be NULL, the node's. If ERR or the reply says otherwise:
 * no text, and all zero. */
struct rt_text rt_zk_answered_node(int err, struct rt_zk_reply *reply, struct rt_zk_stat *stat);

/* Sends A, now or as soon as there is a connection. OP, whose deadline counts, and PENDING, in which A is counted, may
 * be NULL. 0, or ROTA_NOMEM with errmsg and no answer comes. */
int rt_zk_send(struct rt_zk_conn *c, struct rt_zk_ask *a, struct rt_op *op, void *owner,
               uint64_t extra, uint32_t *pending);
int rt_zk_post(struct rt_zk_conn *c, struct rt_zk_ask *a);   /* for no op, and nobody counts it */
void rt_zk_forgo(struct rt_zk_conn *c, struct rt_zk_ask *a); /* it is not sent after all */
bool rt_zk_cancel(struct rt_zk_conn *c, const struct rt_op *op);
/* "That does not answer it": what was asked may have been done. */
int rt_zk_odd(struct rt_zk_conn *c);

/* ---- Watches (watch.c) ------------------------------------------------------------------------ */

enum rt_zk_watch_kind {
    RT_ZK_WATCH_DATA,
    RT_ZK_WATCH_ABSENCE,
    RT_ZK_WATCH_CHILDREN,
    RT_ZK_WATCH_KINDS
};
enum rt_zk_event { RT_ZK_CREATED = 1, RT_ZK_DELETED = 2, RT_ZK_CHANGED = 3, RT_ZK_CHILD = 4 };

struct rt_zk_watch;
/* W fired, and is no longer in use: its memory may go, or be reused. AFRESH: the connection is still the one it was set
 * on, so events have come in the order of what they tell. */
typedef void rt_zk_fired_fn(struct rt_zk *z, struct rt_zk_watch *w, enum rt_zk_event event,
                            bool afresh);

struct rt_zk_watch { /* embedded in its owner's struct; zeroed before the first use */
    struct rt_zk_watch *next, **link; /* link NULL: not in use */
    struct rt_zk_conn *conn;
    rt_zk_fired_fn *fired;
    void *owner;
    uint64_t link_count; /* of the connection it was set on */
    uint32_t kind;
    char *path;
};

/* To be called before the read that sets it (again) is sent. 0, or ROTA_NOMEM with errmsg. It stays set
 * across lost connections. */
int rt_zk_watch(struct rt_zk_conn *c, struct rt_zk_watch *w, enum rt_zk_watch_kind kind,
                const char *path, rt_zk_fired_fn *fired, void *owner);
void rt_zk_unwatch(struct rt_zk_watch *w); /* also if it is not in use */

/* ---- The connection (conn.c) ------------------------------------------------------------------ */

struct rt_zk_user {
    void (*linked)(struct rt_zk *z);
    void (*lost)(struct rt_zk *z);    /* only if it was ready */
    void (*expired)(struct rt_zk *z); /* the session is over, whatever was asked in it */
};

#define RT_ZK_TOUCHES 16

struct rt_zk_conn {
    struct rt_conn *base;
    const struct rt_zk_user *on;
    struct rt_zk *rider;
    struct rt_link link;
    uint64_t link_count; /* that were ready */
    bool anew;           /* another session is wanted */
    uint32_t tick_ms;
    uint32_t ttl_ms; /* asked for; once there is a session: what a user may rely on */
    struct {
        uint64_t id; /* 0: none */
        char password[16];
        uint32_t timeout_ms;
    } session;
    int64_t wanted_until; /* nobody beats for it from then on: `expired`; 0: somebody always may */
    int64_t zxid;         /* the last one heard of */
    bool lone;            /* the server is standalone, in no ensemble */
    int64_t secured_at;   /* when the last secured touch was sent */
    struct rt_zk_touch {
        int64_t sent_at, heard_at, pinged_at; /* 0: the leader may not have pinged since */
    } touches[RT_ZK_TOUCHES];                 /* not secured, of this connection */
    size_t touch_count;
    bool touching;
    struct rt_zk_watch **watches; /* by hash of the path */
    size_t watch_count, lane_count;
    /* stands in for an ask without memory: what is written to it goes nowhere */
    struct rt_zk_ask nothing;
};

/* BASE outlives C. 0, or ROTA_INVALID or ROTA_NOMEM with errmsg: nothing stays open. */
int rt_zk_conn_open(struct rt_zk_conn *c, struct rt_conn *base, const struct rt_url *url,
                    const struct rt_zk_user *user, struct rt_zk *rider);
void rt_zk_conn_close(struct rt_zk_conn *c);
/* Abandons the session to its timeout, and makes a new one. */
void rt_zk_anew(struct rt_zk_conn *c);
/* Until when the session certainly lives, as far as is known now. */
int64_t rt_zk_secured(const struct rt_zk_conn *c);
/* A SYNC that touches the session, and counts as a touch, was answered. */
void rt_zk_touched(struct rt_zk_conn *c, const struct rt_zk_ask *a);

#define rt_zk_fail(c, ...) rt_words_fail((c)->base, __VA_ARGS__)
#define rt_zk_at(c) rt_link_at(&(c)->link)

/* ---- Files to each other ---------------------------------------------------------------------- */

#define RT_ZK_NONE "that is no ZooKeeper: is it the client port? If it speaks TLS, write zks://"

struct rt_zk_wire {      /* one connection to one server */
    struct rt_wire wire; /* first */
    int64_t touched_at, dialed_at;
    int32_t sent, answered; /* the last xid of each: asks are answered in order */
    bool connected, authenticated;
    struct rt_jute_out heard; /* what has arrived of the next message */
};

static inline struct rt_zk_wire *rt_zk_wire(const struct rt_zk_conn *c) /* NULL: DOWN */
{
    return (struct rt_zk_wire *)(void *)c->link.wire;
}

#define rt_zk_cut(c, ...) rt_link_cut(&(c)->link, __VA_ARGS__)
void rt_zk_greet(struct rt_zk_conn *c);
void rt_zk_greeted(struct rt_zk_conn *c);
/* A whole message during the greeting. */
void rt_zk_greeting(struct rt_zk_conn *c, struct rt_jute_in *in);
void rt_zk_heard(struct rt_zk_conn *c, struct rt_jute_in *in); /* ... and after it */
void rt_zk_watches_fini(struct rt_zk_conn *c); /* those who set them have given all back */
int rt_zk_watches_say(struct rt_zk_conn *c);   /* all, on a new connection. 0, or ROTA_NOMEM */
void rt_zk_notice(struct rt_zk_conn *c, struct rt_jute_in *in);
extern const struct rt_ledger_user rt_zk_asks;
void rt_zk_ask_free(struct rt_ledger *l, struct rt_entry *e); /* without a word */
/* A message that expects no answer: first its header and, when its body is written, its end; O is freed. */
void rt_zk_begin(struct rt_jute_out *o, int32_t xid, enum rt_zk_call call);
int rt_zk_say(struct rt_zk_conn *c, struct rt_jute_out *o); /* 0, or ROTA_NOMEM: not said */

#endif
