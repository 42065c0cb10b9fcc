/* SPDX-License-Identifier: Apache-2.0 */
/* The connection, TLS with certificates on both sides, and users: who is let in, and to what. */
#include "bare.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rt_etcds etcds;
static char *url;

static void open_as(struct bare *b, const char *where, const char *password)
{
    assert_int_equal(bare_open(b, where, password, 0, 0), 0);
}

/* ---- Users ------------------------------------------------------------------------------------------ */

static void the_right_password(void **state)
{
    struct bare b;
    struct asked a;
    static struct watched mine, others;
    (void)state;
    open_as(&b, url, etcds.password);
    must_put(&b, RT_ETCDS_PREFIX "x", "1");
    assert_true(rt_etcd_facts(b.conn)->auth && rt_etcd_secure(b.conn));
    ask_put(&b, &a, "others/x", "1", 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_AUTH);
    assert_int_equal(a.reason, RT_ETCD_RIGHTS);
    watch(&b, &mine, RT_ETCDS_PREFIX "x", "");
    watch(&b, &others, "others/x", "");
    bare_until(&mine.created, 1);
    bare_until(&others.lost, 1);
    assert_int_equal(others.err, ROTA_AUTH);
    assert_null(others.w.user);
    bare_until(&mine.created, mine.lost + 1); /* it may have been asked for anew */
    must_put(&b, RT_ETCDS_PREFIX "x", "2");
    bare_until(&mine.events, 1);
    ask_grant(&b, &a, 30);
    ask_end(&b, &a);
    assert_int_equal(a.err, 0);
    static struct kept k;
    keep(&b, &k, a.lease, 0);
    bare_until(&k.answers, 1);
    assert_int_equal(k.err, 0);
    assert_int_equal(b.linked, 1);
    bare_close(&b);
}

static void a_wrong_password(void **state)
{
    struct bare b;
    struct asked a;
    static struct kept k;
    (void)state;
    assert_int_equal(bare_open(&b, url, "the-secret-itself", 60000, 0), 0); /* at once */
    ask_put(&b, &a, RT_ETCDS_PREFIX "x", "1", 0);
    keep(&b, &k, 7, 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_AUTH);
    assert_non_null(strstr(a.why, "'rota'"));
    assert_null(strstr(a.why, "secret-itself"));
    bare_until(&k.answers, 1);
    bare_until(&b.failed, 1);
    assert_int_equal(b.err, ROTA_AUTH);
    assert_int_equal(b.linked, 0);
    ask_put(&b, &a, RT_ETCDS_PREFIX "x", "1", 0); /* tried again, refused again */
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_AUTH);
    assert_int_equal(b.failed, 2);
    bare_close(&b);
}

static void no_user_at_all(void **state)
{
    struct bare b;
    struct asked a;
    char *nobody = strdup(url);
    (void)state;
    assert_non_null(nobody);
    char *at = strstr(nobody, "rota@");
    memmove(at, at + 5, strlen(at + 5) + 1);
    open_as(&b, nobody, NULL);
    ask_put(&b, &a, RT_ETCDS_PREFIX "x", "1", 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_AUTH);
    bare_close(&b);
    free(nobody);
}

/* The server forgets its tokens: the client gets another by itself, on the same connection and after it. */
static void tokens_are_asked_for_anew(void **state)
{
    struct bare b;
    struct asked a[8];
    static struct watched w, later;
    (void)state;
    open_as(&b, url, etcds.password);
    must_put(&b, RT_ETCDS_PREFIX "t", "1");
    watch(&b, &w, RT_ETCDS_PREFIX "t", "");
    bare_until(&w.created, 1);
    rt_etcds_must(&etcds, "auth", "disable");
    char root[sizeof(etcds.root_password)];
    memcpy(root, etcds.root_password, sizeof(root));
    etcds.root_password[0] = '\0';
    rt_etcds_must(&etcds, "auth", "enable");
    memcpy(etcds.root_password, root, sizeof(root));
    watch(&b, &later, RT_ETCDS_PREFIX "u", ""); /* refused for its token, not for its name */
    for (size_t i = 0; i < 8; i++)
        ask_put(&b, &a[i], RT_ETCDS_PREFIX "t", "2", 0);
    for (size_t i = 0; i < 8; i++) {
        ask_end(&b, &a[i]);
        assert_string_equal(a[i].why, "");
    }
    bare_until(&later.created, 1);
    must_put(&b, RT_ETCDS_PREFIX "u", "1");
    bare_until(&later.events, 1);
    assert_int_equal(b.linked, 1);

    rt_server_kill(&etcds.node[0].server);
    rt_etcds_run(&etcds, 0);
    bare_until(&b.linked, 2);
    must_put(&b, RT_ETCDS_PREFIX "u", "2");
    int events = later.events;
    bare_until(&later.created, later.lost + 1);
    must_put(&b, RT_ETCDS_PREFIX "u", "3");
    bare_until(&later.events, events + 1);
    assert_int_equal(b.failed, 0);
    bare_close(&b);
}

