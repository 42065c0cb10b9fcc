/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to one of several servers, which the test plays in virtual time. */
#include "engine/kit/link.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rt_loop loop;
static struct rt_conn conn;
static struct rt_link link_;
static struct rt_stream *stream;        /* that is dialed, or up */
static char dialed[32];                 /* the hosts, in the order they were */
static size_t ups, losts, frees, drops; /* calls of the user */
static bool was_ready, ticks;
static int failed, logs, warnings;
static char why[256];

/* ---- Both sides ------------------------------------------------------------------------------- */

static int on_open(struct rt_dialer *d, struct rt_stream *s, const struct rt_stream_target *t)
{
    (void)d;
    stream = s;
    (void)strncat(dialed, t->host, 1);
    return 0;
}

static void on_write(struct rt_dialer *d, struct rt_stream *s, const char *bytes, size_t n)
{
    (void)d;
    (void)s;
    (void)bytes;
    (void)n;
}

static void on_close(struct rt_dialer *d, struct rt_stream *s)
{
    (void)d;
    stream = stream == s ? NULL : stream;
}

static struct rt_dialer dialer = {on_open, on_write, on_close};

static void up(struct rt_wire *w)
{
    assert_ptr_equal(w->link, &link_);
    ups++;
}

/* "r": ready; "x": it speaks something else. */
static void data(struct rt_wire *w, const char *bytes, size_t n)
{
    assert_int_equal(n, 1);
    assert_true(w->heard);
    if (bytes[0] == 'r')
        rt_link_greeted(w->link);
    else
        rt_link_refuse(w->link, ROTA_PROTOCOL, "odd %c", bytes[0]);
}

static bool tick(struct rt_link *k, int64_t now)
{
    (void)k;
    (void)now;
    return ticks;
}

static void lost(struct rt_link *k, bool ready, const char *text)
{
    assert_null(k->wire);
    losts++;
    was_ready = ready;
    (void)snprintf(why, sizeof(why), "%s", text);
    rt_ledger_lost(&k->ledger, NULL, text);
}

static void fail_all(struct rt_link *k, int err, const char *text)
{
    failed = err;
    rt_ledger_refuse(&k->ledger, err, text);
}

static void dropped(struct rt_wire *w)
{
    assert_null(w->link);
    drops++;
}

static void freed(struct rt_wire *w)
{
    assert_null(w->link);
    frees++;
}

static void on_log(struct rt_up *u, int level, const char *line)
{
    (void)u;
    assert_non_null(strstr(line, "played: "));
    logs++;
    warnings += level == ROTA_LOG_WARN;
}

static int on_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    (void)l;
    (void)e;
    (void)via;
    return link_.state == RT_DIAL_READY ? 0 : ROTA_UNREACHABLE;
}

static int ended;
static void on_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *text)
{
    (void)l;
    (void)e;
    (void)text;
    ended = err;
}

static void forget(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    e->given_up = true;
}

static const struct rt_link_user user = {.who = "played",
                                         .secure = "etcds",
                                         .port = 7,
                                         .secure_port = 8,
                                         .wire_size = sizeof(struct rt_wire) + 8,
                                         .up = up,
                                         .data = data,
                                         .tick = tick,
                                         .lost = lost,
                                         .failed = fail_all,
                                         .dropped = dropped,
                                         .freed = freed};
static const struct rt_ledger_user asks = {.send = on_send, .ended = on_ended};

static int open_link(const char *text)
{
    struct rt_url url;
    char errmsg[256];
    link_ = (struct rt_link){0};
    assert_int_equal(rt_url_parse(&url, text, errmsg, sizeof(errmsg)), 0);
    int rv = rt_link_open(&link_, &conn, &url, &user, &asks);
    rt_url_fini(&url);
    return rv;
}

static struct rt_up listener = {.log = on_log};

static int begin(void **state)
{
    (void)state;
    rt_loop_init_virtual(&loop);
    loop.dialer = &dialer;
    conn = (struct rt_conn){.loop = &loop, .up = &listener, .ttl_ms = 10000};
    dialed[0] = why[0] = '\0';
    ups = losts = frees = drops = 0;
    failed = logs = warnings = ended = 0;
    was_ready = ticks = false;
    stream = NULL;
    return 0;
}

