/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine when somebody deletes or truncates files of the database under those who use it: never two holders,
 * nobody killed. */
#include "place.h"

#include "engine/file/file.h"
#include "rota.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void in_folder(const char *text)
{
    char command[256];
    snprintf(command, sizeof(command), "cd %s && %s", place_folder, text);
    assert_int_equal(system(command), 0);
}

/* ---- Another process that has a session, and perhaps the lock "a" ------------------------------ */

struct other {
    pid_t pid;
    int told;   /* a byte when it is up, and one when it was told that its session is lost */
    int orders; /* a byte: give "a" back and end */
};

static int told_fd; /* in the other process */
static void (*user_event)(struct rt_up *up, const struct rt_event *e);

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    if (e->kind == RT_SESSION_LOST)
        assert_int_equal(write(told_fd, "l", 1), 1);
    user_event(up, e);
}

static _Noreturn void be_other(bool holds, int orders)
{
    struct user u;
    struct rt_join j = {0};
    char byte;
    place_child();
    user_start(&u, place_url, 0);
    user_event = u.up.event;
    u.up.event = on_event;
    if (holds)
        assert_int_equal(user_join(&u, "a", &j), 0);
    assert_int_equal(write(told_fd, "y", 1), 1);
    assert_int_equal(fcntl(orders, F_SETFL, O_NONBLOCK), 0);
    while (read(orders, &byte, 1) != 1)
        user_turn(&u, 10);
    int rv = holds ? user_leave(&u, "a", j.number) : 0;
    user_close(&u);
    _exit(rv == 0 ? 0 : 1);
}

static struct other start_other(bool holds)
{
    struct other o;
    int told[2], orders[2];
    char byte = 0;
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(orders), 0);
    o.pid = fork();
    if (o.pid == 0) {
        told_fd = told[1];
        be_other(holds, orders[0]);
    }
    close(told[1]);
    close(orders[0]);
    o.told = told[0];
    o.orders = orders[1];
    assert_int_equal(read(o.told, &byte, 1), 1);
    return o;
}

static void end_other(struct other *o)
{
    place_end(o->pid);
    close(o->told);
    close(o->orders);
}

static bool was_told(const struct other *o)
{
    struct pollfd p = {.fd = o->told, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* ---- Deleted ------------------------------------------------------------------------------- */

/* I1: a newcomer is granted the lock, but not before its holder was told. */
static void no_second_holder(const char *command)
{
    struct other o = start_other(true);
    struct user b;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    in_folder(command);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&b, "a", &t), 0);
    assert_true(was_told(&o));
    user_close(&b);
    end_other(&o);
}

static void test_a_deleted_wal_and_shm_make_no_second_holder(void **state)
{
    (void)state;
    no_second_holder("rm rota.db-wal rota.db-shm");
}

static void test_a_deleted_wal_makes_no_second_holder(void **state)
{
    (void)state;
    no_second_holder("rm rota.db-wal");
}

static void test_a_deleted_shm_makes_no_second_holder(void **state)
{
    (void)state;
    no_second_holder("rm rota.db-shm");
}

static void test_a_deleted_database_makes_no_second_holder(void **state)
{
    (void)state;
    no_second_holder("rm rota.db*");
}

static int open_for(uint32_t call_ms, struct rota **out)
{
    return rota_open(out, place_url, &(struct rota_options){.call_ms = call_ms});
}

/* A stopped process cannot be told: it keeps its hold, and the others hear why they do not get in. */
static void test_a_stopped_holder_keeps_the_others_out(void **state)
{
    (void)state;
    struct other o = start_other(true);
    struct rota *r = NULL;
    struct rota_lock *lock = NULL;
    kill(o.pid, SIGSTOP);
    in_folder("rm rota.db-wal rota.db-shm");
    assert_int_equal(open_for(300, &r), ROTA_UNREACHABLE);
    assert_non_null(strstr(rota_errmsg(NULL), "deleted or truncated while in use"));
    assert_false(was_told(&o));
    kill(o.pid, SIGCONT);
    assert_int_equal(open_for(20000, &r), 0);
    assert_true(was_told(&o));
    assert_int_equal(rota_acquire(r, "a", &(struct rota_ask){.flags = ROTA_TRY}, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    end_other(&o);
}

/* A session that holds nothing looks at nothing by itself: it has to be asked. */
static void test_an_idle_session_lets_the_others_in(void **state)
{
    (void)state;
    struct other o = start_other(false);
    struct user b;
    in_folder("rm rota.db-wal rota.db-shm");
    user_start(&b, place_url, 0);
    assert_true(was_told(&o));
    user_close(&b);
    end_other(&o);
}

/* A client that opened the database before, and has no session yet, goes where the others are. */
static void test_a_client_without_session_goes_where_the_others_are(void **state)
{
    (void)state;
    struct user a, b;
    struct rt_join x = {0}, t = {.flags = RT_JOIN_TRY};
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    assert_int_equal(user_open(&a, place_url), 0);
    in_folder("rm rota.db-wal rota.db-shm");
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&b, "a", &x), 0);
    op.beat.open = true;
    assert_int_equal(user_do(&a, &op), 0);
    a.session = op.beat.session;
    assert_int_equal(user_join(&a, "a", &t), ROTA_BUSY);
    user_close(&a);
    user_close(&b);
}

