/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks off calls that wait for an engine, as soon as somebody types or a signal comes. */
#ifndef RT_BREAKOFF_H
#define RT_BREAKOFF_H

#include <pthread.h>
#include <rota.h>
#include <stdbool.h>

struct rt_breakoff {
    struct rota *r;
    int fds[2];  /* -1: none */
    int over_fd; /* readable: nothing more is to be broken off */
    bool begun;
    pthread_t thread;
};

/* From now on calls on R that wait return ROTA_CANCELED once FD_A or FD_B (-1: none) is readable; nothing is read from
 * it. The signals that come through a descriptor must already be blocked. If no thread can be started, nothing is
 * broken off. */
void rt_breakoff_begin(struct rt_breakoff *b, struct rota *r, int fd_a, int fd_b);
void rt_breakoff_end(struct rt_breakoff *b);

#endif
