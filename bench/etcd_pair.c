/* SPDX-License-Identifier: Apache-2.0 */
/* Uncontended pairs on etcd: one by one, 64 in flight, 1 and 32 at once; and what they cost. */
#include "etcd.h"

#include <stdatomic.h>
#include <stdlib.h>

#define ROUNDS 15
#define PAIRS_MOST 1000
#define FLIGHT_ROUNDS 9
#define MUTEX_ROUNDS 7

/* ---- One by one ------------------------------------------------------------ */

static double pairs_us(struct rota *r, int n)
{
    static double us[PAIRS_MOST];
    for (int i = 0; i < n; i++)
        bench_done(rt_bench_pairs(r, "pair", NULL, 1, &us[i]));
    return rt_bench_median(us, (size_t)n);
}

/* Per pair, over PAIRS pairs. */
static void say_wire(const struct bench *b, const char *who, struct wire from, struct wire to,
                     int pairs)
{
    char what[80];
    const struct {
        const char *name;
        double value;
        const char *unit;
    } lines[] = {
        {"bytes sent for a pair", to.sent - from.sent, "B"},
        {"bytes received for a pair", to.received - from.received, "B"},
        {"segments sent for a pair", to.segments_out - from.segments_out, ""},
        {"segments received for a pair", to.segments_in - from.segments_in, ""},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        snprintf(what, sizeof what, "etcd: %s%s", who, lines[i].name);
        bench_say(b, what, lines[i].value / pairs, lines[i].unit);
    }
}

/* What a pair costs besides time; for Go the bare ones. */
static void say_cost(const struct bench *b, struct etcd *e, struct rota *r, int n)
{
    struct peer *go = &e->go[0];
    double us, messages = etcd_messages(e), cpu = rt_bench_cpu_us();
    struct wire before = wire_ours(e);
    bench_done(rt_bench_pairs(r, "pair", NULL, n, &us));
    struct wire after = wire_ours(e);
    cpu = rt_bench_cpu_us() - cpu;
    bench_goal(b, "etcd: requests for a pair", (etcd_messages(e) - messages) / n, "", false, 2.01);
    say_wire(b, "", before, after, n);
    bench_say(b, "etcd: our CPU for a pair", cpu / n, "us");
    if (go->pid == 0)
        return;
    double numbers[2];
    before = wire_theirs(go);
    peer_tell(go, "pairs %d", n);
    peer_hear(go, numbers, 2);
    after = wire_theirs(go);
    say_wire(b, "Go's bare ", before, after, n);
    bench_say(b, "etcd: Go's CPU for a bare pair", numbers[1], "us");
}

