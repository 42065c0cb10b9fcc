/* SPDX-License-Identifier: Apache-2.0 */
/* Histories survive what they record: threads, many processes, kill -9. */
#include "lib/history.h"

#include "lib/checker.h"
#include "lib/proc.h"
#include "lib/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[4096];

static int new_folder(void **state)
{
    static int count;

    (void)state;
    snprintf(folder, sizeof(folder), "%s/h%d", rt_tmpdir(), count++);
    rt_watchdog(60, "test_history hangs");
    return mkdir(folder, 0700);
}

static struct rt_history *must_open(size_t capacity)
{
    struct rt_history *h = NULL;

    if (rt_history_open(&h, folder, capacity) != 0)
        abort();
    return h;
}

/* ---- One process -------------------------------------------------------- */

static void a_record_keeps_what_it_was_given(void **state)
{
    struct rt_history *h = must_open(4);
    struct rt_record what = {
        .kind = RT_ACQUIRE, .client = 5, .lock = rt_history_name("x"), .take = 2};
    struct rt_record *r = rt_history_begin(h, &what), *out;
    size_t n;

    (void)state;
    r->fence = 77;
    rt_history_end(r, RT_OK);
    assert_int_equal(rt_history_load(folder, &out, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(out[0].fence, 77);
    assert_int_equal(out[0].client, 5);
    assert_int_equal(out[0].take, 2);
    assert_int_equal(out[0].result, RT_OK);
    assert_int_equal(out[0].process, getpid());
    assert_true(out[0].t_inv < out[0].t_ret);
    free(out);
    rt_history_close(h);
}

static void a_call_without_an_answer_is_info(void **state)
{
    struct rt_history *h = must_open(4);
    struct rt_record what = {.kind = RT_RELEASE, .client = 1};
    struct rt_record *out;
    size_t n;

    (void)state;
    rt_history_begin(h, &what);
    rt_history_end(rt_history_begin(h, &what), RT_INFO);
    assert_int_equal(rt_history_load(folder, &out, &n), 0);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].result, RT_INFO);
        assert_true(out[i].t_ret == INT64_MAX);
        assert_int_equal(out[i].answered, i);
    }
    free(out);
    rt_history_close(h);
}

#define THREADS 4
#define PER_THREAD 1000

static void *append_many(void *arg)
{
    struct rt_history *h = arg;
    struct rt_record what = {.kind = RT_BELIEF, .client = rt_history_client(h)};

    for (int i = 0; i < PER_THREAD; i++) {
        struct rt_record *r = rt_history_begin(h, &what);

        r->ticket = (uint64_t)i;
        rt_history_end(r, RT_OK);
    }
    return NULL;
}

static void threads_do_not_overwrite_each_other(void **state)
{
    struct rt_history *h = must_open(THREADS * PER_THREAD);
    size_t n, next[THREADS + 1] = {0};
    struct rt_record *out;
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, h), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(rt_history_load(folder, &out, &n), 0);
    assert_int_equal(n, THREADS * PER_THREAD);
    for (size_t i = 0; i < n; i++) {
        assert_in_range(out[i].client, 1, THREADS);
        /* Records with equal times may change places in the merge; each is still there exactly once. */
        next[out[i].client] += out[i].ticket;
    }
    for (int i = 1; i <= THREADS; i++)
        assert_int_equal(next[i], PER_THREAD * (PER_THREAD - 1) / 2);
    free(out);
    rt_history_close(h);
}

/* ---- Killed processes --------------------------------------------------- */

#define CHILDREN 6

/* Ends some calls, begins one more, says so, and waits for its death. */
static int record_and_wait(int index, void *arg)
{
    uint32_t *ready = arg;
    struct rt_history *h = must_open(100);
    struct rt_record what = {.kind = RT_WRITE, .client = rt_history_client(h)};

    for (int i = 0; i <= index; i++)
        rt_history_end(rt_history_begin(h, &what), RT_OK);
    rt_history_begin(h, &what);
    rt_shared_add(ready, 1);
    pause();
    return 1;
}

static void kill_9_leaves_all_that_was_stored(void **state)
{
    uint32_t *ready = rt_shared_new(sizeof(*ready));
    pid_t pids[CHILDREN];
    size_t n, info = 0;
    uint64_t clients = 0;
    struct rt_record *out;

    (void)state;
    for (int i = 0; i < CHILDREN; i++)
        pids[i] = rt_proc_start(record_and_wait, i, ready);
    rt_shared_wait(ready, CHILDREN);
    for (int i = 0; i < CHILDREN; i++)
        rt_proc_kill(pids[i]);
    assert_int_equal(rt_history_load(folder, &out, &n), 0);
    assert_int_equal(n, CHILDREN * (CHILDREN + 1) / 2 + CHILDREN);
    for (size_t i = 0; i < n; i++) {
        info += out[i].result == RT_INFO;
        clients |= 1u << out[i].client;
    }
    assert_int_equal(info, CHILDREN);
    assert_int_equal(clients, ((1u << CHILDREN) - 1) << 1); /* no id twice */
    free(out);
    rt_shared_free(ready, sizeof(*ready));
}

/* ---- The guarded resource ----------------------------------------------- */

