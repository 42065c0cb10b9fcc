/* SPDX-License-Identifier: Apache-2.0 */
/* From one process to another on Redis: hand-over and 100 in line, against BLPOP and the herd. */
#include "redis_way.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS_MOST 1024
#define HANDOVER_ROUNDS 9
#define WAITERS 100
#define WAITERS_ROUNDS 5
#define COME_WITHIN_MS 60000
#define SETTLE_MS 2

struct board { /* shared by all participants */
    _Atomic int64_t released_at, granted_at;
    _Atomic int turns, served;
    int most;
    double us[TURNS_MOST];
};

static struct board *share(void)
{
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        bench_done(1);
    return board;
}

static pid_t start_child(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "rota-bench: fork: %s\n", strerror(errno));
        exit(1);
    }
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void join_child(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    bench_done(status); /* it has said why */
}

/* Waits until N wait in WAY's line, as seen on a separate connection. */
static void await_line(const struct way *way, const struct redis *s, redisContext *watch, int n)
{
    for (int ms = 0; way->waiting(s, watch) < n; ms++) {
        if (ms > COME_WITHIN_MS) {
            fprintf(stderr, "rota-bench: %s: they do not come to their places\n", way->name);
            exit(1);
        }
        poll(NULL, 0, 1);
    }
}

/* ---- Hand-over ---------------------------------------------------------- */

/* Waits until the other one waits, and everybody sleeps, the server too. Without this, the share of turns that began
 * while all were still awake was left to chance: 40 % with BLPOP, 43 % with Rota, 76 % with its scripts on bare
 * hiredis. */
static void await_asleep(const struct way *way, const struct redis *s, redisContext *watch)
{
    await_line(way, s, watch, 1);
    poll(NULL, 0, SETTLE_MS);
}

static void take_turns(const struct way *way, const struct redis *s, struct board *board)
{
    struct party *me = way->join(s);
    redisContext *watch = redis_dial(s, false);
    for (int i = 0; i < board->most / 2; i++) {
        way->acquire(me);
        int64_t granted_at = rt_bench_ns(), released_at = atomic_load(&board->released_at);
        int turn = atomic_fetch_add(&board->turns, 1);
        if (turn > 0)
            board->us[turn - 1] = (double)(granted_at - released_at) / 1000;
        if (turn + 1 < board->most)
            await_asleep(way, s, watch);
        atomic_store(&board->released_at, rt_bench_ns());
        way->release(me);
    }
    redisFree(watch);
    way->part(me);
}

/* The median of N hand-overs, in us. */
static double hand_over(const struct way *way, const struct redis *s, struct board *board, size_t n)
{
    *board = (struct board){.most = (int)n + 1};
    way->prepare(s);
    pid_t other = start_child();
    if (other == 0) {
        take_turns(way, s, board);
        _exit(0);
    }
    take_turns(way, s, board);
    join_child(other);
    return rt_bench_median(board->us, n);
}

/* What is reported of a way: its time, and its time against BLPOP's in the same round. */
static const struct {
    const struct way *way;
    const char *time, *against;
} rivals[] = {
    {&way_blpop, "redis: bare BLPOP hand-over, median", NULL},
    {&way_least, "redis: the least script (LPOP, PUBLISH) by bare hiredis",
     "redis: the least script / bare BLPOP hand-over"},
    {&way_bare, "redis: the same scripts by bare hiredis, median",
     "redis: the same scripts / bare BLPOP hand-over"},
    {&way_rota, "redis: release here to grant there, median", NULL},
};
#define RIVALS (sizeof rivals / sizeof rivals[0])
#define OURS (RIVALS - 1)

/* The ratio in the round in which both were fastest. */
static double quietest(const double *ours, const double *theirs)
{
    int best = 0;
    for (int i = 1; i < HANDOVER_ROUNDS; i++)
        if (ours[i] + theirs[i] < ours[best] + theirs[best])
            best = i;
    return ours[best] / theirs[best];
}

