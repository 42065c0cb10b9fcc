/* SPDX-License-Identifier: Apache-2.0 */
/* A wrapper that tells what goes to and comes from an engine, one line each. */
#include "engine/trace/trace.h"

#include "net/loop.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define TEXT_MAX 512 /* longer names are cut: the line is for people */

struct trace_conn {
    struct rt_wrap wrap;
    int64_t began;
};

struct text {
    char line[TEXT_MAX];
    size_t length;
};

static struct trace_conn *trace(struct rt_conn *conn)
{
    return (struct trace_conn *)(void *)conn;
}

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof(text->line) - text->length;
    int n = vsnprintf(text->line + text->length, room, format, args);
    va_end(args);
    if (n > 0)
        text->length += (size_t)n < room ? (size_t)n : room - 1;
}

static void begin(struct trace_conn *tc, struct text *text, char direction)
{
    int64_t us = (rt_loop_now(tc->wrap.conn.loop) - tc->began) / (RT_MS / 1000);
    text->length = 0;
    put(text, "%" PRId64 ".%03d %c ", us / 1000, (int)(us % 1000), direction);
}

static void end(struct trace_conn *tc, struct text *text)
{
    struct rt_up *up = tc->wrap.conn.up;
    up->log(up, ROTA_LOG_TRACE, text->line);
}

/* ---- What is asked ------------------------------------------------------ */

static void put_join(struct text *text, const struct rt_join *join)
{
    static const char *const modes[] = {"exclusive", "shared", "permits", "count", "gather"};
    static const char *const flags[] = {"try", "durable", "arm", "detect"};
    put(text, " %s session=%" PRIu64 " nonce=%" PRIu64 " %s", join->name, join->session,
        join->nonce, join->mode <= RT_GATHER ? modes[join->mode] : "?");
    if (join->take != 0 || join->of != 0)
        put(text, " take=%u of=%u", join->take, join->of);
    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (join->flags & 1u << i)
            put(text, " %s", flags[i]);
    if (join->at_least_ms != 0)
        put(text, " at_least=%" PRId64, join->at_least_ms);
    if (join->until_ms != 0)
        put(text, " until=%" PRId64, join->until_ms);
    if (join->value != NULL)
        put(text, " value=\"%s\"", join->value);
}

static void put_change(struct text *text, const struct rt_op *op)
{
    put(text, " %s session=%" PRIu64 " number=%" PRIu64, op->change.name, op->change.session,
        op->change.number);
    if (op->change.what & RT_CHANGE_DOWNGRADE)
        put(text, " downgrade");
    if (op->change.what & RT_CHANGE_VALUE)
        put(text, " value=\"%s\"", op->change.value != NULL ? op->change.value : "");
    if (op->change.what & RT_CHANGE_ARM)
        put(text, " arm");
}

static void put_leave(struct text *text, const struct rt_op *op)
{
    put(text, " %s session=%" PRIu64, op->leave.name, op->leave.session);
    if (op->leave.number != 0)
        put(text, " number=%" PRIu64, op->leave.number);
    else
        put(text, " nonce=%" PRIu64, op->leave.nonce);
    if (op->leave.untold)
        put(text, " untold");
}

static void put_beat(struct text *text, const struct rt_op *op)
{
    if (op->beat.open)
        put(text, " open");
    else
        put(text, " session=%" PRIu64 " tickets=%zu", op->beat.session, op->beat.ticket_count);
}

