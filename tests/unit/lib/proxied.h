/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the fault proxy share: one real Redis, a proxy before it, clients through it. */
#ifndef RT_PROXIED_H
#define RT_PROXIED_H

#include "lib/proc.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOON_MS 20000 /* never waited for in full unless something is broken */

extern struct rt_redis redis;
extern struct rt_proxy *proxy;

int start_redis(void **state); /* for the group */
int stop_redis(void **state);
int start_proxy(void **state); /* for each test: a new proxy with the RESP framing */
int stop_proxy(void **state);

redisContext *connect_through(void);
/* Asserts that the reply is a status or string TEXT (NULL: any reply), by one command. */
void ask(redisContext *c, const char *text, const char *command);
/* The next reply of what was written before. */
void expect(redisContext *c, const char *text);
void write_out(redisContext *c, const char *command);
/* Asserts that nothing has come within a moment that is long for loopback. */
void expect_silence(redisContext *c);
/* Asserts that the connection ends; by which errno (0: by FIN). */
void expect_end(redisContext *c, int err);
struct rt_proxy_counts counts(void);

#endif
