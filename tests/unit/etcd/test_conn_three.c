/* SPDX-License-Identifier: Apache-2.0 */
/* The connection and three real etcd: endpoints that die, hang, or have no leader. */
#include "bare.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENT (60000 * RT_MS)

static struct rt_etcds etcds;
static char *url;
static struct bare b;

static int setup(void **state)
{
    if (bare_setup(state) != 0)
        return -1;
    for (size_t i = 0; i < etcds.n; i++)
        rt_etcds_run(&etcds, i);
    assert_int_equal(bare_open(&b, url, NULL, 2000, 4000), 0);
    must_put(&b, "here", "x");
    return 0;
}

static int teardown(void **state)
{
    bare_close(&b);
    return bare_teardown(state);
}

/* Which node we are on. */
static size_t here(void)
{
    for (size_t i = 0; i < etcds.n; i++)
        if (strcmp(b.conn->link.ring.ends[i].at, rt_etcd_facts(b.conn)->at) == 0)
            return i;
    fail();
    return 0;
}

static void patient_read(struct asked *a)
{
    ask_range(&b, a, "here", "");
    a->ask->entry.deadline = rt_loop_now(&bare_loop) + PATIENT;
}

static void our_node_dies(void **state)
{
    static struct watched w;
    struct asked read;
    size_t was = here();
    (void)state;
    watch(&b, &w, "dies", "");
    bare_until(&w.created, 1);
    rt_server_kill(&etcds.node[was].server);
    patient_read(&read);
    ask_end(&b, &read);
    assert_int_equal(read.err, 0);
    assert_int_equal(read.number, 1);
    assert_int_not_equal(here(), was);
    bare_until(&w.created, 2);
    struct asked a;
    ask_put(&b, &a, "dies", "x", 0);
    a.ask->entry.again = true;
    a.ask->entry.deadline = rt_loop_now(&bare_loop) + PATIENT;
    bare_until(&w.events, 1);
    ask_end(&b, &a);
    assert_int_equal(a.err, 0);
}

/* The leader, wherever we are: three times, with a lease that must live. */
static void leaders_die(void **state)
{
    struct asked lease, a;
    static struct kept k;
    (void)state;
    ask_grant(&b, &lease, 60);
    ask_end(&b, &lease);
    for (int i = 0; i < 3; i++) {
        int leader = rt_etcds_leader(&etcds, 30000);
        assert_true(leader >= 0);
        rt_server_kill(&etcds.node[leader].server);
        keep(&b, &k, lease.lease, 60000);
        ask_put(&b, &a, "leaders", "x", lease.lease);
        a.ask->entry.again = true;
        a.ask->entry.deadline = rt_loop_now(&bare_loop) + PATIENT;
        bare_until(&k.answers, 1);
        assert_int_equal(k.err, 0);
        ask_end(&b, &a);
        assert_string_equal(a.why, "");
        rt_etcds_run(&etcds, (size_t)leader);
    }
}

static void our_node_stands_still(void **state)
{
    static struct watched w;
    struct asked read;
    size_t was = here();
    (void)state;
    watch(&b, &w, "still", "");
    bare_until(&w.created, 1);
    rt_server_stop(&etcds.node[was].server);
    patient_read(&read);
    ask_end(&b, &read);
    assert_int_equal(read.err, 0);
    assert_int_not_equal(here(), was);
    bare_until(&w.created, 2);
    rt_server_cont(&etcds.node[was].server);
}

/* Another node leads and hangs: ours is alive, but cannot answer until there is another leader. */
static void the_leader_stands_still(void **state)
{
    struct asked lease, a;
    static struct kept k;
    (void)state;
    int leader = rt_etcds_leader(&etcds, 30000);
    assert_true(leader >= 0);
    ask_grant(&b, &lease, 60);
    ask_end(&b, &lease);
    rt_server_stop(&etcds.node[leader].server);
    keep(&b, &k, lease.lease, 60000);
    patient_read(&a);
    bare_until(&k.answers, 1);
    assert_int_equal(k.err, 0);
    ask_end(&b, &a);
    assert_int_equal(a.err, 0);
    rt_server_cont(&etcds.node[leader].server);
}

static void refused_for_want_of_a_leader(void)
{
    struct asked write;
    do { /* as long as it has not noticed, it takes them */
        ask_put(&b, &write, "majority", "x", 0);
        ask_end(&b, &write);
    } while (write.err == ROTA_UNKNOWN);
    assert_int_equal(write.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(write.why, "no leader")); /* and not who else is not there */
}

static void a_majority_is_missing(void **state)
{
    static struct watched w;
    static struct bare idle;
    struct asked read, other;
    size_t was = here();
    (void)state;
    assert_int_equal(bare_open(&idle, url, NULL, 0, 4000), 0);
    must_put(&idle, "idle", "x");
    watch(&b, &w, "majority", "");
    bare_until(&w.created, 1);
    for (size_t i = 0; i < etcds.n; i++)
        if (i != was)
            rt_server_kill(&etcds.node[i].server);
    bare_until(&w.lost, 1);               /* it says so, without being asked */
    ask_range(&idle, &other, "idle", ""); /* on a connection that does not know yet */
    other.ask->entry.deadline = rt_loop_now(&bare_loop) + PATIENT;
    patient_read(&read);
    refused_for_want_of_a_leader();
    int linked = b.linked;
    refused_for_want_of_a_leader();
    assert_int_equal(b.linked, linked); /* one without a leader is left at the greeting */
    for (size_t i = 0; i < etcds.n; i++)
        if (i != was)
            rt_server_start(&etcds.node[i].server);
    ask_end(&b, &read);
    assert_int_equal(read.err, 0);
    ask_end(&idle, &other);
    assert_int_equal(other.err, 0);
    assert_true(idle.down_events > 0); /* it went to look elsewhere */
    bare_until(&w.created, w.lost + 1);
    bare_close(&idle);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(our_node_dies),           TEST(leaders_die),           TEST(our_node_stands_still),
        TEST(the_leader_stands_still), TEST(a_majority_is_missing),
    };
    /* Elections in a fifth of the usual time. */
    struct rt_etcds_options opts = {.extra = {"--heartbeat-interval=20", "--election-timeout=200"}};
    rt_etcds_start(&etcds, 3, &opts);
    url = rt_etcds_url(&etcds, NULL);
    int rv = cmocka_run_group_tests(tests, NULL, NULL);
    rt_etcds_fini(&etcds);
    free(url);
    return rv;
}
