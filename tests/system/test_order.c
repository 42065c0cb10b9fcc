/* SPDX-License-Identifier: Apache-2.0 */
/* 1,000 waiters in 50 processes are granted in the order of their tickets, each woken by one datagram. */
#include "arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROCESSES 50
#define CLIENTS 20
#define WAITERS (PROCESSES * CLIENTS)

static const char name[] = "door";

/* ---- Counting datagrams ------------------------------------------------- */

/* Shared by all processes. The linker puts these in front of libc's (--wrap), so that every datagram
 * of the library is seen, whatever it says about itself. */
static uint32_t *datagrams;

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
                      socklen_t addr_len);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
                      socklen_t addr_len);
ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

static ssize_t counted(ssize_t n)
{
    if (n >= 0 && datagrams != NULL)
        __atomic_add_fetch(datagrams, 1, __ATOMIC_RELAXED);
    return n;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
                      socklen_t addr_len)
{
    return counted(__real_sendto(fd, buf, len, flags, addr, addr_len));
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
    return counted(__real_send(fd, buf, len, flags));
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return counted(__real_sendmsg(fd, msg, flags));
}

/* ---- A process of waiters ----------------------------------------------- */

struct crowd {
    struct sys_arena arena;
    uint32_t *turn;   /* shared: whose process may begin to queue */
    uint32_t *queued; /* shared: waiters that stand in the line */
};

struct waiter {
    struct rt_actor actor;
    struct rt_record *acquire, *enqueue, *release;
    struct rt_held held;
    char label[32];
    bool granted, done;
    int err;
};

static void on_released(void *arg, int err)
{
    struct waiter *w = arg;

    rt_history_end(w->release, rt_recorded_result(err));
    w->err = err;
    w->done = true;
}

static void on_granted(void *arg, int err, struct rota_lock *lock)
{
    struct waiter *w = arg;
    struct rt_record what;

    rt_recorded_granted(w->acquire, err, lock, &w->held);
    w->err = err;
    w->done = err != 0;
    if (err != 0)
        return;
    what = w->held.like;
    what.kind = RT_RELEASE;
    w->granted = true;
    w->release = rt_history_begin(w->actor.history, &what);
    w->err = rota_release_async(lock, on_released, w);
    w->done = w->err != 0;
}

static void drive(struct waiter *ws, int timeout_max)
{
    struct pollfd fds[CLIENTS];
    int timeout = timeout_max;

    for (int i = 0; i < CLIENTS; i++) {
        int t = rota_timeout_ms(ws[i].actor.rota);

        fds[i] = (struct pollfd){.fd = rota_fd(ws[i].actor.rota), .events = POLLIN};
        if (t >= 0 && (timeout < 0 || t < timeout))
            timeout = t;
    }
    poll(fds, CLIENTS, timeout);
    for (int i = 0; i < CLIENTS; i++)
        rota_process(ws[i].actor.rota);
}

/* Ends the enqueue records of those whose tickets can be seen; returns how many are still to come. */
static int see_tickets(struct rota *looker, struct waiter *ws, int n)
{
    struct rota_line *line = NULL;
    int missing = n;

    if (rota_inspect(looker, name, &line) != 0)
        return n;
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < line->count && ws[i].enqueue->ticket == 0; k++) {
            if (strcmp(line->places[k].label, ws[i].label) != 0)
                continue;
            ws[i].enqueue->ticket = line->places[k].number;
            rt_history_end(ws[i].enqueue, RT_OK);
        }
        missing -= ws[i].enqueue->ticket != 0;
    }
    rota_line_free(line);
    return missing;
}

static int queue(struct rota *looker, struct waiter *ws, int from, int to)
{
    for (int i = from; i < to; i++) {
        struct waiter *w = &ws[i];
        struct rt_record what = {.kind = RT_ENQUEUE, .client = w->actor.client};

        what.lock = rt_history_name(name);
        w->enqueue = rt_history_begin(w->actor.history, &what);
        w->acquire = rt_recorded_begin(&w->actor, name, NULL);
        w->err = rota_acquire_async(w->actor.rota, name, NULL, on_granted, w, NULL);
        if (w->err != 0)
            return w->err;
    }
    while (see_tickets(looker, ws + from, to - from) > 0)
        drive(ws, 1);
    return 0;
}

