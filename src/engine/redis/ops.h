/* SPDX-License-Identifier: Apache-2.0 */
/* The ops side of the Redis engine: what its files share.
 *
 *   side.c     submit and cancel, ops before the rooms are known, works, the beginning and the end
 *   ops.c      an op that is one request: JOIN, LEAVE, CHANGE, BREAK
 *   set.c      JOIN_ALL, in one room by one script, over rooms one after the other
 *   beat.c     the session: BEAT, its end
 *   held.c     a room is asked what it knows of our tickets, after lost pushes
 *   told.c     pushes, in order and never before the answer to their JOIN
 *   replicate.c  ?replicas=n: grants wait for the replicas
 *   undo.c     a JOIN that failed after it took effect is taken back
 *   ends.c     when something of a room ends by time and we wait there: sweep
 *   observe.c  OBSERVE        inspect.c  INSPECT, LIST        doctor.c  CHECK */
#ifndef RT_REDIS_OPS_H
#define RT_REDIS_OPS_H

#include "engine/redis/redis.h"

/* Where tickets stand among the arguments of JOIN: how many come before them, how many each has. */
#define RT_REDIS_JOIN_AHEAD 4
#define RT_REDIS_JOIN_EACH 9
#define RT_REDIS_JOIN_SHORT 5 /* of a plain ticket: flags, sid, name, field, member */

/* ---- Arguments (args.c) ----------------------------------------------------------------- */

#define RT_REDIS_ARGS_OWN 16
#define RT_REDIS_TEXT_OWN 768

/* Arguments of a script while they are put together: most fit on the stack. */
struct rt_redis_args {
    const char **at;
    size_t *lengths;
    char *text; /* what is written here rather than pointed to */
    size_t count, used, room, text_room;
    void *heap;
    const char *own_at[RT_REDIS_ARGS_OWN];
    size_t own_lengths[RT_REDIS_ARGS_OWN];
    char own_text[RT_REDIS_TEXT_OWN];
};

/* For at most RT_REDIS_ARGS_OWN arguments, of RT_REDIS_TEXT_OWN written bytes: their room is in A. */
void rt_redis_args_few(struct rt_redis_args *a);
/* Makes room for COUNT arguments and TEXT bytes of written ones: 0 or ROTA_NOMEM. */
int rt_redis_args_open(struct rt_redis_args *a, size_t count, size_t text);
void rt_redis_args_close(struct rt_redis_args *a);
void rt_redis_arg(struct rt_redis_args *a, const char *text); /* points to it */
void rt_redis_arg_number(struct rt_redis_args *a, uint64_t number);
void rt_redis_arg_sid(struct rt_redis_args *a, uint64_t session, bool durable);
__attribute__((format(printf, 2, 3))) void rt_redis_arg_text(struct rt_redis_args *a,
                                                             const char *format, ...);

/* Makes and sends the request for W, which then owns it (NULL: nobody yet), and closes A. NULL: no memory, A is
 * closed. The caller may still fill in what is its own (op, owner, seq, extra). */
struct rt_redis_request *rt_redis_ask(struct rt_redis_conn *c, struct rt_work *w,
                                      struct rt_redis_args *a, enum rt_redis_script script,
                                      uint32_t room, int64_t deadline, rt_redis_answer_fn *answer);

/* The same where nothing more has to be filled in: 0 or ROTA_NOMEM. */
int rt_redis_work_ask(struct rt_redis_conn *c, struct rt_work *w, struct rt_redis_args *a,
                      enum rt_redis_script script, uint32_t room, int64_t deadline,
                      rt_redis_answer_fn *answer);

/* ---- Replies ---------------------------------------------------------------------------- */

/* The I-th element behind tag and status; 0 or "" if it is not there or is of the other type, which
 * only a server that is not ours would send: rt_redis_shaped checks what is needed. */
int64_t rt_redis_int(const redisReply *reply, size_t i);
const char *rt_redis_str(const redisReply *reply, size_t i);
size_t rt_redis_count(const redisReply *reply); /* elements behind tag and status */

/* Whether the elements from AT on are as SHAPE says, 'i' for integers and 's' for strings, the
 * shape repeated to the end. */
bool rt_redis_shaped(const redisReply *reply, size_t at, const char *shape);

/* "That is no answer of ours": whatever was asked may have been done. */
int rt_redis_odd(struct rt_redis_conn *c, struct rt_redis_request *rq);

/* W's requests are sent, except for one that failed with RV (0: none): ends W if none is under way. (args.c) */
void rt_redis_begun(struct rt_redis_conn *c, struct rt_work *w, int rv);
/* Works of these kinds are found by `more`, which points here. */
extern char rt_redis_set_works, rt_redis_grant_works;

/* ---- Files to each other ---------------------------------------------------------------- */

