/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock: a lock is held when a majority of servers, which know nothing of each other, has its key.
 *
 *   ask ──▶ TAKING: all nodes at once ── a majority, one number ──────────────────────────▶ held
 *     ▲        │ └── a majority, but numbers differ, or a beat went meanwhile ──▶ MENDING ──┘ │
 *     └─ IDLE ◀┴── no majority: given back on all ◀────────────────────────────────────────┘ renewed by beats: a majority
 *
 * docs/engines/redlock.md has the layout on a node, lua/ the scripts, lua/README.md what becomes of each if its reply
 * is lost, late or doubled; core/quorum.h what answers are worth together.
 *
 * The nodes know keys only. Sessions, tickets, and who waits are this connection's own: nobody else sees who waits, and
 * an ask that waits has a name (1, 2, 3, ...) until it is granted. Every attempt has a token of its own, so that what
 * belongs to an earlier one, such as a late release, does nothing to a later one.
 *
 * I3: a lock's key was set, or renewed, on a majority of nodes after the last beat was sent; or it is not told as
 * held. */
#ifndef RT_REDLOCK_H
#define RT_REDLOCK_H

#include "core/quorum.h"
#include "engine/kit/view.h"
#include "engine/kit/words.h"
#include "engine/kit/work.h"
#include "engine/redis/script.h"
#include "engine/resp/resp.h"

#include <stdatomic.h>
#include <stddef.h>

#define RT_REDLOCK_LEAST 3 /* nodes */
#define RT_REDLOCK_TOKEN 32
#define RT_REDLOCK_BUCKETS 64
#define RT_REDLOCK_WHY 180 /* what is the matter with a node, in words */

/* In the order of lua/meson.build. */
enum rt_redlock_script {
    RT_REDLOCK_TAKE,
    RT_REDLOCK_HOLD,
    RT_REDLOCK_KEEP,
    RT_REDLOCK_GIVE,
    RT_REDLOCK_LOOK,
    RT_REDLOCK_LIST,
    RT_REDLOCK_BREAK,
    RT_REDLOCK_META,
    RT_REDLOCK_RIGHTS,
    RT_REDLOCK_SCRIPTS,
};
extern const struct rt_redis_text rt_redlock_texts[RT_REDLOCK_SCRIPTS][2];

enum rt_redlock_status { /* the second element of a reply */
                         RT_REDLOCK_OK = 0,
                         RT_REDLOCK_MISSING = 1,
                         RT_REDLOCK_BUSY = 2,
                         RT_REDLOCK_TYPE = 3,
};

struct rt_redlock_conn;

/* ---- Nodes and requests (node.c) ---------------------------------------------------------------- */

struct rt_redlock_refusal { /* how a script's last call that was waited for ended */
    int err;                /* 0: well */
    char why[RT_REDLOCK_WHY];
};

struct rt_redlock_node {
    struct rt_resp_conn link; /* first */
    struct rt_redlock_conn *conn;
    uint32_t index;
    bool up;    /* its link for work is ready */
    bool known; /* it was greeted, at least once */
    int failed; /* why no link can be had, for good: link.fatal_text. 0: it can. (link.fatal is 0 while it is dialed) */
    int64_t counts_at; /* its YES counts from then on */
    int64_t ahead_us;  /* its clock, less ours (CLOCK_BOOTTIME) */
    struct rt_redlock_refusal refusals[RT_REDLOCK_SCRIPTS]; /* since it came up */
};

struct rt_redlock_request;
typedef void rt_redlock_answer_fn(struct rt_redlock_node *node, struct rt_redlock_request *rq,
                                  int err, int status, const redisReply *reply);

struct rt_redlock_request {
    struct rt_resp_request call;  /* first */
    rt_redlock_answer_fn *answer; /* NULL: nobody waits for it */
    void *owner;                  /* lives until its `pending` is 0 */
    uint32_t flight;              /* the owner's */
    size_t from, count;           /* the owner's */
    char name[];                  /* KEYS[1] */
};

struct rt_redlock_call { /* a request as it is put together */
    enum rt_redlock_script script;
    const char *name;  /* KEYS[1] */
    const char **args; /* ARGV from [2] on */
    size_t argc;
    int64_t deadline;
    uint32_t *pending;
    void *owner;
    rt_redlock_answer_fn *answer;
};

/* Sends CALL to NODE, which is `known`, or keeps it until there is a link. NULL: no memory. */
struct rt_redlock_request *rt_redlock_send(struct rt_redlock_node *node,
                                           const struct rt_redlock_call *call);

