/* SPDX-License-Identifier: Apache-2.0 */
/* Retries: as often as told, and only what may be retried. */
#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

/* Instead of sleeping: how long it would have been. */
static struct timespec slept[32];
static int sleeps;

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                           struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                           struct timespec *left)
{
    (void)left;
    assert_int_equal(clock, CLOCK_MONOTONIC);
    assert_int_equal(flags, 0);
    slept[sleeps++] = *wanted;
    return 0;
}

struct job {
    int calls, busy; /* so often BUSY, then ... */
    int then;
};

static int attempt(void *arg)
{
    struct job *job = arg;

    return job->calls++ < job->busy ? ROTA_BUSY : job->then;
}

static void busy_is_tried_again(void **state)
{
    struct job job = {.busy = 4};

    (void)state;
    assert_int_equal(rota_retry(5, attempt, &job), 0);
    assert_int_equal(job.calls, 5);
}

static void tries_are_bounded(void **state)
{
    struct job job = {.busy = 4};

    (void)state;
    assert_int_equal(rota_retry(4, attempt, &job), ROTA_BUSY);
    assert_int_equal(job.calls, 4);
}

static void nothing_else_is_tried_again(void **state)
{
    static const int errors[] = {ROTA_LOST, ROTA_UNKNOWN, ROTA_TIMEOUT, ROTA_DEADLOCK, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct job job = {.busy = 1, .then = errors[i]};
        assert_int_equal(rota_retry(9, attempt, &job), errors[i]);
        assert_int_equal(job.calls, 2);
    }
}

/* Below 1 ms, 2, 4, ... 128: anywhere at random, so that those who collided once do not collide again. */
static void pauses_grow_up_to_a_limit(void **state)
{
    struct job job = {.busy = 30};
    long limit = 1000000, longest = 0;

    (void)state;
    sleeps = 0;
    assert_int_equal(rota_retry(21, attempt, &job), ROTA_BUSY);
    assert_int_equal(sleeps, 20); /* none behind the last */
    for (int i = 0; i < sleeps; i++) {
        assert_int_equal(slept[i].tv_sec, 0);
        assert_in_range(slept[i].tv_nsec, 0, limit - 1);
        longest = slept[i].tv_nsec > longest ? slept[i].tv_nsec : longest;
        limit = limit < 128000000 ? limit * 2 : limit;
    }
    assert_true(longest > 16000000); /* all below: one in 10^11 */
}

static void no_try_and_no_function_are_refused(void **state)
{
    struct job job = {0};

    (void)state;
    assert_int_equal(rota_retry(0, attempt, &job), ROTA_INVALID);
    assert_int_equal(rota_retry(1, NULL, &job), ROTA_INVALID);
    assert_int_equal(job.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_is_tried_again),
        cmocka_unit_test(tries_are_bounded),
        cmocka_unit_test(nothing_else_is_tried_again),
        cmocka_unit_test(pauses_grow_up_to_a_limit),
        cmocka_unit_test(no_try_and_no_function_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
