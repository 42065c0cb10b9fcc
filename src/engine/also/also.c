/* SPDX-License-Identifier: Apache-2.0 */
/* The connection that is made of two. */
#include "engine/also/also.h"

#include "base/alloc.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct rt_also_row rows[] = {
    {"token", "redis", "dialect", "token", "", {NULL}},
    {"redisson", "redis", "dialect", "redisson", "", {NULL}},
    {"shedlock", "postgres", "dialect", "shedlock", "", {"table"}},
    {"advisory", "postgres", "dialect", "advisory", "", {"waits", "keys"}},
    {"shedlock", "mysql", "dialect", "shedlock", "", {"table"}},
    {"shedlock", "mariadb", "dialect", "shedlock", "", {"table"}},
    {"getlock", "mysql", "dialect", "getlock", "", {"waits"}},
    {"getlock", "mariadb", "dialect", "getlock", "", {"waits"}},
    {"late", "mem", "fence", "grant", "+also", {NULL}}, /* of the tests */
};

/* ---- Asks ----------------------------------------------------------------------------------- */

static void submit(struct rt_also_side *side, struct rt_op *op)
{
    side->depth++;
    side->conn->engine->submit(side->conn, op);
    side->depth--;
}

/* Submits what may be submitted, as long as that brings up more. */
static void pump(struct rt_also_conn *c)
{
    struct rt_also_side *sides[] = {&c->line, &c->foreign};
    for (size_t i = 0; i < 2;) {
        struct rt_also_side *side = sides[i];
        struct rt_also_ask *ask = side->queue;
        if (ask == NULL || side->depth > 0) {
            i++;
            continue;
        }
        side->queue = ask->next;
        if (side->queue == NULL)
            side->tail = &side->queue;
        submit(side, &ask->op);
        i = 0;
    }
}

void rt_also_wake(struct rt_also_conn *c, int64_t at)
{
    if (c->timer.timer.slot == 0 || at < c->timer.timer.at)
        rt_timers_at(&c->base.loop->timers, &c->timer.timer, at);
}

void rt_also_send(struct rt_also_side *side, struct rt_also_ask *ask, rt_also_answer_fn *answer,
                  void *owner)
{
    assert(!ask->busy);
    ask->op.err = 0;
    ask->op.next = NULL;
    ask->answer = answer;
    ask->owner = owner;
    ask->busy = true;
    ask->next = NULL;
    *side->tail = ask;
    side->tail = &ask->next;
    if (side->depth > 0)
        rt_also_wake(side->c, rt_loop_now(side->c->base.loop));
    else
        pump(side->c);
}

static bool take_queued(struct rt_also_side *side, struct rt_also_ask *ask)
{
    struct rt_also_ask **at = &side->queue;
    while (*at != NULL && *at != ask)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = ask->next;
    if (side->tail == &ask->next)
        side->tail = at;
    return true;
}

static void answer(struct rt_also_side *side, struct rt_also_ask *ask)
{
    ask->busy = false;
    ask->answer(side->c, ask);
}

void rt_also_cancel(struct rt_also_side *side, struct rt_also_ask *ask)
{
    if (!ask->busy)
        return;
    if (take_queued(side, ask)) {
        ask->op.err = rt_words_fail(&side->c->base, ROTA_CANCELED, "canceled");
        answer(side, ask);
        return;
    }
    side->depth++;
    side->conn->engine->cancel(side->conn, &ask->op);
    side->depth--;
}

/* ---- What comes up -------------------------------------------------------------------------- */

/* Taken over from below: why strict is refused, what was really given. */
static void follow(struct rt_also_conn *c)
{
    const struct rt_conn *line = c->line.conn, *foreign = c->foreign.conn;
    const char *unsafe = foreign->unsafe[0] != '\0' ? foreign->unsafe : line->unsafe;
    uint32_t l = line->ttl_ms, f = foreign->ttl_ms;
    memmove(c->base.unsafe, unsafe, sizeof(c->base.unsafe));
    c->base.ttl_ms = f != 0 && (l == 0 || f < l) ? f : l;
    c->base.retries = line->retries + foreign->retries;
}

