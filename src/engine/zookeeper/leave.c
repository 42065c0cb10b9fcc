/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE deletes a ticket's node; CHANGE changes it, or another takes its place; BREAK deletes somebody else's.
 *
 * LEAVE of what holds is one request. For others (one that waits: to say whether it held; a durable one of another
 * process; one whose JOIN was never answered) the line is read first. A ticket leaves a barrier only if the line is
 * still as it was read: whoever was counted has gone through. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"
#include "base/bug.h"

#include <stdio.h>
#include <string.h>

#define BREAKS_MOST 500 /* of one step */

struct leaving {         /* for each of the three */
    struct rt_work work; /* first */
    struct rt_zk_look look;
    uint64_t number;
    bool granted, retried;
};

static struct leaving *of(struct rt_work *w)
{
    return (struct leaving *)(void *)w;
}

static void free_leaving(struct rt_conn *conn, struct rt_work *w)
{
    (void)conn;
    rt_zk_look_fini(&of(w)->look);
}

/* What the answer to A says, whether A is a MULTI or not. */
static int32_t said_of(const struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    if (err != 0)
        return RT_ZK_OK;
    return a->call == RT_ZK_MULTI ? rt_zk_multi_read(reply, NULL, NULL) : reply->said;
}

/* ---- LEAVE ------------------------------------------------------------------------------------ */

static struct rt_zk_ticket *leaver(struct rt_zk *z, const struct rt_op *op)
{
    return rt_zk_ticket_find(z, op->leave.name, op->leave.session, op->leave.number,
                             op->leave.nonce);
}

static void leave_over(struct rt_zk *z, struct leaving *l, int err)
{
    struct rt_op *op = l->work.op;
    struct rt_zk_ticket *t = leaver(z, op);
    op->leave.granted = l->granted;
    if (t != NULL && (err == 0 || err == ROTA_LOST))
        rt_zk_ticket_drop(z, t);
    else if (t != NULL) {
        t->leaving = false;
        t->misnamed = true; /* the next LEAVE reads the line first */
        if (!t->granted)
            rt_zk_wait_look(z, t);
    }
    rt_zk_end(z, &l->work, err);
}

static int leave_by_line(struct rt_zk *z, struct leaving *l);

static void left(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct leaving *l = a->owner;
    int32_t said = said_of(a, err, reply);
    if (RT_BUG(RT_BUG_LOST_DELETE_IS_DONE) && err == ROTA_UNKNOWN)
        err = 0;
    if (RT_BUG(RT_BUG_MISSING_IS_LEFT) && said == RT_ZK_NO_NODE)
        said = RT_ZK_OK;
    if (said == RT_ZK_BAD_VERSION) { /* the barrier has opened: once more */
        err = leave_by_line(z, l);
        if (err == 0)
            return;
    } else if (said != RT_ZK_OK && a->entry.was_again) {
        err = rt_words_fail(&z->base, ROTA_UNKNOWN, "%.120s: left, or gone before",
                            l->work.op->leave.name); /* perhaps by the first of our tries */
        struct rt_zk_ticket *t = leaver(z, l->work.op);
        if (t != NULL)
            rt_zk_ticket_drop(z, t);
    } else if (said != RT_ZK_OK) {
        err = rt_words_no_ticket(&z->base, l->work.op->leave.name);
    }
    leave_over(z, l, err);
}

/* Deletes PATH, and KEEPER unless that is NULL. */
static int send_delete(struct rt_zk *z, struct leaving *l, const char *path, const char *keeper)
{
    const char *name = l->work.op->leave.name;
    if (keeper == NULL || z->dialect->lone != NULL)
        return rt_zk_work_send(z, &l->work, rt_zk_take_out(z, name, strrchr(path, '/') + 1, left),
                               0);
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, left);
    rt_zk_multi_delete(a, path);
    rt_zk_multi_delete(a, keeper);
    return rt_zk_work_send(z, &l->work, a, 0);
}

static int send_gathered(struct rt_zk *z, struct leaving *l, const char *path)
{
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, left);
    rt_zk_multi_check(a, rt_zk_line_path(z, l->work.op->leave.name), l->look.version);
    rt_zk_multi_delete(a, path);
    return rt_zk_work_send(z, &l->work, a, 0);
}

