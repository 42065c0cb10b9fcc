/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine, dialect `line`: how a connection is built of rooms, nodes, links and requests.
 *
 *   op ──▶ request(s) ──▶ room ──▶ node ──▶ work link ══ EVALSHA ══▶ server
 *   op ◀── answer ◀──────────────────────── work link ◀═ tagged reply ═╡
 *   event ◀── push ◀─────────────────────── push link ◀═ PUBLISH ══════╯
 *
 * docs/engines/redis.md has the layout on the server; lua/ has the scripts, each one step there.
 *
 * What if a reply is lost, late or doubled: every request carries a tag that its reply begins with.
 * A reply in another place than its request's cuts the link, and what was in flight ends with
 * ROTA_UNKNOWN; every script may be asked again (joins by nonce, leaves by number). A push that is
 * lost leaves a gap in its session's count of pushes, which the next push or the next beat shows;
 * then the room is asked what it knows (`held`).
 *
 * A link:
 *
 *   DOWN ── wanted ──▶ DIALING ── up ──▶ GREETING (AUTH, SELECT, INFO, meta, held) ──▶ READY
 *    ▲                    │ refused          │ refused for good: `fatal`                 │
 *    └──── back-off ◀─────┴──────────────────┴──── cut, garbage, silence ◀───────────────┘ */
#ifndef RT_REDIS_H
#define RT_REDIS_H

#include "engine/kit/words.h"
#include "engine/redis/script.h"
#include "net/loop.h"
#include "net/stream.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stddef.h>

#define RT_REDIS_ROOMS_CLUSTER 256
#define RT_REDIS_ARGS_MAX 64 /* arguments of one script beside its sets' tickets */
#define RT_REDIS_SID_SIZE 17 /* 16 hex digits: 12 of the connection, 4 of the session */
#define RT_REDIS_SWEEP 64    /* tickets swept at most by one beat */

struct rt_redis_conn;
struct rt_redis_node;
struct rt_redis_request;

/* What came of a request: ERR 0 and the array that follows {tag, status} being STATUS and
 * REPLY->element[2..]; or ERR (definite, or ROTA_UNKNOWN) with conn->errmsg set and REPLY NULL. Every
 * element of REPLY is an integer or a string (with a 0 behind it); it is the link's, as RQ is, and
 * both are gone when the answerer returns. Called exactly once, never from inside rt_redis_send or
 * rt_redis_request_abandon, and never after rt_redis_side_close. */
typedef void rt_redis_answer_fn(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                                int status, const redisReply *reply);

/* ---- Requests (request.c, link.c) -------------------------------------------------------- */

/* One script call on its way. Made by rt_redis_request_new, filled, sent; freed after `answer`. */
struct rt_redis_request {
    struct rt_redis_request *next; /* queue of the conn or FIFO of a link */
    rt_redis_answer_fn *answer;
    struct rt_op *op; /* for the owner; NULL: nobody waits any more */
    void *owner;      /* a struct of the answerer: a beat, a set, an observation */
    struct rt_redis_request *peer_next, *peer_prev; /* the answerer's: JOINs that are unanswered */
    uint64_t seq; /* ... numbered in the order they were sent; an undo's: the nonce of its JOIN */
    int64_t deadline; /* 0: call_ms from rt_redis_send */
    uint64_t tag;     /* given when it is sent */
    enum rt_redis_script script;
    uint32_t room;
    uint32_t extra; /* the answerer's */
    bool sent;      /* bytes may have left: from now on only ROTA_UNKNOWN */
    bool eval;      /* with the whole text: the server did not know its hash */
    uint8_t what;   /* the link's: enum rt_redis_what */
    bool answered;  /* the owner has heard; it stays only to swallow its reply */
    int err;        /* given up: with this, from the next turn */
    int refusal;    /* with ROTA_UNKNOWN: a script failed in its middle, and would again; or 0 */
    uint64_t order; /* of rt_redis_send: what is sent again keeps its place */
    int64_t sent_at;
    char *error; /* an error reply that is not yet believed */
    size_t argc;
    size_t *lengths;   /* of args; all in one block behind the struct */
    const char **args; /* ARGV from [2] on, each with a 0 behind it; the link puts the tag before */
};

