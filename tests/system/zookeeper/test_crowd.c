/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand waiters: each release is told to one of them, even when their connection was lost and all watches had to
 * be set again, which is more than fits into one message to this server. */
#include "lib/players.h"
#include "lib/proxy.h"
#include "lib/zookeeper_server.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QUIET_TTL_MS 3600000 /* no heartbeat comes between */
#define LIMIT_MS 60000
#define CROWD 1000
#define LARGEST "262144" /* a message to the server; the paths of the crowd are more */
#define NAME_SIZE 240

static struct rt_zks zks;
static struct rt_proxy *proxy;
static char name[NAME_SIZE + 1];

static bool all_watch(void *unused)
{
    (void)unused;
    return rt_zks_count(&zks, 0, "zk_watch_count") > CROWD;
}

static bool is_another(void *arg, const struct rt_proxy_counts *counts)
{
    return counts->connections > *(uint64_t *)arg;
}

static struct rota *open_crowd(void)
{
    struct rota_options options = {
        .ttl_ms = QUIET_TTL_MS, .call_ms = LIMIT_MS, .pass_limit = ROTA_NEVER};
    char *url = rt_zks_url(&zks, (uint16_t[]){rt_proxy_port(proxy)});
    struct rota *crowd = NULL;

    assert_int_equal(rota_open(&crowd, url, &options), 0);
    free(url);
    return crowd;
}

static struct rt_proxy_counts counts_now(void)
{
    struct rt_proxy_counts counts;

    rt_proxy_counts(proxy, &counts);
    return counts;
}

static void a_thousand_wait(bool cut)
{
    static struct player_wish wishes[CROWD];
    char *url = rt_zks_url(&zks, NULL);
    struct rota *first = player(url, QUIET_TTL_MS, LIMIT_MS), *crowd = open_crowd();
    struct rota_lock *held = player_take(first, name, NULL);

    for (size_t i = 0; i < CROWD; i++)
        player_wish(crowd, name, ROTA_EXCLUSIVE, &wishes[i]);
    assert_true(rt_await(all_watch, NULL, LIMIT_MS)); /* all wait */
    if (cut) {
        uint64_t connections = counts_now().connections;

        rt_proxy_end(proxy, RT_PROXY_RESET, 0);
        assert_true(rt_proxy_await(proxy, is_another, &connections, LIMIT_MS));
        assert_true(rt_await(all_watch, NULL, LIMIT_MS));
    }
    uint64_t before = counts_now().pushes;
    assert_int_equal(rota_release(held), 0);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(rota_release(player_wished(&wishes[i], 0)), 0);
    uint64_t told = counts_now().pushes - before;
    print_message("%u releases, %llu notifications\n", CROWD, (unsigned long long)told);
    assert_in_range(told, CROWD,
                    CROWD + 1); /* the one directly behind it watches its own node too */
    rota_close(crowd);
    rota_close(first);
    free(url);
}

static void one_notification_per_release(void **state)
{
    (void)state;
    a_thousand_wait(false);
}

static void also_on_another_connection(void **state)
{
    (void)state;
    a_thousand_wait(true);
}

static int setup(void **state)
{
    struct rt_zks_options options = {.java = {"-Djute.maxbuffer=" LARGEST}};

    (void)state;
    memset(name, 'n', NAME_SIZE);
    rt_zks_start(&zks, 1, &options);
    struct rt_proxy_options opts = {.framing = &rt_proxy_zookeeper,
                                    .port = zks.node[0].server.port};
    proxy = rt_proxy_start(&opts);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_proxy_stop(proxy);
    rt_zks_fini(&zks);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_notification_per_release),
        cmocka_unit_test(also_on_another_connection),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, setup, teardown);
}
