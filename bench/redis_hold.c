/* SPDX-License-Identifier: Apache-2.0 */
/* What lasts on Redis: a tenure taken again and again, one passed on between threads, 10,000 of them held, and one
 * whose holder was killed. */
#include "redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HELD 10000
#define THREADS 32
#define ROUNDS 5

static struct rota *open_on(const struct redis *s, const struct rota_options *opts)
{
    const struct rt_bench place = {.url = s->url, .prefix = ""};
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, opts));
    return r;
}

/* ---- Taken again and again ---------------------------------------------- */

void redis_bench_linger(const struct bench *b, const struct redis *s)
{
    const struct rota_options opts = {.ttl_ms = 1000}; /* so that there are heartbeats to see */
    const struct rota_ask ask = {.linger_ms = 60000};
    struct rota *r = open_on(s, &opts);
    double us[ROUNDS], beat_ms = rota_ttl_ms(r) / 3.0;
    int n = (int)(500000 * b->scale) + 1;
    bench_done(rt_bench_pairs(r, "linger", &ask, 1, us));
    redis_forget(s);
    int64_t from = rt_bench_ns();
    for (int i = 0; i < ROUNDS; i++)
        bench_done(rt_bench_pairs(r, "linger", &ask, n, &us[i]));
    double ms = (double)(rt_bench_ns() - from) / 1e6;
    double requests = redis_calls(s, "evalsha") + redis_calls(s, "eval");
    double others = redis_calls(s, "subscribe") + redis_calls(s, "ping") + redis_calls(s, "wait");
    rota_close(r);
    bench_goal(b, "redis: pairs with linger_ms", 1e6 / rt_bench_median(us, ROUNDS), "/s", true,
               1e6);
    /* One more than fit, depending on where they fall; the rest because heartbeats come early. */
    bench_goal(b, "redis: requests meanwhile, heartbeats due", requests + others, "", false,
               ms / beat_ms * 1.25 + 1);
}

/* ---- Passed on ---------------------------------------------------------- */

void redis_bench_threads(const struct bench *b, const struct redis *s)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    struct rota *passing = open_on(s, NULL), *strict = open_on(s, &never);
    double with[ROUNDS], without[ROUNDS], gain[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        bench_done(rt_bench_threads(passing, "threads", THREADS, 0.4 * b->scale, &with[i]));
        bench_done(
            rt_bench_threads(strict, "threads-strict", THREADS, 0.4 * b->scale, &without[i]));
        gain[i] = with[i] / without[i];
    }
    rota_close(strict);
    rota_close(passing);
    bench_say(b, "redis: 32 threads, without passing on", rt_bench_median(without, ROUNDS), "/s");
    bench_say(b, "redis: 32 threads, passing on", rt_bench_median(with, ROUNDS), "/s");
    bench_goal(b, "redis: passing on / without", rt_bench_median(gain, ROUNDS), "x", true, 3);
}

/* ---- Held --------------------------------------------------------------- */

/* What a heartbeat costs the server, and what a second of holding costs us. */
static void watch_beats(const struct bench *b, const struct redis *s, int held)
{
    char what[80];
    redis_forget(s);
    double before = rt_bench_cpu_us();
    usleep(2000000);
    double ours = (rt_bench_cpu_us() - before) / 2, beats = redis_calls(s, "evalsha");
    snprintf(what, sizeof what, "redis: server's time for a heartbeat, %d held", held);
    bench_say(b, what, redis_usec(s, "evalsha") / (beats > 0 ? beats : 1), "us");
    snprintf(what, sizeof what, "redis: our CPU in a second of that, ttl 1 s, %d held", held);
    bench_say(b, what, ours, "us");
    snprintf(what, sizeof what, "redis: requests in a second of that, %d held", held);
    bench_goal(b, what, beats / 2, "/s", false, 5);
}

static void many(const struct bench *b, const struct redis *s)
{
    const struct rota_options opts = {.ttl_ms = 1000};
    static struct rota_lock *locks[HELD];
    int n = (int)(HELD * b->scale);
    struct rota *r = open_on(s, &opts);
    double before = 0;
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "held-%06d", i);
        bench_done(rota_acquire(r, name, NULL, &locks[i]));
        if (i == 0) {
            watch_beats(b, s, 1);
            before = redis_info(s, "memory", "used_memory");
        }
    }
    double each = (redis_info(s, "memory", "used_memory") - before) / (n - 1);
    watch_beats(b, s, n);
    bench_say(b, "redis: the server's bytes for each held lock", each, "B");
    for (int i = 0; i < n; i++)
        bench_done(rota_release(locks[i]));
    rota_close(r);
}

static void our_memory(const struct bench *b, const struct redis *s)
{
    const struct rt_bench place = {.url = s->url, .prefix = ""};
    enum { BINS = 10 };
    double us[BINS], each = 0;
    bench_done(rt_bench_held(&place, (int)(HELD * b->scale), BINS, us, &each));
    bench_goal(b, "redis: our bytes for each held lock", each, "B", false, 400);
    bench_goal(b, "redis: acquire, the last three tenths / the first three",
               rt_bench_median(us + BINS - 3, 3) / rt_bench_median(us, 3), "x", false, 1.5);
}

void redis_bench_held(const struct bench *b, const struct redis *s)
{
    many(b, s);
    our_memory(b, s);
}

void redis_bench_takeover(const struct bench *b, const struct redis *s)
{
    const struct rt_bench place = {.url = s->url, .prefix = ""};
    enum { MOST = 5 };
    double ms[MOST];
    size_t n = b->scale < 1 ? 1 : MOST;
    bench_done(rt_bench_takeover(&place, 1000, n, ms));
    bench_say(b, "redis: takeover after kill -9, ttl 1 s, median", rt_bench_median(ms, n), "ms");
    bench_say(b, "redis: takeover after kill -9, ttl 1 s, worst", rt_bench_quantile(ms, n, 1),
              "ms");
}
