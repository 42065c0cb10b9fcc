/* SPDX-License-Identifier: Apache-2.0 */
/* A line that changes faster than a look takes: the first who waits for a permit is told that it has one, although each
 * of its looks is outdated when it arrives. */
#include "lib/players.h"
#include "lib/proxy.h"
#include "lib/zookeeper_server.h"

#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define QUIET_TTL_MS 3600000 /* no heartbeat comes between */
#define CALL_MS 60000
#define ANSWER_US 30000 /* on their way to who waits; others come and go in a tenth of it */

static struct rt_zks zks;
static struct rt_proxy *proxy;
static atomic_bool ends;
static atomic_uint passed, refused;

static const struct rota_ask permit = {
    .mode = ROTA_PERMITS, .take = 1, .of = 1, .owner = ROTA_OWNER_NONE};

/* Joins the line and leaves it, again and again. */
static void *come_and_go(void *url)
{
    struct rota *r = player(url, QUIET_TTL_MS, CALL_MS);
    struct rota_ask soon = permit;
    struct rota_lock *lock;

    soon.limit_ms = 1;
    while (!atomic_load(&ends)) {
        if (rota_acquire(r, "busy", &soon, &lock) == ROTA_TIMEOUT)
            atomic_fetch_add(&passed, 1);
        else
            atomic_fetch_add(&refused, 1);
    }
    rota_close(r);
    return NULL;
}

static void the_first_is_told_in_a_busy_line(void **state)
{
    char *url = rt_zks_url(&zks, NULL),
         *slow_url = rt_zks_url(&zks, (uint16_t[]){rt_proxy_port(proxy)});
    struct rota *holder = player(url, QUIET_TTL_MS, CALL_MS),
                *slow = player(slow_url, QUIET_TTL_MS, CALL_MS);
    struct player_wish wish;
    struct rota_lock *held;
    pthread_t thread;

    (void)state;
    assert_int_equal(rota_acquire(holder, "busy", &permit, &held), 0);
    player_wish_as(slow, "busy", &permit, &wish);
    player_counts(holder, "busy", 2);
    rt_proxy_delay(proxy, RT_PROXY_DOWN, ANSWER_US, 0);
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, url), 0);
    UNTIL(atomic_load(&passed) > 20);
    assert_int_equal(rota_release(held), 0);
    UNTIL(player_granted(&wish)); /* while they come and go */
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&refused), 0);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    rota_close(slow);
    rota_close(holder);
    free(slow_url);
    free(url);
}

static int setup(void **state)
{
    (void)state;
    rt_zks_start(&zks, 1, NULL);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_is_told_in_a_busy_line)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
