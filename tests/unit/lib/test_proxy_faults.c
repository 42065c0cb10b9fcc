/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's faults on single messages, against a real Redis; the RESP scanner by itself. */
#include "proxied.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

static uint32_t fault(enum rt_fault_on on, enum rt_fault_do what, const char *match, uint64_t nth)
{
    struct rt_fault f = {.on = on, .what = what, .match = match, .nth = nth};

    return rt_proxy_fault(proxy, &f);
}

/* ---- Replies ------------------------------------------------------------ */

static void the_reply_to_the_nth_match_is_dropped(void **state)
{
    redisContext *c = connect_through();
    uint32_t f = fault(RT_FAULT_REPLY, RT_FAULT_DROP, "INCR", 2);

    (void)state;
    ask(c, NULL, "INCR n");
    ask(c, "PONG", "PING");
    write_out(c, "INCR n");
    ask(c, "2", "GET n"); /* it was done all the same */
    assert_int_equal(rt_proxy_fault_hits(proxy, f), 1);
    ask(c, NULL, "INCR n");
    ask(c, "3", "GET n");
    redisFree(c);
}

static void a_reply_comes_twice(void **state)
{
    redisContext *c = connect_through();
    struct rt_proxy_counts one;

    (void)state;
    fault(RT_FAULT_REPLY, RT_FAULT_DOUBLE, "ECHO", 1);
    ask(c, "a", "ECHO a");
    expect(c, "a");
    ask(c, "b", "ECHO b");
    expect_silence(c);
    assert_true(rt_proxy_conn_counts(proxy, 1, &one));
    assert_int_equal(one.replies, 2); /* what the server said */
    assert_int_equal(one.flights, 2);
    redisFree(c);
}

static void a_reply_waits_until_released_and_others_behind_it(void **state)
{
    redisContext *c = connect_through(), *other = connect_through();
    uint32_t f = fault(RT_FAULT_REPLY, RT_FAULT_DELAY, "ECHO a", 1);

    (void)state;
    write_out(c, "ECHO a");
    write_out(c, "ECHO b");
    assert_true(rt_proxy_await_hits(proxy, f, 1, SOON_MS));
    ask(other, "c", "ECHO c"); /* another connection does not care */
    expect_silence(c);
    rt_proxy_fault_release(proxy, f);
    expect(c, "a");
    expect(c, "b");
    redisFree(c);
    redisFree(other);
}

static void a_reply_is_late_by_a_time(void **state)
{
    struct rt_fault f = {.what = RT_FAULT_DELAY, .delay_us = 60000};
    redisContext *c = connect_through();
    struct timespec before, after;

    (void)state;
    rt_proxy_fault(proxy, &f);
    clock_gettime(CLOCK_MONOTONIC, &before);
    ask(c, "PONG", "PING");
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >=
                60000000);
    redisFree(c);
}

static void a_silenced_connection_says_nothing_more(void **state)
{
    redisContext *c = connect_through();
    uint32_t f = fault(RT_FAULT_REPLY, RT_FAULT_SILENCE, "INCR", 1);

    (void)state;
    ask(c, "PONG", "PING");
    write_out(c, "INCR n");
    write_out(c, "PING");
    assert_true(rt_proxy_await_hits(proxy, f, 1, SOON_MS));
    while (counts().replies < 3)
        sched_yield();
    expect_silence(c);
    redisFree(c);
    c = connect_through();
    ask(c, "1", "GET n");
    redisFree(c);
}

static void the_connection_ends_instead_of_a_reply(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    fault(RT_FAULT_REPLY, RT_FAULT_CUT, "INCR", 1);
    fault(RT_FAULT_REPLY, RT_FAULT_RESET, "INCR", 2);
    write_out(c, "INCR n");
    expect_end(c, 0);
    redisFree(c);
    c = connect_through();
    write_out(c, "INCR n");
    expect_end(c, ECONNRESET);
    redisFree(c);
    assert_int_equal(rt_redis_integer(&redis, "GET n"), 2);
}

/* ---- Requests ----------------------------------------------------------- */

static void a_request_is_lost_delayed_or_done_twice(void **state)
{
    redisContext *c = connect_through();
    uint32_t late;

    (void)state;
    fault(RT_FAULT_REQUEST, RT_FAULT_DROP, "SET a", 1);
    fault(RT_FAULT_REQUEST, RT_FAULT_DOUBLE, "INCR n", 1);
    late = fault(RT_FAULT_REQUEST, RT_FAULT_DELAY, "SET b", 1);
    write_out(c, "SET a 1");
    ask(c, "PONG", "PING");
    assert_int_equal(rt_redis_integer(&redis, "EXISTS a"), 0);
    ask(c, NULL, "INCR n");
    ask(c, "2", "GET n"); /* and no reply too many */
    write_out(c, "SET b 1");
    assert_true(rt_proxy_await_hits(proxy, late, 1, SOON_MS));
    assert_int_equal(rt_redis_integer(&redis, "EXISTS b"), 0);
    rt_proxy_release(proxy, RT_PROXY_BOTH);
    expect(c, "OK");
    redisFree(c);
}

