/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that refuse, cannot, or are no Redis. A minority of them is not noticed; a majority is one clear error in time
 * that says why, and nothing stays behind. */
#include "five.h"
#include "lib/history.h"
#include "lib/refusal.h"
#include "lib/rogue.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALL_MS 400
#define GOOD_MS 20000 /* for what must succeed, on any machine */
#define LATE_MS 40000 /* on any machine: call_ms and what a sanitizer and its load add */
#define SECRET "hush-Wr0ng-7c1"
#define RIGHT "r1ght-s3cret-9f"
#define NODES RT_REDLOCK_FIVE
#define MINORITY 2

static struct rt_redis_redlock *five; /* plain, no password */

/* ---- Asking, and what is said ------------------------------------------------ */

static void assert_url(const char *url, int err, const char *word)
{
    static const char *const secrets[] = {SECRET, RIGHT, NULL};
    bool told = err == ROTA_AUTH ||
                err == ROTA_PROTOCOL; /* by the nodes: a busy machine's are waited for */
    struct refusal o = refusal_of(url, told ? GOOD_MS : CALL_MS);

    refusal_assert(&o, err, word, secrets);
    assert_true(o.ms < LATE_MS);
}

static void assert_good(const char *url)
{
    struct refusal o = refusal_of(url, GOOD_MS);

    if (o.err != 0)
        fail_msg("%s: %s", rota_strerror(o.err), o.text);
}

/* One node after another goes wrong: two do no harm, three are reported. */
static void one_by_one(struct rt_redis_redlock *r, const char *url,
                       void (*spoil)(struct rt_redis *node), int err, const char *words)
{
    assert_good(url);
    for (int i = 0; i < NODES; i++) {
        spoil(&r->node[i]);
        if (i < MINORITY)
            assert_good(url);
        else if (i == MINORITY || i == NODES - 1)
            assert_url(url, err, words);
    }
}

/* ---- Who may, and what ----------------------------------------------------- */

static void change_password(struct rt_redis *node)
{
    rt_redis_must(node, "CONFIG SET requirepass %s", "an0ther-0ne");
}

static void passwords(void **state)
{
    struct rt_redis_options opts = {.password = RIGHT};
    struct rt_redis_redlock *r = rt_redis_redlock_new(&opts, false, 0);
    struct rt_redis bare = r->node[0];
    char *url = rt_redis_redlock_url(r, "max_ttl=0");

    (void)state;
    r->node[0].password_file[0] = '\0';
    char *without = rt_redis_redlock_url(r, "max_ttl=0");
    memcpy(r->node[0].password_file, bare.password_file, sizeof(bare.password_file));
    assert_url(without, ROTA_AUTH, "password");
    setenv("ROTA_PASSWORD", SECRET, 1);
    assert_url(without, ROTA_AUTH, NULL);
    setenv("ROTA_PASSWORD", RIGHT, 1);
    assert_good(without);
    unsetenv("ROTA_PASSWORD");
    one_by_one(r, url, change_password, ROTA_AUTH, "password|127.0.0.1");
    free(without);
    free(url);
    rt_redis_redlock_free(r);
}

/* A user who may not do what Redlock needs: the error names whatever is missing. */
static void missing_rights(void **state)
{
    static const char *const missing[][2] = {
        {"-evalsha -eval", "eval"}, {"-set", "set"}, {"-time", "time"},
        {"-info", "info"},          {"-del", "-"},   {"resetkeys ~other:*", "key"},
        {"resetkeys ~*", ""},       {"-get", "get"}, {"-type", "type"},
    };
    struct rt_redis_options opts = {
        .user = "limited", .user_password = RIGHT, .user_rules = RT_REDLOCK_RULES};
    struct rt_redis_redlock *r = rt_redis_redlock_new(&opts, false, 0);
    char *url = rt_redis_redlock_url(r, "max_ttl=0");

    (void)state;
    assert_good(url);
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        char command[200];
        for (int n = 0; n < NODES; n++) {
            snprintf(command, sizeof(command), "ACL SETUSER limited %s", missing[i][0]);
            rt_redis_must(&r->node[n], command);
        }
        print_message("%s\n", missing[i][0]);
        if (missing[i][1][0] == '-') /* it was granted, and is not given back before its ttl */
            assert_url(url, ROTA_UNKNOWN, NULL);
        else if (missing[i][1][0] != '\0')
            assert_url(url, ROTA_AUTH, missing[i][1]);
        else
            assert_good(url);
        snprintf(command, sizeof(command), "ACL SETUSER limited resetkeys %s", RT_REDLOCK_RULES);
        for (int n = 0; n < NODES; n++)
            rt_redis_must(&r->node[n], command);
    }
    assert_good(url);
    free(url);
    rt_redis_redlock_free(r);
}

