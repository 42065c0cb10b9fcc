/* SPDX-License-Identifier: Apache-2.0 */
/* BEAT: a session, which is this connection's own, and the renewal of its locks, each by a majority.
 *
 *   open:  a majority of nodes has been greeted
 *   renew: on every node what it has, BATCH in one script ──▶ answered when a majority has renewed each
 *          a lock that a majority does not have is lost; where too few have answered the beat fails, and is sent again
 *
 * A session that was not renewed for a ttl has ended, as it has for its user: its locks are over, and its waiters are
 * withdrawn. Else it would be granted, for nobody, what others wait for.
 *
 * A node that lacks a key (it was away, or has forgotten it) gets it again once a majority has renewed it: a lock that
 * was broken must not come back. That does not count before the next beat: a majority must have had it all the time. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define BATCH 100 /* locks of one script */

struct item {
    struct rt_redlock_ticket *ticket; /* NULL: it has ended */
    struct rt_quorum votes;
};

struct rt_redlock_beat {
    struct rt_work work;    /* first */
    struct rt_quorum heard; /* who has answered at all */
    int64_t sent_at;
    size_t count;
    struct item items[];
};

void rt_redlock_beat_forgets(struct rt_redlock_ticket *t)
{
    assert(t->beat->items[t->in_beat].ticket == t);
    t->beat->items[t->in_beat].ticket = NULL;
    t->beat = NULL;
}

static void forget_all(struct rt_conn *conn, struct rt_work *w)
{
    struct rt_redlock_beat *b = (struct rt_redlock_beat *)(void *)w;
    (void)conn;
    for (size_t i = 0; i < b->count; i++)
        if (b->items[i].ticket != NULL)
            rt_redlock_beat_forgets(b->items[i].ticket);
}

/* ---- Opening ------------------------------------------------------------------------------------ */

static void drop_tickets(struct rt_redlock_conn *c)
{
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        while (c->tickets[i] != NULL) {
            struct rt_redlock_ticket *t = c->tickets[i];
            if (!t->held) {
                rt_redlock_withdraw(c, t);
                continue;
            }
            rt_redlock_give(c, t->name, t->token, t->may);
            rt_redlock_ticket_free(t);
        }
}

static void keep_until(struct rt_redlock_conn *c, int64_t at)
{
    c->ends_at = at;
    rt_redlock_by(c, at);
}

int64_t rt_redlock_session_tick(struct rt_redlock_conn *c, int64_t now)
{
    uint64_t session = c->session;
    if (session == 0)
        return RT_NEVER;
    if (now < c->ends_at)
        return c->ends_at;
    c->session = 0;
    rt_redlock_asks_end(c, session);
    if (c->session == 0) /* else whoever was told has opened the next, and they are gone */
        drop_tickets(c);
    return c->session == 0 ? RT_NEVER : c->ends_at;
}

static int open_session(struct rt_redlock_conn *c, struct rt_op *op)
{
    drop_tickets(c);
    c->session = (uint64_t)c->cid << 31 | (++c->session_count & 0x7fffffffu); /* below 2^63 */
    c->beat_at = rt_loop_now(c->base.loop);
    keep_until(c, c->beat_at + c->base.ttl_ms * RT_MS);
    op->beat.session = c->session;
    op->beat.ttl_ms = c->base.ttl_ms;
    op->beat.allowance_ms = 0;
    rt_conn_done(&c->base, op, 0);
    return 0;
}

/* ---- Renewing ------------------------------------------------------------------------------------ */

static void lose(struct rt_redlock_conn *c, struct rt_redlock_ticket *t)
{
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_TICKET_LOST,
                                               .session = t->session,
                                               .number = t->number,
                                               .name = t->name});
    rt_redlock_give(c, t->name, t->token, t->may);
    rt_redlock_ticket_free(t);
}

/* Whether all of B is decided; SILENT: it will not be. */
static enum rt_verdict verdict_of(const struct rt_redlock_beat *b)
{
    enum rt_verdict worst = rt_quorum_kept(&b->heard);
    for (size_t i = 0; i < b->count; i++) {
        enum rt_verdict v = b->items[i].ticket != NULL ? rt_quorum_kept(&b->items[i].votes)
                                                       : RT_QUORUM_AGREED;
        if (v == RT_QUORUM_OPEN || (v == RT_QUORUM_SILENT && worst != RT_QUORUM_OPEN))
            worst = v;
    }
    return worst;
}

