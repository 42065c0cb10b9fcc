/* SPDX-License-Identifier: Apache-2.0 */
/* What an uncontended pair on the embedded engine does not do: write through to the disk, ring
 * anybody, or wake the keeper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"

#include <dirent.h>
#include <limits.h>
#include <rota.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAIRS 10000
#define ROUNDS 5

static atomic_int syncs;

/* Defined here, so SQLite's calls come here too. */
int fsync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

static struct rota *open_one(void)
{
    char url[PATH_MAX];
    struct rota *r = NULL;
    snprintf(url, sizeof(url), "file:%s/rota", rt_tmpdir());
    assert_int_equal(rota_open(&r, url, NULL), 0);
    return r;
}

static void pairs(struct rota *r, int n)
{
    for (int i = 0; i < n; i++) {
        struct rota_lock *lock = NULL;
        assert_int_equal(rota_acquire(r, "name", NULL, &lock), 0);
        assert_int_equal(rota_release(lock), 0);
    }
}

static void no_write_through_per_pair(void **state)
{
    (void)state;
    struct rota *r = open_one();
    pairs(r, 1);
    atomic_store(&syncs, 0);
    pairs(r, PAIRS);
    int n = atomic_load(&syncs);
    rota_close(r);
    print_message("%d fsync and fdatasync calls in %d pairs\n", n, PAIRS);
    assert_true(n > 0); /* checkpoints and reserved numbers: the counter does count */
    assert_true(n < PAIRS / 50);
}

/* Context switches of all threads of this process but the calling one: the keeper's. */
static long keeper_switches(int *threads)
{
    char path[PATH_MAX], line[256];
    long sum = 0, n;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    *threads = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.' || atol(e->d_name) == syscall(SYS_gettid))
            continue;
        ++*threads;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "re");
        while (f != NULL && fgets(line, sizeof(line), f) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ||
                sscanf(line, "nonvoluntary_ctxt_switches: %ld", &n) == 1)
                sum += n;
        if (f != NULL)
            fclose(f);
    }
    closedir(dir);
    return sum;
}

static void the_keeper_sleeps_on(void **state)
{
    (void)state;
    struct rota *r = open_one();
    pairs(r, 100);
    int threads;
    long least = LONG_MAX;
    /* It looks every few milliseconds, so on a busy machine, where a round takes longer, there are more:
     * the quietest of several rounds counts. */
    for (int round = 0; round < ROUNDS && least >= PAIRS / 100; round++) {
        long before = keeper_switches(&threads);
        assert_int_equal(threads, 1); /* there is a keeper to look at */
        pairs(r, PAIRS);
        long n = keeper_switches(&threads) - before;
        print_message("%ld context switches of the keeper in %d pairs\n", n, PAIRS);
        least = n < least ? n : least;
    }
    rota_close(r);
    assert_true(least < PAIRS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_write_through_per_pair),
        cmocka_unit_test(the_keeper_sleeps_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