void redis_bench_handover(const struct bench *b, const struct redis *s)
{
    struct board *board = share();
    double us[RIVALS][HANDOVER_ROUNDS], ratio[RIVALS][HANDOVER_ROUNDS];
    size_t n = (size_t)(200 * b->scale) | 1;
    for (int i = 0; i < HANDOVER_ROUNDS; i++)
        for (size_t k = 0; k < RIVALS; k++) {
            us[k][i] = hand_over(rivals[k].way, s, board, n);
            ratio[k][i] = us[k][i] / us[0][i];
        }
    munmap(board, sizeof(*board));
    double quiet = quietest(us[OURS], us[0]);
    for (size_t k = 0; k < RIVALS; k++) {
        bench_say(b, rivals[k].time, rt_bench_median(us[k], HANDOVER_ROUNDS), "us");
        if (rivals[k].against != NULL)
            bench_say(b, rivals[k].against, rt_bench_median(ratio[k], HANDOVER_ROUNDS), "x");
    }
    bench_say(b, "redis: hand-over / bare BLPOP, the quietest round", quiet, "x");
    bench_goal(b, "redis: hand-over / bare BLPOP hand-over",
               rt_bench_median(ratio[OURS], HANDOVER_ROUNDS), "x", false, 1.3);
}

/* ---- 100 in line -------------------------------------------------------- */

/* One of the waiters; leaves only when all have been served, so that its exit does not slow the others. */
static void wait_in_line(const struct way *way, const struct redis *s, struct board *board,
                         int all_served)
{
    char byte;
    struct party *me = way->join(s);
    way->acquire(me);
    atomic_store(&board->granted_at, rt_bench_ns()); /* under the lock: the last one stays */
    way->release(me);
    atomic_fetch_add(&board->served, 1);
    while (read(all_served, &byte, 1) < 0 && errno == EINTR)
        ;
    way->part(me);
}

/* Milliseconds from the release until the last of N has been granted. */
static double serve(const struct way *way, const struct redis *s, struct board *board, int n)
{
    pid_t pids[WAITERS];
    int fds[2];
    *board = (struct board){.most = n};
    way->prepare(s);
    struct party *me = way->join(s);
    way->acquire(me);
    if (pipe(fds) != 0)
        bench_done(1);
    for (int i = 0; i < n; i++) {
        pids[i] = start_child();
        if (pids[i] != 0)
            continue;
        close(fds[1]);
        wait_in_line(way, s, board, fds[0]);
        _exit(0);
    }
    await_line(way, s, s->control, n);
    int64_t from = rt_bench_ns();
    way->release(me);
    while (atomic_load(&board->served) < n)
        poll(NULL, 0, 1);
    close(fds[0]);
    close(fds[1]);
    for (int i = 0; i < n; i++)
        join_child(pids[i]);
    way->part(me);
    return (double)(atomic_load(&board->granted_at) - from) / 1e6;
}

void redis_bench_waiters(const struct bench *b, const struct redis *s)
{
    struct board *board = share();
    double ours[WAITERS_ROUNDS], theirs[WAITERS_ROUNDS], herd[WAITERS_ROUNDS];
    double ratio[WAITERS_ROUNDS], worse[WAITERS_ROUNDS];
    int rounds = b->scale < 1 ? 1 : WAITERS_ROUNDS;
    for (int i = 0; i < rounds; i++) {
        theirs[i] = serve(&way_blpop, s, board, WAITERS);
        ours[i] = serve(&way_rota, s, board, WAITERS);
        herd[i] = serve(&way_herd, s, board, WAITERS);
        ratio[i] = ours[i] / theirs[i];
        worse[i] = herd[i] / theirs[i];
    }
    munmap(board, sizeof(*board));
    size_t n = (size_t)rounds;
    bench_say(b, "redis: 100 processes in line, BLPOP", rt_bench_median(theirs, n), "ms");
    bench_say(b, "redis: 100 processes in line, all served", rt_bench_median(ours, n), "ms");
    bench_say(b, "redis: 100 processes in a pub/sub herd / BLPOP", rt_bench_median(worse, n), "x");
    bench_goal(b, "redis: 100 processes in line / BLPOP", rt_bench_median(ratio, n), "x", false,
               1.5);
}
