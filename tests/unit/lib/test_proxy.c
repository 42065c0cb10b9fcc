/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy in front of a real Redis: what it does to all that passes, and what it counts. */
#include "proxied.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* ---- Counting ----------------------------------------------------------- */

static void it_counts_what_passes(void **state)
{
    redisContext *a = connect_through(), *b = connect_through();
    struct rt_proxy_counts all, one;

    (void)state;
    ask(a, "OK", "SET k v"); /* 27 bytes up, 5 down */
    ask(a, "v", "GET k");    /* 20 up, 7 down */
    ask(b, "PONG", "PING");  /* 14 up, 7 down */
    all = counts();
    assert_int_equal(all.connections, 2);
    assert_int_equal(all.requests, 3);
    assert_int_equal(all.replies, 3);
    assert_int_equal(all.pushes, 0);
    assert_int_equal(all.flights, 3);
    assert_int_equal(all.bytes[RT_PROXY_UP], 61);
    assert_int_equal(all.bytes[RT_PROXY_DOWN], 19);
    assert_int_equal(all.delivered[RT_PROXY_UP], 61);
    assert_int_equal(all.delivered[RT_PROXY_DOWN], 19);
    assert_int_equal(all.chunks[RT_PROXY_UP], 3);
    assert_true(rt_proxy_conn_counts(proxy, 1, &one));
    assert_int_equal(one.requests, 2);
    assert_int_equal(one.bytes[RT_PROXY_UP], 47);
    assert_true(rt_proxy_conn_counts(proxy, 2, &one));
    assert_int_equal(one.requests, 1);
    assert_int_equal(one.connections, 1);
    assert_false(rt_proxy_conn_counts(proxy, 3, &one));
    assert_int_equal(rt_proxy_open_connections(proxy), 2);
    redisFree(a);
    redisFree(b);
}

static void requests_written_together_are_one_flight(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    redisAppendCommand(c, "SET a 1");
    redisAppendCommand(c, "SET b 2");
    ask(c, "OK", "SET c 3");
    expect(c, "OK");
    expect(c, "OK");
    assert_int_equal(counts().requests, 3);
    assert_int_equal(counts().flights, 1);
    ask(c, "1", "GET a");
    assert_int_equal(counts().flights, 2);
    redisFree(c);
}

/* A request sent while the reply of another is held back belongs to its flight. */
static void a_flight_lasts_until_its_reply_is_delivered(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    rt_proxy_hold(proxy, RT_PROXY_DOWN);
    write_out(c, "SET a 1");
    while (counts().replies < 1)
        sched_yield();
    write_out(c, "SET b 1");
    while (counts().replies < 2)
        sched_yield();
    assert_int_equal(counts().flights, 1);
    rt_proxy_release(proxy, RT_PROXY_DOWN);
    expect(c, "OK");
    expect(c, "OK");
    redisFree(c);
}

static bool has_push(void *arg, const struct rt_proxy_counts *c)
{
    (void)arg;
    return c->pushes >= 1;
}

static void pushes_are_told_from_replies(void **state)
{
    redisContext *sub = connect_through(), *pub = connect_through();
    struct rt_proxy_counts one;

    (void)state;
    ask(sub, NULL, "SUBSCRIBE news other");
    expect(sub, NULL); /* of the second channel */
    ask(pub, NULL, "PUBLISH news hello");
    expect(sub, NULL);
    assert_true(rt_proxy_await(proxy, has_push, NULL, SOON_MS));
    assert_true(rt_proxy_conn_counts(proxy, 1, &one));
    assert_int_equal(one.requests, 1);
    assert_int_equal(one.replies, 1); /* two confirmations: one reply */
    assert_int_equal(one.pushes, 1);
    ask(sub, NULL, "PING");
    assert_true(rt_proxy_conn_counts(proxy, 1, &one));
    assert_int_equal(one.replies, 2);
    assert_int_equal(one.flights, 2);
    /* The same words from somebody who does not listen are a reply like others. */
    ask(pub, NULL, "RPUSH list message news hello");
    ask(pub, NULL, "LRANGE list 0 -1");
    assert_true(rt_proxy_conn_counts(proxy, 2, &one));
    assert_int_equal(one.replies, 3);
    assert_int_equal(one.pushes, 0);
    redisFree(sub);
    redisFree(pub);
}

struct seen {
    char text[1024];
};

static void note(void *arg, const struct rt_proxy_event *e)
{
    struct seen *s = arg;
    size_t len = strlen(s->text);

    snprintf(s->text + len, sizeof(s->text) - len, "%u%c%u %s%s\n", (unsigned)e->connection,
             "bqrp"[e->kind], (unsigned)e -> number, e -> words,
             e -> fate == RT_FAULT_LOOK ? "" : " (fault)");
}

