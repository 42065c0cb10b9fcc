/* SPDX-License-Identifier: Apache-2.0 */
/* Many processes increment one counter under the lock: no increment is lost, even when they are killed. */
#include "arena.h"
#include "lib/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define PROCESSES 8
#define EACH 2000
#define TOTAL (PROCESSES * EACH)
#define KILLS 60
#define FINISHED (1u << 24) /* added to `progress` when nothing is left to do */

static const char name[] = "counter";

struct game {
    struct sys_arena arena;
    struct rt_barrier *start;
    uint32_t *progress; /* shared: increments, about */
};

static int once(const struct rt_actor *actor, struct game *g, uint64_t until, bool *more)
{
    struct rt_held held;
    bool accepted = true;
    int err = rt_recorded_acquire(actor, name, NULL, &held);

    if (err != 0) {
        fprintf(stderr, "acquire: %s: %s\n", rota_strerror(err), rota_errmsg(actor->rota));
        return 1;
    }
    rt_recorded_believe(actor, &held);
    *more = rt_resource_read(g->arena.resource) < until;
    if (*more)
        accepted = rt_recorded_increment(actor, &held, g->arena.resource);
    err = rt_recorded_release(actor, &held);
    if (err != 0)
        fprintf(stderr, "release: %s: %s\n", rota_strerror(err), rota_errmsg(actor->rota));
    return accepted && err == 0 ? 0 : 1;
}

static int increment_each(int index, void *arg)
{
    struct game *g = arg;
    struct rt_actor actor;
    bool more;
    int failed = 0;

    (void)index;
    sys_arena_enter(&g->arena, &actor, 4 * EACH, NULL);
    rt_barrier_wait(g->start);
    for (int i = 0; i < EACH && failed == 0; i++)
        failed = once(&actor, g, UINT64_MAX, &more);
    sys_arena_leave(&actor);
    return failed;
}

static void exactly_16000(void **state)
{
    struct game g = {.start = rt_barrier_new(PROCESSES)};
    size_t failed;

    (void)state;
    rt_watchdog(300, "8 processes x 2,000 increments hang");
    sys_arena_init(&g.arena, TOTAL);
    failed = rt_proc_run_all(PROCESSES, increment_each, &g);
    /* The checker first: it says why something is wrong, the rest only that it is. */
    assert_int_equal(sys_arena_check(&g.arena, name, NULL, NULL), 0);
    assert_int_equal(failed, 0);
    assert_int_equal(rt_resource_read(g.arena.resource), TOTAL);
    sys_arena_fini(&g.arena);
    rt_barrier_free(g.start);
}

static int increment_until_done(int index, void *arg)
{
    struct game *g = arg;
    struct rt_actor actor;
    bool more = true;
    int failed = 0;

    (void)index;
    sys_arena_enter(&g->arena, &actor, 4 * TOTAL + 8, NULL);
    while (more && failed == 0) {
        failed = once(&actor, g, TOTAL, &more);
        rt_shared_add(g->progress, 1);
    }
    sys_arena_leave(&actor);
    rt_shared_add(g->progress, FINISHED);
    return failed;
}

/* Kills a child whatever it is doing, and records it: from here on its hold may be over. */
static void kill_recorded(struct rt_history *history, pid_t pid)
{
    struct rt_record what = {.kind = RT_END, .process = (uint32_t)pid};
    struct rt_record *record = rt_history_begin(history, &what);

    rt_proc_kill(pid);
    rt_history_end(record, RT_OK);
}

static void none_is_lost_by_kill_9(void **state)
{
    struct game g = {.progress = rt_shared_new(sizeof(uint32_t))};
    struct rt_random rnd = {.state = (uint64_t)getpid()};
    struct rt_history *history = NULL;
    pid_t pids[PROCESSES];
    uint32_t at = 0;
    size_t failed = 0;

    (void)state;
    rt_watchdog(300, "increments with kill -9 hang");
    print_message("seed %llu\n", (unsigned long long)rnd.state);
    sys_arena_init(&g.arena, 8 * TOTAL); /* room for all that a broken lock would let in */
    assert_int_equal(rt_history_open(&history, g.arena.folder, KILLS), 0);
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = rt_proc_start(increment_until_done, i, &g);
    for (int kill = 0; kill < KILLS; kill++) {
        uint32_t victim = rt_random_below(&rnd, PROCESSES);

        at += 1 + rt_random_below(&rnd, 2 * TOTAL / KILLS - TOTAL / KILLS / 4);
        rt_shared_wait(g.progress, at);
        kill_recorded(history, pids[victim]);
        pids[victim] = rt_proc_start(increment_until_done, (int)victim, &g);
    }
    for (int i = 0; i < PROCESSES; i++)
        failed += rt_proc_wait(pids[i]) != 0;
    assert_int_equal(sys_arena_check(&g.arena, name, NULL, NULL), 0);
    assert_int_equal(failed, 0);
    assert_int_equal(rt_resource_read(g.arena.resource), TOTAL);
    rt_history_close(history);
    sys_arena_fini(&g.arena);
    rt_shared_free(g.progress, sizeof(uint32_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_16000),
        cmocka_unit_test(none_is_lost_by_kill_9),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
