/* SPDX-License-Identifier: Apache-2.0 */
/* The options of rota run, after the habits of flock(1). */
#ifndef RT_RUN_OPTIONS_H
#define RT_RUN_OPTIONS_H

#include "cli/hold.h"

/* Reads ARGV over the defaults in HOLD, which points into ARGV afterwards. Returns an exit
 * code: RT_EXIT_OK, or a message was printed. *DONE: help was shown, there is nothing to do. */
int rt_run_options_parse(struct rt_hold *hold, int argc, char **argv, bool *done);

#endif
