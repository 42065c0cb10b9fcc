/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock on five servers of ours, against what one writes by hand: SET NX on all at once, then compare and delete (or
 * a plain DEL) on all at once, with bare hiredis. */
#include "peer.h"
#include "redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIVE 5
#define ROUNDS 15
#define PAIRS_MOST 600
#define NAME "pair"
#define TOKEN "0123456789abcdef0123456789abcdef"
#define COMPARE \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

static struct redis servers[FIVE];
static char url[200];
static bool started;

static void start_all(const struct bench *b)
{
    static char folders[FIVE][PATH_MAX];
    size_t at = (size_t)snprintf(url, sizeof url, "redlock://");
    for (int i = 0; i < FIVE; i++) {
        struct bench one = *b;
        snprintf(folders[i], sizeof folders[i], "%s/redlock%d", b->folder, i);
        one.folder = folders[i];
        bench_done(mkdir(folders[i], 0700) != 0);
        redis_start(&servers[i], &one);
        at += (size_t)snprintf(url + at, sizeof url - at, "%s127.0.0.1:%d", i > 0 ? "," : "",
                               servers[i].port);
    }
    snprintf(url + at, sizeof url - at, "/?max_ttl=0"); /* they have just been started */
    started = true;
}

void bench_redlock_stop(void)
{
    for (int i = 0; started && i < FIVE; i++)
        redis_stop(&servers[i]);
    started = false;
}

/* ---- By hand ------------------------------------------------------------------ */

struct hand {
    redisContext *c[FIVE];
    char hash[FIVE][64]; /* of compare and delete */
};

static void hand_open(struct hand *h)
{
    for (int i = 0; i < FIVE; i++) {
        h->c[i] = redis_dial(&servers[i], false);
        redisReply *reply = redis_do(h->c[i], "SCRIPT LOAD %s", COMPARE);
        snprintf(h->hash[i], sizeof h->hash[i], "%s", reply->str);
        freeReplyObject(reply);
    }
}

static void hand_close(struct hand *h)
{
    for (int i = 0; i < FIVE; i++)
        redisFree(h->c[i]);
}

/* Sends what was appended to all of them at once, and waits for all answers. */
static void hand_fly(struct hand *h)
{
    void *reply;
    int done = 0;
    for (int i = 0; i < FIVE; i++)
        for (done = 0; done == 0;)
            bench_done(redisBufferWrite(h->c[i], &done) != REDIS_OK);
    for (int i = 0; i < FIVE; i++) {
        bench_done(redisGetReply(h->c[i], &reply) != REDIS_OK);
        freeReplyObject(redis_must(h->c[i], reply));
    }
}

static void hand_pair(struct hand *h, bool compare)
{
    for (int i = 0; i < FIVE; i++)
        redisAppendCommand(h->c[i], "SET %s %s NX PX 10000", NAME, TOKEN);
    hand_fly(h);
    for (int i = 0; i < FIVE; i++)
        if (compare)
            redisAppendCommand(h->c[i], "EVALSHA %s 1 %s %s", h->hash[i], NAME, TOKEN);
        else
            redisAppendCommand(h->c[i], "DEL %s", NAME);
    hand_fly(h);
}

/* ---- Pairs ---------------------------------------------------------------------- */

static double median_us(struct hand *h, bool compare, struct rota *r, int n)
{
    static double us[PAIRS_MOST];
    for (int i = 0; i < n; i++) {
        int64_t from = rt_bench_ns();
        double one = 0;
        if (h != NULL)
            hand_pair(h, compare);
        else
            bench_done(rt_bench_pairs(r, NAME, NULL, 1, &one));
        us[i] = (double)(rt_bench_ns() - from) / 1000;
    }
    return rt_bench_median(us, (size_t)n);
}

void bench_redlock_pair(const struct bench *b)
{
    struct beside compare = {0}, plain = {0};
    struct hand hand;
    struct rota *r = NULL;
    int n = (int)(300 * b->scale) + 1;
    if (!started)
        start_all(b);
    const struct rt_bench place = {.url = url, .prefix = ""};
    bench_done(rt_bench_open(&place, &r, NULL));
    hand_open(&hand);
    for (int i = -1; i < ROUNDS; i++) { /* the first warms up */
        double checked = median_us(&hand, true, NULL, n), ours = median_us(NULL, false, r, n);
        double bare = median_us(&hand, false, NULL, n);
        if (i < 0)
            continue;
        beside_add(&compare, ours, checked);
        beside_add(&plain, ours, bare);
    }
    hand_close(&hand);
    rota_close(r);
    beside_say(b, &compare,
               &(struct beside_text){.ours = "redlock x5: pair",
                                     .theirs = "redlock x5: SET NX, compare and DEL by hand",
                                     .ratio = "redlock x5: pair / by hand",
                                     .unit = "us",
                                     .goal = 1.4});
    beside_say(b, &plain,
               &(struct beside_text){.theirs = "redlock x5: SET NX, DEL by hand",
                                     .ratio = "redlock x5: pair / by hand, without comparing",
                                     .unit = "us"});
}

void bench_redlock_flight(const struct bench *b)
{
    struct rota *r = NULL;
    if (!started)
        start_all(b);
    const struct rt_bench place = {.url = url, .prefix = ""};
    bench_done(rt_bench_open(&place, &r, NULL));
    (void)bench_flight(r, 32, 320);
    bench_say(b, "redlock x5: 32 asks in flight, pairs",
              bench_flight(r, 32, (int)(4000 * b->scale) + 32), "/s");
    rota_close(r);
}

/* ---- node-redlock: one thread there too, with 32 promises ------------------------- */

void bench_redlock_peers(const struct bench *b)
{
    static const struct beside_text text = {
        .ours = "redlock x5: 32 asks in flight on 32 locks, pairs",
        .theirs = "redlock x5: 32 promises of node-redlock",
        .ratio = "redlock x5: 32 in flight / node-redlock",
        .unit = "/s",
        .goal = 3,
        .at_least = true};
    enum { AT_ONCE = 32, TIMES = 5 };
    struct beside rounds = {.n = 0};
    struct peer node = {0};
    struct rota *r = NULL;
    char *end, endpoints[sizeof url];
    if (!started)
        start_all(b);
    snprintf(endpoints, sizeof endpoints, "%s", url + strlen("redlock://"));
    if ((end = strchr(endpoints, '/')) != NULL)
        *end = '\0';
    if (!peer_start(&node, "redlock-peer", endpoints)) {
        bench_skipped(b, "node-redlock");
        return;
    }
    const struct rt_bench place = {.url = url, .prefix = ""};
    bench_done(rt_bench_open(&place, &r, NULL));
    for (int i = -1; i < TIMES; i++) {
        double theirs = peer_ask(&node, "mutex %d %d", AT_ONCE, (int)(1000 * b->scale) + 1);
        double ours = bench_flight(r, AT_ONCE, (int)(8000 * b->scale) + AT_ONCE);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    beside_say(b, &rounds, &text);
    peer_stop(&node);
    rota_close(r);
}
