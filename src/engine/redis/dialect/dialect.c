/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dialects; what the engine is to its connection; ops before that is there. */
#include "engine/redis/dialect/dialect.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/url.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TIMERS 3

/* ---- The table -------------------------------------------------------------------------------- */

#define OWN_GRANTS (ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

static const struct rt_dia_dialect dialects[] = {
    {.name = "token",
     .caps = OWN_GRANTS,
     .unsafe =
         "dialect token: others see neither fences nor losses, and a promoted replica may lack a key; "
         "strict is for dialect line",
     .join = RT_DIA_TOKEN_JOIN,
     .leave = RT_DIA_TOKEN_LEAVE,
     .renew = RT_DIA_TOKEN_RENEW,
     .look = RT_DIA_TOKEN_LOOK,
     .list = RT_DIA_TOKEN_LIST,
     .brk = RT_DIA_TOKEN_BREAK,
     .pause_ms = 50,
     .incumbents = "SET NX PX clients (redis-py, redsync, node-redlock, redislock, Spring)"},
    {.name = "redisson",
     .caps = OWN_GRANTS,
     .unsafe =
         "dialect redisson: others see neither fences nor losses, and a promoted replica may lack a key; "
         "strict is for dialect line",
     .channel = "redisson_lock__channel",
     .join = RT_DIA_REDISSON_JOIN,
     .leave = RT_DIA_REDISSON_LEAVE,
     .renew = RT_DIA_REDISSON_RENEW,
     .look = RT_DIA_REDISSON_LOOK,
     .list = RT_DIA_REDISSON_LIST,
     .brk = RT_DIA_REDISSON_BREAK,
     .uuid = true,
     .incumbents = "Redisson's getLock"},
    {.name = "redisson-fair",
     .caps = OWN_GRANTS | ROTA_CAP_ORDER,
     .unsafe =
         "dialect redisson-fair: others see neither fences nor losses, and a promoted replica may "
         "lack a key; strict is for dialect line",
     .channel = "redisson_lock__channel",
     .join = RT_DIA_FAIR_JOIN,
     .leave = RT_DIA_FAIR_LEAVE,
     .renew = RT_DIA_FAIR_RENEW,
     .look = RT_DIA_FAIR_LOOK,
     .list = RT_DIA_FAIR_LIST,
     .brk = RT_DIA_FAIR_BREAK,
     .queues = true,
     .uuid = true,
     .incumbents = "Redisson's getFairLock"},
    {.name = "redisson-rw",
     .caps = OWN_GRANTS | ROTA_CAP_SHARED,
     .unsafe =
         "dialect redisson-rw: others see neither fences nor losses, and a promoted replica may lack a key; "
         "strict is for dialect line",
     .channel = "redisson_rwlock",
     .join = RT_DIA_RW_JOIN,
     .leave = RT_DIA_RW_LEAVE,
     .renew = RT_DIA_RW_RENEW,
     .look = RT_DIA_RW_LOOK,
     .list = RT_DIA_RW_LIST,
     .brk = RT_DIA_RW_BREAK,
     .uuid = true,
     .incumbents = "Redisson's getReadWriteLock"},
    {.name = "getset",
     .caps = ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS,
     .unsafe =
         "dialect getset is unsafe: keys tell no owner, and every client's own clock decides; use token, or line",
     .warning =
         "unsafe: keys tell no owner, and every client's own clock decides who holds; kept to be shown, "
         "use token or line",
     .join = RT_DIA_GETSET_JOIN,
     .leave = RT_DIA_GETSET_LEAVE,
     .renew = RT_DIA_GETSET_RENEW,
     .look = RT_DIA_GETSET_LOOK,
     .list = RT_DIA_GETSET_LIST,
     .brk = RT_DIA_GETSET_BREAK,
     .stamps = true,
     .pause_ms = 50,
     .incumbents = "SETNX and GETSET of a time in ms"},
    {.name = "setnx",
     .caps = ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS,
     .unsafe =
         "dialect setnx is unsafe: who dies between SETNX and EXPIRE leaves the lock for ever; use token, or line",
     .warning =
         "unsafe: who dies between SETNX and EXPIRE leaves the lock for ever, and a slow release deletes the "
         "next holder's; kept to be shown, use token or line",
     .join = RT_DIA_SETNX_JOIN,
     .leave = RT_DIA_TOKEN_LEAVE,
     .renew = RT_DIA_TOKEN_RENEW,
     .look = RT_DIA_TOKEN_LOOK,
     .list = RT_DIA_TOKEN_LIST,
     .brk = RT_DIA_TOKEN_BREAK,
     .in_steps = true,
     .pause_ms = 50,
     .incumbents = "SETNX and EXPIRE"},
};

