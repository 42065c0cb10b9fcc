/* SPDX-License-Identifier: Apache-2.0 */
/* A keeper's connection by TLS, on both databases: the URL says whom it trusts. And a handshake that hangs inside the
 * client library: closing does not wait for it. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/mysql_server.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"
#include "lib/proxy.h"
#include "txn/manager/resource.h"

#include <rota.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_MS 60000

static struct rt_mariadb my;
static struct rt_pg pg;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

static void each(void *arg, const struct rt_party_seen *seen)
{
    (void)arg;
    (void)seen;
}

static void on_done(struct rt_errand *e)
{
    pthread_mutex_lock(&mu);
    *(bool *)e->user = true;
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&mu);
}

static struct rt_resources *table_with(const char *url)
{
    struct rt_resources *t = NULL;
    char errmsg[256] = "";

    assert_int_equal(rt_resources_open(&t, NULL), 0);
    if (rt_resources_add(t, "here", url, errmsg, sizeof(errmsg)) != 0)
        fail_msg("%s", errmsg);
    return t;
}

static void send(struct rt_resources *t, struct rt_errand *e, bool *done)
{
    *e = (struct rt_errand){.op = {.what = RT_PARTY_LIST}, .done = on_done, .user = done};
    e->op.list.journal = 1;
    e->op.list.each = each;
    assert_int_equal(rt_resource_ask(rt_resources_find(t, "here"), e), 0);
}

/* URL answers with REPLY, ERR and WORDS. */
static void answers(const char *url, enum rt_reply reply, int err, const char *words)
{
    struct rt_resources *t = table_with(url);
    struct rt_errand e;
    bool done = false;

    send(t, &e, &done);
    pthread_mutex_lock(&mu);
    while (!done)
        pthread_cond_wait(&told, &mu);
    pthread_mutex_unlock(&mu);
    if (e.op.reply != reply || e.op.err != err || strstr(e.errmsg, words) == NULL)
        fail_msg("%s: %d, %d: %s", url, (int)e.op.reply, e.op.err, e.errmsg);
    rt_resources_close(t);
}

/* URL with BY in place of WHAT. To be freed. */
static char *with(const char *url, const char *what, const char *by)
{
    const char *at = strstr(url, what);
    char *out = NULL;

    assert_non_null(at);
    if (asprintf(&out, "%.*s%s%s", (int)(at - url), url, by, at + strlen(what)) < 0)
        abort();
    return out;
}

static void by_tls(void **state)
{
    char *urls[2] = {rt_mariadb_url(&my, 0), rt_pg_url(&pg, 0)};
    char *strange[2] = {with(urls[0], my.certs.ca, my.certs.stranger_ca),
                        with(urls[1], pg.certs.ca, pg.certs.stranger_ca)};
    char *wrong = with(urls[0], "localhost", "127.1"); /* it is there, by another name */

    (void)state;
    for (int i = 0; i < 2; i++) {
        answers(urls[i], RT_REPLY_DONE, 0, "");
        answers(strange[i], RT_REPLY_REFUSED, ROTA_AUTH, "localhost");
    }
    answers(wrong, RT_REPLY_REFUSED, ROTA_AUTH, "127.1");
    for (int i = 0; i < 2; i++) {
        free(urls[i]);
        free(strange[i]);
    }
    free(wrong);
}

static bool has_said(void *arg, const struct rt_proxy_counts *counts)
{
    (void)arg;
    return counts->bytes[RT_PROXY_UP] > 100; /* the wish for TLS, and its first message */
}

static void closed_in_a_handshake(void **state)
{
    struct rt_proxy *proxy = rt_proxy_start(&(struct rt_proxy_options){.port = my.server.port});
    char *url = rt_mariadb_url(&my, rt_proxy_port(proxy));
    struct rt_resources *t = table_with(url);
    struct rt_errand e;
    bool done = false;

    (void)state;
    rt_proxy_hold(proxy, RT_PROXY_UP);
    send(t, &e, &done);
    assert_true(rt_proxy_await(proxy, has_said, NULL, LIMIT_MS));
    rt_resources_close(t);
    assert_true(done);
    assert_int_equal(e.op.reply, RT_REPLY_LOST);
    assert_true(e.unsent);
    rt_proxy_stop(proxy);
    free(url);
}

static int up(void **state)
{
    const struct rt_mariadb_options opts = {.tls = true, .tls_clients = true};
    const struct rt_pg_options pg_opts = {.tls = true, .extra = {"max_prepared_transactions=4"}};

    (void)state;
    rt_mariadb_start(&my, &opts);
    rt_pg_start(&pg, &pg_opts);
    return 0;
}

static int down(void **state)
{
    (void)state;
    rt_mariadb_fini(&my);
    rt_pg_fini(&pg);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(by_tls),
        cmocka_unit_test(closed_in_a_handshake),
    };

    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(240, "the resources hang");
    return cmocka_run_group_tests_name("resource by TLS", all, up, down);
}
