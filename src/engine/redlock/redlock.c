/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock: its table of functions, ops as they come, time, beginning and end. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <assert.h>
#include <string.h>

#define LONGEST_MS 30000        /* ?max_ttl= */
#define LONGEST_MOST_MS 3600000 /* as any ttl */
#define LIMIT_PART 8            /* of the ttl */
#define LIMIT_LEAST (20 * RT_MS)
#define REST_LEAST (50 * RT_MS) /* what the rest may take to be greeted after a majority was */
#define REST_LOOK (2 * RT_MS)

int64_t rt_redlock_limit(const struct rt_redlock_conn *c)
{
    int64_t limit = c->base.ttl_ms * RT_MS / LIMIT_PART;
    return limit > LIMIT_LEAST ? limit : LIMIT_LEAST;
}

/* ---- Ops ------------------------------------------------------------------------------------------ */

static void begin(struct rt_redlock_conn *c, struct rt_op *op)
{
    static int (*const table[])(struct rt_redlock_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = rt_redlock_begin_beat,       [RT_OP_JOIN] = rt_redlock_begin_join,
        [RT_OP_JOIN_ALL] = rt_redlock_begin_join,   [RT_OP_CHANGE] = rt_redlock_begin_change,
        [RT_OP_LEAVE] = rt_redlock_begin_leave,     [RT_OP_OBSERVE] = rt_redlock_begin_observe,
        [RT_OP_INSPECT] = rt_redlock_begin_inspect, [RT_OP_LIST] = rt_redlock_begin_list,
        [RT_OP_BREAK] = rt_redlock_begin_break,     [RT_OP_CHECK] = rt_redlock_begin_check,
    };
    assert((unsigned)op->kind < sizeof(table) / sizeof(table[0]));
    int rv = table[op->kind](c, op);
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
}

static bool is_known(const struct rt_redlock_conn *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++)
        n += c->nodes[i].known;
    return n >= rt_quorum_majority(c->count);
}

/* The rest was greeted too, or cannot be had, or has had its time, which is twice that of the majority: whoever looks
 * at what the nodes promise (strict, the doctor) looks at all that are there. */
static bool is_ready(struct rt_redlock_conn *c)
{
    int64_t now = rt_loop_now(c->base.loop);
    bool all = true;
    if (c->ready || !is_known(c))
        return c->ready;
    if (c->known_at == 0)
        c->known_at = now;
    for (uint32_t i = 0; i < c->count; i++)
        all = all && (c->nodes[i].known || c->nodes[i].failed != 0 ||
                      c->nodes[i].link.last_trouble[0] != '\0');
    int64_t rest = 2 * (c->known_at - c->opened_at);
    c->ready = all || now >= c->known_at + (rest > REST_LEAST ? rest : REST_LEAST);
    if (!c->ready)
        rt_redlock_by(c, now + REST_LOOK); /* that one cannot be dialed is not told */
    return c->ready;
}

static struct rt_op *take_early(struct rt_redlock_conn *c, struct rt_op **at)
{
    struct rt_op *op = *at;
    *at = op->next;
    if (c->early_tail == &op->next)
        c->early_tail = at;
    op->next = NULL;
    return op;
}

/* A node that shows why a majority cannot be had, for good; NULL: it can. */
static const struct rt_redlock_node *find_fatal(const struct rt_redlock_conn *c)
{
    const struct rt_redlock_node *first = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        n += c->nodes[i].failed != 0;
        if (c->nodes[i].failed != 0 && first == NULL)
            first = &c->nodes[i];
    }
    return n > c->count - rt_quorum_majority(c->count) ? first : NULL;
}

void rt_redlock_news(struct rt_redlock_conn *c)
{
    bool up = rt_redlock_up(c) >= rt_quorum_majority(c->count);
    if (up != c->was_up) {
        c->was_up = up;
        rt_conn_event(&c->base, &(struct rt_event){.kind = RT_LINK, .up = up});
    }
    const struct rt_redlock_node *fatal = find_fatal(c);
    while (c->early != NULL && (is_ready(c) || fatal != NULL)) {
        struct rt_op *op = take_early(c, &c->early);
        if (is_ready(c))
            begin(c, op);
        else
            rt_conn_done(&c->base, op,
                         rt_redlock_fail(c, fatal->failed, "%s", fatal->link.fatal_text));
    }
}

