/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors in somebody else's process: 0 to 2 are the program's, even while they are closed.
 *
 * What lands there is written to by the program's printf and closed by its dup2; libuv, which does
 * not lift its own, aborts when it closes one. */
#ifndef RT_FD_H
#define RT_FD_H

/* FD; or a copy of it above 2, with FD closed. -1 (errno set) if there is none left; -1 for -1. */
int rt_fd_lift(int fd);

/* Fills those of 0 to 2 that are closed with descriptors that can be neither read nor written, so
 * that nothing else lands there until rt_fd_leave. 0 or ROTA_UNREACHABLE, errno set. */
struct rt_fd_low {
    unsigned taken; /* bits */
};
int rt_fd_keep(struct rt_fd_low *low);
void rt_fd_leave(struct rt_fd_low *low); /* leaves errno alone */

/* Whether N more can be opened at this moment: 0 or ROTA_UNREACHABLE, errno set. */
int rt_fd_room(int n);

#endif
