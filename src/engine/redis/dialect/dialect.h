/* SPDX-License-Identifier: Apache-2.0 */
/* The incumbents' dialects on Redis (?dialect=): locks laid out as their clients lay them out, so that both exclude
 * each other.
 *
 *   dialect.c  the table of dialects, the connection, ops before it is there
 *   ticket.c   who tickets are to the others
 *   join.c     JOIN, JOIN_ALL; waiters ask again
 *   leave.c    LEAVE, CHANGE, BREAK
 *   beat.c     the session, which only the client knows; renewal
 *   look.c     INSPECT, LIST, OBSERVE      doctor.c  CHECK
 *
 * The server knows keys that end by themselves, but nobody who waits: waiters are kit/spin's, and ask again after a
 * time, or at a word from whoever released.
 *
 * What if a reply is lost: a key tells whose it is (session and nonce), so JOIN asked again finds it and gives it its
 * full time anew; LEAVE deletes only that; what nobody asks for again is not renewed, and ends by its ttl. Late: ops
 * leave by one link, in order; what another link brings later meets another owner. Doubled: the tags of engine/resp cut
 * the link. */
#ifndef RT_DIALECT_H
#define RT_DIALECT_H

#include "engine/kit/shown.h"
#include "engine/kit/spin.h"
#include "engine/kit/view.h"
#include "engine/name.h"
#include "engine/redis/ops.h"

#include <stdatomic.h>

/* In the order of lua/meson.build. */
enum rt_dia_script {
    RT_DIA_PING,
    RT_DIA_TOKEN_JOIN,
    RT_DIA_TOKEN_LEAVE,
    RT_DIA_TOKEN_RENEW,
    RT_DIA_TOKEN_LOOK,
    RT_DIA_TOKEN_LIST,
    RT_DIA_TOKEN_BREAK,
    RT_DIA_REDISSON_JOIN,
    RT_DIA_REDISSON_LEAVE,
    RT_DIA_REDISSON_RENEW,
    RT_DIA_REDISSON_LOOK,
    RT_DIA_REDISSON_LIST,
    RT_DIA_REDISSON_BREAK,
    RT_DIA_RW_JOIN,
    RT_DIA_RW_LEAVE,
    RT_DIA_RW_RENEW,
    RT_DIA_RW_LOOK,
    RT_DIA_RW_LIST,
    RT_DIA_RW_BREAK,
    RT_DIA_RW_CHANGE,
    RT_DIA_SETNX_JOIN,
    RT_DIA_SETNX_COMPARE,
    RT_DIA_SETNX_DELETE,
    RT_DIA_GETSET_JOIN,
    RT_DIA_GETSET_LEAVE,
    RT_DIA_GETSET_RENEW,
    RT_DIA_GETSET_LOOK,
    RT_DIA_GETSET_LIST,
    RT_DIA_GETSET_BREAK,
    RT_DIA_FAIR_JOIN,
    RT_DIA_FAIR_LEAVE,
    RT_DIA_FAIR_RENEW,
    RT_DIA_FAIR_LOOK,
    RT_DIA_FAIR_LIST,
    RT_DIA_FAIR_BREAK,
    RT_DIA_FAIR_CHANGE,
    RT_DIA_FAIR_SESSION,
    RT_DIA_SCRIPTS,
};

extern const struct rt_redis_text rt_dia_texts[RT_DIA_SCRIPTS][2];

struct rt_dia_dialect {
    const char *name;
    uint32_t caps;
    const char *unsafe;  /* why strict refuses it */
    const char *warning; /* said when it is opened; NULL: none */
    /* where releases are told; NULL: nowhere, and waiters ask again and again */
    const char *channel;
    enum rt_dia_script join, leave, renew, look, list, brk;
    bool in_steps; /* taken, then given its end; compared, then deleted: each a request */
    bool stamps;   /* owners are not told apart: an ID is the time here, in ms */
    /* waiters stand on the server, with their numbers, and each hears of its turn by a channel of
     * its own */
    bool queues;
    bool uuid; /* owners are UUID:NUMBER; else 32 hex digits */
    /* waiters ask again after half to all of this; 0: of a sixth of the ttl, since a word
     * comes, though a spin lock sends none */
    uint32_t pause_ms;
    const char *incumbents; /* whose locks these are, for messages */
};

/* NULL: there is none of that name. */
const struct rt_dia_dialect *rt_dia_find(const char *name);
#define RT_DIA_NAMES \
    "line, token, redisson, redisson-fair, redisson-rw, and the unsafe getset and setnx"

#define RT_DIA_ID_SIZE 64 /* "UUID:NUMBER", and its end */
#define RT_DIA_UUID_SIZE 37
#define RT_DIA_NAME_ROOM RT_NAME_ROOM

struct rt_dia_ticket {
    struct rt_spin_ticket spin; /* first */
    /* LEAVING, where owners are not told apart: a LEAVE that waits for what becomes of the ask */
    struct rt_op *leaver;
    bool listens; /* it is among those its channel is subscribed for */
};

struct rt_dia_conn;
struct rt_dia_request;
typedef void rt_dia_answer_fn(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                              const redisReply *reply);

struct rt_dia_request {
    struct rt_resp_request call; /* first */
    rt_dia_answer_fn *answer;    /* NULL: nobody waits for it */
    void *owner;                 /* the answerer's */
    const char *key;             /* KEYS[1]: among its arguments */
    uint64_t session;            /* it was asked in */
    uint64_t *nonces; /* of the tickets it is about, behind the struct's arguments; count of them */
    size_t count;
};

