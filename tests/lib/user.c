/* SPDX-License-Identifier: Apache-2.0 */
/* A user of an engine for tests. */
#include "lib/user.h"

#include "base/alloc.h"
#include "engine/also/also.h"
#include "engine/url.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CALL_MS 5000
#define CLOSING_TURNS 4 /* watches end in the turn after they were stopped */

/* ---- What it believes ------------------------------------------------------------------- */

static size_t find_held(const struct user *u, const char *name, uint64_t number)
{
    size_t i = 0;
    while (i < u->held_count && (u->held[i].number != number || strcmp(u->held[i].name, name) != 0))
        i++;
    return i;
}

static void forget(struct user *u, const char *name, uint64_t number)
{
    size_t i = find_held(u, name, number);
    if (i < u->held_count)
        u->held[i] = u->held[--u->held_count];
}

static void believe(struct user *u, const struct rt_join *j)
{
    assert_true(u->held_count < USER_HELD_MAX);
    snprintf(u->held[u->held_count].name, sizeof(u->held[0].name), "%s", j->name);
    u->held[u->held_count].number = j->number;
    u->held[u->held_count++].granted = j->granted;
}

static void believe_event(struct user *u, const struct rt_event *e)
{
    size_t i = e->name != NULL ? find_held(u, e->name, e->number) : u->held_count;
    if (e->kind == RT_GRANTED && i < u->held_count)
        u->held[i].granted = true;
    if (e->kind == RT_TICKET_LOST)
        forget(u, e->name, e->number);
    if (e->kind == RT_SESSION_LOST)
        u->held_count = 0;
}

static void on_held(struct rt_up *up,
                    void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                    void *arg)
{
    const struct user *u = (const struct user *)(const void *)up;
    for (size_t i = 0; i < u->held_count; i++)
        each(arg, u->held[i].name, u->held[i].number, u->held[i].granted);
}

/* ---- Up --------------------------------------------------------------------------------- */

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct user *u = (struct user *)(void *)up;
    u->done++;
    if (op->err != 0)
        snprintf(u->errmsg, sizeof(u->errmsg), "%s", u->conn->errmsg);
    /* At once: what a beat's answer right after this one counts must agree. */
    bool joined = op->err == 0 && (op->kind == RT_OP_JOIN || op->kind == RT_OP_JOIN_ALL);
    for (size_t i = 0; joined && i < op->join.n; i++)
        if (!(op->join.joins[i].flags & RT_JOIN_DURABLE))
            believe(u, &op->join.joins[i]);
    if (op->kind == RT_OP_LEAVE && (op->err == 0 || op->err == ROTA_LOST))
        forget(u, op->leave.name, op->leave.number);
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    struct user *u = (struct user *)(void *)up;
    if (e->kind == RT_LINK)
        return;
    assert_true(u->told_count < USER_TOLD_MAX);
    struct told *t = &u->told[u->told_count++];
    *t = (struct told){.kind = e->kind,
                       .session = e->session,
                       .number = e->number,
                       .fence = e->kind == RT_GRANTED ? e->fence : e->front.fence,
                       .count = e->count};
    snprintf(t->name, sizeof(t->name), "%s", e->name != NULL ? e->name : "");
    snprintf(t->value, sizeof(t->value), "%s", e->front.value != NULL ? e->front.value : "");
    believe_event(u, e);
}

static void on_log(struct rt_up *up, int level, const char *line)
{
    struct user *u = (struct user *)(void *)up;
    (void)level;
    snprintf(u->log, sizeof(u->log), "%s", line);
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
}

/* ---- Life and ops ----------------------------------------------------------------------- */

/* As the client does: its first line is the password. */
static void take_password(struct rt_url *url, char *out, size_t size)
{
    const char *path = rt_url_param(url, "password_file", NULL);
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    if (f != NULL && fgets(out, (int)size, f) != NULL) {
        out[strcspn(out, "\n")] = '\0';
        url->password = out;
    }
    if (f != NULL)
        fclose(f);
}

