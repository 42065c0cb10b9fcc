/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that refuse, cannot, or are no Redis: one clear error in time, and nothing left behind. */
#include "keys.h"
#include "lib/history.h"
#include "lib/proc.h"
#include "lib/refusal.h"
#include "lib/rogue.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CALL_MS 400
#define LATE_MS 20000 /* on any machine: call_ms and what a sanitizer and its load add */
#define SECRET "hush-Wr0ng-7c1"
#define RIGHT "r1ght-s3cret-9f"

/* ---- Asking, and what is said ------------------------------------------------ */

static struct refusal try_url(const char *url)
{
    return refusal_of(url, CALL_MS);
}

static void assert_says(const struct refusal *o, int err, const char *word)
{
    static const char *const secrets[] = {SECRET, RIGHT, NULL};

    refusal_assert(o, err, word, secrets);
    assert_true(o->ms < LATE_MS);
}

static void assert_url(const char *url, int err, const char *word)
{
    struct refusal o = try_url(url);

    assert_says(&o, err, word);
}

static void url_of(char *out, size_t size, uint16_t port, const char *rest)
{
    snprintf(out, size, "redis://127.0.0.1:%u/%s", (unsigned)port, rest);
}

static void write_file(char *path, size_t size, const char *name, const char *text)
{
    FILE *f;

    snprintf(path, size, "%s/%s", rt_tmpdir(), name);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(chmod(path, 0600), 0);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
}

/* ---- Who may, and what ----------------------------------------------------- */

static void a_wrong_password(void **state)
{
    struct rt_redis_options opts = {.password = RIGHT};
    struct rt_redis node;
    char path[300], rest[400], url[600];

    (void)state;
    rt_redis_start(&node, &opts);
    write_file(path, sizeof(path), "wrong", SECRET);
    snprintf(rest, sizeof(rest), "?password_file=%s", path);
    url_of(url, sizeof(url), node.server.port, rest);
    assert_url(url, ROTA_AUTH, "password");
    url_of(url, sizeof(url), node.server.port, "");
    assert_url(url, ROTA_AUTH, NULL);
    setenv("ROTA_PASSWORD", SECRET, 1);
    assert_url(url, ROTA_AUTH, NULL);
    setenv("ROTA_PASSWORD", RIGHT, 1);
    assert_int_equal(try_url(url).err, 0);
    unsetenv("ROTA_PASSWORD");
    rt_redis_fini(&node);
}

