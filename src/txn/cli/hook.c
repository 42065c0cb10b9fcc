/* SPDX-License-Identifier: Apache-2.0 */
/* Calls somebody when a transaction needs a person: a queue, a thread, a command. */
#include "txn/cli/hook.h"

#include "cli/out.h"
#include "net/loop.h"
#include "txn/cli/notes.h"
#include "txn/journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUEUE 64   /* commands that wait */
#define MOST 16384 /* calls not yet written down */
#define SEEN 256
#define LIMIT_MS 10000
#define LOOK_MS 50 /* where the kernel has no pidfd */
#define MS INT64_C(1000000)

struct call {
    struct call *next;
    char id[RT_TXN_ID_TEXT];
    char resource[RT_JOURNAL_NAME_MAX + 1];
    char line[512];
};

static struct {
    pthread_mutex_t mu; /* for what comes, `seen`, counts, the command */
    struct call *first, **last;
    size_t count;
    struct call seen[SEEN]; /* the last calls; without their lines */
    size_t seen_count;
    struct rt_hook_counts counts;
    struct call *runs, **runs_last; /* the thread's own: written down, command still to be run */
    size_t run_count;
    pthread_t thread;
    bool running;
    int bell;           /* eventfd: a call, or the end */
    _Atomic int64_t by; /* 0: it goes on; else it ends at this time (CLOCK_BOOTTIME, ns) */
    const struct rt_visit *v;
    char *command; /* a copy; NULL: none */
} hook = {
    .mu = PTHREAD_MUTEX_INITIALIZER, .last = &hook.first, .runs_last = &hook.runs, .bell = -1};

/* ---- The queue ----------------------------------------------------------------- */

static void ring(void)
{
    uint64_t one = 1;
    ssize_t n = hook.bell >= 0 ? write(hook.bell, &one, sizeof(one)) : 0;

    (void)n; /* a full counter rings, too */
}

/* Whether it was called before; records that it is called now. */
static bool was_seen(const struct call *c)
{
    for (size_t i = 0; i < SEEN && i < hook.seen_count; i++)
        if (strcmp(hook.seen[i].id, c->id) == 0 && strcmp(hook.seen[i].resource, c->resource) == 0)
            return true;
    hook.seen[hook.seen_count++ % SEEN] = *c;
    return false;
}

static void put(struct call ***last, struct call *c)
{
    c->next = NULL;
    **last = c;
    *last = &c->next;
}

static struct call *get(struct call **first, struct call ***last)
{
    struct call *c = *first;

    if (c == NULL)
        return NULL;
    *first = c->next;
    if (*first == NULL)
        *last = first;
    return c;
}

void rt_hook_call(const char *id, const char *resource, const char *line)
{
    struct call *c = calloc(1, sizeof(*c));
    char clean[512];

    assert(id != NULL && resource != NULL && line != NULL);
    if (c != NULL) {
        snprintf(c->id, sizeof(c->id), "%s", id);
        snprintf(c->resource, sizeof(c->resource), "%s", resource);
        snprintf(c->line, sizeof(c->line), "%s", rt_out_clean(line, clean, sizeof(clean)));
    }
    pthread_mutex_lock(&hook.mu);
    if (c == NULL || hook.count == MOST) {
        hook.counts.dropped++;
    } else if (!was_seen(c)) {
        put(&hook.last, c);
        hook.count++;
        c = NULL;
        ring();
    }
    pthread_mutex_unlock(&hook.mu);
    free(c);
}

static struct call *take(void)
{
    pthread_mutex_lock(&hook.mu);
    struct call *c = get(&hook.first, &hook.last);
    hook.count -= c != NULL;
    pthread_mutex_unlock(&hook.mu);
    return c;
}

static void count(uint64_t *what)
{
    pthread_mutex_lock(&hook.mu);
    ++*what;
    pthread_mutex_unlock(&hook.mu);
}

static bool has_command(void)
{
    pthread_mutex_lock(&hook.mu);
    bool has = hook.command != NULL;
    pthread_mutex_unlock(&hook.mu);
    return has;
}

/* Writes what has come into the journal, whatever a command does meanwhile; then commands wait for their turn. */
static void write_down(void)
{
    struct rt_txn_id id;
    int64_t deadline;

    for (struct call *c; (c = take()) != NULL;) {
        if (hook.v != NULL &&
            rt_args_read_id(c->id, &id, &deadline)) /* else it is of no transaction */
            (void)rt_notes_call(hook.v, &id, c->resource, c->line); /* in vain: the log has it */
        if (has_command() && hook.run_count < QUEUE) {
            put(&hook.runs_last, c);
            hook.run_count++;
            continue;
        }
        if (has_command())
            count(&hook.counts.dropped);
        free(c);
    }
}

/* ---- The command ------------------------------------------------------------------ */

/* Our environment with C's variables; NULL: no memory. Free its first three, and it. */
static char **environment(const struct call *c)
{
    static const char *const names[] = {"ROTA_TXN=", "ROTA_RESOURCE=", "ROTA_LINE="};
    const char *values[] = {c->id, c->resource, c->line};
    size_t n = 0;

    while (environ[n] != NULL)
        n++;
    char **out = calloc(n + 4, sizeof(*out));
    for (int i = 0; out != NULL && i < 3; i++)
        if (asprintf(&out[i], "%s%s", names[i], values[i]) < 0) {
            while (i-- > 0)
                free(out[i]);
            free(out);
            return NULL;
        }
    size_t used = 3;
    for (size_t i = 0; out != NULL && i < n; i++) {
        bool ours = false;
        for (int k = 0; k < 3; k++)
            ours = ours || strncmp(environ[i], names[k], strlen(names[k])) == 0;
        if (!ours)
            out[used++] = environ[i];
    }
    return out;
}

