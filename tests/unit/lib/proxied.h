/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the fault proxy share: one real Redis, a proxy in front of it, clients through it. */
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

#define SOON_MS 20000 /* waited for in full only if something is broken */

extern struct rt_redis redis;
extern struct rt_proxy *proxy;

int start_redis(void **state); /* for the group */
int stop_redis(void **state);
int start_proxy(void **state); /* for each test: a new proxy with the RESP framing */
int stop_proxy(void **state);

redisContext *connect_through(void);
/* Sends one command; asserts that its reply is a status or string TEXT (NULL: any reply). */
void ask(redisContext *c, const char *text, const char *command);
/* The next reply of what was written before. */
void expect(redisContext *c, const char *text);
void write_out(redisContext *c, const char *command);
/* Asserts that nothing has come within a moment that is long for loopback. */
void expect_silence(redisContext *c);
/* Asserts that the connection ends with ERR as errno (0: by FIN). */
void expect_end(redisContext *c, int err);
struct rt_proxy_counts counts(void);

#endif
