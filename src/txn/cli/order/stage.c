/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the play: where they meet, and what they tell the player. */
#include "txn/cli/order/stage.h"

#include "cli/scratch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PATIENCE_MS 60000

_Static_assert(sizeof(struct rt_event) <= PIPE_BUF, "events are written whole, or not at all");

bool rt_stage_open(struct rt_stage *s, const char *folder)
{
    snprintf(s->folder, sizeof(s->folder), "%s", folder);
    snprintf(s->resources, sizeof(s->resources), "%s/journal", folder);
    if (!rt_scratch_file_url(s->journal, sizeof(s->journal), s->resources)) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(s->resources, sizeof(s->resources), "%s/resources", folder);
    s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
    return s->shared != MAP_FAILED && pipe2(s->events, O_CLOEXEC) == 0;
}

const char *rt_stage_database(const struct rt_stage *s, int service, char out[PATH_MAX + 32])
{
    snprintf(out, PATH_MAX + 32, "%s/%s.db", s->folder, rt_order_names[service]);
    return out;
}

/* ---- What they tell -------------------------------------------------------------------- */

void rt_stage_tell(const struct rt_stage *s, const struct rt_event *e)
{
    while (write(s->events[1], e, sizeof(*e)) < 0 && errno == EINTR)
        continue; /* the player has gone: so do we */
}

void rt_stage_says(const struct rt_stage *s, const char *who, int op, const char *text)
{
    struct rt_event e = {.kind = RT_EVENT_SAYS, .op = op};

    snprintf(e.who, sizeof(e.who), "%s", who);
    snprintf(e.text, sizeof(e.text), "%s", text);
    rt_stage_tell(s, &e);
}

int rt_stage_fail(const struct rt_stage *s, const char *who, const char *why)
{
    struct rt_event e = {.kind = RT_EVENT_ERROR};

    snprintf(e.text, sizeof(e.text), "%s: %s", who, why);
    rt_stage_tell(s, &e);
    return 1;
}

int rt_stage_next(const struct rt_stage *s, int life, struct rt_event *out)
{
    struct pollfd fds[2] = {{.fd = s->events[0], .events = POLLIN}, {.fd = life, .events = POLLIN}};
    int n;

    while ((n = poll(fds, 2, PATIENCE_MS)) < 0 && errno == EINTR)
        continue;
    if (n > 0 && fds[0].revents == 0) /* what it said before it ended is here by now */
        n = poll(fds, 1, 0) > 0 ? 1 : 2;
    if (n <= 0)
        return -1;
    if ((fds[0].revents & POLLIN) == 0)
        return 0;
    ssize_t size = read(s->events[0], out, sizeof(*out));
    assert(size == (ssize_t)sizeof(*out));
    return 1;
}

/* ---- Processes --------------------------------------------------------------------------- */

pid_t rt_stage_start(const struct rt_stage *s, int (*fn)(const struct rt_stage *s, void *arg),
                     void *arg, int *life)
{
    pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        _exit(getppid() == parent ? fn(s, arg) : 1);
    }
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        *life = ends[0];
    return pid;
}
