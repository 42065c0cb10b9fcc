/* SPDX-License-Identifier: Apache-2.0 */
/* Crash points: a process dies or stops at the Kth hit, and every hit is recorded. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "txn/point.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int come_by(int index, void *arg)
{
    (void)setenv("ROTA_POINT", arg, 1);
    for (int i = 0; i < index; i++) {
        rt_point("decide-asked");
        rt_point("decide-written");
    }
    return 7;
}

/* The same; what it says when it ends is not for the log. */
static int come_by_quietly(int index, void *arg)
{
    (void)freopen("/dev/null", "w", stderr);
    return come_by(index, arg);
}

static void at_the_kth_time_it_is_dead(void **state)
{
    char plan[] = "decide-written:3";

    (void)state;
    assert_int_equal(rt_proc_wait(rt_proc_start(come_by, 2, plan)), 7);
    assert_int_equal(rt_proc_wait(rt_proc_start(come_by, 3, plan)), RT_PROC_SIGNALED + SIGKILL);
    plan[strlen(plan) - 2] = '\0';
    assert_int_equal(rt_proc_wait(rt_proc_start(come_by, 1, plan)), RT_PROC_SIGNALED + SIGKILL);
}

static void or_stops_and_goes_on(void **state)
{
    char plan[] = "decide-asked:2:stop";
    int status = 0;
    pid_t pid = rt_proc_start(come_by, 5, plan);

    (void)state;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(rt_proc_wait(pid), 7);
}

static void a_name_that_is_none_is_refused(void **state)
{
    char plan[] = "decide-eaten";

    (void)state;
    assert_int_equal(rt_proc_wait(rt_proc_start(come_by_quietly, 1, plan)),
                     RT_PROC_SIGNALED + SIGABRT);
}

static void hits_are_written_down(void **state)
{
    char path[400], line[64], plan[] = "decide-written:2";
    unsigned asked = 0, written = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/seen", rt_tmpdir());
    (void)setenv("ROTA_POINTS_SEEN", path, 1);
    assert_int_equal(rt_proc_wait(rt_proc_start(come_by, 1, plan)), 7);
    assert_int_equal(rt_proc_wait(rt_proc_start(come_by, 9, plan)), RT_PROC_SIGNALED + SIGKILL);
    (void)unsetenv("ROTA_POINTS_SEEN");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        asked += strcmp(line, "decide-asked\n") == 0;
        written += strcmp(line, "decide-written\n") == 0;
    }
    fclose(file);
    assert_int_equal(asked, 3);
    assert_int_equal(written, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_kth_time_it_is_dead),
        cmocka_unit_test(or_stops_and_goes_on),
        cmocka_unit_test(hits_are_written_down),
        cmocka_unit_test(a_name_that_is_none_is_refused),
    };
    rt_watchdog(60, "crash points hang");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
