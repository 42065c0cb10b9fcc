/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: a clock, timers by CLOCK_BOOTTIME, and descriptors to watch, over libuv. */
#include "net/loop.h"

#include "base/alloc.h"
#include "net/fd.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <rota.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

/* Timers that start each other for the same moment must not keep a turn from its end. */
#define TIMERS_PER_TURN_EXTRA 64

/* uv_close ends in the next turn; more are never needed without a bug. */
#define CLOSING_TURNS 8

/* What uv_loop_init opens (epoll, an eventfd, two pipes), and two to spare: where it lacks some it
 * does not always fail but may abort. */
#define UV_FDS 8

int64_t rt_loop_clock(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t rt_loop_tick(struct rt_loop *loop)
{
    if (loop->virtual_time)
        return loop->now;
    int64_t now = rt_loop_clock();
    if (now > loop->now)
        loop->now = now;
    return loop->now;
}

static void drain_counter(int fd)
{
    uint64_t count;
    ssize_t got;

    do
        got = read(fd, &count, sizeof(count));
    while (got < 0 && errno == EINTR);
}

static void timer_ready(uv_poll_t *poll, int status, int events)
{
    struct rt_loop *loop = poll->data;

    (void)status;
    (void)events;
    drain_counter(loop->timer_fd);
    loop->armed_at = RT_NEVER;
}

static void wake_ready(uv_poll_t *poll, int status, int events)
{
    struct rt_loop *loop = poll->data;

    (void)status;
    (void)events;
    drain_counter(loop->wake_fd);
}

static void close_all(struct rt_loop *loop)
{
    for (int i = 0; i < CLOSING_TURNS && uv_loop_close(&loop->uv) == UV_EBUSY; i++)
        uv_run(&loop->uv, UV_RUN_NOWAIT);
}

static int start_poll(struct rt_loop *loop, uv_poll_t *poll, int fd, uv_poll_cb ready)
{
    int rv = uv_poll_init(&loop->uv, poll, fd);
    if (rv != 0)
        return rv;
    poll->data = loop;
    rv = uv_poll_start(poll, UV_READABLE, ready);
    if (rv != 0)
        uv_close((uv_handle_t *)poll, NULL);
    return rv;
}

/* ---- libuv's own descriptors --------------------------------------------- */

/* libuv opens its pipe anew in every child of fork(), by a handler like these: the first is
 * registered before it, the second after it, and handlers of the child run in that order. */
static struct rt_fd_low child_low;

static void before_uv_in_child(void)
{
    (void)rt_fd_keep(&child_low);
}

static void after_uv_in_child(void)
{
    rt_fd_leave(&child_low);
}

static void register_before(void)
{
    pthread_atfork(NULL, NULL, before_uv_in_child);
}

static void register_after(void)
{
    pthread_atfork(NULL, NULL, after_uv_in_child);
}

static int init_uv(struct rt_loop *loop)
{
    static pthread_once_t before = PTHREAD_ONCE_INIT, after = PTHREAD_ONCE_INIT;

    int rv = rt_fd_room(UV_FDS);
    if (rv != 0)
        return rv;
    pthread_once(&before, register_before);
    int uv = uv_loop_init(&loop->uv);
    if (uv != 0) {
        errno = -uv;
        return uv == UV_ENOMEM ? ROTA_NOMEM : ROTA_UNREACHABLE;
    }
    pthread_once(&after, register_after);
    return 0;
}

/* ---- Life ---------------------------------------------------------------- */

/* With descriptors 0 to 2 taken. */
static int init_real(struct rt_loop *loop)
{
    int rv = ROTA_UNREACHABLE;

    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->timer_fd < 0)
        return rv;
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        goto close_timer_fd;
    rv = init_uv(loop);
    if (rv != 0)
        goto close_wake_fd;
    rv = ROTA_INTERNAL;
    if (start_poll(loop, &loop->timer_poll, loop->timer_fd, timer_ready) != 0)
        goto close_loop;
    if (start_poll(loop, &loop->wake_poll, loop->wake_fd, wake_ready) != 0) {
        uv_close((uv_handle_t *)&loop->timer_poll, NULL);
        goto close_loop;
    }
    return 0;

close_loop:
    close_all(loop);
close_wake_fd:
    close(loop->wake_fd);
close_timer_fd:
    close(loop->timer_fd);
    return rv;
}

