/* SPDX-License-Identifier: Apache-2.0 */
/* From one process to another: by release, by the death of the holder, along a line of waiters. */
#include "cli/bench/measure.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME_ROOM 256
#define WAITERS_MOST 512
#define LOOK_EVERY_MS 1
#define UNSEEN_MS(count) (20 + 10 * (int)(count)) /* to arrive, where waiters are not visible */
#define COME_WITHIN_NS INT64_C(60000000000)       /* else it died, and said why */

static void name_of(const struct rt_bench *b, const char *word, char *out)
{
    snprintf(out, NAME_ROOM, "%s%s", b->prefix, word);
}

/* ---- Children ----------------------------------------------------------- */

/* Like fork, but the child dies with us, and signals end it as usual. -1: a message was printed. */
static pid_t start_child(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        rt_out_error("cannot start a process: %s", strerror(errno));
    if (pid != 0)
        return pid;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RT_EXIT_INTERNAL);
    return 0;
}

/* Waits for PID; returns its exit code. */
static int join_child(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return RT_EXIT_INTERNAL;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return rt_bench_stopped() ? rt_bench_stop_code() : RT_EXIT_INTERNAL;
}

static void kill_child(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        (void)join_child(pid);
    }
}

/* Waits until COUNT tickets are in the line NAME. */
static int await_line(struct rota *r, const char *name, size_t count)
{
    int64_t end = rt_bench_ns() + COME_WITHIN_NS;

    if ((rota_caps(r) & ROTA_CAP_ORDER) == 0) {
        poll(NULL, 0, UNSEEN_MS(count));
        return rt_bench_stopped() ? rt_bench_stop_code() : RT_EXIT_OK;
    }
    while (rt_bench_ns() < end) {
        struct rota_line *line;
        int err = rota_inspect(r, name, &line);
        if (err != 0)
            return rt_connect_report(r, err, "");
        size_t seen = line->count;
        rota_line_free(line);
        if (seen >= count)
            return RT_EXIT_OK;
        poll(NULL, 0, LOOK_EVERY_MS);
        if (rt_bench_stopped())
            return rt_bench_stop_code();
    }
    rt_out_error("a process did not come to its place in line");
    return RT_EXIT_INTERNAL;
}

/* ---- Hand-over ---------------------------------------------------------- */

struct baton { /* shared by the two */
    _Atomic int64_t released_at;
    _Atomic int turns; /* of both */
    int most;
    double us[RT_BENCH_TURNS_MOST];
};

/* One turn: notes how long the hold took to arrive, and lets go once the other is in line. */
static int take_turn(const struct rt_bench *b, struct rota *r, const char *name,
                     struct baton *baton)
{
    struct rota_lock *lock;
    int code = RT_EXIT_OK;

    int err = rota_acquire(r, name, NULL, &lock);
    if (err != 0)
        return rt_connect_report(r, err, "");
    int64_t granted_at = rt_bench_ns(), released_at = atomic_load(&baton->released_at);
    int turn = atomic_fetch_add(&baton->turns, 1);
    if (released_at != 0) /* else it is the first */
        baton->us[turn - 1] = (double)(granted_at - released_at) / 1000;
    if (turn + 1 < baton->most)
        code = await_line(r, name, 2);
    rt_bench_progress(b, (double)turn / baton->most);
    atomic_store(&baton->released_at, rt_bench_ns());
    err = rota_release(lock);
    return code == RT_EXIT_OK && err != 0 ? rt_connect_report(r, err, "") : code;
}

static int take_turns(const struct rt_bench *b, struct baton *baton)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    char name[NAME_ROOM];
    struct rota *r;

    name_of(b, "handover", name);
    int code = rt_bench_open(b, &r, &never);
    if (code != RT_EXIT_OK)
        return code;
    for (int i = 0; i < baton->most / 2 && code == RT_EXIT_OK; i++)
        code = take_turn(b, r, name, baton);
    rota_close(r);
    return code;
}

static void *share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory != MAP_FAILED)
        return memory;
    rt_out_error("cannot share memory: %s", strerror(errno));
    return NULL;
}

