/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into rota: a process it kills with SIGKILL dies only when it is waited for. So slow a death is rare, and
 * must not matter. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t doomed;

int kill(pid_t pid, int signo)
{
    if (pid > 0 && signo == SIGKILL) {
        doomed = pid;
        return 0;
    }
    return (int)syscall(SYS_kill, pid, signo);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    if (pid > 0 && pid == doomed && options == 0)
        (void)syscall(SYS_kill, pid, SIGKILL);
    return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}