static void the_trace_says_which_messages_passed(void **state)
{
    struct seen seen = {""};
    struct rt_fault drop = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DROP, .match = "GET"};
    redisContext *c = connect_through();

    (void)state;
    rt_proxy_trace(proxy, note, &seen);
    rt_proxy_fault(proxy, &drop);
    ask(c, NULL, "EVAL return\t7 1 key op");
    ask(c, "OK", "SET k v");
    write_out(c, "GET k");
    while (counts().replies < 3)
        sched_yield();
    ask(c, "PONG", "PING");
    rt_proxy_trace(proxy, NULL, NULL);
    assert_string_equal(seen.text, "1q1 EVAL return.7 1 key op\n1r1 :7\n1q2 SET k v\n1r2 +OK\n"
                                   "1q3 GET k\n1r3 v (fault)\n1q4 PING\n1r4 +PONG\n");
    redisFree(c);
}

/* ---- Time --------------------------------------------------------------- */

static void delays_are_at_least_what_was_asked(void **state)
{
    redisContext *c = connect_through();
    int64_t before;

    (void)state;
    ask(c, "PONG", "PING");
    rt_proxy_delay(proxy, RT_PROXY_UP, 20000, 0);
    rt_proxy_delay(proxy, RT_PROXY_DOWN, 30000, 5000);
    before = now_us();
    ask(c, "PONG", "PING");
    assert_true(now_us() - before >= 50000);
    redisFree(c);
}

/* Chaos delays each chunk differently, and never lets one overtake another. */
static void chaos_keeps_the_order(void **state)
{
    redisContext *c = connect_through();
    char command[32];

    (void)state;
    rt_proxy_chaos(proxy, 3000);
    rt_proxy_split(proxy, RT_PROXY_BOTH, 5);
    for (int i = 0; i < 100; i++) {
        snprintf(command, sizeof(command), "ECHO %d", i);
        write_out(c, command);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(command, sizeof(command), "%d", i);
        expect(c, command);
    }
    assert_int_equal(counts().requests, 100);
    assert_int_equal(counts().replies, 100);
    redisFree(c);
}

static void hold_keeps_and_release_lets_go(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    rt_proxy_hold(proxy, RT_PROXY_UP);
    write_out(c, "SET k held");
    while (counts().requests < 1)
        sched_yield();
    assert_int_equal(rt_redis_integer(&redis, "EXISTS k"), 0);
    rt_proxy_release(proxy, RT_PROXY_UP);
    expect(c, "OK");
    rt_proxy_hold(proxy, RT_PROXY_DOWN);
    write_out(c, "GET k");
    while (counts().replies < 2)
        sched_yield();
    expect_silence(c);
    rt_proxy_release(proxy, RT_PROXY_BOTH);
    expect(c, "held");
    redisFree(c);
}

/* ---- Loss and ends ------------------------------------------------------ */

static void loss_of_requests_reaches_nobody(void **state)
{
    redisContext *c = connect_through(), *quiet = connect_through();

    (void)state;
    ask(quiet, "PONG", "PING");
    rt_proxy_lose(proxy, RT_PROXY_UP);
    write_out(c, "SET k v");
    while (counts().requests < 2)
        sched_yield();
    expect_silence(c);
    assert_int_equal(rt_redis_integer(&redis, "EXISTS k"), 0);
    rt_proxy_heal(proxy);
    expect_end(c, ECONNRESET);  /* a stream cannot have a gap */
    ask(quiet, "PONG", "PING"); /* has lost nothing */
    redisFree(c);
    redisFree(quiet);
}

static void loss_of_replies_happens_after_the_deed(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    rt_proxy_lose(proxy, RT_PROXY_DOWN);
    write_out(c, "SET k v");
    while (counts().replies < 1)
        sched_yield();
    expect_silence(c);
    assert_int_equal(rt_redis_integer(&redis, "EXISTS k"), 1);
    assert_int_equal(counts().delivered[RT_PROXY_DOWN], 0);
    rt_proxy_heal(proxy);
    expect_end(c, ECONNRESET);
    redisFree(c);
}

static void cut_ends_by_fin_and_reset_by_rst(void **state)
{
    redisContext *a = connect_through(), *b = connect_through();

    (void)state;
    ask(a, "PONG", "PING");
    ask(b, "PONG", "PING");
    rt_proxy_end(proxy, RT_PROXY_CUT, 1);
    expect_end(a, 0);
    ask(b, "PONG", "PING");
    rt_proxy_end(proxy, RT_PROXY_RESET, 0);
    expect_end(b, ECONNRESET);
    assert_int_equal(rt_proxy_open_connections(proxy), 0);
    redisFree(a);
    redisFree(b);
}

static void an_end_after_n_bytes_lets_n_pass(void **state)
{
    redisContext *c = connect_through();
    char got[16] = "";

    (void)state;
    rt_redis_must(&redis, "SET k abcdefgh");
    rt_proxy_end_after(proxy, RT_PROXY_DOWN, 7, RT_PROXY_CUT);
    write_out(c, "GET k");
    assert_int_equal(recv(c->fd, got, sizeof(got), MSG_WAITALL), 7);
    assert_string_equal(got, "$8\r\nabc");
    expect_end(c, 0);
    redisFree(c);
    c = connect_through(); /* others live on */
    ask(c, "abcdefgh", "GET k");
    redisFree(c);
}

