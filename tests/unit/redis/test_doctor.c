/* SPDX-License-Identifier: Apache-2.0 */
/* What the Redis engine says of a real server as it is set: the doctor, and why strict is refused. */
#include "lib/findings.h"
#include "lib/user.h"
#include "one_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 10000

/* ---- The doctor ------------------------------------------------------------------------- */

static void examine(const char *where, struct rt_findings *f, const char *maxmemory)
{
    struct user a;
    struct rt_op op = {.kind = RT_OP_CHECK};
    user_start(&a, where, TTL_MS);
    if (maxmemory != NULL) /* from here on: a session was made */
        rt_redis_must(&one_redis, "CONFIG SET maxmemory %s", maxmemory);
    op.check.each = rt_findings_take;
    op.check.arg = f;
    f->count = 0;
    assert_int_equal(user_do(&a, &op), 0);
    assert_int_equal(user_lines(&a, ""), 0); /* its own line is gone */
    user_close(&a);
}

static void test_doctor(void **state)
{
    struct rt_findings f;
    (void)state;
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"),
                        "limited"); /* nothing is kept on a disk */
    assert_string_equal(rt_findings_verdict(&f, "order"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "rights"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "pushes"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "clock"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET appendonly yes");
    rt_redis_must(&one_redis, "CONFIG SET appendfsync always");
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "fences"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "durable"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET no-appendfsync-on-rewrite yes");
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "limited");
    assert_string_equal(rt_findings_verdict(&f, "fences"), "limited");
    assert_string_equal(rt_findings_verdict(&f, "durable"), "limited");
    assert_non_null(strstr(rt_findings_setting(&f, "one holder"), "no-appendfsync-on-rewrite"));
    rt_redis_must(&one_redis, "CONFIG SET no-appendfsync-on-rewrite no");
    rt_redis_must(&one_redis, "CONFIG SET appendfsync no");
    examine(one_redis_url, &f, NULL);
    assert_non_null(strstr(rt_findings_setting(&f, "one holder"), "30 s"));
    rt_redis_must(&one_redis, "CONFIG SET appendfsync everysec");
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "limited");
    assert_non_null(strstr(rt_findings_setting(&f, "one holder"), "last second"));
    rt_redis_must(&one_redis, "CONFIG SET maxmemory 100mb");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy allkeys-lru");
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "broken");
    assert_string_equal(rt_findings_verdict(&f, "eviction"), "broken");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy volatile-ttl"); /* our keys have none */
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "eviction"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory 0");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy noeviction");
    rt_redis_must(&one_redis, "CONFIG SET appendonly no");
}

/* Why strict is refused, now; "": it is not. */
static const char *danger(void)
{
    static char text[256];
    struct user a;
    user_start(&a, one_redis_url, TTL_MS);
    (void)user_lines(&a, "");
    snprintf(text, sizeof(text), "%s", a.conn->unsafe);
    user_close(&a);
    return text;
}

static void test_strict(void **state)
{
    (void)state;
    rt_redis_must(&one_redis, "CONFIG SET appendonly yes");
    rt_redis_must(&one_redis, "CONFIG SET appendfsync always");
    assert_string_equal(danger(), "");
    rt_redis_must(&one_redis, "CONFIG SET no-appendfsync-on-rewrite yes");
    assert_non_null(strstr(danger(), "set no-appendfsync-on-rewrite no"));
    rt_redis_must(&one_redis, "CONFIG SET no-appendfsync-on-rewrite no");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy volatile-lru");
    assert_null(strstr(danger(), "evict locks")); /* they have no ttl */
    assert_non_null(strstr(danger(), "set maxmemory-policy noeviction"));
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy allkeys-lru");
    assert_non_null(strstr(danger(), "evict locks"));
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy noeviction");
    rt_redis_must(&one_redis, "CONFIG SET appendonly no");
}

