/* SPDX-License-Identifier: Apache-2.0 */
/* fork() with live handles: dead and silent in the child, untouched in the parent. */
#include "suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct family {
    struct rota *r;
    struct rota_lock *lock;
    const char *name;
};

static void never_granted(void *arg, int err, struct rota_lock *lock)
{
    (void)arg;
    (void)err;
    (void)lock;
    _exit(99);
}

static void never_done(void *arg, int err)
{
    (void)arg;
    (void)err;
    _exit(98);
}

static void never_front(void *arg, const struct rota_front *front)
{
    (void)arg;
    (void)front;
    _exit(97);
}

static int asks_in_child(const struct family *f)
{
    struct rota_lock *out = NULL;
    const char *names[] = {f->name};
    uint64_t id = 0;
    int said[] = {
        rota_acquire(f->r, f->name, NULL, &out),
        rota_acquire_all(f->r, names, 1, NULL, &out),
        rota_acquire_async(f->r, f->name, NULL, never_granted, NULL, &id),
        rota_cancel(f->r, 1),
        rota_elect(f->r, f->name, "v", NULL, &out),
        rota_observe(f->r, f->name, never_front, NULL, &id),
        rota_unobserve(f->r, 1),
        rota_once(f->r, f->name, 0, NULL),
        rota_latch_down(f->r, f->name, 1, NULL),
        rota_latch_wait(f->r, f->name, 1, 1),
        rota_latch_reset(f->r, f->name),
        rota_barrier(f->r, f->name, 1, 1),
        rota_process(f->r),
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        if (said[i] != ROTA_FORKED)
            return 10 + (int)i;
    }
    return out == NULL ? 0 : 9;
}

static int looks_in_child(const struct family *f)
{
    struct rota_line *lines = NULL;
    size_t count = 0;
    int said[] = {
        rota_inspect(f->r, f->name, &lines),
        rota_list(f->r, "", &lines, &count),
        rota_break(f->r, f->name, rota_fence(f->lock)),
        rota_check(f->lock),
        rota_check_async(f->lock, never_done, NULL),
        rota_downgrade(f->lock),
        rota_proclaim(f->lock, "child"),
        rota_release(f->lock),
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        if (said[i] != ROTA_FORKED)
            return 40 + (int)i;
    }
    return 0;
}

static int child_uses_handles(const struct family *f)
{
    int rv = asks_in_child(f);
    if (rv == 0)
        rv = looks_in_child(f);
    rota_interrupt(f->r);
    rota_close(f->r);
    return rv;
}

/* A program that goes on without a care: its exit must free nothing of the parent's. */
static int child_does_nothing(const struct family *f)
{
    (void)f;
    return 0;
}

static int child_opens_its_own(const struct family *f)
{
    /* Without a keeper: a child of a program with threads had better not start any. */
    struct rota_options opts = {.flags = ROTA_NO_KEEPER};
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota_lock *lock = NULL;
    struct rota *own = NULL;
    char other[300];
    snprintf(other, sizeof other, "%s.child", f->name);
    if (rota_open(&own, conf.url, &opts) != 0)
        return 70;
    if (rota_acquire(own, f->name, &try, &lock) != ROTA_BUSY)
        return 71;
    if (rota_acquire(own, other, &try, &lock) != 0)
        return 72;
    if (rota_release(lock) != 0)
        return 73;
    rota_close(own);
    return rota_check(f->lock) == ROTA_FORKED ? 0 : 74;
}

#ifdef __SANITIZE_ADDRESS__
#define TRIES \
    3 /* gcc 12's does not hold its heap's locks across fork: a child may hang there for ever */
#else
#define TRIES 1
#endif

/* How a child that runs FN has ended, as waitpid tells it. */
static int child_of(int (*fn)(const struct family *f), const struct family *f)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid != -1);
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(CONF_PATIENCE_MS / 1000);
        _exit(fn(f));
    }
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
        ;
    return status;
}

static bool hung(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

/* Forks while a lock is held and another client of the process waits for it. */
static void in_child(int (*fn)(const struct family *f))
{
    struct rota *a = conf_open(), *b = conf_open();
    struct family f = {.r = a, .name = conf_name("x")};
    int status = 0, tries = 0;
    f.lock = conf_take(a, f.name, NULL);
    struct conf_wish *wish = conf_wish_start(b, f.name, NULL);
    conf_wait_line(a, f.name, 2, 1);
    do
        status = child_of(fn, &f);
    while (hung(status) && ++tries < TRIES);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with status 0x%x, code %d", (unsigned)status,
                 WEXITSTATUS(status));
    assert_int_equal(rota_check(f.lock), 0); /* the parent keeps it */
    conf_assert_line(b, f.name, 2, 1);
    assert_int_equal(atomic_load(&wish->calls), 0);
    conf_give(f.lock);
    assert_int_equal(conf_wish_wait(wish), 0);
    conf_give(atomic_load(&wish->lock));
}

static void child_is_silent(void)
{
    in_child(child_uses_handles);
}

static void child_exit_frees_nothing(void)
{
    in_child(child_does_nothing);
}

static void child_opens_its_own_client(void)
{
    in_child(child_opens_its_own);
}

/* The parent dies while its child lives: the child must not keep the session alive. */
static void child_does_not_keep_a_dead_parent(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    uint64_t child = 0;
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s", name), 0);
    assert_int_equal(conf_agent_ask(agent, &child, "fork"), 0);
    struct conf_task *task = conf_task_start(a, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_agent_kill(agent);
    int rv = conf_task_join(task);
    kill((pid_t)child, SIGKILL);
    assert_int_equal(rv, 0);
    conf_give(task->lock);
}

const struct conf_case conf_fork[] = {
    CONF_CASE(child_is_silent, 0, 0),
    CONF_CASE(child_exit_frees_nothing, 0, 0),
    CONF_CASE(child_opens_its_own_client, 0, CONF_PROCESSES),
    CONF_CASE(child_does_not_keep_a_dead_parent, 0, CONF_PROCESSES),
    CONF_END,
};