/* A user who may not do what Rota needs. The error names the first right that is missing. */
static void missing_rights(void **state)
{
    static const struct {
        const char *rules, *says;
    } cases[] = {
        {"~rota:* &rota:* +@all -evalsha -eval", "eval"},
        {"~rota:* &rota:* +@all -zadd", "ZADD"},
        {"~other:* &rota:* +@all", "the right to keys of Rota's: grant it ~rota:*"},
        {"%R~rota:* &rota:* +@all", "the right to keys of Rota's: grant it ~rota:*"},
        {"~rota:{0}:meta &rota:* +@all", "the right to keys of Rota's: grant it ~rota:*"},
        {"~rota:* &other:* +@all", "the right to channels: grant it &rota:*"},
        {"~rota:* &rota:* +@all -info", "info"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rt_redis_options opts = {
            .user = "limited", .user_password = RIGHT, .user_rules = cases[i].rules};
        struct rt_redis node;
        struct refusal o;
        char *url;

        rt_redis_start(&node, &opts);
        url = rt_redis_url(&node, 0);
        o = try_url(url);
        print_message("%s\n", cases[i].rules);
        assert_says(&o, ROTA_AUTH, cases[i].says);
        free(url);
        rt_redis_fini(&node);
    }
}

static void a_wrong_database(void **state)
{
    struct rt_redis node;
    char url[600];

    (void)state;
    rt_redis_start(&node, NULL);
    url_of(url, sizeof(url), node.server.port, "99");
    assert_url(url, ROTA_INVALID, "99");
    url_of(url, sizeof(url), node.server.port, "kitchen");
    assert_url(url, ROTA_INVALID, NULL);
    url_of(url, sizeof(url), node.server.port, "3");
    assert_int_equal(try_url(url).err, 0);
    rt_redis_fini(&node);
}

/* ---- Who cannot --------------------------------------------------------------- */

static void a_replica(void **state)
{
    struct rt_redis primary, replica;
    char url[600];

    (void)state;
    rt_redis_start(&primary, NULL);
    rt_redis_start(&replica, NULL);
    rt_redis_must(&replica, "REPLICAOF 127.0.0.1 %d", (int)primary.server.port);
    url_of(url, sizeof(url), replica.server.port, "");
    assert_url(url, ROTA_UNREACHABLE, "replica");
    rt_redis_fini(&replica);
    rt_redis_fini(&primary);
}

/* A hold from before is given back even when the server takes nothing more. */
static void a_full_server(void **state)
{
    struct rota_options opts = {.ttl_ms = 10000};
    struct rt_redis node;
    struct rota_lock *lock = NULL, *more = NULL;
    struct rota *r = NULL;
    struct refusal o;
    int64_t since;
    int err;
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    assert_int_equal(rota_open(&r, url, &opts), 0);
    assert_int_equal(rota_acquire(r, "held before", NULL, &lock), 0);
    rt_redis_must(&node, "CONFIG SET maxmemory 1");
    since = rt_history_now();
    err = rota_acquire(r, "another", NULL, &more);
    refusal_note(&o, err, rota_errmsg(r), since);
    assert_says(&o, ROTA_UNREACHABLE, "maxmemory");
    assert_int_equal(rota_release(lock), 0);
    rt_redis_must(&node, "CONFIG SET maxmemory 0");
    assert_int_equal(rota_acquire(r, "another", NULL, &more), 0);
    assert_int_equal(rota_release(more), 0);
    rota_close(r);
    free(url);
    rt_redis_fini(&node);
}

/* However busy the machine is. */
static void must_open_patiently(const char *url)
{
    struct rota_options patient = {.ttl_ms = 1000, .call_ms = 60000};
    struct rota *r;

    assert_int_equal(rota_open(&r, url, &patient), 0);
    rota_close(r);
}

/* Redis can be made to load slowly: a number of microseconds for each key. */
static void a_server_that_loads(void **state)
{
    struct rt_redis_options opts = {.extra = "key-load-delay 1000\n"
                                             "loading-process-events-interval-bytes 1024\n"};
    struct rt_redis node;
    char *url;

    (void)state;
    rt_redis_start(&node, &opts);
    rt_redis_must(&node, "EVAL %s 0", "for i = 1, 1500 do redis.call('SET', 'k' .. i, i) end");
    rt_redis_must(&node, "SAVE");
    url = rt_redis_url(&node, 0);
    rt_redis_kill(&node);
    rt_server_start(&node.server);
    rt_server_await(&node.server, rt_server_accepts, NULL, LATE_MS);
    assert_url(url, ROTA_UNREACHABLE, "loading");
    must_open_patiently(url); /* waits for the end of that */
    free(url);
    rt_redis_fini(&node);
}

static void a_key_of_another_type(void **state)
{
    static const char *const keys[] = {"rota:{0}", "rota:{0}:e", "rota:{0}:meta"};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct rt_redis node;
        char command[200], key[100];
        size_t before;
        char *url;

        rt_redis_start(&node, NULL);
        url = rt_redis_url(&node, 0);
        if (strstr(keys[i], "meta") == NULL)
            must_open_patiently(url); /* makes the layout */
        freeReplyObject(rt_redis_do(&node, "DEL rota:{0} rota:{0}:e"));
        snprintf(key, sizeof(key), "%s", keys[i]);
        snprintf(command, sizeof(command), "SET %s foreign", key);
        rt_redis_must(&node, command);
        before = redis_key_count(&node);
        assert_url(url, ROTA_PROTOCOL, NULL);
        /* A session may stay for its ttl, but nothing that stands in a line. */
        assert_true(redis_key_count(&node) <= before + 2);
        free(url);
        rt_redis_fini(&node);
    }
}

