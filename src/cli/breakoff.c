/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks off calls that wait for an engine: a thread watches the descriptors meanwhile. */
#include "cli/breakoff.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AGAIN_MS 10 /* another call may begin after the interrupt: so once more */

static void *look_out(void *arg)
{
    struct rt_breakoff *b = arg;
    struct pollfd fds[3] = {
        {.fd = b->over_fd, .events = POLLIN},
        {.fd = b->fds[0], .events = POLLIN},
        {.fd = b->fds[1], .events = POLLIN},
    };

    while (poll(fds, 3, -1) <= 0)
        ;
    while (fds[0].revents == 0) {
        rota_interrupt(b->r);
        poll(fds, 1, AGAIN_MS);
    }
    return NULL;
}

void rt_breakoff_begin(struct rt_breakoff *b, struct rota *r, int fd_a, int fd_b)
{
    *b = (struct rt_breakoff){.r = r, .fds = {fd_a, fd_b}};
    b->over_fd = eventfd(0, EFD_CLOEXEC);
    if (b->over_fd < 0)
        return;
    b->begun = pthread_create(&b->thread, NULL, look_out, b) == 0;
    if (!b->begun)
        close(b->over_fd);
}

void rt_breakoff_end(struct rt_breakoff *b)
{
    if (!b->begun)
        return;
    b->begun = false;
    eventfd_write(b->over_fd, 1);
    pthread_join(b->thread, NULL);
    close(b->over_fd);
}
