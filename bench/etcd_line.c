/* SPDX-License-Identifier: Apache-2.0 */
/* Contended locks on etcd: between two processes, between threads of one, 100 in line. */
#include "etcd.h"

#include <poll.h>
#include <stdlib.h>

#define HANDOVER_ROUNDS 5
#define HANDOVERS_MOST 512
#define THREADS 32
#define THREADS_ROUNDS 5
#define WAITERS 100
#define WAITERS_ROUNDS 3

/* ---- Hand-over --------------------------------------------------------------- */

/* Like rt_bench_handover: the holder lets go as soon as the other is in line, or STAND_MS later. */
static double go_handover(struct etcd *e, size_t n, int stand_ms)
{
    static double us[HANDOVERS_MOST];
    struct peer *holder = &e->go[0], *other = &e->go[1];
    (void)peer_ask(holder, "lock handover");
    for (size_t i = 0; i < n; i++) {
        double granted_at, released_at;
        peer_tell(other, "lock handover");
        while (peer_ask(holder, "line handover") < 2)
            poll(NULL, 0, 1);
        poll(NULL, 0, stand_ms);
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

static double our_handover(struct etcd *e, size_t n)
{
    static double us[RT_BENCH_TURNS_MOST];
    const struct rt_bench place = {.url = e->url, .prefix = "our-"};
    bench_done(rt_bench_handover(&place, n, us));
    return rt_bench_median(us, n);
}

void etcd_bench_handover(const struct bench *b, struct etcd *e)
{
    double faster[HANDOVER_ROUNDS];
    struct beside rounds = {.n = 0};
    size_t ours = (size_t)(200 * b->scale) | 1, theirs = (size_t)(30 * b->scale) + 1;
    for (int i = 0; i < HANDOVER_ROUNDS; i++) {
        double go = e->go[0].pid != 0 ? go_handover(e, theirs, 0) : 0;
        beside_add(&rounds, our_handover(e, ours), go);
        faster[i] = go / rounds.ours[i];
    }
    bench_say(b, "etcd: release here to grant there, median",
              rt_bench_median(rounds.ours, rounds.n), "us");
    if (e->go[0].pid == 0)
        return;
    bench_say(b, "etcd: the same by Go's Mutex, median", rt_bench_median(rounds.theirs, rounds.n),
              "us");
    bench_say(b, "etcd: ... if the other has stood in line for 0.3 s", go_handover(e, theirs, 300),
              "us");
    bench_goal(b, "etcd: Go's hand-over / ours", rt_bench_median(faster, rounds.n), "x", true, 20);
}

/* ---- Threads of one process ---------------------------------------------------- */

void etcd_bench_threads(const struct bench *b, struct etcd *e)
{
    static const struct beside_text text = {.ours = "etcd: 32 threads on one lock, passing on",
                                            .theirs = "etcd: 32 goroutines on one of Go's Mutexes",
                                            .ratio = "etcd: 32 threads / Go's",
                                            .unit = "/s",
                                            .goal = 20,
                                            .at_least = true};
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    struct beside rounds = {.n = 0};
    double without[THREADS_ROUNDS];
    struct rota *r = etcd_open(e, NULL), *strict = etcd_open(e, &never);
    for (int i = 0; i < THREADS_ROUNDS; i++) {
        double ours, theirs = 0;
        if (e->go[0].pid != 0)
            theirs = peer_ask(&e->go[0], "same %d %d", THREADS, (int)(2000 * b->scale));
        bench_done(rt_bench_threads(r, "threads", THREADS, 0.5 * b->scale, &ours));
        bench_done(rt_bench_threads(strict, "strict", THREADS, 0.5 * b->scale, &without[i]));
        beside_add(&rounds, ours, theirs);
    }
    rota_close(strict);
    rota_close(r);
    beside_say(b, &rounds, &text);
    bench_say(b, "etcd: 32 threads on one lock, without passing on",
              rt_bench_median(without, THREADS_ROUNDS), "/s");
    bench_goal(b, "etcd: 32 threads on one lock / 300 (Go's, as measured before)",
               rt_bench_median(rounds.ours, rounds.n) / 300, "x", true, 20);
}

/* ---- 100 in line ------------------------------------------------------------------ */

void etcd_bench_waiters(const struct bench *b, struct etcd *e)
{
    static const struct beside_text text = {
        .ours = "etcd: 100 processes in line, all served",
        .theirs = "etcd: 100 of Go's clients in line (one process), all served",
        .ratio = "etcd: 100 in line / Go's",
        .unit = "ms"};
    const struct rt_bench place = {.url = e->url, .prefix = "our-"};
    struct beside rounds = {.n = 0};
    int most = b->scale < 1 ? 1 : WAITERS_ROUNDS;
    for (int i = 0; i < most; i++) {
        double ours, theirs = e->go[0].pid != 0 ? peer_ask(&e->go[0], "waiters %d", WAITERS) : 0;
        bench_done(rt_bench_waiters(&place, WAITERS, &ours));
        beside_add(&rounds, ours, theirs);
    }
    beside_say(b, &rounds, &text);
}
