/* SPDX-License-Identifier: Apache-2.0 */
/* The server of test_oom.c: a file per engine. */
#ifndef RT_OOM_H
#define RT_OOM_H

#include <stddef.h>

/* Starts one, and says how it is reached: in force until oom_stop. */
const char *oom_start(void);
void oom_stop(void);
/* How much is there that ends with its session, or should have been taken back. */
size_t oom_left(void);

#endif
