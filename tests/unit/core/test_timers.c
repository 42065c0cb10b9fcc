/* SPDX-License-Identifier: Apache-2.0 */
/* Timers come due in order, whatever was started, moved and stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/timers.h"

#define COUNT 64

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

/* The same moves on a plain array: the earliest running one. */
static int64_t earliest(const struct rt_timer *t)
{
    int64_t at = RT_NEVER;
    for (int i = 0; i < COUNT; i++)
        if (t[i].slot != 0 && t[i].at < at)
            at = t[i].at;
    return at;
}

static void random_moves_keep_the_order(void **state)
{
    (void)state;
    struct rt_timer *heap[COUNT];
    struct rt_timer t[COUNT] = {{0}};
    struct rt_timers ts = {.heap = heap, .room = COUNT, .reserved = COUNT};
    uint32_t x = 1;
    int64_t now = 0;
    for (int step = 0; step < 20000; step++) {
        struct rt_timer *one = &t[next_random(&x) % COUNT];
        switch (next_random(&x) % 3) {
        case 0:
            if (step % 2 == 0)
                rt_timers_stop(&ts, one);
            else
                rt_timers_at(&ts, one, RT_NEVER);
            assert_int_equal(one->slot, 0);
            break;
        case 1:
            (step % 2 == 0 ? rt_timers_start : rt_timers_at)(&ts, one, now + next_random(&x) % 100);
            break;
        default:
            now += next_random(&x) % 10;
            while ((one = rt_timers_due(&ts, now)) != NULL) {
                assert_true(one->at <= now);
                assert_true(one->at <= earliest(t));
            }
        }
        assert_int_equal(rt_timers_next(&ts), earliest(t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_moves_keep_the_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
