/* SPDX-License-Identifier: Apache-2.0 */
/* Uncontended pairs on Redis: one by one and 64 in flight, against bare hiredis with our scripts;
 * and what they cost the server, against the lock that everybody writes by hand. */
#include "redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 21
#define PAIRS_MOST 1000
#define FLIGHT BENCH_FLIGHT
#define FLIGHT_ROUNDS 9
#define NAME "pair"

/* The median of N pairs on BARE, or on R. */
static double pairs_us(struct bare *bare, struct rota *r, int n)
{
    static double us[PAIRS_MOST];
    for (int i = 0; i < n; i++) {
        int64_t from = rt_bench_ns();
        double one = 0;
        if (bare != NULL)
            bare_pair(bare, NAME);
        else
            bench_done(rt_bench_pairs(r, NAME, NULL, 1, &one));
        us[i] = (double)(rt_bench_ns() - from) / 1000;
    }
    return rt_bench_median(us, (size_t)n);
}

struct medians { /* medians of rounds that alternated */
    double ours, theirs, ratio;
};

static struct medians alternate(const struct redis *s, bool by_unix, int rounds, int n)
{
    const struct rt_bench place = {.url = by_unix ? s->unix_url : s->url, .prefix = ""};
    double ours[ROUNDS], theirs[ROUNDS], ratio[ROUNDS];
    struct bare bare;
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, NULL));
    bare_open(&bare, redis_dial(s, by_unix));
    for (int i = -1; i < rounds; i++) { /* the first warms up */
        int at = i < 0 ? 0 : i;
        theirs[at] = pairs_us(&bare, NULL, n);
        ours[at] = pairs_us(NULL, r, n);
        ratio[at] = ours[at] / theirs[at];
    }
    bare_close(&bare);
    rota_close(r);
    size_t count = (size_t)rounds;
    return (struct medians){rt_bench_median(ours, count), rt_bench_median(theirs, count),
                            rt_bench_median(ratio, count)};
}

void redis_bench_pairs(const struct bench *b, const struct redis *s)
{
    struct medians tcp = alternate(s, false, ROUNDS, (int)(400 * b->scale) + 1);
    bench_say(b, "redis: bare hiredis pair, the same scripts", tcp.theirs, "us");
    bench_say(b, "redis: pair", tcp.ours, "us");
    bench_goal(b, "redis: pair / bare hiredis pair", tcp.ratio, "x", false, 1.15);
    struct medians local = alternate(s, true, ROUNDS / 2, (int)(400 * b->scale) + 1);
    bench_say(b, "redis+unix: pair", local.ours, "us");
    bench_say(b, "redis+unix: pair / bare hiredis pair", local.ratio, "x");
}

void redis_bench_fsync(const struct bench *b, const struct redis *s)
{
    freeReplyObject(redis_do(s->control, "CONFIG SET appendfsync always"));
    freeReplyObject(redis_do(s->control, "CONFIG SET appendonly yes"));
    while (redis_info(s, "persistence", "aof_rewrite_in_progress") != 0 ||
           redis_info(s, "persistence", "aof_rewrite_scheduled") != 0)
        usleep(1000);
    struct medians synced = alternate(s, false, 5, (int)(100 * b->scale) + 1);
    freeReplyObject(redis_do(s->control, "CONFIG SET appendonly no"));
    bench_say(b, "redis: pair with appendfsync always", synced.ours, "us");
    bench_say(b, "redis: the same / bare hiredis pair", synced.ratio, "x");
}

/* ---- 64 in flight ------------------------------------------------------- */

/* Pairs per second of one connection that always has 64 requests in flight. */
static double bare_flight(struct bare *bare, int pairs)
{
    char names[FLIGHT][16];
    uint64_t numbers[FLIGHT] = {0}; /* 0: its join is in flight */
    bool empty[FLIGHT] = {false}; /* nothing is: the last ones may be fewer than there are seats */
    int begun = 0;
    int64_t from = rt_bench_ns();
    for (int i = 0; i < FLIGHT; i++, begun++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        bare_append_join(bare, names[i]);
    }
    for (int over = 0, i = 0; over < pairs; i = (i + 1) % FLIGHT) {
        if (empty[i])
            continue;
        if (numbers[i] == 0) {
            numbers[i] = bare_joined(bare);
            bare_append_leave(bare, names[i], numbers[i]);
            continue;
        }
        bare_left(bare);
        numbers[i] = 0;
        over++;
        empty[i] = begun == pairs;
        if (!empty[i]) {
            bare_append_join(bare, names[i]);
            begun++;
        }
    }
    return pairs / ((double)(rt_bench_ns() - from) / 1e9);
}

