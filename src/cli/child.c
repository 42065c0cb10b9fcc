/* SPDX-License-Identifier: Apache-2.0 */
/* The command that rota run runs: its process group, its terminal, its end. */
#include "cli/child.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool owns_terminal(int tty)
{
    return tty >= 0 && tcgetpgrp(tty) == getpgrp();
}

/* In the child. Only async-signal-safe calls: the library's state is the parent's. */
static void exec_child(const struct rt_child *child, pid_t parent, char **argv,
                       const sigset_t *mask, int report)
{
    setpgid(0, 0);
    if (child->foreground)
        tcsetpgrp(child->tty, getpid());
    /* With rota killed the lock is free at once, so the command must not go on. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RT_EXIT_LOST);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);

    int err = errno;
    ssize_t written = write(report, &err, sizeof(err));
    (void)written;
    _exit(RT_EXIT_NOT_FOUND);
}

/* 0 when exec closed the pipe, else the errno that came through it. */
static int read_report(int fd)
{
    int err = 0;
    ssize_t n;

    do
        n = read(fd, &err, sizeof(err));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(err) ? err : 0;
}

int rt_child_start(struct rt_child *child, char **argv, const sigset_t *mask)
{
    pid_t parent = getpid();
    int report[2];

    if (pipe2(report, O_CLOEXEC) != 0)
        return errno;
    child->tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    child->foreground = owns_terminal(child->tty) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    child->pid = fork();
    if (child->pid == 0)
        exec_child(child, parent, argv, mask, report[1]);

    int err = child->pid < 0 ? errno : 0;
    close(report[1]);
    if (err == 0) {
        setpgid(child->pid, child->pid); /* also here: whoever is first, before any signal */
        err = read_report(report[0]);
        if (err != 0)
            waitpid(child->pid, NULL, 0);
    }
    close(report[0]);
    if (err != 0) {
        rt_child_finish(child);
        child->pid = 0;
    }
    return err;
}

enum rt_child_state rt_child_look(struct rt_child *child)
{
    int status;
    pid_t pid = waitpid(child->pid, &status, WNOHANG | WUNTRACED);

    if (pid != child->pid)
        return RT_CHILD_RUNNING;
    child->status = status;
    return WIFSTOPPED(status) ? RT_CHILD_STOPPED : RT_CHILD_ENDED;
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

bool rt_child_suspend(struct rt_child *child)
{
    int signo = WSTOPSIG(child->status);

    if (child->tty < 0)
        return false;
    if ((signo == SIGTTIN || signo == SIGTTOU) && owns_terminal(child->tty))
        return true; /* it only wanted the terminal, which is ours to give */
    if (child->foreground)
        tcsetpgrp(child->tty, getpgrp());
    child->foreground = false;
    rt_child_stop(0);
    return true;
}

void rt_child_resume(struct rt_child *child)
{
    if (owns_terminal(child->tty)) {
        tcsetpgrp(child->tty, child->pid);
        child->foreground = true;
    }
    rt_child_signal(child, SIGCONT);
}

int rt_child_finish(struct rt_child *child)
{
    if (child->tty >= 0) {
        if (child->foreground)
            tcsetpgrp(child->tty, getpgrp());
        close(child->tty);
        child->tty = -1;
    }
    if (WIFSIGNALED(child->status))
        return RT_EXIT_SIGNAL + WTERMSIG(child->status);
    return WEXITSTATUS(child->status);
}