int rt_redlock_nodes_open(struct rt_redlock_conn *c, const struct rt_url *url);
void rt_redlock_nodes_close(struct rt_redlock_conn *c, uint32_t count);
/* Whether NODE's YES counts at this moment: it has been up for long enough. */
bool rt_redlock_counts(const struct rt_redlock_node *node);
/* Which nodes to ask: those that are up; or, where that is no majority, all that were ever greeted. */
uint32_t rt_redlock_whom(const struct rt_redlock_conn *c);
uint32_t rt_redlock_up(const struct rt_redlock_conn *c); /* how many */
/* What number a lock taken now should get: the middle one of the nodes' clocks, and more than any number we know. */
uint64_t rt_redlock_hint(const struct rt_redlock_conn *c);
/* If so many nodes refuse SCRIPT (missing rights, a counter that is not one) that no majority is left: what one of them
 * said. Else NULL. */
const struct rt_redlock_refusal *rt_redlock_refused(const struct rt_redlock_conn *c,
                                                    enum rt_redlock_script script);
/* An ask was given up before NODE had answered it: messages say so of NODE until it does. */
void rt_redlock_late(struct rt_redlock_node *node);
/* Sets errmsg: why there is no majority for SCRIPT. Returns ERR; or, where that is ROTA_UNREACHABLE and
 * so many nodes refuse SCRIPT, their error. */
int rt_redlock_silent(struct rt_redlock_conn *c, int err, enum rt_redlock_script script);
const char *rt_redlock_trouble(const struct rt_conn *conn);

/* ---- Tickets (ticket.c) --------------------------------------------------------------------------- */

struct rt_redlock_ask;
struct rt_redlock_beat;

struct rt_redlock_ticket {
    struct rt_redlock_ticket *next, **link;
    struct rt_redlock_ask *ask; /* which is under way, or was just granted; or NULL */
    struct rt_redlock_beat *beat;
    size_t in_beat; /* which of its items */
    uint64_t session, nonce, owner;
    uint64_t number; /* 0: not answered yet; a name while it waits; its fence */
    uint32_t flags;  /* of its JOIN */
    uint32_t may;    /* nodes that may have its key */
    uint32_t lacks;  /* nodes that, as far as we know, do not */
    bool held;
    char token[RT_REDLOCK_TOKEN + 1]; /* of `held` */
    char name[];
};

struct rt_redlock_ticket *rt_redlock_ticket_new(struct rt_redlock_conn *c,
                                                const struct rt_join *join);
void rt_redlock_ticket_free(struct rt_redlock_ticket *t); /* its ask and its beat forget it */
/* By both, or by that which is not 0 (rt_names_ticket); NULL. */
struct rt_redlock_ticket *rt_redlock_find(const struct rt_redlock_conn *c, const char *name,
                                          uint64_t session, uint64_t number, uint64_t nonce);
/* " OWNER LABEL" */
void rt_redlock_rest(const struct rt_redlock_conn *c, uint64_t owner, char *out, size_t size);
#define RT_REDLOCK_REST (RT_LABEL_MAX + 32)

struct
    rt_redlock_value { /* what a key has, read: ours has all, a foreign one its first digits as the label */
    char token[RT_REDLOCK_TOKEN + 1];
    uint64_t session, number, owner;
    char label[RT_LABEL_MAX + 1];
    bool ours; /* some client of Rota wrote it */
};
void rt_redlock_read(const char *value, struct rt_redlock_value *out);

/* ---- Asks (ask.c) ---------------------------------------------------------------------------------- */

enum rt_redlock_phase { RT_REDLOCK_IDLE, RT_REDLOCK_TAKING, RT_REDLOCK_MENDING, RT_REDLOCK_ENDED };

struct rt_redlock_ask { /* one lock, or a set */
    struct rt_redlock_ask *next, **link;
    struct rt_op *op; /* unanswered */
    uint32_t pending;
    enum rt_redlock_phase phase;
    uint32_t flight; /* answers of earlier ones say nothing any more */
    struct rt_quorum votes;
    uint32_t sent;             /* nodes that may have it, of this attempt */
    int64_t sent_at, retry_at; /* of this flight; IDLE: when the next begins */
    uint64_t fence;            /* MENDING */
    int64_t pttl;              /* of the holder, ms; -1: not known */
    char token[RT_REDLOCK_TOKEN + 1];
    char in_way[160];    /* who has it */
    bool foreign;        /* ... and it is no lock of this kind */
    size_t count, alive; /* alive: those not NULL */
    struct rt_redlock_ticket *tickets[];
};