struct rt_dia_conn {
    struct rt_conn base; /* first */
    struct rt_resp_conn link;
    const struct rt_dia_dialect *dialect;
    struct rt_op *early, **early_tail; /* submitted before the server was known */
    struct rt_work *works;
    struct rt_view *views;
    struct rt_spin spin; /* tickets, who waits, the session */
    struct rt_timer_call early_timer, look_timer;
    char uuid[RT_DIA_UUID_SIZE];
};

static inline struct rt_dia_conn *rt_dia_of(struct rt_conn *conn)
{
    return (struct rt_dia_conn *)(void *)conn;
}
static inline struct rt_dia_conn *rt_dia_of_link(struct rt_resp_conn *link)
{
    return (struct rt_dia_conn *)(void *)((char *)link - offsetof(struct rt_dia_conn, link));
}
static inline struct rt_dia_conn *rt_dia_of_spin(struct rt_spin *s)
{
    return (struct rt_dia_conn *)(void *)((char *)s - offsetof(struct rt_dia_conn, spin));
}
static inline struct rt_dia_ticket *rt_dia_ticket(struct rt_spin_ticket *t)
{
    return (struct rt_dia_ticket *)(void *)t; /* its first member */
}
#define RT_DIA_OF_TIMER(call, member) \
    ((struct rt_dia_conn *)(void *)((char *)(call)-offsetof(struct rt_dia_conn, member)))

#define rt_dia_fail(c, ...) rt_words_fail(&(c)->base, __VA_ARGS__)

/* The engine that rt_engine_redis becomes where a URL names a dialect. */
extern const struct rt_engine rt_engine_dialect;

/* ---- Requests (dialect.c) ------------------------------------------------------------------ */

/* Sends SCRIPT with A, which is closed, for OP or W (either may be NULL). KEY: which of the arguments is KEYS[1]. NULL:
 * no memory, and errmsg is set. */
struct rt_dia_request *rt_dia_ask(struct rt_dia_conn *c, enum rt_dia_script script,
                                  struct rt_redis_args *a, size_t key, struct rt_op *op,
                                  struct rt_work *w, rt_dia_answer_fn *answer);
/* The same in two steps, where more is to be filled in first: COUNT nonces. */
struct rt_dia_request *rt_dia_request_new(struct rt_dia_conn *c, enum rt_dia_script script,
                                          struct rt_redis_args *a, size_t key, size_t count,
                                          rt_dia_answer_fn *answer);
void rt_dia_send(struct rt_dia_conn *c, struct rt_dia_request *rq);
int rt_dia_odd(struct rt_dia_conn *c, const struct rt_dia_request *rq);

/* ---- Tickets (ticket.c) -------------------------------------------------------------------- */

/* What a ticket is called on the server. */
void rt_dia_id(const struct rt_dia_conn *c, uint64_t nonce, char out[RT_DIA_ID_SIZE]);
bool rt_dia_is_mine(const struct rt_dia_conn *c, const char *id);
/* The session that made an ID; 0: none of Rota's, or the dialect does not tell. */
uint64_t rt_dia_session_of(const struct rt_dia_conn *c, const char *id);
/* Who stands behind an ID that is not ours, for people. */
void rt_dia_whose(const struct rt_dia_conn *c, const char *id, char *out, size_t size);
/* Reads a TEXT of ours ("OWNER FLAGS SIZE LABELVALUE"); false: it is not one. */
bool rt_dia_text_read(const char *text, struct rota_place *place, struct rt_text *label,
                      struct rt_text *value);

/* ---- Ops ----------------------------------------------------------------------------------- */

int rt_dia_begin_join(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_leave(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_change(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_break(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_beat(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_observe(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_inspect(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_list(struct rt_dia_conn *c, struct rt_op *op);
int rt_dia_begin_check(struct rt_dia_conn *c, struct rt_op *op);

/* join.c: the text that stands beside a ticket: "OWNER FLAGS SIZE LABELVALUE". */
void rt_dia_put_text(struct rt_redis_args *a, const struct rt_dia_conn *c, uint64_t owner,
                     bool detects, const char *value);
#define RT_DIA_TEXT_MOST (RT_LABEL_MAX + ROTA_VALUE_MAX + 64)
extern const struct rt_spin_user rt_dia_spin_user;
/* A word came on CHANNEL. */
void rt_dia_word(struct rt_dia_conn *c, const char *channel);
/* T waits no more. */
void rt_dia_unlisten(struct rt_dia_conn *c, struct rt_spin_ticket *t);

/* leave.c: T's leaver goes on: T was granted meanwhile, or (ERR) was not. T is gone then. */
void rt_dia_leave_on(struct rt_dia_conn *c, struct rt_spin_ticket *t, int err);
/* Gives back what nobody here asks for, without a word. */
void rt_dia_give_back(struct rt_dia_conn *c, const char *name, const char *id);

/* beat.c: gives T its end, without a word. */
void rt_dia_give_end(struct rt_dia_conn *c, struct rt_spin_ticket *t);
/* Asks whether the server still has what is held: after a new link. */
void rt_dia_verify(struct rt_dia_conn *c);

/* look.c */
void rt_dia_look_fire(struct rt_timer_call *call, int64_t now);

#endif
