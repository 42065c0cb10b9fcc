/* SPDX-License-Identifier: Apache-2.0 */
/* The command that rota run runs: its process group, its terminal, its end. */
#include "cli/child.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool owns_terminal(int tty)
{
    return tty >= 0 && tcgetpgrp(tty) == getpgrp();
}

static void (*file_size_action)(int) = SIG_DFL;

void rt_child_ignore_file_size(void)
{
    file_size_action = signal(SIGXFSZ, SIG_IGN);
}

/* ---- The start ---------------------------------------------------------- */

static ssize_t read_whole(int fd, void *out, size_t size)
{
    ssize_t n;

    do
        n = read(fd, out, size);
    while (n < 0 && errno == EINTR);
    return n;
}

/* In the child. Only async-signal-safe calls: the library's state is the parent's. */
static _Noreturn void exec_child(const struct rt_child *child, int talk, char **argv,
                                 const sigset_t *mask, int death_signal)
{
    char byte;

    setpgid(0, 0);
    if (child->foreground)
        tcsetpgrp(child->tty, getpid());
    /* The second line of defence, should the guardian be killed together with rota. */
    prctl(PR_SET_PDEATHSIG, death_signal);
    close(child->talk); /* or its end would never be seen */
    if (read_whole(talk, &byte, 1) != 1)
        _exit(RT_EXIT_LOST);
    signal(SIGXFSZ, file_size_action);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);

    int err = errno;
    send(talk, &err, sizeof(err), MSG_NOSIGNAL);
    _exit(RT_EXIT_NOT_FOUND);
}

int rt_child_fork(struct rt_child *child, char **argv, const sigset_t *mask, int death_signal)
{
    int talk[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) != 0)
        return errno;
    child->talk = talk[0];
    child->tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    child->whole = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    child->foreground = child->whole && owns_terminal(child->tty);
    child->pid = fork();
    if (child->pid == 0)
        exec_child(child, talk[1], argv, mask, death_signal);

    int err = child->pid < 0 ? errno : 0;
    close(talk[1]);
    if (err == 0) {
        setpgid(child->pid, child->pid); /* here too: whichever is first, before any signal */
    } else {
        child->pid = 0;
        rt_child_drop(child);
    }
    return err;
}

void rt_child_drop(struct rt_child *child)
{
    close(child->talk);
    rt_child_finish(child);
    child->pid = 0;
}

int rt_child_go(struct rt_child *child)
{
    int err = 0;

    send(child->talk, "g", 1, MSG_NOSIGNAL);
    /* End of file: exec closed it, or the child was killed before; else the errno of exec. */
    if (read_whole(child->talk, &err, sizeof(err)) == (ssize_t)sizeof(err))
        rt_child_drop(child);
    else
        close(child->talk);
    return err;
}

/* ---- While it runs ------------------------------------------------------ */

enum rt_child_state rt_child_look(struct rt_child *child)
{
    siginfo_t info = {0};
    int flags = WSTOPPED | WEXITED | WNOHANG;

    if (waitid(P_PID, (id_t)child->pid, &info, flags | WNOWAIT) != 0 || info.si_pid == 0)
        return RT_CHILD_RUNNING;
    if (info.si_code != CLD_STOPPED)
        return RT_CHILD_ENDED;
    waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG);
    child->stop = info.si_status;
    return RT_CHILD_STOPPED;
}

void rt_child_signal(const struct rt_child *child, int signo)
{
    if (child->pid > 0)
        kill(-child->pid, signo);
}

void rt_child_stop(pid_t pid)
{
    sigset_t stop;

    /* SIGTSTP, not SIGSTOP: the kernel discards it where no shell could continue us. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    kill(pid, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

static bool is_continued(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

static bool wants_terminal(const struct rt_child *child)
{
    return child->stop == SIGTTIN || child->stop == SIGTTOU;
}

void rt_child_reclaim(struct rt_child *child)
{
    if (child->foreground)
        tcsetpgrp(child->tty, getpgrp());
    child->foreground = false;
}

void rt_child_suspend(struct rt_child *child)
{
    if (wants_terminal(child) && owns_terminal(child->tty)) {
        rt_child_resume(child); /* it is ours to give */
        return;
    }
    /* Stopped by somebody's kill -STOP: that stays between the two, unless the shell waits. */
    if (child->tty < 0 || (child->stop == SIGSTOP && !child->foreground))
        return;
    rt_child_reclaim(child);
    rt_child_stop(0);
    /* Our group is orphaned, and nobody will ever say fg: end it, as the kernel ends such groups. */
    if (wants_terminal(child) && !is_continued()) {
        rt_child_signal(child, SIGHUP);
        rt_child_signal(child, SIGCONT);
    }
}

/* Whether nobody could bring our group to the foreground: whoever started us has gone. */
static bool is_orphan(void)
{
    pid_t parent = getppid();

    return parent <= 1 || getsid(parent) != getsid(0);
}

bool rt_child_stay(struct rt_child *child)
{
    if (wants_terminal(child) && owns_terminal(child->tty)) {
        rt_child_resume(child);
        return false;
    }
    if (wants_terminal(child) && is_orphan()) {
        rt_child_signal(child, SIGHUP);
        rt_child_signal(child, SIGCONT);
        return false;
    }
    child->stays = wants_terminal(child) || child->foreground;
    rt_child_reclaim(child);
    return child->stays;
}

bool rt_child_waits(struct rt_child *child)
{
    if (!child->stays || !wants_terminal(child))
        return false;
    if (owns_terminal(child->tty))
        rt_child_resume(child);
    return child->stays;
}

void rt_child_resume(struct rt_child *child)
{
    child->stays = false;
    if ((child->whole || wants_terminal(child)) && owns_terminal(child->tty)) {
        tcsetpgrp(child->tty, child->pid);
        child->foreground = true;
    }
    rt_child_signal(child, SIGCONT);
}

int rt_child_finish(struct rt_child *child)
{
    int status = 0;

    while (child->pid > 0 && waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (child->tty >= 0) {
        rt_child_reclaim(child);
        close(child->tty);
        child->tty = -1;
    }
    child->died_of = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return child->died_of != 0 ? RT_EXIT_SIGNAL + child->died_of : WEXITSTATUS(status);
}
