/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that are one request: JOIN, LEAVE, CHANGE and BREAK. */
#include "engine/redis/ops.h"

#include "base/bug.h"
#include "base/list.h"
#include "core/grant.h"
#include "engine/kit/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER_TEXT 192 /* bytes of a ticket's arguments that are written, without its name */

/* ---- JOIN ------------------------------------------------------------------------------- */

static void put_member(struct rt_redis_args *a, const struct rt_redis_conn *c,
                       const struct rt_join *j)
{
    bool durable = j->flags & RT_JOIN_DURABLE, value = j->value != NULL && j->value[0] != '\0';
    char flags[6], sid[24];
    size_t n = 0;
    if (j->flags & RT_JOIN_ARM)
        flags[n++] = 'a';
    if (j->flags & RT_JOIN_DETECT)
        flags[n++] = 'd';
    if (durable)
        flags[n++] = 'D';
    if (durable || value || j->at_least_ms > 0)
        flags[n++] = 'x';
    if (n == 0)
        flags[n++] = '-';
    flags[n] = '\0';
    (void)snprintf(sid, sizeof(sid), durable ? "d%llu" : "%016llx", (unsigned long long)j->session);
    rt_redis_arg_text(a, "%s %llu %u %u %u %s %llu 0%s%s", sid, (unsigned long long)j->nonce,
                      j->mode, j->take, j->of, flags, (unsigned long long)j->owner,
                      durable ? " " : "", durable ? c->cid : "");
}

static void put_names(struct rt_redis_args *a, const struct rt_redis_conn *c,
                      const struct rt_join *j)
{
    rt_redis_arg(a, j->name);
    rt_redis_arg_text(a, "%llu %s", (unsigned long long)j->nonce, j->name);
    put_member(a, c, j);
}

/* One without extras, of a session that stands in its room: all is in flags, sid and member. */
static bool is_short(const struct rt_redis_conn *c, uint32_t room, const struct rt_join *j)
{
    return !(j->flags & RT_JOIN_DURABLE) && c->rooms[room].stands && j->mode != RT_GATHER &&
           j->at_least_ms == 0 && j->until_ms == 0 && (j->value == NULL || j->value[0] == '\0');
}

static void put_ticket(struct rt_redis_args *a, const struct rt_redis_conn *c,
                       const struct rt_join *j)
{
    put_names(a, c, j);
    rt_redis_arg_number(a, j->mode);
    rt_redis_arg_number(a, j->take);
    rt_redis_arg_number(a, j->of);
    rt_redis_arg_number(a, (uint64_t)j->at_least_ms);
    rt_redis_arg_number(a, (uint64_t)j->until_ms);
    rt_redis_arg(a, j->value != NULL ? j->value : "");
}

static void put_flags(struct rt_redis_args *a, const struct rt_redis_conn *c, uint32_t room,
                      const struct rt_join *first)
{
    char flags[4];
    size_t n = 0;
    if (first->flags & RT_JOIN_TRY)
        flags[n++] = 't';
    if (first->flags & RT_JOIN_DURABLE)
        flags[n++] = 'D';
    else if (!c->rooms[room].stands)
        flags[n++] =
            'c'; /* never where we may hold something: a session that died must stay dead */
    if (n == 0)
        flags[n++] = '-';
    flags[n] = '\0';
    rt_redis_arg_text(a, "%s", flags);
}

static void put_label(struct rt_redis_args *a, const struct rt_redis_conn *c)
{
    rt_redis_arg_text(a, "%.*s", RT_LABEL_MAX, c->base.label != NULL ? c->base.label : "");
}

struct rt_redis_request *rt_redis_send_join(struct rt_redis_conn *c, struct rt_work *w,
                                            uint32_t room, struct rt_join **joins, size_t n,
                                            int64_t deadline, rt_redis_answer_fn *answer)
{
    struct rt_redis_args a;
    size_t text = RT_LABEL_MAX + 64;
    for (size_t i = 0; i < n; i++)
        text += strlen(joins[i]->name) + MEMBER_TEXT;
    if (rt_redis_listen(c, room) != 0 ||
        rt_redis_args_open(&a, RT_REDIS_JOIN_AHEAD + RT_REDIS_JOIN_EACH * n, text) != 0) {
        (void)rt_words_nomem(&c->base);
        return NULL;
    }
    put_flags(&a, c, room, joins[0]);
    rt_redis_arg_sid(&a, joins[0]->session, joins[0]->flags & RT_JOIN_DURABLE);
    if (n == 1 && is_short(c, room, joins[0])) {
        put_names(&a, c, joins[0]);
    } else {
        rt_redis_arg_number(&a, c->base.ttl_ms);
        put_label(&a, c);
        for (size_t i = 0; i < n; i++)
            put_ticket(&a, c, joins[i]);
    }
    struct rt_redis_request *rq = rt_redis_ask(c, w, &a, RT_REDIS_SCRIPT_JOIN, room, deadline,
                                               answer);
    if (rq == NULL)
        return NULL;
    rq->extra = !c->rooms[room].stands && !(joins[0]->flags & RT_JOIN_DURABLE);
    rq->seq = ++c->side.join_seq;
    RT_RING_ADD(&c->side.joins, rq);
    c->rooms[room].joining++;
    return rq;
}

