/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on Redis: all on one server, which is started for the first of them. */
#include "redis.h"

static struct redis server;
static bool started;

static const struct redis *the_server(const struct bench *b)
{
    if (!started)
        redis_start(&server, b);
    started = true;
    return &server;
}

void bench_redis_stop(void)
{
    if (started)
        redis_stop(&server);
    started = false;
}

void bench_redis_pair(const struct bench *b)
{
    redis_bench_pairs(b, the_server(b));
}

void bench_redis_line(const struct bench *b)
{
    redis_bench_lines(b, the_server(b));
}

void bench_redis_hold(const struct bench *b)
{
    redis_bench_holds(b, the_server(b));
}