/* The key was put on a node that lacked it: from the next beat on it is renewed there. */
static void add_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                         int status, const redisReply *reply)
{
    bool added = err == 0 && status == RT_REDLOCK_OK && reply->type == REDIS_REPLY_ARRAY &&
                 reply->elements == 3 && reply->element[2]->type == REDIS_REPLY_STRING &&
                 reply->element[2]->str[0] == '1';
    struct rt_redlock_conn *c = node->conn;
    const char *token = rq->call.args[0];
    if (!added)
        return;
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        for (struct rt_redlock_ticket *t = c->tickets[i]; t != NULL; t = t->next)
            if (t->held && strcmp(t->token, token) == 0 && strcmp(t->name, rq->name) == 0)
                t->lacks &= ~(1u << node->index);
}

static void add(struct rt_redlock_conn *c, struct rt_redlock_ticket *t,
                struct rt_redlock_node *node)
{
    char ttl[24], number[24], rest[RT_REDLOCK_REST];
    const char *args[] = {t->token, ttl, number, rest, "a"};
    (void)snprintf(ttl, sizeof(ttl), "%u", c->base.ttl_ms);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)t->number);
    rt_redlock_rest(c, t->owner, rest, sizeof(rest));
    struct rt_redlock_call call = {.script = RT_REDLOCK_HOLD,
                                   .name = t->name,
                                   .args = args,
                                   .argc = 5,
                                   .deadline = rt_loop_now(c->base.loop) + rt_redlock_limit(c),
                                   .answer = add_answered};
    if (rt_redlock_send(node, &call) != NULL)
        t->may |= 1u << node->index;
}

/* Those that lack it get it, if what they take counts. */
static void add_where_missing(struct rt_redlock_conn *c, struct rt_redlock_ticket *t)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t bit = 1u << i;
        bool there = (t->may & bit) != 0 && (t->lacks & bit) == 0;
        if (!there && rt_redlock_counts(&c->nodes[i]) && c->nodes[i].up)
            add(c, t, &c->nodes[i]);
    }
}

static void decide(struct rt_redlock_conn *c, struct rt_redlock_beat *b)
{
    enum rt_verdict v = verdict_of(b);
    if (b->work.op == NULL) {
        rt_work_settle(&c->base, &b->work);
        return;
    }
    if (b->work.op->beat.session != c->session) {
        rt_work_end(&c->base, &b->work, rt_words_no_session(&c->base, b->work.op->beat.session));
        return;
    }
    if (v == RT_QUORUM_OPEN)
        return;
    int64_t until = b->sent_at + c->base.ttl_ms * RT_MS;
    if (v == RT_QUORUM_AGREED && until > c->ends_at) /* a later one may have been answered */
        keep_until(c, until);
    for (size_t i = 0; i < b->count; i++) {
        enum rt_verdict kept = rt_quorum_kept(&b->items[i].votes);
        if (b->items[i].ticket != NULL && kept == RT_QUORUM_NONE)
            lose(c, b->items[i].ticket);
        else if (b->items[i].ticket != NULL && kept == RT_QUORUM_AGREED)
            add_where_missing(c, b->items[i].ticket);
    }
    b->work.op->beat.ttl_ms = c->base.ttl_ms;
    b->work.op->beat.allowance_ms = 0;
    rt_work_end(&c->base, &b->work,
                v == RT_QUORUM_AGREED ? 0
                                      : rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_KEEP));
}

static void vote(struct item *it, const struct rt_redlock_node *node, enum rt_vote vote)
{
    uint32_t bit = 1u << node->index;
    if (vote == RT_VOTE_YES)
        rt_quorum_yes(&it->votes, node->index, 0, true); /* whoever has it keeps others out */
    else
        rt_quorum_vote(&it->votes, node->index, vote);
    if (it->ticket == NULL)
        return;
    if (vote == RT_VOTE_NO)
        it->ticket->lacks |= bit;
    else if (vote == RT_VOTE_YES)
        it->ticket->lacks &= ~bit;
}

static void keep_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                          int status, const redisReply *reply)
{
    struct rt_redlock_beat *b = rq->owner;
    bool sound = err == 0 && status == RT_REDLOCK_OK && reply->type == REDIS_REPLY_ARRAY &&
                 reply->elements == 4 && reply->element[2]->type == REDIS_REPLY_STRING &&
                 reply->element[2]->len == rq->count &&
                 reply->element[3]->type == REDIS_REPLY_INTEGER;
    if (sound)
        node->ahead_us = reply->element[3]->integer - rt_loop_now(node->conn->base.loop) / 1000;
    if (sound)
        rt_quorum_yes(&b->heard, node->index, 0, true);
    else
        rt_quorum_vote(&b->heard, node->index, RT_VOTE_SILENT);
    /* Those of the node between FROM and the end of this batch that it was asked for. */
    size_t k = 0;
    for (size_t i = rq->from; k < rq->count && i < b->count; i++) {
        if (rt_quorum_has(&b->items[i].votes, node->index))
            continue; /* was not asked for */
        bool yes = sound && reply->element[2]->str[k] == '1';
        vote(&b->items[i], node, !sound ? RT_VOTE_SILENT : yes ? RT_VOTE_YES : RT_VOTE_NO);
        k++;
    }
    decide(node->conn, b);
}