void rt_redis_join_over(struct rt_redis_conn *c, struct rt_redis_request *rq)
{
    RT_RING_OUT(rq);
    assert(c->rooms[rq->call.place].joining > 0);
    c->rooms[rq->call.place].joining--;
    c->side.counted_at = -1;
    rt_redis_tell_kept(c);
}

static int join_refused(struct rt_redis_conn *c, int status, const redisReply *reply,
                        struct rt_join **joins, size_t n)
{
    size_t at = (size_t)rt_redis_int(reply, status == RT_REDIS_BUSY ? 1 : 2);
    const struct rt_join *join = joins[at < n ? at : 0];
    switch (status) {
    case RT_REDIS_LOST:
        return rt_words_no_session(&c->base, join->session);
    case RT_REDIS_BUSY:
        return rt_words_busy(&c->base, join->name, rt_redis_str(reply, 0),
                             strlen(rt_redis_str(reply, 0)));
    case RT_REDIS_KIND:
        return rt_words_other_kind(&c->base, join, rt_redis_int(reply, 0), rt_redis_int(reply, 1));
    case RT_REDIS_PARTIAL:
        return rt_words_set_ended(&c->base);
    case RT_REDIS_TWICE:
        return rt_redis_fail(c, ROTA_INVALID, "a set names one line twice");
    case RT_REDIS_MORE: /* nothing was put anywhere: whoever asks again finds fewer of them */
        return rt_redis_fail(c, ROTA_UNKNOWN, "the dead ahead of it are being taken out");
    default:
        return rt_redis_fail(c, ROTA_PROTOCOL, "a join was answered with status %d", status);
    }
}

/* Whether our session stands in the room of RQ, a JOIN that has an answer, for as long as the user may count
 * on it (I3). The user counts all its holds from before the last BEAT that succeeded, and a BEAT renews the
 * session where it stands: every room or none. So a room may be one of those only if no BEAT goes beyond what
 * it has answered:
 *
 *   JOIN `c` sent ──────── s ───────────────────▶ answered: stands
 *   BEAT          ── t ──┘   └── none in between   └── from here on every one renews this room too
 *
 * `c` makes the session or renews it, so it lives at least a ttl from s on; a BEAT before s counts from before
 * s; one after the answer fails unless this room has answered as well. If there was one in between, it has told,
 * or will tell, the user of more than this room knows. Then the answer is worth nothing: the user asks again,
 * finds its ticket by the nonce, and `c` counts from that try. For a try whose answer is lost nothing is
 * counted, and one that arrives late or twice only renews. */
static bool room_stands(struct rt_redis_conn *c, const struct rt_redis_request *rq, uint64_t number)
{
    struct rt_redis_room *room = &c->rooms[rq->call.place];
    if (room->stands)
        return true;
    room->stands = rq->extra != 0 &&
                   (c->side.beat_at <= rq->call.sent_at || RT_BUG(RT_BUG_ROOM_BESIDE_THE_BEATS));
    room->pushes = 0;
    room->since = number; /* what was pushed before may have been of an earlier stay */
    return room->stands;
}

/* "TAG NUMBER": granted at once, and nobody else is there. */
static int read_short(struct rt_redis_conn *c, struct rt_redis_request *rq, const redisReply *reply,
                      struct rt_join *join)
{
    const char *number = strchr(reply->str, ' ');
    if (number == NULL)
        return rt_redis_odd(c, rq);
    join->number = strtoull(number + 1, NULL, 10);
    join->granted = true;
    join->wanted = false;
    return join->number != 0 ? 0 : rt_redis_odd(c, rq);
}

