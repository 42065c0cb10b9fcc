/* SPDX-License-Identifier: Apache-2.0 */
/* Another client of an engine, as a child process that is told what to measure, line by line. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noreturn)) static void give_up(const char *why)
{
    fprintf(stderr, "rota-bench: a peer: %s\n", why);
    exit(1);
}

/* In the folder of our own program. */
static void find_program(const char *name, char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - strlen(name) - 2);
    if (n < 0)
        give_up(strerror(errno));
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    strcpy(slash != NULL ? slash + 1 : out, name);
}

static void become_peer(const char *program, const char *endpoint, int in, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execl(program, program, endpoint, (char *)NULL);
    _exit(127);
}

bool peer_start(struct peer *p, const char *name, const char *endpoint)
{
    char program[PATH_MAX], line[16] = "";
    int to[2], from[2];
    find_program(name, program);
    if (access(program, X_OK) != 0)
        return false;
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        give_up(strerror(errno));
    p->pid = fork();
    if (p->pid == 0)
        become_peer(program, endpoint, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    if (p->pid < 0 || p->to == NULL || p->from == NULL)
        give_up(strerror(errno));
    if (fgets(line, sizeof line, p->from) != NULL && strcmp(line, "ready\n") == 0)
        return true;
    peer_stop(p);
    return false;
}

void peer_stop(struct peer *p)
{
    if (p->pid == 0)
        return;
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    fclose(p->to);
    fclose(p->from);
    *p = (struct peer){0};
}

__attribute__((format(printf, 2, 0))) static void tell(struct peer *p, const char *format,
                                                       va_list args)
{
    if (vfprintf(p->to, format, args) < 0 || fputc('\n', p->to) == EOF || fflush(p->to) != 0)
        give_up(strerror(errno));
}

void peer_tell(struct peer *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell(p, format, args);
    va_end(args);
}

void peer_hear(struct peer *p, double *numbers, size_t n)
{
    char line[256], *at = line, *end;
    if (fgets(line, sizeof line, p->from) == NULL)
        give_up("it has ended");
    for (size_t i = 0; i < n; i++, at = end) {
        numbers[i] = strtod(at, &end);
        if (end == at)
            give_up(line);
    }
}

double peer_ask(struct peer *p, const char *format, ...)
{
    double number;
    va_list args;
    va_start(args, format);
    tell(p, format, args);
    va_end(args);
    peer_hear(p, &number, 1);
    return number;
}
