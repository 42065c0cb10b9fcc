/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: nodes tell nobody that a key has changed, so they are looked at, several times per ttl. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

#include <stdio.h>
#include <string.h>

#define LOOK_PARTS 6 /* looks per ttl */

struct watch {
    struct rt_view base;  /* first */
    struct rt_op *op;     /* the OBSERVE that is not answered yet */
    struct look *looking; /* under way */
};

struct look {            /* of one watch, by all nodes; it lives until all have answered */
    struct rt_work work; /* without an op */
    struct watch *watch; /* NULL: it has ended, or was told */
    struct rt_quorum heard;
    struct rt_redlock_seen seen[RT_QUORUM_MOST];
};

static void look(struct rt_redlock_conn *c, struct watch *w);

/* ---- Looking ---------------------------------------------------------------------------------------- */

static void state_of(const struct rt_redlock_conn *c, const struct look *l, struct rt_view_state *s)
{
    int64_t pttl;
    const struct rt_redlock_seen *seen = rt_redlock_majority(l->seen, c->count, &pttl);
    if (seen == NULL)
        return;
    s->count = 1;
    s->mode = RT_EXCLUSIVE;
    s->fence = seen->value.number;
    rt_view_label(s, seen->value.label, strlen(seen->value.label));
}

/* L has what it needs: told once. */
static void told(struct rt_redlock_conn *c, struct look *l, bool heard)
{
    struct watch *w = l->watch;
    struct rt_op *op = w->op;
    struct rt_view_state s = {0};
    l->watch = NULL;
    w->looking = NULL;
    w->op = NULL;
    if (!rt_view_end(&w->base))
        return;
    if (op != NULL)
        rt_conn_done(&c->base, op,
                     heard ? 0 : rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_LOOK));
    if (op != NULL && !heard) { /* nobody counts on it */
        rt_view_stop(&w->base);
        return;
    }
    state_of(c, l, &s);
    if (heard)
        rt_view_tell(&c->base, &w->base, &s);
    if (w->base.again)
        look(c, w);
}

static void answered(struct rt_redlock_node *node, struct rt_redlock_request *rq, int err,
                     int status, const redisReply *reply)
{
    struct look *l = rq->owner;
    struct rt_redlock_conn *c = node->conn;
    int64_t pttl;
    if (err == 0 && status == RT_REDLOCK_OK && rt_redlock_read_look(reply, &l->seen[node->index]))
        rt_quorum_yes(&l->heard, node->index, 0, true);
    else
        rt_quorum_vote(&l->heard, node->index, RT_VOTE_SILENT);
    bool heard = rt_quorum_kept(&l->heard) == RT_QUORUM_AGREED;
    bool decided = heard && rt_redlock_majority(l->seen, c->count, &pttl) != NULL;
    if (l->watch != NULL && (decided || l->work.pending == 0))
        told(c, l, heard);
    rt_work_settle(&c->base, &l->work);
}

static void look(struct rt_redlock_conn *c, struct watch *w)
{
    int64_t now = rt_loop_now(c->base.loop);
    uint32_t whom = rt_redlock_whom(c);
    w->base.look_at = now + c->base.ttl_ms * RT_MS / LOOK_PARTS;
    rt_redlock_by(c, w->base.look_at);
    if (!rt_view_begin(&w->base))
        return;
    struct look *l = rt_work_new(&c->works, &c->base, sizeof(*l), NULL);
    if (l == NULL) {
        (void)rt_view_end(&w->base); /* the next one is due as ever */
        return;
    }
    l->watch = w;
    w->looking = l;
    rt_quorum_begin(&l->heard, c->count);
    struct rt_redlock_call call = {.script = RT_REDLOCK_LOOK,
                                   .name = w->base.name,
                                   .deadline = now + rt_redlock_limit(c),
                                   .pending = &l->work.pending,
                                   .owner = l,
                                   .answer = answered};
    if (w->op != NULL && w->op->deadline < call.deadline)
        call.deadline = w->op->deadline;
    for (uint32_t i = 0; i < c->count; i++)
        if ((whom & 1u << i) == 0 || rt_redlock_send(&c->nodes[i], &call) == NULL)
            rt_quorum_vote(&l->heard, i, RT_VOTE_SILENT);
    if (l->work.pending > 0)
        return;
    l->watch = NULL;
    w->looking = NULL;
    (void)rt_view_end(&w->base);
    rt_work_settle(&c->base, &l->work);
}

int64_t rt_redlock_views_tick(struct rt_redlock_conn *c, int64_t now)
{
    for (struct rt_view *v = c->views, *next; v != NULL; v = next) {
        next = v->next;
        if (!v->over && !v->looking && v->look_at <= now)
            look(c, (struct watch *)(void *)v);
    }
    return rt_view_next(c->views);
}

/* ---- OBSERVE ---------------------------------------------------------------------------------------------- */

static void stop(struct rt_redlock_conn *c, struct watch *w)
{
    struct rt_op *op = w->op;
    w->op = NULL;
    if (op != NULL)
        rt_conn_done(&c->base, op, rt_redlock_fail(c, ROTA_CANCELED, "the observation was ended"));
    if (w->looking != NULL) { /* its answers are for nobody */
        w->looking->watch = NULL;
        w->looking = NULL;
        (void)rt_view_end(&w->base);
    }
    rt_view_stop(&w->base);
}

int rt_redlock_begin_observe(struct rt_redlock_conn *c, struct rt_op *op)
{
    struct watch *w = (struct watch *)(void *)rt_view_find(c->views, op->observe.cookie);
    if (op->observe.stop) {
        if (w != NULL)
            stop(c, w);
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    int rv = rt_check_name(&c->base, op->observe.name);
    if (rv == 0 && w == NULL &&
        (w = rt_view_new(&c->views, sizeof(*w), op->observe.name, op->observe.cookie)) == NULL)
        rv = rt_words_nomem(&c->base);
    if (rv != 0)
        return rv;
    w->base.told = false;  /* asked again: told again */
    if (w->base.looking) { /* it is under way already */
        w->base.again = true;
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    w->op = op;
    look(c, w);
    if (w->looking != NULL)
        return 0;
    w->op = NULL;
    rt_view_stop(&w->base);
    return rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_LOOK);
}
