/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: signals, and the files of resources. */
#include "txn/cli/vigil.h"

#include "txn/cli/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 500

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void rt_vigil_begin(struct rt_vigil *g, const struct rt_visit *v, const struct rt_args *args,
                    void (*say)(int level, const char *line))
{
    *g = (struct rt_vigil){.v = v, .path = args->resources, .say = say};
    g->terminal = has_terminal();
    sigemptyset(&g->signals);
    sigaddset(&g->signals, SIGTERM);
    sigaddset(&g->signals, SIGINT);
    sigaddset(&g->signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &g->signals, NULL);
    rt_resources_stamp(g->path, &g->read);
    g->seen = g->read;
}

/* ---- The files ---------------------------------------------------------------- */

static void read_again(struct rt_vigil *g)
{
    struct rota_txns *m = g->v->m;
    char what[400], line[600];

    g->read = g->seen; /* what changes from here on is seen at the next look */
    int err = rt_txns_reload(m, g->path, what, sizeof(what));
    if (err == 0)
        rt_hook_use(rt_resources_on_attention(rt_txns_resources(m)));
    snprintf(line, sizeof(line),
             err != 0 ? "the list of resources was not read again, the old one stays: %s"
                      : "the list of resources was read again: %s",
             what[0] != '\0' ? what : "no name has another URL");
    g->say(err != 0 ? ROTA_LOG_WARN : ROTA_LOG_INFO, line);
}

static bool is_same(const struct rt_resources_stamp *a, const struct rt_resources_stamp *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void look(struct rt_vigil *g)
{
    struct rt_resources_stamp now;

    rt_resources_stamp(g->path, &now);
    bool still = is_same(&now, &g->seen);
    g->seen = now;
    if (still && !is_same(&now, &g->read))
        read_again(g);
}

/* ---- Waiting ------------------------------------------------------------------- */

/* The signal that came within MS; 0: none did. */
static int signal_within(const struct rt_vigil *g, int64_t ms)
{
    struct timespec limit = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    int signo;

    do
        signo = sigtimedwait(&g->signals, NULL, &limit);
    while (signo < 0 && errno == EINTR);
    return signo > 0 ? signo : 0;
}

bool rt_vigil_wait(struct rt_vigil *g, int64_t ms)
{
    for (;;) {
        int64_t step = ms < LOOK_MS ? ms : LOOK_MS;
        int signo = signal_within(g, step);
        if (signo == SIGTERM || signo == SIGINT ||
            (signo == SIGHUP && g->terminal && !has_terminal()))
            return true;
        if (signo == SIGHUP) {
            rt_resources_stamp(g->path, &g->seen);
            read_again(g);
        } else {
            look(g);
        }
        ms -= step;
        if (ms <= 0)
            return false;
    }
}
