/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on ZooKeeper: all on one server, which is started for the first of them, and Curator and kazoo with it. */
#include "zookeeper.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 15
#define PAIRS_MOST 1000
#define FLIGHT_ROUNDS 9
#define HANDOVER_ROUNDS 5
#define HANDOVERS_MOST 512
#define PEER_ROUNDS 5
#define THREADS 32
#define HERD 1000

static struct zookeeper zookeeper;
static bool started;

static struct zookeeper *the_zookeeper(const struct bench *b)
{
    struct zookeeper *z = &zookeeper;
    char servers[64];
    if (started)
        return z;
    started = true;
    rt_zks_start(&z->node, 1, NULL);
    z->url = rt_zks_url(&z->node, NULL);
    snprintf(servers, sizeof servers, "127.0.0.1:%u", (unsigned)z->node.node[0].server.port);
    if (!peer_start(&z->curator[0], "curator-peer", servers) ||
        !peer_start(&z->curator[1], "curator-peer", servers))
        bench_skipped(b, "Curator");
    if (!peer_start(&z->kazoo, "kazoo-peer", servers))
        bench_skipped(b, "kazoo");
    return z;
}

void bench_zookeeper_stop(void)
{
    if (!started)
        return;
    started = false;
    peer_stop(&zookeeper.curator[0]);
    peer_stop(&zookeeper.curator[1]);
    peer_stop(&zookeeper.kazoo);
    rt_zks_fini(&zookeeper.node);
}

struct rota *zookeeper_open(const struct zookeeper *z, const struct rota_options *opts)
{
    const struct rt_bench place = {.url = z->url, .prefix = ""};
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, opts));
    return r;
}

/* ---- One by one, and 64 in flight -------- */

static double pairs_us(struct rota *r, int n)
{
    static double us[PAIRS_MOST];
    for (int i = 0; i < n; i++)
        bench_done(rt_bench_pairs(r, "pair", NULL, 1, &us[i]));
    return rt_bench_median(us, (size_t)n);
}