/* Ops of the user that concern only the line, and go there as they are. */
static bool is_handed_on(const struct rt_op *op)
{
    return op->kind == RT_OP_OBSERVE || op->kind == RT_OP_LIST ||
           (op->kind == RT_OP_INSPECT && op->inspect.name == NULL);
}

static struct rt_also_side *side_of(struct rt_up *up)
{
    return (struct rt_also_side *)(void *)((char *)up - offsetof(struct rt_also_side, up));
}

static void up_done(struct rt_up *up, struct rt_op *op)
{
    struct rt_also_side *side = side_of(up);
    struct rt_also_conn *c = side->c;
    side->depth++;
    follow(c);
    if (op->err != 0 && side == &c->foreign)
        (void)rt_words_fail(&c->base, 0, "also=%s: %.200s", c->row->also, side->conn->errmsg);
    else if (op->err != 0)
        memcpy(c->base.errmsg, side->conn->errmsg, sizeof(c->base.errmsg));
    if (is_handed_on(op))
        rt_conn_done(&c->base, op, op->err);
    else
        answer(side, (struct rt_also_ask *)(void *)op);
    pump(c);
    side->depth--;
}

static void up_event(struct rt_up *up, const struct rt_event *event)
{
    struct rt_also_side *side = side_of(up);
    struct rt_also_conn *c = side->c;
    side->depth++;
    if (side == &c->line)
        rt_also_line_event(c, event);
    else
        rt_also_foreign_event(c, event);
    pump(c);
    side->depth--;
}

static void up_log(struct rt_up *up, int level, const char *line)
{
    struct rt_up *outer = side_of(up)->c->base.up;
    if (outer->log != NULL)
        outer->log(outer, level, line);
}

static void up_held(struct rt_up *up,
                    void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                    void *arg)
{
    struct rt_also_side *side = side_of(up);
    rt_also_held(side->c, side == &side->c->foreign, each, arg);
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_also_conn *c = (struct rt_also_conn *)(void *)((char *)call -
                                                             offsetof(struct rt_also_conn, timer));
    (void)now;
    pump(c);
    rt_also_step_all(c);
}

/* ---- Ops come in ---------------------------------------------------------------------------- */

static const struct rt_turn_kind *const kinds[] = {
    [RT_OP_BEAT] = &rt_also_beat_kind,     [RT_OP_JOIN] = &rt_also_join_kind,
    [RT_OP_JOIN_ALL] = &rt_also_join_kind, [RT_OP_CHANGE] = &rt_also_change_kind,
    [RT_OP_LEAVE] = &rt_also_leave_kind,   [RT_OP_INSPECT] = &rt_also_inspect_kind,
    [RT_OP_BREAK] = &rt_also_break_kind,   [RT_OP_CHECK] = &rt_also_check_kind,
};

static const struct rt_turn_user user = {.kinds = kinds, .who = "also"};

static void also_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_also_conn *c = rt_also_of(conn);
    if (is_handed_on(op))
        submit(&c->line, op);
    else
        rt_turns_submit(&c->turns, op);
    pump(c);
}

static void also_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_also_conn *c = rt_also_of(conn);
    if (is_handed_on(op)) {
        c->line.depth++;
        c->line.conn->engine->cancel(c->line.conn, op);
        c->line.depth--;
    } else {
        rt_turns_cancel(&c->turns, op);
    }
    pump(c);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static const struct rt_also_row *row_of(const struct rt_url *url)
{
    const char *also = rt_url_param(url, "also", "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].also, also) == 0 &&
            strncmp(url->scheme, rows[i].scheme, strlen(rows[i].scheme)) == 0)
            return &rows[i];
    return NULL;
}

static void list_rows(const char *scheme, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && n < size; i++)
        if (strncmp(scheme, rows[i].scheme, strlen(rows[i].scheme)) == 0)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n > 0 ? ", " : "", rows[i].also);
}

