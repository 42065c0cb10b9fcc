/* SPDX-License-Identifier: Apache-2.0 */
/* A user of an engine for tests. */
#include "user.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT_MS 20000

#define CLOSING_TURNS 4 /* watches end in the turn after they were stopped */

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct user *u = (struct user *)(void *)up;
    u->done++;
    if (op->err != 0)
        snprintf(u->errmsg, sizeof(u->errmsg), "%s", u->conn->errmsg);
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    struct user *u = (struct user *)(void *)up;
    assert_true(u->told_count < USER_TOLD_MAX);
    struct told *t = &u->told[u->told_count++];
    *t = (struct told){.kind = e->kind,
                       .session = e->session,
                       .number = e->number,
                       .fence = e->front.fence,
                       .count = e->count};
    snprintf(t->name, sizeof(t->name), "%s", e->name != NULL ? e->name : "");
    snprintf(t->value, sizeof(t->value), "%s", e->front.value != NULL ? e->front.value : "");
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

int user_open(struct user *u, const char *text)
{
    struct rt_url url;
    memset(u, 0, sizeof(*u));
    u->up = (struct rt_up){.done = on_done, .event = on_event, .log = on_log};
    int rv = rt_url_parse(&url, text, u->errmsg, sizeof(u->errmsg));
    if (rv != 0)
        return rv;
    rv = rt_loop_init(&u->loop);
    if (rv != 0) {
        rt_url_fini(&url);
        return rv;
    }
    const struct rt_engine *engine = rt_engine_find(url.scheme);
    assert_non_null(engine);
    u->conn = rt_alloc(engine->conn_size);
    rv = ROTA_NOMEM;
    if (u->conn != NULL) {
        u->conn->engine = engine;
        u->conn->up = &u->up;
        u->conn->loop = &u->loop;
        u->conn->label = "test/label";
        u->conn->call_ms = 2000;
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

void user_start(struct user *u, const char *url)
{
    assert_int_equal(user_open(u, url), 0);
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    op.beat.open = true;
    assert_int_equal(user_do(u, &op), 0);
    u->session = op.beat.session;
}

void user_turn(struct user *u, int limit_ms)
{
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
    rt_loop_tick(&u->loop);
    u->conn->engine->submit(u->conn, op);
    int64_t limit = rt_loop_tick(&u->loop) + LIMIT_MS * RT_MS;
    while (u->done == before && rt_loop_tick(&u->loop) < limit)
        user_turn(u, 100);
    assert_int_equal(u->done, before + 1);
    return op->err;
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

size_t user_hear(struct user *u, enum rt_event_kind kind, uint64_t number, size_t from)
{
    int64_t limit = rt_loop_tick(&u->loop) + LIMIT_MS * RT_MS;
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