static int spawn(const struct call *c, char *command, pid_t *pid)
{
    char *words[] = {(char[]){"sh"}, (char[]){"-c"}, command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char **env = environment(c);

    if (env == NULL)
        return ENOMEM;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    int err = posix_spawn(pid, "/bin/sh", &actions, &attr, words, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 3; i++)
        free(env[i]);
    free(env);
    return err;
}

/* When to kill the command: after its time, and never long after the end of it all. */
static int64_t limit_of(int64_t until)
{
    int64_t by = atomic_load(&hook.by);

    return by != 0 && by < until ? by : until;
}

/* True: it ended by itself, with *STATUS. Else its whole group was killed. */
static bool await(pid_t pid, int *status)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = hook.bell, .events = POLLIN}};
    int64_t until = rt_loop_clock() + LIMIT_MS * MS;
    uint64_t rung;
    pid_t ended;

    while ((ended = waitpid(pid, status, WNOHANG)) == 0 && rt_loop_clock() < limit_of(until)) {
        int64_t left = (limit_of(until) - rt_loop_clock()) / MS + 1;
        (void)poll(fds, 2, (int)(fd < 0 && left > LOOK_MS ? LOOK_MS : left));
        if ((fds[1].revents & POLLIN) != 0)
            (void)!read(hook.bell, &rung, sizeof(rung));
        write_down();
    }
    if (fd >= 0)
        close(fd);
    if (ended != 0)
        return true;
    kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    return false;
}

/* To be freed. NULL: there is none any more, or no memory. */
static char *command_now(void)
{
    pthread_mutex_lock(&hook.mu);
    char *copy = hook.command != NULL ? strdup(hook.command) : NULL;
    pthread_mutex_unlock(&hook.mu);
    return copy;
}

static void run(const struct call *c)
{
    int status = 0;
    pid_t pid;
    char *command = command_now();

    if (command == NULL)
        return;
    int err = spawn(c, command, &pid);
    free(command);
    if (err != 0) {
        count(&hook.counts.failed);
        rt_out_error("on_attention: %s", strerror(err));
    } else if (!await(pid, &status)) {
        count(&hook.counts.killed);
        rt_out_error("on_attention: it took longer than %d s and was killed", LIMIT_MS / 1000);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        count(&hook.counts.failed);
        rt_out_error("on_attention: it ended with %s%d", WIFSIGNALED(status) ? "signal " : "",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    } else {
        count(&hook.counts.ended);
    }
}

/* ---- The thread ---------------------------------------------------------------------- */

static void *main_of(void *arg)
{
    struct pollfd bell = {.fd = hook.bell, .events = POLLIN};
    uint64_t rung;

    for (;;) {
        int64_t by = atomic_load(&hook.by);
        bool over = by != 0 && rt_loop_clock() >= by;
        write_down();
        struct call *c = over ? NULL : get(&hook.runs, &hook.runs_last);
        hook.run_count -= c != NULL;
        if (c != NULL)
            run(c);
        else if (by != 0)
            return arg;
        else if (poll(&bell, 1, -1) > 0)
            (void)!read(hook.bell, &rung, sizeof(rung));
        free(c);
    }
}

bool rt_hook_start(const struct rt_visit *v, const char *command)
{
    assert(!hook.running);
    hook.v = v;
    hook.command = command != NULL ? strdup(command) : NULL;
    if (command != NULL && hook.command == NULL)
        return false;
    atomic_store(&hook.by, 0);
    pthread_mutex_lock(&hook.mu);
    hook.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hook.running = hook.bell >= 0 && pthread_create(&hook.thread, NULL, main_of, NULL) == 0;
    pthread_mutex_unlock(&hook.mu);
    return hook.running;
}

void rt_hook_use(const char *command)
{
    char *copy = command != NULL ? strdup(command) : NULL, *old = NULL;

    pthread_mutex_lock(&hook.mu);
    if (copy != NULL || command == NULL) {
        old = hook.command;
        hook.command = copy;
    }
    pthread_mutex_unlock(&hook.mu);
    free(old);
}

void rt_hook_stop(void)
{
    bool had_command = hook.command != NULL;

    if (!hook.running)
        return;
    atomic_store(&hook.by, rt_loop_clock() + LIMIT_MS * MS);
    pthread_mutex_lock(&hook.mu);
    ring();
    pthread_mutex_unlock(&hook.mu);
    pthread_join(hook.thread, NULL);
    hook.running = false;
    free(hook.command);
    hook.command = NULL;
    for (struct call *c; (c = get(&hook.runs, &hook.runs_last)) != NULL; free(c))
        count(&hook.counts.dropped);
    hook.run_count = 0;
    for (struct call *c; (c = take()) != NULL; free(c))
        count(&hook.counts.dropped);
    pthread_mutex_lock(&hook.mu);
    close(hook.bell);
    hook.bell = -1;
    pthread_mutex_unlock(&hook.mu);
    if (hook.counts.dropped > 0 && had_command)
        rt_out_error("on_attention: skipped %llu times", (unsigned long long)hook.counts.dropped);
}

struct rt_hook_counts rt_hook_counts(void)
{
    pthread_mutex_lock(&hook.mu);
    struct rt_hook_counts counts = hook.counts;
    pthread_mutex_unlock(&hook.mu);
    return counts;
}
