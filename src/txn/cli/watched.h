/* SPDX-License-Identifier: Apache-2.0 */
/* A demo in a process of its own: whoever stops it leaves no process behind. */
#ifndef RT_WATCHED_H
#define RT_WATCHED_H

#include <stdbool.h>

/* Runs PLAY in a process of its own; what it returns is the exit code. When that process ends, or SIGINT, SIGTERM or
 * SIGHUP comes, everything that it started ends too, by SIGKILL. *STOPPED: a signal ended it, the code is 128 plus its
 * number, and from now on signals have their default effect. Legal while this process has one thread. */
int rt_watched_run(int (*play)(void *arg), void *arg, bool *stopped);

#endif