/* Each begins an op of its kind; the rooms are known. 0: it is under way, or has ended; else it is to end with that. */
int rt_redis_begin_join(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_leave(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_change(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_break(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_beat(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_set(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_observe(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_inspect(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_list(struct rt_redis_conn *c, struct rt_op *op);
int rt_redis_begin_check(struct rt_redis_conn *c, struct rt_op *op);

/* ops.c: whether JOIN may be sent, judged without the server: 0, ROTA_INVALID, ROTA_LOST. */
int rt_redis_check_joins(struct rt_redis_conn *c, const struct rt_op *op);
/* Sends the N joins of one room as one JOIN, for W or NULL. It stands among side.joins until rt_redis_join_over. */
struct rt_redis_request *rt_redis_send_join(struct rt_redis_conn *c, struct rt_work *w,
                                            uint32_t room, struct rt_join **joins, size_t n,
                                            int64_t deadline, rt_redis_answer_fn *answer);
/* Reads the answer into JOINS; returns the op's error. */
int rt_redis_read_join(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                       const redisReply *reply, struct rt_join **joins, size_t n);
/* After the op was told of it: pushes that waited for this JOIN go up. */
void rt_redis_join_over(struct rt_redis_conn *c, struct rt_redis_request *rq);

/* beat.c: our session is gone on the server: forgotten here, and told. */
void rt_redis_session_lost(struct rt_redis_conn *c, uint64_t session);
/* Our session ends in ROOM, if it has no tickets there. TILL not 0: only if it would end then, so that it is still the
 * same stay in the room. */
void rt_redis_say_end(struct rt_redis_conn *c, uint32_t room, int64_t till);
/* Subscribes to our pushes of ROOM, from the first use on. */
int rt_redis_listen(struct rt_redis_conn *c, uint32_t room);

/* held.c: asks ROOM now (or again, if it is being asked). */
void rt_redis_ask_held(struct rt_redis_conn *c, uint32_t room);
/* How many tickets of ROOM the user believes in, and how many of those wait; false: the user cannot say. */
bool rt_redis_count_held(struct rt_redis_conn *c, uint32_t room, size_t *count, size_t *waiting);

/* told.c: pushes that wait for no JOIN any more are told. */
void rt_redis_tell_kept(struct rt_redis_conn *c);
void rt_redis_drop_kept(struct rt_redis_conn *c);

/* ends.c: the server's clock says NOW, and SOONEST (0: never) is when the next of ROOM ends. */
void rt_redis_note_ends(struct rt_redis_conn *c, uint32_t room, int64_t now, int64_t soonest);
void rt_redis_note_waits(struct rt_redis_conn *c, uint32_t room);
void rt_redis_sweep(struct rt_redis_conn *c, uint32_t room);
void rt_redis_ends_fire(struct rt_timer_call *call, int64_t now);

/* set.c: whether an event is for a set that is not answered yet; if so, the set has taken it. */
bool rt_redis_set_hears(struct rt_redis_conn *c, enum rt_event_kind kind, uint64_t session,
                        uint64_t number, const char *name);
void rt_redis_set_fire(struct rt_timer_call *call, int64_t now);

/* told.c: an event of a ticket, to the set it belongs to or to the user; a grant when the replicas
 * have it, or now. */
void rt_redis_tell(struct rt_redis_conn *c, const struct rt_event *event);
void rt_redis_tell_now(struct rt_redis_conn *c, const struct rt_event *event);

/* replicate.c: ends a JOIN of one granted ticket when the replicas have it. */
void rt_redis_done_replicated(struct rt_redis_conn *c, struct rt_op *op);
/* Whether there is time for OP, a JOIN or JOIN_ALL, to wait for them: 0 or ROTA_UNREACHABLE. */
int rt_redis_check_replicas(struct rt_redis_conn *c, const struct rt_op *op);
/* Until when an op with DEADLINE waits for them. */
int64_t rt_redis_replicas_until(const struct rt_redis_conn *c, int64_t deadline);
/* Whether the event is told later, or with one that is told later. */
bool rt_redis_tell_replicated(struct rt_redis_conn *c, const struct rt_event *event);

/* undo.c: takes the ticket of OP, a JOIN, out of its line (by NUMBER, or if that is 0 by its nonce),
 * then ends OP with ERR, whose errmsg is set; ROTA_UNKNOWN if the taking out was not confirmed. */
void rt_redis_take_back(struct rt_redis_conn *c, struct rt_op *op, uint64_t number, int err);
/* The request for that, on behalf of W (false: no memory, which is noted), and what to note of its answer: 0 or
 * ROTA_UNKNOWN. */
bool rt_redis_ask_undo(struct rt_redis_conn *c, struct rt_work *w, const struct rt_join *join,
                       uint64_t number, int err, rt_redis_answer_fn *answer);
int rt_redis_undone(struct rt_redis_conn *c, const struct rt_redis_request *rq, int err,
                    int status);
/* Why an earlier try of JOIN was taken back, if that is not confirmed: asked again, it is only taken back, by NUMBER
 * if that is known. Else 0. */
int rt_redis_given_up(struct rt_redis_conn *c, const struct rt_join *join, uint64_t *number);
/* When the session ends: forgets those of it; with DURABLE all. */
void rt_redis_forget_given_up(struct rt_redis_conn *c, bool durable);

/* observe.c */
void rt_redis_observed(struct rt_redis_conn *c, uint32_t room, const char *name,
                       const char *message, size_t size);
void rt_redis_look_again(struct rt_redis_conn *c, const struct rt_resp_node *node);
void rt_redis_look_fire(struct rt_timer_call *call, int64_t now);

/* The connection whose side has the timer CALL as MEMBER. */
#define RT_REDIS_OF_TIMER(call, member) \
    ((struct rt_redis_conn *)(void *)((char *)(call)-offsetof(struct rt_redis_conn, side.member)))

static inline struct rt_redis_conn *rt_redis_of(struct rt_conn *conn)
{
    return (struct rt_redis_conn *)(void *)conn;
}

#endif
