/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects of Redisson beside its commands, which the test says by hand on a real server: layouts to the byte, who
 * wakes whom, the fair queue, and the traps of locks.md. */
#include "dialects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- redisson --------------------------------------------------------------------------------- */

static void test_redisson_layout(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "redisson", TTL_MS);
    assert_int_equal(user_join(&u, "java", &join), 0);
    redisReply *all = rt_redis_do(&one_redis, "HGETALL java");
    assert_int_equal(all->elements, 2);
    const char *field = all->element[0]->str;
    assert_string_equal(all->element[1]->str, "1");
    assert_true(strlen(field) > 37 && field[14] == '4' && field[36] == ':' &&
                strspn(field, "0123456789abcdef-") == 36);
    assert_int_equal(strspn(field + 37, "0123456789"), strlen(field + 37));
    freeReplyObject(all);
    long long left = rt_redis_integer(&one_redis, "PTTL java");
    assert_true(left > 0 && left <= TTL_MS);
    assert_int_equal(user_leave(&u, "java", join.number), 0);
    assert_int_equal(rt_redis_integer(&one_redis, "DBSIZE"), 1);
    user_close(&u);
}

/* What we publish is what Redisson's waiters hear: channel and text, even of a name with a brace. */
static void test_redisson_release_is_told(void **state)
{
    static const struct {
        const char *dialect, *name, *channel, *text, *then;
    } rows[] = {
        {"redisson", "told", "redisson_lock__channel:{told}", "0", NULL},
        /* '1' wakes only those in Redisson that already sleep; '0' is kept for those about to. */
        {"redisson-rw", "told", "redisson_rwlock:{told}", "1", "0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct user u;
        struct rt_join join = {0};
        redisReply *r;
        start(&u, rows[i].dialect, TTL_MS);
        redisContext *java = redisConnectUnix(one_redis.socket);
        assert_true(java != NULL && java->err == 0);
        r = redisCommand(java, "SUBSCRIBE %s", rows[i].channel);
        assert_non_null(r);
        freeReplyObject(r);
        assert_int_equal(user_join(&u, rows[i].name, &join), 0);
        assert_int_equal(user_leave(&u, rows[i].name, join.number), 0);
        assert_int_equal(redisGetReply(java, (void **)&r), REDIS_OK);
        assert_string_equal(r->element[2]->str, rows[i].text);
        freeReplyObject(r);
        if (rows[i].then != NULL) {
            assert_int_equal(redisGetReply(java, (void **)&r), REDIS_OK);
            assert_string_equal(r->element[2]->str, rows[i].then);
            freeReplyObject(r);
        }
        redisFree(java);
        user_close(&u);
    }
}

/* A Redisson client's message wakes us: by time alone it would take minutes. */
static void test_redisson_wakes_us(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "redisson", LONG_MS);
    rt_redis_must(&one_redis, "HSET woken " JAVA " 1");
    rt_redis_must(&one_redis, "PEXPIRE woken 600000");
    assert_int_equal(try_join(&u, "woken", RT_EXCLUSIVE), ROTA_BUSY);
    assert_non_null(strstr(u.errmsg, "Redisson 0b4f3c2e-9a1d-4c55-8f0e-2d6c1a7b9e10, thread 1"));
    assert_int_equal(user_join(&u, "woken", &join), 0);
    assert_false(join.granted);
    while (rt_redis_integer(
               &one_redis, "EVAL %s 0",
               "return redis.call('PUBSUB','NUMSUB','redisson_lock__channel:{woken}')[2]") == 0)
        user_turn(&u, 10);
    rt_redis_must(&one_redis, "DEL woken");
    rt_redis_must(&one_redis, "PUBLISH redisson_lock__channel:{woken} 0");
    size_t at = user_hear(&u, RT_GRANTED, join.number, 0);
    assert_int_equal(user_leave(&u, "woken", u.told[at].fence), 0);
    while (rt_redis_integer(
               &one_redis, "EVAL %s 0",
               "return redis.call('PUBSUB','NUMSUB','redisson_lock__channel:{woken}')[2]") != 0)
        user_turn(&u, 10); /* no more waiting, no more listening */
    user_close(&u);
}

