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

#define BENCH(name, run)                           \
    void bench_redis_##name(const struct bench *b) \
    {                                              \
        run(b, the_server(b));                     \
    }
BENCH(pair, redis_bench_pairs)
BENCH(flight, redis_bench_flight)
BENCH(cost, redis_bench_cost)
BENCH(fsync, redis_bench_fsync)
BENCH(dialects, redis_bench_dialects)
BENCH(peers, redis_bench_peers)
BENCH(handover, redis_bench_handover)
BENCH(waiters, redis_bench_waiters)
BENCH(linger, redis_bench_linger)
BENCH(threads, redis_bench_threads)
BENCH(held, redis_bench_held)
BENCH(takeover, redis_bench_takeover)
