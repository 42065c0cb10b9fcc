/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects beside their incumbents, whose commands the test says by hand on a real server: layouts to the byte,
 * what is refused, who wakes whom, lost replies. */
#include "dialects.h"
#include "lib/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* What was given back is not renewed, nor told as lost by a later beat. */
static void test_what_was_left_is_forgotten(void **state)
{
    struct user u;
    struct rt_join join = {0};
    (void)state;
    start(&u, "token", TTL_MS);
    assert_int_equal(user_join(&u, "left", &join), 0);
    assert_int_equal(user_leave(&u, "left", join.number), 0);
    rt_redis_must(&one_redis, "SET left theirs PX 60000");
    assert_int_equal(user_beat(&u), 0);
    assert_int_equal(user_beat(&u), 0);
    for (size_t i = 0; i < u.told_count; i++)
        assert_int_not_equal(u.told[i].kind, RT_TICKET_LOST);
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

/* A new link leads to a server that may not know what the old one knew: it is asked at once, not by the next beat. */
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

/* The answer to the SET is lost: nobody knows. Asked again, it is the same grant; given up, it is deleted. */
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

/* Three requests of one flight renew 250 holds. */
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
    rt_redis_must(&one_redis, "PEXPIRE late 5000"); /* that much time has passed */
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
        cmocka_unit_test(test_what_was_left_is_forgotten),
        cmocka_unit_test(test_token_waits_for_a_foreign_holder),
        cmocka_unit_test(test_token_names_who_made_it),
        cmocka_unit_test(test_token_refuses_other_types),
        cmocka_unit_test(test_token_frees_only_its_own),
        cmocka_unit_test(test_a_beat_tells_what_is_lost),
        cmocka_unit_test(test_a_new_link_tells_what_is_lost),
        cmocka_unit_test(test_lost_reply_of_a_join),
        cmocka_unit_test(test_lost_reply_of_a_retry),
        cmocka_unit_test(test_renewal_is_batched),
        cmocka_unit_test(test_what_is_asked_for_is_renewed),
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
