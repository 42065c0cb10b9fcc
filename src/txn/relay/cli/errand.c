/* SPDX-License-Identifier: Apache-2.0 */
/* A command for an event. */
#include "txn/relay/cli/errand.h"

#include "base/bug.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEAT_MS 200
#define LOOK_MS 20    /* where the kernel has no pidfd */
#define MERCY_MS 5000 /* between SIGTERM and SIGKILL */
#define MS INT64_C(1000000)
#define VALUES 6

struct running {
    pid_t pid;
    int fd;    /* pidfd; -1: none */
    int input; /* what is left of the payload goes there; -1: it is closed */
    const char *at;
    size_t left;
};

/* ---- Its environment ------------------------------------------------------------------ */

static const char *const names[VALUES] = {
    "ROTA_EVENT_ID=",   "ROTA_EVENT_TOPIC=", "ROTA_EVENT_KEY=",
    "ROTA_EVENT_TYPE=", "ROTA_CONSUMER=",    "ROTA_EVENT_ATTEMPT="};

static bool is_ours(const char *entry)
{
    for (int i = 0; i < VALUES; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* One block: the list, and behind it the texts that are new. NULL: no memory. */
static char **environment(const char *const values[VALUES])
{
    size_t n = 0, bytes = 0, used = 0;

    while (environ[n] != NULL)
        n++;
    for (int i = 0; i < VALUES; i++)
        bytes += values[i] != NULL ? strlen(names[i]) + strlen(values[i]) + 1 : 0;
    size_t list = (n + VALUES + 1) * sizeof(char *);
    char **out = calloc(1, list + bytes);
    if (out == NULL)
        return NULL;
    char *text = (char *)out + list;
    for (int i = 0; i < VALUES; i++)
        if (values[i] != NULL) {
            out[used++] = text;
            text += sprintf(text, "%s%s", names[i], values[i]) + 1;
        }
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            out[used++] = environ[i];
    return out;
}

/* ---- Starting ---------------------------------------------------------------------------- */

/* In the child: only what may be called there. */
static _Noreturn void become(const char *text, char **env, int input, pid_t parent)
{
    char *words[] = {(char[]){"sh"}, (char[]){"-c"}, NULL, NULL};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    memcpy(&words[2], &text, sizeof(text));
    setpgid(0, 0);
    for (int signo = 1; signo < NSIG; signo++)
        sigaction(signo, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && dup2(input, 0) == 0)
        execve("/bin/sh", words, env);
    _exit(127);
}

static bool start(struct running *r, const struct rt_errand *c, char **env)
{
    int ends[2];
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    r->pid = fork();
    if (r->pid == 0)
        become(c->text, env, ends[0], parent);
    int err = errno;
    close(ends[0]);
    if (r->pid < 0) {
        close(ends[1]);
        errno = err;
        return false;
    }
    setpgid(r->pid, r->pid); /* also here: before any signal */
    (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    r->input = ends[1];
    r->fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    return true;
}

/* ---- While it runs -------------------------------------------------------------------------- */

static void close_input(struct running *r)
{
    if (r->input >= 0)
        close(r->input);
    r->input = -1;
}

/* One that does not read has its reasons. */
static void feed(struct running *r)
{
    while (r->left > 0) {
        ssize_t n = write(r->input, r->at, r->left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            break;
        r->at += n;
        r->left -= (size_t)n;
    }
    close_input(r);
}

/* True: it has ended, with *STATUS. Else for a beat at most. */
static bool look(struct running *r, int *status)
{
    struct pollfd fds[2] = {{.fd = r->fd, .events = POLLIN}, {.fd = r->input, .events = POLLOUT}};

    pid_t ended = waitpid(r->pid, status, WNOHANG);
    if (ended != 0)
        return ended == r->pid;
    (void)poll(fds, 2, r->fd >= 0 ? BEAT_MS : LOOK_MS);
    if (r->input >= 0 && fds[1].revents != 0)
        feed(r);
    return false;
}

/* True: it has ended; its number, and its group's, are its own until it is waited for. */
static bool has_ended(const struct running *r)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Its whole group; first so that it can tidy up. Whoever of it is left when the shell has ended would work at the event
 * while it is tried again. */
static void end(struct running *r, int *status)
{
    int64_t until = rt_relay_now() + MERCY_MS * MS;

    close_input(r);
    kill(-r->pid, SIGTERM);
    while (!has_ended(r) && rt_relay_now() < until)
        (void)poll(&(struct pollfd){.fd = r->fd, .events = POLLIN}, 1, LOOK_MS);
    kill(-r->pid, SIGKILL);
    while (waitpid(r->pid, status, 0) < 0 && errno == EINTR) {
    }
}

static enum rt_errand_end judge(int status, char *why, size_t size)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return RT_ERRAND_DONE;
    if (WIFSIGNALED(status))
        snprintf(why, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, size, "exit status %d%s", WEXITSTATUS(status),
                 WEXITSTATUS(status) == 127 ? " (is there such a command?)" : "");
    return RT_ERRAND_FAILED;
}

static enum rt_errand_end await(const struct rt_errand *c, struct running *r, char *why,
                                size_t size)
{
    int64_t until = c->limit_ms != 0 ? rt_relay_now() + c->limit_ms * MS : INT64_MAX;
    int status = 0;

    if (RT_BUG(RT_BUG_CONSUME_ACK_FIRST) && r->input < 0)
        return RT_ERRAND_DONE;
    while (!look(r, &status)) {
        bool late = rt_relay_now() >= until;
        if (c->beat(c->arg) && !late)
            continue;
        end(r, &status);
        snprintf(why, size, "it took longer than %u s, and was ended", c->limit_ms / 1000);
        return late ? RT_ERRAND_LATE : RT_ERRAND_CUT;
    }
    return judge(status, why, size);
}

enum rt_errand_end rt_errand_run(const struct rt_errand *c, const struct rt_message *m,
                                 uint32_t attempt, char *why, size_t size)
{
    char number[16];
    const char *const values[VALUES] = {m->id, m->topic, m->key, m->type, c->consumer, number};
    struct running r = {.fd = -1, .input = -1, .at = m->body, .left = m->size};

    assert(c->text != NULL && attempt > 0);
    snprintf(number, sizeof(number), "%u", attempt);
    char **env = environment(values);
    if (env == NULL || !start(&r, c, env)) {
        snprintf(why, size, "it cannot be started: %s", strerror(env == NULL ? ENOMEM : errno));
        free(env);
        return RT_ERRAND_FAILED;
    }
    free(env);
    feed(&r);
    enum rt_errand_end how = await(c, &r, why, size);
    close_input(&r);
    if (r.fd >= 0)
        close(r.fd);
    return how;
}
