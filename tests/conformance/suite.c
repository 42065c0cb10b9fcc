/* SPDX-License-Identifier: Apache-2.0 */
/* What cases are made of: names, clients, threads, asynchronous asks, and their end. */
#include "suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCHDOG_S 120 /* a case that hangs where no condition of ours ends it */
#define GONE_MS 4000   /* the shortest ttl, and what engines round it to */
#define PAUSE_LEAST_NS 300000
#define PAUSE_MOST_NS 20000000
#define STUCK_MS 3000 /* the time a thread of a failed case gets to end */
#define UNSEEN_MS 300 /* without order: until an ask of another process waits */

struct conf conf;

struct kept {
    struct kept *next;
    max_align_t data[];
};

struct conf_thread {
    pthread_t thread;
    bool joined;
    struct conf_thread *next;
};

static struct {
    pthread_mutex_t mutex;
    struct kept *kept;
    struct rota *clients[CONF_CLIENTS_MAX];
    size_t client_count;
    struct conf_thread *threads;
    atomic_uint_fast64_t wishes; /* answered so far */
    unsigned serial;
} parts = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool starting; /* inside a call that starts something asynchronous */

void *conf_alloc(size_t size)
{
    struct kept *kept = calloc(1, sizeof *kept + size);
    if (kept == NULL)
        abort();
    pthread_mutex_lock(&parts.mutex);
    kept->next = parts.kept;
    parts.kept = kept;
    pthread_mutex_unlock(&parts.mutex);
    return kept->data;
}

const char *conf_name(const char *tail)
{
    size_t size = strlen(conf.prefix) + strlen(tail) + 1;
    char *name = conf_alloc(size);
    snprintf(name, size, "%s%s", conf.prefix, tail);
    return name;
}

int64_t conf_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void conf_pause(int64_t began)
{
    int64_t ns = (conf_now_ms() - began) * 1000000 / 20;
    ns = ns < PAUSE_LEAST_NS ? PAUSE_LEAST_NS : ns > PAUSE_MOST_NS ? PAUSE_MOST_NS : ns;
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

int conf_rounds(int n)
{
    return conf.alone ? (n + 9) / 10 : n;
}

bool conf_shared_truth(void)
{
    return strstr(conf.url, "mem:") == NULL;
}

/* ---- Clients and lines -------------------------------------------------- */

struct rota *conf_open_with(const struct rota_options *opts)
{
    struct rota_options own = opts != NULL ? *opts : (struct rota_options){0};
    struct rota *r = NULL;
    own.flags |= conf.flags;
    if (own.call_ms == 0)
        own.call_ms = CONF_CALL_MS;
    if ((conf.caps & ROTA_CAP_ORDER) == 0)
        own.flags |= ROTA_METRICS; /* only its client knows who waits: asks_waiting */
    int rv = rota_open(&r, conf.url, &own);
    if (rv != 0)
        fail_msg("rota_open(%s): %s: %s", conf.url, rota_strerror(rv), rota_errmsg(NULL));
    assert_true(parts.client_count < CONF_CLIENTS_MAX);
    parts.clients[parts.client_count++] = r;
    return r;
}

struct rota *conf_open(void)
{
    return conf_open_with(NULL);
}

void conf_close(struct rota *r)
{
    for (size_t i = 0; i < parts.client_count; i++) {
        if (parts.clients[i] == r) {
            parts.clients[i] = parts.clients[--parts.client_count];
            break;
        }
    }
    rota_close(r);
}

static bool line_is(struct rota *r, const char *name, size_t count[2])
{
    struct rota_line *line = NULL;
    int rv = rota_inspect(r, name, &line);
    if (rv != 0)
        fail_msg("rota_inspect(%s): %s: %s", name, rota_strerror(rv), rota_errmsg(r));
    /* Without order nobody but its client sees who waits. */
    bool unseen = (conf.caps & ROTA_CAP_ORDER) == 0 && line->count == line->granted;
    bool same = (line->count == count[0] || unseen) && line->granted == count[1];
    count[0] = line->count;
    count[1] = line->granted;
    rota_line_free(line);
    return same;
}

static void add_waiting(void *arg, const struct rota_metric *m)
{
    if (strcmp(m->name, "rota_waiting") == 0)
        *(double *)arg += m->value;
}

/* How many asks of the case's clients wait, for whatever name. */
static double asks_waiting(void)
{
    double n = 0;
    for (size_t i = 0; i < parts.client_count; i++)
        assert_int_equal(rota_metrics(parts.clients[i], add_waiting, &n), 0);
    return n;
}

void conf_wait_asks(size_t count)
{
    if ((conf.caps & ROTA_CAP_ORDER) != 0)
        return;
    int64_t began = conf_now_ms(), patience = conf_shared_truth() ? UNSEEN_MS : CONF_PATIENCE_MS;
    while (asks_waiting() < (double)count && conf_now_ms() < began + patience)
        conf_pause(began);
}

void conf_wait_line(struct rota *r, const char *name, size_t count, size_t granted)
{
    int64_t began = conf_now_ms();
    size_t seen[2] = {count, granted};
    while (!line_is(r, name, seen)) {
        if (conf_now_ms() > began + CONF_PATIENCE_MS)
            fail_msg("%s: %zu tickets, %zu granted; waited for %zu, %zu", name, seen[0], seen[1],
                     count, granted);
        seen[0] = count;
        seen[1] = granted;
        conf_pause(began);
    }
    if (seen[0] < count)
        conf_wait_asks(count - granted);
}

void conf_assert_line(struct rota *r, const char *name, size_t count, size_t granted)
{
    size_t seen[2] = {count, granted};
    if (!line_is(r, name, seen))
        fail_msg("%s: %zu tickets, %zu granted, not %zu, %zu", name, seen[0], seen[1], count,
                 granted);
}

void conf_left_line(struct rota *r, const char *name, size_t count, size_t granted)
{
    if ((conf.caps & ROTA_CAP_SHARED_HOSTS) != 0)
        conf_wait_line(r, name, count, granted);
    else
        conf_assert_line(r, name, count, granted);
}

size_t conf_count_lines(struct rota *r, const char *prefix)
{
    struct rota_line *lines = NULL;
    size_t count = 0;
    assert_int_equal(rota_list(r, prefix, &lines, &count), 0);
    rota_list_free(lines, count);
    return count;
}

static size_t count_files_in(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count += count_files_in(path);
    }
    closedir(dir);
    return count;
}