/* comes in the moment in which another chooses the name of its session */
static struct other *late;

/* In place of the C library's. */
ssize_t getrandom(void *out, size_t size, unsigned flags)
{
    struct other *o = late;
    if (o != NULL) {
        late = NULL;
        in_folder("rm rota.db-wal rota.db-shm");
        *o = start_other(true);
    }
    return syscall(SYS_getrandom, out, size, flags);
}

/* It had looked at the files before, and nobody saw its session yet. */
static void test_files_that_go_while_a_session_begins(void **state)
{
    (void)state;
    struct user a;
    struct other o;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    assert_int_equal(user_open(&a, place_url), 0);
    op.beat.open = true;
    late = &o;
    assert_int_equal(user_do(&a, &op), 0);
    assert_null(late);
    a.session = op.beat.session;
    assert_int_equal(user_join(&a, "a", &t), ROTA_BUSY);
    assert_false(was_told(&o));
    user_close(&a);
    end_other(&o);
}

/* ---- Truncated ------------------------------------------------------------------------------- */

/* The holder neither dies of it nor loses anything, whoever comes meanwhile. */
static void shm_is_mended(const char *command, bool newcomer)
{
    struct other o = start_other(true);
    struct user b;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    int status = 0;
    in_folder(command);
    if (newcomer) {
        user_start(&b, place_url, 0);
        assert_int_equal(user_join(&b, "a", &t), ROTA_BUSY);
    }
    assert_int_equal(write(o.orders, "e", 1), 1);
    assert_int_equal(waitpid(o.pid, &status, 0), o.pid);
    assert_false(was_told(&o) && read(o.told, &status, 1) == 1);
    if (WIFSIGNALED(status))
        fail_msg("it died of signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    if (newcomer) {
        t = (struct rt_join){.flags = RT_JOIN_TRY};
        assert_int_equal(user_join(&b, "a", &t), 0);
        user_close(&b);
    }
    close(o.told);
    close(o.orders);
}

static void test_an_emptied_shm_kills_nobody(void **state)
{
    (void)state;
    shm_is_mended(": >rota.db-shm", false);
}

static void test_an_emptied_shm_makes_no_second_holder(void **state)
{
    (void)state;
    shm_is_mended(": >rota.db-shm", true);
}

/* What is left of it says that the WAL is whole, and finds nothing in it. */
static void test_a_short_shm_kills_nobody(void **state)
{
    (void)state;
    shm_is_mended("truncate -s 200 rota.db-shm", false);
}

static void test_a_short_shm_makes_no_second_holder(void **state)
{
    (void)state;
    shm_is_mended("truncate -s 200 rota.db-shm", true);
}

/* Its tickets are gone with it: nobody gets in as long as it is in use, and hears why. */
static void test_an_emptied_wal_makes_no_second_holder(void **state)
{
    (void)state;
    struct other o = start_other(true);
    struct rota *r = NULL;
    in_folder(": >rota.db-wal");
    assert_int_equal(open_for(300, &r), ROTA_UNREACHABLE);
    assert_non_null(strstr(rota_errmsg(NULL), "its WAL was truncated while in use"));
    end_other(&o);
    assert_int_equal(open_for(20000, &r), 0);
    rota_close(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_deleted_wal_and_shm_make_no_second_holder),
        CASE(test_a_deleted_wal_makes_no_second_holder),
        CASE(test_a_deleted_shm_makes_no_second_holder),
        CASE(test_a_deleted_database_makes_no_second_holder),
        CASE(test_a_stopped_holder_keeps_the_others_out),
        CASE(test_an_idle_session_lets_the_others_in),
        CASE(test_a_client_without_session_goes_where_the_others_are),
        CASE(test_files_that_go_while_a_session_begins),
        CASE(test_an_emptied_shm_kills_nobody),
        CASE(test_an_emptied_shm_makes_no_second_holder),
        CASE(test_a_short_shm_kills_nobody),
        CASE(test_a_short_shm_makes_no_second_holder),
        CASE(test_an_emptied_wal_makes_no_second_holder),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
