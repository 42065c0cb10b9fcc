/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock step by step: too few nodes, replies lost after a SET, Redlock's A,B,C and C,D,E after a restart, with the
 * delay and without it, foreign keys in the way. */
#include "engine/redlock/redlock.h"
#include "five.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 2000
#define LONG_MS 30000
#define CALL_MS 5000
#define COUNTS_S 4 /* a node counts once up this long, it says */
#define TAKE (rt_redlock_texts[RT_REDLOCK_TAKE][0].sha1)
#define HOLD (rt_redlock_texts[RT_REDLOCK_HOLD][0].sha1)

static struct rt_redis_redlock *five;

static struct rota *open_for(const char *url, uint32_t ttl_ms, uint32_t call_ms)
{
    struct rota_options opts = {.ttl_ms = ttl_ms, .call_ms = call_ms};
    struct rota *r = NULL;
    int err = rota_open(&r, url, &opts);
    if (err != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

static int try_lock(struct rota *r, const char *name, struct rota_lock **lock)
{
    struct rota_ask ask = {.flags = ROTA_TRY};
    return rota_acquire(r, name, &ask, lock);
}

struct count {
    const char *name;
    int want;
};

static bool is_count(void *arg)
{
    const struct count *c = arg;
    return five_have(five, c->name) == c->want;
}

/* Long before the ttl frees it. */
static void on_before(const char *name, int nodes, uint32_t ttl_ms)
{
    struct count c = {name, nodes};
    if (!rt_await(is_count, &c, ttl_ms / 2))
        fail_msg("%s is on %d nodes, not on %d", name, five_have(five, name), nodes);
}

/* ---- Too few nodes ------------------------------------------------------------ */

/* With two of five away it is one flight as before; with three the error says so, and names them. */
static void three_away_is_a_clear_error(void **state)
{
    struct five_door door;
    struct rota_lock *lock = NULL;
    (void)state;
    five_door_open(&door, five, "max_ttl=0");
    struct rota *r = open_for(door.url, LONG_MS, CALL_MS);
    for (unsigned mask = 0x1f; mask != 0x3; mask >>= 1) { /* five, four, three of them */
        five_door_only(&door, mask);
        assert_int_equal(try_lock(r, "steps", &lock), 0);
        assert_int_equal(rota_release(lock), 0);
    }
    five_door_only(&door, 0x3);
    int err =
        ROTA_UNKNOWN; /* of a try that left before the cuts were seen; or its session ended over it */
    while (err == ROTA_UNKNOWN || err == ROTA_LOST)
        err = try_lock(r, "steps", &lock);
    assert_int_equal(err, ROTA_UNREACHABLE);
    assert_non_null(strstr(rota_errmsg(r), " of 5 nodes can be counted on, and 3 are needed"));
    assert_non_null(strstr(rota_errmsg(r), "127.0.0.1"));
    on_before("steps", 0, LONG_MS); /* what two of them gave was given back */
    five_door_only(&door, 0x1f);
    while (try_lock(r, "steps", &lock) != 0) /* they are dialed again, by and by */
        continue;
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    five_door_close(&door);
}

/* The first N are dead, or hang and do not answer. */
static void take_away(struct five_door *door, int n, bool hang)
{
    for (int i = 0; i < n && hang; i++)
        rt_proxy_hold(door->proxy[i], RT_PROXY_DOWN);
    if (!hang)
        five_door_only(door, 0x1fu & ~((1u << n) - 1));
}

static void bring_back(struct five_door *door, int n, bool hang)
{
    for (int i = 0; i < n && hang; i++)
        rt_proxy_release(door->proxy[i], RT_PROXY_DOWN);
    if (!hang)
        five_door_only(door, 0x1f);
}

/* The others are asked once, and once more only where their numbers differ. */
static void go_on_without(int n, bool hang)
{
    struct rt_fault looks[] = {{.on = RT_FAULT_REQUEST, .match = TAKE, .times = RT_FAULT_ALWAYS},
                               {.on = RT_FAULT_REQUEST, .match = HOLD, .times = RT_FAULT_ALWAYS}};
    uint32_t numbers[RT_REDLOCK_FIVE][2];
    struct five_door door;
    struct rota_lock *lock = NULL;
    uint64_t mended = 0;
    five_door_open(&door, five, "max_ttl=0");
    struct rota *r = open_for(door.url, LONG_MS, LONG_MS); /* nobody is late there */
    assert_int_equal(try_lock(r, "away", &lock), 0);       /* the scripts are there */
    on_before("away", RT_REDLOCK_FIVE, LONG_MS); /* else what is late would be counted below */
    assert_int_equal(rota_release(lock), 0);
    on_before("away", 0, LONG_MS);
    take_away(&door, n, hang);
    for (int i = n; i < RT_REDLOCK_FIVE; i++)
        for (int k = 0; k < 2; k++)
            numbers[i][k] = rt_proxy_fault(door.proxy[i], &looks[k]);
    for (uint64_t pair = 1; pair <= 20; pair++) {
        assert_int_equal(try_lock(r, "away", &lock), 0);
        assert_int_equal(rota_release(lock), 0);
        for (int i = n; i < RT_REDLOCK_FIVE; i++) {
            /* The fourth may be asked while three have agreed already. */
            assert_true(rt_proxy_fault_hits(door.proxy[i], numbers[i][0]) <= pair);
            mended = rt_proxy_fault_hits(door.proxy[i], numbers[i][1]);
            assert_true(mended <= pair);
        }
    }
    print_message("%d %s: 20 of 20 granted, %llu of them by a second flight\n", n,
                  hang ? "hang" : "dead", (unsigned long long)mended);
    bring_back(&door, n, hang);
    on_before("away", 0, LONG_MS);
    rota_close(r);
    five_door_close(&door);
}

static void one_or_two_away_is_two_flights_at_most(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        go_on_without(n, false);
        go_on_without(n, true);
    }
}

/* Three hang: the error says which. */
static void three_hang(uint32_t ttl_ms)
{
    struct five_door door;
    struct rota_lock *lock = NULL;
    five_door_open(&door, five, "max_ttl=0");
    struct rota *r = open_for(door.url, ttl_ms, 1000);
    assert_int_equal(try_lock(r, "mute", &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    take_away(&door, 3, true);
    int err = ROTA_UNKNOWN; /* as above */
    while (err == ROTA_UNKNOWN || err == ROTA_LOST)
        err = try_lock(r, "mute", &lock);
    assert_int_equal(err, ROTA_UNREACHABLE);
    print_message("%s\n", rota_errmsg(r));
    assert_non_null(strstr(rota_errmsg(r), " of 5 nodes can be counted on, and 3 are needed"));
    assert_non_null(strstr(rota_errmsg(r), "127.0.0.1"));
    assert_non_null(strstr(rota_errmsg(r), "answer"));
    bring_back(&door, 3, true);
    on_before("mute", 0, ttl_ms); /* what they gave was given back */
    while (try_lock(r, "mute", &lock) != 0)
        continue;
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    five_door_close(&door);
}

/* A node has an eighth of the ttl to answer: less than the call has, and more. */
static void three_hang_is_a_clear_error(void **state)
{
    (void)state;
    three_hang(3 * TTL_MS);
    three_hang(LONG_MS);
}

/* ---- Replies lost ---------------------------------------------------------------- */

/* The SETs are done, but the nodes that did them are not heard: nothing may stay. */
static void replies_lost_behind_a_set(void **state)
{
    struct rt_fault fault = {.on = RT_FAULT_REPLY, .what = RT_FAULT_SILENCE, .match = TAKE};
    struct five_door door;
    struct rota_lock *lock = NULL;
    (void)state;
    five_door_open(&door, five, "max_ttl=0");
    struct rota *r = open_for(door.url, LONG_MS, LONG_MS);
    assert_int_equal(try_lock(r, "lost", &lock), 0); /* the scripts are there */
    assert_int_equal(rota_release(lock), 0);
    for (int i = 0; i < 2; i++)
        (void)rt_proxy_fault(door.proxy[i], &fault);
    assert_int_equal(try_lock(r, "lost", &lock), 0); /* the other three agree */
    on_before("lost", 5, LONG_MS);
    assert_int_equal(rota_release(lock), 0);
    on_before("lost", 0, LONG_MS);
    for (int i = 0; i < 3; i++)
        (void)rt_proxy_fault(door.proxy[i], &fault);
    int err = try_lock(r, "lost", &lock); /* asked again over new connections */
    if (err == 0)
        err = rota_release(lock);
    assert_true(err == 0 || err == ROTA_UNREACHABLE);
    on_before("lost", 0, LONG_MS);
    rota_close(r);
    five_door_close(&door);
}

/* ---- A restart ---------------------------------------------------------------------- */

/* One client takes it on A, B, C; C is restarted without its data; another can reach C, D, E. Returns whether the other
 * holds. */
static bool second_holder(const char *params, uint32_t ttl_ms, uint32_t call_ms)
{
    struct five_door one, other;
    struct rota_lock *first = NULL, *second = NULL;
    five_door_open(&one, five, params);
    five_door_open(&other, five, params);
    five_door_only(&one, 0x07);
    five_door_only(&other, 0x1c);
    struct rota *a = open_for(one.url, ttl_ms, call_ms), *b = open_for(other.url, ttl_ms, call_ms);
    assert_int_equal(try_lock(a, "restart", &first), 0);
    assert_int_equal(try_lock(b, "restart", &second), ROTA_BUSY);
    rt_redis_kill(&five->node[2]);
    rt_redis_run(&five->node[2]);
    int err = try_lock(b, "restart", &second);
    while (err == ROTA_UNREACHABLE && rota_remaining_ms(first) > 0) {
        assert_non_null(strstr(rota_errmsg(b), " of 5 nodes can be counted on"));
        err = try_lock(b, "restart", &second);
    }
    bool both = err == 0 && rota_remaining_ms(first) > 0;
    assert_true(err != 0 || rota_fence(second) > rota_fence(first)); /* whatever happened */
    if (err == 0)
        assert_int_equal(rota_release(second), 0);
    (void)rota_release(first); /* it may be lost */
    rota_close(a);
    rota_close(b);
    five_door_close(&one);
    five_door_close(&other);
    return both;
}

static void delayed_restart_has_no_second_holder(void **state)
{
    (void)state;
    five_up_for(five, COUNTS_S);
    assert_false(second_holder("max_ttl=2s", TTL_MS, 1000));
}

/* The control: what the delay is for. */
static void without_the_delay_there_is_one(void **state)
{
    (void)state;
    assert_true(second_holder("max_ttl=0", LONG_MS, CALL_MS));
}

/* ---- Others on the same keys ------------------------------------------------------------ */

static void foreign_keys_are_in_the_way(void **state)
{
    struct rota_lock *lock = NULL;
    struct rota_line *line = NULL;
    char *url = rt_redis_redlock_url(five, "max_ttl=0");
    struct rota *r = open_for(url, LONG_MS, LONG_MS);
    (void)state;
    for (int i = 0; i < 3; i++) /* as redsync would */
        rt_redis_must(&five->node[i], "SET theirs c29tZWJvZHkgZWxzZQ== NX PX 60000");
    assert_int_equal(try_lock(r, "theirs", &lock), ROTA_BUSY);
    assert_non_null(strstr(rota_errmsg(r), "another client (token c29tZWJvZHkg"));
    assert_int_equal(rota_inspect(r, "theirs", &line), 0);
    assert_true(line->count == 1 && line->granted == 1);
    assert_non_null(strstr(line->places[0].label, "another client"));
    rota_line_free(line);
    for (int i = 0; i < 3; i++) /* as Redisson would */
        rt_redis_must(&five->node[i], "HSET hash uuid:1 1");
    assert_int_equal(try_lock(r, "hash", &lock), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(r), "has a hash there"));
    for (int i = 0; i < 3; i++)
        rt_redis_must(&five->node[i], "DEL theirs hash");
    on_before("theirs", 0, LONG_MS);
    assert_int_equal(try_lock(r, "theirs", &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    free(url);
}

/* ---- What a URL may say -------------------------------------------------------------------- */

static void refused(const char *url, const char *why)
{
    struct rota_options opts = {.ttl_ms = TTL_MS, .call_ms = 1000};
    struct rota *r = NULL;
    assert_int_equal(rota_open(&r, url, &opts), ROTA_INVALID);
    if (strstr(rota_errmsg(NULL), why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", url, rota_errmsg(NULL), why);
}

static void urls_that_make_no_sense(void **state)
{
    (void)state;
    refused("redlock://127.0.0.1:1,127.0.0.1:2/", "needs 3 to 15 servers");
    refused("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:1/", "twice");
    refused("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/?max_ttl=1s", "longer than ?max_ttl=");
    refused("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/?max_ttl=2h", "?max_ttl= is");
}

static int strict_open(const char *url)
{
    struct rota_options opts = {.ttl_ms = TTL_MS, .call_ms = 2000, .flags = ROTA_STRICT};
    struct rota *r = NULL;
    int err = rota_open(&r, url, &opts);
    rota_close(r);
    return err;
}

static void strict_wants_all_to_keep(void **state)
{
    struct rt_redis_options always = {.keep = RT_REDIS_ALWAYS};
    char *url = rt_redis_redlock_url(five, "max_ttl=0");
    (void)state;
    assert_int_equal(strict_open(url), ROTA_UNSAFE);
    assert_non_null(strstr(rota_errmsg(NULL), "appendonly is no"));
    free(url);
    struct rt_redis_redlock *kept = rt_redis_redlock_new(&always, false, 0);
    url = rt_redis_redlock_url(kept, "max_ttl=0");
    assert_int_equal(strict_open(url), 0);
    rt_redis_must(&kept->node[4], "CONFIG SET appendfsync everysec");
    assert_int_equal(strict_open(url), ROTA_UNSAFE);
    assert_non_null(strstr(rota_errmsg(NULL), "set appendfsync always"));
    free(url);
    rt_redis_redlock_free(kept);
}

static int start_five(void **state)
{
    (void)state;
    five = rt_redis_redlock_new(NULL, false, 0);
    return 0;
}

static int stop_five(void **state)
{
    (void)state;
    rt_redis_redlock_free(five);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_that_make_no_sense),
        cmocka_unit_test(three_away_is_a_clear_error),
        cmocka_unit_test(three_hang_is_a_clear_error),
        cmocka_unit_test(one_or_two_away_is_two_flights_at_most),
        cmocka_unit_test(replies_lost_behind_a_set),
        cmocka_unit_test(without_the_delay_there_is_one),
        cmocka_unit_test(delayed_restart_has_no_second_holder),
        cmocka_unit_test(foreign_keys_are_in_the_way),
        cmocka_unit_test(strict_wants_all_to_keep),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
