/* SPDX-License-Identifier: Apache-2.0 */
/* A demo in a process of its own: whoever stops it leaves no process behind. */
#include "txn/cli/watched.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t stopped_by;
static volatile pid_t player;

static void on_signal(int signo)
{
    stopped_by = signo;
    if (player > 0)
        kill(player, SIGKILL);
}

static void catch_signals(void (*how)(int), sigset_t *set)
{
    struct sigaction action = {.sa_handler = how};

    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

__attribute__((noreturn)) static void play_here(int (*play)(void *arg), void *arg, pid_t parent)
{
    sigset_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RT_EXIT_FAILED);
    catch_signals(SIG_DFL, &set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    int code = play(arg);
    fflush(NULL);
    _exit(code);
}

/* Kills the processes whose parent has gone, which are now ours. */
static void end_children(void)
{
    for (;;) {
        FILE *file = fopen("/proc/thread-self/children", "re");
        char text[1024], *at = text;
        if (file == NULL)
            return;
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        char *last = strrchr(text,
                             ' '); /* behind each; what is cut off comes when these are gone */
        *(last != NULL ? last : text) = '\0';
        for (long pid; (pid = strtol(at, &at, 10)) > 1;)
            kill((pid_t)pid, SIGKILL);
        if (waitpid(-1, NULL, 0) < 0 && errno != EINTR)
            return;
    }
}

int rt_watched_run(int (*play)(void *arg), void *arg, bool *stopped)
{
    pid_t parent = getpid();
    sigset_t set;
    int status = 0;

    *stopped = false;
    catch_signals(on_signal, &set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        play_here(play, arg, parent);
    player = pid;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    if (pid < 0) {
        rt_out_error("cannot start a process: %s", strerror(errno));
        return RT_EXIT_UNREACHABLE;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    player = 0;
    end_children();
    if (WIFEXITED(status) && stopped_by == 0)
        return WEXITSTATUS(status);
    catch_signals(SIG_DFL, &set); /* whoever is impatient */
    *stopped = true;
    return RT_EXIT_SIGNAL + (stopped_by != 0 ? stopped_by : WTERMSIG(status));
}
