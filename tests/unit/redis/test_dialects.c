/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects beside their incumbents, whose commands the test says by hand on a real server: layouts to the byte, what is
 * refused, who wakes whom, replies that are lost. */
#include "lib/proxy.h"
#include "lib/user.h"
#include "one_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 10000
#define LONG_MS 600000
#define JAVA "0b4f3c2e-9a1d-4c55-8f0e-2d6c1a7b9e10:1"

static const char *url_of(const char *dialect)
{
    static char url[600];
    snprintf(url, sizeof(url), "%s?dialect=%s", one_redis_url, dialect);
    return url;
}

static void start(struct user *u, const char *dialect, uint32_t ttl_ms)
{
    user_start(u, url_of(dialect), ttl_ms);
}

/* What the server says to a question, as text; "" for nil. */
static const char *ask(const char *format, const char *a, const char *b)
{
    static char text[2048];
    redisReply *r = rt_redis_do(&one_redis, format, a, b);
    assert_non_null(r);
    snprintf(text, sizeof(text), "%s", r->str != NULL ? r->str : "");
    freeReplyObject(r);
    return text;
}

static struct rota_place seen;
static char seen_label[256];
static size_t seen_count;

static void see(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    seen = *place;
    snprintf(seen_label, sizeof(seen_label), "%s", place->label);
    seen_count++;
}

static size_t look(struct user *u, const char *name)
{
    struct rt_op op = {.kind = RT_OP_INSPECT};
    op.inspect.name = name;
    op.inspect.each = see;
    seen_count = 0;
    assert_int_equal(user_do(u, &op), 0);
    return seen_count;
}

static int try_join(struct user *u, const char *name, uint32_t mode)
{
    struct rt_join join = {.flags = RT_JOIN_TRY, .mode = mode};
    int rv = user_join(u, name, &join);
    if (rv == 0)
        assert_int_equal(user_leave(u, name, join.number), 0);
    return rv;
}

/* ---- token ---------------------------------------------------------------------------------- */

static void test_token_is_a_string_with_a_ttl(void **state)
{
    struct user u;
    struct rt_join join = {0};
    char id[40] = "";
    unsigned long long number = 0;
    (void)state;
    start(&u, "token", TTL_MS);
    assert_int_equal(user_join(&u, "layout", &join), 0);
    assert_true(join.granted);
    assert_int_equal(sscanf(ask("GET %s%s", "layout", ""), "%32s %llu", id, &number), 2);
    assert_int_equal(strlen(id), 32);
    assert_true(number == join.number);
    long long left = rt_redis_integer(&one_redis, "PTTL layout");
    assert_true(left > 0 && left <= TTL_MS);
    assert_string_equal(ask("SET layout %s NX PX %s", "theirs", "1000"), ""); /* redis-py waits */
    assert_int_equal(user_leave(&u, "layout", join.number), 0);
    assert_int_equal(rt_redis_integer(&one_redis, "EXISTS layout"), 0);
    assert_int_equal(rt_redis_integer(&one_redis, "DBSIZE"), 1); /* the counter of fences */
    user_close(&u);
}

static void test_token_waits_for_a_foreign_holder(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "token", TTL_MS);
    rt_redis_must(&one_redis, "SET theirs 8c1f0e8a3b5b11ef9d7f0242ac120002 NX PX 60000");
    assert_int_equal(try_join(&u, "theirs", RT_EXCLUSIVE), ROTA_BUSY);
    assert_non_null(strstr(u.errmsg, "redis-py"));
    assert_int_equal(look(&u, "theirs"), 1);
    assert_non_null(strstr(seen_label, "redis-py (8c1f0e8a3b5b11ef9d7f0242ac120002)"));
    assert_true(seen.number == 0 && seen.left_ms > 0 && (seen.flags & ROTA_PLACE_GRANTED));
    assert_int_equal(user_join(&u, "theirs", &join), 0);
    assert_false(join.granted);
    rt_redis_must(&one_redis, "DEL theirs");
    size_t at = user_hear(&u, RT_GRANTED, join.number, 0);
    assert_true(u.told[at].fence > 1000000);
    assert_int_equal(user_leave(&u, "theirs", u.told[at].fence), 0);
    user_close(&u);
}

