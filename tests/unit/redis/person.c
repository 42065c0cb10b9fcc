/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the Redis engine for tests: one connection on a real loop, and what it was told. */
#include "person.h"

#include "engine/url.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct rt_engine rt_engine_redis;

/* ---- What it believes ------------------------------------------------------------------- */

static size_t find_held(const struct person *u, const char *name, uint64_t number)
{
    size_t i = 0;
    while (i < u->held_count && (u->held[i].number != number || strcmp(u->held[i].name, name) != 0))
        i++;
    return i;
}

static void forget(struct person *u, const char *name, uint64_t number)
{
    size_t i = find_held(u, name, number);
    if (i < u->held_count)
        u->held[i] = u->held[--u->held_count];
}

static void believe(struct person *u, const struct rt_join *j)
{
    assert_true(u->held_count < PERSON_HELD_MAX);
    snprintf(u->held[u->held_count].name, sizeof(u->held[0].name), "%s", j->name);
    u->held[u->held_count].number = j->number;
    u->held[u->held_count++].granted = j->granted;
}

static void on_held(struct rt_up *up,
                    void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                    void *arg)
{
    const struct person *u = (const struct person *)(const void *)up;
    for (size_t i = 0; i < u->held_count; i++)
        each(arg, u->held[i].name, u->held[i].number, u->held[i].granted);
}

/* ---- Up --------------------------------------------------------------------------------- */

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct person *u = (struct person *)(void *)up;
    u->done++;
    if (op->err != 0)
        snprintf(u->errmsg, sizeof(u->errmsg), "%s", u->conn->base.errmsg);
    /* At once: what a beat's answer behind this one counts must fit. */
    for (size_t i = 0;
         op->err == 0 && (op->kind == RT_OP_JOIN || op->kind == RT_OP_JOIN_ALL) && i < op->join.n;
         i++)
        if (!(op->join.joins[i].flags & RT_JOIN_DURABLE))
            believe(u, &op->join.joins[i]);
    if (op->kind == RT_OP_LEAVE && (op->err == 0 || op->err == ROTA_LOST))
        forget(u, op->leave.name, op->leave.number);
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    struct person *u = (struct person *)(void *)up;
    if (e->kind == RT_LINK)
        return;
    assert_true(u->told_count < PERSON_TOLD_MAX);
    struct person_told *t = &u->told[u->told_count++];
    *t = (struct person_told){
        .kind = e->kind, .session = e->session, .number = e->number, .count = e->count};
    snprintf(t->name, sizeof(t->name), "%s", e->name != NULL ? e->name : "");
    snprintf(t->value, sizeof(t->value), "%s", e->front.value != NULL ? e->front.value : "");
    size_t i = e->name != NULL ? find_held(u, e->name, e->number) : u->held_count;
    if (e->kind == RT_GRANTED && i < u->held_count)
        u->held[i].granted = true;
    if (e->kind == RT_TICKET_LOST)
        forget(u, e->name, e->number);
    if (e->kind == RT_SESSION_LOST)
        u->held_count = 0;
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
}

/* ---- Life and ops ----------------------------------------------------------------------- */

void person_open(struct person *u, const char *text, uint32_t ttl_ms)
{
    struct rt_url url;
    char errmsg[256];
    memset(u, 0, sizeof(*u));
    u->up = (struct rt_up){.done = on_done, .event = on_event, .held = on_held};
    assert_int_equal(rt_url_parse(&url, text, errmsg, sizeof(errmsg)), 0);
    assert_int_equal(rt_loop_init(&u->loop), 0);
    u->conn = calloc(1, sizeof(*u->conn));
    assert_non_null(u->conn);
    u->conn->base = (struct rt_conn){.engine = &rt_engine_redis,
                                     .up = &u->up,
                                     .loop = &u->loop,
                                     .label = "a person",
                                     .ttl_ms = ttl_ms,
                                     .call_ms = 5000};
    assert_int_equal(rt_engine_redis.open(&u->conn->base, &url), 0);
    rt_url_fini(&url);
    struct rt_op op = {.kind = RT_OP_BEAT};
    op.beat.open = true;
    assert_int_equal(person_do(u, &op), 0);
    assert_int_equal(op.beat.ttl_ms, ttl_ms);
    u->session = op.beat.session;
    assert_true(u->session != 0 && u->session <= INT64_MAX);
}

void person_close(struct person *u)
{
    rt_engine_redis.close(&u->conn->base);
    free(u->conn);
    for (int i = 0; i < 4; i++) /* streams are closed from a turn */
        rt_loop_turn(&u->loop, no_other, NULL);
    rt_loop_fini(&u->loop);
}

void person_turn(struct person *u, int limit_ms)
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

int person_do(struct person *u, struct rt_op *op)
{
    int before = u->done;
    int64_t now = rt_loop_tick(&u->loop), limit = now + PERSON_LIMIT_MS * RT_MS;
    if (op->deadline == 0)
        op->deadline = now + 5000 * RT_MS;
    rt_engine_redis.submit(&u->conn->base, op);
    while (u->done == before && rt_loop_tick(&u->loop) < limit)
        person_turn(u, 100);
    assert_int_equal(u->done, before + 1);
    return op->err;
}

int person_beat(struct person *u)
{
    struct rt_op op = {.kind = RT_OP_BEAT};
    op.beat.session = u->session;
    return person_do(u, &op);
}

int person_join(struct person *u, const char *name, struct rt_join *j)
{
    static uint64_t nonce = 1;
    j->name = name;
    if (j->session == 0)
        j->session = u->session;
    if (j->nonce == 0)
        j->nonce = nonce++;
    struct rt_op op = {.kind = RT_OP_JOIN};
    op.join.joins = j;
    op.join.n = 1;
    return person_do(u, &op);
}

int person_leave(struct person *u, const char *name, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_LEAVE};
    op.leave.name = name;
    op.leave.session = u->session;
    op.leave.number = number;
    return person_do(u, &op);
}

static void count_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)name;
    (void)count;
    (void)granted;
    ++*(size_t *)arg;
}

size_t person_lines(struct person *u, const char *prefix)
{
    size_t n = 0;
    struct rt_op op = {.kind = RT_OP_LIST};
    op.list.prefix = prefix;
    op.list.each = count_line;
    op.list.arg = &n;
    assert_int_equal(person_do(u, &op), 0);
    return n;
}

size_t person_hear(struct person *u, enum rt_event_kind kind, uint64_t number, size_t from)
{
    int64_t limit = rt_loop_tick(&u->loop) + PERSON_LIMIT_MS * RT_MS;
    for (size_t i = from;;) {
        for (; i < u->told_count; i++)
            if (u->told[i].kind == kind && (number == 0 || u->told[i].number == number))
                return i;
        if (rt_loop_tick(&u->loop) >= limit)
            fail_msg("event %d for %llu did not come", (int)kind, (unsigned long long)number);
        person_turn(u, 100);
    }
}
