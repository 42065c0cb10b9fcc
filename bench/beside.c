/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds that alternate with what they are compared to. */
#include "bench.h"

#include <stdio.h>

void beside_add(struct beside *s, double ours, double theirs)
{
    s->ours[s->n] = ours;
    s->theirs[s->n] = theirs;
    s->ratio[s->n++] = theirs > 0 ? ours / theirs : 0;
}

void beside_say(const struct bench *b, struct beside *s, const struct beside_text *text)
{
    double ratio = rt_bench_median(s->ratio, s->n);
    if (ratio > 0 && text->theirs != NULL)
        bench_say(b, text->theirs, rt_bench_median(s->theirs, s->n), text->unit);
    if (text->ours != NULL)
        bench_say(b, text->ours, rt_bench_median(s->ours, s->n), text->unit);
    if (ratio > 0 && text->goal > 0)
        bench_goal(b, text->ratio, ratio, "x", text->at_least, text->goal);
    else if (ratio > 0)
        bench_say(b, text->ratio, ratio, "x");
}

void bench_skipped(const struct bench *b, const char *who)
{
    if (b->json)
        printf("{\"skipped\":\"comparisons with %s\"}\n", who);
    else
        printf("  SKIPPED: there is no %s: nothing is compared with it\n", who);
}