/* A request for SCRIPT in ROOM with copies of the ARGC arguments; NULL: no memory. */
struct rt_redis_request *rt_redis_request_new(enum rt_redis_script script, uint32_t room,
                                              size_t argc, const char *const *args,
                                              const size_t *lengths);

/* Queues RQ for the node that has its room; it leaves as soon as the link is ready, in order per room. */
void rt_redis_send(struct rt_redis_conn *c, struct rt_redis_request *rq);

/* Ends RQ's part of an op early, from the next turn: not yet sent: answered with ERR; sent: its owner
 * hears ROTA_UNKNOWN, and the reply is swallowed when it comes. Not from inside `answer` of RQ. */
void rt_redis_request_abandon(struct rt_redis_conn *c, struct rt_redis_request *rq, int err);

/* ---- Links and nodes (link.c, greet.c, push.c, node.c, sentinel.c, cluster.c) ------------ */

enum rt_redis_link_state { RT_REDIS_DOWN, RT_REDIS_DIALING, RT_REDIS_GREETING, RT_REDIS_READY };

enum rt_redis_link_kind { RT_REDIS_WORK, RT_REDIS_PUSH, RT_REDIS_WAIT, RT_REDIS_SENTINEL };

struct rt_redis_link {
    struct rt_stream stream; /* first */
    struct rt_redis_conn *conn;
    struct rt_redis_node *node;
    redisReader *reader;
    struct rt_redis_request *head, **tail; /* sent, unanswered */
    struct rt_redis_request *next;         /* of them the first that has no reply yet */
    enum rt_redis_link_kind kind;
    enum rt_redis_link_state state;
    /* The rest is the link's author's. */
    struct rt_timer_call timer;   /* back-off, and whom it owes a reply for too long */
    struct rt_redis_arena *arena; /* of the reply that is being read */
    struct rt_redis_greeting *greeting;
    uint32_t back_off_ms;
    uint32_t owed;             /* PUSH: confirmations to come */
    int64_t owed_since;        /* PUSH: of the oldest of them, or of the last that came */
    int64_t dial_at;           /* back-off: not before */
    bool heard;                /* PUSH: something, since it was last looked at */
    bool closing;              /* the stream has not ended yet */
    bool wanted;               /* to be dialed again when it is down */
    bool sick;                 /* READY, but refuses work for now: drained, then opened anew */
    bool unsure;               /* an error came that is not yet believed */
    bool loading;              /* the scripts are being loaded */
    bool ask_auth, asked_auth; /* SENTINEL: it wants a password */
    bool scarce;               /* WAIT: too few replicas keep up, and that was said */
    struct rt_redis_waiter *waiters; /* WAIT */
};

/* What INFO and CONFIG said about a server. */
/* What a restart does with what scripts wrote to the append-only file. (acl.c) */
enum rt_redis_replay { RT_REDIS_REPLAY_UNKNOWN, RT_REDIS_REPLAY_DROPPED, RT_REDIS_REPLAY_KEPT };

struct rt_redis_facts {
    char version[32], run_id[48], policy[32], appendfsync[16];
    char rewrite[8]; /* no-appendfsync-on-rewrite; "" : not known, as appendfsync */
    int major, minor;
    uint64_t maxmemory;
    uint32_t replicas; /* connected */
    enum rt_redis_replay replay;
    bool master, cluster, aof, config_refused, known;
};

struct rt_redis_node {
    struct rt_redis_node *next;
    char host[256]; /* "": not known yet */
    char at[272];   /* "host:port", or the socket's path, for messages */
    uint16_t port;
    struct rt_redis_link work, push, wait;
    struct rt_redis_facts facts;
    struct rt_loop *loop; /* once it is gone */
    uint32_t streams;     /* not yet closed: its memory lasts until they are */
    bool gone;            /* not in conn->nodes any more */
    bool gained;          /* rooms that another had: to be told */
    bool leaving;         /* its links are cut to be dialed somewhere else */
};

