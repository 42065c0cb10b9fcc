/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of ours that somebody deletes, or the server evicts, while their sessions live: nobody waits for ever
 * beside a free line, and a heartbeat tells whoever has lost its ticket. */
#include "lib/user.h"
#include "one_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 600000 /* nothing here waits for its end */
#define SHORT_MS 500
#define ROOM "rota:{0}"

static int fresh(void **state)
{
    (void)state;
    rt_redis_must(&one_redis, "FLUSHALL");
    return 0;
}

static bool was_told(const struct user *u, enum rt_event_kind kind, uint64_t number)
{
    for (size_t i = 0; i < u->told_count; i++)
        if (u->told[i].kind == kind && u->told[i].number == number)
            return true;
    return false;
}

/* Beats until it is told that NUMBER is lost, BEATS times at most. It asks what it has lost after the answer of a beat,
 * page by page. */
static void lose_by_beats(struct user *u, uint64_t number, int beats)
{
    for (int n = 0; n < beats && !was_told(u, RT_TICKET_LOST, number); n++)
        assert_int_equal(user_beat(u), 0);
    (void)user_hear(u, RT_TICKET_LOST, number, 0);
}

static void beat_until_granted(struct user *u, uint64_t number)
{
    int64_t limit = rt_loop_tick(&u->loop) + USER_LIMIT_MS * RT_MS;
    while (!was_told(u, RT_GRANTED, number)) {
        assert_true(rt_loop_tick(&u->loop) < limit);
        assert_int_equal(user_beat(u), 0);
        user_turn(u, 10);
    }
}

static void join(struct user *u, const char *name, bool granted, struct rt_join *j)
{
    *j = (struct rt_join){0};
    assert_int_equal(user_join(u, name, j), 0);
    assert_int_equal(j->granted, granted);
}

/* ---- Who waits -------------------------------------------------------------------------- */

static void test_waiters_are_gone(void **state)
{
    struct user a, b, c;
    struct rt_join first, second, third, again;
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    user_start(&c, one_redis_url, TTL_MS);
    join(&a, "x", true, &first);
    join(&b, "x", false, &second);
    join(&c, "x", false, &third);
    assert_int_equal(rt_redis_integer(&one_redis, "DEL " ROOM ":w:x"), 1);
    lose_by_beats(&b, second.number, 1);
    assert_int_equal(user_leave(&a, "x", first.number), 0); /* the line is free */
    lose_by_beats(&c, third.number, 1);
    join(&c, "x", true, &again);
    assert_true(again.number > third.number);
    assert_int_equal(user_leave(&c, "x", again.number), 0);
    assert_int_equal(user_lines(&a, ""), 0);
    user_close(&a);
    user_close(&b);
    user_close(&c);
}

static void ignore(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
}

/* Its holders are in a key of their own once somebody has looked. */
static void look(struct user *u, const char *name)
{
    struct rt_op op = {.kind = RT_OP_INSPECT, .deadline = RT_NEVER};
    op.inspect.name = name;
    op.inspect.each = ignore;
    assert_int_equal(user_do(u, &op), 0);
}

static void test_holders_are_gone(void **state)
{
    struct user a, b;
    struct rt_join first, second;
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    join(&a, "x", true, &first);
    join(&b, "x", false, &second);
    look(&b, "x");
    assert_int_equal(rt_redis_integer(&one_redis, "DEL " ROOM ":g:x"), 1);
    assert_int_equal(user_beat(&b), 0);
    (void)user_hear(&b, RT_GRANTED, second.number, 0);
    lose_by_beats(&a, first.number, 1);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    user_close(&a);
    user_close(&b);
}

/* What ends by time is no longer known: the dead would never be swept. */
static void test_ends_are_gone(void **state)
{
    (void)state;
    for (int looked = 0; looked < 2; looked++) {
        struct user a, b;
        struct rt_join first, second;
        user_start(&a, one_redis_url, TTL_MS);
        user_start(&b, one_redis_url, TTL_MS);
        join(&a, "x", true, &first);
        join(&b, "x", false, &second);
        if (looked)
            look(&b, "x");
        a.conn->ttl_ms = SHORT_MS; /* only now: it must not end before B waits */
        assert_int_equal(user_beat(&a), 0);
        assert_int_equal(rt_redis_integer(&one_redis, "DEL " ROOM ":e"), 1);
        beat_until_granted(&b, second.number); /* A does not beat any more */
        assert_int_equal(user_leave(&b, "x", second.number), 0);
        user_close(&a);
        user_close(&b);
    }
}

/* ---- Many ------------------------------------------------------------------------------- */

#define FIELDS 512        /* as many as a hash has at most that HSCAN answers as a whole */
#define MANY (FIELDS - 2) /* its session's own */

static long long calls_of(const char *command)
{
    const char *stat = rt_redis_info(&one_redis, "commandstats", command);
    return strncmp(stat, "calls=", 6) == 0 ? strtoll(stat + 6, NULL, 10) : 0;
}

/* A heartbeat looks at a limited number of tickets, in turn: at all of them within BEATS. */
static void look_in_turn(struct user *u, const struct rt_join *joins, int from, int beats)
{
    for (int i = 0; i < 10; i++) {
        rt_redis_must(&one_redis, "CONFIG RESETSTAT");
        assert_int_equal(user_beat(u), 0);
        assert_true(calls_of("cmdstat_hget") <= 256);
        assert_int_equal(calls_of("cmdstat_hscan"), 1);
    }
    for (int i = from; i < MANY; i += 16) {
        size_t told = u->told_count;
        assert_int_equal(rt_redis_integer(&one_redis, "HDEL " ROOM " n%d", i), 1);
        lose_by_beats(u, joins[i].number, beats);
        assert_int_equal(u->told_count, told + 1); /* and nobody else */
    }
}

static void test_tickets_are_looked_at_in_turn(void **state)
{
    static struct user a;
    static struct rt_join joins[MANY], another;
    static char names[MANY][16];
    (void)state;
    rt_redis_must(&one_redis, "CONFIG SET hash-max-ziplist-entries %d", FIELDS);
    user_start(&a, one_redis_url, TTL_MS);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d", i);
        join(&a, names[i], true, &joins[i]);
    }
    look_in_turn(&a, joins, 3, FIELDS / 128); /* 128 of the whole each time */
    rt_redis_must(&one_redis, "CONFIG SET hash-max-ziplist-entries 128");
    join(&a, "another", true, &another);      /* from now on it comes in pages */
    look_in_turn(&a, joins, 11, FIELDS / 64); /* each has 64 at least, but the last */
    user_close(&a);
}

/* Without tickets it is as short as it was. */
static void test_beat_without_tickets(void **state)
{
    struct user a;
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    rt_redis_must(&one_redis, "CONFIG RESETSTAT");
    assert_int_equal(user_beat(&a), 0);
    assert_int_equal(calls_of("cmdstat_hscan"), 0);
    user_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_waiters_are_gone, fresh),
        cmocka_unit_test_setup(test_holders_are_gone, fresh),
        cmocka_unit_test_setup(test_ends_are_gone, fresh),
        cmocka_unit_test_setup(test_tickets_are_looked_at_in_turn, fresh),
        cmocka_unit_test_setup(test_beat_without_tickets, fresh),
    };
    return cmocka_run_group_tests(tests, one_redis_start, one_redis_stop);
}
