/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that refuse or cannot: one clear error as soon as it is known, and nothing left behind in etcd. For
 * servers that are no etcd see test_rogue.c. */
#include "lib/etcd_server.h"
#include "lib/proc.h"
#include "lib/refusal.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CALL_MS 15000 /* a refusal comes long before: no case here waits this long */
#define SHORT_MS 4000 /* where a timeout ends it; a slow server says why before */
#define LIMIT_MS 60000
#define SECRET "hush-Wr0ng-7c1"

static const char *const secrets[] = {SECRET, NULL};

static void assert_url(const char *url, int err, const char *words)
{
    struct refusal r = refusal_of(url, CALL_MS);

    refusal_assert(&r, err, words, secrets);
}

static bool is_empty(void *arg)
{
    return rt_etcds_keys(arg, "") == 0 && rt_etcds_leases(arg) == 0;
}

/* What a client that could work had ends with its lease at the latest. */
static void assert_nothing_left(struct rt_etcds *e)
{
    assert_true(rt_await(is_empty, e, LIMIT_MS));
}

/* ---- Who may, and what ------------------------------------------------------- */

/* A file with a wrong password. */
static const char *wrong_file(void)
{
    static char path[300];
    FILE *f;

    snprintf(path, sizeof(path), "%s/wrong", rt_tmpdir());
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(chmod(path, 0600), 0);
    fprintf(f, "%s\n", SECRET);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void users(void **state)
{
    struct rt_etcds_options opts = {.user = true};
    static struct rt_etcds e;
    char url[900], *good;
    unsigned port;

    (void)state;
    rt_etcds_start(&e, 1, &opts);
    port = e.node[0].server.port;
    snprintf(url, sizeof(url), "etcd://rota@127.0.0.1:%u/?password_file=%s&prefix=rota-", port,
             wrong_file());
    assert_url(url, ROTA_AUTH, "password|'rota'");
    snprintf(url, sizeof(url), "etcd://nobody@127.0.0.1:%u/?password_file=%s&prefix=rota-", port,
             wrong_file());
    assert_url(url, ROTA_AUTH, "password|'nobody'");
    snprintf(url, sizeof(url), "etcd://127.0.0.1:%u/?prefix=rota-", port);
    assert_url(url, ROTA_AUTH, "user|password");
    snprintf(url, sizeof(url), "etcd://rota@127.0.0.1:%u/?password_file=%s&prefix=app/", port,
             e.password_file);
    assert_url(url, ROTA_AUTH, "readwrite|'rota'|'app%2F'");
    snprintf(url, sizeof(url), "etcd://rota@127.0.0.1:%u/?password_file=%s", port, e.password_file);
    assert_url(url, ROTA_AUTH, "readwrite|'rota'|?prefix=");
    good = rt_etcds_url(&e, NULL);
    assert_int_equal(refusal_of(good, CALL_MS).err, 0);
    assert_nothing_left(&e);
    free(good);
    rt_etcds_fini(&e);
}

/* ---- TLS ----------------------------------------------------------------------- */

static void certificates(void **state)
{
    struct rt_etcds_options opts = {.tls = true, .tls_clients = true};
    static struct rt_etcds e;
    struct refusal r;
    char url[900], *good;
    unsigned port;

    (void)state;
    rt_etcds_start(&e, 1, &opts);
    port = e.node[0].server.port;
    snprintf(url, sizeof(url), "etcds://localhost:%u/?ca=%s", port, e.certs.stranger_ca);
    assert_url(url, ROTA_AUTH, "certificate|CA");
    snprintf(url, sizeof(url), "etcds://localhost:%u/", port);
    assert_url(url, ROTA_AUTH, "certificate|?ca=");
    snprintf(url, sizeof(url), "etcds://localhost:%u/?ca=%s", port, e.certs.ca);
    assert_url(url, ROTA_AUTH, "certificate|?cert=");
    snprintf(url, sizeof(url), "etcd://127.0.0.1:%u/", port);
    r = refusal_of(url, SHORT_MS); /* it only closes, as a restarting server does */
    refusal_assert(&r, ROTA_UNREACHABLE, "TLS|etcds://", secrets);
    good = rt_etcds_url(&e, NULL);
    assert_int_equal(refusal_of(good, CALL_MS).err, 0);
    assert_nothing_left(&e);
    free(good);
    rt_etcds_fini(&e);
}

/* A server with a bad certificate, to which etcdctl would not speak either. */
static void refuses_certificate(const struct rt_certs *certs, const char *cert, const char *key,
                                const char *words)
{
    struct rt_etcds_options opts = {.tls = true, .cert = cert, .key = key};
    static struct rt_etcds e;
    char url[900];

    rt_etcds_start(&e, 1, &opts);
    rt_server_await(&e.node[0].server, rt_server_accepts, NULL, LIMIT_MS);
    snprintf(url, sizeof(url), "etcds://localhost:%u/?ca=%s", (unsigned)e.node[0].server.port,
             certs->ca);
    assert_url(url, ROTA_AUTH, words);
    rt_etcds_fini(&e);
}

static void certificates_of_others(void **state)
{
    struct rt_certs certs;

    (void)state;
    rt_certs_make(&certs, rt_tmpdir());
    refuses_certificate(&certs, certs.expired_cert, certs.expired_key, "certificate|expired");
    refuses_certificate(&certs, certs.other_cert, certs.other_key, "certificate|localhost");
}

static void tls_to_a_plain_server(void **state)
{
    static struct rt_etcds e;
    struct refusal r;
    char url[200];

    (void)state;
    rt_etcds_start(&e, 1, NULL);
    snprintf(url, sizeof(url), "etcds://localhost:%u/", (unsigned)e.node[0].server.port);
    r = refusal_of(url, SHORT_MS / 2);
    refusal_assert(&r, r.err, "TLS", secrets);
    assert_true(r.err == ROTA_PROTOCOL || r.err == ROTA_UNREACHABLE);
    assert_nothing_left(&e);
    rt_etcds_fini(&e);
}

/* ---- Who cannot ---------------------------------------------------------------- */

static void no_leader(void **state)
{
    /* Elections in a fifth of the usual time. */
    struct rt_etcds_options opts = {.extra = {"--heartbeat-interval=20", "--election-timeout=200"}};
    static struct rt_etcds e;
    struct refusal r;
    char *url;

    (void)state;
    rt_etcds_start(&e, 3, &opts);
    url = rt_etcds_url(&e, NULL);
    assert_int_equal(refusal_of(url, CALL_MS).err, 0);
    rt_server_kill(&e.node[1].server);
    rt_server_kill(&e.node[2].server);
    for (int i = 0; i < 20; i++) { /* until the one that is left has noticed */
        r = refusal_of(url, SHORT_MS);
        assert_int_not_equal(r.err, 0);
        if (strstr(r.text, "leader") != NULL)
            break;
    }
    refusal_assert(&r, ROTA_UNREACHABLE, "leader|majority", secrets);
    rt_server_start(&e.node[1].server); /* two are enough, and a patient waiter is served */
    assert_int_equal(refusal_of(url, LIMIT_MS).err, 0);
    rt_etcds_run(&e, 2);
    assert_nothing_left(&e);
    free(url);
    rt_etcds_fini(&e);
}

/* Puts until etcd has no more room, which raises its alarm. */
static void fill(struct rt_etcds *e)
{
    static char large[100001];
    int err = 0;

    memset(large, 'x', sizeof(large) - 1);
    for (int i = 0; i < 50 && err == 0; i++)
        err = rt_etcds_ctl(e, 0, NULL, 0, (const char *const[]){"put", "large", large, NULL});
    assert_int_not_equal(err, 0);
}

/* A limit that is over before the patience of a call: the error is not TIMEOUT. On a machine so busy that etcd did
 * not even refuse yet, it is. */
static void limit_tells_why(struct rota *r)
{
    const struct rota_ask ask = {.limit_ms = 1000};
    struct rota_lock *lock = NULL;
    int err = ROTA_TIMEOUT;

    for (int i = 0; i < 15 && err == ROTA_TIMEOUT; i++)
        err = rota_acquire(r, "asked now", &ask, &lock);
    assert_int_equal(err, ROTA_UNREACHABLE);
    assert_non_null(strstr(rota_errmsg(r), "out of space"));
}

/* A hold from before is given back even when the server takes nothing more. */
static void a_full_database(void **state)
{
    struct rt_etcds_options opts = {.extra = {"--quota-backend-bytes=800000"}};
    struct rota_options options = {.ttl_ms = 60000, .call_ms = CALL_MS};
    struct rota_lock *lock = NULL;
    static struct rt_etcds e;
    struct rota *r = NULL;
    struct refusal refusal;
    char *url;

    (void)state;
    rt_etcds_start(&e, 1, &opts);
    url = rt_etcds_url(&e, NULL);
    assert_int_equal(rota_open(&r, url, &options), 0);
    assert_int_equal(rota_acquire(r, "held before", NULL, &lock), 0);
    fill(&e);
    refusal = refusal_of(url, SHORT_MS);
    refusal_assert(&refusal, ROTA_UNREACHABLE, "space|compact|disarm", secrets);
    limit_tells_why(r);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    free(url);
    rt_etcds_fini(&e);
}

static void nobody_there(void **state)
{
    int anchor;
    uint16_t port = rt_port_reserve(&anchor);
    struct refusal r;
    char url[100];

    (void)state;
    snprintf(url, sizeof(url), "etcd://127.0.0.1:%u/", (unsigned)port);
    r = refusal_of(url, SHORT_MS / 2); /* the absent will not come later */
    refusal_assert(&r, ROTA_UNREACHABLE, "refused", secrets);
    r = refusal_of("etcd://no-such-host.invalid/", SHORT_MS);
    refusal_assert(&r, ROTA_UNREACHABLE, "no-such-host.invalid", secrets);
    close(anchor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users),
        cmocka_unit_test(certificates),
        cmocka_unit_test(certificates_of_others),
        cmocka_unit_test(tls_to_a_plain_server),
        cmocka_unit_test(no_leader),
        cmocka_unit_test(a_full_database),
        cmocka_unit_test(nobody_there),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