const struct rt_dia_dialect *rt_dia_find(const char *name)
{
    for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++)
        if (strcmp(dialects[i].name, name) == 0)
            return &dialects[i];
    return NULL;
}

/* ---- Requests --------------------------------------------------------------------------------- */

struct rt_dia_request *rt_dia_request_new(struct rt_dia_conn *c, enum rt_dia_script script,
                                          struct rt_redis_args *a, size_t key, size_t count,
                                          rt_dia_answer_fn *answer)
{
    size_t size = sizeof(struct rt_dia_request) + count * sizeof(uint64_t);
    struct rt_dia_request *rq = (struct rt_dia_request *)(void *)rt_resp_request_new(
        size, (int)script, 0, a->count, a->at, a->lengths);
    assert(key < a->count || a->count == 0);
    rt_redis_args_close(a);
    if (rq == NULL) {
        (void)rt_words_nomem(&c->base);
        return NULL;
    }
    rq->answer = answer;
    rq->key = rq->call.argc > 0 ? rq->call.args[key] : "rota:{f}";
    rq->nonces = (uint64_t *)(void *)(rq + 1);
    rq->count = count;
    rq->session = c->spin.session;
    /* Asking again finds out what these did. */
    rq->call.traced = script == c->dialect->join || script == c->dialect->leave ||
                      script == c->dialect->brk;
    return rq;
}

void rt_dia_send(struct rt_dia_conn *c, struct rt_dia_request *rq)
{
    rt_resp_send(&c->link, &rq->call);
}

struct rt_dia_request *rt_dia_ask(struct rt_dia_conn *c, enum rt_dia_script script,
                                  struct rt_redis_args *a, size_t key, struct rt_op *op,
                                  struct rt_work *w, rt_dia_answer_fn *answer)
{
    struct rt_dia_request *rq = rt_dia_request_new(c, script, a, key, 0, answer);
    if (rq == NULL)
        return NULL;
    rq->owner = w;
    rq->call.entry.op = op;
    rq->call.entry.pending = w != NULL ? &w->pending : NULL;
    if (op != NULL || (w != NULL && w->op != NULL))
        rq->call.entry.deadline = op != NULL ? op->deadline : w->op->deadline;
    rt_dia_send(c, rq);
    return rq;
}

int rt_dia_odd(struct rt_dia_conn *c, const struct rt_dia_request *rq)
{
    return rt_dia_fail(c, ROTA_UNKNOWN, "the server's answer to script %s makes no sense",
                       rt_dia_texts[rq->call.script][0].name);
}

/* ---- On its connection --------------------------------------------------------------------------- */

static struct rt_resp_text on_text(const struct rt_resp_conn *link, int script)
{
    const struct rt_redis_text *t = &rt_dia_texts[script][0];
    (void)link;
    return (struct rt_resp_text){t->text, t->length, t->sha1};
}

static const char *on_key(struct rt_resp_conn *link, const struct rt_resp_request *rq)
{
    (void)link;
    return ((const struct rt_dia_request *)(const void *)rq)->key;
}

static void on_answer(struct rt_resp_conn *link, struct rt_resp_request *call, int err, int status,
                      const redisReply *reply)
{
    struct rt_dia_request *rq = (struct rt_dia_request *)(void *)call;
    if (rq->answer != NULL)
        rq->answer(rt_dia_of_link(link), rq, err, status, reply);
}

static void on_mark(struct rt_resp_link *l)
{
    struct rt_dia_conn *c = rt_dia_of_link(l->conn);
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    struct rt_dia_request *rq = rt_dia_request_new(c, RT_DIA_PING, &a, 0, 0, NULL);
    rt_resp_mark(l, rq != NULL ? &rq->call : NULL, NULL, 0);
}

static bool on_marked(struct rt_resp_link *l, const redisReply *reply)
{
    (void)l;
    (void)reply;
    return true;
}

static void on_link(struct rt_resp_conn *link, bool up)
{
    rt_conn_event(link->base, &(struct rt_event){.kind = RT_LINK, .up = up});
}

static void on_pushed(struct rt_resp_conn *link, struct rt_resp_node *node, const char *channel,
                      const char *message, size_t size)
{
    (void)node;
    (void)message; /* also that it is subscribed: what was said before was not heard */
    (void)size;
    rt_dia_word(rt_dia_of_link(link), channel);
}

