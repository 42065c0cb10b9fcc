/* SPDX-License-Identifier: Apache-2.0 */
/* Looking: INSPECT, LIST, and CHANGE, which verifies. All nodes are asked; what a majority says is so. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "engine/kit/check.h"
#include "engine/kit/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What nodes say -------------------------------------------------------------------------------- */

bool rt_redlock_read_look(const redisReply *reply, struct rt_redlock_seen *out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5 ||
        reply->element[2]->type != REDIS_REPLY_STRING ||
        reply->element[3]->type != REDIS_REPLY_INTEGER ||
        reply->element[4]->type != REDIS_REPLY_STRING)
        return false;
    *out = (struct rt_redlock_seen){.pttl = reply->element[3]->integer};
    out->there = strcmp(reply->element[4]->str, "none") != 0;
    (void)snprintf(out->type, sizeof(out->type), "%.15s", reply->element[4]->str);
    if (!out->there)
        return true;
    rt_redlock_read(reply->element[2]->str, &out->value);
    if (strcmp(out->type, "string") != 0)
        (void)snprintf(out->value.label, sizeof(out->value.label), "another kind of lock (a %s)",
                       out->type);
    return true;
}

static bool agrees(const struct rt_redlock_seen *a, const struct rt_redlock_seen *b)
{
    return a->there && b->there && strcmp(a->type, b->type) == 0 &&
           strcmp(a->value.token, b->value.token) == 0;
}

const struct rt_redlock_seen *rt_redlock_majority(const struct rt_redlock_seen *seen,
                                                  uint32_t nodes, int64_t *pttl)
{
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t n = 0;
        int64_t least = -1;
        for (uint32_t k = 0; k < nodes; k++)
            if (agrees(&seen[i], &seen[k])) {
                n++;
                least = least < 0 || seen[k].pttl < least ? seen[k].pttl : least;
            }
        if (n >= rt_quorum_majority(nodes)) {
            *pttl = least;
            return &seen[i];
        }
    }
    return NULL;
}

/* ---- INSPECT of a line; CHANGE ------------------------------------------------------------------------ */

struct looking {
    struct rt_work work; /* first */
    struct rt_quorum heard;
    char token[RT_REDLOCK_TOKEN + 1]; /* CHANGE: ours */
    struct rt_redlock_seen seen[RT_QUORUM_MOST];
};

static struct rt_text text_of(const char *text)
{
    return (struct rt_text){text, strlen(text)};
}

static int show(struct rt_redlock_conn *c, const struct rt_op *op, const struct looking *l)
{
    struct rt_shown_list list = {0};
    int64_t pttl;
    const struct rt_redlock_seen *s = rt_redlock_majority(l->seen, c->count, &pttl);
    if (s == NULL)
        return 0; /* nobody holds */
    struct rt_shown *shown = rt_shown_add(&list, text_of(op->inspect.name), text_of(s->value.label),
                                          text_of(""));
    if (shown == NULL)
        return rt_words_nomem(&c->base);
    int64_t hint = (int64_t)rt_redlock_hint(c), number = (int64_t)s->value.number;
    shown->place.number = s->value.number;
    shown->place.session = s->value.session;
    shown->place.owner = s->value.owner;
    shown->place.mode = RT_EXCLUSIVE;
    shown->place.left_ms = pttl;
    shown->place.since_ms = number == 0 ? -1 : hint > number ? (hint - number) / 1000 : 0;
    shown->place.flags = ROTA_PLACE_GRANTED;
    if (s->value.ours && s->value.session >> 31 == c->cid)
        shown->place.flags |= ROTA_PLACE_MINE;
    rt_shown_tell(&list, op);
    rt_shown_fini(&list);
    return 0;
}

/* Whether a majority has our token. */
static int verify(struct rt_redlock_conn *c, struct looking *l)
{
    struct rt_quorum q;
    rt_quorum_begin(&q, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        bool heard = l->heard.votes[i] == RT_VOTE_YES;
        bool ours = heard && l->seen[i].there && strcmp(l->seen[i].value.token, l->token) == 0;
        if (ours)
            rt_quorum_yes(&q, i, 0, true);
        else
            rt_quorum_vote(&q, i, heard ? RT_VOTE_NO : RT_VOTE_SILENT);
    }
    enum rt_verdict v = rt_quorum_kept(&q);
    if (v == RT_QUORUM_AGREED)
        return 0;
    return v == RT_QUORUM_NONE ? rt_words_no_ticket(&c->base, l->work.op->change.name)
                               : rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_LOOK);
}

static bool is_decided(const struct rt_redlock_conn *c, const struct looking *l)
{
    int64_t pttl;
    enum rt_verdict v = rt_quorum_kept(&l->heard);
    if (l->work.pending == 0 || v == RT_QUORUM_SILENT)
        return true;
    const struct rt_redlock_seen *s = rt_redlock_majority(l->seen, c->count, &pttl);
    return v == RT_QUORUM_AGREED && s != NULL; /* more would say nothing else */
}