static void a_newer_layout(void **state)
{
    struct rt_redis node;
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    rt_redis_must(&node, "HSET rota:{0}:meta layout 2.0 rooms 1");
    url = rt_redis_url(&node, 0);
    assert_url(url, ROTA_UNSUPPORTED, "2.0");
    rt_redis_must(&node, "HSET rota:{0}:meta layout 1.7 rooms 1");
    assert_int_equal(try_url(url).err, 0);
    free(url);
    rt_redis_fini(&node);
}

/* ---- TLS ------------------------------------------------------------------------- */

static void certificates(void **state)
{
    struct rt_redis_options opts = {.tls = true};
    struct rt_redis node;
    char url[900];
    char *good;
    unsigned port;

    (void)state;
    rt_redis_start(&node, &opts);
    port = node.server.port;
    good = rt_redis_url(&node, 0);
    assert_int_equal(try_url(good).err, 0);
    snprintf(url, sizeof(url), "rediss://localhost:%u/?ca=%s", port, node.certs.stranger_ca);
    assert_url(url, ROTA_AUTH, "certificate");
    snprintf(url, sizeof(url), "rediss://localhost:%u/", port);
    assert_url(url, ROTA_AUTH, "certificate");
    rt_redis_recertify(&node, node.certs.other_cert, node.certs.other_key);
    assert_url(good, ROTA_AUTH, "certificate");
    rt_redis_recertify(&node, node.certs.expired_cert, node.certs.expired_key);
    assert_url(good, ROTA_AUTH, "certificate");
    rt_redis_recertify(&node, node.certs.server_cert, node.certs.server_key);
    assert_int_equal(try_url(good).err, 0);
    /* Each speaks what the other does not. */
    url_of(url, sizeof(url), node.server.port, "");
    assert_int_not_equal(try_url(url).err, 0);
    free(good);
    rt_redis_fini(&node);
}

static void tls_to_a_plain_server(void **state)
{
    struct rt_redis node;
    char url[600];
    struct refusal o;

    (void)state;
    rt_redis_start(&node, NULL);
    snprintf(url, sizeof(url), "rediss://localhost:%u/", (unsigned)node.server.port);
    o = try_url(url);
    assert_true(o.err == ROTA_AUTH || o.err == ROTA_PROTOCOL || o.err == ROTA_UNREACHABLE);
    assert_says(&o, o.err, NULL);
    assert_int_equal(redis_key_count(&node), 0);
    rt_redis_fini(&node);
}

/* ---- Who is no Redis ---------------------------------------------------------------- */

static void servers_that_are_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROGUE_NO_REDIS; i++) {
        struct rogue *rogue = rogue_start(&rogue_no_redis[i]);
        char url[600];
        struct refusal o;

        url_of(url, sizeof(url), rogue_port(rogue), "");
        setenv("ROTA_PASSWORD", SECRET, 1);
        o = try_url(url);
        unsetenv("ROTA_PASSWORD");
        print_message("%zu: ", i);
        assert_says(&o, o.err, NULL);
        assert_true(o.err == ROTA_UNREACHABLE || o.err == ROTA_PROTOCOL || o.err == ROTA_AUTH ||
                    o.err == ROTA_UNSUPPORTED || o.err == ROTA_UNKNOWN);
        rogue_stop(rogue);
    }
}

static void nobody_there(void **state)
{
    int anchor;
    uint16_t port = rt_port_reserve(&anchor);
    char url[600];

    (void)state;
    url_of(url, sizeof(url), port, "");
    assert_url(url, ROTA_UNREACHABLE, "refused");
    assert_url("redis+unix:/nowhere/redis.sock", ROTA_UNREACHABLE, NULL);
    assert_url("redis://no-such-host.invalid/", ROTA_UNREACHABLE, NULL);
    close(anchor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_password),      cmocka_unit_test(missing_rights),
        cmocka_unit_test(a_wrong_database),      cmocka_unit_test(a_replica),
        cmocka_unit_test(a_full_server),         cmocka_unit_test(a_server_that_loads),
        cmocka_unit_test(a_key_of_another_type), cmocka_unit_test(a_newer_layout),
        cmocka_unit_test(certificates),          cmocka_unit_test(tls_to_a_plain_server),
        cmocka_unit_test(servers_that_are_none), cmocka_unit_test(nobody_there),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
