/* SPDX-License-Identifier: Apache-2.0 */
/* The reference engine on real loops: clients in threads of their own ring each other's bells. */
#include "base/alloc.h"
#include "engine/mem/mem.h"
#include "engine/url.h"
#include "net/loop.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 4
#define ROUNDS 300

static int counter; /* guarded by the line alone: the thread sanitizer watches */

struct client {
    struct rt_up up;
    struct rt_loop loop;
    struct rt_conn *conn;
    uint64_t session, granted; /* the number of the last ticket granted by an event */
    uint32_t ttl_ms;
};

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    (void)op;
}

static void on_event(struct rt_up *up, const struct rt_event *event)
{
    if (event->kind == RT_GRANTED)
        ((struct client *)(void *)up)->granted = event->number;
}

static void submit(struct client *c, struct rt_op *op)
{
    op->deadline = INT64_MAX;
    c->conn->engine->submit(c->conn, op);
    assert(op->err == 0);
}

static void client_open(struct client *c, uint32_t ttl_ms)
{
    memset(c, 0, sizeof(*c));
    c->up = (struct rt_up){.done = on_done, .event = on_event};
    int rv = rt_loop_init(&c->loop);
    assert(rv == 0);
    c->conn = rt_alloc(rt_engine_mem.conn_size);
    assert(c->conn != NULL);
    *c->conn = (struct rt_conn){
        .engine = &rt_engine_mem, .up = &c->up, .loop = &c->loop, .label = "t", .ttl_ms = ttl_ms};
    struct rt_url url = {.scheme = "mem", .path = "threads"};
    rv = rt_engine_mem.open(c->conn, &url);
    assert(rv == 0);
    struct rt_op op = {.kind = RT_OP_BEAT, .beat = {.open = true}};
    submit(c, &op);
    c->session = op.beat.session;
}

static void client_close(struct client *c)
{
    rt_engine_mem.close(c->conn);
    rt_free(c->conn);
    rt_loop_fini(&c->loop);
}

static uint64_t client_join(struct client *c, uint64_t nonce)
{
    struct rt_join join = {.name = "l", .session = c->session, .nonce = nonce};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &join, .n = 1}};
    submit(c, &op);
    while (!join.granted && c->granted != join.number) {
        rt_loop_turn(&c->loop, NULL, NULL);
        if (c->granted == join.number || c->loop.dirty)
            continue;
        rt_loop_arm(&c->loop);
        struct pollfd fd = {.fd = rt_loop_fd(&c->loop), .events = POLLIN};
        poll(&fd, 1, -1);
    }
    return join.number;
}

static void client_leave(struct client *c, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_LEAVE,
                       .leave = {.name = "l", .session = c->session, .number = number}};
    submit(c, &op);
}

static void *count(void *arg)
{
    struct client *c = arg;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t number = client_join(c, i);
        counter++;
        client_leave(c, number);
    }
    return NULL;
}

static void test_counting(void **state)
{
    (void)state;
    static struct client clients[THREADS];
    pthread_t threads[THREADS];
    counter = 0;
    /* Opened and closed here: libuv closes descriptors behind the thread sanitizer's back, which
     * then takes their next users for racing. */
    for (int i = 0; i < THREADS; i++)
        client_open(&clients[i], 3600000);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, &clients[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        client_close(&clients[i]);
    assert_int_equal(counter, THREADS * ROUNDS);
}

static void test_dead_holder(void **state)
{
    (void)state;
    struct client dead, heir;
    client_open(&dead, 100);
    client_open(&heir, 3600000);
    uint64_t first = client_join(&dead, 1);
    uint64_t second = client_join(&heir, 1); /* returns when the dead one's ttl is over (I6) */
    assert_true(second > first);
    client_close(&dead);
    client_close(&heir);
}

static void test_fences_outlive_the_world(void **state)
{
    (void)state;
    struct client c;
    client_open(&c, 10000);
    uint64_t before = client_join(&c, 1);
    client_close(&c);
    client_open(&c, 10000);
    assert_true(client_join(&c, 1) > before); /* I2 */
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counting),
        cmocka_unit_test(test_dead_holder),
        cmocka_unit_test(test_fences_outlive_the_world),
    };
    return cmocka_run_group_tests_name("mem on real loops", tests, NULL, NULL);
}