static void redlock_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_redlock_conn *c = rt_redlock_of(conn);
    if (is_ready(c) && c->early == NULL) {
        begin(c, op);
        return;
    }
    op->next = NULL;
    *c->early_tail = op;
    c->early_tail = &op->next;
    rt_redlock_by(c, op->deadline);
    for (uint32_t i = 0; i < c->count; i++)
        rt_resp_want(&c->nodes[i].link);
}

static void redlock_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_redlock_conn *c = rt_redlock_of(conn);
    for (struct rt_op **at = &c->early; *at != NULL; at = &(*at)->next)
        if (*at == op) {
            (void)take_early(c, at);
            rt_conn_done(conn, op, rt_redlock_fail(c, ROTA_CANCELED, "canceled"));
            return;
        }
    if (rt_redlock_cancel_join(c, op))
        return;
    for (struct rt_work *w = c->works; w != NULL; w = w->next)
        if (w->op == op) {
            bool changes = op->kind == RT_OP_LEAVE || op->kind == RT_OP_BREAK ||
                           op->kind == RT_OP_BEAT;
            rt_work_end(conn, w,
                        rt_redlock_fail(c, changes ? ROTA_UNKNOWN : ROTA_CANCELED, "canceled"));
            return;
        }
}

/* ---- Time ------------------------------------------------------------------------------------------ */

void rt_redlock_by(struct rt_redlock_conn *c, int64_t at)
{
    if (at == RT_NEVER || (c->timer.timer.slot != 0 && c->timer.timer.at <= at))
        return;
    rt_timers_start(&c->base.loop->timers, &c->timer.timer, at);
}

/* What a work of this kind asks the nodes. */
static enum rt_redlock_script script_of(enum rt_op_kind kind)
{
    return kind == RT_OP_LEAVE   ? RT_REDLOCK_GIVE
           : kind == RT_OP_BREAK ? RT_REDLOCK_BREAK
           : kind == RT_OP_BEAT  ? RT_REDLOCK_KEEP
           : kind == RT_OP_LIST  ? RT_REDLOCK_LIST
                                 : RT_REDLOCK_LOOK;
}

/* An op that its answers did not end in time. */
static void works_tick(struct rt_redlock_conn *c, int64_t now)
{
    for (struct rt_work *w = c->works, *next; w != NULL; w = next) {
        next = w->next;
        if (w->op == NULL)
            continue;
        if (w->op->deadline > now) {
            rt_redlock_by(c, w->op->deadline);
            continue;
        }
        bool changes = w->op->kind == RT_OP_LEAVE || w->op->kind == RT_OP_BREAK;
        rt_work_end(&c->base, w,
                    rt_redlock_silent(c, changes ? ROTA_UNKNOWN : ROTA_UNREACHABLE,
                                      script_of(w->op->kind)));
    }
}

static void early_tick(struct rt_redlock_conn *c, int64_t now)
{
    for (struct rt_op **at = &c->early; *at != NULL;) {
        if ((*at)->deadline > now) {
            rt_redlock_by(c, (*at)->deadline);
            at = &(*at)->next;
            continue;
        }
        rt_conn_done(&c->base, take_early(c, at),
                     rt_redlock_silent(c, ROTA_UNREACHABLE, RT_REDLOCK_TAKE));
    }
}

/* Lazy: fires at the time of what may long be over, and looks. */
static void on_timer(struct rt_timer_call *call, int64_t now)
{
    struct rt_redlock_conn *c =
        (struct rt_redlock_conn *)(void *)((char *)call - offsetof(struct rt_redlock_conn, timer));
    early_tick(c, now);
    rt_redlock_news(c);
    works_tick(c, now);
    rt_redlock_by(c, rt_redlock_session_tick(c, now));
    rt_redlock_by(c, rt_redlock_asks_tick(c, now));
    rt_redlock_by(c, rt_redlock_views_tick(c, now));
}