static int end(void **state)
{
    (void)state;
    rt_loop_fini(&loop);
    return 0;
}

static void turn(int64_t ms)
{
    rt_loop_arm(&loop);
    rt_loop_advance(&loop, rt_loop_now(&loop) + ms * RT_MS);
    rt_loop_turn(&loop, NULL, NULL);
}

static void feed(const char *bytes)
{
    rt_stream_feed_data(stream, bytes, 1);
}

static void greet(void)
{
    rt_stream_feed_up(stream);
    assert_int_equal(link_.state, RT_DIAL_GREETING);
    feed("r");
    assert_int_equal(link_.state, RT_DIAL_READY);
}

static void hang_up(int err, const char *text)
{
    struct rt_stream *s = stream;
    stream = NULL;
    rt_stream_feed_down(s, err, text);
}

static void shut(void)
{
    size_t had = drops, wires = had + (link_.wire != NULL);
    rt_link_close(&link_, forget);
    assert_int_equal(drops, wires);
    turn(0);
    assert_int_equal(frees, wires);
    assert_null(link_.password);
}

/* ---- Cases ------------------------------------------------------------------------------------ */

static void one_after_the_other(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a,b"), 0);
    assert_string_equal(dialed, "");
    rt_link_want(&link_);
    rt_link_want(&link_);
    assert_string_equal(dialed, "a");
    assert_int_equal(link_.state, RT_DIAL_DIALING);
    hang_up(ROTA_UNREACHABLE, "nobody there"); /* b may be well: at once */
    assert_string_equal(dialed, "ab");
    assert_string_equal(rt_link_trouble(&link_), "nobody there");
    greet();
    assert_null(rt_link_trouble(&link_));
    assert_string_equal(rt_link_at(&link_), "b:7");
    assert_int_equal(ups, 1);
    hang_up(ROTA_UNREACHABLE, "gone"); /* all were tried: a pause */
    assert_true(was_ready);
    assert_string_equal(dialed, "ab");
    turn(4);
    assert_string_equal(dialed, "ab");
    turn(6);
    assert_string_equal(dialed, "aba");
    assert_int_equal(losts, 2);
    shut();
}

static void one_that_leaves_needs_no_pause(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a"), 0);
    rt_link_want(&link_);
    greet();
    link_.wire->leaving = true;
    rt_link_cut(&link_, "it goes away");
    assert_string_equal(dialed, "aa");
    shut();
}

static void who_lasted_is_dialed_at_once_after_few(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a"), 0);
    rt_link_want(&link_);
    for (int i = 0; i < 5; i++) {
        hang_up(ROTA_UNREACHABLE, "nobody there");
        turn(1000);
    }
    assert_true(link_.pause.ms > RT_DIAL_PAUSE_FIRST_MS);
    assert_int_equal(logs, 1); /* the same each time */
    greet();
    turn(5001);
    hang_up(ROTA_UNREACHABLE, "gone");
    assert_int_equal(link_.pause.ms, RT_DIAL_PAUSE_FIRST_MS);
    assert_int_equal(link_.failures, 1);
    assert_int_equal(logs, 2);
    shut();
}

/* One warning for an outage, however many reasons are heard in it; a refusal for good is another matter. */
static void one_warning_for_an_outage(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a"), 0);
    rt_link_want(&link_);
    greet();
    hang_up(ROTA_UNREACHABLE, "closed");
    turn(200);
    hang_up(ROTA_UNREACHABLE, "refused");
    turn(200);
    hang_up(ROTA_UNREACHABLE, "it starts");
    assert_int_equal(logs, 3);
    assert_int_equal(warnings, 1);
    turn(200);
    rt_stream_feed_up(stream);
    feed("x");
    assert_int_equal(warnings, 2);
    rt_link_want(&link_);
    turn(500);
    greet();
    hang_up(ROTA_UNREACHABLE, "closed");
    assert_int_equal(warnings, 3);
    shut();
}

/* However long it was away: a server that is back is dialed within a fiftieth of the ttl, and within 200 ms. */
static void one_that_is_back_is_dialed_soon(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a"), 0);
    rt_link_want(&link_);
    for (int i = 0; i < 20; i++) {
        hang_up(ROTA_UNREACHABLE, "nobody there");
        turn(200);
        assert_non_null(stream);
    }
    shut();
}

