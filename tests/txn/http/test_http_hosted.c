/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of services on the asker's thread: no thread of their own, and everything that the contract says of them. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "house.h"
#include "net/loop.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LONG 60000 /* ms; nothing waits this long */
#define SHORT 5000 /* ... it is, and a busy machine asks and is asked before */
#define MANY 200   /* calls: more than go to one host at once */

static struct house house;
static pthread_t host;

/* Its done() is called where these are turned. */
static void on_done(struct rt_service_call *c)
{
    struct ask *a = c->user;

    assert_true(pthread_equal(pthread_self(), host));
    a->times++;
}

static struct rt_http_calls *calls_open(void)
{
    struct rt_http_calls *h = NULL;

    assert_int_equal(rt_http_calls_open(&h, &(struct rt_http_calls_options){.hosted = true}), 0);
    return h;
}

static void send_to(struct rt_http_calls *h, struct ask *a, enum rt_service_op op, const char *path,
                    unsigned ms)
{
    char url[128];

    snprintf(url, sizeof(url), "%s%s", house.base, path);
    ask_init(a, op, url, "a body", ms);
    a->call.done = on_done;
    ask_send(a, h);
    assert_int_equal(a->times, 0); /* never inside ask */
}

/* As the keeper does. */
static void turn_until(struct rt_http_calls *h, const struct ask *a)
{
    struct pollfd p = {.fd = rt_http_calls_fd(h), .events = POLLIN};

    while (a->times == 0) {
        int64_t until = rt_http_calls_turn(h, p.revents != 0), now = rt_loop_clock();
        int64_t ms = until <= now ? 0 : (until - now) / RT_MS + 1;
        if (a->times == 0)
            assert_true(poll(&p, 1, until == INT64_MAX ? -1 : (int)ms) >= 0);
    }
}

static void answers(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct ask yes, no;

    (void)state;
    assert_int_equal(rt_http_calls_turn(h, false), INT64_MAX); /* nothing was asked */
    send_to(h, &yes, RT_SERVICE_TRY, "/s/200", LONG);
    send_to(h, &no, RT_SERVICE_CONFIRM, "/s/409", LONG);
    turn_until(h, &yes);
    turn_until(h, &no);
    assert_int_equal(yes.call.reply, RT_REPLY_YES);
    assert_string_equal(yes.call.body, "said 200");
    assert_int_equal(no.call.reply, RT_REPLY_REFUSED);
    ask_fini(&yes);
    ask_fini(&no);
    send_to(h, &yes, RT_SERVICE_TRY, "/echo", LONG); /* on a connection that was kept */
    turn_until(h, &yes);
    assert_non_null(strstr(yes.call.body, "a body"));
    ask_fini(&yes);
    rt_http_calls_close(h);
}

/* Calls beyond a host's places leave as places become free, without another ask. */
static void more_than_at_once(void **state)
{
    static struct ask many[MANY];
    struct rt_http_calls *h = calls_open();

    (void)state;
    for (int i = 0; i < MANY; i++)
        send_to(h, &many[i], RT_SERVICE_CONFIRM, "/quick", LONG);
    for (int i = 0; i < MANY; i++) {
        turn_until(h, &many[i]);
        assert_int_equal(many[i].call.reply, RT_REPLY_DONE);
        ask_fini(&many[i]);
    }
    rt_http_calls_close(h);
}

/* The turn returns the deadline as a time; the next turn answers a call that was cut. */
static void late_and_cut(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct ask late, cut;

    (void)state;
    send_to(h, &late, RT_SERVICE_TRY, "/hang", 300);
    assert_true(rt_http_calls_turn(h, false) <= late.call.deadline);
    turn_until(h, &late);
    assert_int_equal(late.call.reply, RT_REPLY_LOST);
    assert_non_null(strstr(late.call.errmsg, "in time"));
    send_to(h, &cut, RT_SERVICE_TRY, "/hang", LONG);
    (void)rt_http_calls_turn(h, false);
    rt_http_calls_cut(h, &cut.call);
    assert_int_equal(cut.times, 0); /* never inside cut */
    (void)rt_http_calls_turn(h, true);
    assert_int_equal(cut.times, 1);
    assert_non_null(strstr(cut.call.errmsg, "given up"));
    ask_fini(&late);
    ask_fini(&cut);
    rt_http_calls_close(h);
}

/* The end answers what is under way and what has not begun, and there may have been nothing. */
static void closed(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct ask away, fresh;

    (void)state;
    rt_http_calls_close(h);
    h = calls_open();
    send_to(h, &away, RT_SERVICE_TRY, "/hang", LONG);
    (void)rt_http_calls_turn(h, false);
    send_to(h, &fresh, RT_SERVICE_TRY, "/s/200", LONG);
    rt_http_calls_close(h);
    assert_int_equal(away.call.reply, RT_REPLY_LOST);
    assert_int_equal(fresh.call.reply, RT_REPLY_LOST);
    ask_fini(&away);
    ask_fini(&fresh);
}

/* A is at the door, which does not answer yet. */
static void turn_until_hanging(struct rt_http_calls *h, const struct ask *a, int n)
{
    struct pollfd p = {.fd = rt_http_calls_fd(h), .events = POLLIN};
    bool there = false;

    while (!there) {
        (void)rt_http_calls_turn(h, p.revents != 0);
        assert_int_equal(a->times, 0);
        assert_true(poll(&p, 1, 1) >= 0);
        pthread_mutex_lock(&house.mu);
        there = house.hanging == n;
        pthread_mutex_unlock(&house.mu);
    }
}

static void close_gate(void)
{
    pthread_mutex_lock(&house.mu);
    house.gate_open = false;
    pthread_mutex_unlock(&house.mu);
}

/* Its host had other things to do until the deadline had passed: an answer that was there before counts, whether the
 * host has looked at the descriptor or not. */
static void answered_before_its_host_came(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct pollfd p = {.fd = rt_http_calls_fd(h), .events = POLLIN};
    struct ask a;

    (void)state;
    house_stop(&house); /* calls that were given up before may still come to its door */
    house_start(&house, &(struct rt_http_server_options){0});
    for (int ready = 0; ready < 2; ready++) {
        close_gate();
        send_to(h, &a, RT_SERVICE_TRY, "/hang", SHORT);
        turn_until_hanging(h, &a, ready + 1);
        house_open_gate(&house);
        assert_int_equal(poll(&p, 1, -1), 1); /* the answer is there */
        for (int64_t now; (now = rt_loop_clock()) < a.call.deadline;)
            assert_int_equal(poll(NULL, 0, (int)((a.call.deadline - now) / RT_MS) + 1), 0);
        (void)rt_http_calls_turn(h, ready == 1);
        assert_int_equal(a.times, 1);
        assert_int_equal(a.call.reply, RT_REPLY_YES);
        assert_string_equal(a.call.body, "late");
        ask_fini(&a);
    }
    rt_http_calls_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(more_than_at_once),
        cmocka_unit_test(late_and_cut),
        cmocka_unit_test(closed),
        cmocka_unit_test(answered_before_its_host_came), /* last: opens the gate */
    };

    host = pthread_self();
    house_start(&house, &(struct rt_http_server_options){0});
    int rv = cmocka_run_group_tests(tests, NULL, NULL);
    house_stop(&house);
    return rv;
}