static bool on_listens(struct rt_resp_conn *link, const struct rt_resp_node *node)
{
    (void)node;
    return rt_dia_of_link(link)->spin.waiting > 0;
}

/* ---- Ops come in ------------------------------------------------------------------------------------ */

static void begin(struct rt_dia_conn *c, struct rt_op *op)
{
    static int (*const table[])(struct rt_dia_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = rt_dia_begin_beat,       [RT_OP_JOIN] = rt_dia_begin_join,
        [RT_OP_JOIN_ALL] = rt_dia_begin_join,   [RT_OP_CHANGE] = rt_dia_begin_change,
        [RT_OP_LEAVE] = rt_dia_begin_leave,     [RT_OP_OBSERVE] = rt_dia_begin_observe,
        [RT_OP_INSPECT] = rt_dia_begin_inspect, [RT_OP_LIST] = rt_dia_begin_list,
        [RT_OP_BREAK] = rt_dia_begin_break,     [RT_OP_CHECK] = rt_dia_begin_check,
    };
    assert((unsigned)op->kind < sizeof(table) / sizeof(table[0]));
    int rv = table[op->kind](c, op);
    if (rv != 0)
        rt_conn_done(&c->base, op, rv);
}

static void follow_early(struct rt_dia_conn *c)
{
    int64_t at = RT_NEVER;
    for (const struct rt_op *op = c->early; op != NULL; op = op->next)
        at = op->deadline < at ? op->deadline : at;
    rt_timers_at(&c->base.loop->timers, &c->early_timer.timer, at);
}

static struct rt_op *take_early(struct rt_dia_conn *c, struct rt_op **at)
{
    struct rt_op *op = *at;
    *at = op->next;
    if (c->early_tail == &op->next)
        c->early_tail = at;
    op->next = NULL;
    return op;
}

static void early_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_dia_conn *c = RT_DIA_OF_TIMER(call, early_timer);
    for (struct rt_op **at = &c->early; *at != NULL;) {
        if ((*at)->deadline > now) {
            at = &(*at)->next;
            continue;
        }
        struct rt_op *op = take_early(c, at);
        const char *why = c->link.last_trouble;
        rt_conn_done(&c->base, op,
                     rt_dia_fail(c, ROTA_UNREACHABLE, "%.200s",
                                 why[0] != '\0' ? why : "the server has not answered yet"));
    }
    follow_early(c);
}

static void on_failed(struct rt_resp_conn *link)
{
    struct rt_dia_conn *c = rt_dia_of_link(link);
    while (c->early != NULL) {
        struct rt_op *op = take_early(c, &c->early);
        rt_conn_done(&c->base, op, rt_dia_fail(c, link->fatal, "%s", link->fatal_text));
    }
    follow_early(c);
}

static void on_linked(struct rt_resp_conn *link, struct rt_resp_node *node)
{
    struct rt_dia_conn *c = rt_dia_of_link(link);
    (void)node;
    rt_dia_verify(c);
    while (c->early != NULL)
        begin(c, take_early(c, &c->early));
    follow_early(c);
}

static void dialect_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_dia_conn *c = rt_dia_of(conn);
    if (c->link.places != NULL && c->early == NULL) {
        begin(c, op);
        return;
    }
    op->next = NULL;
    *c->early_tail = op;
    c->early_tail = &op->next;
    follow_early(c);
    rt_resp_want(&c->link);
}

static void unleave(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    struct rt_dia_conn *c = rt_dia_of_spin(s);
    if (rt_dia_ticket(t)->leaver == arg) {
        rt_dia_ticket(t)->leaver = NULL;
        rt_conn_done(&c->base, arg, rt_dia_fail(c, ROTA_UNKNOWN, "canceled"));
    }
}

/* Without a word: its client closes. */
static void drop_leaver(struct rt_spin *s, struct rt_spin_ticket *t, void *arg)
{
    (void)s;
    (void)arg;
    rt_dia_ticket(t)->leaver = NULL;
}

static void dialect_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_dia_conn *c = rt_dia_of(conn);
    for (struct rt_op **at = &c->early; *at != NULL; at = &(*at)->next)
        if (*at == op) {
            (void)take_early(c, at);
            follow_early(c);
            rt_conn_done(conn, op, rt_dia_fail(c, ROTA_CANCELED, "canceled"));
            return;
        }
    for (struct rt_work *w = c->works; w != NULL; w = w->next)
        if (w->op == op) {
            int err = op->kind == RT_OP_BEAT ? ROTA_UNKNOWN : ROTA_CANCELED;
            rt_work_end(conn, w, rt_dia_fail(c, err, "canceled"));
            return;
        }
    if (!rt_ledger_cancel(&c->link.ledger, op) && op->kind == RT_OP_LEAVE)
        rt_spin_each(&c->spin, unleave, op);
}

