/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors in somebody else's process: 0 to 2 are the program's, even while they are closed. */
#include "net/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <rota.h>
#include <unistd.h>

#define FIRST_OURS 3
#define ROOM_MOST 16

/* Reading or writing it fails as if it were closed. */
static int open_nothing(void)
{
    return open("/", O_PATH | O_CLOEXEC);
}

int rt_fd_lift(int fd)
{
    if (fd < 0 || fd >= FIRST_OURS)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OURS);
    int saved = errno;
    close(fd);
    errno = saved;
    return high;
}

int rt_fd_keep(struct rt_fd_low *low)
{
    low->taken = 0;
    for (;;) {
        int fd = open_nothing();
        if (fd >= FIRST_OURS) {
            close(fd);
            return 0;
        }
        if (fd < 0) {
            rt_fd_leave(low);
            return ROTA_UNREACHABLE;
        }
        low->taken |= 1u << fd;
    }
}

void rt_fd_leave(struct rt_fd_low *low)
{
    int saved = errno;

    for (int fd = 0; fd < FIRST_OURS; fd++) {
        int flags = (low->taken & 1u << fd) != 0 ? fcntl(fd, F_GETFL) : -1;
        if (flags >= 0 && (flags & O_PATH) != 0) /* else the program put its own there meanwhile */
            close(fd);
    }
    low->taken = 0;
    errno = saved;
}

int rt_fd_room(int n)
{
    int fds[ROOM_MOST], count = 0;

    assert(n <= ROOM_MOST);
    while (count < n && (fds[count] = open_nothing()) >= 0)
        count++;
    int saved = errno, rv = count < n ? ROTA_UNREACHABLE : 0;
    while (count > 0)
        close(fds[--count]);
    errno = saved;
    return rv;
}
