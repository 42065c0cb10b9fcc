/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL: attempts, until one is granted or nobody wants it any more.
 *
 * Each attempt asks all nodes at once and has a token of its own. One that did not succeed is given back on all nodes
 * that it was sent to, whatever they said: a node whose answer was lost may have the key. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_LEAST (20 * RT_MS) /* waiters try again after this long ... */
#define AGAIN_MORE (80 * RT_MS)  /* ... and up to this much more */
#define DIGITS 24

/* ---- Life ------------------------------------------------------------------------------------------ */

static struct rt_redlock_ask *ask_new(struct rt_redlock_conn *c, struct rt_op *op)
{
    size_t n = op->join.n;
    struct rt_redlock_ask *a = rt_alloc(sizeof(*a) + n * sizeof(a->tickets[0]));
    if (a == NULL)
        return NULL;
    a->op = op;
    a->retry_at = RT_NEVER;
    for (size_t i = 0; i < n; i++) {
        struct rt_redlock_ticket *t = rt_redlock_ticket_new(c, &op->join.joins[i]);
        if (t == NULL)
            break;
        t->ask = a;
        a->tickets[a->count++] = t;
    }
    a->alive = a->count;
    if (a->count == n) {
        RT_LIST_ADD(&c->asks, a);
        return a;
    }
    for (size_t i = 0; i < a->count; i++)
        rt_redlock_ticket_free(a->tickets[i]);
    rt_free(a);
    return NULL;
}

static void settle(struct rt_redlock_ask *a)
{
    if (a->phase != RT_REDLOCK_ENDED || a->pending > 0)
        return;
    for (size_t i = 0; i < a->count; i++)
        if (a->tickets[i] != NULL)
            a->tickets[i]->ask = NULL;
    RT_LIST_OUT(a);
    rt_free(a);
}

/* T belongs to no ask any more. */
static void forget(struct rt_redlock_ask *a, const struct rt_redlock_ticket *t)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tickets[i] == t) {
            a->tickets[i] = NULL;
            a->alive--;
        }
}

void rt_redlock_ticket_free(struct rt_redlock_ticket *t)
{
    if (t->ask != NULL)
        forget(t->ask, t);
    if (t->beat != NULL)
        rt_redlock_beat_forgets(t);
    RT_LIST_OUT(t);
    rt_free(t);
}

/* A ends without a grant: its tickets go. */
static void drop(struct rt_redlock_ask *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tickets[i] != NULL)
            rt_redlock_ticket_free(a->tickets[i]);
    a->phase = RT_REDLOCK_ENDED;
    settle(a);
}

/* ---- Giving back --------------------------------------------------------------------------------------- */

static uint32_t yes_mask(const struct rt_quorum *q)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < q->nodes; i++)
        if (q->votes[i] == RT_VOTE_YES)
            mask |= 1u << i;
    return mask;
}

/* All that this attempt may have left. */
static void give_back(struct rt_redlock_conn *c, struct rt_redlock_ask *a)
{
    uint32_t mask = RT_BUG(RT_BUG_GIVEN_WHERE_TAKEN) ? a->sent & yes_mask(&a->votes) : a->sent;
    for (size_t i = 0; i < a->count; i++)
        if (a->tickets[i] != NULL)
            rt_redlock_give(c, a->tickets[i]->name, a->token, mask);
    a->sent = 0;
    a->flight++; /* what is still to be answered says nothing any more */
}

/* ---- Ends -------------------------------------------------------------------------------------------------- */

static void fail(struct rt_redlock_conn *c, struct rt_redlock_ask *a, int err)
{
    struct rt_op *op = a->op;
    a->op = NULL;
    drop(a);
    rt_conn_done(&c->base, op, err);
}

static void answer_granted(struct rt_redlock_conn *c, struct rt_redlock_ask *a)
{
    struct rt_op *op = a->op;
    a->op = NULL;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        j->number = a->fence;
        j->granted = true;
        j->wanted = (j->flags & RT_JOIN_ARM) != 0; /* nobody can see who waits: somebody may */
    }
    rt_conn_done(&c->base, op, 0);
}

static void tell_granted(struct rt_redlock_conn *c, const struct rt_redlock_ticket *t,
                         uint64_t called)
{
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_GRANTED,
                                               .session = t->session,
                                               .number = called,
                                               .fence = t->number,
                                               .nonce = t->nonce,
                                               .name = t->name});
}