/* Several addresses of which one is used: two primaries would each grant for themselves, and nobody could tell. */
static void test_strict_of_several(void **state)
{
    char *one = one_redis_url, several[128];
    struct rt_findings f;
    (void)state;
    rt_redis_must(&one_redis, "CONFIG SET appendonly yes");
    rt_redis_must(&one_redis, "CONFIG SET appendfsync always");
    snprintf(several, sizeof(several), "redis://127.0.0.1:%u,127.0.0.1:1", one_redis.server.port);
    one_redis_url = several;
    assert_non_null(strstr(danger(), "name one"));
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "limited");
    assert_non_null(strstr(rt_findings_setting(&f, "one holder"), "several servers"));
    assert_string_equal(rt_findings_verdict(&f, "fences"), "limited");
    one_redis_url = one;
    rt_redis_must(&one_redis, "CONFIG SET appendonly no");
}

/* Every right of the page's line, taken away alone, is missed by the doctor or when the connection opens. */
static void test_doctor_misses_rights(void **state)
{
    static const char *const inside[] = {"ping", "eval", "hincrby", "zpopmin", "hrandfield", "del"};
    struct rt_findings f;
    char own[128];
    (void)state;
    snprintf(own, sizeof(own), "redis://ada:x@127.0.0.1:%u", one_redis.server.port);
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        rt_redis_must(&one_redis, "ACL SETUSER ada on >x ~rota:* &rota:* +@all -%s", inside[i]);
        examine(own, &f, NULL);
        if (strcmp(rt_findings_verdict(&f, "rights"), "broken") != 0 ||
            strcasestr(rt_findings_setting(&f, "rights"), inside[i]) == NULL)
            fail_msg("-%s: %s %s", inside[i], rt_findings_verdict(&f, "rights"),
                     rt_findings_setting(&f, "rights"));
        rt_redis_must(&one_redis, "ACL DELUSER ada");
    }
}

static void test_doctor_of_a_full_server(void **state)
{
    struct rt_findings f;
    (void)state;
    examine(one_redis_url, &f, "1");
    assert_string_equal(rt_findings_verdict(&f, "memory"), "broken");
    assert_string_equal(rt_findings_verdict(&f, "rights"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "clock"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory 0");
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "memory"), "");
}

/* ---- A default user without rights ------------------------------------------------------- */

static void start_without_default(const char *default_rules, const char *user_rules)
{
    rt_redis_start(&one_redis, &(struct rt_redis_options){.keep = RT_REDIS_ALWAYS,
                                                          .user = "rota",
                                                          .user_password = "of-the-user",
                                                          .user_rules = user_rules,
                                                          .default_rules = default_rules});
    one_redis_url = malloc(128);
    assert_non_null(one_redis_url);
    snprintf(one_redis_url, 128, "redis://rota:of-the-user@127.0.0.1:%u", one_redis.server.port);
}

/* Whether a durable lock, as that of `rota once`, is still there after an orderly restart. */
static bool is_kept_by_a_restart(void)
{
    struct user a, b;
    struct rt_join first = {.session = 4711, .flags = RT_JOIN_DURABLE};
    struct rt_join second = {.session = 4712, .flags = RT_JOIN_DURABLE | RT_JOIN_TRY};
    user_start(&a, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_true(first.granted);
    user_close(&a);
    rt_server_term(&one_redis.server);
    rt_redis_run(&one_redis);
    user_start(&b, one_redis_url, TTL_MS);
    int rv = user_join(&b, "x", &second);
    assert_true(rv == 0 || rv == ROTA_BUSY);
    struct rt_op all = {.kind = RT_OP_BREAK};
    all.brk.name = "x";
    assert_int_equal(user_do(&b, &all), 0);
    user_close(&b);
    return rv == ROTA_BUSY;
}

/* On loading its file Redis 7.0.15 checks again whether scripts may, as the user default, and drops what that user may
 * not (redis#14541). For a server that no longer does this the doctor says too much: then make it depend on the
 * version. */
static void test_default_user_off(void **state)
{
    struct rt_findings f;
    (void)state;
    start_without_default("off", NULL);
    assert_false(is_kept_by_a_restart());
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "broken");
    assert_string_equal(rt_findings_verdict(&f, "fences"), "limited");
    assert_string_equal(rt_findings_verdict(&f, "durable"), "broken");
    assert_non_null(strstr(rt_findings_setting(&f, "one holder"), "default"));
    assert_non_null(strstr(danger(), "ACL SETUSER default ~* &* +@all"));
}

