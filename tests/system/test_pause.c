/* SPDX-License-Identifier: Apache-2.0 */
/* A holder that was stopped past its time learns that first when it runs again. */
#include "arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <time.h>

#define HOLD_MS 3000 /* enough for a busy machine to tell of the grant; else it is LOST, rightly */

static const char name[] = "paused";

struct stage {
    struct sys_arena arena;
    uint32_t *step; /* shared: 1 the holder holds, 2 the next one has taken over */
};

enum { HELD = 1, TAKEN_OVER = 2 };

/* What it finds: bit by bit, so that the parent can say what was wrong. */
enum { STILL_REMAINING = 1, WRITE_ACCEPTED = 2, RELEASE_OK = 4, NOT_GRANTED = 8 };

static int hold_and_be_stopped(int index, void *arg)
{
    struct stage *s = arg;
    struct rota_ask ask = {.hold_ms = HOLD_MS};
    struct rt_actor actor;
    struct rt_held held;
    int wrong = 0;

    (void)index;
    sys_arena_enter(&s->arena, &actor, 8, NULL);
    if (rt_recorded_acquire(&actor, name, &ask, &held) != 0)
        return NOT_GRANTED;
    rt_shared_add(s->step, HELD);
    /* It is stopped somewhere here, and resumes after the other has taken over. */
    rt_shared_wait(s->step, TAKEN_OVER);
    if (rt_recorded_believe(&actor, &held))
        wrong |= STILL_REMAINING;
    if (rt_recorded_increment(&actor, &held, s->arena.resource))
        wrong |= WRITE_ACCEPTED;
    if (rt_recorded_release(&actor, &held) == 0)
        wrong |= RELEASE_OK;
    sys_arena_leave(&actor);
    return wrong;
}

/* Gets its hold only when the engine lets go of the other's: then that one's time is over. */
static int take_over(int index, void *arg)
{
    struct stage *s = arg;
    struct rt_actor actor;
    struct rt_held held;
    bool wrote;
    int err;

    (void)index;
    sys_arena_enter(&s->arena, &actor, 8, NULL);
    err = rt_recorded_acquire(&actor, name, NULL, &held);
    if (err != 0)
        return NOT_GRANTED;
    wrote = rt_recorded_increment(&actor, &held, s->arena.resource);
    err = rt_recorded_release(&actor, &held);
    sys_arena_leave(&actor);
    return wrote && err == 0 ? 0 : 1;
}

/* Until HOLD_MS have passed since the holder was granted, by the clock that measures it. */
static void let_time_pass(int64_t since)
{
    struct timespec ts = {.tv_nsec = 10000000};

    while (rt_history_now() < since + (HOLD_MS + 50) * INT64_C(1000000))
        nanosleep(&ts, NULL);
}

static void the_first_look_after_a_stop_says_it_is_over(void **state)
{
    struct stage s = {.step = rt_shared_new(sizeof(uint32_t))};
    pid_t holder, next;
    int first, second;

    (void)state;
    rt_watchdog(120, "stopped holder: hang");
    sys_arena_init(&s.arena, 8);
    holder = rt_proc_start(hold_and_be_stopped, 0, &s);
    rt_shared_wait(s.step, HELD);
    rt_proc_stop(holder);
    let_time_pass(rt_history_now());
    rt_shared_add(s.step, TAKEN_OVER - HELD);
    next = rt_proc_start(take_over, 1, &s);
    rt_proc_cont(holder);
    /* Where sessions have no ttl a stopped process keeps its tickets until it runs again: so the
     * other one is waited for last. The stale write may come before its own, and is no harm then. */
    first = rt_proc_wait(holder);
    second = rt_proc_wait(next);
    assert_int_equal(sys_arena_check(&s.arena, name, NULL, NULL), 0);
    assert_int_equal(first & ~WRITE_ACCEPTED, 0);
    assert_int_equal(second, 0);
    sys_arena_fini(&s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_look_after_a_stop_says_it_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