/* One without a ttl, as redis-py's by default, is waited for; a list of makers. */
static void test_token_names_who_made_it(void **state)
{
    static const char *const makers[][2] = {
        {"c7sYxN0l1p2q3r4s5t6u7w==", "redsync"},
        {"9b2f7c44-0b4f-4c2e-9a1d-2d6c1a7b9e10", "Spring"},
        {"AbCdEfGhIjKlMnOpQrStUv", "redislock"},
        {"ADDED:2026-01-01T00:00:00Z@web1:9b2f7c44-0b4f-4c2e-9a1d-2d6c1a7b9e10", "ShedLock"},
        {"0123456789abcdef0123456789abcdef", "node-redlock"},
        {"1", "a foreign client"},
    };
    struct user u;
    (void)state;
    start(&u, "token", TTL_MS);
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        rt_redis_must(&one_redis, "SET made %s", makers[i][0]);
        assert_int_equal(look(&u, "made"), 1);
        assert_non_null(strstr(seen_label, makers[i][1]));
        assert_true(seen.left_ms == -1);
        assert_int_equal(try_join(&u, "made", RT_EXCLUSIVE), ROTA_BUSY);
    }
    rt_redis_must(&one_redis, "DEL made");
    user_close(&u);
}

static void test_token_refuses_other_types(void **state)
{
    struct user u;
    (void)state;
    start(&u, "token", TTL_MS);
    rt_redis_must(&one_redis, "HSET hash " JAVA " 1");
    rt_redis_must(&one_redis, "RPUSH list a");
    assert_int_equal(try_join(&u, "rota:{f}", RT_EXCLUSIVE), ROTA_INVALID); /* the fence */
    assert_int_equal(try_join(&u, "hash", RT_EXCLUSIVE), ROTA_INVALID);
    assert_non_null(strstr(u.errmsg, "dialect=redisson"));
    assert_int_equal(try_join(&u, "list", RT_EXCLUSIVE), ROTA_INVALID);
    assert_non_null(strstr(u.errmsg, "type list"));
    assert_int_equal(look(&u, "list"), 1);
    assert_non_null(strstr(seen_label, "no lock of dialect token"));
    rt_redis_must(&one_redis, "DEL hash list");
    user_close(&u);
}

static void test_token_frees_only_its_own(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "token", TTL_MS);
    assert_int_equal(user_join(&u, "stolen", &join), 0);
    rt_redis_must(&one_redis, "SET stolen another PX 60000"); /* ours has expired, and was taken */
    struct rt_op verify = {.kind = RT_OP_CHANGE};
    verify.change.name = "stolen";
    verify.change.session = u.session;
    verify.change.number = join.number;
    assert_int_equal(user_do(&u, &verify), ROTA_LOST);
    assert_int_equal(user_leave(&u, "stolen", join.number), ROTA_LOST);
    assert_string_equal(ask("GET %s%s", "stolen", ""), "another");
    assert_true(rt_redis_integer(&one_redis, "PTTL stolen") > TTL_MS); /* nor renewed it */
    rt_redis_must(&one_redis, "DEL stolen");
    user_close(&u);
}

static void test_a_beat_tells_what_is_lost(void **state)
{
    struct user u;
    (void)state;
    const char *const dialects[] = {"token", "redisson", "redisson-fair", "redisson-rw"};
    for (size_t i = 0; i < 4; i++) {
        struct rt_join kept = {0}, gone = {0};
        start(&u, dialects[i], TTL_MS);
        assert_int_equal(user_join(&u, "kept", &kept), 0);
        assert_int_equal(user_join(&u, "gone", &gone), 0);
        rt_redis_must(&one_redis, "DEL gone");
        rt_redis_must(&one_redis, "PEXPIRE kept 500");
        size_t before = u.told_count;
        assert_int_equal(user_beat(&u), 0);
        size_t at = user_hear(&u, RT_TICKET_LOST, gone.number, before);
        assert_string_equal(u.told[at].name, "gone");
        assert_true(rt_redis_integer(&one_redis, "PTTL kept") > 500);
        assert_int_equal(user_leave(&u, "kept", kept.number), 0);
        user_close(&u);
    }
}

/* A new link leads to a server that may not know what the old one knew: asked at once, not by the next beat. */
static void test_a_new_link_tells_what_is_lost(void **state)
{
    struct user u;
    struct rt_join kept = {0}, gone = {0};
    (void)state;
    start(&u, "token", LONG_MS);
    assert_int_equal(user_join(&u, "kept", &kept), 0);
    assert_int_equal(user_join(&u, "gone", &gone), 0);
    rt_redis_must(&one_redis, "DEL gone");
    size_t before = u.told_count;
    rt_redis_must(&one_redis, "CLIENT KILL TYPE normal SKIPME yes");
    (void)user_hear(&u, RT_TICKET_LOST, gone.number, before);
    assert_int_equal(user_leave(&u, "kept", kept.number), 0);
    user_close(&u);
}

