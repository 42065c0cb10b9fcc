/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL: one script takes all keys or none. Whoever does not get them waits here and asks again: after a
 * time and, where releases are told, at their word. */
#include "engine/redis/dialect/dialect.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "engine/kit/check.h"
#include "engine/name.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EACH 4 /* arguments of a ticket: name, id, mode, text */
#define AHEAD 1
#define CHANNEL_ROOM (RT_NAME_ROOM + RT_DIA_ID_SIZE + 64)

/* ---- Asking ------------------------------------------------------------------------------------ */

void rt_dia_put_text(struct rt_redis_args *a, const struct rt_dia_conn *c, uint64_t owner,
                     bool detects, const char *value)
{
    const char *label = c->base.label != NULL ? c->base.label : "";
    size_t size = strlen(label);
    size = size < RT_LABEL_MAX ? size : RT_LABEL_MAX;
    rt_redis_arg_text(a, "%llu %c %zu %.*s%s", (unsigned long long)owner, detects ? 'd' : '-', size,
                      (int)size, label, value != NULL ? value : "");
}

struct asked { /* of one ticket */
    const char *name, *value;
    uint64_t nonce, owner;
    uint32_t mode;
    bool try, again, detects;
};

static void put_ticket(struct rt_redis_args *a, const struct rt_dia_conn *c,
                       const struct asked *one)
{
    char id[RT_DIA_ID_SIZE];
    rt_dia_id(c, one->nonce, id);
    rt_redis_arg(a, one->name);
    rt_redis_arg_text(a, "%s", id);
    if (c->dialect->queues)
        rt_redis_arg_text(a, "-%s%s%s", one->try ? "t" : "", one->again ? "r" : "",
                          one->detects ? "d" : "");
    else
        rt_redis_arg_number(a, one->mode);
    rt_dia_put_text(a, c, one->owner, one->detects, one->value);
}

static struct asked asked_by(const struct rt_join *j)
{
    return (struct asked){.name = j->name,
                          .value = j->value,
                          .nonce = j->nonce,
                          .owner = j->owner,
                          .mode = j->mode,
                          .try = j->flags & RT_JOIN_TRY,
                          .detects = j->flags & RT_JOIN_DETECT};
}

static struct asked asked_again(const struct rt_spin_ticket *t)
{
    return (struct asked){.name = t->name,
                          .nonce = t->nonce,
                          .owner = t->owner,
                          .mode = t->mode,
                          .again = true,
                          .detects = t->detects};
}

/* Room for N tickets, and what goes before them. */
static int open_args(struct rt_dia_conn *c, struct rt_redis_args *a, size_t n)
{
    if (rt_redis_args_open(a, AHEAD + EACH * n, 32 + n * (RT_DIA_TEXT_MOST + RT_DIA_ID_SIZE)) != 0)
        return rt_words_nomem(&c->base);
    rt_redis_arg_number(a, c->base.ttl_ms);
    return 0;
}

static const char *name_of(const struct rt_dia_request *rq, size_t i)
{
    return rq->call.args[AHEAD + EACH * i];
}

static void give_back_all(struct rt_dia_conn *c, const struct rt_dia_request *rq)
{
    for (size_t i = 0; i < rq->count; i++)
        rt_dia_give_back(c, name_of(rq, i), rq->call.args[AHEAD + EACH * i + 1]);
}

/* ---- Answers ------------------------------------------------------------------------------------- */