static void grant(struct rt_redlock_conn *c, struct rt_redlock_ask *a, uint64_t fence)
{
    bool told = a->op == NULL;
    uint32_t all = (1u << c->count) - 1, yes = yes_mask(&a->votes);
    a->fence = fence;
    a->phase = RT_REDLOCK_ENDED;
    c->highest = fence > c->highest ? fence : c->highest;
    for (size_t i = 0; i < a->count; i++) {
        struct rt_redlock_ticket *t = a->tickets[i];
        if (t == NULL)
            continue;
        uint64_t called = t->number;
        memcpy(t->token, a->token, sizeof(t->token));
        t->held = true;
        t->number = fence;
        t->may = a->sent;
        t->lacks = all & ~yes;
        if (told)
            tell_granted(c, t, called);
    }
    if (a->op != NULL)
        answer_granted(c, a);
    settle(a);
}

static void wait_on(struct rt_redlock_conn *c, struct rt_redlock_ask *a)
{
    int64_t now = rt_loop_now(c->base.loop);
    int64_t after = AGAIN_LEAST + rt_dial_jitter(&c->jitter, AGAIN_MORE);
    if (a->pttl >= 0 && a->pttl * RT_MS < after) /* it ends by itself before that */
        after = (a->pttl + 1) * RT_MS;
    a->phase = RT_REDLOCK_IDLE;
    a->retry_at = now + after;
    rt_redlock_by(c, a->retry_at);
}

static void answer_waits(struct rt_redlock_conn *c, struct rt_redlock_ask *a)
{
    struct rt_op *op = a->op;
    a->op = NULL;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        j->number = a->tickets[i]->number = ++c->names;
        j->granted = j->wanted = false;
    }
    rt_conn_done(&c->base, op, 0);
}

/* No majority: given back, and tried again if somebody wants to wait. */
static void refused(struct rt_redlock_conn *c, struct rt_redlock_ask *a, enum rt_verdict verdict)
{
    const char *name = a->op != NULL ? a->op->join.joins[0].name : "";
    bool try = a->op != NULL && (a->op->join.joins[0].flags & RT_JOIN_TRY) != 0;
    give_back(c, a);
    if (a->op != NULL && a->foreign) {
        fail(c, a, rt_redlock_fail(c, ROTA_INVALID, "%s", a->in_way));
        return;
    }
    if (try && verdict == RT_QUORUM_NONE) {
        fail(c, a, rt_words_busy(&c->base, name, a->in_way, strlen(a->in_way)));
        return;
    }
    if (a->op != NULL && verdict == RT_QUORUM_SILENT &&
        rt_redlock_refused(c, RT_REDLOCK_TAKE) != NULL) {
        fail(c, a, rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_TAKE));
        return;
    }
    wait_on(c, a); /* SILENT: until its deadline, there may be a majority again */
    if (a->op != NULL && verdict == RT_QUORUM_NONE)
        answer_waits(c, a);
}

/* ---- Flights ------------------------------------------------------------------------------------------------- */

static void decide(struct rt_redlock_conn *c, struct rt_redlock_ask *a);

/* Of an answer to A's present flight. */
static bool is_current(const struct rt_redlock_ask *a, const struct rt_redlock_request *rq)
{
    return rq->flight == a->flight && a->phase != RT_REDLOCK_IDLE;
}

/* One that came after the others had decided: it has the key, too. */
static void note_late(struct rt_redlock_ask *a, uint32_t node)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tickets[i] != NULL && a->tickets[i]->held)
            a->tickets[i]->lacks &= ~(1u << node);
}

static void note_in_way(struct rt_redlock_ask *a, const struct rt_redlock_node *node, int status,
                        const redisReply *reply)
{
    const struct rt_resp_node *at = node->link.nodes;
    if (reply->elements < 5 || reply->element[2]->type != REDIS_REPLY_INTEGER ||
        reply->element[3]->type != REDIS_REPLY_STRING)
        return;
    struct rt_redlock_value v;
    rt_redlock_read(reply->element[3]->str, &v);
    int64_t pttl = reply->element[2]->integer;
    if (status == RT_REDLOCK_TYPE) {
        a->foreign = true;
        (void)snprintf(a->in_way, sizeof(a->in_way),
                       "redis %.60s has a %.16s there: it is no lock of this kind",
                       at != NULL ? at->at : "", reply->element[3]->str);
        return;
    }
    if (pttl >= 0 && (a->pttl < 0 || pttl < a->pttl))
        a->pttl = pttl;
    if (!a->foreign)
        (void)snprintf(a->in_way, sizeof(a->in_way), "%.150s", v.label);
}