void zookeeper_bench_pair(const struct bench *b, struct zookeeper *z)
{
    static const struct beside_text text = {.ours = "zookeeper: pair",
                                            .theirs = "zookeeper: bare create, list, delete",
                                            .ratio = "zookeeper: pair / bare",
                                            .unit = "us",
                                            .goal = 1};
    struct beside rounds = {.n = 0};
    struct rota *r = zookeeper_open(z, NULL);
    struct zk_bare *bare = zk_bare_open(z->node.node[0].server.port);
    int n = (int)(200 * b->scale) + 1;
    for (int i = -2; i < ROUNDS; i++) { /* the first warm up */
        double theirs = zk_bare_pairs_us(bare, n), ours = pairs_us(r, n);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    beside_say(b, &rounds, &text);
    zk_bare_close(bare);
    rota_close(r);
}

void zookeeper_bench_flight(const struct bench *b, struct zookeeper *z)
{
    static const struct beside_text text = {.ours = "zookeeper: 64 asks in flight, pairs",
                                            .theirs = "zookeeper: the bare requests, 64 at once",
                                            .ratio = "zookeeper: 64 in flight / bare",
                                            .unit = "/s",
                                            .goal = 0.85,
                                            .at_least = true};
    struct beside rounds = {.n = 0};
    struct rota *r = zookeeper_open(z, NULL);
    struct zk_bare *bare = zk_bare_open(z->node.node[0].server.port);
    int n = (int)(5000 * b->scale) + BENCH_FLIGHT;
    for (int i = -2; i < FLIGHT_ROUNDS; i++) {
        double theirs = zk_bare_flight(bare, BENCH_FLIGHT, n),
               ours = bench_flight(r, BENCH_FLIGHT, n);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    beside_say(b, &rounds, &text);
    zk_bare_close(bare);
    rota_close(r);
}

/* ---- Hand-over -------- */

/* Like rt_bench_handover: the holder lets go as soon as the other is in line. */
static double curator_handover_us(struct zookeeper *z, size_t n)
{
    static double us[HANDOVERS_MOST];
    struct peer *holder = &z->curator[0], *other = &z->curator[1];
    (void)peer_ask(holder, "lock handover");
    for (size_t i = 0; i < n; i++) {
        double granted_at, released_at;
        peer_tell(other, "lock handover");
        while (peer_ask(holder, "line handover") < 2)
            poll(NULL, 0, 1);
        released_at = peer_ask(holder, "unlock");
        peer_hear(other, &granted_at, 1);
        us[i] = (granted_at - released_at) / 1000;
        struct peer *was = holder;
        holder = other;
        other = was;
    }
    (void)peer_ask(holder, "unlock");
    return rt_bench_median(us, n);
}

static double our_handover_us(struct zookeeper *z, size_t n)
{
    static double us[RT_BENCH_TURNS_MOST];
    const struct rt_bench place = {.url = z->url, .prefix = "our-"};
    bench_done(rt_bench_handover(&place, n, us));
    return rt_bench_median(us, n);
}

void zookeeper_bench_handover(const struct bench *b, struct zookeeper *z)
{
    static const struct beside_text bare_text = {
        .ours = "zookeeper: release here to grant there",
        .theirs = "zookeeper: bare event + list",
        .ratio = "zookeeper: hand-over / bare event + list",
        .unit = "us",
        .goal = 0.8};
    static const struct beside_text text = {.ours = "zookeeper: release here to grant there, again",
                                            .theirs = "zookeeper: the same by Curator",
                                            .ratio = "zookeeper: hand-over / Curator's",
                                            .unit = "us",
                                            .goal = 1};
    struct beside bares = {.n = 0}, peers = {.n = 0};
    struct zk_bare *from = zk_bare_open(z->node.node[0].server.port),
                   *to = zk_bare_open(z->node.node[0].server.port);
    size_t n = (size_t)(200 * b->scale) | 1;
    for (int i = -1; i < HANDOVER_ROUNDS; i++) {
        double bare = zk_bare_handover_us(from, to, (int)n), ours = our_handover_us(z, n);
        double curator = z->curator[1].pid != 0 ? curator_handover_us(z, n) : 0;
        if (i < 0)
            continue;
        beside_add(&bares, ours, bare);
        beside_add(&peers, ours, curator);
    }
    zk_bare_close(from);
    zk_bare_close(to);
    beside_say(b, &bares, &bare_text);
    if (z->curator[1].pid != 0)
        beside_say(b, &peers, &text);
}

/* ---- 32 threads: on locks of their own, on one -------- */

static void against(const struct bench *b, struct zookeeper *z, struct peer *peer, bool same,
                    const struct beside_text *text)
{
    struct beside rounds = {.n = 0};
    struct rota *r = zookeeper_open(z, NULL);
    int ms = (int)(1000 * b->scale);
    for (int i = -1; peer->pid != 0 && i < PEER_ROUNDS; i++) {
        double ours = 0, theirs = peer_ask(peer, "%s %d %d", same ? "same" : "mutex", THREADS, ms);
        if (same)
            bench_done(rt_bench_threads(r, "same", THREADS, ms / 1000.0, &ours));
        else
            ours = bench_distinct(r, THREADS, ms / 1000.0);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    rota_close(r);
    if (rounds.n > 0)
        beside_say(b, &rounds, text);
}

void zookeeper_bench_peers(const struct bench *b, struct zookeeper *z)
{
    static const struct beside_text curator = {
        .ours = "zookeeper: 32 threads on 32 locks, pairs",
        .theirs = "zookeeper: 32 threads on 32 of Curator's mutexes",
        .ratio = "zookeeper: 32 threads on 32 locks / Curator's",
        .unit = "/s",
        .goal = 1.5,
        .at_least = true};
    static const struct beside_text kazoo = {.ours = "zookeeper: 32 threads on 32 locks, again",
                                             .theirs = "zookeeper: 32 threads on 32 of kazoo's",
                                             .ratio = "zookeeper: 32 threads on 32 locks / kazoo's",
                                             .unit = "/s",
                                             .goal = 3,
                                             .at_least = true};
    static const struct beside_text same = {.ours = "zookeeper: 32 threads on one lock",
                                            .theirs = "zookeeper: 32 threads on one of Curator's",
                                            .ratio = "zookeeper: 32 threads on one / Curator's",
                                            .unit = "/s",
                                            .goal = 5,
                                            .at_least = true};
    static const struct beside_text same_kazoo = {
        .ours = "zookeeper: 32 threads on one lock, again",
        .theirs = "zookeeper: 32 threads on one of kazoo's",
        .ratio = "zookeeper: 32 threads on one / kazoo's",
        .unit = "/s",
        .goal = 5,
        .at_least = true};
    against(b, z, &z->curator[0], false, &curator);
    against(b, z, &z->kazoo, false, &kazoo);
    against(b, z, &z->curator[0], true, &same);
    against(b, z, &z->kazoo, true, &same_kazoo);
}

/* ---- The herd -------- */

void zookeeper_bench_herd(const struct bench *b, struct zookeeper *z)
{
    char simple[512], what[80];
    struct rt_bench place = {.url = z->url, .prefix = "line-"};
    int n = (int)(HERD * b->scale);
    double woken;
    bench_done(rt_bench_herd(&place, &n, &woken));
    snprintf(what, sizeof what, "zookeeper: %d wait, a release wakes", n);
    bench_goal(b, what, woken, "", false, 1);
    snprintf(simple, sizeof simple, "%s&dialect=simple", z->url);
    place = (struct rt_bench){.url = simple, .prefix = "herd-"};
    bench_done(rt_bench_herd(&place, &n, &woken));
    snprintf(what, sizeof what, "zookeeper: ... with ?dialect=simple, %d wait", n);
    bench_goal(b, what, woken, "", true, n);
}

#define BENCH(name)                                    \
    void bench_zookeeper_##name(const struct bench *b) \
    {                                                  \
        zookeeper_bench_##name(b, the_zookeeper(b));   \
    }
BENCH(pair)
BENCH(flight)
BENCH(handover)
BENCH(peers)
BENCH(herd)
