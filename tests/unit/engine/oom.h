/* SPDX-License-Identifier: Apache-2.0 */
/* The server of test_oom.c: a file per engine. */
#ifndef RT_OOM_H
#define RT_OOM_H

#include <stdbool.h>
#include <stddef.h>

/* Starts one, and returns how to reach it; valid until oom_stop. */
const char *oom_start(void);
void oom_stop(void);
/* How much is left that ends with its session, or should have been taken back. */
size_t oom_left(void);
/* Nobody stands in a line. What could not be taken back for lack of memory ends with its ttl; it is removed here.
 * False: that is too much, and more may be taken back. */
bool oom_settle(void);

#endif
