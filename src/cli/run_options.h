/* SPDX-License-Identifier: Apache-2.0 */
/* The options of rota run, modelled on flock(1). */
#ifndef RT_RUN_OPTIONS_H
#define RT_RUN_OPTIONS_H

#include "cli/hold.h"

/* Reads ARGV over the defaults in HOLD, which points into ARGV afterwards. Returns an exit
 * code: RT_EXIT_OK, or a message was printed. *DONE: help was shown, there is nothing to do. */
int rt_run_options_parse(struct rt_hold *hold, int argc, char **argv, bool *done);

/* The call_ms of a client for ASK on URL (NULL: the embedded engine): whoever limits the wait for the lock does not
 * wait longer for a server that cannot be reached. 0: the library's own. */
uint32_t rt_run_options_call_ms(const struct rota_ask *ask, const char *url);

#endif
