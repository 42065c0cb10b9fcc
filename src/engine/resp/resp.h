/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis connection, for whoever needs one: one server, a primary that Sentinel tells of, or a cluster; TLS, users
 * and passwords; script calls in order, pushes, waiting for replicas. The lock engine (engine/redis) is one of its
 * users.
 *
 *   user ──▶ request(s) ──▶ place ──▶ node ──▶ work link ══ EVALSHA ══▶ server
 *   user ◀── answer ◀───────────────────────── work link ◀═ tagged reply ═╡
 *   user ◀── pushed ◀───────────────────────── push link ◀═ PUBLISH ══════╯
 *
 * A place is one of the slots that the user's keys are in: there is one, or in a cluster `places` of them.
 *
 * What if a reply is lost, late or doubled: every request carries a tag that its reply begins with.
 * A reply in another place than its request's cuts the link, and what was in flight ends with ROTA_UNKNOWN.
 *
 * A link (enum rt_dial_state) greets by AUTH, SELECT, INFO and the user's mark; refused for good: `fatal`.
 *
 * Serialised as engines are. The user is told things from a turn of the loop; there every function of this file is
 * legal except rt_resp_conn_close. */
#ifndef RT_RESP_H
#define RT_RESP_H

#include "engine/engine.h"
#include "engine/kit/arena.h"
#include "engine/kit/dial.h"
#include "engine/kit/ledger.h"
#include "engine/kit/words.h"
#include "net/loop.h"
#include "net/stream.h"

#include <hiredis/hiredis.h>
#include <stddef.h>

struct rt_resp_conn;
struct rt_resp_link;
struct rt_resp_node;
struct rt_resp_request;

struct rt_resp_text { /* a script; it lives as long as the program */
    const char *text;
    size_t length;
    const char *sha1; /* what EVALSHA calls it by: 40 characters */
};

/* ---- Who rides on a connection ------------------------------------------------------------------- */

/* What follows `answer` may be NULL. */
struct rt_resp_user {
    const char *name; /* "redis": of its schemes and its page under docs/engines */
    /* which keys an ACL user is to be granted, for the message when they are refused; NULL: "~rota:*" */
    const char *keys;
    int scripts;     /* numbered from 0; all are loaded when a server does not know one */
    uint32_t places; /* in a cluster */
    /* Not NULL: clusters are refused, and this says why, behind "is a cluster: ". */
    const char *no_cluster;
    struct rt_resp_text (*text)(const struct rt_resp_conn *c, int script); /* also by c->cluster */
    /* KEYS[1] of RQ. Valid until the next call. */
    const char *(*key)(struct rt_resp_conn *c, const struct rt_resp_request *rq);
    /* What came of a request: ERR 0, with the status that follows the tag in STATUS and the rest in
     * REPLY->element[2..]; or ERR (definite, or ROTA_UNKNOWN) with errmsg set and REPLY NULL. Every element
     * of REPLY is an integer or a string (with a 0 behind it). REPLY and RQ are the link's, and both are gone
     * when this returns. Called exactly once, never from inside rt_resp_send, and never after rt_resp_conn_close. */
    void (*answer)(struct rt_resp_conn *c, struct rt_resp_request *rq, int err, int status,
                   const redisReply *reply);
    /* Needed in a cluster: the slot of PLACE, as rt_resp_slot says of its keys. */
    uint32_t (*slot)(uint32_t place);
    /* The first greeting has told how many places there are: c->place_count. False: no memory. */
    bool (*laid)(struct rt_resp_conn *c);
    /* L is greeted, and the server of place 0 is the right one: asks it, by rt_resp_mark, for the mark of the
     * user's layout. NULL: it has none. */
    void (*mark)(struct rt_resp_link *l);
    /* The answer: false if that is not ours, after rt_resp_fatal. */
    bool (*marked)(struct rt_resp_link *l, const redisReply *reply);
    void (*judge)(struct rt_resp_conn *c); /* the facts of a node are new */
    /* A work link came (UP) or went. */
    void (*link)(struct rt_resp_conn *c, bool up);
    /* A work link to NODE is ready (again), or places have come to it. What is sent from here goes before what
     * waits in the queue. */
    void (*linked)(struct rt_resp_conn *c, struct rt_resp_node *node);
    /* No link can be had, and that is for good (c->fatal, c->fatal_text): what waited was answered with
     * it. It is tried again when something is wanted. */
    void (*failed)(struct rt_resp_conn *c);
    /* A push link's message on CHANNEL; MESSAGE NULL: the (re)subscription of CHANNEL was confirmed. */
    void (*pushed)(struct rt_resp_conn *c, struct rt_resp_node *node, const char *channel,
                   const char *message, size_t size);
    /* Whether a push of NODE is waited for: then the other end is asked now and then whether it lives. */
    bool (*listens)(struct rt_resp_conn *c, const struct rt_resp_node *node);
};

