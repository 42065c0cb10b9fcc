/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: timers, watches and wake-ups, as seen by whoever polls its descriptor. */
#include "net/fd.h"
#include "net/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct counted {
    struct rt_timer_call call; /* first */
    int fired;
    int64_t at;
};

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct counted *c = (struct counted *)(void *)call;
    c->fired++;
    c->at = now;
}

static struct counted counted(void)
{
    return (struct counted){.call = {.timer = {.kind = RT_TIMER_CALL}, .fire = fire}};
}

static int others;

static void other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)t;
    (void)now;
    assert_ptr_equal(arg, &others);
    others++;
}

static void turn(struct rt_loop *loop)
{
    do
        rt_loop_turn(loop, other, &others);
    while (loop->dirty);
}

static bool readable(const struct rt_loop *loop, int timeout_ms)
{
    struct pollfd pfd = {.fd = rt_loop_fd(loop), .events = POLLIN};
    return poll(&pfd, 1, timeout_ms) == 1;
}

static void virtual_timers_fire_in_order(void **state)
{
    (void)state;
    struct rt_loop loop;
    rt_loop_init_virtual(&loop);
    struct counted a = counted(), b = counted();
    struct rt_timer desk = {.kind = RT_TIMER_DESK};
    assert_int_equal(rt_loop_reserve(&loop, 3), 0);
    rt_timers_start(&loop.timers, &a.call.timer, 10);
    rt_timers_start(&loop.timers, &b.call.timer, 5);
    rt_timers_start(&loop.timers, &desk, 7);
    others = 0;
    rt_loop_advance(&loop, 6);
    turn(&loop);
    assert_int_equal(a.fired + others, 0);
    assert_int_equal(b.fired, 1);
    rt_loop_advance(&loop, 10);
    turn(&loop);
    assert_int_equal(a.fired, 1);
    assert_int_equal(others, 1);
    assert_int_equal(rt_loop_fd(&loop), -1);
    rt_loop_unreserve(&loop, 3);
    rt_loop_fini(&loop);
}

static struct rt_loop *again_loop;

static void again(struct rt_timer_call *call, int64_t now)
{
    struct counted *c = (struct counted *)(void *)call;
    c->fired++;
    rt_timers_start(&again_loop->timers, &call->timer, now); /* for ever due */
}

static void a_timer_that_is_always_due_does_not_hold_a_turn(void **state)
{
    (void)state;
    struct rt_loop loop;
    rt_loop_init_virtual(&loop);
    struct counted a = counted();
    a.call.fire = again;
    again_loop = &loop;
    assert_int_equal(rt_loop_reserve(&loop, 1), 0);
    rt_timers_start(&loop.timers, &a.call.timer, 0);
    turn(&loop);
    assert_in_range(a.fired, 1, 100);
    rt_loop_fini(&loop);
}

static void timers_make_the_descriptor_readable(void **state)
{
    (void)state;
    struct rt_loop loop;
    assert_int_equal(rt_loop_init(&loop), 0);
    struct counted a = counted();
    assert_int_equal(rt_loop_reserve(&loop, 1), 0);
    turn(&loop);
    assert_false(readable(&loop, 0));
    int64_t at = rt_loop_tick(&loop) + 5 * RT_MS;
    rt_timers_start(&loop.timers, &a.call.timer, at);
    rt_loop_arm(&loop);
    while (a.fired == 0) {
        assert_true(readable(&loop, 10000));
        turn(&loop);
        rt_loop_arm(&loop);
    }
    assert_true(a.at >= at);
    assert_false(readable(&loop, 0));
    rt_loop_fini(&loop);
}

