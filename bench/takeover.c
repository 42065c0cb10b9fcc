/* SPDX-License-Identifier: Apache-2.0 */
/* From one process to another: by release, and by the death of the holder. */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 1000

/* The holder: takes the lock, says so, and stays until it is killed. */
static pid_t start_holder(const struct bench *b, int *ready)
{
    int fds[2];
    if (pipe(fds) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        struct rota *r = bench_open(b, "file", "takeover", NULL);
        struct rota_lock *lock = NULL;
        bench_must(rota_acquire(r, "job", NULL, &lock), r, "acquire");
        if (write(fds[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    *ready = fds[0];
    return pid;
}

static void wait_ready(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1) {
        fprintf(stderr, "rota-bench: the holder died early\n");
        exit(1);
    }
    close(fd);
}

/* The waiter: says when it stands in line by what inspect shows, and when it was granted. */
struct board {
    int64_t granted_at;
};

static pid_t start_waiter(const struct bench *b, struct board *board)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct rota *r = bench_open(b, "file", "takeover", NULL);
    struct rota_lock *lock = NULL;
    bench_must(rota_acquire(r, "job", NULL, &lock), r, "acquire");
    board->granted_at = bench_ns();
    bench_must(rota_release(lock), r, "release");
    rota_close(r);
    _exit(0);
}

static void until_in_line(struct rota *r, size_t count)
{
    for (size_t seen = 0; seen < count;) {
        struct rota_line *line = NULL;
        bench_must(rota_inspect(r, "job", &line), r, "inspect");
        seen = line->count;
        rota_line_free(line);
        if (seen < count)
            usleep(200);
    }
}

void bench_takeover(const struct bench *b)
{
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct rota *r = bench_open(b, "file", "takeover", NULL);
    double ms[MOST];
    size_t n = (size_t)(300 * b->scale) + 1;
    for (size_t i = 0; i < n; i++) {
        int ready, status;
        pid_t holder = start_holder(b, &ready);
        wait_ready(ready);
        pid_t waiter = start_waiter(b, board);
        until_in_line(r, 2);
        int64_t killed_at = bench_ns();
        kill(holder, SIGKILL);
        waitpid(waiter, &status, 0);
        waitpid(holder, &status, 0);
        ms[i] = (double)(board->granted_at - killed_at) / 1e6;
    }
    rota_close(r);
    munmap(board, sizeof *board);
    bench_say(b, "takeover after kill -9, median", bench_median(ms, n), "ms");
    bench_goal(b, "takeover after kill -9, p99", bench_quantile(ms, n, 0.99), "ms", false, 100);
}

/* ---- Hand-over ---------------------------------------------------------- */

/* Two processes take turns strictly: each releases when it holds and the other is in line. */
static int64_t take_turns(const struct bench *b, int turns)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    struct rota *r = bench_open(b, "file", "handover", &never);
    struct rota_lock *lock = NULL;
    int64_t from = bench_ns();
    for (int i = 0; i < turns; i++) {
        bench_must(rota_acquire(r, "job", NULL, &lock), r, "acquire");
        bench_must(rota_release(lock), r, "release");
    }
    int64_t took = bench_ns() - from;
    rota_close(r);
    return took;
}

void bench_handover(const struct bench *b)
{
    int turns = (int)(5000 * b->scale) + 1, status;
    pid_t other = fork();
    if (other == 0) {
        take_turns(b, turns);
        _exit(0);
    }
    int64_t took = take_turns(b, turns);
    waitpid(other, &status, 0);
    bench_say(b, "file: two processes, turns of both", 2.0 * turns / ((double)took / 1e9), "/s");
}