/* Where RFencedLock is used, its tokens and ours are one sequence; where not, no key is made. */
static void test_redisson_goes_on_from_fenced_locks(void **state)
{
    struct user u;
    struct rt_join first = {0}, second = {0};
    (void)state;
    start(&u, "redisson", TTL_MS);
    rt_redis_must(&one_redis, "SET redisson_lock_token:{fenced} 7");
    assert_int_equal(user_join(&u, "fenced", &first), 0);
    assert_true(rt_redis_integer(&one_redis, "GET redisson_lock_token:{fenced}") ==
                (long long)first.number);
    assert_int_equal(user_leave(&u, "fenced", first.number), 0);
    long long theirs = rt_redis_integer(&one_redis,
                                        "INCRBY redisson_lock_token:{fenced} 1000000000");
    assert_int_equal(user_join(&u, "fenced", &second), 0);
    assert_true((long long)second.number > theirs);
    assert_int_equal(user_leave(&u, "fenced", second.number), 0);
    rt_redis_must(&one_redis, "FLUSHALL");
    user_close(&u);
}

/* ---- redisson-fair ------------------------------------------------------------------------------- */

#define CHANNEL "redisson_lock__channel:{turn}"

/* Behind a Redisson waiter we stand second, with a number; it alone hears of its turn, and we of ours. */
static void test_fair_queue_is_shared(void **state)
{
    struct user u;
    struct rt_join held = {0}, behind = {0};
    redisReply *r;
    (void)state;
    start(&u, "redisson-fair", LONG_MS);
    assert_int_equal(user_join(&u, "turn", &held), 0);
    assert_true(held.granted);
    rt_redis_must(&one_redis, "RPUSH redisson_lock_queue:{turn} " JAVA);
    rt_redis_must(&one_redis, "ZADD redisson_lock_timeout:{turn} 99999999999999 " JAVA);
    assert_int_equal(user_join(&u, "turn", &behind), 0);
    assert_true(!behind.granted && behind.number > held.number);
    assert_int_equal(rt_redis_integer(&one_redis, "LLEN redisson_lock_queue:{turn}"), 2);
    assert_string_equal(ask("LINDEX redisson_lock_queue:{turn} %s%s", "0", ""), JAVA);
    char mine[100], channel[200];
    snprintf(mine, sizeof(mine), "%s", ask("LINDEX redisson_lock_queue:{turn} %s%s", "1", ""));
    assert_int_equal(look(&u, "turn"), 3);
    assert_true(seen.number == behind.number && !(seen.flags & ROTA_PLACE_GRANTED));

    redisContext *java = redisConnectUnix(one_redis.socket);
    assert_true(java != NULL && java->err == 0);
    r = redisCommand(java, "SUBSCRIBE " CHANNEL ":" JAVA);
    freeReplyObject(r);
    assert_int_equal(user_leave(&u, "turn", held.number), 0);
    assert_int_equal(redisGetReply(java, (void **)&r), REDIS_OK);
    assert_string_equal(r->element[2]->str, "0");
    freeReplyObject(r);
    redisFree(java);
    assert_int_equal(try_join(&u, "turn", RT_EXCLUSIVE),
                     ROTA_BUSY); /* free, but it is not our turn */
    assert_non_null(strstr(u.errmsg, "Redisson"));

    snprintf(channel, sizeof(channel), CHANNEL ":%s", mine); /* Redisson holds, and releases */
    rt_redis_must(&one_redis, "LPOP redisson_lock_queue:{turn}");
    rt_redis_must(&one_redis, "ZREM redisson_lock_timeout:{turn} " JAVA);
    rt_redis_must(&one_redis, "PUBLISH %s 0", channel);
    (void)user_hear(&u, RT_GRANTED, behind.number, 0);
    assert_int_equal(user_leave(&u, "turn", behind.number), 0);
    assert_int_equal(
        rt_redis_integer(&one_redis,
                         "EXISTS redisson_lock_queue:{turn} redisson_lock_timeout:{turn}"),
        0);
    user_close(&u);
}

