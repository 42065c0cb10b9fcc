/* SPDX-License-Identifier: Apache-2.0 */
/* Very many held locks in one client: what each costs, and whether the next is slower. */
#include "bench.h"

#include <stdio.h>

#define BINS 10

static void hold_many(const struct bench *b, const char *scheme, int n)
{
    double us[BINS], each = 0;
    char what[128], url[BENCH_URL];
    struct rt_bench place = bench_place(b, scheme, "held", url);
    bench_done(rt_bench_held(&place, n, BINS, us, &each));
    for (int bin = 0; bin < BINS; bin++) {
        snprintf(what, sizeof what, "%s: acquire, with %d to %d held", scheme, bin * (n / BINS),
                 (bin + 1) * (n / BINS));
        bench_say(b, what, us[bin], "us");
    }
    snprintf(what, sizeof what, "%s: our bytes for each of %d held locks", scheme, n);
    bench_goal(b, what, each, "B", false, 400);
    /* The median of three on each side: a checkpoint or a neighbour may have disturbed one bin. */
    snprintf(what, sizeof what, "%s: the last three tenths / the first three", scheme);
    bench_goal(b, what, rt_bench_median(us + BINS - 3, 3) / rt_bench_median(us, 3), "x", false,
               1.5);
}

void bench_held(const struct bench *b)
{
    int n = (int)(100000 * b->scale);
    hold_many(b, "mem", n);
    hold_many(b, "file", n);
}
