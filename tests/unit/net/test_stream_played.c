/* SPDX-License-Identifier: Apache-2.0 */
/* Streams in virtual time: the test plays the other end, everything else is the same. */
#include "peer.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct play {
    struct rt_dialer dialer; /* first */
    int opens, writes, closes;
    int refuse;
    char sent[256];
    size_t sent_size;
};

static int play_open(struct rt_dialer *d, struct rt_stream *s, const struct rt_stream_target *t)
{
    struct play *p = (struct play *)(void *)d;
    p->opens++;
    assert_non_null(s);
    assert_string_equal(t->host, "redis.example");
    return p->refuse;
}

static void play_write(struct rt_dialer *d, struct rt_stream *s, const char *bytes, size_t n)
{
    struct play *p = (struct play *)(void *)d;
    (void)s;
    p->writes++;
    assert_true(n > 0 && p->sent_size + n <= sizeof(p->sent));
    memcpy(p->sent + p->sent_size, bytes, n);
    p->sent_size += n;
}

static void play_close(struct rt_dialer *d, struct rt_stream *s)
{
    (void)s;
    ((struct play *)(void *)d)->closes++;
}

static struct play play;

static int setup(void **state)
{
    (void)state;
    play = (struct play){.dialer = {play_open, play_write, play_close}};
    rt_loop_init_virtual(&peer_loop);
    peer_loop.dialer = &play.dialer;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_loop_fini(&peer_loop);
    return 0;
}

static const struct rt_stream_target target = {.host = "redis.example", .port = 6379};

static void pass(int64_t ms)
{
    rt_loop_arm(&peer_loop);
    rt_loop_advance(&peer_loop, rt_loop_now(&peer_loop) + ms * RT_MS);
    peer_turns(1);
}

static void note_closed(struct rt_stream *s)
{
    ((struct end *)(void *)s)->closed++;
}

static void finish(struct end *e)
{
    rt_stream_close(&e->s, note_closed);
    assert_int_equal(e->closed, 0);
    pass(0);
    assert_int_equal(e->closed, 1);
    assert_int_equal(peer_loop.timers.count + peer_loop.timers.reserved, 0);
    free(e->got);
}

static void writes_of_a_turn_are_one(void **state)
{
    (void)state;
    struct end e = {0};
    peer_open_to(&e, &target, 1000);
    assert_int_equal(rt_stream_write(&e.s, "a", 1), 0);
    pass(1);
    assert_int_equal(play.writes, 0); /* not up yet */
    rt_stream_feed_up(&e.s);
    assert_int_equal(rt_stream_write(&e.s, "b", 1), 0);
    assert_int_equal(rt_stream_write(&e.s, "c", 1), 0);
    assert_int_equal(play.writes, 0);
    pass(0);
    assert_int_equal(play.writes, 1);
    assert_memory_equal(play.sent, "abc", 3);
    rt_stream_feed_data(&e.s, "answer", 6);
    assert_int_equal(e.got_size, 6);
    finish(&e);
    assert_int_equal(play.closes, 1);
}

static void deadlines_follow_the_virtual_clock(void **state)
{
    (void)state;
    struct end e = {0};
    peer_open_to(&e, &target, 1000);
    rt_stream_feed_up(&e.s);
    rt_stream_expect(&e.s, 500);
    pass(400);
    rt_stream_feed_data(&e.s, "x", 1);
    rt_stream_expect(&e.s, 500);
    pass(499); /* the alarm of the first has passed */
    assert_int_equal(e.downs, 0);
    pass(1);
    assert_int_equal(e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "redis.example:6379 did not answer within 500 ms"));
    assert_int_equal(play.closes, 1);
    finish(&e);
    assert_int_equal(play.closes, 1);
}

static void nobody_answers(void **state)
{
    (void)state;
    struct end e = {0};
    peer_open_to(&e, &target, 1000);
    pass(999);
    assert_int_equal(e.downs, 0);
    pass(1);
    assert_int_equal(e.downs, 1);
    assert_int_equal(play.closes, 1);
    finish(&e);
}

static void played_ends(void **state)
{
    (void)state;
    struct end e = {0};
    peer_open_to(&e, &target, 1000);
    rt_stream_feed_up(&e.s);
    assert_int_equal(rt_stream_write(&e.s, "lost", 4), 0);
    rt_stream_feed_down(&e.s, ROTA_UNREACHABLE, "the server was killed");
    assert_int_equal(e.downs, 1);
    assert_string_equal(e.why, "the server was killed");
    assert_int_equal(rt_stream_write(&e.s, "late", 4), ROTA_UNREACHABLE);
    pass(5000);
    assert_int_equal(play.writes, 0);
    finish(&e);
    assert_int_equal(play.closes, 0); /* the one that ended it knows */
}

static void refusing_to_open(void **state)
{
    (void)state;
    struct end e = {0};
    play.refuse = ROTA_NOMEM;
    assert_int_equal(rt_stream_open(&e.s, &peer_loop, &target, &peer_user, 1), ROTA_NOMEM);
    peer_loop.dialer = NULL; /* virtual, and nobody to play */
    assert_int_equal(rt_stream_open(&e.s, &peer_loop, &target, &peer_user, 1), ROTA_INVALID);
    assert_int_equal(peer_loop.timers.reserved, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
        TEST(writes_of_a_turn_are_one), TEST(deadlines_follow_the_virtual_clock),
        TEST(nobody_answers),           TEST(played_ends),
        TEST(refusing_to_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