int rt_bench_handover(const struct rt_bench *b, size_t n, double *us)
{
    struct rt_bench silent = *b;
    struct baton *baton = share(sizeof(*baton));

    if (baton == NULL)
        return RT_EXIT_INTERNAL;
    baton->most = (int)n + 1; /* turns, as many by each */
    silent.progress = NULL;
    int code = RT_EXIT_INTERNAL;
    pid_t other = start_child();
    if (other == 0)
        _exit(take_turns(&silent, baton));
    if (other > 0) {
        code = take_turns(b, baton);
        if (code != RT_EXIT_OK)
            kill(other, SIGKILL);
        int theirs = join_child(other);
        code = code == RT_EXIT_OK ? theirs : code;
    }
    memcpy(us, baton->us, n * sizeof(*us));
    munmap(baton, sizeof(*baton));
    return code;
}

/* ---- Rivals ------------------------------------------------------------- */

static int many_pairs(const struct rt_bench *b, int n, int64_t *took)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    char name[NAME_ROOM];
    struct rota *r;
    double us;

    name_of(b, "rivals", name);
    int code = rt_bench_open(b, &r, &never);
    if (code != RT_EXIT_OK)
        return code;
    int64_t from = rt_bench_ns();
    code = rt_bench_pairs(r, name, NULL, n, &us);
    *took = rt_bench_ns() - from;
    rota_close(r);
    return code;
}

int rt_bench_rivals(const struct rt_bench *b, int n, double *per_second)
{
    int64_t took = 1;

    pid_t other = start_child();
    if (other < 0)
        return RT_EXIT_INTERNAL;
    if (other == 0)
        _exit(many_pairs(b, n, &took));
    int code = many_pairs(b, n, &took);
    int theirs = join_child(other);
    *per_second = 2.0 * n / ((double)took / 1e9);
    return code != RT_EXIT_OK ? code : theirs;
}

/* ---- Takeover ----------------------------------------------------------- */

struct board { /* shared with the children */
    int64_t granted_at;
};

static const struct rota_options *options_of(uint32_t ttl_ms, struct rota_options *opts)
{
    *opts = (struct rota_options){.ttl_ms = ttl_ms};
    return opts;
}

/* Takes the lock, says so, and stays until it is killed. */
static int hold_until_killed(const struct rt_bench *b, uint32_t ttl_ms, int ready)
{
    struct rota_options opts;
    struct rota_lock *lock;
    struct rota *r;
    char name[NAME_ROOM];

    name_of(b, "takeover", name);
    int code = rt_bench_open(b, &r, options_of(ttl_ms, &opts));
    if (code != RT_EXIT_OK)
        return code;
    int err = rota_acquire(r, name, NULL, &lock);
    if (err != 0)
        return rt_connect_report(r, err, "");
    if (write(ready, "x", 1) != 1)
        return RT_EXIT_INTERNAL;
    for (;;)
        pause();
}

static pid_t start_holder(const struct rt_bench *b, uint32_t ttl_ms)
{
    int fds[2];
    char byte;

    if (pipe(fds) != 0) {
        rt_out_error("cannot make a pipe: %s", strerror(errno));
        return -1;
    }
    pid_t pid = start_child();
    if (pid == 0)
        _exit(hold_until_killed(b, ttl_ms, fds[1]));
    close(fds[1]);
    if (pid > 0 && read(fds[0], &byte, 1) != 1) {
        kill_child(pid);
        pid = -1; /* it said why */
    }
    close(fds[0]);
    return pid;
}

static int take_once(const struct rt_bench *b, uint32_t ttl_ms, const char *word,
                     struct board *board)
{
    struct rota_options opts;
    struct rota_lock *lock;
    struct rota *r;
    char name[NAME_ROOM];

    name_of(b, word, name);
    int code = rt_bench_open(b, &r, options_of(ttl_ms, &opts));
    if (code != RT_EXIT_OK)
        return code;
    int err = rota_acquire(r, name, NULL, &lock);
    if (err == 0) {
        board->granted_at = rt_bench_ns(); /* under the lock: the last one stays */
        err = rota_release(lock);
    }
    code = err != 0 ? rt_connect_report(r, err, "") : RT_EXIT_OK;
    rota_close(r);
    return code;
}

