/* SPDX-License-Identifier: Apache-2.0 */
/* The real Redis that tests rely on: restarts, failovers, moving slots, certificates, rights. */
#include "lib/proc.h"
#include "lib/redis_server.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#define SOON_MS 60000

static int guard(void **state)
{
    (void)state;
    rt_watchdog(100, "the tests of Redis hang");
    return 0;
}

/* ---- One node ----------------------------------------------------------- */

static void a_killed_node_comes_back_with_what_it_kept(void **state)
{
    struct rt_redis_options kept = {.keep = RT_REDIS_ALWAYS};
    struct rt_redis forgets, keeps;
    uint16_t port;

    (void)state;
    rt_redis_start(&forgets, NULL);
    rt_redis_start(&keeps, &kept);
    port = keeps.server.port;
    rt_redis_must(&forgets, "SET k 1");
    rt_redis_must(&keeps, "SET k 1");
    rt_redis_kill(&forgets);
    rt_redis_kill(&keeps);
    assert_null(rt_redis_say(port, "PING"));
    rt_redis_run(&forgets);
    rt_redis_run(&keeps);
    assert_int_equal(keeps.server.port, port);
    assert_int_equal(rt_redis_integer(&forgets, "EXISTS k"), 0);
    assert_int_equal(rt_redis_integer(&keeps, "EXISTS k"), 1);
    rt_redis_fini(&forgets);
    rt_redis_fini(&keeps);
}

static void a_stopped_node_answers_when_it_goes_on(void **state)
{
    struct rt_redis node;
    redisContext *c;
    struct timeval moment = {.tv_usec = 30000}, long_time = {.tv_sec = 20};
    redisReply *r = NULL;

    (void)state;
    rt_redis_start(&node, NULL);
    rt_server_stop(&node.server);
    c = redisConnect("127.0.0.1", node.server.port); /* the kernel accepts for it */
    assert_int_equal(c->err, 0);
    redisSetTimeout(c, moment);
    assert_null(redisCommand(c, "PING"));
    redisFree(c);
    rt_server_cont(&node.server);
    c = redisConnect("127.0.0.1", node.server.port);
    redisSetTimeout(c, long_time);
    r = redisCommand(c, "PING");
    assert_non_null(r);
    freeReplyObject(r);
    redisFree(c);
    rt_redis_fini(&node);
}

static void nothing_is_left_of_a_node(void **state)
{
    struct rt_redis node;
    char dir[sizeof(node.server.dir)];
    pid_t pid;

    (void)state;
    rt_redis_start(&node, NULL);
    snprintf(dir, sizeof(dir), "%s", node.server.dir);
    pid = node.server.pid;
    assert_int_equal(access(dir, F_OK), 0);
    rt_redis_fini(&node);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(kill(pid, 0), -1);
}

static char *as_user(redisContext *c, const char *command)
{
    redisReply *r = redisCommand(c, command);
    char *error;

    assert_non_null(r);
    error = r->type == REDIS_REPLY_ERROR ? strdup(r->str) : NULL;
    freeReplyObject(r);
    return error;
}

static void a_limited_user_may_do_what_its_rules_say(void **state)
{
    struct rt_redis_options opts = {.user = "rota", .user_password = "pw", .policy = "allkeys-lru"};
    struct rt_redis node;
    redisContext *c;
    char *error, *url;

    (void)state;
    rt_redis_start(&node, &opts);
    c = redisConnect("127.0.0.1", node.server.port);
    error = as_user(c, "PING");
    assert_non_null(error); /* the default user has a password */
    free(error);
    assert_null(as_user(c, "AUTH rota pw"));
    assert_null(as_user(c, "HSET rota:{0}:x f v"));
    error = as_user(c, "HSET other f v");
    assert_non_null(error);
    free(error);
    error = as_user(c, "FLUSHALL");
    assert_non_null(error);
    free(error);
    redisFree(c);
    assert_string_equal(rt_redis_info(&node, "memory", "maxmemory_policy"), "allkeys-lru");
    url = rt_redis_url(&node, 77);
    assert_non_null(strstr(url, "redis://rota@127.0.0.1:77/?password_file=/"));
    free(url);
    rt_redis_fini(&node);
}

/* ---- Certificates ------------------------------------------------------- */

static X509 *load(const char *path)
{
    FILE *f = fopen(path, "re");
    X509 *cert;

    assert_non_null(f);
    cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(cert);
    return cert;
}

/* What a client that trusts CA and expects localhost says of the certificate. */
static int verdict(const char *ca_path, const char *cert_path)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509 *ca = load(ca_path), *cert = load(cert_path);
    int err;

    X509_STORE_add_cert(store, ca);
    X509_STORE_CTX_init(ctx, store, cert, NULL);
    X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), "localhost", 0);
    X509_verify_cert(ctx);
    err = X509_STORE_CTX_get_error(ctx);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_free(ca);
    X509_free(cert);
    return err;
}