static void a_sooner_timer_moves_the_alarm(void **state)
{
    (void)state;
    struct rt_loop loop;
    assert_int_equal(rt_loop_init(&loop), 0);
    struct counted late = counted(), soon = counted();
    assert_int_equal(rt_loop_reserve(&loop, 2), 0);
    turn(&loop);
    rt_timers_start(&loop.timers, &late.call.timer, rt_loop_now(&loop) + 3600000 * RT_MS);
    rt_loop_arm(&loop);
    rt_timers_start(&loop.timers, &soon.call.timer, rt_loop_now(&loop));
    rt_loop_arm(&loop);
    assert_true(readable(&loop, 10000));
    turn(&loop);
    assert_int_equal(soon.fired, 1);
    assert_int_equal(late.fired, 0);
    rt_timers_stop(&loop.timers, &late.call.timer);
    rt_loop_fini(&loop);
}

static void *wake_from_elsewhere(void *arg)
{
    rt_loop_wake(arg);
    return NULL;
}

static void waking_from_another_thread(void **state)
{
    (void)state;
    struct rt_loop loop;
    pthread_t thread;
    assert_int_equal(rt_loop_init(&loop), 0);
    turn(&loop);
    assert_int_equal(pthread_create(&thread, NULL, wake_from_elsewhere, &loop), 0);
    assert_true(readable(&loop, 10000));
    pthread_join(thread, NULL);
    turn(&loop);
    assert_false(readable(&loop, 0));
    rt_loop_fini(&loop);
}

struct seen {
    struct rt_watch watch; /* first */
    int readable, writable, closed;
};

static void on_ready(struct rt_watch *w, bool is_readable, bool is_writable)
{
    struct seen *s = (struct seen *)(void *)w;
    s->readable += is_readable;
    s->writable += is_writable;
}

static void on_closed(struct rt_watch *w)
{
    ((struct seen *)(void *)w)->closed++;
}

