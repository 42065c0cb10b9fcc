/* SPDX-License-Identifier: Apache-2.0 */
/* Misuse is refused, with a line that says so. */
#include "client/client.h"
#include "lib/proc.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char file_url[4200];

static int make_folder(void **state)
{
    (void)state;
    snprintf(file_url, sizeof(file_url), "file:%s", rt_tmpdir());
    return 0;
}

static struct rota *must_open(const char *url)
{
    struct rota *r;
    if (rota_open(&r, url, NULL) != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

static struct rota_lock *must_take(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *lock;
    if (rota_acquire(r, name, ask, &lock) != 0)
        fail_msg("%s: %s", name, rota_errmsg(r));
    return lock;
}

static void refused(struct rota *r, int rv, int err, const char *word)
{
    if (rv != err || strstr(rota_errmsg(r), word) == NULL)
        fail_msg("%s: '%s' does not say '%s'", rota_strerror(rv), rota_errmsg(r), word);
}

/* ---- Numbers of another kind ----------------------------------------------- */

static void front(void *arg, const struct rota_front *f)
{
    (void)arg, (void)f;
}

static void grant(void *arg, int err, struct rota_lock *lock)
{
    (void)arg;
    if (err == 0)
        (void)rota_release_async(lock, NULL, NULL);
}

static void numbers_name_one_kind(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:numbers"), *other = must_open("mem:numbers");
    struct rota_lock *held = must_take(other, "a", NULL);
    uint64_t observation, ask;

    assert_int_equal(rota_observe(r, "a", front, NULL, &observation), 0);
    assert_int_equal(rota_acquire_async(r, "a", NULL, grant, NULL, &ask), 0);
    refused(r, rota_cancel(r, observation), ROTA_INVALID, "no such ask");
    refused(r, rota_unobserve(r, ask), ROTA_INVALID, "no such observation");
    assert_int_equal(rota_cancel(r, ask), 0);
    assert_int_equal(rota_unobserve(r, observation), 0);
    assert_int_equal(rota_release(held), 0);
    rota_close(r);
    rota_close(other);
}

/* ---- Latches ----------------------------------------------------------------- */

static void only_its_own_latch_opens(const char *url)
{
    struct rota *r = must_open(url);
    struct rota_lock *lock = must_take(r, "lock", NULL);

    refused(r, rota_latch_wait(r, "lock", 1, 5000), ROTA_INVALID, "no latch");
    for (int i = 0; i < 3; i++)
        assert_int_equal(rota_latch_down(r, "latch", 5, NULL), 0);
    refused(r, rota_latch_wait(r, "latch", 3, 5000), ROTA_INVALID, "another count");
    assert_int_equal(rota_latch_wait(r, "latch", 5, 1), ROTA_TIMEOUT);
    assert_int_equal(rota_latch_down(r, "latch", 5, NULL), 0);
    assert_int_equal(rota_latch_down(r, "latch", 5, NULL), 0);
    assert_int_equal(rota_latch_wait(r, "latch", 5, 5000), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

static void a_latch_is_told_from_other_lines(void **state)
{
    (void)state;
    only_its_own_latch_opens("mem:latches");
    only_its_own_latch_opens(file_url);
}

/* ---- Long times -------------------------------------------------------------- */

static void once_for_a_very_long_time(const char *url)
{
    static const uint64_t long_ms[] = {INT64_MAX / RT_MS, INT64_MAX / RT_MS - 1};
    struct rota *r = must_open(url);

    for (size_t i = 0; i < 2; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%zu", i);
        assert_int_equal(rota_once(r, key, long_ms[i], NULL), 0);
        assert_int_equal(rota_once(r, key, long_ms[i], NULL), ROTA_BUSY);
    }
    rota_close(r);
}

static void long_times_do_not_wrap(void **state)
{
    (void)state;
    once_for_a_very_long_time("mem:long");
    once_for_a_very_long_time(file_url);
}

/* ---- Refusals that say why --------------------------------------------------- */

static void places_for_what_is_answered(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    struct rota *r = must_open("mem:places");
    size_t count;

    refused(r, rota_acquire(r, "a", NULL, NULL), ROTA_INVALID, "no place");
    refused(r, rota_acquire_all(r, names, 2, NULL, NULL), ROTA_INVALID, "no place");
    refused(r, rota_elect(r, "a", "me", NULL, NULL), ROTA_INVALID, "no place");
    refused(r, rota_inspect(r, "a", NULL), ROTA_INVALID, "no place");
    refused(r, rota_list(r, "", NULL, &count), ROTA_INVALID, "no place");
    rota_close(r);
}

static void a_re_entry_that_cannot_be_says_why(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "a"};
    struct rota *r = must_open("mem:upgrade");
    struct rota_ask share = {.mode = ROTA_SHARED}, least = {.at_least_ms = 10};
    struct rota_lock *lock = must_take(r, "a", &share), *none, *both[2];

    refused(r, rota_acquire(r, "a", NULL, &none), ROTA_INVALID, "upgrade");
    refused(r, rota_acquire_all(r, names, 2, NULL, both), ROTA_INVALID, "upgrade");
    refused(r, rota_acquire(r, "a", &least, &none), ROTA_INVALID, "at_least_ms");
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

static void busy_names_the_holder(void **state)
{
    (void)state;
    struct rota_options opts = {.label = "somebody"};
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota *r = must_open(file_url), *holder;
    struct rota_lock *lock, *none;

    assert_int_equal(rota_open(&holder, file_url, &opts), 0);
    lock = must_take(holder, "a", NULL);
    refused(r, rota_acquire(r, "a", &try, &none), ROTA_BUSY, "somebody");
    assert_int_equal(rota_release(lock), 0);
    rota_close(holder);
    rota_close(r);
}

static void a_child_does_not_guard(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:child");
    struct rota_lock *lock = must_take(r, "a", NULL);
    uint64_t highest = 0;
    int status;

    pid_t pid = fork();
    if (pid == 0)
        _exit(rota_guard(lock, &highest) == ROTA_FORKED && highest == 0 ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rota_guard(lock, &highest), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

static void only_leaders_proclaim(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:proclaim");
    struct rota_lock *lock = must_take(r, "a", NULL), *leader;

    refused(r, rota_proclaim(lock, "me"), ROTA_INVALID, "rota_elect");
    assert_int_equal(rota_elect(r, "b", "me", NULL, &leader), 0);
    assert_int_equal(rota_proclaim(leader, "still me"), 0);
    assert_int_equal(rota_release(leader), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

static void done(void *arg, int err)
{
    (void)arg, (void)err;
}

static void what_is_told_needs_a_function(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:functions");
    struct rota_lock *lock = must_take(r, "a", NULL);

    refused(r, rota_acquire_async(r, "b", NULL, NULL, NULL, NULL), ROTA_INVALID,
            "rota_acquire_async");
    refused(r, rota_elect_async(r, "b", "me", NULL, NULL, NULL, NULL), ROTA_INVALID,
            "rota_elect_async");
    refused(r, rota_check_async(lock, NULL, NULL), ROTA_INVALID, "rota_check_async");
    assert_int_equal(rota_release_async(NULL, done, NULL), ROTA_INVALID); /* nobody would call it */
    assert_int_equal(rota_release_async(NULL, NULL, NULL), 0);
    assert_int_equal(rota_check_async(NULL, done, NULL), ROTA_INVALID);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

/* A timeout in ms is never too short: whoever polls that long finds something to do. */
static void timeouts_are_rounded_up(void **state)
{
    (void)state;
    struct rota_options opts = {.flags = ROTA_NO_KEEPER};
    struct rota *r = NULL;

    assert_int_equal(rota_timeout_ms(NULL), -1);
    assert_int_equal(rota_fd(NULL), -1);
    assert_int_equal(rota_open(&r, "mem:timeouts", &opts), 0);
    struct rota_lock *lock = must_take(r, "a", NULL);
    int64_t next = rt_timers_next(&r->loop.timers), now = r->loop.now;
    static const int64_t left[][2] = {
        {0, 0}, {1, 1}, {RT_MS, 1}, {RT_MS + 1, 2}, {5 * RT_MS - 1, 5}, {-1, 0}, {-5 * RT_MS, 0}};
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        r->loop.now = next - left[i][0];
        assert_int_equal(rota_timeout_ms(r), left[i][1]);
    }
    r->loop.now = now;
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_name_one_kind),
        cmocka_unit_test(a_latch_is_told_from_other_lines),
        cmocka_unit_test(long_times_do_not_wrap),
        cmocka_unit_test(places_for_what_is_answered),
        cmocka_unit_test(a_re_entry_that_cannot_be_says_why),
        cmocka_unit_test(busy_names_the_holder),
        cmocka_unit_test(a_child_does_not_guard),
        cmocka_unit_test(only_leaders_proclaim),
        cmocka_unit_test(what_is_told_needs_a_function),
        cmocka_unit_test(timeouts_are_rounded_up),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
