/* SPDX-License-Identifier: Apache-2.0 */
/* Which touches of a session count, and from when (D1 in zk.h), in virtual time: a tick is 300 ms. */
#include "engine/zookeeper/zk.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct rt_loop loop;
static struct rt_conn base;
static struct rt_zk_conn conn;

static void begin(bool lone)
{
    loop = (struct rt_loop){0};
    base = (struct rt_conn){.loop = &loop};
    conn = (struct rt_zk_conn){.base = &base, .tick_ms = 300, .lone = lone};
    conn.session.timeout_ms = 1000;
}

/* A sync was sent and answered at these times; returns until when the session lives, as far as is known; all in ms. */
static int64_t synced(int64_t sent_ms, int64_t heard_ms)
{
    struct rt_zk_ask a = {.entry = {.sent_at = sent_ms * RT_MS}};
    loop.now = heard_ms * RT_MS;
    rt_zk_touched(&conn, &a);
    return rt_zk_secured(&conn) / RT_MS;
}

static void two_more_secure_a_touch(void **state)
{
    (void)state;
    begin(false);
    assert_int_equal(synced(10, 11), 1000);
    assert_int_equal(synced(110, 111), 1000); /* no ping may have been in between */
    assert_int_equal(synced(161, 162), 1000); /* one was; its answer is on its way, perhaps */
    assert_int_equal(synced(236, 237), 1000);
    assert_int_equal(synced(237, 238), 1010);
}

/* A leader that was stopped answers all that waits at once, before it pings: none of these answers secures what was
 * answered before the stop, nor does one sent less than a quarter of a tick after that. (Simulator, 236969490227.) */
static void a_burst_of_answers_secures_nothing(void **state)
{
    (void)state;
    begin(false);
    assert_int_equal(synced(6, 7), 1000);
    assert_int_equal(synced(94, 383), 1000);
    assert_int_equal(synced(209, 383), 1000);
    assert_int_equal(synced(344, 383), 1000);
    assert_int_equal(synced(457, 457), 1000);
    assert_int_equal(synced(458, 458), 1006);
    assert_int_equal(synced(502, 502), 1006); /* those of the burst count from its end */
    assert_int_equal(synced(533, 533), 1006);
    assert_int_equal(synced(607, 607), 1006);
    assert_int_equal(synced(608, 608), 1344);
}

static void alone_each_counts_at_once(void **state)
{
    (void)state;
    begin(true);
    assert_int_equal(synced(10, 11), 1010);
    assert_int_equal(synced(20, 90), 1020);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_more_secure_a_touch),
        cmocka_unit_test(a_burst_of_answers_secures_nothing),
        cmocka_unit_test(alone_each_counts_at_once),
    };
    return cmocka_run_group_tests_name("zookeeper_touches", tests, NULL, NULL);
}
