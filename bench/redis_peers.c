/* SPDX-License-Identifier: Apache-2.0 */
/* Dialects on Redis beside the clients they come from: redsync, Redisson. If one is not available, that is reported. */
#include "peer.h"
#include "redis.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 5
#define THREADS 32
#define HANDOVERS_MOST 256
#define SETTLE_MS 2
#define CHANNEL "redisson_lock__channel:{%s}"

static struct rota *open_dialect(const struct redis *s, const char *dialect)
{
    char url[128];
    struct rota *r = NULL;
    snprintf(url, sizeof url, "%s/?dialect=%s", s->url, dialect);
    const struct rt_bench place = {.url = url, .prefix = ""};
    bench_done(rt_bench_open(&place, &r, NULL));
    return r;
}

/* Pairs per second on locks of their own. */
static void against(const struct bench *b, struct rota *r, struct peer *peer, int threads,
                    const struct beside_text *text)
{
    struct beside rounds = {.n = 0};
    int ms = (int)(1000 * b->scale) + 1;
    for (int i = -2; i < ROUNDS; i++) { /* the first warm up */
        double theirs = peer_ask(peer, "mutex %d %d", threads, ms);
        double ours = bench_distinct(r, threads, ms / 1000.0);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    beside_say(b, &rounds, text);
}

static void redsync(const struct bench *b, const struct redis *s, const char *server)
{
    static const struct beside_text one = {.ours = "redis: dialect token, one thread, pairs",
                                           .theirs = "redis: redsync, one goroutine",
                                           .ratio = "redis: dialect token / redsync, one",
                                           .unit = "/s",
                                           .goal = 1,
                                           .at_least = true};
    static const struct beside_text many = {
        .ours = "redis: dialect token, 32 threads on 32 locks, pairs",
        .theirs = "redis: redsync, 32 goroutines on 32 mutexes",
        .ratio = "redis: dialect token / redsync, 32",
        .unit = "/s",
        .goal = 1,
        .at_least = true};
    struct peer peer = {0};
    if (!peer_start(&peer, "redsync-peer", server)) {
        bench_skipped(b, "redsync");
        return;
    }
    struct rota *r = open_dialect(s, "token");
    against(b, r, &peer, 1, &one);
    against(b, r, &peer, THREADS, &many);
    rota_close(r);
    peer_stop(&peer);
}

/* ---- Hand-over ---------------------------------------------------------------------------- */

/* A waiter listens. It asks once more after it begins to listen, which is over a moment later. */
static void await_waiter(const struct redis *s, const char *name)
{
    long long n = 0;
    while (n == 0) {
        redisReply *reply = redis_do(s->control, "PUBSUB NUMSUB " CHANNEL, name);
        n = reply->element[1]->integer;
        freeReplyObject(reply);
    }
    poll(NULL, 0, SETTLE_MS);
}

struct waiter {
    struct rota *r;
    struct rota_lock *lock;
    int64_t granted_at;
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;
    bench_done(rota_acquire(w->r, "ours", NULL, &w->lock));
    w->granted_at = rt_bench_ns();
    return NULL;
}

/* Between two clients, the median in us. */
static double our_handover_us(const struct redis *s, struct rota *two[2], size_t n)
{
    static double us[HANDOVERS_MOST];
    struct rota_lock *lock = NULL;
    bench_done(rota_acquire(two[0], "ours", NULL, &lock));
    for (size_t i = 0; i < n; i++) {
        struct waiter w = {.r = two[(i + 1) % 2]};
        pthread_t thread;
        bench_done(pthread_create(&thread, NULL, wait_for_it, &w));
        await_waiter(s, "ours");
        int64_t at = rt_bench_ns();
        bench_done(rota_release(lock));
        pthread_join(thread, NULL);
        us[i] = (double)(w.granted_at - at) / 1000;
        lock = w.lock;
    }
    bench_done(rota_release(lock));
    return rt_bench_median(us, n);
}

static double redisson_handover_us(const struct redis *s, struct peer two[2], size_t n)
{
    static double us[HANDOVERS_MOST];
    (void)peer_ask(&two[0], "lock theirs");
    for (size_t i = 0; i < n; i++) {
        double granted_at;
        peer_tell(&two[(i + 1) % 2], "lock theirs");
        await_waiter(s, "theirs");
        double released_at = peer_ask(&two[i % 2], "unlock");
        peer_hear(&two[(i + 1) % 2], &granted_at, 1);
        us[i] = (granted_at - released_at) / 1000;
    }
    (void)peer_ask(&two[n % 2], "unlock");
    return rt_bench_median(us, n);
}

static void handover(const struct bench *b, const struct redis *s, struct peer two[2])
{
    static const struct beside_text text = {.ours = "redis: dialect redisson, release to grant",
                                            .theirs = "redis: the same by Redisson",
                                            .ratio = "redis: hand-over of redisson / Redisson's",
                                            .unit = "us",
                                            .goal = 1};
    struct beside rounds = {.n = 0};
    struct rota *ours[2] = {open_dialect(s, "redisson"), open_dialect(s, "redisson")};
    size_t n = (size_t)(100 * b->scale) + 2;
    for (int i = -1; i < ROUNDS; i++) {
        double theirs_us = redisson_handover_us(s, two, n), ours_us = our_handover_us(s, ours, n);
        if (i >= 0)
            beside_add(&rounds, ours_us, theirs_us);
    }
    beside_say(b, &rounds, &text);
    rota_close(ours[0]);
    rota_close(ours[1]);
}

static void redisson(const struct bench *b, const struct redis *s, const char *server)
{
    static const struct beside_text many = {
        .ours = "redis: dialect redisson, 32 threads on 32 locks, pairs",
        .theirs = "redis: 32 threads on 32 of Redisson's",
        .ratio = "redis: dialect redisson / Redisson, 32",
        .unit = "/s",
        .goal = 1.5,
        .at_least = true};
    struct peer two[2] = {{0}};
    if (peer_start(&two[0], "redisson-peer", server) &&
        peer_start(&two[1], "redisson-peer", server)) {
        struct rota *r = open_dialect(s, "redisson");
        against(b, r, &two[0], THREADS, &many);
        rota_close(r);
        handover(b, s, two);
    } else {
        bench_skipped(b, "Redisson");
    }
    peer_stop(&two[0]);
    peer_stop(&two[1]);
}

void redis_bench_peers(const struct bench *b, const struct redis *s)
{
    char server[64];
    snprintf(server, sizeof server, "127.0.0.1:%d", s->port);
    redsync(b, s, server);
    redisson(b, s, server);
}
