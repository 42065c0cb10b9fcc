/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE and BREAK: a key goes from all nodes that may have it; the answer is told when a majority has said what it had. */
#include "engine/redlock/redlock.h"

#include "base/bug.h"
#include "engine/kit/check.h"

#include <stdio.h>
#include <string.h>

struct going { /* an op that takes a key away */
    struct rt_work work;
    struct rt_quorum votes;
};

/* ---- In the background ------------------------------------------------------------------------- */

static int64_t in_a_ttl(const struct rt_redlock_conn *c)
{
    return rt_loop_now(c->base.loop) + c->base.ttl_ms * RT_MS; /* then it is over by itself */
}

void rt_redlock_give(struct rt_redlock_conn *c, const char *name, const char *token, uint32_t mask)
{
    struct rt_redlock_call call = {.script = RT_REDLOCK_GIVE,
                                   .name = name,
                                   .args = &token,
                                   .argc = 1,
                                   .deadline = in_a_ttl(c)};
    for (uint32_t i = 0; i < c->count; i++)
        if ((mask & 1u << i) != 0) /* without memory it ends with its ttl */
            (void)rt_redlock_send(&c->nodes[i], &call);
}

/* ---- Ops --------------------------------------------------------------------------------------- */

static void decide(struct rt_redlock_conn *c, struct going *g)
{
    struct rt_op *op = g->work.op;
    enum rt_verdict v = rt_quorum_kept(&g->votes);
    if (op == NULL) {
        rt_work_settle(&c->base, &g->work);
        return;
    }
    bool leave = op->kind == RT_OP_LEAVE;
    if (v == RT_QUORUM_OPEN)
        return;
    if (leave)
        op->leave.granted = true;
    if (v == RT_QUORUM_AGREED)
        rt_work_end(&c->base, &g->work, 0);
    else if (v == RT_QUORUM_NONE)
        rt_work_end(&c->base, &g->work,
                    leave ? rt_words_no_ticket(&c->base, op->leave.name)
                          : rt_words_no_such(&c->base, op->brk.name));
    else
        rt_work_end(&c->base, &g->work,
                    rt_redlock_silent(c, ROTA_UNKNOWN, leave ? RT_REDLOCK_GIVE : RT_REDLOCK_BREAK));
}

static void answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                     int status, const redisReply *reply)
{
    struct going *g = rq->owner;
    enum rt_vote vote = RT_VOTE_SILENT;
    bool done = err == 0 && (reply->type == REDIS_REPLY_STRING || status == RT_REDLOCK_OK);
    if (done)
        vote = RT_VOTE_YES;
    else if (err == 0) /* an earlier try may have done it, and its answer was lost */
        vote = rq->call.entry.was_again ? RT_VOTE_MAYBE : RT_VOTE_NO;
    if (vote == RT_VOTE_YES)
        rt_quorum_yes(&g->votes, node->index, 0, true);
    else
        rt_quorum_vote(&g->votes, node->index, vote);
    decide(node->conn, g);
}

/* Sends CALL to the nodes of MASK for OP; the others have nothing. */
static int begin(struct rt_redlock_conn *c, struct rt_op *op, struct rt_redlock_call *call,
                 uint32_t mask)
{
    struct going *g = rt_work_new(&c->works, &c->base, sizeof(*g), op);
    if (g == NULL)
        return ROTA_NOMEM;
    rt_quorum_begin(&g->votes, c->count);
    call->pending = &g->work.pending;
    call->owner = g;
    call->answer = answered;
    for (uint32_t i = 0; i < c->count; i++) {
        if ((mask & 1u << i) == 0)
            rt_quorum_vote(&g->votes, i, RT_VOTE_NO);
        else if (!c->nodes[i].known || rt_redlock_send(&c->nodes[i], call) == NULL)
            rt_quorum_vote(&g->votes, i, RT_VOTE_SILENT);
    }
    rt_redlock_by(c, op->deadline);
    decide(c, g);
    return 0;
}

int rt_redlock_begin_leave(struct rt_redlock_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(&c->base, op->leave.name);
    if (rv != 0)
        return rv;
    struct rt_redlock_ticket *t = rt_redlock_find(c, op->leave.name, op->leave.session,
                                                  op->leave.number, op->leave.nonce);
    if (t == NULL || t->number == 0)
        return rt_words_no_ticket(&c->base, op->leave.name);
    if (!t->held) {
        op->leave.granted = false;
        rt_redlock_withdraw(c, t);
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    char token[RT_REDLOCK_TOKEN + 1];
    const char *args[] = {token};
    uint32_t may = RT_BUG(RT_BUG_GIVEN_WHERE_TAKEN) ? t->may & ~t->lacks : t->may;
    memcpy(token, t->token, sizeof(token));
    struct rt_redlock_call call = {.script = RT_REDLOCK_GIVE,
                                   .name = op->leave.name,
                                   .args = args,
                                   .argc = 1,
                                   .deadline = in_a_ttl(c)};
    rv = begin(c, op, &call, may);
    if (rv == 0) /* no renewal of it is sent any more (I4) */
        rt_redlock_ticket_free(t);
    return rv;
}

int rt_redlock_begin_break(struct rt_redlock_conn *c, struct rt_op *op)
{
    char number[24];
    const char *args[] = {number};
    int rv = rt_check_name(&c->base, op->brk.name);
    if (rv == 0 && op->brk.number == 0) /* all durable ones: there are none */
        rv = rt_words_no_such(&c->base, op->brk.name);
    if (rv != 0)
        return rv;
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)op->brk.number);
    struct rt_redlock_call call = {.script = RT_REDLOCK_BREAK,
                                   .name = op->brk.name,
                                   .args = args,
                                   .argc = 1,
                                   .deadline = op->deadline};
    return begin(c, op, &call, (1u << c->count) - 1);
}