void etcd_bench_pair(const struct bench *b, struct etcd *e)
{
    static const struct beside_text text = {.ours = "etcd: pair",
                                            .theirs = "etcd: Go's bare Txn + delete",
                                            .ratio = "etcd: pair / Go's bare Txn + delete",
                                            .unit = "us",
                                            .goal = 1.1};
    struct beside rounds = {.n = 0};
    struct rota *r = etcd_open(e, NULL);
    struct peer *go = &e->go[0];
    int n = (int)(200 * b->scale) + 1;
    for (int i = -1; i < ROUNDS; i++) { /* the first warms up */
        double theirs = go->pid != 0 ? peer_ask(go, "pairs %d", n) : 0;
        double ours = pairs_us(r, n);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    beside_say(b, &rounds, &text);
    say_cost(b, e, r, n);
    rota_close(r);
}

/* ---- 64 in flight ------------------------------------------------------------ */

void etcd_bench_flight(const struct bench *b, struct etcd *e)
{
    static const struct beside_text text = {.ours = "etcd: 64 asks in flight, pairs",
                                            .theirs = "etcd: Go's bare pairs by 64 goroutines",
                                            .ratio = "etcd: 64 in flight / Go's",
                                            .unit = "/s",
                                            .goal = 0.85,
                                            .at_least = true};
    static const struct beside_text server = {.ours = "etcd: the server's CPU for one of ours",
                                              .theirs = "etcd: the server's CPU for one of Go's",
                                              .ratio = "etcd: the server's CPU, ours / Go's",
                                              .unit = "us"};
    static const struct beside_text sent = {.ours = "etcd: segments sent for one of ours",
                                            .theirs = "etcd: segments sent for one of Go's",
                                            .ratio = "etcd: segments sent, ours / Go's",
                                            .unit = ""};
    struct beside rounds = {.n = 0}, cost = {.n = 0}, served = {.n = 0}, segments = {.n = 0};
    struct rota *r = etcd_open(e, NULL);
    struct peer *go = &e->go[0];
    int n = (int)(5000 * b->scale) + BENCH_FLIGHT;
    bench_flight(r, BENCH_FLIGHT, BENCH_FLIGHT);
    for (int i = 0; i < FLIGHT_ROUNDS; i++) {
        struct wire out = go->pid != 0 ? wire_theirs(go) : (struct wire){0};
        double from = etcd_cpu_us(e);
        double theirs = go->pid != 0 ? peer_ask(go, "flight %d %d", BENCH_FLIGHT, n) : 0;
        double between = etcd_cpu_us(e), cpu = rt_bench_cpu_us();
        double their_segments = go->pid != 0 ? wire_theirs(go).segments_out - out.segments_out : 0;
        out = wire_ours(e);
        beside_add(&rounds, bench_flight(r, BENCH_FLIGHT, n), theirs);
        beside_add(&segments, (wire_ours(e).segments_out - out.segments_out) / n,
                   their_segments / n);
        beside_add(&cost, (rt_bench_cpu_us() - cpu) / n, 0);
        beside_add(&served, (etcd_cpu_us(e) - between) / n, (between - from) / n);
    }
    rota_close(r);
    beside_say(b, &rounds, &text);
    beside_say(b, &served, &server);
    beside_say(b, &segments, &sent);
    bench_say(b, "etcd: our CPU for one of them", rt_bench_median(cost.ours, cost.n), "us");
}

/* ---- Distinct locks ---------------------------------------------------------- */

struct crowd {
    struct rota *r;
    _Atomic int names;
};

static int distinct_turn(void *arg)
{
    static _Thread_local char name[16]; /* this thread's alone */
    struct crowd *crowd = arg;
    double us;
    if (name[0] == '\0')
        snprintf(name, sizeof name, "d%d", atomic_fetch_add(&crowd->names, 1));
    return rt_bench_pairs(crowd->r, name, NULL, 1, &us);
}

#define MANY 32

/* As Go's runtime does it: one loop, no thread for each. */
static void many_in_flight(const struct bench *b, struct etcd *e)
{
    static const struct beside_text text = {.ours = "etcd: 32 asks at once on 32 locks, pairs",
                                            .theirs = "etcd: 32 of Go's Mutexes at once, pairs",
                                            .ratio = "etcd: 32 asks at once / Go's Mutexes",
                                            .unit = "/s",
                                            .goal = 1,
                                            .at_least = true};
    struct beside rounds = {.n = 0};
    struct rota *r = etcd_open(e, NULL);
    int ms = (int)(800 * b->scale), n = (int)(4000 * b->scale) + MANY;
    for (int i = -1; i < MUTEX_ROUNDS; i++) {
        double theirs = 0;
        if (e->go[0].pid != 0)
            theirs = peer_ask(&e->go[0], "mutex %d %d", MANY, ms);
        double ours = bench_flight(r, MANY, n);
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    rota_close(r);
    beside_say(b, &rounds, &text);
}

static void against_mutex(const struct bench *b, struct etcd *e, int threads,
                          const struct beside_text *text)
{
    struct beside rounds = {.n = 0};
    struct crowd crowd = {.r = etcd_open(e, NULL)};
    int ms = (int)(800 * b->scale);
    for (int i = -1; i < MUTEX_ROUNDS; i++) {
        double ours = 0, theirs = 0;
        if (e->go[0].pid != 0)
            theirs = peer_ask(&e->go[0], "mutex %d %d", threads, ms);
        bench_done(rt_bench_crowd(threads, ms / 1000.0, distinct_turn, &crowd, &ours));
        if (i >= 0)
            beside_add(&rounds, ours, theirs);
    }
    rota_close(crowd.r);
    beside_say(b, &rounds, text);
}

void etcd_bench_mutex(const struct bench *b, struct etcd *e)
{
    static const struct beside_text one = {.ours = "etcd: one lock, pairs",
                                           .theirs = "etcd: Go's Mutex, pairs",
                                           .ratio = "etcd: one lock / Go's Mutex",
                                           .unit = "/s",
                                           .goal = 1,
                                           .at_least = true};
    static const struct beside_text many = {.ours = "etcd: 32 threads on 32 locks, pairs",
                                            .theirs = "etcd: 32 of Go's Mutexes at once, pairs",
                                            .ratio = "etcd: 32 threads on 32 locks / Go's Mutexes",
                                            .unit = "/s",
                                            .goal = 1,
                                            .at_least = true};
    against_mutex(b, e, 1, &one);
    many_in_flight(b, e);
    against_mutex(b, e, MANY, &many);
}