static void watches_come_and_go(void **state)
{
    (void)state;
    struct rt_loop loop;
    int fds[2];
    struct seen s = {0};
    assert_int_equal(rt_loop_init(&loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(rt_watch_start(&loop, &s.watch, fds[0], on_ready), 0);
    rt_watch_want(&s.watch, true, false);
    assert_true(loop.dirty);
    turn(&loop);
    assert_int_equal(s.readable, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_true(readable(&loop, 10000));
    turn(&loop);
    assert_int_equal(s.readable, 1);
    rt_watch_want(&s.watch, false, false); /* paused: unread, and yet silent */
    turn(&loop);
    assert_false(readable(&loop, 0));
    assert_int_equal(s.readable, 1);
    rt_watch_want(&s.watch, false, true);
    turn(&loop);
    turn(&loop);
    assert_true(s.writable >= 1);
    rt_watch_stop(&s.watch, on_closed);
    close(fds[0]);
    assert_int_equal(s.closed, 0);
    turn(&loop);
    assert_int_equal(s.closed, 1);
    close(fds[1]);
    rt_loop_fini(&loop);
}

static void hang_ups_count_as_ready(void **state)
{
    (void)state;
    struct rt_loop loop;
    int fds[2];
    struct seen s = {0};
    assert_int_equal(rt_loop_init(&loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(rt_watch_start(&loop, &s.watch, fds[0], on_ready), 0);
    rt_watch_want(&s.watch, true, false);
    turn(&loop);
    close(fds[1]);
    assert_true(readable(&loop, 10000));
    turn(&loop);
    assert_true(s.readable >= 1);
    rt_watch_stop(&s.watch, NULL);
    turn(&loop);
    close(fds[0]);
    rt_loop_fini(&loop);
}

/* Nobody looks at the descriptor: it need not be one. */
static void in_virtual_time_the_user_says_what_is_ready(void **state)
{
    (void)state;
    struct rt_loop loop;
    struct seen s = {0};
    rt_loop_init_virtual(&loop);
    assert_int_equal(rt_watch_start(&loop, &s.watch, 1234567, on_ready), 0);
    assert_false(rt_loop_feed(&loop, 1234567)); /* it does not want to know yet */
    rt_watch_want(&s.watch, true, false);
    assert_false(rt_loop_feed(&loop, 1234568));
    assert_true(rt_loop_feed(&loop, 1234567));
    assert_int_equal(s.readable, 1);
    rt_watch_stop(&s.watch, on_closed);
    assert_false(rt_loop_feed(&loop, 1234567));
    assert_int_equal(s.closed, 0); /* from a later turn */
    rt_loop_wake(&loop);           /* and nothing happens */
    turn(&loop);
    assert_int_equal(s.closed, 1);
    rt_loop_fini(&loop);
}

/* ---- Descriptors: libuv aborts where it gets 0 to 2, or none ----------------- */

/* Runs in a process of its own, which libuv may take down; returns its exit code, or 128 + the signal. */
static int apart(int (*fn)(int arg), int arg)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(arg));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int forks(int generations)
{
    return generations == 0 ? 0 : apart(forks, generations - 1);
}

/* Bits of CLOSED: which of 0 to 2 the program has closed. */
static int live_without(int closed)
{
    struct rt_loop loop;

    for (int fd = 0; fd < 3; fd++)
        if ((closed & 1 << fd) != 0)
            close(fd);
    int rv = rt_loop_init(&loop);
    if (rv != 0)
        return 1;
    for (int fd = 0; fd < 3; fd++)
        if (is_open(fd) != ((closed & 1 << fd) == 0))
            return 2;
    if (loop.timer_fd < 3 || loop.wake_fd < 3 || rt_loop_fd(&loop) < 3)
        return 3;
    if (forks(2) != 0) /* libuv opens anew in each child, and closes in the child's child */
        return 4;
    rt_loop_fini(&loop);
    return 0;
}

static void standard_descriptors_stay_the_programs(void **state)
{
    (void)state;
    for (int closed = 0; closed < 8; closed++)
        assert_int_equal(apart(live_without, closed), 0);
}

/* With room for just that many descriptors. */
static int live_with(int room)
{
    struct rlimit limit = {0};
    struct rt_loop loop;
    int next = dup(2);

    close(next);
    limit.rlim_cur = limit.rlim_max = (rlim_t)(next + room);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    int rv = rt_loop_init(&loop);
    if (rv == 0)
        rt_loop_fini(&loop);
    else if (rv != ROTA_UNREACHABLE)
        return 2;
    int after = dup(2); /* nothing stays open */
    return after != (room > 0 ? next : -1) && rv != 0 ? 3 : rv == 0 ? 0 : 10;
}

static void too_few_descriptors_are_an_error(void **state)
{
    (void)state;
    for (int room = 0; room < 8; room++)
        assert_int_equal(apart(live_with, room), 10);
    assert_int_equal(apart(live_with, 32), 0);
}

static void lifted_descriptors_are_above_two(void **state)
{
    (void)state;
    int fd = rt_fd_lift(dup(2));
    assert_true(fd > 2);
    int saved = dup(0);
    close(0);
    int low = dup(2);
    int high = rt_fd_lift(low);
    bool gone = !is_open(0), cloexec = (fcntl(high, F_GETFD) & FD_CLOEXEC) != 0;
    if (saved >= 0) {
        dup2(saved, 0);
        close(saved);
    }
    assert_int_equal(low, 0);
    assert_true(high > 2 && gone && cloexec);
    assert_int_equal(rt_fd_lift(-1), -1);
    close(high);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: libuv makes its pipe with the first loop of a process */
        cmocka_unit_test(standard_descriptors_stay_the_programs),
        cmocka_unit_test(too_few_descriptors_are_an_error),
        cmocka_unit_test(lifted_descriptors_are_above_two),
        cmocka_unit_test(virtual_timers_fire_in_order),
        cmocka_unit_test(a_timer_that_is_always_due_does_not_hold_a_turn),
        cmocka_unit_test(timers_make_the_descriptor_readable),
        cmocka_unit_test(a_sooner_timer_moves_the_alarm),
        cmocka_unit_test(waking_from_another_thread),
        cmocka_unit_test(watches_come_and_go),
        cmocka_unit_test(hang_ups_count_as_ready),
        cmocka_unit_test(in_virtual_time_the_user_says_what_is_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