static void a_smaller_fence_is_refused(void **state)
{
    struct rt_resource *res = NULL;
    char path[4200];
    uint64_t seq;

    (void)state;
    snprintf(path, sizeof(path), "%s/resource", folder);
    assert_int_equal(rt_resource_open(&res, path, 8), 0);
    assert_int_equal(rt_resource_read(res), 0);
    assert_true(rt_resource_write(res, 5, 1, 1, &seq));
    assert_true(rt_resource_write(res, 5, 1, 2, &seq));
    assert_false(rt_resource_write(res, 4, 2, 3, &seq));
    assert_int_equal(seq, 3);
    assert_int_equal(rt_resource_read(res), 2);
    rt_resource_close(res);
    assert_int_equal(rt_resource_open(&res, path, 8), 0);
    assert_int_equal(rt_resource_read(res), 2);
    rt_resource_close(res);
}

struct unlocked {
    struct rt_resource *res;
    struct rt_barrier *start;
};

#define INCREMENTS 3000

/* All with one fence, as without a lock, so nothing is refused. Between reading and writing the others
 * get their turn: so updates are lost without any luck. */
static int increment_unlocked(int index, void *arg)
{
    struct unlocked *u = arg;
    uint64_t seq, value = rt_resource_read(u->res);

    rt_barrier_wait(u->start);
    return rt_resource_write(u->res, 1, (uint64_t)index, value + 1, &seq) ? 0 : 1;
}

static void without_a_lock_updates_are_lost_and_found(void **state)
{
    struct unlocked u = {.start = rt_barrier_new(3)};
    const struct rt_resource_entry *log;
    struct rt_report report = {0};
    char path[4200];
    size_t n;

    (void)state;
    snprintf(path, sizeof(path), "%s/resource", folder);
    assert_int_equal(rt_resource_open(&u.res, path, 8), 0);
    assert_int_equal(rt_proc_run_all(3, increment_unlocked, &u), 0);
    assert_int_equal(rt_resource_read(u.res), 1);
    log = rt_resource_log(u.res, &n);
    assert_int_equal(n, 3);
    rt_check_resource(NULL, 0, 0, log, n, &report);
    assert_true(report.found[RT_FOUND_LOST_UPDATE] >= 2);
    rt_resource_close(u.res);
    rt_barrier_free(u.start);
}

static int write_until_killed(int index, void *arg)
{
    struct unlocked *u = arg;
    uint64_t seq;

    for (uint64_t i = 0; i < INCREMENTS; i++)
        rt_resource_write(u->res, 1, (uint64_t)index, i, &seq);
    return 0;
}

static void a_killed_writer_does_not_block_the_others(void **state)
{
    struct unlocked u = {0};
    pid_t victim, other;
    char path[4200];
    uint64_t seq;
    size_t n;

    (void)state;
    snprintf(path, sizeof(path), "%s/resource", folder);
    assert_int_equal(rt_resource_open(&u.res, path, 20 * INCREMENTS), 0);
    for (int i = 0; i < 5; i++) {
        victim = rt_proc_start(write_until_killed, 1, &u);
        other = rt_proc_start(write_until_killed, 2, &u);
        while (rt_resource_log(u.res, &n), n < (size_t)(i + 1) * 1000)
            ;
        rt_proc_kill(victim);
        assert_int_equal(rt_proc_wait(other), 0);
    }
    assert_true(rt_resource_write(u.res, 2, 3, 0, &seq));
    rt_resource_close(u.res);
}

/* ---- Processes ---------------------------------------------------------- */

static int return_index(int index, void *arg)
{
    (void)arg;
    return index;
}

static int look_alive(int index, void *arg)
{
    uint32_t *word = arg;

    (void)index;
    rt_shared_add(word, 1);
    rt_shared_wait(word, 2);
    return 7;
}

static void children_stop_go_on_and_tell_their_code(void **state)
{
    uint32_t *word = rt_shared_new(sizeof(*word));
    pid_t pid = rt_proc_start(look_alive, 0, word);

    (void)state;
    rt_shared_wait(word, 1);
    rt_proc_stop(pid);
    rt_shared_add(word, 1);
    rt_proc_cont(pid);
    assert_int_equal(rt_proc_wait(pid), 7);
    assert_int_equal(rt_proc_run_all(3, return_index, NULL), 2);
    rt_shared_free(word, sizeof(*word));
}

static void a_fork_server_forks_for_those_who_cannot(void **state)
{
    struct rt_forkserver *fs = rt_forkserver_start(return_index, NULL);
    pid_t a = rt_forkserver_spawn(fs, 3), b = rt_forkserver_spawn(fs, 4);

    (void)state;
    assert_int_equal(rt_forkserver_wait(fs, b), 4);
    assert_int_equal(rt_forkserver_wait(fs, a), 3);
    rt_forkserver_stop(fs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_record_keeps_what_it_was_given, new_folder),
        cmocka_unit_test_setup(a_call_without_an_answer_is_info, new_folder),
        cmocka_unit_test_setup(threads_do_not_overwrite_each_other, new_folder),
        cmocka_unit_test_setup(kill_9_leaves_all_that_was_stored, new_folder),
        cmocka_unit_test_setup(a_smaller_fence_is_refused, new_folder),
        cmocka_unit_test_setup(without_a_lock_updates_are_lost_and_found, new_folder),
        cmocka_unit_test_setup(a_killed_writer_does_not_block_the_others, new_folder),
        cmocka_unit_test_setup(children_stop_go_on_and_tell_their_code, new_folder),
        cmocka_unit_test_setup(a_fork_server_forks_for_those_who_cannot, new_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
