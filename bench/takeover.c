/* SPDX-License-Identifier: Apache-2.0 */
/* From one process to another: by release, and by the death of the holder. */
#include "bench.h"

#define MOST 1000

void bench_takeover(const struct bench *b)
{
    double ms[MOST];
    char url[BENCH_URL];
    size_t n = (size_t)(300 * b->scale) + 1;
    struct rt_bench place = bench_place(b, "file", "takeover", url);
    bench_done(rt_bench_takeover(&place, 0, n, ms));
    bench_say(b, "takeover after kill -9, median", rt_bench_median(ms, n), "ms");
    bench_goal(b, "takeover after kill -9, p99", rt_bench_quantile(ms, n, 0.99), "ms", false, 100);
}

void bench_handover(const struct bench *b)
{
    static double us[RT_BENCH_TURNS_MOST];
    char url[BENCH_URL];
    double rate = 0;
    size_t n = (size_t)(1000 * b->scale) | 1;
    struct rt_bench place = bench_place(b, "file", "handover", url);
    bench_done(rt_bench_handover(&place, n, us));
    bench_done(rt_bench_rivals(&place, (int)(5000 * b->scale) + 1, &rate));
    bench_say(b, "file: release here to grant there, median", rt_bench_median(us, n), "us");
    bench_say(b, "file: release here to grant there, p99", rt_bench_quantile(us, n, 0.99), "us");
    bench_say(b, "file: two processes, turns of both", rate, "/s");
}
