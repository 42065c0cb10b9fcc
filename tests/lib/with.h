/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command on a server that was started for it: what with-redis, with-etcd and their like have in common. */
#ifndef RT_WITH_H
#define RT_WITH_H

/* From now on SIGTERM, SIGINT and SIGHUP go to the command, once it runs, and we end after it, in good order. */
void rt_with_pass_signals(void);

/* Runs COMMAND (NULL-terminated) with URL for each @URL@ in it; returns its exit code, 128 + n if signal n ended it. It does
 * not outlive us. COMMAND's words are changed. */
int rt_with_run(const char *url, char **command);

#endif
