/* SPDX-License-Identifier: Apache-2.0 */
/* A guardian keeps the session of a process that was killed until it has done its work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"

#include <limits.h>
#include <rota.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int ready[2], go[2];

static struct rota *open_one(void)
{
    char url[PATH_MAX];
    struct rota *r = NULL;
    snprintf(url, sizeof(url), "file:%s/rota", rt_tmpdir());
    assert_int_equal(rota_open(&r, url, NULL), 0);
    return r;
}

/* Keeps the descriptor it inherited until it is told to go. */
static void guard(void)
{
    char byte;
    close(go[1]);
    if (write(ready[1], "x", 1) != 1)
        _exit(1);
    while (read(go[0], &byte, 1) > 0)
        ;
    _exit(0);
}

static int hold_with_guardian(int index, void *arg)
{
    struct rota_lock *lock = NULL;
    int fd = -1;
    (void)index;
    (void)arg;
    struct rota *r = open_one();
    if (rota_keep_fd(r, &fd) != ROTA_LOST || rota_acquire(r, "job", NULL, &lock) != 0)
        return 1;
    if (rota_keep_fd(r, &fd) != 0 || fd <= 2)
        return 2;
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        guard();
    }
    for (;;)
        pause();
}

static void a_guardian_keeps_the_session(void **state)
{
    char byte;
    struct rota_lock *lock = NULL;
    const struct rota_ask try = {.flags = ROTA_TRY};
    (void)state;
    rt_watchdog(60, "guardian: hang");
    (void)rt_tmpdir(); /* made here, so that all share it */
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t holder = rt_proc_start(hold_with_guardian, 0, NULL);
    close(go[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    rt_proc_kill(holder);
    struct rota *r = open_one();
    assert_int_equal(rota_acquire(r, "job", &try, &lock), ROTA_BUSY);
    close(go[1]); /* the guardian ends, and with it the session */
    assert_int_equal(rota_acquire(r, "job", NULL, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

static void sessions_with_a_ttl_cannot_be_kept(void **state)
{
    struct rota *r = NULL;
    int fd = -7;
    (void)state;
    assert_int_equal(rota_open(&r, "mem:keep", NULL), 0);
    assert_int_equal(rota_keep_fd(r, &fd), ROTA_UNSUPPORTED);
    assert_int_equal(fd, -7);
    assert_true(strlen(rota_errmsg(r)) > 0);
    assert_int_equal(rota_keep_fd(NULL, &fd), ROTA_INVALID);
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guardian_keeps_the_session),
        cmocka_unit_test(sessions_with_a_ttl_cannot_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
