/* SPDX-License-Identifier: Apache-2.0 */
/* Kills rota run -9 again and again, at random moments, and sees whether two commands ever run at once.
 *
 *   kill_storm ROTA KILLS SEED [lazy]   lazy: nobody reaps orphans before the end
 *
 * Every command takes a kernel lock on one file, which all processes of its group keep until they
 * end: a command that finds it taken runs beside another. Half of the kills hit a running command
 * while others wait in line; the other half hit rota while it starts.
 *
 * Not tried: a setuid command, which its guardian may not signal (EPERM). It keeps the lock until
 * the command ends by itself; as root, as which tests often run, everything may be signalled. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CROWD 3
#define PATIENCE_MS 30000

struct news { /* from a command to the storm: less than PIPE_BUF, so in one piece */
    pid_t rota;
    bool overlap;
};

static const char *rota, *self;
static int news_fd; /* the commands' end, which they find by its number */
static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static void die(const char *what)
{
    fprintf(stderr, "kill_storm: %s\n", what);
    exit(1);
}

static void pause_us(uint32_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

    nanosleep(&t, NULL);
}

static uint32_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint32_t)((uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000);
}

/* ---- The command -------------------------------------------------------- */

/* KIND 0: alone; 1: with members behind it; 2: these ignore SIGTERM. */
static int command(int fd, int kind)
{
    struct news news = {.rota = getppid()};
    int file = open("guarded", O_RDWR | O_CREAT, 0600);

    news.overlap = file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0;
    for (int i = 0; kind > 0 && i < 3; i++) {
        if (fork() != 0)
            continue;
        if (kind == 2)
            signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    }
    if (write(fd, &news, sizeof(news)) != (ssize_t)sizeof(news))
        return 1;
    close(fd);
    for (;;)
        pause();
}

/* ---- The storm ---------------------------------------------------------- */

static pid_t start(int kind)
{
    char fd[16], kind_text[16];

    snprintf(fd, sizeof(fd), "%d", news_fd);
    snprintf(kind_text, sizeof(kind_text), "%d", kind);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(rota, rota, "run", "storm", "--", self, "--command", fd, kind_text, (char *)NULL);
        _exit(127);
    }
    if (pid < 0)
        die("cannot fork");
    return pid;
}

static void kill_one(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        die("rota ended by itself");
}

/* The next command that began to run; 0: none within TIMEOUT_MS. */
static pid_t next_news(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct news news;

    if (poll(&p, 1, timeout_ms) <= 0)
        return 0;
    if (read(fd, &news, sizeof(news)) != (ssize_t)sizeof(news))
        die("cannot read");
    if (news.overlap)
        die("two commands ran at once");
    return news.rota;
}

static int draw_kind(int i)
{
    return i % 25 == 7 ? 2 : i % 3 == 1; /* the deaf cost their grace */
}

/* Holders are killed while others wait; every tenth time also one that waits. */
static int storm_holders(int fd, int kills)
{
    pid_t crowd[CROWD];
    int done = 0;

    for (int i = 0; i < CROWD; i++)
        crowd[i] = start(draw_kind(i));
    while (done < kills) {
        pid_t holder = next_news(fd, PATIENCE_MS);
        int victim = 0;
        while (victim < CROWD && crowd[victim] != holder)
            victim++;
        if (holder == 0)
            die("nobody was granted the lock any more");
        if (victim == CROWD) /* it was killed with its news under way */
            continue;
        pause_us(draw(500));
        if (draw(10) == 0) {
            int waiter = (victim + 1) % CROWD;
            kill_one(crowd[waiter]);
            crowd[waiter] = start(0);
            done++;
        }
        kill_one(crowd[victim]);
        crowd[victim] = start(draw_kind(done++));
    }
    for (int i = 0; i < CROWD; i++)
        kill_one(crowd[i]);
    return done;
}

/* Killed at any moment from its first to the one at which its command runs. */
static int storm_starts(int fd, int kills, int *ran)
{
    uint32_t sum_us = 0;

    while (next_news(fd, 0) != 0)
        ;
    for (int i = 0; i < kills; i++) {
        uint32_t begun = now_us();
        pid_t pid = start(i % 3 == 1);
        if (i < 5) { /* how long does it take? */
            if (next_news(fd, PATIENCE_MS) == 0)
                die("nobody was granted the lock any more");
            sum_us += now_us() - begun;
        } else {
            pause_us(draw(sum_us / 5 * 3 / 2));
        }
        kill_one(pid);
        while (next_news(fd, 0) != 0)
            *ran += 1;
    }
    return kills;
}

static int storm(int kills)
{
    int fds[2], ran = 0;

    if (pipe(fds) != 0 || fcntl(fds[0], F_SETFD, FD_CLOEXEC) != 0)
        die("no pipe");
    news_fd = fds[1];
    int held = storm_holders(fds[0], kills / 2);
    int starts = storm_starts(fds[0], kills - kills / 2, &ran);
    printf("%d killed while they held or waited, %d while they started, of which %d ran: "
           "never two at once\n",
           held, starts, ran);
    return 0;
}

/* The storm runs in a process of its own, and its orphans come to us as to an init. */
int main(int argc, char **argv)
{
    siginfo_t info;
    int status = 1;

    if (argc == 4 && strcmp(argv[1], "--command") == 0)
        return command(atoi(argv[2]), atoi(argv[3]));
    if (argc < 4 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die("usage: kill_storm ROTA KILLS SEED [lazy]");
    rota = argv[1], self = argv[0];
    seed = strtoull(argv[3], NULL, 10);
    pid_t pid = fork();
    if (pid == 0)
        return storm(atoi(argv[2]));
    if (argc > 4)
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    for (pid_t ended; (ended = wait(&status)) != pid;) {
        if (ended < 0)
            die("lost the storm");
    }
    return status != 0;
}