/* Why NAME is not to be locked in this dialect, WHAT being what the script found there. */
static int other_layout(struct rt_dia_conn *c, const char *name, const char *what)
{
    const char *mine = c->dialect->incumbents;
    if (strcmp(what, "rw") == 0)
        return rt_dia_fail(
            c, ROTA_INVALID,
            "%.80s is a read/write lock of Redisson: a lock beside it excludes nobody; take another "
            "name, or ?dialect=redisson-rw",
            name);
    if (strcmp(what, "lock") == 0)
        return rt_dia_fail(
            c, ROTA_INVALID,
            "%.80s is a plain lock of Redisson: a read/write lock beside it excludes nobody; take "
            "another name, or ?dialect=redisson",
            name);
    if (strcmp(what, "queue") == 0)
        return rt_dia_fail(
            c, ROTA_INVALID,
            "%.80s is a fair lock of Redisson, and others queue for it: take another name, or "
            "?dialect=redisson-fair",
            name);
    if (strcmp(what, "time") == 0)
        return rt_dia_fail(c, ROTA_INVALID, "%.80s is a string, but no time: no lock of %s", name,
                           mine);
    if (strcmp(what, "shape") == 0)
        return rt_dia_fail(c, ROTA_INVALID, "%.80s is a hash, but no lock of %s", name, mine);
    return rt_dia_fail(c, ROTA_INVALID, "%.80s is a key of type %.20s, not a lock of %s%s", name,
                       what, mine,
                       strcmp(what, "hash") == 0     ? ": is it Redisson's (?dialect=redisson)?"
                       : strcmp(what, "string") == 0 ? ": is it one of SET NX PX (?dialect=token)?"
                                                     : "");
}

static int busy(struct rt_dia_conn *c, const char *name, const char *holder)
{
    struct rota_place place = {0};
    struct rt_text label, value;
    char who[RT_LABEL_MAX + 1];
    const char *text = strchr(holder, ' ');
    const char *ours = text != NULL ? strchr(text + 1, ' ') : NULL;
    if (ours != NULL && rt_dia_text_read(ours + 1, &place, &label, &value))
        return rt_words_busy(&c->base, name, label.at, label.size);
    char id[128];
    size_t size = c->dialect->uuid && text != NULL ? (size_t)(text - holder) : strlen(holder);
    (void)snprintf(id, sizeof(id), "%.*s", (int)(size < 127 ? size : 127), holder);
    rt_dia_whose(c, id, who, sizeof(who));
    return rt_words_busy(&c->base, name, who, strlen(who));
}

/* What a queue says of the I-th. */
#define FAIR_EACH 3
enum { FAIR_WAITS, FAIR_HOLDS, FAIR_BROKEN };

static int64_t fair_says(const redisReply *reply, size_t i)
{
    return rt_redis_int(reply, FAIR_EACH * i + 1);
}

/* The I-th of the numbers that were granted; 0: the reply is none of ours. */
static uint64_t granted_number(const struct rt_dia_conn *c, const redisReply *reply, size_t i)
{
    if (reply->type != REDIS_REPLY_STRING)
        return (uint64_t)rt_redis_int(reply, c->dialect->queues ? FAIR_EACH * i : i);
    const char *at = strchr(reply->str, ' ');
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

/* What the answer says: 0 granted; ROTA_BUSY; an error. */
static int read_answer(struct rt_dia_conn *c, struct rt_dia_request *rq, int status,
                       const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STRING || status == RT_REDIS_OK) {
        size_t each = c->dialect->queues ? FAIR_EACH : 1;
        bool whole = reply->type == REDIS_REPLY_STRING ||
                     (rt_redis_count(reply) == each * rq->count && rt_redis_shaped(reply, 0, "i"));
        return whole && (each > 1 || granted_number(c, reply, 0) > 0) ? 0 : rt_dia_odd(c, rq);
    }
    size_t at = (size_t)rt_redis_int(reply, 0);
    const char *name = name_of(rq, at < rq->count ? at : 0);
    if (status == RT_REDIS_BUSY && rt_redis_shaped(reply, 0, "iis"))
        return busy(c, name, rt_redis_str(reply, 2));
    if (status == RT_REDIS_KIND && rt_redis_shaped(reply, 0, "is"))
        return other_layout(c, name, rt_redis_str(reply, 1));
    return status == RT_REDIS_PARTIAL ? rt_words_set_ended(&c->base) : rt_dia_odd(c, rq);
}