/* A waiter whose time has passed stands in nobody's way; one that somebody dropped queues again, with another
 * number. */
static void test_fair_heads_that_are_over(void **state)
{
    struct user a, b;
    struct rt_join held = {0}, waits = {0};
    (void)state;
    start(&a, "redisson-fair", TTL_MS);
    start(&b, "redisson-fair", TTL_MS);
    rt_redis_must(&one_redis, "RPUSH redisson_lock_queue:{over} " JAVA);
    rt_redis_must(&one_redis, "ZADD redisson_lock_timeout:{over} 1600000000000 " JAVA);
    assert_int_equal(user_join(&a, "over", &held), 0);
    assert_true(held.granted);
    assert_int_equal(user_join(&b, "over", &waits), 0);
    rt_redis_must(&one_redis, "DEL redisson_lock_queue:{over} redisson_lock_timeout:{over}");
    assert_int_equal(user_beat(&b), 0);
    while (rt_redis_integer(&one_redis, "LLEN redisson_lock_queue:{over}") == 0)
        user_turn(&b, 10);
    assert_int_equal(user_leave(&a, "over", held.number), 0);
    size_t at = user_hear(&b, RT_GRANTED, waits.number, 0);
    assert_true(b.told[at].fence > waits.number);
    assert_int_equal(user_leave(&b, "over", b.told[at].fence), 0);
    user_close(&a);
    user_close(&b);
}

/* One that Redisson dropped finds the lock free, and others had it meanwhile: its number is later than theirs. */
static void test_fair_dropped_and_granted_at_once(void **state)
{
    struct user a, b;
    struct rt_join held = {0}, waits = {0}, again = {0};
    (void)state;
    start(&a, "redisson-fair", LONG_MS);
    start(&b, "redisson-fair", LONG_MS);
    assert_int_equal(user_join(&a, "dropped", &held), 0);
    assert_int_equal(user_join(&b, "dropped", &waits), 0);
    assert_false(waits.granted);
    rt_redis_must(&one_redis, "DEL redisson_lock_queue:{dropped} redisson_lock_timeout:{dropped}");
    assert_int_equal(user_leave(&a, "dropped", held.number), 0);
    assert_int_equal(user_join(&a, "dropped", &again), 0);
    assert_true(again.granted && again.number > waits.number);
    assert_int_equal(user_leave(&a, "dropped", again.number), 0);
    assert_int_equal(user_beat(&b), 0);
    size_t at = user_hear(&b, RT_GRANTED, waits.number, 0);
    assert_true(b.told[at].fence > again.number);
    assert_int_equal(user_leave(&b, "dropped", b.told[at].fence), 0);
    user_close(&a);
    user_close(&b);
}