static void take_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                          int status, const redisReply *reply)
{
    struct rt_redlock_ask *a = rq->owner;
    struct rt_redlock_conn *c = node->conn;
    const char *number = err == 0 && reply->type == REDIS_REPLY_STRING ? strchr(reply->str, ' ')
                                                                       : NULL;
    if (!is_current(a, rq)) {
        settle(a);
        return;
    }
    if (number != NULL) {
        rt_quorum_yes(&a->votes, node->index, strtoull(number, NULL, 10), rt_redlock_counts(node));
        note_late(a, node->index);
    } else if (err == 0 && (status == RT_REDLOCK_BUSY || status == RT_REDLOCK_TYPE)) {
        rt_quorum_vote(&a->votes, node->index, RT_VOTE_NO);
        note_in_way(a, node, status, reply);
    } else {
        rt_quorum_vote(&a->votes, node->index, RT_VOTE_SILENT);
    }
    decide(c, a);
}

static void hold_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                          int status, const redisReply *reply)
{
    struct rt_redlock_ask *a = rq->owner;
    if (!is_current(a, rq)) {
        settle(a);
        return;
    }
    bool sound = err == 0 && status == RT_REDLOCK_OK && reply->type == REDIS_REPLY_ARRAY &&
                 reply->elements == 3 && reply->element[2]->type == REDIS_REPLY_STRING;
    if (!sound) {
        rt_quorum_vote(&a->votes, node->index, RT_VOTE_SILENT);
    } else if (strchr(reply->element[2]->str, '0') == NULL) {
        rt_quorum_yes(&a->votes, node->index, a->fence, rt_redlock_counts(node));
        note_late(a, node->index);
    } else {
        rt_quorum_vote(&a->votes, node->index, RT_VOTE_NO);
    }
    decide(node->conn, a);
}

/* How many arguments of A's scripts come before its names, which are those of its tickets except the first. */
#define AHEAD 5

/* Sends a flight of SCRIPT with ARGS, AHEAD of them or less, and A's names, to the nodes of WHOM. */
static void fly(struct rt_redlock_conn *c, struct rt_redlock_ask *a, enum rt_redlock_script script,
                const char **ahead, size_t n, uint32_t whom, rt_redlock_answer_fn *answer)
{
    const char *own[AHEAD + 16], **args = own;
    int64_t now = rt_loop_now(c->base.loop), deadline = now + rt_redlock_limit(c);
    if (a->op != NULL && a->op->deadline < deadline)
        deadline = a->op->deadline;
    if (n + a->count > sizeof(own) / sizeof(own[0]))
        args = rt_alloc((n + a->count) * sizeof(*args));
    struct rt_redlock_call call = {.script = script,
                                   .args = args,
                                   .deadline = deadline,
                                   .pending = &a->pending,
                                   .owner = a,
                                   .answer = answer};
    for (; args != NULL && call.argc < n; call.argc++)
        args[call.argc] = ahead[call.argc];
    for (size_t i = 0; args != NULL && i < a->count; i++) {
        if (a->tickets[i] != NULL && call.name != NULL)
            args[call.argc++] = a->tickets[i]->name;
        else if (a->tickets[i] != NULL)
            call.name = a->tickets[i]->name;
    }
    a->flight++;
    a->sent_at = now;
    rt_quorum_begin(&a->votes, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        struct rt_redlock_request *rq = NULL;
        if (args != NULL && (whom & 1u << i) != 0)
            rq = rt_redlock_send(&c->nodes[i], &call);
        if (rq == NULL) {
            rt_quorum_vote(&a->votes, i, RT_VOTE_SILENT);
            continue;
        }
        rq->flight = a->flight;
        a->sent |= 1u << i;
    }
    if (args != own)
        rt_free(args);
}

static void make_token(struct rt_redlock_conn *c, struct rt_redlock_ask *a, uint64_t session)
{
    if (!RT_BUG(RT_BUG_ONE_TOKEN) || a->token[0] == '\0')
        c->attempts++;
    else
        return;
    (void)snprintf(a->token, sizeof(a->token), "%016llx%016llx", (unsigned long long)session,
                   (unsigned long long)c->attempts);
}

static const struct rt_redlock_ticket *first_of(const struct rt_redlock_ask *a)
{
    size_t i = 0;
    while (i < a->count && a->tickets[i] == NULL)
        i++;
    assert(i < a->count);
    return a->tickets[i];
}