static bool all_done(const struct waiter *ws)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (!ws[i].done)
            return false;
    }
    return true;
}

static int stand_in_line(int index, void *arg)
{
    struct crowd *c = arg;
    struct waiter *ws = calloc(CLIENTS, sizeof(*ws));
    struct rt_actor looker;
    int failed = ws == NULL;

    for (int i = 0; i < CLIENTS; i++) {
        struct rota_options opts = {.label = ws[i].label, .pass_limit = ROTA_NEVER};

        opts.flags = ROTA_NO_KEEPER;
        snprintf(ws[i].label, sizeof(ws[i].label), "w%d.%d", index, i);
        sys_arena_enter(&c->arena, &ws[i].actor, 8, &opts);
    }
    sys_arena_enter(&c->arena, &looker, 1, NULL);
    /* The first half queues alone, and so certainly before the next process; the second half not. */
    rt_shared_wait(c->turn, (uint32_t)index + 1);
    failed |= queue(looker.rota, ws, 0, CLIENTS / 2);
    rt_shared_add(c->turn, 1);
    failed |= queue(looker.rota, ws, CLIENTS / 2, CLIENTS);
    sys_arena_leave(&looker);
    rt_shared_add(c->queued, CLIENTS);
    while (failed == 0 && !all_done(ws))
        drive(ws, -1);
    for (int i = 0; i < CLIENTS; i++) {
        failed |= ws[i].err;
        sys_arena_leave(&ws[i].actor);
    }
    free(ws);
    return failed != 0;
}

/* ---- The test ----------------------------------------------------------- */

/* Every ticket that was seen in the line was granted, under its own number. */
static void all_were_granted(const struct rt_record *records, size_t n)
{
    size_t tickets = 0, grants = 0;
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        if (records[i].kind == RT_ENQUEUE) {
            tickets++;
            sum += records[i].ticket;
        } else if (records[i].kind == RT_ACQUIRE && records[i].result == RT_OK) {
            grants++;
            sum -= records[i].ticket;
        }
    }
    assert_int_equal(tickets, WAITERS);
    assert_int_equal(grants, WAITERS);
    assert_int_equal(sum, 0);
}

static void a_thousand_waiters_in_order(void **state)
{
    struct crowd c = {.turn = rt_shared_new(sizeof(uint32_t)),
                      .queued = rt_shared_new(sizeof(uint32_t))};
    struct rota_lock *gate = NULL;
    struct rota *rota = NULL;
    struct rt_record *records = NULL;
    pid_t pids[PROCESSES];
    uint32_t before;
    size_t n, failed = 0;

    (void)state;
    rt_watchdog(300, "1,000 waiters hang");
    sys_arena_init(&c.arena, 1);
    datagrams = rt_shared_new(sizeof(uint32_t));
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = rt_proc_start(stand_in_line, i, &c);
    /* No thread of the library may live when we fork: so the gate comes only now. */
    assert_int_equal(rota_open(&rota, c.arena.url, NULL), 0);
    assert_int_equal(rota_acquire(rota, name, NULL, &gate), 0);
    rt_shared_add(c.turn, 1);
    rt_shared_wait(c.queued, WAITERS);
    before = __atomic_load_n(datagrams, __ATOMIC_RELAXED);
    assert_int_equal(rota_release(gate), 0);
    for (int i = 0; i < PROCESSES; i++)
        failed += rt_proc_wait(pids[i]) != 0;
    /* The gate's release and those of all but the last grant one each: that many wakes, no more. */
    before = *datagrams - before;
    print_message("%u datagrams for %d grants\n", before, WAITERS);
    rota_close(rota);
    assert_int_equal(sys_arena_check(&c.arena, name, &records, &n), 0);
    assert_int_equal(failed, 0);
    assert_int_equal(before, WAITERS);
    all_were_granted(records, n);
    free(records);
    sys_arena_fini(&c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_waiters_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