/* Refused for an old token when there already is a new one: sent again at once, not at the next timer. */
static void a_token_that_was_replaced_meanwhile(void **state)
{
    struct bare b;
    struct asked a;
    (void)state;
    assert_int_equal(bare_open(&b, url, etcds.password, 120000, 0), 0);
    must_put(&b, RT_ETCDS_PREFIX "m", "1");
    b.conn->token[0] ^= 1;
    ask_put(&b, &a, RT_ETCDS_PREFIX "m", "2", 0);
    b.conn->token[0] ^= 1;
    b.conn->token_serial++;
    ask_end(&b, &a);
    assert_string_equal(a.why, "");
    bare_close(&b);
}

/* ---- Certificates ----------------------------------------------------------------------------------- */

static void refused_with(const char *query, int err, const char *why)
{
    struct bare b;
    struct asked a;
    char where[1024];
    snprintf(where, sizeof(where), "etcds://localhost:%u/?%s", (unsigned)etcds.node[0].server.port,
             query);
    open_as(&b, where, NULL);
    ask_put(&b, &a, RT_ETCDS_PREFIX "x", "1", 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, err);
    assert_non_null(strstr(a.why, why));
    bare_close(&b);
}

static void certificates_that_do_not_fit(void **state)
{
    char query[700];
    (void)state;
    snprintf(query, sizeof(query), "ca=%s", etcds.certs.stranger_ca);
    refused_with(query, ROTA_AUTH, "certificate");
    snprintf(query, sizeof(query), "ca=%s", etcds.certs.ca); /* without one of ours */
    refused_with(query, ROTA_AUTH, "certificate");
}

static void an_expired_certificate(void **state)
{
    struct rt_etcds_options opts = {.tls = true};
    static struct rt_etcds old;
    struct bare b;
    struct asked a;
    (void)state;
    opts.cert = etcds.certs.expired_cert;
    opts.key = etcds.certs.expired_key;
    rt_etcds_start(&old, 1, &opts);
    rt_server_await(&old.node[0].server, rt_server_accepts, NULL, 20000);
    char where[700];
    snprintf(where, sizeof(where), "etcds://localhost:%u/?ca=%s", (unsigned)old.node[0].server.port,
             etcds.certs.ca);
    open_as(&b, where, NULL);
    ask_put(&b, &a, "x", "1", 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, ROTA_AUTH);
    assert_non_null(strstr(a.why, "expired"));
    bare_close(&b);
    rt_etcds_fini(&old);
}

static void plain_words_to_a_server_with_tls(void **state)
{
    struct bare b;
    struct asked a;
    char where[64];
    (void)state;
    snprintf(where, sizeof(where), "etcd://localhost:%u", (unsigned)etcds.node[0].server.port);
    assert_int_equal(bare_open(&b, where, NULL, 2000, 0), 0);
    ask_put(&b, &a, "x", "1", 0);
    ask_end(&b, &a);
    assert_true(a.err == ROTA_PROTOCOL || a.err == ROTA_UNREACHABLE);
    bare_close(&b);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_right_password),
        TEST(a_wrong_password),
        TEST(no_user_at_all),
        TEST(tokens_are_asked_for_anew),
        TEST(a_token_that_was_replaced_meanwhile),
        TEST(certificates_that_do_not_fit),
        TEST(an_expired_certificate),
        TEST(plain_words_to_a_server_with_tls),
    };
    struct rt_etcds_options opts = {.tls = true, .tls_clients = true, .user = true};
    rt_etcds_start(&etcds, 1, &opts);
    url = rt_etcds_url(&etcds, NULL);
    int rv = cmocka_run_group_tests(tests, NULL, NULL);
    rt_etcds_fini(&etcds);
    free(url);
    return rv;
}