static int take_over_once(const struct rt_bench *b, struct rota *r, uint32_t ttl_ms,
                          struct board *board, double *ms)
{
    char name[NAME_ROOM];
    int code = RT_EXIT_INTERNAL;

    name_of(b, "takeover", name);
    pid_t holder = start_holder(b, ttl_ms);
    if (holder < 0)
        return code;
    pid_t waiter = start_child();
    if (waiter == 0)
        _exit(take_once(b, ttl_ms, "takeover", board));
    if (waiter > 0)
        code = await_line(r, name, 2);
    if (code != RT_EXIT_OK) {
        kill_child(waiter);
        kill_child(holder);
        return code;
    }
    int64_t killed_at = rt_bench_ns();
    kill(holder, SIGKILL);
    code = join_child(waiter);
    kill_child(holder);
    *ms = (double)(board->granted_at - killed_at) / 1e6;
    return code;
}

int rt_bench_takeover(const struct rt_bench *b, uint32_t ttl_ms, size_t n, double *ms)
{
    struct rota *r;
    struct board *board = share(sizeof(*board));

    if (board == NULL)
        return RT_EXIT_INTERNAL;
    int code = rt_bench_open(b, &r, NULL);
    if (code == RT_EXIT_OK) {
        for (size_t i = 0; i < n && code == RT_EXIT_OK; i++) {
            code = take_over_once(b, r, ttl_ms, board, &ms[i]);
            rt_bench_progress(b, (double)(i + 1) / (double)n);
        }
        rota_close(r);
    }
    munmap(board, sizeof(*board));
    return code;
}

/* ---- Waiters ------------------------------------------------------------ */

/* Starts N waiters; *STARTED says how many there are, even on failure. */
static int start_waiters(const struct rt_bench *b, struct board *board, pid_t *pids, int n,
                         int *started)
{
    for (*started = 0; *started < n; ++*started) {
        pid_t pid = start_child();
        if (pid == 0)
            _exit(take_once(b, 0, "waiters", board));
        if (pid < 0)
            return RT_EXIT_INTERNAL;
        pids[*started] = pid;
    }
    return RT_EXIT_OK;
}

/* R holds LOCK: lets a line of waiters form behind it, and lets go. */
static int serve_waiters(const struct rt_bench *b, struct rota *r, struct rota_lock *lock, int n,
                         struct board *board, double *ms)
{
    pid_t pids[WAITERS_MOST];
    int started;

    int code = start_waiters(b, board, pids, n, &started);
    for (int i = 1; i <= 10 && code == RT_EXIT_OK; i++) {
        code = await_line(r, rota_name(lock), (size_t)(n * i / 10) + 1);
        rt_bench_progress(b, i / 11.0);
    }
    for (int i = 0; i < started && code != RT_EXIT_OK; i++)
        kill(pids[i], SIGKILL);
    int64_t from = rt_bench_ns();
    int err = rota_release(lock);
    if (err != 0 && code == RT_EXIT_OK)
        code = rt_connect_report(r, err, "");
    for (int i = 0; i < started; i++) {
        int theirs = join_child(pids[i]);
        code = code == RT_EXIT_OK ? theirs : code;
    }
    *ms = (double)(board->granted_at - from) / 1e6;
    return code;
}

int rt_bench_waiters(const struct rt_bench *b, int n, double *ms)
{
    struct rota_lock *lock;
    struct rota *r;
    char name[NAME_ROOM];

    if (n > WAITERS_MOST)
        n = WAITERS_MOST;
    name_of(b, "waiters", name);
    struct board *board = share(sizeof(*board));
    if (board == NULL)
        return RT_EXIT_INTERNAL;
    int code = rt_bench_open(b, &r, NULL);
    if (code == RT_EXIT_OK) {
        int err = rota_acquire(r, name, NULL, &lock);
        code = err != 0 ? rt_connect_report(r, err, "") : serve_waiters(b, r, lock, n, board, ms);
        rota_close(r);
    }
    munmap(board, sizeof(*board));
    return code;
}
