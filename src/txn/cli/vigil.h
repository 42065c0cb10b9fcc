/* SPDX-License-Identifier: Apache-2.0 */
/* How the daemons (recover, serve) wait: for the signal that ends them, and for files of resources that have changed.
 *
 *   wait ──┬── SIGTERM, SIGINT ──▶ it is to end
 *          ├── SIGHUP: read now; but if the terminal has gone, it is to end
 *          └── every LOOK_MS: the files have changed since they were read, and not since the last look ──▶ read
 *
 * What is read counts, with one line that says so; a file that cannot be used is refused with one line, once, and the
 * old list stays. A file is not read while somebody is writing it: it must look the same twice. */
#ifndef RT_VIGIL_H
#define RT_VIGIL_H

#include "txn/cli/visit.h"

#include <signal.h>

struct rt_vigil {
    const struct rt_visit *v;
    const char *path;
    void (*say)(int level, const char *line); /* ROTA_LOG_* */
    sigset_t signals;
    struct rt_resources_stamp read, seen;
    bool terminal; /* there was one */
};

/* Blocks the signals, for all threads to come. Before V is opened with ARGS; waiting comes after that. */
void rt_vigil_begin(struct rt_vigil *g, const struct rt_visit *v, const struct rt_args *args,
                    void (*say)(int level, const char *line));
/* Waits for MS at most. True: it is to end. */
bool rt_vigil_wait(struct rt_vigil *g, int64_t ms);

#endif