/* What NODE lacks it does not renew. True: it is to be renewed there. */
static bool is_there(struct item *it, const struct rt_redlock_node *node)
{
    const struct rt_redlock_ticket *t = it->ticket;
    uint32_t bit = 1u << node->index;
    if ((t->may & bit) != 0 && (t->lacks & bit) == 0)
        return true;
    rt_quorum_vote(&it->votes, node->index, RT_VOTE_NO);
    return false;
}

/* Sends NODE one batch from the item AT on; returns where the next begins. */
static size_t keep_some(struct rt_redlock_conn *c, struct rt_redlock_beat *b,
                        struct rt_redlock_node *node, size_t at, int64_t deadline)
{
    char ttl[24];
    const char *args[1 + 2 * BATCH] = {ttl};
    struct rt_redlock_call call = {.script = RT_REDLOCK_KEEP,
                                   .name = "rota:f",
                                   .args = args,
                                   .argc = 1,
                                   .deadline = deadline,
                                   .pending = &b->work.pending,
                                   .owner = b,
                                   .answer = keep_answered};
    size_t from = at, n = 0;
    (void)snprintf(ttl, sizeof(ttl), "%u", c->base.ttl_ms);
    for (; at < b->count && n < BATCH; at++) {
        if (!is_there(&b->items[at], node))
            continue;
        args[call.argc++] = b->items[at].ticket->token;
        args[call.argc++] = b->items[at].ticket->name;
        n++;
    }
    struct rt_redlock_request *rq = rt_redlock_send(node, &call);
    if (rq != NULL) {
        rq->from = from;
        rq->count = n;
    } else {
        rt_quorum_vote(&b->heard, node->index, RT_VOTE_SILENT);
        for (size_t i = from; i < at; i++)
            rt_quorum_vote(&b->items[i].votes, node->index, RT_VOTE_SILENT);
    }
    return at;
}

static size_t count_held(const struct rt_redlock_conn *c)
{
    size_t n = 0;
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        for (const struct rt_redlock_ticket *t = c->tickets[i]; t != NULL; t = t->next)
            n += t->held;
    return n;
}

static struct rt_redlock_beat *beat_new(struct rt_redlock_conn *c, struct rt_op *op)
{
    size_t n = count_held(c);
    struct rt_redlock_beat *b = rt_work_new(&c->works, &c->base,
                                            sizeof(*b) + n * sizeof(b->items[0]), op);
    if (b == NULL)
        return NULL;
    b->work.free = forget_all;
    rt_quorum_begin(&b->heard, c->count);
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        for (struct rt_redlock_ticket *t = c->tickets[i]; t != NULL; t = t->next) {
            if (!t->held)
                continue;
            if (t->beat != NULL)
                rt_redlock_beat_forgets(t); /* the last one says nothing of it any more */
            rt_quorum_begin(&b->items[b->count].votes, c->count);
            b->items[b->count].ticket = t;
            t->beat = b;
            t->in_beat = b->count++;
        }
    assert(b->count == n);
    return b;
}

static int renew(struct rt_redlock_conn *c, struct rt_op *op)
{
    int64_t deadline = rt_loop_now(c->base.loop) + rt_redlock_limit(c);
    uint32_t whom = rt_redlock_whom(c);
    struct rt_redlock_beat *b = beat_new(c, op);
    if (b == NULL)
        return ROTA_NOMEM;
    c->beat_at = b->sent_at = rt_loop_now(c->base.loop);
    deadline = op->deadline < deadline ? op->deadline : deadline;
    for (uint32_t i = 0; i < c->count; i++) {
        size_t at = 0;
        if ((whom & 1u << i) == 0) {
            rt_quorum_vote(&b->heard, i, RT_VOTE_SILENT);
            for (size_t k = 0; k < b->count; k++)
                rt_quorum_vote(&b->items[k].votes, i, RT_VOTE_SILENT);
            continue;
        }
        do
            at = keep_some(c, b, &c->nodes[i], at, deadline);
        while (at < b->count);
    }
    rt_redlock_by(c, op->deadline);
    decide(c, b);
    return 0;
}

int rt_redlock_begin_beat(struct rt_redlock_conn *c, struct rt_op *op)
{
    if (op->beat.open)
        return open_session(c, op);
    if (op->beat.session != c->session)
        return rt_words_no_session(&c->base, op->beat.session);
    return renew(c, op);
}