static void certificates_are_good_and_bad_as_named(void **state)
{
    struct rt_redis_options opts = {.tls = true};
    struct rt_redis node;
    const struct rt_certs *c = &node.certs;

    (void)state;
    rt_redis_start(&node, &opts);
    assert_int_equal(verdict(c->ca, c->server_cert), X509_V_OK);
    assert_int_equal(verdict(c->ca, c->other_cert), X509_V_ERR_HOSTNAME_MISMATCH);
    assert_int_equal(verdict(c->ca, c->expired_cert), X509_V_ERR_CERT_HAS_EXPIRED);
    assert_int_equal(verdict(c->stranger_ca, c->server_cert),
                     X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
    rt_redis_recertify(&node, c->expired_cert, c->expired_key);
    assert_null(rt_redis_say(node.server.port, "PING")); /* TLS only */
    rt_redis_fini(&node);
}

/* ---- Sentinel ----------------------------------------------------------- */

/* Replication does not wait: until NODE has k, a promotion may forget it. */
static void await_k(struct rt_redis *node)
{
    for (int ms = 0; ms < SOON_MS; ms++) {
        redisReply *r = rt_redis_do(node, "GET k");
        bool there = r != NULL && r->type == REDIS_REPLY_STRING;
        freeReplyObject(r);
        if (there)
            return;
        poll(NULL, 0, 1);
    }
    fail_msg("k is not replicated");
}

static void sentinels_agree_on_a_new_primary(void **state)
{
    struct rt_redis_sentinels *s = rt_redis_sentinels_new(NULL, true, 1);
    int second, third;
    struct rt_proxy_counts seen;

    (void)state;
    rt_redis_must(&s->node[0], "SET k 5");
    await_k(&s->node[1]);
    await_k(&s->node[2]);
    second = rt_redis_sentinels_failover(s, SOON_MS);
    assert_true(second == 1 || second == 2);
    second = rt_redis_sentinels_settle(s,
                                       SOON_MS); /* sentinels of a busy machine may choose again */
    assert_true(second >= 0);
    assert_int_equal(rt_redis_integer(&s->node[second], "GET k"), 5);
    third = rt_redis_sentinels_kill_primary(s, SOON_MS);
    assert_true(third >= 0 && third != second);
    rt_redis_run(&s->node[second]);
    assert_true(rt_redis_sentinels_settle(s, SOON_MS) >= 0);
    rt_proxy_counts(s->proxy[0], &seen); /* replicas and sentinels all go through it */
    assert_true(seen.connections >= 5);
    rt_redis_sentinels_free(s);
}

/* ---- Cluster ------------------------------------------------------------ */

static void a_slot_moves_with_its_keys(void **state)
{
    struct rt_redis_cluster *c = rt_redis_cluster_new(NULL, false, 1);
    unsigned slot = rt_redis_cluster_slot(c, "{room}");
    int from = rt_redis_cluster_owner(c, 0, slot), to = (from + 1) % 3;
    redisReply *r;

    (void)state;
    assert_true(from >= 0 && from < 3);
    for (int i = 0; i < 250; i++)
        rt_redis_must(&c->node[from], "SET {room}%d %d", i, i);
    rt_redis_cluster_move(c, slot, to);
    assert_int_equal(rt_redis_cluster_owner(c, to, slot), to);
    assert_int_equal(rt_redis_cluster_owner(c, from, slot), to);
    assert_int_equal(rt_redis_integer(&c->node[to], "GET {room}249"), 249);
    r = rt_redis_do(&c->node[from], "GET {room}1");
    assert_int_equal(strncmp(r->str, "MOVED ", 6), 0);
    freeReplyObject(r);
    assert_true(rt_redis_cluster_failover(c, to + 3, SOON_MS));
    assert_int_equal(rt_redis_integer(&c->node[to + 3], "GET {room}7"), 7);
    rt_redis_cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_node_comes_back_with_what_it_kept),
        cmocka_unit_test(a_stopped_node_answers_when_it_goes_on),
        cmocka_unit_test(nothing_is_left_of_a_node),
        cmocka_unit_test(a_limited_user_may_do_what_its_rules_say),
        cmocka_unit_test(certificates_are_good_and_bad_as_named),
        cmocka_unit_test(sentinels_agree_on_a_new_primary),
        cmocka_unit_test(a_slot_moves_with_its_keys),
    };

    return cmocka_run_group_tests_name("redis_server", tests, guard, NULL);
}