static void look_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                          int status, const redisReply *reply)
{
    struct looking *l = rq->owner;
    struct rt_redlock_conn *c = node->conn;
    struct rt_op *op = l->work.op;
    if (err == 0 && status == RT_REDLOCK_OK && rt_redlock_read_look(reply, &l->seen[node->index]))
        rt_quorum_yes(&l->heard, node->index, 0, true);
    else
        rt_quorum_vote(&l->heard, node->index, RT_VOTE_SILENT);
    if (op == NULL || !is_decided(c, l)) {
        rt_work_settle(&c->base, &l->work);
        return;
    }
    int rv = 0;
    if (op->kind == RT_OP_CHANGE)
        rv = verify(c, l);
    else if (rt_quorum_kept(&l->heard) == RT_QUORUM_AGREED)
        rv = show(c, op, l);
    else
        rv = rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_LOOK);
    rt_work_end(&c->base, &l->work, rv);
}

static int look(struct rt_redlock_conn *c, struct rt_op *op, const char *name, const char *token)
{
    struct looking *l = rt_work_new(&c->works, &c->base, sizeof(*l), op);
    if (l == NULL)
        return ROTA_NOMEM;
    struct rt_redlock_call call = {.script = RT_REDLOCK_LOOK,
                                   .name = name,
                                   .deadline = rt_loop_now(c->base.loop) + rt_redlock_limit(c),
                                   .pending = &l->work.pending,
                                   .owner = l,
                                   .answer = look_answered};
    call.deadline = op->deadline < call.deadline ? op->deadline : call.deadline;
    uint32_t whom = rt_redlock_whom(c);
    rt_quorum_begin(&l->heard, c->count);
    (void)snprintf(l->token, sizeof(l->token), "%s", token);
    for (uint32_t i = 0; i < c->count; i++)
        if ((whom & 1u << i) == 0 || rt_redlock_send(&c->nodes[i], &call) == NULL)
            rt_quorum_vote(&l->heard, i, RT_VOTE_SILENT);
    if (l->work.pending == 0)
        rt_work_end(&c->base, &l->work, rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_LOOK));
    else
        rt_redlock_by(c, op->deadline);
    return 0;
}

/* Of a session: only ours is known here. */
static int show_session(struct rt_redlock_conn *c, struct rt_op *op)
{
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        for (const struct rt_redlock_ticket *t = c->tickets[i]; t != NULL; t = t->next) {
            struct rota_place p = {.number = t->number,
                                   .session = t->session,
                                   .owner = t->owner,
                                   .mode = RT_EXCLUSIVE,
                                   .since_ms = -1,
                                   .left_ms = -1,
                                   .label = c->base.label,
                                   .value = "",
                                   .flags = ROTA_PLACE_MINE | (t->held ? ROTA_PLACE_GRANTED : 0)};
            if (t->session == op->inspect.session && t->number != 0)
                op->inspect.each(op->inspect.arg, t->name, &p);
        }
    rt_conn_done(&c->base, op, 0);
    return 0;
}

int rt_redlock_begin_inspect(struct rt_redlock_conn *c, struct rt_op *op)
{
    if (op->inspect.name == NULL)
        return show_session(c, op);
    int rv = rt_check_name(&c->base, op->inspect.name);
    return rv != 0 ? rv : look(c, op, op->inspect.name, "");
}

int rt_redlock_begin_change(struct rt_redlock_conn *c, struct rt_op *op)
{
    int rv = rt_check_name(&c->base, op->change.name);
    if (rv != 0)
        return rv;
    if ((op->change.what & (RT_CHANGE_DOWNGRADE | RT_CHANGE_VALUE)) != 0)
        return rt_redlock_fail(c, ROTA_UNSUPPORTED,
                               "%.120s: Redlock has neither shared locks nor values",
                               op->change.name);
    const struct rt_redlock_ticket *t = rt_redlock_find(c, op->change.name, op->change.session,
                                                        op->change.number, 0);
    if (t == NULL || !t->held || op->change.number == 0)
        return rt_words_no_ticket(&c->base, op->change.name);
    op->change.wanted = (op->change.what & RT_CHANGE_ARM) != 0; /* nobody can see who waits */
    if (op->change.what == 0)
        return look(c, op, op->change.name, t->token);
    rt_conn_done(&c->base, op, 0);
    return 0;
}

/* ---- LIST ------------------------------------------------------------------------------------------------ */

struct found {  /* on some node */
    char *name; /* its own block */
    char token[RT_REDLOCK_TOKEN + 1];
    uint32_t node;
};