/* Whether the keeper of T, which may be NULL, must stay. */
static bool stays(const struct rt_zk *z, const struct rt_op *op, const struct rt_zk_ticket *t)
{
    return rt_leave_keeps(op) && t != NULL && t->kept_until_ms > rt_zk_now_ms(z);
}

static void leave_seen(struct rt_zk *z, struct rt_zk_look *look)
{
    struct leaving *l = look->owner;
    const struct rt_op *op = l->work.op;
    const struct rt_zk_ticket *t = leaver(z, op);
    const char *path, *keeper = NULL;
    const struct rt_zk_place *p = NULL;
    int err = look->err;
    if (err == 0)
        p = rt_zk_line_find(&look->line, op->leave.session,
                            t != NULL               ? t->id.nonce
                            : op->leave.number != 0 ? 0
                                                    : op->leave.nonce,
                            op->leave.number);
    if (p != NULL && op->leave.nonce != 0 && p->id.nonce != op->leave.nonce)
        p = NULL;
    if (err == 0 && p == NULL && t != NULL && t->number >= RT_ZK_CALLED) { /* it has no node */
        leave_over(z, l, 0);
        return;
    }
    if (err == 0 && p == NULL)
        err = rt_words_no_ticket(&z->base, op->leave.name);
    if (err == 0) {
        l->granted = l->granted || p->granted;
        path = rt_zk_node_path(z, op->leave.name, p->node);
        if (p->keeper != NULL && !stays(z, op, t))
            keeper = rt_zk_node_path(z, op->leave.name, p->keeper);
        err = p->id.mode == RT_GATHER ? send_gathered(z, l, path) : send_delete(z, l, path, keeper);
    }
    if (err != 0)
        leave_over(z, l, err);
}

static int leave_by_line(struct rt_zk *z, struct leaving *l)
{
    const struct rt_op *op = l->work.op;
    /* A number that is not in a node's name is its czxid. */
    uint32_t flags = RT_ZK_LOOK_SYNC |
                     (op->leave.number != 0 && leaver(z, op) == NULL ? RT_ZK_LOOK_DATA : 0);
    return rt_zk_work_look(z, &l->work, &l->look, op->leave.name, flags, leave_seen);
}

static int begin_leave(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct leaving *l = of(w);
    const struct rt_op *op = w->op;
    const char *keeper = NULL;
    int rv = rt_zk_check_name(z, op->leave.name);
    struct rt_zk_ticket *t = rv == 0 ? leaver(z, op) : NULL;
    if (rv != 0)
        return rv;
    if (t != NULL) {
        t->leaving = true;
        l->granted = t->granted;
        rt_zk_wait_end(t);
    }
    if (t == NULL || !t->granted || t->misnamed) {
        rv = leave_by_line(z, l);
    } else {
        if (t->kept_until_ms != 0 && !stays(z, op, t))
            keeper = rt_zk_keeper_path(z, t);
        rv = send_delete(z, l, rt_zk_node_path(z, op->leave.name, t->node), keeper);
    }
    if (rv != 0 && t != NULL)
        t->leaving = false;
    return rv;
}

const struct rt_turn_kind rt_zk_leave = {
    .size = sizeof(struct leaving), .begin = begin_leave, .free = free_leaving};

/* ---- CHANGE ----------------------------------------------------------------------------------- */

static struct rt_zk_ticket *changer(struct rt_zk *z, const struct rt_op *op)
{
    return rt_zk_ticket_find(z, op->change.name, op->change.session, op->change.number, 0);
}