/* ---- Words of who released -------------------------------------------------------------------------- */

/* As Redisson spells it: braces unless the name has one; in a queue everybody has a channel. */
static void channel_of(const struct rt_dia_conn *c, const struct rt_spin_ticket *t,
                       char out[CHANNEL_ROOM])
{
    bool braced = strchr(t->name, '{') != NULL;
    char id[RT_DIA_ID_SIZE] = "";
    if (c->dialect->queues)
        rt_dia_id(c, t->nonce, id);
    (void)snprintf(out, CHANNEL_ROOM, "%s:%s%s%s%s%s", c->dialect->channel, braced ? "" : "{",
                   t->name, braced ? "" : "}", id[0] != '\0' ? ":" : "", id);
}

static void listen_for(struct rt_dia_conn *c, struct rt_spin_ticket *t)
{
    char channel[CHANNEL_ROOM];
    if (c->dialect->channel == NULL || rt_dia_ticket(t)->listens)
        return;
    channel_of(c, t, channel);
    rt_dia_ticket(t)->listens = rt_resp_subscribe(&c->link, 0, channel) == 0; /* else by time */
}

static void count_listener(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    struct rt_spin_ticket **one = arg;
    if (*one != NULL && *one != t && rt_dia_ticket(t)->listens &&
        !rt_dia_of_spin(s)->dialect->queues && strcmp((*one)->name, t->name) == 0)
        *one = NULL;
}

void rt_dia_unlisten(struct rt_dia_conn *c, struct rt_spin_ticket *t)
{
    struct rt_spin_ticket *alone = t;
    char channel[CHANNEL_ROOM];
    if (!rt_dia_ticket(t)->listens)
        return;
    rt_spin_each(&c->spin, count_listener, &alone);
    rt_dia_ticket(t)->listens = false;
    channel_of(c, t, channel);
    if (alone != NULL)
        rt_resp_unsubscribe(&c->link, 0, channel);
}

/* ---- Waiting -------------------------------------------------------------------------------------------- */

static void wait_on(struct rt_dia_conn *c, struct rt_spin_ticket *t, int64_t left)
{
    listen_for(c, t);
    rt_spin_wait(&c->spin, t, left);
}

static rt_dia_answer_fn retry_answered;

static bool ask_again(struct rt_spin *s, struct rt_spin_ticket **list, size_t n)
{
    struct rt_dia_conn *c = rt_dia_of_spin(s);
    struct rt_redis_args a;
    struct rt_dia_request *rq = NULL;
    if (open_args(c, &a, n) == 0) {
        for (size_t i = 0; i < n; i++) {
            struct asked one = asked_again(list[i]);
            put_ticket(&a, c, &one);
        }
        rq = rt_dia_request_new(c, c->dialect->join, &a, AHEAD, n, retry_answered);
    }
    for (size_t i = 0; rq != NULL && i < n; i++)
        rq->nonces[i] = list[i]->nonce;
    if (rq != NULL)
        rt_dia_send(c, rq);
    return rq != NULL;
}

/* A LEAVE that waits for what becomes of the ask: there is no ticket any more. */
static void freed(struct rt_spin *s, struct rt_spin_ticket *t)
{
    struct rt_dia_conn *c = rt_dia_of_spin(s);
    struct rt_op *op = rt_dia_ticket(t)->leaver;
    rt_dia_unlisten(c, t);
    rt_dia_ticket(t)->leaver = NULL;
    if (op != NULL)
        rt_conn_done(&c->base, op, rt_words_no_ticket(&c->base, t->name));
}

const struct rt_spin_user rt_dia_spin_user = {
    .size = sizeof(struct rt_dia_ticket), .ask = ask_again, .freed = freed};

struct word {
    const char *channel;
};