/* Redisson's waiters put their time on top of ours: when we are granted it is taken off again, but not below a ttl. */
static void test_fair_ends_do_not_drift(void **state)
{
    struct user u;
    struct rt_join held = {0}, waits = {0};
    (void)state;
    start(&u, "redisson-fair", LONG_MS);
    assert_int_equal(user_join(&u, "drift", &held), 0);
    assert_int_equal(user_join(&u, "drift", &waits), 0);
    long long now = rt_redis_integer(
        &one_redis, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000");
    long long ends = now + 3LL * LONG_MS;
    rt_redis_must(&one_redis, "RPUSH redisson_lock_queue:{drift} " JAVA " " JAVA "0");
    rt_redis_must(&one_redis, "ZADD redisson_lock_timeout:{drift} %lld " JAVA, ends);
    rt_redis_must(&one_redis, "ZADD redisson_lock_timeout:{drift} %lld " JAVA "0", now + 1000);
    assert_int_equal(user_leave(&u, "drift", held.number), 0);
    (void)user_hear(&u, RT_GRANTED, waits.number, 0);
    assert_int_equal(atoll(ask("ZSCORE redisson_lock_timeout:{drift} %s%s", JAVA, "")),
                     ends - LONG_MS);
    assert_int_equal(atoll(ask("ZSCORE redisson_lock_timeout:{drift} %s%s", JAVA, "0")),
                     now + 1000);
    assert_int_equal(user_leave(&u, "drift", waits.number), 0);
    rt_redis_must(&one_redis, "FLUSHALL");
    user_close(&u);
}

/* ---- The traps of locks.md ---------------------------------------------------------------------- */

static void test_lock_and_rw_lock_on_one_name(void **state)
{
    struct user lock, rw;
    struct rt_join join = {0};
    (void)state;
    start(&lock, "redisson", TTL_MS);
    start(&rw, "redisson-rw", TTL_MS);
    assert_int_equal(user_join(&lock, "both", &join), 0);
    assert_int_equal(try_join(&rw, "both", RT_EXCLUSIVE), ROTA_INVALID);
    assert_non_null(strstr(rw.errmsg, "plain lock"));
    assert_int_equal(try_join(&rw, "both", RT_SHARED), ROTA_INVALID);
    assert_int_equal(user_leave(&lock, "both", join.number), 0);
    join = (struct rt_join){.mode = RT_SHARED};
    assert_int_equal(user_join(&rw, "both", &join), 0);
    assert_int_equal(try_join(&lock, "both", RT_EXCLUSIVE), ROTA_INVALID);
    assert_non_null(strstr(lock.errmsg, "read/write"));
    assert_int_equal(user_leave(&rw, "both", join.number), 0);
    user_close(&lock);
    user_close(&rw);
}

static void test_hash_of_another_shape(void **state)
{
    struct user u;
    (void)state;
    start(&u, "redisson", TTL_MS);
    rt_redis_must(&one_redis, "HSET cart apples 3");
    rt_redis_must(&one_redis, "SET text hello");
    assert_int_equal(try_join(&u, "cart", RT_EXCLUSIVE), ROTA_INVALID);
    assert_non_null(strstr(u.errmsg, "no lock"));
    assert_int_equal(try_join(&u, "text", RT_EXCLUSIVE), ROTA_INVALID);
    assert_non_null(strstr(u.errmsg, "dialect=token"));
    rt_redis_must(&one_redis, "DEL cart text");
    user_close(&u);
}

static void test_no_barging_past_a_fair_queue(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "redisson", TTL_MS);
    rt_redis_must(&one_redis, "RPUSH redisson_lock_queue:{fair} " JAVA);
    rt_redis_must(&one_redis, "ZADD redisson_lock_timeout:{fair} 99999999999999 " JAVA);
    assert_int_equal(try_join(&u, "fair", RT_EXCLUSIVE),
                     ROTA_INVALID); /* it is free, and not ours to take */
    assert_non_null(strstr(u.errmsg, "queue"));
    rt_redis_must(&one_redis, "HSET fair " JAVA " 1");
    assert_int_equal(user_join(&u, "fair", &join), 0);
    assert_false(join.granted);
    rt_redis_must(&one_redis, "DEL fair");
    rt_redis_must(&one_redis, "PUBLISH redisson_lock__channel:{fair} 0");
    user_turn(&u, 50);
    assert_int_equal(rt_redis_integer(&one_redis, "EXISTS fair"), 0);
    assert_int_equal(user_leave(&u, "fair", join.number), 0);
    rt_redis_must(&one_redis, "FLUSHALL");
    user_close(&u);
}

/* Redisson's last reader leaves: it keeps the hash only for readers with a key of their life. What its unlock does with
 * the hash is done here by its steps. */