size_t conf_count_files(void)
{
    return conf.folder != NULL ? count_files_in(conf.folder) : 0;
}

struct rota_lock *conf_take(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *lock = NULL;
    int rv = rota_acquire(r, name, ask, &lock);
    if (rv != 0)
        fail_msg("rota_acquire(%s): %s: %s", name, rota_strerror(rv), rota_errmsg(r));
    assert_non_null(lock);
    return lock;
}

void conf_give(struct rota_lock *lock)
{
    assert_int_equal(rota_release(lock), 0);
}

int conf_try(struct rota *r, const char *name, const struct rota_ask *ask, struct rota_lock **out)
{
    struct rota_ask tried = ask != NULL ? *ask : (struct rota_ask){0};
    struct rota_lock *lock = NULL;
    tried.flags |= ROTA_TRY;
    int rv = rota_acquire(r, name, &tried, &lock);
    if (rv != 0)
        assert_null(lock); /* outputs are untouched on error */
    else if (out == NULL)
        conf_give(lock);
    else
        *out = lock;
    return rv;
}

void conf_break_all(struct rota *r, const char *name)
{
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(r, name, &line), 0);
    for (size_t i = 0; i < line->count; i++)
        rota_break(r, name, line->places[i].number);
    rota_line_free(line);
}

/* ---- Threads ------------------------------------------------------------ */

struct conf_thread *conf_spawn(void *(*fn)(void *), void *arg)
{
    struct conf_thread *thread = calloc(1, sizeof *thread);
    assert_non_null(thread);
    assert_int_equal(pthread_create(&thread->thread, NULL, fn, arg), 0);
    thread->next = parts.threads;
    parts.threads = thread;
    return thread;
}

static bool thread_ended(struct conf_thread *thread, int64_t patience_ms)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += patience_ms / 1000;
    if (!thread->joined)
        thread->joined = pthread_timedjoin_np(thread->thread, NULL, &end) == 0;
    return thread->joined;
}

void conf_join(struct conf_thread *thread)
{
    if (!thread_ended(thread, 4 * CONF_PATIENCE_MS)) /* it may make hundreds of calls */
        fail_msg("a thread does not come back");
}

static void *task_main(void *arg)
{
    struct conf_task *task = arg;
    task->rv = rota_acquire(task->r, task->name, &task->ask, &task->lock);
    if (task->rv == 0)
        task->fence = rota_fence(task->lock);
    atomic_store(&task->done, true);
    return NULL;
}

struct conf_task *conf_task_start(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct conf_task *task = conf_alloc(sizeof *task);
    task->r = r;
    task->name = name;
    if (ask != NULL)
        task->ask = *ask;
    task->thread = conf_spawn(task_main, task);
    return task;
}