static void hear(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    struct rt_dia_conn *c = rt_dia_of_spin(s);
    const struct word *w = arg;
    char channel[CHANNEL_ROOM];
    if (t->state != RT_SPIN_WAITING && t->state != RT_SPIN_JOINING)
        return;
    channel_of(c, t, channel);
    if (strcmp(channel, w->channel) != 0 || RT_BUG(RT_BUG_WORD_NOT_HEARD))
        return;
    rt_spin_now(s, t);
}

void rt_dia_word(struct rt_dia_conn *c, const char *channel)
{
    struct word w = {channel};
    rt_spin_each(&c->spin, hear, &w);
}

static void tell_granted(struct rt_dia_conn *c, struct rt_spin_ticket *t, uint64_t fence)
{
    rt_dia_unlisten(c, t);
    rt_spin_granted(&c->spin, t, c->dialect->caps & ROTA_CAP_FENCE ? fence : 0);
    if (c->dialect->in_steps)
        rt_dia_give_end(c, t);
}

static void retried_one(struct rt_dia_conn *c, struct rt_dia_request *rq, size_t i, int err,
                        const redisReply *reply)
{
    struct rt_spin_ticket *t = rq->session == c->spin.session
                                   ? rt_spin_by_nonce(&c->spin, name_of(rq, i), rq->nonces[i])
                                   : NULL;
    if (t == NULL) {
        if (err == 0) /* of an earlier session, or given up */
            rt_dia_give_back(c, name_of(rq, i), rq->call.args[AHEAD + EACH * i + 1]);
        return;
    }
    t->in_flight = false;
    if (rt_dia_ticket(t)->leaver != NULL) {
        rt_dia_leave_on(c, t, err);
        return;
    }
    if (t->state != RT_SPIN_WAITING)
        return; /* its LEAVE is behind this */
    int64_t says = c->dialect->queues && err == 0 ? fair_says(reply, i) : FAIR_HOLDS;
    if (err == 0 && says == FAIR_HOLDS)
        tell_granted(c, t, granted_number(c, reply, i));
    else if (err == 0 && says == FAIR_BROKEN)
        rt_spin_lost(&c->spin, t);
    else if (err == 0)
        rt_spin_wait(&c->spin, t, rt_redis_int(reply, FAIR_EACH * i + 2));
    if (err == 0)
        return;
    t->doubt = err == ROTA_UNKNOWN || (t->doubt && err != ROTA_BUSY);
    rt_spin_wait(&c->spin, t, err == ROTA_BUSY ? rt_redis_int(reply, 1) : -1);
}

static void retry_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                           const redisReply *reply)
{
    if (err == 0)
        err = read_answer(c, rq, status, reply);
    if (err == ROTA_LOST) /* a set that an earlier try got, and a part of it has ended */
        give_back_all(c, rq);
    for (size_t i = 0; i < rq->count; i++)
        retried_one(c, rq, i, err, reply);
}

/* ---- The op -------------------------------------------------------------------------------------------------- */

static void joined_one(struct rt_dia_conn *c, struct rt_op *op, size_t i, uint64_t fence)
{
    const struct rt_join *join = &op->join.joins[i];
    rt_spin_joined(&c->spin, op, i, c->dialect->caps & ROTA_CAP_FENCE ? fence : 0);
    if (c->dialect->in_steps)
        rt_dia_give_end(c, rt_spin_by_nonce(&c->spin, join->name, join->nonce));
}