/* ---- Through a proxy ------------------------------------------------------------------------ */

static struct rt_proxy *proxy;

static void start_behind(struct user *u, const char *dialect)
{
    char url[200];
    struct rt_proxy_options opts = {.port = one_redis.server.port, .framing = &rt_proxy_resp};
    proxy = rt_proxy_start(&opts);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u/?dialect=%s", rt_proxy_port(proxy), dialect);
    user_start(u, url, TTL_MS);
    assert_int_equal(try_join(u, "warm", RT_EXCLUSIVE), 0); /* the server knows the scripts */
}

static void end_behind(struct user *u)
{
    user_close(u);
    rt_proxy_stop(proxy);
}

static void join_op(struct user *u, struct rt_op *op, struct rt_join *join, const char *name)
{
    *join = (struct rt_join){.name = name, .session = u->session, .nonce = 4711};
    *op = (struct rt_op){.kind = RT_OP_JOIN};
    op->join.joins = join;
    op->join.n = 1;
}

/* The answer to the SET is lost: nobody knows. Asked again, the same grant; given up, it is deleted. */
static void test_lost_reply_of_a_join(void **state)
{
    const char *const dialects[] = {"token", "redisson", "redisson-fair", "redisson-rw"};
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct user u;
        struct rt_op op;
        struct rt_join join;
        start_behind(&u, dialects[i % 4]);
        struct rt_fault cut = {.on = RT_FAULT_REPLY, .what = RT_FAULT_CUT, .match = "in-doubt"};
        (void)rt_proxy_fault(proxy, &cut);
        join_op(&u, &op, &join, "in-doubt");
        assert_int_equal(user_do(&u, &op), ROTA_UNKNOWN);
        assert_int_equal(rt_redis_integer(&one_redis, "EXISTS in-doubt"), 1);
        if (i < 4) {
            rt_redis_must(&one_redis, "PEXPIRE in-doubt 300");
            join_op(&u, &op, &join, "in-doubt");
            assert_int_equal(user_do(&u, &op), 0);
            assert_true(join.granted && join.number > 0);
            assert_true(rt_redis_integer(&one_redis, "PTTL in-doubt") >
                        300); /* its full time anew */
        }
        struct rt_op leave = {.kind = RT_OP_LEAVE};
        leave.leave.name = "in-doubt";
        leave.leave.session = u.session;
        leave.leave.nonce = 4711;
        assert_int_equal(user_do(&u, &leave), 0);
        assert_true(leave.leave.granted);
        assert_int_equal(rt_redis_integer(&one_redis, "EXISTS in-doubt"), 0);
        end_behind(&u);
    }
}

/* Asked for again while it waits, and that answer is lost: found by the next try; or the LEAVE deletes it. */
static void test_lost_reply_of_a_retry(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        struct user u;
        struct rt_join join = {0};
        start_behind(&u, "token");
        rt_redis_must(&one_redis, "SET again theirs PX 60000");
        assert_int_equal(user_join(&u, "again", &join), 0);
        assert_false(join.granted);
        struct rt_fault cut = {
            .on = RT_FAULT_REPLY, .what = RT_FAULT_CUT, .match = "again", .times = 3};
        uint32_t fault = rt_proxy_fault(proxy, &cut);
        rt_redis_must(&one_redis, "DEL again");
        while (rt_proxy_fault_hits(proxy, fault) == 0)
            user_turn(&u, 100);
        if (leaves) {
            rt_proxy_fault_end(proxy, fault);
            int rv = user_leave(&u, "again", join.number);
            assert_true(rv == 0 || rv == ROTA_UNKNOWN);
            if (rv != 0)
                assert_int_equal(user_leave(&u, "again", join.number), 0);
            assert_int_equal(rt_redis_integer(&one_redis, "EXISTS again"), 0);
        } else {
            size_t at = user_hear(&u, RT_GRANTED, join.number, 0);
            assert_int_equal(user_leave(&u, "again", u.told[at].fence), 0);
        }
        end_behind(&u);
    }
}

