/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of two of five nodes jump forward, so that what they have ends before its time. A lock that all five have
 * is not affected. One that a bare majority has gets a second holder: that is counted and reported, its fence is
 * larger, and the guard keeps the first out. */
#include "five.h"
#include "lib/servers.h"
#include "stage.h"

#include <fcntl.h>
#include <rota.h>
#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TTL_MS 1000
#define HOUR_US INT64_C(3600000000)
#define MOVED 2 /* nodes */
#define TRIES 5

static struct rt_redis_redlock five;
static int shifts[MOVED];

static void shift(int64_t us)
{
    for (int i = 0; i < MOVED; i++)
        assert_int_equal(pwrite(shifts[i], &us, sizeof(us), 0), sizeof(us));
}

static int start(void **state)
{
    const char *so = getenv("ROTA_CLOCK_SHIFT_SO");
    int64_t none = 0;
    (void)state;
    if (so == NULL)
        return 0;
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        char path[300];
        rt_redis_init(&five.node[i], NULL);
        snprintf(path, sizeof(path), "%s/shift", five.node[i].server.dir);
        if (i < MOVED) {
            shifts[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            if (shifts[i] < 0 || pwrite(shifts[i], &none, sizeof(none), 0) != sizeof(none))
                return 1;
            setenv("LD_PRELOAD", so, 1);
            setenv("ROTA_CLOCK_SHIFT", path, 1);
        }
        rt_redis_run(&five.node[i]);
        unsetenv("LD_PRELOAD");
        unsetenv("ROTA_CLOCK_SHIFT");
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < RT_REDLOCK_FIVE; i++)
        rt_redis_fini(&five.node[i]);
    return 0;
}

/* ---- Under contenders -------------------------------------------------------------- */

static void clocks_of_two_move(void **state)
{
    struct stage_plan plan = {.title = "the clocks of two of five jump",
                              .processes = 5,
                              .threads = 1,
                              .locks = 2,
                              .flags = STAGE_TRY | STAGE_GIVE_UP | STAGE_LOSSY,
                              .ttl_ms = TTL_MS,
                              .long_permille = 5,
                              .long_ms = 1300,
                              .pause_us = 1000};
    int64_t by = 0;
    (void)state;
    if (getenv("ROTA_CLOCK_SHIFT_SO") == NULL)
        skip();
    struct stage *st = stage_new(&plan);
    char *url = rt_redis_redlock_url(&five, "max_ttl=0");
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < 4 * stage_factor(); i++) {
        stage_pause(st, 300 + stage_below(st, 400));
        by += i % 4 == 3 ? -3 * HOUR_US : HOUR_US;
        shift(by);
        stage_mark(st);
        stage_await_grants(st);
    }
    shift(by + HOUR_US); /* so that nothing stays there for hours */
    assert_int_equal(stage_finish(st, five_keys_left, &five), 0);
    stage_free(st);
    free(url);
    shift(0);
}

/* ---- Step by step -------------------------------------------------------------------- */

static struct rota *open_at(const char *url)
{
    struct rota_options opts = {.ttl_ms = 10 * TTL_MS, .call_ms = 10 * TTL_MS};
    struct rota *r = NULL;
    assert_int_equal(rota_open(&r, url, &opts), 0);
    return r;
}

static bool is_on(void *arg)
{
    return five_have(&five, "clocks") == *(const int *)arg;
}

/* One holds by the nodes in MASK, the clocks jump, another tries; returns whether both then hold. The first writes
 * behind the second's back, and is refused. */
static bool both_hold(unsigned mask, const char *path)
{
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota_lock *first = NULL, *second = NULL;
    struct five_door door;
    char *url = rt_redis_redlock_url(&five, "max_ttl=0");
    static int64_t by;
    int nodes = __builtin_popcount(mask);
    five_door_open(&door, &five, "max_ttl=0");
    five_door_only(&door, mask);
    struct rota *a = open_at(door.url), *b = open_at(url);
    assert_int_equal(rota_acquire(a, "clocks", &try, &first), 0);
    assert_true(rt_await(is_on, &nodes, 10 * TTL_MS)); /* three are enough to be granted it */
    shift(by += HOUR_US);
    int err = rota_acquire(b, "clocks", &try, &second);
    bool both = err == 0 && rota_remaining_ms(first) > 0;
    if (err == 0) {
        assert_true(rota_fence(second) > rota_fence(first));
        assert_int_equal(rota_guard_file(path, rota_fence(second), "second", 6), 0);
        assert_int_equal(rota_guard_file(path, rota_fence(first), "first", 5), ROTA_LOST);
        assert_int_equal(rota_release(second), 0);
    } else {
        assert_int_equal(err, ROTA_BUSY);
    }
    (void)rota_release(first);
    rota_close(a);
    rota_close(b);
    five_door_close(&door);
    free(url);
    return both;
}

static void a_bare_majority_gets_a_second_holder(void **state)
{
    int bare = 0, whole = 0;
    char path[320];
    (void)state;
    if (getenv("ROTA_CLOCK_SHIFT_SO") == NULL)
        skip();
    snprintf(path, sizeof(path), "%s/guarded", five.node[0].server.dir);
    for (int i = 0; i < TRIES; i++) {
        whole += both_hold(0x1f, path);
        bare += both_hold(0x07, path); /* two of them have clocks that jump */
    }
    print_message(
        "two held at once: %d of %d where all five had the lock, %d of %d where three had; "
        "the guard refused the first each time\n",
        whole, TRIES, bare, TRIES);
    assert_int_equal(whole, 0);
    assert_in_range(
        bare, 1, TRIES); /* it can happen: what a slow machine makes of a try is another matter */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_of_two_move),
        cmocka_unit_test(a_bare_majority_gets_a_second_holder),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, start, stop);
}