/* ---- Life -------------------------------------------------------------------------------------------- */

static int take_longest(struct rt_redlock_conn *c, const struct rt_url *url)
{
    const char *text = rt_url_param(url, "max_ttl", NULL);
    uint64_t ms = LONGEST_MS;
    if (text != NULL && (rt_url_duration_ms(text, &ms) != 0 || ms > LONGEST_MOST_MS))
        return rt_redlock_fail(c, ROTA_INVALID,
                               "?max_ttl= is the longest ttl that anybody uses, as 30s, up to 1h; "
                               "not '%.40s'",
                               text);
    c->longest = (int64_t)ms * RT_MS;
    if (ms != 0 && c->base.ttl_ms > ms)
        return rt_redlock_fail(
            c, ROTA_INVALID,
            "a ttl of %u ms is longer than ?max_ttl=, %llu ms, which is how long "
            "a restarted node does not count: raise it, for all clients",
            c->base.ttl_ms, (unsigned long long)ms);
    return 0;
}

static int draw(struct rt_redlock_conn *c)
{
    int rv = rt_dial_random(&c->base, &c->cid, sizeof(c->cid));
    return rv != 0 ? rv : rt_dial_random(&c->base, &c->jitter, sizeof(c->jitter));
}

static int redlock_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_redlock_conn *c = rt_redlock_of(conn);
    c->early_tail = &c->early;
    c->said = c->said_room;
    c->opened_at = rt_loop_now(conn->loop);
    c->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = on_timer};
    (void)rt_redlock_fail(c, 0, "%s", "");
    rt_dial_times(conn);
    memcpy(conn->unsafe, "the nodes have not been reached yet", 36);
    int rv = take_longest(c, url);
    if (rv == 0)
        rv = draw(c);
    if (rv == 0 && (rv = rt_loop_reserve(conn->loop, 1)) == ROTA_NOMEM)
        rv = rt_words_nomem(conn);
    if (rv != 0)
        return rv;
    rv = rt_redlock_nodes_open(c, url);
    if (rv != 0) {
        rt_loop_unreserve(conn->loop, 1);
        return rv;
    }
    for (uint32_t i = 0; i < c->count; i++)
        rt_resp_want(&c->nodes[i].link);
    return 0;
}

static void redlock_close(struct rt_conn *conn)
{
    struct rt_redlock_conn *c = rt_redlock_of(conn);
    rt_timers_stop(&conn->loop->timers, &c->timer.timer);
    rt_loop_unreserve(conn->loop, 1);
    rt_redlock_nodes_close(c, c->count);
    rt_view_close(&c->views);
    rt_work_close(&c->works, conn); /* requests of theirs have ended only now */
    rt_redlock_asks_close(c);
}

static void redlock_forked(struct rt_conn *conn)
{
    struct rt_redlock_conn *c = rt_redlock_of(conn);
    for (uint32_t i = 0; i < c->count; i++)
        rt_resp_conn_forked(&c->nodes[i].link);
}

static uint32_t redlock_caps(const struct rt_conn *conn)
{
    const uint32_t caps = ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS;
    const struct rt_redlock_conn *c = (const struct rt_redlock_conn *)(const void *)conn;
    bool strict = atomic_load_explicit(&c->strict, memory_order_relaxed);
    return strict ? caps | ROTA_CAP_STRICT : caps;
}

static const char *const schemes[] = {"redlock", "redlocks", NULL};
static const char *const params[] = {"max_ttl", "db", NULL};

const struct rt_engine rt_engine_redlock = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(struct rt_redlock_conn),
    .open = redlock_open,
    .close = redlock_close,
    .submit = redlock_submit,
    .cancel = redlock_cancel,
    .caps = redlock_caps,
    .forked = redlock_forked,
    .trouble = rt_redlock_trouble,
};