static const char *kind_name(enum rt_op_kind kind)
{
    static const char *const names[] = {
        [RT_OP_BEAT] = "BEAT",       [RT_OP_JOIN] = "JOIN",   [RT_OP_JOIN_ALL] = "JOIN_ALL",
        [RT_OP_CHANGE] = "CHANGE",   [RT_OP_LEAVE] = "LEAVE", [RT_OP_OBSERVE] = "OBSERVE",
        [RT_OP_INSPECT] = "INSPECT", [RT_OP_LIST] = "LIST",   [RT_OP_BREAK] = "BREAK",
        [RT_OP_CHECK] = "CHECK",
    };
    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

static void put_asked(struct text *text, const struct rt_op *op)
{
    switch (op->kind) {
    case RT_OP_BEAT:
        put_beat(text, op);
        break;
    case RT_OP_JOIN:
    case RT_OP_JOIN_ALL:
        for (size_t i = 0; i < op->join.n; i++)
            put_join(text, &op->join.joins[i]);
        break;
    case RT_OP_CHANGE:
        put_change(text, op);
        break;
    case RT_OP_LEAVE:
        put_leave(text, op);
        break;
    case RT_OP_OBSERVE:
        put(text, " %s%s", op->observe.name != NULL ? op->observe.name : "",
            op->observe.stop ? " stop" : "");
        break;
    case RT_OP_INSPECT:
        if (op->inspect.name != NULL)
            put(text, " %s", op->inspect.name);
        else
            put(text, " session=%" PRIu64, op->inspect.session);
        break;
    case RT_OP_LIST:
        put(text, " prefix=\"%s\"", op->list.prefix != NULL ? op->list.prefix : "");
        break;
    case RT_OP_BREAK:
        put(text, " %s number=%" PRIu64, op->brk.name, op->brk.number);
        break;
    case RT_OP_CHECK:
        break;
    }
}

/* ---- What is answered --------------------------------------------------- */

static void put_joined(struct text *text, const struct rt_join *join, bool ok)
{
    put(text, " %s", join->name);
    if (ok)
        put(text, " number=%" PRIu64 " %s%s", join->number, join->granted ? "granted" : "waits",
            join->wanted ? " wanted" : "");
}

static void put_answered(struct text *text, const struct rt_op *op)
{
    bool ok = op->err == 0;
    switch (op->kind) {
    case RT_OP_BEAT:
        put(text, " session=%" PRIu64, op->beat.session);
        if (ok)
            put(text, " ttl=%u", op->beat.ttl_ms);
        break;
    case RT_OP_JOIN:
    case RT_OP_JOIN_ALL:
        for (size_t i = 0; i < op->join.n; i++)
            put_joined(text, &op->join.joins[i], ok);
        break;
    case RT_OP_CHANGE:
        put(text, " %s number=%" PRIu64 "%s", op->change.name, op->change.number,
            ok && op->change.wanted ? " wanted" : "");
        break;
    default:
        put_asked(text, op);
        break;
    }
}

static const char *error_name(int err)
{
    switch (err) {
    case 0:
        return "ok";
#define ERROR_CASE(name, value, text) \
    case value:                       \
        return #name;
        ROTA_ERRORS(ERROR_CASE)
#undef ERROR_CASE
    default:
        return "?";
    }
}

static void done(struct rt_up *up, struct rt_op *op)
{
    struct rt_wrap *wrap = rt_wrap_of_up(up);
    struct trace_conn *tc = trace(&wrap->conn);
    rt_wrap_follow(wrap);
    if (wrap->conn.up->log != NULL) {
        struct text text;
        begin(tc, &text, '<');
        put(&text, "%s", kind_name(op->kind));
        put_answered(&text, op);
        put(&text, ": %s", error_name(op->err));
        end(tc, &text);
    }
    wrap->conn.up->done(wrap->conn.up, op);
}

static void put_event(struct text *text, const struct rt_event *event)
{
    static const char *const names[] = {"GRANTED",     "WANTED",       "CHANGED",
                                        "TICKET_LOST", "SESSION_LOST", "LINK"};
    put(text, "%s", names[event->kind]);
    if (event->name != NULL)
        put(text, " %s", event->name);
    if (event->kind == RT_LINK)
        put(text, " %s", event->up ? "up" : "down");
    else if (event->kind == RT_CHANGED)
        put(text, " front=%" PRIu64 " value=\"%s\" count=%zu", event->front.fence,
            event->front.value, event->count);
    else
        put(text, " session=%" PRIu64, event->session);
    if (event->number != 0)
        put(text, " number=%" PRIu64, event->number);
    if (event->fence != 0)
        put(text, " fence=%" PRIu64, event->fence);
}

static void event_up(struct rt_up *up, const struct rt_event *event)
{
    struct rt_wrap *wrap = rt_wrap_of_up(up);
    if (wrap->conn.up->log != NULL) {
        struct text text;
        begin(trace(&wrap->conn), &text, '!');
        put_event(&text, event);
        end(trace(&wrap->conn), &text);
    }
    rt_conn_event(&wrap->conn, event);
}

static void log_up(struct rt_up *up, int level, const char *line)
{
    struct rt_wrap *wrap = rt_wrap_of_up(up);
    if (wrap->conn.up->log != NULL)
        wrap->conn.up->log(wrap->conn.up, level, line);
}

/* ---- The engine --------------------------------------------------------- */

static void trace_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct trace_conn *tc = trace(conn);
    if (conn->up->log != NULL) {
        struct text text;
        begin(tc, &text, '>');
        put(&text, "%s", kind_name(op->kind));
        put_asked(&text, op);
        end(tc, &text);
    }
    tc->wrap.inner->engine->submit(tc->wrap.inner, op);
}

static void trace_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct trace_conn *tc = trace(conn);
    if (conn->up->log != NULL) {
        struct text text;
        begin(tc, &text, 'x');
        put(&text, "%s", kind_name(op->kind));
        put_asked(&text, op);
        end(tc, &text);
    }
    tc->wrap.inner->engine->cancel(tc->wrap.inner, op);
}

static int trace_open(struct rt_conn *conn, const struct rt_url *url)
{
    (void)conn;
    (void)url;
    return ROTA_INTERNAL; /* put on by rt_trace_wrap, never found by a URL */
}

static void trace_close(struct rt_conn *conn)
{
    rt_wrap_close_inner(&trace(conn)->wrap);
}

static const char *const none[] = {NULL};

static const struct rt_engine trace_engine = {
    .schemes = none,
    .params = none,
    .conn_size = sizeof(struct trace_conn),
    .open = trace_open,
    .close = trace_close,
    .submit = trace_submit,
    .cancel = trace_cancel,
    .caps = rt_wrap_caps,
    .forked = rt_wrap_forked,
    .keep = rt_wrap_keep,
    .parting = rt_wrap_parting,
    .trouble = rt_wrap_trouble,
};

int rt_trace_wrap(struct rt_conn **conn)
{
    int rv = rt_wrap_put(conn, &trace_engine);
    if (rv != 0)
        return rv;
    struct trace_conn *tc = trace(*conn);
    tc->wrap.up = (struct rt_up){
        .done = done, .event = event_up, .log = log_up, .held = rt_wrap_held};
    tc->began = rt_loop_now((*conn)->loop);
    return 0;
}
