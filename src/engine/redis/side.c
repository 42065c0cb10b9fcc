/* SPDX-License-Identifier: Apache-2.0 */
/* The ops side as a whole: ops come in, also before the rooms are known; works; beginning and end. */
#include "engine/redis/ops.h"

#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/view.h"

#include <assert.h>
#include <string.h>

#define SIDE_TIMERS 4

/* ---- Submitting ------------------------------------------------------------------------- */

static void begin(struct rt_redis_conn *c, struct rt_op *op)
{
    static int (*const table[])(struct rt_redis_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = rt_redis_begin_beat,       [RT_OP_JOIN] = rt_redis_begin_join,
        [RT_OP_JOIN_ALL] = rt_redis_begin_set,    [RT_OP_CHANGE] = rt_redis_begin_change,
        [RT_OP_LEAVE] = rt_redis_begin_leave,     [RT_OP_OBSERVE] = rt_redis_begin_observe,
        [RT_OP_INSPECT] = rt_redis_begin_inspect, [RT_OP_LIST] = rt_redis_begin_list,
        [RT_OP_BREAK] = rt_redis_begin_break,     [RT_OP_CHECK] = rt_redis_begin_check,
    };
    assert((unsigned)op->kind < sizeof(table) / sizeof(table[0]));
    int rv = table[op->kind](c, op);
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
}

static void follow_early(struct rt_redis_conn *c)
{
    int64_t at = RT_NEVER;
    for (const struct rt_op *op = c->side.early; op != NULL; op = op->next)
        if (op->deadline < at)
            at = op->deadline;
    rt_timers_at(&c->base.loop->timers, &c->side.early_timer.timer, at);
}

static struct rt_op *take_early(struct rt_redis_conn *c, struct rt_op **at)
{
    struct rt_op *op = *at;
    *at = op->next;
    if (c->side.early_tail == &op->next)
        c->side.early_tail = at;
    op->next = NULL;
    return op;
}

static void early_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_redis_conn *c = RT_REDIS_OF_TIMER(call, early_timer);
    for (struct rt_op **at = &c->side.early; *at != NULL;) {
        if ((*at)->deadline > now) {
            at = &(*at)->next;
            continue;
        }
        struct rt_op *op = take_early(c, at);
        (void)rt_redis_fail(c, ROTA_UNREACHABLE, "%.200s",
                            c->link.last_trouble[0] != '\0' ? c->link.last_trouble
                                                            : "the server has not answered yet");
        rt_conn_done(&c->base, op, ROTA_UNREACHABLE);
    }
    follow_early(c);
}

const char *rt_redis_trouble(const struct rt_conn *conn)
{
    const struct rt_redis_conn *c = (const struct rt_redis_conn *)(const void *)conn;
    bool waits = !RT_RING_EMPTY(&c->link.ledger.waiting) || c->side.early != NULL;
    return waits && c->link.last_trouble[0] != '\0' ? c->link.last_trouble : NULL;
}

void rt_redis_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_redis_conn *c = rt_redis_of(conn);
    if (c->rooms != NULL && c->side.early == NULL) {
        begin(c, op);
        return;
    }
    op->next = NULL;
    *c->side.early_tail = op;
    c->side.early_tail = &op->next;
    follow_early(c);
    rt_resp_want(&c->link);
}

void rt_redis_failed(struct rt_resp_conn *link)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    while (c->side.early != NULL) {
        struct rt_op *op = take_early(c, &c->side.early);
        (void)rt_redis_fail(c, c->link.fatal, "%s", c->link.fatal_text);
        rt_conn_done(&c->base, op, c->link.fatal);
    }
    follow_early(c);
}

void rt_redis_linked(struct rt_resp_conn *link, struct rt_resp_node *node)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    for (uint32_t i = 0; i < c->room_count; i++)
        if (c->link.places[i] == node && c->rooms[i].stands &&
            !RT_BUG(RT_BUG_NOT_ASKED_AFTER_RECONNECT)) {
            c->rooms[i].unverified = true;
            rt_redis_ask_held(c, i);
        }
    rt_redis_look_again(c, node);
    while (c->rooms != NULL && c->side.early != NULL)
        begin(c, take_early(c, &c->side.early));
    follow_early(c);
}

/* ---- Cancelling ------------------------------------------------------------------------- */

void rt_redis_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_redis_conn *c = rt_redis_of(conn);
    for (struct rt_op **at = &c->side.early; *at != NULL; at = &(*at)->next)
        if (*at == op) {
            (void)take_early(c, at);
            follow_early(c);
            rt_conn_done(conn, op, rt_redis_fail(c, ROTA_CANCELED, "canceled"));
            return;
        }
    for (struct rt_work *w = c->side.works; w != NULL; w = w->next)
        if (w->op == op) {
            bool changes = op->kind == RT_OP_JOIN || op->kind == RT_OP_JOIN_ALL ||
                           op->kind == RT_OP_BEAT;
            int rv = rt_redis_fail(c, changes ? ROTA_UNKNOWN : ROTA_CANCELED, "canceled");
            rt_work_end(conn, w, rv);
            return;
        }
    (void)rt_ledger_cancel(&c->link.ledger, op);
}

/* ---- Life ------------------------------------------------------------------------------- */

int rt_redis_side_open(struct rt_redis_conn *c)
{
    struct rt_redis_side *s = &c->side;
    s->counted_at = -1;
    RT_RING_INIT(&s->joins);
    s->early_tail = &s->early;
    s->kept_tail = &s->kept;
    s->early_timer.fire = early_fire;
    s->ends_timer.fire = rt_redis_ends_fire;
    s->look_timer.fire = rt_redis_look_fire;
    s->set_timer.fire = rt_redis_set_fire;
    return rt_loop_reserve(c->base.loop, SIDE_TIMERS);
}

void rt_redis_side_close(struct rt_redis_conn *c)
{
    for (uint32_t i = 0; c->session != 0 && i < c->room_count; i++)
        if (c->rooms[i].stands)
            rt_redis_say_end(c, i, 0);
    c->session = 0;
    rt_redis_drop_kept(c);
    rt_view_close(&c->side.views);
    rt_redis_forget_given_up(c, true);
    struct rt_timer_call *all[SIDE_TIMERS] = {&c->side.early_timer, &c->side.ends_timer,
                                              &c->side.look_timer, &c->side.set_timer};
    for (size_t i = 0; i < SIDE_TIMERS; i++)
        rt_timers_stop(&c->base.loop->timers, &all[i]->timer);
    rt_loop_unreserve(c->base.loop, SIDE_TIMERS);
}