static void joined_all(struct rt_dia_conn *c, struct rt_op *op, int err, const redisReply *reply)
{
    uint64_t set = err == ROTA_BUSY && op->join.n > 1 ? ++c->spin.sets : 0;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *join = &op->join.joins[i];
        struct rt_spin_ticket *t = rt_spin_by_nonce(&c->spin, join->name, join->nonce);
        assert(t != NULL);
        if (err == 0 && c->dialect->queues && fair_says(reply, i) != FAIR_HOLDS) {
            join->number = t->number = granted_number(c, reply, i);
            join->granted = join->wanted = false;
            wait_on(c, t, rt_redis_int(reply, FAIR_EACH * i + 2));
        } else if (err == 0) {
            joined_one(c, op, i, granted_number(c, reply, i));
        } else if (err == ROTA_BUSY && !(join->flags & RT_JOIN_TRY)) {
            t->set = set;
            join->number = t->number = ++c->spin.names;
            join->granted = join->wanted = false;
            wait_on(c, t, rt_redis_int(reply, 1));
        } else if (t->state == RT_SPIN_JOINING) {
            rt_spin_free(&c->spin, t);
        }
    }
}

static void join_answered(struct rt_dia_conn *c, struct rt_dia_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct rt_op *op = rq->call.entry.op;
    if (err == 0)
        err = read_answer(c, rq, status, reply);
    if (rq->session != c->spin.session || c->spin.session == 0) {
        if (err == 0)
            give_back_all(c, rq);
        rt_conn_done(&c->base, op, rt_words_no_session(&c->base, rq->session));
        return;
    }
    joined_all(c, op, err, reply);
    bool waits = err == ROTA_BUSY && !(op->join.joins[0].flags & RT_JOIN_TRY);
    rt_conn_done(&c->base, op, waits ? 0 : err);
}

static int check_one(struct rt_dia_conn *c, const struct rt_join *j)
{
    if (strncmp(j->name, "rota:", 5) == 0) /* one of them is the fence */
        return rt_dia_fail(c, ROTA_INVALID, "%.120s: keys from rota: on are Rota's own", j->name);
    uint32_t caps = c->dialect->caps;
    bool kept = j->flags & RT_JOIN_DURABLE || j->at_least_ms > 0 || j->until_ms > 0;
    if (kept || (j->value != NULL && j->value[0] != '\0' && !(caps & ROTA_CAP_ORDER)) ||
        j->mode > RT_SHARED || (j->mode == RT_SHARED && !(caps & ROTA_CAP_SHARED)))
        return rt_dia_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has only %s", j->name,
                           c->dialect->name,
                           caps & ROTA_CAP_SHARED ? "read/write locks" : "exclusive locks");
    return 0;
}

static int check(struct rt_dia_conn *c, const struct rt_op *op)
{
    int rv = rt_check_joins(&c->base, op);
    if (rv == 0)
        rv = rt_check_session(&c->base, op, c->spin.session);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++) {
        rv = check_one(c, &op->join.joins[i]);
        for (size_t k = 0; rv == 0 && k < i; k++)
            if (strcmp(op->join.joins[k].name, op->join.joins[i].name) == 0)
                rv = rt_dia_fail(c, ROTA_INVALID, "%.80s: a set names a line once",
                                 op->join.joins[i].name);
    }
    return rv;
}

int rt_dia_begin_join(struct rt_dia_conn *c, struct rt_op *op)
{
    struct rt_redis_args a;
    int rv = check(c, op);
    if (rv != 0)
        return rv;
    if (rt_spin_stands(&c->spin, op))
        return 0;
    rv = rt_spin_make(&c->spin, op);
    if (rv == 0)
        rv = open_args(c, &a, op->join.n);
    if (rv != 0)
        return rv;
    for (size_t i = 0; i < op->join.n; i++) {
        struct asked one = asked_by(&op->join.joins[i]);
        put_ticket(&a, c, &one);
    }
    struct rt_dia_request *rq = rt_dia_request_new(c, c->dialect->join, &a, AHEAD, op->join.n,
                                                   join_answered);
    if (rq == NULL) {
        joined_all(c, op, ROTA_NOMEM, NULL);
        return ROTA_NOMEM;
    }
    for (size_t i = 0; i < op->join.n; i++)
        rq->nonces[i] = op->join.joins[i].nonce;
    rq->call.entry.op = op;
    rq->call.entry.deadline = op->deadline;
    rt_dia_send(c, rq);
    return 0;
}