struct listing {
    struct rt_work work; /* first */
    struct rt_quorum heard;
    struct found *found;
    size_t count, room;
};

static void free_listing(struct rt_conn *conn, struct rt_work *w)
{
    struct listing *l = (struct listing *)(void *)w;
    (void)conn;
    for (size_t i = 0; i < l->count; i++)
        rt_free(l->found[i].name);
    rt_free(l->found);
}

static int by_name(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int rv = strcmp(x->name, y->name);
    if (rv == 0)
        rv = strcmp(x->token, y->token);
    return rv != 0 ? rv : (x->node > y->node) - (x->node < y->node);
}

/* A lock that a majority has is told; SCAN may show a key twice. */
static void tell_list(const struct rt_redlock_conn *c, const struct rt_op *op, struct listing *l)
{
    if (l->count > 0)
        qsort(l->found, l->count, sizeof(*l->found), by_name);
    for (size_t i = 0, end; i < l->count; i = end) {
        uint32_t mask = 0;
        const struct found *f = &l->found[i];
        for (end = i; end < l->count && strcmp(l->found[end].name, f->name) == 0 &&
                      strcmp(l->found[end].token, f->token) == 0;
             end++)
            mask |= 1u << l->found[end].node;
        if ((uint32_t)__builtin_popcount(mask) >= rt_quorum_majority(c->count))
            op->list.each(op->list.arg, f->name, 1, 1);
    }
}

static bool note_found(struct listing *l, uint32_t node, const char *name, const char *value)
{
    if (!rt_grow(&l->found, &l->room, l->count + 1, sizeof(*l->found)))
        return false;
    struct found *f = &l->found[l->count];
    f->name = rt_strdup(name);
    f->node = node;
    (void)snprintf(f->token, sizeof(f->token), "%s", value);
    l->count += f->name != NULL;
    return f->name != NULL;
}

static bool list_on(struct listing *l, struct rt_redlock_node *node, const char *cursor);

static void list_answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                          int status, const redisReply *reply)
{
    struct listing *l = rq->owner;
    struct rt_conn *base = &node->conn->base;
    bool sound = err == 0 && status == RT_REDLOCK_OK && reply->type == REDIS_REPLY_ARRAY &&
                 reply->elements >= 3 && reply->elements % 2 == 1;
    for (size_t i = 2; sound && i < reply->elements; i++)
        sound = reply->element[i]->type == REDIS_REPLY_STRING;
    for (size_t i = 3; sound && l->work.op != NULL && i + 1 < reply->elements; i += 2)
        sound = note_found(l, node->index, reply->element[i]->str, reply->element[i + 1]->str);
    bool more = sound && l->work.op != NULL && strcmp(reply->element[2]->str, "0") != 0;
    if (more && list_on(l, node, reply->element[2]->str))
        return;
    if (sound && !more)
        rt_quorum_yes(&l->heard, node->index, 0, true);
    else
        rt_quorum_vote(&l->heard, node->index, RT_VOTE_SILENT);
    if (l->work.pending > 0 || l->work.op == NULL) {
        rt_work_settle(base, &l->work);
        return;
    }
    bool heard = rt_quorum_kept(&l->heard) == RT_QUORUM_AGREED;
    if (heard)
        tell_list(node->conn, l->work.op, l);
    rt_work_end(base, &l->work,
                heard ? 0 : rt_redlock_silent(node->conn, ROTA_UNREACHABLE, RT_REDLOCK_LIST));
}

static bool list_on(struct listing *l, struct rt_redlock_node *node, const char *cursor)
{
    const struct rt_op *op = l->work.op;
    const char *args[] = {cursor, op->list.prefix};
    struct rt_redlock_call call = {.script = RT_REDLOCK_LIST,
                                   .name = "rota:f",
                                   .args = args,
                                   .argc = 2,
                                   .deadline = op->deadline,
                                   .pending = &l->work.pending,
                                   .owner = l,
                                   .answer = list_answered};
    return rt_redlock_send(node, &call) != NULL;
}

int rt_redlock_begin_list(struct rt_redlock_conn *c, struct rt_op *op)
{
    struct listing *l = rt_work_new(&c->works, &c->base, sizeof(*l), op);
    if (l == NULL)
        return ROTA_NOMEM;
    uint32_t whom = rt_redlock_whom(c);
    l->work.free = free_listing;
    rt_quorum_begin(&l->heard, c->count);
    for (uint32_t i = 0; i < c->count; i++)
        if ((whom & 1u << i) == 0 || !list_on(l, &c->nodes[i], "0"))
            rt_quorum_vote(&l->heard, i, RT_VOTE_SILENT);
    if (l->work.pending == 0)
        rt_work_end(&c->base, &l->work, rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_LIST));
    return 0;
}
