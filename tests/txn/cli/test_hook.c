/* SPDX-License-Identifier: Apache-2.0 */
/* The command that calls a person: what it is told, its queue, and one that hangs. Without a journal. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "txn/cli/hook.h"
#include "txn/cli/notes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 70 /* more than the queue takes */

static const struct rt_visit nowhere;
static _Atomic unsigned noted;

/* ---- In the place of the journal ----------------------------------------------- */

int rt_notes_call(const struct rt_visit *v, const struct rt_txn_id *id, const char *resource,
                  const char *line)
{
    (void)v;
    (void)id;
    (void)resource;
    (void)line;
    noted++;
    return 0;
}

bool rt_args_read_id(const char *text, struct rt_txn_id *id, int64_t *deadline_ms)
{
    (void)id;
    (void)deadline_ms;
    return text[0] != '\0';
}

/* ---- Cases ------------------------------------------------------------------------ */

/* The number of lines of PATH; each is given to F. */
static unsigned lines_of(const char *path, void (*each)(unsigned i, const char *line))
{
    FILE *file = fopen(path, "re");
    char line[600];
    unsigned n = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        each(n++, line);
    if (file != NULL)
        fclose(file);
    return n;
}

static void in_order(unsigned i, const char *line)
{
    char expected[200];

    snprintf(expected, sizeof(expected),
             "%032u|res'\"$(touch oh)`touch oh`;%u|it does not answer\n", i, i);
    assert_string_equal(line, expected);
}

/* One after the other, in order, whatever characters a name has; the excess is dropped and counted. */
static void a_queue(void **state)
{
    char id[40], resource[100], path[300], command[700];

    (void)state;
    for (unsigned i = 0; i < CALLS; i++) {
        snprintf(id, sizeof(id), "%032u", i);
        snprintf(resource, sizeof(resource), "res'\"$(touch oh)`touch oh`;%u", i);
        rt_hook_call(id, resource, "it does not answer");
        rt_hook_call(id, resource, "it does not answer"); /* is the same call */
    }
    assert_int_equal(rt_hook_counts().dropped, 0);
    snprintf(path, sizeof(path), "%s/said", rt_tmpdir());
    snprintf(command, sizeof(command),
             "cd %s && read x; echo \"$ROTA_TXN|$ROTA_RESOURCE|$ROTA_LINE\" >>said", rt_tmpdir());
    setenv("ROTA_TXN", "somebody else's", 1);
    assert_true(rt_hook_start(&nowhere, command));
    rt_hook_stop();
    struct rt_hook_counts counts = rt_hook_counts();
    assert_true(counts.ended > 0);
    assert_int_equal(counts.ended + counts.dropped + counts.killed, CALLS);
    unsigned lines = lines_of(path, in_order); /* one that is killed may have written its own */
    assert_in_range(lines, counts.ended, counts.ended + counts.killed);
    assert_true(counts.dropped >= CALLS - 64);
    assert_int_equal(noted, CALLS);
    snprintf(path, sizeof(path), "%s/oh", rt_tmpdir());
    assert_int_equal(access(path, F_OK), -1);
}

static pid_t hanging;

static void take_pid(unsigned i, const char *line)
{
    (void)i;
    hanging = (pid_t)strtol(line, NULL, 10);
}

/* It is killed with everything it started, and only the end waited for it. What comes meanwhile is written down. */
static void one_that_hangs(void **state)
{
    char path[300], command[700], id[40];
    struct rt_hook_counts before = rt_hook_counts();

    (void)state;
    snprintf(path, sizeof(path), "%s/pid", rt_tmpdir());
    snprintf(command, sizeof(command), "trap '' TERM; sleep 1000 & echo $! >%s; wait; wait", path);
    assert_true(rt_hook_start(&nowhere, command));
    rt_hook_call("", "stock", "hangs");
    while (lines_of(path, take_pid) == 0)
        usleep(1000);
    unsigned so_far = noted;
    for (unsigned i = 0; i < 2 * CALLS; i++) {
        snprintf(id, sizeof(id), "%032u", 1000 + i);
        rt_hook_call(id, "stock", "hangs");
    }
    while (noted < so_far + 2 * CALLS) /* the first one hangs still */
        usleep(1000);
    assert_int_equal(rt_hook_counts().killed, before.killed);
    rt_hook_stop();
    struct rt_hook_counts counts = rt_hook_counts();
    assert_in_range(counts.killed, before.killed + 1, before.killed + 2); /* and the one after it */
    assert_int_equal(counts.ended, before.ended);
    while (kill(hanging, 0) ==
           0) /* until whoever inherited it has reaped it; the watchdog ends it */
        usleep(1000);
    assert_int_equal(errno, ESRCH);
}

/* One that cannot be run, or fails, is counted too. */
static void one_that_fails(void **state)
{
    struct rt_hook_counts before = rt_hook_counts();

    (void)state;
    assert_true(rt_hook_start(&nowhere, "exit 3"));
    rt_hook_call("", "ledger", "fails");
    rt_hook_stop();
    assert_int_equal(rt_hook_counts().failed, before.failed + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue),
        cmocka_unit_test(one_that_fails),
        cmocka_unit_test(one_that_hangs),
    };

    rt_watchdog(200, "a hook hangs");
    return cmocka_run_group_tests_name("on_attention", tests, NULL, NULL);
}