void redis_bench_flight(const struct bench *b, const struct redis *s)
{
    const struct rt_bench place = {.url = s->url, .prefix = ""};
    double ours[FLIGHT_ROUNDS], theirs[FLIGHT_ROUNDS], ratio[FLIGHT_ROUNDS];
    int n = (int)(8000 * b->scale) + FLIGHT;
    struct bare bare;
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, NULL));
    bare_open(&bare, redis_dial(s, false));
    bench_flight(r, FLIGHT, FLIGHT);
    for (int i = 0; i < FLIGHT_ROUNDS; i++) {
        theirs[i] = bare_flight(&bare, n);
        ours[i] = bench_flight(r, FLIGHT, n);
        ratio[i] = ours[i] / theirs[i];
    }
    bare_close(&bare);
    rota_close(r);
    bench_say(b, "redis: bare hiredis, 64 in flight, pairs", rt_bench_median(theirs, FLIGHT_ROUNDS),
              "/s");
    bench_say(b, "redis: 64 asks in flight, pairs", rt_bench_median(ours, FLIGHT_ROUNDS), "/s");
    bench_goal(b, "redis: 64 in flight / bare hiredis", rt_bench_median(ratio, FLIGHT_ROUNDS), "x",
               true, 0.85);
}

/* ---- What a pair costs the server --------------------------------------- */

/* Microseconds per pair of the commands themselves, and of everything that the process did. */
struct cost {
    double commands, process;
};

static double process_us(const struct redis *s)
{
    return 1e6 * (redis_info(s, "cpu", "used_cpu_user") + redis_info(s, "cpu", "used_cpu_sys"));
}

static struct cost simple_cost(const struct redis *s, struct simple *simple, int n)
{
    redis_forget(s);
    double before = process_us(s);
    for (int i = 0; i < n; i++) {
        bench_done(!simple_try(simple, NAME, "token"));
        simple_leave(simple, NAME, "token");
    }
    double after = process_us(s);
    return (struct cost){(redis_usec(s, "set") + redis_usec(s, "evalsha")) / n,
                         (after - before) / n};
}

static struct cost rota_cost(const struct redis *s, struct rota *r, int n)
{
    double us;
    redis_forget(s);
    double before = process_us(s);
    bench_done(rt_bench_pairs(r, NAME, NULL, n, &us));
    double after = process_us(s);
    return (struct cost){redis_usec(s, "evalsha") / n, (after - before) / n};
}

void redis_bench_cost(const struct bench *b, const struct redis *s)
{
    enum { TIMES = 7 };
    const struct rt_bench place = {.url = s->url, .prefix = ""};
    double ours[TIMES], theirs[TIMES], ratio[TIMES], whole[TIMES];
    int n = (int)(2000 * b->scale) + 1;
    struct simple simple;
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, NULL));
    simple_open(&simple, redis_dial(s, false));
    for (int i = 0; i < TIMES; i++) {
        struct cost by_hand = simple_cost(s, &simple, n), by_rota = rota_cost(s, r, n);
        theirs[i] = by_hand.commands;
        ours[i] = by_rota.commands;
        ratio[i] = ours[i] / theirs[i];
        whole[i] = by_rota.process / by_hand.process;
    }
    redisFree(simple.c);
    rota_close(r);
    bench_say(b, "redis: server's time for SET NX PX + compare and delete",
              rt_bench_median(theirs, TIMES), "us");
    bench_say(b, "redis: server's time for a pair", rt_bench_median(ours, TIMES), "us");
    bench_goal(b, "redis: server's time, pair / SET NX PX", rt_bench_median(ratio, TIMES), "x",
               false, 4);
    bench_say(b, "redis: the same of all that the server's process did",
              rt_bench_median(whole, TIMES), "x");
}
