/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: a clock, timers by CLOCK_BOOTTIME, and descriptors to watch, over libuv.
 *
 * Serialised by its user, as engines are. Nothing here raises, catches or masks
 * a signal. A virtual loop has a clock that its user moves, and looks at no descriptor: its user says
 * which are ready. */
#ifndef RT_LOOP_H
#define RT_LOOP_H

#include "core/timers.h"

#include <stdbool.h>
#include <uv.h>

struct rt_watch;
/* READABLE, WRITABLE: what the descriptor is ready for; errors and hang-ups count as both. */
typedef void rt_watch_fn(struct rt_watch *w, bool readable, bool writable);

struct rt_watch { /* embedded in its user's struct; zeroed before the first use */
    uv_poll_t poll;
    rt_watch_fn *fn;
    void (*closed)(struct rt_watch *w);
    void *user;
    bool open;
    bool stopped; /* the descriptor has failed, and libuv looks no more: want it anew to go on */
    struct rt_loop *played; /* of a virtual loop; else NULL, and poll counts */
    struct rt_watch *next;
    int fd;
    bool reads;
};

/* Work put off until whoever turned the loop is about to poll or go: many calls, one system call. */
struct rt_defer { /* embedded in its user's struct; zeroed before the first use */
    struct rt_defer *next;
    void (*run)(struct rt_defer *d);
    bool waits;
};

#define RT_SCRATCH (64 * 1024) /* bytes of each half of the scratch */

struct rt_dialer; /* net/stream.h */

struct rt_loop {
    uv_loop_t uv;
    uv_poll_t timer_poll;
    uv_poll_t wake_poll;
    int timer_fd; /* CLOCK_BOOTTIME: fires at the next timer */
    int wake_fd;
    int64_t armed_at; /* what timer_fd is set to */
    int64_t now;      /* read once per turn */
    bool virtual_time;
    bool dirty; /* libuv has watch changes that epoll has not seen: run a turn before polling */
    struct rt_timers timers;
    struct rt_defer *deferred;
    char *scratch;                      /* two halves, for readers; NULL until rt_loop_scratch */
    struct rt_dialer *dialer;           /* not NULL: streams go to it and not to the network */
    struct rt_watch *watches, *closing; /* of a virtual loop */
};

/* 0, ROTA_NOMEM, ROTA_INTERNAL, or ROTA_UNREACHABLE with errno: no descriptors left. None of its
 * own is 0 to 2, whatever the program has closed. */
int rt_loop_init(struct rt_loop *loop);
void rt_loop_init_virtual(struct rt_loop *loop); /* now is 0; move it by rt_loop_advance */
void rt_loop_fini(struct rt_loop *loop);         /* all watches closed before */

/* The clock as of this turn; rt_loop_tick reads it anew. */
static inline int64_t rt_loop_now(const struct rt_loop *loop)
{
    return loop->now;
}
int64_t rt_loop_tick(struct rt_loop *loop);
/* CLOCK_BOOTTIME at this moment, for callers without a loop at hand. */
int64_t rt_loop_clock(void);

/* Reserves places for N more timers that may run at once; gives N back. */
int rt_loop_reserve(struct rt_loop *loop, uint32_t n);
void rt_loop_unreserve(struct rt_loop *loop, uint32_t n);

/* Watches FD (nonblocking, the caller's) for reading, writing; both false: pauses. */
int rt_watch_start(struct rt_loop *loop, struct rt_watch *w, int fd, rt_watch_fn *fn);
void rt_watch_want(struct rt_watch *w, bool readable, bool writable);
/* Ends the watch at once; CLOSED (may be NULL) runs from a later turn, when the memory
 * may be given back. The descriptor may be closed as soon as this returns. */
void rt_watch_stop(struct rt_watch *w, void (*closed)(struct rt_watch *w));

/* One turn without blocking: ready descriptors, then timers that are due. Timers that are not
 * RT_TIMER_CALL go to other(arg, timer, now). */
void rt_loop_turn(struct rt_loop *loop, void (*other)(void *arg, struct rt_timer *t, int64_t now),
                  void *arg);

/* Sets the virtual clock (never back). */
void rt_loop_advance(struct rt_loop *loop, int64_t now);

/* In virtual time: FD can be read now. Serves its watch at once; false: none wants to know. */
bool rt_loop_feed(struct rt_loop *loop, int fd);

/* Runs what was deferred, then makes timer_fd follow the timers: call before polling, before the
 * loop is left to others, and in virtual time before the clock is moved. It may make the loop
 * dirty; no user's callback runs from it. */
void rt_loop_arm(struct rt_loop *loop);
/* Only the second half: for callers that are certain to call rt_loop_arm very soon. */
void rt_loop_arm_timer(struct rt_loop *loop);

/* D runs once, in the next rt_loop_arm; a second call before that changes nothing. It must not
 * tell users anything: what it finds is told from a turn, by a timer that is due. */
void rt_loop_defer(struct rt_loop *loop, struct rt_defer *d);
void rt_loop_undefer(struct rt_loop *loop, struct rt_defer *d); /* also if it does not wait */

/* GONE runs from a later turn, or with the loop's end: for users that must not give back their memory at once. It needs
 * neither memory nor a place for a timer. Not in virtual time. */
struct rt_parting { /* embedded in its user's struct */
    uv_idle_t idle;
    void (*gone)(struct rt_parting *p);
};
void rt_loop_part(struct rt_loop *loop, struct rt_parting *p, void (*gone)(struct rt_parting *p));

/* Makes the two halves: 0 or ROTA_NOMEM. What is in them lasts until the next watch is served. */
int rt_loop_scratch(struct rt_loop *loop);

/* From any thread or signal handler: the descriptor becomes readable. */
void rt_loop_wake(struct rt_loop *loop);

/* What to poll for reading while nobody turns the loop. */
int rt_loop_fd(const struct rt_loop *loop);

#endif
