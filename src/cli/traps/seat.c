/* SPDX-License-Identifier: Apache-2.0 */
/* A seat at a server: the server's own client, in a separate process, driven line by line.
 *
 * Clients do not mark where a reply ends. So each line is followed by one that makes the client print a word of ours:
 * everything before that word is the reply. */
#include "cli/traps/seat.h"

#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 30000

static void be_client(char *const *argv, const int to[2], const int from[2], pid_t parent)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RT_EXIT_FAILED);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    dup2(from[1], STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(errno == ENOENT ? RT_EXIT_NOT_FOUND : RT_EXIT_CANNOT_RUN);
}

int rt_seat_open(struct rt_seat *seat, char *const *argv, const char *echo, const char *end)
{
    int to[2], from[2];
    pid_t parent = getpid();

    assert(seat->pid == 0);
    if (pipe2(to, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(from, O_CLOEXEC) != 0) {
        int err = errno;
        close(to[0]);
        close(to[1]);
        return err;
    }
    fflush(NULL);
    pid_t pid = fork();
    int err = pid < 0 ? errno : 0;
    if (pid == 0)
        be_client(argv, to, from, parent);
    close(to[0]);
    close(from[1]);
    *seat = (struct rt_seat){.pid = pid, .to = to[1], .from = from[0], .echo = echo, .end = end};
    if (err != 0) {
        seat->pid = 0;
        close(seat->to);
        close(seat->from);
    }
    return err;
}

static bool put(const struct rt_seat *seat, const char *text)
{
    size_t size = strlen(text), done = 0;

    while (done < size) {
        ssize_t n = write(seat->to, text + done, size - done);
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

bool rt_seat_send(struct rt_seat *seat, const char *line)
{
    char echo[64];

    if (seat->pid == 0 || !put(seat, line) || !put(seat, "\n"))
        return false;
    if (seat->echo == NULL)
        return true;
    snprintf(echo, sizeof(echo), "%srota-said-%u%s", seat->echo, ++seat->said, seat->end);
    return put(seat, echo) && put(seat, "\n");
}

/* Reads on. False: nothing more will come, or not in time, or a signal came. */
static bool more(struct rt_seat *seat)
{
    struct pollfd input = {.fd = seat->from, .events = POLLIN};

    if (seat->got + 1 >= sizeof(seat->text) || poll(&input, 1, PATIENCE_MS) <= 0)
        return false;
    ssize_t n = read(seat->from, seat->text + seat->got, sizeof(seat->text) - 1 - seat->got);
    if (n <= 0)
        return false;
    seat->got += (size_t)n;
    seat->text[seat->got] = '\0';
    return true;
}

/* The next line, in place, without its newline; drop drops it. */
static char *whole_line(struct rt_seat *seat)
{
    char *end;

    while ((end = memchr(seat->text, '\n', seat->got)) == NULL)
        if (!more(seat))
            return NULL;
    *end = '\0';
    return seat->text;
}

static void drop(struct rt_seat *seat)
{
    size_t size = strlen(seat->text) + 1;

    assert(size <= seat->got);
    memmove(seat->text, seat->text + size, seat->got - size);
    seat->got -= size;
    seat->text[seat->got] = '\0';
}

const char *rt_seat_reply(struct rt_seat *seat)
{
    char mark[32];
    size_t used = 0;
    char *line;

    if (seat->pid == 0)
        return NULL;
    assert(seat->echo != NULL);
    snprintf(mark, sizeof(mark), "rota-said-%u", seat->said);
    seat->reply[0] = '\0';
    while ((line = whole_line(seat)) != NULL) {
        bool ended = strstr(line, mark) != NULL;
        if (!ended && line[0] != '\0' && used < sizeof(seat->reply))
            used += (size_t)snprintf(seat->reply + used, sizeof(seat->reply) - used, "%s%s",
                                     used == 0 ? "" : "; ", line);
        drop(seat);
        if (ended)
            return seat->reply;
    }
    return NULL;
}

const char *rt_seat_line(struct rt_seat *seat)
{
    char *line = seat->pid == 0 ? NULL : whole_line(seat);

    if (line == NULL)
        return NULL;
    snprintf(seat->reply, sizeof(seat->reply), "%s", line);
    drop(seat);
    return seat->reply;
}

static int reap(struct rt_seat *seat)
{
    int status = 0;

    close(seat->from);
    while (waitpid(seat->pid, &status, 0) < 0 && errno == EINTR)
        ;
    seat->pid = 0;
    return WIFSIGNALED(status) ? RT_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int rt_seat_wait(struct rt_seat *seat)
{
    if (seat->pid == 0)
        return RT_EXIT_FAILED;
    close(seat->to);
    seat->got = 0;
    while (more(seat)) /* it may print more than a pipe takes */
        seat->got = 0;
    return reap(seat);
}

void rt_seat_close(struct rt_seat *seat)
{
    if (seat->pid == 0)
        return;
    kill(seat->pid, SIGKILL);
    close(seat->to);
    (void)reap(seat);
}