/* The remedy: it stays off, and has the rights. */
static void test_default_user_off_with_rights(void **state)
{
    struct rt_findings f;
    (void)state;
    start_without_default("off ~* &* +@all", NULL);
    assert_true(is_kept_by_a_restart());
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "kept");
    assert_string_equal(rt_findings_verdict(&f, "durable"), "kept");
    assert_string_equal(danger(), "");
}

/* Patterns that are wider than needed, and a selector, are rights as well: the restart says so, and so does the doctor. */
static void test_default_user_off_with_other_patterns(void **state)
{
    static const char *const rules[] = {"off ~rota* +@all", "off %R~* %W~rot?:* +@all",
                                        "off (~rota* +@all)"};
    struct rt_findings f;
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        start_without_default(rules[i], NULL);
        assert_true(is_kept_by_a_restart());
        examine(one_redis_url, &f, NULL);
        assert_string_equal(rt_findings_verdict(&f, "one holder"), "kept");
        assert_string_equal(danger(), "");
        if (i + 1 < sizeof(rules) / sizeof(rules[0]))
            (void)one_redis_stop(state);
    }
}

static void test_default_user_not_to_be_asked(void **state)
{
    struct rt_findings f;
    (void)state;
    start_without_default("off ~* &* +@all", RT_REDIS_RULES " -acl");
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "one holder"), "limited");
    assert_non_null(strstr(rt_findings_setting(&f, "one holder"), "cannot be told"));
    assert_string_equal(rt_findings_verdict(&f, "rights"), "kept"); /* all else works */
    assert_non_null(strstr(danger(), "+acl|getuser"));
}

/* ---- A cluster -------------------------------------------------------------------------- */

static void ignore(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
}

static void test_strict_of_a_cluster(void **state)
{
    struct user a;
    struct rt_op op = {.kind = RT_OP_INSPECT};
    op.inspect.name = "rota";
    op.inspect.each = ignore;
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    assert_int_equal(user_do(&a, &op), 0); /* as rota_open does: one node is known then */
    assert_non_null(strstr(a.conn->unsafe, "promoted"));
    user_close(&a);
}

/* The worst of all, whichever was greeted first. */
static void test_doctor_of_a_cluster(void **state)
{
    struct rt_findings f;
    (void)state;
    for (int i = 0; i < 3; i++) {
        rt_redis_must(&one_redis_cluster->node[i], "CONFIG SET maxmemory 100mb");
        rt_redis_must(&one_redis_cluster->node[i], "CONFIG SET maxmemory-policy allkeys-lru");
        examine(one_redis_url, &f, NULL);
        assert_string_equal(rt_findings_verdict(&f, "one holder"), "broken");
        assert_string_equal(rt_findings_verdict(&f, "eviction"), "broken");
        rt_redis_must(&one_redis_cluster->node[i], "CONFIG SET maxmemory-policy noeviction");
        rt_redis_must(&one_redis_cluster->node[i], "CONFIG SET maxmemory 0");
    }
    examine(one_redis_url, &f, NULL);
    assert_string_equal(rt_findings_verdict(&f, "eviction"), "kept");
}

int main(void)
{
    const struct CMUnitTest one[] = {
        cmocka_unit_test(test_doctor),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_strict_of_several),
        cmocka_unit_test(test_doctor_misses_rights),
        cmocka_unit_test(test_doctor_of_a_full_server),
    };
    const struct CMUnitTest many[] = {
        cmocka_unit_test(test_strict_of_a_cluster),
        cmocka_unit_test(test_doctor_of_a_cluster),
    };
    const struct CMUnitTest off[] = {
        cmocka_unit_test_teardown(test_default_user_off, one_redis_stop),
        cmocka_unit_test_teardown(test_default_user_off_with_rights, one_redis_stop),
        cmocka_unit_test_teardown(test_default_user_off_with_other_patterns, one_redis_stop),
        cmocka_unit_test_teardown(test_default_user_not_to_be_asked, one_redis_stop),
    };
    int failed = cmocka_run_group_tests(one, one_redis_start, one_redis_stop);
    failed += cmocka_run_group_tests(off, NULL, NULL);
    return failed + cmocka_run_group_tests(many, one_redis_cluster_start, one_redis_cluster_stop);
}
