/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of the dialects on Redis, in rounds that alternate with the lock that everybody writes by hand, with bare
 * hiredis. */
#include "redis.h"

#include <stdio.h>

#define ROUNDS 15
#define NAME "dialect-pair"

static double by_hand_us(struct simple *simple, int n)
{
    int64_t from = rt_bench_ns();
    for (int i = 0; i < n; i++) {
        bench_done(!simple_try(simple, NAME, "0123456789abcdef0123456789abcdef"));
        simple_leave(simple, NAME, "0123456789abcdef0123456789abcdef");
    }
    return (double)(rt_bench_ns() - from) / 1000 / n;
}

static double rota_us(struct rota *r, int n)
{
    int64_t from = rt_bench_ns();
    double one = 0;
    for (int i = 0; i < n; i++)
        bench_done(rt_bench_pairs(r, NAME, NULL, 1, &one));
    return (double)(rt_bench_ns() - from) / 1000 / n;
}

/* Ours with DIALECT, theirs by hand, and how many of ours per one of theirs. */
static void beside(const struct bench *b, const struct redis *s, const char *dialect, double goal)
{
    char url[128], what[80];
    double ours[ROUNDS], theirs[ROUNDS], rate[ROUNDS];
    int n = (int)(400 * b->scale) + 1;
    struct simple simple;
    struct rota *r = NULL;
    snprintf(url, sizeof(url), "%s/?dialect=%s", s->url, dialect);
    const struct rt_bench place = {.url = url, .prefix = ""};
    bench_done(rt_bench_open(&place, &r, NULL));
    simple_open(&simple, redis_dial(s, false));
    for (int i = -1; i < ROUNDS; i++) { /* the first warms up */
        int at = i < 0 ? 0 : i;
        theirs[at] = by_hand_us(&simple, n);
        ours[at] = rota_us(r, n);
        rate[at] = theirs[at] / ours[at];
    }
    redisFree(simple.c);
    rota_close(r);
    bench_say(b, "redis: SET NX PX + compare and delete by bare hiredis",
              rt_bench_median(theirs, ROUNDS), "us");
    snprintf(what, sizeof(what), "redis: pair of dialect %s", dialect);
    bench_say(b, what, rt_bench_median(ours, ROUNDS), "us");
    snprintf(what, sizeof(what), "redis: rate of dialect %s / by hand", dialect);
    if (goal > 0)
        bench_goal(b, what, rt_bench_median(rate, ROUNDS), "x", true, goal);
    else
        bench_say(b, what, rt_bench_median(rate, ROUNDS), "x");
}

void redis_bench_dialects(const struct bench *b, const struct redis *s)
{
    beside(b, s, "token", 0.9);
    beside(b, s, "redisson", 0);
    beside(b, s, "redisson-fair", 0);
    beside(b, s, "redisson-rw", 0);
}