int rt_redis_read_join(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                       const redisReply *reply, struct rt_join **joins, size_t n)
{
    struct rt_redis_room *room = &c->rooms[rq->call.place];
    if (err != 0)
        return err;
    if (reply->type == REDIS_REPLY_STRING && rq->call.argc == RT_REDIS_JOIN_SHORT && !room->stands)
        return rt_redis_fail(c, ROTA_UNKNOWN, "the room was left before it had answered");
    if (reply->type == REDIS_REPLY_STRING && rq->call.argc == RT_REDIS_JOIN_SHORT)
        return read_short(c, rq, reply, joins[0]);
    if (status == RT_REDIS_LOST && rq->extra != 0) {
        /* An earlier try made the session there, and it died unheard of: nothing of ours was. */
        rt_redis_sweep(c, rq->call.place);
        return rt_redis_fail(c, ROTA_UNKNOWN, "what an earlier try left in the room is over");
    }
    if (status != RT_REDIS_OK)
        return join_refused(c, status, reply, joins, n);
    if (rt_redis_count(reply) != 2 + 2 * n || !rt_redis_shaped(reply, 0, "ii"))
        return rt_redis_odd(c, rq);
    bool durable = joins[0]->flags & RT_JOIN_DURABLE;
    if (!durable && joins[0]->session == c->session &&
        !room_stands(c, rq, (uint64_t)rt_redis_int(reply, 2)))
        return rt_redis_fail(c, ROTA_UNKNOWN, "a heartbeat went before this room had answered");
    bool waits = false;
    for (size_t i = 0; i < n; i++) {
        int64_t state = rt_redis_int(reply, 3 + 2 * i) & 3;
        if (rt_redis_int(reply, 2 + 2 * i) <= 0)
            return rt_redis_odd(c, rq); /* no ticket has that */
        joins[i]->number = (uint64_t)rt_redis_int(reply, 2 + 2 * i);
        joins[i]->granted = state != 0;
        joins[i]->wanted = state == 2;
        waits = waits || state == 0;
    }
    if (waits) {
        rt_redis_note_ends(c, rq->call.place, rt_redis_int(reply, 0), rt_redis_int(reply, 1));
        rt_redis_note_waits(c, rq->call.place);
        room->durable_waits += durable;
    }
    return 0;
}

static void join_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    struct rt_join *join = op->join.joins;
    uint64_t session = join->session;
    if (err == 0 && status == RT_REDIS_MORE && op->deadline > rt_loop_now(c->base.loop)) {
        err = rt_redis_begin_join(c, op); /* at once, until it is told or its time is over */
        if (err != 0)
            rt_conn_done(&c->base, op, err);
        rt_redis_join_over(c, rq);
        return;
    }
    bool durable = join->flags & RT_JOIN_DURABLE;
    err = rt_redis_read_join(c, rq, err, status, reply, &join, 1);
    bool waits = err == 0 && !join->granted;
    if (err == 0 && join->granted && c->link.replicas > 0)
        rt_redis_done_replicated(c, op);
    else if (err == ROTA_UNKNOWN && rq->call.refusal != 0)
        rt_redis_take_back(c, op, 0, rq->call.refusal);
    else
        rt_conn_done(&c->base, op, err);
    if (err == ROTA_LOST && !durable)
        rt_redis_session_lost(c, session);
    rt_redis_join_over(c, rq);
    if (waits && c->rooms[rq->call.place].stale)
        rt_redis_ask_held(c, rq->call.place);
}

int rt_redis_check_joins(struct rt_redis_conn *c, const struct rt_op *op)
{
    int rv = rt_check_joins(&c->base, op);
    if (rv == 0)
        rv = rt_check_session(&c->base, op, c->session);
    return rv != 0 ? rv : rt_redis_check_replicas(c, op);
}

int rt_redis_begin_join(struct rt_redis_conn *c, struct rt_op *op)
{
    struct rt_join *join = op->join.joins;
    int rv = rt_redis_check_joins(c, op);
    if (rv != 0)
        return rv;
    uint64_t number;
    rv = rt_redis_given_up(c, join, &number);
    if (rv != 0) {
        rt_redis_take_back(c, op, number, rt_redis_fail(c, rv, "an earlier try was taken back"));
        return 0;
    }
    uint32_t room = rt_redis_room_of(c, join->name);
    struct rt_redis_request *rq = rt_redis_send_join(c, NULL, room, &join, 1, op->deadline,
                                                     join_answered);
    if (rq == NULL)
        return ROTA_NOMEM;
    rq->call.entry.op = op;
    return 0;
}

/* ---- LEAVE, CHANGE, BREAK --------------------------------------------------------------- */