/* ---- Requests (request.c, fifo.c) ------------------------------------------------------------------ */

/* One script call on its way. Made by rt_resp_request_new, filled, sent; freed after `answer`. It is found and
 * given up through c->ledger. */
struct rt_resp_request {
    struct rt_entry entry; /* first: deadline, first */
    /* The user's, before it is sent. */
    int script;
    uint32_t place;
    bool eval; /* with the whole text; set where the server did not know its hash */
    /* asking again finds out what it did: ROTA_UNKNOWN where the script failed halfway */
    bool traced;
    bool speaks_last; /* others hear of it before we do: fifo.c */
    /* The rest is the link's. */
    uint8_t what;   /* enum rt_resp_what */
    uint32_t which; /* of its kind */
    int refusal;    /* with ROTA_UNKNOWN: a script failed halfway, and would again; or 0 */
    struct rt_resp_request *next; /* FIFO of a link */
    uint64_t tag;                 /* given when it is sent */
    int64_t sent_at;
    char *error; /* an error reply that is not yet believed */
    size_t argc;
    size_t *lengths;   /* of args; all in one block behind the struct */
    const char **args; /* ARGV from [2] on, each with a 0 behind it; the link puts the tag before */
};

/* A request for SCRIPT at PLACE with copies of the ARGC arguments. SIZE: of the user's struct, which begins
 * with struct rt_resp_request. NULL: no memory. */
struct rt_resp_request *rt_resp_request_new(size_t size, int script, uint32_t place, size_t argc,
                                            const char *const *args, const size_t *lengths);

size_t rt_resp_digits(char *out, uint64_t number); /* in decimal, without a NUL: at most 20 */

/* Queues RQ for the node that has its place; it leaves as soon as the link is ready, in order per place. The
 * places must be known: c->places. */
void rt_resp_send(struct rt_resp_conn *c, struct rt_resp_request *rq);

/* ---- Links and nodes (link.c, greet.c, push.c, node.c, sentinel.c, cluster.c) ------------ */

enum rt_resp_link_kind { RT_RESP_WORK, RT_RESP_PUSH, RT_RESP_WAIT, RT_RESP_SENTINEL };

struct rt_resp_link {
    struct rt_stream stream; /* first */
    struct rt_resp_conn *conn;
    struct rt_resp_node *node;
    redisReader *reader;
    struct rt_resp_request *head, **tail; /* sent, unanswered */
    struct rt_resp_request *next;         /* the first of them without a reply yet */
    enum rt_resp_link_kind kind;
    enum rt_dial_state state;
    struct rt_timer_call timer; /* back-off, and replies owed for too long */
    struct rt_arena arena;      /* of the reply that is being read */
    struct rt_resp_greeting *greeting;
    struct rt_dial_pause pause;
    char said[256];                 /* its last trouble; "": none since it was well */
    uint32_t owed;                  /* PUSH: confirmations to come */
    int64_t owed_since;             /* PUSH: of the oldest of them, or of the last that came */
    int64_t dial_at;                /* back-off: not before */
    bool heard;                     /* PUSH: something, since it was last looked at */
    bool closing;                   /* the stream has not ended yet */
    bool wanted;                    /* to be dialed again when it is down */
    bool sick;                      /* READY, but refuses work for now: drained, then opened anew */
    bool unsure;                    /* an error came that is not yet believed */
    bool loading;                   /* the scripts are being loaded */
    bool ask_auth, asked_auth;      /* SENTINEL: it wants a password */
    bool scarce;                    /* WAIT: too few replicas keep up, and that was said */
    bool refused;                   /* WAIT: it is, and that was said */
    struct rt_resp_waiter *waiters; /* WAIT */
};

/* What a restart does with what scripts wrote to the append-only file. (acl.c) */
enum rt_resp_replay { RT_RESP_REPLAY_UNKNOWN, RT_RESP_REPLAY_DROPPED, RT_RESP_REPLAY_KEPT };

/* What INFO and CONFIG said about a server. */
struct rt_resp_facts {
    char version[32], run_id[48], policy[32], appendfsync[16];
    char rewrite[8]; /* no-appendfsync-on-rewrite; "" : not known, as appendfsync */
    int major, minor;
    uint64_t maxmemory;
    uint32_t replicas; /* connected */
    int64_t uptime_s;  /* when it was greeted, by its clock: up to one too many; 0: not told */
    enum rt_resp_replay replay;
    bool master, cluster, aof, config_refused, known;
};

struct rt_resp_node {
    struct rt_resp_node *next;
    char host[256];      /* "": not known yet */
    char at[RT_DIAL_AT]; /* "host:port", or the socket's path, for messages */
    uint16_t port;
    struct rt_resp_link work, push, wait;
    struct rt_resp_facts facts;
    struct rt_loop *loop; /* once it is gone */
    uint32_t streams;     /* not yet closed: its memory lasts until they are */
    bool gone;            /* not in conn->nodes any more */
    bool gained;          /* places that another had: to be told */
    bool leaving;         /* its links are cut to be dialed somewhere else */
};

