/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine on a real server whose own clock is off by decades, and jumps: fences grow, locks are handed
 * over. What a clock may do to each script is in test_clocks.c. */
#include "lib/redis_server.h"
#include "lib/user.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TTL_MS 10000

static struct rt_redis server;
static int shift_file = -1;

static int64_t wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void shift_clock(int64_t by_us)
{
    assert_int_equal(pwrite(shift_file, &by_us, sizeof(by_us), 0), sizeof(by_us));
}

static void set_clock(int64_t us)
{
    shift_clock(us - wall_us());
    redisReply *r = rt_redis_do(&server, "TIME");
    assert_non_null(r);
    assert_true(llabs(strtoll(r->element[0]->str, NULL, 10) - us / 1000000) < 60);
    freeReplyObject(r);
}

static void start(const char *so)
{
    char path[300];
    rt_redis_init(&server, NULL);
    snprintf(path, sizeof(path), "%s/shift", server.server.dir);
    shift_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(shift_file >= 0);
    shift_clock(0);
    setenv("LD_PRELOAD", so, 1);
    setenv("ROTA_CLOCK_SHIFT", path, 1);
    rt_redis_run(&server);
    unsetenv("LD_PRELOAD");
    unsetenv("ROTA_CLOCK_SHIFT");
}

/* One holds and gives it to another; returns the last fence. */
static uint64_t hand_over(const char *url, uint64_t last)
{
    struct user a, b;
    struct rt_join first = {0}, second = {0};
    user_start(&a, url, TTL_MS);
    user_start(&b, url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_true(first.granted);
    if (first.number <= last)
        fail_msg("fence %llu after %llu", (unsigned long long)first.number,
                 (unsigned long long)last);
    assert_int_equal(user_join(&b, "x", &second), 0);
    assert_true(!second.granted && second.number > first.number);
    assert_int_equal(user_leave(&a, "x", first.number), 0);
    (void)user_hear(&b, RT_GRANTED, second.number, 0);
    assert_int_equal(user_beat(&b), 0);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    user_close(&a);
    user_close(&b);
    return second.number;
}

static void test_fences_of_a_server_whose_clock_is_off(void **state)
{
    static const int64_t walk[] = {
        1794777991000000,
        946684800000000, /* a board without a battery */
        1794777991000000,
        1000,              /* the first second of 1970 */
        999999999990000,   /* gains its 16th digit */
        10000000000000000, /* 2286 */
        1000,
        9007199254730000, /* 2^53 us is 10 ms away */
        946684800000000,
        1794778051000000,
    };
    const char *so = getenv("ROTA_CLOCK_SHIFT_SO");
    uint64_t last = 0;
    (void)state;
    if (so == NULL)
        skip();
    start(so);
    char *url = rt_redis_url(&server, 0);
    for (size_t i = 0; i < sizeof(walk) / sizeof(walk[0]); i++) {
        set_clock(walk[i]);
        last = hand_over(url, last);
    }
    assert_true(last >= UINT64_C(9000000000000000) && last < UINT64_C(1) << 53);
    free(url);
    close(shift_file);
    rt_redis_fini(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fences_of_a_server_whose_clock_is_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
