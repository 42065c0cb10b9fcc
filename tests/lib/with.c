/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command on a server that was started for it. */
#include "lib/with.h"

#include "lib/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile sig_atomic_t child;

static void pass_on(int sig)
{
    if (child > 0)
        kill((pid_t)child, sig);
    else
        _exit(128 + sig);
}

void rt_with_pass_signals(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction sa = {.sa_handler = pass_on};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &sa, NULL);
}

static char *with_url(const char *arg, const char *url)
{
    const char *at = strstr(arg, "@URL@");
    char *out = NULL;

    if (at == NULL)
        return strdup(arg);
    if (asprintf(&out, "%.*s%s%s", (int)(at - arg), arg, url, at + 5) < 0)
        return NULL;
    return out;
}

int rt_with_run(const char *url, char **command)
{
    pid_t parent = getpid();

    for (char **arg = command; *arg != NULL; arg++)
        *arg = with_url(*arg, url); /* ours until the end */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
            execvp(command[0], command);
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, command[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        return 71;
    child = pid;
    int code = rt_proc_wait(pid);
    for (char **arg = command; *arg != NULL; arg++)
        free(*arg);
    return code >= RT_PROC_SIGNALED ? 128 + code - RT_PROC_SIGNALED : code;
}
