/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine, dialect `line`: rooms and sessions on a Redis connection (engine/resp).
 *
 * docs/engines/redis.md has the layout on the server; lua/ has the scripts, each one step there. A room is
 * a place of the connection: there is one, or in a cluster RT_REDIS_ROOMS_CLUSTER.
 *
 * Every script may be asked again (joins by nonce, leaves by number and nonce). A push that is lost leaves a gap in its
 * session's count of pushes, which the next push or the next beat shows; then the room is asked what it
 * knows (`held`). */
#ifndef RT_REDIS_H
#define RT_REDIS_H

#include "engine/kit/words.h"
#include "engine/kit/work.h"
#include "engine/redis/script.h"
#include "engine/resp/resp.h"

#include <stdatomic.h>
#include <stddef.h>

#define RT_REDIS_ROOMS_CLUSTER 256
#define RT_REDIS_ARGS_MAX 64 /* arguments of one script besides its sets' tickets */
#define RT_REDIS_SID_SIZE 17 /* 16 hex digits: 12 of the connection, 4 of the session */
#define RT_REDIS_SWEEP 64    /* tickets swept at most by one beat */

struct rt_redis_conn;
struct rt_redis_request;

/* ---- Requests (redis.c) ------------------------------------------------------------------ */

/* As `answer` of rt_resp_user. */
typedef void rt_redis_answer_fn(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                                int status, const redisReply *reply);

/* A request of the engine's: call.place is its room, call.script enum rt_redis_script. */
struct rt_redis_request {
    struct rt_resp_request call; /* first */
    rt_redis_answer_fn *answer;  /* NULL: nobody waits for it */
    void *owner;                 /* a struct of the answerer: a beat, a set, an observation */
    struct rt_redis_request *next, *prev; /* the answerer's: JOINs that are unanswered */
    uint64_t seq;   /* ... numbered in the order they were sent; an undo's: the nonce of its JOIN */
    uint32_t extra; /* the answerer's */
};

/* A request for SCRIPT in ROOM with copies of the ARGC arguments; NULL: no memory. */
struct rt_redis_request *rt_redis_request_new(enum rt_redis_script script, uint32_t room,
                                              size_t argc, const char *const *args,
                                              const size_t *lengths);

/* As rt_resp_send. */
void rt_redis_send(struct rt_redis_conn *c, struct rt_redis_request *rq);

/* ---- Rooms ------------------------------------------------------------------------------ */

struct rt_redis_room {
    uint64_t pushes;  /* v as we know it ... */
    uint64_t since;   /* ... of this stay, whose first ticket known to us has this number */
    int64_t ends_at;  /* CLOCK_BOOTTIME of the next end of anything; RT_NEVER */
    uint32_t waiting; /* tickets of ours that wait here, as far as we know */
    uint32_t joining; /* JOINs in flight: pushes are kept until they are answered */
    uint64_t look;    /* where the next beat looks at our tickets: a cursor */
    bool stands;      /* our session is in this room, and every beat renews it (ops.c) */
    bool mute;        /* the last beat there has no answer */
    bool subscribed;  /* ROOM:p:CID is confirmed on the push link */
    bool stale;       /* pushes may have been lost: ask `held` when it matters */
    bool unheard;     /* it was asked, and the answer was lost: the next beat asks again */
    bool unverified;  /* a new link has not yet said what its server knows: no beat counts */
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
    struct rt_op *early, **early_tail; /* submitted before the rooms were known */
    struct rt_redis_request joins; /* the head of a ring: JOINs sent and unanswered, oldest first */
    struct rt_redis_push *kept, **kept_tail; /* pushes that wait for the answer to a JOIN */
    struct rt_work *works;                   /* ops of several requests */
    struct rt_view *views;                   /* observed lines */
    struct rt_redis_given_up *given_up;      /* JOINs whose taking back is not confirmed (undo.c) */
    struct rt_timer_call early_timer, ends_timer, look_timer, set_timer;
    uint64_t join_seq;
    /* grants that came by push and have not been left since: more may wait behind them */
    uint32_t handed;
    int64_t beat_at;    /* when the last renewal began: the user may count from then */
    int64_t counted_at; /* the turn in which the user's tickets were counted; -1: not now */
};

/* ---- The connection (redis.c) ------------------------------------------------------------ */

struct rt_redis_conn {
    struct rt_conn base; /* first */
    struct rt_resp_conn link;
    struct rt_redis_room *rooms; /* room_count; NULL until a greeting has told the topology */
    uint32_t room_count;
    char key[40]; /* of key_room; "" : of none */
    uint32_t key_room;
    atomic_bool strict; /* base.unsafe is "": caps are read by any thread */
    /* Session. */
    char cid[13], sid[RT_REDIS_SID_SIZE]; /* sid "" : none */
    uint64_t session;                     /* the same as a number; 0: none */
    uint16_t session_count;
    struct rt_redis_side side;
};

static inline struct rt_redis_conn *rt_redis_of_link(struct rt_resp_conn *link)
{
    return (struct rt_redis_conn *)(void *)((char *)link - offsetof(struct rt_redis_conn, link));
}

/* ---- Done by the ops side: as in rt_resp_user ----------------------------------------------- */

/* Called by open when all else is made (c->base.loop may be used; reserves its timers): 0 or ROTA_NOMEM. */
int rt_redis_side_open(struct rt_redis_conn *c);
/* Called by close, first of all, while links still send: says `end` where that is due, forgets observations. */
void rt_redis_side_close(struct rt_redis_conn *c);
void rt_redis_failed(struct rt_resp_conn *link);
void rt_redis_linked(struct rt_resp_conn *link, struct rt_resp_node *node);
void rt_redis_pushed(struct rt_resp_conn *link, struct rt_resp_node *node, const char *channel,
                     const char *message, size_t size);

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