static void a_wrong_database(void **state)
{
    char *url = rt_redis_redlock_url(five, "max_ttl=0&db=99");

    (void)state;
    assert_url(url, ROTA_INVALID, "99");
    free(url);
    url = rt_redis_redlock_url(five, "max_ttl=0&db=kitchen");
    assert_url(url, ROTA_INVALID, NULL);
    free(url);
    url = rt_redis_redlock_url(five, "max_ttl=0&db=3");
    assert_good(url);
    free(url);
}

/* ---- Who cannot --------------------------------------------------------------- */

static void make_replica(struct rt_redis *node)
{
    rt_redis_must(node, "REPLICAOF 127.0.0.1 1");
}

static void replicas(void **state)
{
    char *url = rt_redis_redlock_url(five, "max_ttl=0");

    (void)state;
    one_by_one(five, url, make_replica, ROTA_UNREACHABLE, "replica|127.0.0.1");
    for (int i = 0; i < NODES; i++)
        rt_redis_must(&five->node[i], "REPLICAOF NO ONE");
    assert_good(url);
    free(url);
}

static void members_of_a_cluster(void **state)
{
    struct rt_redis_options opts = {.cluster = true};
    struct rt_redis_redlock *r = rt_redis_redlock_new(&opts, false, 0);
    char *url = rt_redis_redlock_url(r, "max_ttl=0");

    (void)state;
    assert_url(url, ROTA_UNSUPPORTED, "cluster|127.0.0.1");
    free(url);
    rt_redis_redlock_free(r);
}

/* A hold from before is given back even when the nodes take nothing more. */
static void full_nodes(void **state)
{
    struct rota_options opts = {.ttl_ms = 10000, .call_ms = GOOD_MS};
    struct rota_ask soon = {.limit_ms = CALL_MS};
    struct rota_lock *lock = NULL, *more = NULL;
    struct rota *r = NULL;
    char *url = rt_redis_redlock_url(five, "max_ttl=0");

    (void)state;
    assert_int_equal(rota_open(&r, url, &opts), 0);
    assert_int_equal(rota_acquire(r, "held before", NULL, &lock), 0);
    for (int i = 0; i < NODES; i++) {
        rt_redis_must(&five->node[i], "CONFIG SET maxmemory 1");
        if (i >= MINORITY)
            continue;
        assert_int_equal(rota_acquire(r, "another", NULL, &more), 0);
        assert_int_equal(rota_release(more), 0);
    }
    assert_int_equal(rota_acquire(r, "another", &soon, &more), ROTA_UNREACHABLE);
    print_message("%s\n", rota_errmsg(r));
    assert_non_null(strstr(rota_errmsg(r), "maxmemory"));
    assert_int_equal(rota_release(lock), 0);
    for (int i = 0; i < NODES; i++)
        rt_redis_must(&five->node[i], "CONFIG SET maxmemory 0");
    assert_int_equal(rota_acquire(r, "another", NULL, &more), 0);
    assert_int_equal(rota_release(more), 0);
    rota_close(r);
    free(url);
}

static void spoil_counter(struct rt_redis *node)
{
    rt_redis_must(node, "SET rota:f nonsense");
}

static void hash_for_counter(struct rt_redis *node)
{
    rt_redis_must(node, "DEL rota:f");
    rt_redis_must(node, "HSET rota:f a b");
}

/* Somebody overwrote the counter: a lock without a number that grows is no lock. */
static void counters_that_are_none(void **state)
{
    char *url = rt_redis_redlock_url(five, "max_ttl=0");

    (void)state;
    one_by_one(five, url, spoil_counter, ROTA_PROTOCOL, "script|127.0.0.1");
    for (int i = 0; i < NODES; i++)
        rt_redis_must(&five->node[i], "DEL rota:f");
    one_by_one(five, url, hash_for_counter, ROTA_PROTOCOL, "rota:|127.0.0.1");
    for (int i = 0; i < NODES; i++)
        rt_redis_must(&five->node[i], "DEL rota:f");
    assert_good(url);
    free(url);
}

/* ---- TLS ------------------------------------------------------------------------- */

static const struct rt_certs *certs;

static void expire_certificate(struct rt_redis *node)
{
    rt_redis_recertify(node, certs->expired_cert, certs->expired_key);
}

