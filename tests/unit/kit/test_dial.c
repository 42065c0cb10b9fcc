/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to dial, when, and for how long. */
#include "engine/kit/dial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rt_loop loop;
static struct rt_conn conn;

static int begin(void **state)
{
    (void)state;
    rt_loop_init_virtual(&loop);
    conn = (struct rt_conn){.loop = &loop};
    return 0;
}

static int end(void **state)
{
    (void)state;
    rt_loop_fini(&loop);
    return 0;
}

static int hosts(struct rt_dial_ring *ring, const char *text)
{
    struct rt_url url;
    char why[256];
    *ring = (struct rt_dial_ring){0};
    assert_int_equal(rt_url_parse(&url, text, why, sizeof(why)), 0);
    int rv = rt_dial_hosts(ring, &conn, &url, 77);
    rt_url_fini(&url);
    return rv;
}

static void a_ring_of_hosts(void **state)
{
    struct rt_dial_ring ring;
    char text[8];
    (void)state;
    assert_int_equal(hosts(&ring, "etcd://a,[::1]:9,c:1"), 0);
    assert_int_equal(ring.count, 3);
    assert_string_equal(ring.ends[0].at, "a:77");
    assert_string_equal(ring.ends[1].at, "[::1]:9");
    assert_string_equal(ring.ends[1].host, "::1");
    assert_int_equal(ring.ends[0].port, 77);
    assert_string_equal(rt_dial_next(&ring)->at, "[::1]:9");
    assert_string_equal(rt_dial_next(&ring)->at, "c:1");
    assert_string_equal(rt_dial_next(&ring)->at, "a:77");
    assert_int_equal(ring.now, 0);
    rt_dial_ring_fini(&ring);
    assert_null(ring.ends);
    assert_true(rt_dial_text(text, sizeof(text), "abcd", 77));
    assert_false(rt_dial_text(text, sizeof(text), "abcde", 77));
}

static void what_cannot_be_dialed(void **state)
{
    struct rt_dial_ring ring;
    char long_one[400] = "etcd://";
    (void)state;
    assert_int_equal(hosts(&ring, "etcd:///x"), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "etcd: names no host: write etcd://host");
    rt_dial_ring_fini(&ring);
    memset(long_one + 7, 'a', 256);
    assert_int_equal(hosts(&ring, long_one), ROTA_INVALID);
    assert_non_null(strstr(conn.errmsg, "255"));
    rt_dial_ring_fini(&ring);
    long_one[7 + 255] = '\0';
    assert_int_equal(hosts(&ring, long_one), 0);
    rt_dial_ring_fini(&ring);
}

static void tls_is_for_its_scheme(void **state)
{
    struct rt_url url;
    struct rt_tls *tls = NULL;
    char why[256];
    (void)state;
    assert_int_equal(rt_url_parse(&url, "etcd://a?ca=/x", why, sizeof(why)), 0);
    assert_int_equal(rt_dial_tls(&tls, &conn, &url, false, "etcds"), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "?ca=, ?cert= and ?key= are for etcds://");
    assert_null(tls);
    rt_url_fini(&url);
}

static void how_long(void **state)
{
    (void)state;
    rt_dial_times(&conn);
    assert_int_equal(conn.call_ms, 5000);
    assert_int_equal(conn.ttl_ms, 10000);
    assert_int_equal(rt_dial_connect_ms(&conn, 1), 2500);
    assert_int_equal(rt_dial_connect_ms(&conn, 3), 1250);
    assert_int_equal(rt_dial_patience(&conn), 2500 * RT_MS);
    conn.call_ms = 20000;
    assert_int_equal(rt_dial_connect_ms(&conn, 1), 3000);
    conn.call_ms = 100;
    rt_dial_times(&conn); /* what is given stays */
    assert_int_equal(rt_dial_connect_ms(&conn, 1), 200);
    assert_int_equal(rt_dial_patience(&conn), 200 * RT_MS);
    conn.call_ms = 1000;
    assert_int_equal(rt_dial_patience(&conn), 1000 * RT_MS);
    conn.ttl_ms = 1;
    assert_int_equal(rt_dial_patience(&conn), 1000 * RT_MS);
}

/* The half to the whole of a pause that doubles, up to a fiftieth of the ttl or 200 ms. */
static void pauses(void **state)
{
    static const struct {
        uint32_t ttl_ms, pauses[8];
    } all[] = {{10000, {10, 20, 40, 80, 160, 200, 200, 200}},
               {1000, {10, 20, 20, 20, 20, 20, 20, 20}},
               {100, {10, 10, 10, 10, 10, 10, 10, 10}}};
    uint64_t jitter = 1;
    (void)state;
    rt_loop_advance(&loop, 5000 * RT_MS);
    for (size_t i = 0; i < 3; i++) {
        struct rt_dial_pause p = {0};
        conn.ttl_ms = all[i].ttl_ms;
        for (size_t k = 0; k < 8; k++) {
            rt_dial_later(&p, &conn, &jitter);
            assert_int_equal(p.ms, all[i].pauses[k]);
            assert_in_range(p.until - rt_loop_now(&loop), p.ms * RT_MS / 2, p.ms * RT_MS);
        }
    }
    int64_t least = RT_NEVER, most = 0;
    conn.ttl_ms = 10000;
    for (int i = 0; i < 100; i++) {
        struct rt_dial_pause p = {.ms = 200};
        rt_dial_later(&p, &conn, &jitter);
        int64_t pause = p.until - rt_loop_now(&loop);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    assert_true(least < 120 * RT_MS && most > 180 * RT_MS);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {ONE(a_ring_of_hosts), ONE(what_cannot_be_dialed),
                                       ONE(tls_is_for_its_scheme), ONE(how_long), ONE(pauses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