int rt_loop_init(struct rt_loop *loop)
{
    struct rt_fd_low low;

    memset(loop, 0, sizeof(*loop));
    loop->armed_at = RT_NEVER;
    int rv = rt_fd_keep(&low);
    if (rv != 0)
        return rv;
    rv = init_real(loop);
    rt_fd_leave(&low);
    if (rv != 0)
        return rv;
    loop->dirty = true;
    rt_loop_tick(loop);
    return 0;
}

void rt_loop_init_virtual(struct rt_loop *loop)
{
    memset(loop, 0, sizeof(*loop));
    loop->virtual_time = true;
    loop->timer_fd = loop->wake_fd = -1;
    loop->armed_at = RT_NEVER;
}

/* Of a virtual loop: watches that were stopped in an earlier turn. */
static void close_played(struct rt_loop *loop)
{
    while (loop->closing != NULL) {
        struct rt_watch *w = loop->closing;
        loop->closing = w->next;
        if (w->closed != NULL)
            w->closed(w);
    }
}

void rt_loop_fini(struct rt_loop *loop)
{
    close_played(loop);
    if (!loop->virtual_time) {
        uv_close((uv_handle_t *)&loop->timer_poll, NULL);
        uv_close((uv_handle_t *)&loop->wake_poll, NULL);
        close_all(loop);
        close(loop->timer_fd);
        close(loop->wake_fd);
    }
    assert(loop->deferred == NULL);
    rt_free_wiped(loop->scratch, (size_t)2 * RT_SCRATCH);
    loop->scratch = NULL;
    rt_free(loop->timers.heap);
    loop->timers = (struct rt_timers){0};
}

int rt_loop_reserve(struct rt_loop *loop, uint32_t n)
{
    struct rt_timers *ts = &loop->timers;

    if (ts->room - ts->reserved < n) {
        uint32_t room = ts->room + ts->room / 2 + n + 16;
        struct rt_timer **heap = rt_realloc(ts->heap, room * sizeof(struct rt_timer *));
        if (heap == NULL)
            return ROTA_NOMEM;
        ts->heap = heap;
        ts->room = room;
    }
    ts->reserved += n;
    return 0;
}

void rt_loop_unreserve(struct rt_loop *loop, uint32_t n)
{
    assert(loop->timers.reserved >= n);
    loop->timers.reserved -= n;
    assert(loop->timers.count <= loop->timers.reserved);
}

static void watch_ready(uv_poll_t *poll, int status, int events)
{
    struct rt_watch *w = poll->data;

    /* libuv stops a poll that failed; its user finds the error when it reads or writes. */
    bool failed = status < 0;
    w->stopped = failed;
    w->fn(w, failed || (events & UV_READABLE) != 0, failed || (events & UV_WRITABLE) != 0);
}

int rt_watch_start(struct rt_loop *loop, struct rt_watch *w, int fd, rt_watch_fn *fn)
{
    assert(!w->open);
    w->played = loop->virtual_time ? loop : NULL;
    if (loop->virtual_time) {
        w->fd = fd;
        w->fn = fn;
        w->open = true;
        w->reads = false;
        w->next = loop->watches;
        loop->watches = w;
        return 0;
    }
    int rv = uv_poll_init(&loop->uv, &w->poll, fd);
    if (rv != 0)
        return rv == UV_ENOMEM ? ROTA_NOMEM : ROTA_INTERNAL;
    w->poll.data = w;
    w->fn = fn;
    w->open = true;
    return 0;
}

static struct rt_loop *loop_of(uv_loop_t *uv)
{
    return (struct rt_loop *)((char *)uv - offsetof(struct rt_loop, uv));
}

void rt_watch_want(struct rt_watch *w, bool readable, bool writable)
{
    assert(w->open);
    w->reads = readable;
    if (w->played != NULL)
        return;
    w->stopped = false;
    loop_of(w->poll.loop)->dirty = true;
    if (readable || writable)
        uv_poll_start(&w->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
                      watch_ready);
    else
        uv_poll_stop(&w->poll);
}

static void watch_closed(uv_handle_t *handle)
{
    struct rt_watch *w = handle->data;

    if (w->closed != NULL)
        w->closed(w);
}