static void an_end_of_the_server_is_passed_on(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    ask(c, "PONG", "PING");
    ask(c, "OK", "QUIT");
    expect_end(c, 0);
    redisFree(c);
    c = connect_through();
    ask(c, "PONG", "PING");
    rt_redis_kill(&redis);
    assert_int_equal(redisBufferRead(c), REDIS_ERR);
    redisFree(c);
    rt_redis_run(&redis);
    c = connect_through();
    ask(c, "PONG", "PING");
    redisFree(c);
}

/* ---- Doors -------------------------------------------------------------- */

static void a_shut_door_refuses_and_opens_again(void **state)
{
    redisContext *before = connect_through(), *c;

    (void)state;
    ask(before, "PONG", "PING");
    rt_proxy_door(proxy, RT_PROXY_REFUSE);
    c = redisConnect("127.0.0.1", rt_proxy_port(proxy));
    assert_int_equal(c->err, REDIS_ERR_IO);
    assert_string_equal(c->errstr, "Connection refused");
    redisFree(c);
    ask(before, "PONG", "PING");
    rt_proxy_door(proxy, RT_PROXY_OPEN);
    c = connect_through();
    ask(c, "PONG", "PING");
    redisFree(c);
    redisFree(before);
}

static int sleep_on(int index, void *arg)
{
    (void)index;
    (void)arg;
    pause(); /* until it is killed */
    return 0;
}

/* Tests fork; a connection of which a child has copies must end all the same. */
static void a_forked_child_keeps_nothing_open(void **state)
{
    redisContext *a = connect_through(), *b = connect_through(), *c;
    pid_t child;

    (void)state;
    ask(a, "PONG", "PING");
    ask(b, "PONG", "PING");
    child = rt_proc_start(sleep_on, 0, NULL);
    rt_proxy_door(proxy, RT_PROXY_REFUSE);
    c = redisConnect("127.0.0.1", rt_proxy_port(proxy));
    assert_string_equal(c->errstr, "Connection refused");
    redisFree(c);
    rt_proxy_end(proxy, RT_PROXY_CUT, 1);
    expect_end(a, 0);
    rt_proxy_end(proxy, RT_PROXY_RESET, 2);
    expect_end(b, ECONNRESET);
    rt_proc_kill(child);
    redisFree(a);
    redisFree(b);
}

static void a_mute_door_accepts_and_never_answers(void **state)
{
    redisContext *c;

    (void)state;
    rt_proxy_door(proxy, RT_PROXY_MUTE);
    c = connect_through();
    write_out(c, "PING");
    while (counts().requests < 1)
        sched_yield();
    expect_silence(c);
    assert_int_equal(counts().delivered[RT_PROXY_UP], 0);
    redisFree(c);
}

static void paths_and_raw_bytes_work_too(void **state)
{
    char path[108];
    struct rt_proxy_options opts = {.listen = path, .host = redis.socket};
    struct rt_proxy *raw;
    struct rt_proxy_counts seen;
    redisContext *c;

    (void)state;
    snprintf(path, sizeof(path), "%s/p", rt_tmpdir());
    raw = rt_proxy_start(&opts);
    c = redisConnectUnix(path);
    assert_int_equal(c->err, 0);
    ask(c, "PONG", "PING");
    rt_proxy_counts(raw, &seen);
    assert_int_equal(seen.requests, 0);
    assert_int_equal(seen.delivered[RT_PROXY_UP], 14);
    rt_proxy_end(raw, RT_PROXY_RESET, 0);
    expect_end(c, 0); /* a unix socket knows no reset */
    redisFree(c);
    rt_proxy_door(raw, RT_PROXY_REFUSE);
    c = redisConnectUnix(path);
    assert_int_equal(c->err, REDIS_ERR_IO);
    redisFree(c);
    rt_proxy_stop(raw);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start_proxy, stop_proxy)
    const struct CMUnitTest tests[] = {
        CASE(it_counts_what_passes),
        CASE(requests_written_together_are_one_flight),
        CASE(a_flight_lasts_until_its_reply_is_delivered),
        CASE(pushes_are_told_from_replies),
        CASE(the_trace_says_which_messages_passed),
        CASE(delays_are_at_least_what_was_asked),
        CASE(chaos_keeps_the_order),
        CASE(hold_keeps_and_release_lets_go),
        CASE(loss_of_requests_reaches_nobody),
        CASE(loss_of_replies_happens_after_the_deed),
        CASE(cut_ends_by_fin_and_reset_by_rst),
        CASE(an_end_after_n_bytes_lets_n_pass),
        CASE(an_end_of_the_server_is_passed_on),
        CASE(a_shut_door_refuses_and_opens_again),
        CASE(a_forked_child_keeps_nothing_open),
        CASE(a_mute_door_accepts_and_never_answers),
        CASE(paths_and_raw_bytes_work_too),
    };

    return cmocka_run_group_tests_name("proxy", tests, start_redis, stop_redis);
}