/* 250 holds are renewed by three requests of one flight. */
static void test_renewal_is_batched(void **state)
{
    struct user u;
    struct rt_proxy_counts before, after;
    (void)state;
    start_behind(&u, "token");
    for (int i = 0; i < 250; i++) {
        struct rt_join join = {0};
        char name[32];
        snprintf(name, sizeof(name), "batch-%d", i);
        assert_int_equal(user_join(&u, name, &join), 0);
        rt_redis_must(&one_redis, "PEXPIRE %s 2000", name);
    }
    assert_int_equal(user_beat(&u), 0); /* the script is known from here on */
    rt_proxy_counts(proxy, &before);
    assert_int_equal(user_beat(&u), 0);
    rt_proxy_counts(proxy, &after);
    assert_int_equal(after.requests - before.requests, 3);
    assert_int_equal(after.flights - before.flights, 1);
    for (int i = 0; i < 250; i++)
        assert_true(rt_redis_integer(&one_redis, "PTTL batch-%d", i) > 2000);
    end_behind(&u);
    rt_redis_must(&one_redis, "FLUSHALL");
}

/* A grant that is on its way while a beat overtakes its answer must live as long as the beat says. */
static void test_what_is_asked_for_is_renewed(void **state)
{
    struct user u;
    struct rt_op op, beat = {.kind = RT_OP_BEAT};
    struct rt_join join;
    (void)state;
    start_behind(&u, "token");
    struct rt_fault late = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DELAY, .match = "late"};
    uint32_t fault = rt_proxy_fault(proxy, &late);
    join_op(&u, &op, &join, "late");
    op.deadline = beat.deadline = INT64_MAX;
    int done = u.done;
    u.conn->engine->submit(u.conn, &op);
    while (rt_redis_integer(&one_redis, "EXISTS late") == 0)
        user_turn(&u, 10);
    rt_redis_must(&one_redis, "PEXPIRE late 5000"); /* so much time has passed */
    beat.beat.session = u.session;
    u.conn->engine->submit(u.conn, &beat);
    while (rt_redis_integer(&one_redis, "PTTL late") <= 5000) {
        user_turn(&u, 10);
        assert_int_equal(rt_redis_integer(&one_redis, "EXISTS late"), 1);
    }
    rt_proxy_fault_release(proxy, fault);
    while (u.done < done + 2)
        user_turn(&u, 100);
    assert_int_equal(user_leave(&u, "late", join.number), 0);
    end_behind(&u);
}

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

