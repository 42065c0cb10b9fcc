/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian: ends the command when rota itself is killed, or stands still past the deadline. */
#include "cli/guardian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65535
#define PAUSE_MIN_MS 1
#define PAUSE_MAX_MS 100
#define PAUSE_SCAN_MS 16 /* from here on it is worth a look into /proc */

struct rt_guardian_note { /* shared; rota writes it */
    _Atomic int64_t deadline_ms;
    _Atomic int64_t end_at_ms; /* when the guardian acts by itself */
};

struct guard { /* in the guardian */
    int life, timer;
    pid_t group; /* 0: not told yet */
    enum rt_on_lost on_lost;
    const struct rt_guardian_note *note;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- The group ---------------------------------------------------------- */

enum { STAT_STATE, STAT_GROUP = 2, STAT_THREADS = 17, STAT_FIELDS }; /* after the name: proc(5) */

/* Whether the process PID is in GROUP; *DEAD: only a zombie is left of it. */
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

/* Whether all that is left of GROUP is zombies. Where nobody reaps orphans (a container whose first process is not an
 * init) they stay for ever, and must not keep the lock. */
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

/* EPERM says that there are members, belonging to another user. */
static bool has_gone(pid_t group, int64_t pause_ms)
{
    if (kill(-group, 0) != 0 && errno == ESRCH)
        return true;
    return pause_ms >= PAUSE_SCAN_MS && is_dead(group);
}

/* Ends GROUP and returns when it has gone. Nothing reports the end of a group of orphans, so it polls, at first in
 * quick succession. */
static void end_group(pid_t group, int64_t deadline_ms, enum rt_on_lost on_lost)
{
    int64_t kill_at = now_ms() + (on_lost == RT_ON_LOST_TERM ? RT_GRACE_MS : 0);

    if (deadline_ms < kill_at)
        kill_at = deadline_ms;
    if (on_lost == RT_ON_LOST_TERM && kill_at > now_ms()) {
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

/* A pipe we kept open would never end for its reader. */
static void close_needless(int life, int keep_fd)
{
    if (keep_fd != RT_GUARDIAN_KEEP_ALL) {
        close_others(life, keep_fd);
        return;
    }
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fd != life)
            close(fd);
}

/* When to act although rota has not ended. */
static int64_t end_at(const struct guard *g)
{
    return g->group > 0 && g->on_lost != RT_ON_LOST_IGNORE ? atomic_load(&g->note->end_at_ms)
                                                           : INT64_MAX;
}

/* By CLOCK_BOOTTIME, so that it expires at once when a sleeping machine wakes up. */
static void set_timer(struct guard *g)
{
    int64_t at = end_at(g);
    struct itimerspec when = {0};

    if (at == INT64_MAX)
        return;
    if (g->timer < 0)
        g->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    when.it_value.tv_sec = (time_t)(at / 1000);
    when.it_value.tv_nsec = (long)(at % 1000) * 1000000 + 1; /* 0 would switch it off */
    (void)timerfd_settime(g->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Waits until rota has ended, or stands still. */
static void stand_guard(struct guard *g)
{
    ssize_t n;

    while (now_ms() < end_at(g)) {
        set_timer(g);
        struct pollfd fds[] = {{.fd = g->life, .events = POLLIN},
                               {.fd = g->timer, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 || fds[0].revents == 0)
            continue;
        n = recv(g->life, &g->group, sizeof(g->group), 0);
        if (n != (ssize_t)sizeof(g->group) && (n >= 0 || errno != EINTR))
            return;
    }
}

static _Noreturn void live(struct guard *g, int keep_fd)
{
    sigset_t all;

    /* Nothing but SIGKILL and rota's end may end it, least of all the terminal's signals. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "rota-guardian");
    close_needless(g->life, keep_fd);
    if (chdir("/") != 0)
        _exit(1);
    stand_guard(g);
    if (g->group > 0)
        end_group(g->group, atomic_load(&g->note->deadline_ms), g->on_lost);
    _exit(0);
}

/* ---- In rota ------------------------------------------------------------ */

static void forget(struct rt_guardian *guardian)
{
    close(guardian->life);
    munmap(guardian->note, sizeof(*guardian->note));
    guardian->note = NULL;
    guardian->pid = 0;
}

int rt_guardian_start(struct rt_guardian *guardian, int keep_fd, enum rt_on_lost on_lost)
{
    int life[2];
    struct rt_guardian_note *note = mmap(NULL, sizeof(*note), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (note == MAP_FAILED)
        return errno;
    atomic_init(&note->deadline_ms, INT64_MAX);
    atomic_init(&note->end_at_ms, INT64_MAX);
    /* A socket, not a pipe: writing to a guardian that was killed must not raise SIGPIPE. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, life) != 0) {
        int err = errno;
        munmap(note, sizeof(*note));
        return err;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(life[1]); /* or its end would never be seen */
        live(&(struct guard){.life = life[0], .timer = -1, .on_lost = on_lost, .note = note},
             keep_fd);
    }
    int err = pid < 0 ? errno : 0;
    close(life[0]);
    *guardian = (struct rt_guardian){.pid = pid, .life = life[1], .note = note};
    if (err != 0)
        forget(guardian);
    return err;
}

void rt_guardian_tell(const struct rt_guardian *guardian, pid_t group, int64_t deadline_ms,
                      int64_t margin_ms)
{
    if (guardian->pid <= 0)
        return;
    atomic_store(&guardian->note->deadline_ms, deadline_ms);
    atomic_store(&guardian->note->end_at_ms,
                 deadline_ms == INT64_MAX ? INT64_MAX : deadline_ms - margin_ms);
    /* Never waits for a stopped guardian: it is the same group each time. */
    send(guardian->life, &group, sizeof(group), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool rt_guardian_look(struct rt_guardian *guardian)
{
    if (guardian->pid > 0 && waitpid(guardian->pid, NULL, WNOHANG) == guardian->pid)
        forget(guardian);
    return guardian->pid > 0;
}

void rt_guardian_dismiss(const struct rt_guardian *guardian)
{
    /* The one message that even a stopped guardian cannot miss. */
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