int rt_redlock_begin_join(struct rt_redlock_conn *c, struct rt_op *op); /* JOIN, JOIN_ALL */
/* T waits no longer: nothing of it stays on a node. */
void rt_redlock_withdraw(struct rt_redlock_conn *c, struct rt_redlock_ticket *t);
/* The session of all asks has ended: those that are unanswered fail. */
void rt_redlock_asks_end(struct rt_redlock_conn *c, uint64_t session);
bool rt_redlock_cancel_join(struct rt_redlock_conn *c, const struct rt_op *op);
int64_t rt_redlock_asks_tick(struct rt_redlock_conn *c, int64_t now); /* when next */
void rt_redlock_asks_close(struct rt_redlock_conn *c);

/* ---- Other ops -------------------------------------------------------------------------------------- */

/* Beat.c: the beat under way says nothing of T any more. */
void rt_redlock_beat_forgets(struct rt_redlock_ticket *t);
/* Ends a session that was not renewed for a ttl: nobody is told of grants it would still get. Returns when to look
 * next. */
int64_t rt_redlock_session_tick(struct rt_redlock_conn *c, int64_t now);
int rt_redlock_begin_leave(struct rt_redlock_conn *c, struct rt_op *op);  /* leave.c */
int rt_redlock_begin_break(struct rt_redlock_conn *c, struct rt_op *op);  /* leave.c */
int rt_redlock_begin_beat(struct rt_redlock_conn *c, struct rt_op *op);   /* beat.c */
int rt_redlock_begin_change(struct rt_redlock_conn *c, struct rt_op *op); /* look.c */
int rt_redlock_begin_inspect(struct rt_redlock_conn *c, struct rt_op *op);
int rt_redlock_begin_list(struct rt_redlock_conn *c, struct rt_op *op);
int rt_redlock_begin_observe(struct rt_redlock_conn *c, struct rt_op *op); /* observe.c */
int rt_redlock_begin_check(struct rt_redlock_conn *c, struct rt_op *op);   /* doctor.c */
int64_t rt_redlock_views_tick(struct rt_redlock_conn *c, int64_t now);     /* observe.c */

/* Takes the key of NAME with TOKEN off the nodes of MASK, in the background; tries for a ttl. */
void rt_redlock_give(struct rt_redlock_conn *c, const char *name, const char *token, uint32_t mask);

/* What one node says of a line (look.c). */
struct rt_redlock_seen {
    struct rt_redlock_value value;
    char type[16];
    int64_t pttl;
    bool there;
};
/* The one of COUNT nodes' answers that a majority of NODES agrees on, with its pttl; NULL: none. */
const struct rt_redlock_seen *rt_redlock_majority(const struct rt_redlock_seen *seen,
                                                  uint32_t nodes, int64_t *pttl);
/* Reads the answer to LOOK; false: it makes no sense. */
bool rt_redlock_read_look(const redisReply *reply, struct rt_redlock_seen *out);

/* ---- The connection (redlock.c) ------------------------------------------------------------------- */

struct rt_redlock_conn {
    struct rt_conn base; /* first */
    uint32_t count;
    struct rt_redlock_node *nodes; /* count */
    int64_t longest;               /* the longest ttl that anybody uses: ?max_ttl=, ns */
    bool was_up;                   /* a majority was, when that was last told */
    bool ready;                    /* ops begin */
    int64_t opened_at, known_at;   /* known: a majority was greeted */
    atomic_bool strict;            /* base.unsafe is "": caps are read by any thread */
    /* The session. */
    uint32_t cid; /* drawn */
    uint64_t session;
    uint32_t session_count;
    uint64_t attempts; /* how many had a token */
    uint64_t names;    /* how many asks waited */
    uint64_t highest;  /* the largest fence that we know */
    int64_t beat_at;   /* when the last renewal was sent */
    int64_t ends_at;   /* when the session does, if no beat is answered by then */
    uint64_t jitter;
    /* Ops. */
    struct rt_op *early, **early_tail; /* before a majority was greeted */
    struct rt_redlock_ask *asks;
    struct rt_redlock_ticket *tickets[RT_REDLOCK_BUCKETS];
    struct rt_work *works; /* LEAVE, BEAT and looks; `more` is their op's kind */
    struct rt_view *views;
    struct rt_timer_call timer;
    char *said, said_room[256]; /* of rt_redlock_trouble */
};

static inline struct rt_redlock_conn *rt_redlock_of(struct rt_conn *conn)
{
    return (struct rt_redlock_conn *)(void *)conn;
}

/* How long a node may take to answer, ns: far below the ttl. */
int64_t rt_redlock_limit(const struct rt_redlock_conn *c);
/* The timer fires no later than AT. */
void rt_redlock_by(struct rt_redlock_conn *c, int64_t at);
/* A majority came or went; ops that waited for one begin; or they cannot be done at all. */
void rt_redlock_news(struct rt_redlock_conn *c);

#define rt_redlock_fail(c, ...) rt_words_fail(&(c)->base, __VA_ARGS__)

#endif