/* ---- Rooms ------------------------------------------------------------------------------ */

struct rt_redis_room {
    struct rt_redis_node *node; /* NULL: not known now */
    uint64_t pushes;            /* v as we know it ... */
    uint64_t since;   /* ... of this stay, whose first ticket known to us has this number */
    int64_t ends_at;  /* CLOCK_BOOTTIME of the next end of anything; RT_NEVER */
    uint32_t waiting; /* tickets of ours that wait here, as far as we know */
    uint32_t joining; /* JOINs in flight: pushes are kept until they are answered */
    uint64_t look;    /* where the next beat looks at our tickets: a cursor */
    bool stands;      /* our session is in this room, and every beat renews it (ops.c) */
    bool subscribed;  /* ROOM:p:CID is confirmed on the push link */
    bool stale;       /* pushes may have been lost: ask `held` when it matters */
    bool unheard;     /* it was asked, and the answer was lost: the next beat asks again */
    bool unverified;  /* a new link has not said yet what its server knows: no beat counts before */
    /* The ops side's. */
    uint32_t durable_waits;      /* durable tickets we joined with that may wait */
    uint32_t watched;            /* lines that are observed */
    uint32_t held, held_waiting; /* tickets the user believes in, as of side.counted_at */
    bool listens;                /* ROOM:p:CID was subscribed to */
    bool asking, ask_again;      /* `held` is under way, and once more after it */
    bool sweeping;
};

/* What the ops side keeps of a connection (ops.h says more). */
struct rt_redis_side {
    struct rt_op *early, **early_tail;           /* submitted before the rooms were known */
    struct rt_redis_request *joins, *joins_last; /* JOINs sent and unanswered, oldest first */
    struct rt_redis_push *kept, **kept_tail;     /* pushes that wait for the answer to a JOIN */
    struct rt_redis_work *works;                 /* ops of several requests */
    struct rt_redis_watch *watches;              /* observed lines */
    struct rt_redis_given_up *given_up; /* JOINs whose taking back is not confirmed (undo.c) */
    struct rt_timer_call early_timer, ends_timer, look_timer, set_timer;
    uint64_t join_seq;
    uint32_t
        handed;    /* grants that came by push and were not left since: more may wait behind them */
    uint64_t seed; /* of the jitter */
    int64_t beat_at;    /* the last renewal began: from then on the user may count */
    int64_t counted_at; /* the turn in which the user's tickets were counted; -1: not now */
};

/* ---- The connection (redis.c) ------------------------------------------------------------ */

struct rt_redis_conn {
    struct rt_conn base; /* first */
    /* From the URL. */
    char *user, *password, *sentinel, *unix_path;
    struct rt_tls *tls;
    struct {
        char *host;
        uint16_t port;
    } * seeds;
    size_t seed_count;
    uint32_t db, replicas;
    bool secure;
    /* Topology. */
    struct rt_redis_node *nodes;   /* single and Sentinel: one */
    struct rt_redis_node *watcher; /* Sentinel: the one that is asked; not in nodes */
    uint32_t sentinels_without;    /* how many in a row did not know the primary's name */
    bool checked;                  /* the layout's mark was seen, and is ours */
    bool refreshing;               /* the cluster's map is being asked for */
    struct rt_redis_room *rooms;   /* room_count; NULL until a greeting has told the topology */
    uint32_t room_count;
    int fatal; /* why no link can be had, for good; errmsg in fatal_text */
    char fatal_text[256];
    char last_trouble[256]; /* the last reason why no link is ready, for ROTA_UNREACHABLE */
    /* Requests that wait for a link, in order. */
    struct rt_redis_request *queue, *queue_last;
    uint64_t next_tag, next_order;
    uint64_t jitter;
    char key[40]; /* of key_room; "" : of none */
    uint32_t key_room;
    struct rt_redis_channels *channels; /* push.c */
    char *out;                          /* where commands are put together */
    size_t out_size, out_room;
    uint32_t seed_at; /* which seed is tried, and how many were since one was good */
    bool closing;
    atomic_bool strict; /* base.unsafe is "": caps are read by any thread */
    /* Session. */
    char cid[13], sid[RT_REDIS_SID_SIZE]; /* sid "" : none */
    uint64_t session;                     /* the same as a number; 0: none */
    uint16_t session_count;
    struct rt_timer_call deadline_timer;
    struct rt_redis_side side;
};