static int open_with(struct user *u, const char *text, uint32_t ttl_ms)
{
    struct rt_url url;
    char password[256];
    memset(u, 0, sizeof(*u));
    u->up = (struct rt_up){.done = on_done, .event = on_event, .held = on_held, .log = on_log};
    int rv = rt_url_parse(&url, text, u->errmsg, sizeof(u->errmsg));
    if (rv != 0)
        return rv;
    rv = rt_loop_init(&u->loop);
    if (rv != 0) {
        rt_url_fini(&url);
        return rv;
    }
    const struct rt_engine *engine = rt_url_param(&url, "also", NULL) != NULL
                                         ? &rt_engine_also
                                         : rt_engine_find(url.scheme);
    assert_non_null(engine);
    u->conn = rt_alloc(engine->conn_size);
    rv = ROTA_NOMEM;
    if (u->conn != NULL) {
        *u->conn = (struct rt_conn){.engine = engine,
                                    .up = &u->up,
                                    .loop = &u->loop,
                                    .label = "test/label",
                                    .ttl_ms = ttl_ms,
                                    .call_ms = CALL_MS};
        take_password(&url, password, sizeof(password));
        rv = engine->open(u->conn, &url);
        snprintf(u->errmsg, sizeof(u->errmsg), "%s", u->conn->errmsg);
    }
    rt_url_fini(&url);
    if (rv != 0) {
        rt_free(u->conn);
        u->conn = NULL;
        rt_loop_fini(&u->loop);
    }
    return rv;
}

int user_open(struct user *u, const char *url)
{
    return open_with(u, url, 0);
}

void user_close(struct user *u)
{
    u->conn->engine->close(u->conn);
    rt_free(u->conn);
    for (int i = 0; i < CLOSING_TURNS; i++) {
        rt_loop_arm(&u->loop);
        rt_loop_turn(&u->loop, no_other, NULL);
    }
    rt_loop_fini(&u->loop);
}

void user_start(struct user *u, const char *url, uint32_t ttl_ms)
{
    assert_int_equal(open_with(u, url, ttl_ms), 0);
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    op.beat.open = true;
    assert_int_equal(user_do(u, &op), 0);
    if (ttl_ms != 0)
        assert_int_equal(op.beat.ttl_ms, ttl_ms);
    u->session = op.beat.session;
    assert_true(u->session != 0 && u->session <= INT64_MAX);
}

void user_turn(struct user *u, int limit_ms)
{
    rt_loop_arm(&u->loop);
    if (u->loop.dirty)
        rt_loop_turn(&u->loop, no_other, NULL);
    rt_loop_arm(&u->loop);
    struct pollfd p = {.fd = rt_loop_fd(&u->loop), .events = POLLIN};
    (void)poll(&p, 1, limit_ms);
    rt_loop_tick(&u->loop);
    rt_loop_turn(&u->loop, no_other, NULL);
}

int user_do(struct user *u, struct rt_op *op)
{
    int before = u->done;
    int64_t now = rt_loop_tick(&u->loop), limit = now + USER_LIMIT_MS * RT_MS;
    if (op->deadline == 0)
        op->deadline = now + CALL_MS * RT_MS;
    u->conn->engine->submit(u->conn, op);
    while (u->done == before && rt_loop_tick(&u->loop) < limit)
        user_turn(u, 100);
    assert_int_equal(u->done, before + 1);
    return op->err;
}

int user_beat(struct user *u)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    op.beat.session = u->session;
    return user_do(u, &op);
}

int user_join(struct user *u, const char *name, struct rt_join *j)
{
    static uint64_t nonce = 1;
    j->name = name;
    if (j->session == 0)
        j->session = u->session;
    if (j->nonce == 0)
        j->nonce = nonce++;
    struct rt_op op = {.kind = RT_OP_JOIN, .deadline = RT_NEVER};
    op.join.joins = j;
    op.join.n = 1;
    return user_do(u, &op);
}

int user_leave(struct user *u, const char *name, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
    op.leave.name = name;
    op.leave.session = u->session;
    op.leave.number = number;
    return user_do(u, &op);
}

static void count_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)name;
    (void)count;
    (void)granted;
    ++*(size_t *)arg;
}

size_t user_lines(struct user *u, const char *prefix)
{
    size_t n = 0;
    struct rt_op op = {.kind = RT_OP_LIST, .deadline = RT_NEVER};
    op.list.prefix = prefix;
    op.list.each = count_line;
    op.list.arg = &n;
    assert_int_equal(user_do(u, &op), 0);
    return n;
}

size_t user_hear(struct user *u, enum rt_event_kind kind, uint64_t number, size_t from)
{
    int64_t limit = rt_loop_tick(&u->loop) + USER_LIMIT_MS * RT_MS;
    size_t i = from;
    for (;;) {
        for (; i < u->told_count; i++)
            if (u->told[i].kind == kind && (number == 0 || u->told[i].number == number))
                return i;
        if (rt_loop_tick(&u->loop) >= limit)
            fail_msg("event %d for %llu did not come", (int)kind, (unsigned long long)number);
        user_turn(u, 100);
    }
}