static const char *dialect_trouble(const struct rt_conn *conn)
{
    const struct rt_dia_conn *c = (const struct rt_dia_conn *)(const void *)conn;
    bool waits = !RT_RING_EMPTY(&c->link.ledger.waiting) || c->early != NULL;
    return waits && c->link.last_trouble[0] != '\0' ? c->link.last_trouble : NULL;
}

/* ---- The engine --------------------------------------------------------------------------------------- */

static const struct rt_resp_user user = {
    .name = "redis",
    .keys = "~rota:*, and the keys of the locks (~NAME; of Redisson's also ~redisson*)",
    .scripts = RT_DIA_SCRIPTS,
    .places = 1,
    /* Keys of one lock are in one slot, the counter of fences is not. */
    .no_cluster = "this dialect is for one server, or for Sentinel",
    .text = on_text,
    .key = on_key,
    .answer = on_answer,
    .mark = on_mark,
    .marked = on_marked,
    .link = on_link,
    .linked = on_linked,
    .failed = on_failed,
    .pushed = on_pushed,
    .listens = on_listens,
};

static int take_dialect(struct rt_dia_conn *c, const struct rt_url *url)
{
    const char *name = rt_url_param(url, "dialect", "");
    c->dialect = rt_dia_find(name);
    if (c->dialect == NULL)
        return rt_dia_fail(c, ROTA_INVALID, "redis: has no dialect '%.40s', but " RT_DIA_NAMES,
                           name);
    if (rt_url_param(url, "replicas", NULL) != NULL)
        return rt_dia_fail(c, ROTA_INVALID,
                           "?replicas= is for dialect line: %s does not wait for replicas", name);
    return 0;
}

static int dialect_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_dia_conn *c = rt_dia_of(conn);
    int rv = take_dialect(c, url);
    if (rv == 0)
        rv = rt_resp_conn_open(&c->link, conn, url, &user);
    if (rv != 0)
        return rv;
    (void)snprintf(conn->unsafe, sizeof(conn->unsafe), "%s", c->dialect->unsafe);
    c->early_tail = &c->early;
    c->early_timer.fire = early_fire;
    c->look_timer.fire = rt_dia_look_fire;
    rt_spin_init(&c->spin, conn, &rt_dia_spin_user,
                 c->dialect->pause_ms != 0 ? c->dialect->pause_ms : conn->ttl_ms / 6,
                 c->link.jitter);
    rv = rt_loop_reserve(conn->loop, TIMERS);
    if (rv != 0) {
        rt_resp_conn_close(&c->link);
        return rt_words_nomem(conn);
    }
    if (c->dialect->warning != NULL)
        rt_words_log(conn, ROTA_LOG_WARN, "dialect %s: %s", c->dialect->name, c->dialect->warning);
    rt_resp_want(&c->link);
    return 0;
}

static void dialect_close(struct rt_conn *conn)
{
    struct rt_dia_conn *c = rt_dia_of(conn);
    rt_spin_each(&c->spin, drop_leaver, NULL);
    rt_spin_fini(&c->spin);
    rt_view_close(&c->views);
    rt_timers_stop(&conn->loop->timers, &c->early_timer.timer);
    rt_timers_stop(&conn->loop->timers, &c->look_timer.timer);
    rt_loop_unreserve(conn->loop, TIMERS);
    rt_resp_conn_close(&c->link);
    rt_work_close(&c->works, conn);
}

static void dialect_forked(struct rt_conn *conn)
{
    rt_resp_conn_forked(&rt_dia_of(conn)->link);
}

static uint32_t dialect_caps(const struct rt_conn *conn)
{
    return ((const struct rt_dia_conn *)(const void *)conn)->dialect->caps;
}

static const char *const schemes[] = {NULL};

const struct rt_engine rt_engine_dialect = {
    .schemes = schemes, /* by those of the engine redis */
    .params = schemes,
    .conn_size = sizeof(struct rt_dia_conn),
    .open = dialect_open,
    .close = dialect_close,
    .submit = dialect_submit,
    .cancel = dialect_cancel,
    .caps = dialect_caps,
    .forked = dialect_forked,
    .trouble = dialect_trouble,
};