static void attempt(struct rt_redlock_conn *c, struct rt_redlock_ask *a)
{
    char ttl[DIGITS], hint[DIGITS], rest[RT_REDLOCK_REST];
    const struct rt_redlock_ticket *t = first_of(a);
    const char *ahead[] = {a->token, ttl, hint, rest};
    make_token(c, a, t->session);
    (void)snprintf(ttl, sizeof(ttl), "%u", c->base.ttl_ms);
    (void)snprintf(hint, sizeof(hint), "%llu", (unsigned long long)rt_redlock_hint(c));
    rt_redlock_rest(c, t->owner, rest, sizeof(rest));
    a->phase = RT_REDLOCK_TAKING;
    a->sent = 0;
    a->pttl = -1;
    a->foreign = false;
    a->in_way[0] = '\0';
    fly(c, a, RT_REDLOCK_TAKE, ahead, 4, rt_redlock_whom(c), take_answered);
    decide(c, a);
}

/* All nodes that have it are to have the number FENCE, and the whole ttl from now on. */
static void mend(struct rt_redlock_conn *c, struct rt_redlock_ask *a, uint64_t fence)
{
    char ttl[DIGITS], number[DIGITS], rest[RT_REDLOCK_REST];
    const char *ahead[] = {a->token, ttl, number, rest, "-"};
    (void)snprintf(ttl, sizeof(ttl), "%u", c->base.ttl_ms);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)fence);
    rt_redlock_rest(c, first_of(a)->owner, rest, sizeof(rest));
    a->phase = RT_REDLOCK_MENDING;
    a->fence = fence;
    fly(c, a, RT_REDLOCK_HOLD, ahead, 5, a->sent, hold_answered);
    decide(c, a);
}

/* Whether the present flight is worth as much as the user thinks: its time counts from the last beat that was sent. */
static bool is_timely(const struct rt_redlock_conn *c, const struct rt_redlock_ask *a)
{
    return a->sent_at >= c->beat_at || RT_BUG(RT_BUG_BESIDE_THE_BEATS);
}

static void decide(struct rt_redlock_conn *c, struct rt_redlock_ask *a)
{
    uint64_t fence = a->fence;
    if (a->phase != RT_REDLOCK_TAKING && a->phase != RT_REDLOCK_MENDING) {
        settle(a);
        return;
    }
    enum rt_verdict v = a->phase == RT_REDLOCK_TAKING ? rt_quorum_taken(&a->votes, &fence)
                                                      : rt_quorum_kept(&a->votes);
    if (v == RT_QUORUM_OPEN)
        return;
    bool over = rt_quorum_until(a->sent_at, c->base.ttl_ms * RT_MS) <= rt_loop_now(c->base.loop);
    if (v == RT_QUORUM_AGREED && !over && is_timely(c, a))
        grant(c, a, fence);
    else if ((v == RT_QUORUM_AGREED || v == RT_QUORUM_MEND) && !over)
        mend(c, a, fence);
    else
        refused(c, a, v == RT_QUORUM_NONE && a->phase == RT_REDLOCK_TAKING ? v : RT_QUORUM_SILENT);
}

/* ---- JOIN ------------------------------------------------------------------------------------------------------ */

static int check_one(struct rt_redlock_conn *c, const struct rt_op *op, size_t at)
{
    const struct rt_join *j = &op->join.joins[at];
    if (j->mode != RT_EXCLUSIVE)
        return rt_redlock_fail(c, ROTA_UNSUPPORTED, "%.120s: Redlock has exclusive locks only",
                               j->name);
    if ((j->flags & (RT_JOIN_DURABLE | RT_JOIN_DETECT)) != 0 || j->at_least_ms != 0 ||
        (j->value != NULL && j->value[0] != '\0'))
        return rt_redlock_fail(c, ROTA_UNSUPPORTED,
                               "%.120s: Redlock keeps nothing beyond a ttl, and shows no values",
                               j->name);
    if (strncmp(j->name, "rota:", 5) == 0)
        return rt_redlock_fail(c, ROTA_INVALID, "%.120s: names from rota: on are Rota's own",
                               j->name);
    for (size_t i = 0; i < at; i++)
        if (strcmp(op->join.joins[i].name, j->name) == 0)
            return rt_redlock_fail(c, ROTA_INVALID, "a set names one line twice");
    return 0;
}