int conf_task_join(struct conf_task *task)
{
    conf_join(task->thread);
    return task->rv;
}

struct rota_lock *conf_task_lock(struct conf_task *task)
{
    int rv = conf_task_join(task);
    if (rv != 0)
        fail_msg("waiting for %s: %s", task->name, rota_strerror(rv));
    return task->lock;
}

/* ---- Asynchronous asks -------------------------------------------------- */

static void wish_answered(void *arg, int err, struct rota_lock *lock)
{
    struct conf_wish *wish = arg;
    if (starting)
        atomic_store(&wish->inside, true);
    atomic_store(&wish->err, err);
    atomic_store(&wish->lock, lock);
    atomic_store(&wish->order, atomic_fetch_add(&parts.wishes, 1) + 1);
    atomic_fetch_add(&wish->calls, 1);
}

struct conf_wish *conf_wish_start(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct conf_wish *wish = conf_alloc(sizeof *wish);
    starting = true;
    int rv = rota_acquire_async(r, name, ask, wish_answered, wish, &wish->id);
    starting = false;
    if (rv != 0)
        fail_msg("rota_acquire_async(%s): %s: %s", name, rota_strerror(rv), rota_errmsg(r));
    return wish;
}

int conf_wish_wait(struct conf_wish *wish)
{
    CONF_UNTIL(atomic_load(&wish->calls) > 0);
    assert_int_equal(atomic_load(&wish->calls), 1);
    assert_false(atomic_load(&wish->inside));
    int err = atomic_load(&wish->err);
    if (err == 0)
        assert_non_null(atomic_load(&wish->lock));
    else
        assert_null(atomic_load(&wish->lock));
    return err;
}

/* ---- A case's begin and end --------------------------------------------- */

int conf_case_begin(void **state)
{
    const struct conf_case *running = *state;
    snprintf(conf.prefix, sizeof conf.prefix, "conf.%d.%u.%s.", (int)getpid(), ++parts.serial,
             running->name);
    atomic_store(&parts.wishes, 0);
    alarm(rt_patient_ms(WATCHDOG_S));
    return 0;
}

/* Whether all threads have ended; a failed case may leave some that never will. */
static bool threads_end(void)
{
    bool all = true;
    for (struct conf_thread *next, *thread = parts.threads; thread != NULL; thread = next) {
        next = thread->next;
        for (int i = 0; i < STUCK_MS / 1000 && !thread_ended(thread, 1000); i++) {
            for (size_t c = 0; c < parts.client_count; c++)
                rota_interrupt(parts.clients[c]);
        }
        if (thread->joined)
            free(thread);
        else
            all = false;
    }
    parts.threads = NULL;
    return all;
}

/* Lists what a fresh client finds; dead sessions may need its work, and their ttl, to vanish. */
static int lines_left(void)
{
    struct rota *r = NULL;
    struct rota_line *lines = NULL;
    struct rota_lock *lock = NULL;
    size_t count = 1;
    int rv = rota_open(&r, conf.url, NULL);
    int64_t end = conf_now_ms() + GONE_MS;
    while (rv == 0 && count > 0 && conf_now_ms() < end) {
        rota_list_free(lines, lines != NULL ? count : 0);
        lines = NULL;
        rv = rota_acquire(r, "conf.sweep", NULL, &lock);
        if (rv == 0)
            rv = rota_release(lock);
        if (rv == 0)
            rv = rota_list(r, conf.prefix, &lines, &count);
    }
    if (rv != 0)
        print_error("after the case: %s: %s\n", rota_strerror(rv), rota_errmsg(r));
    for (size_t i = 0; lines != NULL && i < count; i++)
        print_error("left behind (I6): %s, %zu tickets\n", lines[i].name, lines[i].count);
    rota_list_free(lines, lines != NULL ? count : 0);
    rota_close(r);
    return rv != 0 || count != 0 ? -1 : 0;
}

int conf_case_end(void **state)
{
    (void)state;
    conf_agents_end();
    bool quiet = threads_end();
    if (quiet)
        conf_history_end();
    while (quiet && parts.client_count > 0)
        rota_close(parts.clients[--parts.client_count]);
    parts.client_count = 0;
    if (!quiet) {
        print_error("threads of the case hang: their clients stay open\n");
        parts.kept = NULL;
        return -1;
    }
    for (struct kept *next, *kept = parts.kept; kept != NULL; kept = next) {
        next = kept->next;
        free(kept);
    }
    parts.kept = NULL;
    return lines_left();
}