/* ---- The connection (open.c) ----------------------------------------------------------------- */

struct rt_resp_conn {
    struct rt_conn *base;          /* in whose name: loop, times, errmsg, log */
    const struct rt_resp_user *on; /* who rides on it */
    /* From the URL. */
    char *user, *password, *sentinel, *unix_path;
    struct rt_tls *tls;
    struct rt_dial_ring ring; /* of a cluster: where to begin; with Sentinel: the sentinels */
    uint32_t db, replicas;
    bool secure;
    /* Topology. */
    struct rt_resp_node *nodes;   /* single and Sentinel: one */
    struct rt_resp_node *watcher; /* Sentinel: the one that is asked; not in nodes */
    uint32_t sentinels_without;   /* how many in a row did not know the primary's name */
    bool checked;                 /* the mark of the layout was seen, and is ours */
    bool refreshing;              /* the cluster's map is being asked for */
    bool cluster;                 /* once the places are known */
    uint32_t place_count;
    struct rt_resp_node **places; /* who has each; NULL until a greeting has told the topology */
    int fatal;                    /* why no link can be had, for good; errmsg in fatal_text */
    char fatal_text[256];
    char last_trouble[256];  /* the last reason why no link is ready, for ROTA_UNREACHABLE */
    struct rt_ledger ledger; /* script calls; what flies is in the FIFO of its link, too */
    uint64_t next_tag;
    uint64_t jitter;
    struct rt_resp_channels *channels; /* push.c */
    char *out;                         /* where commands are put together */
    size_t out_size, out_room;
    bool closing;
    bool outage; /* a connection was lost, and that was told */
};

/* Opens C, which is zeroed, as URL says: hosts or a socket, user, TLS, ?sentinel=, ?db=, ?replicas=. BASE: loop, times
 * (0: as usual), errmsg, and `up` for the log, which may be NULL; `engine` and `label` are not looked at. Does not
 * dial. 0, or nothing stays and errmsg says why. */
int rt_resp_conn_open(struct rt_resp_conn *c, struct rt_conn *base, const struct rt_url *url,
                      const struct rt_resp_user *user);
/* Gives everything back without waiting; what was sent in this turn leaves. Requests go unanswered. */
void rt_resp_conn_close(struct rt_resp_conn *c);
void rt_resp_conn_forked(struct rt_resp_conn *c); /* in a child: closes what is the parent's */
/* Dials if nothing is under way: for users that wait for the places. Also after c->fatal: it may have been mended
 * since; if not, `failed` again. */
void rt_resp_want(struct rt_resp_conn *c);

/* The slot of KEY in a cluster: by what stands in its first braces, if anything does. */
uint32_t rt_resp_slot(const char *key);

/* Subscribes CHANNEL of PLACE on the push link of its node, now or as soon as there is one, and after every
 * reconnection, until it is given up. 0 or ROTA_NOMEM. */
int rt_resp_subscribe(struct rt_resp_conn *c, uint32_t place, const char *channel);
void rt_resp_unsubscribe(struct rt_resp_conn *c, uint32_t place, const char *channel);

/* ?replicas=n: calls FN when N replicas have all that the server has done until now (0), when they cannot be had
 * by DEADLINE (ROTA_UNREACHABLE), when the server refuses to be asked (ROTA_AUTH and other definite errors), or
 * when it cannot be known (ROTA_UNKNOWN): that, or that there is no memory, may come at once. errmsg says why.
 * The places must be known. (wait.c) */
void rt_resp_when_replicated(struct rt_resp_conn *c, uint32_t place, int64_t deadline,
                             void (*fn)(struct rt_resp_conn *c, void *arg, int err), void *arg);

/* ---- For `mark` and `marked` (greet.c, link.c) --------------------------------------------------- */

/* Sends RQ as the question for the mark, and before it, if N > 0, a command of WORDS that must be answered by a
 * number. RQ is the link's then; NULL: there was no memory for it. */
void rt_resp_mark(struct rt_resp_link *l, struct rt_resp_request *rq, const char *const *words,
                  size_t n);
/* No link can be had, for a reason that trying again will not mend: whoever waits is told; of a link
 * for WAIT, whoever waits for replicas. Cuts L. */
__attribute__((format(printf, 3, 4))) void rt_resp_fatal(struct rt_resp_link *l, int err,
                                                         const char *format, ...);
const char *rt_resp_at(const struct rt_resp_link *l); /* "host:port", or the socket's path */

#define rt_resp_fail(c, ...) rt_words_fail((c)->base, __VA_ARGS__)

#endif
