/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes that serve: started, killed, stopped, looked at, and gone with the test. */
#include "servers.h"

#include "patience.h"
#include "proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 2

static struct rt_server *servers; /* that run or may run again */
static pid_t owner;

static void die(const char *what)
{
    fprintf(stderr, "servers: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- Ports -------------------------------------------------------------- */

uint16_t rt_port_reserve(int *anchor)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int one = 1;

    *anchor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*anchor < 0 || setsockopt(*anchor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(*anchor, (struct sockaddr *)&in, len) != 0 ||
        getsockname(*anchor, (struct sockaddr *)&in, &len) != 0)
        die("no free port");
    return ntohs(in.sin_port);
}

bool rt_server_accepts(struct rt_server *s, void *unused)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool accepts;

    (void)unused;
    if (fd < 0)
        die("socket");
    accepts = connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
    close(fd);
    return accepts;
}

/* ---- Life --------------------------------------------------------------- */

/* A test that fails exits without its tear-down; before the folder goes, the servers must. */
static void kill_all(void)
{
    if (getpid() != owner)
        return;
    for (struct rt_server *s = servers; s != NULL; s = s->next)
        rt_server_kill(s);
}

static void remember(struct rt_server *s)
{
    (void)rt_tmpdir(); /* its atexit must be the earlier one: they run backwards */
    if (owner == 0 && atexit(kill_all) != 0)
        die("atexit");
    owner = getpid();
    s->next = servers;
    servers = s;
}

void rt_server_init_in(struct rt_server *s, const char *base, const char *name, const char *program)
{
    static unsigned count;

    memset(s, 0, sizeof(*s));
    remember(s);
    snprintf(s->name, sizeof(s->name), "%s", name);
    if (snprintf(s->dir, sizeof(s->dir), "%s/%s-%u", base, name, ++count) >= (int)sizeof(s->dir) ||
        mkdir(s->dir, 0700) != 0)
        die(s->dir);
    s->port = rt_port_reserve(&s->anchor);
    rt_server_arg(s, "%s", program);
}

void rt_server_init(struct rt_server *s, const char *name, const char *program)
{
    rt_server_init_in(s, rt_tmpdir(), name, program);
}

void rt_server_arg(struct rt_server *s, const char *format, ...)
{
    va_list ap;

    assert(s->argc < RT_SERVER_ARGS_MAX && s->pid == 0);
    va_start(ap, format);
    if (vasprintf(&s->argv[s->argc], format, ap) < 0)
        die("vasprintf");
    va_end(ap);
    s->argc++;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void rt_server_fini(struct rt_server *s)
{
    if (s->argc == 0)
        return;
    rt_server_kill(s);
    for (struct rt_server **at = &servers; *at != NULL; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    close(s->anchor);
    nftw(s->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < s->argc; i++)
        free(s->argv[i]);
    memset(s, 0, sizeof(*s));
}

/* In the child, where only what is safe in signal handlers is allowed: the test has threads. */
__attribute__((noreturn)) static void become(const struct rt_server *s, int log, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
        dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0)
        execvp(s->argv[0], s->argv);
    _exit(127);
}

void rt_server_start(struct rt_server *s)
{
    char path[sizeof(s->dir) + 8];
    pid_t parent = getpid();
    int log;

    assert(s->pid == 0);
    snprintf(path, sizeof(path), "%s/log", s->dir);
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        die(path);
    s->pid = fork();
    if (s->pid < 0)
        die("fork");
    if (s->pid == 0)
        become(s, log, parent);
    setpgid(s->pid, s->pid); /* whoever comes first: it can be killed by group from now on */
    close(log);
}

static void wait_for(struct rt_server *s)
{
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
}

void rt_server_kill(struct rt_server *s)
{
    if (s->pid == 0)
        return;
    kill(-s->pid, SIGKILL);
    kill(s->pid, SIGKILL);
    wait_for(s);
}

void rt_server_term(struct rt_server *s)
{
    if (s->pid == 0)
        return;
    kill(s->pid, SIGTERM);
    wait_for(s);
}

void rt_server_stop(struct rt_server *s)
{
    rt_proc_stop(s->pid);
}

void rt_server_cont(struct rt_server *s)
{
    rt_proc_cont(s->pid);
}

/* ---- Waiting ------------------------------------------------------------ */

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool rt_await(bool (*until)(void *arg), void *arg, unsigned limit_ms)
{
    int64_t deadline = now_ms() + rt_patient_ms(limit_ms);
    struct timespec pause = {.tv_nsec = LOOK_AGAIN_MS * 1000000L};

    while (!until(arg)) {
        if (now_ms() >= deadline)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

struct awaited {
    struct rt_server *server;
    rt_server_ready_fn *ready;
    void *arg;
};

static void give_up(const struct rt_server *s, const char *why)
{
    char path[sizeof(s->dir) + 8], tail[4096];
    ssize_t n = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/log", s->dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        off_t size = lseek(fd, 0, SEEK_END);

        n = pread(fd, tail, sizeof(tail),
                  size > (off_t)sizeof(tail) ? size - (off_t)sizeof(tail) : 0);
        close(fd);
    }
    fprintf(stderr, "servers: %s (port %u) %s; its log ends:\n%.*s\n", s->name, (unsigned)s->port,
            why, n > 0 ? (int)n : 0, tail);
    exit(1);
}

static bool is_ready(void *arg)
{
    struct awaited *a = arg;

    if (a->server->pid != 0 && waitpid(a->server->pid, NULL, WNOHANG) == a->server->pid) {
        a->server->pid = 0;
        give_up(a->server, "has ended");
    }
    return a->ready(a->server, a->arg);
}

void rt_server_await(struct rt_server *s, rt_server_ready_fn *ready, void *arg, unsigned limit_ms)
{
    struct awaited a = {.server = s, .ready = ready, .arg = arg};

    if (!rt_await(is_ready, &a, limit_ms))
        give_up(s, "does not answer");
}