static void a_request_is_never_sent_when_its_connection_ends(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    fault(RT_FAULT_REQUEST, RT_FAULT_RESET, "SET", 1);
    write_out(c, "SET a 1");
    expect_end(c, ECONNRESET);
    assert_int_equal(rt_redis_integer(&redis, "EXISTS a"), 0);
    redisFree(c);
}

/* ---- Pushes, turns ------------------------------------------------------ */

static void a_push_is_dropped(void **state)
{
    redisContext *sub = connect_through();
    redisReply *r = NULL;

    (void)state;
    fault(RT_FAULT_PUSH, RT_FAULT_DROP, "first", 1);
    ask(sub, NULL, "SSUBSCRIBE news");
    rt_redis_must(&redis, "SPUBLISH news first");
    rt_redis_must(&redis, "SPUBLISH news second");
    assert_int_equal(redisGetReply(sub, (void **)&r), REDIS_OK);
    assert_string_equal(r->element[2]->str, "second");
    assert_int_equal(counts().pushes, 2);
    freeReplyObject(r);
    redisFree(sub);
}

static void a_refused_subscription_is_answered_once(void **state)
{
    redisContext *c = connect_through();

    (void)state;
    rt_redis_must(&redis, "ACL SETUSER default -subscribe");
    ask(c, NULL, "SUBSCRIBE a b c");
    rt_redis_must(&redis, "ACL SETUSER default +subscribe");
    ask(c, "PONG", "PING");
    assert_int_equal(counts().replies, 2);
    assert_int_equal(counts().flights, 2);
    redisFree(c);
}

static void times_say_how_often_and_looks_only_count(void **state)
{
    struct rt_fault drop = {.what = RT_FAULT_DROP, .match = "ECHO", .nth = 2, .times = 2};
    struct rt_fault look = {.what = RT_FAULT_LOOK, .times = RT_FAULT_ALWAYS, .match = "ECHO"};
    redisContext *c = connect_through();
    uint32_t d = rt_proxy_fault(proxy, &drop), l = rt_proxy_fault(proxy, &look);

    (void)state;
    write_out(c, "ECHO 1");
    write_out(c, "ECHO 2");
    write_out(c, "ECHO 3");
    write_out(c, "ECHO 4");
    expect(c, "1");
    expect(c, "4");
    assert_int_equal(rt_proxy_fault_hits(proxy, d), 2);
    assert_int_equal(rt_proxy_fault_hits(proxy, l), 4);
    rt_proxy_fault_end(proxy, l);
    ask(c, "5", "ECHO 5");
    assert_int_equal(rt_proxy_fault_hits(proxy, l), 4);
    redisFree(c);
}

/* ---- The scanner -------------------------------------------------------- */

/* Byte by byte it must find the same ends as at once. */
static void resp_is_scanned_in_any_pieces(void **state)
{
    static const char text[] = "+OK\r\n-ERR no\r\n:12\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
                               "*3\r\n*2\r\n:1\r\n$1\r\nx\r\n*0\r\n+y\r\n>2\r\n+a\r\n+b\r\n";
    static const size_t sizes[] = {5, 9, 5, 9, 5, 5, 4, 27, 12};
    char st[256] = "";
    struct rt_proxy_message msg;
    size_t from = 0, n = 0;

    (void)state;
    assert_true(rt_proxy_resp.state_size <= sizeof(st));
    for (size_t len = 1; len < sizeof(text); len++) {
        ptrdiff_t got = rt_proxy_resp.next(st, RT_PROXY_DOWN, text + from, len - from, &msg);

        if (got == 0)
            continue;
        assert_int_equal(got, sizes[n++]);
        from += (size_t)got;
        assert_int_equal(from, len);
    }
    assert_int_equal(n, sizeof(sizes) / sizeof(sizes[0]));
}

static void what_is_not_resp_is_said_so(void **state)
{
    static const char *const bad[] = {"\x16\x03\x01",        "HTTP/1.1\r\n", "*x\r\n",
                                      "$99999999999999\r\n", "$\r\n",        "+OK\rx",
                                      "*2\r\n\x01"};
    struct rt_proxy_message msg;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char st[256] = "";

        assert_int_equal(rt_proxy_resp.next(st, RT_PROXY_DOWN, bad[i], strlen(bad[i]), &msg), -1);
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start_proxy, stop_proxy)
    const struct CMUnitTest tests[] = {
        CASE(the_reply_to_the_nth_match_is_dropped),
        CASE(a_reply_comes_twice),
        CASE(a_reply_waits_until_released_and_others_behind_it),
        CASE(a_reply_is_late_by_a_time),
        CASE(a_silenced_connection_says_nothing_more),
        CASE(the_connection_ends_instead_of_a_reply),
        CASE(a_request_is_lost_delayed_or_done_twice),
        CASE(a_request_is_never_sent_when_its_connection_ends),
        CASE(a_push_is_dropped),
        CASE(a_refused_subscription_is_answered_once),
        CASE(times_say_how_often_and_looks_only_count),
        cmocka_unit_test(resp_is_scanned_in_any_pieces),
        cmocka_unit_test(what_is_not_resp_is_said_so),
    };

    return cmocka_run_group_tests_name("proxy_faults", tests, start_redis, stop_redis);
}
