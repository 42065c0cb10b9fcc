/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked wrongly is refused, with a line that says so. */
#include "client/client.h"

#include <ftw.h>
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

static char folder[32], file_url[48];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/rota-misuse-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(file_url, sizeof(file_url), "file:%s", folder);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_name_one_kind),
        cmocka_unit_test(a_latch_is_told_from_other_lines),
        cmocka_unit_test(long_times_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