static int take_row(struct rt_also_conn *c, const struct rt_url *url)
{
    char known[128];
    c->row = row_of(url);
    list_rows(url->scheme, known, sizeof(known));
    if (c->row == NULL && known[0] == '\0')
        return rt_words_fail(&c->base, ROTA_INVALID,
                             "%s: has no locks of others: leave out also=", url->scheme);
    if (c->row == NULL)
        return rt_words_fail(&c->base, ROTA_INVALID, "%s: knows no also=%.40s, but %s", url->scheme,
                             rt_url_param(url, "also", ""), known);
    if (strcmp(rt_url_param(url, "dialect", "line"), "line") != 0)
        return rt_words_fail(&c->base, ROTA_INVALID,
                             "also= stands beside Rota's own line: leave out dialect=");
    return 0;
}

static bool is_theirs(const struct rt_also_row *row, const char *key)
{
    bool theirs = false;
    for (size_t i = 0; i < RT_ALSO_THEIRS && row->theirs[i] != NULL; i++)
        theirs = theirs || strcmp(row->theirs[i], key) == 0;
    return theirs;
}

/* URL as the line gets it, or as its dialect does: without also=, with the parameter that opens ROW's. */
static void rewrite(struct rt_url *out, const struct rt_url *url, const struct rt_also_row *row,
                    bool foreign)
{
    *out = *url;
    out->param_count = 0;
    for (size_t i = 0; i < url->param_count; i++) {
        const char *key = url->params[i].key;
        if (strcmp(key, "also") != 0 && strcmp(key, "dialect") != 0 &&
            (foreign ? strcmp(key, row->key) != 0 : !is_theirs(row, key)))
            out->params[out->param_count++] = url->params[i];
    }
    if (foreign)
        out->params[out->param_count++] = (struct rt_url_param){row->key, row->value};
}

static int open_side(struct rt_also_side *side, const struct rt_engine *engine,
                     const struct rt_url *url)
{
    struct rt_conn *base = &side->c->base, *conn = rt_alloc(engine->conn_size);
    if (conn == NULL)
        return rt_words_nomem(base);
    side->tail = &side->queue;
    side->up = (struct rt_up){.done = up_done, .event = up_event, .log = up_log, .held = up_held};
    conn->engine = engine;
    conn->up = &side->up;
    conn->loop = base->loop;
    conn->label = base->label;
    conn->ttl_ms = base->ttl_ms;
    conn->call_ms = base->call_ms;
    int rv = engine->open(conn, url);
    if (rv == 0) {
        side->conn = conn;
        return 0;
    }
    memcpy(base->errmsg, conn->errmsg, sizeof(base->errmsg));
    rt_free(conn);
    return rv;
}

static void close_side(struct rt_also_side *side)
{
    struct rt_conn *conn = side->conn;
    if (conn == NULL)
        return;
    conn->engine->close(conn);
    side->conn = NULL; /* first: another thread may fork */
    rt_free(conn);
}

static const char *ddl_of(const struct rt_also_side *side)
{
    const struct rt_conn *conn = side->conn;
    return conn->engine->ddl != NULL ? conn->engine->ddl(conn) : "";
}

/* The tables of both. */
static int join_ddl(struct rt_also_conn *c)
{
    const char *line = ddl_of(&c->line), *foreign = ddl_of(&c->foreign);
    size_t size = strlen(line) + strlen(foreign) + 1;
    c->ddl = rt_alloc(size);
    if (c->ddl == NULL)
        return rt_words_nomem(&c->base);
    (void)snprintf(c->ddl, size, "%s%s", line, foreign);
    return 0;
}

static int open_both(struct rt_also_conn *c, const struct rt_url *url)
{
    const struct rt_engine *engine = rt_engine_find(url->scheme);
    struct rt_url as;
    char path[RT_URL_MAX + 16];
    rewrite(&as, url, c->row, false);
    int rv = open_side(&c->line, engine, &as);
    if (rv != 0)
        return rv;
    rewrite(&as, url, c->row, true);
    (void)snprintf(path, sizeof(path), "%s%s", url->path, c->row->beside);
    as.path = path;
    rv = open_side(&c->foreign, engine, &as);
    if (rv == 0)
        rv = join_ddl(c);
    if (rv != 0) {
        close_side(&c->foreign);
        close_side(&c->line);
    }
    return rv;
}

