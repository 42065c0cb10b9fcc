/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian: ends the command when rota itself is killed. */
#include "cli/guardian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65535
#define PAUSE_MIN_MS 1
#define PAUSE_MAX_MS 100
#define PAUSE_SCAN_MS 16 /* from here on it is worth a look into /proc */

struct word { /* what goes through the socket, one by one */
    int64_t group;
    int64_t deadline_ms;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- The group ---------------------------------------------------------- */

enum { STAT_STATE, STAT_GROUP = 2, STAT_THREADS = 17, STAT_FIELDS }; /* after the name: proc(5) */

/* Whether the process PID is of GROUP; *DEAD: only a zombie is left of it. */
static bool read_stat(const char *pid, pid_t group, bool *dead)
{
    char path[64], text[512], *field[STAT_FIELDS], *save;
    int count = 0;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *rest = strrchr(text, ')'); /* the program's name may contain anything */
    if (rest == NULL)
        return false;
    for (char *at = strtok_r(rest + 1, " ", &save); at != NULL && count < STAT_FIELDS;
         at = strtok_r(NULL, " ", &save))
        field[count++] = at;
    if (count < STAT_FIELDS || strtol(field[STAT_GROUP], NULL, 10) != group)
        return false;
    /* A first thread that ended looks like a zombie while others run. */
    *dead = (*field[STAT_STATE] == 'Z' || *field[STAT_STATE] == 'X') &&
            strtol(field[STAT_THREADS], NULL, 10) <= 1;
    return true;
}

/* Whether all that is left of GROUP are zombies. Where nobody reaps orphans (a container whose
 * first process is no init) they stay for ever, and must not keep the lock. */
static bool is_dead(pid_t group)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    bool zombie = false, alive = false;

    if (proc == NULL)
        return false;
    while (!alive && (entry = readdir(proc)) != NULL) {
        bool dead, digit = entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
        if (digit && read_stat(entry->d_name, group, &dead)) {
            zombie |= dead;
            alive |= !dead;
        }
    }
    closedir(proc);
    return zombie && !alive;
}

/* EPERM says that there are members, of another user. */
static bool has_gone(pid_t group, int64_t pause_ms)
{
    if (kill(-group, 0) != 0 && errno == ESRCH)
        return true;
    return pause_ms >= PAUSE_SCAN_MS && is_dead(group);
}

/* Ends GROUP and returns when it has gone. Nothing tells of the end of a group of orphans:
 * hence the looks, at first close together. */
static void end_group(pid_t group, int64_t deadline_ms, enum rt_on_lost on_lost)
{
    int64_t kill_at = now_ms() + (on_lost == RT_ON_LOST_TERM ? RT_GRACE_MS : 0);

    if (deadline_ms < kill_at)
        kill_at = deadline_ms;
    if (on_lost == RT_ON_LOST_TERM) {
        kill(-group, SIGTERM);
        kill(-group, SIGCONT); /* a stopped one must hear it too */
    }
    for (int64_t pause_ms = PAUSE_MIN_MS; !has_gone(group, pause_ms); pause_ms *= 2) {
        int64_t left = kill_at - now_ms();
        if (pause_ms > PAUSE_MAX_MS)
            pause_ms = PAUSE_MAX_MS;
        if (on_lost != RT_ON_LOST_IGNORE && left <= 0)
            kill(-group, SIGKILL);
        else if (on_lost != RT_ON_LOST_IGNORE && left < pause_ms)
            pause_ms = left;
        struct timespec t = {.tv_nsec = (long)pause_ms * 1000000};
        nanosleep(&t, NULL);
    }
}

/* ---- In the guardian ---------------------------------------------------- */

/* Closes LOW to HIGH. Old kernels, and sandboxes that know only those, have no close_range. */
static void close_span(unsigned low, unsigned high)
{
    if (close_range(low, high, 0) == 0)
        return;
    if (high > DESCRIPTORS_MAX)
        high = DESCRIPTORS_MAX;
    for (unsigned fd = low; fd <= high; fd++)
        close((int)fd);
}

/* Closes all but A and B; either may be -1. */
static void close_others(int a, int b)
{
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

    if (a < 0 || b < 0)
        low = high = (unsigned)(a < 0 ? b : a);
    if (low > 0)
        close_span(0, low - 1);
    if (high > low + 1)
        close_span(low + 1, high - 1);
    close_span(high + 1, ~0u);
}

static _Noreturn void stand_guard(int life, int keep_fd, enum rt_on_lost on_lost)
{
    struct word word, last = {0};
    sigset_t all;
    ssize_t n;

    /* Nothing but SIGKILL and rota's end may end it, least of all the terminal's signals. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "rota-guardian");
    close_others(life, keep_fd); /* a pipe we kept open would never end for its reader */
    if (chdir("/") != 0)
        _exit(1);
    while ((n = recv(life, &word, sizeof(word), 0)) == (ssize_t)sizeof(word) ||
           (n < 0 && errno == EINTR)) {
        if (n > 0)
            last = word;
    }
    if (last.group > 0)
        end_group((pid_t)last.group, last.deadline_ms, on_lost);
    _exit(0);
}

/* ---- In rota ------------------------------------------------------------ */

int rt_guardian_start(struct rt_guardian *guardian, int keep_fd, enum rt_on_lost on_lost)
{
    int life[2];

    /* A socket, not a pipe: writing to a guardian that was killed must not raise SIGPIPE. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, life) != 0)
        return errno;
    pid_t pid = fork();
    if (pid == 0)
        stand_guard(life[0], keep_fd, on_lost);
    int err = pid < 0 ? errno : 0;
    close(life[0]);
    if (err == 0)
        *guardian = (struct rt_guardian){.pid = pid, .life = life[1]};
    else
        close(life[1]);
    return err;
}

void rt_guardian_tell(const struct rt_guardian *guardian, pid_t group, int64_t deadline_ms)
{
    struct word word = {.group = group, .deadline_ms = deadline_ms};

    /* Never waits for one that was stopped: what it missed is a later deadline. */
    if (guardian->pid > 0)
        send(guardian->life, &word, sizeof(word), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void forget(struct rt_guardian *guardian)
{
    close(guardian->life);
    guardian->pid = 0;
}

bool rt_guardian_look(struct rt_guardian *guardian)
{
    if (guardian->pid > 0 && waitpid(guardian->pid, NULL, WNOHANG) == guardian->pid)
        forget(guardian);
    return guardian->pid > 0;
}

void rt_guardian_dismiss(const struct rt_guardian *guardian)
{
    /* The one word that also a stopped guardian cannot miss. */
    if (guardian->pid > 0)
        kill(guardian->pid, SIGKILL);
}

void rt_guardian_reap(struct rt_guardian *guardian)
{
    if (guardian->pid <= 0)
        return;
    while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    forget(guardian);
}