static void change_over(struct rt_zk *z, struct leaving *l, int err)
{
    struct rt_op *op = l->work.op;
    struct rt_zk_ticket *t = changer(z, op);
    op->change.wanted = err == 0 && (l->look.line.waiting > 0 || z->dialect->lone != NULL);
    if (t != NULL && err == 0) {
        t->told = false; /* it was heard */
        t->armed = t->armed || op->change.what & RT_CHANGE_ARM;
        t->wanted = t->armed && op->change.wanted;
        if (t->armed && !t->wanted && op->change.what & RT_CHANGE_ARM && t->line.link == NULL)
            rt_zk_wait_look(z, t); /* somebody came, or left, since */
    }
    rt_zk_end(z, &l->work, err);
    if (t != NULL && err == ROTA_LOST && t->granted)
        rt_zk_ticket_lost(z, t);
}

static void changed(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct leaving *l = a->owner;
    const struct rt_op *op = l->work.op;
    struct rt_zk_ticket *t = changer(z, op);
    if (said_of(a, err, reply) != RT_ZK_OK)
        err = rt_words_no_ticket(&z->base, op->change.name);
    if (t != NULL && op->change.what & RT_CHANGE_DOWNGRADE && err == ROTA_UNKNOWN)
        t->misnamed = true;
    if (t != NULL && err == 0 && a->call == RT_ZK_MULTI) {
        t->id.mode = RT_SHARED;
        t->id.number = t->number;
        rt_zk_node(t->node, z->dialect, &t->id, &t->id.seq);
    }
    change_over(z, l, err);
}

/* A reader takes the place of a writer, in one step. */
static struct rt_zk_ask *downgrade(struct rt_zk *z, const struct rt_op *op,
                                   const struct rt_zk_place *p, struct rt_text data)
{
    char node[RT_ZK_NODE_ROOM];
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, changed);
    struct rt_zk_id id = p->id;
    id.mode = RT_SHARED;
    id.number = op->change.number;
    rt_zk_node(node, z->dialect, &id, &p->id.seq);
    rt_zk_multi_heir(z, a, op->change.name, p->node, node, data,
                     id.durable ? RT_ZK_PERSISTENT : RT_ZK_EPHEMERAL);
    if (!id.durable) /* another may have been opened since the line was read: it would stand in that, for nobody */
        a->session = id.session;
    return a;
}

static int write_change(struct rt_zk *z, struct leaving *l, const struct rt_zk_place *p)
{
    const struct rt_op *op = l->work.op;
    struct rt_zk_ticket *t = changer(z, op);
    bool down = op->change.what & RT_CHANGE_DOWNGRADE;
    if (down && p->id.mode != RT_EXCLUSIVE && p->id.mode != RT_SHARED)
        return rt_words_not_exclusive(&z->base, op->change.name);
    if (t != NULL && op->change.what & RT_CHANGE_VALUE) {
        char *value = rt_strdup(op->change.value != NULL ? op->change.value : "");
        if (value == NULL)
            return rt_words_nomem(&z->base);
        rt_free(t->value);
        t->value = value;
    }
    const char *value = t != NULL ? t->value : op->change.value;
    struct rt_text data = rt_zk_card_write(z, t != NULL ? t->owner : 0, value);
    const char *path = rt_zk_node_path(z, op->change.name, p->node);
    struct rt_zk_ask *a = down && p->id.mode == RT_EXCLUSIVE
                              ? downgrade(z, op, p, data)
                              : rt_zk_set(&z->c, path, data, changed);
    return rt_zk_work_send(z, &l->work, a, 0);
}

static void change_seen(struct rt_zk *z, struct rt_zk_look *look)
{
    struct leaving *l = look->owner;
    const struct rt_op *op = l->work.op;
    struct rt_zk_ticket *t = changer(z, op);
    const struct rt_zk_place *p = NULL;
    int err = look->err;
    if (err == 0)
        p = rt_zk_line_find(&look->line, op->change.session, t != NULL ? t->id.nonce : 0,
                            op->change.number);
    if (err == 0 && (p == NULL || !p->granted))
        err = rt_words_no_ticket(&z->base, op->change.name);
    if (err == 0 && t != NULL) { /* it may have changed without our being told */
        rt_zk_ticket_renamed(t, p->node, &p->id);
        t->misnamed = false;
    }
    if (err == 0 && op->change.what & (RT_CHANGE_VALUE | RT_CHANGE_DOWNGRADE)) {
        err = write_change(z, l, p);
        if (err == 0)
            return;
    }
    change_over(z, l, err);
}