static int also_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_also_conn *c = rt_also_of(conn);
    c->line.c = c->foreign.c = c;
    c->timer.fire = fire;
    rt_turns_init(&c->turns, conn, c, &user);
    int rv = take_row(c, url);
    if (rv != 0)
        return rv;
    if (rt_loop_reserve(conn->loop, 1) != 0)
        return rt_words_nomem(conn);
    rv = open_both(c, url);
    if (rv != 0)
        rt_loop_unreserve(conn->loop, 1);
    else
        follow(c);
    return rv;
}

static void also_close(struct rt_conn *conn)
{
    struct rt_also_conn *c = rt_also_of(conn);
    rt_timers_stop(&conn->loop->timers, &c->timer.timer);
    rt_loop_unreserve(conn->loop, 1);
    close_side(&c->foreign); /* what it holds ends first: nobody of ours is let in before */
    close_side(&c->line);
    rt_turns_close(&c->turns);
    rt_also_free_all(c);
    rt_free(c->ddl);
    c->ddl = NULL;
}

/* ---- What it can promise -------------------------------------------------------------------- */

static uint32_t caps_of(const struct rt_also_side *side)
{
    return side->conn->engine->caps(side->conn);
}

/* Waiters elsewhere cannot be seen, so no WANTED; what outlives its session does not exclude foreign clients, so
 * nothing durable; a permit is one of several that hold at once, which foreign locks cannot be. */
static uint32_t also_caps(const struct rt_conn *conn)
{
    const struct rt_also_conn *c = (const struct rt_also_conn *)(const void *)conn;
    uint32_t line = caps_of(&c->line), foreign = caps_of(&c->foreign);
    uint32_t both = ROTA_CAP_SHARED | ROTA_CAP_STRICT;
    uint32_t own = ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS;
    return (line & own) | (foreign & ROTA_CAP_TTL) | (line & foreign & both);
}

static const char *trouble_of(const struct rt_also_side *side)
{
    return side->conn->engine->trouble != NULL ? side->conn->engine->trouble(side->conn) : NULL;
}

static const char *also_trouble(const struct rt_conn *conn)
{
    const struct rt_also_conn *c = (const struct rt_also_conn *)(const void *)conn;
    const char *why = trouble_of(&c->line);
    return why != NULL ? why : trouble_of(&c->foreign);
}

static void forked_side(struct rt_also_side *side)
{
    if (side->conn != NULL && side->conn->engine->forked != NULL)
        side->conn->engine->forked(side->conn);
}

static void also_forked(struct rt_conn *conn)
{
    forked_side(&rt_also_of(conn)->line);
    forked_side(&rt_also_of(conn)->foreign);
}

static bool parting_side(struct rt_also_side *side)
{
    return side->conn->engine->parting != NULL && side->conn->engine->parting(side->conn);
}

/* Its user gave it up without a LEAVE: its time was over. */
static void give_back(struct rt_also_conn *c, struct rt_also_ticket *t)
{
    if (t->unwanted || t->joiner != NULL || t->leaver != NULL)
        return;
    t->unwanted = true;
    rt_also_step(c, t);
}

static bool also_parting(struct rt_conn *conn)
{
    struct rt_also_conn *c = rt_also_of(conn);
    rt_also_each(c, give_back);
    if (c->tickets > 0)
        return true; /* what is being given back */
    bool foreign = parting_side(&c->foreign), line = parting_side(&c->line);
    return foreign || line;
}

static const char *also_ddl(const struct rt_conn *conn)
{
    return ((const struct rt_also_conn *)(const void *)conn)->ddl;
}

static const char *const none[] = {NULL};

const struct rt_engine rt_engine_also = {
    .schemes = none, /* by those of the engine that has the line */
    .params = none,
    .conn_size = sizeof(struct rt_also_conn),
    .open = also_open,
    .parting = also_parting,
    .close = also_close,
    .submit = also_submit,
    .cancel = also_cancel,
    .caps = also_caps,
    .trouble = also_trouble,
    .forked = also_forked,
    .ddl = also_ddl,
};