static void certificates(void **state)
{
    struct rt_redis_options opts = {
        .tls = true, .user = "limited", .user_password = RIGHT, .user_rules = RT_REDLOCK_RULES};
    struct rt_redis_redlock *r = rt_redis_redlock_new(&opts, false, 0);
    char *url = rt_redis_redlock_url(r, "max_ttl=0&ttl=10s"), *plain;
    char stranger[1500], *ca;

    (void)state;
    certs = &r->node[0].certs;
    assert_good(url);
    ca = strstr(url, "&ca=");
    snprintf(stranger, sizeof(stranger), "%.*s&ca=%s%s", (int)(ca - url), url, certs->stranger_ca,
             strstr(url, "&password_file="));
    assert_url(stranger, ROTA_AUTH, "certificate");
    one_by_one(r, url, expire_certificate, ROTA_AUTH, "certificate");
    /* Each speaks what the other does not. */
    assert_int_equal(asprintf(&plain, "redlock%s", url + strlen("redlocks")) > 0, 1);
    assert_int_not_equal(refusal_of(plain, CALL_MS).err, 0);
    free(plain);
    free(url);
    rt_redis_redlock_free(r);
}

static void tls_to_plain_nodes(void **state)
{
    char *plain = rt_redis_redlock_url(five, "max_ttl=0"), *url;

    (void)state;
    assert_int_equal(asprintf(&url, "redlocks%s", plain + strlen("redlock")) > 0, 1);
    struct refusal o = refusal_of(url, CALL_MS);
    assert_true(o.err == ROTA_AUTH || o.err == ROTA_PROTOCOL || o.err == ROTA_UNREACHABLE);
    assert_true(o.text[0] != '\0');
    free(url);
    free(plain);
}

/* ---- Who is no Redis ---------------------------------------------------------------- */

/* The first BAD of five are ROGUE. */
static void url_with(char *url, size_t size, const struct rogue *rogue, int bad)
{
    size_t at = (size_t)snprintf(url, size, "redlock://");

    for (int i = 0; i < NODES; i++) /* one server by several names: each is dialed */
        at += (size_t)snprintf(url + at, size - at, "%s127.0.0.%d:%u", i > 0 ? "," : "",
                               i < bad ? i + 1 : 1,
                               (unsigned)(i < bad ? rogue_port(rogue) : five->node[i].server.port));
    snprintf(url + at, size - at, "/?max_ttl=0");
}

static void servers_that_are_none(void **state)
{
    (void)state;
    setenv("ROTA_PASSWORD", SECRET, 1);
    for (size_t i = 0; i < ROGUE_NO_REDIS; i++) {
        struct rogue *rogue = rogue_start(&rogue_no_redis[i]);
        char url[600];

        url_with(url, sizeof(url), rogue, 3);
        struct refusal o = refusal_of(url, CALL_MS);
        print_message("%zu: %s: %s\n", i, rota_strerror(o.err), o.text);
        assert_true(o.err == ROTA_UNREACHABLE || o.err == ROTA_PROTOCOL || o.err == ROTA_AUTH ||
                    o.err == ROTA_UNSUPPORTED || o.err == ROTA_UNKNOWN);
        assert_true(o.text[0] != '\0' && strstr(o.text, SECRET) == NULL && o.ms < LATE_MS);
        rogue_stop(rogue);
    }
    unsetenv("ROTA_PASSWORD");
}

static void two_servers_that_are_none(void **state)
{
    static const struct rogue_options rogues[] = {
        {.way = ROGUE_MUTE}, {.way = ROGUE_CLOSES}, {.way = ROGUE_NOISE, .seed = 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(rogues) / sizeof(rogues[0]); i++) {
        struct rogue *rogue = rogue_start(&rogues[i]);
        char url[600];

        url_with(url, sizeof(url), rogue, MINORITY);
        assert_good(url);
        rogue_stop(rogue);
    }
}

static void nobody_there(void **state)
{
    (void)state;
    assert_url("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/?max_ttl=0", ROTA_UNREACHABLE,
               "0 of 3 nodes|refused");
    assert_url("redlock://a.invalid,b.invalid,c.invalid/?max_ttl=0", ROTA_UNREACHABLE, NULL);
}

static int start(void **state)
{
    (void)state;
    five = rt_redis_redlock_new(NULL, false, 0);
    return 0;
}

static int stop(void **state)
{
    char text[400];

    (void)state;
    if (five_keys_left(five, text, sizeof(text)) > 0) {
        fprintf(stderr, "left behind:%s\n", text);
        return 1;
    }
    rt_redis_redlock_free(five);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passwords),
        cmocka_unit_test(missing_rights),
        cmocka_unit_test(a_wrong_database),
        cmocka_unit_test(replicas),
        cmocka_unit_test(members_of_a_cluster),
        cmocka_unit_test(full_nodes),
        cmocka_unit_test(counters_that_are_none),
        cmocka_unit_test(certificates),
        cmocka_unit_test(tls_to_plain_nodes),
        cmocka_unit_test(servers_that_are_none),
        cmocka_unit_test(two_servers_that_are_none),
        cmocka_unit_test(nobody_there),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, start, stop);
}