static int begin_change(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct leaving *l = of(w);
    const struct rt_op *op = w->op;
    uint32_t flags = RT_ZK_LOOK_SYNC;
    int rv = rt_zk_check_name(z, op->change.name);
    if (rv == 0 && op->change.what & RT_CHANGE_VALUE)
        rv = rt_check_value(&z->base, op->change.name, op->change.value);
    if (rv != 0)
        return rv;
    struct rt_zk_ticket *t = changer(z, op);
    if (t == NULL)
        flags |= RT_ZK_LOOK_DATA; /* a durable one of another process */
    if (t != NULL && t->granted && op->change.what & RT_CHANGE_ARM && z->dialect->lone == NULL) {
        flags |= RT_ZK_LOOK_WATCH;
        rv = rt_zk_watch(&z->c, &t->line, RT_ZK_WATCH_CHILDREN, rt_zk_line_path(z, op->change.name),
                         rt_zk_wait_fired, t);
    }
    return rv != 0 ? rv : rt_zk_work_look(z, w, &l->look, op->change.name, flags, change_seen);
}

const struct rt_turn_kind rt_zk_change = {
    .size = sizeof(struct leaving), .begin = begin_change, .free = free_leaving};

/* ---- BREAK ------------------------------------------------------------------------------------ */

static int send_break(struct rt_zk *z, struct leaving *l, bool tell);

static void broken(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct leaving *l = a->owner;
    int32_t said = said_of(a, err, reply);
    if (said == RT_ZK_NO_NODE && !l->retried) { /* its session has no node: not Rota's */
        l->retried = true;
        err = send_break(z, l, false);
        if (err == 0)
            return;
    } else if (said != RT_ZK_OK) {
        err = rt_words_no_such(&z->base, l->work.op->brk.name);
    }
    rt_zk_end(z, &l->work, err);
}

static bool is_meant(const struct rt_op *op, const struct rt_zk_place *p)
{
    return op->brk.number != 0 ? rt_zk_number(p) == op->brk.number
                               : p->id.durable && p->id.mode == op->brk.mode;
}

static void put_break(struct rt_zk *z, struct rt_zk_ask *a, const char *name,
                      const struct rt_zk_place *p, bool tell)
{
    struct rt_zk_card card;
    rt_zk_multi_delete(a, rt_zk_node_path(z, name, p->node));
    if (p->keeper != NULL)
        rt_zk_multi_delete(a, rt_zk_node_path(z, name, p->keeper));
    if (tell && !p->id.durable && p->id.ours) { /* its owner writes its session's node anew */
        rt_zk_card_read(z, p->data, &card);
        rt_zk_multi_set(a, rt_zk_session_path(z, p->id.session), card.label, -1);
    }
}

static int send_break(struct rt_zk *z, struct leaving *l, bool tell)
{
    const struct rt_op *op = l->work.op;
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, broken);
    size_t n = 0;
    for (size_t i = 0; i < l->look.line.count && n < BREAKS_MOST; i++)
        if (is_meant(op, &l->look.line.places[i])) {
            put_break(z, a, op->brk.name, &l->look.line.places[i], tell);
            n++;
        }
    if (n > 0)
        return rt_zk_work_send(z, &l->work, a, 0);
    rt_zk_forgo(&z->c, a);
    return rt_words_no_such(&z->base, op->brk.name);
}

static void break_seen(struct rt_zk *z, struct rt_zk_look *look)
{
    struct leaving *l = look->owner;
    int err = look->err != 0 ? look->err : send_break(z, l, true);
    if (err != 0)
        rt_zk_end(z, &l->work, err);
}

static int begin_break(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    int rv = rt_zk_check_name(z, w->op->brk.name);
    return rv != 0 ? rv
                   : rt_zk_work_look(z, w, &of(w)->look, w->op->brk.name,
                                     RT_ZK_LOOK_SYNC | RT_ZK_LOOK_DATA, break_seen);
}

const struct rt_turn_kind rt_zk_break = {
    .size = sizeof(struct leaving), .begin = begin_break, .free = free_leaving};