/* What we publish is what Redisson's waiters hear: channel and text, also of a name with a brace. */
static void test_redisson_release_is_told(void **state)
{
    static const struct {
        const char *dialect, *name, *channel, *text, *then;
    } rows[] = {
        {"redisson", "told", "redisson_lock__channel:{told}", "0", NULL},
        /* By '1' Redisson wakes only who sleeps already; '0' is kept for who is about to. */
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

/* The word of a Redisson client wakes us: by time it would be minutes. */
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
        user_turn(&u, 10); /* who waits no more listens no more */
    user_close(&u);
}

/* Where RFencedLock is used its tokens and ours are one sequence; where not, no key is made. */
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

/* Behind a Redisson waiter we stand second, with a number; its turn is told to it alone, and ours to us. */
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

/* Whom its time has passed stands in nobody's way; whom somebody dropped stands in line again, with another number. */
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

/* Whom Redisson dropped finds the lock free, and others had it meanwhile: its number is a later one than theirs. */
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

/* Asked while it is being downgraded, whether somebody waits: of readers nobody says so, or they would keep each other out. */
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

static void test_cluster_is_refused(void **state)
{
    struct user u;
    struct rt_op op = {.kind = RT_OP_BEAT};
    (void)state;
    assert_int_equal(user_open(&u, url_of("token")), 0);
    op.beat.open = true;
    assert_int_equal(user_do(&u, &op), ROTA_UNSUPPORTED);
    assert_non_null(strstr(u.errmsg, "is a cluster: this dialect"));
    user_close(&u);
}

/* ---- The unsafe ones ------------------------------------------------------------------------------- */

static void test_unsafe_ones_warn(void **state)
{
    static const char *const names[] = {"getset", "setnx"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct user u;
        assert_int_equal(user_open(&u, url_of(names[i])), 0);
        assert_non_null(strstr(u.log, "unsafe"));
        assert_non_null(strstr(u.conn->unsafe, "unsafe"));
        assert_int_equal(u.conn->engine->caps(u.conn) & (ROTA_CAP_STRICT | ROTA_CAP_FENCE), 0);
        user_close(&u);
    }
}

/* The trap itself: cut between SETNX and EXPIRE, the key is there for ever. */
static void test_setnx_without_expire(void **state)
{
    struct user u;
    struct rt_op op;
    struct rt_join join = {0};
    (void)state;
    start_behind(&u, "setnx");
    assert_int_equal(user_join(&u, "two-steps", &join), 0);
    while (rt_redis_integer(&one_redis, "PTTL two-steps") <= 0)
        user_turn(&u, 10);
    assert_int_equal(user_leave(&u, "two-steps", join.number), 0);
    assert_int_equal(rt_redis_integer(&one_redis, "EXISTS two-steps"), 0);
    struct rt_fault cut = {.on = RT_FAULT_REPLY, .what = RT_FAULT_CUT, .match = "for-ever"};
    (void)rt_proxy_fault(proxy, &cut);
    join_op(&u, &op, &join, "for-ever");
    assert_int_equal(user_do(&u, &op), ROTA_UNKNOWN);
    assert_int_equal(rt_redis_integer(&one_redis, "PTTL for-ever"), -1);
    end_behind(&u);
    rt_redis_must(&one_redis, "FLUSHALL");
}

static void test_getset_is_a_time(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "getset", TTL_MS);
    assert_int_equal(user_join(&u, "clock", &join), 0);
    long long ends = rt_redis_integer(&one_redis, "GET clock");
    assert_true(ends > 1600000000000);
    assert_int_equal(rt_redis_integer(&one_redis, "PTTL clock"), -1);
    assert_int_equal(user_leave(&u, "clock", join.number), 0);
    rt_redis_must(&one_redis, "SET clock 1600000000000"); /* of one who died */
    assert_int_equal(look(&u, "clock"), 0);
    assert_int_equal(try_join(&u, "clock", RT_EXCLUSIVE), 0);
    rt_redis_must(&one_redis, "SET clock 99999999999999");
    assert_int_equal(try_join(&u, "clock", RT_EXCLUSIVE), ROTA_BUSY);
    rt_redis_must(&one_redis, "SET clock noon");
    assert_int_equal(try_join(&u, "clock", RT_EXCLUSIVE), ROTA_INVALID);
    rt_redis_must(&one_redis, "DEL clock");
    user_close(&u);
}

static void test_unknown_dialects_and_replicas(void **state)
{
    struct user u;
    char url[700];
    (void)state;
    assert_int_equal(user_open(&u, url_of("tokens")), ROTA_INVALID);
    assert_non_null(strstr(u.errmsg, "has no dialect 'tokens'"));
    snprintf(url, sizeof(url), "%s&replicas=1", url_of("token"));
    assert_int_equal(user_open(&u, url), ROTA_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_is_a_string_with_a_ttl),
        cmocka_unit_test(test_token_waits_for_a_foreign_holder),
        cmocka_unit_test(test_token_names_who_made_it),
        cmocka_unit_test(test_token_refuses_other_types),
        cmocka_unit_test(test_token_frees_only_its_own),
        cmocka_unit_test(test_redisson_layout),
        cmocka_unit_test(test_a_beat_tells_what_is_lost),
        cmocka_unit_test(test_a_new_link_tells_what_is_lost),
        cmocka_unit_test(test_lost_reply_of_a_join),
        cmocka_unit_test(test_lost_reply_of_a_retry),
        cmocka_unit_test(test_renewal_is_batched),
        cmocka_unit_test(test_what_is_asked_for_is_renewed),
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
        cmocka_unit_test(test_unsafe_ones_warn),
        cmocka_unit_test(test_setnx_without_expire),
        cmocka_unit_test(test_getset_is_a_time),
        cmocka_unit_test(test_unknown_dialects_and_replicas),
    };
    if (getenv("ROTA_ONLY") != NULL) /* which finds a planted bug */
        cmocka_set_test_filter(getenv("ROTA_ONLY"));
    const struct CMUnitTest on_clusters[] = {cmocka_unit_test(test_cluster_is_refused)};
    int failed = cmocka_run_group_tests(tests, one_redis_start, one_redis_stop);
    return failed +
           cmocka_run_group_tests(on_clusters, one_redis_cluster_start, one_redis_cluster_stop);
}