static void test_reader_is_not_wiped(void **state)
{
    struct user u;
    struct rt_join join = {.mode = RT_SHARED};
    char key[200];
    (void)state;
    start(&u, "redisson-rw", TTL_MS);
    rt_redis_must(&one_redis, "HSET shared mode read " JAVA " 1");
    rt_redis_must(&one_redis, "SET {shared}:" JAVA ":rwlock_timeout:1 1 PX 60000");
    rt_redis_must(&one_redis, "PEXPIRE shared 60000");
    assert_int_equal(user_join(&u, "shared", &join), 0);
    assert_true(join.granted);
    redisReply *all = rt_redis_do(&one_redis, "HKEYS shared");
    const char *mine = NULL;
    for (size_t i = 0; i < all->elements; i++)
        if (strcmp(all->element[i]->str, "mode") != 0 && strcmp(all->element[i]->str, JAVA) != 0)
            mine = all->element[i]->str;
    assert_non_null(mine);
    snprintf(key, sizeof(key), "{shared}:%s:rwlock_timeout:1", mine);
    freeReplyObject(all);
    assert_true(rt_redis_integer(&one_redis, "PTTL %s", key) > 0);
    rt_redis_must(&one_redis, "PEXPIRE %s 700", key);
    assert_int_equal(user_beat(&u), 0);
    assert_true(rt_redis_integer(&one_redis, "PTTL %s", key) > 700); /* and it is renewed */
    assert_int_equal(user_leave(&u, "shared", join.number), 0);
    assert_int_equal(rt_redis_integer(&one_redis, "EXISTS %s", key), 0);
    assert_int_equal(rt_redis_integer(&one_redis, "HEXISTS shared " JAVA),
                     1); /* nor is theirs by ours */
    long long left = rt_redis_integer(&one_redis, "PTTL shared");
    assert_true(left > 0 && left <= 60000);
    rt_redis_must(&one_redis, "FLUSHALL");
    user_close(&u);
}

/* Asked during a downgrade whether somebody waits: readers do not count, or they would keep each other out. */
static void test_downgrade_and_arm_at_once(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "redisson-rw", TTL_MS);
    assert_int_equal(user_join(&u, "down", &join), 0);
    struct rt_op ops[2] = {{.kind = RT_OP_CHANGE, .deadline = INT64_MAX},
                           {.kind = RT_OP_CHANGE, .deadline = INT64_MAX}};
    int done = u.done;
    for (int i = 0; i < 2; i++) {
        ops[i].change.name = "down";
        ops[i].change.session = u.session;
        ops[i].change.number = join.number;
        ops[i].change.what = i == 0 ? RT_CHANGE_DOWNGRADE : RT_CHANGE_ARM;
        u.conn->engine->submit(u.conn, &ops[i]);
    }
    while (u.done < done + 2)
        user_turn(&u, 100);
    assert_true(ops[0].err == 0 && ops[1].err == 0);
    assert_false(ops[1].change.wanted);
    assert_string_equal(ask("HGET down %s%s", "mode", ""), "read");
    assert_int_equal(user_leave(&u, "down", join.number), 0);
    user_close(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redisson_layout),
        cmocka_unit_test(test_redisson_release_is_told),
        cmocka_unit_test(test_redisson_wakes_us),
        cmocka_unit_test(test_redisson_goes_on_from_fenced_locks),
        cmocka_unit_test(test_fair_queue_is_shared),
        cmocka_unit_test(test_fair_heads_that_are_over),
        cmocka_unit_test(test_fair_dropped_and_granted_at_once),
        cmocka_unit_test(test_fair_ends_do_not_drift),
        cmocka_unit_test(test_lock_and_rw_lock_on_one_name),
        cmocka_unit_test(test_hash_of_another_shape),
        cmocka_unit_test(test_no_barging_past_a_fair_queue),
        cmocka_unit_test(test_reader_is_not_wiped),
        cmocka_unit_test(test_downgrade_and_arm_at_once),
    };
    if (getenv("ROTA_ONLY") != NULL) /* which finds a planted bug */
        cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, one_redis_start, one_redis_stop);
}
