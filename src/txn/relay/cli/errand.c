/* SPDX-License-Identifier: Apache-2.0 */
/* A command for an event. */
#include "txn/relay/cli/errand.h"

#include "base/bug.h"
#include "cli/guardian.h"

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
    struct rt_guardian guardian;
    pid_t pid;
    int fd;    /* pidfd; -1: none */
    int input; /* takes the rest of the payload; -1: it is closed */
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

/* One block: the list, then the new texts. NULL: no memory. */
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

struct ends { /* of two pipes; each: to read, to write */
    int input[2];
    int go[2]; /* a byte lets the command run */
};

/* In the child: calls only what may be called there. */
static _Noreturn void become(const struct rt_errand *c, char **env, const struct ends *e,
                             pid_t parent)
{
    char *words[] = {(char[]){"sh"}, (char[]){"-c"}, NULL, NULL}, byte;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    memcpy(&words[2], &c->text, sizeof(c->text));
    setpgid(0, 0);
    for (int signo = 1; signo < NSIG; signo++)
        sigaction(signo, &plain, NULL);
    close(e->go[1]); /* or our parent's end would never be seen */
    /* PDEATHSIG: the second line of defence, should the guardian be killed together with us. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        read(e->go[0], &byte, 1) != 1)
        _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(e->input[0], 0) == 0 && (!c->aside || dup2(2, 1) == 1))
        execve("/bin/sh", words, env);
    _exit(127);
}

static void close_both(const int pipe[2])
{
    close(pipe[0]);
    close(pipe[1]);
}

static bool open_ends(struct ends *e)
{
    if (pipe2(e->input, O_CLOEXEC) != 0)
        return false;
    if (pipe2(e->go, O_CLOEXEC) == 0)
        return true;
    int err = errno;
    close_both(e->input);
    errno = err;
    return false;
}

/* The process that will be the command; it runs when its guardian knows it. */
static bool begin(struct running *r, const struct rt_errand *c, char **env)
{
    struct ends e;
    pid_t parent = getpid();

    if (!open_ends(&e))
        return false;
    r->pid = fork();
    if (r->pid == 0)
        become(c, env, &e, parent);
    if (r->pid < 0) {
        int err = errno;
        close_both(e.input);
        close_both(e.go);
        errno = err;
        return false;
    }
    setpgid(r->pid, r->pid); /* also here: before any signal */
    rt_guardian_tell(&r->guardian, r->pid, INT64_MAX, 0);
    close(e.input[0]);
    bool went = write(e.go[1], "g", 1) == 1; /* an end is there, and the pipe is empty */
    assert(went);
    close_both(e.go);
    (void)fcntl(e.input[1], F_SETFL, O_NONBLOCK);
    r->input = e.input[1];
    r->fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    return true;
}

/* The guardian first: with a copy of its standard input's end, the command would never see that end. */
static bool start(struct running *r, const struct rt_errand *c, char **env)
{
    int err = rt_guardian_start(&r->guardian, RT_GUARDIAN_KEEP_ALL, RT_ON_LOST_KILL);

    if (err == 0 && begin(r, c, env))
        return true;
    err = err != 0 ? err : errno;
    rt_guardian_dismiss(&r->guardian);
    rt_guardian_reap(&r->guardian);
    errno = err;
    return false;
}

/* ---- While it runs -------------------------------------------------------------------------- */

static void close_input(struct running *r)
{
    if (r->input >= 0)
        close(r->input);
    r->input = -1;
}

/* A command that does not read its input has its reasons. */
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

/* True: it has ended; its pid and group id stay its own until it is waited for. */
static bool has_ended(const struct running *r)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* The guardian goes while the group is still this one. */
static int reap(struct running *r)
{
    int status = 0;

    rt_guardian_dismiss(&r->guardian);
    while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR) {
    }
    rt_guardian_reap(&r->guardian);
    return status;
}

/* True: it has ended. Else waits for a beat at most. */
static bool look(struct running *r)
{
    struct pollfd fds[2] = {{.fd = r->fd, .events = POLLIN}, {.fd = r->input, .events = POLLOUT}};

    if (has_ended(r))
        return true;
    (void)poll(fds, 2, r->fd >= 0 ? BEAT_MS : LOOK_MS);
    if (r->input >= 0 && fds[1].revents != 0)
        feed(r);
    return false;
}

/* Ends its whole group; first with a signal that lets it tidy up. A process left over after the shell has ended would
 * work on the event while it is retried. */
static void end(struct running *r)
{
    int64_t until = rt_relay_now() + MERCY_MS * MS;

    close_input(r);
    kill(-r->pid, SIGTERM);
    while (!has_ended(r) && rt_relay_now() < until)
        (void)poll(&(struct pollfd){.fd = r->fd, .events = POLLIN}, 1, LOOK_MS);
    kill(-r->pid, SIGKILL);
    (void)reap(r);
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

    if (RT_BUG(RT_BUG_CONSUME_ACK_FIRST) && r->input < 0)
        return RT_ERRAND_DONE;
    while (!look(r)) {
        bool late = rt_relay_now() >= until;
        if (c->beat(c->arg) && !late)
            continue;
        end(r);
        snprintf(why, size, "it took longer than %u s, and was ended", c->limit_ms / 1000);
        return late ? RT_ERRAND_LATE : RT_ERRAND_CUT;
    }
    return judge(reap(r), why, size);
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
