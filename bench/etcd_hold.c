/* SPDX-License-Identifier: Apache-2.0 */
/* What lasts on etcd: heartbeats of one and of very many held locks, and a holder that was killed. */
#include "etcd.h"

#include <poll.h>

#define HELD 10000
#define WATCH_MS 6000

/* ---- Held ---------------------------------------------------------------------- */

static void say_each(const struct bench *b, const char *what, int held, double sum, double per,
                     const char *unit)
{
    char line[96];
    snprintf(line, sizeof line, "etcd: %s, %d held", what, held);
    bench_say(b, line, sum / per, unit);
}

/* What a heartbeat consists of, and what it costs us. */
static void watch_beats(const struct bench *b, struct etcd *e, struct rota *r, int held)
{
    double beats = WATCH_MS / (rota_ttl_ms(r) / 3.0);
    double messages = etcd_messages(e), cpu = rt_bench_cpu_us();
    struct wire before = wire_ours(e);
    poll(NULL, 0, WATCH_MS);
    struct wire after = wire_ours(e);
    cpu = rt_bench_cpu_us() - cpu;
    messages = etcd_messages(e) - messages;
    say_each(b, "requests in ttl/3", held, messages, beats, "");
    say_each(b, "bytes sent in ttl/3", held, after.sent - before.sent, beats, "B");
    say_each(b, "bytes received in ttl/3", held, after.received - before.received, beats, "B");
    say_each(b, "our CPU in ttl/3", held, cpu, beats, "us");
}

static void beats(const struct bench *b, struct etcd *e)
{
    const struct rota_options opts = {.ttl_ms = 1000}; /* raised to the least that etcd grants */
    static struct rota_lock *locks[HELD];
    int n = (int)(HELD * b->scale);
    struct rota *r = etcd_open(e, &opts);
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "held-%06d", i);
        bench_done(rota_acquire(r, name, NULL, &locks[i]));
        if (i == 0) {
            bench_say(b, "etcd: the least ttl", rota_ttl_ms(r), "ms");
            watch_beats(b, e, r, 1);
        }
    }
    watch_beats(b, e, r, n);
    rota_close(r); /* its lease goes, and all with it */
}

void etcd_bench_held(const struct bench *b, struct etcd *e)
{
    const struct rt_bench place = {.url = e->url, .prefix = ""};
    enum { BINS = 10 };
    double us[BINS], each = 0;
    beats(b, e);
    bench_done(rt_bench_held(&place, (int)(HELD * b->scale), BINS, us, &each));
    bench_say(b, "etcd: our bytes for each held lock", each, "B");
    bench_goal(b, "etcd: acquire, the last three tenths / the first three",
               rt_bench_median(us + BINS - 3, 3) / rt_bench_median(us, 3), "x", false, 1.5);
}

void etcd_bench_takeover(const struct bench *b, struct etcd *e)
{
    const struct rt_bench place = {.url = e->url, .prefix = "our-"};
    enum { MOST = 5 };
    double ms[MOST];
    size_t n = b->scale < 1 ? 1 : MOST;
    bench_done(rt_bench_takeover(&place, 1000, n, ms));
    bench_say(b, "etcd: takeover after kill -9, the least ttl, median", rt_bench_median(ms, n),
              "ms");
    bench_say(b, "etcd: takeover after kill -9, the least ttl, worst", rt_bench_quantile(ms, n, 1),
              "ms");
}