/* Sends what A has as the one request of OP. */
static int ask_one(struct rt_redis_conn *c, struct rt_redis_args *a, enum rt_redis_script script,
                   const char *name, struct rt_op *op, rt_redis_answer_fn *answer)
{
    struct rt_redis_request *rq = rt_redis_ask(c, NULL, a, script, rt_redis_room_of(c, name),
                                               op->deadline, answer);
    if (rq == NULL)
        return ROTA_NOMEM;
    rq->call.entry.op = op;
    return 0;
}

static void leave_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                           int status, const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0 && status == RT_REDIS_LOST)
        err = rt_words_no_ticket(&c->base, op->leave.name);
    else if (err == 0 && reply->type != REDIS_REPLY_STRING &&
             (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = rt_redis_odd(c, rq);
    if (err == 0) /* the tag alone: it was */
        op->leave.granted = reply->type == REDIS_REPLY_STRING || rt_redis_int(reply, 0) != 0;
    c->side.counted_at = -1;
    rt_conn_done(&c->base, op, err);
}

/* A durable session is named by any number, and so is a leased one: the server knows which. A leased
 * one of ours has our connection's digits; any other we leave only by number. */
static bool is_leased(const struct rt_redis_conn *c, uint64_t session)
{
    char sid[RT_REDIS_SID_SIZE];
    (void)snprintf(sid, sizeof(sid), "%016llx", (unsigned long long)session);
    return strncmp(sid, c->cid, strlen(c->cid)) == 0;
}

int rt_redis_begin_leave(struct rt_redis_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    int rv = rt_check_name(&c->base, op->leave.name);
    if (rv != 0)
        return rv;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, op->leave.name);
    rt_redis_arg_sid(&a, op->leave.session, !is_leased(c, op->leave.session));
    rt_redis_arg_number(&a, op->leave.number);
    if (op->leave.nonce != 0 || !rt_leave_keeps(op))
        rt_redis_arg_number(&a, op->leave.nonce);
    if (op->leave.untold)
        rt_redis_arg(&a, "u");
    return ask_one(c, &a, RT_REDIS_SCRIPT_LEAVE, op->leave.name, op, leave_answered);
}

static void change_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                            int status, const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0 && status == RT_REDIS_LOST)
        err = rt_words_no_ticket(&c->base, op->change.name);
    else if (err == 0 && status == RT_REDIS_KIND)
        err = rt_words_not_exclusive(&c->base, op->change.name);
    else if (err == 0 && (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = rt_redis_odd(c, rq);
    if (err == 0)
        op->change.wanted = rt_redis_int(reply, 0) != 0;
    rt_conn_done(&c->base, op, err);
}

int rt_redis_begin_change(struct rt_redis_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    char what[4];
    size_t n = 0;
    int rv = rt_check_name(&c->base, op->change.name);
    if (rv == 0 && op->change.what & RT_CHANGE_VALUE)
        rv = rt_check_value(&c->base, op->change.name, op->change.value);
    if (rv != 0)
        return rv;
    if (op->change.what & RT_CHANGE_DOWNGRADE)
        what[n++] = 'D';
    if (op->change.what & RT_CHANGE_VALUE)
        what[n++] = 'V';
    if (op->change.what & RT_CHANGE_ARM)
        what[n++] = 'A';
    if (n == 0)
        what[n++] = '-';
    what[n] = '\0';
    rt_redis_args_few(&a);
    rt_redis_arg(&a, op->change.name);
    rt_redis_arg_sid(&a, op->change.session, !is_leased(c, op->change.session));
    rt_redis_arg_number(&a, op->change.number);
    rt_redis_arg(&a, what);
    rt_redis_arg(&a, op->change.value != NULL ? op->change.value : "");
    return ask_one(c, &a, RT_REDIS_SCRIPT_CHANGE, op->change.name, op, change_answered);
}

static void break_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                           int status, const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0 && status == RT_REDIS_LOST)
        err = rt_words_no_such(&c->base, op->brk.name);
    else if (err == 0 && (status != RT_REDIS_OK || !rt_redis_shaped(reply, 0, "i")))
        err = rt_redis_odd(c, rq);
    rt_conn_done(&c->base, op, err);
}

int rt_redis_begin_break(struct rt_redis_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    int rv = rt_check_name(&c->base, op->brk.name);
    if (rv != 0)
        return rv;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, op->brk.name);
    rt_redis_arg_number(&a, op->brk.number);
    rt_redis_arg_number(&a, op->brk.mode);
    return ask_one(c, &a, RT_REDIS_SCRIPT_BREAK, op->brk.name, op, break_answered);
}