static void a_greeting_without_end(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a"), 0);
    rt_link_want(&link_);
    rt_stream_feed_up(stream);
    turn((int64_t)rt_dial_connect_ms(&conn, 1));
    assert_int_equal(losts, 1);
    assert_non_null(strstr(why, "a:7 is connected, but does not answer"));
    assert_false(was_ready);
    turn(1000);
    rt_stream_feed_up(stream);
    ticks = true; /* its user has something to do with it */
    turn((int64_t)rt_dial_connect_ms(&conn, 1));
    assert_int_equal(losts, 1);
    shut();
}

static void for_good_when_all_are_so(void **state)
{
    struct rt_entry waits = {.deadline = RT_NEVER};
    (void)state;
    assert_int_equal(open_link("etcd://a,b"), 0);
    assert_false(rt_ledger_add(&link_.ledger, &waits));
    rt_link_want(&link_);
    rt_stream_feed_up(stream);
    feed("x");
    assert_int_equal(failed, 0);
    assert_string_equal(dialed, "ab");
    hang_up(ROTA_AUTH, "another certificate");
    assert_int_equal(failed, ROTA_AUTH);
    assert_int_equal(ended, ROTA_AUTH);
    turn(10000);
    assert_string_equal(dialed, "ab"); /* not by itself */
    rt_link_want(&link_);
    assert_string_equal(dialed, "aba");
    shut();
}

static void what_it_said_is_the_better_reason(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a,b,c"), 0);
    rt_link_want(&link_);
    rt_stream_feed_up(stream);
    hang_up(ROTA_UNREACHABLE, "closed"); /* without a word: perhaps it wants TLS */
    assert_string_equal(link_.trouble, "closed: if it speaks TLS, write etcds://");
    hang_up(ROTA_UNREACHABLE, "b is away");
    hang_up(ROTA_UNREACHABLE, "c is away");
    assert_non_null(strstr(link_.trouble, "closed"));
    turn(1000);
    hang_up(ROTA_UNREACHABLE, "a is away");
    assert_string_equal(link_.trouble, "a is away");
    shut();
}

static void how_long_it_may_owe(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://a,b"), 0);
    conn.ttl_ms = 2000;
    assert_int_equal(rt_link_patience(&link_), 1000 * RT_MS);
    link_.failures = 2; /* nobody else is left */
    assert_int_equal(rt_link_patience(&link_), 2500 * RT_MS);
    rt_link_well(&link_);
    assert_int_equal(rt_link_patience(&link_), 1000 * RT_MS);
    shut();
}

static void urls(void **state)
{
    (void)state;
    assert_int_equal(open_link("etcd://u@a"), ROTA_INVALID);
    assert_non_null(strstr(conn.errmsg, "without a password"));
    assert_int_equal(open_link("etcd:"), ROTA_INVALID);
    assert_int_equal(open_link("etcd://a?ca=x"), ROTA_INVALID);
    assert_int_equal(open_link("etcd://u:p@a:5"), 0);
    assert_string_equal(link_.user, "u");
    assert_string_equal(link_.password, "p");
    assert_string_equal(rt_link_at(&link_), "a:5");
    assert_int_equal(conn.call_ms, 5000);
    shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_after_the_other, begin, end),
        cmocka_unit_test_setup_teardown(one_that_leaves_needs_no_pause, begin, end),
        cmocka_unit_test_setup_teardown(who_lasted_is_dialed_at_once_after_few, begin, end),
        cmocka_unit_test_setup_teardown(one_warning_for_an_outage, begin, end),
        cmocka_unit_test_setup_teardown(one_that_is_back_is_dialed_soon, begin, end),
        cmocka_unit_test_setup_teardown(a_greeting_without_end, begin, end),
        cmocka_unit_test_setup_teardown(for_good_when_all_are_so, begin, end),
        cmocka_unit_test_setup_teardown(what_it_said_is_the_better_reason, begin, end),
        cmocka_unit_test_setup_teardown(how_long_it_may_owe, begin, end),
        cmocka_unit_test_setup_teardown(urls, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