static void stop_played(struct rt_watch *w)
{
    struct rt_watch **at = &w->played->watches;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->next = w->played->closing;
    w->played->closing = w;
}

bool rt_loop_feed(struct rt_loop *loop, int fd)
{
    struct rt_watch *w = loop->watches;

    assert(loop->virtual_time);
    while (w != NULL && (w->fd != fd || !w->reads))
        w = w->next;
    if (w != NULL)
        w->fn(w, true, false);
    return w != NULL;
}

void rt_watch_stop(struct rt_watch *w, void (*closed)(struct rt_watch *w))
{
    assert(w->open);
    w->open = false;
    w->closed = closed;
    if (w->played != NULL) {
        stop_played(w);
        return;
    }
    loop_of(w->poll.loop)->dirty = true;
    uv_close((uv_handle_t *)&w->poll, watch_closed);
}

void rt_loop_turn(struct rt_loop *loop, void (*other)(void *arg, struct rt_timer *t, int64_t now),
                  void *arg)
{
    int64_t now = rt_loop_tick(loop);

    close_played(loop);
    if (!loop->virtual_time) {
        loop->dirty = false; /* before: callbacks may make it dirty again */
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
    uint32_t most = loop->timers.count + TIMERS_PER_TURN_EXTRA;
    for (uint32_t i = 0; i < most; i++) {
        struct rt_timer *t = rt_timers_due(&loop->timers, now);
        if (t == NULL)
            break;
        if (t->kind != RT_TIMER_CALL) {
            other(arg, t, now);
            continue;
        }
        struct rt_timer_call *call =
            (struct rt_timer_call *)((char *)t - offsetof(struct rt_timer_call, timer));
        call->fire(call, now);
    }
}

void rt_loop_advance(struct rt_loop *loop, int64_t now)
{
    assert(loop->virtual_time && now >= loop->now);
    loop->now = now;
}

void rt_loop_defer(struct rt_loop *loop, struct rt_defer *d)
{
    if (d->waits)
        return;
    d->waits = true;
    d->next = loop->deferred;
    loop->deferred = d;
}

void rt_loop_undefer(struct rt_loop *loop, struct rt_defer *d)
{
    if (!d->waits)
        return;
    d->waits = false;
    struct rt_defer **at = &loop->deferred;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
}

static void parted(uv_handle_t *handle)
{
    struct rt_parting *p = handle->data;

    p->gone(p);
}

void rt_loop_part(struct rt_loop *loop, struct rt_parting *p, void (*gone)(struct rt_parting *p))
{
    assert(!loop->virtual_time);
    uv_idle_init(&loop->uv, &p->idle);
    p->idle.data = p;
    p->gone = gone;
    loop->dirty = true;
    uv_close((uv_handle_t *)&p->idle, parted);
}

int rt_loop_scratch(struct rt_loop *loop)
{
    if (loop->scratch == NULL)
        loop->scratch = rt_alloc((size_t)2 * RT_SCRATCH);
    return loop->scratch != NULL ? 0 : ROTA_NOMEM;
}

void rt_loop_arm(struct rt_loop *loop)
{
    while (loop->deferred != NULL) {
        struct rt_defer *d = loop->deferred;
        loop->deferred = d->next;
        d->waits = false;
        d->run(d);
    }
    rt_loop_arm_timer(loop);
}

void rt_loop_arm_timer(struct rt_loop *loop)
{
    int64_t next = rt_timers_next(&loop->timers);

    /* Armed too early costs one turn that finds nothing; set anew for every change would cost
     * a system call for each. */
    if (loop->virtual_time || next >= loop->armed_at)
        return;
    if (next < 1)
        next = 1; /* 0 would disarm it */
    struct itimerspec spec = {
        .it_value = {.tv_sec = next / NS_PER_S, .tv_nsec = next % NS_PER_S},
    };
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    loop->armed_at = next;
}

void rt_loop_wake(struct rt_loop *loop)
{
    if (loop->virtual_time)
        return;
    int saved = errno; /* a signal handler must leave it alone */
    uint64_t one = 1;
    ssize_t sent = write(loop->wake_fd, &one, sizeof(one));
    (void)sent; /* EAGAIN: it is readable already */
    errno = saved;
}

int rt_loop_fd(const struct rt_loop *loop)
{
    return loop->virtual_time ? -1 : uv_backend_fd(&loop->uv);
}
