/* SPDX-License-Identifier: Apache-2.0 */
/* The client on file: in bad surroundings: closed standard descriptors, a database that is stuck. */
#include "lib/proc.h"

#include <fcntl.h>
#include <poll.h>
#include <rota.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[4150], url[4200];

static int make_folder(void **state)
{
    (void)state;
    static int count;
    snprintf(folder, sizeof(folder), "%s/%d", rt_tmpdir(), ++count);
    snprintf(url, sizeof(url), "file:%s", folder);
    return 0;
}

/* ---- Descriptors --------------------------------------------------------- */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* A program that closed its standard descriptors and opens others in their place later. Returns
 * which step went wrong. */
static int live_without_standard(uint32_t flags)
{
    struct rota_options opts = {.flags = flags};
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota *r, *other;
    struct rota_lock *lock, *second;

    for (int fd = 0; fd < 3; fd++)
        close(fd);
    if (rota_open(&r, url, &opts) != 0 || rota_acquire(r, "a", NULL, &lock) != 0)
        return 1;
    if (is_open(0) || is_open(1) || is_open(2))
        return 2;
    int null = open("/dev/null", O_RDWR);
    if (null != 0 || dup2(null, 1) != 1 || dup2(null, 2) != 2)
        return 3;
    if (rota_open(&other, url, &opts) != 0)
        return 4;
    if (rota_acquire(other, "a", &try, &second) != ROTA_BUSY || rota_check(lock) != 0)
        return 5; /* dup2 ended the session */
    if (rota_release(lock) != 0)
        return 6;
    rota_close(other);
    rota_close(r);
    return is_open(0) && is_open(1) && is_open(2) ? 0 : 7;
}

static void without_standard_descriptors(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= ROTA_NO_KEEPER; flags += ROTA_NO_KEEPER) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(live_without_standard(flags));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* ---- A database that somebody else has ----------------------------------- */

/* What a program stopped in the middle of a transaction does to the others. */
static sqlite3 *take_database(void)
{
    char path[4200];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/rota.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static struct rota *must_open(uint32_t flags, uint32_t call_ms)
{
    struct rota_options opts = {.flags = flags, .call_ms = call_ms};
    struct rota *r;
    int rv = rota_open(&r, url, &opts);
    if (rv != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

struct told {
    struct rota *r;
    int err;
    bool done;
    char text[256];
};

static void on_done(void *arg, int err)
{
    struct told *t = arg;
    t->done = true;
    t->err = err;
    snprintf(t->text, sizeof(t->text), "%s", rota_errmsg(t->r));
}

static void on_grant(void *arg, int err, struct rota_lock *lock)
{
    assert_true((err == 0) == (lock != NULL));
    on_done(arg, err);
}

static void await_told(struct told *t)
{
    while (!t->done) {
        struct pollfd pfd = {.fd = rota_fd(t->r), .events = POLLIN};
        poll(&pfd, 1, rota_timeout_ms(t->r));
        assert_int_equal(rota_process(t->r), 0);
    }
}

static void assert_told(struct told *t, int err)
{
    char pid[32];

    await_told(t);
    snprintf(pid, sizeof(pid), "process %d", (int)getpid());
    if (t->err != err || strstr(t->text, pid) == NULL)
        fail_msg("%s: '%s' does not say '%s'", rota_strerror(t->err), t->text, pid);
    t->done = false;
}

static void callbacks_have_the_engines_message(void **state)
{
    (void)state;
    struct rota *r = must_open(ROTA_NO_KEEPER, 100), *holder = must_open(ROTA_NO_KEEPER, 100);
    struct told t = {.r = r}, h = {.r = holder};
    struct rota_lock *lock, *other;
    assert_int_equal(rota_acquire(holder, "a", NULL, &lock), 0);
    assert_int_equal(rota_acquire(holder, "b", NULL, &other), 0);
    sqlite3 *db = take_database();

    assert_int_equal(rota_acquire_async(r, "c", NULL, on_grant, &t, NULL), 0);
    assert_told(&t, ROTA_UNREACHABLE);
    assert_string_equal(rota_errmsg(r), t.text); /* and stays until the next failure */

    assert_int_equal(rota_check_async(lock, on_done, &h), 0);
    await_told(&h);
    assert_int_equal(h.err, 0); /* reading needs nobody's leave */

    h.done = false;
    assert_int_equal(rota_release_async(lock, on_done, &h), 0);
    assert_told(&h, ROTA_UNKNOWN);
    assert_int_equal(rota_release(other), ROTA_UNKNOWN);
    assert_non_null(strstr(rota_errmsg(holder), "process"));
    sqlite3_close(db);
    rota_close(holder);
    rota_close(r);
}

/* The session ends with its connection, so nobody has to wait until its tickets are taken out;
 * a minute of call_ms stands for "for ever". */
static void closing_does_not_wait_for_a_stuck_database(void **state)
{
    (void)state;
    struct rota *holder = must_open(ROTA_NO_KEEPER, 60000), *waiter = must_open(0, 60000);
    struct rota_ask try = {.flags = ROTA_TRY};
    struct told t = {.r = waiter};
    struct rota_lock *lock;
    assert_int_equal(rota_acquire(holder, "a", NULL, &lock), 0);
    assert_int_equal(rota_acquire(waiter, "b", NULL, &lock), 0); /* has a session */
    assert_int_equal(rota_acquire_async(waiter, "a", NULL, on_grant, &t, NULL), 0);
    sqlite3 *db = take_database();
    alarm(20);
    rota_close(waiter);
    assert_int_equal(t.err, ROTA_CLOSED);
    rota_close(holder);
    alarm(0);
    sqlite3_close(db);

    struct rota *next = must_open(ROTA_NO_KEEPER, 0);
    struct rota_line *line;
    assert_int_equal(rota_acquire(next, "a", &try, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_acquire(next, "b", &try, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_inspect(next, "a", &line), 0);
    assert_int_equal(line->count, 0);
    rota_line_free(line);
    rota_close(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_standard_descriptors, make_folder),
        cmocka_unit_test_setup(closing_does_not_wait_for_a_stuck_database, make_folder),
        cmocka_unit_test_setup(callbacks_have_the_engines_message, make_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