/* Asked again: 0 and answered, ROTA_LOST, or 1: it is new. */
static int find_again(struct rt_redlock_conn *c, struct rt_op *op)
{
    size_t found = 0;
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        const struct rt_redlock_ticket *t = rt_redlock_find(c, j->name, j->session, 0, j->nonce);
        if (t == NULL)
            continue;
        found++;
        j->number = t->number;
        j->granted = t->held;
        j->wanted = t->held && (j->flags & RT_JOIN_ARM) != 0;
    }
    if (found == 0)
        return 1;
    return found == op->join.n ? 0 : rt_words_set_ended(&c->base);
}

int rt_redlock_begin_join(struct rt_redlock_conn *c, struct rt_op *op)
{
    int rv = rt_check_joins(&c->base, op);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++)
        rv = check_one(c, op, i);
    if (rv == 0)
        rv = rt_check_session(&c->base, op, c->session);
    if (rv != 0)
        return rv;
    rv = find_again(c, op);
    if (rv <= 0) {
        if (rv == 0)
            rt_conn_done(&c->base, op, 0);
        return rv;
    }
    struct rt_redlock_ask *a = ask_new(c, op);
    if (a == NULL)
        return rt_words_nomem(&c->base);
    rt_redlock_by(c, op->deadline);
    attempt(c, a);
    return 0;
}

/* ---- From outside
 * --------------------------------------------------------------------------------------------------- */

void rt_redlock_withdraw(struct rt_redlock_conn *c, struct rt_redlock_ticket *t)
{
    struct rt_redlock_ask *a = t->ask;
    assert(!t->held && a != NULL);
    rt_redlock_give(c, t->name, a->token, a->sent);
    rt_redlock_ticket_free(t);
    if (a->alive > 0)
        return;
    a->phase = RT_REDLOCK_ENDED;
    settle(a);
}

static struct rt_redlock_ask *find_unanswered(const struct rt_redlock_conn *c, uint64_t session)
{
    struct rt_redlock_ask *a = c->asks;
    while (a != NULL && (a->op == NULL || a->op->join.joins[0].session != session))
        a = a->next;
    return a;
}

void rt_redlock_asks_end(struct rt_redlock_conn *c, uint64_t session)
{
    struct rt_redlock_ask *a;
    assert(c->session != session); /* whoever is told cannot ask in it again */
    while ((a = find_unanswered(c, session)) != NULL) {
        give_back(c, a);
        fail(c, a, rt_words_no_session(&c->base, session));
    }
}

bool rt_redlock_cancel_join(struct rt_redlock_conn *c, const struct rt_op *op)
{
    for (struct rt_redlock_ask *a = c->asks; a != NULL; a = a->next)
        if (a->op == op) {
            give_back(c, a);
            fail(c, a, rt_redlock_fail(c, ROTA_CANCELED, "canceled"));
            return true;
        }
    return false;
}

static void sooner(int64_t *at, int64_t other)
{
    *at = other < *at ? other : *at;
}

/* A's time is over, and these have not answered yet. */
static void note_silent(struct rt_redlock_conn *c, const struct rt_redlock_ask *a)
{
    if (a->phase != RT_REDLOCK_TAKING && a->phase != RT_REDLOCK_MENDING)
        return;
    for (uint32_t i = 0; i < c->count; i++)
        if ((a->sent & 1u << i) != 0 && !rt_quorum_has(&a->votes, i))
            rt_redlock_late(&c->nodes[i]);
}

int64_t rt_redlock_asks_tick(struct rt_redlock_conn *c, int64_t now)
{
    int64_t at = RT_NEVER;
    for (struct rt_redlock_ask *a = c->asks, *next; a != NULL; a = next) {
        next = a->next;
        if (a->op != NULL && a->op->deadline <= now) {
            note_silent(c, a);
            give_back(c, a); /* nobody will ever be told that it holds: it had no effect */
            fail(c, a, rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_TAKE));
        } else if (a->phase == RT_REDLOCK_IDLE && a->retry_at <= now) {
            c->base.retries++;
            sooner(&at, a->op != NULL ? a->op->deadline : RT_NEVER);
            attempt(c, a);
        } else {
            sooner(&at, a->op != NULL ? a->op->deadline : RT_NEVER);
            sooner(&at, a->phase == RT_REDLOCK_IDLE ? a->retry_at : RT_NEVER);
        }
    }
    return at;
}

void rt_redlock_asks_close(struct rt_redlock_conn *c)
{
    while (c->asks != NULL) {
        struct rt_redlock_ask *a = c->asks;
        a->pending = 0;
        a->phase = RT_REDLOCK_ENDED;
        settle(a);
    }
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        while (c->tickets[i] != NULL)
            rt_redlock_ticket_free(c->tickets[i]);
}