/* Up-calls from the links, done by the ops side. None of them before rt_redis_side_open and none
 * after rt_redis_side_close. */

/* From open, when all else is made (c->loop may be used; reserves its timers): 0 or ROTA_NOMEM. */
int rt_redis_side_open(struct rt_redis_conn *c);
/* From close, first of all, while links still send: says `end` where that is due, forgets ops and
 * observations. Requests that come to their end after it are freed by the links, unanswered. */
void rt_redis_side_close(struct rt_redis_conn *c);
/* Why no link can be had was found to be for good (c->fatal): ops that wait for the rooms end. */
void rt_redis_failed(struct rt_redis_conn *c);

/* Down: ops wait until c->rooms is known, though no request is queued: dial now if nothing is
 * under way. After c->fatal too: it may have been mended since; rt_redis_failed again if not. */
void rt_redis_want_link(struct rt_redis_conn *c);

/* A work link to NODE is ready again (GREETING done): the rooms there are stale, observations too. What
 * is sent from here goes before what waits in the queue. */
void rt_redis_linked(struct rt_redis_conn *c, struct rt_redis_node *node);
/* A push link's message on CHANNEL; MESSAGE NULL: the (re)subscription of CHANNEL was confirmed. */
void rt_redis_pushed(struct rt_redis_conn *c, struct rt_redis_node *node, const char *channel,
                     const char *message, size_t size);

/* Subscribes CHANNEL of ROOM on the push link of its node, now and after every reconnection, until
 * it is given up. Channels are remembered by the push link's side (push.c). */
int rt_redis_subscribe(struct rt_redis_conn *c, uint32_t room, const char *channel);
void rt_redis_unsubscribe(struct rt_redis_conn *c, uint32_t room, const char *channel);

/* Pushes of ROOM went missing (a beat's v did not fit): is its push link still alive? Cheap. */
void rt_redis_push_check(struct rt_redis_conn *c, uint32_t room);

/* ?replicas=n: calls FN when N replicas have all that the server did until now (0), or cannot be had
 * until DEADLINE (ROTA_UNREACHABLE), or will not be asked for (ROTA_AUTH and other definite errors), or
 * when that was not to be learned (ROTA_UNKNOWN). errmsg says why. (wait.c) */
void rt_redis_when_replicated(struct rt_redis_conn *c, uint32_t room, int64_t deadline,
                              void (*fn)(struct rt_redis_conn *c, void *arg, int err), void *arg);

/* Which room a spelled name is in, and how the room is spelled ("rota:{N}" or "rota:{N}@D"). */
uint32_t rt_redis_room_of(const struct rt_redis_conn *c, const char *name);
void rt_redis_room_key(const struct rt_redis_conn *c, uint32_t room, char *out, size_t size);

/* The whole engine's errors: sets errmsg. */
#define rt_redis_fail(c, ...) rt_words_fail(&(c)->base, __VA_ARGS__)

/* ---- Ops (side.c; ops.h) ------------------------------------------------------------------ */

void rt_redis_submit(struct rt_conn *conn, struct rt_op *op);
const char *rt_redis_trouble(const struct rt_conn *conn); /* why something waits to be sent */
void rt_redis_cancel(struct rt_conn *conn, struct rt_op *op);

#endif
