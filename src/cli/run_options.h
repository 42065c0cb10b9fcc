/* SPDX-License-Identifier: Apache-2.0 */
/* The options of rota run, after the habits of flock(1). */
#ifndef RT_RUN_OPTIONS_H
#define RT_RUN_OPTIONS_H

#include <rota.h>
#include <stdbool.h>

struct rt_run_asked {
    const char *name; /* of the lock */
    char **command;
    struct rota_ask ask;
    struct rota_options options;
    int busy_exit; /* the exit code when it is not granted in time */
};

/* Reads ARGV over the defaults in ASKED, which points into ARGV afterwards. Returns an exit
 * code: RT_EXIT_OK, or a message was printed. *DONE: help was shown, there is nothing to do. */
int rt_run_options_parse(struct rt_run_asked *asked, int argc, char **argv, bool *done);

#endif
